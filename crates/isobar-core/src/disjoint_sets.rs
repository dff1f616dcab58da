//! Union–find (Tarjan, 1975) by several threads at once, for connected components of a grid and strongly coupled aggregates.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::execute::{Execute, PIECE, atomics, for_each_piece};
use crate::large_pages::zeros;

/// A partition of 0, 1, …, n − 1; n < 2³².
#[derive(Clone, Debug)]
pub(crate) struct DisjointSets {
    /// An element of the same set: a lower one, or itself for the set's first element.
    parents: Vec<u32>,
}

impl DisjointSets {
    /// Makes every element a set of its own.
    pub(crate) fn new(execute: &impl Execute, count: usize) -> Self {
        let mut parents = zeros(count);
        for_each_piece(execute, &mut parents, |first, piece| {
            piece.iter_mut().zip(first as u32..).for_each(|(parent, n)| *parent = n);
        });
        Self { parents }
    }

    /// Returns a handle by which several threads join sets. The result does not depend on their order.
    pub(crate) fn joins(&mut self) -> Joins<'_> {
        Joins(atomics(&mut self.parents))
    }

    /// Numbers the sets in the order of their first elements. Returns the number of each element's set, and the number of sets.
    pub(crate) fn numbered(mut self, execute: &impl Execute) -> (Vec<u32>, usize) {
        let mut ids = zeros(self.parents.len());
        // Finds first elements, and their number in each piece.
        let joins = self.joins();
        let mut pieces: Vec<(&mut [u32], u32)> = ids.chunks_mut(PIECE).map(|piece| (piece, 0)).collect();
        execute.for_each(&mut pieces, |piece, (ids, count)| {
            for (id, element) in ids.iter_mut().zip((piece * PIECE) as u32..) {
                *id = joins.first(element);
                *count += u32::from(*id == element);
            }
        });
        let mut total = 0;
        for (_, count) in &mut pieces {
            (*count, total) = (total, total + *count);
        }
        // Stores their numbers in their places.
        let mut pieces: Vec<_> = pieces.into_iter().zip(self.parents.chunks_mut(PIECE)).collect();
        execute.for_each(&mut pieces, |piece, ((ids, next), numbers)| {
            for ((&mut id, number), element) in ids.iter_mut().zip(&mut **numbers).zip((piece * PIECE) as u32..) {
                if id == element {
                    *number = *next;
                    *next += 1;
                }
            }
        });
        let numbers = &self.parents;
        for_each_piece(execute, &mut ids, |_, ids| {
            ids.iter_mut().for_each(|id| *id = numbers[*id as usize]);
        });
        (ids, total as usize)
    }
}

/// Sets that are being joined. Other threads may join some at the same time, so that a read returns an earlier state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joins<'a>(&'a [AtomicU32]);

impl Joins<'_> {
    /// Returns the first element of a set.
    #[inline(always)]
    pub(crate) fn first(self, element: u32) -> u32 {
        let mut at = element;
        loop {
            let parent = self.parent(at);
            if parent == at {
                return at;
            }
            let grandparent = self.parent(parent);
            if grandparent == parent {
                return parent;
            }
            // Path halving keeps later searches short.
            self.0[at as usize].store(grandparent, Ordering::Relaxed);
            at = grandparent;
        }
    }

    /// Returns an element of the same set, a lower one if there is one.
    #[inline(always)]
    pub(crate) fn parent(self, element: u32) -> u32 {
        self.0[element as usize].load(Ordering::Relaxed)
    }

    /// Returns the first element of a set, and shortens later searches to it.
    #[inline(always)]
    pub(crate) fn shorten(self, element: u32) -> u32 {
        let (parent, first) = (self.parent(element), self.first(element));
        if first != parent {
            self.0[element as usize].store(first, Ordering::Relaxed);
        }
        first
    }

    /// Joins two sets: the higher first element goes below the lower. Returns whether they were separate.
    #[inline(always)]
    pub(crate) fn join(self, a: u32, b: u32) -> bool {
        loop {
            let (a, b) = (self.first(a), self.first(b));
            if a == b {
                return false;
            }
            let (low, high) = (a.min(b), a.max(b));
            let hooked = self.0[high as usize].compare_exchange(high, low, Ordering::Relaxed, Ordering::Relaxed);
            if hooked.is_ok() {
                return true;
            }
        }
    }

    /// Joins the elements of a row, `first` and those after it, which are all separate, each with the next where an entry is
    /// not 0, the last with the first; returns whether any were joined.
    #[inline(always)]
    pub(crate) fn join_runs(self, strong: &[u8], first: u32) -> bool {
        let (last, row) = (strong.len() - 1, &self.0[first as usize..][..strong.len()]);
        let (mut run, mut joins) = (first, 0);
        for (element, (parent, &is_strong)) in (first + 1..).zip(row[1..].iter().zip(strong)) {
            run = if is_strong > 0 { run } else { element };
            joins |= is_strong;
            parent.store(run, Ordering::Relaxed);
        }
        // A periodic direction joins its last cell with its first one.
        let is_closed = strong[last] > 0 && self.join(first + last as u32, first);
        joins > 0 || is_closed
    }
}

/// Calls `f` with each place where an entry is not 0.
#[inline(always)]
pub(crate) fn for_each_set(row: &[u8], mut f: impl FnMut(usize)) {
    let (eights, rest) = row.as_chunks::<8>();
    for (n, eight) in eights.iter().enumerate().filter(|(_, eight)| u64::from_ne_bytes(**eight) != 0) {
        (0..8).filter(|&i| eight[i] != 0).for_each(|i| f(8 * n + i));
    }
    let first = 8 * eights.len();
    (0..rest.len()).filter(|&i| rest[i] != 0).for_each(|i| f(first + i));
}
