//! Times of the fused steps of a solve, each alone and on the grid it runs on.

mod modes;
mod steps;

use std::time::Instant;

use self::steps::{Bench, OUT, time_levels};
pub use self::steps::{Timed, seconds, upload_noise};
use crate::backend::direct::locked;
use crate::build::System;
use crate::build::direct::{box_of, factors_of};
use crate::operator::{Capabilities, MixedTop, PointSmoother, Relaxation};
use crate::options::{PointCycle, SolverOptions};
use crate::policy::jacobi::may_try;
use crate::precond::IncompleteCholesky;
use crate::stencil::{Stencil, Supports, levels};
use crate::traffic::{self, StepTraffic, Traffic};
use crate::{Backend, Precision, Real, Result};

/// Seconds of making a solver and of changing its coefficients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// The first time in this process: kernels may be compiled or loaded.
    pub first: f64,
    /// The second time.
    pub again: f64,
    /// An update with the same coefficients.
    pub update: f64,
}

/// Times setup and update of a solver.
pub fn time_setup<B: Supports<S>, S: Stencil>(backend: &B, stencil: &S, options: &SolverOptions) -> Result<Setup> {
    let make = || -> Result<(System<B, S>, f64)> {
        backend.synchronize()?;
        let clock = Instant::now();
        let system = System::new(backend, stencil, options)?;
        backend.synchronize()?;
        Ok((system, clock.elapsed().as_secs_f64()))
    };
    let (system, first) = make()?;
    drop(system);
    let (mut system, again) = make()?;
    let update = seconds(backend, || system.update(stencil))?;
    Ok(Setup { first, again, update })
}

/// Times every step of a solve's iteration that can run alone; steps are listed finest grid first.
///
/// # Errors
/// The errors of the device; no memory for the vectors that the steps work on.
pub fn time_iteration<B: Supports<S>, S: Stencil>(
    backend: &B,
    stencil: &S,
    options: &SolverOptions,
    steps: &[StepTraffic],
) -> Result<Vec<Timed>> {
    let around = stencil.around(backend.turns(stencil, options))?;
    let stencil = &*around;
    let choice = backend.choice(stencil, &backend.operator::<f64>(stencil)?, options)?;
    let options = options.resolved(&choice)?;
    // In a solve by modes only steps on the grid itself belong to its operator.
    let grid = backend.layout(stencil)?.shape().cells();
    let has_modes = steps.iter().any(|step| step.step.name == traffic::MODES.name);
    let own: Vec<StepTraffic> = steps.iter().copied().filter(|step| !has_modes || step.cells == grid).collect();
    let mut timed = time_in::<B, S, f64>(backend, stencil, &options, &own)?;
    timed.extend(time_in::<B, S, f32>(backend, stencil, &options, &own)?);
    timed.extend(modes::time_modes(backend, stencil, &options, steps)?);
    timed.extend(time_direct(backend, stencil, steps)?);
    timed.sort_by_key(|timed| std::cmp::Reverse(timed.step.cells));
    Ok(timed)
}

/// Times the steps of one precision.
fn time_in<B: Supports<S>, S: Stencil, T: Real>(
    backend: &B,
    stencil: &S,
    options: &SolverOptions,
    steps: &[StepTraffic],
) -> Result<Vec<Timed>> {
    let mine: Vec<StepTraffic> = steps.iter().copied().filter(|step| step.size == size_of::<T>()).collect();
    if mine.is_empty() {
        return Ok(Vec::new());
    }
    let operator = backend.operator::<T>(stencil)?;
    let lines = backend.lines(stencil, &operator)?.map(|lines| lines.solver);
    let finest = Capabilities { lines, ..backend.capabilities(&operator) };
    let substitutes = |step: &StepTraffic| {
        [traffic::SUBSTITUTE, traffic::SUBSTITUTE_RESIDUAL].iter().any(|own| own.name == step.step.name)
    };
    let cholesky = if mine.iter().any(substitutes) {
        let triangular = match &finest.triangular {
            Some(triangular) => Some(triangular.clone()),
            None => backend.stored_faces::<T>(stencil)?.and_then(|stored| stored.capabilities.triangular),
        };
        let blocks = IncompleteCholesky::<B, T>::blocks(options.preconditioner, stencil.shape().nx);
        triangular
            .zip(blocks)
            .map(|(triangular, (block, relaxation))| IncompleteCholesky::new(triangular, block, relaxation))
            .transpose()?
    } else {
        None
    };
    let points = finest.points.as_deref();
    let cycle = points.map(|points| point_cycle(points, options, &mine)).transpose()?.flatten();
    let hierarchy = levels(backend, stencil, &operator, &options.multigrid)?;
    let mut timed = Vec::new();
    let layout = backend.layout(stencil)?;
    let Some(hierarchy) = hierarchy else {
        let mut bench = Bench::new(backend, &layout, Some(&finest), None, None)?;
        (bench.cholesky, bench.cycle) = (cholesky, cycle);
        bench.time(layout.shape(), &mine, &mut timed)?;
        return Ok(timed);
    };
    let (mut rest, mut first) = (Some((&finest, cholesky)), None);
    time_levels(&hierarchy, &options.multigrid, |level, relaxation, transfer| {
        let (finest, cholesky) = rest.take().map_or((None, None), |(finest, cholesky)| (Some(finest), cholesky));
        first.get_or_insert(relaxation);
        let mut bench = Bench::new(backend, level.layout(), finest, Some((level, relaxation)), transfer)?;
        (bench.cholesky, bench.cycle) = (cholesky, cycle);
        bench.time(level.layout().shape(), &mine, &mut timed)
    })?;
    if let Some(relaxation) = first.filter(|_| options.storage() == Precision::Mixed && T::PRECISION == Precision::F64)
    {
        time_top(backend, stencil, options, relaxation, &mine, &mut timed)?;
    }
    Ok(timed)
}

/// Prepares the cycle of Jacobi's method that is among the steps, unless a trial decides on it.
fn point_cycle<B: Backend, T: Real>(
    points: &dyn PointSmoother<B, T>,
    options: &SolverOptions,
    steps: &[StepTraffic],
) -> Result<Option<PointCycle>> {
    let (shape, device) = (points.layout().shape(), points.backend().device());
    let has = |step: Traffic| steps.iter().any(|own| own.step.name == step.name);
    let cycle = match () {
        () if has(traffic::RELAX_POINTS) => PointCycle::sweep(1.0),
        () if has(traffic::RELAX_POINTS_ON) => PointCycle { momentum: 0.5, ..PointCycle::sweep(1.0) },
        () if has(traffic::RELAX_TILES) => {
            let cycle = options.jacobi.cycle(shape, points.periodic(), false, points.suggested_tile())?;
            if may_try(&options.jacobi, &cycle, shape, [device.ranks > 1, device.kind == "cpu"]) {
                return Ok(None);
            }
            cycle
        }
        () => return Ok(None),
    };
    points.prepare(&cycle)?;
    Ok(Some(cycle))
}

/// Times a direct solve, of the matrix or of the nearest box.
fn time_direct<B: Supports<S>, S: Stencil>(backend: &B, stencil: &S, steps: &[StepTraffic]) -> Result<Option<Timed>> {
    let direct = steps.iter().find(|step| step.step.name == traffic::DIRECT_SOLVE.name);
    let Some(&step) = direct else { return Ok(None) };
    let layout = backend.layout(stencil)?;
    let factors = factors_of(backend, stencil).or_else(|_| box_of(backend, stencil))?;
    let Some(solver) = backend.direct(&layout, &factors)? else { return Ok(None) };
    let (mut b, mut u) = (backend.zeros(&layout)?, backend.zeros(&layout)?);
    upload_noise(backend, &layout, &mut b)?;
    let seconds = seconds(backend, || locked(&solver).solve(&b, &mut u))?;
    Ok(Some(Timed { step, shape: layout.shape(), seconds }))
}

/// Times the steps of the finest level of a mixed-precision cycle.
fn time_top<B: Supports<S>, S: Stencil>(
    backend: &B,
    stencil: &S,
    options: &SolverOptions,
    relaxation: Relaxation,
    steps: &[StepTraffic],
    timed: &mut Vec<Timed>,
) -> Result<()> {
    let (double, single) = (backend.operator::<f64>(stencil)?, backend.operator::<f32>(stencil)?);
    let Some(hierarchy) = levels(backend, stencil, &single, &options.multigrid)? else { return Ok(()) };
    let Some(mut top) = backend.mixed_top(&double, &single, &hierarchy, relaxation)? else { return Ok(()) };
    let (layout, norm) = (backend.layout(stencil)?, OUT.get(0));
    let (mut f, mut u) = (backend.zeros::<f64>(&layout)?, backend.zeros::<f64>(&layout)?);
    upload_noise(backend, &layout, &mut f)?;
    let mut scalars = backend.scalars()?;
    top.begin(&f, &mut u, norm.of(&mut scalars))?;
    let mut coarse_u = match hierarchy.levels.get(1) {
        Some(level) => Some(backend.zeros::<f32>(level.layout())?),
        None => None,
    };
    let mut run = |top: &mut MixedTop<B>, step: &Traffic| -> Result<bool> {
        match &mut coarse_u {
            _ if step.name == traffic::CORRECT_SMOOTH_RESIDUAL.name => {
                top.correct(&f, &mut u, norm.of(&mut scalars))?;
            }
            Some(coarse_u) if step.name == traffic::ASCEND.name => {
                top.ascend(&f, &mut u, coarse_u, norm.of(&mut scalars))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    };
    for &step in steps {
        if run(&mut top, &step.step)? {
            let seconds = seconds(backend, || run(&mut top, &step.step).map(drop))?;
            timed.push(Timed { step, shape: layout.shape(), seconds });
        }
    }
    Ok(())
}
