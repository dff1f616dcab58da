//! The outcome of a solve.

use serde::{Deserialize, Serialize};

/// The reason why a solve ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Stop {
    /// The true residual meets the tolerance.
    Converged,
    /// The iteration limit was reached.
    MaxIterations,
    /// The residual no longer falls, because of rounding or a method too weak for the problem.
    Stagnated,
    /// The recurrence cannot continue: a division by zero, a loss of positive definiteness, or a NaN.
    Breakdown,
    /// The residual grows without bound or became infinite.
    Diverged,
    /// The observer ended the solve.
    Interrupted,
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.serialize(f)
    }
}

/// Estimates of the extreme eigenvalues of the (deflated,) preconditioned matrix.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spectrum {
    /// The smallest, estimated from above.
    pub smallest: f64,
    /// The largest, estimated from below.
    pub largest: f64,
}

impl Spectrum {
    /// Returns largest / smallest.
    pub fn condition(&self) -> f64 {
        self.largest / self.smallest
    }
}

/// Seconds of wall clock, by part of the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// The copy of the right-hand side to the solver; copies within a device's memory count as part of the solve.
    pub upload: f64,
    /// The solve: ‖b‖ and the first residual, the iteration, the last check.
    pub solve: f64,
    /// Copying the solution back.
    pub download: f64,
}

/// The outcome of a batch of lines, each an independent problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// ‖b − A u‖ / ‖r₀‖ (or / ‖b‖) of the line where it is largest, as the iteration last computed it.
    pub worst: f64,
    /// Iterations of each line.
    pub iterations: Vec<usize>,
}

impl Batch {
    /// Returns the fewest iterations of a line.
    pub fn least(&self) -> usize {
        self.iterations.iter().copied().min().unwrap_or(0)
    }

    /// Returns the most iterations of a line.
    pub fn most(&self) -> usize {
        self.iterations.iter().copied().max().unwrap_or(0)
    }
}

/// The result of a solve, judged by the true residual.
#[must_use = "a solve may end without convergence, which is no error; ask `converged`"]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The reason why it ended.
    pub stop: Stop,
    /// Iterations (CG steps, multigrid cycles, …) taken.
    pub iterations: usize,
    /// ‖b − A u‖ / ‖r₀‖ (or / ‖b‖, by the options), computed in double precision from the returned solution.
    pub relative_residual: f64,
    /// The relative residual after 0, 1, 2, … iterations, as the iteration computed it.
    pub history: Vec<f64>,
    /// Extreme eigenvalues of the preconditioned matrix, from conjugate gradients with a fixed preconditioner.
    pub spectrum: Option<Spectrum>,
    /// The norm of the part that was removed from the right-hand side because no solution can produce it, relative to the right-hand
    /// side's, where the matrix is singular.
    pub removed: Option<f64>,
    /// ‖u − A⁻¹b‖ / ‖u‖, estimated by conjugate gradients: three times ‖M⁻¹r‖ of the last residual over the smallest eigenvalue of M⁻¹A that
    /// their coefficients show. With a strong preconditioner it is close; with a weak one it may be far too large. There is none if that
    /// eigenvalue was still falling, and for other methods. If coefficients differ by orders of magnitude, the estimate and the residual may
    /// differ likewise.
    pub error_estimate: Option<f64>,
    /// ⟨r, A⁻¹r⟩, the square of the error in the norm of the energy, estimated by conjugate gradients: ⟨r, M⁻¹r⟩ of the last residual over the
    /// smallest eigenvalue of M⁻¹A that their coefficients show.
    pub energy_error: Option<f64>,
    /// The outcome of a batch of lines, `solver.jacobi.batch`.
    pub batch: Option<Batch>,
    /// Events of the solve that users should know, such as the replacement of a preconditioner that failed.
    pub notes: Vec<String>,
    /// Whether u holds a solution, good or bad. After a breakdown or a divergence without finite numbers, u is the first guess.
    pub is_returned: bool,
    /// Advice on the next attempt, if the solve did not converge and there is any.
    pub advice: Option<String>,
    /// Seconds by part of the work.
    pub timing: Timing,
}

impl Outcome {
    /// Returns whether the true residual meets the tolerance.
    pub fn converged(&self) -> bool {
        self.stop == Stop::Converged
    }

    /// Returns the last iteration whose residual was a number, and that residual: the last good state of a solve that broke down or
    /// diverged.
    pub fn last_good(&self) -> Option<(usize, f64)> {
        let n = self.history.iter().rposition(|residual| residual.is_finite())?;
        Some((n, self.history[n]))
    }

    /// Returns the mean factor by which one iteration reduced the residual; 1 without iterations.
    pub fn mean_rate(&self) -> f64 {
        match (self.history.first(), self.history.last()) {
            (Some(&first), Some(&last)) if self.history.len() > 1 && first > 0.0 && last > 0.0 => {
                (last / first).powf(1.0 / (self.history.len() - 1) as f64)
            }
            _ => 1.0,
        }
    }
}
