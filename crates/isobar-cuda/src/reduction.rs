//! What kernels need that sum up over all blocks.

use std::sync::Arc;

use isobar_core::error::Result;

use crate::driver::{Context, Pointer};
use crate::launch::Arguments;
use crate::memory::Buffer;

/// Room for the partial sums of a kernel's blocks, used by one kernel at a time, as all run in order.
#[derive(Debug)]
pub(crate) struct Reduction {
    /// The counter, then two doubles a block.
    buffer: Buffer,
    blocks: usize,
}

/// Bytes of the counter, so that what follows is aligned.
const COUNTER: usize = 16;

impl Reduction {
    /// For kernels of at most so many blocks.
    pub(crate) fn new(context: &Arc<Context>, blocks: usize) -> Result<Self> {
        let buffer = Buffer::new(context, COUNTER + 16 * blocks, "partial sums")?;
        buffer.clear(0, COUNTER)?;
        Ok(Self { buffer, blocks })
    }

    /// Appends the arguments `partial` and `counter`, of a kernel of so many blocks, and where the sums go.
    pub(crate) fn append(&self, arguments: Arguments, blocks: usize, sums: Pointer) -> Arguments {
        assert!(blocks <= self.blocks, "a kernel of {blocks} blocks sums up where there is room for {}", self.blocks);
        arguments.with(self.buffer.start() + COUNTER as Pointer).with(self.buffer.start()).with(sums)
    }
}
