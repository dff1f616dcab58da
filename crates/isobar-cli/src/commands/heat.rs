//! `isobar solve` of a heat equation: a run of time steps with frames, checkpoints and a report.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use isobar::internals::traffic::StepTraffic;
use isobar::problem::Heat;
use isobar::{Device, Outcome, Ranks, TimeStepper, Tried};
use isobar_case::heat::{HeatCase, leaves_preconditioner, step_options};
use isobar_case::text::plural;
use isobar_case::{Case, Footprint, memory};
use isobar_io::{Field, Series};

use super::restart::{Restart, facts, how_to_go_on, shape};
use super::trial::describe;
use super::writer::{Common, Job, Writer};
use crate::args::SolveArgs;
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::plot::{self, StepsPlot};
use crate::progress::StepProgress;
use crate::summary::{Time, entry};
use crate::{INTERRUPTED, NOT_CONVERGED, SUCCESS, device, files, interrupt, ranks, summary};
use isobar_case::report::{
    Checks, DeviceReport, ErrorReport, OutcomeReport, ProblemReport, Report, Seconds, SolverReport, StepReport,
    TrafficReport, TrialReport,
};

/// Runs the steps of a case and writes what was asked for.
///
/// # Errors
/// Whatever keeps the run from starting, a step from being taken, or a file from being written.
pub(super) fn run(args: &SolveArgs, case: &Case, heat: &HeatCase) -> Result<u8> {
    let stream = check_files(args, case, heat)?;
    let device = device::open(&args.device)?;
    let mut console = Console::new(stream, args.quiet);
    let status = run_on(args, case, heat, &device, None, &mut console);
    console.finish()?;
    status
}

/// The same on a device, perhaps as one of several ranks. Rank 0 writes, and speaks for all.
///
/// # Errors
/// As [`run`].
pub(super) fn run_on(
    args: &SolveArgs,
    case: &Case,
    heat: &HeatCase,
    device: &Device,
    ranks: Option<&Ranks>,
    console: &mut Console,
) -> Result<u8> {
    let run = ranks::agree(ranks, Run::new(args, case, heat, device, ranks))?;
    run.open(console)?;
    run.take_steps(console)?.finish(device, console)
}

pub(super) fn check_files(args: &SolveArgs, case: &Case, heat: &HeatCase) -> Result<crate::console::Stream> {
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

/// A run on its way.
struct Run<'a> {
    args: &'a SolveArgs,
    case: &'a Case,
    heat: &'a HeatCase,
    ranks: Option<&'a Ranks>,
    problem: Heat,
    common: Arc<Common>,
    tried: Vec<Tried>,
    footprint: Footprint,
    stepper: TimeStepper,
    state: Vec<f64>,
    /// Steps after which `state` was fetched.
    fetched: Option<usize>,
    writer: Writer,
    /// Whether there are frames.
    has_frames: bool,
    /// The time of the last frame.
    framed: Option<usize>,
    steps: Vec<StepReport>,
    last: Option<Outcome>,
    clock: Instant,
    seconds: Seconds,
    iterations: usize,
    /// Steps that were tried with a greater length.
    rejected: usize,
    /// Whether every step gets its energy.
    wants_energy: bool,
    /// Steps when the last checkpoint was to be written.
    checked: Option<usize>,
}

impl<'a> Run<'a> {
    fn new(
        args: &'a SolveArgs,
        case: &'a Case,
        heat: &'a HeatCase,
        device: &Device,
        ranks: Option<&'a Ranks>,
    ) -> Result<Self> {
        let clock = Instant::now();
        case.require_memory(device)?;
        let (problem, mesh, initial) = heat.parts()?;
        let mut options = step_options(&case.solver, device);
        let restart = args.restart.as_deref().map(|path| Restart::read(path, heat)).transpose()?;
        let mut tried = Vec::new();
        if heat.wants_trial && leaves_preconditioner(&case.solver) {
            // A run that goes on does so with what it was begun with.
            if let Some(known) = restart.as_ref().and_then(Restart::preconditioner) {
                options.preconditioner = known;
            } else {
                let state = restart.as_ref().map_or(Ok(initial.as_slice()), Restart::state)?;
                tried = TimeStepper::trial(device, &problem, heat.options(), &options, state)?;
                options.preconditioner = tried.first().map_or(options.preconditioner, |best| best.preconditioner);
            }
        }
        let mut stepper = TimeStepper::new(device, problem.clone(), heat.options(), &options)?;
        let from = match &restart {
            None => {
                stepper.set(&initial)?;
                None
            }
            Some(restart) => Some(restart.restore(heat, &mut stepper)?),
        };
        drop(restart);
        let most = heat.steps.count() / heat.section.output_every.max(1) + 2;
        let frames = match &args.output {
            Some(path) if heat.section.output_every > 0 && Series::is_possible(path) && ranks::is_first(ranks) => {
                let begun = Series::begin(path, "u", shape(heat), &mesh, most);
                Some(begun.map_err(|error| Failure::new(format!("--output {error}")))?)
            }
            _ => None,
        };
        let active = problem.inactive().map(|inactive| inactive.into_iter().map(|inactive| !inactive).collect());
        let common = Arc::new(Common { mesh, active, shape: shape(heat) });
        let (has_frames, footprint) = (
            heat.section.output_every > 0 && args.output.as_deref().is_some_and(Series::is_possible),
            case.footprint_on(device)?,
        );
        Ok(Self {
            args,
            case,
            heat,
            ranks,
            problem,
            tried,
            footprint,
            state: initial,
            fetched: None,
            stepper,
            writer: Writer::start(Arc::clone(&common), frames, from)?,
            common,
            has_frames,
            framed: None,
            steps: Vec::new(),
            last: None,
            clock,
            seconds: Seconds { setup: clock.elapsed().as_secs_f64(), ..Seconds::default() },
            iterations: 0,
            rejected: 0,
            wants_energy: args.report.is_some() || args.plot.is_some(),
            checked: from,
        })
    }

    fn time(&self) -> f64 {
        self.stepper.moment().time
    }

    /// What is about to be done, for a person.
    fn open(&self, console: &mut Console) -> Result<()> {
        let mut description = self.stepper.description().clone();
        let bytes = [description.bytes as f64, description.coefficient_bytes as f64];
        let [vectors, coefficients] = ranks::sum(self.ranks, bytes)?;
        (description.bytes, description.coefficient_bytes) = (vectors as usize, coefficients as usize);
        console.line(summary::opening(self.case, &description, &self.footprint));
        if !self.tried.is_empty() {
            console.line(entry("trial", describe(&self.tried)));
        }
        if let Some(steps) = self.checked {
            console.line(entry("restart", format!("after {}, at t = {}", plural(steps, "step"), self.time())));
        }
        if let Some(path) = self.args.output.as_ref().filter(|_| self.heat.section.output_every > 0 && !self.has_frames)
        {
            let last = format!("{} holds the last state only; .zarr and .vti hold frames", path.display());
            console.line(entry("note", last));
        }
        Ok(())
    }

    fn take_steps(mut self, console: &mut Console) -> Result<Self> {
        self.frame()?;
        let total = self.heat.step_tolerance().is_none().then(|| self.heat.steps.count());
        let solving = interrupt::solving();
        let moment = self.stepper.moment();
        let mut progress = StepProgress::new(console, moment.steps, total, [moment.time, self.heat.steps.end]);
        let mut failure = None;
        while !self.stepper.is_finished() && ranks::flow(self.ranks).is_continue() {
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
                // What fails after it is not said; the last good one stays where it is, and where it leads to is.
                let _ = self.writer.finish();
                if let (Some(steps), Some(path)) = (self.writer.checked(), &self.heat.section.checkpoint) {
                    console.line(entry("checkpoint", how_to_go_on(self.case, path, steps)));
                }
                Err(error)
            }
        }
    }

    /// One step with its frame and its checkpoint. Returns whether it was taken.
    fn step(&mut self, progress: &mut StepProgress<'_>) -> Result<bool> {
        ranks::agree(self.ranks, self.writer.check())?;
        let clock = Instant::now();
        let step = ranks::together(self.ranks, self.stepper.step())?;
        self.seconds.solve += clock.elapsed().as_secs_f64();
        self.iterations += step.iterations;
        self.rejected += step.rejected;
        let wants_energy = self.wants_energy && step.is_taken;
        let energy = wants_energy.then(|| ranks::together(self.ranks, self.stepper.energy())).transpose()?;
        self.steps.push(StepReport {
            time: step.time,
            dt: step.dt,
            iterations: step.iterations,
            error: step.error,
            relative_residual: step.outcome.relative_residual,
            energy,
        });
        progress.observe(step.number, step.time, step.iterations);
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

    /// Brings the state to the host, once a step; on several ranks to that of rank 0.
    fn fetch(&mut self) -> Result<()> {
        if self.fetched == Some(self.stepper.taken()) {
            return Ok(());
        }
        let clock = Instant::now();
        ranks::together(self.ranks, self.stepper.state(&mut self.state))?;
        ranks::gather(self.ranks, &mut self.state, self.heat.shape())?;
        self.seconds.download += clock.elapsed().as_secs_f64();
        self.fetched = Some(self.stepper.taken());
        Ok(())
    }

    /// Writes the state as a frame, once a time.
    fn frame(&mut self) -> Result<()> {
        let taken = self.stepper.taken();
        if !self.has_frames || self.framed == Some(taken) {
            return Ok(());
        }
        self.fetch()?;
        self.framed = Some(taken);
        ranks::agree(self.ranks, if ranks::is_first(self.ranks) { self.write_frame() } else { Ok(()) })
    }

    fn write_frame(&self) -> Result<()> {
        let mut values = self.writer.copy(&self.state)?;
        if let Some(active) = &self.common.active {
            mark(&mut values, active);
        }
        self.writer.write(Job::Frame { time: self.time(), values, attributes: self.attributes() })
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
            let (what, count) = ("the state before", self.state.len());
            let room = memory::collect(what, count, std::iter::repeat_n(0.0, count)).map_err(Failure::from);
            before = ranks::agree(self.ranks, room)?;
            if ranks::together(self.ranks, self.stepper.state_before(&mut before))? {
                ranks::gather(self.ranks, &mut before, self.heat.shape())?;
            } else {
                before.clear();
            }
        }
        self.checked = Some(taken);
        let written = if ranks::is_first(self.ranks) { self.write_checkpoint(path, before) } else { Ok(()) };
        ranks::agree(self.ranks, written)
    }

    fn write_checkpoint(&self, path: PathBuf, before: Vec<f64>) -> Result<()> {
        let mut arrays = vec![("u".to_owned(), self.writer.copy(&self.state)?)];
        if !before.is_empty() {
            arrays.push(("before".to_owned(), before));
        }
        self.writer.write(Job::Checkpoint { path, steps: self.stepper.taken(), facts: self.facts(), arrays })
    }

    /// What a run that goes on must have in common with this one, and where it begins.
    fn facts(&self) -> BTreeMap<String, String> {
        let mut all = facts(self.heat, self.stepper.moment());
        all.insert("preconditioner".to_owned(), self.stepper.description().preconditioner.clone());
        all
    }

    /// Everything that is written at the end.
    fn finish(mut self, device: &Device, console: &mut Console) -> Result<u8> {
        let is_interrupted = ranks::flow(self.ranks).is_break();
        let is_complete = self.stepper.is_finished();
        // A step that failed leaves a state worth going on from, with other options.
        self.checkpoint()?;
        self.frame()?;
        self.fetch()?;
        let frames = ranks::agree(self.ranks, self.writer.finish())?;
        self.seconds.total = self.clock.elapsed().as_secs_f64();
        let description = self.stepper.description().clone();
        let error = self.heat.exact(&self.problem, self.time()).map(|exact| ErrorReport::new(&self.state, &exact));
        let copy = device.copy_bandwidth(self.heat.shape()).unwrap_or(f64::NAN);
        let bytes = description.traffic.iter().map(StepTraffic::bytes).sum::<f64>() * self.iterations as f64;
        let [bytes, copy] = ranks::sum(self.ranks, [bytes, copy])?;
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
        if !ranks::is_first(self.ranks) {
            return Ok(SUCCESS);
        }
        if let Some(path) = &self.args.report {
            let report = self.report(&description, error, traffic, is_interrupted);
            note(path, super::write_report(path, &report), console);
        }
        let common = Arc::clone(&self.common);
        let attributes = self.attributes();
        if let Some(active) = &common.active {
            mark(&mut self.state, active);
        }
        let Common { mesh, active, shape } = &*common;
        let field =
            Field { name: "u", values: &self.state, shape: *shape, mesh, active: active.as_deref(), attributes };
        let is_series_only = frames.is_some()
            && self
                .args
                .output
                .as_deref()
                .is_some_and(|path| path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("zarr")));
        if let Some(frames) = frames {
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
        let taken = self.stepper.taken();
        let total = match self.heat.step_tolerance() {
            None => format!("step {taken} of {}", self.heat.steps.count()),
            Some(_) => format!("{}, {} more tried", plural(taken, "step"), self.rejected),
        };
        let iterations = plural(self.iterations, "iteration");
        let mean = self.iterations as f64 / self.steps.len().max(1) as f64;
        let verdict = if is_complete { "at the end" } else { "NOT at the end" };
        console
            .line(entry("outcome", format!("{verdict}: {total}, t = {}; {iterations}, {mean:.1} a step", self.time())));
        let errors = self.steps.iter().filter_map(|step| step.error);
        if let Some(largest) = errors.clone().max_by(f64::total_cmp) {
            let [least, most] =
                self.steps.iter().fold([f64::INFINITY, 0.0_f64], |[a, b], step| [a.min(step.dt), b.max(step.dt)]);
            let sum: f64 = errors.sum();
            let text =
                format!("{least:.3e} to {most:.3e} long; estimated errors {largest:.1e} at most, {sum:.1e} in all");
            console.line(entry("steps", text));
        }
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
        let is_complete = self.stepper.is_finished();
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
                trial: self.tried.iter().map(TrialReport::from).collect(),
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
        let mut all = facts(self.heat, self.stepper.moment());
        all.insert("case".to_owned(), self.case.name());
        all.insert("problem".to_owned(), "heat".to_owned());
        all.insert("isobar_version".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        all
    }
}

/// Puts NaN in cells that take no part.
fn mark(values: &mut [f64], active: &[bool]) {
    values.iter_mut().zip(active).filter(|(_, active)| !**active).for_each(|(value, _)| *value = f64::NAN);
}
