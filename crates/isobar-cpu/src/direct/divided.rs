//! Lines whose cells are divided among ranks, see [`isobar_dist::divided::Pieces`].

use isobar_core::direct::{Lines, Piece};
use isobar_core::prelude::{Backend, Result, Separable, Shape};
use isobar_core::simd::Pack;
use isobar_dist::Ranks;
use isobar_dist::divided::{Ends, Part, Pieces, place, row, rows_beside};
use pulp::{Simd, WithSimd};

use super::judge::Own;
use super::lines::{PACKS, Place, Systems, eigenvalues, inverse};
use super::passes::Passes;
use crate::shared::Shared;
use crate::{Cpu, Vector};

/// This rank's pieces of lines, and the systems of last cells.
pub(super) struct Divided {
    /// The matrix on all ranks' rows.
    pub(super) whole: Separable,
    piece: Piece,
    inner: Systems,
    ends: Ends<Cpu>,
}

/// The lines of a rank whose modes the working array has.
struct OfRank<'a> {
    passes: &'a Passes<'a>,
    piece: &'a Piece,
    inner: &'a Systems,
}

impl Divided {
    /// Takes this rank's piece of the lines of a matrix, one for each of so many modes.
    ///
    /// # Errors
    /// The errors of allocation.
    pub(super) fn new(cpu: &Cpu, ranks: &Ranks, whole: &Separable, piece: Piece, modes: usize) -> Result<Self> {
        let (ends, inner) = (Ends::new(cpu, ranks, modes)?, Systems::new(&piece.inner));
        Ok(Self { whole: whole.clone(), piece, inner, ends })
    }

    /// Takes other systems of lines with the same modes.
    pub(super) fn change_lines(&mut self, whole: &Separable, piece: Piece) {
        self.inner = Systems::new(&piece.inner);
        (self.whole, self.piece) = (whole.clone(), piece);
        self.ends.forget();
    }

    /// Returns the bytes of its numbers.
    pub(super) fn bytes(&self) -> usize {
        self.ends.bytes() + self.inner.bytes()
    }

    /// Solves for the last cells of lines, and adds them to the right-hand sides of their neighbours.
    ///
    /// # Errors
    /// The errors of the exchange.
    pub(super) fn meet(&mut self, passes: &Passes<'_>) -> Result<()> {
        let Self { piece, inner, ends, .. } = self;
        ends.meet(&passes.tables.cpu, &OfRank { passes, piece, inner })
    }

    /// Returns this rank's rows and those beside them, given the numbers of its own in C order.
    ///
    /// # Errors
    /// The errors of the exchange.
    pub(super) fn own_rows(&self, cpu: &Cpu, u: &[f64]) -> Result<Own> {
        let rows = cpu.own_rows(self.whole.shape)?;
        let Shape { nx, ny, nz } = rows.shape(self.whole.shape);
        let row = |j: usize| -> Vec<f64> { (0..nz).flat_map(|k| &u[nx * (j + ny * k)..][..nx]).copied().collect() };
        let Some(ranks) = &cpu.ranks else { return Ok(Own { rows, beside: [Vec::new(), Vec::new()] }) };
        Ok(Own { rows, beside: rows_beside(ranks, [&row(0), &row(ny - 1)])? })
    }
}

impl Pieces<Cpu> for OfRank<'_> {
    fn condense(&self, part: Part, to: &mut Vector<f64>) -> Result<()> {
        let Self { passes, piece, inner } = self;
        let (layout, to, tables) = (*to.layout(), to.share_mut(), passes.tables);
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
        Ok(())
    }

    fn factorise(&self, parts: &mut [Vector<f64>; 2]) -> Result<()> {
        let row = row(parts[0].layout());
        factorise(parts.each_mut().map(Vector::entries_mut), row, self.piece.inner.least_pivot);
        Ok(())
    }

    fn solve(&self, pivots: &[Vector<f64>; 2], sums: &mut Vector<f64>) -> Result<()> {
        let row = row(sums.layout());
        solve(sums.entries_mut(), pivots.each_ref().map(Vector::entries), row);
        Ok(())
    }

    fn expand(&self, solutions: &Vector<f64>) -> Result<()> {
        let Self { passes, piece, .. } = self;
        let (planes, lanes, layout) = (&passes.tables.planes, passes.tables.machine.lanes, solutions.layout());
        let last = planes.count - 1;
        let beside = piece.inner.couplings.last().copied().unwrap_or_default();
        passes.for_lines(|places, _| {
            for line in places.iter().flat_map(|&(first, ..)| first..first + lanes) {
                let at = place(layout, line);
                let [before, own] = [at, at + row(layout)].map(|at| solutions.entries()[at]);
                let place = |plane: usize| (line + plane * planes.stride) as isize;
                // SAFETY: these lines belong to this thread.
                let add = |plane: usize, more: f64| unsafe {
                    passes.work.set(place(plane), passes.work.row(place(plane), 1)[0] + more);
                };
                if last > 0 {
                    add(0, piece.before * before);
                    add(last - 1, beside * own);
                }
                // SAFETY: as above.
                unsafe { passes.work.set(place(last), own) };
            }
        });
        Ok(())
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

/// See [`Pieces::factorise`]; a row has as many numbers as there are lines.
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

/// See [`Pieces::solve`]; a row has as many numbers as there are lines.
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
