//! What GPUs there are.

use isobar_core::error::Result;

use crate::driver::{self, Card, OLDEST_CAPABILITY};

/// A GPU, as [`devices`] finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceDescription {
    /// The number that [`Cuda::new`](crate::Cuda::new) takes.
    pub ordinal: usize,
    /// The model.
    pub name: String,
    /// Bytes of memory.
    pub memory: usize,
    /// Compute capability, major and minor.
    pub capability: (i32, i32),
}

impl DeviceDescription {
    /// Whether isobar can use it.
    pub fn is_supported(&self) -> bool {
        self.capability >= OLDEST_CAPABILITY
    }
}

/// All cards.
///
/// # Errors
/// [`Error::Device`](isobar_core::Error::Device) where there is no driver, or it finds none.
pub fn devices() -> Result<Vec<DeviceDescription>> {
    driver::start()?;
    (0..driver::count()?)
        .map(|ordinal| {
            let Card { name, memory, capability, .. } = Card::get(ordinal)?;
            Ok(DeviceDescription { ordinal, name, memory, capability })
        })
        .collect()
}
