//! Interpolation in one direction, made from the matrix.

use std::ops::Range;
use std::sync::Arc;

use super::Execute;
use super::couplings::{Couplings, Grid};
pub use super::relaxing::{HALF_SWEEPS, LEANING, NEARLY_ONE, NEGLIGIBLE, SMALL_SHIFT};
use super::relaxing::{Relaxed, Relaxing};
use super::window::{Window, divisor};
use crate::large_pages::zeros;
use crate::layout::{Axis, Shape};
use crate::real::Real;

/// P of one direction: an even cell 2I takes the value of coarse cell I, an odd cell 2I + 1 the value
///
/// below · u_I + above · u_{I+1}.
///
/// With D and U the total couplings to the planes below and above the odd cell, and s its row sum unless that is a [`SMALL_SHIFT`],
/// both weights solve (U + D + s + ΣQ) w − ΣQ w′ = D (or U) over the couplings Q > 0 to the other cells of its plane. They start
/// from D/(U + D + s), are relaxed by exact lines in zebra order, and clipped to [0, 1]: black-box multigrid's weights (Dendy,
/// 1982) where Q is 0, smoothed in the plane where it is not. [`NEGLIGIBLE`] ones are dropped, and between inactive cells one of the
/// two is ([`LEANING`]), so that the columns of P are independent.
#[derive(Clone, Debug)]
pub struct Weights<N = f64> {
    /// The direction.
    pub axis: Axis,
    /// The finer grid.
    pub fine: Grid,
    /// The coarser grid.
    pub coarse: Grid,
    /// The odd cells, numbered like the coarse cells below them.
    pub odd: Grid,
    /// The window of the finer grid; nothing if its rows are all.
    window: Option<Arc<Window>>,
    /// The weights of the cells below, those of the cells above, and the matrix's diagonal, without ghosts, plane by plane.
    numbers: Vec<N>,
    /// P 1 of each j of the finer grid, if it is not 1 in all of the plane.
    pub(super) of_one: Vec<Option<OfOne<N>>>,
    zeros: Vec<N>,
}

/// The product P 1 in a plane of the finer grid.
#[derive(Clone, Debug)]
pub(super) struct OfOne<N> {
    /// Values in the order of [`Grid`].
    pub(super) values: Vec<N>,
    /// The columns that contain all values other than 1.
    pub(super) columns: Range<usize>,
}

/// Returns the coarse cells of a grid in a direction, and its odd ones.
pub fn halves(fine: &Grid, axis: Axis) -> [Grid; 2] {
    let (extents, d) = (fine.extents(), axis as usize);
    let with = |n: usize| {
        let mut extents = extents;
        extents[d] = n;
        Shape::new(extents[0], extents[1], extents[2])
    };
    let mut periodic = fine.periodic;
    let coarse_count = extents[d].div_ceil(2);
    periodic[d] &= coarse_count > 1;
    let coarse = Grid { shape: with(coarse_count), periodic };
    let mut odd = Grid { shape: with(extents[d] / 2), periodic: fine.periodic };
    // Below the first coarse cell of a periodic direction lies the last odd cell, if its length is even.
    odd.periodic[d] &= extents[d].is_multiple_of(2);
    [coarse, odd]
}

impl<N: Real> Weights<N> {
    /// Sums of weights within this of 1 are 1 up to rounding.
    const ROUNDING_OF_ONE: f64 = if N::EPSILON > 1e-9 { 4.0 * N::EPSILON } else { 1e-9 };

    /// Computes the weights in a direction of more than one cell.
    pub fn new(execute: &impl Execute, matrix: &Couplings<N>, axis: Axis) -> Self {
        let fine = matrix.grid;
        let [coarse, odd] = halves(&fine, axis);
        let relaxing = Relaxing::new(matrix, axis, odd);
        let (planes, plane, cells) = (odd.shape.ny, odd.plane(), odd.shape.nx * odd.shape.nz);
        let shared = cells * if relaxing.is_relaxed() { 4 } else { 2 };
        let mut numbers = zeros(planes * (2 * plane + cells));
        let mut space = matrix.spare.take(planes * shared);
        let pairs = numbers.chunks_exact_mut(2 * plane + cells).zip(space.chunks_exact_mut(shared));
        let mut relaxed: Vec<Relaxed<'_, N>> =
            pairs.map(|(own, shared)| Relaxed::new(own, shared, plane, cells)).collect();
        execute.for_each(
            &mut relaxed,
            #[inline(always)]
            |j, plane| relaxing.prepare(j, plane),
        );
        relaxing.relax(execute, &mut relaxed);
        execute.for_each(
            &mut relaxed,
            #[inline(always)]
            |j, plane| relaxing.finish(j, plane),
        );
        matrix.spare.give(space);
        let mut this = Self {
            axis,
            fine,
            coarse,
            odd,
            window: matrix.window.clone(),
            numbers,
            of_one: Vec::new(),
            zeros: vec![N::ZERO; odd.plane()],
        };
        this.find_one(execute);
        this
    }

    /// Returns the weights in double precision.
    pub(super) fn in_double(&self) -> Weights {
        let double = |numbers: &[N]| numbers.iter().map(|number| number.to_f64()).collect();
        let of_one = |of_one: &OfOne<N>| OfOne { values: double(&of_one.values), columns: of_one.columns.clone() };
        Weights {
            axis: self.axis,
            fine: self.fine,
            coarse: self.coarse,
            odd: self.odd,
            window: self.window.clone(),
            numbers: double(&self.numbers),
            of_one: self.of_one.iter().map(|plane| plane.as_ref().map(of_one)).collect(),
            zeros: double(&self.zeros),
        }
    }

    /// Returns the planes of odd cells of the whole grid, and the number here of one of them.
    pub fn planes(&self) -> (usize, impl Fn(usize) -> usize + Sync) {
        let divisor = divisor(self.axis);
        let count = self.window.as_ref().map_or(self.odd.shape.ny, |window| window.whole() / divisor);
        // Windows begin with an even row.
        (count, move |j| self.window.as_ref().map_or(j, |window| window.here(divisor * j) / divisor))
    }

    /// Returns weights below and above, and diagonal entries, of plane j.
    #[inline(always)]
    fn plane(&self, j: usize) -> [&[N]; 3] {
        let (plane, cells) = (self.odd.plane(), self.odd.shape.nx * self.odd.shape.nz);
        let (below, rest) = self.numbers[j * (2 * plane + cells)..][..2 * plane + cells].split_at(plane);
        let (above, diagonals) = rest.split_at(plane);
        [below, above, diagonals]
    }

    /// Returns the weights of the odd cells of a row, ghosts included: [below, above]. Where the direction is y (z), `j` (`k`) is
    /// the number of the odd plane or layer, and may be −1.
    #[inline(always)]
    pub fn rows(&self, j: isize, k: isize) -> [&[N]; 2] {
        let plane = usize::try_from(j).ok().filter(|&j| j < self.odd.shape.ny);
        let plane = match plane {
            None if self.odd.periodic[1] => Some(j.rem_euclid(self.odd.shape.ny as isize) as usize),
            plane => plane,
        };
        match plane {
            Some(plane) => {
                let (start, n) = (self.odd.at(-1, k), self.odd.span());
                let [below, above, _] = self.plane(plane);
                [&below[start..start + n], &above[start..start + n]]
            }
            None => [&self.zeros[..self.odd.span()]; 2],
        }
    }

    /// Returns the weights of odd cell (i, j, k), numbered like the coarse cell below it.
    pub fn get(&self, [i, j, k]: [usize; 3]) -> [N; 2] {
        self.rows(j as isize, k as isize).map(|row| row[i + 1])
    }

    /// Returns the diagonal entries of the odd cells of a row, numbered like the coarse cells below them.
    #[inline(always)]
    pub(super) fn diagonals(&self, [j, k]: [usize; 2]) -> &[N] {
        let nx = self.odd.shape.nx;
        if j >= self.odd.shape.ny {
            return &[];
        }
        self.plane(j)[2].get(k * nx..(k + 1) * nx).unwrap_or(&[])
    }

    /// Finds P 1.
    fn find_one(&mut self, execute: &impl Execute) {
        let Self { axis, fine, odd, .. } = *self;
        let mut of_one = vec![None; fine.shape.ny];
        execute.for_each(
            &mut of_one,
            #[inline(always)]
            |j, out| {
                let odd_j = match axis {
                    Axis::Y if j % 2 == 0 => return,
                    Axis::Y => j / 2,
                    _ => j,
                };
                let [below, above, _] = self.plane(odd_j);
                let apart = N::from_f64(Self::ROUNDING_OF_ONE);
                let is_one = |total: N| (total - N::ONE < apart) & (N::ONE - total < apart);
                let total = |(&below, &above): (&N, &N)| {
                    let total = below + above;
                    if is_one(total) { N::ONE } else { total }
                };
                let Shape { nx: odd_nx, nz: odd_nz, .. } = odd.shape;
                let rows = (0..odd_nz).map(|k| odd.at(0, k as isize)..odd.at(odd_nx as isize, k as isize));
                let others = |row: Range<usize>| {
                    let pairs = below[row.clone()].iter().zip(&above[row]);
                    pairs.fold(0u64, |others, (&below, &above)| others + u64::from(!is_one(below + above)))
                };
                if rows.clone().all(|row| others(row) == 0) {
                    return;
                }
                let mut plane = vec![N::ONE; fine.plane()];
                let mut columns = fine.shape.nx..0;
                for (k, row) in rows.enumerate() {
                    let (fine_i, fine_k, step) = match axis {
                        Axis::X => (1, k, 2),
                        Axis::Y => (0, k, 1),
                        Axis::Z => (0, 2 * k + 1, 1),
                    };
                    let totals = below[row.clone()].iter().zip(&above[row]).map(total);
                    let start = fine.at(fine_i, fine_k as isize);
                    plane[start..].iter_mut().step_by(step).zip(totals).for_each(|(to, total)| *to = total);
                    let row = &plane[fine.at(0, fine_k as isize)..][..fine.shape.nx];
                    let is_other = |value: &N| *value != N::ONE;
                    if let (Some(first), Some(last)) = (row.iter().position(is_other), row.iter().rposition(is_other)) {
                        columns = columns.start.min(first)..columns.end.max(last + 1);
                    }
                }
                fine.fill_ghosts(&mut plane);
                *out = Some(OfOne { values: plane, columns });
            },
        );
        self.of_one = of_one;
    }
}
