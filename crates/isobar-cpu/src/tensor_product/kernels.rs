//! The loops of the stages, each on one half plane, row by row. Safety of all memory accesses: see the
//! module `stages`.

use isobar_core::real::Real;
use isobar_core::simd::Pack;
use pulp::{Simd, WithSimd};

use super::TensorProduct;
use crate::half_plane::{Columns, HalfPlane, Level, Neighbours, RowSum, Vertical};
use crate::shared::{Ahead, Row, RowMut, Shared};

impl<T: Real> TensorProduct<T> {
    pub(super) fn nz(&self) -> usize {
        self.levels.len()
    }
}

/// y = A x;  Σ x y
pub(super) struct Apply<'a, T> {
    pub(super) a: &'a TensorProduct<T>,
    pub(super) h: HalfPlane,
    pub(super) x: Shared<T>,
    pub(super) y: Shared<T>,
}

impl<T: Real> WithSimd for Apply<'_, T> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let Self { a, h, x, y } = self;
        let mut sum = RowSum::new(simd);
        let n = a.layout.pitch();
        let c = a.columns(simd, &h, 0, n);
        for k in 0..a.nz() {
            let v = a.levels[k].splat(simd);
            // SAFETY: see the top of this file.
            let (around, column, mut out) = unsafe {
                (
                    Neighbours::new(simd, x, &h, k, 0, n),
                    Vertical::new(simd, x, &h, a.nz(), k, 0, n),
                    y.packs_mut(simd, h.row(k, 0), n),
                )
            };
            for i in 0..out.len() {
                around.fetch_ahead(i);
                let value = c.area.get(i) * column.apply(v, &c, &around, i);
                sum.add_product(column.centre.get(i), value);
                out.set(i, value);
            }
            sum.end_row();
        }
        sum.total()
    }
}

/// z = D⁻¹ r
pub(super) struct Divide<'a, T> {
    pub(super) a: &'a TensorProduct<T>,
    pub(super) h: HalfPlane,
    pub(super) r: Shared<T>,
    pub(super) z: Shared<T>,
}

impl<T: Real> WithSimd for Divide<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { a, h, r, z } = self;
        let n = a.layout.pitch();
        let c = a.columns(simd, &h, 0, n);
        for k in 0..a.nz() {
            let v = a.levels[k].splat(simd);
            let vertical = v.mass + v.above + v.below;
            // SAFETY: see the top of this file.
            let (r, mut z) = unsafe { (r.packs(simd, h.row(k, 0), n), z.packs_mut(simd, h.row(k, 0), n)) };
            for i in 0..z.len() {
                let diagonal = v.horizontal.mul_add(c.total.get(i), vertical);
                z.set(i, (r.get(i) * c.inverse_area.get(i)).over(diagonal));
            }
        }
    }
}

/// f − A u, row by row.
pub(super) struct Residual<'a, T> {
    pub(super) a: &'a TensorProduct<T>,
    pub(super) h: HalfPlane,
    pub(super) f: Shared<T>,
    pub(super) u: Shared<T>,
}

/// A row of f − A u.
pub(super) struct ResidualRow<'a, S: Simd, T: Real> {
    pub(super) v: Level<Pack<S, T>>,
    pub(super) c: Columns<'a, S, T>,
    pub(super) f: Row<'a, S, T>,
    pub(super) ahead: Ahead<T>,
    pub(super) around: Neighbours<'a, S, T>,
    pub(super) column: Vertical<'a, S, T>,
}

impl<S: Simd, T: Real> ResidualRow<'_, S, T> {
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.f.len()
    }

    /// f − A u
    #[inline(always)]
    pub(super) fn residual(&self, i: usize) -> Pack<S, T> {
        (-self.c.area.get(i)).mul_add(self.column.apply(self.v, &self.c, &self.around, i), self.f.get(i))
    }
}

impl<'a, T: Real> Residual<'a, T> {
    /// Row k of the residual.
    #[inline(always)]
    pub(super) fn row<S: Simd>(&self, simd: S, k: usize) -> ResidualRow<'a, S, T> {
        let n = self.a.layout.pitch();
        // SAFETY: see the top of this file.
        unsafe {
            ResidualRow {
                v: self.a.levels[k].splat(simd),
                c: self.a.columns(simd, &self.h, 0, n),
                f: self.f.packs(simd, self.h.row(k, 0), n),
                ahead: self.f.ahead(self.h.row(k, 0)),
                around: Neighbours::new(simd, self.u, &self.h, k, 0, n),
                column: Vertical::new(simd, self.u, &self.h, self.a.nz(), k, 0, n),
            }
        }
    }
}

/// Σ (f − A u)²
pub(super) struct ResidualNorm<'a, T>(pub(super) Residual<'a, T>);

impl<T: Real> WithSimd for ResidualNorm<'_, T> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let mut sum = RowSum::new(simd);
        for k in 0..self.0.a.nz() {
            let row = self.0.row(simd, k);
            for i in 0..row.len() {
                let value = row.residual(i);
                sum.add_product(value, value);
            }
            sum.end_row();
        }
        sum.total()
    }
}

/// r = f − A u, rounded to R;  Σ (f − A u)²
pub(super) struct ResidualStore<'a, T, R> {
    pub(super) residual: Residual<'a, T>,
    pub(super) r: Shared<R>,
    /// A row in T.
    pub(super) row: &'a mut [T],
}

impl<T: Real, R: Real> WithSimd for ResidualStore<'_, T, R> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let Self { residual, r, row } = self;
        let n = residual.a.layout.pitch();
        let mut sum = RowSum::new(simd);
        for k in 0..residual.a.nz() {
            let mut out = RowMut::new(simd, &mut row[..n]);
            let values = residual.row(simd, k);
            for i in 0..out.len() {
                let value = values.residual(i);
                sum.add_product(value, value);
                out.set(i, value);
            }
            sum.end_row();
            // SAFETY: see the top of this file.
            let r = unsafe { r.row_mut(residual.h.row(k, 0), n) };
            for (r, value) in r.iter_mut().zip(&row[..n]) {
                *r = R::from_f64(value.to_f64());
            }
        }
        sum.total()
    }
}
