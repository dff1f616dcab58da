//! Transfers between an operator and its coarser version.

use std::sync::Arc;

use isobar_core::backend::{Backend, Scalar};
use isobar_core::error::Result;
use isobar_core::layout::Layout;
use isobar_core::operator::{Guess, LineSmoother, Relaxation, Sweep, Transfer};

use super::{Residual, SevenPoint, Steps, TransferKernels};
use crate::cuda::Cuda;
use crate::launch::refuse_while_recording;
use crate::scalars::Scalars;
use crate::vector::Vector;

/// Restriction and prolongation between two levels.
#[derive(Debug)]
pub struct LevelTransfer<K> {
    fine: Arc<SevenPoint<K>>,
    coarse: Layout,
}

impl<K: TransferKernels> LevelTransfer<K> {
    /// Makes the transfer between an operator and that of its stencil's coarser version, whose vectors have the layout `own` here.
    pub(crate) fn new(fine: &Arc<SevenPoint<K>>, coarse: &Arc<SevenPoint<K>>, own: &Layout) -> Result<Arc<Self>> {
        refuse_while_recording("making a transfer")?;
        let kernels = fine.kernels();
        kernels.prepare(Steps::Transfers)?;
        // The coarsest level has no transfer that would prepare its sweeps.
        for level in [kernels, coarse.kernels()] {
            level.prepare(Steps::Sweeps)?;
        }
        Ok(Arc::new(Self { fine: Arc::clone(fine), coarse: *own }))
    }
}

impl<K: TransferKernels> LevelTransfer<K> {
    /// Computes ‖f − A u‖² after a sweep, if requested.
    pub(super) fn measure(
        &self,
        relaxation: Relaxation,
        f: &Vector<K::Real>,
        u: &Vector<K::Real>,
        norm: Option<(Scalar, &mut Scalars)>,
    ) -> Result<()> {
        let Some((norm, scalars)) = norm else { return Ok(()) };
        self.fine.kernels().residual_norm(self.fine.left_by(relaxation, Guess::Given), f, u, norm, scalars)?;
        self.fine.sum([norm], scalars)
    }
}

impl<K: TransferKernels> Transfer<Cuda, K::Real> for LevelTransfer<K> {
    fn fine(&self) -> &dyn LineSmoother<Cuda, K::Real> {
        &*self.fine
    }

    fn coarse_layout(&self) -> &Layout {
        &self.coarse
    }

    fn is_adjoint(&self) -> bool {
        K::ADJOINT
    }

    fn restrict(&self, f: &mut Vector<K::Real>, coarse_f: &mut Vector<K::Real>) -> Result<()> {
        self.fine.kernels().restrict(f, coarse_f)
    }

    fn prolong(&self, coarse_u: &mut Vector<K::Real>, u: &mut Vector<K::Real>) -> Result<()> {
        self.fine.fill(coarse_u)?;
        self.fine.kernels().prolong(coarse_u, u)
    }

    fn residual_restrict(
        &self,
        f: &Vector<K::Real>,
        u: &mut Vector<K::Real>,
        coarse_f: &mut Vector<K::Real>,
        _: &mut Vector<K::Real>,
    ) -> Result<()> {
        self.fine.fill(u)?;
        self.fine.kernels().restrict_residual(Residual::Any, f, u, coarse_f)
    }

    fn smooth_residual_restrict(
        &self,
        sweep: Sweep<'_, Vector<K::Real>>,
        coarse_f: &mut Vector<K::Real>,
    ) -> Result<()> {
        let Sweep { relaxation, guess, f, u, scratch } = sweep;
        if self.fine.overwrites(relaxation) {
            let first = self.fine.layout_of().local(relaxation.first);
            if self.fine.kernels().sweep_restrict(first, guess, f, u, coarse_f, scratch)? {
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
        sweep: Sweep<'_, Vector<K::Real>>,
        before: &mut Vector<K::Real>,
        coarse_f: &mut Vector<K::Real>,
    ) -> Result<()> {
        let Sweep { relaxation, guess, f, u, scratch } = sweep;
        let kernels = self.fine.kernels();
        if self.fine.overwrites(relaxation) {
            // Swaps of u are undone by a second swap.
            let first = self.fine.layout_of().local(relaxation.first);
            if kernels.sweep_restrict(first, guess, f, u, coarse_f, before)? {
                return Ok(());
            }
        }
        kernels.cuda().convert(u, before)?;
        self.smooth_residual_restrict(Sweep::new(relaxation, guess, f, u, scratch), coarse_f)
    }

    fn prolong_smooth_extrapolate(
        &self,
        coarse_u: &mut Vector<K::Real>,
        mut sweep: Sweep<'_, Vector<K::Real>>,
        (before, tau): (&mut Vector<K::Real>, f64),
    ) -> Result<()> {
        let relaxation = sweep.relaxation;
        let kernels = self.fine.kernels();
        if self.fine.overwrites(relaxation) {
            let first = self.fine.layout_of().local(relaxation.first);
            if kernels.prolong_sweep_both(first, sweep.f, coarse_u, sweep.u, before, tau)? {
                return Ok(());
            }
        }
        self.prolong_smooth(coarse_u, sweep.again(), None)?;
        kernels.cuda().extrapolate(tau, before, sweep.u)
    }

    fn prolong_smooth(
        &self,
        coarse_u: &mut Vector<K::Real>,
        sweep: Sweep<'_, Vector<K::Real>>,
        norm: Option<(Scalar, &mut Scalars)>,
    ) -> Result<()> {
        let Sweep { relaxation, guess, f, u, scratch } = sweep;
        let fine = &self.fine;
        let kernels = fine.kernels();
        fine.fill(coarse_u)?;
        if fine.overwrites(relaxation) {
            let first = fine.layout_of().local(relaxation.first);
            if kernels.prolong_sweep_both(first, f, coarse_u, u, scratch, 1.0)? {
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
            kernels.prolong(coarse_u, u)?;
            fine.smooth(Sweep::new(relaxation, guess, f, u, scratch))?;
        }
        if norm.is_some() {
            kernels.cuda().fill(u, fine.stale_after(relaxation))?;
        }
        self.measure(relaxation, f, u, norm)
    }
}
