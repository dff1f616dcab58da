//! The loop around an iteration: restarts from the true residual, other preconditioners, the best iterate.

use super::system::System;
use crate::error::Result;
use crate::operator::Guess;
use crate::outcome::Stop;
use crate::policy::ladder::{Next, State, next};
use crate::policy::watch;
use crate::solver::{Broken, Monitor, Run};
use crate::stencil::{Stencil, Supports};
use crate::traffic::StepTraffic;

/// Messages to the user besides the numbers.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Events of the solve.
    pub(super) notes: Vec<String>,
    /// The known reason why the solve ended.
    pub(super) evidence: Evidence,
    /// See [`System::comes_closer`].
    pub(super) closer: Closer,
    /// See [`System::examines_guess`].
    pub(super) examines_guess: bool,
    /// The estimated error of the final u, where it has been asked for.
    pub(super) estimated: Option<Option<f64>>,
}

/// The continuation of a solve whose error is gross.
#[derive(Debug, Default)]
pub(super) struct Closer {
    /// How often it was continued.
    pub(super) rounds: usize,
    /// The iterations before.
    pub(super) before: usize,
    /// The estimated error by then.
    pub(super) error: f64,
}

impl Closer {
    /// Notes that the solve continues.
    pub(super) fn begin(&mut self, iterations: usize, error: f64) {
        if self.rounds == 0 {
            (self.before, self.error) = (iterations, error);
        }
        self.rounds += 1;
    }
}

/// The known reasons why a solve did not converge.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Evidence {
    /// The iteration converges, but to a limit with too large a residual: rounding.
    pub(super) is_at_floor: bool,
    /// A residual was not finite.
    pub(super) is_out_of_range: bool,
    /// The breakdown of the recurrence with the last preconditioner, which has no replacement.
    pub(super) broken: Option<Broken>,
}

/// The most restarts from the true residual; a solve that needs more, although its own residual has converged, counts as
/// stalled.
const MAX_RESTARTS: usize = 10;
/// The largest fraction of the residual that a useful restart leaves.
const GAIN: f64 = 0.5;

impl<B: Supports<S>, S: Stencil> System<B, S> {
    /// Iterates until the true residual confirms convergence, or the iteration gives up without another preconditioner to
    /// continue with, or restarting from the true residual gains nothing. Returns the residual of the final u, which is the
    /// best that was seen.
    pub(super) fn iterate(
        &mut self,
        mut guess: Guess,
        monitor: &mut Monitor<'_>,
        initial: f64,
        told: &mut Told,
    ) -> Result<f64> {
        let mut ranks = Ranks::new(self);
        self.iteration.choose(0);
        // An examination is too short to tell that something is slow.
        if !told.examines_guess {
            self.watch(monitor);
        }
        // A first guess of zero needs no copy.
        let zero = (guess == Guess::Zero).then_some(initial);
        if zero.is_some() {
            monitor.note_kept_with(initial);
        }
        let (mut residual, mut restarts, mut is_first) = (initial, 0, true);
        loop {
            let before = residual;
            // An iterate kept before a restart has been judged, and is not replaced by the iteration's own residual.
            let best = self.best.as_mut().filter(|_| is_first);
            self.iteration.run(Run { b: &mut self.b, u: &mut self.u, guess, best, monitor })?;
            told.evidence.is_out_of_range |= !monitor.is_finite();
            residual = self.judge_run()?;
            residual = self.return_to_best(residual, zero, monitor, told)?;
            (is_first, guess) = (false, Guess::Given);
            if residual <= monitor.tolerance() * monitor.reference() {
                if self.comes_closer(monitor, residual, told)? {
                    continue;
                }
                monitor.rule(Stop::Converged);
                return Ok(residual);
            }
            let has_gained = residual <= GAIN * before && restarts < MAX_RESTARTS;
            let state = State {
                is_finite: residual.is_finite(),
                is_old: self.decision.replaceable.is_old,
                is_tried: self.decision.after_trial.is_some(),
                is_replaceable: self.decision.replaceable.is_points,
                is_cycles: self.decision.replaceable.is_cycles,
                is_plain: self.decision.replaceable.is_plain,
                is_multigrid: self.decision.replaceable.follows_multigrid(&self.options) && ranks.now == 0,
                is_single: self.options.has_single_multigrid() && ranks.now == 0,
                keeps_best: self.best.is_some(),
            };
            match next(monitor.stop(), state) {
                // The main solver has other methods in reserve.
                Next::Replace(_) | Next::Recover | Next::Hurry if self.queue > 0 => {
                    monitor.rule(Stop::Stagnated);
                    return Ok(residual);
                }
                Next::Replace(replacement) => {
                    if let Some(note) = self.replace_slow(replacement, monitor, residual)? {
                        told.notes.push(note);
                        ranks = Ranks::new(self);
                    }
                    self.watch(monitor);
                }
                Next::ChooseAgain => {
                    self.decision.replaceable.is_old = false;
                    if self.is_chosen_otherwise()? {
                        self.decision.is_outdated = true;
                        return Ok(residual);
                    }
                    monitor.resume(residual);
                    self.watch(monitor);
                }
                // The iteration's own residual drifted from the true one.
                Next::Restart if residual.is_finite() => {
                    monitor.resume(residual);
                    if monitor.stop().is_none() && !has_gained {
                        told.evidence.is_at_floor = true;
                        monitor.rule(Stop::Stagnated);
                    }
                    restarts += 1;
                }
                Next::Restart => monitor.rule(Stop::Breakdown),
                Next::Recover => {
                    // An iteration broken by rounding recovers from the true residual, if it has gained.
                    let is_spoilt = has_gained && monitor.stop() == Some(Stop::Breakdown);
                    let fallen = if is_spoilt { None } else { ranks.fall(self, monitor, residual) };
                    if let Some(note) = fallen {
                        told.notes.push(note);
                    } else if has_gained {
                        monitor.resume(residual);
                        restarts += 1;
                    } else {
                        // A caller's own preconditioner may not be definite, so that a breakdown says nothing about the
                        // matrix.
                        let is_telling = !self.stencil.is_definite() && self.description.preconditioner != "own";
                        told.evidence.broken = monitor.broken().filter(|_| is_telling);
                        return Ok(residual);
                    }
                }
                Next::Hurry => told.notes.push(ranks.hurry(self, monitor, residual)),
                Next::End => return Ok(residual),
            }
            if monitor.stop().is_some() {
                return Ok(residual);
            }
            self.keep(monitor, residual)?;
            self.iteration.begin(&self.b, &mut self.u, guess)?;
        }
    }

    /// Returns to the kept iterate if the true residual is smaller there, or to a first guess of zero, which needs no copy.
    fn return_to_best(
        &mut self,
        residual: f64,
        zero: Option<f64>,
        monitor: &mut Monitor<'_>,
        told: &mut Told,
    ) -> Result<f64> {
        let mut least = residual;
        let is_kept =
            self.best.is_some() && zero.is_none_or(|initial| monitor.kept() < initial) && monitor.kept().is_finite();
        if is_kept && is_worse(residual, monitor.kept()) {
            self.swap_best();
            let other = self.judge()?;
            if residual <= other {
                self.swap_best();
            } else {
                least = other;
            }
        }
        if let Some(initial) = zero.filter(|&initial| is_worse(least, initial)) {
            self.backend.clear(&mut self.u)?;
            least = initial;
        }
        if least != residual && monitor.stop() != Some(Stop::Converged) && !told.examines_guess {
            let of = |residual: f64| residual / monitor.reference();
            told.notes.push(format!(
                "returned from a relative residual of {:.1e} to the best iterate, of {:.1e}",
                of(residual),
                of(least)
            ));
        }
        Ok(least)
    }

    /// Keeps u, of this residual, to return to, where iterates are kept.
    pub(super) fn keep(&mut self, monitor: &mut Monitor<'_>, residual: f64) -> Result<()> {
        if let Some(best) = &mut self.best {
            self.backend.convert(&self.u, best)?;
            monitor.note_kept_with(residual);
        }
        Ok(())
    }

    fn swap_best(&mut self) {
        if let Some(best) = &mut self.best {
            std::mem::swap(best, &mut self.u);
        }
    }
}

/// Returns whether a residual is larger than another, or NaN.
fn is_worse(residual: f64, than: f64) -> bool {
    residual.is_nan() || residual > than
}

pub(super) fn reason(monitor: &Monitor<'_>) -> String {
    match monitor.broken() {
        Some(Broken::Preconditioner { rho }) => format!("broke down, rᵀM⁻¹r = {rho:.1e}"),
        Some(Broken::Direction { sigma, .. }) => format!("broke down, pᵀAp = {sigma:.1e}"),
        _ => "broke down".into(),
    }
}

/// The available preconditioners, by rank, and the results of those that were tried.
struct Ranks {
    first: &'static str,
    now: usize,
    /// The rank, and the natural logarithm of the residual's reduction per byte moved.
    fastest: Option<(usize, f64)>,
    bytes: f64,
}

impl Ranks {
    fn new<B: Supports<S>, S: Stencil>(system: &System<B, S>) -> Self {
        Self { first: system.options.preconditioner.name(), now: 0, fastest: None, bytes: 0.0 }
    }

    fn name<B: Supports<S>, S: Stencil>(&self, system: &mut System<B, S>) -> &'static str {
        system.iteration.choose(self.now).unwrap_or(self.first)
    }

    /// Changes to the next preconditioner after one that failed, if there is one.
    fn fall<B: Supports<S>, S: Stencil>(
        &mut self,
        system: &mut System<B, S>,
        monitor: &mut Monitor<'_>,
        residual: f64,
    ) -> Option<String> {
        let (from, why) = (self.name(system), reason(monitor));
        let to = system.iteration.choose(self.now + 1)?;
        self.now += 1;
        let at = monitor.iterations();
        monitor.change(residual);
        Some(format!("preconditioner {from} {why} at iteration {at}; continued with {to}"))
    }

    /// Changes to the next preconditioner after a slow one, or after the last to the fastest.
    fn hurry<B: Supports<S>, S: Stencil>(
        &mut self,
        system: &mut System<B, S>,
        monitor: &mut Monitor<'_>,
        residual: f64,
    ) -> String {
        let bytes = |system: &System<B, S>| system.iteration.traffic().iter().map(StepTraffic::bytes).sum::<f64>();
        let from = self.name(system);
        let (at, pace, moved) = (monitor.iterations(), monitor.pace(), bytes(system));
        if self.now == 0 {
            self.bytes = moved;
        }
        let fastest = match self.fastest {
            Some((rank, best)) if best >= pace / moved => (rank, best),
            _ => (self.now, pace / moved),
        };
        self.fastest = Some(fastest);
        let next = system.iteration.choose(self.now + 1);
        self.now = if next.is_some() { self.now + 1 } else { fastest.0 };
        let to = self.name(system);
        monitor.change(residual);
        if next.is_some() {
            // The next preconditioner gets as much work as the first one to reach the fastest pace per byte.
            monitor.watch(Some(watch::next(self.bytes, bytes(system), fastest.1)));
        }
        format!(
            "preconditioner {from} was slow up to iteration {at}, convergence factor {:.3}; continued with {to}",
            (-pace).exp()
        )
    }
}
