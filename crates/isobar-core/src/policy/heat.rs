//! The preconditioner of time steps.

use crate::options::{Method, Preconditioner, SolverOptions};
use crate::real::Precision;

impl SolverOptions {
    /// Returns whether the preconditioner of time steps is left open.
    pub fn leaves_step_preconditioner(&self) -> bool {
        let is_conjugate = matches!(self.method, Method::Auto | Method::Cg);
        is_conjugate && self.preconditioner == Preconditioner::Auto && self.precision != Precision::Mixed
    }

    /// Returns the options with which time steps begin that are not solved directly: without a preconditioner where that is left open, as suits
    /// short steps. Multigrid follows where steps are slow: [`watch`](super::watch).
    #[must_use]
    pub fn for_iterated_steps(&self) -> Self {
        let is_plain = self.leaves_step_preconditioner();
        let preconditioner = if is_plain { Preconditioner::None } else { self.preconditioner };
        Self { preconditioner, ..self.clone() }
    }
}
