//! Loops with the strict triangular parts of the matrix. Safety of all memory accesses: see the module
//! `kernels`.

use isobar_core::real::Real;
use isobar_core::simd::Pack;
use pulp::Simd;

use super::Kernel;
use super::faces::{FaceRow, Faces};
use super::kernels::{Couplings, rows};
use super::rows::{Around, Geometry, HalfPlane, Which};
use crate::half_plane::RowSum;
use crate::shared::{Row, Shared};

/// v = D⁻¹(r − L w);  Σ v D v
pub(super) struct RelaxLower<T> {
    pub(super) h: HalfPlane,
    pub(super) r: Shared<T>,
    pub(super) w: Shared<T>,
    pub(super) v: Shared<T>,
}

impl<T: Real> Kernel<T> for RelaxLower<T> {
    type Output = [f64; 2];

    #[inline(always)]
    fn run<S: Simd, F: Faces<T>>(self, simd: S, g: &Geometry<T>, faces: &F) -> [f64; 2] {
        let Self { h, r, w, v } = self;
        let mut sum = RowSum::new(simd);
        for window in rows(g) {
            let places = g.places(&h, window, Which::All);
            let t = faces.row(simd, g, &h, window, &places);
            let position = g.position(&h, window);
            let ahead = [r, w, v].map(|x| x.ahead(position));
            // SAFETY: see the top of this file, here and below.
            let (around, r, mut out) = unsafe {
                (
                    Around::new(simd, g, w, &g.places(&h, window, Which::Lower), window.n),
                    r.packs(simd, position, window.n),
                    v.packs_mut(simd, position, window.n),
                )
            };
            for i in 0..out.len() {
                t.fetch_ahead(i);
                ahead[0].fetch(i, Row::<S, T>::LANES);
                ahead[1].fetch(i, Row::<S, T>::LANES);
                ahead[2].fetch(i, Row::<S, T>::LANES);
                let couplings = Couplings::of(&t, g.is_tall(), i);
                let diagonal = t.shift(i) + couplings.total();
                let right = r.get(i) + couplings.sum(&around, i);
                let value = right * diagonal.reciprocal();
                sum.add_product(diagonal * value, value);
                out.set(i, value);
            }
            sum.end_short_row();
        }
        [sum.total(), 0.0]
    }
}

/// z = v − D⁻¹ Lᵀ w
pub(super) struct RelaxUpper<T> {
    pub(super) h: HalfPlane,
    pub(super) v: Shared<T>,
    pub(super) w: Shared<T>,
    pub(super) z: Shared<T>,
}

impl<T: Real> Kernel<T> for RelaxUpper<T> {
    type Output = [f64; 2];

    #[inline(always)]
    fn run<S: Simd, F: Faces<T>>(self, simd: S, g: &Geometry<T>, faces: &F) -> [f64; 2] {
        let Self { h, v, w, z } = self;
        for window in rows(g) {
            let places = g.places(&h, window, Which::All);
            let t = faces.row(simd, g, &h, window, &places);
            let position = g.position(&h, window);
            let ahead = [v, z].map(|x| x.ahead(position));
            // SAFETY: see the top of this file.
            let (around, v, mut out) = unsafe {
                (
                    Around::new(simd, g, w, &g.places(&h, window, Which::Higher), window.n),
                    v.packs(simd, position, window.n),
                    z.packs_mut(simd, position, window.n),
                )
            };
            for i in 0..out.len() {
                t.fetch_ahead(i);
                around.fetch_ahead(i);
                ahead[0].fetch(i, Row::<S, T>::LANES);
                ahead[1].fetch(i, Row::<S, T>::LANES);
                let couplings = Couplings::of(&t, g.is_tall(), i);
                let diagonal = t.shift(i) + couplings.total();
                out.set(i, couplings.sum(&around, i).mul_add(diagonal.reciprocal(), v.get(i)));
            }
        }
        [0.0; 2]
    }
}

/// z = M⁻¹ r, the incomplete Poisson preconditioner
pub(super) struct IncompletePoisson<T> {
    pub(super) h: HalfPlane,
    pub(super) scaled: bool,
    pub(super) inverse_diagonal: Shared<T>,
    pub(super) r: Shared<T>,
    pub(super) z: Shared<T>,
}

/// What a pack of cells has around it: r and D⁻¹.
struct Products<'a, S: Simd, T: Real> {
    simd: S,
    /// D⁻¹ of the lower neighbours.
    lower: Around<'a, S, T>,
    /// Unscaled: D⁻¹ of the lower neighbours; scaled: of all.
    weights: Around<'a, S, T>,
    /// r where `weights` is meant.
    weighted: Around<'a, S, T>,
    /// Unscaled: r of the higher neighbours; scaled: nothing.
    plain: Option<Around<'a, S, T>>,
}

impl<S: Simd, T: Real> Products<'_, S, T> {
    /// z of pack i, from r and D⁻¹ there.
    #[inline(always)]
    fn value(&self, t: &Couplings<S, T>, r: Pack<S, T>, inverse: Pack<S, T>, i: usize) -> Pack<S, T> {
        let ([lower, weights, weighted], plain) = (
            [&self.lower, &self.weights, &self.weighted].map(|around| around.horizontal(i)),
            self.plain.as_ref().map(|around| around.horizontal(i)),
        );
        let zero = Pack::splat(self.simd, T::ZERO);
        let (mut squares, mut sum, mut plain_sum) = (zero, zero, zero);
        let is_scaled = plain.is_none();
        for n in 0..4 {
            let coupling = t.horizontal[n];
            let product = coupling * lower[n];
            squares = product.mul_add(if is_scaled { coupling } else { product }, squares);
            sum = (coupling * weights[n]).mul_add(weighted[n], sum);
            if let Some(plain) = plain {
                plain_sum = coupling.mul_add(plain[n], plain_sum);
            }
        }
        if let Some(vertical) = t.vertical {
            let ([lower, weights, weighted], plain) = (
                [&self.lower, &self.weights, &self.weighted].map(|around| around.vertical(i)),
                self.plain.as_ref().map(|around| around.vertical(i)),
            );
            for n in 0..2 {
                let coupling = vertical[n];
                let product = coupling * lower[n];
                squares = product.mul_add(if is_scaled { coupling } else { product }, squares);
                sum = (coupling * weights[n]).mul_add(weighted[n], sum);
                if let Some(plain) = plain {
                    plain_sum = coupling.mul_add(plain[n], plain_sum);
                }
            }
        }
        if is_scaled {
            // (r/d)(1 + Σ T²/(d d_m)) + Σ T r_m/(d d_m)
            inverse * (r.mul_add(inverse * squares, r) + sum)
        } else {
            // r (1 + Σ (T/d_m)²) + Σ T r_m/d_m + (Σ T r_m)/d
            r.mul_add(squares, r) + plain_sum.mul_add(inverse, sum)
        }
    }
}

impl<T: Real> Kernel<T> for IncompletePoisson<T> {
    type Output = [f64; 2];

    #[inline(always)]
    fn run<S: Simd, F: Faces<T>>(self, simd: S, g: &Geometry<T>, faces: &F) -> [f64; 2] {
        let Self { h, scaled, inverse_diagonal, r, z } = self;
        for w in rows(g) {
            let places = g.places(&h, w, Which::All);
            let lower = g.places(&h, w, Which::Lower);
            let higher = g.places(&h, w, Which::Higher);
            let t = faces.row(simd, g, &h, w, &places);
            let position = g.position(&h, w);
            let ahead = z.ahead(position);
            let summed = if scaled { &places } else { &lower };
            // SAFETY: see the top of this file.
            let (products, r, inverse, mut out) = unsafe {
                (
                    Products {
                        simd,
                        lower: Around::new(simd, g, inverse_diagonal, &lower, w.n),
                        weights: Around::new(simd, g, inverse_diagonal, summed, w.n),
                        weighted: Around::new(simd, g, r, summed, w.n),
                        plain: if scaled { None } else { Some(Around::new(simd, g, r, &higher, w.n)) },
                    },
                    r.packs(simd, position, w.n),
                    inverse_diagonal.packs(simd, position, w.n),
                    z.packs_mut(simd, position, w.n),
                )
            };
            for i in 0..out.len() {
                t.fetch_ahead(i);
                products.weighted.fetch_ahead(i);
                products.weights.fetch_ahead(i);
                ahead.fetch(i, Row::<S, T>::LANES);
                let couplings = Couplings::of(&t, g.is_tall(), i);
                out.set(i, products.value(&couplings, r.get(i), inverse.get(i), i));
            }
        }
        [0.0; 2]
    }
}
