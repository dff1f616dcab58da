//! What a run goes on from: facts that checkpoints hold, and a checkpoint that is read.

use std::collections::BTreeMap;
use std::path::Path;

use isobar::options::Preconditioner;
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

/// What a run must have in common with the one that it goes on from, and where it is.
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

/// A checkpoint that a run goes on from.
pub(super) struct Restart<'p> {
    path: &'p Path,
    found: checkpoint::Checkpoint<Vec<f64>>,
}

impl<'p> Restart<'p> {
    /// Reads it; its grid must be the case's.
    pub(super) fn read(path: &'p Path, heat: &HeatCase) -> Result<Self> {
        let found = checkpoint::read(path, shape(heat)).map_err(|error| Failure::new(format!("--restart {error}")))?;
        Ok(Self { path, found })
    }

    fn failure(&self, message: impl std::fmt::Display) -> Failure {
        Failure::new(format!("--restart {}: {message}", self.path.display()))
    }

    fn fact(&self, key: &str) -> &str {
        self.found.facts.get(key).map(String::as_str).unwrap_or_default()
    }

    fn number<T: std::str::FromStr>(&self, key: &str) -> Result<T> {
        self.fact(key).parse().map_err(|_| self.failure(format!("it does not say its {}", key.replace('_', " "))))
    }

    /// The state that it holds.
    pub(super) fn state(&self) -> Result<&[f64]> {
        self.found.array("u").map(Vec::as_slice).ok_or_else(|| self.failure("it holds no state"))
    }

    /// What it was made with, of those that can be found by trying.
    pub(super) fn preconditioner(&self) -> Option<Preconditioner> {
        let name = self.fact("preconditioner");
        isobar::internals::stepping::trial::CANDIDATES.into_iter().find(|known| known.name() == name)
    }

    /// Fails where the problem is another one than that of the run that it is of.
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
            "it was made with another {others}; use the same, or leave out --restart and begin a run of this problem from its state \
             with --set 'heat.initial={{ file = {path:?} }}'"
        )))
    }

    /// Sets the state. Returns the steps that were taken to it.
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
                let message = format!("it was made with heat.{key} = {theirs}, and the case has {ours}; use the same");
                return Err(self.failure(message));
            }
        }
        self.require_problem(fingerprint)?;
        let is_over =
            if heat.step_tolerance().is_some() { time >= heat.steps.end } else { steps >= heat.steps.count() };
        if is_over {
            return Err(self.failure(format!(
                "its run is at its end, t = {}; raise heat.end_time to go on ({} were taken)",
                self.fact("time"),
                plural(steps, "step")
            )));
        }
        if self.fact("time") != expected["time"] {
            let (theirs, ours) = (self.fact("time"), &expected["time"]);
            return Err(self.failure(format!(
                "its last step was a short one, to t = {theirs}, where the case has {ours}; go on from an earlier checkpoint"
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

/// For a person.
pub(super) fn how_to_go_on(case: &Case, path: &Path, steps: usize) -> String {
    let (name, path) = (case.name(), path.display());
    format!(
        "{path}, after {}; go on with: isobar solve {name} --restart {path}, and the same --set",
        plural(steps, "step")
    )
}
