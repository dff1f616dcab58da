//! Putting a solver together, and judging what it returns.
//!
//! * [`system`] an operator, an iteration, and the judgement by the true residual,
//! * `solve` what a solver can do, `arrays` a caller's arrays to the device and back,
//! * `run` a solve from norms to verdict, `iterate` the loop around an iteration: restarts, other preconditioners, the best iterate,
//! * `direct` direct solves between callers' arrays,
//! * `judge` the norms by which it does so, `precondition` a solver as a preconditioner,
//! * `in_precision` iterations in another precision,
//! * `assembly` from options to an iteration with its preconditioner,
//! * `jacobi` sub-iterations and overlap by a trial,
//! * `advice` what to try next when a solve does not converge,
//! * `range` right-hand sides of extreme size,
//! * [`memory`] how much memory all that takes, predicted.

mod advice;
mod arrays;
mod assembly;
mod direct;
mod in_precision;
mod iterate;
mod jacobi;
mod judge;
pub mod memory;
mod precondition;
mod range;
mod replace;
mod run;
mod solve;
pub mod system;

pub(crate) use arrays::{CallersGrid, download, fetch, find_not_finite, send, upload};
pub use memory::{MatrixKind, MatrixSize, Memory, Overhead};
pub use solve::{Description, Solve};
pub use system::System;
