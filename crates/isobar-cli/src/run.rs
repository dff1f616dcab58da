//! A case's solve from start to end, for the commands that need one.

use std::time::Instant;

use isobar::Device;
use isobar::layout::{ArrayView, ArrayViewMut};
use isobar::options::{Method, PreconditionerKind};
use isobar::outcome::Outcome;
use isobar::real::Precision;
use isobar::solver::{Description, StepTraffic};
use isobar_case::{Assembled, Case, memory};

use crate::console::Console;
use crate::failure::Result;
use crate::interrupt;
use crate::progress::Progress;
use crate::report::{
    Checks, DeviceReport, ErrorReport, KernelReport, OutcomeReport, ProblemReport, Report, Seconds, SolverReport,
    TrafficReport,
};
use crate::summary;

/// A solve that has ended, and all there is to say about it.
pub struct Run {
    /// The linear system.
    pub assembled: Assembled,
    /// The solution in (z, y, x) C order.
    pub solution: Vec<f64>,
    /// What was put together.
    pub description: Description,
    /// How it ended.
    pub outcome: Outcome,
    /// Where the exact solution is known.
    pub error: Option<ErrorReport>,
    /// Wall-clock time.
    pub seconds: Seconds,
    /// Bandwidth reached.
    pub traffic: TrafficReport,
}

/// Solves a case, telling the console what happens.
///
/// # Errors
/// The case cannot be set up: no memory, a bad right-hand side, a device that fails.
pub fn solve(case: &Case, device: &Device, console: &mut Console) -> Result<Run> {
    let clock = Instant::now();
    let shape = case.problem.shape();
    memory::require(&format!("a grid of {shape} cells"), case.footprint().peak(solver_bytes(case, device)))?;
    let assembled = case.assemble()?;
    let mut solver = assembled.matrix.solver(device, &case.solver)?;
    let setup = clock.elapsed().as_secs_f64();
    console.line(summary::opening(case, solver.description()));

    let mut solution = case.first_guess()?;
    let mut progress = Progress::new(console, case.solver.tolerance, case.solver.max_iterations);
    let solving = interrupt::solving();
    let outcome = solver.solve(
        ArrayView::c_order(&assembled.rhs, shape)?,
        &mut ArrayViewMut::c_order(&mut solution, shape)?,
        case.guess.into(),
        // Once an observer can stop a solve, this one returns interrupt::flow().
        &mut |seen| progress.observe(seen.iteration, seen.relative_residual),
    );
    drop(solving);
    progress.finish();
    let outcome = outcome?;
    let timing = outcome.timing;
    let seconds = Seconds {
        setup,
        upload: timing.upload,
        solve: timing.solve,
        download: timing.download,
        total: clock.elapsed().as_secs_f64(),
    };

    // The solution is there: that it cannot be compared with a copy is no reason to lose it.
    let copy = solver.copy_bandwidth().unwrap_or(f64::NAN);
    let description = solver.description().clone();
    let bytes: f64 = description.traffic.iter().map(StepTraffic::bytes).sum::<f64>() * outcome.iterations as f64;
    let run = Run {
        error: assembled.exact.as_ref().map(|exact| ErrorReport::new(&solution, exact)),
        traffic: TrafficReport::new(bytes, timing.solve, copy),
        assembled,
        solution,
        description,
        outcome,
        seconds,
    };
    console.line(summary::closing(case, &run.outcome, run.error, &run.seconds, &run.traffic));
    Ok(run)
}

/// Host memory that a solver will take: b and u, the vectors of its iteration, and a hierarchy of grids. B
///
/// A guess from below, so that a grid that is refused cannot possibly work; it stands here until a solver predicts
/// its own memory.
fn solver_bytes(case: &Case, device: &Device) -> f64 {
    if let Device::Cuda(_) = device {
        return 0.0;
    }
    let options = &case.solver;
    let iteration = match options.method {
        Method::Cg | Method::CgTextbook | Method::DeflatedCg => 4.0,
        Method::Bicgstab => 6.0,
        Method::Multigrid => 2.0 / 3.0,
    };
    let preconditioned = options.method != Method::Multigrid;
    let hierarchy =
        if preconditioned && options.preconditioner.kind == PreconditionerKind::Multigrid { 2.0 } else { 0.0 };
    let size = if options.precision == Precision::F64 { 8.0 } else { 4.0 };
    case.problem.shape().cells() as f64 * (2.0 * 8.0 + (iteration + hierarchy) * size)
}

impl Run {
    /// The report of this run.
    pub fn report(&self, case: &Case, kernels: Vec<KernelReport>) -> Report {
        let shape = case.problem.shape();
        let preconditioner = Some(self.description.preconditioner.clone()).filter(|name| name != "none");
        Report {
            version: env!("CARGO_PKG_VERSION"),
            case: case.name(),
            problem: ProblemReport {
                kind: case.problem.kind(),
                unknowns: shape.cells(),
                grid: [shape.nx, shape.ny, shape.nz],
            },
            device: DeviceReport::from(&self.description.device),
            solver: SolverReport {
                method: self.description.method.clone(),
                preconditioner,
                precision: self.description.precision.to_string(),
            },
            outcome: OutcomeReport::from(&self.outcome),
            error: self.error,
            checks: Checks::new(&self.solution),
            seconds: self.seconds,
            traffic: self.traffic,
            kernels,
        }
    }
}
