//! Multigrid as an iteration: in one precision, and mixed.

use super::{Iteration, Monitor, StepTraffic};
use crate::backend::{Backend, Slot};
use crate::error::Result;
use crate::layout::{Colour, Layout};
use crate::operator::{Guess, MultigridOperator, Relaxation, scratch};
use crate::options::{MultigridOptions, Start};
use crate::precond::multigrid::Cycle;
use crate::real::Real;
use crate::traffic;

/// ‖r‖²
const NORM: Slot = Slot::new(0);

/// Cycle after cycle on the same u, until ‖f − A u‖ is small enough. The norm comes with each
/// cycle's last sweep and costs no pass of its own.
///
/// Storage: that of [`Cycle`], and nothing on the finest level but b and u themselves.
pub struct Multigrid<B: Backend, A, T: Real> {
    cycle: Cycle<B, A, T>,
    backend: B,
    scalars: B::Scalars,
    start: Start,
}

impl<B: Backend + Clone, A: MultigridOperator<B, T>, T: Real> Multigrid<B, A, T> {
    /// Takes a hierarchy.
    ///
    /// # Errors
    /// Where the scalars cannot be made.
    pub fn new(cycle: Cycle<B, A, T>, start: Start) -> Result<Self> {
        let backend = cycle.operator().backend().clone();
        Ok(Self { scalars: backend.scalars()?, backend, cycle, start })
    }
}

impl<B: Backend + Clone, A: MultigridOperator<B, T>, T: Real> Iteration<B, T> for Multigrid<B, A, T> {
    fn run(&mut self, b: &B::Vector<T>, u: &mut B::Vector<T>, guess: Guess, monitor: &mut Monitor<'_>) -> Result<()> {
        let Self { cycle, backend, scalars, start } = self;
        if guess == Guess::Zero {
            // The first cycle is special: it need not read u.
            match start {
                Start::Zero => cycle.cycle(b, u, Guess::Zero, Some((NORM, scalars)))?,
                Start::Full => cycle.full_multigrid(b, u, Some((NORM, scalars)))?,
            }
            if monitor.observe(backend.read(scalars)?[NORM.index()]).is_break() {
                return Ok(());
            }
        }
        backend.iterate(
            scalars,
            &mut |_, scalars| cycle.cycle(b, u, Guess::Given, Some((NORM, scalars))),
            &mut |bank| monitor.observe(bank[NORM.index()]),
        )
    }

    fn traffic(&self) -> Vec<StepTraffic> {
        self.cycle.traffic(Guess::Given)
    }

    fn workspace_bytes(&self) -> usize {
        self.cycle.workspace_bytes()
    }
}

/// Cycles in precision S inside a correction loop in precision T:
///
/// ```text
/// e = cycle(r)                                                     in S
/// u += e;  u += ρ M⁻¹(f − A u);  r = f − A u;  ‖r‖²                in T, one pass
/// ```
///
/// The sweep in T is what repairs the rounding of e: with thin layers the vertical couplings blow the
/// last bit of a single-precision correction up to the size of the residual, and line relaxation,
/// which solves for a whole column anew, removes just that.
///
/// Storage: that of [`Cycle`] in S, and 2 n-vectors in S (r, e).
pub struct MixedMultigrid<B: Backend, A, L, T: Real, S: Real> {
    operator: A,
    cycle: Cycle<B, L, S>,
    relaxation: Relaxation,
    r: B::Vector<S>,
    e: B::Vector<S>,
    scratch: B::Vector<T>,
    scalars: B::Scalars,
    start: Start,
    layout: Layout,
}

impl<B, A, L, T, S> MixedMultigrid<B, A, L, T, S>
where
    B: Backend + Clone,
    A: MultigridOperator<B, T>,
    L: MultigridOperator<B, S>,
    T: Real,
    S: Real,
{
    /// Takes the operator in T and a hierarchy in S.
    ///
    /// # Errors
    /// Where the workspace does not fit in memory.
    pub fn new(operator: A, cycle: Cycle<B, L, S>, options: &MultigridOptions) -> Result<Self> {
        let backend = operator.backend().clone();
        let layout = *operator.layout();
        Ok(Self {
            relaxation: Relaxation { smoother: options.smoother, rho: options.relaxation(), first: Colour::Red },
            r: backend.zeros(&layout)?,
            e: backend.zeros(&layout)?,
            scratch: scratch(&operator, options.smoother)?,
            scalars: backend.scalars()?,
            start: options.start,
            operator,
            cycle,
            layout,
        })
    }
}

impl<B, A, L, T, S> Iteration<B, T> for MixedMultigrid<B, A, L, T, S>
where
    B: Backend + Clone,
    A: MultigridOperator<B, T>,
    L: MultigridOperator<B, S>,
    T: Real,
    S: Real,
{
    fn run(&mut self, b: &B::Vector<T>, u: &mut B::Vector<T>, guess: Guess, monitor: &mut Monitor<'_>) -> Result<()> {
        let Self { operator, cycle, relaxation, r, e, scratch, scalars, start, .. } = self;
        let backend = operator.backend();
        match guess {
            Guess::Zero => {
                backend.clear(u)?;
                backend.convert(b, r)?;
            }
            Guess::Given => {
                backend.clear(e)?;
                operator.correct_smooth_residual(*relaxation, b, e, u, r, scratch, NORM, scalars)?;
            }
        }
        if *start == Start::Full && guess == Guess::Zero {
            cycle.full_multigrid(r, e, None)?;
            operator.correct_smooth_residual(*relaxation, b, e, u, r, scratch, NORM, scalars)?;
            if monitor.observe(backend.read(scalars)?[NORM.index()]).is_break() {
                return Ok(());
            }
        }
        backend.iterate(
            scalars,
            &mut |_, scalars| {
                cycle.cycle(r, e, Guess::Zero, None)?;
                operator.correct_smooth_residual(*relaxation, b, e, u, r, scratch, NORM, scalars)
            },
            &mut |bank| monitor.observe(bank[NORM.index()]),
        )
    }

    fn traffic(&self) -> Vec<StepTraffic> {
        let mut steps = self.cycle.traffic(Guess::Zero);
        steps.push(StepTraffic {
            step: traffic::CORRECT_SMOOTH_RESIDUAL,
            cells: self.layout.shape().cells(),
            size: size_of::<T>(),
            coefficient_vectors: self.operator.coefficient_vectors(),
            count: 1.0,
        });
        steps
    }

    fn workspace_bytes(&self) -> usize {
        2 * self.layout.len() * size_of::<S>() + self.cycle.workspace_bytes()
    }
}
