//! The loops of the stages, each on one half plane, row by row.
//!
//! Safety of all memory accesses, here and in the modules beside: loops are called from stages of
//! [`wavefront::run`](crate::wavefront::run), whose schedule makes them sound: a stage at plane j has planes j of
//! the vectors it writes to itself, and planes j − 1 … j + 1 of the vectors it reads are written by no other
//! stage meanwhile. A periodic y counts as the planes' being arranged in a ring.

use isobar_core::real::Real;
use isobar_core::simd::Pack;
use pulp::Simd;

use super::Kernel;
use super::faces::{FaceRow, Faces};
use super::rows::{Around, Geometry, HalfPlane, Which, Window};
use crate::half_plane::RowSum;
use crate::shared::{Row, Shared};

/// Windows that are whole rows.
#[inline(always)]
pub(super) fn rows<T: Real>(g: &Geometry<T>) -> impl Iterator<Item = Window> + use<T> {
    let n = g.layout.pitch();
    (0..g.layout.shape().nz).map(move |k| Window { k, m: 0, n })
}

/// The transmissibilities around a pack of cells: west, east, south, north, and below, above.
#[derive(Clone, Copy, Debug)]
pub(super) struct Couplings<S: Simd, T: Real> {
    pub(super) horizontal: [Pack<S, T>; 4],
    /// None where the grid has one level.
    pub(super) vertical: Option<[Pack<S, T>; 2]>,
}

impl<S: Simd, T: Real> Couplings<S, T> {
    #[inline(always)]
    pub(super) fn of(faces: &impl FaceRow<S, T>, is_tall: bool, i: usize) -> Self {
        Self { horizontal: faces.horizontal(i), vertical: if is_tall { Some(faces.vertical(i)) } else { None } }
    }

    /// Σ T over the horizontal faces
    #[inline(always)]
    pub(super) fn horizontal_total(&self) -> Pack<S, T> {
        let [west, east, south, north] = self.horizontal;
        (west + east) + (south + north)
    }

    /// Σ T
    #[inline(always)]
    pub(super) fn total(&self) -> Pack<S, T> {
        let horizontal = self.horizontal_total();
        match self.vertical {
            Some([below, above]) => horizontal + (below + above),
            None => horizontal,
        }
    }

    /// Σ T v over the horizontal neighbours
    #[inline(always)]
    pub(super) fn horizontal_sum(&self, v: &Around<'_, S, T>, i: usize) -> Pack<S, T> {
        let ([west, east, south, north], [v_west, v_east, v_south, v_north]) = (self.horizontal, v.horizontal(i));
        west.mul_add(v_west, east * v_east) + south.mul_add(v_south, north * v_north)
    }

    /// Σ T v
    #[inline(always)]
    pub(super) fn sum(&self, v: &Around<'_, S, T>, i: usize) -> Pack<S, T> {
        let horizontal = self.horizontal_sum(v, i);
        match self.vertical {
            Some([below, above]) => {
                let [v_below, v_above] = v.vertical(i);
                below.mul_add(v_below, above.mul_add(v_above, horizontal))
            }
            None => horizontal,
        }
    }

    /// (A u)_n = s u_n + Σ T (u_n − u_m), from differences: a constant gives exactly s u.
    #[inline(always)]
    pub(super) fn apply(&self, shift: Pack<S, T>, u: Pack<S, T>, v: &Around<'_, S, T>, i: usize) -> Pack<S, T> {
        let ([west, east, south, north], [v_west, v_east, v_south, v_north]) = (self.horizontal, v.horizontal(i));
        let x = west.mul_add(u - v_west, east * (u - v_east));
        let y = south.mul_add(u - v_south, north.mul_add(u - v_north, shift * u));
        match self.vertical {
            Some([below, above]) => {
                let [v_below, v_above] = v.vertical(i);
                below.mul_add(u - v_below, above.mul_add(u - v_above, x)) + y
            }
            None => x + y,
        }
    }
}

/// y = A x;  Σ x y
pub(super) struct Apply<T> {
    pub(super) h: HalfPlane,
    pub(super) x: Shared<T>,
    pub(super) y: Shared<T>,
}

impl<T: Real> Kernel<T> for Apply<T> {
    type Output = [f64; 2];

    #[inline(always)]
    fn run<S: Simd, F: Faces<T>>(self, simd: S, g: &Geometry<T>, faces: &F) -> [f64; 2] {
        let Self { h, x, y } = self;
        let mut sum = RowSum::new(simd);
        for w in rows(g) {
            let places = g.places(&h, w, Which::All);
            let t = faces.row(simd, g, &h, w, &places);
            let position = g.position(&h, w);
            // SAFETY: see the top of this file, here and below.
            let (around, own, mut out) = unsafe {
                (Around::new(simd, g, x, &places, w.n), x.packs(simd, position, w.n), y.packs_mut(simd, position, w.n))
            };
            let ahead = y.ahead(position);
            for i in 0..out.len() {
                around.fetch_ahead(i);
                t.fetch_ahead(i);
                ahead.fetch(i, Row::<S, T>::LANES);
                let u = own.get(i);
                let value = Couplings::of(&t, g.is_tall(), i).apply(t.shift(i), u, &around, i);
                sum.add_product(u, value);
                out.set(i, value);
            }
            sum.end_short_row();
        }
        [sum.total(), 0.0]
    }
}

/// r = f − A u, where there is an r, so far from its place in f;  Σ (f − A u)²
pub(super) struct Residual<T> {
    pub(super) h: HalfPlane,
    pub(super) f: Shared<T>,
    pub(super) u: Shared<T>,
    pub(super) r: Option<(Shared<T>, isize)>,
}

impl<T: Real> Kernel<T> for Residual<T> {
    type Output = [f64; 2];

    #[inline(always)]
    fn run<S: Simd, F: Faces<T>>(self, simd: S, g: &Geometry<T>, faces: &F) -> [f64; 2] {
        let Self { h, f, u, r } = self;
        let mut sum = RowSum::new(simd);
        for w in rows(g) {
            let places = g.places(&h, w, Which::All);
            let t = faces.row(simd, g, &h, w, &places);
            let position = g.position(&h, w);
            // SAFETY: see the top of this file.
            let (around, own, f_row, mut out) = unsafe {
                (
                    Around::new(simd, g, u, &places, w.n),
                    u.packs(simd, position, w.n),
                    f.packs(simd, position, w.n),
                    r.map(|(r, shift)| r.packs_mut(simd, position + shift, w.n)),
                )
            };
            let ahead = f.ahead(position);
            for i in 0..own.len() {
                around.fetch_ahead(i);
                t.fetch_ahead(i);
                ahead.fetch(i, Row::<S, T>::LANES);
                let au = Couplings::of(&t, g.is_tall(), i).apply(t.shift(i), own.get(i), &around, i);
                let value = f_row.get(i) - au;
                sum.add_product(value, value);
                if let Some(out) = &mut out {
                    out.set(i, value);
                }
            }
            sum.end_short_row();
        }
        [sum.total(), 0.0]
    }
}

/// z = D⁻¹ r
pub(super) struct Divide<T> {
    pub(super) h: HalfPlane,
    pub(super) r: Shared<T>,
    pub(super) z: Shared<T>,
}

impl<T: Real> Kernel<T> for Divide<T> {
    type Output = [f64; 2];

    #[inline(always)]
    fn run<S: Simd, F: Faces<T>>(self, simd: S, g: &Geometry<T>, faces: &F) -> [f64; 2] {
        let Self { h, r, z } = self;
        for w in rows(g) {
            let places = g.places(&h, w, Which::All);
            let t = faces.row(simd, g, &h, w, &places);
            let position = g.position(&h, w);
            // SAFETY: see the top of this file.
            let (r, mut out) = unsafe { (r.packs(simd, position, w.n), z.packs_mut(simd, position, w.n)) };
            for i in 0..out.len() {
                t.fetch_ahead(i);
                let diagonal = t.shift(i) + Couplings::of(&t, g.is_tall(), i).total();
                out.set(i, r.get(i) * diagonal.reciprocal());
            }
        }
        [0.0; 2]
    }
}

/// r −= αq;  z = D⁻¹ r;  Σ r z;  Σ r²
pub(super) struct Scale<T> {
    pub(super) h: HalfPlane,
    pub(super) alpha: T,
    pub(super) r: Shared<T>,
    pub(super) q: Shared<T>,
    pub(super) z: Shared<T>,
}

impl<T: Real> Kernel<T> for Scale<T> {
    type Output = [f64; 2];

    #[inline(always)]
    fn run<S: Simd, F: Faces<T>>(self, simd: S, g: &Geometry<T>, faces: &F) -> [f64; 2] {
        let Self { h, alpha, r, q, z } = self;
        let minus_alpha = Pack::splat(simd, -alpha);
        let (mut rz, mut rr) = (RowSum::new(simd), RowSum::new(simd));
        for w in rows(g) {
            let places = g.places(&h, w, Which::All);
            let t = faces.row(simd, g, &h, w, &places);
            let position = g.position(&h, w);
            let ahead = [r, q, z].map(|v| v.ahead(position));
            // SAFETY: see the top of this file.
            let (mut r, q, mut z) = unsafe {
                (r.packs_mut(simd, position, w.n), q.packs(simd, position, w.n), z.packs_mut(simd, position, w.n))
            };
            for i in 0..z.len() {
                t.fetch_ahead(i);
                ahead[0].fetch(i, Row::<S, T>::LANES);
                ahead[1].fetch(i, Row::<S, T>::LANES);
                ahead[2].fetch(i, Row::<S, T>::LANES);
                let residual = minus_alpha.mul_add(q.get(i), r.get(i));
                let diagonal = t.shift(i) + Couplings::of(&t, g.is_tall(), i).total();
                let scaled = residual * diagonal.reciprocal();
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
