//! Half a sweep of red–black relaxation: the cells with i + j + k even, or the others, which are every other row of a half plane.
//! Safety of all memory accesses: see the module `kernels`.

use isobar_core::prelude::{Colour, Guess, Pack, Real};
use pulp::Simd;

use crate::geometry::{Geometry, HalfPlane};
use crate::seven_point::kernels::around;
use crate::seven_point::{Coefficients, Entries, Kernel, RowCoefficients, SevenPoint, Stored, TileCoefficients};
use crate::shared::{Row, Shared};

impl<C: Stored<T>, T: Real> SevenPoint<C, T> {
    /// Computes u += ρ D⁻¹(f − A u) in the cells of one colour of plane j. From zero, the first of two half sweeps sets the cells
    /// of the other colour to zero.
    pub(crate) fn relax_cells(&self, c: &C, j: usize, colour: Colour, rho: T, guess: Guess, [f, u]: [Shared<T>; 2]) {
        let g = self.geometry();
        for half in Colour::BOTH {
            let (h, first_layer) = (g.half_plane(j, half), usize::from(half != colour));
            match guess {
                Guess::Zero => c.run(self.cpu(), g, FromZero { h, first_layer, rho, f, u }),
                Guess::Given => c.run(self.cpu(), g, HalfSweep { h, first_layer, rho, f, u }),
            }
        }
    }
}

/// u += ρ D⁻¹(f − A u) in every other layer of a half plane
struct HalfSweep<T> {
    h: HalfPlane,
    /// 0 or 1.
    first_layer: usize,
    rho: T,
    f: Shared<T>,
    u: Shared<T>,
}

impl<T: Real> Kernel<T> for HalfSweep<T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, C: Coefficients<T>>(self, simd: S, g: Geometry<'_, T>, c: &C) {
        let Self { h, first_layer, rho, f, u } = self;
        let rho = Pack::splat(simd, rho);
        let tile = c.tile(simd, g, &h, g.all_columns());
        // SAFETY: see the top of this file, here and below; neighbours are of the other colour of cells, in other rows.
        let neighbours = unsafe { around(g, u, &h, g.all_columns()) };
        for w in g.rows().skip(first_layer).step_by(2) {
            let (row, position, n) = (tile.row(w.k), g.position(&h, w), w.columns.n);
            let ahead = f.ahead(position);
            // SAFETY: as above.
            let (around, f, mut out) =
                unsafe { (neighbours.row(simd, w.k), f.packs(simd, position, n), u.packs_mut(simd, position, n)) };
            for i in 0..out.len() {
                ahead.fetch(i, Row::<S, T>::LANES);
                around.fetch_ahead(i);
                row.fetch_ahead(i);
                let entries = row.get(i);
                let mut sum = entries.add_horizontal_sum(around.horizontal(i), entries.over_weight(f.get(i)));
                let mut diagonal = entries.excess();
                if let Some([below, above]) = entries.vertical() {
                    let [u_below, u_above] = around.vertical(i);
                    sum = above.mul_add(u_above, below.mul_add(u_below, sum));
                    diagonal = diagonal + (below + above);
                }
                let old = out.get(i);
                // If D is zero, so is the relaxed value.
                out.set(i, rho.mul_add((sum - diagonal * old) * diagonal.reciprocal(), old));
            }
        }
    }
}

/// u = ρ D⁻¹ f in every other layer of a half plane, 0 in the others
struct FromZero<T> {
    h: HalfPlane,
    first_layer: usize,
    rho: T,
    f: Shared<T>,
    u: Shared<T>,
}

impl<T: Real> Kernel<T> for FromZero<T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, C: Coefficients<T>>(self, simd: S, g: Geometry<'_, T>, c: &C) {
        let Self { h, first_layer, rho, f, u } = self;
        let rho = Pack::splat(simd, rho);
        let tile = c.tile(simd, g, &h, g.all_columns());
        for w in g.rows() {
            let (row, position, n) = (tile.row(w.k), g.position(&h, w), w.columns.n);
            // SAFETY: see the top of this file.
            let (f, mut out) = unsafe { (f.packs(simd, position, n), u.packs_mut(simd, position, n)) };
            let is_swept = w.k % 2 == first_layer;
            for i in 0..out.len() {
                let value = if is_swept {
                    row.fetch_ahead(i);
                    let entries = row.get(i);
                    rho * (entries.over_weight(f.get(i)) * entries.diagonal().reciprocal())
                } else {
                    Pack::splat(simd, T::ZERO)
                };
                out.set(i, value);
            }
        }
    }
}
