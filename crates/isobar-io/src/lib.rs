//! Fields on structured grids, in and out of files.
//!
//! Every file and store is there whole or not at all: it is written beside its target under a temporary name and
//! renamed, so that neither a full disk nor a signal leaves half of one, or costs what stood there before.
//!
//! ```
//! use isobar_io::{Field, Mesh, npy};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("u.npy");
//! let mesh = Mesh::unit([3, 2, 1]);
//! let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
//! isobar_io::check_writable(&path)?; // before the work
//! isobar_io::write(&path, &Field::new("u", &values, [1, 2, 3], &mesh))?; // or u.vti, u.vtr, u.zarr
//! assert_eq!(npy::read(&path, [1, 2, 3])?, values);
//! # Ok(())
//! # }
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`Field`], [`Mesh`], [`Format`] | what is written, where its cells are, how |
//! | [`Series`] | the same at several times |
//! | [`SharedStore`] | the same by several processes |
//! | [`checkpoint`](mod@checkpoint) | what a run goes on from |
//! | [`npy`] | NumPy arrays, in and out |
//! | [`image`] | images: NumPy arrays and stacks of TIFF |
//! | [`write_fluxes`] | a number for every face |
//! | `vtk` | ImageData and RectilinearGrid of VTK for ParaView |
//! | `zarr` | zarr version 3 for xarray |
//! | [`atomic`] | files that are there whole or not at all |
//! | [`temporary`] | what to do before a signal ends the program |
//! | `owner` | whose a temporary is, so that those of killed processes are removed |
//! | [`clash`](fn@clash) | whether writing one path would destroy another |
//! | [`Error`] | what went wrong, and what to do |

pub mod atomic;
pub mod checkpoint;
mod clash;
mod error;
mod field;
pub mod image;
pub mod npy;
mod owner;
mod series;
pub mod temporary;
mod vtk;
mod zarr;

pub use checkpoint::Checkpoint;
pub use clash::{Clash, clash};
pub use error::{Error, Result};
pub use field::{Field, Format, Mesh, Units, check_mesh, check_writable, write};
pub use series::Series;
pub use zarr::faces::{check_fluxes, write_fluxes};
pub use zarr::shared::SharedStore;
