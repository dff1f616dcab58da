//! The fastest preconditioner for time steps, found by trial.

use std::time::Instant;

use super::{Evolve, HeatOptions, HeatStepper};
use crate::options::{Preconditioner, SolverOptions};
pub use crate::policy::heat::CANDIDATES;
use crate::policy::heat::is_hopeless;
use crate::problem::Heat;
use crate::solver::ignore;
use crate::stencil::{Diffusion, Supports};
use crate::{Error, Result, Source};

/// A preconditioner that was tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried {
    /// The preconditioner.
    pub preconditioner: Preconditioner,
    /// Seconds of a step.
    pub seconds: f64,
    /// Iterations of a step.
    pub iterations: usize,
}

/// Takes the first step with one preconditioner after another, twice with each, and times the second; a preconditioner whose
/// first try takes three times as long as the best has no second. Returns those that converge, the fastest first. Each try
/// is freed before the next begins.
///
/// # Errors
/// Errors of the set-up, except for what a device or a matrix does not support or has no memory for; [`Error::Unsupported`]
/// where nothing converges.
pub fn trial<B: Supports<Diffusion>>(
    backend: &B,
    heat: &Heat,
    options: HeatOptions,
    solver: &SolverOptions,
    state: Source<'_>,
) -> Result<Vec<Tried>> {
    let mut all: Vec<Tried> = Vec::new();
    for preconditioner in CANDIDATES {
        let solver = SolverOptions { preconditioner, ..solver.clone() };
        let best = all.iter().map(|tried| tried.seconds).fold(f64::INFINITY, f64::min);
        match attempt(backend, heat, options, &solver, state, best) {
            Ok(Some((seconds, iterations))) => all.push(Tried { preconditioner, seconds, iterations }),
            Ok(None) | Err(Error::Unsupported(_) | Error::OutOfMemory { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    if all.is_empty() {
        let message = "solver.preconditioner: none of those tried converges in a step; raise solver.max_iterations or \
                       shorten heat.dt";
        return Err(Error::Unsupported(message.into()));
    }
    all.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    Ok(all)
}

/// Returns seconds and iterations of a step, where it converges.
fn attempt<B: Supports<Diffusion>>(
    backend: &B,
    heat: &Heat,
    options: HeatOptions,
    solver: &SolverOptions,
    state: Source<'_>,
    best: f64,
) -> Result<Option<(f64, usize)>> {
    let mut stepper = HeatStepper::new(backend, heat.clone(), options, solver)?;
    let mut result = None;
    for _ in 0..2 {
        stepper.set(state, None, 0)?;
        backend.synchronize()?;
        let clock = Instant::now();
        let step = stepper.step(&mut ignore)?;
        backend.synchronize()?;
        let seconds = clock.elapsed().as_secs_f64();
        if !step.is_taken {
            return Ok(None);
        }
        result = Some((seconds, step.outcome.iterations));
        if is_hopeless(seconds, best) {
            break;
        }
    }
    Ok(result)
}
