//! A solve of the b and u on the device: norms, the iteration, the verdict.

use std::time::Instant;

use super::advice::advice;
use super::arrays::fetch;
use super::iterate::Told;
use super::judge::{gross_error, rounded};
use super::range::Scaling;
use super::system::System;
use crate::ArrayViewMut;
use crate::error::{Error, Result};
use crate::operator::Guess;
use crate::options::{Compatibility, Norm, SolverOptions};
use crate::outcome::{Outcome, Stop, Timing};
use crate::solver::monitor::Patience;
use crate::solver::{Monitor, Observer};
use crate::stencil::{Stencil, Supports};

/// Returns a note of the part that was removed from a right-hand side, if it is more than rounding.
pub(super) fn note_of(removed: Option<f64>) -> Option<String> {
    let removed = removed.filter(|&removed| removed > 1e-13)?;
    Some(format!(
        "the part of the right-hand side that the singular matrix cannot produce, {removed:.1e} of its norm, was removed"
    ))
}

/// The initial norms of a solve.
#[derive(Clone, Copy, Debug)]
pub(super) struct Norms {
    /// The part of b that was removed, relative to b.
    removed: Option<f64>,
    /// ‖b‖
    pub(super) rhs: f64,
    /// ‖r₀‖
    pub(super) initial: f64,
    /// The factor of b and u, and of these norms.
    scaling: Scaling,
}

impl Norms {
    fn check(&self) -> Result<()> {
        let all = [("the right-hand side", self.rhs), ("the first guess", self.initial)];
        let Some((what, _)) = all.into_iter().find(|(_, norm)| !norm.is_finite()) else { return Ok(()) };
        Err(Error::invalid(what, "it holds a NaN or an infinity, or its norm overflows; scale it down"))
    }
}

/// Bounds of the norm that residuals of a time step are relative to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds {
    /// Whether the norm is at most ‖b‖, for first guesses unrelated to the solution.
    pub(crate) is_capped: bool,
    /// A norm of which 10⁻¹³ always counts as converged, instead of ‖b‖: a state that hardly changes leaves nothing to reduce. Where ‖b‖ is larger,
    /// 10⁻¹³ ‖b‖ does too, but not without a reduction.
    pub(crate) content: Option<f64>,
    /// The residual that the last solve could not reduce, which counts as converged for this matrix from then on, up to a factor of 2.
    pub(crate) stuck: Option<f64>,
}

impl Bounds {
    /// Returns the norm that residuals are relative to, and the residual that always counts as converged.
    fn of(self, guess: Guess, initial: f64, rhs: f64, scaling: Scaling) -> [f64; 2] {
        /// The residual over ‖b‖ below which a first guess counts as the solution.
        const SOLVED: f64 = 1e-13;
        /// The reduction of a residual below that.
        const REDUCED: f64 = 0.01;
        let given = if self.is_capped { initial.min(rhs) } else { initial };
        let content = self.content.map_or(rhs, |content| content * scaling.factor());
        let stuck = self.stuck.map_or(0.0, |stuck| 2.0 * stuck * scaling.factor());
        let solved = (SOLVED * content).max(REDUCED * given).max(stuck).min(SOLVED * content.max(rhs));
        [given, if guess == Guess::Given { solved } else { 0.0 }]
    }
}

impl<B: Supports<S>, S: Stencil> System<B, S> {
    /// Fails if b is not 0 in an active cell whose row of A is 0.
    fn check_isolated(&self) -> Result<()> {
        let isolated = self.stencil.isolated();
        if isolated.is_empty() || self.options.compatibility == Compatibility::Project {
            return Ok(());
        }
        let (shape, grid) = (self.callers.shape(&self.layout), self.turns().once(self.stencil.shape()));
        let mut b = vec![0.0; shape.cells()];
        fetch(&self.backend, &self.callers, &self.b, &mut ArrayViewMut::c_order(&mut b, shape)?)?;
        // Every rank searches the whole grid, so that all report the same cell.
        let b = self.backend.collect(b, grid)?;
        let Some(&at) = isolated.iter().find(|&&at| b[grid.number(at)] != 0.0) else { return Ok(()) };
        let value = b[grid.number(at)];
        Err(Error::invalid(
            "the right-hand side",
            format!(
                "it has no solution: the active cell (i, j, k) = {:?} has no conductance and no shift, so it must be 0 there, but it is {value}. \
                 Give the cell a shift, leave it out of the mask, or set solver.compatibility = \"project\"",
                (at[0], at[1], at[2])
            ),
        ))
    }

    /// Computes the norms of b and of the first residual, after b has been made compatible with a singular A.
    pub(super) fn norms(&mut self, guess: Guess) -> Result<Norms> {
        // The rounding of a large constant, such as that of absolute pressures, would hide the residual.
        if let (Guess::Given, Some(space)) = (guess, &mut self.null_space) {
            space.project_out(&mut self.u)?;
        }
        self.check_isolated()?;
        if let Some(space) = &self.null_space {
            space.clear_inactive(&mut self.b)?;
        }
        let may_begin = guess == Guess::Zero && self.null_space.is_none() && self.scaled.is_none();
        let found = if may_begin && self.iteration.finds_norm_of_rhs() {
            self.iteration.begin(&self.b, &mut self.u, guess)?
        } else {
            None
        };
        let (mut rhs, scaling) = self.bring_into_range(guess, found)?;
        if found.is_some() && scaling.is_none() {
            return Ok(Norms { removed: None, rhs, initial: rhs, scaling });
        }
        let mut removed = None;
        if let Some(space) = &mut self.null_space {
            let SolverOptions { tolerance, compatibility, .. } = self.options;
            let copies = self.callers.turns.count();
            removed = space
                .make_compatible(&mut self.b, (copies, scaling.factor()), tolerance, compatibility)?
                .map(|removed| removed.relative);
            rhs = self.norm_of_rhs()?;
        }
        let initial = match (self.iteration.begin(&self.b, &mut self.u, guess)?, guess) {
            (Some(norm), _) => norm,
            (None, Guess::Zero) => rhs,
            (None, Guess::Given) => self.true_residual()?,
        };
        Ok(Norms { removed, rhs, initial, scaling })
    }

    /// Begins from 0 where that is nearer than a first guess, and returns a note: where coefficients have moved, a former solution may leave
    /// residuals of the contrast. A method that was asked for begins from any first guess.
    fn leave_bad_guess(&mut self, norms: &Norms) -> Result<Option<String>> {
        let Norms { rhs, initial, .. } = *norms;
        if !self.decision.chooses() || rhs == 0.0 || initial <= rhs {
            return Ok(None);
        }
        self.backend.clear(&mut self.u)?;
        self.iteration.begin(&self.b, &mut self.u, Guess::Zero)?;
        Ok(Some(format!(
            "began from 0, because the first guess is worse: its residual is {:.1e} times the norm of the right-hand side",
            initial / rhs
        )))
    }

    /// Solves the system. `rounds` states that u goes to an array in single precision, and is judged after rounding.
    pub(super) fn run(
        &mut self,
        mut norms: Norms,
        mut guess: Guess,
        observer: &mut Observer<'_>,
        clock: Instant,
        rounds: bool,
    ) -> Result<Outcome> {
        norms.check()?;
        let mut told = Told::default();
        told.notes.extend(note_of(norms.removed));
        if guess == Guess::Given
            && let Some(note) = self.leave_bad_guess(&norms)?
        {
            told.notes.push(note);
            (guess, norms.initial) = (Guess::Zero, norms.rhs);
        }
        let Norms { removed, rhs, initial, scaling } = norms;
        let SolverOptions { tolerance, max_iterations, method, norm, .. } = self.options;
        let [given, solved] = match norm {
            Norm::Initial => self.bounds.of(guess, initial, rhs, scaling),
            Norm::Rhs | Norm::Scaled => [rhs, 0.0],
        };
        let mut reference = given.max(solved / tolerance);
        let mut monitor = Monitor::new(reference, tolerance, max_iterations, Patience::of(method), observer);
        if self.decision.is_dominated {
            monitor.assume_strong();
        }
        let backend = self.backend.clone();
        // The solution for b = 0 is 0, for any first guess; also where projection removed all of b.
        let is_trivial = rhs == 0.0 && (given == 0.0 || removed.is_some_and(|removed| removed > 0.0));
        let mut residual = if is_trivial {
            let _ = monitor.begin(0.0);
            backend.clear(&mut self.u)?;
            0.0
        } else if monitor.begin(initial).is_break() && !self.examines_guess(&mut monitor, guess, initial, &mut told)? {
            // A first guess that is good enough is kept.
            if guess == Guess::Zero {
                backend.clear(&mut self.u)?;
            }
            initial
        } else {
            backend.enter(|| self.iterate(guess, &mut monitor, initial, &mut told))?
        };
        if (told.closer.rounds > 0 || told.examines_guess)
            && residual <= tolerance * reference
            && monitor.stop() != Some(Stop::Interrupted)
        {
            monitor.rule(Stop::Converged);
        }
        // A first guess at the rounding of a solution leaves nothing to reduce, if that is more than `SOLVED`.
        let is_relative_to_guess = self.options.norm == Norm::Initial && guess == Guess::Given;
        if is_relative_to_guess && told.evidence.is_at_floor && residual <= tolerance * rhs {
            monitor.rule(Stop::Converged);
            told.notes.push(format!(
                "rounding leaves {:.1e} of the residual of the first guess, and {:.1e} of the right-hand side, which is within the tolerance",
                residual / initial,
                residual / rhs
            ));
            reference = rhs;
            self.bounds.stuck = Some(residual * scaling.back().factor());
        } else if reference > given && residual > tolerance * given && monitor.stop() == Some(Stop::Converged) {
            let left = residual / rhs;
            told.notes.push(format!("the residual, {left:.1e} of the right-hand side, counts as rounding"));
            reference = rhs;
        } else {
            reference = reference.min(given);
            if monitor.iterations() > 0 {
                self.bounds.stuck = None;
            }
        }
        let mut error_estimate = match told.estimated {
            Some(estimated) => estimated,
            None => self.relative_error(&monitor, residual)?,
        };
        if told.closer.rounds > 0 {
            let left = error_estimate.map_or_else(|| "unknown".into(), |error| format!("{error:.1e}"));
            let (from, to) = (told.closer.before, monitor.iterations());
            told.notes.push(format!(
                "{}; continued from iteration {from} to {to}, and it is {left} now",
                gross_error(told.closer.error)
            ));
        }
        let fits = self.bring_back(scaling)?;
        if !fits {
            monitor.rule(Stop::Breakdown);
        }
        let mut is_returned = residual.is_finite() && fits;
        let mut remedy = None;
        if rounds && is_returned {
            let double = std::mem::replace(&mut residual, self.round(scaling)?);
            remedy = rounded(&mut monitor, tolerance, double, residual);
            error_estimate = error_estimate.map(|error| error + f64::from(f32::EPSILON) / 2.0);
            is_returned = residual.is_finite();
        }
        if !fits {
            remedy = Some("the solution leaves the range of double precision: use other units".into());
        }
        if !is_returned {
            // NaN must not outlive the solve, and the first guess remains.
            residual = initial;
            backend.clear(&mut self.u)?;
        }
        let stop = monitor.stop().unwrap_or(Stop::MaxIterations);
        self.left = (stop == Stop::Converged).then_some(residual);
        let relative_residual = if reference > 0.0 { residual / reference } else { residual };
        let has_levels = !self.description.levels.is_empty() || self.decision.has_levels;
        let matrix = [has_levels, self.stencil.is_symmetric()];
        let has_energy_error = monitor.is_strong() || self.stencil.error_floor(Some(monitor.iterations())).is_some();
        Ok(Outcome {
            spectrum: monitor.spectrum(),
            removed,
            error_estimate: error_estimate.filter(|_| is_returned),
            energy_error: monitor
                .energy_error()
                .filter(|_| has_energy_error)
                .map(|error| error / scaling.factor().powi(2)),
            stop,
            iterations: monitor.iterations(),
            relative_residual,
            history: monitor.into_history(),
            is_returned,
            batch: self.iteration.batch(),
            advice: remedy.or_else(|| advice(stop, relative_residual, &told.evidence, &self.options, matrix)),
            notes: told.notes,
            timing: Timing { solve: clock.elapsed().as_secs_f64(), ..Timing::default() },
        })
    }
}
