//! The preconditioner of time steps.

use crate::options::{Method, Preconditioner, SolverOptions};
use crate::real::Precision;

/// The fewest iterations that a step must be allowed to begin without a preconditioner and go on with multigrid.
const FEWEST: usize = 100;

impl SolverOptions {
    /// Returns whether the preconditioner of time steps is left open.
    pub fn leaves_step_preconditioner(&self) -> bool {
        let is_conjugate = matches!(self.method, Method::Auto | Method::Cg);
        is_conjugate && self.preconditioner == Preconditioner::Auto && self.precision != Precision::Mixed
    }

    /// Returns the options with which time steps begin that are not solved directly. Where the preconditioner is left open they begin without, as
    /// suits short steps, or with lines where these suffice in thin cells, and multigrid follows where they are slow: [`watch`](super::watch). They
    /// begin with multigrid if the rows of the matrix are not even, because a residual that is small beside the largest rows says nothing of the
    /// others; or if few iterations are allowed.
    #[must_use]
    pub(crate) fn for_iterated_steps(&self, is_even: impl FnOnce() -> bool, has_lines: impl FnOnce() -> bool) -> Self {
        if !self.leaves_step_preconditioner() {
            return self.clone();
        }
        if self.max_iterations < FEWEST || !is_even() {
            return Self { method: Method::Cg, preconditioner: Preconditioner::Multigrid, ..self.clone() };
        }
        let preconditioner = if has_lines() { Preconditioner::Line } else { Preconditioner::None };
        Self { preconditioner, ..self.clone() }
    }
}

/// The largest shift of a volume over the smallest, and of a row over the least shift, with which rows are even…
pub(crate) const MOST_UNEVEN: f64 = 100.0;
/// …and the largest contrast of coefficients where rows are larger.
const MOST_CONTRAST: f64 = 1e5;

/// Returns whether the rows of a step's matrix are even, by the largest shift of a volume over the smallest, the largest row over the least shift of
/// a step, and the contrast of coefficients.
pub(crate) fn has_even_rows([shifts, row, contrast]: [f64; 3]) -> bool {
    shifts <= MOST_UNEVEN && (row <= MOST_UNEVEN || contrast <= MOST_CONTRAST)
}
