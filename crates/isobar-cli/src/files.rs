//! Output files. All are checked before the computation, so that a long run cannot end with "no such folder".
//! Text may also be written to standard output, called `-`.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;

use isobar_case::report::to_json;
use isobar_case::{Case, Problem};
use isobar_io::{Clash, Format, atomic, clash};

use crate::{Failure, Result, SolveArgs, Stream, plot};

/// An output file with the option that requests it.
pub type Target<'a> = (&'static str, Option<&'a Path>);

/// Returns whether a path means standard output.
pub fn is_standard_output(path: &Path) -> bool {
    path == Path::new("-")
}

/// Returns the stream of the summary: standard error if a target goes to standard output.
pub fn summary_stream(targets: &[Target<'_>]) -> Stream {
    let taken = targets.iter().any(|(_, path)| path.is_some_and(is_standard_output));
    if taken { Stream::Error } else { Stream::Output }
}

/// Rejects standard output for binary formats and for formats selected by a file's ending.
///
/// # Errors
/// `path` is `-`.
pub fn refuse_standard_output(option: &str, path: &Path, endings: &str) -> Result<()> {
    if is_standard_output(path) {
        let message =
            format!("{option} -: goes to a file only; name one that ends in {endings} (./- is a file called -)");
        return Err(Failure::new(message));
    }
    Ok(())
}

/// Writes text to a file, completely or not at all, or to standard output.
///
/// # Errors
/// The disk's error. A closed pipe is not an error.
pub fn write_text(option: &str, path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    if !is_standard_output(path) {
        return atomic::write_with(path, fill).map_err(|error| Failure::new(format!("{option} {error}")));
    }
    let mut out = BufWriter::new(io::stdout().lock());
    match fill(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("{option} -: standard output: {error}; write to a file")))
        }
        _ => Ok(()),
    }
}

/// Writes a JSON report to the path of `--report`.
pub fn write_report<T: serde::Serialize>(path: &Path, report: &T) -> Result<()> {
    write_text("--report", path, |out| out.write_all(to_json(report).as_bytes()))
}

/// Checks that every target can be written and that none would destroy another target or an input, either as the same file
/// (by any spelling or link) or as a file in a store that is replaced.
///
/// # Errors
/// The first target that cannot be written, with the remedy.
pub fn check(targets: &[Target<'_>], inputs: &[&Path]) -> Result<()> {
    let wanted: Vec<(&str, &Path)> = targets.iter().filter_map(|&(option, path)| Some((option, path?))).collect();
    for (n, &(option, path)) in wanted.iter().enumerate() {
        if is_standard_output(path) {
            if let Some((other, _)) = wanted[..n].iter().find(|(_, earlier)| is_standard_output(earlier)) {
                let message = format!("{option} -: {other} goes to standard output too; write one of them to a file");
                return Err(Failure::new(message));
            }
            continue;
        }
        let fail =
            |message: &str| Err(Failure::new(format!("{option} {}: {message}; choose another name", path.display())));
        inputs.iter().try_for_each(|input| spare(option, path, input))?;
        for &(other, earlier) in wanted[..n].iter().filter(|(_, earlier)| !is_standard_output(earlier)) {
            match (clash(earlier, path), clash(path, earlier)) {
                (None, None) => {}
                (Some(Clash::Same), _) | (_, Some(Clash::Same)) => {
                    return fail(&format!("{other} writes to the same file"));
                }
                (Some(Clash::Inside), _) => {
                    return fail(&format!("lies in {}, which {other} replaces as a whole", earlier.display()));
                }
                (_, Some(Clash::Inside)) => {
                    return fail(&format!("is replaced as a whole, and {} of {other} lies in it", earlier.display()));
                }
            }
        }
        let is_field = matches!(option, "--output" | "output.flux");
        let writable = if is_field { isobar_io::check_writable(path) } else { atomic::check(path) };
        writable.map_err(|error| Failure::new(format!("{option} {error}")))?;
    }
    Ok(())
}

/// Fails if an output would destroy an input.
fn spare(option: &str, path: &Path, input: &Path) -> Result<()> {
    let why = match clash(path, input) {
        None => return Ok(()),
        Some(Clash::Same) => "would overwrite an input of this run".to_owned(),
        Some(Clash::Inside) => format!("is replaced as a whole, and {}, an input, lies in it", input.display()),
    };
    Err(Failure::new(format!("{option} {}: {why}; choose another name", path.display())))
}

/// Checks the output files of a solve, and that a problem without time steps is not to be continued. Returns the stream of the summary.
pub(crate) fn check_solve(args: &SolveArgs, case: &Case) -> Result<Stream> {
    let of_case = match &case.problem {
        Problem::Heat(heat) => ("heat.checkpoint", heat.section.checkpoint.as_deref()),
        problem if args.restart.is_some() => {
            return Err(Failure::new(format!(
                "--restart: only a heat equation can be continued, and this problem's kind is \"{}\"; remove --restart",
                problem.kind()
            )));
        }
        _ => ("output.flux", case.output.flux.as_deref()),
    };
    check_endings(args, case)?;
    let (report, output, plot) = (args.report.as_deref(), args.output.as_deref(), args.plot.as_deref());
    let targets = [("--report", report), ("--output", output), ("--plot", plot), of_case];
    check(&targets, &case.inputs())?;
    if let Some(restart) = &args.restart {
        // A run may replace the checkpoint that it continues from by its own, but by nothing else.
        let others = targets[..3].iter().filter_map(|&(option, path)| Some((option, path?)));
        others
            .filter(|(_, path)| !is_standard_output(path))
            .try_for_each(|(option, path)| spare(option, path, restart))?;
    }
    let has_frames = matches!(&case.problem, Problem::Heat(heat) if heat.section.output_every > 0);
    for (option, path) in targets.iter().filter(|_| has_frames).filter_map(|&(option, path)| Some((option, path?))) {
        if output.is_some_and(|output| output != path && isobar_io::Series::writes(output, path)) {
            let message =
                format!("{option} {}: is a file of the frames of --output; choose another name", path.display());
            return Err(Failure::new(message));
        }
    }
    Ok(summary_stream(&targets))
}

/// Checks that the endings of the output files are valid and that their formats can hold the grid.
fn check_endings(args: &SolveArgs, case: &Case) -> Result<()> {
    if let Some(path) = &args.output {
        refuse_standard_output("--output", path, ".npy, .vti, .vtr or .zarr")?;
        let checked = match case.problem.mesh() {
            Some(mesh) => isobar_io::check_mesh(path, &mesh),
            None => Format::from_path(path).map(drop),
        };
        checked.map_err(|error| Failure::new(format!("--output {error}")))?;
    }
    if let Some(path) = &args.plot {
        refuse_standard_output("--plot", path, ".png or .svg")?;
        plot::check(path).map_err(|error| Failure::new(format!("--plot {error}")))?;
    }
    Ok(())
}
