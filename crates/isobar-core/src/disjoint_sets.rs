//! Union–find (Tarjan, 1975) of several threads at once, for connected components of a grid and bodies of its cells.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::backend::AggregateMap;
use crate::execute::{Execute, PIECE, atomics, for_each_piece, zeros};
use crate::layout::Shape;

/// A partition of 0, 1, …, n − 1; n < 2³².
#[derive(Clone, Debug)]
pub(crate) struct DisjointSets {
    /// An element of the same set, of a lower number but for the set's first element, which has its own.
    parents: Vec<u32>,
}

impl DisjointSets {
    /// Every element by itself.
    pub(crate) fn new(execute: &impl Execute, count: usize) -> Self {
        let mut parents = zeros(execute, count);
        for_each_piece(execute, &mut parents, |first, piece| {
            piece.iter_mut().zip(first as u32..).for_each(|(parent, n)| *parent = n);
        });
        Self { parents }
    }

    /// For joining by several threads. What comes out depends on no order.
    pub(crate) fn joins(&mut self) -> Joins<'_> {
        Joins(atomics(&mut self.parents))
    }

    /// The sets as aggregates of a grid, numbered in the order of their first cells, leaving out cells that are not `within`:
    /// of a row, j + ny k, whether its cells are.
    pub(crate) fn aggregates(
        mut self,
        execute: &impl Execute,
        shape: Shape,
        within: impl Fn(usize, &mut [bool]) + Sync,
    ) -> AggregateMap {
        let mut ids = zeros(execute, shape.cells());
        let rows = (PIECE / shape.nx).max(1);
        let of_piece = rows * shape.nx;
        // First cells, and how many of a piece's cells are one.
        let joins = self.joins();
        let mut pieces: Vec<(&mut [u32], u32)> = ids.chunks_mut(of_piece).map(|piece| (piece, 0)).collect();
        execute.for_each(&mut pieces, |piece, (ids, count)| {
            let mut is_within = vec![false; shape.nx];
            for (row, ids) in ids.chunks_exact_mut(shape.nx).enumerate() {
                let row = piece * rows + row;
                within(row, &mut is_within);
                for ((id, cell), &is_within) in ids.iter_mut().zip((row * shape.nx) as u32..).zip(&is_within) {
                    *id = if is_within { joins.first(cell) } else { AggregateMap::NONE };
                    *count += u32::from(*id == cell);
                }
            }
        });
        let mut total = 0;
        for (_, count) in &mut pieces {
            (*count, total) = (total, total + *count);
        }
        // Their numbers, where their own were.
        let mut pieces: Vec<_> = pieces.into_iter().zip(self.parents.chunks_mut(of_piece)).collect();
        execute.for_each(&mut pieces, |piece, ((ids, next), numbers)| {
            for ((&mut id, number), cell) in ids.iter_mut().zip(&mut **numbers).zip((piece * of_piece) as u32..) {
                if id == cell {
                    *number = *next;
                    *next += 1;
                }
            }
        });
        let numbers = &self.parents;
        for_each_piece(execute, &mut ids, |_, ids| {
            for id in ids.iter_mut().filter(|id| **id != AggregateMap::NONE) {
                *id = numbers[*id as usize];
            }
        });
        AggregateMap::from_parts(shape, ids, total as usize)
    }
}

/// Sets that are being joined. Other threads may join some meanwhile: what is read of them is an earlier state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joins<'a>(&'a [AtomicU32]);

impl Joins<'_> {
    /// The first element of a set.
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
            // Halving the way keeps later searches short.
            self.0[at as usize].store(grandparent, Ordering::Relaxed);
            at = grandparent;
        }
    }

    /// An element of the same set, of a lower number if there is one.
    #[inline(always)]
    pub(crate) fn parent(self, element: u32) -> u32 {
        self.0[element as usize].load(Ordering::Relaxed)
    }

    /// The first element of a set, which later searches find at once.
    #[inline(always)]
    pub(crate) fn shorten(self, element: u32) -> u32 {
        let (parent, first) = (self.parent(element), self.first(element));
        if first != parent {
            self.0[element as usize].store(first, Ordering::Relaxed);
        }
        first
    }

    /// Makes one set of two: the higher first element goes below the lower. Whether they were apart.
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

    /// Joins the elements of a row, `first` and those after it, which are all by themselves, each with the next where an entry
    /// is not 0, the last with the first; whether any were joined.
    #[inline(always)]
    pub(crate) fn join_runs(self, strong: &[u8], first: u32) -> bool {
        let (last, row) = (strong.len() - 1, &self.0[first as usize..][..strong.len()]);
        let (mut run, mut joins) = (first, 0);
        for (element, (parent, &is_strong)) in (first + 1..).zip(row[1..].iter().zip(strong)) {
            run = if is_strong > 0 { run } else { element };
            joins |= is_strong;
            parent.store(run, Ordering::Relaxed);
        }
        // Of a ring.
        let is_closed = strong[last] > 0 && self.join(first + last as u32, first);
        joins > 0 || is_closed
    }
}

/// `f` of where an entry is not 0.
#[inline(always)]
pub(crate) fn for_each_set(row: &[u8], mut f: impl FnMut(usize)) {
    let (eights, rest) = row.as_chunks::<8>();
    for (n, eight) in eights.iter().enumerate().filter(|(_, eight)| u64::from_ne_bytes(**eight) != 0) {
        (0..8).filter(|&i| eight[i] != 0).for_each(|i| f(8 * n + i));
    }
    let first = 8 * eights.len();
    (0..rest.len()).filter(|&i| rest[i] != 0).for_each(|i| f(first + i));
}
