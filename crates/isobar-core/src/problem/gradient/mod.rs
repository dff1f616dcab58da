//! Derivatives by the coefficients of a diffusion problem, from a solution and its adjoint.

mod sides;
#[cfg(test)]
mod tests;
mod widths;

pub use sides::SideGradient;

use super::{Boundary, DiffusionProblem, Spacing, Well};
use crate::execute::rows;
use crate::stencil::Axis;
use crate::{Error, Host, Result, Shape};

/// A solution u of A u = b, its adjoint λ = A⁻¹ ∂J/∂u, and whether b follows the coefficients.
#[derive(Clone, Copy)]
pub(super) struct Pair<'a> {
    u: &'a [f64],
    adjoint: &'a [f64],
    moves_rhs: bool,
}

impl<'a> Pair<'a> {
    pub(super) fn new(shape: Shape, u: &'a [f64], adjoint: &'a [f64], moves_rhs: bool) -> Result<Self> {
        Error::unless_equal("the solution", u.len(), shape.cells())?;
        Error::unless_equal("the adjoint", adjoint.len(), shape.cells())?;
        Ok(Self { u, adjoint, moves_rhs })
    }

    /// Returns ∂J/∂s for the coupling s of cell n to `value`: λ_n (value − u_n), as s adds s to the diagonal and s times `value` to b.
    pub(super) fn by_tie(&self, n: usize, value: f64) -> f64 {
        self.adjoint[n] * (if self.moves_rhs { value } else { 0.0 } - self.u[n])
    }

    /// Returns ∂J/∂T of the face between cells m and n.
    pub(super) fn by_face(&self, m: usize, n: usize) -> f64 {
        (self.adjoint[m] - self.adjoint[n]) * (self.u[n] - self.u[m])
    }
}

impl DiffusionProblem {
    /// Computes the derivatives of a number J(u) by κ of every cell, C order, an array for each one of the [`Coefficient`](super::Coefficient), from a solution `u`
    /// of A u = b and its `adjoint` λ = A⁻¹ ∂J/∂u.
    ///
    /// The derivative by the transmissibility of a face between cells m and n is −(λ_m − λ_n)(u_m − u_n), by the coupling of cell n to a value v
    /// it is λ_n (v − u_n); by κ it follows from these by the chain rule. With `moves_rhs`, b is that of [`DiffusionProblem::rhs`], which depends on κ through values on
    /// sides, wells and sources; else b stays fixed. Inactive cells, and faces where κ is 0 on either side, stay closed and add nothing.
    ///
    /// # Errors
    /// [`Error::Shape`] for arrays of another length; [`Error::Invalid`] for a well or a source outside of the active cells.
    pub fn gradient(&self, u: &[f64], adjoint: &[f64], moves_rhs: bool) -> Result<Vec<Vec<f64>>> {
        let pair = Pair::new(self.shape, u, adjoint, moves_rhs)?;
        let fields: &[&[Axis]] = match self.coefficient.numbers() {
            [_, _, 0] => &[&Axis::ALL],
            [_, 0, _] => &[&[Axis::X, Axis::Y], &[Axis::Z]],
            _ => &[&[Axis::X], &[Axis::Y], &[Axis::Z]],
        };
        let of_field = |axes: &&[Axis]| {
            rows(&Host, self.shape.cells(), self.shape.nx, |row, values: &mut [f64]| {
                axes.iter().for_each(|&axis| self.add_row(axis, row, values, pair));
            })
        };
        let mut gradient: Vec<Vec<f64>> = fields.iter().map(of_field).collect();
        self.add_points(&mut gradient, pair)?;
        Ok(gradient)
    }

    /// Computes the derivatives by f and by c of every cell, V λ and −V λ u, V the cell's [volume](DiffusionProblem::volumes).
    pub fn density_gradient(&self, u: &[f64], adjoint: &[f64]) -> [Vec<f64>; 2] {
        let mut by_f = self.volumes();
        by_f.iter_mut().zip(adjoint).for_each(|(volume, adjoint)| *volume *= adjoint);
        let by_reaction = by_f.iter().zip(u).map(|(by_f, u)| -by_f * u).collect();
        [by_f, by_reaction]
    }

    /// Adds ∂J/∂κ of the cells of row j + ny k through their faces and sides across an axis.
    fn add_row(&self, axis: Axis, row: usize, values: &mut [f64], pair: Pair<'_>) {
        let Shape { nx, ny, .. } = self.shape;
        let (d, count) = (axis as usize, self.shape.extents()[axis as usize]);
        let place = [0, row % ny, row / ny];
        for is_upper in [false, true] {
            let side = self.boundary[d][usize::from(is_upper)];
            // Blocks of the row's cells whose neighbours are a block too, or lie beyond a side.
            let end = if is_upper { count - 1 } else { 0 };
            let blocks = match (axis, is_upper) {
                (Axis::X, false) => [0..1, 1..nx],
                (Axis::X, true) => [0..nx - 1, nx - 1..nx],
                _ => [0..nx, nx..nx],
            };
            for block in blocks.into_iter().filter(|block| !block.is_empty()) {
                let at = [block.start, place[1], place[2]];
                let mut other = at;
                other[d] = (at[d] + if is_upper { 1 } else { count - 1 }) % count;
                if at[d] == end && side != Boundary::Periodic {
                    self.add_side(axis, is_upper, at, &mut values[block], pair);
                } else if other != at {
                    self.add_faces(axis, [at, other], &mut values[block], pair);
                }
            }
        }
    }

    /// Adds the derivatives through the faces between the cells of a row from `first` on and those from `other` on.
    fn add_faces(&self, axis: Axis, [first, other]: [[usize; 3]; 2], values: &mut [f64], pair: Pair<'_>) {
        let numbers = |i: usize| {
            let [at, beyond] = [first, other].map(|[first, j, k]| [first + i, j, k]);
            let [own, across] = [at, beyond].map(|at| self.spacing[axis as usize].width(at[axis as usize]));
            [own, across, self.by_kappa(axis, at)]
        };
        let cells = [self.cell(first), self.cell(other)];
        if self.spacing.iter().all(|spacing| matches!(spacing, Spacing::Uniform(_))) {
            let same = numbers(0);
            self.add_blocks(axis, cells, values, pair, |_| same);
        } else {
            self.add_blocks(axis, cells, values, pair, numbers);
        }
    }

    /// Does that for the cells from number `start` on and those from `beyond` on, without branches. `numbers` returns the widths of two cells, and ∂h/∂κ of the
    /// first.
    fn add_blocks(
        &self,
        axis: Axis,
        [start, beyond]: [usize; 2],
        values: &mut [f64],
        pair: Pair<'_>,
        numbers: impl Fn(usize) -> [f64; 3],
    ) {
        let at = [start, beyond].map(|first| first..first + values.len());
        let [[kappa, kappa_beyond], [u, u_beyond], [adjoint, adjoint_beyond]] =
            [self.coefficient.along(axis), pair.u, pair.adjoint].map(|all| at.clone().map(|at| &all[at]));
        let mask = self.active.as_ref().map(|mask| at.map(|at| &mask[at]));
        for (i, value) in values.iter_mut().enumerate() {
            let [own, across, by_kappa] = numbers(i);
            // T = h h'/(h + h'), so that ∂T/∂h = (h'/(h + h'))², where h = 2κA/d.
            let share = kappa_beyond[i] * own / (kappa[i] * across + kappa_beyond[i] * own);
            let by_face = (adjoint[i] - adjoint_beyond[i]) * (u_beyond[i] - u[i]);
            let is_open = (kappa[i] > 0.0) & (kappa_beyond[i] > 0.0) & mask.is_none_or(|[a, b]| a[i] & b[i]);
            *value += if is_open { by_face * share * share * by_kappa } else { 0.0 };
        }
    }

    /// Adds the derivatives through the lower or the upper side of an axis for the cells of a row from `first` on.
    fn add_side(&self, axis: Axis, is_upper: bool, first: [usize; 3], values: &mut [f64], pair: Pair<'_>) {
        let start = self.cell(first);
        for (i, value) in values.iter_mut().enumerate().filter(|(i, _)| self.takes_part(start + i)) {
            let at = [first[0] + i, first[1], first[2]];
            *value += match self.side_at(axis, is_upper, at) {
                Boundary::Dirichlet(given) => pair.by_tie(start + i, given) * self.by_kappa(axis, at),
                Boundary::Robin { coefficient, value: outside } => {
                    // The half cell is in series with the film, whose conductance κ does not change.
                    let (half, film) = (self.half(axis, at), coefficient * self.area(axis, at));
                    let share = if half + film > 0.0 { film / (half + film) } else { 0.0 };
                    pair.by_tie(start + i, outside) * share * share * self.by_kappa(axis, at)
                }
                Boundary::Neumann(_) | Boundary::Periodic => 0.0,
            };
        }
    }

    /// Returns ∂h/∂κ of a cell, where h = 2κA/d is the transmissibility from its centre to a face.
    fn by_kappa(&self, axis: Axis, at: [usize; 3]) -> f64 {
        let width = self.spacing[axis as usize].width(at[axis as usize]);
        2.0 * self.volume(at) / (width * width)
    }

    /// Adds the derivatives through wells and sources, whose rates κ divides among their cells.
    fn add_points(&self, coefficient: &mut [Vec<f64>], pair: Pair<'_>) -> Result<()> {
        let numbers = self.coefficient.numbers();
        let field = |axis: Axis| numbers[axis as usize];
        for (at, by_weight) in self.by_source_weights(pair)? {
            coefficient[field(Axis::X)][self.cell(at)] += by_weight * self.widths(at)[2];
        }
        for well in &self.wells {
            for at in self.completed("diffusion.wells", 0, [well.i, well.j], well.k)? {
                let (n, slopes) = (self.cell(at), self.well_slopes(well, at));
                let by_tie = pair.by_tie(n, well.value);
                for (axis, slope) in [Axis::X, Axis::Y].into_iter().zip(slopes) {
                    coefficient[field(axis)][n] += by_tie * slope;
                }
            }
        }
        Ok(())
    }

    /// Returns the cells of all sources with the derivatives by their weights, which divide a rate among them.
    fn by_source_weights(&self, pair: Pair<'_>) -> Result<Vec<([usize; 3], f64)>> {
        let mut found = Vec::new();
        for source in self.sources.iter().filter(|_| pair.moves_rhs) {
            let (cells, total) = self.weighted_cells(source)?;
            let adjoint = |at| pair.adjoint[self.cell(at)];
            let mean = cells.iter().map(|&(at, weight)| weight * adjoint(at)).sum::<f64>() / total;
            found.extend(cells.into_iter().map(|(at, _)| (at, source.rate * (adjoint(at) - mean) / total)));
        }
        Ok(found)
    }

    /// Returns the derivatives of the well index 2π √(κ_x κ_y) d_z / ln(r_e / r) by κ_x and κ_y, on whose ratio r_e depends.
    fn well_slopes(&self, well: &Well, at: [usize; 3]) -> [f64; 2] {
        let n = self.cell(at);
        let index = self.well_index(well, at);
        if index == 0.0 {
            return [0.0; 2];
        }
        let [x, y] = [Axis::X, Axis::Y].map(|axis| self.coefficient.along(axis)[n]);
        let ratio = (y / x).sqrt();
        let [dx, dy, _] = self.widths(at);
        let (across, along) = (ratio * dx * dx, dy * dy / ratio);
        // d ln r_e / d ln √(κ_y/κ_x)
        let by_ratio = 0.5 * (across - along) / (across + along) - 0.5 * (ratio - 1.0) / (ratio + 1.0);
        let tilt = 0.5 * by_ratio / (self.equivalent_radius(at) / well.radius).ln();
        [index / x * (0.5 + tilt), index / y * (0.5 - tilt)]
    }
}
