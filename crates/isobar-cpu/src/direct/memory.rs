//! Working memory, aligned to 64-byte lines.

use std::mem::MaybeUninit;

use isobar_core::error::{Error, Result};
use isobar_core::execute::prefer_large_pages;

use crate::cpu::Cpu;
use crate::shared::Shared;

/// Numbers in a line of memory.
pub(super) const LINE: usize = 8;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([f64; LINE]);

/// A buffer of numbers, zeros at first.
#[derive(Debug)]
pub(super) struct Buffer {
    lines: Vec<Line>,
}

impl Buffer {
    /// Allocates `len` numbers, first touched by all threads.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] where it cannot be allocated.
    pub(super) fn zeros(cpu: &Cpu, len: usize, what: &str) -> Result<Self> {
        let count = len.div_ceil(LINE);
        let mut lines = Vec::new();
        lines.try_reserve_exact(count).map_err(|_| Error::OutOfMemory {
            what: what.to_owned(),
            needed_bytes: (count as u64).saturating_mul(size_of::<Line>() as u64),
            available_bytes: 0,
        })?;
        prefer_large_pages(lines.spare_capacity_mut());
        let uninitialised = Shared::of(&mut lines.spare_capacity_mut()[..count]);
        // Parts begin at multiples of a line.
        cpu.for_each_part(count * LINE, |_, start, end| {
            // SAFETY: parts do not overlap.
            let part = unsafe { uninitialised.row_mut((start / LINE) as isize, (end - start) / LINE) };
            part.fill(MaybeUninit::new(Line([0.0; LINE])));
        });
        // SAFETY: as many lines were reserved, and all of them have been written.
        unsafe { lines.set_len(count) };
        Ok(Self { lines })
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
