//! Times the fused steps of a solve, each on every grid it runs on.

use std::time::Instant;

use serde::Serialize;

use crate::backend::{Backend, Ratio, Slot, TensorProductBackend};
use crate::error::Result;
use crate::layout::{Colour, Layout, Shape};
use crate::operator::{Direction, Guess, LineOperator, LineSolver, MultigridOperator, OnBackend, Operator, Relaxation};
use crate::options::{Method, PreconditionerKind, SolverOptions};
use crate::real::{Precision, Real};
use crate::stencil::TensorProduct;
use crate::traffic::{self, Traffic};

/// One step's time on one grid.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepTiming {
    /// What was timed, and what it declares to move.
    pub step: Traffic,
    /// The grid it ran on.
    pub grid: Shape,
    /// How vectors are stored.
    pub precision: Precision,
    /// Median of several runs.
    pub seconds: f64,
    /// Bytes that the declaration says were moved.
    pub bytes: f64,
}

impl StepTiming {
    /// Declared bytes a second.
    pub fn bandwidth(&self) -> f64 {
        self.bytes / self.seconds
    }
}

/// At least so many runs of a step…
const RUNS: usize = 5;
/// …and so much time, unless the limit comes first.
const SECONDS: f64 = 0.2;
const MAX_RUNS: usize = 200;

fn median_seconds<B: Backend>(backend: &B, step: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
    step()?;
    backend.synchronize()?;
    let mut times = Vec::with_capacity(MAX_RUNS);
    let whole = Instant::now();
    while times.len() < RUNS || (whole.elapsed().as_secs_f64() < SECONDS && times.len() < MAX_RUNS) {
        let clock = Instant::now();
        step()?;
        backend.synchronize()?;
        times.push(clock.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2].max(1e-9))
}

/// Times every fused step that a solve with these options takes.
///
/// # Errors
/// As [`System::new`](crate::solver::System::new).
pub fn time_steps<B: TensorProductBackend + Clone>(
    backend: &B,
    stencil: &TensorProduct,
    options: &SolverOptions,
) -> Result<Vec<StepTiming>> {
    options.validate()?;
    let mut timings = Vec::new();
    match options.precision {
        Precision::F64 => steps::<B, f64>(backend, stencil, options, &mut timings)?,
        Precision::F32 => steps::<B, f32>(backend, stencil, options, &mut timings)?,
        Precision::Mixed => {
            steps::<B, f32>(backend, stencil, options, &mut timings)?;
            mixed_step(backend, stencil, options, &mut timings)?;
        }
    }
    Ok(timings)
}

fn steps<B: TensorProductBackend + Clone, T: Real>(
    backend: &B,
    stencil: &TensorProduct,
    options: &SolverOptions,
    timings: &mut Vec<StepTiming>,
) -> Result<()> {
    let krylov = options.method != Method::Multigrid;
    if krylov {
        krylov_steps::<B, T>(backend, stencil, timings)?;
    }
    if !krylov || options.preconditioner.kind == PreconditionerKind::Multigrid {
        multigrid_steps::<B, T>(backend, stencil, options, timings)?;
    }
    Ok(())
}

/// A step with its declaration, ready to be run.
type Timed<'a> = (Traffic, &'a mut dyn FnMut() -> Result<()>);

fn record<B: Backend, T: Real>(
    backend: &B,
    grid: Shape,
    timed: Vec<Timed<'_>>,
    timings: &mut Vec<StepTiming>,
) -> Result<()> {
    for (step, run) in timed {
        let seconds = median_seconds(backend, run)?;
        let bytes = step.bytes(grid.cells(), size_of::<T>());
        timings.push(StepTiming { step, grid, precision: T::PRECISION, seconds, bytes });
    }
    Ok(())
}

/// A vector that is nowhere zero, so that no shortcut is taken.
fn filled<B: Backend, T: Real>(backend: &B, layout: &Layout) -> Result<B::Vector<T>> {
    let shape = layout.shape();
    let values: Vec<f32> = (0..shape.cells()).map(|n| crate::problem::random(1, n) as f32).collect();
    let mut out = backend.zeros(layout)?;
    backend.upload(crate::layout::ArrayView::c_order(&values, shape)?, &mut out)?;
    Ok(out)
}

fn krylov_steps<B: TensorProductBackend + Clone, T: Real>(
    backend: &B,
    stencil: &TensorProduct,
    timings: &mut Vec<StepTiming>,
) -> Result<()> {
    let a = backend.tensor_product::<T>(stencil)?;
    let layout = *a.layout();
    let mut scalars = backend.scalars()?;
    let (mut u, mut p, mut q, mut r) = (
        filled::<B, T>(backend, &layout)?,
        filled(backend, &layout)?,
        filled(backend, &layout)?,
        filled(backend, &layout)?,
    );
    let mut z = filled::<B, T>(backend, &layout)?;
    let [first, second, third] = [Slot::new(0), Slot::new(1), Slot::new(2)];
    // Small coefficients, so that values stay bounded however often the step is repeated.
    backend.set(&mut scalars, third, 1e-6)?;
    let small = Ratio::new(third, Slot::ONE);
    let grid = layout.shape();
    record::<B, T>(backend, grid, vec![(traffic::APPLY, &mut || a.apply(&z, &mut q))], timings)?;
    record::<B, T>(backend, grid, vec![(traffic::SOLVE_LINES, &mut || a.solve_lines(&r, &mut q))], timings)?;
    let mut advance = || {
        let direction = Direction { u: &mut u, p: &mut p, z: &z, q: &mut q };
        a.advance_direction(direction, small, small, first, &mut scalars)
    };
    record::<B, T>(backend, grid, vec![(traffic::ADVANCE_DIRECTION, &mut advance)], timings)?;
    let mut precondition = || a.precondition_residual(&mut r, &p, &mut z, small, [first, second], &mut scalars);
    record::<B, T>(backend, grid, vec![(traffic::PRECONDITION_RESIDUAL, &mut precondition)], timings)
}

fn relaxation(options: &SolverOptions) -> Relaxation {
    let multigrid = &options.multigrid;
    Relaxation { smoother: multigrid.smoother, rho: multigrid.relaxation(), first: Colour::Red }
}

fn multigrid_steps<B: TensorProductBackend + Clone, T: Real>(
    backend: &B,
    stencil: &TensorProduct,
    options: &SolverOptions,
    timings: &mut Vec<StepTiming>,
) -> Result<()> {
    let relaxation = relaxation(options);
    let mut next = Some(stencil.clone());
    for _ in 0..options.multigrid.levels {
        let Some(stencil) = next.take() else { break };
        let a = backend.tensor_product::<T>(&stencil)?;
        let layout = *a.layout();
        let grid = layout.shape();
        let mut scalars = backend.scalars()?;
        let (f, mut u) = (filled::<B, T>(backend, &layout)?, filled::<B, T>(backend, &layout)?);
        let mut scratch = crate::operator::scratch(&a, relaxation.smoother)?;
        let mut smooth = || a.smooth(relaxation, Guess::Given, &f, &mut u, &mut scratch);
        record::<B, T>(backend, grid, vec![(traffic::SMOOTH, &mut smooth)], timings)?;
        next = stencil.coarsened();
        let Some(coarse) = &next else { break };
        let coarse = backend.tensor_product::<T>(coarse)?;
        let mut coarse_f = filled::<B, T>(backend, coarse.layout())?;
        let coarse_u = filled::<B, T>(backend, coarse.layout())?;
        let mut restrict = || a.residual_restrict(&coarse, &f, &u, &mut coarse_f, &mut scratch);
        record::<B, T>(backend, grid, vec![(traffic::RESIDUAL_RESTRICT, &mut restrict)], timings)?;
        let mut descend =
            || a.smooth_residual_restrict(&coarse, relaxation, Guess::Given, &f, &mut u, &mut coarse_f, &mut scratch);
        record::<B, T>(backend, grid, vec![(traffic::SMOOTH_RESIDUAL_RESTRICT, &mut descend)], timings)?;
        let norm = Slot::new(0);
        let mut ascend =
            || a.prolong_smooth(&coarse, relaxation, &f, &coarse_u, &mut u, &mut scratch, Some((norm, &mut scalars)));
        record::<B, T>(backend, grid, vec![(traffic::PROLONG_SMOOTH, &mut ascend)], timings)?;
    }
    Ok(())
}

fn mixed_step<B: TensorProductBackend + Clone>(
    backend: &B,
    stencil: &TensorProduct,
    options: &SolverOptions,
    timings: &mut Vec<StepTiming>,
) -> Result<()> {
    let relaxation = relaxation(options);
    let a = backend.tensor_product::<f64>(stencil)?;
    let layout = *a.layout();
    let mut scalars = a.backend().scalars()?;
    let (f, mut u) = (filled::<B, f64>(backend, &layout)?, filled::<B, f64>(backend, &layout)?);
    let (e, mut r) = (backend.zeros::<f32>(&layout)?, filled::<B, f32>(backend, &layout)?);
    let mut scratch = crate::operator::scratch(&a, relaxation.smoother)?;
    let norm = Slot::new(0);
    let mut correct =
        || a.correct_smooth_residual(relaxation, &f, &e, &mut u, &mut r, &mut scratch, norm, &mut scalars);
    record::<B, f64>(backend, layout.shape(), vec![(traffic::CORRECT_SMOOTH_RESIDUAL, &mut correct)], timings)
}
