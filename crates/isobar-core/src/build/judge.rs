//! The judgement of the returned u: norms in double precision.

use std::time::Instant;

use super::arrays::upload;
use super::range::Scaling;
use super::system::{NORM, System};
use crate::Source;
use crate::error::Result;
use crate::operator::Guess;
use crate::options::{Method, Norm};
use crate::outcome::{Outcome, Stop};
use crate::precond::NullSpace;
use crate::solver::monitor::Progress;
use crate::solver::{Monitor, Observer};
use crate::stencil::{Stencil, Supports};

impl<B: Supports<S>, S: Stencil> System<B, S> {
    /// Computes ‖x‖, or ‖D^−½ x‖ where that is the norm.
    pub(super) fn norm_of_rhs(&mut self) -> Result<f64> {
        let Self { backend, b, scaled, scalars, .. } = self;
        match scaled {
            None => backend.dot(b, b, NORM.of(scalars))?,
            Some((diagonal, scaled)) => {
                diagonal.divide_by_diagonal(b, scaled)?;
                backend.dot(b, scaled, NORM.of(scalars))?;
            }
        }
        Ok(backend.read(scalars)?[NORM.index()].sqrt())
    }

    /// Computes ‖b − A u‖ in double precision.
    pub(super) fn true_residual(&mut self) -> Result<f64> {
        let Self { backend, capabilities, b, u, scratch, scaled, scalars, .. } = self;
        match scaled {
            None => capabilities.operator.residual_norm(b, [u, scratch], NORM.of(scalars))?,
            Some((diagonal, scaled)) => {
                capabilities.operator.residual(b, [u, scratch], NORM.of(scalars))?;
                diagonal.divide_by_diagonal(scratch, scaled)?;
                backend.dot(scratch, scaled, NORM.of(scalars))?;
            }
        }
        Ok(backend.read(scalars)?[NORM.index()].sqrt())
    }

    /// Returns whether a component of the grid is floating.
    pub(super) fn is_floating(&self) -> bool {
        self.null_space.as_ref().is_some_and(NullSpace::is_floating)
    }

    /// Computes the residual of the u that will be returned: with mean 0 if it must have that, and with the mean over the
    /// copies of a periodic direction in all of them.
    pub(super) fn judge(&mut self) -> Result<f64> {
        if let Some(space) = &mut self.null_space {
            space.project_out(&mut self.u)?;
        }
        let Self { backend, callers, layout, u, .. } = self;
        callers.average(backend, layout, u)?;
        self.true_residual()
    }

    /// Rounds u to single precision, for a caller's array. Returns the residual of the rounded u, in the units of the solve.
    pub(super) fn round(&mut self, scaling: Scaling) -> Result<f64> {
        let mut single = match self.single.take() {
            Some(single) => single,
            None => self.backend.zeros(&self.layout)?,
        };
        self.backend.convert(&self.u, &mut single)?;
        self.backend.convert(&single, &mut self.u)?;
        self.single = Some(single);
        self.scale(scaling)?;
        let residual = self.true_residual()?;
        self.scale(scaling.back())?;
        Ok(residual)
    }

    /// Implements [`System::judge`] after a run of the iteration, which may have computed the residual.
    pub(super) fn judge_run(&mut self) -> Result<f64> {
        match self.iteration.residual_left() {
            Some(residual) if self.null_space.is_none() && self.turns().count() == 1 => Ok(residual),
            _ => self.judge(),
        }
    }

    /// Estimates ‖u − A⁻¹b‖ / ‖u‖ of the u that will be returned, whose residual this is. The iteration's own may be smaller by rounding, and
    /// its error with it.
    pub(super) fn relative_error(&mut self, monitor: &Monitor<'_>, residual: f64) -> Result<Option<f64>> {
        let weak_iterations = (!monitor.is_strong()).then(|| monitor.iterations());
        let (Some(error), Some(floor)) = (monitor.error(), self.stencil.error_floor(weak_iterations)) else {
            return Ok(None);
        };
        let drift = (monitor.relative(residual) / monitor.last()).max(1.0);
        Ok(Some(drift * error / self.norm_of_solution()? + floor).filter(|error| error.is_finite()))
    }

    /// Continues a solve whose residual is within the tolerance though u is estimated to be far off: rows of large shifts that fix values, or
    /// wells, may have nearly all of ‖b‖. A method that was asked for only gets a note.
    pub(super) fn come_closer(
        &mut self,
        rhs: Source<'_>,
        mut first: Outcome,
        observer: &mut Observer<'_>,
        rounds: bool,
    ) -> Result<Outcome> {
        /// Errors above the first, relative to ‖u‖, and above so many tolerances are not what anyone wants; the second is aimed at.
        const GROSS: [f64; 3] = [0.1, 0.01, 1e3];
        /// Iterations that are allowed besides twice those before.
        const ENOUGH: usize = 20;
        let (asked, [gross, aim, times]) = (self.options.clone(), GROSS);
        let is_gross = |error: &f64| *error > gross.max(times * asked.tolerance);
        let Some(error) = first.error_estimate.filter(is_gross).filter(|_| first.stop == Stop::Converged) else {
            return Ok(first);
        };
        let why = format!(
            "the error of u was estimated as {error:.1e} of its norm when the residual was within the tolerance: a few rows have nearly \
             all of the norm of b"
        );
        if !self.decision.requested.as_ref().is_some_and(|options| options.method == Method::Auto) {
            first.notes.push(format!(
                "{why}; reduce the tolerance, or set solver.norm = \"scaled\" with solver.method = \"cg\""
            ));
            return Ok(first);
        }
        let (before, clock) = (first.iterations, Instant::now());
        self.options.tolerance = (asked.tolerance * aim / error).max(f64::EPSILON);
        self.options.norm = Norm::Rhs;
        // An estimate with a weak preconditioner may be too large.
        let most = asked.max_iterations.saturating_sub(first.iterations);
        self.options.max_iterations = most.min(2 * first.iterations + ENOUGH);
        upload(&self.backend, &self.callers, rhs, &mut self.b)?;
        let found = self.norms(Guess::Given).and_then(|norms| {
            let mut later = |seen: &Progress| observer(&Progress { iteration: before + seen.iteration, ..*seen });
            self.run(norms, Guess::Given, &mut later, clock, rounds)
        });
        let tolerance = asked.tolerance;
        self.options = asked;
        let mut outcome = first.followed_by(found?);
        if outcome.relative_residual <= tolerance && outcome.stop != Stop::Interrupted {
            (outcome.stop, outcome.advice) = (Stop::Converged, None);
        }
        let left = outcome.error_estimate.map_or_else(|| "unknown".into(), |error| format!("{error:.1e}"));
        outcome
            .notes
            .push(format!("{why}; continued for {} iterations, and it is {left} now", outcome.iterations - before));
        Ok(outcome)
    }

    /// Computes ‖u‖.
    pub(super) fn norm_of_solution(&mut self) -> Result<f64> {
        let Self { backend, u, scalars, .. } = self;
        backend.dot(u, u, NORM.of(scalars))?;
        Ok(backend.read(scalars)?[NORM.index()].sqrt())
    }
}

/// Judges a solution that was rounded to single precision, from its residual and the one before. Returns advice if rounding has made a
/// sufficiently accurate solution worse than the tolerance.
pub(super) fn rounded(monitor: &mut Monitor<'_>, tolerance: f64, double: f64, residual: f64) -> Option<String> {
    if !residual.is_finite() {
        monitor.rule(Stop::Breakdown);
        return Some(
            "the solution leaves the range of single precision: use an array of double precision, or other units"
                .into(),
        );
    }
    if monitor.stop() != Some(Stop::Converged) || residual <= tolerance * monitor.reference() {
        return None;
    }
    monitor.rule(Stop::Stagnated);
    let relative = |residual: f64| if monitor.reference() > 0.0 { residual / monitor.reference() } else { residual };
    Some(format!(
        "the array for the solution is of single precision, whose rounding leaves a relative residual of {:.1e} where double \
         precision has {:.1e}: use one of double precision, loosen the tolerance, or set solver.judge = \"internal\"",
        relative(residual),
        relative(double)
    ))
}
