//! What came of a solve.

use isobar::outcome::Batch;
use isobar::{Outcome, Stop};
use serde::Serialize;

/// Whether a solve left a solution, good or bad: not after a breakdown or a divergence that left nothing finite, or something
/// worse than the first guess.
pub fn has_solution(outcome: &Outcome) -> bool {
    let has_grown = outcome.history.first().is_some_and(|&initial| outcome.relative_residual >= initial);
    let is_lost = matches!(outcome.stop, Stop::Breakdown | Stop::Diverged) && has_grown;
    outcome.is_returned && !is_lost
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
