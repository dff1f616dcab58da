//! The loops that solve lines, tile by tile: upwards by elimination, downwards by substitution. Safety
//! of all memory accesses: see the module `stages`.

use isobar_core::real::Real;
use isobar_core::simd::Pack;
use pulp::{Simd, WithSimd};

use super::kernels::ResidualRow;
use super::{ChunkScratch, TensorProduct};
use crate::half_plane::{
    Columns, HalfPlane, Level, Neighbours, RowSum, RowValues, Vertical, eliminate_row, substitute_row,
};
use crate::shared::{Ahead, Row, RowMut, Shared};

impl<T: Real> TensorProduct<T> {
    /// Tiles of columns: first column and number.
    #[inline(always)]
    fn tiles(&self) -> impl Iterator<Item = (usize, usize)> {
        let (pitch, tile) = (self.layout.pitch(), self.tile);
        (0..pitch).step_by(tile).map(move |m| (m, tile.min(pitch - m)))
    }

    /// Forward elimination and backward substitution of one tile. `out` is a vector, the position of its
    /// row 0 and the distance between its rows.
    ///
    /// # Safety
    /// The rows of `out` lie within their vector, and nothing else uses them.
    #[inline(always)]
    unsafe fn solve_tile<S: Simd>(
        &self,
        simd: S,
        (m, n): (usize, usize),
        columns: &Columns<'_, S, T>,
        ratio: &mut [T],
        factors: &mut [T],
        out: (Shared<T>, isize, usize),
        task: &mut impl LineTask<S, T>,
    ) {
        let nz = self.nz();
        let (vector, start, pitch) = out;
        let ratio = &mut ratio[..n];
        ratio.fill(T::ZERO);
        for k in 0..nz {
            let g = task.row(k);
            let position = start + (k * pitch + m) as isize;
            // SAFETY: promised by the caller; rows k and k − 1 are different rows.
            let y = unsafe { vector.packs_mut(simd, position, n) };
            let below = match k {
                0 => columns.total,
                // SAFETY: as above.
                _ => unsafe { vector.packs(simd, position - pitch as isize, n) },
            };
            let factor = RowMut::new(simd, &mut factors[k * n..(k + 1) * n]);
            let ratio = RowMut::new(simd, &mut *ratio);
            eliminate_row(
                simd,
                self.levels[k].splat(simd),
                columns.total,
                ratio,
                below,
                y,
                factor,
                vector.ahead(position),
                &g,
            );
        }
        task.finish(nz - 1);
        for k in (0..nz - 1).rev() {
            let position = start + (k * pitch + m) as isize;
            // SAFETY: as above.
            let (y, above) =
                unsafe { (vector.packs_mut(simd, position, n), vector.packs(simd, position + pitch as isize, n)) };
            substitute_row(Row::new(simd, &factors[k * n..(k + 1) * n]), above, y);
            task.finish(k);
        }
    }
}

/// What a tile of lines is solved for. (Traits, not closures: only functions that are sure to be
/// inlined get this machine's vector instructions.)
trait LineTask<S: Simd, T: Real> {
    /// A row of the right-hand side.
    type Row: RowValues<S, T>;

    /// Row k of the right-hand side over |T|; asked for once, upwards.
    fn row(&mut self, k: usize) -> Self::Row;

    /// Row k of the solution is final; called once, downwards.
    #[inline(always)]
    fn finish(&mut self, _k: usize) {}
}

/// f / |T|
struct Plain<'a, S: Simd, T: Real> {
    simd: S,
    h: HalfPlane,
    tile: (usize, usize),
    c: Columns<'a, S, T>,
    f: Shared<T>,
}

struct PlainRow<'a, S: Simd, T: Real> {
    f: Row<'a, S, T>,
    ahead: Ahead<T>,
    inverse_area: Row<'a, S, T>,
}

impl<S: Simd, T: Real> RowValues<S, T> for PlainRow<'_, S, T> {
    #[inline(always)]
    fn get(&self, i: usize) -> Pack<S, T> {
        self.f.get(i) * self.inverse_area.get(i)
    }

    #[inline(always)]
    fn fetch_ahead(&self, i: usize) {
        self.ahead.fetch(i, Row::<S, T>::LANES);
    }
}

impl<'a, S: Simd, T: Real> LineTask<S, T> for Plain<'a, S, T> {
    type Row = PlainRow<'a, S, T>;

    #[inline(always)]
    fn row(&mut self, k: usize) -> Self::Row {
        // SAFETY: see the top of this file.
        let f = unsafe { self.f.packs(self.simd, self.h.row(k, self.tile.0), self.tile.1) };
        PlainRow { f, ahead: self.f.ahead(self.h.row(k, self.tile.0)), inverse_area: self.c.inverse_area }
    }
}

/// z = M⁻¹ r
pub(super) struct Solve<'a, T> {
    pub(super) a: &'a TensorProduct<T>,
    pub(super) h: HalfPlane,
    pub(super) r: Shared<T>,
    pub(super) z: Shared<T>,
    pub(super) scratch: &'a mut ChunkScratch<T>,
}

impl<T: Real> WithSimd for Solve<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { a, h, r, z, scratch } = self;
        let ChunkScratch { ratio, factors, .. } = scratch;
        for (m, n) in a.tiles() {
            let c = a.columns(simd, &h, m, n);
            let mut task = Plain { simd, h, tile: (m, n), c, f: r };
            let out = (z, h.start, a.layout.pitch());
            // SAFETY: see the top of this file.
            unsafe { a.solve_tile(simd, (m, n), &c, ratio, factors, out, &mut task) };
        }
    }
}

/// r −= αq;  z = M⁻¹ r;  Σ r z;  Σ r²
pub(super) struct Precondition<'a, T> {
    pub(super) a: &'a TensorProduct<T>,
    pub(super) h: HalfPlane,
    pub(super) alpha: T,
    pub(super) r: Shared<T>,
    pub(super) q: Shared<T>,
    pub(super) z: Shared<T>,
    pub(super) scratch: &'a mut ChunkScratch<T>,
}

impl<T: Real> WithSimd for Precondition<'_, T> {
    type Output = [f64; 2];

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> [f64; 2] {
        let Self { a, h, alpha, r, q, z, scratch } = self;
        let ChunkScratch { ratio, factors, .. } = scratch;
        let minus_alpha = Pack::splat(simd, -alpha);
        let (mut rz, mut rr) = (RowSum::new(simd), RowSum::new(simd));
        for (m, n) in a.tiles() {
            let c = a.columns(simd, &h, m, n);
            let plain = Plain { simd, h, tile: (m, n), c, f: r };
            let mut task = Update { plain, minus_alpha, q, z, rz, rr };
            let out = (z, h.start, a.layout.pitch());
            // SAFETY: see the top of this file.
            unsafe { a.solve_tile(simd, (m, n), &c, ratio, factors, out, &mut task) };
            (rz, rr) = (task.rz, task.rr);
        }
        [rz.total(), rr.total()]
    }
}

/// r −= αq on the way up, sums on both.
struct Update<'a, S: Simd, T: Real> {
    plain: Plain<'a, S, T>,
    minus_alpha: Pack<S, T>,
    q: Shared<T>,
    z: Shared<T>,
    rz: RowSum<S, T>,
    rr: RowSum<S, T>,
}

impl<'a, S: Simd, T: Real> LineTask<S, T> for Update<'a, S, T> {
    type Row = PlainRow<'a, S, T>;

    #[inline(always)]
    fn row(&mut self, k: usize) -> Self::Row {
        let Plain { simd, h, tile: (m, n), f: r, .. } = self.plain;
        // SAFETY: see the top of this file.
        let (mut r, q) = unsafe { (r.packs_mut(simd, h.row(k, m), n), self.q.packs(simd, h.row(k, m), n)) };
        let ahead = [self.plain.f, self.q].map(|vector| vector.ahead(h.row(k, m)));
        for i in 0..r.len() {
            ahead[0].fetch(i, Row::<S, T>::LANES);
            ahead[1].fetch(i, Row::<S, T>::LANES);
            let value = self.minus_alpha.mul_add(q.get(i), r.get(i));
            self.rr.add_product(value, value);
            r.set(i, value);
        }
        self.rr.end_row();
        self.plain.row(k)
    }

    #[inline(always)]
    fn finish(&mut self, k: usize) {
        let Plain { simd, h, tile: (m, n), f: r, .. } = self.plain;
        // SAFETY: see the top of this file.
        let (r, z) = unsafe { (r.packs(simd, h.row(k, m), n), self.z.packs(simd, h.row(k, m), n)) };
        for i in 0..r.len() {
            self.rz.add_product(r.get(i), z.get(i));
        }
        self.rz.end_row();
    }
}

/// u += ρ(M⁻¹(f − (A − M) u) − u) on one colour: a column's own old values never meet the vertical
/// operator.
pub(super) struct Relax<'a, T> {
    pub(super) a: &'a TensorProduct<T>,
    pub(super) h: HalfPlane,
    pub(super) from_zero: bool,
    pub(super) rho: T,
    pub(super) f: Shared<T>,
    pub(super) u: Shared<T>,
    pub(super) scratch: &'a mut ChunkScratch<T>,
}

impl<T: Real> WithSimd for Relax<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { a, h, from_zero, rho, f, u, scratch } = self;
        if from_zero {
            return Solve { a, h, r: f, z: u, scratch }.with_simd(simd);
        }
        let ChunkScratch { ratio, factors, values, .. } = scratch;
        let values = Shared::of(values);
        for (m, n) in a.tiles() {
            let c = a.columns(simd, &h, m, n);
            let plain = Plain { simd, h, tile: (m, n), c, f };
            let mut task = Coupled { levels: &a.levels, plain, u };
            if rho == T::ONE {
                let out = (u, h.start, a.layout.pitch());
                // SAFETY: see the top of this file.
                unsafe { a.solve_tile(simd, (m, n), &c, ratio, factors, out, &mut task) };
            } else {
                let mut task = OverRelax { coupled: task, values, pitch: a.tile, rho: Pack::splat(simd, rho) };
                let out = (values, -(m as isize), a.tile);
                // SAFETY: as above; `values` is this thread's own.
                unsafe { a.solve_tile(simd, (m, n), &c, ratio, factors, out, &mut task) };
            }
        }
    }
}

/// (f − d Σ α u) / |T|
struct Coupled<'a, S: Simd, T: Real> {
    levels: &'a [Level<T>],
    plain: Plain<'a, S, T>,
    u: Shared<T>,
}

struct CoupledRow<'a, S: Simd, T: Real> {
    v: Level<Pack<S, T>>,
    c: Columns<'a, S, T>,
    f: PlainRow<'a, S, T>,
    around: Neighbours<'a, S, T>,
}

impl<S: Simd, T: Real> RowValues<S, T> for CoupledRow<'_, S, T> {
    #[inline(always)]
    fn get(&self, i: usize) -> Pack<S, T> {
        self.v.horizontal.mul_add(self.around.sum(&self.c, i), self.f.get(i))
    }

    #[inline(always)]
    fn fetch_ahead(&self, i: usize) {
        self.f.fetch_ahead(i);
        self.around.fetch_ahead(i);
    }
}

impl<'a, S: Simd, T: Real> LineTask<S, T> for Coupled<'a, S, T> {
    type Row = CoupledRow<'a, S, T>;

    #[inline(always)]
    fn row(&mut self, k: usize) -> Self::Row {
        let Plain { simd, h, tile: (m, n), c, .. } = self.plain;
        // SAFETY: see the top of this file.
        let around = unsafe { Neighbours::new(simd, self.u, &h, k, m, n) };
        CoupledRow { v: self.levels[k].splat(simd), c, f: self.plain.row(k), around }
    }
}

/// The solution goes to `values` first, and from there u += ρ(values − u).
struct OverRelax<'a, S: Simd, T: Real> {
    coupled: Coupled<'a, S, T>,
    values: Shared<T>,
    pitch: usize,
    rho: Pack<S, T>,
}

impl<'a, S: Simd, T: Real> LineTask<S, T> for OverRelax<'a, S, T> {
    type Row = CoupledRow<'a, S, T>;

    #[inline(always)]
    fn row(&mut self, k: usize) -> Self::Row {
        self.coupled.row(k)
    }

    #[inline(always)]
    fn finish(&mut self, k: usize) {
        let Plain { simd, h, tile: (m, n), .. } = self.coupled.plain;
        // SAFETY: see the top of this file; `values` is this thread's own.
        let (mut u, value) = unsafe {
            (self.coupled.u.packs_mut(simd, h.row(k, m), n), self.values.packs(simd, (k * self.pitch) as isize, n))
        };
        for i in 0..u.len() {
            u.set(i, self.rho.mul_add(value.get(i) - u.get(i), u.get(i)));
        }
    }
}

/// δ = M⁻¹(f − A u), kept apart from u.
pub(super) struct JacobiCorrection<'a, T> {
    pub(super) a: &'a TensorProduct<T>,
    pub(super) h: HalfPlane,
    pub(super) f: Shared<T>,
    pub(super) u: Shared<T>,
    pub(super) corrections: Shared<T>,
    pub(super) kept: isize,
    pub(super) scratch: &'a mut ChunkScratch<T>,
}

impl<T: Real> WithSimd for JacobiCorrection<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { a, h, f, u, corrections, kept, scratch } = self;
        let ChunkScratch { ratio, factors, .. } = scratch;
        for (m, n) in a.tiles() {
            let c = a.columns(simd, &h, m, n);
            let mut task = JacobiTask { a, simd, h, tile: (m, n), c, f, u };
            let out = (corrections, kept, a.layout.pitch());
            // SAFETY: see the top of this file; the corrections of plane j are this stage's.
            unsafe { a.solve_tile(simd, (m, n), &c, ratio, factors, out, &mut task) };
        }
    }
}

/// (f − A u) / |T|
struct JacobiTask<'a, S: Simd, T: Real> {
    a: &'a TensorProduct<T>,
    simd: S,
    h: HalfPlane,
    tile: (usize, usize),
    c: Columns<'a, S, T>,
    f: Shared<T>,
    u: Shared<T>,
}

/// As a right-hand side: over |T|.
impl<S: Simd, T: Real> RowValues<S, T> for ResidualRow<'_, S, T> {
    #[inline(always)]
    fn get(&self, i: usize) -> Pack<S, T> {
        let minus_au = -self.column.apply(self.v, &self.c, &self.around, i);
        self.f.get(i).mul_add(self.c.inverse_area.get(i), minus_au)
    }

    #[inline(always)]
    fn fetch_ahead(&self, i: usize) {
        self.ahead.fetch(i, Row::<S, T>::LANES);
        self.around.fetch_ahead(i);
    }
}

impl<'a, S: Simd, T: Real> LineTask<S, T> for JacobiTask<'a, S, T> {
    type Row = ResidualRow<'a, S, T>;

    #[inline(always)]
    fn row(&mut self, k: usize) -> Self::Row {
        let Self { a, simd, h, tile: (m, n), c, f, u } = *self;
        // SAFETY: see the top of this file.
        unsafe {
            ResidualRow {
                v: a.levels[k].splat(simd),
                c,
                f: f.packs(simd, h.row(k, m), n),
                ahead: f.ahead(h.row(k, m)),
                around: Neighbours::new(simd, u, &h, k, m, n),
                column: Vertical::new(simd, u, &h, a.nz(), k, m, n),
            }
        }
    }
}
