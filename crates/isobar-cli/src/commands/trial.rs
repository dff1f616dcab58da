//! Trials of preconditioners for a heat equation.

use isobar::options::SolverOptions;
use isobar::problem::Heat;
use isobar::{Device, HeatOptions, TimeStepper, Tried};
use isobar_case::text::plural;

use crate::{Result, Time};

/// Takes the first step without a preconditioner and returns its iterations if they are few; see [`SolverOptions::for_plain_step`].
pub(super) fn few_iterations(
    device: &Device,
    heat: &Heat,
    options: HeatOptions,
    solver: &SolverOptions,
    state: &[f64],
) -> Result<Option<usize>> {
    let mut stepper = TimeStepper::new(device, heat.clone(), options, &solver.for_plain_step())?;
    stepper.set(state)?;
    let step = stepper.step()?;
    // From a steady state a step needs no iteration, and the trial shows nothing.
    let iterations = step.outcome.iterations;
    Ok((step.is_taken && iterations > 0).then_some(iterations))
}

/// Describes the results of the trials.
pub(super) fn describe(tried: &[Tried]) -> String {
    let each = tried.iter().map(|tried| {
        let Tried { preconditioner, seconds, iterations } = tried;
        format!("{} {} ({})", preconditioner.name(), Time(*seconds), plural(*iterations, "iteration"))
    });
    let taken = tried.first().map_or("none", |tried| tried.preconditioner.name());
    format!("a step takes {}; {taken} is used", each.collect::<Vec<_>>().join(", "))
}
