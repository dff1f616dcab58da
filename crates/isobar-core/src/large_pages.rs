//! Memory in large pages: an allocator, and advice for memory of other allocators.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a large page, on most machines.
const LARGE_PAGE: usize = 2 << 20;

/// Bytes of an ordinary page.
const PAGE: usize = 4 << 10;
/// The smallest allocation in large pages; smaller ones are left to the system's allocator. B
const LEAST: usize = 16 << 10;
/// The largest part of a region; larger allocations are mappings of their own. B
const MOST: usize = 64 << 20;
/// The bytes of a region, of which only pages that have been touched take memory.
const REGION: usize = 256 << 20;
/// Parts begin at multiples of this.
const LINE: usize = 64;
/// The free parts that are always kept for reuse. B
const KEPT: usize = 64 << 20;
/// The limit of kept bytes above `KEPT`: more are kept as long as used and kept bytes together do not exceed the former maximum of used
/// ones. A setup spends a third of its time, and on some virtual machines most of it, on pages that the system has to clear again.
const MOST_KEPT: usize = 1 << 30;

/// An allocator for programs that solve on CPUs: on Linux, allocations of 16 KiB or more lie in large pages, and freed parts are used
/// again.
///
/// A setup writes to tens of thousands of ordinary pages for the first time, which takes as long as half of its computation, and sweeps
/// over many arrays at once would wait for the translation of addresses. The command and the libraries for Python and C have this
/// allocator. A Rust program opts in:
///
/// ```
/// # use isobar_core::large_pages::LargePages;
/// #[global_allocator]
/// static ALLOCATOR: LargePages = LargePages;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct LargePages;

// SAFETY: memory is the system allocator's, a part of a region that no other allocation has, or a mapping of its own, which the size
// alone decides; it has the size and the alignment that are asked for.
unsafe impl GlobalAlloc for LargePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match Home::of(layout) {
            // SAFETY: promised by the caller.
            Home::System => unsafe { System.alloc(layout) },
            Home::Region => POOL.with(|pool| pool.take(layout)).map_or(ptr::null_mut(), |(start, _)| start as *mut u8),
            Home::Mapping => map(layout.size()).map_or(ptr::null_mut(), |start| start as *mut u8),
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match Home::of(layout) {
            // SAFETY: promised by the caller.
            Home::System => unsafe { System.alloc_zeroed(layout) },
            Home::Region => {
                let Some((start, is_zero)) = POOL.with(|pool| pool.take(layout)) else { return ptr::null_mut() };
                let start = start as *mut u8;
                if !is_zero {
                    // SAFETY: it has just been allocated with this size.
                    unsafe { start.write_bytes(0, layout.size()) };
                }
                start
            }
            // The system's pages are zero.
            // SAFETY: promised by the caller.
            Home::Mapping => unsafe { self.alloc(layout) },
        }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        match Home::of(layout) {
            // SAFETY: promised by the caller; memory of this size comes from there.
            Home::System => unsafe { System.dealloc(start, layout) },
            Home::Region => POOL.with(|pool| pool.give(start as usize, part(layout))),
            Home::Mapping => unmap(start as usize..start as usize + layout.size().next_multiple_of(PAGE)),
        }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the size is valid for this alignment.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        if let (Home::System, Home::System) = (Home::of(layout), Home::of(new)) {
            // SAFETY: promised by the caller.
            return unsafe { System.realloc(start, layout, size) };
        }
        // SAFETY: as above; both allocations have as many bytes as are copied.
        unsafe {
            let to = self.alloc(new);
            if !to.is_null() {
                ptr::copy_nonoverlapping(start, to, layout.size().min(size));
                self.dealloc(start, layout);
            }
            to
        }
    }
}

/// Requests large pages for memory that has not been touched, where the system offers them and the memory is as large as one.
pub fn prefer_large_pages<X>(memory: &[X]) {
    let start = memory.as_ptr() as usize;
    let (first, end) = (start.next_multiple_of(PAGE), (start + size_of_val(memory)) / PAGE * PAGE);
    if end >= first + LARGE_PAGE {
        advise(first..end);
    }
}

/// Makes zeros that are first touched by the threads that will use them.
pub(crate) fn zeros<X: Clone + Default>(count: usize) -> Vec<X> {
    let all = vec![X::default(); count];
    prefer_large_pages(&all);
    all
}

/// The allocator that serves a request of this size and alignment.
enum Home {
    System,
    Region,
    Mapping,
}

impl Home {
    fn of(layout: Layout) -> Self {
        if cfg!(not(target_os = "linux")) || layout.size() < LEAST || layout.align() > LARGE_PAGE {
            Self::System
        } else if layout.size() <= MOST {
            Self::Region
        } else {
            Self::Mapping
        }
    }
}

/// Returns the bytes of a part of a region.
fn part(layout: Layout) -> usize {
    layout.size().next_multiple_of(LINE)
}

/// The free parts of all regions.
struct Pool {
    /// Parts that have been used, by their first byte. The nodes of the map are small, and so the system allocator's.
    free: BTreeMap<usize, usize>,
    /// The rest of the last region, which has not been used and is zero.
    fresh: Range<usize>,
    /// An upper bound of the bytes of free parts that take memory.
    kept: usize,
    /// Bytes in use.
    used: usize,
    /// The most bytes that were in use at once.
    peak: usize,
}

impl Pool {
    const NEW: Self = Self { free: BTreeMap::new(), fresh: 0..0, kept: 0, used: 0, peak: 0 };

    /// Takes a part, the smallest free one that suffices. Returns its first byte, and whether it is zero; nothing if there is no memory.
    fn take(&mut self, layout: Layout) -> Option<(usize, bool)> {
        let (size, align) = (part(layout), layout.align().max(LINE));
        let found = self.find(size, align);
        if found.is_some() {
            self.used += size;
            self.peak = self.peak.max(self.used);
        }
        found
    }

    /// Finds a part for [`Pool::take`].
    fn find(&mut self, size: usize, align: usize) -> Option<(usize, bool)> {
        let fits = |range: &Range<usize>| range.start.next_multiple_of(align) + size <= range.end;
        let free = self.free.iter().map(|(&start, &len)| start..start + len).filter(fits);
        if let Some(found) = free.min_by_key(Range::len) {
            self.free.remove(&found.start);
            let start = found.start.next_multiple_of(align);
            self.insert(found.start..start);
            self.insert(start + size..found.end);
            self.kept = self.kept.saturating_sub(size);
            return Some((start, false));
        }
        if !fits(&self.fresh) {
            // If memory is limited, there may be none for a whole region.
            let lengths = [REGION, size.next_multiple_of(LARGE_PAGE)];
            let (region, len) = lengths.into_iter().find_map(|len| Some((map(len)?, len)))?;
            let rest = std::mem::replace(&mut self.fresh, region..region + len);
            self.insert(rest);
        }
        let start = self.fresh.start.next_multiple_of(align);
        let gap = self.fresh.start..start;
        self.fresh.start = start + size;
        self.insert(gap);
        Some((start, true))
    }

    /// Returns a part, and the memory of all free parts to the system where they have become too many.
    fn give(&mut self, start: usize, size: usize) {
        self.insert(start..start + size);
        self.kept += size;
        self.used -= size;
        if self.kept > KEPT.max(self.peak.min(MOST_KEPT).saturating_sub(self.used)) {
            self.kept = 0;
            for (&start, &len) in &self.free {
                release(start..start + len);
            }
        }
    }

    /// Adds a free part, joined with its free neighbours.
    fn insert(&mut self, mut range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        if let Some((&start, &len)) = self.free.range(..range.start).next_back()
            && start + len == range.start
        {
            self.free.remove(&start);
            range.start = start;
        }
        if let Some(len) = self.free.remove(&range.end) {
            range.end += len;
        }
        self.free.insert(range.start, range.len());
    }
}

/// The pool of the process.
static POOL: Locked = Locked { is_taken: AtomicBool::new(false), pool: UnsafeCell::new(Pool::NEW) };

/// A pool behind a lock that may be held during a fork, so that the new process finds it consistent.
struct Locked {
    is_taken: AtomicBool,
    pool: UnsafeCell<Pool>,
}

// SAFETY: the pool is reached by the thread that holds the lock only.
unsafe impl Sync for Locked {}

impl Locked {
    fn with<R>(&self, f: impl FnOnce(&mut Pool) -> R) -> R {
        static FORKS: Once = Once::new();
        FORKS.call_once(hold_during_forks);
        self.acquire();
        // SAFETY: this thread holds the lock, and `f` cannot reach the pool again.
        let result = f(unsafe { &mut *self.pool.get() });
        self.release();
        result
    }

    fn acquire(&self) {
        while self.is_taken.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            std::thread::yield_now();
        }
    }

    fn release(&self) {
        self.is_taken.store(false, Ordering::Release);
    }
}

#[cfg(target_os = "linux")]
mod system {
    use super::*;

    /// Maps memory that begins with a large page and asks for large pages. Returns its address, or nothing if there is no memory.
    pub(super) fn map(size: usize) -> Option<usize> {
        let size = size.checked_next_multiple_of(PAGE)?;
        let reserved = size.checked_add(LARGE_PAGE)?;
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, at a place that the system chooses.
        let mapped = unsafe { libc::mmap(ptr::null_mut(), reserved, access, kind, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return None;
        }
        let all = mapped as usize..mapped as usize + reserved;
        let start = all.start.next_multiple_of(LARGE_PAGE);
        unmap(all.start..start);
        unmap(start + size..all.end);
        advise(start..start + size);
        Some(start)
    }

    /// Requests large pages for mapped pages.
    pub(super) fn advise(pages: Range<usize>) {
        // SAFETY: the advice changes no contents, and an old kernel may ignore it.
        unsafe { libc::madvise(pages.start as *mut libc::c_void, pages.len(), libc::MADV_HUGEPAGE) };
    }

    /// Unmaps whole pages of a mapping.
    pub(super) fn unmap(pages: Range<usize>) {
        if !pages.is_empty() {
            // SAFETY: these pages were mapped by `map`, and nothing refers to them any longer.
            unsafe { libc::munmap(pages.start as *mut libc::c_void, pages.len()) };
        }
    }

    /// Returns the memory of the whole large pages in a free range to the system.
    pub(super) fn release(range: Range<usize>) {
        let (start, end) = (range.start.next_multiple_of(LARGE_PAGE), range.end / LARGE_PAGE * LARGE_PAGE);
        if start < end {
            // SAFETY: these pages are mapped, and nothing is in them.
            unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED) };
        }
    }

    extern "C" fn before_fork() {
        POOL.acquire();
    }

    extern "C" fn after_fork() {
        POOL.release();
    }

    pub(super) fn hold_during_forks() {
        // SAFETY: these functions take and return the lock, nothing else. Without them (no memory) a fork may find the lock taken.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork)) };
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::*;

    pub(super) fn map(_size: usize) -> Option<usize> {
        None
    }

    pub(super) fn advise(_pages: Range<usize>) {}

    pub(super) fn unmap(_pages: Range<usize>) {}

    pub(super) fn release(_range: Range<usize>) {}

    pub(super) fn hold_during_forks() {}
}

use system::{advise, hold_during_forks, map, release, unmap};

#[cfg(test)]
mod tests;
