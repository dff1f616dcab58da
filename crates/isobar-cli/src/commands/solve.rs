//! `isobar solve`

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use isobar::Ranks;
use isobar_case::{Case, Problem, memory};
use isobar_io::{Field, Format};

use crate::plot::{self, PlotInput};
use crate::ranks::AbortOnPanic;
use crate::run::{Run, Together};
use crate::{Console, Failure, Result, SUCCESS, SolveArgs, Stream, device, files};

/// Solves a case and writes the requested files.
///
/// # Errors
/// The case cannot be solved, or a file cannot be written.
pub fn run(args: &SolveArgs) -> Result<u8> {
    match Ranks::start() {
        Ok(None) => on_one(args),
        Ok(Some(ranks)) => on_ranks(args, &ranks),
        Err(error) => Err(error.into()),
    }
}

/// Solves a case as one of several processes. Rank 0 writes the files and prints the summary.
fn on_ranks(args: &SolveArgs, ranks: &Ranks) -> Result<u8> {
    let _others_must_not_wait = AbortOnPanic(ranks);
    let is_first = ranks.rank() == 0;
    let here = ranks.number_here()?;
    let set_up = || {
        let case = args.case.load()?;
        let stream = if is_first { files::check_solve(args, &case)? } else { Stream::Error };
        if case.output.flux.is_some() {
            return Err(Failure::new(
                "output.flux: not supported on several ranks; run without mpirun, or remove this key",
            ));
        }
        Ok((stream, device::open_own(ranks, here, &args.device)?, case))
    };
    let (stream, own, case) = crate::ranks::agree(Some(ranks), set_up())?;
    let version = env!("CARGO_PKG_VERSION");
    // The output files determine which results ranks collect.
    let files = (&args.output, &args.plot);
    ranks.require_same(
        "the version of isobar, the case, or its files",
        format!("{version} {case:?} {files:?}").as_bytes(),
    )?;
    let device = crate::ranks::agree(Some(ranks), ranks.device(own).map_err(Failure::from))?;
    let mut console = Console::new(stream, args.quiet || !is_first);
    if let Problem::Heat(heat) = &case.problem {
        let status = super::heat::run_on(args, &case, heat, &device, Some(ranks), &mut console);
        let finished = console.finish();
        let status = crate::ranks::agree(Some(ranks), finished.and(status))?;
        return Ok(if is_first { status } else { SUCCESS });
    }
    let whole = |path: &Path| Format::from_path(path).is_ok_and(|format| format != Format::Zarr);
    let on_rank_0 = args.plot.is_some() || args.output.as_deref().is_some_and(whole);
    let mut run = crate::run::solve(&case, &device, Some(Together { ranks, on_rank_0 }), &mut console)?;
    let of_all = args.output.as_deref().filter(|_| !on_rank_0 && run.has_solution());
    let output = args.output.as_deref().filter(|_| of_all.is_none());
    let written = if is_first { write(args, output, &case, &run, &mut console) } else { Ok(()) };
    if let Some(path) = of_all {
        mark_part(&mut run, ranks.rows(case.problem.shape())?);
        let facts = attributes(&case, &run);
        let (shape, mesh) = (case.problem.shape(), &run.assembled.mesh);
        let made = crate::ranks::write_parts(ranks, path, &run.solution, shape, mesh, &facts);
        if made.is_ok() {
            console.line(format_args!("{:<10} {}", "wrote", path.display()));
        }
        // All ranks have the same failure already.
        made?;
    }
    let finished = console.finish();
    crate::ranks::agree(Some(ranks), finished.and(written))?;
    // Only one process reports the result.
    Ok(if is_first { super::status(&run) } else { SUCCESS })
}

fn on_one(args: &SolveArgs) -> Result<u8> {
    let case = args.case.load()?;
    if let Problem::Heat(heat) = &case.problem {
        return super::heat::run(args, &case, heat);
    }
    let stream = files::check_solve(args, &case)?;
    let device = device::open(&args.device)?;
    let mut console = Console::new(stream, args.quiet);
    let run = crate::run::solve(&case, &device, None, &mut console)?;
    let written = write(args, args.output.as_deref(), &case, &run, &mut console);
    console.finish()?;
    written?;
    Ok(super::status(&run))
}

/// Writes all output files, even if one fails. The report is first because it is the smallest and holds most information.
fn write(args: &SolveArgs, output: Option<&Path>, case: &Case, run: &Run, console: &mut Console) -> Result<()> {
    let mut first_failure = Ok(());
    let mut note = |path: &Path, written: Result<()>| {
        if written.is_ok() && !files::is_standard_output(path) {
            console.line(format_args!("{:<10} {}", "wrote", path.display()));
        }
        if first_failure.is_ok() {
            first_failure = written;
        }
    };
    if let Some(path) = &args.report {
        note(path, files::write_report(path, &run.report(case)));
    }
    let flux = case.output.flux.as_deref();
    if output.is_none() && args.plot.is_none() && flux.is_none() {
        return first_failure;
    }
    if !run.has_solution() {
        for path in [output, args.plot.as_deref(), flux].into_iter().flatten() {
            console.line(format_args!("{:<10} {}: there is no solution", "unwritten", path.display()));
        }
        return first_failure;
    }

    let shape = case.problem.shape();
    let active = run.assembled.active.as_deref();
    // A number in an inactive cell could be taken for a result.
    let masked = active.map(|active| {
        let cells = run.solution.iter().zip(active);
        let marked = cells.map(|(&value, &active)| if active { value } else { f64::NAN });
        memory::collect("the solution with inactive cells marked", active.len(), marked)
    });
    let masked: Option<Vec<f64>> = match masked.transpose() {
        Ok(masked) => masked,
        Err(error) => return first_failure.and(Err(error.into())),
    };
    let field = Field {
        name: "u",
        values: masked.as_deref().unwrap_or(&run.solution),
        shape: [shape.nz, shape.ny, shape.nx],
        mesh: &run.assembled.mesh,
        active,
        attributes: attributes(case, run),
    };
    if let Some(path) = output {
        let written = isobar_io::write(path, &field).map_err(|error| Failure::new(format!("--output {error}")));
        note(path, written);
    }
    if let (Some(path), Some(flow)) = (flux, run.assembled.flow()) {
        let written = flow.faces(&run.solution).map_err(Failure::from).and_then(|fluxes| {
            let written = isobar_io::write_fluxes(path, &fluxes, &run.assembled.mesh, &attributes(case, run));
            written.map_err(|error| Failure::new(format!("output.flux: {error}")))
        });
        note(path, written);
    }
    if let Some(path) = &args.plot {
        let title = format!("{} — {shape}, {}, {}", case.name(), run.description.method, run.description.precision);
        let plot = PlotInput {
            title: &title,
            history: &run.outcome.history,
            tolerance: case.solver.tolerance,
            is_converged: run.outcome.converged(),
            field: &field,
        };
        let written = plot::solution(path, &plot).map_err(|error| Failure::new(format!("--plot {error}")));
        note(path, written);
    }
    first_failure
}

/// Marks inactive cells in a rank's rows of the solution.
fn mark_part(run: &mut Run, rows: Range<usize>) {
    let shape = run.assembled.matrix.shape();
    let Some(active) = &run.assembled.active else { return };
    for (n, row) in run.solution.chunks_mut(shape.nx).enumerate() {
        let (k, j) = (n / rows.len(), rows.start + n % rows.len());
        let active = &active[shape.nx * (j + shape.ny * k)..];
        row.iter_mut().zip(active).filter(|(_, active)| !**active).for_each(|(value, _)| *value = f64::NAN);
    }
}

/// Returns the attributes of the solution.
fn attributes(case: &Case, run: &Run) -> BTreeMap<String, String> {
    [
        ("case", case.name()),
        ("problem", case.problem.kind().to_owned()),
        ("solver", run.description.method.clone()),
        ("precision", run.description.precision.to_string()),
        ("stop", run.outcome.stop.to_string()),
        ("relative_residual", format!("{:e}", run.outcome.relative_residual)),
        ("isobar_version", env!("CARGO_PKG_VERSION").to_owned()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}
