//! Fields, the grids that they live on, and output formats.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use crate::error::{Error, Result};

/// The format of an output file, given by its ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `.npy`: NumPy.
    Npy,
    /// `.vti`: VTK ImageData for ParaView; grids of evenly spaced cells only.
    Vti,
    /// `.vtr`: VTK RectilinearGrid for ParaView.
    Vtr,
    /// `.zarr`: zarr version 3 for xarray.
    Zarr,
}

impl Format {
    /// Returns the format for the ending of `path`, in upper or lower case.
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

/// The positions of a grid's cells.
#[derive(Clone, Debug, PartialEq)]
pub struct Mesh {
    /// Cell centres in x, y and z.
    pub centres: [Vec<f64>; 3],
    /// Boundaries of the cells in x, y and z, n + 1 each; empty in x and y if only the centres are known.
    pub faces: [Vec<f64>; 3],
    /// Widths of the cells, if all cells are equal.
    pub spacing: Option<[f64; 3]>,
    /// Units of the coordinates.
    pub units: Units,
}

impl Mesh {
    /// Makes a mesh of (nx, ny, nz) = `cells` equal cells over the unit box.
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

    /// Returns the boundaries of the cells in one direction. If only centres are known, boundaries are taken half-way between them,
    /// and the outermost ones at the same distance on the other side of the first and last centre.
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

    /// Returns whether cell widths differ in a grid that is drawn at its true coordinates.
    pub(crate) fn is_graded(&self) -> bool {
        self.spacing.is_none() && self.units == Units::Unspecified
    }
}

/// Units of the coordinates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Units {
    /// The user's own units, which are not written to files.
    #[default]
    Unspecified,
    /// x and y are dimensionless, z is in metres.
    Atmosphere,
}

/// A cell-centred scalar field with the positions of its cells.
#[derive(Clone, Debug)]
pub struct Field<'a> {
    /// The name of the values in the file.
    pub name: &'a str,
    /// One value per cell, (z, y, x) in C order; NaN in inactive cells.
    pub values: &'a [f64],
    /// (nz, ny, nx).
    pub shape: [usize; 3],
    /// The positions of the cells.
    pub mesh: &'a Mesh,
    /// The active cells; `None` means all.
    pub active: Option<&'a [bool]>,
    /// Attributes written with the field: the case, the solver, the residual.
    pub attributes: BTreeMap<String, String>,
}

impl<'a> Field<'a> {
    /// Makes a field in which all cells are active.
    pub fn new(name: &'a str, values: &'a [f64], shape: [usize; 3], mesh: &'a Mesh) -> Self {
        Self { name, values, shape, mesh, active: None, attributes: BTreeMap::new() }
    }

    /// Checks that every array fits the shape.
    ///
    /// # Errors
    /// [`Error::Inconsistent`] naming the array.
    pub fn validate(&self) -> Result<()> {
        let [nz, ny, nx] = self.shape;
        let [x, y, z] = &self.mesh.centres;
        let [x_faces, y_faces, z_faces] = &self.mesh.faces;
        // Boundaries in x and y may be unknown.
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

    /// Returns whether a cell, counted in C order, is active.
    pub fn is_active(&self, cell: usize) -> bool {
        self.active.is_none_or(|active| active[cell])
    }
}
