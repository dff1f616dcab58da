//! The loops of the stages, each on one half plane, row by row.
//!
//! Safety of all memory accesses, here and in the neighbouring modules: loops are called from stages of
//! [`wavefront::run`](crate::wavefront::run), whose schedule makes them sound. While a stage works at plane j, no
//! other stage uses planes j of the vectors it writes, or writes planes j − 1 … j + 1 of the vectors it reads.
//! With a periodic y the first and the last plane are neighbours.

use isobar_core::prelude::{Pack, Real};
use pulp::Simd;

use super::{Coefficients, Entries, Kernel, RowCoefficients, TileCoefficients};
use crate::around::{Around, AroundRow, View};
use crate::geometry::{Columns, Geometry, HalfPlane, Which};
use crate::row_sum::RowSum;
use crate::shared::{Ahead, Row, RowMut, Shared, Strip};

/// Returns all neighbours of some columns of a half plane of u.
///
/// # Safety
/// Nobody writes the half plane or its neighbours meanwhile.
#[inline(always)]
pub(crate) unsafe fn around<'a, T: Real>(
    g: Geometry<'a, T>,
    u: Shared<T>,
    h: &HalfPlane,
    columns: Columns,
) -> Around<'a, T> {
    // SAFETY: promised by the caller.
    unsafe { View { g, v: u, h, columns, which: Which::All }.around() }
}

/// A row of A' u, pack by pack.
pub(crate) struct Applied<'a, S: Simd, T: Real> {
    pub(crate) around: AroundRow<'a, S, T>,
    pub(crate) own: Row<'a, S, T>,
}

impl<'a, S: Simd, T: Real> Applied<'a, S, T> {
    /// # Safety
    /// See [`Strip::row`].
    #[inline(always)]
    pub(crate) unsafe fn new(simd: S, u: &Around<'a, T>, k: usize) -> Self {
        // SAFETY: promised by the caller.
        unsafe { Self { around: u.row(simd, k), own: u.own(simd, k) } }
    }

    /// Returns A' u of pack i.
    #[inline(always)]
    pub(crate) fn get(&self, entries: &impl Entries<S, T>, i: usize) -> Pack<S, T> {
        entries.apply(self.own.get(i), self.around.horizontal(i), self.around.vertical(i))
    }
}

/// A x;  Σ x A x
pub(crate) struct Apply<T, D> {
    pub(crate) h: HalfPlane,
    pub(crate) x: Shared<T>,
    pub(crate) to: D,
}

impl<T: Real, D: Destination<T>> Kernel<T> for Apply<T, D> {
    type Output = [f64; 2];

    #[inline(always)]
    fn run<S: Simd, C: Coefficients<T>>(self, simd: S, g: Geometry<'_, T>, c: &C) -> [f64; 2] {
        let Self { h, x, mut to } = self;
        let mut sum = RowSum::new(simd);
        let tile = c.tile(simd, g, &h, g.all_columns());
        // SAFETY: see the top of this file, here and below.
        let x = unsafe { around(g, x, &h, g.all_columns()) };
        for w in g.rows() {
            let (row, position, n) = (tile.row(w.k), g.position(&h, w), w.columns.n);
            // SAFETY: as above.
            let ax = unsafe { Applied::new(simd, &x, w.k) };
            {
                let mut out = to.row(simd, position, n);
                for i in 0..ax.own.len() {
                    ax.around.fetch_ahead(i);
                    row.fetch_ahead(i);
                    let entries = row.get(i);
                    let value = entries.times_weight(ax.get(&entries, i));
                    sum.add_product(ax.own.get(i), value);
                    if let Some(out) = &mut out {
                        out.set(i, value);
                    }
                }
            }
            sum.end_short_row();
            to.end_row(position, n);
        }
        [sum.total(), 0.0]
    }
}

/// The destination of a residual or a product.
pub(crate) trait Destination<T: Real> {
    /// Returns a row to write to, if values are stored.
    fn row<S: Simd>(&mut self, simd: S, position: isize, n: usize) -> Option<RowMut<'_, S, T>>;

    /// Ends that row.
    fn end_row(&mut self, position: isize, n: usize);
}

/// A residual that is not stored.
pub(crate) struct Nowhere;

impl<T: Real> Destination<T> for Nowhere {
    #[inline(always)]
    fn row<S: Simd>(&mut self, _: S, _: isize, _: usize) -> Option<RowMut<'_, S, T>> {
        None
    }

    #[inline(always)]
    fn end_row(&mut self, _: isize, _: usize) {}
}

/// A vector, in which values are stored at a distance from their place in other vectors.
pub(crate) struct Shifted<T> {
    pub(crate) vector: Shared<T>,
    pub(crate) shift: isize,
}

impl<T: Real> Destination<T> for Shifted<T> {
    #[inline(always)]
    fn row<S: Simd>(&mut self, simd: S, position: isize, n: usize) -> Option<RowMut<'_, S, T>> {
        // SAFETY: see the top of this file.
        Some(unsafe { self.vector.packs_mut(simd, position + self.shift, n) })
    }

    #[inline(always)]
    fn end_row(&mut self, _: isize, _: usize) {}
}

/// A vector of another precision, written by way of one row: that of a piece among the rows of a thread's workspace.
pub(crate) struct Rounded<T, R> {
    pub(crate) vector: Shared<R>,
    pub(crate) rows: Shared<T>,
    pub(crate) piece: usize,
}

impl<T: Real, R: Real> Destination<T> for Rounded<T, R> {
    #[inline(always)]
    fn row<S: Simd>(&mut self, simd: S, _: isize, n: usize) -> Option<RowMut<'_, S, T>> {
        // SAFETY: each piece has its own row.
        Some(unsafe { self.rows.packs_mut(simd, (self.piece * n) as isize, n) })
    }

    #[inline(always)]
    fn end_row(&mut self, position: isize, n: usize) {
        // SAFETY: as above, and see the top of this file.
        let (out, row) = unsafe { (self.vector.row_mut(position, n), self.rows.row((self.piece * n) as isize, n)) };
        for (out, value) in out.iter_mut().zip(row) {
            *out = R::from_f64(value.to_f64());
        }
    }
}

/// r = f − A u, where it is stored;  Σ (f − A u)²
pub(crate) struct Residual<T, D> {
    pub(crate) h: HalfPlane,
    pub(crate) f: Shared<T>,
    pub(crate) u: Shared<T>,
    pub(crate) to: D,
}

impl<T: Real, D: Destination<T>> Kernel<T> for Residual<T, D> {
    type Output = [f64; 2];

    #[inline(always)]
    fn run<S: Simd, C: Coefficients<T>>(self, simd: S, g: Geometry<'_, T>, c: &C) -> [f64; 2] {
        let Self { h, f, u, mut to } = self;
        let mut sum = RowSum::new(simd);
        let tile = c.tile(simd, g, &h, g.all_columns());
        // SAFETY: see the top of this file, here and below.
        let residuals = unsafe { Residuals::new(g, [f, u], &h, g.all_columns()) };
        for w in g.rows() {
            let (row, position, n) = (tile.row(w.k), g.position(&h, w), w.columns.n);
            // SAFETY: as above.
            let residual = unsafe { residuals.row(simd, w.k) };
            {
                let mut out = to.row(simd, position, n);
                for i in 0..residual.len() {
                    row.fetch_ahead(i);
                    residual.fetch_ahead(i);
                    let value = residual.get(&row.get(i), i);
                    sum.add_product(value, value);
                    if let Some(out) = &mut out {
                        out.set(i, value);
                    }
                }
            }
            sum.end_short_row();
            to.end_row(position, n);
        }
        [sum.total(), 0.0]
    }
}

/// The rows of f − A u in some columns of a half plane.
#[derive(Clone, Copy)]
pub(crate) struct Residuals<'a, T> {
    u: Around<'a, T>,
    f: Strip<'a, T>,
    ahead: Ahead<T>,
    pitch: usize,
}

impl<'a, T: Real> Residuals<'a, T> {
    /// # Safety
    /// Nobody writes f, u or the neighbours of u meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn new(g: Geometry<'a, T>, [f, u]: [Shared<T>; 2], h: &HalfPlane, columns: Columns) -> Self {
        let (position, pitch) = (h.start + columns.m as isize, g.layout.pitch());
        // SAFETY: promised by the caller.
        let (u, rows) = unsafe { (around(g, u, h, columns), f.strip(position, columns.n, pitch, g.layers())) };
        Self { u, f: rows, ahead: f.ahead(position), pitch }
    }

    /// Returns row k.
    ///
    /// # Safety
    /// See [`Strip::row`].
    #[inline(always)]
    pub(crate) unsafe fn row<S: Simd>(&self, simd: S, k: usize) -> ResidualRow<'a, S, T> {
        // SAFETY: promised by the caller.
        let (au, f) = unsafe { (Applied::new(simd, &self.u, k), self.f.row(simd, k)) };
        ResidualRow { au, f, ahead: self.ahead.after(k * self.pitch) }
    }
}

/// A row of f − A u, pack by pack.
pub(crate) struct ResidualRow<'a, S: Simd, T: Real> {
    au: Applied<'a, S, T>,
    f: Row<'a, S, T>,
    ahead: Ahead<T>,
}

impl<S: Simd, T: Real> ResidualRow<'_, S, T> {
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.f.len()
    }

    #[inline(always)]
    pub(crate) fn fetch_ahead(&self, i: usize) {
        self.au.around.fetch_ahead(i);
        self.ahead.fetch(i, Row::<S, T>::LANES);
    }

    /// Returns f − A u of pack i.
    #[inline(always)]
    pub(crate) fn get(&self, entries: &impl Entries<S, T>, i: usize) -> Pack<S, T> {
        entries.less_weighted(self.f.get(i), self.au.get(entries, i))
    }

    /// Returns W⁻¹ (f − A u) of pack i.
    #[inline(always)]
    pub(crate) fn get_over_weight(&self, entries: &impl Entries<S, T>, i: usize) -> Pack<S, T> {
        entries.over_weight(self.f.get(i)) - self.au.get(entries, i)
    }
}

/// z = D⁻¹ r
pub(crate) struct Divide<T> {
    pub(crate) h: HalfPlane,
    pub(crate) r: Shared<T>,
    pub(crate) z: Shared<T>,
}

impl<T: Real> Kernel<T> for Divide<T> {
    type Output = [f64; 2];

    #[inline(always)]
    fn run<S: Simd, C: Coefficients<T>>(self, simd: S, g: Geometry<'_, T>, c: &C) -> [f64; 2] {
        let Self { h, r, z } = self;
        let tile = c.tile(simd, g, &h, g.all_columns());
        for w in g.rows() {
            let (row, position) = (tile.row(w.k), g.position(&h, w));
            // SAFETY: see the top of this file.
            let (r, mut out) =
                unsafe { (r.packs(simd, position, w.columns.n), z.packs_mut(simd, position, w.columns.n)) };
            for i in 0..out.len() {
                row.fetch_ahead(i);
                let entries = row.get(i);
                out.set(i, entries.over_weight(r.get(i)) * entries.diagonal().reciprocal());
            }
        }
        [0.0; 2]
    }
}

/// r −= αq;  z = D⁻¹ r;  Σ r z;  Σ r²
pub(crate) struct Scale<T> {
    pub(crate) h: HalfPlane,
    pub(crate) alpha: T,
    pub(crate) r: Shared<T>,
    pub(crate) q: Shared<T>,
    pub(crate) z: Shared<T>,
}

impl<T: Real> Kernel<T> for Scale<T> {
    type Output = [f64; 2];

    #[inline(always)]
    fn run<S: Simd, C: Coefficients<T>>(self, simd: S, g: Geometry<'_, T>, c: &C) -> [f64; 2] {
        let Self { h, alpha, r, q, z } = self;
        let minus_alpha = Pack::splat(simd, -alpha);
        let (mut rz, mut rr) = (RowSum::new(simd), RowSum::new(simd));
        let tile = c.tile(simd, g, &h, g.all_columns());
        for w in g.rows() {
            let (row, position, n) = (tile.row(w.k), g.position(&h, w), w.columns.n);
            let ahead = [r.ahead(position), q.ahead(position), z.ahead(position)];
            // SAFETY: see the top of this file.
            let (mut r, q, mut z) =
                unsafe { (r.packs_mut(simd, position, n), q.packs(simd, position, n), z.packs_mut(simd, position, n)) };
            for i in 0..z.len() {
                row.fetch_ahead(i);
                ahead[0].fetch(i, Row::<S, T>::LANES);
                ahead[1].fetch(i, Row::<S, T>::LANES);
                ahead[2].fetch(i, Row::<S, T>::LANES);
                let entries = row.get(i);
                let residual = minus_alpha.mul_add(q.get(i), r.get(i));
                let scaled = entries.over_weight(residual) * entries.diagonal().reciprocal();
                rz.add_product(residual, scaled);
                rr.add_product(residual, residual);
                r.set(i, residual);
                z.set(i, scaled);
            }
            rz.end_short_row();
            rr.end_short_row();
        }
        [rz.total(), rr.total()]
    }
}
