//! Lines whose cells are divided among ranks.
//!
//! Every rank eliminates the cells before its last one. What remains are cyclic systems of the last cells of all ranks, one for each pair of modes: each
//! rank solves some of these, and with the ends known the cells between them are those of lines of its own (Wang, ACM Trans. Math. Softw. 7, 170, 1981).

use isobar_core::direct::{Lines, Piece};
use isobar_core::prelude::{Backend, Result, Separable, Shape};
use isobar_core::simd::Pack;
use isobar_dist::Ranks;
use isobar_dist::divided::{Ends, place, row, rows_beside};
use pulp::{Simd, WithSimd};

use super::judge::Own;
use super::lines::{PACKS, Place, Systems, eigenvalues, inverse};
use super::passes::Passes;
use crate::shared::Shared;
use crate::{Cpu, Vector};

/// The ends of this rank's pieces of lines, and the systems of last cells.
pub(super) struct Divided {
    cpu: Cpu,
    /// The matrix on all ranks' rows.
    pub(super) whole: Separable,
    piece: Piece,
    inner: Systems,
    ends: Ends<Cpu>,
    /// All ranks' numbers of this rank's lines.
    sums: Vector<f64>,
    /// The inverses of pivots, and the coefficients of the next and of the last rank, once they are known.
    pivots: Option<[Vector<f64>; 2]>,
}

/// What a piece contributes to the systems of last cells.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    /// To the row sums of the previous rank's last cell and of its own.
    RowSums,
    /// The coupling of both.
    Couplings,
    /// To the right-hand sides of both.
    Sums,
}

impl Divided {
    /// Takes this rank's piece of the lines of a matrix, one for each of so many modes.
    ///
    /// # Errors
    /// The errors of allocation.
    pub(super) fn new(cpu: &Cpu, ranks: &Ranks, whole: &Separable, piece: Piece, modes: usize) -> Result<Self> {
        let ends = Ends::new(cpu, ranks, modes)?;
        let sums = cpu.zeros(&ends.lines)?;
        let inner = Systems::new(&piece.inner);
        Ok(Self { cpu: cpu.clone(), whole: whole.clone(), piece, inner, ends, sums, pivots: None })
    }

    /// Takes other systems of lines with the same modes.
    pub(super) fn change_lines(&mut self, whole: &Separable, piece: Piece) {
        self.inner = Systems::new(&piece.inner);
        (self.whole, self.piece, self.pivots) = (whole.clone(), piece, None);
    }

    /// Returns the bytes of its numbers.
    pub(super) fn bytes(&self) -> usize {
        let all = 3 * self.sums.layout().len() + 2 * self.ends.received().layout().len();
        all * size_of::<f64>() + self.inner.bytes()
    }

    /// Solves for the last cells of lines, and adds them to the right-hand sides of their neighbours.
    ///
    /// # Errors
    /// The errors of the exchange.
    pub(super) fn meet(&mut self, passes: &Passes<'_>) -> Result<()> {
        let pivots = match self.pivots.take() {
            Some(pivots) => pivots,
            None => self.factorise(passes)?,
        };
        self.condense(passes, Part::Sums);
        self.ends.collect(&self.cpu, &mut self.sums)?;
        solve(self.sums.entries_mut(), pivots.each_ref().map(Vector::entries), row(&self.ends.lines));
        self.pivots = Some(pivots);
        self.ends.take(&self.cpu, &self.sums)?;
        self.expand(passes);
        Ok(())
    }

    /// Returns this rank's rows and those beside them, given the numbers of its own in C order.
    ///
    /// # Errors
    /// The errors of the exchange.
    pub(super) fn own_rows(&self, u: &[f64]) -> Result<Own> {
        let rows = self.cpu.own_rows(self.whole.shape)?;
        let Shape { nx, ny, nz } = rows.shape(self.whole.shape);
        let row = |j: usize| -> Vec<f64> { (0..nz).flat_map(|k| &u[nx * (j + ny * k)..][..nx]).copied().collect() };
        let Some(ranks) = &self.cpu.ranks else { return Ok(Own { rows, beside: [Vec::new(), Vec::new()] }) };
        Ok(Own { rows, beside: rows_beside(ranks, [&row(0), &row(ny - 1)])? })
    }

    /// Computes the pivots of the systems of last cells, with which those of all ranks meet.
    fn factorise(&mut self, passes: &Passes<'_>) -> Result<[Vector<f64>; 2]> {
        let Self { cpu, ends, .. } = self;
        let mut parts = [cpu.zeros(&ends.lines)?, cpu.zeros(&ends.lines)?];
        for (part, to) in [Part::RowSums, Part::Couplings].into_iter().zip(&mut parts) {
            self.condense(passes, part);
            self.ends.collect(&self.cpu, to)?;
        }
        let least = self.whole.lines.least_pivot;
        let [sums, couplings] = &mut parts;
        factorise([sums.entries_mut(), couplings.entries_mut()], row(&self.ends.lines), least);
        Ok(parts)
    }

    /// Eliminates the cells before the last, for what they contribute to both ends.
    fn condense(&mut self, passes: &Passes<'_>, part: Part) {
        let Self { piece, inner, ends, .. } = self;
        let own = ends.own();
        let (layout, to) = (*own.layout(), own.share_mut());
        let tables = passes.tables;
        passes.for_lines(|places, _| {
            tables.cpu.dispatch::<f64, _>(Condense {
                systems: inner,
                before: piece.before,
                last: piece.last,
                values: [&tables.values[0], &tables.values[1]],
                x: passes.work,
                stride: tables.planes.stride,
                places,
                part,
                to,
                to_line: &|line| place(&layout, line),
                to_second: row(&layout),
            });
        });
    }

    /// Adds both ends' solutions to the right-hand sides of their neighbours.
    fn expand(&self, passes: &Passes<'_>) {
        let (planes, lanes) = (&passes.tables.planes, passes.tables.machine.lanes);
        let received = self.ends.received();
        let layout = received.layout();
        let last = planes.count - 1;
        let beside = self.piece.inner.couplings.last().copied().unwrap_or_default();
        passes.for_lines(|places, _| {
            for line in places.iter().flat_map(|&(first, ..)| first..first + lanes) {
                let at = place(layout, line);
                let [before, own] = [at, at + row(layout)].map(|at| received.entries()[at]);
                let place = |plane: usize| (line + plane * planes.stride) as isize;
                // SAFETY: these lines belong to this thread.
                let add = |plane: usize, more: f64| unsafe {
                    passes.work.set(place(plane), passes.work.row(place(plane), 1)[0] + more);
                };
                if last > 0 {
                    add(0, self.piece.before * before);
                    add(last - 1, beside * own);
                }
                // SAFETY: as above.
                unsafe { passes.work.set(place(last), own) };
            }
        });
    }
}

/// Eliminates the cells of some packs of lines before the last, as [`super::lines::Solve`] does, the previous rank's last cell being a third neighbour.
struct Condense<'a> {
    systems: &'a Systems,
    before: f64,
    last: [f64; 3],
    values: [&'a [f64]; 2],
    x: Shared<f64>,
    stride: usize,
    places: &'a [Place],
    part: Part,
    to: Shared<f64>,
    to_line: &'a dyn Fn(usize) -> usize,
    to_second: usize,
}

impl WithSimd for Condense<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (fours, rest) = self.places.as_chunks::<PACKS>();
        for four in fours {
            self.condense(simd, four);
        }
        for &one in rest {
            self.condense(simd, &[one]);
        }
    }
}

impl Condense<'_> {
    /// ```text
    /// e += σ + μ D_a + ν D_b;   y += b;   p = e + t + w;   (e, y, w) → t/p (e, y, w) of the next cell, w/p (e, y) to the previous rank's last
    /// ```
    #[inline(always)]
    fn condense<const N: usize, S: Simd>(&self, simd: S, places: &[Place; N]) {
        let splat = |value: f64| Pack::splat(simd, value);
        let zero = splat(0.0);
        let [mu, nu] = eigenvalues(simd, self.values, places);
        let row_sum =
            |n: usize, [shift, a, b]: [f64; 3]| mu[n].mul_add(splat(a), nu[n].mul_add(splat(b), splat(shift)));
        let load = |n: usize, k: usize| {
            // SAFETY: these lines belong to this thread.
            unsafe { self.x.packs(simd, (places[n].0 + k * self.stride) as isize, S::F64_LANES) }.get(0)
        };
        let (mut e, mut y, mut reach) = ([zero; N], [zero; N], [splat(self.before); N]);
        let (mut before_e, mut before_y) = ([zero; N], [zero; N]);
        for (k, (cell, coupling)) in self.systems.rows().enumerate() {
            let coupling = splat(coupling);
            for n in 0..N {
                let (excess, r) = (e[n] + row_sum(n, cell), y[n] + load(n, k));
                let inverse = inverse(simd, excess + coupling + reach[n], self.systems.least());
                let (next, beyond) = (coupling * inverse, reach[n] * inverse);
                (before_e[n], before_y[n]) = (beyond.mul_add(excess, before_e[n]), beyond.mul_add(r, before_y[n]));
                (e[n], y[n], reach[n]) = (next * excess, next * r, next * reach[n]);
            }
        }
        let last = self.systems.rows().count();
        for n in 0..N {
            let both = match self.part {
                Part::RowSums => [before_e[n], e[n] + row_sum(n, self.last)],
                Part::Couplings => [reach[n], zero],
                Part::Sums => [before_y[n], y[n] + load(n, last)],
            };
            let at = (self.to_line)(places[n].0);
            for (at, value) in [at, at + self.to_second].into_iter().zip(both) {
                // SAFETY: these lines belong to this thread.
                unsafe { self.to.packs_mut(simd, at as isize, S::F64_LANES) }.set(0, value);
            }
        }
    }
}

/// Factorises the cyclic systems of all ranks' last cells, of as many lines as a row has numbers. Of row sums, a rank's rows have what it contributes to the
/// previous rank and its own; of couplings, that to the previous rank, and nothing. They become 1/p, and nothing; t/p and w/p (see
/// [`isobar_core::direct::Pivot`]).
fn factorise([sums, couplings]: [&mut [f64]; 2], row: usize, least_pivot: f64) {
    let ranks = sums.len() / row / 2;
    let zeros = vec![0.0; ranks];
    let mut lines =
        Lines { shift: zeros.clone(), couplings: zeros.clone(), weights: [zeros.clone(), zeros], least_pivot };
    for line in 0..row {
        let [previous, own] = [0, 1].map(|which| move |rank: usize| (2 * (rank % ranks) + which) * row + line);
        for rank in 0..ranks {
            lines.shift[rank] = sums[own(rank)] + sums[previous(rank + 1)];
            lines.couplings[rank] = couplings[previous(rank + 1)];
        }
        for (rank, pivot) in lines.pivots([0.0; 2]).enumerate() {
            sums[previous(rank)] = pivot.inverse;
            (couplings[previous(rank)], couplings[own(rank)]) = (pivot.next, pivot.last);
        }
    }
}

/// Solves the cyclic systems of all ranks' last cells. A rank's rows have what it contributes to the previous rank's right-hand side, and its own; then
/// the solutions of both.
fn solve(x: &mut [f64], [inverses, factors]: [&[f64]; 2], row: usize) {
    let ranks = x.len() / row / 2;
    let last = ranks - 1;
    for line in 0..row {
        let [previous, own] = [0, 1].map(|which| move |rank: usize| (2 * (rank % ranks) + which) * row + line);
        for rank in 0..ranks {
            x[own(rank)] += x[previous(rank + 1)];
        }
        for rank in 0..last {
            x[own(rank + 1)] += factors[previous(rank)] * x[own(rank)];
            x[own(last)] += factors[own(rank)] * x[own(rank)];
        }
        x[own(last)] *= inverses[previous(last)];
        for rank in (0..last).rev() {
            let beside = factors[previous(rank)] * x[own(rank + 1)] + factors[own(rank)] * x[own(last)];
            x[own(rank)] = inverses[previous(rank)] * x[own(rank)] + beside;
        }
        for rank in 0..ranks {
            x[previous(rank + 1)] = x[own(rank)];
        }
    }
}
