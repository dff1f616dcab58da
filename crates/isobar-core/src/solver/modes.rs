//! Vertical modes as an iteration.

use std::sync::Arc;

use super::{Iteration, Monitor};
use crate::backend::{Backend, Scalar};
use crate::error::Result;
use crate::layout::{Colour, Layout};
use crate::operator::{Guess, ModalTransfer, Relaxation};
use crate::options::{Smoother, Start};
use crate::precond::multigrid::Cycle;
use crate::real::Real;
use crate::stencil::modes::Plan;
use crate::traffic::{self, StepTraffic};

/// ‖r‖²
const NORM: Scalar = Scalar::new(0);

/// How lines are relaxed once the low modes are right.
const RELAXATION: Relaxation = Relaxation { smoother: Smoother::LineRedBlack, rho: 1.0, first: Colour::Red };

/// The low vertical modes from their two-dimensional problems, all others by relaxing lines, until ‖f − A u‖ is small
/// enough:
///
/// ```text
/// x_m ≈ (μ_m |T| + L_h)⁻¹ g_m                                          by cycles of multigrid
/// u += Σ s_m x_m;  sweeps of red–black lines;  r = f − A u;  g_m = s_mᵀ r;  ‖r‖²
/// ```
///
/// A sweep reduces mode m at least by max (α_T/(α_T + μ_m |T|))², which is small from the first mode on that has no problem
/// of its own.
///
/// Storage: the modes' right-hand sides and solutions, that of [`Cycle`] on their grid, and a vector where the steps of the
/// back end need one.
pub struct ByModes<B: Backend, T: Real, C: Real> {
    transfer: Arc<dyn ModalTransfer<B, T, C>>,
    cycle: Cycle<B, C>,
    plan: Plan,
    /// What the first cycle of an iteration starts from.
    start: Start,
    backend: B,
    g: B::Vector<C>,
    x: B::Vector<C>,
    scratch: B::Vector<T>,
    scratch_layout: Layout,
    scalars: B::Scalars,
    /// Of the u that the last run left, where that is known.
    residual: Option<f64>,
}

impl<B: Backend, T: Real, C: Real> ByModes<B, T, C> {
    /// With as many cycles on the modes' problems and sweeps of the grid an iteration as planned, the first cycle from zero or
    /// by full multigrid.
    ///
    /// # Errors
    /// Where the workspace does not fit in memory.
    pub fn new(
        transfer: Arc<dyn ModalTransfer<B, T, C>>,
        cycle: Cycle<B, C>,
        plan: Plan,
        start: Start,
    ) -> Result<Self> {
        let backend = transfer.fine().backend().clone();
        let layout = transfer.modal_layout();
        let needs_scratch = transfer.needs_scratch() || transfer.fine().norm_needs_scratch();
        let scratch_layout = if needs_scratch { *transfer.fine().layout() } else { Layout::smallest()? };
        Ok(Self {
            g: backend.zeros(layout)?,
            x: backend.zeros(layout)?,
            scratch: backend.zeros(&scratch_layout)?,
            scratch_layout,
            scalars: backend.scalars()?,
            residual: None,
            transfer,
            cycle,
            plan,
            start,
            backend,
        })
    }
}

impl<B: Backend, T: Real, C: Real> Iteration<B, T> for ByModes<B, T, C> {
    fn begin(&mut self, b: &B::Vector<T>, u: &mut B::Vector<T>, guess: Guess) -> Result<Option<f64>> {
        let Self { transfer, backend, g, scratch, scalars, .. } = self;
        if guess == Guess::Zero {
            transfer.project(b, g)?;
            return Ok(None);
        }
        transfer.project_residual(b, u, g, scratch, NORM, scalars)?;
        Ok(Some(backend.read(scalars)?[NORM.index()].sqrt()))
    }

    fn run(
        &mut self,
        b: &B::Vector<T>,
        u: &mut B::Vector<T>,
        guess: Guess,
        _: Option<&mut B::Vector<f64>>,
        monitor: &mut Monitor<'_>,
    ) -> Result<()> {
        let Self { transfer, cycle, plan, start, backend, g, x, scratch, scalars, residual, .. } = self;
        *residual = None;
        let smoother = (RELAXATION, plan.sweeps);
        let mut solve = |g: &B::Vector<C>, x: &mut B::Vector<C>| {
            match start {
                Start::Zero => cycle.cycle(g, x, Guess::Zero, None)?,
                Start::Full => cycle.full_multigrid(g, x, None)?,
            }
            (1..plan.cycles).try_for_each(|_| cycle.cycle(g, x, Guess::Given, None))
        };
        if plan.iterations == 1 {
            // Likely there is nothing left to project, and what is left of the residual is what the solve is judged by.
            let mut observe = |bank: &[f64; Scalar::COUNT]| {
                *residual = Some(bank[NORM.index()].sqrt());
                monitor.observe(bank[NORM.index()])
            };
            let mut once = |n: Option<usize>, scalars: &mut B::Scalars| {
                let guess = if n.is_none() { guess } else { Guess::Given };
                if n.is_some() {
                    transfer.project_residual(b, u, g, scratch, NORM, scalars)?;
                }
                solve(g, x)?;
                transfer.expand_smooth_norm(x, guess, smoother, b, u, scratch, NORM, scalars)
            };
            return backend.iterate_after(scalars, &mut once, &mut observe);
        }
        let mut observe = |bank: &[f64; Scalar::COUNT]| monitor.observe(bank[NORM.index()]);
        let mut once = |guess, scalars: &mut B::Scalars| {
            solve(g, x)?;
            transfer.expand_smooth_project(x, guess, smoother, b, u, g, scratch, NORM, scalars)
        };
        if guess == Guess::Given {
            return backend.iterate(scalars, &mut |_, scalars| once(Guess::Given, scalars), &mut observe);
        }
        // The first time u need not be read.
        let guess = |n: Option<usize>| if n.is_none() { Guess::Zero } else { Guess::Given };
        backend.iterate_after(scalars, &mut |n, scalars| once(guess(n), scalars), &mut observe)
    }

    fn residual_left(&self) -> Option<f64> {
        self.residual
    }

    fn update(&mut self) -> Result<()> {
        self.cycle.update()
    }

    fn traffic(&self) -> Vec<StepTraffic> {
        let cells = self.transfer.fine().layout().shape().cells();
        let modal = self.transfer.modal_layout().shape().cells();
        let step = |step, count: usize| StepTraffic::once::<T>(step, cells).times(count as f64);
        let mut steps = vec![
            step(traffic::EXPAND_SMOOTH_PROJECT, 1),
            StepTraffic::once::<C>(traffic::MODES, modal),
            step(traffic::SMOOTH, self.plan.sweeps - 1),
        ];
        let cycles = self.plan.cycles as f64;
        steps.extend(self.cycle.traffic(Guess::Given).into_iter().map(|step| step.times(step.count * cycles)));
        steps.retain(|step| step.count > 0.0);
        steps
    }

    fn workspace_bytes(&self) -> usize {
        2 * self.transfer.modal_layout().len() * size_of::<C>()
            + self.scratch_layout.len() * size_of::<T>()
            + self.cycle.bytes()
    }
}
