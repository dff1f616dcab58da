//! `isobar solve` of a heat equation: a run of time steps with frames, checkpoints and a report.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use isobar::internals::traffic::StepTraffic;
use isobar::options::{Method, Preconditioner, SolverOptions};
use isobar::problem::Heat;
use isobar::{Device, Outcome, TimeStepper};
use isobar_case::heat::HeatCase;
use isobar_case::text::plural;
use isobar_case::{Case, memory};
use isobar_io::{Checkpoint, Field, Mesh, Series, checkpoint};

use crate::args::SolveArgs;
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::plot::{self, StepsPlot};
use crate::progress::StepProgress;
use crate::report::{
    Checks, DeviceReport, ErrorReport, OutcomeReport, ProblemReport, Report, Seconds, SolverReport, StepReport,
    TrafficReport,
};
use crate::run::require_memory;
use crate::summary::{Time, entry};
use crate::{INTERRUPTED, NOT_CONVERGED, SUCCESS, device, files, interrupt, summary};

/// Runs the steps of a case and writes what was asked for.
///
/// # Errors
/// Whatever keeps the run from starting, a step from being taken, or a file from being written.
pub(super) fn run(args: &SolveArgs, case: &Case, heat: &HeatCase) -> Result<u8> {
    let stream = check_files(args, case, heat)?;
    let device = device::open(&args.device)?;
    let mut console = Console::new(stream, args.quiet);
    let finished = Run::new(args, case, heat, &device, &mut console)?.take_steps(&mut console);
    let status = finished.and_then(|run| run.finish(&device, &mut console));
    console.finish()?;
    status
}

fn check_files(args: &SolveArgs, case: &Case, heat: &HeatCase) -> Result<crate::console::Stream> {
    super::solve::check_endings(args)?;
    let targets = [
        ("--report", args.report.as_deref()),
        ("--output", args.output.as_deref()),
        ("--plot", args.plot.as_deref()),
        ("heat.checkpoint", heat.section.checkpoint.as_deref()),
    ];
    files::check(&targets, &case.inputs())?;
    Ok(files::summary_stream(&targets))
}

/// The preconditioner where nobody says: modified incomplete Cholesky.
fn solver_options(case: &Case, device: &Device) -> SolverOptions {
    let mut options = case.solver.clone();
    let is_free = options.preconditioner == Preconditioner::Auto && options.precision != isobar::Precision::Mixed;
    if is_free && matches!(options.method, Method::Auto | Method::Cg) {
        options.preconditioner = match device {
            Device::Cuda(_) => Preconditioner::SsorAi,
            _ => Preconditioner::Mic { relaxation: 1.0, block: None },
        };
    }
    options
}

/// A run on its way.
struct Run<'a> {
    args: &'a SolveArgs,
    case: &'a Case,
    heat: &'a HeatCase,
    problem: Heat,
    mesh: Mesh,
    active: Option<Vec<bool>>,
    stepper: TimeStepper,
    state: Vec<f64>,
    frames: Option<Series>,
    /// The time of the last frame.
    framed: Option<usize>,
    steps: Vec<StepReport>,
    last: Option<Outcome>,
    clock: Instant,
    seconds: Seconds,
    iterations: usize,
    /// Whether every step gets its energy.
    wants_energy: bool,
    /// Steps when the last checkpoint was written.
    checked: Option<usize>,
}

impl<'a> Run<'a> {
    fn new(
        args: &'a SolveArgs,
        case: &'a Case,
        heat: &'a HeatCase,
        device: &Device,
        console: &mut Console,
    ) -> Result<Self> {
        let clock = Instant::now();
        require_memory(case, device)?;
        let (problem, mesh, initial) = heat.parts()?;
        let mut stepper = TimeStepper::new(device, problem.clone(), heat.options(), &solver_options(case, device))?;
        let from = match &args.restart {
            None => {
                stepper.set(&initial)?;
                None
            }
            Some(path) => Some(restore(path, heat, &mut stepper)?),
        };
        let footprint = case.footprint(device.processor())?;
        console.line(summary::opening(case, stepper.description(), &footprint));
        if let Some(steps) = from {
            let time = heat.steps.time(steps);
            console.line(entry("restart", format!("after {}, at t = {time}", plural(steps, "step"))));
        }
        let most = heat.steps.count() / heat.section.output_every.max(1) + 2;
        let frames = match &args.output {
            Some(path) if heat.section.output_every > 0 && Series::is_possible(path) => {
                let begun = Series::begin(path, "u", shape(heat), &mesh, most);
                Some(begun.map_err(|error| Failure::new(format!("--output {error}")))?)
            }
            Some(path) if heat.section.output_every > 0 => {
                console.line(entry(
                    "note",
                    format!("{} holds the last state only; .zarr and .vti hold frames", path.display()),
                ));
                None
            }
            _ => None,
        };
        let active = problem.inactive().map(|inactive| inactive.into_iter().map(|inactive| !inactive).collect());
        let mut run = Self {
            args,
            case,
            heat,
            active,
            problem,
            mesh,
            state: initial,
            stepper,
            frames,
            framed: None,
            steps: Vec::new(),
            last: None,
            clock,
            seconds: Seconds { setup: clock.elapsed().as_secs_f64(), ..Seconds::default() },
            iterations: 0,
            wants_energy: args.report.is_some() || args.plot.is_some(),
            checked: from,
        };
        run.frame()?;
        Ok(run)
    }

    fn time(&self) -> f64 {
        self.heat.steps.time(self.stepper.taken())
    }

    fn take_steps(mut self, console: &mut Console) -> Result<Self> {
        let total = self.heat.steps.count();
        let solving = interrupt::solving();
        let mut progress = StepProgress::new(console, self.stepper.taken(), total);
        let mut failure = None;
        while self.stepper.taken() < total && !interrupt::requested() {
            match self.step(&mut progress) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        progress.finish();
        drop(solving);
        match failure {
            None => Ok(self),
            Some(error) => {
                // The last good one stays where it is; say where it leads to.
                if let (Some(steps), Some(path)) = (self.checked, &self.heat.section.checkpoint) {
                    console.line(entry("checkpoint", how_to_go_on(self.case, path, steps)));
                }
                Err(error)
            }
        }
    }

    /// One step with its frame and its checkpoint. Returns whether it was taken.
    fn step(&mut self, progress: &mut StepProgress<'_>) -> Result<bool> {
        let clock = Instant::now();
        let step = self.stepper.step()?;
        self.seconds.solve += clock.elapsed().as_secs_f64();
        self.iterations += step.outcome.iterations;
        let energy = if self.wants_energy && step.is_taken { Some(self.stepper.energy()?) } else { None };
        self.steps.push(StepReport {
            time: step.time,
            iterations: step.outcome.iterations,
            relative_residual: step.outcome.relative_residual,
            energy,
        });
        progress.observe(step.number, step.time, step.outcome.iterations);
        self.last = Some(step.outcome);
        if !step.is_taken {
            return Ok(false);
        }
        let is_due = |every: usize| every > 0 && step.number.is_multiple_of(every);
        if is_due(self.heat.section.output_every) {
            self.frame()?;
        }
        if is_due(self.heat.section.checkpoint_every) {
            self.checkpoint()?;
        }
        Ok(true)
    }

    /// Brings the state to the host.
    fn fetch(&mut self) -> Result<()> {
        let clock = Instant::now();
        self.stepper.state(&mut self.state)?;
        self.seconds.download += clock.elapsed().as_secs_f64();
        Ok(())
    }

    /// Writes the state as a frame, once a time.
    fn frame(&mut self) -> Result<()> {
        let taken = self.stepper.taken();
        if self.frames.is_none() || self.framed == Some(taken) {
            return Ok(());
        }
        self.fetch()?;
        let marked = self.marked()?;
        let (time, attributes) = (self.time(), self.attributes());
        let field =
            field(self.heat, marked.as_deref().unwrap_or(&self.state), &self.mesh, self.active.as_deref(), attributes);
        if let Some(frames) = &mut self.frames {
            frames.push(time, &field).map_err(|error| Failure::new(format!("--output {error}")))?;
        }
        self.framed = Some(taken);
        Ok(())
    }

    /// The state with NaN in cells that take no part, where there are any.
    fn marked(&self) -> Result<Option<Vec<f64>>> {
        let Some(active) = &self.active else { return Ok(None) };
        let cells = self.state.iter().zip(active);
        let values = cells.map(|(&value, &active)| if active { value } else { f64::NAN });
        Ok(Some(memory::collect("the state with inactive cells marked", active.len(), values)?))
    }

    fn checkpoint(&mut self) -> Result<()> {
        let Some(path) = self.heat.section.checkpoint.clone() else { return Ok(()) };
        let taken = self.stepper.taken();
        if self.checked == Some(taken) {
            return Ok(());
        }
        self.fetch()?;
        let mut before = Vec::new();
        if self.heat.options().guess == isobar::options::StepGuess::Extrapolated {
            before = memory::collect("the state before", self.state.len(), std::iter::repeat_n(0.0, self.state.len()))?;
            if !self.stepper.state_before(&mut before)? {
                before.clear();
            }
        }
        let mut arrays = vec![("u".to_owned(), self.state.as_slice())];
        if !before.is_empty() {
            arrays.push(("before".to_owned(), before.as_slice()));
        }
        let facts = facts(self.heat, taken);
        let made = checkpoint::write(&path, &Checkpoint { shape: shape(self.heat), facts, arrays });
        made.map_err(|error| Failure::new(format!("heat.checkpoint: {error}")))?;
        self.checked = Some(taken);
        Ok(())
    }

    /// Everything that is written at the end.
    fn finish(mut self, device: &Device, console: &mut Console) -> Result<u8> {
        let is_interrupted = interrupt::requested();
        let is_complete = self.stepper.taken() == self.heat.steps.count();
        // A step that failed leaves a state worth going on from, with other options.
        self.checkpoint()?;
        self.frame()?;
        self.fetch()?;
        self.seconds.total = self.clock.elapsed().as_secs_f64();
        let description = self.stepper.description().clone();
        let error = self.heat.exact(&self.problem, self.time()).map(|exact| ErrorReport::new(&self.state, &exact));
        let copy = device.copy_bandwidth(self.heat.shape()).unwrap_or(f64::NAN);
        let bytes = description.traffic.iter().map(StepTraffic::bytes).sum::<f64>() * self.iterations as f64;
        let traffic = TrafficReport::new(bytes, self.seconds.solve, copy);
        self.say(is_complete, error, &traffic, console);
        let mut failed = Ok(());
        let mut note = |path: &Path, written: Result<()>, console: &mut Console| {
            if written.is_ok() && !files::is_standard_output(path) {
                console.line(entry("wrote", path.display()));
            }
            if failed.is_ok() {
                failed = written;
            }
        };
        if let Some(path) = &self.args.report {
            let report = self.report(&description, error, traffic, is_interrupted);
            note(path, super::write_report(path, &report), console);
        }
        let marked = self.marked()?;
        let values = marked.as_deref().unwrap_or(&self.state);
        let field = field(self.heat, values, &self.mesh, self.active.as_deref(), self.attributes());
        let is_series_only = self.frames.is_some()
            && self
                .args
                .output
                .as_deref()
                .is_some_and(|path| path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("zarr")));
        if let Some(frames) = self.frames.take() {
            let written = frames.finish(&field.attributes).map_err(|error| Failure::new(format!("--output {error}")));
            if let Some(path) = self.args.output.as_ref().filter(|_| is_series_only) {
                note(path, written, console);
            } else if let Some(path) = &self.args.output {
                note(&path.with_extension("pvd"), written, console);
            }
        }
        if let Some(path) = self.args.output.as_ref().filter(|_| !is_series_only) {
            let written = isobar_io::write(path, &field).map_err(|error| Failure::new(format!("--output {error}")));
            note(path, written, console);
        }
        if let Some(path) = &self.args.plot {
            let (name, shape) = (self.case.name(), self.heat.shape());
            let title = format!("{name} — {shape}, t = {}, {}", self.time(), description.preconditioner);
            let plot = StepsPlot { title: &title, steps: &self.steps, field: &field };
            let written = plot::steps(path, &plot).map_err(|error| Failure::new(format!("--plot {error}")));
            note(path, written, console);
        }
        failed?;
        Ok(match (is_interrupted, is_complete) {
            (_, true) => SUCCESS,
            (true, _) => INTERRUPTED,
            _ => NOT_CONVERGED,
        })
    }

    /// What came of it, for a person.
    fn say(&self, is_complete: bool, error: Option<ErrorReport>, traffic: &TrafficReport, console: &mut Console) {
        let (taken, total) = (self.stepper.taken(), self.heat.steps.count());
        let iterations = plural(self.iterations, "iteration");
        let mean = self.iterations as f64 / self.steps.len().max(1) as f64;
        let verdict = if is_complete { "at the end" } else { "NOT at the end" };
        console.line(entry(
            "outcome",
            format!("{verdict}: step {taken} of {total}, t = {}; {iterations}, {mean:.1} a step", self.time()),
        ));
        if let Some(outcome) = self.last.as_ref().filter(|outcome| !outcome.converged()) {
            let what = outcome.stop.to_string().replace('_', " ");
            let residual = outcome.relative_residual;
            console
                .line(entry("step", format!("{} NOT converged: {what}, relative residual {residual:.3e}", taken + 1)));
            if let Some(advice) = &outcome.advice {
                console.line(entry("try", advice));
            }
        }
        if let Some(error) = error {
            let ErrorReport { max, l2 } = error;
            console.line(entry(
                "error",
                format!("{max:.3e} at most, {l2:.3e} in the mean square, from the exact solution"),
            ));
        }
        let Seconds { setup, solve, download, total, .. } = self.seconds;
        console.line(entry(
            "time",
            format!(
                "{} a step; {} steps, {} setup, {} download; {} in all",
                Time(solve / self.steps.len().max(1) as f64),
                Time(solve),
                Time(setup),
                Time(download),
                Time(total)
            ),
        ));
        console.line(entry("traffic", summary::bandwidth(traffic)));
        if let (Some(path), false) = (&self.heat.section.checkpoint, is_complete) {
            console.line(entry("checkpoint", how_to_go_on(self.case, path, taken)));
        }
    }

    fn report(
        &self,
        description: &isobar::Description,
        error: Option<ErrorReport>,
        traffic: TrafficReport,
        is_interrupted: bool,
    ) -> Report {
        let shape = self.heat.shape();
        let is_complete = self.stepper.taken() == self.heat.steps.count();
        let outcome = OutcomeReport {
            iterations: self.iterations,
            stop: match &self.last {
                Some(outcome) if !outcome.converged() => outcome.stop,
                _ if is_interrupted && !is_complete => isobar::Stop::Interrupted,
                _ => isobar::Stop::Converged,
            },
            ..self.last.as_ref().map(OutcomeReport::from).unwrap_or_default()
        };
        Report {
            version: env!("CARGO_PKG_VERSION"),
            case: self.case.name(),
            problem: ProblemReport { kind: "heat", unknowns: shape.cells(), grid: [shape.nx, shape.ny, shape.nz] },
            device: DeviceReport::from(&description.device),
            solver: SolverReport {
                method: description.method.clone(),
                preconditioner: Some(description.preconditioner.clone()).filter(|name| name != "none"),
                precision: description.precision.to_string(),
            },
            outcome,
            error,
            checks: Checks::new(&self.state),
            steps: Some(self.steps.clone()),
            seconds: self.seconds,
            traffic,
            timing: None,
            kernels: Vec::new(),
        }
    }

    /// What travels with the frames.
    fn attributes(&self) -> BTreeMap<String, String> {
        let mut all = facts(self.heat, self.stepper.taken());
        all.insert("case".to_owned(), self.case.name());
        all.insert("problem".to_owned(), "heat".to_owned());
        all.insert("isobar_version".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        all
    }
}

fn shape(heat: &HeatCase) -> [usize; 3] {
    let shape = heat.shape();
    [shape.nz, shape.ny, shape.nx]
}

fn field<'f>(
    heat: &HeatCase,
    values: &'f [f64],
    mesh: &'f Mesh,
    active: Option<&'f [bool]>,
    attributes: BTreeMap<String, String>,
) -> Field<'f> {
    Field { name: "u", values, shape: shape(heat), mesh, active, attributes }
}

/// What a run must have in common with the one that it goes on from.
fn facts(heat: &HeatCase, taken: usize) -> BTreeMap<String, String> {
    let time = heat.steps.time(taken);
    [
        ("steps", taken.to_string()),
        ("time", format!("{time:e}")),
        ("dt", format!("{:e}", heat.steps.dt)),
        ("scheme", heat.section.scheme.name().to_owned()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

/// Sets the state of a checkpoint. Returns the steps that were taken to it.
fn restore(path: &Path, heat: &HeatCase, stepper: &mut TimeStepper) -> Result<usize> {
    let fail = |message: String| Failure::new(format!("--restart {}: {message}", path.display()));
    let found = checkpoint::read(path, shape(heat)).map_err(|error| Failure::new(format!("--restart {error}")))?;
    let fact = |key: &str| found.facts.get(key).map(String::as_str).unwrap_or_default();
    let steps: usize = fact("steps").parse().map_err(|_| fail("it does not say how many steps were taken".into()))?;
    let expected = facts(heat, steps);
    for key in ["dt", "scheme"] {
        if fact(key) != expected[key] {
            let (theirs, ours) = (fact(key), &expected[key]);
            return Err(fail(format!("it was made with heat.{key} = {theirs}, and the case has {ours}; use the same")));
        }
    }
    if steps >= heat.steps.count() {
        return Err(fail(format!(
            "its run is at its end, t = {}; raise heat.end_time to go on ({} steps were taken)",
            fact("time"),
            steps
        )));
    }
    if fact("time") != expected["time"] {
        let (theirs, ours) = (fact("time"), &expected["time"]);
        return Err(fail(format!(
            "its last step was a short one, to t = {theirs}, where the case has {ours}; go on from an earlier checkpoint"
        )));
    }
    let state = found.array("u").ok_or_else(|| fail("it holds no state".into()))?;
    stepper.restore(state, found.array("before").map(Vec::as_slice), steps)?;
    Ok(steps)
}

fn how_to_go_on(case: &Case, path: &Path, steps: usize) -> String {
    let (name, path) = (case.name(), path.display());
    format!(
        "{path}, after {}; go on with: isobar solve {name} --restart {path}, and the same --set",
        plural(steps, "step")
    )
}
