//! Restriction and prolongation between grids of which one is coarsened by two in some directions. Safety of all memory accesses: see the
//! module `seven_point::kernels`.

use std::ops::Range;
use std::sync::Arc;

use isobar_core::prelude::{Colour, Layout, Operator, Real, Result, Transfer};
use isobar_core::stencil::halving::Halving;
use isobar_core::stencil::point_levels::SupportsPoints;

use crate::diffusion::{Diffusion, DiffusionCoefficients};
use crate::geometry::starts_by_parity;
use crate::transfer::{PlaneTransfer, Planes};
use crate::{Cpu, Geometry, Shared};

/// The cells of coarse cells between two levels of point relaxation, and interpolation.
#[derive(Debug)]
struct Halved<T> {
    by: Halving,
    /// The numbers of either subdomain's first plane in the whole grids, by which weights are numbered.
    firsts: [usize; 2],
    /// The weights in x by parity, of the coarse cell that contains a cell and of its neighbour.
    in_x: [[Vec<T>; 2]; 2],
}

impl<T: Real> Halved<T> {
    fn new(layout: &Layout, coarse: &Layout, by: &Halving) -> Self {
        let of_parity = |weights: &[f64], parity: usize| -> Vec<T> {
            (0..layout.pitch()).map(|m| T::from_f64(weights.get(2 * m + parity).copied().unwrap_or(0.0))).collect()
        };
        let along = &by.along[0];
        let in_x = [0, 1].map(|parity| [of_parity(&along.near, parity), of_parity(&along.far, parity)]);
        Self { by: by.clone(), firsts: [layout, coarse].map(Layout::first_row), in_x }
    }
}

impl SupportsPoints for Cpu {
    fn point_transfer<T: Real>(
        &self,
        fine: &Arc<Diffusion<T>>,
        coarse: &Layout,
        by: &Halving,
    ) -> Result<Arc<dyn Transfer<Self, T>>> {
        let halved = Halved::new(Operator::layout(&**fine), coarse, by);
        Ok(Arc::new(PlaneTransfer::new(fine, *coarse, halved)))
    }
}

impl<T: Real> Planes<T> for Halved<T> {
    type Stored = DiffusionCoefficients<T>;

    const SKIPS_SOLVED: bool = false;

    fn ends_with(&self, _: &Layout, j: usize) -> Option<(usize, Range<usize>)> {
        let ([first, coarse_first], y) = (self.firsts, &self.by.along[1]);
        let coarse_j = y.part_of(first + j);
        let planes = y.parts(coarse_j);
        (first + j + 1 == planes.end).then(|| (coarse_j - coarse_first, planes.start - first..planes.end - first))
    }

    fn halves_x(&self) -> bool {
        self.by.along[0].is_halved
    }

    fn layers(&self, coarse_k: usize) -> Range<usize> {
        self.by.along[2].parts(coarse_k)
    }

    #[inline(always)]
    fn prolong(
        &self,
        (g, coarse): (Geometry<'_, T>, &Layout),
        (j, colours): (usize, &[Colour]),
        coarse_u: Shared<T>,
        u: Shared<T>,
        [natural, between]: &mut [Vec<T>; 2],
    ) {
        let Self { by, firsts, in_x } = self;
        let [x, y, z] = &by.along;
        let (n, coarse_n, coarse_nx) = (g.layout.pitch(), coarse.pitch(), coarse.shape().nx);
        let row = firsts[0] + j;
        let place = |row: usize| starts_by_parity(coarse, coarse.row_here(row));
        let places = [place(y.part_of(row)), place(y.beside(row))];
        let (even, odd) = between[..2 * coarse_n].split_at_mut(coarse_n);
        let natural = &mut natural[..2 * coarse_n + 2];
        for w in g.rows() {
            let layers = [(z.part_of(w.k), z.near[w.k]), (z.beside(w.k), z.far[w.k])];
            even.fill(T::ZERO);
            odd.fill(T::ZERO);
            // Interpolates between two coarse planes and two coarse layers.
            for (starts, in_y) in places.into_iter().zip([y.near[row], y.far[row]]) {
                for (layer, in_z) in layers {
                    let weight = T::from_f64(in_y * in_z);
                    if weight == T::ZERO {
                        continue;
                    }
                    // SAFETY: see the top of this file, here and below.
                    let read = |start: isize| unsafe { coarse_u.row(start + (layer * coarse_n) as isize, coarse_n) };
                    even.iter_mut().zip(read(starts[0])).for_each(|(sum, &value)| *sum += weight * value);
                    odd.iter_mut().zip(read(starts[1])).for_each(|(sum, &value)| *sum += weight * value);
                }
            }
            if x.is_halved {
                let pairs = natural[1..].as_chunks_mut::<2>().0;
                for ((pair, &even), &odd) in pairs.iter_mut().zip(&*even).zip(&*odd) {
                    *pair = [even, odd];
                }
                // Periodic neighbours; elsewhere their weight is zero.
                (natural[0], natural[1 + coarse_nx]) = (natural[coarse_nx], natural[1]);
            }
            for &colour in colours {
                let h = g.half_plane(j, colour);
                // SAFETY: as above.
                let u = unsafe { u.row_mut(g.position(&h, w), n) };
                let columns = h.columns;
                if !x.is_halved {
                    let from = if h.parity == 0 { &*even } else { &*odd };
                    u[..columns].iter_mut().zip(from).for_each(|(u, &value)| *u += value);
                    continue;
                }
                let [near, far] = &in_x[h.parity];
                let (own, beside) = (&natural[1..1 + columns], &natural[2 * h.parity..2 * h.parity + columns]);
                let weights = near.iter().zip(far);
                for (((u, &own), &beside), (&near, &far)) in u.iter_mut().zip(own).zip(beside).zip(weights) {
                    *u += near * own + far * beside;
                }
            }
        }
    }
}
