//! Union–find (Tarjan, 1975), for connected components of a grid.

use crate::backend::AggregateMap;
use crate::layout::Shape;

/// A partition of 0, 1, …, n − 1.
#[derive(Clone, Debug)]
pub(crate) struct DisjointSets {
    parents: Vec<u32>,
}

impl DisjointSets {
    /// Every element by itself; `n` < 2³².
    pub(crate) fn new(n: usize) -> Self {
        Self { parents: (0..n as u32).collect() }
    }

    /// The representative of an element's set, its smallest member.
    pub(crate) fn find(&mut self, mut x: usize) -> usize {
        while self.parents[x] as usize != x {
            // Halving the path keeps later searches short.
            self.parents[x] = self.parents[self.parents[x] as usize];
            x = self.parents[x] as usize;
        }
        x
    }

    /// Makes one set of two.
    pub(crate) fn union(&mut self, x: usize, y: usize) {
        let (x, y) = (self.find(x), self.find(y));
        self.parents[x.max(y)] = x.min(y) as u32;
    }

    /// The sets as aggregates of a grid, leaving out cells that `within` refuses.
    pub(crate) fn aggregates(mut self, shape: Shape, within: impl Fn(usize) -> bool) -> AggregateMap {
        let n = self.parents.len();
        let ids = (0..n).map(|cell| if within(cell) { self.find(cell) as u32 } else { AggregateMap::NONE }).collect();
        AggregateMap::from_parts(shape, ids, n).compacted()
    }
}
