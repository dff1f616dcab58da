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

use crate::case::problem::Mesh;
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
    /// One value a cell, (z, y, x) in C order; NaN in cells that take no part.
    pub(crate) values: &'a [f64],
    /// (nz, ny, nx).
    pub(crate) shape: [usize; 3],
    /// Where the cells are.
    pub(crate) mesh: &'a Mesh,
    /// Which cells take part; nothing means all.
    pub(crate) active: Option<&'a [bool]>,
    /// Facts that travel with the field: the case, the solver, the residual.
    pub(crate) attributes: BTreeMap<String, String>,
}

impl Field<'_> {
    /// Checks that every array fits the shape, for a writer would otherwise make a broken file.
    fn check(&self) -> Result<(), OutputError> {
        let [nz, ny, nx] = self.shape;
        let [x, y, z] = &self.mesh.centres;
        let [x_faces, y_faces, z_faces] = &self.mesh.faces;
        // Those of x and y may be missing.
        let or_none = |faces: &Vec<f64>, n: usize| if faces.is_empty() { 0 } else { n + 1 };
        let arrays = [
            ("values", self.values.len(), nz * ny * nx),
            ("active", self.active.map_or(nz * ny * nx, <[bool]>::len), nz * ny * nx),
            ("x", x.len(), nx),
            ("y", y.len(), ny),
            ("z", z.len(), nz),
            ("x_faces", x_faces.len(), or_none(x_faces, nx)),
            ("y_faces", y_faces.len(), or_none(y_faces, ny)),
            ("z_faces", z_faces.len(), nz + 1),
        ];
        for (what, found, expected) in arrays {
            if found != expected {
                let name = self.name.to_owned();
                return Err(OutputError::Inconsistent { name, what, found, expected });
            }
        }
        Ok(())
    }

    /// Whether a cell takes part.
    fn is_active(&self, cell: usize) -> bool {
        self.active.is_none_or(|active| active[cell])
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
