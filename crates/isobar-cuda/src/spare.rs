//! This module keeps memory that solvers of this process returned, for the next ones: an allocation by the driver takes 50 µs, and freeing
//! it as long.

use std::sync::Mutex;

use cudarc::driver::result;

use crate::driver::{Pointer, lock};

/// Memory of a GPU that is allocated and not in use.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    blocks: Mutex<Vec<Block>>,
}

#[derive(Debug)]
struct Block {
    start: Pointer,
    bytes: usize,
}

impl Spare {
    /// The largest block that is kept: for larger ones kernels take longer than the driver. B
    const LARGEST: usize = 16 << 20;
    /// The most memory that is kept. B
    const MOST: usize = 128 << 20;

    /// Returns a block of this size, if there is one.
    pub(crate) fn take(&self, bytes: usize) -> Option<Pointer> {
        let mut blocks = lock(&self.blocks);
        let found = blocks.iter().rposition(|block| block.bytes == bytes)?;
        Some(blocks.swap_remove(found).start)
    }

    /// Keeps a block that no work uses any more; returns whether it does.
    pub(crate) fn keep(&self, start: Pointer, bytes: usize) -> bool {
        let mut blocks = lock(&self.blocks);
        let kept: usize = blocks.iter().map(|block| block.bytes).sum();
        let is_kept = bytes <= Self::LARGEST && kept + bytes <= Self::MOST;
        if is_kept {
            blocks.push(Block { start, bytes });
        }
        is_kept
    }

    /// Frees all blocks, and returns whether there were any. The GPU's context must be current.
    pub(crate) fn clear(&self) -> bool {
        let blocks = std::mem::take(&mut *lock(&self.blocks));
        for block in &blocks {
            // SAFETY: allocated by the driver, used by nobody, and no longer in the list. Errors cannot be helped here.
            let _ = unsafe { result::free_sync(block.start) };
        }
        !blocks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_blocks_are_kept_up_to_a_limit() {
        let spare = Spare::default();
        assert!(!spare.keep(1, Spare::LARGEST + 1));
        let kept = (1..).take_while(|&start| spare.keep(start, Spare::LARGEST)).count();
        assert_eq!(kept * Spare::LARGEST, Spare::MOST);
        assert!(spare.take(Spare::LARGEST - 1).is_none());
        assert!(spare.take(Spare::LARGEST).is_some());
        assert!(spare.keep(99, 256) && spare.take(256) == Some(99) && spare.take(256).is_none());
    }
}
