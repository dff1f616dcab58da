//! When to stop, and what to call it.

use std::ops::ControlFlow;

use super::spectrum::Lanczos;
use crate::outcome::{Spectrum, Stop};

/// What an observer sees after every iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Iterations taken.
    pub iteration: usize,
    /// ‖r‖ over the reference, as the iteration sees it.
    pub relative_residual: f64,
    /// The tolerance to reach.
    pub tolerance: f64,
}

/// Sees every iteration, and ends the solve where it breaks: the outcome is then [`Stop::Interrupted`].
pub type Observer<'o> = dyn FnMut(&Progress) -> ControlFlow<()> + Send + 'o;

/// An [`Observer`] that looks at nothing.
pub fn ignore(_: &Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// How patient to be with a residual that does not fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Krylov residuals may plateau and oscillate; only the final judgement tells a stall.
    Krylov,
    /// A stationary method that gains nothing in ten iterations never will.
    Stationary,
}

/// Keeps the history of a solve and ends it.
pub struct Monitor<'o> {
    reference: f64,
    tolerance: f64,
    max_iterations: usize,
    patience: Patience,
    history: Vec<f64>,
    lanczos: Lanczos,
    /// Restarts begin another Lanczos process; only the first counts.
    restarted: bool,
    stop: Option<Stop>,
    observer: &'o mut Observer<'o>,
}

/// A stationary method must gain at least this factor…
const STALL_FACTOR: f64 = 0.9;
/// …within so many iterations.
const STALL_WINDOW: usize = 10;
/// A relative residual that has grown to this is not coming back.
const DIVERGED: f64 = 1e10;

impl<'o> Monitor<'o> {
    /// A monitor that stops at ‖r‖ ≤ `tolerance` · `reference`. Room for the history is made now.
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
            Patience::Stationary => Lanczos::default(),
        };
        let history = Vec::with_capacity(room);
        Self {
            reference,
            tolerance,
            max_iterations,
            patience,
            history,
            lanczos,
            restarted: false,
            stop: None,
            observer,
        }
    }

    /// Notes the residual of the first guess.
    pub fn begin(&mut self, residual: f64) -> ControlFlow<()> {
        self.history.push(self.relative(residual));
        self.judge()
    }

    /// Notes the squared residual norm after one more iteration.
    pub fn observe(&mut self, norm_squared: f64) -> ControlFlow<()> {
        self.history.push(self.relative(norm_squared.sqrt()));
        let relative_residual = self.last();
        let (iteration, tolerance) = (self.iterations(), self.tolerance);
        let is_interrupted = relative_residual.is_finite()
            && (self.observer)(&Progress { iteration, relative_residual, tolerance }).is_break();
        let flow = self.judge();
        if is_interrupted && flow.is_continue() {
            self.stop = Some(Stop::Interrupted);
            return ControlFlow::Break(());
        }
        flow
    }

    /// Notes the coefficients α and β of an iteration of conjugate gradients.
    pub fn note_coefficients(&mut self, alpha: f64, beta: f64) {
        if !self.restarted {
            self.lanczos.push(alpha, beta);
        }
    }

    /// What the coefficients tell of the eigenvalues of M⁻¹A.
    pub fn spectrum(&self) -> Option<Spectrum> {
        self.lanczos.spectrum()
    }

    /// Ends the solve: the recurrence cannot go on.
    pub fn break_down(&mut self) -> ControlFlow<()> {
        self.stop = Some(Stop::Breakdown);
        ControlFlow::Break(())
    }

    /// Overrides the verdict, after a judgement by the true residual.
    pub fn rule(&mut self, stop: Stop) {
        self.stop = Some(stop);
    }

    /// Takes back a convergence that the true residual did not confirm; the iteration may go on.
    /// `residual` replaces the last entry of the history.
    pub fn resume(&mut self, residual: f64) {
        let relative = self.relative(residual);
        self.restarted = true;
        if let Some(last) = self.history.last_mut() {
            *last = relative;
        }
        self.stop = (self.iterations() >= self.max_iterations).then_some(Stop::MaxIterations);
    }

    /// ‖r₀‖ or ‖b‖, by which residuals are divided.
    pub fn reference(&self) -> f64 {
        self.reference
    }

    fn relative(&self, residual: f64) -> f64 {
        if self.reference > 0.0 { residual / self.reference } else { residual }
    }

    fn last(&self) -> f64 {
        self.history.last().copied().unwrap_or(f64::NAN)
    }

    fn judge(&mut self) -> ControlFlow<()> {
        let last = self.last();
        let best_before = |n: usize| self.history[..n].iter().copied().fold(f64::INFINITY, f64::min);
        let count = self.history.len();
        self.stop = if last <= self.tolerance || (last == 0.0) {
            Some(Stop::Converged)
        } else if last.is_nan() {
            // NaN after growth is overflow; NaN out of the blue is a broken recurrence.
            let before = self.history.iter().rev().find(|r| r.is_finite()).copied().unwrap_or(0.0);
            Some(if before > 1e3 { Stop::Diverged } else { Stop::Breakdown })
        } else if last > DIVERGED {
            Some(Stop::Diverged)
        } else if self.iterations() >= self.max_iterations {
            Some(Stop::MaxIterations)
        } else if self.patience == Patience::Stationary
            && count > STALL_WINDOW + 1
            && last > STALL_FACTOR * best_before(count - STALL_WINDOW)
        {
            // What has grown in all that time was not too weak but harmful.
            Some(if last > self.history[0] { Stop::Diverged } else { Stop::Stagnated })
        } else {
            None
        };
        if self.stop.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Iterations noted.
    pub fn iterations(&self) -> usize {
        self.history.len().saturating_sub(1)
    }

    /// The verdict, once there is one.
    pub fn stop(&self) -> Option<Stop> {
        self.stop
    }

    /// Residuals relative to the reference after 0, 1, 2, … iterations.
    pub fn into_history(self) -> Vec<f64> {
        self.history
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(patience: Patience, residuals: impl IntoIterator<Item = f64>) -> (Stop, usize) {
        let mut ignore = ignore;
        let mut monitor = Monitor::new(1.0, 1e-5, 30, patience, &mut ignore);
        let _ = monitor.begin(1.0);
        for r in residuals {
            if monitor.observe(r * r).is_break() {
                break;
            }
        }
        (monitor.stop().unwrap(), monitor.iterations())
    }

    #[test]
    fn names_what_happened() {
        use Patience::{Krylov, Stationary};
        assert_eq!(run(Krylov, [0.1, 1e-5]), (Stop::Converged, 2));
        assert_eq!(run(Krylov, std::iter::repeat(0.5)), (Stop::MaxIterations, 30));
        assert_eq!(run(Stationary, std::iter::repeat(0.5)), (Stop::Stagnated, 11));
        assert_eq!(run(Stationary, (1..30).map(|n| 2f64.powi(n))), (Stop::Diverged, 11));
        assert_eq!(run(Krylov, [0.1, f64::NAN]), (Stop::Breakdown, 2));
        assert_eq!(run(Stationary, [1e4, 1e8, f64::NAN]), (Stop::Diverged, 3));
        assert_eq!(run(Stationary, [f64::INFINITY]), (Stop::Diverged, 1));
    }

    #[test]
    fn an_observer_can_stop_a_solve() {
        let mut stop_at_two = |seen: &Progress| {
            if seen.iteration == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let mut monitor = Monitor::new(1.0, 1e-5, 30, Patience::Krylov, &mut stop_at_two);
        let _ = monitor.begin(1.0);
        assert!(monitor.observe(0.5).is_continue() && monitor.observe(0.4).is_break());
        assert_eq!((monitor.stop(), monitor.iterations()), (Some(Stop::Interrupted), 2));
    }

    #[test]
    fn an_unconfirmed_convergence_goes_on() {
        let mut ignore = ignore;
        let mut monitor = Monitor::new(2.0, 1e-5, 30, Patience::Krylov, &mut ignore);
        assert!(monitor.begin(2.0).is_continue());
        assert!(monitor.observe(1e-12).is_break());
        monitor.resume(0.2);
        assert_eq!((monitor.stop(), monitor.iterations()), (None, 1));
        assert_eq!(monitor.into_history(), [1.0, 0.1]);
    }
}
