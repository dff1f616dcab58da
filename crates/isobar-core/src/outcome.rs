//! What a solve returns.

use serde::{Deserialize, Serialize};

use crate::solver::spectrum::Spectrum;

/// Why a solve ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// The true residual meets the tolerance.
    Converged,
    /// The iteration limit came first.
    MaxIterations,
    /// The residual no longer falls: rounding, or a method too weak for the problem.
    Stagnated,
    /// The recurrence cannot go on: a division by zero, a loss of positive definiteness, or a NaN.
    Breakdown,
    /// The residual grows without bound or became infinite.
    Diverged,
}

impl Stop {
    /// What a user can try next, where something can be tried.
    pub fn advice(self) -> Option<&'static str> {
        match self {
            Self::Converged => None,
            Self::MaxIterations => {
                Some("raise solver.max_iterations, or use a stronger method (solver.method = \"multigrid\")")
            }
            Self::Stagnated => Some(
                "the tolerance is below what rounding allows here: loosen solver.tolerance, or use \
                 precision \"f64\" or \"mixed\"; with multigrid, more coarse_sweeps or levels can help",
            ),
            Self::Breakdown => Some(
                "the matrix is not symmetric positive definite, or the input holds extreme values: \
                 check the coefficients, or use method \"bicgstab\"",
            ),
            Self::Diverged => Some("check the coefficients; with line-jacobi use relaxation 2/3; or use method \"cg\""),
        }
    }
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Converged => "converged",
            Self::MaxIterations => "max_iterations",
            Self::Stagnated => "stagnated",
            Self::Breakdown => "breakdown",
            Self::Diverged => "diverged",
        })
    }
}

/// Seconds of wall clock, by part of the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Moving the right-hand side to where the solver wants it.
    pub upload: f64,
    /// The iteration, first residual to last check.
    pub solve: f64,
    /// Moving the solution back.
    pub download: f64,
}

/// The result of a solve: what happened, judged by the true residual.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Why it ended.
    pub stop: Stop,
    /// Iterations (CG steps, multigrid cycles, …) taken.
    pub iterations: usize,
    /// ‖b − A u‖ / ‖r₀‖ (or / ‖b‖, as the options ask), computed in double precision from the
    /// solution that is returned.
    pub relative_residual: f64,
    /// The relative residual after 0, 1, 2, … iterations, as the iteration itself saw it.
    pub history: Vec<f64>,
    /// Extreme eigenvalues of the preconditioned matrix, from conjugate gradients with a fixed preconditioner.
    pub spectrum: Option<Spectrum>,
    /// Where the matrix is singular: the norm of what was taken out of the right-hand side because no
    /// solution can produce it, relative to the right-hand side's.
    pub removed: Option<f64>,
    /// Where the time went.
    pub timing: Timing,
}

impl Outcome {
    /// Whether the true residual meets the tolerance.
    pub fn converged(&self) -> bool {
        self.stop == Stop::Converged
    }

    /// The last iteration whose residual was a number, and that residual: where a solve that broke
    /// down or diverged was last in order.
    pub fn last_good(&self) -> Option<(usize, f64)> {
        let n = self.history.iter().rposition(|residual| residual.is_finite())?;
        Some((n, self.history[n]))
    }

    /// Mean factor by which one iteration reduced the residual; 1 where nothing was done.
    pub fn mean_rate(&self) -> f64 {
        match (self.history.first(), self.history.last()) {
            (Some(&first), Some(&last)) if self.history.len() > 1 && first > 0.0 && last > 0.0 => {
                (last / first).powf(1.0 / (self.history.len() - 1) as f64)
            }
            _ => 1.0,
        }
    }
}
