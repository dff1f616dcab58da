//! Kernels that sum over all blocks, and their buffers.

use std::sync::Arc;

use isobar_core::backend::{Backend, Scalar};
use isobar_core::error::Result;
use isobar_core::layout::Layout;
use isobar_core::real::Real;

use crate::cuda::Cuda;
use crate::driver::{Context, Pointer};
use crate::launch::Arguments;
use crate::memory::Scratch;
use crate::scalars::Scalars;

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

    /// Appends the arguments `partial` and `counter` of a kernel, and the address of the sums.
    pub(crate) fn append(&self, arguments: Arguments, blocks: usize, sums: Pointer) -> Arguments {
        assert!(blocks <= self.blocks, "a kernel of {blocks} blocks, but the buffer is for {}", self.blocks);
        let start = self.scratch.start();
        arguments.with(start + COUNTER as Pointer).with(start).with(sums)
    }
}

impl Cuda {
    /// Launches an operation on all entries of vectors of a layout, which also sums.
    pub(crate) fn with_sum<T: Real>(
        &self,
        name: &'static str,
        arguments: Arguments,
        layout: &Layout,
        out: Scalar,
        scalars: &mut Scalars,
    ) -> Result<()> {
        let arguments = self.reduction().append(arguments, self.blocks(layout.len()), scalars.pointer(out));
        self.elementwise(self.kernel::<T>(name)?, layout.len(), arguments)?;
        self.sum(layout, &[out], scalars)
    }

    /// Appends the buffers that a kernel of [`Cuda::summing_blocks`] blocks needs to sum two numbers, and the address of the sums.
    pub(crate) fn summing(&self, arguments: Arguments, sums: Pointer) -> Arguments {
        self.reduction().append(arguments, self.summing_blocks(), sums)
    }

    /// Returns the number of blocks of kernels that sum over whole arrays.
    pub(crate) fn summing_blocks(&self) -> usize {
        /// Blocks of 256 threads.
        const A_MULTIPROCESSOR: usize = 8;
        A_MULTIPROCESSOR * self.context().multiprocessors
    }
}
