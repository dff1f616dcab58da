//! The GPUs of this machine.

use isobar_core::error::Result;

use crate::driver::{self, Card};

/// Describes a GPU found by [`devices`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceDescription {
    /// The number that [`Cuda::new`](crate::Cuda::new) takes.
    pub ordinal: usize,
    /// The model.
    pub name: String,
    /// Memory in bytes.
    pub memory: usize,
    /// Compute capability, major and minor.
    pub capability: (i32, i32),
}

impl DeviceDescription {
    /// Returns the architecture that kernels are compiled for, such as `"sm_90"`.
    pub fn architecture(&self) -> String {
        driver::architecture(self.capability)
    }
}

/// Lists all GPUs.
///
/// # Errors
/// [`Error::Device`](isobar_core::Error::Device) without a driver or without a GPU.
pub fn devices() -> Result<Vec<DeviceDescription>> {
    driver::start()?;
    (0..driver::count()?)
        .map(|ordinal| {
            let Card { name, memory, capability, .. } = Card::get(ordinal)?;
            Ok(DeviceDescription { ordinal, name, memory, capability })
        })
        .collect()
}
