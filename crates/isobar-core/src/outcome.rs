//! The outcome of a solve.

use serde::{Deserialize, Serialize};

/// Why a solve ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
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
    /// The observer asked for it.
    Interrupted,
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Converged => "converged",
            Self::MaxIterations => "max_iterations",
            Self::Stagnated => "stagnated",
            Self::Breakdown => "breakdown",
            Self::Diverged => "diverged",
            Self::Interrupted => "interrupted",
        })
    }
}

/// Estimates of the extreme eigenvalues of the (deflated,) preconditioned matrix.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spectrum {
    /// From above.
    pub smallest: f64,
    /// From below.
    pub largest: f64,
}

impl Spectrum {
    /// largest / smallest
    pub fn condition(&self) -> f64 {
        self.largest / self.smallest
    }
}

/// Seconds of wall clock, by part of the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Moving the right-hand side to where the solver wants it.
    pub upload: f64,
    /// The solve: ‖b‖ and the first residual, the iteration, the last check.
    pub solve: f64,
    /// Moving the solution back.
    pub download: f64,
}

/// The outcome of a batch of lines, each an independent problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// ‖b − A u‖ / ‖r₀‖ (or / ‖b‖) of the line where that is largest, as the iteration saw it last.
    pub worst: f64,
    /// Iterations that each line took.
    pub iterations: Vec<usize>,
}

impl Batch {
    /// Iterations of the line that took fewest.
    pub fn least(&self) -> usize {
        self.iterations.iter().copied().min().unwrap_or(0)
    }

    /// Iterations of the line that took most.
    pub fn most(&self) -> usize {
        self.iterations.iter().copied().max().unwrap_or(0)
    }
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
    /// ‖u − A⁻¹b‖ / ‖u‖ as conjugate gradients let it be estimated: three times ‖M⁻¹r‖ of the last residual over the smallest
    /// eigenvalue of M⁻¹A that their coefficients show. With a strong preconditioner it is close; with a weak one it may be far above.
    /// There is none where that eigenvalue was still falling, and for other methods. Where coefficients differ by orders of magnitude
    /// it and the residual may too.
    pub error_estimate: Option<f64>,
    /// The outcome of a batch of lines, `solver.jacobi.batch`.
    pub batch: Option<Batch>,
    /// Events of the solve that users should know, such as the replacement of a preconditioner that failed.
    pub notes: Vec<String>,
    /// Whether u holds a solution, good or bad. After a breakdown or a divergence that left no finite numbers, u is what
    /// it was before.
    pub is_returned: bool,
    /// Advice on the next attempt, if the solve did not converge and there is any.
    pub advice: Option<String>,
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
