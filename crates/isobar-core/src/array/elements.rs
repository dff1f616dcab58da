//! This module holds the memory of a view, of which other views may use other elements at the same time.

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;

/// The memory that a view's elements lie in.
///
/// Several views may have interleaved elements of one array, so that slices cannot describe them. A view accesses, and a
/// mutable view changes, no elements but its own, which its shape and place determine.
#[derive(Debug)]
pub(super) struct Elements<'a, T> {
    start: NonNull<T>,
    len: usize,
    of: PhantomData<&'a T>,
}

impl<T> Clone for Elements<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Elements<'_, T> {}

// SAFETY: as references to elements of this type, which the views that share memory do not write at the same time.
unsafe impl<T: Send + Sync> Send for Elements<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Elements<'_, T> {}

impl<'a, T: Copy> Elements<'a, T> {
    pub(super) fn of(data: &'a [T]) -> Self {
        Self { start: NonNull::from(data).cast(), len: data.len(), of: PhantomData }
    }

    /// Takes the memory for a view that may write.
    pub(super) fn to_write(data: &'a mut [T]) -> Self {
        Self { len: data.len(), start: NonNull::from(data).cast(), of: PhantomData }
    }

    /// Returns one element.
    #[inline(always)]
    pub(super) fn get(self, n: usize) -> T {
        assert!(n < self.len, "element {n} of {}", self.len);
        // SAFETY: within the memory, which is borrowed for 'a; nobody writes a view's own elements while it reads them.
        unsafe { self.start.add(n).read() }
    }

    /// Returns elements that follow each other.
    pub(super) fn slice(self, range: Range<usize>) -> &'a [T] {
        assert!(range.start <= range.end && range.end <= self.len, "elements {range:?} of {}", self.len);
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.start.add(range.start).as_ptr(), range.len()) }
    }

    /// Stores one element.
    ///
    /// # Safety
    /// The memory is borrowed to be written, and the element belongs to the caller's view, which is borrowed to write.
    #[inline(always)]
    pub(super) unsafe fn set(self, n: usize, value: T) {
        assert!(n < self.len, "element {n} of {}", self.len);
        // SAFETY: within the memory, and the caller's alone.
        unsafe { self.start.add(n).write(value) }
    }

    /// Returns elements that follow each other, to be written.
    ///
    /// # Safety
    /// See [`Elements::set`]; the caller returns them no longer than the view is borrowed.
    pub(super) unsafe fn slice_mut(self, range: Range<usize>) -> &'a mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "elements {range:?} of {}", self.len);
        // SAFETY: within the memory, and the caller's alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start).as_ptr(), range.len()) }
    }
}
