//! Files in and out: arrays, results for other programs, and the plot.
//!
//! | module | what |
//! |---|---|
//! | [`npy`] | NumPy arrays, in and out |
//! | [`vti`] | VTK ImageData for ParaView |
//! | [`zarr`] | zarr version 3 for xarray |
//! | [`plot`] | convergence and two slices as one picture |
//! | [`atomic`] | every file is there whole or not at all |
//! | [`error`] | what to tell the user |

pub(crate) mod atomic;
pub(crate) mod error;
pub(crate) mod npy;
pub(crate) mod plot;
mod vti;
mod zarr;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

pub(crate) use error::OutputError;

/// What an output file is read by; its ending says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// `.npy`: NumPy.
    Npy,
    /// `.vti`: VTK ImageData, ParaView.
    Vti,
    /// `.zarr`: zarr version 3, xarray.
    Zarr,
}

impl Format {
    /// The format that the ending of `path` names, in either case.
    ///
    /// # Errors
    /// [`OutputError::UnknownEnding`], which lists the endings.
    pub(crate) fn from_path(path: &Path) -> Result<Self, OutputError> {
        let ending = path.extension().map(OsStr::to_ascii_lowercase);
        match ending.as_ref().and_then(|ending| ending.to_str()) {
            Some("npy") => Ok(Format::Npy),
            Some("vti") => Ok(Format::Vti),
            Some("zarr") => Ok(Format::Zarr),
            _ => Err(OutputError::UnknownEnding { path: path.to_path_buf() }),
        }
    }
}

/// A cell-centred scalar field and where its cells are.
#[derive(Clone, Debug)]
pub(crate) struct Field<'a> {
    /// What the values are called in the file.
    pub(crate) name: &'a str,
    /// One value a cell, (z, y, x) in C order.
    pub(crate) values: &'a [f64],
    /// (nz, ny, nx).
    pub(crate) shape: [usize; 3],
    /// Cell centres in x; dimensionless, like every horizontal coordinate of the grids.
    pub(crate) x: &'a [f64],
    /// Cell centres in y.
    pub(crate) y: &'a [f64],
    /// Cell centres in z: heights above the ground. m
    pub(crate) z: &'a [f64],
    /// The nz + 1 heights between and around the levels. m
    pub(crate) z_faces: &'a [f64],
    /// Facts that travel with the field: the case, the solver, the residual.
    pub(crate) attributes: BTreeMap<String, String>,
}

impl Field<'_> {
    /// Checks that every array fits the shape, for a writer would otherwise make a broken file.
    fn check(&self) -> Result<(), OutputError> {
        let [nz, ny, nx] = self.shape;
        let arrays = [
            ("values", self.values.len(), nz * ny * nx),
            ("x", self.x.len(), nx),
            ("y", self.y.len(), ny),
            ("z", self.z.len(), nz),
            ("z_faces", self.z_faces.len(), nz + 1),
        ];
        for (what, found, expected) in arrays {
            if found != expected {
                let name = self.name.to_owned();
                return Err(OutputError::Inconsistent { name, what, found, expected });
            }
        }
        Ok(())
    }
}

/// Checks before a solve that `path` can be written after it: the folder is there and writable, and
/// no folder is in the way (but for a zarr store, which is replaced). Leaves nothing behind.
///
/// # Errors
/// Those that writing it would give.
pub(crate) fn check_writable(path: &Path) -> Result<(), OutputError> {
    match Format::from_path(path) {
        Ok(Format::Zarr) => zarr::check(path),
        _ => atomic::check_file(path),
    }
}

/// Writes a field in the format that the ending of `path` names.
///
/// # Errors
/// [`OutputError`] naming `path`; what stood there before is then untouched.
pub(crate) fn write(path: &Path, field: &Field<'_>) -> Result<(), OutputError> {
    field.check()?;
    match Format::from_path(path)? {
        Format::Npy => atomic::write_with(path, |out| npy::write(out, field.shape, field.values)),
        Format::Vti => atomic::write_with(path, |out| vti::write(out, field)),
        Format::Zarr => zarr::write(path, field),
    }
}
