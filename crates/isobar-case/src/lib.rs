//! Case files: from TOML text and overrides to the problem, the solver's options and the linear system.
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
//! An [`Error`] is one complete message: it shows the line of the file or the override at fault and says what to do.
//!
//! | module | purpose |
//! |---|---|
//! | [`Case`] | the content of a case file |
//! | [`problem`] | the kinds of problems: [`helmholtz`], [`diffusion`] and [`heat`] |
//! | [`values`] | values of cells, from files and recipes |
//! | [`Fingerprint`] | identifies the problem of a checkpoint |
//! | [`assembled`], [`matrix`] | the assembled linear system |
//! | [`LinearSystem`] | a linear system from a case or from arrays, for other languages |
//! | [`devices`] | the devices of this machine |
//! | `document` | the tree of keys and values, with their positions |
//! | `reader` | options read from that tree |
//! | `explain` | texts of error messages |
//! | [`memory`], [`footprint`] | the memory that is available and that a case needs |
//! | [`report`] | the JSON report of a solve |
//! | [`text`] | names and numbers as text |

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
mod keys;
pub mod matrix;
pub mod memory;
mod options;
mod output;
mod overrides;
pub mod problem;
mod reader;
pub mod report;
pub mod rhs;
mod system;
#[cfg(test)]
mod tests;
pub mod text;
pub mod values;

pub use assembled::Assembled;
pub use case::{Case, FirstGuess, random_guess};
pub use diffusion::face_problem;
pub use error::{Error, Result};
pub use fingerprint::Fingerprint;
pub use footprint::Footprint;
pub use matrix::Matrix;
pub use options::solver_options;
pub use output::OutputSection;
pub use overrides::Override;
pub use problem::Problem;
pub use system::{Label, LinearSystem};

// The names that most files of this crate use.
pub(crate) use diffusion::{DiffusionCase, Unknowns};
pub(crate) use document::Document;
pub(crate) use rhs::RhsKind;
pub(crate) use text::Number;
pub(crate) use values::Values;
