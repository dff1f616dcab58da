//! `[faces]`: a matrix given by the conductances of its faces.

use std::path::{Path, PathBuf};

use isobar::Shape;
use isobar::problem::FaceProblem;
use isobar::stencil::Axis;
use isobar_io::npy;
use serde::Deserialize;

use crate::text::plural;
use crate::values::{check_sizes, find_out_of_range, mask, read_cells, use_a_size};
use crate::{Document, Error, Number, Result};

/// `[faces]`, used instead of `[diffusion]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FacesSection {
    /// The periodic directions, whose conductances also have the faces between the last cells and the first.
    pub periodic: Vec<Direction>,
    /// Conductances of the faces between neighbours in x, shape (nz, ny, nx − 1), or (nz, ny, nx) if x is periodic.
    pub x: Option<PathBuf>,
    /// Conductances between neighbours in y, shape (nz, ny − 1, nx), or (nz, ny, nx).
    pub y: Option<PathBuf>,
    /// Conductances between neighbours in z, shape (nz − 1, ny, nx), or (nz, ny, nx).
    pub z: Option<PathBuf>,
    /// The shift s of every cell, shape (nz, ny, nx).
    pub shift: Option<PathBuf>,
    /// The active cells: those where the value is not 0.
    pub active: Option<PathBuf>,
}

/// A direction of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// x
    X,
    /// y
    Y,
    /// z
    Z,
}

impl FacesSection {
    /// Reads the section, if the case has it.
    ///
    /// # Errors
    /// `[diffusion]` is present too; another kind than "diffusion"; a direction without conductances; an empty path.
    pub(super) fn read(kind: &str, shape: Shape, document: &Document<'_>, folder: &Path) -> Result<Option<Self>> {
        if document.get("faces").is_none() {
            return Ok(None);
        }
        let mut section: Self = document.read("faces")?;
        if kind == "heat" {
            let message = "[faces] needs problem.kind = \"diffusion\"; time steps need the volumes of cells too, which [faces] does not have";
            return Err(document.failure_at_key("faces", message));
        }
        if document.get("diffusion").is_some() {
            let message =
                "conductances replace the coefficients and sides of [diffusion]; give one of the two sections";
            return Err(document.failure_at_key("faces", message));
        }
        let Self { periodic: _, x, y, z, shift, active } = &mut section;
        for (name, n, path) in [("x", shape.nx, &*x), ("y", shape.ny, &*y), ("z", shape.nz, &*z)] {
            let key = format!("faces.{name}");
            let message = match path {
                None if n > 1 => format!("missing, but the grid has {n} cells in {name}; give {key} = \"t{name}.npy\""),
                Some(_) if n == 1 => {
                    format!("the grid has 1 cell in {name}, so there are no inner faces; remove this key")
                }
                _ => continue,
            };
            return Err(document.failure_at_key(&key, &message));
        }
        let all = [("x", x), ("y", y), ("z", z), ("shift", shift), ("active", active)];
        for (name, path) in all.into_iter().filter_map(|(name, path)| Some((name, path.as_mut()?))) {
            if path.as_os_str().is_empty() {
                return Err(document.failure_at_key(&format!("faces.{name}"), "an empty path; name an .npy file"));
            }
            *path = folder.join(&*path);
        }
        Ok(Some(section))
    }

    /// Returns the files that it names.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Path> {
        [&self.x, &self.y, &self.z, &self.shift, &self.active].into_iter().filter_map(Option::as_deref)
    }

    /// Describes the conductances for the summary.
    pub(super) fn describe(&self) -> String {
        let count = [&self.x, &self.y, &self.z].into_iter().flatten().count();
        let names = Axis::ALL.into_iter().zip(["x", "y", "z"]).filter(|(axis, _)| self.is_periodic()[*axis as usize]);
        let periodic = names.map(|(_, name)| name).collect::<Vec<_>>().join(", ");
        let periodic = if periodic.is_empty() { periodic } else { format!(", periodic in {periodic}") };
        format!("conductances from {}{periodic}", plural(count, "file"))
    }

    /// Returns whether x, y and z are periodic.
    fn is_periodic(&self) -> [bool; 3] {
        [Direction::X, Direction::Y, Direction::Z].map(|direction| self.periodic.contains(&direction))
    }

    /// Builds the problem, reading its files.
    ///
    /// # Errors
    /// A file that cannot be read or has another shape; negative numbers, naming the face or the cell.
    pub(crate) fn problem(&self, shape: Shape) -> Result<FaceProblem> {
        let is_periodic = self.is_periodic();
        let read = |axis: Axis, name: &str, path: &Option<PathBuf>, letters: &'static str| match path {
            // Of one cell, and that there is a file for others has been checked.
            None => Ok(vec![0.0; shape.faces_between(axis, is_periodic[axis as usize]).cells()]),
            Some(path) => {
                let is_ring = is_periodic[axis as usize];
                let Shape { nx, ny, nz } = shape.faces_between(axis, is_ring);
                let letters = if is_ring { "(nz, ny, nx)" } else { letters };
                npy::read_array(path, &[nz, ny, nx], letters)
                    .map_err(|error| Error::new(format!("faces.{name}: {error}")))
            }
        };
        let faces = [
            read(Axis::X, "x", &self.x, "(nz, ny, nx − 1)")?,
            read(Axis::Y, "y", &self.y, "(nz, ny − 1, nx)")?,
            read(Axis::Z, "z", &self.z, "(nz − 1, ny, nx)")?,
        ];
        let cells = |name: &str, path: &Option<PathBuf>| {
            path.as_ref().map(|path| read_cells(&format!("faces.{name}"), path, shape)).transpose()
        };
        let (shift, active) = (cells("shift", &self.shift)?, cells("active", &self.active)?.map(mask).transpose()?);
        face_problem(shape, faces, is_periodic, shift, active.as_deref())
    }
}

/// Makes a problem from conductances, in the order of [`FaceProblem::new`], within the range of coefficients.
///
/// # Errors
/// Conductances and shifts out of that range, naming the face or the cell; the errors of [`FaceProblem::new`].
pub fn face_problem(
    shape: Shape,
    faces: [Vec<f64>; 3],
    is_periodic: [bool; 3],
    shift: Option<Vec<f64>>,
    active: Option<&[bool]>,
) -> Result<FaceProblem> {
    for ((values, axis), name) in faces.iter().zip(Axis::ALL).zip(["x", "y", "z"]) {
        let Some((value, n)) = find_out_of_range(values) else { continue };
        let faces = shape.faces_between(axis, is_periodic[axis as usize]);
        // Numbers of another length, or that are not finite, have errors of their own.
        if values.len() == faces.cells() && value.is_finite() {
            let from = faces.place(n);
            let mut to = from;
            to[axis as usize] = (to[axis as usize] + 1) % shape.extents()[axis as usize];
            let [[i, j, k], [i_to, j_to, k_to]] = [from, to];
            return Err(Error::new(format!(
                "conductances in {name}: {} between the cells (i, j, k) = ({i}, {j}, {k}) and ({i_to}, {j_to}, {k_to}) is out of range; {}",
                Number(value),
                use_a_size()
            )));
        }
    }
    if let Some(shift) =
        shift.as_ref().filter(|shift| shift.len() == shape.cells() && shift.iter().all(|value| value.is_finite()))
    {
        check_sizes("shift", shift, shape)?;
    }
    Ok(FaceProblem::new(shape, faces, is_periodic, shift, active)?)
}
