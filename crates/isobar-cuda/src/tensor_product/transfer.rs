//! Transfers between an operator and its coarser version. The recurrences are above the kernels in the `.cu` files.

use std::sync::Arc;

use isobar_core::prelude::{Backend, Colour, Guess, Layout, LineSmoother, Real, Relaxation, Result, Transfer};

use super::TensorProduct;
use super::launches::Coarse;
use super::planes::THREADS;
use super::tile::rows;
use crate::launch::refuse_while_recording;
use crate::seven_point::{Kernels, Residual, SevenPoint, Steps};
use crate::{Arguments, Cuda, Sum, Sweep, Vector};

impl<T: Real> TensorProduct<T> {
    fn coarse_arguments(&self, vectors: &[&Vector<T>], coarse_f: &Vector<T>) -> Arguments {
        let arguments = vectors.iter().fold(self.arguments(), |arguments, v| arguments.with(v.pointer()));
        arguments.with(coarse_f.pointer()).with(coarse_f.layout().pitch() as i32)
    }

    /// Restricts [`Residual::Coupled`].
    pub(super) fn restrict_coupling(&self, u: &Vector<T>, coarse_f: &mut Vector<T>) -> Result<()> {
        self.residuals(&self.modules.transfer, "coupling_restrict", self.coarse_arguments(&[u], coarse_f))
    }

    /// Computes u += P u_c.
    fn prolong_add(&self, coarse_u: &Vector<T>, u: &mut Vector<T>) -> Result<()> {
        let (x, y) = (self.layout.pitch().div_ceil(32), self.layout.shape().ny.div_ceil(rows::<T>()));
        let grid = [x, y, 2 * self.runs(x * y, 2)];
        let arguments = self.arguments().with(u.pointer()).with(Coarse::of(coarse_u));
        self.cuda.launch(self.modules.transfer.kernel("prolong_add")?, grid, [32, rows::<T>()], arguments)
    }

    /// Computes f_c = R (f − A u).
    fn restrict_residual(&self, which: Residual, f: &Vector<T>, u: &Vector<T>, coarse_f: &mut Vector<T>) -> Result<()> {
        let name = match which {
            Residual::Coupled => return self.restrict_coupling(u, coarse_f),
            Residual::Red => "residual_restrict",
            Residual::Any => "residual_restrict_both",
        };
        self.residuals(&self.modules.transfer, name, self.coarse_arguments(&[f, u], coarse_f))
    }

    /// Does a sweep of both colours with ρ = 1, then f_c = R (f − A u), in one launch, if there is one. `scratch` is
    /// swapped with u, and then holds the old u.
    fn sweep_restrict(
        &self,
        first: Colour,
        guess: Guess,
        [f, coarse_f]: [&Vector<T>; 2],
        u: &mut Vector<T>,
        scratch: &mut Vector<T>,
    ) -> Result<bool> {
        let Some(planes) = &self.planes else { return Ok(false) };
        let arguments = self.arguments().with(first as i32).with(planes.layers as i32).with(f.pointer());
        let (name, arguments) = match guess {
            Guess::Zero => ("sweep_restrict_zero", arguments),
            Guess::Given => ("sweep_restrict_given", arguments.with(u.pointer())),
        };
        let arguments = arguments.with(scratch.pointer()).with(coarse_f.pointer());
        let arguments = arguments.with(coarse_f.layout().pitch() as i32);
        self.cuda.launch(planes.module.kernel(name)?, planes.grid, [THREADS[0], 1], arguments)?;
        u.swap(scratch);
        Ok(true)
    }

    /// Does u += P u_c, then a sweep of both colours with ρ = 1, and if τ ≠ 1 u = τ u + (1 − τ) scratch, in one launch, if
    /// there is one. `scratch` is swapped with u; if τ is 1, the old one is not read.
    fn prolong_sweep_both(
        &self,
        first: Colour,
        [f, coarse_u]: [&Vector<T>; 2],
        u: &mut Vector<T>,
        (scratch, tau): (&mut Vector<T>, f64),
    ) -> Result<bool> {
        let Some(planes) = &self.planes else { return Ok(false) };
        let arguments = self.arguments().with(first as i32).with(planes.layers as i32).with_real::<T>(tau);
        let arguments = arguments.with(f.pointer()).with(u.pointer());
        let arguments = arguments.with(scratch.pointer()).with(Coarse::of(coarse_u));
        self.cuda.launch(planes.module.kernel("prolong_sweep")?, planes.grid, [THREADS[1], 1], arguments)?;
        u.swap(scratch);
        Ok(true)
    }

    /// Does u += P u_c, then a sweep of one colour with ρ = 1. The correction is applied on the fly and not stored: the other colour is
    /// old until it is swept.
    fn prolong_sweep(&self, colour: Colour, f: &Vector<T>, coarse_u: &Vector<T>, u: &mut Vector<T>) -> Result<()> {
        let arguments = self.arguments().with(colour as i32).with(f.pointer()).with(u.pointer());
        self.columns("prolong_smooth", arguments.with(Coarse::of(coarse_u)))
    }
}

/// Restriction and prolongation between two levels.
#[derive(Debug)]
pub struct LevelTransfer<T: Real> {
    fine: Arc<SevenPoint<TensorProduct<T>>>,
    coarse: Layout,
}

impl<T: Real> LevelTransfer<T> {
    /// Makes the transfer between an operator and that of its stencil's coarser version, whose vectors have the layout `own` here.
    pub(crate) fn new(
        fine: &Arc<SevenPoint<TensorProduct<T>>>,
        coarse: &Arc<SevenPoint<TensorProduct<T>>>,
        own: &Layout,
    ) -> Result<Arc<Self>> {
        refuse_while_recording("making a transfer")?;
        let kernels = fine.kernels();
        kernels.prepare(Steps::Transfers)?;
        // The coarsest level has no transfer that would prepare its sweeps.
        for level in [kernels, coarse.kernels()] {
            level.prepare(Steps::Sweeps)?;
        }
        Ok(Arc::new(Self { fine: Arc::clone(fine), coarse: *own }))
    }

    /// Computes ‖f − A u‖² after a sweep, if requested.
    fn measure(&self, relaxation: Relaxation, f: &Vector<T>, u: &Vector<T>, norm: Option<Sum<'_>>) -> Result<()> {
        let Some((norm, scalars)) = norm else { return Ok(()) };
        self.fine.kernels().residual_norm(self.fine.left_by(relaxation, Guess::Given), [f, u], norm.of(scalars))?;
        self.fine.sum([norm], scalars)
    }
}

impl<T: Real> Transfer<Cuda, T> for LevelTransfer<T> {
    fn fine(&self) -> &dyn LineSmoother<Cuda, T> {
        &*self.fine
    }

    fn coarse_layout(&self) -> &Layout {
        &self.coarse
    }

    fn restrict(&self, f: &mut Vector<T>, coarse_f: &mut Vector<T>) -> Result<()> {
        let (fine, layout) = (self.fine.kernels(), *coarse_f.layout());
        let arguments = fine.arguments().with(f.pointer()).with(layout.pitch() as i32).with(coarse_f.pointer());
        fine.cells(&fine.modules.transfer, "restrict_field", &layout, arguments)
    }

    fn prolong(&self, coarse_u: &mut Vector<T>, u: &mut Vector<T>) -> Result<()> {
        self.fine.fill(coarse_u)?;
        self.fine.kernels().prolong_add(coarse_u, u)
    }

    fn residual_restrict(&self, f: &Vector<T>, [u, coarse_f, _]: [&mut Vector<T>; 3]) -> Result<()> {
        self.fine.fill(u)?;
        self.fine.kernels().restrict_residual(Residual::Any, f, u, coarse_f)
    }

    fn smooth_residual_restrict(&self, sweep: Sweep<'_, T>, coarse_f: &mut Vector<T>) -> Result<()> {
        let Sweep { relaxation, guess, f, u, scratch } = sweep;
        if self.fine.overwrites(relaxation) {
            let first = self.fine.layout_of().local(relaxation.first);
            if self.fine.kernels().sweep_restrict(first, guess, [f, coarse_f], u, scratch)? {
                return Ok(());
            }
        }
        let fine = &self.fine;
        fine.smooth(Sweep::new(relaxation, guess, f, u, scratch))?;
        fine.kernels().cuda().fill(u, fine.stale_after(relaxation))?;
        fine.kernels().restrict_residual(fine.left_by(relaxation, guess), f, u, coarse_f)
    }

    fn keep_smooth_residual_restrict(
        &self,
        sweep: Sweep<'_, T>,
        before: &mut Vector<T>,
        coarse_f: &mut Vector<T>,
    ) -> Result<()> {
        let Sweep { relaxation, guess, f, u, scratch } = sweep;
        let kernels = self.fine.kernels();
        if self.fine.overwrites(relaxation) {
            // Swaps of u are undone by a second swap.
            let first = self.fine.layout_of().local(relaxation.first);
            if kernels.sweep_restrict(first, guess, [f, coarse_f], u, before)? {
                return Ok(());
            }
        }
        kernels.cuda().convert(u, before)?;
        self.smooth_residual_restrict(Sweep::new(relaxation, guess, f, u, scratch), coarse_f)
    }

    fn prolong_smooth_extrapolate(
        &self,
        coarse_u: &mut Vector<T>,
        mut sweep: Sweep<'_, T>,
        (before, tau): (&mut Vector<T>, f64),
    ) -> Result<()> {
        let relaxation = sweep.relaxation;
        let kernels = self.fine.kernels();
        if self.fine.overwrites(relaxation) {
            let first = self.fine.layout_of().local(relaxation.first);
            if kernels.prolong_sweep_both(first, [sweep.f, coarse_u], sweep.u, (before, tau))? {
                return Ok(());
            }
        }
        self.prolong_smooth(coarse_u, sweep.again(), None)?;
        kernels.cuda().extrapolate(tau, before, sweep.u)
    }

    fn prolong_smooth(&self, coarse_u: &mut Vector<T>, sweep: Sweep<'_, T>, norm: Option<Sum<'_>>) -> Result<()> {
        let Sweep { relaxation, guess, f, u, scratch } = sweep;
        let fine = &self.fine;
        let kernels = fine.kernels();
        fine.fill(coarse_u)?;
        if fine.overwrites(relaxation) {
            let first = fine.layout_of().local(relaxation.first);
            if kernels.prolong_sweep_both(first, [f, coarse_u], u, (scratch, 1.0))? {
                return self.measure(relaxation, f, u, norm);
            }
        }
        if fine.overwrites(relaxation) {
            let (first, local) = (relaxation.first, fine.layout_of().local(relaxation.first));
            kernels.cuda().fill(u, &[first.other()])?;
            kernels.prolong_sweep(local, f, coarse_u, u)?;
            kernels.cuda().fill(u, &[first])?;
            kernels.sweep(1.0, local.other(), Guess::Given, f, u, scratch)?;
        } else {
            kernels.prolong_add(coarse_u, u)?;
            fine.smooth(Sweep::new(relaxation, guess, f, u, scratch))?;
        }
        if norm.is_some() {
            kernels.cuda().fill(u, fine.stale_after(relaxation))?;
        }
        self.measure(relaxation, f, u, norm)
    }
}
