//! Choices and replacements: plain functions that map facts, which stencils and back ends measure, to options.
//!
//! | decides | in |
//! |---|---|
//! | whether a solve begins directly, with a trial, or as suits the matrix, in this order | `begin` |
//! | if a direct solve pays, and if the nearest box is tried | `direct` |
//! | points, the hybrid smoother or lines for diffusion, and the precision of cycles | [`diffusion`] |
//! | if conjugate gradients without multigrid are tried, where shifts dominate the couplings | `dominance` |
//! | vertical modes or multigrid for a tensor product, and how many modes, cycles and sweeps | [`modes`] |
//! | the solver of other matrices | [`Choice`] |
//! | the solver on a grid that ranks divide | [`ranks`] |
//! | the preconditioner of time steps | [`heat`] |
//! | sub-iterations and overlap of Jacobi's method | `jacobi` |
//! | the values of open options | [`SolverOptions::resolved`](crate::options::SolverOptions::resolved), in `resolve` |
//! | the required pace of an iteration | `watch` |
//! | the next step after an iteration that is slow or fails | `ladder` |
//!
//! Nothing here accesses a matrix, a vector or a device.

pub(crate) mod begin;
mod choice;
pub mod diffusion;
pub(crate) mod direct;
pub(crate) mod dominance;
pub mod heat;
pub(crate) mod jacobi;
pub(crate) mod ladder;
pub mod modes;
pub mod ranks;
mod resolve;
pub(crate) mod watch;

pub use choice::Choice;
pub use direct::Trial;
