//! Multigrid as an iteration: in one precision, and mixed.

use super::{Iteration, Run};
use crate::backend::Iterations;
use crate::operator::{Guess, MixedTop};
use crate::options::Start;
use crate::precond::Preconditioner;
use crate::precond::multigrid::Cycle;
use crate::traffic::{self, StepTraffic};
use crate::{Backend, Real, Result, Scalar};

/// ‖r‖²
const NORM: Scalar = Scalar::new(0);

/// Multigrid cycles on one u until ‖f − A u‖ is small enough. The norm is computed by each cycle's last sweep and costs
/// no pass of its own.
///
/// Storage: that of [`Cycle`], and nothing on the finest level besides b and u themselves.
pub struct Multigrid<B: Backend, T: Real> {
    cycle: Cycle<B, T>,
    backend: B,
    /// Scratch for the residual norm of a first guess.
    scratch: B::Vector<T>,
    scalars: B::Scalars,
    start: Start,
}

impl<B: Backend, T: Real> Multigrid<B, T> {
    /// Takes a hierarchy with its vectors.
    pub fn new(cycle: Cycle<B, T>, start: Start) -> Result<Self> {
        let finest = cycle.finest();
        let backend = finest.backend().clone();
        let layout = if finest.norm_needs_scratch() { *finest.layout() } else { crate::layout::Layout::smallest()? };
        Ok(Self { scratch: backend.zeros(&layout)?, scalars: backend.scalars()?, backend, cycle, start })
    }
}

impl<B: Backend, T: Real> Iteration<B, T> for Multigrid<B, T> {
    fn begin(&mut self, b: &B::Vector<T>, u: &mut B::Vector<T>, guess: Guess) -> Result<Option<f64>> {
        if guess == Guess::Zero {
            return Ok(None);
        }
        self.cycle.finest().residual_norm(b, [u, &mut self.scratch], NORM.of(&mut self.scalars))?;
        Ok(Some(self.backend.read(&self.scalars)?[NORM.index()].sqrt()))
    }

    fn run(&mut self, run: Run<'_, '_, B, T>) -> Result<()> {
        let Run { b, u, guess, monitor, .. } = run;
        let Self { cycle, backend, scalars, start, .. } = self;
        let mut observe = |bank: &[f64; Scalar::COUNT]| monitor.observe_or_give_up(bank[NORM.index()]);
        // The first cycle from zero need not read u.
        let first_differs = guess == Guess::Zero;
        let how = Iterations { first_differs, on_host: cycle.needs_host() };
        let mut body = |n, scalars: &mut _| match start {
            _ if n > 0 || !first_differs => cycle.cycle(b, u, Guess::Given, Some((NORM, scalars))),
            Start::Zero => cycle.cycle(b, u, Guess::Zero, Some((NORM, scalars))),
            Start::Full => cycle.full_multigrid([b, u], Some((NORM, scalars))),
        };
        backend.iterate(how, scalars, &mut body, &mut observe)
    }

    fn precondition(&mut self, r: &mut B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        self.cycle.cycle(r, z, Guess::Zero, None)
    }

    fn preconditions_symmetrically(&self) -> bool {
        !self.cycle.is_variable()
    }

    fn update(&mut self) -> Result<()> {
        self.cycle.update()
    }

    fn another(&self) -> Result<Option<Box<dyn Iteration<B, T>>>> {
        Ok(Some(Box::new(Self::new(self.cycle.another()?, self.start)?)))
    }

    fn traffic(&self) -> Vec<StepTraffic> {
        self.cycle.traffic(Guess::Given)
    }

    fn workspace_bytes(&self) -> usize {
        let scratch = if self.cycle.finest().norm_needs_scratch() {
            self.cycle.finest().layout().len() * size_of::<T>()
        } else {
            0
        };
        self.cycle.bytes() + scratch
    }
}

/// Multigrid cycles in single precision inside a correction loop in double precision:
///
/// ```text
/// e = cycle(r)                                                     in single
/// u += e;  u += ρ M⁻¹(f − A u);  r = f − A u;  ‖r‖²                in double, one pass
/// ```
///
/// The sweep in double precision repairs the rounding of e: with thin layers the vertical couplings amplify the last
/// bit of a single-precision correction to the size of the residual, and line relaxation, which solves for a whole
/// column, removes just that.
///
/// In a V(1,1) cycle it is also the finest level's only sweep after the coarse levels: a cycle reduces the residual
/// as much as one in double precision; see [`MixedTop::ascend`].
///
/// Storage: that of [`Cycle`] and of [`MixedTop`].
pub struct MixedMultigrid<B: Backend> {
    cycle: Cycle<B, f32>,
    top: MixedTop<B>,
    backend: B,
    scalars: B::Scalars,
    start: Start,
    coefficient_vectors: f64,
}

impl<B: Backend> MixedMultigrid<B> {
    /// Takes a hierarchy in single precision, and its finest level in both.
    ///
    /// # Errors
    /// Fails if the scalars cannot be made.
    pub fn new(cycle: Cycle<B, f32>, top: MixedTop<B>, start: Start) -> Result<Self> {
        let backend = cycle.finest().backend().clone();
        let coefficient_vectors = cycle.finest().coefficient_vectors();
        Ok(Self { scalars: backend.scalars()?, backend, cycle, top, start, coefficient_vectors })
    }
}

impl<B: Backend> Iteration<B, f64> for MixedMultigrid<B> {
    fn begin(&mut self, b: &B::Vector<f64>, u: &mut B::Vector<f64>, guess: Guess) -> Result<Option<f64>> {
        if guess == Guess::Zero {
            self.backend.clear(u)?;
            self.top.begin_from_zero(b)?;
            return Ok(None);
        }
        self.top.begin(b, u, NORM.of(&mut self.scalars))?;
        Ok(Some(self.backend.read(&self.scalars)?[NORM.index()].sqrt()))
    }

    fn run(&mut self, run: Run<'_, '_, B, f64>) -> Result<()> {
        let Run { b, u, guess, monitor, .. } = run;
        let Self { cycle, top, backend, scalars, start, .. } = self;
        if *start == Start::Full && guess == Guess::Zero {
            let [r, e] = top.parts();
            cycle.full_multigrid([r, e], None)?;
            top.correct(b, u, NORM.of(scalars))?;
            if monitor.observe(backend.read(scalars)?[NORM.index()]).is_break() {
                return Ok(());
            }
        }
        let mut observe = |bank: &[f64; Scalar::COUNT]| monitor.observe_or_give_up(bank[NORM.index()]);
        let lends_top = top.takes_over() && cycle.can_lend_its_top();
        let how = Iterations { first_differs: lends_top, on_host: cycle.needs_host() };
        let mut body = |n, scalars: &mut B::Scalars| {
            if !lends_top {
                let [r, e] = top.parts();
                cycle.cycle(r, e, Guess::Zero, None)?;
                return top.correct(b, u, NORM.of(scalars));
            }
            if let Some((f, _)) = cycle.coarse() {
                if n == 0 { top.descend_first(f)? } else { top.descend(f)? }
            }
            cycle.cycle_below()?;
            match cycle.coarse() {
                Some((_, coarse_u)) => top.ascend(b, u, coarse_u, NORM.of(scalars)),
                None => Ok(()),
            }
        };
        backend.iterate(how, scalars, &mut body, &mut observe)
    }

    fn precondition(&mut self, r: &mut B::Vector<f64>, z: &mut B::Vector<f64>) -> Result<()> {
        let (cycle, [single, correction]) = (&mut self.cycle, self.top.parts());
        self.backend.convert(r, single)?;
        cycle.cycle(single, correction, Guess::Zero, None)?;
        self.backend.convert(correction, z)
    }

    fn preconditions_symmetrically(&self) -> bool {
        !self.cycle.is_variable()
    }

    fn update(&mut self) -> Result<()> {
        self.cycle.update()
    }

    fn traffic(&self) -> Vec<StepTraffic> {
        let mut steps = self.cycle.traffic(Guess::Zero);
        let mut step = traffic::CORRECT_SMOOTH_RESIDUAL;
        if self.top.takes_over() && self.cycle.can_lend_its_top() {
            let is_finest = |step: &StepTraffic| step.cells == self.cycle.cells();
            steps.retain(|step| !(is_finest(step) && step.step == traffic::PROLONG_SMOOTH));
            step = traffic::ASCEND;
        }
        steps.push(StepTraffic::once::<f64>(step, self.cycle.cells()).with_coefficients(self.coefficient_vectors));
        steps
    }

    fn workspace_bytes(&self) -> usize {
        self.cycle.bytes() + self.top.workspace_bytes()
    }
}
