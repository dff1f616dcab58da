//! Interpolation in one direction, made from the matrix.

use super::couplings::{Couplings, Grid, Offset};
use super::{Axis, Execute};
use crate::layout::Shape;

/// Half sweeps that relax the weights across the lines.
pub const HALF_SWEEPS: usize = 4;
/// Weights that add up to so nearly 1 are made to.
pub const NEARLY_ONE: f64 = 1e-6;

/// P of one direction: an even cell 2I takes the value of coarse cell I, an odd cell 2I + 1
///
/// below · u_I + above · u_{I+1}.
///
/// With D and U the couplings to the planes below and above the odd cell, summed up, both weights solve
/// (U + D + s⁺ + ΣQ) w − ΣQ w′ = D (or U) over the couplings Q > 0 to the other cells of its plane. They start from
/// D/(U + D + s⁺), are relaxed by exact lines in zebra order, and kept within 0 and 1: black-box multigrid's weights
/// (Dendy, 1982) where Q is 0, smoothed in the plane where it is not.
#[derive(Clone, Debug)]
pub struct Weights {
    /// The direction.
    pub axis: Axis,
    /// The finer grid.
    pub fine: Grid,
    /// The coarser grid.
    pub coarse: Grid,
    /// The odd cells, numbered like the coarse cells below them.
    pub odd: Grid,
    /// By j.
    pub planes: Vec<WeightPlane>,
    /// By j of the finer grid: P 1, where that is not 1 in all of the plane.
    pub of_one: Vec<Option<Vec<f64>>>,
    zeros: Vec<f64>,
}

/// The coarse cells of a grid in a direction, and its odd ones.
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
    // Below the first coarse cell of a ring lies the last odd cell, if the ring is even.
    odd.periodic[d] &= extents[d].is_multiple_of(2);
    [coarse, odd]
}

/// One plane of weights.
#[derive(Clone, Debug, Default)]
pub struct WeightPlane {
    /// Of the coarse cell below.
    pub below: Vec<f64>,
    /// Of that above.
    pub above: Vec<f64>,
}

impl Weights {
    /// The weights in a direction of more than one cell.
    pub fn new(execute: &impl Execute, matrix: &Couplings, axis: Axis) -> Self {
        let fine = matrix.grid;
        let [coarse, odd] = halves(&fine, axis);
        let relaxing = Relaxing { matrix, axis, odd };
        let mut planes = relaxing.first_guess(execute);
        relaxing.relax(execute, &mut planes);
        execute.for_each(
            &mut planes,
            #[inline(always)]
            |j, plane| relaxing.finish(j, plane),
        );
        let mut this = Self { axis, fine, coarse, odd, planes, of_one: Vec::new(), zeros: vec![0.0; odd.plane()] };
        this.find_one(execute);
        this
    }

    /// Weights of the odd cells of a row, ghosts included: [below, above]. `number` is that of the odd plane or layer
    /// where the direction is y or z, and may be −1; j or k of the cells otherwise.
    #[inline(always)]
    pub fn rows(&self, j: isize, k: isize) -> [&[f64]; 2] {
        let plane = usize::try_from(j).ok().filter(|&j| j < self.planes.len());
        let plane = match plane {
            None if self.odd.periodic[1] => Some(j.rem_euclid(self.planes.len() as isize) as usize),
            plane => plane,
        };
        match plane {
            Some(plane) => {
                let (start, n) = (self.odd.at(-1, k), self.odd.span());
                let WeightPlane { below, above } = &self.planes[plane];
                [&below[start..start + n], &above[start..start + n]]
            }
            None => [&self.zeros[..self.odd.span()]; 2],
        }
    }

    /// Weights of odd cell (i, j, k), numbered like the coarse cell below it.
    pub fn get(&self, [i, j, k]: [usize; 3]) -> [f64; 2] {
        self.rows(j as isize, k as isize).map(|row| row[i + 1])
    }

    /// Finds P 1.
    fn find_one(&mut self, execute: &impl Execute) {
        let Self { axis, fine, odd, planes, .. } = self;
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
                let WeightPlane { below, above } = &planes[odd_j];
                let total = |(below, above): (&f64, &f64)| {
                    let total = below + above;
                    if (total - 1.0).abs() < 1e-9 { 1.0 } else { total }
                };
                let Shape { nx: odd_nx, nz: odd_nz, .. } = odd.shape;
                let rows = (0..odd_nz).map(|k| odd.at(0, k as isize)..odd.at(odd_nx as isize, k as isize));
                let is_one = |row: std::ops::Range<usize>| {
                    below[row.clone()].iter().zip(&above[row]).fold(true, |is_one, pair| is_one & (total(pair) == 1.0))
                };
                if rows.clone().all(is_one) {
                    return;
                }
                let mut plane = vec![1.0; fine.plane()];
                for (k, row) in rows.enumerate() {
                    let (fine_i, fine_k, step) = match axis {
                        Axis::X => (1, k, 2),
                        Axis::Y => (0, k, 1),
                        Axis::Z => (0, 2 * k + 1, 1),
                    };
                    let totals = below[row.clone()].iter().zip(&above[row]).map(total);
                    let to = plane[fine.at(fine_i, fine_k as isize)..].iter_mut().step_by(step);
                    to.zip(totals).for_each(|(to, total)| *to = total);
                }
                fine.fill_ghosts(&mut plane);
                *out = Some(plane);
            },
        );
        self.of_one = of_one;
    }
}

/// What weights are computed from.
struct Relaxing<'a> {
    matrix: &'a Couplings,
    axis: Axis,
    odd: Grid,
}

/// Weights of lines with their right-hand sides, and the pivots they share.
#[derive(Default)]
struct Line {
    /// s⁺ + U + D + ΣQ, then without the couplings along the line.
    out: Vec<f64>,
    /// Couplings to the next cell of the line.
    next: Vec<f64>,
    right: [Vec<f64>; 2],
    excess: Vec<f64>,
    before: Vec<f64>,
    /// Kept from the way up for the way down, row after row.
    factors: Vec<f64>,
    values: [Vec<f64>; 2],
}

impl Line {
    fn resized(&mut self, n: usize, rows: usize) {
        for row in
            [&mut self.out, &mut self.next, &mut self.excess, &mut self.before].into_iter().chain(&mut self.right)
        {
            row.clear();
            row.resize(n, 0.0);
        }
        for rows_of in [&mut self.factors].into_iter().chain(&mut self.values) {
            rows_of.clear();
            rows_of.resize(n * rows, 0.0);
        }
    }
}

impl Relaxing<'_> {
    /// Where the odd cells of row (j, k) are in the finer grid.
    #[inline(always)]
    fn fine_row(&self, j: usize, k: usize) -> (usize, isize) {
        match self.axis {
            Axis::X => (j, k as isize),
            Axis::Y => (2 * j + 1, k as isize),
            Axis::Z => (j, 2 * k as isize + 1),
        }
    }

    /// The odd cells of a row that has all cells, or just them.
    #[inline(always)]
    fn pick<'r>(&self, row: &'r [f64]) -> impl Iterator<Item = &'r f64> + use<'r> {
        let (skip, step) = if self.axis == Axis::X { (2, 2) } else { (1, 1) };
        row[skip..].iter().step_by(step).take(self.odd.shape.nx)
    }

    /// max(Σ couplings to the plane below or above, 0) of the odd cells of a row.
    #[inline(always)]
    fn toward(&self, j: usize, k: usize, side: isize, out: &mut [f64]) {
        let (fine_j, fine_k) = self.fine_row(j, k);
        out.fill(0.0);
        for offset in self.matrix.offsets().filter(|offset| offset[self.axis as usize] == side) {
            let row = self.matrix.row(fine_j, fine_k, offset);
            out.iter_mut().zip(self.pick(row)).for_each(|(sum, c)| *sum += c);
        }
        out.iter_mut().for_each(|sum| *sum = sum.max(0.0));
    }

    fn first_guess(&self, execute: &impl Execute) -> Vec<WeightPlane> {
        let Shape { nx, ny, nz } = self.odd.shape;
        let d = self.axis as usize;
        let fine_count = self.matrix.grid.extents()[d];
        let mut planes: Vec<WeightPlane> = (0..ny).map(|_| WeightPlane::default()).collect();
        execute.for_each(
            &mut planes,
            #[inline(always)]
            |j, plane| {
                let (mut down, mut up) = (vec![0.0; nx], vec![0.0; nx]);
                plane.below = vec![0.0; self.odd.plane()];
                plane.above = vec![0.0; self.odd.plane()];
                for k in 0..nz {
                    self.toward(j, k, -1, &mut down);
                    self.toward(j, k, 1, &mut up);
                    let (fine_j, fine_k) = self.fine_row(j, k);
                    let sums = self.matrix.sums(fine_j, fine_k);
                    let start = self.odd.at(0, k as isize);
                    for ((i, (&down, &up)), s) in down.iter().zip(&up).enumerate().zip(self.pick(sums)) {
                        let cap = up + down + s.max(0.0);
                        let at = [i, j, k][d];
                        let is_end = 2 * at + 2 == fine_count && !self.matrix.grid.periodic[d];
                        let (below, above) = match cap > 0.0 {
                            true => (down / cap, up / cap),
                            false if is_end => (1.0, 0.0),
                            false => (0.5, 0.5),
                        };
                        plane.below[start + i] = below;
                        plane.above[start + i] = above;
                    }
                }
            },
        );
        planes
    }

    /// Relaxes lines in z (for weights in z: in x) in zebra order of y (for weights in y: of x).
    fn relax(&self, execute: &impl Execute, planes: &mut Vec<WeightPlane>) {
        let in_plane = |offset: &Offset| offset[self.axis as usize] == 0;
        if !self.matrix.offsets().any(|offset| in_plane(&offset)) {
            return;
        }
        if self.axis == Axis::Y {
            // Odd planes know nothing of each other.
            execute.for_each(
                planes,
                #[inline(always)]
                |j, plane| {
                    let mut line = Line::default();
                    for half in 0..HALF_SWEEPS {
                        self.relax_plane(j, plane, [None; 2], Some(half % 2), &mut line);
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
                    self.relax_plane(j, plane, beside, None, &mut Line::default());
                },
            );
        }
        let (mut even, mut odd) = (even.into_iter(), odd.into_iter());
        *planes = (0..count).filter_map(|j| if j % 2 == 0 { even.next() } else { odd.next() }).collect();
    }

    /// One half sweep on a plane; `parity` says which columns change, if not all.
    #[inline(always)]
    fn relax_plane(
        &self,
        j: usize,
        plane: &mut WeightPlane,
        beside: [Option<&WeightPlane>; 2],
        parity: Option<usize>,
        line: &mut Line,
    ) {
        let Shape { nx, nz, .. } = self.odd.shape;
        if self.axis == Axis::Z {
            for k in 0..nz {
                line.resized(nx, 1);
                self.right_hand_side(j, k, plane, beside, line, Axis::X);
                line.solve_along(&mut plane.below, &mut plane.above, self.odd.at(0, k as isize));
            }
            return;
        }
        line.resized(nx, nz);
        for k in 0..nz {
            self.right_hand_side(j, k, plane, beside, line, Axis::Z);
            line.eliminate(k, nx);
        }
        line.substitute(nz, nx);
        let step = if parity.is_some() { 2 } else { 1 };
        for k in 0..nz {
            let start = self.odd.at(0, k as isize);
            for (w, values) in [&mut plane.below, &mut plane.above].into_iter().zip(&line.values) {
                let row = w[start..start + nx].iter_mut().zip(&values[k * nx..(k + 1) * nx]);
                for (w, &value) in row.skip(parity.unwrap_or(0)).step_by(step) {
                    *w = value.clamp(0.0, 1.0);
                }
            }
        }
    }

    /// Leaves what is tied to row (j, k): `out`, `next` and `right`.
    #[inline(always)]
    fn right_hand_side(
        &self,
        j: usize,
        k: usize,
        plane: &WeightPlane,
        beside: [Option<&WeightPlane>; 2],
        line: &mut Line,
        along: Axis,
    ) {
        let (grid, (fine_j, fine_k)) = (self.matrix.grid, self.fine_row(j, k));
        let nx = self.odd.shape.nx;
        let [right_below, right_above] = &mut line.right;
        self.toward(j, k, -1, right_below);
        self.toward(j, k, 1, right_above);
        let sums = self.matrix.sums(fine_j, fine_k);
        for (i, s) in self.pick(sums).enumerate() {
            line.out[i] = right_below[i] + right_above[i] + s.max(0.0);
        }
        line.next.fill(0.0);
        for offset in self.matrix.offsets() {
            if offset[self.axis as usize] != 0 {
                continue;
            }
            let [dx, dy, dz] = offset;
            let c = self.matrix.row(fine_j, fine_k, offset);
            let is_along = offset.iter().filter(|&&d| d != 0).count() == 1 && offset[along as usize] != 0;
            // Across periodic sides weights go their own ways.
            let other_k = k as isize + dz;
            if !(0..self.odd.shape.nz as isize).contains(&other_k) {
                continue;
            }
            let source = match dy {
                0 => Some(plane),
                -1 => beside[0],
                _ => beside[1],
            };
            let Some(source) = source else { continue };
            let skip_first = usize::from(dx < 0 && grid.periodic[0]);
            let count = nx - usize::from(dx > 0 && grid.periodic[0]);
            if is_along {
                if offset[along as usize] > 0 {
                    for (i, c) in self.pick(c).enumerate().take(count) {
                        line.next[i] = c.max(0.0);
                    }
                }
                continue;
            }
            let at = self.odd.at(dx, other_k);
            let (w_below, w_above) = (&source.below[at..at + nx], &source.above[at..at + nx]);
            for (i, c) in self.pick(c).enumerate().take(count).skip(skip_first) {
                let q = c.max(0.0);
                line.out[i] += q;
                right_below[i] += q * w_below[i];
                right_above[i] += q * w_above[i];
            }
        }
    }

    /// Makes weights exactly 1 together where they nearly are, and 0 in inactive cells; fills the ghosts.
    #[inline(always)]
    fn finish(&self, j: usize, plane: &mut WeightPlane) {
        let Shape { nx, nz, .. } = self.odd.shape;
        let d = self.axis as usize;
        let (fine, mut diagonals) = (self.matrix.grid, vec![0.0; self.matrix.grid.shape.nx]);
        for k in 0..nz {
            let (fine_j, fine_k) = self.fine_row(j, k);
            self.matrix.diagonals(fine_j, fine_k as usize, &mut diagonals);
            for i in 0..nx {
                let at = self.odd.at(i as isize, k as isize);
                let (below, above) = (&mut plane.below[at], &mut plane.above[at]);
                if 2 * [i, j, k][d] + 2 == fine.extents()[d] && !fine.periodic[d] {
                    *above = 0.0;
                }
                let total = *below + *above;
                if total > 1.0 - NEARLY_ONE {
                    *above /= total;
                    *below = 1.0 - *above;
                }
                let fine_i = if self.axis == Axis::X { 2 * i + 1 } else { i };
                if diagonals[fine_i] <= 0.0 {
                    (*below, *above) = (0.0, 0.0);
                }
            }
        }
        self.odd.fill_ghosts(&mut plane.below);
        self.odd.fill_ghosts(&mut plane.above);
    }
}

fn inverse(x: f64) -> f64 {
    if x > 0.0 { 1.0 / x } else { 0.0 }
}

impl Line {
    /// Row k of lines that go from row to row, on the way up: no pivot is a difference.
    #[inline(always)]
    fn eliminate(&mut self, k: usize, n: usize) {
        let Self { out, next, right, excess, before, factors, values } = self;
        let [low, high] = values;
        let (low_before, low_row) = low.split_at_mut(k * n);
        let (high_before, high_row) = high.split_at_mut(k * n);
        let factors = &mut factors[k * n..(k + 1) * n];
        for i in 0..n {
            let e = before[i] * excess[i] + out[i];
            let pivot = inverse(next[i] + e);
            let (mut a, mut b) = (right[0][i], right[1][i]);
            if k > 0 {
                a += before[i] * low_before[(k - 1) * n + i];
                b += before[i] * high_before[(k - 1) * n + i];
            }
            (low_row[i], high_row[i]) = (a * pivot, b * pivot);
            factors[i] = next[i] * pivot;
            excess[i] = e * pivot;
            before[i] = next[i];
        }
    }

    /// The way down.
    #[inline(always)]
    fn substitute(&mut self, rows: usize, n: usize) {
        let Self { factors, values, .. } = self;
        for k in (0..rows - 1).rev() {
            for values in &mut *values {
                let (own, above) = values[k * n..].split_at_mut(n);
                let rows = own.iter_mut().zip(&above[..n]).zip(&factors[k * n..]);
                rows.for_each(|((own, above), factor)| *own += factor * *above);
            }
        }
    }

    /// One line along a row; goes to the weights from `start`.
    #[inline(always)]
    fn solve_along(&mut self, below: &mut [f64], above: &mut [f64], start: usize) {
        let Self { out, next, right, factors, values, .. } = self;
        let n = out.len();
        let (mut excess, mut before, mut last) = (0.0f64, 0.0f64, [0.0; 2]);
        for i in 0..n {
            let e = before * excess + out[i];
            let pivot = inverse(next[i] + e);
            last = [0, 1].map(|which| (before * last[which] + right[which][i]) * pivot);
            (values[0][i], values[1][i]) = (last[0], last[1]);
            factors[i] = next[i] * pivot;
            (excess, before) = (e * pivot, next[i]);
        }
        let mut next = [0.0; 2];
        for i in (0..n).rev() {
            next = [0, 1].map(|which| factors[i] * next[which] + values[which][i]);
            (below[start + i], above[start + i]) = (next[0].clamp(0.0, 1.0), next[1].clamp(0.0, 1.0));
        }
    }
}
