//! Trying preconditioners of a heat equation.

use isobar::options::{Preconditioner, SolverOptions};
use isobar::problem::Heat;
use isobar::{Device, HeatOptions, TimeStepper, Tried};
use isobar_case::text::plural;

use crate::failure::Result;
use crate::summary::Time;

/// Up to so many iterations without a preconditioner cost less than the three or four that one saves them for: an iteration with
/// incomplete Cholesky takes the time of two to four without.
const FEW: usize = 12;

/// Takes the first step without a preconditioner, and gives its iterations where they are few. A state that is made of few
/// eigenvectors, or a short step, needs no more.
///
/// # Errors
/// What the device reports.
pub(super) fn few_iterations(
    device: &Device,
    heat: &Heat,
    options: HeatOptions,
    solver: &SolverOptions,
    state: &[f64],
) -> Result<Option<usize>> {
    let plain = SolverOptions {
        preconditioner: Preconditioner::None,
        max_iterations: FEW.min(solver.max_iterations),
        ..solver.clone()
    };
    let mut stepper = TimeStepper::new(device, heat.clone(), options, &plain)?;
    stepper.set(state)?;
    let step = stepper.step()?;
    // A step from a state that is steady already says nothing of others.
    let iterations = step.outcome.iterations;
    Ok((step.is_taken && iterations > 0).then_some(iterations))
}

/// What came of trying.
pub(super) fn describe(tried: &[Tried]) -> String {
    let each = tried.iter().map(|tried| {
        let Tried { preconditioner, seconds, iterations } = tried;
        format!("{} {} ({})", preconditioner.name(), Time(*seconds), plural(*iterations, "iteration"))
    });
    let taken = tried.first().map_or("none", |tried| tried.preconditioner.name());
    format!("a step takes {}; {taken} is taken", each.collect::<Vec<_>>().join(", "))
}
