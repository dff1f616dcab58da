//! Memory shared by several threads, each of which works on its own rows.

use std::marker::PhantomData;

use isobar_core::simd::{Lanes, Pack};
use pulp::Simd;

/// A vector for kernels: rows by position, without the borrow checker, whose role the schedule of [`crate::wavefront`]
/// takes.
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

impl<T: Lanes> Shared<T> {
    /// Returns [`Shared::row`] by packs.
    ///
    /// # Safety
    /// See [`Shared::row`].
    #[inline(always)]
    pub(crate) unsafe fn packs<'a, S: Simd>(self, simd: S, position: isize, n: usize) -> Row<'a, S, T> {
        // SAFETY: promised by the caller.
        Row::new(simd, unsafe { self.row(position, n) })
    }

    /// Returns [`Shared::row_mut`] by packs.
    ///
    /// # Safety
    /// See [`Shared::row_mut`].
    #[inline(always)]
    pub(crate) unsafe fn packs_mut<'a, S: Simd>(self, simd: S, position: isize, n: usize) -> RowMut<'a, S, T> {
        // SAFETY: promised by the caller.
        RowMut::new(simd, unsafe { self.row_mut(position, n) })
    }
}

impl<T> Shared<T> {
    /// Shares `len` entries from `start`; position 0 is entry `origin`.
    pub(crate) fn new(start: *mut T, len: usize, origin: usize) -> Self {
        Self { start, len, origin, marker: PhantomData }
    }

    /// Shares all of a slice.
    pub(crate) fn of(slice: &mut [T]) -> Self {
        Self::new(slice.as_mut_ptr(), slice.len(), 0)
    }

    #[inline(always)]
    fn offset(self, position: isize, n: usize) -> usize {
        let offset = self.origin.wrapping_add_signed(position);
        debug_assert!(offset <= self.len && n <= self.len - offset, "{position} + {n} outside {}", self.len);
        offset
    }

    /// Returns the `n` entries from `position`, which may reach into the guard.
    ///
    /// # Safety
    /// They lie within the vector and its guard, and nothing writes them during `'a`.
    #[inline(always)]
    pub(crate) unsafe fn row<'a>(self, position: isize, n: usize) -> &'a [T] {
        // SAFETY: promised by the caller.
        unsafe { std::slice::from_raw_parts(self.start.add(self.offset(position, n)), n) }
    }

    /// Returns the `n` entries from `position`, to write.
    ///
    /// # Safety
    /// They lie within the vector, and nothing else reads or writes them during `'a`.
    #[inline(always)]
    pub(crate) unsafe fn row_mut<'a>(self, position: isize, n: usize) -> &'a mut [T] {
        // SAFETY: promised by the caller.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(self.offset(position, n)), n) }
    }

    /// Returns the memory a little ahead of `position`.
    #[inline(always)]
    pub(crate) fn ahead(self, position: isize) -> Ahead<T> {
        Ahead(self.start.wrapping_add(self.origin).wrapping_offset(position).wrapping_add(Ahead::<T>::DISTANCE))
    }

    /// Returns `layers` rows of `n` entries, the first at `position`, each `step` after the one before.
    ///
    /// # Safety
    /// See [`Shared::row`], for all rows.
    #[inline(always)]
    pub(crate) unsafe fn strip<'a>(self, position: isize, n: usize, step: usize, layers: usize) -> Strip<'a, T> {
        debug_assert!(layers > 0 && self.offset(position + ((layers - 1) * step) as isize, n) <= self.len);
        // SAFETY: promised by the caller.
        Strip { first: unsafe { self.start.add(self.offset(position, n)) }, n, step, marker: PhantomData }
    }

    /// Stores one entry.
    ///
    /// # Safety
    /// See [`Shared::row_mut`].
    #[inline(always)]
    pub(crate) unsafe fn set(self, position: isize, value: T) {
        // SAFETY: promised by the caller.
        if let [entry] = unsafe { self.row_mut(position, 1) } {
            *entry = value;
        }
    }
}

/// Rows of equal length, one per layer, to read; or the same one in all layers.
#[derive(Debug)]
pub(crate) struct Strip<'a, T> {
    first: *const T,
    n: usize,
    /// The step from one row to the next.
    step: usize,
    marker: PhantomData<&'a [T]>,
}

impl<T> Clone for Strip<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Strip<'_, T> {}

impl<'a, T: Lanes> Strip<'a, T> {
    /// Makes every layer's row this one.
    #[inline(always)]
    pub(crate) fn repeated(row: &'a [T]) -> Self {
        Self { first: row.as_ptr(), n: row.len(), step: 0, marker: PhantomData }
    }

    /// Makes each entry a row.
    #[inline(always)]
    pub(crate) fn of_entries(entries: &'a [T]) -> Self {
        Self { first: entries.as_ptr(), n: 1, step: 1, marker: PhantomData }
    }

    /// Returns row k.
    ///
    /// # Safety
    /// There are more than k layers, or all have the same row.
    #[inline(always)]
    pub(crate) unsafe fn row<S: Simd>(&self, simd: S, k: usize) -> Row<'a, S, T> {
        // SAFETY: promised by the caller, and by that of `Shared::strip`.
        Row::new(simd, unsafe { std::slice::from_raw_parts(self.first.add(k * self.step), self.n) })
    }

    /// Returns the first entry of row k.
    ///
    /// # Safety
    /// See [`Strip::row`].
    #[inline(always)]
    pub(crate) unsafe fn first(&self, k: usize) -> T {
        // SAFETY: promised by the caller, and by that of `Shared::strip`.
        unsafe { *self.first.add(k * self.step) }
    }
}

/// An address to prefetch, pack by pack, some time before it is needed.
///
/// Half planes are contiguous and read from end to end, but a hardware prefetcher stops at every page,
/// 64 lines, and its restart would cost more than the arithmetic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead<T>(*const T);

impl<T> Ahead<T> {
    /// The elements to prefetch ahead: 2 KiB, which takes longer to compute than memory takes to answer.
    const DISTANCE: usize = 2048 / size_of::<T>();

    /// Returns the address some elements later.
    #[inline(always)]
    pub(crate) fn after(self, elements: usize) -> Self {
        Self(self.0.wrapping_add(elements))
    }

    /// Prefetches the line of pack i of `lanes` elements.
    #[inline(always)]
    pub(crate) fn fetch(self, i: usize, lanes: usize) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: prefetching is a hint; no address makes it fault, and it changes nothing.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(self.0.wrapping_add(i * lanes).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (i, lanes);
    }
}

/// A row to read, by packs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a, S: Simd, T: Lanes> {
    simd: S,
    registers: &'a [T::Register<S>],
}

/// A row to write, by packs.
#[derive(Debug)]
pub(crate) struct RowMut<'a, S: Simd, T: Lanes> {
    simd: S,
    registers: &'a mut [T::Register<S>],
}

impl<'a, S: Simd, T: Lanes> Row<'a, S, T> {
    /// Elements in a pack.
    pub(crate) const LANES: usize = size_of::<T::Register<S>>() / size_of::<T>();

    /// Makes packs of a row, which is a whole number of them, see
    /// [`isobar_core::layout::ROW_ALIGNMENT`] and [`Cpu::dispatch`](crate::cpu::Cpu::dispatch).
    #[inline(always)]
    pub(crate) fn new(simd: S, row: &'a [T]) -> Self {
        let (registers, rest) = T::registers::<S>(row);
        debug_assert!(rest.is_empty());
        Self { simd, registers }
    }

    /// Returns the packs in the row.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.registers.len()
    }

    #[inline(always)]
    pub(crate) fn get(&self, i: usize) -> Pack<S, T> {
        Pack::new(self.simd, self.registers[i])
    }

    /// Returns packs i to i + 3.
    #[inline(always)]
    pub(crate) fn four(&self, i: usize) -> [Pack<S, T>; 4] {
        let four = &self.registers[i..i + 4];
        [
            Pack::new(self.simd, four[0]),
            Pack::new(self.simd, four[1]),
            Pack::new(self.simd, four[2]),
            Pack::new(self.simd, four[3]),
        ]
    }
}

impl<'a, S: Simd, T: Lanes> RowMut<'a, S, T> {
    #[inline(always)]
    pub(crate) fn new(simd: S, row: &'a mut [T]) -> Self {
        let (registers, rest) = T::registers_mut::<S>(row);
        debug_assert!(rest.is_empty());
        Self { simd, registers }
    }

    /// Returns the packs in the row.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.registers.len()
    }

    #[inline(always)]
    pub(crate) fn get(&self, i: usize) -> Pack<S, T> {
        Pack::new(self.simd, self.registers[i])
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, i: usize, value: Pack<S, T>) {
        self.registers[i] = value.register();
    }
}
