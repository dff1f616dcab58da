//! Reading and writing fields on structured grids.
//!
//! Every file and store is written completely or not at all: it is written next to its target under a temporary name and
//! then
//! renamed. A full disk or a signal neither leaves half a file nor destroys the earlier one.
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
//! | module | purpose |
//! |---|---|
//! | [`Field`], [`Mesh`], [`Format`] | a field, its grid, the output format |
//! | [`write`](fn@write) | a field written in the format that a file name's ending gives |
//! | [`Series`] | a field at several times, begun or continued |
//! | `listed` | frames in numbered files, and the list of them |
//! | [`SharedStore`] | a field written by several processes |
//! | [`checkpoint`](mod@checkpoint) | checkpoints, from which a run continues |
//! | [`npy`] | NumPy arrays, read and written |
//! | [`image`] | images: NumPy arrays and TIFF stacks |
//! | [`write_fluxes`] | fluxes through all faces |
//! | `vtk` | VTK ImageData and RectilinearGrid for ParaView |
//! | `zarr` | zarr version 3 for xarray |
//! | [`atomic`] | files that appear complete or not at all |
//! | [`temporary`] | removal of temporary files before a signal ends the program |
//! | `owner` | the process that owns a temporary file, so that files of killed processes are removed |
//! | [`hash`] | checksums of files and fingerprints of data |
//! | [`clash`](fn@clash) | detection of outputs that would destroy other files |
//! | [`Error`] | errors, with remedies |

pub mod atomic;
pub mod checkpoint;
mod clash;
mod error;
mod field;
pub mod hash;
pub mod image;
mod listed;
pub mod npy;
mod output;
mod owner;
mod series;
pub mod temporary;
mod vtk;
mod zarr;

pub use checkpoint::Checkpoint;
pub use clash::{Clash, clash};
pub use error::{Error, Result};
pub use field::{Field, Format, Mesh, Units};
pub use output::{check_mesh, check_writable, write};
pub use series::Series;
pub use zarr::faces::write_fluxes;
pub use zarr::shared::SharedStore;
