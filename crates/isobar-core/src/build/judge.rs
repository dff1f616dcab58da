//! The judgement of the returned u: norms in double precision.

use super::iterate::Told;
use super::range::Scaling;
use super::system::{NORM, System};
use crate::error::Result;
use crate::operator::Guess;
use crate::options::{Method, Norm, Preconditioner, SolverOptions};
use crate::outcome::Stop;
use crate::precond::NullSpace;
use crate::real::Precision;
use crate::solver::Monitor;
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
        /// The rounding of single precision over that of double.
        const SINGLE: f64 = f32::EPSILON as f64 / f64::EPSILON;
        /// An error of this size by rounding alone is no estimate.
        const MOST_ROUNDING: f64 = 0.01;
        /// The smallest eigenvalue that was found over that of a constant which was not.
        const UNSEEN: f64 = 100.0;
        let weak_iterations = (!monitor.is_strong()).then(|| monitor.iterations());
        let (Some(error), Some(floor)) = (monitor.error(), self.stencil.error_floor(weak_iterations)) else {
            return Ok(None);
        };
        // Where b has little of a constant that a shift hardly holds, conjugate gradients do not see it, unless the preconditioner treats constants as A does.
        let sees_constants = matches!(
            self.options.preconditioner,
            Preconditioner::Mic { .. }
                | Preconditioner::Direct
                | Preconditioner::Multigrid
                | Preconditioner::Modes
                | Preconditioner::Amg
        );
        let hold = self.decision.hold;
        let is_weak = weak_iterations.is_some() && !sees_constants;
        if is_weak && hold.zip(monitor.spectrum()).is_some_and(|(hold, found)| found.smallest > UNSEEN * hold) {
            return Ok(None);
        }
        // It makes the most of rounding.
        let floor = hold.map_or(floor, |hold| floor.max(f64::EPSILON / hold));
        let floor = floor * if self.options.precision == Precision::F32 { SINGLE } else { 1.0 };
        if floor > MOST_ROUNDING {
            return Ok(None);
        }
        let drift = (monitor.relative(residual) / monitor.last()).max(1.0);
        Ok(Some(drift * error / self.norm_of_solution()? + floor).filter(|error| error.is_finite()))
    }

    /// Returns whether a solve should continue though its residual is within the tolerance, because u is estimated to be far off, and gives the
    /// monitor a smaller tolerance: rows of large shifts that fix values, or wells, may have nearly all of ‖b‖. A method that was asked for only
    /// gets a note.
    pub(super) fn comes_closer(&mut self, monitor: &mut Monitor<'_>, residual: f64, told: &mut Told) -> Result<bool> {
        /// Relative errors above this, and above so many tolerances, are not what anyone wants…
        const GROSS: [f64; 2] = [0.1, 100.0];
        /// …and this is aimed at,
        const AIM: f64 = 0.01;
        /// but no smaller relative residual,
        const LEAST: f64 = 4.0 * f64::EPSILON;
        /// this often,
        const MOST_ROUNDS: usize = 4;
        /// in twice the iterations so far and these: an estimate with a weak preconditioner may be too large.
        const ENOUGH: usize = 20;
        let ([gross, times], asked, iterations) = (GROSS, self.options.tolerance, monitor.iterations());
        let estimated = self.relative_error(monitor, residual)?;
        told.estimated = Some(estimated);
        let Some(error) = estimated.filter(|&error| error > gross.max(times * asked)) else { return Ok(false) };
        let is_open = self.decision.requested.as_ref().is_some_and(|options| options.method == Method::Auto);
        let reached = monitor.relative(residual).min(asked);
        let tolerance = (reached * AIM / error).max(LEAST);
        let is_at_floor = 2.0 * tolerance > reached;
        let why_not = match (is_open, self.options.norm) {
            (true, _) if is_at_floor && told.closer.rounds == 0 => Some("rounding leaves no smaller residual"),
            (true, _) => None,
            (false, Norm::Scaled) => Some("reduce the tolerance"),
            (false, _) => Some("reduce the tolerance, or set solver.norm = \"scaled\" with solver.method = \"cg\""),
        };
        told.notes.extend(why_not.map(|why_not| format!("{}; {why_not}", gross_error(error))));
        if !is_open || is_at_floor || told.closer.rounds == MOST_ROUNDS || monitor.was_interrupted() {
            return Ok(false);
        }
        self.keep(monitor, residual)?;
        told.estimated = None;
        told.closer.begin(iterations, error);
        monitor.tighten(tolerance, 3 * told.closer.before + ENOUGH, residual);
        Ok(true)
    }

    /// Returns whether a solve should iterate though the residual of the first guess is within the tolerance, because without an iteration nothing is known of
    /// the error of the guess, which [`System::comes_closer`] judges then, if there is an estimate; gives the monitor a smaller tolerance.
    pub(super) fn examines_guess(
        &mut self,
        monitor: &mut Monitor<'_>,
        guess: Guess,
        initial: f64,
        told: &mut Told,
    ) -> Result<bool> {
        /// The part of the residual to reach,
        const PART: f64 = 0.5;
        /// in few iterations.
        const MOST: usize = 10;
        /// A smaller residual over ‖b‖ is that of a solution.
        const SOLVED: f64 = 1e-13;
        /// Residuals of one u for one b are computed alike; the b that matters may be very small beside the rest.
        const SAME: f64 = 1e-12;
        let is_known = self.left.is_some_and(|left| (initial - left).abs() <= SAME * left);
        let tolerance = PART * monitor.relative(initial);
        let is_auto = |asked: &SolverOptions| {
            asked.method == Method::Auto
                && asked.preconditioner == Preconditioner::Auto
                && asked.precision != Precision::F32
        };
        // A guess that could be lost is kept.
        let is_open = self.best.is_some() && self.decision.requested.as_ref().is_some_and(is_auto);
        let is_relative = self.options.norm != Norm::Initial && self.options.max_iterations > 0;
        let is_solved = is_known || monitor.relative(initial) < SOLVED;
        if guess == Guess::Zero || !is_open || !is_relative || is_solved || monitor.was_interrupted() {
            return Ok(false);
        }
        self.keep(monitor, initial)?;
        told.examines_guess = true;
        monitor.tighten(tolerance, MOST, initial);
        Ok(true)
    }

    /// Computes ‖u‖.
    pub(super) fn norm_of_solution(&mut self) -> Result<f64> {
        let Self { backend, u, scalars, .. } = self;
        backend.dot(u, u, NORM.of(scalars))?;
        Ok(backend.read(scalars)?[NORM.index()].sqrt())
    }
}

/// States that an estimated error is gross, and why.
pub(super) fn gross_error(error: f64) -> String {
    format!(
        "the error of u was estimated as {error:.1e} of its norm when the residual was within the tolerance: a few rows have nearly all of the norm \
         of b"
    )
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
