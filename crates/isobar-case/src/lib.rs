//! Case files: TOML text and overrides in; the problem, the solver's options and the linear system out.
//!
//! ```
//! use isobar_case::{Case, Override};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("case.toml");
//! # std::fs::write(&path, "[problem]\nkind = \"poisson\"\n[grid]\nnx = 8\nny = 8\n[diffusion]\nboundary.west = \"dirichlet\"\n")?;
//! let case = Case::load(&path, &[Override::from("solver.tolerance=1e-8")])?;
//! let system = case.assemble()?; // reads the files that the case names
//! let mut solver = system.matrix.solver(&isobar::Device::cpu()?, &case.solver)?;
//!
//! let mut u = case.first_guess()?;
//! let outcome = solver.solve_from(&system.rhs, &mut u)?;
//! assert!(outcome.converged());
//! # Ok(())
//! # }
//! ```
//!
//! An [`Error`] is one message, complete as it is: it shows the line of the file, or the override, and says what to do.
//!
//! | module | what |
//! |---|---|
//! | [`Case`] | everything a case file says |
//! | [`problem`] | which problem it is; [`helmholtz`], [`diffusion`] and [`heat`] what each kind reads |
//! | [`values`] | numbers of cells: from files and recipes |
//! | [`Fingerprint`] | what a run that goes on must have in common with the one before |
//! | [`assembled`], [`matrix`] | the linear system that comes of it |
//! | [`LinearSystem`] | one from a case, or from arrays, for other languages |
//! | [`devices`] | what this machine can compute on |
//! | `document` | the tree of keys and values, with their places |
//! | `reader` | options out of that tree |
//! | `explain` | error messages |
//! | [`memory`], [`footprint`] | how much memory there is, and how much a case takes |
//! | [`report`] | what came of a solve, as JSON |
//! | [`text`] | how names and numbers read |

pub mod assembled;
mod case;
pub mod devices;
pub mod diffusion;
mod document;
mod error;
mod explain;
mod fingerprint;
pub mod footprint;
pub mod heat;
pub mod helmholtz;
pub mod matrix;
pub mod memory;
mod options;
mod overrides;
pub mod problem;
mod reader;
pub mod report;
mod system;
#[cfg(test)]
mod tests;
pub mod text;
pub mod values;

pub use assembled::Assembled;
pub use case::{Case, FirstGuess, OutputSection, random_guess};
pub use error::{Error, Result};
pub use fingerprint::Fingerprint;
pub use footprint::Footprint;
pub use matrix::Matrix;
pub use options::solver_options;
pub use overrides::Override;
pub use problem::Problem;
pub use system::{Label, LinearSystem};
