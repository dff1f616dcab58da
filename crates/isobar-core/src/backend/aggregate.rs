//! Aggregates: sets of cells with one number each. They carry deflation vectors and null spaces.

use std::sync::OnceLock;

use super::Backend;
use crate::error::{Error, Result};
use crate::layout::Shape;
use crate::real::Real;

/// To which aggregate each cell belongs.
#[derive(Clone, Debug)]
pub struct AggregateMap {
    shape: Shape,
    /// Made when they are asked for, where all cells belong together.
    ids: OnceLock<Vec<u32>>,
    count: usize,
    is_whole: bool,
}

impl PartialEq for AggregateMap {
    fn eq(&self, other: &Self) -> bool {
        let is_same = (self.shape, self.count) == (other.shape, other.count);
        is_same && ((self.is_whole && other.is_whole) || self.ids() == other.ids())
    }
}

impl Eq for AggregateMap {}

impl AggregateMap {
    /// The id of cells in no aggregate.
    pub const NONE: u32 = u32::MAX;

    /// From an id for every cell, C order, each below `count` or [`AggregateMap::NONE`].
    ///
    /// # Errors
    /// [`Error::Shape`] for another number of cells, [`Error::Invalid`] for ids out of range.
    pub fn new(shape: Shape, ids: Vec<u32>, count: usize) -> Result<Self> {
        if ids.len() != shape.cells() {
            return Err(Error::shape(
                "the map of aggregates",
                format!("{} cells", ids.len()),
                format!("{shape} cells"),
            ));
        }
        match ids.iter().find(|&&id| id != Self::NONE && id as usize >= count) {
            Some(id) => {
                Err(Error::invalid("aggregates", format!("aggregate {id}, but there are {count}, counted from 0")))
            }
            None => Ok(Self::from_parts(shape, ids, count)),
        }
    }

    /// From ids that are known to be right.
    pub(crate) fn from_parts(shape: Shape, ids: Vec<u32>, count: usize) -> Self {
        Self { shape, ids: OnceLock::from(ids), count, is_whole: false }
    }

    /// All cells in one aggregate.
    pub fn whole(shape: Shape) -> Self {
        Self { shape, ids: OnceLock::new(), count: 1, is_whole: true }
    }

    /// Whether it was made as [`AggregateMap::whole`].
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The grid.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The aggregate of each cell, C order.
    pub fn ids(&self) -> &[u32] {
        self.ids.get_or_init(|| vec![0; self.shape.cells()])
    }

    /// How many aggregates there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The aggregate of a cell.
    pub fn aggregate(&self, cell: usize) -> Option<usize> {
        let id = self.ids()[cell];
        (id != Self::NONE).then_some(id as usize)
    }

    /// The same aggregates without those that `keep` refuses.
    #[must_use]
    pub fn filtered(self, keep: impl Fn(usize) -> bool) -> Self {
        if self.is_whole && keep(0) {
            return self;
        }
        let of = |&id: &u32| if id != Self::NONE && keep(id as usize) { id } else { Self::NONE };
        let ids = self.ids().iter().map(of).collect();
        Self::from_parts(self.shape, ids, self.count).compacted()
    }

    /// Cells in each aggregate.
    pub fn sizes(&self) -> Vec<usize> {
        if self.is_whole {
            return vec![self.shape.cells()];
        }
        let mut sizes = vec![0; self.count];
        for &id in self.ids().iter().filter(|&&id| id != Self::NONE) {
            sizes[id as usize] += 1;
        }
        sizes
    }

    /// The same aggregates, numbered without gaps in the order of their first cells.
    #[must_use]
    pub fn compacted(self) -> Self {
        if self.is_whole {
            return self;
        }
        let (mut numbers, mut count) = (vec![Self::NONE; self.count], 0);
        let mut ids = self.ids.into_inner().unwrap_or_default();
        for id in ids.iter_mut().filter(|id| **id != Self::NONE) {
            let number = &mut numbers[*id as usize];
            if *number == Self::NONE {
                *number = count;
                count += 1;
            }
            *id = *number;
        }
        Self::from_parts(self.shape, ids, count as usize)
    }
}

/// A back end with one number a aggregate. With Z the matrix whose columns are the aggregates' indicator
/// vectors, these are products with Z and Zᵀ, and a small dense matrix.
pub trait AggregateBackend: Backend {
    /// A [`AggregateMap`] on the device.
    type Aggregates: Send + Sync;
    /// One double-precision number a aggregate, on the device.
    type AggregateVector: Send;
    /// A dense square matrix in double precision, on the device.
    type AggregateMatrix: Send + Sync;

    /// Puts a map on the device.
    ///
    /// # Errors
    /// As [`Backend::zeros`].
    fn aggregates(&self, map: &AggregateMap) -> Result<Self::Aggregates>;

    /// A vector of zeros.
    ///
    /// # Errors
    /// As [`Backend::zeros`].
    fn aggregate_vector(&self, count: usize) -> Result<Self::AggregateVector>;

    /// Puts a matrix on the device: `size` rows, one after another.
    ///
    /// # Errors
    /// As [`Backend::zeros`].
    fn aggregate_matrix(&self, size: usize, entries: &[f64]) -> Result<Self::AggregateMatrix>;

    /// sums = Zᵀ x, the same sums whatever the number of threads
    fn aggregate_sums<T: Real>(
        &self,
        x: &Self::Vector<T>,
        aggregates: &Self::Aggregates,
        sums: &mut Self::AggregateVector,
    ) -> Result<()>;

    /// y += Z a
    fn add_aggregated<T: Real>(
        &self,
        aggregates: &Self::Aggregates,
        a: &Self::AggregateVector,
        y: &mut Self::Vector<T>,
    ) -> Result<()>;

    /// y = x + Z a
    ///
    /// # Errors
    /// What the device reports.
    fn plus_aggregated<T: Real>(
        &self,
        aggregates: &Self::Aggregates,
        a: &Self::AggregateVector,
        x: &Self::Vector<T>,
        y: &mut Self::Vector<T>,
    ) -> Result<()> {
        self.convert(x, y)?;
        self.add_aggregated(aggregates, a, y)
    }

    /// x = 0 in cells of no aggregate
    fn clear_outside<T: Real>(&self, aggregates: &Self::Aggregates, x: &mut Self::Vector<T>) -> Result<()>;

    /// y = M x
    fn aggregate_multiply(
        &self,
        matrix: &Self::AggregateMatrix,
        x: &Self::AggregateVector,
        y: &mut Self::AggregateVector,
    ) -> Result<()>;

    /// y = f ∘ x, number by number
    fn aggregate_scale(
        &self,
        f: &Self::AggregateVector,
        x: &Self::AggregateVector,
        y: &mut Self::AggregateVector,
    ) -> Result<()>;

    /// Copies the numbers to the host, waiting for the steps that write them.
    fn read_aggregated(&self, x: &Self::AggregateVector, to: &mut [f64]) -> Result<()>;

    /// Copies numbers from the host.
    fn write_aggregated(&self, from: &[f64], x: &mut Self::AggregateVector) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compaction_closes_gaps() {
        let none = AggregateMap::NONE;
        let map = AggregateMap::new(Shape::new(6, 1, 1), vec![4, none, 2, 4, 7, 2], 9).unwrap().compacted();
        assert_eq!(map.ids(), [0, none, 1, 0, 2, 1]);
        assert_eq!((map.count(), map.sizes()), (3, vec![2, 2, 1]));
        assert!(AggregateMap::new(Shape::new(2, 1, 1), vec![0, 3], 3).is_err());
    }
}
