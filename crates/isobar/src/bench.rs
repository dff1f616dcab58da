//! Times of a solver's set-up and steps.

pub use isobar_core::bench::{Setup, Timed};
use isobar_core::prelude::{Result, SolverOptions};

use crate::device::Device;
use crate::matrix::Matrix;

/// Times the setup of a solver (the first time, again, and an update of its coefficients), and every fused step of an
/// iteration, on every grid on which it is taken.
///
/// # Errors
/// See [`SolverBuilder::build`](crate::SolverBuilder::build).
pub fn bench(device: &Device, matrix: &impl Matrix, options: &SolverOptions) -> Result<(Setup, Vec<Timed>)> {
    device.require_process()?;
    matrix.bench(device, options)
}
