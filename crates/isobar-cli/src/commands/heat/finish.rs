//! The end of a run: the outputs and the summary.

use std::path::Path;
use std::sync::Arc;

use isobar::Device;
use isobar::internals::traffic::StepTraffic;
use isobar_case::report::{Checks, ErrorReport, OutcomeReport, ProblemReport, Report, Seconds, TrafficReport};
use isobar_case::text::plural;
use isobar_io::Field;

use super::super::restart::how_to_go_on;
use super::super::writer::Common;
use super::{Run, mark};
use crate::plot::{self, StepsPlot};
use crate::summary::entry;
use crate::{Console, Failure, INTERRUPTED, NOT_CONVERGED, Result, SUCCESS, Time, files, interrupt, ranks, summary};

impl Run<'_> {
    /// Writes everything that is due at the end, the rest of it too if a file cannot be written.
    pub(super) fn finish(mut self, device: &Device, console: &mut Console) -> Result<u8> {
        let is_interrupted = interrupt::flow_of_all(self.ranks).is_break();
        let is_complete = self.stepper.is_finished();
        // The state before a failed step allows a restart with other options.
        let (checkpoint, frame) = (self.checkpoint(), self.frame());
        self.fetch()?;
        let (frames, written) = self.writer.finish();
        let is_cut_short = is_interrupted || self.unwritten.is_some();
        let failed = self.unwritten.take().map_or(Ok(()), Err);
        let mut failed = failed.and(checkpoint).and(frame).and(ranks::agree(self.ranks, written));
        self.seconds.total = self.clock.elapsed().as_secs_f64();
        let description = self.stepper.description().clone();
        let error = self.heat.exact(&self.problem, self.time()).map(|exact| ErrorReport::new(&self.state, &exact));
        let is_timed = summary::is_worth_a_copy(self.ranks.is_some(), self.seconds.total);
        let copy = is_timed.then(|| device.copy_bandwidth(self.heat.shape()).ok()).flatten().unwrap_or(f64::NAN);
        let bytes = description.traffic.iter().map(StepTraffic::bytes).sum::<f64>() * self.iterations as f64;
        let [bytes, copy] = ranks::sum(self.ranks, [bytes, copy])?;
        let traffic = TrafficReport::new(bytes, self.seconds.solve, copy);
        self.say(is_complete, error, &traffic, console);
        let mut note = |path: &Path, written: Result<()>, console: &mut Console| {
            if written.is_ok() && !files::is_standard_output(path) {
                console.line(entry("wrote", path.display()));
            }
            if failed.is_ok() {
                failed = written;
            }
        };
        if !ranks::is_first(self.ranks) {
            return failed.map(|()| SUCCESS);
        }
        if let Some(path) = &self.args.report {
            let report = self.report(&description, error, traffic, is_cut_short);
            note(path, files::write_report(path, &report), console);
        }
        let common = Arc::clone(&self.common);
        let attributes = self.attributes();
        if let Some(active) = &common.active {
            mark(&mut self.state, active);
        }
        let Common { mesh, active, shape } = &*common;
        let field =
            Field { name: "u", values: &self.state, shape: *shape, mesh, active: active.as_deref(), attributes };
        let is_series_only = self.has_frames
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
            let solver = format!("{}, {}", description.method, description.precision);
            let title = format!("{name} — {shape}, t = {}, {solver}", summary::ten_digits(self.time()));
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

    /// Prints the summary of the run.
    fn say(&self, is_complete: bool, error: Option<ErrorReport>, traffic: &TrafficReport, console: &mut Console) {
        let taken = self.stepper.taken();
        let total = match self.heat.step_tolerance() {
            None => format!("step {taken} of {}", self.heat.steps.count()),
            Some(_) => format!("{}, {} more rejected", plural(taken, "step"), self.rejected),
        };
        let iterations = plural(self.iterations, "iteration");
        let mean = self.iterations as f64 / self.steps.len().max(1) as f64;
        let verdict = if is_complete { "at the end" } else { "NOT complete" };
        console.line(entry(
            "outcome",
            format!("{verdict}: {total}, t = {}; {iterations}, {mean:.1} a step", summary::ten_digits(self.time())),
        ));
        self.replaced.iter().for_each(|note| console.line(entry("note", note)));
        let errors = self.steps.iter().filter_map(|step| step.error);
        if let Some(largest) = errors.clone().max_by(f64::total_cmp) {
            let [least, most] =
                self.steps.iter().fold([f64::INFINITY, 0.0_f64], |[a, b], step| [a.min(step.dt), b.max(step.dt)]);
            let sum: f64 = errors.sum();
            let text = format!("{least:.3e} to {most:.3e} long; largest estimated error {largest:.1e}, sum {sum:.1e}");
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
                format!("largest difference from the exact solution {max:.3e}, root mean square {l2:.3e}"),
            ));
        }
        let Seconds { setup, solve, download, total, .. } = self.seconds;
        console.line(entry(
            "time",
            format!(
                "{} per step; {} steps, {} setup, {} download; {} total",
                Time(solve / self.steps.len().max(1) as f64),
                Time(solve),
                Time(setup),
                Time(download),
                Time(total)
            ),
        ));
        console.line(entry("traffic", summary::bandwidth(traffic)));
        // One that failed leaves an earlier one, or none.
        if let (Some(path), Some(steps)) = (&self.heat.section.checkpoint, self.writer.checked()) {
            if !is_complete {
                console.line(entry("checkpoint", how_to_go_on(self.case, path, steps)));
            } else if steps == taken {
                console.line(entry("checkpoint", path.display()));
            }
        }
    }

    fn report(
        &self,
        description: &isobar::Description,
        error: Option<ErrorReport>,
        traffic: TrafficReport,
        is_cut_short: bool,
    ) -> Report {
        let is_complete = self.stepper.is_finished();
        let last = self.last.as_ref().map(OutcomeReport::from).unwrap_or_default();
        let outcome = OutcomeReport {
            iterations: self.iterations,
            notes: self.replaced.iter().chain(&last.notes).cloned().collect(),
            stop: match &self.last {
                Some(outcome) if !outcome.converged() => outcome.stop,
                _ if is_cut_short && !is_complete => isobar::Stop::Interrupted,
                _ => isobar::Stop::Converged,
            },
            ..last
        };
        let (problem, checks) = (ProblemReport::new("heat", self.heat.shape()), Checks::new(&self.state));
        let report = Report::of_solve(self.case.name(), problem, description, outcome, checks, self.seconds, traffic);
        Report { error, steps: Some(self.steps.clone()), ..report }
    }
}
