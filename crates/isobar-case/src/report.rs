//! The machine-readable report of a run. Its keys are part of the command's interface.

use isobar::internals::backend::DeviceInfo;
use isobar::internals::backend::part::Shares;
use isobar::internals::traffic::StepTraffic;
use isobar::outcome::{Batch, Timing};
use isobar::{Description, Outcome, Setup, Shape, Stop};
use serde::Serialize;

/// `--report`: numbers that are not finite become null.
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
    /// The method, as it was after all automatic choices.
    pub solver: SolverReport,
    /// How the iteration ended.
    pub outcome: OutcomeReport,
    /// Distance from the exact solution, where that is known.
    pub error: Option<ErrorReport>,
    /// Fingerprint of the solution; nulls where there is none.
    pub checks: Checks,
    /// Every time step; only of heat equations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<StepReport>>,
    /// Wall-clock time of the run.
    pub seconds: Seconds,
    /// Memory traffic of the iteration.
    pub traffic: TrafficReport,
    /// Seconds of making and changing a solver; only of `bench`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timing: Option<SetupReport>,
    /// Every fused step of the solve, timed alone; only of `bench`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<KernelReport>,
}

impl Report {
    /// Of the solve of a linear system.
    pub fn of_solve(
        case: String,
        problem: ProblemReport,
        description: &Description,
        outcome: &Outcome,
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
                trial: Vec::new(),
            },
            outcome: OutcomeReport::from(outcome),
            error: None,
            checks,
            steps: None,
            seconds,
            traffic,
            timing: None,
            kernels: Vec::new(),
        }
    }
}

/// Whether a solve left a solution, good or bad: not after a breakdown or a divergence that left nothing finite, or something
/// worse than the first guess.
pub fn has_solution(outcome: &Outcome) -> bool {
    let has_grown = outcome.history.first().is_some_and(|&initial| outcome.relative_residual >= initial);
    let is_lost = matches!(outcome.stop, Stop::Breakdown | Stop::Diverged) && has_grown;
    outcome.is_returned && !is_lost
}

/// What was solved.
#[derive(Clone, Debug, Serialize)]
pub struct ProblemReport {
    /// As in the case file.
    pub kind: &'static str,
    /// Rows of the matrix.
    pub unknowns: usize,
    /// [nx, ny, nz]
    pub grid: [usize; 3],
}

impl ProblemReport {
    /// Of this kind, on this grid.
    pub fn new(kind: &'static str, shape: Shape) -> Self {
        Self { kind, unknowns: shape.cells(), grid: [shape.nx, shape.ny, shape.nz] }
    }
}

/// Where it was solved.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceReport {
    /// "cpu" or "cuda"
    pub kind: String,
    /// The model.
    pub name: String,
    /// Devices working together.
    pub count: usize,
    /// Processes working together.
    pub ranks: usize,
    /// Host threads.
    pub threads: usize,
    /// How several ranks divide the grid: parts of x and of y, and the fewest and the most columns and rows of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<Shares>,
}

impl From<&Description> for DeviceReport {
    fn from(description: &Description) -> Self {
        Self { shares: description.shares, ..Self::from(&description.device) }
    }
}

impl From<&DeviceInfo> for DeviceReport {
    fn from(device: &DeviceInfo) -> Self {
        Self {
            kind: device.kind.to_owned(),
            name: device.name.clone(),
            count: device.count,
            ranks: device.ranks,
            threads: device.threads,
            shares: None,
        }
    }
}

/// A time step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StepReport {
    /// The time that it led to.
    pub time: f64,
    /// Its length.
    pub dt: f64,
    /// Of its solves.
    pub iterations: usize,
    /// The true one, in double precision.
    pub relative_residual: f64,
    /// The estimate of its error, relative to ‖u‖, where steps choose their length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// ½ uᵀKu − sᵀu after it.
    pub energy: Option<f64>,
}

/// How it was solved.
#[derive(Clone, Debug, Serialize)]
pub struct SolverReport {
    /// The outer iteration.
    pub method: String,
    /// Null where the method takes none.
    pub preconditioner: Option<String>,
    /// "f64", "f32" or "mixed"
    pub precision: String,
    /// The preconditioners that were tried for a step, the fastest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trial: Vec<TrialReport>,
}

/// A preconditioner that was tried.
#[derive(Clone, Debug, Serialize)]
pub struct TrialReport {
    /// Its kind.
    pub preconditioner: &'static str,
    /// Of a step.
    pub seconds: f64,
    /// Of a step.
    pub iterations: usize,
}

impl From<&isobar::Tried> for TrialReport {
    fn from(tried: &isobar::Tried) -> Self {
        let isobar::Tried { preconditioner, seconds, iterations } = *tried;
        Self { preconditioner: preconditioner.name(), seconds, iterations }
    }
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct OutcomeReport {
    /// Why the iteration ended.
    pub stop: Stop,
    /// Iterations taken.
    pub iterations: usize,
    /// The true one, in double precision.
    pub relative_residual: f64,
    /// After 0, 1, 2, … iterations.
    pub history: Vec<f64>,
    /// Condition number of the (deflated,) preconditioned matrix, from conjugate gradients.
    pub condition: Option<f64>,
    /// Its smallest and largest eigenvalue.
    pub eigenvalues: Option<[f64; 2]>,
    /// Distance from the exact solution relative to the solution, in the 2-norm, as conjugate gradients let it be estimated.
    pub error_estimate: Option<f64>,
    /// Where the matrix is singular: the norm of what was taken out of the right-hand side, relative to it.
    pub projected: Option<f64>,
    /// Of a batch of lines: what came of each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchReport>,
    /// What happened on the way, such as another preconditioner in the place of one that failed.
    pub notes: Vec<String>,
}

impl Default for OutcomeReport {
    /// Of a run that had nothing to do.
    fn default() -> Self {
        Self {
            stop: Stop::Converged,
            iterations: 0,
            relative_residual: 0.0,
            history: Vec::new(),
            condition: None,
            eigenvalues: None,
            error_estimate: None,
            projected: None,
            batch: None,
            notes: Vec::new(),
        }
    }
}

impl From<&Outcome> for OutcomeReport {
    fn from(outcome: &Outcome) -> Self {
        Self {
            stop: outcome.stop,
            iterations: outcome.iterations,
            relative_residual: outcome.relative_residual,
            history: outcome.history.clone(),
            condition: outcome.spectrum.map(|spectrum| spectrum.condition()),
            eigenvalues: outcome.spectrum.map(|spectrum| [spectrum.smallest, spectrum.largest]),
            error_estimate: outcome.error_estimate,
            projected: outcome.removed,
            batch: outcome.batch.as_ref().map(BatchReport::from),
            notes: outcome.notes.clone(),
        }
    }
}

/// What came of lines that are problems of their own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BatchReport {
    /// How many.
    pub lines: usize,
    /// The relative residual of the worst.
    pub worst: f64,
    /// Iterations of the line that took fewest, and most.
    pub least: usize,
    /// As above.
    pub most: usize,
    /// Of every line.
    pub iterations: Vec<usize>,
}

impl From<&Batch> for BatchReport {
    fn from(batch: &Batch) -> Self {
        Self {
            lines: batch.iterations.len(),
            worst: batch.worst,
            least: batch.least(),
            most: batch.most(),
            iterations: batch.iterations.clone(),
        }
    }
}

/// Distance from the exact solution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ErrorReport {
    /// Largest difference.
    pub max: f64,
    /// Root mean square of the differences.
    pub l2: f64,
}

impl ErrorReport {
    /// Compares entry by entry.
    pub fn new(solution: &[f64], exact: &[f64]) -> Self {
        let differences = || solution.iter().zip(exact).map(|(u, e)| (u - e).abs());
        // f64::max drops a NaN, which must show.
        let max = differences().fold(0.0, |max: f64, d| if d.is_nan() || max.is_nan() { f64::NAN } else { max.max(d) });
        let sum: f64 = differences().map(|d| d * d).sum();
        Self { max, l2: (sum / solution.len().max(1) as f64).sqrt() }
    }
}

impl ErrorReport {
    /// That of cells of several ranks together: of the largest of their largest differences, the sum of squares, and the cells.
    pub fn of_all(max: f64, squares: f64, cells: usize) -> Self {
        Self { max, l2: (squares / cells.max(1) as f64).sqrt() }
    }
}

/// Fingerprint of the solution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Checks {
    /// Sum of all entries.
    pub sum: f64,
    /// 2-norm.
    pub norm2: f64,
}

impl Checks {
    /// Where there is no solution.
    pub const NONE: Self = Self { sum: f64::NAN, norm2: f64::NAN };

    /// Of this solution.
    pub fn new(solution: &[f64]) -> Self {
        // Summed by blocks, so that rounding does not grow with the number of entries.
        let sum = |term: fn(f64) -> f64| -> f64 {
            solution.chunks(4096).map(|block| block.iter().map(|&x| term(x)).sum::<f64>()).sum()
        };
        Self { sum: sum(|x| x), norm2: sum(|x| x * x).sqrt() }
    }
}

/// Wall-clock time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Seconds {
    /// Building the problem and the solver.
    pub setup: f64,
    /// Right-hand side to the device.
    pub upload: f64,
    /// The iteration.
    pub solve: f64,
    /// Solution from the device.
    pub download: f64,
    /// All of these, and what lies between.
    pub total: f64,
}

/// Seconds that a solver takes to be made and to be given other coefficients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SetupReport {
    /// Made the first time in this process: kernels are compiled or loaded.
    pub setup: f64,
    /// Made once more.
    pub setup_warm: f64,
    /// Given coefficients.
    pub update: f64,
}

impl Seconds {
    /// Of a solve, where making the solver took `setup`, and the call `total`.
    pub fn of_solve(setup: f64, outcome: &Outcome, total: f64) -> Self {
        let Timing { upload, solve, download } = outcome.timing;
        Self { setup, upload, solve, download, total }
    }
}

impl From<Setup> for SetupReport {
    fn from(setup: Setup) -> Self {
        Self { setup: setup.first, setup_warm: setup.again, update: setup.update }
    }
}

/// Memory traffic of the iteration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TrafficReport {
    /// Declared by the fused steps.
    pub bytes: f64,
    /// Those bytes over the time of the iteration, in units of 10⁹.
    pub gb_per_s: f64,
    /// What a plain copy of a vector reached in this run.
    pub copy_gb_per_s: f64,
    /// Their ratio.
    pub fraction_of_copy: f64,
}

impl TrafficReport {
    /// What this many iterations declare to move, and the time they took, against the bytes a second of a plain copy.
    pub fn of_solve(description: &Description, outcome: &Outcome, copy: f64) -> Self {
        let an_iteration: f64 = description.traffic.iter().map(StepTraffic::bytes).sum();
        Self::new(an_iteration * outcome.iterations as f64, outcome.timing.solve, copy)
    }

    /// From bytes, seconds, and the bytes a second of a plain copy.
    pub fn new(bytes: f64, seconds: f64, copy: f64) -> Self {
        let rate = bytes / seconds;
        Self { bytes, gb_per_s: rate * 1e-9, copy_gb_per_s: copy * 1e-9, fraction_of_copy: rate / copy }
    }
}

/// One fused step on one grid.
#[derive(Clone, Debug, Serialize)]
pub struct KernelReport {
    /// The step.
    pub name: String,
    /// What it computes.
    pub recurrence: String,
    /// [nx, ny, nz] of the grid it runs on.
    pub grid: [usize; 3],
    /// "f64" or "f32"
    pub precision: &'static str,
    /// How often an iteration takes it.
    pub calls_per_iteration: f64,
    /// One execution.
    pub seconds: f64,
    /// Declared traffic of one execution.
    pub bytes: f64,
    /// Declared floating-point operations of one execution.
    pub flops: f64,
    /// Bytes over seconds, in units of 10⁹.
    pub gb_per_s: f64,
    /// Relative to a plain copy.
    pub fraction_of_copy: f64,
}

/// The JSON text of a report.
pub fn to_json<T: Serialize>(report: &T) -> String {
    // Serialising plain structs of numbers and strings cannot fail.
    let mut text = serde_json::to_string_pretty(report).unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report {
            version: "0",
            case: "x.toml".into(),
            problem: ProblemReport { kind: "helmholtz", unknowns: 8, grid: [2, 2, 2] },
            device: DeviceReport {
                kind: "cpu".into(),
                name: "a \"CPU\"".into(),
                count: 1,
                ranks: 1,
                threads: 2,
                shares: None,
            },
            solver: SolverReport {
                method: "multigrid".into(),
                preconditioner: None,
                precision: "f64".into(),
                trial: Vec::new(),
            },
            outcome: OutcomeReport {
                stop: Stop::MaxIterations,
                iterations: 3,
                relative_residual: f64::NAN,
                history: vec![1.0, f64::INFINITY],
                condition: None,
                eigenvalues: None,
                error_estimate: None,
                projected: None,
                batch: None,
                notes: Vec::new(),
            },
            error: None,
            checks: Checks::new(&[3.0, 4.0]),
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
        assert_eq!(json["timing"], serde_json::json!({"setup": 3.0, "setup_warm": 2.0, "update": 1.0}));
    }

    #[test]
    fn errors_are_measured() {
        assert_eq!(ErrorReport::new(&[1.0, 2.0], &[1.0, 4.0]), ErrorReport { max: 2.0, l2: 2.0_f64.sqrt() });
        assert!(ErrorReport::new(&[f64::NAN, 2.0], &[1.0, 4.0]).max.is_nan());
    }
}
