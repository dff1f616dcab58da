//! Diffusion with given coefficients, boundary conditions, sources and wells.

use std::sync::Arc;

use super::wells::{Source, Well};
use super::{Boundary, Coefficient, SideFields, Spacing};
use crate::error::Number;
use crate::execute::{rows, shared};
use crate::stencil::{Axis, Coefficients, Diffusion, Side, Spread, wrong_cell};
use crate::{Error, Host, Result, Shape};

/// The equation −∇·(κ∇u) + c u = f on a box of nx × ny × nz cells, by cell-centred finite volumes.
#[derive(Clone, Debug, PartialEq)]
pub struct DiffusionProblem {
    /// The grid.
    pub shape: Shape,
    /// Widths of cells in x, y and z.
    pub spacing: [Spacing; 3],
    /// κ
    pub coefficient: Coefficient,
    /// The coefficient c, one number per cell, if not zero. A matrix with a negative one may be indefinite, and only
    /// [`Method::Direct`](crate::options::Method::Direct) solves it.
    pub reaction: Option<Vec<f64>>,
    /// The active cells; without a mask all are. Faces to inactive cells are closed.
    pub active: Option<Vec<bool>>,
    /// Lower and upper side of x, y and z.
    pub boundary: [[Boundary; 2]; 3],
    /// Numbers that differ from face to face on these sides.
    pub side_fields: [[SideFields; 2]; 3],
    /// Sources of given strength.
    pub sources: Vec<Source>,
    /// Wells of given value.
    pub wells: Vec<Well>,
}

impl DiffusionProblem {
    /// Makes a problem on the unit box with no-flow sides.
    pub fn new(shape: Shape, coefficient: Coefficient) -> Self {
        let Shape { nx, ny, nz } = shape;
        Self {
            shape,
            spacing: [nx, ny, nz].map(|n| Spacing::Uniform(1.0 / n as f64)),
            coefficient,
            reaction: None,
            active: None,
            boundary: [[Boundary::default(); 2]; 3],
            side_fields: Default::default(),
            sources: Vec::new(),
            wells: Vec::new(),
        }
    }

    pub(super) fn cell(&self, [i, j, k]: [usize; 3]) -> usize {
        i + self.shape.nx * (j + self.shape.ny * k)
    }

    /// Returns the first and the last cells along x and along the other directions of several cells, in the order of arrays.
    pub(super) fn cells_on_sides(&self) -> impl Iterator<Item = [usize; 3]> + use<> {
        let Shape { nx, ny, nz } = self.shape;
        let is_end = |m: usize, n: usize| n > 1 && (m == 0 || m + 1 == n);
        (0..nz).flat_map(move |k| {
            (0..ny).flat_map(move |j| {
                let step = if is_end(k, nz) || is_end(j, ny) { 1 } else { nx.saturating_sub(1).max(1) };
                (0..nx).step_by(step).map(move |i| [i, j, k])
            })
        })
    }

    pub(super) fn widths(&self, at: [usize; 3]) -> [f64; 3] {
        [0, 1, 2].map(|d| self.spacing[d].width(at[d]))
    }

    pub(super) fn volume(&self, at: [usize; 3]) -> f64 {
        self.widths(at).iter().product()
    }

    pub(super) fn is_active(&self, at: [usize; 3]) -> bool {
        self.takes_part(self.cell(at))
    }

    /// Returns whether cell n in the order of arrays is active.
    pub(super) fn takes_part(&self, n: usize) -> bool {
        self.is_open(n) && Axis::ALL.iter().any(|&axis| self.coefficient.along(axis)[n] > 0.0)
    }

    /// Returns whether the mask marks cell n as active.
    pub(super) fn is_open(&self, n: usize) -> bool {
        self.active.as_ref().is_none_or(|active| active[n])
    }

    /// Returns the cells at the lower or the upper end of the grid in direction d.
    pub(super) fn end(&self, d: usize, is_upper: bool) -> impl Iterator<Item = [usize; 3]> + use<> {
        let extents = self.shape.extents();
        let ranges = [0, 1, 2].map(|e| match (e == d, is_upper) {
            (false, _) => 0..extents[e],
            (true, false) => 0..1,
            (true, true) => extents[e] - 1..extents[e],
        });
        let [x, y, z] = ranges;
        z.flat_map(move |k| {
            let x = x.clone();
            y.clone().flat_map(move |j| x.clone().map(move |i| [i, j, k]))
        })
    }

    /// Returns 2κA/d, the transmissibility from a cell's centre to its face.
    pub(super) fn half(&self, axis: Axis, at: [usize; 3]) -> f64 {
        let width = self.spacing[axis as usize].width(at[axis as usize]);
        2.0 * self.coefficient.along(axis)[self.cell(at)] * self.volume(at) / (width * width)
    }

    /// Returns the volumes of cells, C order, 0 for inactive ones.
    pub fn volumes(&self) -> Vec<f64> {
        self.of_rows(|[i, j, k]| if self.is_active([i, j, k]) { self.volume([i, j, k]) } else { 0.0 })
    }

    /// Computes a number for every cell, C order.
    fn of_rows(&self, value: impl Fn([usize; 3]) -> f64 + Sync) -> Vec<f64> {
        let Shape { nx, ny, .. } = self.shape;
        rows(&Host, self.shape.cells(), nx, |row, values| {
            values.iter_mut().enumerate().for_each(|(i, of_cell)| *of_cell = value([i, row % ny, row / ny]));
        })
    }

    /// Returns the centres of cells in x, y and z.
    pub fn coordinates(&self) -> [Vec<f64>; 3] {
        let extents = self.shape.extents();
        [0, 1, 2].map(|d| self.spacing[d].centres(extents[d]))
    }

    /// Returns the size of the domain in x, y and z.
    pub fn extent(&self) -> [f64; 3] {
        let extents = self.shape.extents();
        [0, 1, 2].map(|d| self.spacing[d].extent(extents[d]))
    }

    /// Fails if the parts are inconsistent.
    ///
    /// # Errors
    /// [`Error::Shape`] and [`Error::Invalid`], naming the key and the cell.
    pub fn validate(&self) -> Result<()> {
        self.checked().map(|_| ())
    }

    /// Checks the widths of cells, the sides, and the properties of sources and wells that do not depend on κ of their cells.
    ///
    /// # Errors
    /// [`Error::Shape`] and [`Error::Invalid`] if they are wrong.
    pub fn check_form(&self) -> Result<()> {
        self.check_spacing()?;
        self.check_sides()?;
        self.check_places()
    }

    fn check_spacing(&self) -> Result<()> {
        for (d, (spacing, n)) in self.spacing.iter().zip(self.shape.extents()).enumerate() {
            let key = format!("grid.spacing ({})", ["x", "y", "z"][d]);
            if let Spacing::Given(widths) = spacing {
                Error::unless_equal(&key, widths.len(), n)?;
            }
            if let Some(m) = (0..n).find(|&m| !(spacing.width(m) > 0.0 && spacing.width(m).is_finite())) {
                return Err(Error::invalid(
                    key,
                    format!("cell {m} has the width {}; use a positive number", spacing.width(m)),
                ));
            }
        }
        Ok(())
    }

    /// Checks all cells once, for everything that is then made from the problem.
    ///
    /// # Errors
    /// See [`DiffusionProblem::validate`].
    pub fn checked(&self) -> Result<CheckedProblem<'_>> {
        let count = self.shape.cells();
        self.check_spacing()?;
        let mut spreads = [Spread::NONE; 3];
        for (n, axis) in Axis::ALL.into_iter().enumerate() {
            let values = self.coefficient.along(axis);
            Error::unless_equal("diffusion.coefficient", values.len(), count)?;
            let known = (0..n).find(|&other| std::ptr::eq(self.coefficient.along(Axis::ALL[other]), values));
            if let Some(known) = known {
                spreads[n] = spreads[known];
                continue;
            }
            let key = match (axis, self.coefficient.numbers()[n]) {
                (Axis::X, _) | (_, 0) => "diffusion.coefficient",
                (Axis::Y, _) => "diffusion.coefficient_y",
                (Axis::Z, _) => "diffusion.coefficient_z",
            };
            spreads[n] = self.coefficient.spread(axis).map_err(|n| {
                let [i, j, k] = self.shape.place(n);
                let is_left_out = self.active.as_ref().is_some_and(|active| active.get(n) == Some(&false));
                let remedy = if is_left_out {
                    "the mask leaves this cell out, but it needs a number: set 0 where cells are not active"
                } else {
                    "it must be finite and not negative (0 makes a cell inactive)"
                };
                let message = format!("{} in cell (i, j, k) = ({i}, {j}, {k}), counted from 0; {remedy}", values[n]);
                Error::invalid(key, message)
            })?;
        }
        if let Some(active) = &self.active {
            Error::unless_equal("diffusion.active", active.len(), count)?;
        }
        if let Some(reaction) = &self.reaction {
            Error::unless_equal("diffusion.reaction", reaction.len(), count)?;
        }
        let has_all_cells = self.active.is_none() && spreads.iter().any(|field| !field.has_zeros());
        if count == 0 || !(has_all_cells || (0..count).any(|n| self.takes_part(n))) {
            return Err(Error::invalid(
                "diffusion.active",
                format!(
                    "none of the {count} cells is active; check the mask, and that the coefficient is not 0 everywhere"
                ),
            ));
        }
        self.check_sides()?;
        self.check_places()?;
        self.check_points(|column, layers| Ok([Axis::X, Axis::Y].map(|axis| self.open_column(axis, column, layers))))?;
        Ok(CheckedProblem { problem: self, spreads, has_all_cells })
    }

    /// Makes the matrix.
    ///
    /// # Errors
    /// See [`DiffusionProblem::validate`] and [`Diffusion::new`].
    pub fn stencil(&self) -> Result<Diffusion> {
        self.checked()?.stencil()
    }

    /// Makes the matrix, given the spreads of κ of each direction.
    pub(super) fn stencil_of_known(&self, spreads: [Spread; 3]) -> Result<Diffusion> {
        let mut shift = self.shift();
        for well in &self.wells {
            for at in self.completed("diffusion.wells", 0, [well.i, well.j], well.k)? {
                shift.get_or_insert_with(|| vec![0.0; self.shape.cells()])[self.cell(at)] += self.well_index(well, at);
            }
        }
        for (at, tie) in self.robin_ties() {
            shift.get_or_insert_with(|| vec![0.0; self.shape.cells()])[self.cell(at)] += tie;
        }
        let (_, axes) = self.matrix_fields(self.coefficient.numbers());
        if let Some((_, factor)) = axes.iter().find(|(_, factor)| !(*factor > 0.0 && factor.is_finite())) {
            let [dx, dy, dz] = [0, 1, 2].map(|d| Number(self.spacing[d].width(0)));
            let message = format!(
                "widths of {dx}, {dy} and {dz} in x, y and z multiply coefficients by {factor}; use other units"
            );
            return Err(Error::invalid("grid.spacing", message));
        }
        let (coefficients, spreads) = self.coefficients(spreads);
        Diffusion::of_known(self.shape, coefficients, spreads, shift, self.matrix_sides()).map_err(|error| {
            let reaction = self.reaction.as_deref().unwrap_or_default();
            match (0..reaction.len()).find(|&n| self.takes_part(n) && !reaction[n].is_finite()) {
                Some(n) => wrong_cell("diffusion.reaction", self.shape, reaction, n, "finite"),
                None => error,
            }
        })
    }

    /// Returns the sides of the matrix; a Robin side adds a shift to it.
    pub fn matrix_sides(&self) -> [[Side; 2]; 3] {
        self.boundary.map(|sides| {
            sides.map(|side| match side {
                Boundary::Neumann(_) | Boundary::Robin { .. } => Side::Closed,
                Boundary::Dirichlet(_) => Side::Fixed,
                Boundary::Periodic => Side::Periodic,
            })
        })
    }

    fn shift(&self) -> Option<Vec<f64>> {
        let reaction = self.reaction.as_ref()?;
        let of_cell = |at| if self.is_active(at) { reaction[self.cell(at)] * self.volume(at) } else { 0.0 };
        Some(self.of_rows(of_cell))
    }

    /// Returns as few fields as possible for κ of x, y and z with these [`Coefficient::numbers`], where directions that differ by a factor share one: the
    /// direction and the weight of κ in each field; and for each direction the number of its field, and the factor.
    pub fn matrix_fields(&self, numbers: [usize; 3]) -> (Vec<(Axis, Weight)>, [(usize, f64); 3]) {
        match [0, 1, 2].map(|d| self.spacing[d].uniform()) {
            [Some(dx), Some(dy), Some(dz)] => {
                let factors = [2.0 * dy * dz / dx, 2.0 * dx * dz / dy, 2.0 * dx * dy / dz];
                let fields: &[Axis] = match numbers {
                    [_, _, 0] => &[Axis::X],
                    [_, 0, _] => &[Axis::X, Axis::Z],
                    _ => &Axis::ALL,
                };
                let fields = fields.iter().map(|&axis| (axis, Weight::One)).collect();
                (fields, [0, 1, 2].map(|d| (numbers[d], factors[d])))
            }
            // Layers of different heights: the height goes into the horizontal field.
            [Some(dx), Some(dy), None] if numbers[1] == 0 => {
                let fields = vec![(Axis::X, Weight::Height), (Axis::Z, Weight::PerHeight)];
                (fields, [(0, 2.0 * dy / dx), (0, 2.0 * dx / dy), (1, 2.0 * dx * dy)])
            }
            _ => (Axis::ALL.map(|axis| (axis, Weight::AreaPerWidth)).to_vec(), [0, 1, 2].map(|d| (d, 2.0))),
        }
    }

    /// Makes the fields of the matrix, and their spreads where they are those of κ.
    fn coefficients(&self, spreads: [Spread; 3]) -> (Coefficients, Option<Vec<Spread>>) {
        let nx = self.shape.nx;
        // Inactive cells that the mask leaves open have coefficients of zero.
        let open = |axis: Axis| -> Arc<[f64]> {
            let Some(active) = &self.active else { return self.coefficient.shared(axis) };
            let values = self.coefficient.along(axis);
            shared(&Host, values.len(), nx, |row, copy| {
                let cells = row * nx..row * nx + copy.len();
                let given = values[cells.clone()].iter().zip(&active[cells]);
                copy.iter_mut()
                    .zip(given)
                    .for_each(|(copy, (&value, &is_open))| *copy = if is_open { value } else { 0.0 });
            })
        };
        let times = |axis: Axis, weight: Weight| -> Arc<[f64]> {
            let values = self.coefficient.along(axis);
            shared(&Host, values.len(), nx, |row, copy| {
                for (i, of_cell) in copy.iter_mut().enumerate() {
                    let (at, n) = ([i, row % self.shape.ny, row / self.shape.ny], row * nx + i);
                    *of_cell = if self.is_open(n) { values[n] * weight.of(axis, self.widths(at)) } else { 0.0 };
                }
            })
        };
        let (fields, axes) = self.matrix_fields(self.coefficient.numbers());
        let are_those_of_kappa = fields.iter().all(|&(_, weight)| weight == Weight::One);
        let known = || fields.iter().map(|&(axis, _)| spreads[axis as usize]).collect();
        let known = (are_those_of_kappa && self.active.is_none()).then(known);
        let of_field = |&(axis, weight)| if weight == Weight::One { open(axis) } else { times(axis, weight) };
        (Coefficients::Cells { fields: fields.iter().map(of_field).collect(), axes }, known)
    }
}

/// The factor of κ in a field of the matrix. The conductance from the centre of a cell to its face is the field times a number that all cells share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// 1
    One,
    /// Δz
    Height,
    /// 1/Δz
    PerHeight,
    /// The area of a face over the width across it, such as Δy Δz / Δx.
    AreaPerWidth,
}

impl Weight {
    /// Returns the factor of κ of a direction in a cell of these widths.
    fn of(self, axis: Axis, widths: [f64; 3]) -> f64 {
        match self {
            Self::One => 1.0,
            Self::Height => widths[2],
            Self::PerHeight => 1.0 / widths[2],
            Self::AreaPerWidth => widths.iter().product::<f64>() / widths[axis as usize].powi(2),
        }
    }

    /// Returns the powers of Δx, Δy and Δz that it is the product of.
    pub fn powers(self, axis: Axis) -> [i32; 3] {
        match self {
            Self::One => [0, 0, 0],
            Self::Height => [0, 0, 1],
            Self::PerHeight => [0, 0, -1],
            Self::AreaPerWidth => Axis::ALL.map(|other| if other == axis { -1 } else { 1 }),
        }
    }
}

/// A checked [`DiffusionProblem`]: matrices and right-hand sides are made from it without checking again.
#[derive(Clone, Copy, Debug)]
pub struct CheckedProblem<'p> {
    pub(super) problem: &'p DiffusionProblem,
    /// The spreads of κ in x, y and z.
    spreads: [Spread; 3],
    /// Whether all cells are active without a mask.
    pub(super) has_all_cells: bool,
}

impl CheckedProblem<'_> {
    /// Makes the matrix, see [`DiffusionProblem::stencil`].
    ///
    /// # Errors
    /// See [`Diffusion::new`].
    pub fn stencil(&self) -> Result<Diffusion> {
        self.problem.stencil_of_known(self.spreads)
    }
}
