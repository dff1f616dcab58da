//! Relaxation of interpolation weights: lines in zebra order, whose pivots and sums over planes all half sweeps share.

use super::Execute;
use super::couplings::{Couplings, Grid, Offset, positive};
use crate::layout::{Axis, Shape};
use crate::real::{Precision, Real};

/// The number of half sweeps that relax the weights across the lines.
pub const HALF_SWEEPS: usize = 4;

/// Sums of weights within this of 1 are rounded to 1.
pub const NEARLY_ONE: f64 = 1e-6;

/// The fraction of the diagonal below which row sums do not count in weights. If little else ties a part of the grid, such as a thin
/// layer above closed cells, row sums lower weights differently from cell to cell, and so P 1, whose energy on the next grid is then
/// that of the couplings instead of that of the row sums.
pub const SMALL_SHIFT: f64 = 0.01;

/// The weight below which a weight is dropped, in favour of the other one. If separate pieces of a grid lie in one plane, relaxing
/// across it leaves traces of a piece in coarse cells that are inactive or belong to another piece. A coarse cell of nothing but
/// traces would have a diagonal of their squares, beneath the rounding of its couplings, and of these squares again on the next
/// grid. The value is no ratio of round coefficients, on which rounding would decide.
pub const NEGLIGIBLE: f64 = 7e-3;

/// If the cells below and above are both inactive, one of them gets all of a cell's weight: the one above if its weight is larger by
/// this factor, otherwise the one below. Of two coarse cells that only share the same cells, one is redundant, and PᵀAP singular.
/// The factor exceeds 1, so that rounding does not decide between equals.
pub const LEANING: f64 = 1.07;

/// The data that weights are computed from.
pub(super) struct Relaxing<'a, N> {
    matrix: &'a Couplings<N>,
    axis: Axis,
    odd: Grid,
    /// Offsets to the planes below and above.
    toward: [Vec<Offset>; 2],
    /// Offsets within a plane: along the lines, and to other lines.
    along: Vec<Offset>,
    across: Vec<Offset>,
}

/// One plane of weights during relaxation, and the data that all half sweeps share: rows without ghosts.
pub(super) struct Relaxed<'p, N> {
    /// Weights with ghosts, which are zeros until all weights are computed.
    weights: [&'p mut [N]; 2],
    /// Diagonals of the matrix.
    diagonals: &'p mut [N],
    /// D and U, at least 0.
    toward: [&'p mut [N]; 2],
    /// Couplings to the next cell of the line, at least 0.
    next: &'p mut [N],
    /// 1 / pivot of the lines.
    inverse_pivots: &'p mut [N],
}

impl<'p, N: Real> Relaxed<'p, N> {
    pub(super) fn new(own: &'p mut [N], shared: &'p mut [N], plane: usize, cells: usize) -> Self {
        let (below, rest) = own.split_at_mut(plane);
        let (above, diagonals) = rest.split_at_mut(plane);
        let (down, rest) = shared.split_at_mut(cells);
        let (up, rest) = rest.split_at_mut(cells);
        let (next, inverse_pivots) = rest.split_at_mut(rest.len() / 2);
        Self { weights: [below, above], diagonals, toward: [down, up], next, inverse_pivots }
    }
}

/// Lines' weights while they are solved, row by row.
type Values<N> = [Vec<N>; 2];

impl<'a, N: Real> Relaxing<'a, N> {
    pub(super) fn new(matrix: &'a Couplings<N>, axis: Axis, odd: Grid) -> Self {
        let d = axis as usize;
        let line = if axis == Axis::Z { Axis::X } else { Axis::Z };
        let is_along = |offset: &Offset| offset.iter().enumerate().all(|(n, &o)| (o != 0) == (n == line as usize));
        let (within, out): (Vec<Offset>, Vec<Offset>) = matrix.offsets().partition(|offset| offset[d] == 0);
        let (along, across) = within.into_iter().partition(is_along);
        let (below, above) = out.into_iter().partition(|offset| offset[d] < 0);
        Self { matrix, axis, odd, toward: [below, above], along, across }
    }

    /// Returns the place of the odd cells of row (j, k) in the finer grid.
    #[inline(always)]
    fn fine_row(&self, j: usize, k: usize) -> (usize, isize) {
        match self.axis {
            Axis::X => (j, k as isize),
            Axis::Y => (2 * j + 1, k as isize),
            Axis::Z => (j, 2 * k as isize + 1),
        }
    }

    /// Calls `f(out, c)` for the odd cells of a row that holds all cells and two ghosts, or only the odd cells.
    #[inline(always)]
    fn with_odd(&self, out: &mut [N], row: &[N], f: impl Fn(&mut N, N)) {
        if self.axis == Axis::X {
            out.iter_mut().zip(row[2..].as_chunks::<2>().0).for_each(|(out, pair)| f(out, pair[0]));
        } else {
            out.iter_mut().zip(&row[1..]).for_each(|(out, &c)| f(out, c));
        }
    }

    /// Returns the row at an offset in row (j, k)'s plane of odd cells; none beyond its sides, periodic or not: weights are not
    /// relaxed across these.
    #[inline(always)]
    fn beside(&self, j: usize, k: usize, [_, dy, dz]: Offset) -> Option<(usize, usize)> {
        let Shape { ny, nz, .. } = self.odd.shape;
        if self.matrix.window.as_ref().is_some_and(|window| window.crosses(j, dy)) {
            return None;
        }
        let j = j.checked_add_signed(dy).filter(|&j| j < ny)?;
        Some((j, k.checked_add_signed(dz).filter(|&k| k < nz)?))
    }

    /// Computes the shared data, and the first weights D/(U + D + s).
    #[inline(always)]
    pub(super) fn prepare(&self, j: usize, plane: &mut Relaxed<'_, N>) {
        let Shape { nx, nz, .. } = self.odd.shape;
        let d = self.axis as usize;
        let matrix = self.matrix;
        let (is_relaxed, small_shift) = (self.is_relaxed(), N::from_f64(SMALL_SHIFT));
        let [mut out, mut excess] = [vec![N::ZERO; nx], vec![N::ZERO; nx]];
        for k in 0..nz {
            let at = k * nx..(k + 1) * nx;
            let (fine_j, fine_k) = self.fine_row(j, k);
            let diagonal = &mut plane.diagonals[at.clone()];
            let [down, up] = &mut plane.toward;
            let (down, up) = (&mut down[at.clone()], &mut up[at.clone()]);
            let sums = matrix.sums(fine_j, fine_k);
            down.fill(N::ZERO);
            up.fill(N::ZERO);
            self.with_odd(diagonal, sums, |sum, s| *sum = s);
            self.with_odd(&mut out, sums, |out, s| *out = s);
            for (toward, offsets) in [&mut *down, &mut *up].into_iter().zip(&self.toward) {
                for &offset in offsets {
                    self.with_odd(toward, matrix.row(fine_j, fine_k, offset), |sum, c| *sum += c);
                }
                diagonal.iter_mut().zip(&*toward).for_each(|(sum, &c)| *sum += c);
                toward.iter_mut().for_each(|sum| *sum = positive(*sum));
            }
            for &offset in self.along.iter().chain(&self.across) {
                self.with_odd(diagonal, matrix.row(fine_j, fine_k, offset), |sum, c| *sum += c);
            }
            let rows = out.iter_mut().zip(&*diagonal).zip(down.iter().zip(&*up));
            rows.for_each(|((out, &diagonal), (&down, &up))| {
                let shift = if *out > small_shift * diagonal { *out } else { N::ZERO };
                *out = positive(shift) + down + up;
            });
            let start = self.odd.at(0, k as isize);
            let half = N::from_f64(0.5);
            // The last plane may have none above.
            let number = |i: usize| 2 * [i, j, k][d] + 2;
            let is_end = |i: usize| number(i) == matrix.grid.extents()[d] && !matrix.grid.periodic[d];
            for (n, (w, toward)) in plane.weights.iter_mut().zip([&*down, &*up]).enumerate() {
                let w = &mut w[start..start + nx];
                let rows = w.iter_mut().zip(toward.iter().zip(&out));
                rows.for_each(|(w, (&toward, &cap))| *w = if cap > N::ZERO { toward / cap } else { half });
                let last = nx - 1;
                for i in if d == 0 { last..nx } else { 0..nx } {
                    if is_end(i) && out[i] <= N::ZERO {
                        w[i] = if n == 0 { N::ONE } else { N::ZERO };
                    }
                }
            }
            if !is_relaxed {
                continue;
            }
            // In x, which may be periodic, the last cell has no next one.
            let [first, last] = [-1, 1].map(|dx| usize::from(matrix.grid.periodic[0] && dx != 0));
            for &offset @ [dx, ..] in &self.across {
                if self.beside(j, k, offset).is_some() {
                    let row = matrix.row(fine_j, fine_k, offset);
                    if dx == 0 {
                        self.with_odd(&mut out, row, |out, c| *out += positive(c));
                    } else {
                        let part = if dx < 0 { first..nx } else { 0..nx - last };
                        let terms = out[part.clone()].iter_mut().zip(&row[1..][part]);
                        terms.for_each(|(out, &c)| *out += positive(c));
                    }
                }
            }
            let (before, next) = plane.next.split_at_mut(at.start);
            let next = &mut next[..nx];
            next.fill(N::ZERO);
            for &offset in self.along.iter().filter(|offset| offset.iter().sum::<isize>() > 0) {
                if self.beside(j, k, offset).is_some() {
                    self.with_odd(next, matrix.row(fine_j, fine_k, offset), |next, c| *next = positive(c));
                    if offset[0] > 0 {
                        next[nx - last..].fill(N::ZERO);
                    }
                }
            }
            let inverses = &mut plane.inverse_pivots[at.clone()];
            if self.axis == Axis::Z {
                let (mut excess, mut before) = (N::ZERO, N::ZERO);
                for ((inverse_pivot, &next), &out) in inverses.iter_mut().zip(&*next).zip(&out) {
                    let e = before * excess + out;
                    *inverse_pivot = inverse(next + e);
                    (excess, before) = (e * *inverse_pivot, next);
                }
            } else {
                if k > 0 {
                    let before = &before[(k - 1) * nx..];
                    out.iter_mut().zip(before.iter().zip(&excess)).for_each(|(out, (&c, &excess))| *out += c * excess);
                }
                let pivots = inverses.iter_mut().zip(next.iter().zip(&out));
                pivots.for_each(|(inverse_pivot, (&next, &e))| *inverse_pivot = inverse(next + e));
                let rows = excess.iter_mut().zip(out.iter().zip(&*inverses));
                rows.for_each(|(excess, (&e, &inverse_pivot))| *excess = e * inverse_pivot);
            }
        }
    }

    /// Returns whether there are couplings within the planes.
    pub(super) fn is_relaxed(&self) -> bool {
        !(self.along.is_empty() && self.across.is_empty())
    }

    /// Relaxes lines in z (for weights in z: in x) in zebra order of y (for weights in y: of x).
    pub(super) fn relax(&self, execute: &impl Execute, planes: &mut Vec<Relaxed<'_, N>>) {
        if !self.is_relaxed() {
            return;
        }
        if self.axis == Axis::Y {
            // Odd planes do not depend on each other.
            execute.for_each(
                planes,
                #[inline(always)]
                |j, plane| {
                    let mut values = self.values();
                    for half in 0..HALF_SWEEPS {
                        self.relax_plane(j, plane, [None; 2], Some(half % 2), &mut values);
                    }
                },
            );
            return;
        }
        let all = std::mem::take(planes);
        let count = all.len();
        let (mut even, mut odd): (Vec<_>, Vec<_>) =
            (Vec::with_capacity(count.div_ceil(2)), Vec::with_capacity(count / 2));
        for (j, plane) in all.into_iter().enumerate() {
            if j % 2 == 0 { even.push(plane) } else { odd.push(plane) }
        }
        for half in 0..HALF_SWEEPS {
            let (own, other) = if half % 2 == 0 { (&mut even, &odd) } else { (&mut odd, &even) };
            execute.for_each(
                own,
                #[inline(always)]
                |n, plane| {
                    let j = 2 * n + half % 2;
                    let beside = if half % 2 == 0 { [n.checked_sub(1), Some(n)] } else { [Some(n), Some(n + 1)] };
                    let beside = beside.map(|n| n.and_then(|n| other.get(n)));
                    self.relax_plane(j, plane, beside, None, &mut self.values());
                },
            );
        }
        let (mut even, mut odd) = (even.into_iter(), odd.into_iter());
        *planes = (0..count).filter_map(|j| if j % 2 == 0 { even.next() } else { odd.next() }).collect();
    }

    fn values(&self) -> Values<N> {
        let Shape { nx, nz, .. } = self.odd.shape;
        let cells = if self.axis == Axis::Z { nx } else { nx * nz };
        [vec![N::ZERO; cells], vec![N::ZERO; cells]]
    }

    /// Runs one half sweep on a plane; `parity` states which columns change, if not all.
    #[inline(always)]
    fn relax_plane(
        &self,
        j: usize,
        plane: &mut Relaxed<'_, N>,
        beside: [Option<&Relaxed<'_, N>>; 2],
        parity: Option<usize>,
        values: &mut Values<N>,
    ) {
        let Shape { nx, nz, .. } = self.odd.shape;
        let row = |k: usize| k * nx..(k + 1) * nx;
        if self.axis == Axis::Z {
            for k in 0..nz {
                self.right_hand_side(j, k, plane, beside, values.each_mut().map(|values| &mut values[..]));
                let (next, inverses) = (&plane.next[row(k)], &plane.inverse_pivots[row(k)]);
                let start = self.odd.at(0, k as isize);
                let [below, above] = &mut plane.weights;
                solve_along(values, next, inverses, &mut below[start..start + nx], &mut above[start..start + nx]);
            }
            return;
        }
        for k in 0..nz {
            self.right_hand_side(j, k, plane, beside, values.each_mut().map(|values| &mut values[row(k)]));
            let inverses = &plane.inverse_pivots[row(k)];
            for values in &mut *values {
                let (before, own) = values.split_at_mut(k * nx);
                let own = &mut own[..nx];
                if k > 0 {
                    let rows = own.iter_mut().zip(&before[row(k - 1)]).zip(plane.next[row(k - 1)].iter().zip(inverses));
                    rows.for_each(|((own, &before), (&c, &inverse))| *own = (*own + c * before) * inverse);
                } else {
                    own.iter_mut().zip(inverses).for_each(|(own, &inverse)| *own = *own * inverse);
                }
            }
        }
        // Columns of the other parity keep their weights.
        let changes: Vec<N> =
            (0..nx).map(|i| if parity.is_none_or(|parity| i % 2 == parity) { N::ONE } else { N::ZERO }).collect();
        for (weights, values) in plane.weights.iter_mut().zip(values) {
            for k in (0..nz).rev() {
                let (own, after) = values.split_at_mut((k + 1) * nx);
                let own = &mut own[k * nx..];
                if k + 1 < nz {
                    let factors = plane.next[row(k)].iter().zip(&plane.inverse_pivots[row(k)]);
                    let rows = own.iter_mut().zip(&after[..nx]).zip(factors);
                    rows.for_each(|((own, &after), (&c, &inverse))| *own += c * inverse * after);
                }
                let weights = &mut weights[self.odd.at(0, k as isize)..][..nx];
                if parity.is_none() {
                    weights.iter_mut().zip(&*own).for_each(|(w, own)| *w = share(*own));
                } else {
                    let rows = weights.iter_mut().zip(own.iter().zip(&changes));
                    rows.for_each(|(w, (own, &changes))| *w = if changes > N::ZERO { share(*own) } else { *w });
                }
            }
        }
    }

    /// Computes the right-hand sides of row (j, k), below and above: D or U + ΣQ w′.
    #[inline(always)]
    fn right_hand_side(
        &self,
        j: usize,
        k: usize,
        plane: &Relaxed<'_, N>,
        beside: [Option<&Relaxed<'_, N>>; 2],
        right: [&mut [N]; 2],
    ) {
        let nx = self.odd.shape.nx;
        let (fine_j, fine_k) = self.fine_row(j, k);
        let [below, above] = right;
        below.copy_from_slice(&plane.toward[0][k * nx..(k + 1) * nx]);
        above.copy_from_slice(&plane.toward[1][k * nx..(k + 1) * nx]);
        for &offset @ [dx, dy, _] in &self.across {
            let Some((_, other_k)) = self.beside(j, k, offset) else { continue };
            let source = match dy {
                0 => Some(plane),
                -1 => beside[0],
                _ => beside[1],
            };
            let Some(source) = source else { continue };
            let row = self.matrix.row(fine_j, fine_k, offset);
            // Ghosts of weights are zeros until all are computed.
            let at = self.odd.at(dx, other_k as isize);
            let w = source.weights.each_ref().map(|w| &w[at..at + nx]);
            for (right, w) in [&mut *below, &mut *above].into_iter().zip(w) {
                if self.axis == Axis::X {
                    let terms = right.iter_mut().zip(w).zip(row[2..].as_chunks::<2>().0);
                    terms.for_each(|((right, &w), pair)| *right += positive(pair[0]) * w);
                } else {
                    let terms = right.iter_mut().zip(w).zip(&row[1..]);
                    terms.for_each(|((right, &w), &c)| *right += positive(c) * w);
                }
            }
        }
    }

    /// Gives all weight to the larger one where both cells are inactive, drops negligible weights, makes weights sum to exactly 1
    /// where they nearly do, and 0 in inactive cells; fills the ghosts.
    #[inline(always)]
    pub(super) fn finish(&self, j: usize, plane: &mut Relaxed<'_, N>) {
        let Shape { nx, nz, .. } = self.odd.shape;
        let (d, fine) = (self.axis as usize, self.matrix.grid);
        let Relaxed { weights: [below, above], diagonals, .. } = plane;
        let nearly_one = N::from_f64(1.0 - nearly_one::<N>());
        let [negligible, leaning] = [NEGLIGIBLE, LEANING].map(N::from_f64);
        let mut ties = [vec![N::ZERO; nx], vec![N::ZERO; nx]];
        let is_last = |at: usize| 2 * at + 2 == fine.extents()[d] && !fine.periodic[d];
        for k in 0..nz {
            let start = self.odd.at(0, k as isize);
            let (below, above) = (&mut below[start..start + nx], &mut above[start..start + nx]);
            match self.axis {
                Axis::X if is_last(nx - 1) => above[nx - 1] = N::ZERO,
                Axis::Y if is_last(j) => above.fill(N::ZERO),
                Axis::Z if is_last(k) => above.fill(N::ZERO),
                _ => {}
            }
            let (fine_j, fine_k) = self.fine_row(j, k);
            for (tie, step) in ties.iter_mut().zip([-1, 1]) {
                let mut offset = [0; 3];
                offset[d] = step;
                self.with_odd(tie, self.matrix.row(fine_j, fine_k, offset), |tie, c| *tie = c);
            }
            let diagonals = &diagonals[k * nx..(k + 1) * nx];
            let rows = below.iter_mut().zip(above.iter_mut()).zip(ties[0].iter().zip(&ties[1])).zip(diagonals);
            rows.for_each(|(((below, above), (&down, &up)), &diagonal)| {
                let total = *below + *above;
                let is_tied = (down != N::ZERO) | (up != N::ZERO);
                let greater = if *above > leaning * *below { [N::ZERO, total] } else { [total, N::ZERO] };
                [*below, *above] = if is_tied { [*below, *above] } else { greater };
                let keeps = |w: N, other: N| {
                    if w < negligible {
                        N::ZERO
                    } else if other < negligible {
                        total
                    } else {
                        w
                    }
                };
                let (own, other) = (keeps(*below, *above), keeps(*above, *below));
                let is_one = total > nearly_one;
                let share = other / total;
                let (own, other) = (if is_one { N::ONE - share } else { own }, if is_one { share } else { other });
                let is_open = diagonal > N::ZERO;
                (*below, *above) = (if is_open { own } else { N::ZERO }, if is_open { other } else { N::ZERO });
            });
        }
        self.odd.fill_ghosts(below);
        self.odd.fill_ghosts(above);
    }
}

/// Returns the largest deficit of a sum of weights that is rounded to 1; in single precision elimination accumulates more rounding.
fn nearly_one<N: Real>() -> f64 {
    match N::PRECISION {
        Precision::F32 => 10.0 * NEARLY_ONE,
        _ => NEARLY_ONE,
    }
}

/// Clips a weight to [0, 1].
#[inline(always)]
fn share<N: Real>(w: N) -> N {
    let w = positive(w);
    if w < N::ONE { w } else { N::ONE }
}

#[inline(always)]
fn inverse<N: Real>(x: N) -> N {
    if x > N::ZERO { N::ONE / x } else { N::ZERO }
}

/// Solves a line along a row, for both right-hand sides.
#[inline(always)]
fn solve_along<N: Real>(right: &mut Values<N>, next: &[N], inverse_pivots: &[N], below: &mut [N], above: &mut [N]) {
    let [low, high] = right;
    let (mut before, mut last) = (N::ZERO, [N::ZERO; 2]);
    for ((low, high), (&c, &inverse)) in low.iter_mut().zip(high.iter_mut()).zip(next.iter().zip(inverse_pivots)) {
        last = [(before * last[0] + *low) * inverse, (before * last[1] + *high) * inverse];
        ([*low, *high], before) = (last, c);
    }
    let mut after = [N::ZERO; 2];
    let rows = below.iter_mut().zip(above).zip(low.iter().zip(&*high)).zip(next.iter().zip(inverse_pivots));
    for (((below, above), (&low, &high)), (&c, &inverse)) in rows.rev() {
        let factor = c * inverse;
        after = [factor * after[0] + low, factor * after[1] + high];
        [*below, *above] = after.map(share);
    }
}
