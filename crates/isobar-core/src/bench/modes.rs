//! Times of the steps of a solve by vertical modes: transfers between the grid and the modes, and cycles on the modes' problems.

use super::steps::{Bench, OUT, Timed, seconds, time_levels, upload_noise};
use crate::operator::{Expansion, Guess};
use crate::options::SolverOptions;
use crate::solver::modes::RELAXATION;
use crate::stencil::{Modes, Stencil, Supports};
use crate::traffic::{self, StepTraffic, Traffic};
use crate::{Real, Result};

/// Returns whether a step transfers between a grid and its modes.
fn is_modal(step: &Traffic) -> bool {
    [traffic::EXPAND_SMOOTH_PROJECT, traffic::PROJECT_RESIDUAL, traffic::EXPAND].iter().any(|own| own.name == step.name)
}

/// Times the steps of modes among `steps`: transfers in their declared precision, cycles in that of the modes.
pub(super) fn time_modes<B: Supports<S>, S: Stencil>(
    backend: &B,
    stencil: &S,
    options: &SolverOptions,
    steps: &[StepTraffic],
) -> Result<Vec<Timed>> {
    let size = |wanted: &dyn Fn(&Traffic) -> bool| steps.iter().find(|step| wanted(&step.step)).map(|step| step.size);
    match (size(&is_modal), size(&|step| step.name == traffic::MODES.name)) {
        (Some(8), Some(8)) => time_in::<B, S, f64, f64>(backend, stencil, options, steps),
        (Some(8), Some(4)) => time_in::<B, S, f64, f32>(backend, stencil, options, steps),
        (Some(4), Some(4)) => time_in::<B, S, f32, f32>(backend, stencil, options, steps),
        _ => Ok(Vec::new()),
    }
}

/// Times them on a grid in precision `T` with modes in precision `C`.
fn time_in<B: Supports<S>, S: Stencil, T: Real, C: Real>(
    backend: &B,
    stencil: &S,
    options: &SolverOptions,
    steps: &[StepTraffic],
) -> Result<Vec<Timed>> {
    let operator = backend.operator::<T>(stencil)?;
    let Some(Modes { transfer, problems, .. }) =
        backend.modes::<T, C>(stencil, &operator, options, options.tolerance)?
    else {
        return Ok(Vec::new());
    };
    let (layout, modal) = (transfer.fine().layout(), transfer.modal_layout());
    let (mut f, mut u, mut scratch) = (backend.zeros(layout)?, backend.zeros(layout)?, backend.zeros(layout)?);
    let (mut g, mut x) = (backend.zeros(modal)?, backend.zeros(modal)?);
    upload_noise(backend, layout, &mut f)?;
    upload_noise(backend, modal, &mut x)?;
    let (norm, mut scalars) = (OUT.get(0), backend.scalars()?);
    let mut run = |step: &Traffic| -> Result<()> {
        if step.name == traffic::EXPAND_SMOOTH_PROJECT.name {
            let expansion = Expansion { x: &x, guess: Guess::Given, relaxation: RELAXATION, sweeps: 1 };
            transfer.expand_smooth_project(&expansion, &f, [&mut u, &mut scratch], &mut g, norm.of(&mut scalars))
        } else if step.name == traffic::PROJECT_RESIDUAL.name {
            transfer.project_residual(&f, &mut u, &mut g, &mut scratch, norm.of(&mut scalars))
        } else {
            transfer.expand(&x, Guess::Given, &mut u)
        }
    };
    let mut timed = Vec::new();
    for &step in steps.iter().filter(|step| is_modal(&step.step)) {
        run(&step.step)?;
        timed.push(Timed { step, shape: layout.shape(), seconds: seconds(backend, || run(&step.step))? });
    }
    // Steps on the grid itself are timed with it, unless there are as many modes as layers.
    let grid = layout.shape().cells();
    let of_cycles: Vec<StepTraffic> =
        steps.iter().copied().filter(|step| step.size == size_of::<C>() && step.cells != grid).collect();
    time_levels(&problems, &options.multigrid, |level, relaxation, transfer| {
        let mut bench = Bench::new(backend, level.layout(), None, Some((level, relaxation)), transfer)?;
        bench.time(level.layout().shape(), &of_cycles, &mut timed)
    })?;
    Ok(timed)
}
