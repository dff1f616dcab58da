//! Memory that several threads work on, each on rows of its own.

use std::marker::PhantomData;

/// A vector as kernels see it: rows by position, without the borrow checker, whose place the schedule
/// of [`crate::wavefront`] takes.
#[derive(Debug)]
pub(crate) struct Shared<T> {
    start: *mut T,
    len: usize,
    origin: usize,
    marker: PhantomData<T>,
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Shared<T> {}

// SAFETY: a `Shared` only gives access through its unsafe methods, whose callers promise that no row is
// written by one thread while another uses it.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// `len` entries from `start`; position 0 is entry `origin`.
    pub(crate) fn new(start: *mut T, len: usize, origin: usize) -> Self {
        Self { start, len, origin, marker: PhantomData }
    }

    /// All of a slice.
    pub(crate) fn of(slice: &mut [T]) -> Self {
        Self::new(slice.as_mut_ptr(), slice.len(), 0)
    }

    #[inline(always)]
    fn offset(self, position: isize, n: usize) -> usize {
        let offset = self.origin.wrapping_add_signed(position);
        debug_assert!(offset <= self.len && n <= self.len - offset, "{position} + {n} outside {}", self.len);
        offset
    }

    /// The `n` entries from `position`, which may reach into the guard.
    ///
    /// # Safety
    /// They lie within the vector and its guard, and nothing writes them during `'a`.
    #[inline(always)]
    pub(crate) unsafe fn row<'a>(self, position: isize, n: usize) -> &'a [T] {
        // SAFETY: promised by the caller.
        unsafe { std::slice::from_raw_parts(self.start.add(self.offset(position, n)), n) }
    }

    /// The `n` entries from `position`, to write.
    ///
    /// # Safety
    /// They lie within the vector, and nothing else reads or writes them during `'a`.
    #[inline(always)]
    pub(crate) unsafe fn row_mut<'a>(self, position: isize, n: usize) -> &'a mut [T] {
        // SAFETY: promised by the caller.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(self.offset(position, n)), n) }
    }

    /// Stores one entry.
    ///
    /// # Safety
    /// As [`Shared::row_mut`].
    #[inline(always)]
    pub(crate) unsafe fn set(self, position: isize, value: T) {
        // SAFETY: promised by the caller.
        if let [entry] = unsafe { self.row_mut(position, 1) } {
            *entry = value;
        }
    }
}
