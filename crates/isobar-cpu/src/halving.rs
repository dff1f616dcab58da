//! Restriction and prolongation between grids of which one is coarsened by two in some directions, a whole plane at a time.
//! Safety of all memory accesses: see the module `seven_point::kernels`.

use std::sync::Arc;

use isobar_core::backend::{Backend, HostScalars, Scalar};
use isobar_core::error::Result;
use isobar_core::layout::{Colour, Layout};
use isobar_core::operator::{
    LineSmoother, Operator, Sweep, Transfer, prolong_smooth_unfused, smooth_residual_restrict_unfused,
};
use isobar_core::options::Smoother;
use isobar_core::real::Real;
use isobar_core::stencil::halving::Halving;
use isobar_core::stencil::point_levels::SupportsPoints;
use pulp::{Simd, WithSimd};

use crate::cpu::Cpu;
use crate::diffusion::{Diffusion, DiffusionCoefficients};
use crate::geometry::{Geometry, HalfPlane, Window, starts_by_parity};
use crate::seven_point::kernels::ResidualRow;
use crate::seven_point::{ChunkSpace, Coefficients, Kernel, Stored, TileCoefficients};
use crate::shared::{RowMut, Shared};
use crate::vector::Vector;

/// The transfer between two levels of point relaxation.
#[derive(Debug)]
pub(crate) struct PointTransfer<T: Real> {
    fine: Arc<Diffusion<T>>,
    coarse: Layout,
    by: Halving,
    /// The weights in x by parity, of the coarse cell that contains a cell and of the one beside it.
    in_x: [[Vec<T>; 2]; 2],
}

/// The vector that a restriction sums.
#[derive(Clone, Copy)]
enum Restricted<T> {
    /// A stored vector.
    Vector(Shared<T>),
    /// f − A u.
    Residual([Shared<T>; 2]),
}

impl<T: Real> PointTransfer<T> {
    fn new(fine: &Arc<Diffusion<T>>, coarse: Layout, by: &Halving) -> Self {
        let layout = Operator::layout(&**fine);
        // The weights of the subdomain's own columns.
        let (first, nx) = (layout.origin()[0], layout.shape().nx);
        let of_parity = |weights: &[f64], parity: usize| -> Vec<T> {
            let own = &weights[first..first + nx];
            (0..layout.pitch()).map(|m| T::from_f64(own.get(2 * m + parity).copied().unwrap_or(0.0))).collect()
        };
        let along = &by.along[0];
        let in_x = [0, 1].map(|parity| [of_parity(&along.near, parity), of_parity(&along.far, parity)]);
        Self { fine: Arc::clone(fine), coarse, by: by.clone(), in_x }
    }

    /// Returns the numbers of either subdomain's first plane in the whole grids.
    fn firsts(&self) -> [usize; 2] {
        [Operator::layout(&*self.fine).origin()[1], self.coarse.origin()[1]]
    }

    /// Computes f_c = R … on the coarse plane whose last fine plane is j; does nothing on others.
    fn restrict_plane(
        &self,
        c: &DiffusionCoefficients<T>,
        j: usize,
        what: Restricted<T>,
        coarse_f: Shared<T>,
        space: &mut ChunkSpace<T>,
    ) {
        // Weights are numbered by the whole grid.
        let [first, coarse_first] = self.firsts();
        let coarse_j = self.by.along[1].part_of(first + j);
        let planes = self.by.along[1].parts(coarse_j);
        if first + j + 1 != planes.end {
            return;
        }
        let (planes, coarse_j) = (planes.start - first..planes.end - first, coarse_j - coarse_first);
        let restrict = Restrict { transfer: self, planes, coarse_j, what, coarse_f, rows: &mut space.natural };
        c.run(self.fine.cpu(), self.fine.geometry(), restrict);
    }

    /// Runs a pass whose only stage restricts.
    fn restriction(&self, what: Restricted<T>, coarse_f: &mut Vector<T>) {
        let coarse_f = coarse_f.share_mut();
        self.fine.plain_pass(|c, j, space| self.restrict_plane(c, j, what, coarse_f, space));
    }

    /// Computes u += P u_c on plane j.
    fn prolong_plane(&self, j: usize, coarse_u: Shared<T>, u: Shared<T>, space: &mut ChunkSpace<T>) {
        let g = self.fine.geometry();
        self.fine.cpu().dispatch::<T, _>(Prolong { transfer: self, g, j, coarse_u, u, rows: &mut space.natural });
    }
}

impl<T: Real> Transfer<Cpu, T> for PointTransfer<T> {
    fn fine(&self) -> &dyn LineSmoother<Cpu, T> {
        &*self.fine
    }

    fn coarse_layout(&self) -> &Layout {
        &self.coarse
    }

    fn restrict(&self, f: &mut Vector<T>, coarse_f: &mut Vector<T>) -> Result<()> {
        self.restriction(Restricted::Vector(f.share()), coarse_f);
        Ok(())
    }

    fn prolong(&self, coarse_u: &mut Vector<T>, u: &mut Vector<T>) -> Result<()> {
        self.fine.cpu().fill(coarse_u, &Colour::BOTH)?;
        let (coarse_u, u) = (coarse_u.share(), u.share_mut());
        self.fine.plain_pass(|_, j, space| self.prolong_plane(j, coarse_u, u, space));
        Ok(())
    }

    fn residual_restrict(
        &self,
        f: &Vector<T>,
        u: &mut Vector<T>,
        coarse_f: &mut Vector<T>,
        _: &mut Vector<T>,
    ) -> Result<()> {
        self.fine.cpu().fill(u, &Colour::BOTH)?;
        self.restriction(Restricted::Residual([f.share(), u.share()]), coarse_f);
        Ok(())
    }

    fn smooth_residual_restrict(&self, sweep: Sweep<'_, Vector<T>>, coarse_f: &mut Vector<T>) -> Result<()> {
        if sweep.relaxation.smoother == Smoother::LineJacobi {
            return smooth_residual_restrict_unfused(self, sweep, coarse_f);
        }
        let (fine, Sweep { relaxation, guess, f, u, .. }) = (&self.fine, sweep);
        let guess = fine.prepare(relaxation, guess, u);
        let (vectors, coarse_f) = ([f.share(), u.share_mut()], coarse_f.share_mut());
        let (c, mut workspace) = (fine.coefficients(), fine.workspace());
        let restrict = |j: usize, space: &mut ChunkSpace<T>| {
            self.restrict_plane(&c, j, Restricted::Residual(vectors), coarse_f, space);
        };
        let sweep = (relaxation, guess, 1);
        fine.pass_around_sweeps(&c, &mut workspace, sweep, [None, Some(&restrict)], vectors, u)
    }

    fn prolong_smooth(
        &self,
        coarse_u: &mut Vector<T>,
        sweep: Sweep<'_, Vector<T>>,
        norm: Option<(Scalar, &mut HostScalars)>,
    ) -> Result<()> {
        if sweep.relaxation.smoother == Smoother::LineJacobi {
            return prolong_smooth_unfused(self, coarse_u, sweep, norm);
        }
        let (fine, Sweep { relaxation, f, u, .. }) = (&self.fine, sweep);
        fine.cpu().fill(coarse_u, &Colour::BOTH)?;
        let (vectors, coarse_u) = ([f.share(), u.share_mut()], coarse_u.share());
        let prolong = |j: usize, space: &mut ChunkSpace<T>| self.prolong_plane(j, coarse_u, vectors[1], space);
        fine.sweep_after(&prolong, relaxation, vectors, norm, u)
    }
}

impl SupportsPoints for Cpu {
    fn point_transfer<T: Real>(
        &self,
        fine: &Arc<Diffusion<T>>,
        coarse: &Layout,
        by: &Halving,
    ) -> Result<Arc<dyn Transfer<Self, T>>> {
        Ok(Arc::new(PointTransfer::new(fine, *coarse, by)))
    }
}

/// Computes a coarse plane from one or two fine ones.
struct Restrict<'a, T: Real> {
    transfer: &'a PointTransfer<T>,
    planes: std::ops::Range<usize>,
    coarse_j: usize,
    what: Restricted<T>,
    coarse_f: Shared<T>,
    /// Scratch for rows.
    rows: &'a mut [Vec<T>; 2],
}

impl<T: Real> Kernel<T> for Restrict<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, C: Coefficients<T>>(self, simd: S, g: Geometry<'_, T>, c: &C) {
        let Self { transfer: PointTransfer { coarse, by, .. }, planes, coarse_j, what, coarse_f, rows } = self;
        let (n, coarse_n) = (g.layout.pitch(), coarse.pitch());
        let starts = starts_by_parity(coarse, coarse_j as isize);
        let half_plane = |j: usize, colour: Colour| {
            let h = g.half_plane(j, colour);
            let tile = c.tile(simd, g, &h, g.all_columns());
            (h, tile)
        };
        let (first, last) = (planes.start, planes.end - 1);
        let halves = [
            half_plane(first, Colour::Red),
            half_plane(first, Colour::Black),
            half_plane(last, Colour::Red),
            half_plane(last, Colour::Black),
        ];
        let count = if first == last { 2 } else { 4 };
        let is_halved = by.along[0].is_halved;
        let [even, odd] = rows;
        let (even, odd) = (&mut even[..n.max(2 * coarse_n)], &mut odd[..n.max(2 * coarse_n)]);
        for coarse_k in 0..coarse.shape().nz {
            even.fill(T::ZERO);
            odd.fill(T::ZERO);
            for k in by.along[2].parts(coarse_k) {
                let w = Window { k, columns: g.all_columns() };
                for (h, tile) in &halves[..count] {
                    // Where x is halved, coarse cell m consists of cells 2m and 2m + 1, of either colour.
                    let row = if is_halved || h.parity == 0 { &mut *even } else { &mut *odd };
                    add_row(simd, g, tile, h, w, what, &mut RowMut::new(simd, &mut row[..n]));
                }
            }
            let position = (coarse_k * coarse_n) as isize;
            // SAFETY: see the top of this file; even and odd columns are different half planes.
            let (to_even, to_odd) = unsafe {
                (coarse_f.row_mut(starts[0] + position, coarse_n), coarse_f.row_mut(starts[1] + position, coarse_n))
            };
            if is_halved {
                for ((pair, to_even), to_odd) in even.as_chunks::<2>().0.iter().zip(to_even).zip(to_odd) {
                    [*to_even, *to_odd] = *pair;
                }
            } else {
                to_even.copy_from_slice(&even[..coarse_n]);
                to_odd.copy_from_slice(&odd[..coarse_n]);
            }
        }
    }
}

/// Adds a row of the restricted vector.
#[inline(always)]
fn add_row<S: Simd, T: Real>(
    simd: S,
    g: Geometry<'_, T>,
    tile: &impl TileCoefficients<S, T>,
    h: &HalfPlane,
    w: Window,
    what: Restricted<T>,
    sums: &mut RowMut<'_, S, T>,
) {
    match what {
        Restricted::Vector(f) => {
            // SAFETY: see the top of this file, here and below.
            let f = unsafe { f.packs(simd, g.position(h, w), w.columns.n) };
            for i in 0..f.len() {
                sums.set(i, sums.get(i) + f.get(i));
            }
        }
        Restricted::Residual([f, u]) => {
            use crate::seven_point::RowCoefficients;
            let coefficients = tile.row(w.k);
            // SAFETY: as above.
            let residual = unsafe { ResidualRow::new(simd, g, f, u, h, w) };
            for i in 0..residual.len() {
                sums.set(i, sums.get(i) + residual.get(&coefficients.get(i), i));
            }
        }
    }
}

/// Computes u += P u_c on plane j.
struct Prolong<'a, T: Real> {
    transfer: &'a PointTransfer<T>,
    g: Geometry<'a, T>,
    j: usize,
    coarse_u: Shared<T>,
    u: Shared<T>,
    /// Scratch for rows.
    rows: &'a mut [Vec<T>; 2],
}

impl<T: Real> WithSimd for Prolong<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { transfer, g, j, coarse_u, u, rows } = self;
        let PointTransfer { coarse, by, in_x, .. } = transfer;
        let [x, y, z] = &by.along;
        let (n, coarse_n, coarse_nx) = (g.layout.pitch(), coarse.pitch(), coarse.shape().nx);
        let row = transfer.firsts()[0] + j;
        let place = |row: usize| {
            let plane = coarse.row_here(row);
            (plane, starts_by_parity(coarse, plane))
        };
        let places = [place(y.part_of(row)), place(y.beside(row))];
        let [natural, between] = rows;
        let (even, odd) = between[..2 * coarse_n].split_at_mut(coarse_n);
        let natural = &mut natural[..2 * coarse_n + 2];
        for w in g.rows() {
            let layers = [(z.part_of(w.k), z.near[w.k]), (z.beside(w.k), z.far[w.k])];
            even.fill(T::ZERO);
            odd.fill(T::ZERO);
            let mut beyond = [T::ZERO; 2];
            // Interpolates between two coarse planes and two coarse layers.
            for ((plane, starts), in_y) in places.into_iter().zip([y.near[row], y.far[row]]) {
                for (layer, in_z) in layers {
                    let weight = T::from_f64(in_y * in_z);
                    if weight == T::ZERO {
                        continue;
                    }
                    // SAFETY: see the top of this file, here and below.
                    let read = |start: isize| unsafe { coarse_u.row(start + (layer * coarse_n) as isize, coarse_n) };
                    even.iter_mut().zip(read(starts[0])).for_each(|(sum, &value)| *sum += weight * value);
                    odd.iter_mut().zip(read(starts[1])).for_each(|(sum, &value)| *sum += weight * value);
                    for (is_east, sum) in [false, true].into_iter().zip(&mut beyond) {
                        if coarse.goes_on_in_x()[usize::from(is_east)] {
                            let position = coarse.beyond(is_east, plane) + layer as isize;
                            // SAFETY: as above.
                            *sum += weight * unsafe { coarse_u.row(position, 1) }[0];
                        }
                    }
                }
            }
            if x.is_halved {
                let pairs = natural[1..].as_chunks_mut::<2>().0;
                for ((pair, &even), &odd) in pairs.iter_mut().zip(&*even).zip(&*odd) {
                    *pair = [even, odd];
                }
                // Periodic neighbours; elsewhere their weight is zero.
                (natural[0], natural[1 + coarse_nx]) = (natural[coarse_nx], natural[1]);
                let ends = [(0, beyond[0]), (1 + coarse_nx, beyond[1])];
                for ((at, value), goes_on) in ends.into_iter().zip(coarse.goes_on_in_x()) {
                    if goes_on {
                        natural[at] = value;
                    }
                }
            }
            for colour in Colour::BOTH {
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
