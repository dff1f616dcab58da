//! Restarts from checkpoints.

use std::collections::BTreeMap;
use std::path::Path;

use isobar::options::{Method, Preconditioner, SolverOptions};
use isobar::{Moment, TimeStepper};
use isobar_case::heat::HeatCase;
use isobar_case::text::plural;
use isobar_case::{Case, Fingerprint};
use isobar_io::checkpoint;

use crate::failure::{Failure, Result};

/// (nz, ny, nx)
pub(super) fn shape(heat: &HeatCase) -> [usize; 3] {
    let shape = heat.shape();
    [shape.nz, shape.ny, shape.nx]
}

/// Returns the facts that a run must have in common with the one that wrote its checkpoint, and its position in time.
pub(super) fn facts(heat: &HeatCase, moment: Moment) -> BTreeMap<String, String> {
    let Moment { steps, time, dt } = moment;
    let mut all = vec![
        ("steps", steps.to_string()),
        ("time", format!("{time:e}")),
        ("scheme", heat.section.scheme.name().to_owned()),
    ];
    match heat.step_tolerance() {
        None => all.push(("dt", format!("{:e}", heat.steps.dt))),
        Some(error) => {
            all.extend([
                ("dt", "auto".to_owned()),
                ("step_tolerance", format!("{error:e}")),
                ("next_dt", format!("{dt:e}")),
            ]);
        }
    }
    all.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The fraction of a step by which times of the same state may differ.
const SAME_TIME: f64 = 1e-6;

/// A checkpoint from which a run continues.
pub(super) struct Restart<'p> {
    path: &'p Path,
    found: checkpoint::Checkpoint<Vec<f64>>,
}

impl<'p> Restart<'p> {
    /// Reads the checkpoint; its grid must be the case's.
    pub(super) fn read(path: &'p Path, case: &Case, heat: &HeatCase) -> Result<Self> {
        let found = checkpoint::read(path, shape(heat)).map_err(|error| {
            // Unlike heat.checkpoint, the path is relative to the working directory.
            let beside = case.path.parent().map(|folder| folder.join(path));
            match beside.filter(|beside| !path.exists() && beside.is_file()) {
                Some(beside) => Failure::new(format!(
                    "--restart {}: no such file; heat.checkpoint is relative to the folder of the case: use --restart {}",
                    path.display(),
                    beside.display()
                )),
                None => Failure::new(format!("--restart {error}")),
            }
        })?;
        Ok(Self { path, found })
    }

    fn failure(&self, message: impl std::fmt::Display) -> Failure {
        Failure::new(format!("--restart {}: {message}", self.path.display()))
    }

    fn fact(&self, key: &str) -> &str {
        self.found.facts.get(key).map(String::as_str).unwrap_or_default()
    }

    fn number<T: std::str::FromStr>(&self, key: &str) -> Result<T> {
        self.fact(key)
            .parse()
            .map_err(|_| self.failure(format!("its {} is missing; use an earlier checkpoint", key.replace('_', " "))))
    }

    /// Returns its state.
    fn state(&self) -> Result<&[f64]> {
        self.found
            .array("u")
            .map(Vec::as_slice)
            .ok_or_else(|| self.failure("it contains no state u; use a checkpoint that `isobar solve` wrote"))
    }

    /// Takes multigrid, if the run has come to that; all other runs begin as if nothing had been decided.
    pub(super) fn take_preconditioner(&self, options: &mut SolverOptions) {
        if self.fact("preconditioner") == Preconditioner::Multigrid.name() {
            (options.method, options.preconditioner) = (Method::Cg, Preconditioner::Multigrid);
        }
    }

    /// Fails if the checkpoint was written for another problem.
    fn require_problem(&self, fingerprint: &Fingerprint) -> Result<()> {
        let others: Vec<&str> =
            fingerprint.parts().filter(|(key, ours)| self.fact(key) != ours).map(|(key, _)| key).collect();
        if others.is_empty() {
            return Ok(());
        }
        let others = others.join(" and another ");
        // Paths in a case are relative to its folder.
        let path = std::path::absolute(self.path).unwrap_or_else(|_| self.path.to_path_buf());
        Err(self.failure(format!(
            "it was written with another {others}; use the same, or remove --restart and begin a new run from its state \
             with --set 'heat.initial={{ file = {path:?} }}'"
        )))
    }

    /// Restores the state. Returns the number of steps taken before it.
    pub(super) fn restore(
        &self,
        heat: &HeatCase,
        fingerprint: &Fingerprint,
        stepper: &mut TimeStepper,
    ) -> Result<usize> {
        let steps: usize = self.number("steps")?;
        let time = if heat.step_tolerance().is_some() { self.number("time")? } else { heat.steps.time(steps) };
        let mut moment = Moment { steps, time, dt: f64::NAN };
        let expected = facts(heat, moment);
        for key in ["dt", "step_tolerance", "scheme"] {
            let (theirs, ours) = (self.fact(key), expected.get(key).map(String::as_str).unwrap_or_default());
            if theirs != ours {
                let [theirs, ours] = [theirs, ours].map(|value| if value.is_empty() { "none" } else { value });
                let message =
                    format!("it was written with heat.{key} = {theirs}, and the case has {ours}; use the same");
                return Err(self.failure(message));
            }
        }
        self.require_problem(fingerprint)?;
        let is_over =
            if heat.step_tolerance().is_some() { time >= heat.steps.end } else { steps >= heat.steps.count() };
        if is_over {
            return Err(self.failure(format!(
                "its run is complete at t = {}; raise heat.end_time to continue (after {})",
                self.fact("time"),
                plural(steps, "step")
            )));
        }
        // The end of the run that wrote it differs from a multiple of dt by rounding.
        let (theirs, ours): (f64, f64) = (self.number("time")?, time);
        if (theirs - ours).abs() > SAME_TIME * heat.steps.dt {
            return Err(self.failure(format!(
                "its last step was shortened to end at t = {theirs:e}, where the case has {ours:e}; continue from an earlier checkpoint"
            )));
        }
        stepper.restore(self.state()?, self.found.array("before").map(Vec::as_slice), steps)?;
        if heat.step_tolerance().is_some() {
            moment.dt = self.number("next_dt")?;
            stepper.resume(moment);
        }
        Ok(steps)
    }
}

/// Returns the command that continues the run.
pub(super) fn how_to_go_on(case: &Case, path: &Path, steps: usize) -> String {
    let (name, path) = (case.name(), path.display());
    format!(
        "{path}, after {}; continue with: isobar solve {name} --restart {path}, and the same --set and --output",
        plural(steps, "step")
    )
}
