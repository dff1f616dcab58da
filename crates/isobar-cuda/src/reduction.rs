//! Buffers of kernels that sum over all blocks.

use std::sync::Arc;

use isobar_core::error::Result;

use crate::memory::Scratch;
use crate::{Arguments, Context, Pointer};

/// Memory for the partial sums of a kernel's blocks, used by one kernel of a queue at a time, since all run in order.
#[derive(Debug)]
pub(crate) struct Reduction {
    /// The counter, then two doubles per block.
    scratch: Scratch,
    blocks: usize,
}

/// Bytes of the counter, with padding for alignment.
const COUNTER: usize = 16;

impl Reduction {
    /// Allocates memory for kernels of at most this many blocks.
    pub(crate) fn new(context: &Arc<Context>, blocks: usize) -> Result<Self> {
        let scratch = Scratch::new(context, COUNTER + 16 * blocks, "partial sums")?;
        scratch.clear(COUNTER)?;
        Ok(Self { scratch, blocks })
    }

    /// Appends a kernel's `Reduction` (reduce.cuh), whose sums go to this address.
    pub(crate) fn append(&self, arguments: Arguments, blocks: usize, sums: Pointer) -> Arguments {
        arguments.with(self.parts(blocks, sums))
    }

    /// Returns the parts of a `Reduction`.
    pub(crate) fn parts(&self, blocks: usize, sums: Pointer) -> [Pointer; 3] {
        assert!(blocks <= self.blocks, "a kernel of {blocks} blocks, but the buffer is for {}", self.blocks);
        let start = self.scratch.start();
        [start + COUNTER as Pointer, start, sums]
    }
}
