//! A case's solve from start to end.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::time::Instant;

use isobar::internals::traffic::StepTraffic;
use isobar::{ArrayView, ArrayViewMut, Description, Device, Outcome, Ranks, Shape};
use isobar_case::report::{Checks, ErrorReport, ProblemReport, Report, Seconds, TrafficReport, has_solution};
use isobar_case::{Assembled, Case, Footprint, memory};

use crate::progress::Progress;
use crate::{Console, Failure, Result, compiling, interrupt, ranks, summary};

/// Iterations that load all kernels of a solve on a GPU, before it is timed.
const WARM_UP: usize = 3;

/// A completed solve with its results.
pub struct Run {
    /// The linear system that was solved.
    pub assembled: Assembled,
    /// The solution in (z, y, x) C order, valid if [`Run::has_solution`]: of the whole grid, or of this rank's subdomain.
    pub solution: Vec<f64>,
    /// Sums that identify the solution of the whole grid.
    pub checks: Checks,
    /// The device, the method and the levels.
    pub description: Description,
    /// How the iteration ended, with its history.
    pub outcome: Outcome,
    /// Total outflow through each side that is neither closed nor periodic and through wells, for diffusion in cells on one process.
    pub flux: BTreeMap<&'static str, f64>,
    /// The difference from the exact solution, if known.
    pub error: Option<ErrorReport>,
    /// Wall-clock times.
    pub seconds: Seconds,
    /// Memory traffic of the iteration, compared with a plain copy.
    pub traffic: TrafficReport,
}

/// Several ranks that solve together.
#[derive(Clone, Copy)]
pub struct Together<'r> {
    /// The ranks.
    pub ranks: &'r Ranks,
    /// Whether rank 0 needs the whole solution; otherwise each rank keeps its own subdomain.
    pub on_rank_0: bool,
}

/// Solves a case and prints progress on the console. On several ranks the device is that of all ranks together.
///
/// # Errors
/// The case cannot be set up: not enough memory, an invalid right-hand side, a failing device.
pub fn solve(case: &Case, device: &Device, together: Option<Together<'_>>, console: &mut Console) -> Result<Run> {
    let assemble = |rows: &Range<usize>| {
        case.require_memory(device)?;
        Ok(device.enter(|| case.assemble_in(rows))?)
    };
    solve_since(Instant::now(), case, assemble, device, together, console, false)
}

/// Solves a linear system that is assembled already with caches warm and kernels loaded, and compares its memory traffic with a plain copy however
/// short the run was.
pub fn solve_assembled(case: &Case, assembled: Assembled, device: &Device, console: &mut Console) -> Result<Run> {
    solve_since(Instant::now(), case, |_| Ok(assembled), device, None, console, true)
}

fn solve_since(
    clock: Instant,
    case: &Case,
    assemble: impl FnOnce(&Range<usize>) -> Result<Assembled>,
    device: &Device,
    together: Option<Together<'_>>,
    console: &mut Console,
    is_benchmark: bool,
) -> Result<Run> {
    let (ranks, shape) = (together.map(|together| together.ranks), case.problem.shape());
    // Reads the files that one rank alone may be unable to read, before anything that all ranks do together.
    let read = || {
        let rows = ranks.map_or(Ok(0..shape.ny), |ranks| ranks.rows(shape))?;
        let assembled = assemble(&rows)?;
        let guess = device.enter(|| case.first_guess_in(&rows))?;
        Ok((assembled, guess, case.footprint_on(device)?, Shape { ny: rows.len(), ..shape }))
    };
    let (assembled, mut solution, footprint, part) = ranks::agree(ranks, read())?;
    let set_up = || Ok(assembled.matrix.solver(device, &case.solver)?);
    let mut solver = ranks::agree(ranks, compiling::watch(console, set_up))?;
    let setup = clock.elapsed().as_secs_f64();
    let mut description = solver.description().clone();
    description.notes.extend_from_slice(solver.unused_options());
    let [vectors, coefficients] = ranks::sum(ranks, [description.bytes as f64, description.coefficient_bytes as f64])?
        .map(|bytes| bytes as usize);
    (description.bytes, description.coefficient_bytes) = (vectors, coefficients);
    console.line(summary::opening(case, &description, &footprint));

    let part_of = |values| ArrayView::c_order(values, part);
    if is_benchmark {
        let first = &mut solution.clone();
        // The observer ends it when kernels are warm.
        let _ = solver.solve_observed(
            part_of(&assembled.rhs)?,
            ArrayViewMut::c_order(first, part)?,
            case.guess.into(),
            &mut |seen| {
                if seen.iteration < WARM_UP { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            },
        )?;
    }
    let mut progress = Progress::new(console, case.solver.tolerance, case.solver.max_iterations);
    let solving = interrupt::solving();
    let (rhs, u) = (part_of(&assembled.rhs)?, ArrayViewMut::c_order(&mut solution, part)?);
    let outcome = solver.solve_observed(rhs, u, case.guess.into(), &mut |seen| {
        progress.observe(seen.iteration, seen.relative_residual);
        interrupt::flow_of_all(ranks)
    });
    drop(solving);
    progress.finish();
    let outcome = ranks::together(ranks, outcome)?;
    let found = has_solution(&outcome);
    let checks = if found { ranks::checks(ranks, &solution)? } else { Checks::NONE };
    let exact = assembled.exact.as_ref().filter(|_| found);
    let error = exact.map(|exact| ranks::error(ranks, &solution, exact, shape.cells())).transpose()?;
    let flow = assembled.flow().filter(|flow| found && (flow.has_open_sides() || assembled.has_wells()));
    let mut whole = None;
    if let Some(Together { ranks, on_rank_0 }) = together.filter(|together| together.on_rank_0 || flow.is_some()) {
        let layers: Vec<_> = (0..ranks.size()).map(|rank| if rank == 0 { 0..shape.nz } else { 0..0 }).collect();
        let collected = ranks::together(Some(ranks), ranks.collect_layers(&solution, shape, &layers))?;
        if on_rank_0 {
            solution = collected;
        } else {
            whole = Some(collected);
        }
    }
    let flow = flow.filter(|_| ranks::is_first(ranks));
    let through = flow.map(|flow| {
        let u = whole.as_deref().unwrap_or(&solution);
        let wells = assembled.through_wells(u).map(|total| ("wells", total));
        device.enter(|| flow.through_sides(u)).map(|sides| sides.into_iter().chain(wells))
    });
    let flux = ranks::agree(ranks, through.transpose().map_err(Failure::from))?.into_iter().flatten().collect();
    drop(whole);
    let seconds = Seconds::of_solve(setup, &outcome, clock.elapsed().as_secs_f64());

    // Frees memory for the vectors of the bandwidth measurement.
    drop(solver);
    let is_timed = is_benchmark || summary::is_worth_a_copy(ranks.is_some(), seconds.total);
    let copy = if is_timed { copy_bandwidth(case, device, &footprint) } else { f64::NAN };
    let bytes: f64 = description.traffic.iter().map(StepTraffic::bytes).sum::<f64>() * outcome.iterations as f64;
    let [bytes, copy] = ranks::sum(ranks, [bytes, copy])?;
    let run = Run {
        error,
        checks,
        flux,
        traffic: TrafficReport::new(bytes, outcome.timing.solve, copy),
        assembled,
        solution,
        description,
        outcome,
        seconds,
    };
    console.line(summary::closing(case, &run.outcome, found, run.error, &run.seconds, &run.traffic));
    if !run.flux.is_empty() {
        console.line(summary::flow(&run.flux));
    }
    Ok(run)
}

/// Measures the bandwidth of a plain copy in bytes per second; NaN if there is not enough memory for one.
fn copy_bandwidth(case: &Case, device: &Device, footprint: &Footprint) -> f64 {
    let fits = memory::require("a copy", footprint.copy).is_ok();
    fits.then(|| device.copy_bandwidth(case.problem.shape()).ok()).flatten().unwrap_or(f64::NAN)
}

impl Run {
    /// Returns whether there is a solution to write, accurate or not: false after a breakdown or a divergence that left values that are not
    /// finite, or a residual larger than that of the first guess.
    pub fn has_solution(&self) -> bool {
        has_solution(&self.outcome)
    }

    /// Returns the report of this run.
    pub fn report(&self, case: &Case) -> Report {
        let problem = ProblemReport::new(case.problem.kind(), case.problem.shape());
        let (checks, description, outcome) = (self.checks, &self.description, &self.outcome);
        let (seconds, traffic) = (self.seconds, self.traffic);
        Report {
            error: self.error,
            flux: self.flux.clone(),
            ..Report::of_solve(case.name(), problem, description, outcome, checks, seconds, traffic)
        }
    }
}
