//! Vectors in host memory, aligned to 64-byte cache lines.

use std::alloc;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

use isobar_core::large_pages::prefer_large_pages;
use isobar_core::prelude::{Error, Layout, Real, Result};

use crate::{Cpu, Shared};

/// Entries before the first and after the last cell that kernels may read: the western neighbour of a row's first column, and the
/// eastern one of its last, lie one entry outside the row, and are multiplied by a coupling of zero.
const GUARD: usize = 16;

/// One or two cache lines, without padding for either precision.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Block<T>([T; GUARD]);

/// A vector in isobar's layout, halo rows included, its rows aligned to 64 bytes (32 in single precision).
#[derive(Debug)]
pub struct Vector<T> {
    layout: Layout,
    blocks: Blocks<Block<T>>,
}

/// An array of blocks.
#[derive(Debug)]
pub(crate) struct Blocks<B> {
    start: NonNull<B>,
    count: usize,
}

// SAFETY: it owns its blocks, as a `Vec` does.
unsafe impl<B: Send> Send for Blocks<B> {}
// SAFETY: as above.
unsafe impl<B: Sync> Sync for Blocks<B> {}

impl<B: Copy + Send + Sync> Blocks<B> {
    /// Allocates `count` equal blocks of some entries, `what` in errors, first touched by the threads that will work on them, which places each page
    /// in their memory on NUMA machines.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if they cannot be allocated.
    pub(crate) fn touched(
        cpu: &Cpu,
        count: usize,
        (block, entries): (B, usize),
        what: impl FnOnce() -> String,
    ) -> Result<Self> {
        let allocated = match alloc::Layout::array::<B>(count) {
            Ok(layout) if layout.size() == 0 => Some(NonNull::dangling()),
            // SAFETY: its size is not zero.
            Ok(layout) => NonNull::new(unsafe { alloc::alloc(layout) }.cast::<B>()),
            Err(_) => None,
        };
        let Some(start) = allocated else {
            let needed_bytes = (count as u64).saturating_mul(size_of::<B>() as u64);
            return Err(Error::OutOfMemory { what: what(), needed_bytes, available_bytes: 0 });
        };
        let blocks = Self { start, count };
        // SAFETY: this memory was allocated for as many blocks; it need not be initialised.
        let memory = unsafe { slice::from_raw_parts_mut(start.as_ptr().cast::<MaybeUninit<B>>(), count) };
        prefer_large_pages(memory);
        let uninitialised = Shared::of(memory);
        // Parts begin at multiples of a block.
        cpu.for_each_part(count * entries, |_, start, end| {
            // SAFETY: parts do not overlap.
            let part = unsafe { uninitialised.row_mut((start / entries) as isize, (end - start) / entries) };
            part.fill(MaybeUninit::new(block));
        });
        Ok(blocks)
    }
}

impl<B> Deref for Blocks<B> {
    type Target = [B];

    #[inline(always)]
    fn deref(&self) -> &[B] {
        // SAFETY: so many blocks have been allocated and written.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl<B> DerefMut for Blocks<B> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [B] {
        // SAFETY: as in `deref`.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.count) }
    }
}

impl<B> Drop for Blocks<B> {
    fn drop(&mut self) {
        if let Ok(layout) = alloc::Layout::array::<B>(self.count)
            && layout.size() > 0
        {
            // SAFETY: allocated with this layout.
            unsafe { alloc::dealloc(self.start.as_ptr().cast(), layout) };
        }
    }
}

impl<T: Real> Vector<T> {
    /// Makes a vector of zeros, first touched by the threads that will work on it.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if it cannot be allocated.
    pub(crate) fn zeros(cpu: &Cpu, layout: &Layout) -> Result<Self> {
        // Two rows of at least eight entries: a layout's length is a multiple of 16.
        let count = layout.len_with_halo() / GUARD + 2;
        let blocks = Blocks::touched(cpu, count, (Block([T::ZERO; GUARD]), GUARD), || {
            format!("a vector of {} cells", layout.shape())
        })?;
        Ok(Self { layout: *layout, blocks })
    }

    /// Returns its layout.
    #[inline(always)]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns all entries, row padding included, guards and halo rows not.
    #[inline(always)]
    pub fn entries(&self) -> &[T] {
        &self.all_entries()[self.layout.halo_len()[0]..][..self.layout.len()]
    }

    /// Returns all entries, row padding included, guards and halo rows not; the padding must stay zero.
    #[inline(always)]
    pub fn entries_mut(&mut self) -> &mut [T] {
        let (start, len) = (self.layout.halo_len()[0], self.layout.len());
        &mut self.all_entries_mut()[start..][..len]
    }

    /// Returns all entries, row padding and halo rows included, guards not.
    #[inline(always)]
    pub fn all_entries(&self) -> &[T] {
        let inner = &self.blocks[1..self.blocks.len() - 1];
        // SAFETY: `Block<T>` is `repr(C)` around `[T; 16]` and has no padding: 16 f32 or f64 fill one or two 64-byte lines.
        unsafe { slice::from_raw_parts(inner.as_ptr().cast(), inner.len() * GUARD) }
    }

    /// Returns all entries, row padding and halo rows included, guards not; the padding must stay zero.
    #[inline(always)]
    pub fn all_entries_mut(&mut self) -> &mut [T] {
        let last = self.blocks.len() - 1;
        let inner = &mut self.blocks[1..last];
        // SAFETY: as in `all_entries`.
        unsafe { slice::from_raw_parts_mut(inner.as_mut_ptr().cast(), inner.len() * GUARD) }
    }

    /// Returns the entry at a position, which may be in a halo row.
    #[inline(always)]
    pub(crate) fn at(&self, position: isize) -> T {
        self.all_entries()[self.layout.halo_len()[0].wrapping_add_signed(position)]
    }

    /// Shares it with kernels that read, guards and halo rows within reach.
    #[inline(always)]
    pub(crate) fn share(&self) -> Shared<T> {
        Shared::new(
            self.blocks.as_ptr().cast::<T>().cast_mut(),
            self.blocks.len() * GUARD,
            GUARD + self.layout.halo_len()[0],
        )
    }

    /// Shares it with kernels that write, guards and halo rows within reach.
    #[inline(always)]
    pub(crate) fn share_mut(&mut self) -> Shared<T> {
        Shared::new(self.blocks.as_mut_ptr().cast::<T>(), self.blocks.len() * GUARD, GUARD + self.layout.halo_len()[0])
    }
}
