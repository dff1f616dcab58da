//! `isobar effective`

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use isobar::problem::{Coefficient, DiffusionProblem, LabelTable, Phases, Spacing};
use isobar::stencil::Axis;
use isobar::{Device, Effective, Sample, Shape, Stop};
use isobar_case::memory;
use isobar_case::report::OutcomeReport;
use isobar_case::text::plural;
use isobar_io::image::{self, Image, Pixels};
use isobar_io::{Field, Mesh};
use serde::Serialize;

use crate::args::EffectiveArgs;
use crate::plot::{self, PlotInput};
use crate::progress::Progress;
use crate::summary::entry;
use crate::{Console, Failure, INTERRUPTED, NOT_CONVERGED, Result, SUCCESS, Table, Time, device, files, interrupt};

/// The least memory of a solve on a CPU, in bytes a cell: samples with closed cells take 173 to 250 at 160³ cells.
const LEAST_MEMORY: f64 = 160.0;

/// Computes effective conductivities of an image and writes the requested files.
///
/// # Errors
/// The image cannot be read, a system cannot be solved, or a file cannot be written.
pub fn run(args: &EffectiveArgs) -> Result<u8> {
    let options = Sample::options(args.tolerance);
    options
        .validate()
        .map_err(|error| Failure::new(error.to_string().replacen("solver.tolerance", "--tolerance", 1)))?;
    if let Some(path) = &args.plot {
        files::refuse_standard_output("--plot", path, ".png or .svg")?;
        plot::check(path).map_err(|error| Failure::new(format!("--plot {error}")))?;
    }
    let targets = [("--report", args.report.as_deref()), ("--plot", args.plot.as_deref())];
    files::check(&targets, &[&args.image])?;
    let mut console = Console::new(files::summary_stream(&targets), args.quiet);

    let clock = Instant::now();
    let (device, sample) = device::open_while(&args.device, || sample(args))?;
    let mut sample = sample?;
    let shape @ Shape { nx, ny, nz } = sample.shape();
    console.line(entry(
        "image",
        format!(
            "{}: {shape} = {}, porosity {:.4}",
            args.image.display(),
            plural(shape.cells(), "cell"),
            sample.porosity()
        ),
    ));
    if let Some(label) = args.open.filter(|_| sample.porosity() == 0.0) {
        // Read once more, because no solve follows.
        let labels = labels_of(&image::read(&args.image)?.values.into_numbers());
        let path = args.image.display();
        return Err(Failure::new(format!("--open {label}: no cell of {path} has this label; the image has {labels}")));
    }
    let (needed, available) = (LEAST_MEMORY * shape.cells() as f64, memory::available());
    if let Some(available) =
        available.filter(|&available| matches!(device, Device::Cpu(_)) && sample.porosity() < 1.0 && needed > available)
    {
        return Err(Failure::new(format!(
            "{}: {shape} cells need {} or more, but only {} of memory are available; crop the image, or use a machine with more memory",
            args.image.display(),
            memory::readable(needed),
            memory::readable(available)
        )));
    }
    let read = clock.elapsed().as_secs_f64();
    let mut report = EffectiveReport {
        version: env!("CARGO_PKG_VERSION"),
        image: args.image.display().to_string(),
        grid: [nx, ny, nz],
        device: NamedDevice { kind: kind_of(&device) },
        porosity: sample.porosity(),
        axes: BTreeMap::new(),
        interrupted: false,
        seconds: SecondsReport { read, total: read },
    };
    let mut table =
        Table::new(["axis", "conductivity", "tortuosity factor", "connected", "imbalance", "iterations", "time"]);
    let (mut has_converged, mut is_incomplete, mut pictured) = (true, false, None);
    for axis in args.axis.axes(shape) {
        if interrupt::requested() {
            is_incomplete = true;
            break;
        }
        let clock = Instant::now();
        let mut progress = Progress::new(&mut console, options.tolerance, options.max_iterations);
        let solving = interrupt::solving();
        let wants_picture = args.plot.is_some() && pictured.is_none();
        let mut solution = wants_picture.then(|| vec![0.0; shape.cells()]);
        let found = sample.along(axis, &device, &options, solution.as_deref_mut(), &mut |seen| {
            progress.observe(seen.iteration, seen.relative_residual);
            interrupt::flow()
        });
        drop(solving);
        progress.finish();
        let (found, seconds) = (found?, clock.elapsed().as_secs_f64());
        if found.outcome.as_ref().is_some_and(|outcome| outcome.stop == Stop::Interrupted) {
            is_incomplete = true;
            break;
        }
        table.row(row(&found, seconds));
        if let Some(outcome) = &found.outcome {
            if !outcome.converged() {
                has_converged = false;
                let advice = outcome.advice.as_deref().unwrap_or("see the imbalance");
                console.line(entry("note", format!("NOT converged along {}: {advice}", name(axis))));
            }
            outcome.notes.iter().for_each(|note| console.line(entry("note", note)));
        }
        report.axes.insert(name(axis), AxisReport::new(&found, seconds));
        if let Some(solution) = solution.filter(|_| found.outcome.is_some()) {
            pictured = Some((found, solution));
        }
    }
    report.interrupted = is_incomplete;
    report.seconds.total = clock.elapsed().as_secs_f64();
    console.line(&table);
    console.line(entry("time", format!("{} in all", Time(report.seconds.total))));
    if is_incomplete {
        console.line(entry("note", "interrupted: axes that are not in the table have no result"));
    }
    let written = write(args, &report, pictured.as_ref(), shape, &mut console);
    console.finish()?;
    written?;
    Ok(match (is_incomplete, has_converged) {
        (true, _) => INTERRUPTED,
        (false, true) => SUCCESS,
        (false, false) => NOT_CONVERGED,
    })
}

/// Reads the image, and finds its open cells and their connected components.
fn sample(args: &EffectiveArgs) -> Result<Sample> {
    let Image { shape: [nz, ny, nx], values, is_whole } = image::read(&args.image)?;
    let shape = Shape::new(nx, ny, nz);
    let spacing = widths(args, shape)?.map(Spacing::Uniform);
    let found = match kappa(args, shape, values, is_whole)? {
        Kappa::Phases(phases) => Sample::of_phases(phases, spacing),
        Kappa::Cells(kappa) => {
            let problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
            Sample::new(DiffusionProblem { spacing, ..problem })
        }
    };
    found.map_err(|error| named(args, error))
}

/// Returns the widths of cells in x, y and z.
fn widths(args: &EffectiveArgs, shape: Shape) -> Result<[f64; 3]> {
    match args.spacing[..] {
        [] => Ok([1.0; 3]),
        [dz, dy, dx] => Ok([dx, dy, dz]),
        [dy, dx] if shape.nz == 1 => Ok([dx, dy, 1.0]),
        ref other => Err(Failure::new(format!(
            "--spacing: {} for an image of {shape} cells; give one for each direction, in the order z, y, x{}",
            plural(other.len(), "width"),
            if shape.nz == 1 { ", or y, x" } else { "" }
        ))),
    }
}

/// κ of an image.
enum Kappa {
    Phases(Phases),
    /// The value of κ in every cell.
    Cells(Vec<f64>),
}

/// Finds κ of an image.
fn kappa(args: &EffectiveArgs, shape: Shape, values: Pixels, is_whole: bool) -> Result<Kappa> {
    let table = match (args.open, &args.values[..]) {
        (Some(label), _) => LabelTable::new(BTreeMap::from([(label, 1.0)]), Some(0.0)),
        (None, []) => {
            let is_of_two = matches!(&values, Pixels::Bytes(bytes) if bytes.iter().all(|&value| value <= 1));
            if !is_of_two {
                let (path, values) = (args.image.display(), values.into_numbers());
                // The values may be conductivities already.
                if !is_whole || values.iter().all(|&value| value == 0.0 || value == 1.0) {
                    return Ok(Kappa::Cells(values));
                }
                return Err(Failure::new(format!(
                    "{path}: holds labels ({}); give their conductivities: --open LABEL for pores with one label, or --values \
                     LABEL=VALUE,… for all labels",
                    labels_of(&values)
                )));
            }
            LabelTable::new(BTreeMap::from([(0, 0.0), (1, 1.0)]), None)
        }
        (None, given) if given.iter().map(|pair| pair.label).collect::<BTreeSet<_>>().len() < given.len() => {
            return Err(Failure::new("--values: a label is given twice; give each label one value"));
        }
        (None, given) => LabelTable::new(given.iter().map(|pair| (pair.label, pair.value)).collect(), None),
    };
    let found = table.and_then(|table| match values {
        Pixels::Bytes(labels) => match table.phases(shape, &labels)? {
            Some(phases) => Ok(Kappa::Phases(phases)),
            None => table.coefficients(shape, &labels).map(Kappa::Cells),
        },
        Pixels::Numbers(mut labels) => match table.phases_of_numbers(shape, &labels)? {
            Some(phases) => Ok(Kappa::Phases(phases)),
            None => table.replace(shape, &mut labels).map(|()| Kappa::Cells(labels)),
        },
    });
    found.map_err(|error| named(args, error))
}

/// Lists the first labels of an image, for a message.
fn labels_of(values: &[f64]) -> String {
    const SHOWN: usize = 6;
    let mut found: Vec<f64> = Vec::new();
    for &value in values {
        if !found.contains(&value) {
            found.push(value);
            if found.len() > SHOWN {
                break;
            }
        }
    }
    let names: Vec<String> = found.iter().take(SHOWN).map(f64::to_string).collect();
    format!("{}{}", names.join(", "), if found.len() > SHOWN { ", …" } else { "" })
}

/// Names the option that κ comes from in an error.
fn named(args: &EffectiveArgs, error: isobar::Error) -> Failure {
    match error {
        isobar::Error::Invalid { message, .. } => {
            let option = if args.open.is_some() {
                "--open: "
            } else if args.values.is_empty() {
                ""
            } else {
                "--values: "
            };
            Failure::new(format!("{option}{}: {message}", args.image.display()))
        }
        other => other.into(),
    }
}

fn name(axis: Axis) -> &'static str {
    ["x", "y", "z"][axis as usize]
}

fn kind_of(device: &Device) -> &'static str {
    if matches!(device, Device::Cpu(_)) { "cpu" } else { "cuda" }
}

fn row(found: &Effective, seconds: f64) -> [String; 7] {
    let iterations = found.outcome.as_ref().map_or("none".to_owned(), |outcome| outcome.iterations.to_string());
    [
        name(found.axis).to_owned(),
        six_digits(found.conductivity),
        if found.tortuosity.is_finite() { six_digits(found.tortuosity) } else { "infinite".to_owned() },
        format!("{:.2} %", 100.0 * found.connected),
        format!("{:.1e}", found.imbalance),
        iterations,
        Time(seconds).to_string(),
    ]
}

/// Formats six significant digits, with an exponent where the number is very small or large.
fn six_digits(value: f64) -> String {
    let scientific = format!("{value:.5e}");
    match scientific.split_once('e').and_then(|(_, exponent)| exponent.parse::<i32>().ok()) {
        Some(exponent @ -4..6) => format!("{value:.*}", (5 - exponent) as usize),
        _ => scientific,
    }
}

fn write(
    args: &EffectiveArgs,
    report: &EffectiveReport,
    pictured: Option<&(Effective, Vec<f64>)>,
    shape: Shape,
    console: &mut Console,
) -> Result<()> {
    if let Some(path) = &args.report {
        files::write_report(path, report)?;
        if !files::is_standard_output(path) {
            console.line(entry("wrote", path.display()));
        }
    }
    let Some(path) = &args.plot else { return Ok(()) };
    let Some((found, solution)) = pictured else {
        let why = if report.interrupted { "interrupted" } else { "nothing flows along any axis" };
        console.line(entry("unwritten", format!("{}: {why}", path.display())));
        return Ok(());
    };
    let Some(outcome) = &found.outcome else { return Ok(()) };
    let Shape { nx, ny, nz } = shape;
    let cells = [nx, ny, nz];
    let widths = widths(args, shape)?;
    let along = |d: usize, n: usize, offset: f64| (0..n).map(|m| (m as f64 + offset) * widths[d]).collect();
    let mesh = Mesh {
        centres: [0, 1, 2].map(|d| along(d, cells[d], 0.5)),
        faces: [0, 1, 2].map(|d| along(d, cells[d] + 1, 0.0)),
        spacing: Some(widths),
        ..Mesh::unit(cells)
    };
    // u is exactly 0 where nothing flows.
    let active: Vec<bool> = solution.iter().map(|u| *u != 0.0).collect();
    let field = Field { active: Some(&active), ..Field::new("potential", solution, [nz, ny, nx], &mesh) };
    let title = format!(
        "{} along {}: conductivity {}, tortuosity factor {}",
        args.image.display(),
        name(found.axis),
        six_digits(found.conductivity),
        six_digits(found.tortuosity)
    );
    let plot = PlotInput {
        title: &title,
        history: &outcome.history,
        tolerance: args.tolerance,
        is_converged: outcome.converged(),
        field: &field,
    };
    plot::solution(path, &plot).map_err(|error| Failure::new(format!("--plot {error}")))?;
    console.line(entry("wrote", path.display()));
    Ok(())
}

/// The report of `--report`; numbers that are not finite become null.
#[derive(Serialize)]
struct EffectiveReport {
    version: &'static str,
    image: String,
    /// [nx, ny, nz]
    grid: [usize; 3],
    device: NamedDevice,
    porosity: f64,
    axes: BTreeMap<&'static str, AxisReport>,
    /// Whether axes are missing because the command was interrupted.
    interrupted: bool,
    seconds: SecondsReport,
}

#[derive(Serialize)]
struct NamedDevice {
    kind: &'static str,
}

#[derive(Serialize)]
struct SecondsReport {
    /// Seconds of reading the image and finding its connected components.
    read: f64,
    total: f64,
}

#[derive(Serialize)]
struct AxisReport {
    conductivity: f64,
    tortuosity: f64,
    connected: f64,
    bounds: Bounds,
    imbalance: f64,
    /// Null if nothing flows, so that nothing was solved.
    outcome: Option<OutcomeReport>,
    seconds: f64,
}

#[derive(Serialize)]
struct Bounds {
    series: f64,
    parallel: f64,
}

impl AxisReport {
    fn new(found: &Effective, seconds: f64) -> Self {
        let [series, parallel] = found.bounds;
        Self {
            conductivity: found.conductivity,
            tortuosity: found.tortuosity,
            connected: found.connected,
            bounds: Bounds { series, parallel },
            imbalance: found.imbalance,
            outcome: found.outcome.as_ref().map(OutcomeReport::from),
            seconds,
        }
    }
}
