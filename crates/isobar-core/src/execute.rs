//! Passes over a grid on the host, on as many threads as there are.

use std::sync::atomic::AtomicU32;

/// Runs passes over planes, rows or other pieces.
pub trait Execute: Sync {
    /// `f(n, items[n])` for all n, in any order, or at the same time.
    fn for_each<X: Send>(&self, items: &mut [X], f: impl Fn(usize, &mut X) + Sync);

    /// Asks for large pages for memory that has not been touched. Small ones take longer to get than what is computed in
    /// them does.
    fn prefer_large_pages<X>(&self, _memory: &[X]) {}
}

/// One after the other.
#[derive(Clone, Copy, Debug)]
pub struct Serial;

impl Execute for Serial {
    fn for_each<X: Send>(&self, items: &mut [X], f: impl Fn(usize, &mut X) + Sync) {
        items.iter_mut().enumerate().for_each(|(n, item)| f(n, item));
    }
}

/// Elements of an array that one thread has at a time.
pub(crate) const PIECE: usize = 1 << 16;

/// Calls `f(first, piece)` with all pieces of an array, and where they begin.
pub(crate) fn for_each_piece<X: Send>(execute: &impl Execute, all: &mut [X], f: impl Fn(usize, &mut [X]) + Sync) {
    let mut pieces: Vec<&mut [X]> = all.chunks_mut(PIECE).collect();
    execute.for_each(&mut pieces, |piece, values| f(piece * PIECE, values));
}

/// Zeros that are first touched by whoever works on them.
pub(crate) fn zeros(execute: &impl Execute, count: usize) -> Vec<u32> {
    let all = vec![0; count];
    execute.prefer_large_pages(&all);
    all
}

/// The same numbers for several threads at once.
pub(crate) fn atomics(values: &mut [u32]) -> &[AtomicU32] {
    let values: *mut [u32] = values;
    // SAFETY: an `AtomicU32` has the size, the alignment and the values of a `u32`, and these stay borrowed for as long.
    unsafe { &*(values as *const [AtomicU32]) }
}
