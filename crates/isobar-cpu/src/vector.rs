//! Vectors in host memory, on 64-byte lines.

use isobar_core::error::{Error, Result};
use isobar_core::layout::Layout;
use isobar_core::real::Real;

use crate::shared::Shared;

/// Entries before the first and after the last cell that kernels may read: the western neighbour of
/// a row's first column, and the eastern one of its last, lie one entry outside the row, where a
/// coupling of zero meets them.
const GUARD: usize = 16;

/// One or two lines of memory, without padding for either precision.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Block<T>([T; GUARD]);

/// A vector in the one layout, its rows aligned to 64 bytes (32 in single precision).
#[derive(Clone, Debug)]
pub struct Vector<T> {
    layout: Layout,
    blocks: Vec<Block<T>>,
}

impl<T: Real> Vector<T> {
    /// A vector of zeros.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] where it cannot be allocated.
    pub(crate) fn zeros(layout: &Layout) -> Result<Self> {
        let mut blocks = Vec::new();
        // Two rows of at least eight entries: a layout's length is a multiple of 16.
        let count = layout.len() / GUARD + 2;
        blocks.try_reserve_exact(count).map_err(|_| Error::OutOfMemory {
            what: format!("a vector of {} cells", layout.shape()),
            needed_bytes: (count * size_of::<Block<T>>()) as u64,
            available_bytes: 0,
        })?;
        blocks.resize(count, Block([T::ZERO; GUARD]));
        Ok(Self { layout: *layout, blocks })
    }

    /// Where its entries are.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// All entries, row padding included, guards not.
    pub fn entries(&self) -> &[T] {
        let inner = &self.blocks[1..self.blocks.len() - 1];
        // SAFETY: `Block<T>` is `repr(C)` around `[T; 16]` and has no padding: 16 f32 or f64 fill one or
        // two 64-byte lines.
        unsafe { std::slice::from_raw_parts(inner.as_ptr().cast(), inner.len() * GUARD) }
    }

    /// All entries, row padding included, guards not; the padding must stay zero.
    pub fn entries_mut(&mut self) -> &mut [T] {
        let last = self.blocks.len() - 1;
        let inner = &mut self.blocks[1..last];
        // SAFETY: as in `entries`.
        unsafe { std::slice::from_raw_parts_mut(inner.as_mut_ptr().cast(), inner.len() * GUARD) }
    }

    /// For reading in kernels, guards within reach.
    pub(crate) fn share(&self) -> Shared<T> {
        Shared::new(self.blocks.as_ptr().cast::<T>().cast_mut(), self.blocks.len() * GUARD, GUARD)
    }

    /// For writing in kernels, guards within reach.
    pub(crate) fn share_mut(&mut self) -> Shared<T> {
        Shared::new(self.blocks.as_mut_ptr().cast::<T>(), self.blocks.len() * GUARD, GUARD)
    }
}
