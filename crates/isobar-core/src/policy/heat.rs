//! The preconditioner of time steps.

use crate::options::{Method, Preconditioner, SolverOptions};
use crate::real::Precision;

/// The number of iterations without a preconditioner that cost less than the three or four with one: an iteration with incomplete
/// Cholesky takes as long as two to four without.
const FEW: usize = 12;

impl SolverOptions {
    /// Returns whether the preconditioner of time steps is left open.
    pub fn leaves_step_preconditioner(&self) -> bool {
        let is_conjugate = matches!(self.method, Method::Auto | Method::Cg);
        is_conjugate && self.preconditioner == Preconditioner::Auto && self.precision != Precision::Mixed
    }

    /// Returns the options for solving time steps by iteration. A preconditioner that was left open becomes modified incomplete Cholesky,
    /// which suits most problems; on a grid divided among several ranks or GPUs it becomes line relaxation, because triangular solves
    /// would wait for one rank after another.
    #[must_use]
    pub fn for_iterated_steps(&self, is_divided: bool) -> Self {
        let mut options = self.clone();
        if self.leaves_step_preconditioner() {
            options.preconditioner = match is_divided {
                true => Preconditioner::Line,
                false => Preconditioner::Mic { relaxation: 1.0, block: None },
            };
        }
        options
    }

    /// Returns the options of a first step without a preconditioner. If it converges, as from a state with few eigenvectors or for a
    /// short step, no step needs one.
    #[must_use]
    pub fn for_plain_step(&self) -> Self {
        let max_iterations = FEW.min(self.max_iterations);
        Self { preconditioner: Preconditioner::None, max_iterations, ..self.clone() }
    }
}
