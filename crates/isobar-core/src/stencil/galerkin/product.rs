//! PᵀAP in one direction.
//!
//! P keeps to lines, so A_c couples a line to the same lines as A does, and each pair of lines gives a tridiagonal block of
//! its own: with E the couplings from line q to line q′, and a, b the weights below and above of the odd cells,
//!
//! ```text
//! C(I, I)   = E(2I, 2I) + E(2I, ·) and E(·, 2I) with the odd cells beside + products of these
//! C(I, I+1) = b′ E(2I, 2I+1) + a b′ E(2I+1, 2I+1) + a E(2I+1, 2I+2)        a, b of line q, a′, b′ of line q′
//! ```
//!
//! and of a line with itself C(I, I+1) = b E(2I, 2I+1) + a E(2I+1, 2I+2) − a b d(2I+1), d the diagonal.
//! Row sums are those of A applied to P 1 by differences, restricted: s_c = Pᵀ(A P 1).

use super::couplings::{CouplingPlane, Couplings, Grid, Offset, UPPER, is_present, upper_offset};
use super::weights::Weights;
use super::{Axis, Execute};

/// A factor of a term: a weight of an odd cell.
#[derive(Clone, Copy)]
enum Factor {
    One,
    /// Of the odd cell so far from 2I + 1 in pairs of cells; whether its weight above, not below; in the line at the offset.
    Weight {
        pair: isize,
        above: bool,
        is_other: bool,
    },
}

/// A coupling E of the fine cell at 2I + `from`, in the direction `step` along the line, times two weights.
#[derive(Clone, Copy)]
struct Term {
    factors: [Factor; 2],
    from: isize,
    step: isize,
}

const fn w(pair: isize, above: bool, is_other: bool) -> Factor {
    Factor::Weight { pair, above, is_other }
}

const fn term(a: Factor, b: Factor, from: isize, step: isize) -> Term {
    Term { factors: [a, b], from, step }
}

/// Own weights, and those of the other line.
const OWN_BELOW: Factor = w(0, false, false);
const OWN_ABOVE_BEFORE: Factor = w(-1, true, false);
const OTHER_BELOW: Factor = w(0, false, true);
const OTHER_ABOVE: Factor = w(0, true, true);
const OTHER_ABOVE_BEFORE: Factor = w(-1, true, true);
const OTHER_BELOW_BEFORE: Factor = w(-1, false, true);

/// C(I, I)
const SAME: [Term; 7] = [
    term(Factor::One, Factor::One, 0, 0),
    term(OWN_ABOVE_BEFORE, OTHER_ABOVE_BEFORE, -1, 0),
    term(OWN_ABOVE_BEFORE, Factor::One, -1, 1),
    term(Factor::One, OTHER_ABOVE_BEFORE, 0, -1),
    term(Factor::One, OTHER_BELOW, 0, 1),
    term(OWN_BELOW, Factor::One, 1, -1),
    term(OWN_BELOW, OTHER_BELOW, 1, 0),
];
/// C(I, I + 1)
const NEXT: [Term; 3] =
    [term(Factor::One, OTHER_ABOVE, 0, 1), term(OWN_BELOW, OTHER_ABOVE, 1, 0), term(OWN_BELOW, Factor::One, 1, 1)];
/// C(I, I − 1)
const LAST: [Term; 3] = [
    term(OWN_ABOVE_BEFORE, Factor::One, -1, -1),
    term(OWN_ABOVE_BEFORE, OTHER_BELOW_BEFORE, -1, 0),
    term(Factor::One, OTHER_BELOW_BEFORE, 0, -1),
];

/// Which offsets PᵀAP has couplings for, where A has some for `present` and a direction becomes that of `coarse`.
pub fn coarse_offsets(present: &[bool; UPPER], axis: Axis, coarse: &Grid) -> [bool; UPPER] {
    let d = axis as usize;
    // Sums over a direction that has come down to one cell: what was coupled across a ring is not any more.
    let is_one = coarse.extents()[d] == 1;
    std::array::from_fn(|n| {
        let mut offset = upper_offset(n);
        if is_one && offset[d] != 0 {
            return false;
        }
        // Along the line a coupling comes of any across it.
        [-1, 0, 1].into_iter().any(|step| {
            offset[d] = step;
            is_present(present, offset)
        })
    })
}

/// PᵀAP
pub fn product(execute: &impl Execute, fine: &Couplings, weights: &Weights) -> Couplings {
    let grid = weights.coarse;
    let mut coarse = Couplings::zeros(execute, grid, coarse_offsets(&fine.present, weights.axis, &grid));
    let making = Making { fine, weights, grid, is_one: grid.extents()[weights.axis as usize] == 1 };
    execute.for_each(
        &mut coarse.planes,
        #[inline(always)]
        |j, plane| making.plane(j, plane),
    );
    coarse
}

struct Making<'a> {
    fine: &'a Couplings,
    weights: &'a Weights,
    grid: Grid,
    is_one: bool,
}

impl Making<'_> {
    fn axis(&self) -> Axis {
        self.weights.axis
    }

    #[inline(always)]
    fn plane(&self, j: usize, plane: &mut CouplingPlane) {
        let (nx, nz) = (self.grid.shape.nx, self.grid.shape.nz);
        let d = self.axis() as usize;
        let mut scratch = Scratch::new(self.fine.grid.span());
        for k in 0..nz {
            let start = self.grid.at(0, k as isize);
            for n in 0..UPPER {
                if plane.couplings[n].is_empty() {
                    continue;
                }
                let out = &mut plane.couplings[n][start..start + nx];
                let mut across = upper_offset(n);
                let along = std::mem::take(&mut across[d]);
                if across == [0; 3] {
                    self.add(&[term(Factor::One, OTHER_ABOVE, 0, 1), NEXT[2]], across, [j, k], out);
                    self.subtract_diagonal([j, k], out, &mut scratch);
                    self.add_ring_end(1, across, [j, k], out);
                    continue;
                }
                match along {
                    0 => self.add(&SAME, across, [j, k], out),
                    1 => self.add(&NEXT, across, [j, k], out),
                    _ => self.add(&LAST, across, [j, k], out),
                }
                if self.is_one {
                    self.add(&NEXT, across, [j, k], out);
                    self.add(&LAST, across, [j, k], out);
                    self.add_ring_end(1, across, [j, k], out);
                    self.add_ring_end(-1, across, [j, k], out);
                } else {
                    self.add_ring_end(along, across, [j, k], out);
                }
            }
            self.sums([j, k], &mut plane.sums[start..start + nx], &mut scratch);
        }
        plane.couplings.iter_mut().filter(|c| !c.is_empty()).for_each(|c| self.grid.fill_ghosts(c));
        self.grid.fill_ghosts(&mut plane.sums);
    }

    /// The fine row at `from` of a coarse row, and where its cell 2I is for I = 0 and how far apart these are; none where
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

    /// Weights of the odd cells at a pair, of the own line or of the one at an offset across.
    #[inline(always)]
    fn weights(&self, [j, k]: [usize; 2], pair: isize, above: bool, [dx, dy, dz]: Offset) -> &[f64] {
        let (mut j, mut k, mut i) = (j as isize + dy, k as isize + dz, 1 + dx);
        match self.axis() {
            Axis::X => i += pair,
            Axis::Y => j += pair,
            Axis::Z => k += pair,
        }
        &self.weights.rows(j, k)[usize::from(above)][i as usize..]
    }

    /// out += Σ terms
    #[inline(always)]
    fn add(&self, terms: &[Term], across: Offset, row: [usize; 2], out: &mut [f64]) {
        for &Term { factors, from, step } in terms {
            let mut offset = across;
            offset[self.axis() as usize] = step;
            if !self.fine.has(offset) {
                continue;
            }
            let Some((j, k, first, stride)) = self.fine_row(row, from) else { continue };
            let e = self.fine.row(j, k, offset);
            let weights = factors.map(|factor| match factor {
                Factor::One => None,
                Factor::Weight { pair, above, is_other } => {
                    Some(self.weights(row, pair, above, if is_other { across } else { [0; 3] }))
                }
            });
            let e = e.get(first..).unwrap_or(&[]).iter().step_by(stride);
            let terms = out.iter_mut().zip(e);
            match weights {
                [None, None] => terms.for_each(|(out, e)| *out += e),
                [Some(a), None] | [None, Some(a)] => terms.zip(a).for_each(|((out, e), a)| *out += e * *a),
                [Some(a), Some(b)] => {
                    terms.zip(a).zip(b).for_each(|(((out, e), a), b)| *out += a * b * e);
                }
            }
        }
    }

    /// In a ring of odd length the last cell and the first are both even, and coupled as they are.
    fn add_ring_end(&self, along: isize, across: Offset, row @ [j, k]: [usize; 2], out: &mut [f64]) {
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
            _ => out.iter_mut().zip(&e[first..]).for_each(|(out, e)| *out += e),
        }
    }

    /// out −= a b d(2I + 1)
    #[inline(always)]
    fn subtract_diagonal(&self, row: [usize; 2], out: &mut [f64], scratch: &mut Scratch) {
        let Some((j, k, first, stride)) = self.fine_row(row, 1) else { return };
        self.fine.diagonals(j, k as usize, &mut scratch.diagonal);
        // `first` counts the ghost, which diagonals have none of.
        let d = scratch.diagonal.get(first - 1..).unwrap_or(&[]).iter().step_by(stride);
        let [a, b] = [false, true].map(|above| self.weights(row, 0, above, [0; 3]));
        for (((out, d), a), b) in out.iter_mut().zip(d).zip(a).zip(b) {
            *out -= a * b * d;
        }
    }

    /// s_c = Pᵀ(A P 1)
    #[inline(always)]
    fn sums(&self, row: [usize; 2], out: &mut [f64], scratch: &mut Scratch) {
        if self.axis() == Axis::X {
            // One fine row has all three.
            self.times_one([row[0], row[1]], scratch);
            let below = self.weights(row, 0, false, [0; 3]);
            let above_before = self.weights(row, -1, true, [0; 3]);
            let t = &scratch.product;
            let n = self.fine.grid.shape.nx;
            for (i, out) in out.iter_mut().enumerate() {
                *out += t[2 * i + 1];
                if 2 * i + 1 < n {
                    *out += below[i] * t[2 * i + 2];
                }
                let before = if i > 0 { t[2 * i] } else { t[n] };
                *out += above_before[i] * before;
            }
            return;
        }
        for (from, weight) in [(0, None), (1, Some((0, false))), (-1, Some((-1, true)))] {
            let Some((j, k, ..)) = self.fine_row(row, from) else { continue };
            self.times_one([j, k as usize], scratch);
            let t = &scratch.product[1..];
            match weight {
                None => out.iter_mut().zip(t).for_each(|(out, t)| *out += t),
                Some((pair, above)) => {
                    let w = self.weights(row, pair, above, [0; 3]);
                    out.iter_mut().zip(t).zip(w).for_each(|((out, t), w)| *out += w * *t);
                }
            }
        }
    }

    /// A P 1 of a fine row, by differences, from entry 1.
    #[inline(always)]
    fn times_one(&self, [j, k]: [usize; 2], scratch: &mut Scratch) {
        let (grid, n) = (self.fine.grid, self.fine.grid.shape.nx);
        let of_one = |dy: isize| grid.beside(j, dy).and_then(|j| self.weights.of_one[j].as_ref());
        let planes = [-1, 0, 1].map(of_one);
        let t = &mut scratch.product;
        t[1..=n].copy_from_slice(&self.fine.sums(j, k as isize)[1..=n]);
        if planes.iter().all(Option::is_none) {
            return;
        }
        let ones = &scratch.ones[..n];
        let row = |dx: isize, dy: isize, dz: isize| match planes[(dy + 1) as usize] {
            Some(plane) => plane.get(grid.at(dx, k as isize + dz)..).and_then(|row| row.get(..n)).unwrap_or(ones),
            None => ones,
        };
        let own = row(0, 0, 0);
        t[1..=n].iter_mut().zip(own).for_each(|(t, v)| *t *= v);
        for offset @ [dx, dy, dz] in self.fine.offsets() {
            let c = &self.fine.row(j, k as isize, offset)[1..=n];
            let terms = t[1..=n].iter_mut().zip(c).zip(own).zip(row(dx, dy, dz));
            terms.for_each(|(((t, c), v), other)| *t += c * (v - other));
        }
    }
}

struct Scratch {
    diagonal: Vec<f64>,
    product: Vec<f64>,
    ones: Vec<f64>,
}

impl Scratch {
    fn new(row: usize) -> Self {
        Self { diagonal: vec![0.0; row], product: vec![0.0; row], ones: vec![1.0; row] }
    }
}
