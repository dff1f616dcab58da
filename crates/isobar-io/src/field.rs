//! A field, the cells it lives on, and the formats that it can be written in.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use crate::error::{Error, Result};
use crate::{atomic, npy, vtk, zarr};

/// What an output file is read by; its ending says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `.npy`: NumPy.
    Npy,
    /// `.vti`: VTK ImageData, ParaView; of grids whose cells are evenly spaced.
    Vti,
    /// `.vtr`: VTK RectilinearGrid, ParaView.
    Vtr,
    /// `.zarr`: zarr version 3, xarray.
    Zarr,
}

impl Format {
    /// The format that the ending of `path` names, in either case.
    ///
    /// # Errors
    /// [`Error::UnknownEnding`], which lists the endings.
    pub fn from_path(path: &Path) -> Result<Self> {
        let ending = path.extension().map(OsStr::to_ascii_lowercase);
        match ending.as_ref().and_then(|ending| ending.to_str()) {
            Some("npy") => Ok(Format::Npy),
            Some("vti") => Ok(Format::Vti),
            Some("vtr") => Ok(Format::Vtr),
            Some("zarr") => Ok(Format::Zarr),
            _ => Err(Error::UnknownEnding { path: path.to_path_buf() }),
        }
    }
}

/// Where the cells of a grid are.
#[derive(Clone, Debug, PartialEq)]
pub struct Mesh {
    /// Cell centres in x, y and z.
    pub centres: [Vec<f64>; 3],
    /// Where cells begin and end in x, y and z; for the first two, nothing where only centres are known.
    pub faces: [Vec<f64>; 3],
    /// Widths of cells, where they are all the same.
    pub spacing: Option<[f64; 3]>,
    /// What coordinates are measured in.
    pub units: Units,
}

impl Mesh {
    /// So many cells in x, y and z, evenly spaced over the unit box.
    pub fn unit(cells: [usize; 3]) -> Self {
        let spacing = cells.map(|n| 1.0 / n as f64);
        let centre = |d: usize| (0..cells[d]).map(|n| (n as f64 + 0.5) * spacing[d]).collect();
        let face = |d: usize| (0..=cells[d]).map(|n| n as f64 * spacing[d]).collect();
        Self {
            centres: [0, 1, 2].map(centre),
            faces: [0, 1, 2].map(face),
            spacing: Some(spacing),
            units: Units::Unspecified,
        }
    }

    /// Where cells begin and end in one direction; where only centres are known, half-way between them, and at the ends as far out as the
    /// first one is in.
    pub fn edges(&self, direction: usize) -> Cow<'_, [f64]> {
        let faces = &self.faces[direction];
        if !faces.is_empty() {
            return Cow::Borrowed(faces);
        }
        let centres = &self.centres[direction];
        let [first, .., last] = centres[..] else {
            return Cow::Owned(centres.iter().flat_map(|centre| [centre - 0.5, centre + 0.5]).collect());
        };
        let half = |n: usize| (centres[n + 1] - centres[n]) / 2.0;
        let between = centres.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0);
        let ends = [first - half(0), last + half(centres.len() - 2)];
        Cow::Owned([ends[0]].into_iter().chain(between).chain([ends[1]]).collect())
    }

    /// Whether widths of cells differ, in a grid that pictures show as it is.
    fn is_graded(&self) -> bool {
        self.spacing.is_none() && self.units == Units::Unspecified
    }
}

/// What coordinates are measured in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Units {
    /// Whatever the user has; files say nothing.
    #[default]
    Unspecified,
    /// x and y have no dimension, z is in metres.
    Atmosphere,
}

/// A cell-centred scalar field and where its cells are.
#[derive(Clone, Debug)]
pub struct Field<'a> {
    /// What the values are called in the file.
    pub name: &'a str,
    /// One value a cell, (z, y, x) in C order; NaN in cells that take no part.
    pub values: &'a [f64],
    /// (nz, ny, nx).
    pub shape: [usize; 3],
    /// Where the cells are.
    pub mesh: &'a Mesh,
    /// Which cells take part; nothing means all.
    pub active: Option<&'a [bool]>,
    /// Facts that travel with the field: the case, the solver, the residual.
    pub attributes: BTreeMap<String, String>,
}

impl<'a> Field<'a> {
    /// A field all of whose cells take part.
    pub fn new(name: &'a str, values: &'a [f64], shape: [usize; 3], mesh: &'a Mesh) -> Self {
        Self { name, values, shape, mesh, active: None, attributes: BTreeMap::new() }
    }

    /// Checks that every array fits the shape, for a writer would otherwise make a broken file.
    ///
    /// # Errors
    /// [`Error::Inconsistent`] naming the array.
    pub fn validate(&self) -> Result<()> {
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
                return Err(Error::Inconsistent { name, what, found, expected });
            }
        }
        Ok(())
    }

    /// Whether a cell, counted in C order, takes part.
    pub fn is_active(&self, cell: usize) -> bool {
        self.active.is_none_or(|active| active[cell])
    }
}

/// Checks before the work that `path` can be written after it: the folder is there and writable, and no folder is in
/// the way (but for a zarr store of isobar's, which is replaced). Leaves nothing behind.
///
/// # Errors
/// Those that writing it would give.
pub fn check_writable(path: &Path) -> Result<()> {
    match Format::from_path(path) {
        Ok(Format::Zarr) => zarr::check(path),
        _ => atomic::check(path),
    }
}

/// Checks before the work that the format of `path` can hold fields on this mesh.
///
/// # Errors
/// [`Error::Graded`]: widths of cells differ, and the ending is `.vti`.
pub fn check_mesh(path: &Path, mesh: &Mesh) -> Result<()> {
    if Format::from_path(path)? == Format::Vti && mesh.is_graded() {
        return Err(Error::Graded { path: path.to_path_buf() });
    }
    Ok(())
}

/// Writes a field in the format that the ending of `path` names.
///
/// # Errors
/// An [`Error`] naming `path`; what stood there before is then untouched.
pub fn write(path: &Path, field: &Field<'_>) -> Result<()> {
    field.validate()?;
    check_mesh(path, field.mesh)?;
    match Format::from_path(path)? {
        Format::Npy => atomic::write_with(path, |out| npy::write(out, &field.shape, field.values)),
        format @ (Format::Vti | Format::Vtr) => atomic::write_with(path, |out| vtk::write(out, field, format)),
        Format::Zarr => zarr::write(path, field),
    }
}
