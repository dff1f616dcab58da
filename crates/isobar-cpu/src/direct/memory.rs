//! Working memory, aligned to 64-byte lines.

use isobar_core::error::Result;

use crate::vector::Blocks;
use crate::{Cpu, Shared};

/// Numbers in a line of memory.
pub(super) const LINE: usize = 8;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([f64; LINE]);

/// A buffer of numbers, zeros at first.
#[derive(Debug)]
pub(super) struct Buffer {
    lines: Blocks<Line>,
}

impl Buffer {
    /// Allocates `len` numbers, first touched by all threads.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](isobar_core::Error::OutOfMemory) if it cannot be allocated.
    pub(super) fn zeros(cpu: &Cpu, len: usize, what: &str) -> Result<Self> {
        Ok(Self { lines: Blocks::touched(cpu, len.div_ceil(LINE), (Line([0.0; LINE]), LINE), || what.to_owned())? })
    }

    /// Shares it with kernels, each of which works on its own part.
    pub(super) fn share(&mut self) -> Shared<f64> {
        Shared::new(self.lines.as_mut_ptr().cast(), self.len(), 0)
    }

    /// Returns its length.
    pub(super) fn len(&self) -> usize {
        self.lines.len() * LINE
    }
}
