//! The problems of vertical modes, and a correction by them as a preconditioner.

use std::sync::Arc;

use super::Preconditioner;
use super::multigrid::Cycle;
use crate::operator::{Guess, ModalTransfer, Relaxation, Sweep};
use crate::options::{Smoother, Start};
use crate::traffic::{self, StepTraffic};
use crate::{Backend, Colour, Layout, Real, Result, Scalar};

/// A scalar that is not read.
const UNUSED: Scalar = Scalar::new(0);

/// The two-dimensional problems of some vertical modes, with approximate solvers and transfers between them and the grid.
///
/// Storage: the modes' right-hand sides, solutions and a copy of these, that of [`Cycle`] on their grid, and a vector where the steps of the
/// back end need one.
pub struct ModalProblems<B: Backend, T: Real, C: Real> {
    /// The transfer between the grid and the modes.
    pub transfer: Arc<dyn ModalTransfer<B, T, C>>,
    /// Right-hand sides.
    pub g: B::Vector<C>,
    /// Solutions.
    pub x: B::Vector<C>,
    /// Scratch for steps on the grid that cannot work in place.
    pub scratch: B::Vector<T>,
    scratch_layout: Layout,
    cycle: Cycle<B, C>,
    /// The factor τ of each cycle after the first.
    factors: Vec<f64>,
    /// The vector that cycles extrapolate from.
    before: B::Vector<C>,
    start: Start,
}

impl<B: Backend, T: Real, C: Real> ModalProblems<B, T, C> {
    /// Solves by a cycle from zero or by full multigrid, and by one more cycle for each of these factors, extrapolated by it.
    pub fn new(
        transfer: Arc<dyn ModalTransfer<B, T, C>>,
        cycle: Cycle<B, C>,
        factors: Vec<f64>,
        start: Start,
    ) -> Result<Self> {
        let (fine, layout) = (transfer.fine(), transfer.modal_layout());
        let (backend, sweeps) = (fine.backend(), Smoother::LineRedBlack);
        let needs_scratch = transfer.needs_scratch() || fine.norm_needs_scratch() || fine.needs_scratch(sweeps);
        let scratch_layout = if needs_scratch { *fine.layout() } else { Layout::smallest()? };
        Ok(Self {
            g: backend.zeros(layout)?,
            x: backend.zeros(layout)?,
            scratch: backend.zeros(&scratch_layout)?,
            before: backend.zeros(layout)?,
            scratch_layout,
            cycle,
            factors,
            start,
            transfer,
        })
    }

    /// Computes x_m ≈ (μ_m |T| + L_h)⁻¹ g_m.
    pub fn solve(&mut self) -> Result<()> {
        let Self { cycle, factors, before, g, x, .. } = self;
        match self.start {
            Start::Zero => cycle.cycle(g, x, Guess::Zero, None)?,
            Start::Full => cycle.full_multigrid([g, x], None)?,
        }
        factors.iter().try_for_each(|&tau| cycle.extrapolated(g, [&mut *x, &mut *before], tau))
    }

    /// Runs sweeps of red–black lines on A z = r.
    fn sweep(
        &mut self,
        (first, guess): (Colour, Guess),
        sweeps: usize,
        r: &B::Vector<T>,
        z: &mut B::Vector<T>,
    ) -> Result<()> {
        let relaxation = Relaxation { smoother: Smoother::LineRedBlack, rho: 1.0, first, returns: false };
        (0..sweeps).try_for_each(|n| {
            let guess = if n == 0 { guess } else { Guess::Given };
            self.transfer.fine().smooth(Sweep::new(relaxation, guess, r, z, &mut self.scratch))
        })
    }

    /// Computes z = M⁻¹ r: [`Modal`] with this many sweeps before and after the correction.
    pub fn precondition(
        &mut self,
        sweeps: usize,
        r: &B::Vector<T>,
        z: &mut B::Vector<T>,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.sweep((Colour::Red, Guess::Zero), sweeps, r, z)?;
        let Self { transfer, g, scratch, .. } = self;
        transfer.project_residual(r, z, g, scratch, UNUSED.of(scalars))?;
        self.solve()?;
        self.transfer.expand(&self.x, Guess::Given, z)?;
        self.sweep((Colour::Black, Guess::Given), sweeps, r, z)
    }

    /// Returns whether [`ModalProblems::solve`] is variable, see [`Preconditioner::is_variable`].
    pub fn is_variable(&self) -> bool {
        Preconditioner::is_variable(&self.cycle)
    }

    /// Implements [`Preconditioner::update`].
    pub fn update(&mut self) -> Result<()> {
        self.cycle.update()
    }

    /// Returns the cells of the grid, and of all modes' problems.
    pub fn cells(&self) -> [usize; 2] {
        [self.transfer.fine().layout(), self.transfer.modal_layout()].map(|layout| layout.shape().cells())
    }

    /// Returns the traffic of [`ModalProblems::solve`].
    pub fn traffic(&self) -> Vec<StepTraffic> {
        let cycles = (1 + self.factors.len()) as f64;
        self.cycle.traffic(Guess::Given).into_iter().map(|step| step.times(step.count * cycles)).collect()
    }

    /// Returns the bytes of vectors held.
    pub fn bytes(&self) -> usize {
        3 * self.transfer.modal_layout().len() * size_of::<C>()
            + self.scratch_layout.len() * size_of::<T>()
            + self.cycle.bytes()
    }
}

/// The preconditioner that computes z by sweeps of lines, a correction in a few vertical modes, and the same sweeps in the opposite order:
///
/// ```text
/// z = red–black sweeps from 0 on A z = r;   g_m = s_mᵀ (r − A z);   x_m ≈ (μ_m |T| + L_h)⁻¹ g_m
/// z += Σ s_m x_m;   black–red sweeps on A z = r
/// ```
///
/// It suits matrices that only nearly decouple into modes: for a matrix that is not symmetric they are those of its vertical operator's
/// symmetric part.
///
/// Storage: that of [`ModalProblems`].
pub struct Modal<B: Backend, T: Real, C: Real> {
    problems: ModalProblems<B, T, C>,
    sweeps: usize,
    backend: B,
    scalars: B::Scalars,
}

impl<B: Backend, T: Real, C: Real> Modal<B, T, C> {
    /// Takes this many sweeps before and after.
    pub fn new(problems: ModalProblems<B, T, C>, sweeps: usize) -> Result<Self> {
        let backend = problems.transfer.fine().backend().clone();
        Ok(Self { scalars: backend.scalars()?, problems, sweeps, backend })
    }
}

impl<B: Backend, T: Real, C: Real> Preconditioner<B, T> for Modal<B, T, C> {
    fn backend(&self) -> &B {
        &self.backend
    }

    fn apply(&mut self, r: &mut B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        self.problems.precondition(self.sweeps, r, z, &mut self.scalars)
    }

    /// Returns whether the cycle on the modes is variable, whose transfers may not be transposes of each other.
    fn is_variable(&self) -> bool {
        self.problems.is_variable()
    }

    fn is_strong(&self) -> bool {
        true
    }

    fn update(&mut self) -> Result<()> {
        self.problems.update()
    }

    fn apply_traffic(&self, cells: usize) -> Vec<StepTraffic> {
        let [_, modal] = self.problems.cells();
        let step = |step, count: usize| StepTraffic::once::<T>(step, cells).times(count as f64);
        let mut steps = vec![
            step(traffic::SMOOTH_FROM_ZERO, 1),
            step(traffic::PROJECT_RESIDUAL, 1),
            StepTraffic::once::<C>(traffic::MODES, modal),
            step(traffic::EXPAND, 1),
            step(traffic::SMOOTH, 2 * self.sweeps - 1),
        ];
        steps.extend(self.problems.traffic());
        steps
    }

    fn workspace_bytes(&self) -> usize {
        self.problems.bytes()
    }
}
