//! Restriction and prolongation of the diffusion operator, a plane at a time. Safety of all memory accesses: see the
//! module `seven_point::kernels`.
//!
//! A fine column m of parity p is i = 2m + p: where x is halved, its coarse column is m, and the one on its side
//! m − 1 + 2p. With coarse rows in natural order and a ghost at either end, both are contiguous.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use isobar_core::backend::{HostScalars, Scalar};
use isobar_core::error::Result;
use isobar_core::layout::Layout;
use isobar_core::operator::{Guess, LineSmoother, Operator, Relaxation, Transfer};
use isobar_core::options::Smoother;
use isobar_core::real::Real;
use isobar_core::simd::Pack;
use isobar_core::stencil;
use pulp::{Simd, WithSimd};

use super::Diffusion;
use super::entries::arrange;
use crate::cpu::Cpu;
use crate::geometry::Geometry;
use crate::seven_point::{ChunkSpace, PLANES, Stage, store};
use crate::shared::{Row, RowMut, Shared};
use crate::vector::Vector;

/// Between two levels of the diffusion operator, with weights from the coefficients:
/// [`stencil::Diffusion::transfer_weights`].
#[derive(Debug)]
pub struct Weighted<T: Real> {
    fine: Arc<Diffusion<T>>,
    coarse: Layout,
    weights: RwLock<Weights<T>>,
}

/// In x and in y; none for a direction that is not halved.
#[derive(Debug)]
struct Weights<T> {
    x: Option<Vector<T>>,
    y: Option<Vector<T>>,
}

/// A fine grid, a coarse one, and what lies between.
#[derive(Clone, Copy)]
struct Levels<'a, T> {
    fine: Geometry<'a, T>,
    coarse: &'a Layout,
    weights: &'a Weights<T>,
}

impl<T: Real> Weighted<T> {
    pub(super) fn new(stencil: &stencil::Diffusion, fine: &Arc<Diffusion<T>>, coarse: Layout) -> Result<Self> {
        let room = |weights: &Option<Vec<f64>>| {
            weights.as_ref().map(|_| Vector::zeros(fine.cpu(), &fine.geometry().layout)).transpose()
        };
        let weights = stencil.transfer_weights();
        let mut stored = Weights { x: room(&weights[0])?, y: room(&weights[1])? };
        stored.set(fine.cpu(), &weights);
        Ok(Self { fine: Arc::clone(fine), coarse, weights: RwLock::new(stored) })
    }

    pub(super) fn update(&self, stencil: &stencil::Diffusion) {
        let weights = stencil.transfer_weights();
        self.weights.write().unwrap_or_else(PoisonError::into_inner).set(self.fine.cpu(), &weights);
    }

    fn weights(&self) -> RwLockReadGuard<'_, Weights<T>> {
        self.weights.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn levels<'a>(&'a self, weights: &'a Weights<T>) -> Levels<'a, T> {
        Levels { fine: self.fine.geometry(), coarse: &self.coarse, weights }
    }
}

impl<T: Real> Weights<T> {
    fn set(&mut self, cpu: &Cpu, [x, y]: &[Option<Vec<f64>>; 2]) {
        for (stored, weights) in [(&mut self.x, x), (&mut self.y, y)] {
            if let (Some(stored), Some(weights)) = (stored, weights) {
                arrange(cpu, stored, weights, 1.0);
            }
        }
    }
}

impl<T: Real> Transfer<Cpu, T> for Weighted<T> {
    fn fine(&self) -> &dyn LineSmoother<Cpu, T> {
        &*self.fine
    }

    fn coarse_layout(&self) -> &Layout {
        &self.coarse
    }

    fn is_adjoint(&self) -> bool {
        true
    }

    fn restrict(&self, f: &Vector<T>, coarse_f: &mut Vector<T>) -> Result<()> {
        let weights = self.weights();
        let (levels, fine) = (self.levels(&weights), &self.fine);
        let (f, coarse_f) = (f.share(), coarse_f.share_mut());
        fine.for_each_plane(&mut fine.workspace(), self.coarse.shape().ny, |coarse_j, space| {
            let starts = levels.planes_into(coarse_j).map(|plane| plane.map_or(0, |(j, _)| levels.fine.plane_start(j)));
            let natural = &mut space.natural;
            fine.cpu().dispatch::<T, _>(Restrict { levels, coarse_j, f, starts, coarse_f, natural });
        });
        Ok(())
    }

    fn residual_restrict(
        &self,
        f: &Vector<T>,
        u: &Vector<T>,
        coarse_f: &mut Vector<T>,
        _: &mut Vector<T>,
    ) -> Result<()> {
        let weights = self.weights();
        let (levels, fine) = (self.levels(&weights), &self.fine);
        let (vectors, coarse_f) = ([f.share(), u.share()], coarse_f.share_mut());
        let (c, mut workspace) = (fine.coefficients(), fine.workspace());
        workspace.forget_planes();
        let planes = workspace.planes.share_mut();
        fine.for_each_plane(&mut workspace, self.coarse.shape().ny, |coarse_j, space| {
            let mut starts = [0; PLANES];
            for (n, from) in levels.planes_into(coarse_j).into_iter().enumerate() {
                let Some((j, _)) = from else { continue };
                // The planes of one coarse plane have different places, at a periodic end too.
                let place = (2 * coarse_j + n) % PLANES;
                starts[n] = fine.own_plane(space, place);
                if space.kept[place] != Some(j) {
                    space.kept[place] = Some(j);
                    fine.residual_into(&c, j, vectors, planes, starts[n] - levels.fine.plane_start(j));
                }
            }
            let natural = &mut space.natural;
            fine.cpu().dispatch::<T, _>(Restrict { levels, coarse_j, f: planes, starts, coarse_f, natural });
        });
        Ok(())
    }

    fn prolong(&self, coarse_u: &Vector<T>, u: &mut Vector<T>) -> Result<()> {
        let weights = self.weights();
        let (levels, coarse_u, u) = (self.levels(&weights), coarse_u.share(), u.share_mut());
        self.fine.plain_pass(|_, j, space| {
            self.fine.cpu().dispatch::<T, _>(Prolong { levels, j, coarse_u, u, natural: &mut space.natural });
        });
        Ok(())
    }

    fn prolong_smooth(
        &self,
        relaxation: Relaxation,
        f: &Vector<T>,
        coarse_u: &Vector<T>,
        u: &mut Vector<T>,
        scratch: &mut Vector<T>,
        norm: Option<(Scalar, &mut HostScalars)>,
    ) -> Result<()> {
        let fine = &self.fine;
        if relaxation.smoother == Smoother::LineJacobi {
            self.prolong(coarse_u, u)?;
            fine.smooth(relaxation, Guess::Given, f, u, scratch)?;
            return norm.map_or(Ok(()), |(scalar, scalars)| fine.residual_norm(f, u, scratch, scalar, scalars));
        }
        let weights = self.weights();
        let (levels, coarse_u, vectors) = (self.levels(&weights), coarse_u.share(), [f.share(), u.share_mut()]);
        let (c, mut workspace) = (fine.coefficients(), fine.workspace());
        let (sums, unsolved) = (Shared::of(&mut workspace.sums), fine.unsolved(relaxation));
        let prolong = |j: usize, space: &mut ChunkSpace<T>| {
            let natural = &mut space.natural;
            fine.cpu().dispatch::<T, _>(Prolong { levels, j, coarse_u, u: vectors[1], natural });
        };
        let measure = |j: usize, space: &mut ChunkSpace<T>| {
            store(sums, j, [fine.residual_plane(&c, j, unsolved, vectors, None::<Shared<T>>, space), 0.0]);
        };
        let after: Option<Stage<'_, T>> = if norm.is_some() { Some(&measure) } else { None };
        let sweep = (relaxation, Guess::Given);
        fine.pass_around_sweep(&c, &mut workspace, Some(&prolong), sweep, vectors, after);
        if let Some((scalar, scalars)) = norm {
            scalars.reduce(scalar, [workspace.total(0)]);
        }
        Ok(())
    }
}

impl<'a, T: Real> Levels<'a, T> {
    /// The coarse plane of a fine one, and the one on its side.
    fn planes_of(&self, j: usize) -> (usize, Option<usize>) {
        if self.weights.y.is_none() {
            return (j, None);
        }
        let (own, count) = (j / 2, self.coarse.shape().ny);
        let far = match (j.is_multiple_of(2), self.fine.periodic[1]) {
            (true, true) => Some((own + count - 1) % count),
            (true, false) => own.checked_sub(1),
            (false, true) => Some((own + 1) % count),
            (false, false) => Some(own + 1).filter(|&far| far < count),
        };
        (own, far)
    }

    /// The fine planes that a coarse one is summed up from, and whether it is their own or the one on their side.
    fn planes_into(&self, coarse_j: usize) -> [Option<(usize, bool)>; 4] {
        if self.weights.y.is_none() {
            return [Some((coarse_j, true)), None, None, None];
        }
        let ny = self.fine.layout.shape().ny;
        let at = |j: usize| if j < ny { Some(j) } else { self.fine.periodic[1].then_some(j - ny) };
        let before = if coarse_j > 0 { Some(2 * coarse_j - 1) } else { self.fine.periodic[1].then(|| ny - 1) };
        [
            before.map(|j| (j, false)),
            Some((2 * coarse_j, true)),
            Some(2 * coarse_j + 1).filter(|&j| j < ny).map(|j| (j, true)),
            at(2 * coarse_j + 2).map(|j| (j, false)),
        ]
    }

    /// Position of row k of the columns of one parity.
    fn row_of(layout: &Layout, j: usize, parity: usize, k: usize) -> isize {
        let colour = (parity + j) % 2;
        (layout.pitch() * (k + layout.shape().nz * (colour + 2 * j))) as isize
    }

    #[inline(always)]
    fn weight_row<S: Simd>(&self, simd: S, weights: Option<&Vector<T>>, position: isize, n: usize) -> Row<'a, S, T>
    where
        T: 'a,
    {
        match weights {
            // SAFETY: rows of a vector that nobody writes after construction.
            Some(weights) => unsafe { weights.share().packs(simd, position, n) },
            None => self.fine.zeros(simd, n),
        }
    }
}

/// u += P u_c on plane j
struct Prolong<'a, 's, T> {
    levels: Levels<'a, T>,
    j: usize,
    coarse_u: Shared<T>,
    u: Shared<T>,
    natural: &'s mut [Vec<T>; 2],
}

impl<T: Real> Prolong<'_, '_, T> {
    /// A coarse row in natural order from entry 1, ghosts before and after.
    #[inline(always)]
    fn lay_out(&self, coarse_j: Option<usize>, k: usize, row: &mut [T]) {
        row.fill(T::ZERO);
        let Some(j) = coarse_j else { return };
        let (layout, nx) = (self.levels.coarse, self.levels.coarse.shape().nx);
        // SAFETY: see the top of this file, here and below.
        let read =
            |parity: usize| unsafe { self.coarse_u.row(Levels::<T>::row_of(layout, j, parity, k), layout.pitch()) };
        for ((pair, &even), &odd) in row[1..].as_chunks_mut::<2>().0.iter_mut().zip(read(0)).zip(read(1)) {
            *pair = [even, odd];
        }
        if self.levels.fine.periodic[0] {
            (row[0], row[nx + 1]) = (row[nx], row[1]);
        }
    }
}

impl<T: Real> WithSimd for Prolong<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Levels { fine, coarse, weights } = self.levels;
        let (layout, n, one) = (&fine.layout, fine.layout.pitch(), Pack::splat(simd, T::ONE));
        let (own, far) = self.levels.planes_of(self.j);
        let mut natural = std::mem::take(self.natural);
        for k in 0..layout.shape().nz {
            if weights.x.is_some() {
                self.lay_out(Some(own), k, &mut natural[0]);
                self.lay_out(far, k, &mut natural[1]);
            }
            for parity in 0..2 {
                let position = Levels::<T>::row_of(layout, self.j, parity, k);
                let x = self.levels.weight_row(simd, weights.x.as_ref(), position, n);
                let y = self.levels.weight_row(simd, weights.y.as_ref(), position, n);
                // In the coarse plane and in the one beside: the column's own, and the one on its side.
                let pick = |coarse_j: Option<usize>, which: usize| match (coarse_j, weights.x.is_some()) {
                    (None, _) => [fine.zeros(simd, n); 2],
                    (Some(_), true) => {
                        let row = &natural[which];
                        [Row::new(simd, &row[1..1 + n]), Row::new(simd, &row[2 * parity..2 * parity + n])]
                    }
                    (Some(j), false) => {
                        let position = Levels::<T>::row_of(coarse, j, parity, k);
                        // SAFETY: see the top of this file.
                        [unsafe { self.coarse_u.packs(simd, position, n) }; 2]
                    }
                };
                let ([a, b], [c, d]) = (pick(Some(own), 0), pick(far, 1));
                // SAFETY: see the top of this file.
                let u = unsafe { self.u.row_mut(position, n) };
                let mut out = RowMut::new(simd, &mut *u);
                for i in 0..out.len() {
                    let (w_x, w_y) = (x.get(i), y.get(i));
                    let near = w_x.mul_add(b.get(i), (one - w_x) * a.get(i));
                    let far = w_x.mul_add(d.get(i), (one - w_x) * c.get(i));
                    out.set(i, out.get(i) + w_y.mul_add(far, (one - w_y) * near));
                }
                // A ghost of a periodic row may lie where the row's padding begins.
                let columns = (layout.shape().nx + 1 - parity) / 2;
                u[columns..].fill(T::ZERO);
            }
        }
        *self.natural = natural;
    }
}

/// f_c = R f on a plane of the coarse grid
struct Restrict<'a, 's, T> {
    levels: Levels<'a, T>,
    coarse_j: usize,
    f: Shared<T>,
    /// Where the planes that [`Transfer::planes_into`] names start in f.
    starts: [isize; 4],
    coarse_f: Shared<T>,
    natural: &'s mut [Vec<T>; 2],
}

impl<T: Real> WithSimd for Restrict<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Levels { fine, coarse, weights } = self.levels;
        let (layout, n, one) = (&fine.layout, fine.layout.pitch(), Pack::splat(simd, T::ONE));
        let (coarse_n, nx) = (coarse.pitch(), coarse.shape().nx);
        for k in 0..layout.shape().nz {
            // Sums in natural order from entry 1, or by parity where x is not halved.
            let [sums, more] = &mut *self.natural;
            sums.fill(T::ZERO);
            more.fill(T::ZERO);
            for (from, start) in self.levels.planes_into(self.coarse_j).into_iter().zip(self.starts) {
                let Some((j, is_own)) = from else { continue };
                let shift = start - (j * fine.plane_len()) as isize;
                for parity in 0..2 {
                    let position = Levels::<T>::row_of(layout, j, parity, k);
                    let x = self.levels.weight_row(simd, weights.x.as_ref(), position, n);
                    let y = self.levels.weight_row(simd, weights.y.as_ref(), position, n);
                    // SAFETY: see the top of this file.
                    let f = unsafe { self.f.packs(simd, position + shift, n) };
                    let packs = f.len();
                    if weights.x.is_none() {
                        let sums = if parity == 0 { &mut *sums } else { &mut *more };
                        let mut out = RowMut::new(simd, &mut sums[..n]);
                        for i in 0..packs {
                            let share = if is_own { one - y.get(i) } else { y.get(i) };
                            out.set(i, share.mul_add(f.get(i), out.get(i)));
                        }
                        continue;
                    }
                    let mut out = RowMut::new(simd, &mut sums[1..1 + n]);
                    for i in 0..packs {
                        let share = if is_own { one - y.get(i) } else { y.get(i) };
                        out.set(i, (share * f.get(i)).mul_add(one - x.get(i), out.get(i)));
                    }
                    let mut out = RowMut::new(simd, &mut sums[2 * parity..2 * parity + n]);
                    for i in 0..packs {
                        let share = if is_own { one - y.get(i) } else { y.get(i) };
                        out.set(i, (share * f.get(i)).mul_add(x.get(i), out.get(i)));
                    }
                }
            }
            // SAFETY: see the top of this file.
            let out = |parity: usize| unsafe {
                let position = Levels::<T>::row_of(coarse, self.coarse_j, parity, k);
                self.coarse_f.row_mut(position, coarse_n)
            };
            let (even, odd) = (out(0), out(1));
            if weights.x.is_none() {
                even.copy_from_slice(&sums[..coarse_n]);
                odd.copy_from_slice(&more[..coarse_n]);
                continue;
            }
            if fine.periodic[0] {
                let ghosts = [sums[0], sums[nx + 1]];
                sums[nx] += ghosts[0];
                sums[1] += ghosts[1];
            }
            sums[nx + 1..].fill(T::ZERO);
            for ((pair, even), odd) in sums[1..].as_chunks::<2>().0.iter().zip(even).zip(odd) {
                [*even, *odd] = *pair;
            }
        }
    }
}
