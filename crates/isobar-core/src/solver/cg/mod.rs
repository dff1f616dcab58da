//! Preconditioned conjugate gradients.

mod observation;
mod recurrence;
mod steps;

use std::sync::Arc;

use super::{Iteration, Run};
use crate::backend::{AggregateBackend, Iterations};
use crate::operator::{Diagonal, Guess, Operator};
use crate::precond::{Deflation, Preconditioner};
use crate::traffic::{self, StepTraffic};
use crate::{Real, Result, Scalar};
use observation::{Due, Observation, Pause, Renewal};
use recurrence::{NORM, RHO, Recurrence};
use steps::{Full, Rounded, Steps};

/// Conjugate gradients for a symmetric positive definite A (Hestenes and Stiefel, 1952), with a preconditioner M:
///
/// ```text
/// u += αp;  p = z + βp;  q = A p;  σ = ⟨p, q⟩           (the operator's step)
/// r −= αq;  z = M⁻¹ r;  ρ = ⟨r, z⟩;  ‖r‖²               (the preconditioner's step)
/// α = ρ/σ,  β = ρ/ρ_before
/// ```
///
/// The update of u lags one iteration behind, which lets it share a pass with that of p. If the preconditioner varies or is not
/// symmetric (a multigrid cycle), β = −⟨z, q⟩/σ instead (Golub and Ye, 1999), which costs one more inner product.
///
/// With a [`Deflation`] this is paper D's deflated conjugate gradients (algorithm 1): q = P A p, and u is corrected in
/// the deflation space before and after.
///
/// In [`Cg::rounded`] r, z and q are in single precision S, as cycles are, while u, p and the arithmetic of A p are in precision T. q
/// is rounded, so r drifts away from b − A u; it is computed again, in precision T, whenever ‖r‖ has fallen to a thousandth, which
/// does not slow convergence down (van der Vorst and Ye, 2000, for the idea of replacing residuals).
///
/// Storage: 4 n-vectors (r, z, p, q; without a preconditioner z is r) besides b and u, another p if the operator does not advance it in place
/// (CUDA), one for the norm ‖D^−½ r‖ if it is used, and one for b − A u if r is rounded.
pub struct Cg<B: AggregateBackend, T: Real, S: Real = T> {
    recurrence: Recurrence<B, T, S>,
    scalars: B::Scalars,
}

/// Returns the vectors of a [`Cg`] in the precision of its residuals: r, q and, with a preconditioner, z.
pub(crate) fn residuals(has_z: bool) -> usize {
    2 + usize::from(has_z)
}

/// ‖z‖² at the end.
const CORRECTION: Scalar = Scalar::new(8);
/// A norm that is not read.
const UNUSED: Scalar = Scalar::new(8);

impl<B: AggregateBackend, T: Real> Cg<B, T> {
    /// Makes the workspace.
    pub fn new(operator: Arc<dyn Operator<B, T>>, preconditioner: Box<dyn Preconditioner<B, T>>) -> Result<Self> {
        Self::deflated(operator, preconditioner, None)
    }

    /// Makes the workspace of an iteration with deflation, if there is any.
    pub fn deflated(
        operator: Arc<dyn Operator<B, T>>,
        preconditioner: Box<dyn Preconditioner<B, T>>,
        deflation: Option<Deflation<B, T>>,
    ) -> Result<Self> {
        Self::with(Box::new(Full { operator, deflation }), preconditioner)
    }
}

impl<B: AggregateBackend, T: Real> Cg<B, T, f32> {
    /// Makes the workspace of an iteration with r, z and q in single precision.
    pub fn rounded(operator: Arc<dyn Operator<B, T>>, preconditioner: Box<dyn Preconditioner<B, f32>>) -> Result<Self> {
        Self::with(Box::new(Rounded::new(operator)?), preconditioner)
    }
}

impl<B: AggregateBackend, T: Real, S: Real> Cg<B, T, S> {
    fn with(steps: Box<dyn Steps<B, T, S>>, preconditioner: Box<dyn Preconditioner<B, S>>) -> Result<Self> {
        let recurrence = Recurrence::new(steps, preconditioner)?;
        Ok(Self { scalars: recurrence.backend.scalars()?, recurrence })
    }

    /// Makes the iteration watch ‖D^−½ r‖ instead of ‖r‖.
    ///
    /// # Errors
    /// Fails if one more vector does not fit in memory.
    pub fn watching_scaled(mut self, diagonal: Arc<dyn Diagonal<B, S>>) -> Result<Self> {
        let vector = self.recurrence.backend.zeros(diagonal.layout())?;
        self.recurrence.scaled = Some((diagonal, vector));
        Ok(self)
    }

    /// Applies the last α to u, and passes the estimate of the remaining error to the monitor.
    fn finish(&mut self, run: Run<'_, '_, B, T>, observation: &Observation) -> Result<()> {
        let Self { recurrence: this, scalars } = self;
        let Run { b, u, monitor, .. } = run;
        let has_direction = observation.is_sound && observation.taken > 0;
        if has_direction {
            this.advance_u(observation.last(), u, scalars)?;
        }
        if observation.tells_spectrum {
            if observation.due == Some(Due::Both) && observation.is_sound {
                // The last r is mostly rounding, and so would be an estimate by its z.
                this.steps.residual((b, u, &mut this.r), UNUSED.of(scalars))?;
                if let Some(z) = &mut this.z {
                    this.preconditioner.apply(&mut this.r, z)?;
                }
            }
            let z = this.z.as_mut().unwrap_or(&mut this.r);
            this.preconditioner.project_out(z)?;
            this.backend.dot(z, z, CORRECTION.of(scalars))?;
            let bank = this.backend.read(scalars)?;
            let rho = bank[RHO[observation.taken % 2].index()];
            monitor.note_correction(bank[CORRECTION.index()].sqrt(), rho, this.preconditioner.is_strong());
        }
        this.steps.correct_after((b, u, &mut this.r), NORM[0].of(scalars))
    }
}

impl<B: AggregateBackend, T: Real, S: Real> Iteration<B, T> for Cg<B, T, S> {
    fn begin(&mut self, b: &B::Vector<T>, u: &mut B::Vector<T>, guess: Guess) -> Result<Option<f64>> {
        let Self { recurrence: this, scalars } = self;
        if guess == Guess::Zero {
            this.backend.clear(u)?;
            this.backend.convert(b, &mut this.r)?;
            return Ok(None);
        }
        this.steps.residual((b, u, &mut this.r), NORM[0].of(scalars))?;
        if this.scaled.is_some() {
            this.scaled_norm(0, scalars)?;
        }
        Ok(Some(this.backend.read(scalars)?[NORM[0].index()].sqrt()))
    }

    fn run(&mut self, mut run: Run<'_, '_, B, T>) -> Result<()> {
        let Self { recurrence: this, scalars } = self;
        let Run { b, u, best, monitor, .. } = &mut run;
        this.start(b, u, scalars)?;
        let on_host = this.steps.needs_host() || this.preconditioner.needs_host();
        let how = Iterations { on_host, ..Iterations::default() };
        let backend = this.backend.clone();
        let mut observation = Observation {
            tells_spectrum: this.preconditioner.tells_spectrum(),
            keeps_best: best.is_some(),
            norms: this.watched(),
            renewal: this.steps.rounds().then(|| Renewal::new(monitor.last())),
            taken: 0,
            is_sound: true,
            due: None,
            pause: None,
        };
        loop {
            let before = observation.taken;
            backend.iterate(how, scalars, &mut |n, scalars| this.iterate(before + n, u, scalars), &mut |bank| {
                observation.observe(bank, monitor)
            })?;
            match (observation.pause.take(), &mut *best) {
                (Some(Pause::Keep), Some(best)) => {
                    // The update of u lags one iteration behind.
                    backend.convert(u, best)?;
                    monitor.note_kept(1);
                }
                (Some(Pause::Renew(due)), _) => this.renew(due, observation.last(), [b, u], scalars)?,
                _ => break,
            }
        }
        self.finish(run, &observation)
    }

    fn precondition(&mut self, r: &mut B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        let Recurrence { backend, steps, preconditioner, r: own_r, z: own_z, .. } = &mut self.recurrence;
        let Some(own_z) = own_z else { return backend.convert(r, z) };
        steps.precondition(&mut **preconditioner, [r, z], [own_r, own_z])
    }

    fn preconditions_symmetrically(&self) -> bool {
        !self.recurrence.preconditioner.is_variable()
    }

    fn choose(&mut self, rank: usize) -> Option<&'static str> {
        self.recurrence.preconditioner.choose(rank)
    }

    fn update(&mut self) -> Result<()> {
        self.recurrence.steps.update()?;
        self.recurrence.preconditioner.update()
    }

    fn another(&self) -> Result<Option<Box<dyn Iteration<B, T>>>> {
        let this = &self.recurrence;
        let Some(steps) = this.steps.another()? else { return Ok(None) };
        let Some(preconditioner) = this.preconditioner.another()? else { return Ok(None) };
        let cg = Self::with(steps, preconditioner)?;
        Ok(Some(Box::new(match &this.scaled {
            Some((diagonal, _)) => cg.watching_scaled(Arc::clone(diagonal))?,
            None => cg,
        })))
    }

    fn traffic(&self) -> Vec<StepTraffic> {
        let this = &self.recurrence;
        let operator = this.steps.operator();
        let (cells, vectors) = (operator.layout().shape().cells(), operator.coefficient_vectors());
        let step = |step| StepTraffic::once::<T>(step, cells).with_coefficients(vectors);
        let (advance, project) = this.steps.traffic();
        let mut steps = vec![step(advance)];
        steps.extend(project.map(step));
        if this.scaled.is_some() {
            steps.extend([step(traffic::DIVIDE_BY_DIAGONAL), step(traffic::DOT)]);
        }
        steps.extend(this.preconditioner.traffic(cells));
        steps
    }

    fn workspace_bytes(&self) -> usize {
        let this = &self.recurrence;
        let residuals = residuals(this.z.is_some()) + usize::from(this.scaled.is_some());
        let directions = 1 + usize::from(this.p_odd.is_some()) + this.steps.vectors();
        let bytes = residuals * size_of::<S>() + directions * size_of::<T>();
        this.steps.operator().layout().len() * bytes + this.preconditioner.workspace_bytes()
    }
}
