//! Right-hand sides of diffusion, on the whole grid or in some rows of it.

use std::ops::Range;

use super::diffusion::{CheckedProblem, DiffusionProblem};
use super::{RhsKind, Spacing, Weighting, random, smooth};
use crate::execute::{for_each_row, rows};
use crate::stencil::Axis;
use crate::{Error, Host, Result, Shape, Source};

impl DiffusionProblem {
    /// Computes a right-hand side in C order, shape (nz, ny, nx), 0 in inactive cells: the body source f of the given kind (none
    /// means 0), boundary values, sources and wells. [`RhsKind::Manufactured`] is A x with x from [`DiffusionProblem::exact`],
    /// and nothing else.
    ///
    /// # Errors
    /// See [`DiffusionProblem::stencil`].
    pub fn rhs(&self, kind: Option<RhsKind>, seed: u64, weighting: Weighting) -> Result<Vec<f64>> {
        self.checked()?.rhs_in(&(0..self.shape.ny), kind, seed, weighting)
    }

    /// Makes a right-hand side from a body source of the caller, C order: it is masked and weighted, and boundary values,
    /// sources and wells are added.
    ///
    /// # Errors
    /// See [`DiffusionProblem::validate`]; [`Error::Shape`] for another number of cells.
    pub fn rhs_from(&self, values: Vec<f64>, weighting: Weighting) -> Result<Vec<f64>> {
        self.checked()?.rhs_from_in(&(0..self.shape.ny), values, weighting)
    }

    /// Returns the axes and ends of the sides that may contribute to the right-hand side.
    fn driven_sides(&self) -> Vec<(Axis, bool)> {
        let sides = Axis::ALL.into_iter().flat_map(|axis| [false, true].map(|is_upper| (axis, is_upper)));
        sides.filter(|&(axis, is_upper)| self.is_driven(axis as usize, is_upper)).collect()
    }

    /// Adds the contributions of these sides to the row (j, k).
    fn add_sides(&self, sides: &[(Axis, bool)], [j, k]: [usize; 2], values: &mut [f64]) {
        for &(axis, is_upper) in sides {
            let end = |n: usize| if is_upper { n - 1 } else { 0 };
            let Shape { nx, ny, nz } = self.shape;
            let cells = match axis {
                Axis::X => end(nx)..end(nx) + 1,
                Axis::Y if j == end(ny) => 0..nx,
                Axis::Z if k == end(nz) => 0..nx,
                _ => continue,
            };
            for at in cells.map(|i| [i, j, k]).filter(|&at| self.is_active(at)) {
                let side = self.side_at(axis, is_upper, at).face(self.half(axis, at), self.area(axis, at));
                values[at[0]] += side.conductance * side.value + side.inflow;
            }
        }
    }

    /// Adds sources and wells in some rows of the grid, (nz, rows, nx).
    fn add_point_sources(&self, rows: &Range<usize>, values: &mut [f64]) -> Result<()> {
        let nx = self.shape.nx;
        let (is_own, place) = (
            |&at: &[usize; 3]| rows.contains(&at[1]),
            |[i, j, k]: [usize; 3]| i + nx * (j - rows.start + rows.len() * k),
        );
        for source in &self.sources {
            let (cells, total) = self.weighted_cells(source)?;
            for (at, weight) in cells.into_iter().filter(|(at, _)| is_own(at)) {
                values[place(at)] += source.rate * weight / total;
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
    /// Computes [`DiffusionProblem::rhs`] in some rows of the grid, (nz, rows, nx).
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
        let mut values = self.made_in(own, kind, seed, weighting, &problem.driven_sides());
        problem.add_point_sources(own, &mut values)?;
        Ok(values)
    }

    /// Computes the body source alone in some rows of the grid, (nz, rows, nx), without boundary values, sources and wells; it
    /// is 0 in inactive cells, and without a source or for a manufactured one.
    pub fn body_in(&self, own: &Range<usize>, kind: Option<RhsKind>, seed: u64, weighting: Weighting) -> Vec<f64> {
        self.made_in(own, kind, seed, weighting, &[])
    }

    /// Computes a body source and the contributions of sides.
    fn made_in(
        &self,
        own: &Range<usize>,
        kind: Option<RhsKind>,
        seed: u64,
        weighting: Weighting,
        sides: &[(Axis, bool)],
    ) -> Vec<f64> {
        let problem = self.problem;
        let (nx, extents) = (problem.shape.nx, problem.shape.extents());
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
            self.weigh([j, k], weighting, values);
            problem.add_sides(sides, [j, k], values);
        })
    }

    /// Makes [`DiffusionProblem::rhs_from`] from a body source in some rows of the grid, (nz, rows, nx).
    ///
    /// # Errors
    /// [`Error::Shape`] for another number of cells.
    pub fn rhs_from_in(&self, own: &Range<usize>, mut values: Vec<f64>, weighting: Weighting) -> Result<Vec<f64>> {
        let Shape { nx, nz, .. } = self.problem.shape;
        Error::unless_equal("the right-hand side", values.len(), nx * own.len() * nz)?;
        self.complete(own, weighting, &mut values, |_, _| {})?;
        Ok(values)
    }

    /// Writes the right-hand side for a body source, 0 without one, in one pass over both arrays; `values` are in C order, shape (nz, ny,
    /// nx). See [`DiffusionProblem::rhs_from`].
    ///
    /// # Errors
    /// [`Error::Shape`] for another number of cells; [`Error::Unsupported`] for a source on a device.
    pub fn write_rhs(&self, body: Option<Source<'_>>, weighting: Weighting, values: &mut [f64]) -> Result<()> {
        let Shape { nx, ny, .. } = self.problem.shape;
        let cells = self.problem.shape.cells();
        Error::unless_equal("the right-hand side", body.map_or(cells, |body| body.shape().cells()), cells)?;
        Error::unless_equal("the right-hand side", values.len(), cells)?;
        match body {
            Some(body) => {
                let read = body.reader()?;
                self.complete(&(0..ny), weighting, values, |row, values| read(row * nx, values))
            }
            None => self.complete(&(0..ny), weighting, values, |_, values| values.fill(0.0)),
        }
    }

    /// Makes a right-hand side in some rows of the grid of a body source, which `set(row, values)` sets.
    fn complete(
        &self,
        own: &Range<usize>,
        weighting: Weighting,
        values: &mut [f64],
        set: impl Fn(usize, &mut [f64]) + Sync,
    ) -> Result<()> {
        let (problem, sides) = (self.problem, self.problem.driven_sides());
        for_each_row(&Host, values, problem.shape.nx, |row, values| {
            let place = [own.start + row % own.len(), row / own.len()];
            set(row, values);
            self.weigh(place, weighting, values);
            problem.add_sides(&sides, place, values);
        });
        problem.add_point_sources(own, values)
    }

    /// Multiplies the cells of row (j, k) by their volumes for `Weighting::Volume`, and clears inactive ones.
    fn weigh(&self, [j, k]: [usize; 2], weighting: Weighting, values: &mut [f64]) {
        let problem = self.problem;
        match problem.spacing[0] {
            _ if weighting != Weighting::Volume => {}
            Spacing::Uniform(_) => {
                let volume = problem.volume([0, j, k]);
                values.iter_mut().for_each(|value| *value *= volume);
            }
            Spacing::Given(_) => {
                values.iter_mut().enumerate().for_each(|(i, value)| *value *= problem.volume([i, j, k]));
            }
        }
        if self.has_all_cells {
            return;
        }
        let cells = problem.cell([0, j, k])..problem.cell([0, j, k]) + values.len();
        if let Some(active) = &problem.active {
            keep(values, &active[cells.clone()], |&is_active| is_active);
        }
        let [x, y, z] = Axis::ALL.map(|axis| &problem.coefficient.along(axis)[cells.clone()]);
        if problem.coefficient.numbers() == [0; 3] {
            keep(values, x, |&kappa| kappa > 0.0);
        } else {
            let any = x.iter().zip(y).zip(z).map(|((&x, &y), &z)| x > 0.0 || y > 0.0 || z > 0.0);
            keep(values, any, |is_active| is_active);
        }
    }
}

/// Clears the values of cells that are not `kept`.
fn keep<X>(values: &mut [f64], cells: impl IntoIterator<Item = X>, is_kept: impl Fn(X) -> bool) {
    values.iter_mut().zip(cells).for_each(|(value, cell)| *value = if is_kept(cell) { *value } else { 0.0 });
}
