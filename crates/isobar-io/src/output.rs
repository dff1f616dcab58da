//! Writing fields.

use std::path::Path;

use crate::{Error, Field, Format, Mesh, Result, atomic, npy, vtk, zarr};

/// Checks before a computation that `path` can be written after it: the folder exists and is writable, and no folder has the
/// name of the file (a zarr store written by isobar will be replaced). Leaves nothing behind.
///
/// # Errors
/// The errors that writing would give.
pub fn check_writable(path: &Path) -> Result<()> {
    match Format::from_path(path) {
        Ok(Format::Zarr) => zarr::check(path),
        _ => atomic::check(path),
    }
}

/// Checks before a computation that the format of `path` can hold fields on this mesh.
///
/// # Errors
/// [`Error::Graded`] if cell widths differ and the ending is `.vti`.
pub fn check_mesh(path: &Path, mesh: &Mesh) -> Result<()> {
    if Format::from_path(path)? == Format::Vti && mesh.is_graded() {
        return Err(Error::Graded { path: path.to_path_buf() });
    }
    Ok(())
}

/// Writes a field in the format given by the ending of `path`.
///
/// # Errors
/// An [`Error`] naming `path`, whose earlier content is then unchanged.
pub fn write(path: &Path, field: &Field<'_>) -> Result<()> {
    field.validate()?;
    check_mesh(path, field.mesh)?;
    match Format::from_path(path)? {
        Format::Npy => atomic::write_with(path, |out| npy::write(out, &field.shape, field.values)),
        format @ (Format::Vti | Format::Vtr) => atomic::write_with(path, |out| vtk::write(out, field, format)),
        Format::Zarr => zarr::write(path, field),
    }
}
