//! Vertical modes as an iteration.

use std::ops::ControlFlow;

use super::{Iteration, Monitor, Run};
use crate::backend::Iterations;
use crate::operator::{Expansion, Guess, Relaxation};
use crate::options::Smoother;
use crate::policy::modes::Plan;
use crate::precond::ModalProblems;
use crate::traffic::{self, StepTraffic};
use crate::{Backend, Colour, Real, Result, Scalar};

/// ‖r‖²
const NORM: Scalar = Scalar::new(0);

/// The relaxation of lines once the low modes are right.
pub(crate) const RELAXATION: Relaxation =
    Relaxation { smoother: Smoother::LineRedBlack, rho: 1.0, first: Colour::Red, returns: false };

/// The iteration by vertical modes: low modes from their two-dimensional problems, all others by line relaxation, until ‖f − A u‖
/// is small enough:
///
/// ```text
/// x_m ≈ (μ_m |T| + L_h)⁻¹ g_m                                          by cycles of multigrid
/// u += Σ s_m x_m;  sweeps of red–black lines;  r = f − A u;  g_m = s_mᵀ r;  ‖r‖²
/// ```
///
/// From u = 0 all sweeps but the last may be in the modes' precision C: after the last one only couplings between columns carry
/// their rounding, and the next iteration begins with the true residual.
///
/// A sweep reduces mode m at least by max (α_T/(α_T + μ_m |T|))², which is small from the first mode on that is not solved for.
///
/// Storage: that of [`ModalProblems`].
pub struct ByModes<B: Backend, T: Real, C: Real> {
    problems: ModalProblems<B, T, C>,
    plan: Plan,
    backend: B,
    scalars: B::Scalars,
    /// ‖r‖² at the beginning of a run.
    initial: f64,
    /// ‖b − A u‖² of u after the last run, if known.
    residual: Option<f64>,
}

impl<B: Backend, T: Real, C: Real> ByModes<B, T, C> {
    /// Takes as many sweeps of the grid an iteration as planned.
    pub fn new(problems: ModalProblems<B, T, C>, plan: Plan) -> Result<Self> {
        let backend = problems.transfer.fine().backend().clone();
        Ok(Self { scalars: backend.scalars()?, initial: f64::INFINITY, residual: None, problems, plan, backend })
    }
}

impl<B: Backend, T: Real, C: Real> ByModes<B, T, C> {
    /// Iterates, but stops where the first iteration from u = 0, whose sweeps may be in the modes' precision, gains nothing: that
    /// precision may not suffice.
    fn run_from(
        &mut self,
        b: &B::Vector<T>,
        u: &mut B::Vector<T>,
        guess: Guess,
        monitor: &mut Monitor<'_>,
    ) -> Result<ControlFlow<()>> {
        let Self { problems, plan, backend, scalars, initial, residual } = self;
        *residual = None;
        let (relaxation, sweeps) = (RELAXATION, plan.sweeps);
        let (mut is_first, mut gains) = (guess == Guess::Zero, true);
        let of = |n: usize| if n == 0 { guess } else { Guess::Given };
        let mut observe = |square: f64| {
            gains = !std::mem::take(&mut is_first) || square <= *initial;
            if gains { monitor.observe_or_give_up(square) } else { ControlFlow::Break(()) }
        };
        if plan.iterations == 1 {
            // Probably nothing is left to project, and this residual judges the solve.
            let mut observe = |bank: &[f64; Scalar::COUNT]| {
                *residual = Some(bank[NORM.index()].sqrt());
                observe(bank[NORM.index()])
            };
            let mut once = |n: usize, scalars: &mut B::Scalars| {
                if n > 0 {
                    let ModalProblems { transfer, g, scratch, .. } = &mut *problems;
                    transfer.project_residual(b, u, g, scratch, NORM.of(scalars))?;
                }
                problems.solve()?;
                let ModalProblems { transfer, x, scratch, .. } = &mut *problems;
                let expansion = Expansion { x, guess: of(n), relaxation, sweeps };
                transfer.expand_smooth_norm(&expansion, b, [&mut *u, scratch], NORM.of(scalars))
            };
            let how = Iterations { first_differs: true, on_host: false };
            backend.iterate(how, scalars, &mut once, &mut observe)?;
        } else {
            let mut observe = |bank: &[f64; Scalar::COUNT]| observe(bank[NORM.index()]);
            let mut once = |n: usize, scalars: &mut B::Scalars| {
                problems.solve()?;
                let ModalProblems { transfer, g, x, scratch, .. } = &mut *problems;
                let expansion = Expansion { x, guess: of(n), relaxation, sweeps };
                transfer.expand_smooth_project(&expansion, b, [&mut *u, scratch], g, NORM.of(scalars))
            };
            // From zero, the first iteration need not read u.
            let how = Iterations { first_differs: guess == Guess::Zero, on_host: false };
            backend.iterate(how, scalars, &mut once, &mut observe)?;
        }
        Ok(if gains { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    }
}

impl<B: Backend, T: Real, C: Real> Iteration<B, T> for ByModes<B, T, C> {
    fn begin(&mut self, b: &B::Vector<T>, u: &mut B::Vector<T>, guess: Guess) -> Result<Option<f64>> {
        let Self { problems: ModalProblems { transfer, g, scratch, .. }, backend, scalars, .. } = self;
        match guess {
            Guess::Zero => transfer.project_rhs(b, g, u, NORM.of(scalars))?,
            Guess::Given => transfer.project_residual(b, u, g, scratch, NORM.of(scalars))?,
        }
        self.initial = backend.read(scalars)?[NORM.index()];
        Ok(Some(self.initial.sqrt()))
    }

    fn finds_norm_of_rhs(&self) -> bool {
        true
    }

    fn run(&mut self, run: Run<'_, '_, B, T>) -> Result<()> {
        let Run { b, u, guess, monitor, .. } = run;
        if self.run_from(b, u, guess, monitor)?.is_continue() {
            return Ok(());
        }
        // Sweeps from a given u have its precision.
        self.backend.clear(u)?;
        self.begin(b, u, Guess::Given)?;
        self.run_from(b, u, Guess::Given, monitor).map(drop)
    }

    fn residual_left(&self) -> Option<f64> {
        self.residual
    }

    fn precondition(&mut self, r: &mut B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        self.problems.precondition(self.plan.sweeps, r, z, &mut self.scalars)
    }

    fn preconditions_symmetrically(&self) -> bool {
        !self.problems.is_variable()
    }

    fn update(&mut self) -> Result<()> {
        self.problems.update()
    }

    fn traffic(&self) -> Vec<StepTraffic> {
        let [cells, modal] = self.problems.cells();
        let step = |step, count: usize| StepTraffic::once::<T>(step, cells).times(count as f64);
        let mut steps = vec![
            step(traffic::EXPAND_SMOOTH_PROJECT, 1),
            StepTraffic::once::<C>(traffic::MODES, modal),
            step(traffic::SMOOTH, self.plan.sweeps - 1),
        ];
        steps.extend(self.problems.traffic());
        steps.retain(|step| step.count > 0.0);
        steps
    }

    fn workspace_bytes(&self) -> usize {
        self.problems.bytes()
    }
}
