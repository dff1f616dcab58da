//! Loops that solve lines, tile by tile: upwards by elimination, downwards by substitution. Safety of all memory accesses: see
//! the module `kernels`.
//!
//! Every quantity is a sum of positive numbers: with `out` the shift and the entries out of the column,
//!
//! ```text
//! excess = out + t₋ · ratio₋;   pivot = excess + t₊
//! y = (g + t₋ y₋) / pivot;   factor = t₊ / pivot;   ratio = excess / pivot
//! ```
//!
//! A decoupled column has a last pivot of exactly 0, and gets the solution that is 0 at its top. The entry t across a periodic
//! end is not part of the line; its two cells get 2t on the diagonal instead. All equations are divided by W.

mod relax;

use isobar_core::prelude::{Pack, Real};
use pulp::Simd;

use super::{Coefficients, Entries, Kernel, LineSpace, RowCoefficients, TileCoefficients};
use crate::geometry::{Columns, Geometry, HalfPlane, Link, Window};
use crate::row_sum::RowSum;
use crate::shared::{Ahead, Row, RowMut, Shared};

pub(crate) use relax::{Correction, Relax};

/// The right-hand side and the target of a tile of lines. (Traits, not closures: only functions that are certain to be inlined
/// get this machine's vector instructions.)
trait LineTask<S: Simd, T: Real> {
    /// The data that all rows of a tile share.
    type Tile;
    /// A row of the right-hand side.
    type Row: LineRow<S, T>;

    /// Returns the data that the rows of these columns share.
    fn tile(&self, columns: Columns) -> Self::Tile;

    /// Returns a row of the right-hand side; called once per row, upwards.
    fn row(&mut self, tile: &Self::Tile, w: Window) -> Self::Row;

    /// Adds the sums of a row.
    #[inline(always)]
    fn end_row(&mut self, _row: Self::Row) {}

    /// Receives a final row of the solution; called once per row, downwards.
    #[inline(always)]
    fn finish(&mut self, _w: Window) {}
}

/// A row that is computed pack by pack, from the entries of the matrix.
trait LineRow<S: Simd, T: Real> {
    /// Returns pack i over W; `across` are the entries across periodic ends, if the row is at one.
    fn get(&mut self, entries: &impl Entries<S, T>, across: [Option<Pack<S, T>>; 2], i: usize) -> Pack<S, T>;

    /// Prefetches the data needed a little after pack i.
    fn fetch_ahead(&self, i: usize);
}

/// The target of a solution: a vector, and the start of row k.
#[derive(Clone, Copy)]
struct Target<T> {
    vector: Shared<T>,
    start: isize,
    pitch: usize,
}

impl<T> Target<T> {
    #[inline(always)]
    fn position(&self, w: Window) -> isize {
        self.start + (w.k * self.pitch + w.columns.m) as isize
    }
}

/// Runs forward elimination and backward substitution on all tiles of a half plane.
///
/// # Safety
/// The rows of `out` lie within their vector, and nothing else uses them.
#[inline(always)]
unsafe fn solve_tiles<S: Simd, T: Real, C: Coefficients<T>>(
    simd: S,
    g: Geometry<'_, T>,
    c: &C,
    h: &HalfPlane,
    (ratio, factors, tile): (&mut [T], &mut [T], usize),
    out: impl Fn(usize) -> Target<T>,
    task: &mut impl LineTask<S, T>,
) {
    let (layers, Columns { m: first, n }) = (g.layers(), g.columns_visited);
    for m in (first..first + n).step_by(tile) {
        let columns = Columns { m, n: tile.min(first + n - m) };
        let n = columns.n;
        let (coefficients, shared) = (c.tile(simd, g, h, columns), task.tile(columns));
        let out = out(m);
        let ratio = &mut ratio[..n];
        ratio.fill(T::ZERO);
        for k in 0..layers {
            let w = Window { k, columns };
            let entries_row = coefficients.row(k);
            let mut row = task.row(&shared, w);
            let position = out.position(w);
            // SAFETY: promised by the caller; rows k and k − 1 are different rows.
            let (mut y, below) = unsafe {
                let below =
                    if k == 0 { g.zeros(simd, n) } else { out.vector.packs(simd, position - out.pitch as isize, n) };
                (out.vector.packs_mut(simd, position, n), below)
            };
            let ahead = out.vector.ahead(position);
            let mut eliminated = Eliminated {
                y: &mut y,
                below,
                ratio: RowMut::new(simd, &mut *ratio),
                factor: RowMut::new(simd, &mut factors[k * n..(k + 1) * n]),
                ahead,
            };
            let ends = [g.layer_beside(k, false).1 == Link::Wrapped, g.layer_beside(k, true).1 == Link::Wrapped];
            if ends[0] || ends[1] {
                eliminated.compute(&entries_row, &mut row, ends);
            } else {
                eliminated.compute(&entries_row, &mut row, [false; 2]);
            }
            task.end_row(row);
        }
        task.finish(Window { k: layers - 1, columns });
        for k in (0..layers - 1).rev() {
            let w = Window { k, columns };
            let position = out.position(w);
            // SAFETY: as above.
            let (mut y, above) = unsafe {
                (out.vector.packs_mut(simd, position, n), out.vector.packs(simd, position + out.pitch as isize, n))
            };
            let factor = Row::new(simd, &factors[k * n..(k + 1) * n]);
            for i in 0..y.len() {
                y.set(i, factor.get(i).mul_add(above.get(i), y.get(i)));
            }
            task.finish(w);
        }
    }
}

/// A row during elimination.
struct Eliminated<'a, 'y, S: Simd, T: Real> {
    y: &'y mut RowMut<'a, S, T>,
    below: Row<'a, S, T>,
    ratio: RowMut<'a, S, T>,
    factor: RowMut<'a, S, T>,
    ahead: Ahead<T>,
}

impl<S: Simd, T: Real> Eliminated<'_, '_, S, T> {
    /// Eliminates the entry below; `ends` states which vertical entries are across a periodic end.
    #[inline(always)]
    fn compute(&mut self, coefficients: &impl RowCoefficients<S, T>, row: &mut impl LineRow<S, T>, ends: [bool; 2]) {
        let Self { y, below, ratio, factor, ahead } = self;
        for i in 0..y.len() {
            coefficients.fetch_ahead(i);
            row.fetch_ahead(i);
            ahead.fetch(i, Row::<S, T>::LANES);
            let entries = coefficients.get(i);
            let mut excess = entries.excess();
            let Some([mut lower, mut upper]) = entries.vertical() else {
                y.set(i, row.get(&entries, [None; 2], i) * invert(&entries, excess));
                continue;
            };
            let mut across = [None; 2];
            if ends[0] {
                excess = excess + (lower + lower);
                across[0] = Some(lower);
                lower = Pack::splat(lower.simd(), T::ZERO);
            }
            if ends[1] {
                excess = excess + (upper + upper);
                across[1] = Some(upper);
                upper = Pack::splat(upper.simd(), T::ZERO);
            }
            let excess = lower.mul_add(ratio.get(i), excess);
            let inverse = invert(&entries, excess + upper);
            ratio.set(i, excess * inverse);
            factor.set(i, upper * inverse);
            let right = row.get(&entries, across, i);
            y.set(i, lower.mul_add(below.get(i), right) * inverse);
        }
    }
}

#[inline(always)]
fn invert<S: Simd, T: Real, E: Entries<S, T>>(_: &E, x: Pack<S, T>) -> Pack<S, T> {
    E::invert(x)
}

/// Makes a half plane of a vector the target of solutions.
#[inline(always)]
fn into_vector<T: Real>(g: Geometry<'_, T>, h: &HalfPlane, vector: Shared<T>) -> Target<T> {
    Target { vector, start: h.start, pitch: g.layout.pitch() }
}

/// z = M⁻¹ r
pub(crate) struct Solve<'s, T> {
    pub(crate) h: HalfPlane,
    pub(crate) r: Shared<T>,
    pub(crate) z: Shared<T>,
    pub(crate) space: LineSpace<'s, T>,
}

struct Plain<'a, S: Simd, T: Real> {
    simd: S,
    g: Geometry<'a, T>,
    h: HalfPlane,
    r: Shared<T>,
}

struct PlainRow<'a, S: Simd, T: Real> {
    r: Row<'a, S, T>,
    ahead: Ahead<T>,
}

impl<S: Simd, T: Real> LineRow<S, T> for PlainRow<'_, S, T> {
    #[inline(always)]
    fn get(&mut self, entries: &impl Entries<S, T>, _: [Option<Pack<S, T>>; 2], i: usize) -> Pack<S, T> {
        entries.over_weight(self.r.get(i))
    }

    #[inline(always)]
    fn fetch_ahead(&self, i: usize) {
        self.ahead.fetch(i, Row::<S, T>::LANES);
    }
}

impl<'a, S: Simd, T: Real> LineTask<S, T> for Plain<'a, S, T> {
    type Tile = ();
    type Row = PlainRow<'a, S, T>;

    #[inline(always)]
    fn tile(&self, _: Columns) {}

    #[inline(always)]
    fn row(&mut self, (): &(), w: Window) -> Self::Row {
        let position = self.g.position(&self.h, w);
        // SAFETY: see the top of this file, here and below.
        PlainRow { r: unsafe { self.r.packs(self.simd, position, w.columns.n) }, ahead: self.r.ahead(position) }
    }
}

impl<T: Real> Kernel<T> for Solve<'_, T> {
    type Output = [f64; 2];

    #[inline(always)]
    fn run<S: Simd, C: Coefficients<T>>(self, simd: S, g: Geometry<'_, T>, c: &C) -> [f64; 2] {
        let Self { h, r, z, space } = self;
        let LineSpace { ratio, factors, tile, .. } = space;
        let mut task = Plain { simd, g, h, r };
        // SAFETY: see the top of this file.
        unsafe { solve_tiles(simd, g, c, &h, (ratio, factors, tile), |_| into_vector(g, &h, z), &mut task) };
        [0.0; 2]
    }
}

/// r −= αq;  z = M⁻¹ r;  Σ r z;  Σ r²
pub(crate) struct Precondition<'s, T> {
    pub(crate) h: HalfPlane,
    pub(crate) alpha: T,
    pub(crate) r: Shared<T>,
    pub(crate) q: Shared<T>,
    pub(crate) z: Shared<T>,
    pub(crate) space: LineSpace<'s, T>,
}

/// r −= αq during elimination, sums during both loops.
struct Update<'a, S: Simd, T: Real> {
    simd: S,
    g: Geometry<'a, T>,
    h: HalfPlane,
    minus_alpha: Pack<S, T>,
    r: Shared<T>,
    q: Shared<T>,
    z: Shared<T>,
    rz: RowSum<S, T>,
    rr: RowSum<S, T>,
}

struct UpdateRow<'a, S: Simd, T: Real> {
    minus_alpha: Pack<S, T>,
    r: RowMut<'a, S, T>,
    q: Row<'a, S, T>,
    ahead: [Ahead<T>; 2],
    rr: RowSum<S, T>,
}

impl<S: Simd, T: Real> LineRow<S, T> for UpdateRow<'_, S, T> {
    #[inline(always)]
    fn get(&mut self, entries: &impl Entries<S, T>, _: [Option<Pack<S, T>>; 2], i: usize) -> Pack<S, T> {
        let value = self.minus_alpha.mul_add(self.q.get(i), self.r.get(i));
        self.rr.add_product(value, value);
        self.r.set(i, value);
        entries.over_weight(value)
    }

    #[inline(always)]
    fn fetch_ahead(&self, i: usize) {
        self.ahead[0].fetch(i, Row::<S, T>::LANES);
        self.ahead[1].fetch(i, Row::<S, T>::LANES);
    }
}

impl<'a, S: Simd, T: Real> LineTask<S, T> for Update<'a, S, T> {
    type Tile = ();
    type Row = UpdateRow<'a, S, T>;

    #[inline(always)]
    fn tile(&self, _: Columns) {}

    #[inline(always)]
    fn row(&mut self, (): &(), w: Window) -> Self::Row {
        let (position, n) = (self.g.position(&self.h, w), w.columns.n);
        // SAFETY: see the top of this file.
        let (r, q) = unsafe { (self.r.packs_mut(self.simd, position, n), self.q.packs(self.simd, position, n)) };
        let ahead = [self.r.ahead(position), self.q.ahead(position)];
        UpdateRow { minus_alpha: self.minus_alpha, r, q, ahead, rr: self.rr }
    }

    #[inline(always)]
    fn end_row(&mut self, row: Self::Row) {
        self.rr = row.rr;
        self.rr.end_short_row();
    }

    #[inline(always)]
    fn finish(&mut self, w: Window) {
        let (position, n) = (self.g.position(&self.h, w), w.columns.n);
        // SAFETY: see the top of this file.
        let (r, z) = unsafe { (self.r.packs(self.simd, position, n), self.z.packs(self.simd, position, n)) };
        for i in 0..r.len() {
            self.rz.add_product(r.get(i), z.get(i));
        }
        self.rz.end_short_row();
    }
}

impl<T: Real> Kernel<T> for Precondition<'_, T> {
    type Output = [f64; 2];

    #[inline(always)]
    fn run<S: Simd, C: Coefficients<T>>(self, simd: S, g: Geometry<'_, T>, c: &C) -> [f64; 2] {
        let Self { h, alpha, r, q, z, space } = self;
        let LineSpace { ratio, factors, tile, .. } = space;
        let minus_alpha = Pack::splat(simd, -alpha);
        let (rz, rr) = (RowSum::new(simd), RowSum::new(simd));
        let mut task = Update { simd, g, h, minus_alpha, r, q, z, rz, rr };
        // SAFETY: see the top of this file.
        unsafe { solve_tiles(simd, g, c, &h, (ratio, factors, tile), |_| into_vector(g, &h, z), &mut task) };
        [task.rz.total(), task.rr.total()]
    }
}
