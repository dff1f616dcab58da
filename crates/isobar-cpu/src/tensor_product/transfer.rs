//! Restriction and prolongation, a whole plane at a time. Safety of all memory accesses: see the
//! module `stages`.

use isobar_core::layout::Colour;
use isobar_core::real::Real;
use pulp::{Simd, WithSimd};

use super::TensorProduct;
use super::kernels::Residual;
use super::stages::Restricted;
use crate::half_plane::{HalfPlane, Neighbours};
use crate::shared::{RowMut, Shared};

/// The half planes of a plane with even and with odd column indices.
fn by_parity<T: Real>(a: &TensorProduct<T>, j: usize) -> (HalfPlane, HalfPlane) {
    let [red, black] = Colour::BOTH.map(|colour| a.half_plane(j, colour));
    if j.is_multiple_of(2) { (red, black) } else { (black, red) }
}

/// A coarse plane from the fine planes j − 1 and j.
pub(super) struct Restrict<'a, T> {
    pub(super) a: &'a TensorProduct<T>,
    pub(super) coarse: &'a TensorProduct<T>,
    pub(super) j: usize,
    pub(super) what: Restricted<T>,
    pub(super) coarse_f: Shared<T>,
    /// Room for a row in natural order.
    pub(super) row: &'a mut [T],
}

impl<T: Real> WithSimd for Restrict<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { a, coarse, j, what, coarse_f, row } = self;
        let n = a.layout.pitch();
        let coarse_n = coarse.layout.pitch();
        let (even, odd) = by_parity(coarse, j / 2);
        let fine = [j - 1, j].map(|j| Colour::BOTH.map(|colour| a.half_plane(j, colour)));
        let fine = fine.as_flattened();
        let row = &mut row[..n.max(2 * coarse_n)];
        row.fill(T::ZERO);
        for k in 0..a.nz() {
            row[..n].fill(T::ZERO);
            let mut sums = RowMut::new(simd, &mut row[..n]);
            // Fine columns 2m and 2m + 1, of either colour, make up coarse column m.
            for h in fine {
                match what {
                    Restricted::Vector(f) => {
                        // SAFETY: see the top of this file, here and below.
                        let f = unsafe { f.packs(simd, h.row(k, 0), n) };
                        for i in 0..f.len() {
                            sums.set(i, sums.get(i) + f.get(i));
                        }
                    }
                    Restricted::Residual { f, u, colours } if colours.contains(&h.colour) => {
                        let residual = Residual { a, h: *h, f, u }.row(simd, k);
                        for i in 0..residual.len() {
                            sums.set(i, sums.get(i) + residual.residual(i));
                        }
                    }
                    Restricted::AfterSweepFromZero { u, first } if h.colour == first => {
                        let c = a.columns(simd, h, 0, n);
                        let horizontal = a.levels[k].splat(simd).horizontal;
                        // SAFETY: as above.
                        let around = unsafe { Neighbours::new(simd, u, h, k, 0, n) };
                        for i in 0..sums.len() {
                            let left = horizontal * c.area.get(i);
                            sums.set(i, left.mul_add(around.sum(&c, i), sums.get(i)));
                        }
                    }
                    Restricted::Residual { .. } | Restricted::AfterSweepFromZero { .. } => {}
                }
            }
            // SAFETY: as above; even and odd columns are different half planes.
            let (even, odd) =
                unsafe { (coarse_f.row_mut(even.row(k, 0), coarse_n), coarse_f.row_mut(odd.row(k, 0), coarse_n)) };
            for ((pair, even), odd) in row.as_chunks::<2>().0.iter().zip(even).zip(odd) {
                [*even, *odd] = *pair;
            }
        }
    }
}

/// u += P u_c on plane j.
pub(super) struct Prolong<'a, T> {
    pub(super) a: &'a TensorProduct<T>,
    pub(super) coarse: &'a TensorProduct<T>,
    pub(super) j: usize,
    pub(super) colours: &'static [Colour],
    pub(super) coarse_u: Shared<T>,
    pub(super) u: Shared<T>,
    /// Room for a row in natural order and a ghost at either end.
    pub(super) row: &'a mut [T],
}

impl<T: Real> WithSimd for Prolong<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { a, coarse, j, colours, coarse_u, u, row } = self;
        let n = a.layout.pitch();
        let coarse_n = coarse.layout.pitch();
        let shape = coarse.layout.shape();
        let far = if j.is_multiple_of(2) { (j / 2).checked_sub(1) } else { Some(j / 2 + 1) };
        let far = far.filter(|&far| far < shape.ny);
        let (three, one) = (T::from_f64(0.75), T::from_f64(0.25));
        // Outside, the value mirrors with the opposite sign.
        let far_weight = if far.is_some() { one } else { -one };
        let (near, far) = (by_parity(coarse, j / 2), by_parity(coarse, far.unwrap_or(j / 2)));
        let row = &mut row[..n.max(2 * coarse_n) + 2];
        row.fill(T::ZERO);
        for k in 0..a.nz() {
            // SAFETY: see the top of this file, here and below.
            let read = |h: HalfPlane| unsafe { coarse_u.row(h.row(k, 0), coarse_n) };
            let (near_even, near_odd, far_even, far_odd) = (read(near.0), read(near.1), read(far.0), read(far.1));
            // Between the two coarse rows, in natural order from position 1.
            let between = |near: T, far: T| three * near + far_weight * far;
            let pairs = row[1..].as_chunks_mut::<2>().0;
            for ((((pair, &near_even), &near_odd), &far_even), &far_odd) in
                pairs.iter_mut().zip(near_even).zip(near_odd).zip(far_even).zip(far_odd)
            {
                *pair = [between(near_even, far_even), between(near_odd, far_odd)];
            }
            row[0] = -row[1];
            row[1 + shape.nx] = -row[shape.nx];
            for &colour in colours {
                let h = a.half_plane(j, colour);
                let parity = a.layout.parity(j, colour);
                let columns = a.layout.columns(j, colour);
                // SAFETY: as above.
                let u = unsafe { u.row_mut(h.row(k, 0), n) };
                let (near, far) = (&row[1..1 + columns], &row[2 * parity..2 * parity + columns]);
                for ((u, &near), &far) in u.iter_mut().zip(near).zip(far) {
                    *u += three * near + one * far;
                }
            }
        }
    }
}
