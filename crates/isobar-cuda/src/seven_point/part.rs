//! Parts of a grid: sweeps between which halo rows are filled.
//!
//! A half sweep is a launch of its own in any case, so that nothing is split for the exchanges.

use isobar_core::backend::part::{Fill, nothing};
use isobar_core::backend::{Backend, Scalar};
use isobar_core::error::Result;
use isobar_core::layout::Colour;
use isobar_core::operator::part::{PartOperator, PartSmoother, PartTransfer, stale_after};
use isobar_core::operator::{Guess, Relaxation};
use isobar_core::options::Smoother;

use super::{Kernels, LevelTransfer, SevenPoint, TransferKernels};
use crate::cuda::Cuda;
use crate::scalars::Scalars;
use crate::vector::Vector;

impl<K: Kernels> PartSmoother<Cuda, K::Real> for SevenPoint<K> {
    fn smooth_part(
        &self,
        relaxation: Relaxation,
        guess: Guess,
        f: &Vector<K::Real>,
        u: &mut Vector<K::Real>,
        scratch: &mut Vector<K::Real>,
        fill: &mut Fill<'_, Vector<K::Real>>,
    ) -> Result<()> {
        let Relaxation { smoother, rho, first } = relaxation;
        if smoother == Smoother::PointRedBlack {
            let first = self.layout_of().local(first);
            return self.kernels.sweep_cells(rho, first, guess, f, u, fill);
        }
        if smoother == Smoother::LineJacobi {
            if guess == Guess::Given {
                fill(u, &Colour::BOTH, &mut nothing)?;
            }
            self.kernels.sweep_to(rho, guess, f, u, scratch)?;
            u.swap(scratch);
            return Ok(());
        }
        match guess {
            Guess::Given => fill(u, &[first.other()], &mut nothing)?,
            Guess::Zero if !self.overwrites(relaxation) => self.kernels.cuda().clear(u)?,
            Guess::Zero => {}
        }
        let local = self.layout_of().local(first);
        self.kernels.sweep(rho, local, guess, f, u, scratch)?;
        fill(u, &[first], &mut nothing)?;
        self.kernels.sweep(rho, local.other(), Guess::Given, f, u, scratch)
    }
}

impl<K: Kernels> PartOperator<Cuda, K::Real> for SevenPoint<K> {}

impl<K: TransferKernels> PartTransfer<Cuda, K::Real> for LevelTransfer<K> {
    fn fine_part(&self) -> &dyn PartSmoother<Cuda, K::Real> {
        &**self.fine_level()
    }

    fn smooth_residual_restrict_part(
        &self,
        relaxation: Relaxation,
        guess: Guess,
        f: &Vector<K::Real>,
        u: &mut Vector<K::Real>,
        coarse_f: &mut Vector<K::Real>,
        scratch: &mut Vector<K::Real>,
        fill: &mut Fill<'_, Vector<K::Real>>,
    ) -> Result<()> {
        let fine = self.fine_level();
        fine.smooth_part(relaxation, guess, f, u, scratch, fill)?;
        fill(u, stale_after(relaxation), &mut nothing)?;
        fine.kernels().restrict_residual(fine.left_by(relaxation, guess), f, u, coarse_f)
    }

    fn prolong_smooth_part(
        &self,
        relaxation: Relaxation,
        f: &Vector<K::Real>,
        coarse_u: &Vector<K::Real>,
        u: &mut Vector<K::Real>,
        scratch: &mut Vector<K::Real>,
        norm: Option<(Scalar, &mut Scalars)>,
        fill: &mut Fill<'_, Vector<K::Real>>,
    ) -> Result<()> {
        let fine = self.fine_level();
        let kernels = fine.kernels();
        if fine.overwrites(relaxation) {
            let (first, local) = (relaxation.first, fine.layout_of().local(relaxation.first));
            fill(u, &[first.other()], &mut nothing)?;
            kernels.prolong_sweep(local, f, coarse_u, u)?;
            fill(u, &[first], &mut nothing)?;
            kernels.sweep(1.0, local.other(), Guess::Given, f, u, scratch)?;
        } else {
            kernels.prolong(coarse_u, u)?;
            fine.smooth_part(relaxation, Guess::Given, f, u, scratch, fill)?;
        }
        if norm.is_some() {
            fill(u, stale_after(relaxation), &mut nothing)?;
        }
        self.measure(relaxation, f, u, norm)
    }
}
