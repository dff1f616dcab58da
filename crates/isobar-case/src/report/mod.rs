//! The machine-readable report of a run. Its keys are part of the command's interface.

mod measured;
mod outcome;

use std::collections::BTreeMap;

use isobar::internals::backend::DeviceInfo;
use isobar::internals::backend::Shares;
use isobar::{Description, Shape};
use serde::Serialize;

pub use measured::{Checks, ErrorReport, KernelReport, Seconds, SetupReport, TrafficReport};
pub use outcome::{BatchReport, OutcomeReport, has_solution};

/// The report of `--report`; numbers that are not finite become null.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The version of isobar that wrote it.
    pub version: &'static str,
    /// The case file, as the user named it.
    pub case: String,
    /// The kind of problem and its size.
    pub problem: ProblemReport,
    /// The device that solved it.
    pub device: DeviceReport,
    /// The method after all automatic choices.
    pub solver: SolverReport,
    /// The end of the iteration.
    pub outcome: OutcomeReport,
    /// The difference from the exact solution, if known.
    pub error: Option<ErrorReport>,
    /// Sums that identify the solution; nulls if there is none.
    pub checks: Checks,
    /// Total outflow through each side that is neither closed nor periodic, by name, and through `wells`; only for diffusion in cells.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub flux: BTreeMap<&'static str, f64>,
    /// All time steps; only for heat equations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<StepReport>>,
    /// Wall-clock time of the run.
    pub seconds: Seconds,
    /// Memory traffic of the iteration.
    pub traffic: TrafficReport,
    /// Seconds of making and updating a solver; only for `bench`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timing: Option<SetupReport>,
    /// Every fused step of the solve, timed alone; only for `bench`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<KernelReport>,
}

impl Report {
    /// Makes the report of a linear solve.
    pub fn of_solve(
        case: String,
        problem: ProblemReport,
        description: &Description,
        outcome: impl Into<OutcomeReport>,
        checks: Checks,
        seconds: Seconds,
        traffic: TrafficReport,
    ) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            case,
            problem,
            device: DeviceReport::from(description),
            solver: SolverReport {
                method: description.method.clone(),
                preconditioner: Some(description.preconditioner.clone()).filter(|name| name != "none"),
                precision: description.precision.to_string(),
            },
            outcome: outcome.into(),
            error: None,
            checks,
            flux: BTreeMap::new(),
            steps: None,
            seconds,
            traffic,
            timing: None,
            kernels: Vec::new(),
        }
    }
}

/// The problem.
#[derive(Clone, Debug, Serialize)]
pub struct ProblemReport {
    /// The kind of the problem, as in the case file.
    pub kind: &'static str,
    /// Rows of the matrix.
    pub unknowns: usize,
    /// [nx, ny, nz]
    pub grid: [usize; 3],
}

impl ProblemReport {
    /// Describes a problem of this kind on this grid.
    pub fn new(kind: &'static str, shape: Shape) -> Self {
        Self { kind, unknowns: shape.cells(), grid: shape.extents() }
    }
}

/// The device that solved the problem.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceReport {
    /// The kind, "cpu" or "cuda", and name of the devices, and how many devices, ranks and threads worked together.
    #[serde(flatten)]
    pub info: DeviceInfo,
    /// The division of the grid's rows among ranks: the number of slabs, and the fewest and the most rows of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<Shares>,
}

impl From<&Description> for DeviceReport {
    fn from(description: &Description) -> Self {
        Self { info: description.device.clone(), shares: description.shares }
    }
}

/// A time step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StepReport {
    /// The time at its end.
    pub time: f64,
    /// The length of the step.
    pub dt: f64,
    /// Iterations of its solves.
    pub iterations: usize,
    /// The true relative residual in double precision.
    pub relative_residual: f64,
    /// The estimate of its error relative to ‖u‖, with automatic step lengths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// The energy ½ uᵀKu − sᵀu after it.
    pub energy: Option<f64>,
}

/// The solver's method.
#[derive(Clone, Debug, Serialize)]
pub struct SolverReport {
    /// The outer iteration.
    pub method: String,
    /// The preconditioner; null if the method uses none.
    pub preconditioner: Option<String>,
    /// "f64", "f32" or "mixed"
    pub precision: String,
}

/// Formats a report as JSON.
pub fn to_json<T: Serialize>(report: &T) -> String {
    // Serialising plain structs of numbers and strings cannot fail.
    let mut text = serde_json::to_string_pretty(report).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use isobar::{Setup, Stop};

    use super::*;

    fn report() -> Report {
        Report {
            version: "0",
            case: "x.toml".into(),
            problem: ProblemReport { kind: "helmholtz", unknowns: 8, grid: [2, 2, 2] },
            device: DeviceReport {
                info: DeviceInfo { kind: "cpu", name: "a \"CPU\"".into(), count: 1, ranks: 1, threads: 2 },
                shares: None,
            },
            solver: SolverReport { method: "multigrid".into(), preconditioner: None, precision: "f64".into() },
            outcome: OutcomeReport {
                stop: Stop::MaxIterations,
                iterations: 3,
                relative_residual: f64::NAN,
                history: vec![1.0, f64::INFINITY],
                ..OutcomeReport::default()
            },
            error: None,
            checks: Checks::new(&[3.0, 4.0]),
            flux: BTreeMap::new(),
            steps: None,
            seconds: Seconds::default(),
            traffic: TrafficReport::new(2e9, 1.0, 4e9),
            timing: None,
            kernels: Vec::new(),
        }
    }

    #[test]
    fn the_keys_are_those_promised() {
        let json: serde_json::Value = serde_json::from_str(&to_json(&report())).unwrap();
        let keys = |value: &serde_json::Value| {
            let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
            keys.sort();
            keys.join(" ")
        };
        assert_eq!(keys(&json), "case checks device error outcome problem seconds solver traffic version");
        assert_eq!(keys(&json["problem"]), "grid kind unknowns");
        assert_eq!(keys(&json["device"]), "count kind name ranks threads");
        assert_eq!(keys(&json["solver"]), "method precision preconditioner");
        assert_eq!(
            keys(&json["outcome"]),
            "condition eigenvalues error_estimate history iterations notes projected relative_residual stop"
        );
        assert_eq!(keys(&json["checks"]), "norm2 sum");
        assert_eq!(keys(&json["seconds"]), "download setup solve total upload");
        assert_eq!(keys(&json["traffic"]), "bytes copy_gb_per_s fraction_of_copy gb_per_s");
        assert_eq!(json["outcome"]["stop"], "max_iterations");
        assert!(json["outcome"]["relative_residual"].is_null());
        assert!(json["outcome"]["history"][1].is_null());
        assert!(json["error"].is_null());
        assert_eq!(json["checks"]["norm2"], 5.0);
        assert_eq!(json["traffic"]["fraction_of_copy"], 0.5);
        let timing = Some(Setup { first: 3.0, again: 2.0, update: 1.0 }.into());
        let json: serde_json::Value = serde_json::from_str(&to_json(&Report { timing, ..report() })).unwrap();
        let flux = BTreeMap::from([("west", -1.5), ("east", f64::NAN)]);
        let flows: serde_json::Value = serde_json::from_str(&to_json(&Report { flux, ..report() })).unwrap();
        assert_eq!(flows["flux"], serde_json::json!({"west": -1.5, "east": null}));
        assert_eq!(json["timing"], serde_json::json!({"setup": 3.0, "setup_warm": 2.0, "update": 1.0}));
    }
}
