//! The outcome of a solve.

use isobar::outcome::Batch;
use isobar::{Outcome, Stop};
use serde::Serialize;

/// Returns whether a solve left a solution, accurate or not: false after a breakdown or a divergence that left values that are not
/// finite, or a residual larger than that of the first guess.
pub fn has_solution(outcome: &Outcome) -> bool {
    let has_grown = outcome.history.first().is_some_and(|&initial| outcome.relative_residual >= initial);
    let is_lost = matches!(outcome.stop, Stop::Breakdown | Stop::Diverged) && has_grown;
    outcome.is_returned && !is_lost
}

/// The outcome of a solve.
#[derive(Clone, Debug, Serialize)]
pub struct OutcomeReport {
    /// The reason why the iteration ended.
    pub stop: Stop,
    /// Iterations taken.
    pub iterations: usize,
    /// The true relative residual in double precision.
    pub relative_residual: f64,
    /// Relative residuals after 0, 1, 2, … iterations.
    pub history: Vec<f64>,
    /// Condition number of the preconditioned (and deflated) matrix, from conjugate gradients.
    pub condition: Option<f64>,
    /// The smallest and the largest eigenvalue.
    pub eigenvalues: Option<[f64; 2]>,
    /// Estimated error relative to the solution, in the 2-norm, from conjugate gradients.
    pub error_estimate: Option<f64>,
    /// The norm of the part removed from the right-hand side, relative to its norm, if the matrix is singular.
    pub projected: Option<f64>,
    /// The results of each line of a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchReport>,
    /// Events of the solve, such as a fallback to another preconditioner.
    pub notes: Vec<String>,
}

impl Default for OutcomeReport {
    /// Returns the outcome of a run without steps.
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

/// Results of independent lines, solved as a batch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BatchReport {
    /// Number of lines.
    pub lines: usize,
    /// The largest relative residual.
    pub worst: f64,
    /// Fewest iterations of a line.
    pub least: usize,
    /// Most iterations of a line.
    pub most: usize,
    /// Iterations of every line.
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
