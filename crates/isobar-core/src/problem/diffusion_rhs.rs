//! Right-hand sides of diffusion, of the whole grid or in some rows of it.

use std::ops::Range;

use super::diffusion::{Boundary, DiffusionProblem};
use super::{RhsKind, Weighting, random, smooth};
use crate::error::{Error, Result};
use crate::stencil::Axis;

impl DiffusionProblem {
    /// A right-hand side in C order, shape (nz, ny, nx): the body source f of the given kind (none means 0),
    /// boundary values, sources and wells. 0 in inactive cells. [`RhsKind::Manufactured`] is A x with x from
    /// [`DiffusionProblem::exact`], and nothing else.
    ///
    /// # Errors
    /// Those of [`DiffusionProblem::stencil`].
    pub fn rhs(&self, kind: Option<RhsKind>, seed: u64, weighting: Weighting) -> Result<Vec<f64>> {
        self.rhs_in(&(0..self.shape.ny), kind, seed, weighting)
    }

    /// The same in some rows of the grid, (nz, rows, nx).
    ///
    /// # Errors
    /// As [`DiffusionProblem::rhs`].
    pub fn rhs_in(
        &self,
        rows: &Range<usize>,
        kind: Option<RhsKind>,
        seed: u64,
        weighting: Weighting,
    ) -> Result<Vec<f64>> {
        let fraction = |at: [usize; 3]| {
            let extents = self.extents();
            [0, 1, 2].map(|d| (at[d] as f64 + 0.5) / extents[d] as f64)
        };
        let body: Vec<f64> = match kind {
            None => vec![0.0; self.cells_in(rows).count()],
            Some(RhsKind::Constant) => vec![1.0; self.cells_in(rows).count()],
            Some(RhsKind::Random) => self.cells_in(rows).map(|at| random(seed, self.cell(at))).collect(),
            Some(RhsKind::Smooth) => self
                .cells_in(rows)
                .map(|at| {
                    let [x, y, z] = fraction(at);
                    smooth(x, y, z)
                })
                .collect(),
            Some(RhsKind::Manufactured) => return Ok(self.stencil()?.times_in(rows, |n| self.exact_at(n))),
        };
        self.rhs_from_in(rows, body, weighting)
    }

    /// A right-hand side from a body source of the caller's own, C order: it is masked and weighted, and
    /// boundary values, sources and wells are added.
    ///
    /// # Errors
    /// Those of [`DiffusionProblem::validate`]; [`Error::Shape`] for another number of cells.
    pub fn rhs_from(&self, values: Vec<f64>, weighting: Weighting) -> Result<Vec<f64>> {
        self.rhs_from_in(&(0..self.shape.ny), values, weighting)
    }

    /// The same in some rows of the grid, (nz, rows, nx).
    ///
    /// # Errors
    /// As [`DiffusionProblem::rhs_from`].
    pub fn rhs_from_in(&self, rows: &Range<usize>, mut values: Vec<f64>, weighting: Weighting) -> Result<Vec<f64>> {
        self.validate()?;
        let nx = self.shape.nx;
        let expected = nx * rows.len() * self.shape.nz;
        if values.len() != expected {
            return Err(Error::shape("the right-hand side", values.len().to_string(), expected.to_string()));
        }
        let (is_own, place) = (
            |&at: &[usize; 3]| rows.contains(&at[1]),
            |[i, j, k]: [usize; 3]| i + nx * (j - rows.start + rows.len() * k),
        );
        let own_rows = (0..self.shape.nz).flat_map(|k| rows.clone().map(move |j| (j, k)));
        for ((j, k), values) in own_rows.zip(values.chunks_mut(nx)) {
            for (i, value) in values.iter_mut().enumerate() {
                if !self.is_active([i, j, k]) {
                    *value = 0.0;
                } else if weighting == Weighting::Volume {
                    *value *= self.volume([i, j, k]);
                }
            }
        }
        for axis in Axis::ALL {
            let d = axis as usize;
            for (side, is_upper) in self.boundary[d].iter().zip([false, true]) {
                if matches!(side, Boundary::Dirichlet(0.0) | Boundary::Neumann(0.0) | Boundary::Periodic) {
                    continue;
                }
                for at in self.end(d, is_upper).filter(is_own).filter(|&at| self.is_active(at)) {
                    values[place(at)] += match side {
                        Boundary::Dirichlet(value) => self.half(axis, at) * value,
                        Boundary::Neumann(flux) => flux * self.volume(at) / self.widths(at)[d],
                        Boundary::Periodic => 0.0,
                    };
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
        Ok(values)
    }

    /// The exact solution of [`RhsKind::Manufactured`], paper D's: cos n in cell n, 0 in inactive cells. Where
    /// the matrix is singular, solutions differ from it by constants.
    pub fn exact(&self) -> Vec<f64> {
        (0..self.shape.cells()).map(|n| self.exact_at(n)).collect()
    }

    /// The same in cell n.
    pub(super) fn exact_at(&self, n: usize) -> f64 {
        if self.takes_part(n) { (n as f64).cos() } else { 0.0 }
    }
}
