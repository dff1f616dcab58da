//! PᵀAP in one direction.
//!
//! P interpolates along lines, so that A_c couples the same lines as A does, and each pair of lines gives a tridiagonal block:
//! with E the couplings from line q to line q′, and a, b the weights below and above of the odd cells,
//!
//! ```text
//! C(I, I)   = E(2I, 2I) + E(2I, ·) and E(·, 2I) with the odd cells beside + products of these
//! C(I, I+1) = b′ E(2I, 2I+1) + a b′ E(2I+1, 2I+1) + a E(2I+1, 2I+2)        a, b of line q, a′, b′ of line q′
//! ```
//!
//! and for a line with itself C(I, I+1) = b E(2I, 2I+1) + a E(2I+1, 2I+2) − a b d(2I+1), d the diagonal. Row sums are those of A
//! applied to P 1 by differences, restricted: s_c = Pᵀ(A P 1).

use super::Execute;
use super::couplings::{CouplingPlane, Couplings, Grid, Offset, UPPER, is_present, number, upper_offset};
use super::weights::Weights;
use super::window::Window;
use crate::layout::{Axis, Shape};
use crate::real::Real;

/// The fraction of Σ P² d, over the fine cells of the coarse cell, below which a diagonal of PᵀAP is rounding: these cells are
/// coupled only to each other, and only their constant remains, which is in the null space of A. Such a coarse cell gets no
/// couplings, and Σ P² d as its diagonal, so that its correction is negligible and does not spread.
pub const COLLAPSED: f64 = 1e-13;

/// Returns the offsets of PᵀAP's couplings, where A has those of `present` and a direction becomes that of `coarse`.
pub fn coarse_offsets(present: &[bool; UPPER], axis: Axis, coarse: &Grid) -> [bool; UPPER] {
    let d = axis as usize;
    // A direction with one cell left has no couplings, not even periodic ones.
    let is_one = coarse.extents()[d] == 1;
    std::array::from_fn(|n| {
        let mut offset = upper_offset(n);
        if is_one && offset[d] != 0 {
            return false;
        }
        // A coupling along the line results from any across it.
        [-1, 0, 1].into_iter().any(|step| {
            offset[d] = step;
            is_present(present, offset)
        })
    })
}

/// Computes PᵀAP, except for cells that have [`COLLAPSED`]. In a window it has room for rows that the finer one does not determine.
pub fn product<N: Real>(
    execute: &impl Execute,
    fine: &Couplings<N>,
    weights: &Weights<N>,
    window: Option<&Window>,
) -> Couplings<N> {
    let grid = weights.coarse;
    let present = coarse_offsets(&fine.present, weights.axis, &grid);
    let [wide, first] = match (window, &fine.window) {
        (Some(window), Some(finer)) => [window.rows(), window.first_of_half(finer, weights.axis)],
        _ => [grid.shape.ny, 0],
    };
    let wide = Grid { shape: Shape { ny: wide, ..grid.shape }, ..grid };
    let mut coarse = Couplings::of_any(wide, present, &fine.spare);
    let making = Making { fine, weights, grid, is_one: grid.extents()[weights.axis as usize] == 1 };
    let made = coarse.planes_mut().into_iter().skip(first).take(grid.shape.ny);
    let mut planes: Vec<_> = made.map(|plane| (plane, Vec::new())).collect();
    execute.for_each(
        &mut planes,
        #[inline(always)]
        |j, (plane, collapsed)| making.plane(j, plane, collapsed),
    );
    let collapsed = planes.into_iter().flat_map(|(_, collapsed)| collapsed);
    let collapsed: Vec<([usize; 3], N)> = collapsed.map(|([i, j, k], sum)| ([i, first + j, k], sum)).collect();
    coarse.hold(&collapsed);
    coarse
}

struct Making<'a, N> {
    fine: &'a Couplings<N>,
    weights: &'a Weights<N>,
    grid: Grid,
    is_one: bool,
}

impl<N: Real> Making<'_, N> {
    fn axis(&self) -> Axis {
        self.weights.axis
    }

    #[inline(always)]
    fn plane(&self, j: usize, plane: &mut CouplingPlane<'_, N>, collapsed: &mut Vec<([usize; 3], N)>) {
        let (nx, nz) = (self.grid.shape.nx, self.grid.shape.nz);
        let d = self.axis() as usize;
        let mut scratch = Scratch::new(self.fine, self.grid);
        let mut diagonals = vec![N::ZERO; self.fine.grid.shape.nx];
        for k in 0..nz {
            let (row, start) = ([j, k], self.grid.at(0, k as isize));
            if d == 0 {
                scratch.split(self.fine, row);
            }
            for (n, couplings) in plane.couplings.iter_mut().enumerate().filter(|(_, c)| !c.is_empty()) {
                let out = &mut couplings[start..start + nx];
                let mut across = upper_offset(n);
                let along = std::mem::take(&mut across[d]);
                let block = Block { making: self, scratch: &scratch, row, across };
                match along {
                    _ if across == [0; 3] => block.own_next(out),
                    0 => block.same(out),
                    1 => block.next(out),
                    _ => block.last(out),
                }
                if self.is_one && across != [0; 3] {
                    let mut more = vec![N::ZERO; nx];
                    for part in [Block::next, Block::last] {
                        part(&block, &mut more);
                        out.iter_mut().zip(&more).for_each(|(out, &more)| *out += more);
                    }
                    self.add_ring_end(1, across, row, out);
                    self.add_ring_end(-1, across, row, out);
                } else {
                    self.add_ring_end(along, across, row, out);
                }
            }
            self.sums(row, &mut plane.sums[start..start + nx], &mut scratch.one);
            self.find_collapsed(row, &scratch, &mut diagonals, collapsed);
        }
        for field in plane.couplings.iter_mut().filter(|c| !c.is_empty()).chain([&mut plane.sums]) {
            self.grid.clear_ghosts(field);
            self.grid.fill_ghosts(field);
        }
    }

    /// Adds the cells of a row that have [`COLLAPSED`], with Σ P² d.
    ///
    /// With a and b the weights of coarse cell I in the odd cells before and after, its diagonal is d(2I) + a² d(2I−1) + b²
    /// d(2I+1) − 2 (a E(2I, 2I−1) + b E(2I, 2I+1)), which is 0 if a and b are 1 and these cells are coupled only to each
    /// other.
    #[inline(always)]
    fn find_collapsed(
        &self,
        row @ [j, k]: [usize; 2],
        scratch: &Scratch<N>,
        diagonals: &mut [N],
        collapsed: &mut Vec<([usize; 3], N)>,
    ) {
        let block = Block { making: self, scratch, row, across: [0; 3] };
        let (e_before, e_after) = (block.e(-1, 1), block.e(0, 1));
        let (before, after) = (block.w(-1, true, false), block.w(0, false, false));
        // With two periodic cells the previous cell is the next.
        let is_pair = self.is_one && self.weights.odd.periodic[self.axis() as usize];
        let terms = |i: usize| match is_pair {
            true => ([N::ZERO, before[i] + after[i]], [N::ZERO, e_before[i] + e_after[i]]),
            false => ([before[i], after[i]], [e_before[i], e_after[i]]),
        };
        let nearly = N::from_f64(0.99);
        // Elsewhere no diagonal need be computed.
        let may_be = |i: usize| {
            let (w, e) = terms(i);
            let is_one = |n: usize| (e[n] <= N::ZERO) | (w[n] > nearly);
            is_one(0) & is_one(1) & (e[0] + e[1] > N::ZERO)
        };
        if !(0..before.len()).fold(false, |any, i| any | may_be(i)) {
            return;
        }
        let Some((fine_j, fine_k, first, stride)) = self.fine_row(row, 0) else { return };
        self.fine.diagonals(fine_j, fine_k as usize, diagonals);
        for i in (0..before.len()).filter(|&i| may_be(i)) {
            let (w, e) = terms(i);
            let odd = [-1, 0].map(|pair| self.odd_diagonal([i, j, k], pair));
            let own = diagonals[first - 1 + stride * i];
            let total = own + w[0] * w[0] * odd[0] + w[1] * w[1] * odd[1];
            let tied = w[0] * e[0] + w[1] * e[1];
            if total - (tied + tied) <= N::from_f64(COLLAPSED) * total {
                collapsed.push(([i, j, k], total));
            }
        }
    }

    /// Returns the diagonal entry of the odd cell at a pair; 0 if there is none.
    fn odd_diagonal(&self, mut at: [usize; 3], pair: isize) -> N {
        let (odd, d) = (&self.weights.odd, self.axis() as usize);
        let count = odd.extents()[d];
        at[d] = match at[d].checked_add_signed(pair) {
            Some(n) if n < count => n,
            None if odd.periodic[d] => count - 1,
            _ => return N::ZERO,
        };
        let [i, j, k] = at;
        self.weights.diagonals([j, k]).get(i).copied().unwrap_or(N::ZERO)
    }

    /// Returns the fine row at `from` of a coarse row, the place of its cell 2I for I = 0 and their distance; nothing where
    /// there is no such row.
    #[inline(always)]
    fn fine_row(&self, [j, k]: [usize; 2], from: isize) -> Option<(usize, isize, usize, usize)> {
        match self.axis() {
            Axis::X => Some((j, k as isize, (1 + from) as usize, 2)),
            Axis::Y => Some((self.fine.grid.beside(2 * j, from)?, k as isize, 1, 1)),
            Axis::Z => {
                let (k, nz) = (2 * k as isize + from, self.fine.grid.shape.nz as isize);
                let k = if self.fine.grid.periodic[2] { k.rem_euclid(nz) } else { k };
                (0..nz).contains(&k).then_some((j, k, 1, 1))
            }
        }
    }

    /// Returns the weights of the odd cells at a pair, of the own line or of the one at an offset across.
    #[inline(always)]
    fn weights(&self, [j, k]: [usize; 2], pair: isize, above: bool, [dx, dy, dz]: Offset) -> &[N] {
        let (mut j, mut k, mut i) = (j as isize + dy, k as isize + dz, 1 + dx);
        match self.axis() {
            Axis::X => i += pair,
            Axis::Y => j += pair,
            Axis::Z => k += pair,
        }
        &self.weights.rows(j, k)[usize::from(above)][i as usize..]
    }

    /// Adds the coupling of the last and the first cell of a periodic direction of odd length, which are both even.
    fn add_ring_end(&self, along: isize, across: Offset, row @ [j, k]: [usize; 2], out: &mut [N]) {
        let d = self.axis() as usize;
        let count = self.fine.grid.extents()[d];
        if along == 0 || !self.fine.grid.periodic[d] || count.is_multiple_of(2) {
            return;
        }
        let mut offset = across;
        offset[d] = along;
        let end = if along > 0 { self.grid.extents()[d] - 1 } else { 0 };
        let Some((fine_j, fine_k, first, stride)) = self.fine_row(row, 0) else { return };
        if !self.fine.has(offset) {
            return;
        }
        let e = self.fine.row(fine_j, fine_k, offset);
        match self.axis() {
            Axis::X => out[end] += e[first + stride * end],
            Axis::Y if j != end => {}
            Axis::Z if k != end => {}
            _ => out.iter_mut().zip(&e[first..]).for_each(|(out, &e)| *out += e),
        }
    }

    /// Computes s_c = Pᵀ(A P 1).
    #[inline(always)]
    fn sums(&self, row: [usize; 2], out: &mut [N], one: &mut TimesOne<N>) {
        if self.axis() == Axis::X {
            // The three cells are in the same fine row.
            let t = self.times_one([row[0], row[1]], one);
            let below = self.weights(row, 0, false, [0; 3]);
            let above_before = self.weights(row, -1, true, [0; 3]);
            let n = self.fine.grid.shape.nx;
            // Every coarse cell is paired with the odd cell before it.
            let pairs = t.as_chunks::<2>().0;
            let rows = out.iter_mut().zip(pairs).zip(above_before);
            rows.for_each(|((out, &[before, own]), &w)| *out = own + w * before);
            let first = t[if self.fine.grid.periodic[0] { n } else { 0 }];
            out[0] = t[1] + above_before[0] * first;
            let rows = out.iter_mut().zip(&pairs[1..]).zip(below).take(n / 2);
            rows.for_each(|((out, &[after, _]), &w)| *out += w * after);
            return;
        }
        for (from, weight) in [(0, None), (1, Some((0, false))), (-1, Some((-1, true)))] {
            let Some((j, k, ..)) = self.fine_row(row, from) else { continue };
            let t = &self.times_one([j, k as usize], one)[1..];
            match weight {
                None => out.copy_from_slice(&t[..out.len()]),
                Some((pair, above)) => {
                    let w = self.weights(row, pair, above, [0; 3]);
                    out.iter_mut().zip(t).zip(w).for_each(|((out, &t), &w)| *out += w * t);
                }
            }
        }
    }

    /// Computes A P 1 of a fine row, by differences, from entry 1.
    #[inline(always)]
    fn times_one<'s>(&'s self, [j, k]: [usize; 2], one: &'s mut TimesOne<N>) -> &'s [N] {
        let (grid, n) = (self.fine.grid, self.fine.grid.shape.nx);
        let of_one = |dy: isize| grid.beside(j, dy).and_then(|j| self.weights.of_one[j].as_ref());
        let planes = [-1, 0, 1].map(of_one);
        let sums = self.fine.sums(j, k as isize);
        if planes.iter().all(Option::is_none) {
            return sums;
        }
        let TimesOne { product: t, ones } = one;
        t[1..=n].copy_from_slice(&sums[1..=n]);
        // A P 1 is the row sum where P 1 is 1 in all neighbours.
        let columns = planes.iter().flatten().map(|of_one| of_one.columns.clone());
        let columns = columns.fold(n..0, |all, own| all.start.min(own.start)..all.end.max(own.end));
        let columns = match grid.periodic[0] {
            true => 0..n,
            false => columns.start.saturating_sub(1)..(columns.end + 1).min(n),
        };
        let ones = &ones[columns.clone()];
        let row = |dx: isize, dy: isize, dz: isize| match planes[(dy + 1) as usize] {
            Some(plane) => {
                let row = plane.values.get(grid.at(dx, k as isize + dz)..);
                row.and_then(|row| row.get(columns.clone())).unwrap_or(ones)
            }
            None => ones,
        };
        let (own, t_part) = (row(0, 0, 0), &mut t[1..][columns.clone()]);
        t_part.iter_mut().zip(own).for_each(|(t, &v)| *t = *t * v);
        for offset @ [dx, dy, dz] in self.fine.offsets() {
            let c = &self.fine.row(j, k as isize, offset)[1..][columns.clone()];
            let terms = t_part.iter_mut().zip(c).zip(own).zip(row(dx, dy, dz));
            terms.for_each(|(((t, &c), &v), &other)| *t += c * (v - other));
        }
        t
    }
}

/// The block of PᵀAP between a row of coarse cells and one at an offset across the direction.
struct Block<'a, N> {
    making: &'a Making<'a, N>,
    scratch: &'a Scratch<N>,
    row: [usize; 2],
    across: Offset,
}

impl<'a, N: Real> Block<'a, N> {
    /// Returns E(2I + from, 2I + from + step), zeros if there are none.
    #[inline(always)]
    fn e(&self, from: isize, step: isize) -> &'a [N] {
        let Self { making, scratch, row, mut across } = *self;
        across[making.axis() as usize] = step;
        let n = making.grid.shape.nx;
        if !making.fine.has(across) {
            return &scratch.zeros[..n];
        }
        if making.axis() == Axis::X {
            let [odd, even] = &scratch.halves[number(across) - UPPER - 1];
            return match from {
                0 => &even[..n],
                1 => &odd[1..=n],
                _ => &odd[..n],
            };
        }
        match making.fine_row(row, from) {
            Some((j, k, ..)) => &making.fine.row(j, k, across)[1..=n],
            None => &scratch.zeros[..n],
        }
    }

    /// Returns the weights of the odd cells at a pair, in the own row or the other one.
    #[inline(always)]
    fn w(&self, pair: isize, above: bool, is_other: bool) -> &'a [N] {
        let across = if is_other { self.across } else { [0; 3] };
        &self.making.weights(self.row, pair, above, across)[..self.making.grid.shape.nx]
    }

    /// Returns whether E has couplings along the direction, not just across.
    #[inline(always)]
    fn is_tridiagonal(&self) -> bool {
        let Self { making, mut across, .. } = *self;
        [-1, 1].into_iter().any(|step| {
            across[making.axis() as usize] = step;
            making.fine.has(across)
        })
    }

    /// Computes C(I, I).
    #[inline(always)]
    fn same(&self, out: &mut [N]) {
        let n = out.len();
        let (even, before, after) = (self.e(0, 0), self.e(-1, 0), self.e(1, 0));
        let (below, other_below) = (self.w(0, false, false), self.w(0, false, true));
        let (above, other_above) = (self.w(-1, true, false), self.w(-1, true, true));
        if !self.is_tridiagonal() {
            for i in 0..n {
                out[i] = even[i] + above[i] * other_above[i] * before[i] + below[i] * other_below[i] * after[i];
            }
            return;
        }
        let (before_up, even_down) = (self.e(-1, 1), self.e(0, -1));
        let (even_up, after_down) = (self.e(0, 1), self.e(1, -1));
        for i in 0..n {
            let lower = above[i] * (other_above[i] * before[i] + before_up[i]) + other_above[i] * even_down[i];
            let upper = below[i] * (other_below[i] * after[i] + after_down[i]) + other_below[i] * even_up[i];
            out[i] = even[i] + lower + upper;
        }
    }

    /// Computes C(I, I + 1).
    #[inline(always)]
    fn next(&self, out: &mut [N]) {
        let n = out.len();
        let after = self.e(1, 0);
        let (below, other_above) = (self.w(0, false, false), self.w(0, true, true));
        if !self.is_tridiagonal() {
            for i in 0..n {
                out[i] = below[i] * other_above[i] * after[i];
            }
            return;
        }
        let (even_up, after_up) = (self.e(0, 1), self.e(1, 1));
        for i in 0..n {
            out[i] = other_above[i] * (even_up[i] + below[i] * after[i]) + below[i] * after_up[i];
        }
    }

    /// Computes C(I, I − 1).
    #[inline(always)]
    fn last(&self, out: &mut [N]) {
        let n = out.len();
        let before = self.e(-1, 0);
        let (above, other_below) = (self.w(-1, true, false), self.w(-1, false, true));
        if !self.is_tridiagonal() {
            for i in 0..n {
                out[i] = above[i] * other_below[i] * before[i];
            }
            return;
        }
        let (before_down, even_down) = (self.e(-1, -1), self.e(0, -1));
        for i in 0..n {
            out[i] = other_below[i] * (even_down[i] + above[i] * before[i]) + above[i] * before_down[i];
        }
    }

    /// Computes C(I, I + 1) of a row with itself.
    #[inline(always)]
    fn own_next(&self, out: &mut [N]) {
        let n = out.len();
        let (even_up, after_up) = (self.e(0, 1), self.e(1, 1));
        let (below, above) = (self.w(0, false, false), self.w(0, true, false));
        let diagonals = self.making.weights.diagonals(self.row);
        for i in 0..n {
            out[i] = above[i] * even_up[i] + below[i] * after_up[i];
        }
        // An odd number of cells has no odd cell after the last.
        for (i, &diagonal) in diagonals.iter().enumerate().take(n) {
            out[i] -= below[i] * above[i] * diagonal;
        }
    }
}

/// Scratch of a thread.
struct Scratch<N> {
    /// For products in x: the couplings of a fine row by stored offset, of the odd cells before and after coarse cells, and of
    /// the even ones.
    halves: Vec<[Vec<N>; 2]>,
    zeros: Vec<N>,
    one: TimesOne<N>,
}

/// Scratch for A P 1.
struct TimesOne<N> {
    product: Vec<N>,
    ones: Vec<N>,
}

impl<N: Real> Scratch<N> {
    fn new(fine: &Couplings<N>, coarse: Grid) -> Self {
        let (n, row) = (coarse.shape.nx, fine.grid.span());
        let one = TimesOne { product: vec![N::ZERO; row], ones: vec![N::ONE; row] };
        Self { halves: vec![[vec![N::ZERO; n + 1], vec![N::ZERO; n]]; UPPER], zeros: vec![N::ZERO; n], one }
    }

    /// Splits a fine row into even and odd cells.
    #[inline(always)]
    fn split(&mut self, fine: &Couplings<N>, [j, k]: [usize; 2]) {
        for n in (0..UPPER).filter(|&n| fine.present[n]) {
            let row = fine.row(j, k as isize, upper_offset(n));
            let [odd, even] = &mut self.halves[n];
            let pairs = row.as_chunks::<2>().0;
            odd.iter_mut().zip(pairs).for_each(|(odd, pair)| *odd = pair[0]);
            even.iter_mut().zip(pairs).for_each(|(even, pair)| *even = pair[1]);
            let last = odd.len() - 1;
            odd[last] = row[2 * last];
        }
    }
}
