//! Loops with the strict triangular parts of a matrix with W = I. Safety of all memory accesses: see the module `kernels`.

use isobar_core::prelude::{Pack, Real};
use pulp::Simd;

use super::{Coefficients, Entries, Kernel, RowCoefficients, TileCoefficients};
use crate::around::{Around, AroundRow};
use crate::{Geometry, HalfPlane, Row, RowSum, Shared, View, Which};

/// Returns Σ t v over all neighbours.
#[inline(always)]
fn sum<S: Simd, T: Real>(entries: &impl Entries<S, T>, v: &AroundRow<'_, S, T>, i: usize) -> Pack<S, T> {
    let horizontal = entries.horizontal_sum(v.horizontal(i));
    match entries.vertical() {
        Some([below, above]) => {
            let [v_below, v_above] = v.vertical(i);
            below.mul_add(v_below, above.mul_add(v_above, horizontal))
        }
        None => horizontal,
    }
}

/// # Safety
/// Nobody writes the neighbours meanwhile.
#[inline(always)]
unsafe fn around<'a, T: Real>(g: Geometry<'a, T>, v: Shared<T>, h: &HalfPlane, which: Which) -> Around<'a, T> {
    // SAFETY: promised by the caller.
    unsafe { View { g, v, h, columns: g.all_columns(), which }.around() }
}

/// v = D⁻¹(r − L w);  Σ v D v
pub(crate) struct RelaxLower<T> {
    pub(crate) h: HalfPlane,
    pub(crate) r: Shared<T>,
    pub(crate) w: Shared<T>,
    pub(crate) v: Shared<T>,
}

impl<T: Real> Kernel<T> for RelaxLower<T> {
    type Output = [f64; 2];

    #[inline(always)]
    fn run<S: Simd, C: Coefficients<T>>(self, simd: S, g: Geometry<'_, T>, c: &C) -> [f64; 2] {
        let Self { h, r, w, v } = self;
        let mut total = RowSum::new(simd);
        let tile = c.tile(simd, g, &h, g.all_columns());
        // SAFETY: see the top of this file, here and below.
        let lower = unsafe { around(g, w, &h, Which::Lower) };
        for window in g.rows() {
            let (row, position, n) = (tile.row(window.k), g.position(&h, window), window.columns.n);
            let ahead = [r.ahead(position), w.ahead(position), v.ahead(position)];
            // SAFETY: as above.
            let (lower, r, mut out) =
                unsafe { (lower.row(simd, window.k), r.packs(simd, position, n), v.packs_mut(simd, position, n)) };
            for i in 0..out.len() {
                row.fetch_ahead(i);
                ahead[0].fetch(i, Row::<S, T>::LANES);
                ahead[1].fetch(i, Row::<S, T>::LANES);
                ahead[2].fetch(i, Row::<S, T>::LANES);
                let entries = row.get(i);
                let diagonal = entries.diagonal();
                let value = (r.get(i) + sum(&entries, &lower, i)) * diagonal.reciprocal();
                total.add_product(diagonal * value, value);
                out.set(i, value);
            }
            total.end_short_row();
        }
        [total.total(), 0.0]
    }
}

/// z = v − D⁻¹ Lᵀ w
pub(crate) struct RelaxUpper<T> {
    pub(crate) h: HalfPlane,
    pub(crate) v: Shared<T>,
    pub(crate) w: Shared<T>,
    pub(crate) z: Shared<T>,
}

impl<T: Real> Kernel<T> for RelaxUpper<T> {
    type Output = [f64; 2];

    #[inline(always)]
    fn run<S: Simd, C: Coefficients<T>>(self, simd: S, g: Geometry<'_, T>, c: &C) -> [f64; 2] {
        let Self { h, v, w, z } = self;
        let tile = c.tile(simd, g, &h, g.all_columns());
        // SAFETY: see the top of this file, here and below.
        let higher = unsafe { around(g, w, &h, Which::Higher) };
        for window in g.rows() {
            let (row, position, n) = (tile.row(window.k), g.position(&h, window), window.columns.n);
            let ahead = [v.ahead(position), z.ahead(position)];
            // SAFETY: as above.
            let (higher, v, mut out) =
                unsafe { (higher.row(simd, window.k), v.packs(simd, position, n), z.packs_mut(simd, position, n)) };
            for i in 0..out.len() {
                row.fetch_ahead(i);
                higher.fetch_ahead(i);
                ahead[0].fetch(i, Row::<S, T>::LANES);
                ahead[1].fetch(i, Row::<S, T>::LANES);
                let entries = row.get(i);
                out.set(i, sum(&entries, &higher, i).mul_add(entries.diagonal().reciprocal(), v.get(i)));
            }
        }
        [0.0; 2]
    }
}

/// z = M⁻¹ r, the incomplete Poisson preconditioner
pub(crate) struct IncompletePoisson<T> {
    pub(crate) h: HalfPlane,
    pub(crate) scaled: bool,
    pub(crate) inverse_diagonal: Shared<T>,
    pub(crate) r: Shared<T>,
    pub(crate) z: Shared<T>,
}

/// The neighbours of a pack of cells: r and D⁻¹.
struct Products<'a, S: Simd, T: Real> {
    simd: S,
    /// The values D⁻¹ of the lower neighbours.
    lower: AroundRow<'a, S, T>,
    /// The values D⁻¹ of the lower neighbours if unscaled, of all if scaled.
    weights: AroundRow<'a, S, T>,
    /// The values r of the neighbours in `weights`.
    weighted: AroundRow<'a, S, T>,
    /// The values r of the higher neighbours if unscaled, nothing if scaled.
    plain: Option<AroundRow<'a, S, T>>,
}

impl<S: Simd, T: Real> Products<'_, S, T> {
    /// Returns z of pack i, from r and D⁻¹ there.
    #[inline(always)]
    fn value(&self, entries: &impl Entries<S, T>, r: Pack<S, T>, inverse: Pack<S, T>, i: usize) -> Pack<S, T> {
        let zero = Pack::splat(self.simd, T::ZERO);
        let mut sums = [zero; 3];
        let around = [self.lower.horizontal(i), self.weights.horizontal(i), self.weighted.horizontal(i)];
        let plain = self.plain.as_ref().map(|around| around.horizontal(i));
        Self::add(&mut sums, entries.horizontal(), around, plain);
        if let Some(vertical) = entries.vertical() {
            let around = [self.lower.vertical(i), self.weights.vertical(i), self.weighted.vertical(i)];
            let plain = self.plain.as_ref().map(|around| around.vertical(i));
            Self::add(&mut sums, vertical, around, plain);
        }
        let [squares, weighted, plain] = sums;
        if self.plain.is_none() {
            // Scaled: (r/d)(1 + Σ t²/(d d_m)) + Σ t r_m/(d d_m)
            inverse * (r.mul_add(inverse * squares, r) + weighted)
        } else {
            // Unscaled: r (1 + Σ (t/d_m)²) + Σ t r_m/d_m + (Σ t r_m)/d
            r.mul_add(squares, r) + plain.mul_add(inverse, weighted)
        }
    }

    /// Adds Σ over some neighbours: (t/d_m)² (scaled: t²/d_m), t r_m/d_m, and t r_m of those without a weight.
    #[inline(always)]
    fn add<const N: usize>(
        [squares, sum, plain_sum]: &mut [Pack<S, T>; 3],
        couplings: [Pack<S, T>; N],
        [lower, weights, weighted]: [[Pack<S, T>; N]; 3],
        plain: Option<[Pack<S, T>; N]>,
    ) {
        for n in 0..N {
            let coupling = couplings[n];
            let product = coupling * lower[n];
            *squares = product.mul_add(if plain.is_none() { coupling } else { product }, *squares);
            *sum = (coupling * weights[n]).mul_add(weighted[n], *sum);
            if let Some(plain) = plain {
                *plain_sum = coupling.mul_add(plain[n], *plain_sum);
            }
        }
    }
}

impl<T: Real> Kernel<T> for IncompletePoisson<T> {
    type Output = [f64; 2];

    #[inline(always)]
    fn run<S: Simd, C: Coefficients<T>>(self, simd: S, g: Geometry<'_, T>, c: &C) -> [f64; 2] {
        let Self { h, scaled, inverse_diagonal, r, z } = self;
        let tile = c.tile(simd, g, &h, g.all_columns());
        let summed = if scaled { Which::All } else { Which::Lower };
        // SAFETY: see the top of this file, here and below.
        let [lower, weights, weighted, plain] = unsafe {
            [
                around(g, inverse_diagonal, &h, Which::Lower),
                around(g, inverse_diagonal, &h, summed),
                around(g, r, &h, summed),
                around(g, r, &h, Which::Higher),
            ]
        };
        for w in g.rows() {
            let (row, position, n) = (tile.row(w.k), g.position(&h, w), w.columns.n);
            let ahead = z.ahead(position);
            // SAFETY: as above.
            let (products, r, inverse, mut out) = unsafe {
                (
                    Products {
                        simd,
                        lower: lower.row(simd, w.k),
                        weights: weights.row(simd, w.k),
                        weighted: weighted.row(simd, w.k),
                        plain: if scaled { None } else { Some(plain.row(simd, w.k)) },
                    },
                    r.packs(simd, position, n),
                    inverse_diagonal.packs(simd, position, n),
                    z.packs_mut(simd, position, n),
                )
            };
            for i in 0..out.len() {
                row.fetch_ahead(i);
                products.weighted.fetch_ahead(i);
                products.weights.fetch_ahead(i);
                ahead.fetch(i, Row::<S, T>::LANES);
                out.set(i, products.value(&row.get(i), r.get(i), inverse.get(i), i));
            }
        }
        [0.0; 2]
    }
}
