//! Tridiagonal systems, one for each pair of modes, with a mode a lane.

use isobar_core::direct::Lines;
use isobar_core::simd::Pack;
use pulp::{Simd, WithSimd};

use super::both::packs;
use crate::shared::Shared;

/// Packs of modes that are solved at the same time, to hide the latency of divisions.
pub(super) const PACKS: usize = 4;

/// σ, the weights and the coupling to the next cell, cell by cell.
#[derive(Debug)]
pub(super) struct Systems {
    cells: Vec<Cell>,
    is_periodic: bool,
    /// The smallest pivot, see [`Lines::least_pivot`].
    least: f64,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    shift: f64,
    weights: [f64; 2],
    coupling: f64,
}

impl Systems {
    pub(super) fn new(lines: &Lines) -> Self {
        let cell = |k: usize| Cell {
            shift: lines.shift[k],
            weights: [lines.weights[0][k], lines.weights[1][k]],
            coupling: lines.couplings[k],
        };
        let cells = (0..lines.len()).map(cell).collect();
        Self { cells, is_periodic: lines.is_periodic(), least: lines.least_pivot }
    }

    /// Returns the packs of scratch, for lines of this many packs in all.
    pub(super) fn scratch(&self, packs: usize) -> usize {
        PACKS.min(packs) * if self.is_periodic { 3 } else { 2 } * self.cells.len()
    }

    /// Returns the shift and weights of each cell, and its coupling to the next.
    pub(super) fn rows(&self) -> impl Iterator<Item = ([f64; 3], f64)> {
        self.cells.iter().map(|&Cell { shift, weights: [a, b], coupling }| ([shift, a, b], coupling))
    }

    /// Returns the least distance of pivots from 0.
    pub(super) fn least(&self) -> f64 {
        self.least
    }

    /// Returns the bytes of its numbers.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.cells[..])
    }
}

/// The places of a pack of modes: in cell 0 of its lines, among the eigenvalues of the first axis, and the number of its eigenvalue
/// of the second.
pub(super) type Place = (usize, usize, usize);

/// Solves some packs of lines, with the pivots of [`Lines::pivots`].
pub(super) struct Solve<'a> {
    pub(super) systems: &'a Systems,
    pub(super) values: [&'a [f64]; 2],
    pub(super) x: Shared<f64>,
    /// The distance from a cell to the next.
    pub(super) stride: usize,
    pub(super) places: &'a [Place],
    pub(super) scratch: &'a mut [f64],
}

impl WithSimd for Solve<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        if self.systems.cells.is_empty() {
            return;
        }
        let (fours, rest) = self.places.as_chunks::<PACKS>();
        for four in fours {
            self.solve(simd, four);
        }
        let (twos, rest) = rest.as_chunks::<2>();
        for two in twos {
            self.solve(simd, two);
        }
        for &one in rest {
            self.solve(simd, &[one]);
        }
    }
}

impl Solve<'_> {
    #[inline(always)]
    fn solve<const N: usize, S: Simd>(&mut self, simd: S, places: &[Place; N]) {
        match self.systems.is_periodic {
            true => self.periodic(simd, places),
            false => self.open(simd, places),
        }
    }

    /// ```text
    /// e += σ + μ D_a + ν D_b;   y += b;   p = e + t;   (e, y) → (t e / p, t y / p) of the next cell
    /// ```
    #[inline(always)]
    fn open<const N: usize, S: Simd>(&mut self, simd: S, places: &[Place; N]) {
        let Self { systems, values, x, stride, ref mut scratch, .. } = *self;
        let (numbers, _) = S::as_mut_simd_f64s(scratch).0.as_chunks_mut::<2>();
        let (numbers, _) = numbers.as_chunks_mut::<N>();
        let zero = Pack::splat(simd, 0.0);
        let [mu, nu] = eigenvalues(simd, values, places);
        let (mut excess, mut y) = ([zero; N], [zero; N]);
        let last = systems.cells.len() - 1;
        for (k, (cell, numbers)) in systems.cells.iter().zip(numbers.iter_mut()).enumerate() {
            let Cell { shift, weights, coupling } = *cell;
            let (shift, coupling) = (Pack::splat(simd, shift), Pack::splat(simd, coupling));
            let (a, b) = (Pack::splat(simd, weights[0]), Pack::splat(simd, weights[1]));
            for n in 0..N {
                let e = excess[n] + mu[n].mul_add(a, nu[n].mul_add(b, shift));
                // SAFETY: these lines belong to this thread.
                let r = unsafe { x.packs(simd, (places[n].0 + k * stride) as isize, S::F64_LANES) }.get(0);
                let (r, pivot) = (r + y[n], e + coupling);
                let least = systems.least;
                let inverse = if k == last { last_inverse(simd, pivot, least) } else { inverse(simd, pivot, least) };
                let next = coupling * inverse;
                numbers[n] = [(inverse * r).register(), next.register()];
                (excess[n], y[n]) = (next * e, next * r);
            }
        }
        let mut above = [zero; N];
        for (k, numbers) in numbers[..=last].iter().enumerate().rev() {
            for n in 0..N {
                let [y, next] = packs(simd, numbers[n]);
                above[n] = next.mul_add(above[n], y);
                // SAFETY: these lines belong to this thread.
                unsafe { x.packs_mut(simd, (places[n].0 + k * stride) as isize, S::F64_LANES) }.set(0, above[n]);
            }
        }
    }

    /// Solves periodic lines: the last cell, which couples to all by w, is eliminated last.
    #[inline(always)]
    fn periodic<const N: usize, S: Simd>(&mut self, simd: S, places: &[Place; N]) {
        let Self { systems, values, x, stride, ref mut scratch, .. } = *self;
        let (numbers, _) = S::as_mut_simd_f64s(scratch).0.as_chunks_mut::<3>();
        let (numbers, _) = numbers.as_chunks_mut::<N>();
        let zero = Pack::splat(simd, 0.0);
        let [mu, nu] = eigenvalues(simd, values, places);
        let row_sum = |cell: &Cell, n: usize| {
            let (a, b) = (Pack::splat(simd, cell.weights[0]), Pack::splat(simd, cell.weights[1]));
            mu[n].mul_add(a, nu[n].mul_add(b, Pack::splat(simd, cell.shift)))
        };
        let position = |n: usize, k: usize| (places[n].0 + k * stride) as isize;
        // SAFETY: these lines belong to this thread.
        let load = |n: usize, k: usize| unsafe { x.packs(simd, position(n, k), S::F64_LANES) }.get(0);
        // SAFETY: as above.
        let store =
            |n: usize, k: usize, value| unsafe { x.packs_mut(simd, position(n, k), S::F64_LANES) }.set(0, value);
        let last = systems.cells.len() - 1;
        let end = &systems.cells[last];
        let mut to_last = [Pack::splat(simd, end.coupling); N];
        let (mut excess, mut y) = ([zero; N], [zero; N]);
        let (mut last_excess, mut last_y) = ([zero; N], [zero; N]);
        for n in 0..N {
            (last_excess[n], last_y[n]) = (row_sum(end, n), load(n, last));
        }
        for (k, (cell, numbers)) in systems.cells[..last].iter().zip(numbers.iter_mut()).enumerate() {
            let mut coupling = Pack::splat(simd, cell.coupling);
            if k + 1 == last {
                for w in &mut to_last {
                    *w = *w + coupling;
                }
                coupling = zero;
            }
            for n in 0..N {
                let (e, r) = (excess[n] + row_sum(cell, n), load(n, k) + y[n]);
                let inverse = inverse(simd, e + coupling + to_last[n], systems.least);
                let (next, beyond) = (coupling * inverse, to_last[n] * inverse);
                numbers[n] = [(inverse * r).register(), next.register(), beyond.register()];
                last_excess[n] = beyond.mul_add(e, last_excess[n]);
                last_y[n] = beyond.mul_add(r, last_y[n]);
                to_last[n] = next * to_last[n];
                (excess[n], y[n]) = (next * e, next * r);
            }
        }
        let mut end = [zero; N];
        for n in 0..N {
            end[n] = last_y[n] * last_inverse(simd, last_excess[n], systems.least);
            store(n, last, end[n]);
        }
        let mut above = [zero; N];
        for (k, numbers) in numbers[..last].iter().enumerate().rev() {
            for n in 0..N {
                let [y, next, beyond] = numbers[n];
                let y = Pack::new(simd, beyond).mul_add(end[n], Pack::new(simd, y));
                above[n] = Pack::new(simd, next).mul_add(above[n], y);
                store(n, k, above[n]);
            }
        }
    }
}

/// Returns 1 / p; pivots of an indefinite matrix are moved away from 0.
#[inline(always)]
pub(super) fn inverse<S: Simd>(simd: S, pivot: Pack<S, f64>, least: f64) -> Pack<S, f64> {
    let one = Pack::splat(simd, 1.0);
    if least == 0.0 {
        return one.over(pivot);
    }
    let splat = |value: f64| simd.splat_f64s(value);
    let p = pivot.register();
    let far = simd.select_f64s(simd.greater_than_f64s(splat(0.0), p), splat(-least), splat(least));
    let is_near = simd.greater_than_f64s(splat(least), simd.abs_f64s(p));
    one.over(Pack::new(simd, simd.select_f64s(is_near, far, p)))
}

/// Returns 1 / p of the last cell, and 0 for the zero pivot of a singular system.
#[inline(always)]
fn last_inverse<S: Simd>(simd: S, pivot: Pack<S, f64>, least: f64) -> Pack<S, f64> {
    if least == 0.0 { pivot.reciprocal() } else { inverse(simd, pivot, least) }
}

#[inline(always)]
pub(super) fn eigenvalues<const N: usize, S: Simd>(
    simd: S,
    [a, b]: [&[f64]; 2],
    places: &[Place; N],
) -> [[Pack<S, f64>; N]; 2] {
    let zero = Pack::splat(simd, 0.0);
    let (mut mu, mut nu) = ([zero; N], [zero; N]);
    for (n, &(_, at, number)) in places.iter().enumerate() {
        mu[n] = Pack::new(simd, S::as_simd_f64s(&a[at..at + S::F64_LANES]).0[0]);
        nu[n] = Pack::splat(simd, b[number]);
    }
    [mu, nu]
}
