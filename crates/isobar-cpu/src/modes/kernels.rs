//! Products of a small matrix with the rows of a half plane, by packs of columns.
//!
//! A half plane is read from end to end, eight layers at a time. Column by column the addresses would lie an eighth of a
//! page apart: caches have few places for such addresses, and prefetchers do not follow them.

use isobar_core::prelude::{Pack, Real, VerticalModes};
use pulp::{Simd, WithSimd};

use crate::shared::{Row, RowMut};

/// The vectors s_m(k) at `m + modes · k`
#[derive(Clone, Debug)]
pub(super) struct Vectors<T> {
    by_layer: Vec<T>,
    modes: usize,
}

impl<T: Real> Vectors<T> {
    pub(super) fn new(modes: &VerticalModes) -> Self {
        let count = modes.count();
        let mut by_layer = vec![T::ZERO; count * modes.layers()];
        for m in 0..count {
            for (k, &s) in modes.vector(m).iter().enumerate() {
                by_layer[m + count * k] = T::from_f64(s);
            }
        }
        Self { by_layer, modes: count }
    }

    /// Returns s_m(k).
    #[inline(always)]
    pub(super) fn get(&self, m: usize, k: usize) -> T {
        self.by_layer[m + self.modes * k]
    }

    /// Returns s_m(k) of all modes in a layer.
    #[inline(always)]
    pub(super) fn layer(&self, k: usize) -> &[T] {
        &self.by_layer[self.modes * k..][..self.modes]
    }
}

/// Layers that are added together, so that sums are loaded and stored once for them.
const LAYERS: usize = 8;
/// Packs of a row that are summed together over all modes.
const PACKS: usize = 4;

/// Computes g_m = Σ_k s_m(k) r_k on rows of `pitch` columns; layers are added in order.
pub(super) struct Project<'a, T> {
    pub(super) s: &'a Vectors<T>,
    pub(super) r: &'a [T],
    pub(super) g: &'a mut [T],
    pub(super) pitch: usize,
}

impl<T: Real> WithSimd for Project<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { s, r, g, pitch } = self;
        g.fill(T::ZERO);
        let mut k = 0;
        for layers in r.chunks(LAYERS * pitch) {
            if layers.len() == LAYERS * pitch {
                add_layers::<LAYERS, S, T>(simd, s, k, layers, g, pitch);
                k += LAYERS;
            } else {
                for layer in layers.chunks_exact(pitch) {
                    add_layers::<1, S, T>(simd, s, k, layer, g, pitch);
                    k += 1;
                }
            }
        }
    }
}

/// Computes g_m += Σ_q s_m(k + q) r_q over N layers, two modes at a time.
#[inline(always)]
fn add_layers<const N: usize, S: Simd, T: Real>(
    simd: S,
    s: &Vectors<T>,
    k: usize,
    layers: &[T],
    g: &mut [T],
    pitch: usize,
) {
    let rows: [Row<'_, S, T>; N] = std::array::from_fn(|q| Row::new(simd, &layers[q * pitch..][..pitch]));
    for (pair, g) in g.chunks_mut(2 * pitch).enumerate() {
        let factors =
            |m: usize| -> [Pack<S, T>; N] { std::array::from_fn(|q| Pack::splat(simd, s.get(2 * pair + m, k + q))) };
        if g.len() < 2 * pitch {
            let (f, mut g) = (factors(0), RowMut::new(simd, g));
            for i in 0..g.len() {
                let sum = (0..N).fold(g.get(i), |sum, q| f[q].mul_add(rows[q].get(i), sum));
                g.set(i, sum);
            }
            continue;
        }
        let (first, second) = g.split_at_mut(pitch);
        let (f, h) = (factors(0), factors(1));
        let (mut first, mut second) = (RowMut::new(simd, first), RowMut::new(simd, second));
        for i in 0..first.len() {
            let (mut sum, mut other) = (first.get(i), second.get(i));
            for q in 0..N {
                let r = rows[q].get(i);
                sum = f[q].mul_add(r, sum);
                other = h[q].mul_add(r, other);
            }
            first.set(i, sum);
            second.set(i, other);
        }
    }
}

/// Computes u_k += Σ_m s_m(k) x_m, or u_k = Σ_m s_m(k) x_m.
pub(super) struct Expand<'a, T> {
    pub(super) s: &'a Vectors<T>,
    pub(super) x: &'a [T],
    pub(super) u: &'a mut [T],
    pub(super) pitch: usize,
    pub(super) adds: bool,
}

impl<T: Real> WithSimd for Expand<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { s, x, u, pitch, adds } = self;
        for (pair, u) in u.chunks_mut(2 * pitch).enumerate() {
            let (first, second) = u.split_at_mut(pitch);
            let layer = s.layer(2 * pair);
            let mut first = RowMut::new(simd, first);
            let (packs, whole) = (first.len(), first.len() / PACKS * PACKS);
            if second.is_empty() {
                for i in 0..packs {
                    expand::<1, 1, S, T>(simd, [layer], x, pitch, i, adds, [&mut first]);
                }
                continue;
            }
            let (layers, mut second) = ([layer, s.layer(2 * pair + 1)], RowMut::new(simd, second));
            for i in (0..whole).step_by(PACKS) {
                expand::<2, PACKS, S, T>(simd, layers, x, pitch, i, adds, [&mut first, &mut second]);
            }
            for i in whole..packs {
                expand::<2, 1, S, T>(simd, layers, x, pitch, i, adds, [&mut first, &mut second]);
            }
        }
    }
}

/// Expands P packs of L layers from pack i on.
#[inline(always)]
fn expand<const L: usize, const P: usize, S: Simd, T: Real>(
    simd: S,
    layers: [&[T]; L],
    x: &[T],
    pitch: usize,
    i: usize,
    adds: bool,
    mut u: [&mut RowMut<'_, S, T>; L],
) {
    let mut sums = [[Pack::splat(simd, T::ZERO); P]; L];
    for (m, x) in x.chunks_exact(pitch).enumerate() {
        let row = Row::new(simd, x);
        let x: [Pack<S, T>; P] = std::array::from_fn(|p| row.get(i + p));
        for (sums, layer) in sums.iter_mut().zip(layers) {
            let factor = Pack::splat(simd, layer[m]);
            for (sum, &x) in sums.iter_mut().zip(&x) {
                *sum = factor.mul_add(x, *sum);
            }
        }
    }
    for (u, sums) in u.iter_mut().zip(sums) {
        for (p, sum) in sums.into_iter().enumerate() {
            let value = if adds { u.get(i + p) + sum } else { sum };
            u.set(i + p, value);
        }
    }
}
