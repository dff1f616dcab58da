//! Choices and replacements: plain functions from facts, which stencils and back ends measure, to options.
//!
//! * [`diffusion`] method, smoother and precision by measures of the coefficients,
//! * `watch` the pace that each choice must show,
//! * `ladder` the options with which a solve continues otherwise.

pub mod diffusion;
pub(crate) mod ladder;
pub(crate) mod watch;
