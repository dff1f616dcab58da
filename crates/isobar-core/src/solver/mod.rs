//! Solvers, written once over any back end.
//!
//! * [`cg`] preconditioned conjugate gradients, fused and textbook,
//! * [`bicgstab`] for non-symmetric operators,
//! * [`multigrid`] tensor-product multigrid as an iteration; [`crate::precond::multigrid`] holds the cycle,
//! * [`monitor`] decides when to stop, [`spectrum`] what the condition number was,
//! * [`system`] puts an operator, an iteration and the final judgement together.

mod assembly;
pub mod bicgstab;
pub mod cg;
pub mod monitor;
pub mod multigrid;
pub mod spectrum;
pub mod system;

use crate::backend::Backend;
use crate::error::Result;
use crate::operator::Guess;
use crate::real::Real;
use crate::traffic::Traffic;

pub use monitor::{Monitor, Progress};
pub use system::{Description, Solve, System};

/// Traffic of one step on one grid: what it declares, the cells it runs over, bytes an element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepTraffic {
    /// The step's declaration.
    pub step: Traffic,
    /// Cells of the grid it runs on.
    pub cells: usize,
    /// Bytes of an element.
    pub size: usize,
    /// Coefficient vectors of the operator it belongs to.
    pub coefficient_vectors: f64,
    /// How often an iteration takes it.
    pub count: f64,
}

impl StepTraffic {
    /// Bytes the step moves when taken once.
    pub fn bytes_once(&self) -> f64 {
        self.step.bytes(self.cells, self.size, self.coefficient_vectors)
    }

    /// Bytes an iteration moves in this step.
    pub fn bytes(&self) -> f64 {
        self.count * self.bytes_once()
    }
}

/// An iterative method with its workspace, made once and used for any number of right-hand sides.
pub trait Iteration<B: Backend, T: Real>: Send {
    /// Improves `u` until the monitor says stop. The monitor has been told ‖r₀‖.
    ///
    /// # Errors
    /// Only what the device reports; not converging is the monitor's to say.
    fn run(&mut self, b: &B::Vector<T>, u: &mut B::Vector<T>, guess: Guess, monitor: &mut Monitor<'_>) -> Result<()>;

    /// What an iteration declares to move.
    fn traffic(&self) -> Vec<StepTraffic>;

    /// Bytes of vectors held, beside `b` and `u`.
    fn workspace_bytes(&self) -> usize;
}
