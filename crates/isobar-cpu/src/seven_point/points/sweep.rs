//! A sweep over one half plane.

use isobar_core::prelude::{Pack, Real};
use pulp::Simd;

use crate::seven_point::kernels::{Applied, around};
use crate::seven_point::{Coefficients, Entries, Kernel, RowCoefficients, TileCoefficients};
use crate::{Geometry, HalfPlane, Row, RowSum, Shared};

/// An update of a pack of cells, v = u + ω D⁻¹(f − A u), written as v = c + (1 − ω) u + Σ w u over the neighbours: with a
/// tile's c and w stored, a sub-iteration is this sum of products. Where D is zero, so are c and w.
pub(super) struct Update<S: Simd, T: Real> {
    /// ω D⁻¹ f
    pub(super) constant: Pack<S, T>,
    /// The weights w of west, east, south and north.
    pub(super) horizontal: [Pack<S, T>; 4],
    /// The weights w of below and above, if there are layers.
    pub(super) vertical: Option<[Pack<S, T>; 2]>,
}

impl<S: Simd, T: Real> Update<S, T> {
    #[inline(always)]
    pub(super) fn new(entries: &impl Entries<S, T>, omega: Pack<S, T>, f: Pack<S, T>) -> Self {
        let scale = omega * entries.diagonal().reciprocal();
        let [west, east, south, north] = entries.horizontal();
        let mut vertical = entries.vertical();
        if let Some([below, above]) = &mut vertical {
            (*below, *above) = (scale * *below, scale * *above);
        }
        Self {
            constant: scale * entries.over_weight(f),
            horizontal: [scale * west, scale * east, scale * south, scale * north],
            vertical,
        }
    }

    /// Returns v, in the same order of operations as in tiles.
    #[inline(always)]
    pub(super) fn apply(
        &self,
        rest: Option<Pack<S, T>>,
        u: Pack<S, T>,
        around: [Pack<S, T>; 4],
        beside: [Pack<S, T>; 2],
    ) -> Pack<S, T> {
        let mut value = self.constant;
        if let Some(rest) = rest {
            value = rest.mul_add(u, value);
        }
        let ([west, east, south, north], [u_west, u_east, u_south, u_north]) = (self.horizontal, around);
        value = north.mul_add(u_north, south.mul_add(u_south, east.mul_add(u_east, west.mul_add(u_west, value))));
        match self.vertical {
            Some([below, above]) => above.mul_add(beside[1], below.mul_add(beside[0], value)),
            None => value,
        }
    }
}

/// Returns 1 − ω, where it is not zero.
#[inline(always)]
pub(super) fn rest<S: Simd, T: Real>(simd: S, omega: T) -> Option<Pack<S, T>> {
    if omega == T::ONE { None } else { Some(Pack::splat(simd, T::ONE - omega)) }
}

/// v = u + ω D⁻¹(f − A u), and + m (u − v) where there is momentum m;  Σ (f − A u)²
pub(super) struct Sweep<T> {
    pub(super) h: HalfPlane,
    pub(super) omega: T,
    pub(super) momentum: Option<T>,
    pub(super) f: Shared<T>,
    pub(super) u: Shared<T>,
    pub(super) v: Shared<T>,
}

impl<T: Real> Kernel<T> for Sweep<T> {
    type Output = [f64; 2];

    #[inline(always)]
    fn run<S: Simd, C: Coefficients<T>>(self, simd: S, g: Geometry<'_, T>, c: &C) -> [f64; 2] {
        let Self { h, omega, momentum, f, u, v } = self;
        let (rest, omega) = (rest(simd, omega), Pack::splat(simd, omega));
        let momentum = momentum.map(|momentum| Pack::splat(simd, momentum));
        let mut sum = RowSum::new(simd);
        let tile = c.tile(simd, g, &h, g.all_columns());
        // SAFETY: see the top of `kernels`, here and below; v is another vector than u and f.
        let u = unsafe { around(g, u, &h, g.all_columns()) };
        for w in g.rows() {
            let (row, position, n) = (tile.row(w.k), g.position(&h, w), w.columns.n);
            let ahead = f.ahead(position);
            // SAFETY: as above.
            let (au, f, mut out) =
                unsafe { (Applied::new(simd, &u, w.k), f.packs(simd, position, n), v.packs_mut(simd, position, n)) };
            for i in 0..out.len() {
                ahead.fetch(i, Row::<S, T>::LANES);
                au.around.fetch_ahead(i);
                row.fetch_ahead(i);
                let entries = row.get(i);
                let residual = entries.less_weighted(f.get(i), au.get(&entries, i));
                sum.add_product(residual, residual);
                let update = Update::new(&entries, omega, f.get(i));
                let own = au.own.get(i);
                let mut value = update.apply(rest, own, au.around.horizontal(i), au.around.vertical(i));
                if let Some(momentum) = momentum {
                    value = momentum.mul_add(own - out.get(i), value);
                }
                out.set(i, value);
            }
            sum.end_short_row();
        }
        [sum.total(), 0.0]
    }
}
