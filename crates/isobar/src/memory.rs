//! How much memory a solver takes.

pub use isobar_core::build::Memory;
use isobar_core::build::memory::{Processor, predict};
use isobar_core::error::Result;
use isobar_core::options::SolverOptions;

use crate::device::Device;
use crate::matrix::Matrix;

/// The memory that making and using a solver will take, beside the matrix itself and your arrays: predicted from above,
/// without taking any.
///
/// ```
/// use isobar::problem::Helmholtz;
/// use isobar::{Device, predict_memory};
///
/// # fn main() -> isobar::Result<()> {
/// let matrix = Helmholtz::default().stencil()?; // 128 × 128 × 128
/// let memory = predict_memory(&Device::cpu()?, &matrix, &Default::default())?;
/// assert!(memory.host < 80e6); // multigrid takes little more than b and u
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`Error::Invalid`](crate::Error::Invalid) for options that make no sense.
pub fn predict_memory(device: &Device, matrix: &impl Matrix, options: &SolverOptions) -> Result<Memory> {
    let (size, choice) = matrix.size(options);
    predict(&size, &choice, options, device.processor())
}

impl Device {
    /// What the memory of solvers on it depends on.
    pub fn processor(&self) -> Processor {
        match self {
            Self::Cpu(cpu) => Processor::Cpu { threads: cpu.threads() },
            Self::Cuda(_) | Self::CudaRanks(_) | Self::Cards(_) => Processor::Cuda,
            Self::CpuRanks(ranks) => Processor::Cpu { threads: ranks.inner().threads() },
        }
    }
}
