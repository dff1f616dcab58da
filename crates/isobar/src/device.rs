//! Choosing where to compute.

use isobar_core::bench::{StepTiming, time_steps};
use isobar_core::error::Result;
use isobar_core::options::SolverOptions;
use isobar_core::solver::{Solve, System};
use isobar_core::stencil::TensorProduct;
use isobar_cpu::Cpu;

/// A place to compute.
#[derive(Clone, Debug)]
pub enum Device {
    /// This machine's processor cores.
    Cpu(Cpu),
}

impl Device {
    /// All cores of this machine.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) where threads cannot be started.
    pub fn cpu() -> Result<Self> {
        Ok(Self::Cpu(Cpu::with_all_threads()?))
    }

    /// So many threads.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for 0 threads, [`Error::Device`](crate::Error::Device)
    /// where they cannot be started.
    pub fn cpu_with_threads(threads: usize) -> Result<Self> {
        Ok(Self::Cpu(Cpu::new(threads)?))
    }
}

/// A solver for A u = b on a device; makes all vectors now, so that solving allocates nothing.
///
/// # Errors
/// Options that make no sense, or a device that fails or is too small.
pub fn solver(device: &Device, stencil: &TensorProduct, options: &SolverOptions) -> Result<Box<dyn Solve>> {
    match device {
        Device::Cpu(backend) => Ok(Box::new(System::new(backend, stencil, options)?)),
    }
}

/// Times every fused step that a solve with these options takes, on every grid it takes it on.
///
/// # Errors
/// As [`solver()`].
pub fn bench(device: &Device, stencil: &TensorProduct, options: &SolverOptions) -> Result<Vec<StepTiming>> {
    match device {
        Device::Cpu(backend) => time_steps(backend, stencil, options),
    }
}
