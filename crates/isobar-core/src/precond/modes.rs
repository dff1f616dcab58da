//! Vertical modes as a preconditioner.

use std::sync::Arc;

use super::Preconditioner;
use super::multigrid::Cycle;
use crate::backend::{Backend, Scalar};
use crate::error::Result;
use crate::layout::{Colour, Layout};
use crate::operator::{Guess, ModalTransfer, Relaxation};
use crate::options::Smoother;
use crate::real::Real;
use crate::traffic::{self, StepTraffic};

/// Not looked at.
const UNUSED: Scalar = Scalar::new(0);

/// z from sweeps of lines, a correction in a few vertical modes, and the same sweeps in the opposite order:
///
/// ```text
/// z = red–black sweeps from 0 on A z = r;   g_m = s_mᵀ (r − A z);   x_m ≈ (μ_m |T| + L_h)⁻¹ g_m
/// z += Σ s_m x_m;   black–red sweeps on A z = r
/// ```
///
/// For what only nearly falls apart into modes: of a matrix that is not symmetric they are those of its vertical operator's
/// symmetric part.
///
/// Storage: the modes' right-hand sides and solutions, that of [`Cycle`] on their grid, and a vector where the steps of the
/// back end need one.
pub struct Modal<B: Backend, T: Real, C: Real> {
    transfer: Arc<dyn ModalTransfer<B, T, C>>,
    cycle: Cycle<B, C>,
    cycles: usize,
    sweeps: usize,
    backend: B,
    g: B::Vector<C>,
    x: B::Vector<C>,
    scratch: B::Vector<T>,
    scratch_layout: Layout,
    scalars: B::Scalars,
}

impl<B: Backend, T: Real, C: Real> Modal<B, T, C> {
    /// With so many cycles on the modes' problems, and so many sweeps before and after.
    ///
    /// # Errors
    /// Where the workspace does not fit in memory.
    pub fn new(
        transfer: Arc<dyn ModalTransfer<B, T, C>>,
        cycle: Cycle<B, C>,
        cycles: usize,
        sweeps: usize,
    ) -> Result<Self> {
        let backend = transfer.fine().backend().clone();
        let layout = transfer.modal_layout();
        let needs_scratch = transfer.needs_scratch() || transfer.fine().needs_scratch(Smoother::LineRedBlack);
        let scratch_layout = if needs_scratch { *transfer.fine().layout() } else { Layout::smallest()? };
        Ok(Self {
            g: backend.zeros(layout)?,
            x: backend.zeros(layout)?,
            scratch: backend.zeros(&scratch_layout)?,
            scratch_layout,
            scalars: backend.scalars()?,
            transfer,
            cycle,
            cycles,
            sweeps,
            backend,
        })
    }

    fn sweep(&mut self, first: Colour, guess: Guess, r: &B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        let relaxation = Relaxation { smoother: Smoother::LineRedBlack, rho: 1.0, first };
        for n in 0..self.sweeps {
            let guess = if n == 0 { guess } else { Guess::Given };
            self.transfer.fine().smooth(relaxation, guess, r, z, &mut self.scratch)?;
        }
        Ok(())
    }
}

impl<B: Backend, T: Real, C: Real> Preconditioner<B, T> for Modal<B, T, C> {
    fn backend(&self) -> &B {
        &self.backend
    }

    fn apply(&mut self, r: &B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        self.sweep(Colour::Red, Guess::Zero, r, z)?;
        let Self { transfer, cycle, g, x, scratch, scalars, .. } = self;
        transfer.project_residual(r, z, g, scratch, UNUSED, scalars)?;
        for n in 0..self.cycles {
            cycle.cycle(g, x, if n == 0 { Guess::Zero } else { Guess::Given }, None)?;
        }
        transfer.expand(x, Guess::Given, z)?;
        self.sweep(Colour::Black, Guess::Given, r, z)
    }

    /// As the cycle, whose transfers are not transposes of each other.
    fn is_variable(&self) -> bool {
        Preconditioner::is_variable(&self.cycle)
    }

    fn update(&mut self) -> Result<()> {
        self.cycle.update()
    }

    fn apply_traffic(&self, cells: usize) -> Vec<StepTraffic> {
        let modal = self.transfer.modal_layout().shape().cells();
        let step = |step, count: usize| StepTraffic::once::<T>(step, cells).times(count as f64);
        let mut steps = vec![
            step(traffic::SMOOTH_FROM_ZERO, 1),
            step(traffic::PROJECT_RESIDUAL, 1),
            StepTraffic::once::<C>(traffic::MODES, modal),
            step(traffic::EXPAND, 1),
            step(traffic::SMOOTH, 2 * self.sweeps - 1),
        ];
        let cycles = self.cycles as f64;
        steps.extend(self.cycle.traffic(Guess::Given).into_iter().map(|step| step.times(step.count * cycles)));
        steps
    }

    fn workspace_bytes(&self) -> usize {
        2 * self.transfer.modal_layout().len() * size_of::<C>()
            + self.scratch_layout.len() * size_of::<T>()
            + self.cycle.bytes()
    }
}
