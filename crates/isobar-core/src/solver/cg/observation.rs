//! This module observes the scalars of an iteration: whether to continue, and what must be done before.

use std::ops::ControlFlow;

use super::recurrence::{RHO, SIGMA};
use crate::Scalar;
use crate::solver::monitor::{Broken, Monitor};

/// The reason why the iterations were interrupted.
pub(super) enum Pause {
    /// The previous iterate is worth keeping.
    Keep,
    /// The residual must be computed again.
    Renew(Due),
}

/// The state of the observation of iterations.
pub(super) struct Observation {
    /// Whether M varies or is not symmetric, so that α and β do not determine the spectrum.
    pub(super) tells_spectrum: bool,
    pub(super) keeps_best: bool,
    /// The squares of the norms of even and odd iterations.
    pub(super) norms: [Scalar; 2],
    pub(super) renewal: Option<Renewal>,
    /// Iterations so far.
    pub(super) taken: usize,
    /// Whether the last α is a number.
    pub(super) is_sound: bool,
    pub(super) due: Option<Due>,
    pub(super) pause: Option<Pause>,
}

impl Observation {
    /// Returns the parity of the last iteration.
    pub(super) fn last(&self) -> usize {
        (self.taken - 1) % 2
    }

    /// Judges an iteration by its scalars. Interrupts if a residual must be computed again or an iterate kept, see `pause`.
    pub(super) fn observe(&mut self, bank: &[f64], monitor: &mut Monitor<'_>) -> ControlFlow<()> {
        let now = self.taken % 2;
        self.taken += 1;
        let norm = bank[self.norms[1 - now].index()];
        let flow = monitor.observe(norm);
        // pᵀAp ≤ 0 or rᵀM⁻¹r ≤ 0 away from the solution: not positive definite, perhaps by rounding.
        let [rho, rho_next] = [RHO[now], RHO[1 - now]].map(|scalar| bank[scalar.index()]);
        let sigma = bank[SIGMA[now].index()];
        let is_definite = sigma > 0.0 && rho_next > 0.0;
        if self.tells_spectrum && is_definite {
            monitor.note_coefficients(rho / sigma, rho_next / rho);
        }
        self.is_sound = norm.is_finite();
        if flow.is_continue() && !is_definite && self.is_sound {
            self.is_sound = sigma > 0.0;
            return monitor.break_down(if self.is_sound {
                Broken::Preconditioner { rho: rho_next }
            } else {
                Broken::Direction { sigma, rho }
            });
        }
        if self.keeps_best && monitor.is_leaving_the_best() {
            self.pause = Some(Pause::Keep);
        } else {
            self.due = self.renewal.as_mut().and_then(|renewal| renewal.note(monitor.last()));
            self.pause = self.due.filter(|_| flow.is_continue()).map(Pause::Renew);
        }
        if self.pause.is_some() || monitor.is_slow() { ControlFlow::Break(()) } else { flow }
    }
}

/// Decides when a rounded residual is computed again: whenever its norm has fallen far since the last time. Rounding of r grows
/// with the largest r since then, so that it stays a ten-thousandth of r.
pub(super) struct Renewal {
    /// The largest norm since the last time.
    largest: f64,
}

/// The vectors that a residual replacement recomputes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Recomputes the residual only; z, computed from the rounded r, is still accurate enough.
    Residual,
    /// Recomputes the residual and z, because r has fallen so far within one iteration that z is mostly rounding.
    Both,
}

impl Renewal {
    /// The fraction of the norm at which r is computed again.
    const FALL: f64 = 1e-3;
    /// The fraction at which z is, too.
    const DEEP_FALL: f64 = 1e-4;

    /// Begins with the norm of the first r, which is rounded too.
    pub(super) fn new(norm: f64) -> Self {
        Self { largest: norm }
    }

    /// Notes a norm, and returns the replacement that is due, if any.
    pub(super) fn note(&mut self, norm: f64) -> Option<Due> {
        self.largest = self.largest.max(norm);
        let fraction = norm / self.largest;
        if fraction < Self::FALL {
            self.largest = norm;
        }
        match fraction {
            _ if fraction < Self::DEEP_FALL => Some(Due::Both),
            _ if fraction < Self::FALL => Some(Due::Residual),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn residuals_are_computed_again_when_they_have_fallen_far() {
        let mut renewal = Renewal::new(1.0);
        let norms = [2e-4, 1e-2, 30.0, 0.04, 0.02, 0.01, 3e-5, 1e-5, 9e-9, 1e-8, 1e-14];
        let due: Vec<_> = norms.into_iter().filter_map(|norm| renewal.note(norm).map(|due| (norm, due))).collect();
        let [residual, both] = [Due::Residual, Due::Both];
        assert_eq!(due, [(2e-4, residual), (0.02, residual), (1e-5, residual), (9e-9, residual), (1e-14, both)]);
    }
}
