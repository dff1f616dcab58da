//! Multigrid as an iteration: in one precision, and mixed.

use std::sync::Arc;

use super::{Iteration, Monitor, StepTraffic};
use crate::backend::{Backend, Slot};
use crate::error::Result;
use crate::layout::{Colour, Layout};
use crate::operator::{Guess, MultigridOperator, Relaxation, scratch};
use crate::options::{MultigridOptions, Start};
use crate::precond::multigrid::{Cycle, Top};
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
        let mut observe = |bank: &[f64; Slot::COUNT]| monitor.observe(bank[NORM.index()]);
        if guess == Guess::Given {
            let mut body = |_, scalars: &mut _| cycle.cycle(b, u, Guess::Given, Some((NORM, scalars)));
            return backend.iterate(scalars, &mut body, &mut observe);
        }
        // The first cycle need not read u.
        backend.iterate_after(
            scalars,
            &mut |n, scalars| match (n, &start) {
                (None, Start::Zero) => cycle.cycle(b, u, Guess::Zero, Some((NORM, scalars))),
                (None, Start::Full) => cycle.full_multigrid(b, u, Some((NORM, scalars))),
                (Some(_), _) => cycle.cycle(b, u, Guess::Given, Some((NORM, scalars))),
            },
            &mut observe,
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
/// In a V(1,1) cycle it is also the sweep after the coarse grids, of which the finest grid has no other: a cycle
/// reduces the residual as much as one in T alone; see [`MultigridOperator::ascend`].
///
/// Storage: that of [`Cycle`] in S, and 2 n-vectors in S (r, e).
pub struct MixedMultigrid<B: Backend, A, L, T: Real, S: Real> {
    operator: Arc<A>,
    cycle: Cycle<B, L, S>,
    relaxation: Relaxation,
    r: B::Vector<S>,
    e: B::Vector<S>,
    scratch: B::Vector<T>,
    scalars: B::Scalars,
    start: Start,
    layout: Layout,
    /// Whether V(1,1).
    fused: bool,
}

impl<B, A, L, T, S> MixedMultigrid<B, A, L, T, S>
where
    B: Backend + Clone,
    A: MultigridOperator<B, T>,
    L: MultigridOperator<B, S> + 'static,
    T: Real,
    S: Real,
{
    /// Takes the operator in T and a hierarchy in S.
    ///
    /// # Errors
    /// Where the workspace does not fit in memory.
    pub fn new(operator: Arc<A>, mut cycle: Cycle<B, L, S>, options: &MultigridOptions) -> Result<Self> {
        let backend = operator.backend().clone();
        let layout = *operator.layout();
        Ok(Self {
            relaxation: Relaxation { smoother: options.smoother, rho: options.relaxation(), first: Colour::Red },
            r: backend.zeros(&layout)?,
            e: backend.zeros(&layout)?,
            scratch: scratch(&*operator, options.smoother)?,
            scalars: backend.scalars()?,
            start: options.start,
            fused: cycle.top().is_some(),
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
    L: MultigridOperator<B, S> + 'static,
    T: Real,
    S: Real,
{
    fn run(&mut self, b: &B::Vector<T>, u: &mut B::Vector<T>, guess: Guess, monitor: &mut Monitor<'_>) -> Result<()> {
        let Self { operator, cycle, relaxation, r, e, scratch, scalars, start, fused, .. } = self;
        let backend = operator.backend();
        let full = *start == Start::Full && guess == Guess::Zero;
        match guess {
            Guess::Zero => {
                backend.clear(u)?;
                backend.convert(b, r)?;
            }
            Guess::Given => backend.clear(e)?,
        }
        if full {
            cycle.full_multigrid(r, e, None)?;
        }
        if full || guess == Guess::Given {
            operator.correct_smooth_residual(*relaxation, b, e, u, r, scratch, NORM, scalars)?;
        }
        if full && monitor.observe(backend.read(scalars)?[NORM.index()]).is_break() {
            return Ok(());
        }
        if !*fused {
            return backend.iterate(
                scalars,
                &mut |_, scalars| {
                    cycle.cycle(r, e, Guess::Zero, None)?;
                    operator.correct_smooth_residual(*relaxation, b, e, u, r, scratch, NORM, scalars)
                },
                &mut |bank| monitor.observe(bank[NORM.index()]),
            );
        }
        backend.iterate_after(
            scalars,
            &mut |n, scalars| {
                if let Some(Top { operators, coarse, scratch }) = cycle.top() {
                    let ([finest, coarser], coarse_f) = (operators, &mut coarse.f);
                    match n {
                        // From r itself, not from what `ascend` made of it.
                        None => {
                            let zero = Guess::Zero;
                            finest.smooth_residual_restrict(coarser, *relaxation, zero, r, e, coarse_f, scratch)?;
                        }
                        Some(_) => operator.descend(operators, *relaxation, [e, r], coarse_f, scratch)?,
                    }
                }
                cycle.cycle_below()?;
                match cycle.top() {
                    Some(Top { operators, coarse, .. }) => {
                        operator.ascend(operators, *relaxation, b, u, &coarse.u, [e, r], scratch, NORM, scalars)
                    }
                    None => Ok(()),
                }
            },
            &mut |bank| monitor.observe(bank[NORM.index()]),
        )
    }

    fn traffic(&self) -> Vec<StepTraffic> {
        let mut steps = self.cycle.traffic(Guess::Zero);
        let mut step = traffic::CORRECT_SMOOTH_RESIDUAL;
        if self.fused {
            let finest = |step: &StepTraffic| step.cells == self.cycle.cells();
            steps.retain(|step| !(finest(step) && step.step == traffic::PROLONG_SMOOTH));
            step = traffic::ASCEND;
        }
        steps.push(StepTraffic {
            step,
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
