//! Assembly of a solver, and the judgement of its results.
//!
//! * [`system`]: an operator, an iteration, and the judgement by the true residual,
//! * `solve`: the interface of a solver, `arrays`: transfers of a caller's arrays,
//! * `run`: a solve from norms to verdict; `iterate`: the loop around an iteration, with restarts, fallbacks and the best
//!   iterate,
//! * `update`: new coefficients,
//! * `many`: several systems at a time,
//! * `direct`: direct solves between callers' arrays,
//! * `judge`: norms for the judgement, `precondition`: a solver as a preconditioner,
//! * `in_precision`: iterations in another precision,
//! * `assembly`: an iteration with its preconditioner from options,
//! * `jacobi`: sub-iterations and overlap by a trial,
//! * `advice`: advice when a solve does not converge,
//! * `range`: right-hand sides of extreme size,
//! * [`memory`]: the prediction of a solver's memory.

mod advice;
mod algebraic;
mod arrays;
mod assembly;
mod decision;
pub(crate) mod direct;
mod in_precision;
mod iterate;
mod jacobi;
mod judge;
mod many;
pub mod memory;
mod precondition;
mod range;
mod replace;
mod run;
mod solve;
pub mod system;
mod update;

pub(crate) use arrays::{CallersGrid, download, fetch, find_not_finite, send, upload};
pub use many::{Arrays, Call, of_system, solve_many};
pub use memory::{MatrixKind, MatrixSize, Memory, Overhead};
pub use solve::{Balance, Description, Solve};
pub use system::System;
