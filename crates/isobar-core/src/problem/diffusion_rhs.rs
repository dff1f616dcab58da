//! Right-hand sides of diffusion, on the whole grid or in some rows of it.

use std::ops::Range;

use super::diffusion::{CheckedProblem, DiffusionProblem};
use super::{RhsKind, Spacing, Weighting, random, smooth};
use crate::error::{Error, Result};
use crate::execute::{Host, for_each_row, rows};
use crate::layout::Shape;
use crate::stencil::Axis;

impl DiffusionProblem {
    /// Computes a right-hand side in C order, shape (nz, ny, nx), 0 in inactive cells: the body source f of the given kind (none
    /// means 0), boundary values, sources and wells. [`RhsKind::Manufactured`] is A x with x from [`DiffusionProblem::exact`],
    /// and nothing else.
    ///
    /// # Errors
    /// See [`DiffusionProblem::stencil`].
    pub fn rhs(&self, kind: Option<RhsKind>, seed: u64, weighting: Weighting) -> Result<Vec<f64>> {
        self.rhs_in(&(0..self.shape.ny), kind, seed, weighting)
    }

    /// Computes a right-hand side in some rows of the grid, (nz, rows, nx).
    ///
    /// # Errors
    /// See [`DiffusionProblem::rhs`].
    pub fn rhs_in(
        &self,
        rows: &Range<usize>,
        kind: Option<RhsKind>,
        seed: u64,
        weighting: Weighting,
    ) -> Result<Vec<f64>> {
        self.checked()?.rhs_in(rows, kind, seed, weighting)
    }

    /// Makes a right-hand side from a body source of the caller, C order: it is masked and weighted, and boundary values,
    /// sources and wells are added.
    ///
    /// # Errors
    /// See [`DiffusionProblem::validate`]; [`Error::Shape`] for another number of cells.
    pub fn rhs_from(&self, values: Vec<f64>, weighting: Weighting) -> Result<Vec<f64>> {
        self.rhs_from_in(&(0..self.shape.ny), values, weighting)
    }

    /// Makes a right-hand side from a body source in some rows of the grid, (nz, rows, nx).
    ///
    /// # Errors
    /// See [`DiffusionProblem::rhs_from`].
    pub fn rhs_from_in(&self, rows: &Range<usize>, values: Vec<f64>, weighting: Weighting) -> Result<Vec<f64>> {
        self.checked()?.rhs_from_in(rows, values, weighting)
    }

    /// Adds boundary values, sources and wells in some rows of the grid, (nz, rows, nx).
    fn add_what_drives(&self, rows: &Range<usize>, values: &mut [f64]) -> Result<()> {
        let nx = self.shape.nx;
        let (is_own, place) = (
            |&at: &[usize; 3]| rows.contains(&at[1]),
            |[i, j, k]: [usize; 3]| i + nx * (j - rows.start + rows.len() * k),
        );
        for axis in Axis::ALL {
            let d = axis as usize;
            for is_upper in [false, true].into_iter().filter(|&is_upper| self.is_driven(d, is_upper)) {
                for at in self.end(d, is_upper).filter(is_own).filter(|&at| self.is_active(at)) {
                    let side = self.side_at(axis, is_upper, at).face(self.half(axis, at), self.area(axis, at));
                    values[place(at)] += side.conductance * side.value + side.inflow;
                }
            }
        }
        for source in &self.sources {
            let cells = self.completed("diffusion.sources", 0, [source.i, source.j], source.k)?;
            let weight = |&at: &[usize; 3]| self.coefficient.along(Axis::X)[self.cell(at)] * self.widths(at)[2];
            let total: f64 = cells.iter().map(weight).sum();
            for at in cells.iter().filter(|at| is_own(at)) {
                values[place(*at)] += source.rate * weight(at) / total;
            }
        }
        for well in &self.wells {
            for at in self.completed("diffusion.wells", 0, [well.i, well.j], well.k)?.into_iter().filter(is_own) {
                values[place(at)] += self.well_index(well, at) * well.value;
            }
        }
        Ok(())
    }

    /// Computes the exact solution of [`RhsKind::Manufactured`], paper D's: cos n in cell n, 0 in inactive cells. Where the
    /// matrix is singular, solutions differ from it by constants.
    pub fn exact(&self) -> Vec<f64> {
        let nx = self.shape.nx;
        rows(&Host, self.shape.cells(), nx, |row, values| {
            values.iter_mut().zip(row * nx..).for_each(|(value, n)| *value = self.exact_at(n));
        })
    }

    /// Returns the exact solution in cell n.
    pub(super) fn exact_at(&self, n: usize) -> f64 {
        if self.takes_part(n) { (n as f64).cos() } else { 0.0 }
    }
}

impl CheckedProblem<'_> {
    /// See [`DiffusionProblem::rhs_in`].
    ///
    /// # Errors
    /// See [`CheckedProblem::stencil`].
    pub fn rhs_in(
        &self,
        own: &Range<usize>,
        kind: Option<RhsKind>,
        seed: u64,
        weighting: Weighting,
    ) -> Result<Vec<f64>> {
        let problem = self.problem;
        if kind == Some(RhsKind::Manufactured) {
            return Ok(self.stencil()?.times_in(own, |n| problem.exact_at(n)));
        }
        let mut values = self.body_in(own, kind, seed, weighting);
        problem.add_what_drives(own, &mut values)?;
        Ok(values)
    }

    /// Computes the body source alone in some rows of the grid, (nz, rows, nx), without boundary values, sources and wells; it
    /// is 0 in inactive cells, and without a source or for a manufactured one.
    pub fn body_in(&self, own: &Range<usize>, kind: Option<RhsKind>, seed: u64, weighting: Weighting) -> Vec<f64> {
        let problem = self.problem;
        let (nx, extents) = (problem.shape.nx, problem.extents());
        let fraction = |m: usize, d: usize| (m as f64 + 0.5) / extents[d] as f64;
        rows(&Host, nx * own.len() * problem.shape.nz, nx, |row, values| {
            let (j, k) = (own.start + row % own.len(), row / own.len());
            match kind {
                Some(RhsKind::Constant) => values.fill(1.0),
                Some(RhsKind::Random) => {
                    values.iter_mut().zip(problem.cell([0, j, k])..).for_each(|(value, n)| *value = random(seed, n));
                }
                Some(RhsKind::Smooth) => {
                    let (y, z) = (fraction(j, 1), fraction(k, 2));
                    values.iter_mut().enumerate().for_each(|(i, value)| *value = smooth(fraction(i, 0), y, z));
                }
                // The array is zero already.
                None | Some(RhsKind::Manufactured) => {}
            }
            self.weigh(j, k, weighting, values);
        })
    }

    /// See [`DiffusionProblem::rhs_from_in`].
    ///
    /// # Errors
    /// [`Error::Shape`] for another number of cells.
    pub fn rhs_from_in(&self, own: &Range<usize>, mut values: Vec<f64>, weighting: Weighting) -> Result<Vec<f64>> {
        let Shape { nx, nz, .. } = self.problem.shape;
        let expected = nx * own.len() * nz;
        if values.len() != expected {
            return Err(Error::shape("the right-hand side", values.len().to_string(), expected.to_string()));
        }
        for_each_row(&Host, &mut values, nx, |row, values| {
            self.weigh(own.start + row % own.len(), row / own.len(), weighting, values);
        });
        self.problem.add_what_drives(own, &mut values)?;
        Ok(values)
    }

    /// Clears the inactive cells of a row, and multiplies the others by volumes for `Weighting::Volume`.
    fn weigh(&self, j: usize, k: usize, weighting: Weighting, values: &mut [f64]) {
        if self.has_all_cells && weighting != Weighting::Volume {
            return;
        }
        if self.has_all_cells && matches!(self.problem.spacing[0], Spacing::Uniform(_)) {
            let volume = self.problem.volume([0, j, k]);
            return values.iter_mut().for_each(|value| *value *= volume);
        }
        for (i, value) in values.iter_mut().enumerate() {
            if !(self.has_all_cells || self.problem.is_active([i, j, k])) {
                *value = 0.0;
            } else if weighting == Weighting::Volume {
                *value *= self.problem.volume([i, j, k]);
            }
        }
    }
}
