//! Fused steps without relaxation, each a list of stages.

use isobar_core::backend::{Backend, HostScalars, Meanwhile, Sums};
use isobar_core::error::Result;
use isobar_core::layout::{Colour, Layout};
use isobar_core::operator::{Diagonal, Direction, LineSolver, Operator, ResidualUpdate};
use isobar_core::prelude::Sum;
use isobar_core::real::Real;

use super::kernels::{Apply, Divide, Nowhere, Residual, Rounded, Scale, Shifted};
use super::lines::Precondition;
use super::{ChunkSpace, SevenPoint, Stored, Workspace, store};
use crate::{Cpu, Shared, Vector, blas};

impl<C: Stored<T>, T: Real> SevenPoint<C, T> {
    /// Sums the results of a pass over this rank's planes, and over all ranks.
    pub(crate) fn reduce<const N: usize>(
        &self,
        workspace: &Workspace<T>,
        (out, scalars): (impl Into<Sums<N>>, &mut HostScalars),
    ) -> Result<()> {
        let out = out.into();
        scalars.reduce(out, std::array::from_fn(|which| workspace.total(which)));
        self.cpu().sum(&self.layout, &out.all(), scalars)
    }

    /// Runs a pass of one stage that returns sums, and reads no neighbours.
    pub(crate) fn summing_pass<const N: usize>(
        &self,
        stage: impl Fn(&C, usize, &mut ChunkSpace<T>) -> [f64; 2] + Sync,
        sums: (impl Into<Sums<N>>, &mut HostScalars),
    ) -> Result<()> {
        let (c, mut workspace) = (self.coefficients(), self.workspace());
        let partial = Shared::of(&mut workspace.sums);
        self.pass(&mut workspace, &[&|j, space| store(partial, j, stage(&c, j, space))]);
        self.reduce(&workspace, sums)
    }

    /// Runs a pass of one stage that sums up and reads the halo of u, which is filled.
    pub(crate) fn summing_pass_and_fill<const N: usize>(
        &self,
        stage: impl Fn(&C, usize, &mut ChunkSpace<T>) -> [f64; 2] + Sync,
        sums: (impl Into<Sums<N>>, &mut HostScalars),
        u: &mut Vector<T>,
    ) -> Result<()> {
        let (c, mut workspace) = (self.coefficients(), self.workspace());
        let partial = Shared::of(&mut workspace.sums);
        let stage = |j: usize, space: &mut ChunkSpace<T>| store(partial, j, stage(&c, j, space));
        self.pass_on_part(&mut workspace, &[&stage], true, |_, inside| {
            self.cpu().fill_while(u, &Colour::BOTH, inside)
        })?;
        self.reduce(&workspace, sums)
    }

    /// Runs a pass of one stage, and inspects each plane's sums.
    pub(crate) fn pass_by_plane(
        &self,
        stage: impl Fn(&C, usize, &mut ChunkSpace<T>) -> [f64; 2] + Sync,
        mut look: impl FnMut(usize, [f64; 2]),
    ) {
        let (c, mut workspace) = (self.coefficients(), self.workspace());
        let sums = Shared::of(&mut workspace.sums);
        self.pass(&mut workspace, &[&|j, space| store(sums, j, stage(&c, j, space))]);
        workspace.sums.iter().enumerate().for_each(|(j, &sums)| look(j, sums));
    }

    /// Runs a pass of one stage without sums.
    pub(crate) fn plain_pass(&self, stage: impl Fn(&C, usize, &mut ChunkSpace<T>) + Sync) {
        let (c, mut workspace) = (self.coefficients(), self.workspace());
        self.pass(&mut workspace, &[&|j, space| stage(&c, j, space)]);
    }
}

impl<C: Stored<T>, T: Real> Operator<Cpu, T> for SevenPoint<C, T> {
    fn backend(&self) -> &Cpu {
        self.cpu()
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn apply(&self, x: &mut Vector<T>, y: &mut Vector<T>) -> Result<()> {
        let (c, mut workspace, [shared_x, y]) = (self.coefficients(), self.workspace(), [x.share(), y.share_mut()]);
        let apply = |j: usize, _: &mut ChunkSpace<T>| {
            self.on_both(&c, j, |h| Apply { h, x: shared_x, to: Shifted { vector: y, shift: 0 } });
        };
        self.pass_on_part(&mut workspace, &[&apply], true, |_, inside| self.cpu().fill_while(x, &Colour::BOTH, inside))
    }

    fn residual(&self, f: &Vector<T>, [u, r]: [&mut Vector<T>; 2], norm: Sum<'_, Cpu>) -> Result<()> {
        self.residual_to(Some(r.share_mut()), f, u, norm)
    }

    fn residual_norm(&self, f: &Vector<T>, [u, _]: [&mut Vector<T>; 2], norm: Sum<'_, Cpu>) -> Result<()> {
        self.residual_to(None, f, u, norm)
    }

    fn norm_needs_scratch(&self) -> bool {
        false
    }

    fn advance_direction(&self, v: Direction<'_, Vector<T>>, scalars: &mut HostScalars) -> Result<()> {
        self.advance(v, scalars, |c, j, p, q, _| {
            self.on_both(c, j, |h| Apply { h, x: p, to: Shifted { vector: q, shift: 0 } })
        })
    }

    fn advance_direction_single(
        &self,
        v: Direction<'_, Vector<T>, Vector<f32>>,
        scalars: &mut HostScalars,
    ) -> Result<()> {
        self.advance(v, scalars, |c, j, x, vector, space| {
            let rows = Shared::of(&mut space.rows);
            self.sum_halves(j, &mut |h| self.on_rows(c, |piece| Apply { h, x, to: Rounded { vector, rows, piece } }))
        })
    }

    fn coefficient_vectors(&self) -> f64 {
        self.coefficients().vectors()
    }

    fn coefficient_bytes(&self) -> usize {
        self.coefficients().bytes() + self.workspace_bytes()
    }
}

impl<C: Stored<T>, T: Real> SevenPoint<C, T> {
    /// Does [`Operator::advance_direction`]; on a subdomain p is advanced in its halo too, which saves an exchange between advancing and applying.
    /// `apply` computes q = A p on a plane, and their inner product.
    fn advance<R: Real>(
        &self,
        v: Direction<'_, Vector<T>, Vector<R>>,
        scalars: &mut HostScalars,
        apply: impl Fn(&C, usize, Shared<T>, Shared<R>, &mut ChunkSpace<T>) -> [f64; 2] + Sync,
    ) -> Result<()> {
        let Direction { u, p, next, z: given_z, q, alpha, beta, sigma } = v;
        let (u, p, z, q) = (u.share_mut(), p.share_mut(), given_z.share(), q.share_mut());
        let next = next.map_or(p, Vector::share_mut);
        let (alpha, beta) = (T::from_f64(scalars.value(alpha)), T::from_f64(scalars.value(beta)));
        let (c, mut workspace) = (self.coefficients(), self.workspace());
        let sums = Shared::of(&mut workspace.sums);
        let (len, layers) = (self.geometry().plane_len(), self.geometry().layers());
        let advance = |j: usize, _: &mut ChunkSpace<T>| {
            let start = self.geometry().plane_start(j);
            self.cpu().for_each_piece(&self.layout, 2 * layers, |_, first, beyond| {
                let row = self.layout.pitch();
                let (start, len) = (start + (first * row) as isize, (beyond - first) * row);
                // SAFETY: only this stage uses plane j of u, p and the next p, and each piece of it comes once; z is only read.
                let (u, p, z) = unsafe { (u.row_mut(start, len), p.row_mut(start, len), z.row(start, len)) };
                blas::advance(self.cpu(), [alpha, beta], u, p, z);
            });
            let [before, after] = self.layout.halo();
            let halo_rows = [
                (before > 0 && j == 0, start - len as isize),
                (after > 0 && j + 1 == self.layout.shape().ny, start + len as isize),
            ];
            for (_, start) in halo_rows.into_iter().filter(|(is_beside, _)| *is_beside) {
                // SAFETY: as above; the halo row beside plane j is used by no other plane of this stage.
                let (p, z) = unsafe { (p.row_mut(start, len), z.row(start, len)) };
                blas::advance_part(self.cpu(), beta, p, z);
            }
        };
        let apply = |j: usize, space: &mut ChunkSpace<T>| store(sums, j, apply(&c, j, next, q, space));
        // Halo rows of z come before the first stage; p then computes its own.
        let exchange = |s: usize, inside: Meanwhile<'_>| match s {
            0 => self.cpu().fill_while(given_z, &Colour::BOTH, inside),
            _ => Ok(()),
        };
        self.pass_on_part(&mut workspace, &[&advance, &apply], true, exchange)?;
        self.reduce(&workspace, (sigma, scalars))
    }

    /// Computes r = f − A u, where it is wanted; ‖f − A u‖².
    fn residual_to(&self, r: Option<Shared<T>>, f: &Vector<T>, u: &mut Vector<T>, norm: Sum<'_, Cpu>) -> Result<()> {
        let (f, shared_u) = (f.share(), u.share());
        let stage = |c: &C, j: usize, _: &mut ChunkSpace<T>| match r {
            Some(r) => [self.residual_into(c, j, [f, shared_u], r, 0), 0.0],
            None => self.on_both(c, j, |h| Residual { h, f, u: shared_u, to: Nowhere }),
        };
        self.summing_pass_and_fill(stage, norm, u)
    }
}

impl<C: Stored<T>, T: Real> Diagonal<Cpu, T> for SevenPoint<C, T> {
    fn divide_by_diagonal(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let (r, z) = (r.share(), z.share_mut());
        self.plain_pass(|c, j, _| {
            self.on_both(c, j, |h| Divide { h, r, z });
        });
        Ok(())
    }

    fn scale_residual(&self, v: ResidualUpdate<'_, Vector<T>>, scalars: &mut HostScalars) -> Result<()> {
        let ResidualUpdate { r, q, z, alpha, out } = v;
        let alpha = T::from_f64(scalars.value(alpha));
        let (r, q, z) = (r.share_mut(), q.share(), z.share_mut());
        self.summing_pass(|c, j, _| self.on_both(c, j, |h| Scale { h, alpha, r, q, z }), (out, scalars))
    }
}

impl<C: Stored<T>, T: Real> LineSolver<Cpu, T> for SevenPoint<C, T> {
    fn backend(&self) -> &Cpu {
        self.cpu()
    }

    fn line_coefficient_vectors(&self) -> f64 {
        self.coefficients().vectors()
    }

    fn solve_lines(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let (r, z) = (r.share(), z.share_mut());
        self.plain_pass(|c, j, space| {
            Colour::BOTH.into_iter().for_each(|colour| self.solve(c, j, colour, [r, z], space));
        });
        Ok(())
    }

    fn precondition_residual(&self, v: ResidualUpdate<'_, Vector<T>>, scalars: &mut HostScalars) -> Result<()> {
        let ResidualUpdate { r, q, z, alpha, out } = v;
        let alpha = T::from_f64(scalars.value(alpha));
        let (r, q, z) = (r.share_mut(), q.share(), z.share_mut());
        let g = self.geometry();
        let stage = |c: &C, j: usize, space: &mut ChunkSpace<T>| {
            self.sum_halves(j, &mut |h| c.run(self.cpu(), g, Precondition { h, alpha, r, q, z, space: space.lines() }))
        };
        self.summing_pass(stage, (out, scalars))
    }
}
