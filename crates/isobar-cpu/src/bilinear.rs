//! Interpolation of the tensor-product operator's transfers. Safety of all memory accesses: see the module `seven_point::kernels`.

use std::ops::Range;

use isobar_core::prelude::{Colour, Layout, Real};

use crate::geometry::{Geometry, starts_by_parity};
use crate::shared::Shared;
use crate::tensor_product::Factors;
use crate::transfer::Planes;

/// Pairs of columns in x and y, and bilinear interpolation.
#[derive(Debug)]
pub(crate) struct Bilinear;

impl<T: Real> Planes<T> for Bilinear {
    type Stored = Factors<T>;

    const SKIPS_SOLVED: bool = true;

    fn ends_with(&self, fine: &Layout, j: usize) -> Option<(usize, Range<usize>)> {
        (j % 2 == 1 || j + 1 == fine.shape().ny).then(|| (j / 2, j / 2 * 2..j + 1))
    }

    fn halves_x(&self) -> bool {
        true
    }

    fn layers(&self, coarse_k: usize) -> Range<usize> {
        coarse_k..coarse_k + 1
    }

    #[inline(always)]
    fn prolong(
        &self,
        (g, coarse): (Geometry<'_, T>, &Layout),
        (j, colours): (usize, &[Colour]),
        coarse_u: Shared<T>,
        u: Shared<T>,
        [row, _]: &mut [Vec<T>; 2],
    ) {
        let (n, coarse_n, shape, fine) = (g.layout.pitch(), coarse.pitch(), coarse.shape(), g.layout.shape());
        // The last of an odd number of fine columns takes the value of its coarse column.
        let is_alone = |n: usize, count: usize| n + 1 == count && n.is_multiple_of(2);
        // Beyond the subdomain lies its halo row.
        let [before, after] = coarse.halo();
        let here = (j / 2) as isize;
        let far = if j.is_multiple_of(2) { here - 1 } else { here + 1 };
        let rows = -(before as isize)..(shape.ny + after) as isize;
        let far = Some(far).filter(|far| rows.contains(far) && !is_alone(j, fine.ny));
        let (three, one) = (T::from_f64(0.75), T::from_f64(0.25));
        // Outside, the value is mirrored with the opposite sign.
        let [near_weight, far_weight] = match far {
            _ if is_alone(j, fine.ny) => [T::ONE, T::ZERO],
            Some(_) => [three, one],
            None => [three, -one],
        };
        let [near_even, near_odd] = starts_by_parity(coarse, here);
        let [far_even, far_odd] = starts_by_parity(coarse, far.unwrap_or(here));
        let row = &mut row[..n.max(2 * coarse_n) + 2];
        row.fill(T::ZERO);
        for w in g.rows() {
            // SAFETY: see the top of this file, here and below.
            let read = |start: isize| unsafe { coarse_u.row(start + (w.k * coarse_n) as isize, coarse_n) };
            // Between the two coarse rows, in natural order from position 1.
            let between = |near: T, far: T| near_weight * near + far_weight * far;
            let pairs = row[1..].as_chunks_mut::<2>().0;
            for ((((pair, &near_even), &near_odd), &far_even), &far_odd) in
                pairs.iter_mut().zip(read(near_even)).zip(read(near_odd)).zip(read(far_even)).zip(read(far_odd))
            {
                *pair = [between(near_even, far_even), between(near_odd, far_odd)];
            }
            row[0] = -row[1];
            row[1 + shape.nx] = -row[shape.nx];
            for &colour in colours {
                let h = g.half_plane(j, colour);
                // SAFETY: as above.
                let u = unsafe { u.row_mut(g.position(&h, w), n) };
                let is_last_alone = h.parity == 0 && !fine.nx.is_multiple_of(2);
                let columns = if is_last_alone { h.columns - 1 } else { h.columns };
                let (near, far) = (&row[1..1 + columns], &row[2 * h.parity..2 * h.parity + columns]);
                for ((u, &near), &far) in u.iter_mut().zip(near).zip(far) {
                    *u += three * near + one * far;
                }
                if is_last_alone {
                    u[columns] += row[1 + columns];
                }
            }
        }
    }
}
