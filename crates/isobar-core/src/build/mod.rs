//! Putting a solver together, and judging what it returns.
//!
//! * [`system`] an operator, an iteration, and the judgement by the true residual,
//! * `iterate` the loop around an iteration: restarts, other preconditioners, the best iterate,
//! * `assembly` from options to an iteration with its preconditioner,
//! * `advice` what to try next when a solve does not converge,
//! * `range` right-hand sides of extreme size,
//! * [`memory`] how much memory all that takes, predicted.

mod advice;
mod assembly;
mod iterate;
pub mod memory;
mod range;
pub mod system;

pub use memory::{MatrixKind, MatrixSize, Memory, Processor};
pub use system::{Description, Solve, System};
