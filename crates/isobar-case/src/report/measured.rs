//! Measurements of a run: errors, sums of the solution, times, traffic.

use isobar::internals::traffic::StepTraffic;
use isobar::outcome::Timing;
use isobar::{Description, Outcome, Setup};
use serde::Serialize;

/// The difference from the exact solution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ErrorReport {
    /// Largest difference.
    pub max: f64,
    /// Root mean square of the differences.
    pub l2: f64,
}

impl ErrorReport {
    /// Compares two arrays entry by entry.
    pub fn new(solution: &[f64], exact: &[f64]) -> Self {
        let differences = || solution.iter().zip(exact).map(|(u, e)| (u - e).abs());
        // f64::max drops a NaN, which must not be hidden.
        let max = differences().fold(0.0, |max: f64, d| if d.is_nan() || max.is_nan() { f64::NAN } else { max.max(d) });
        let sum: f64 = differences().map(|d| d * d).sum();
        Self { max, l2: (sum / solution.len().max(1) as f64).sqrt() }
    }

    /// Combines the errors of several ranks from their largest difference, their sum of squares and their number of cells.
    pub fn of_all(max: f64, squares: f64, cells: usize) -> Self {
        Self { max, l2: (squares / cells.max(1) as f64).sqrt() }
    }
}

/// Sums that identify a solution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Checks {
    /// Sum of all entries.
    pub sum: f64,
    /// 2-norm.
    pub norm2: f64,
}

impl Checks {
    /// The values if there is no solution.
    pub const NONE: Self = Self { sum: f64::NAN, norm2: f64::NAN };

    /// Computes the sums of a solution.
    pub fn new(solution: &[f64]) -> Self {
        // Summed in blocks, so that rounding errors do not grow with the number of entries.
        let sum = |term: fn(f64) -> f64| -> f64 {
            solution.chunks(4096).map(|block| block.iter().map(|&x| term(x)).sum::<f64>()).sum()
        };
        Self { sum: sum(|x| x), norm2: sum(|x| x * x).sqrt() }
    }
}

/// Wall-clock times in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Seconds {
    /// Building the problem and the solver.
    pub setup: f64,
    /// Copying the right-hand side to the device.
    pub upload: f64,
    /// The iteration.
    pub solve: f64,
    /// Copying the solution from the device.
    pub download: f64,
    /// All of these and the time in between.
    pub total: f64,
}

/// Times in seconds of making a solver and of updating its coefficients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SetupReport {
    /// First setup in this process, in which kernels are compiled or loaded.
    pub setup: f64,
    /// Second setup.
    pub setup_warm: f64,
    /// Update of the coefficients.
    pub update: f64,
}

impl Seconds {
    /// Times of a solve whose setup took `setup` and whose call took `total`.
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
    /// Bytes declared by the fused steps.
    pub bytes: f64,
    /// Bytes divided by the time of the iteration, in GB/s.
    pub gb_per_s: f64,
    /// Bandwidth of a plain copy of a vector in this run, in GB/s; NaN, in JSON null, where it was not measured.
    pub copy_gb_per_s: f64,
    /// The ratio of the two.
    pub fraction_of_copy: f64,
}

impl TrafficReport {
    /// Computes the traffic of a solve, given the bandwidth of a plain copy in bytes per second.
    pub fn of_solve(description: &Description, outcome: &Outcome, copy: f64) -> Self {
        let an_iteration: f64 = description.traffic.iter().map(StepTraffic::bytes).sum();
        Self::new(an_iteration * outcome.iterations as f64, outcome.timing.solve, copy)
    }

    /// Computes the traffic from bytes, seconds and the bandwidth of a plain copy in bytes per second.
    pub fn new(bytes: f64, seconds: f64, copy: f64) -> Self {
        let rate = bytes / seconds;
        Self { bytes, gb_per_s: rate * 1e-9, copy_gb_per_s: copy * 1e-9, fraction_of_copy: rate / copy }
    }
}

/// One fused step on one level.
#[derive(Clone, Debug, Serialize)]
pub struct KernelReport {
    /// The step.
    pub name: String,
    /// The recurrence of the step.
    pub recurrence: String,
    /// [nx, ny, nz] of its grid.
    pub grid: [usize; 3],
    /// "f64" or "f32"
    pub precision: &'static str,
    /// Number of executions per iteration.
    pub calls_per_iteration: f64,
    /// Seconds of one execution.
    pub seconds: f64,
    /// Declared traffic of one execution.
    pub bytes: f64,
    /// Declared floating-point operations of one execution.
    pub flops: f64,
    /// Bytes divided by seconds, in GB/s.
    pub gb_per_s: f64,
    /// Bandwidth relative to a plain copy.
    pub fraction_of_copy: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_measured() {
        assert_eq!(ErrorReport::new(&[1.0, 2.0], &[1.0, 4.0]), ErrorReport { max: 2.0, l2: 2.0_f64.sqrt() });
        assert!(ErrorReport::new(&[f64::NAN, 2.0], &[1.0, 4.0]).max.is_nan());
    }
}
