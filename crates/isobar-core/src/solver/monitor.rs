//! Stopping tests and verdicts.

use std::ops::ControlFlow;

use super::spectrum::Lanczos;
use crate::options::Method;
use crate::outcome::{Spectrum, Stop};
use crate::policy::watch::Watch;

/// The state that an observer sees after every iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Iterations taken.
    pub iteration: usize,
    /// ‖r‖ over the reference, as the iteration computed it.
    pub relative_residual: f64,
    /// The tolerance of the solve; one that examines a first guess, or whose error is gross, goes on below it.
    pub tolerance: f64,
}

/// A function that sees every iteration, and ends the solve where it breaks: the outcome is then [`Stop::Interrupted`].
pub type Observer<'o> = dyn FnMut(&Progress) -> ControlFlow<()> + Send + 'o;

/// Does nothing, as an [`Observer`].
pub fn ignore(_: &Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The patience with a residual that does not fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Krylov residuals may plateau and oscillate; only the final judgement detects a stall.
    Krylov,
    /// A stationary method that gains nothing in ten iterations never will.
    Stationary,
    /// Refinement of a direct solve that gains nothing in two steps has reached rounding.
    Refinement,
    /// Relaxation gains a little at a time, over many iterations.
    Relaxation,
}

impl Patience {
    /// Returns the patience with a method.
    pub fn of(method: Method) -> Self {
        match method {
            Method::Jacobi => Self::Relaxation,
            Method::Direct => Self::Refinement,
            _ if method.is_stationary() => Self::Stationary,
            _ => Self::Krylov,
        }
    }
}

/// Keeps the history of a solve and ends it.
pub struct Monitor<'o> {
    reference: f64,
    tolerance: f64,
    max_iterations: usize,
    /// The caller's limit of iterations, and tolerance.
    limit: usize,
    asked: f64,
    patience: Patience,
    history: Vec<f64>,
    /// The smallest residual of the history, and since the current preconditioner was chosen.
    least: f64,
    least_since: f64,
    /// The iteration at which the gain of a relaxation was last checked, and the least residual until then.
    looked: (usize, f64),
    lanczos: Lanczos,
    /// Restarts begin another Lanczos process; only the first with a preconditioner counts.
    restarted: bool,
    /// The start of the current preconditioner's history.
    since: usize,
    /// The relative residual of the kept iterate.
    kept: f64,
    /// The number of iterations and the convergence factor after which a slow preconditioner is replaced.
    probe: Option<Watch>,
    /// ‖e‖, estimated by the last run.
    error: Option<f64>,
    /// The estimate of [`Monitor::energy_error`].
    energy_error: Option<f64>,
    /// Whether the preconditioner of these estimates is strong.
    is_strong: bool,
    /// Whether estimates hold from the first iteration whatever the preconditioner.
    has_bound: bool,
    broken: Option<Broken>,
    stop: Option<Stop>,
    /// Whether the observer ended the solve at its last iteration.
    is_interrupted: bool,
    observer: &'o mut Observer<'o>,
}

/// A breakdown of the recurrence of conjugate gradients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Broken {
    /// σ = pᵀAp, and ρ = rᵀM⁻¹r before it.
    Direction {
        /// The value of σ, which is not positive.
        sigma: f64,
        /// The value of ρ, which is positive.
        rho: f64,
    },
    /// ρ = rᵀM⁻¹r
    Preconditioner {
        /// The value of ρ, which is not positive.
        rho: f64,
    },
    /// A division by zero in another method.
    Division,
}

/// An iterate is kept when the residual has risen to this multiple of the least…
const RISE: f64 = 2.0;
/// …and the least is below this fraction of the kept iterate's residual.
const WORTH_KEEPING: f64 = 0.5;
/// The factor of an estimated error: weak preconditioners leave larger errors in slow vectors, even in those that have been found by then.
const CAUTION: f64 = 3.0;
/// The factor of an estimate after few iterations of a strong preconditioner.
const CAUTION_EARLY: f64 = 6.0;
/// A stationary method must gain at least this factor…
const STALL_FACTOR: f64 = 0.9;
/// …within this many iterations,
const STALL_WINDOW: usize = 10;
/// and refinement within this many.
const REFINEMENT_WINDOW: usize = 2;
/// Relaxation must gain at least this…
const LEAST_GAIN: f64 = 1e-6;
/// …in this many iterations.
const LONG_WINDOW: usize = 1000;
/// The growth of the residual at which a stationary method is given up, where it may be.
const GROWN: f64 = 10.0;
/// The growth of the residual, over the reference and over that of the first guess, that counts as divergence.
const DIVERGED: f64 = 1e10;

impl<'o> Monitor<'o> {
    /// Makes a monitor that stops at ‖r‖ ≤ `tolerance` · `reference`, and allocates the history.
    pub fn new(
        reference: f64,
        tolerance: f64,
        max_iterations: usize,
        patience: Patience,
        observer: &'o mut Observer<'o>,
    ) -> Self {
        let room = max_iterations.saturating_add(2).min(1 << 20);
        let lanczos = match patience {
            Patience::Krylov => Lanczos::with_capacity(room),
            Patience::Stationary | Patience::Refinement | Patience::Relaxation => Lanczos::default(),
        };
        let history = Vec::with_capacity(room);
        Self {
            reference,
            tolerance,
            max_iterations,
            limit: max_iterations,
            asked: tolerance,
            patience,
            history,
            least: f64::INFINITY,
            least_since: f64::INFINITY,
            looked: (0, f64::INFINITY),
            lanczos,
            restarted: false,
            since: 0,
            kept: f64::INFINITY,
            probe: None,
            error: None,
            energy_error: None,
            is_strong: false,
            has_bound: false,
            broken: None,
            stop: None,
            is_interrupted: false,
            observer,
        }
    }

    /// Notes the residual of the first guess.
    pub fn begin(&mut self, residual: f64) -> ControlFlow<()> {
        self.note(self.relative(residual));
        self.judge()
    }

    fn note(&mut self, relative: f64) {
        self.history.push(relative);
        self.least = self.least.min(relative);
        self.least_since = self.least_since.min(relative);
    }

    /// Notes the squared residual norm after one more iteration.
    pub fn observe(&mut self, norm_squared: f64) -> ControlFlow<()> {
        self.note(self.relative(norm_squared.sqrt()));
        let relative_residual = self.last();
        let (iteration, tolerance) = (self.iterations(), self.asked);
        self.is_interrupted = relative_residual.is_finite()
            && (self.observer)(&Progress { iteration, relative_residual, tolerance }).is_break();
        let flow = self.judge();
        if self.is_interrupted && flow.is_continue() {
            self.stop = Some(Stop::Interrupted);
            return ControlFlow::Break(());
        }
        flow
    }

    /// Notes the squared residual norm after one more iteration, and ends a run that [`Monitor::is_slow`], without a verdict.
    pub fn observe_or_give_up(&mut self, norm_squared: f64) -> ControlFlow<()> {
        let flow = self.observe(norm_squared);
        if self.is_slow() { ControlFlow::Break(()) } else { flow }
    }

    /// Notes the coefficients α and β of an iteration of conjugate gradients.
    pub fn note_coefficients(&mut self, alpha: f64, beta: f64) {
        if !self.restarted {
            self.lanczos.push(alpha, beta);
        }
    }

    /// Estimates the extreme eigenvalues of M⁻¹A from the coefficients.
    pub fn spectrum(&self) -> Option<Spectrum> {
        self.lanczos.spectrum()
    }

    /// Ends the solve: the recurrence cannot continue.
    pub fn break_down(&mut self, broken: Broken) -> ControlFlow<()> {
        (self.stop, self.broken) = (Some(Stop::Breakdown), Some(broken));
        ControlFlow::Break(())
    }

    /// Returns the breakdown of the recurrence, if any.
    pub fn broken(&self) -> Option<Broken> {
        self.broken
    }

    /// Returns whether the iteration has just left an iterate that is worth keeping: the residual rises, and the least so far is
    /// well below that of the kept one.
    pub fn is_leaving_the_best(&self) -> bool {
        let (Some(&now), true) = (self.history.last(), self.stop.is_none()) else { return false };
        now > RISE * self.least && self.least < WORTH_KEEPING * self.kept
    }

    /// Returns whether the residual has just risen from the least so far, by any amount, and that is well below the kept iterate's residual:
    /// for iterations whose residual jumps.
    pub fn has_left_the_best(&self) -> bool {
        let ([.., before, now], true) = (&self.history[..], self.stop.is_none()) else { return false };
        now > before && *before <= self.least && self.least < WORTH_KEEPING * self.kept
    }

    /// Notes that an iterate is kept: the current one, or that of `ago` iterations before.
    pub fn note_kept(&mut self, ago: usize) {
        let at = self.history.len().saturating_sub(1 + ago);
        self.kept = self.history.get(at).copied().unwrap_or(f64::INFINITY);
    }

    /// Notes that an iterate with this true residual is kept.
    pub fn note_kept_with(&mut self, residual: f64) {
        self.kept = self.relative(residual);
    }

    /// Returns the residual of the kept iterate, as the iteration computed it; infinite if there is none.
    pub fn kept(&self) -> f64 {
        if self.reference > 0.0 { self.kept * self.reference } else { self.kept }
    }

    /// Gives an iteration a number of iterations to reach a pace, see [`Monitor::pace`].
    pub(crate) fn watch(&mut self, probe: Option<Watch>) {
        self.probe = probe;
    }

    /// Returns whether those iterations are over and that pace was not reached. Stationary methods are watched further, and are slow
    /// as soon as a residual is much larger than the first.
    pub fn is_slow(&mut self) -> bool {
        let Some(Watch { iterations, pace, goes_on }) = self.probe else { return false };
        let is_stationary = self.window().is_some();
        let has_grown = is_stationary && self.last() > GROWN * self.history[self.since];
        if self.stop.is_some() || !(has_grown || self.iterations() >= self.since + iterations) {
            return false;
        }
        let is_slow = has_grown || self.pace() < pace;
        if is_slow || !(is_stationary || goes_on) {
            self.probe = None;
        }
        is_slow
    }

    /// Returns the iterations in which the method must gain, where it must.
    fn window(&self) -> Option<usize> {
        match self.patience {
            Patience::Stationary => Some(STALL_WINDOW),
            Patience::Refinement => Some(REFINEMENT_WINDOW),
            Patience::Krylov | Patience::Relaxation => None,
        }
    }

    /// Changes the patience, for a method of another kind.
    pub fn be(&mut self, patience: Patience) {
        self.patience = patience;
    }

    /// Returns the mean logarithm of the convergence factor at the best moment so far.
    pub fn pace(&self) -> f64 {
        let taken = self.iterations().saturating_sub(self.since).max(1) as f64;
        match self.history.get(self.since) {
            Some(&first) if first > 0.0 && self.least_since > 0.0 => (first / self.least_since).ln() / taken,
            _ => 0.0,
        }
    }

    /// Notes that all eigenvalues of M⁻¹A are of one size, as a strong preconditioner makes them.
    pub(crate) fn assume_strong(&mut self) {
        self.has_bound = true;
    }

    /// Notes ‖z‖ and ⟨r, z⟩ of z = M⁻¹r at the end of a run of conjugate gradients. The error is (M⁻¹A)⁻¹z, hence at most ‖z‖/λ in the norm of
    /// M, with λ the smallest eigenvalue of M⁻¹A, and about that in others. There is no estimate where λ has not settled, unless M
    /// `is_strong`: then it is near 1 from the beginning.
    pub fn note_correction(&mut self, norm: f64, rho: f64, is_strong: bool) {
        let is_strong = is_strong || self.has_bound;
        let caution = match (self.lanczos.has_settled(), is_strong) {
            (true, _) => CAUTION,
            (false, true) => CAUTION_EARLY,
            (false, false) => f64::INFINITY,
        };
        let smallest = self.spectrum().map(|found| found.smallest);
        self.error = smallest.map(|smallest| caution * norm / smallest).filter(|error| error.is_finite());
        let energy = smallest.map(|smallest| rho / smallest).filter(|energy| energy.is_finite() && caution.is_finite());
        // Nothing may be left of r after one iteration, which has no coefficients then.
        self.energy_error = if rho == 0.0 { Some(0.0) } else { energy };
        self.is_strong = is_strong;
    }

    /// Returns whether the preconditioner of these estimates is strong.
    pub(crate) fn is_strong(&self) -> bool {
        self.is_strong
    }

    /// Returns ⟨r, A⁻¹r⟩, estimated by the last run of conjugate gradients.
    pub fn energy_error(&self) -> Option<f64> {
        self.energy_error
    }

    /// Returns ‖u − A⁻¹b‖, estimated by the last run of conjugate gradients.
    pub fn error(&self) -> Option<f64> {
        self.error
    }

    /// Overrides the verdict, after a judgement by the true residual.
    pub fn rule(&mut self, stop: Stop) {
        self.stop = Some(stop);
    }

    /// Withdraws a convergence that the true residual did not confirm; the iteration may continue. `residual` replaces the last
    /// entry of the history.
    pub fn resume(&mut self, residual: f64) {
        let relative = self.relative(residual);
        self.restarted = true;
        (self.error, self.energy_error) = (None, None);
        if let Some(last) = self.history.last_mut() {
            *last = relative;
        }
        self.stop = (self.iterations() >= self.max_iterations).then_some(Stop::MaxIterations);
    }

    /// Continues with another preconditioner, from an iterate with this residual, which replaces the last of the history.
    pub fn change(&mut self, residual: f64) {
        self.resume(residual);
        self.lanczos.clear();
        self.restarted = false;
        self.probe = None;
        self.broken = None;
        self.since = self.iterations();
        self.least_since = self.last();
    }

    /// Continues a converged solve to a smaller tolerance within this many iterations in all, from an iterate with this residual.
    pub fn tighten(&mut self, tolerance: f64, most_iterations: usize, residual: f64) {
        self.tolerance = tolerance;
        self.max_iterations = self.limit.min(most_iterations);
        self.change(residual);
    }

    /// Returns whether the observer ended the solve at its last iteration, which may have converged.
    pub(crate) fn was_interrupted(&self) -> bool {
        self.is_interrupted
    }

    /// Returns the tolerance of the relative residual.
    pub fn tolerance(&self) -> f64 {
        self.tolerance
    }

    /// Returns ‖r₀‖ or ‖b‖, by which residuals are divided.
    pub fn reference(&self) -> f64 {
        self.reference
    }

    /// Returns a residual relative to the reference.
    pub(crate) fn relative(&self, residual: f64) -> f64 {
        if self.reference > 0.0 { residual / self.reference } else { residual }
    }

    /// Returns whether the last residual is a number.
    pub fn is_finite(&self) -> bool {
        self.last().is_finite()
    }

    /// Returns whether iterations have reduced the first residual to less than a tenth, if this is the last one.
    pub(crate) fn has_reduced(&self, residual: f64) -> bool {
        self.history.first().is_some_and(|&first| self.relative(residual) < 0.1 * first)
    }

    /// Returns the last relative residual.
    pub(crate) fn last(&self) -> f64 {
        self.history.last().copied().unwrap_or(f64::NAN)
    }

    /// Returns whether relaxation gains nothing any more.
    fn is_stalled(&mut self) -> bool {
        let (at, least) = self.looked;
        if self.patience != Patience::Relaxation || self.iterations() < at + LONG_WINDOW {
            return false;
        }
        self.looked = (self.iterations(), self.least);
        self.least > (1.0 - LEAST_GAIN) * least
    }

    fn judge(&mut self) -> ControlFlow<()> {
        let (last, is_stalled) = (self.last(), self.is_stalled());
        let best_before = |n: usize| self.history[..n].iter().copied().fold(f64::INFINITY, f64::min);
        let count = self.history.len();
        self.stop = if last <= self.tolerance || (last == 0.0) {
            Some(Stop::Converged)
        } else if last.is_nan() {
            // NaN after growth is overflow; a sudden NaN is a broken recurrence.
            let before = self.history.iter().rev().find(|r| r.is_finite()).copied().unwrap_or(0.0);
            Some(if before > 1e3 { Stop::Diverged } else { Stop::Breakdown })
        } else if last.is_infinite() || last > DIVERGED * self.history[0].max(1.0) {
            Some(Stop::Diverged)
        } else if self.iterations() >= self.max_iterations {
            Some(Stop::MaxIterations)
        } else if is_stalled
            || self
                .window()
                .is_some_and(|window| count > window + 1 && last > STALL_FACTOR * best_before(count - window))
        {
            // Growth over that time is divergence, not a weak method.
            Some(if last > self.history[0] { Stop::Diverged } else { Stop::Stagnated })
        } else {
            None
        };
        if self.stop.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Returns the number of iterations.
    pub fn iterations(&self) -> usize {
        self.history.len().saturating_sub(1)
    }

    /// Returns the verdict, once there is one.
    pub fn stop(&self) -> Option<Stop> {
        self.stop
    }

    /// Returns the residuals relative to the reference after 0, 1, 2, … iterations.
    pub fn into_history(self) -> Vec<f64> {
        self.history
    }
}

#[cfg(test)]
mod tests;
