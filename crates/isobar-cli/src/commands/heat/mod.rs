//! `isobar solve` of a heat equation: time steps with frames, checkpoints and a report.

mod finish;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use isobar::problem::Heat;
use isobar::{Device, Outcome, Ranks, TimeStepper};
use isobar_case::heat::{HeatCase, Parts};
use isobar_case::text::plural;
use isobar_case::{Case, Fingerprint, Footprint, memory};
use isobar_io::Series;

use super::restart::{Restart, facts, how_to_go_on, shape};
use super::writer::{Common, Job, Writer};
use crate::progress::StepProgress;
use crate::summary::entry;
use crate::{Console, Failure, Result, SolveArgs, compiling, device, files, interrupt, ranks, summary};
use isobar_case::report::{Seconds, StepReport};

/// Runs the steps of a case and writes the requested files.
///
/// # Errors
/// The run cannot start, a step fails, or a file cannot be written.
pub(super) fn run(args: &SolveArgs, case: &Case, heat: &HeatCase) -> Result<u8> {
    let stream = files::check_solve(args, case)?;
    let device = device::open(&args.device)?;
    let mut console = Console::new(stream, args.quiet);
    let status = run_on(args, case, heat, &device, None, &mut console);
    console.finish()?;
    status
}

/// Runs the steps on a device, possibly as one of several ranks. Rank 0 writes the files and prints the summary.
pub(super) fn run_on(
    args: &SolveArgs,
    case: &Case,
    heat: &HeatCase,
    device: &Device,
    ranks: Option<&Ranks>,
    console: &mut Console,
) -> Result<u8> {
    let run = ranks::agree(ranks, compiling::watch(console, || Run::new(args, case, heat, device, ranks)))?;
    run.open(console)?;
    run.take_steps(console)?.finish(device, console)
}

/// The fraction of a time by which those of the same state may differ.
const SAME_FRAME: f64 = 1e-12;

/// The state of a run.
struct Run<'a> {
    args: &'a SolveArgs,
    case: &'a Case,
    heat: &'a HeatCase,
    ranks: Option<&'a Ranks>,
    problem: Heat,
    fingerprint: Fingerprint,
    common: Arc<Common>,
    /// Notes of preconditioners that were replaced because they were slow.
    replaced: Vec<String>,
    footprint: Footprint,
    stepper: TimeStepper,
    state: Vec<f64>,
    /// The number of steps when `state` was last copied from the device.
    fetched: Option<usize>,
    writer: Writer,
    /// Whether frames are written.
    has_frames: bool,
    /// The numbers of frames of an earlier run that are kept, and that are not; on rank 0.
    kept: [usize; 2],
    /// The number of steps at the last frame.
    framed: Option<usize>,
    steps: Vec<StepReport>,
    last: Option<Outcome>,
    clock: Instant,
    seconds: Seconds,
    iterations: usize,
    /// Number of rejected steps.
    rejected: usize,
    /// Whether the energy is computed at every step.
    wants_energy: bool,
    /// The number of steps at the last checkpoint.
    checked: Option<usize>,
    /// The first file of the run that could not be written, which ends it.
    unwritten: Option<Failure>,
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
        // Reads the files that one rank alone may be unable to read, before anything that all ranks do together.
        let read = || {
            case.require_memory(device)?;
            let restart = args.restart.as_deref().map(|path| Restart::read(path, case, heat)).transpose()?;
            Ok((device.enter(|| heat.parts())?, restart))
        };
        let (Parts { heat: problem, fingerprint, mesh, initial }, restart) = ranks::agree(ranks, read())?;
        let mut options = case.solver.clone();
        if let Some(restart) = restart.as_ref().filter(|_| options.leaves_step_preconditioner()) {
            restart.take_preconditioner(&mut options);
        }
        let mut stepper = TimeStepper::new(device, problem.clone(), heat.options(), &options)?;
        let from = match &restart {
            None => {
                stepper.set(&initial)?;
                None
            }
            Some(restart) => Some(restart.restore(heat, &fingerprint, &mut stepper)?),
        };
        drop(restart);
        let frames = match &args.output {
            Some(path) if heat.section.output_every > 0 && Series::is_possible(path) && ranks::is_first(ranks) => {
                let shape = shape(heat);
                let begun = match from {
                    None => Series::begin(path, "u", shape, &mesh),
                    Some(_) => {
                        // The end of a run differs from a multiple of dt by rounding.
                        let until = stepper.moment().time * (1.0 + SAME_FRAME);
                        Series::resume(path, "u", shape, &mesh, until)
                    }
                };
                Some(begun.map_err(|error| Failure::new(format!("--output {error}")))?)
            }
            _ => None,
        };
        let kept = frames.as_ref().map_or([0, 0], Series::kept);
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
            fingerprint,
            replaced: Vec::new(),
            footprint,
            state: initial,
            fetched: None,
            stepper,
            writer: Writer::start(Arc::clone(&common), frames, from)?,
            common,
            has_frames,
            kept,
            framed: None,
            steps: Vec::new(),
            last: None,
            clock,
            seconds: Seconds { setup: clock.elapsed().as_secs_f64(), ..Seconds::default() },
            iterations: 0,
            rejected: 0,
            wants_energy: args.report.is_some() || args.plot.is_some(),
            checked: from,
            unwritten: None,
        })
    }

    fn time(&self) -> f64 {
        self.stepper.moment().time
    }

    /// Prints the problem, the device and the solver before the first step.
    fn open(&self, console: &mut Console) -> Result<()> {
        let mut description = self.stepper.description().clone();
        description.notes.extend_from_slice(self.stepper.unused_options());
        let bytes = [description.bytes as f64, description.coefficient_bytes as f64];
        let [vectors, coefficients] = ranks::sum(self.ranks, bytes)?;
        (description.bytes, description.coefficient_bytes) = (vectors as usize, coefficients as usize);
        console.line(summary::opening(self.case, &description, &self.footprint));
        if let Some(steps) = self.checked {
            console.line(entry(
                "restart",
                format!("after {}, at t = {}", plural(steps, "step"), summary::ten_digits(self.time())),
            ));
        }
        if let Some(path) = self.args.output.as_ref().filter(|_| self.kept != [0, 0]) {
            let ([kept, dropped], path) = (self.kept, path.display());
            let text = format!("{path}: {} up to this time kept, {dropped} later dropped", plural(kept, "frame"));
            console.line(entry("frames", text));
        }
        let has_earlier = self.checked.is_none() || !self.has_frames || self.kept != [0, 0];
        if let Some(path) = self.args.output.as_ref().filter(|_| !has_earlier) {
            let text = format!(
                "{}: has none of the earlier run, and begins at t = {}",
                path.display(),
                summary::ten_digits(self.time())
            );
            console.line(entry("frames", text));
        }
        if let Some(path) = self.args.output.as_ref().filter(|_| self.heat.section.output_every > 0 && !self.has_frames)
        {
            let last = format!("{} will hold the last state only; use .zarr, .vti or .vtr for frames", path.display());
            console.line(entry("note", last));
        }
        Ok(())
    }

    fn take_steps(mut self, console: &mut Console) -> Result<Self> {
        // If a run continues its frames, it begins with the next one that is due, as an uninterrupted run does.
        let [kept] = ranks::sum(self.ranks, [self.kept[0] as f64])?;
        if kept > 0.0 {
            self.framed = self.checked;
        }
        self.frame()?;
        let total = self.heat.step_tolerance().is_none().then(|| self.heat.steps.count());
        let solving = interrupt::solving();
        let moment = self.stepper.moment();
        let mut progress = StepProgress::new(console, moment.steps, total, [moment.time, self.heat.steps.end]);
        let mut failure = None;
        while !self.stepper.is_finished() && interrupt::flow_of_all(self.ranks).is_continue() {
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
                // A failure here is not reported; the last complete checkpoint remains, and its path is printed.
                let _ = self.writer.finish();
                if let (Some(steps), Some(path)) = (self.writer.checked(), &self.heat.section.checkpoint) {
                    console.line(entry("checkpoint", how_to_go_on(self.case, path, steps)));
                }
                Err(error)
            }
        }
    }

    /// Takes one step with its frame and its checkpoint. Returns whether the run continues: the step was accepted, and files were written.
    fn step(&mut self, progress: &mut StepProgress<'_>) -> Result<bool> {
        let clock = Instant::now();
        let before = self.stepper.description().preconditioner.clone();
        let step = ranks::together(self.ranks, self.stepper.step())?;
        self.seconds.solve += clock.elapsed().as_secs_f64();
        let now = &self.stepper.description().preconditioner;
        if *now != before {
            let before = if before == "none" { "no preconditioner" } else { &before };
            self.replaced.push(format!("{now} instead of {before} from step {} on", step.number));
        }
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
        let frame = if is_due(self.heat.section.output_every) { self.frame() } else { Ok(()) };
        let checkpoint = if is_due(self.heat.section.checkpoint_every) { self.checkpoint() } else { Ok(()) };
        self.unwritten = frame.and(checkpoint).and(ranks::agree(self.ranks, self.writer.check())).err();
        Ok(self.unwritten.is_none())
    }

    /// Copies the state to the host, once per step; on several ranks to that of rank 0.
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

    /// Writes the state as a frame, once per time.
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

    /// Returns the facts that a restarted run must have in common with this one, and its position.
    fn facts(&self) -> BTreeMap<String, String> {
        let mut all = facts(self.heat, self.stepper.moment());
        let description = self.stepper.description();
        let is_direct = description.method == "direct";
        let preconditioner = if is_direct { &description.method } else { &description.preconditioner };
        all.insert("preconditioner".to_owned(), preconditioner.clone());
        all.extend(self.fingerprint.parts().map(|(key, number)| (key.to_owned(), number)));
        all
    }

    /// Returns the attributes of the frames.
    fn attributes(&self) -> BTreeMap<String, String> {
        let mut all = facts(self.heat, self.stepper.moment());
        all.insert("case".to_owned(), self.case.name());
        all.insert("problem".to_owned(), "heat".to_owned());
        all.insert("isobar_version".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        all
    }
}

/// Puts NaN in inactive cells.
fn mark(values: &mut [f64], active: &[bool]) {
    values.iter_mut().zip(active).filter(|(_, active)| !**active).for_each(|(value, _)| *value = f64::NAN);
}
