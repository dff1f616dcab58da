//! Regions: sets of cells with one number each. They carry deflation vectors and null spaces.

use crate::backend::{Backend, Slot};
use crate::error::{Error, Result};
use crate::layout::Shape;
use crate::operator::Operator;
use crate::real::Real;

/// To which region each cell belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionMap {
    shape: Shape,
    ids: Vec<u32>,
    count: usize,
}

impl RegionMap {
    /// The id of cells in no region.
    pub const NONE: u32 = u32::MAX;

    /// From an id for every cell, C order, each below `count` or [`RegionMap::NONE`].
    ///
    /// # Errors
    /// [`Error::Shape`] for another number of cells, [`Error::Invalid`] for ids out of range.
    pub fn new(shape: Shape, ids: Vec<u32>, count: usize) -> Result<Self> {
        if ids.len() != shape.cells() {
            return Err(Error::shape("the map of regions", format!("{} cells", ids.len()), format!("{shape} cells")));
        }
        match ids.iter().find(|&&id| id != Self::NONE && id as usize >= count) {
            Some(id) => Err(Error::invalid("regions", format!("region {id}, but there are {count}, counted from 0"))),
            None => Ok(Self::from_parts(shape, ids, count)),
        }
    }

    /// From ids that are known to be right.
    pub(crate) fn from_parts(shape: Shape, ids: Vec<u32>, count: usize) -> Self {
        Self { shape, ids, count }
    }

    /// The grid.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The region of each cell, C order.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// How many regions there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The region of a cell.
    pub fn region(&self, cell: usize) -> Option<usize> {
        let id = self.ids[cell];
        (id != Self::NONE).then_some(id as usize)
    }

    /// The same regions without those that `keep` refuses.
    #[must_use]
    pub fn filtered(mut self, keep: impl Fn(usize) -> bool) -> Self {
        for id in &mut self.ids {
            if *id != Self::NONE && !keep(*id as usize) {
                *id = Self::NONE;
            }
        }
        self.compacted()
    }

    /// Cells in each region.
    pub fn sizes(&self) -> Vec<usize> {
        let mut sizes = vec![0; self.count];
        for &id in self.ids.iter().filter(|&&id| id != Self::NONE) {
            sizes[id as usize] += 1;
        }
        sizes
    }

    /// The same regions, numbered without gaps in the order of their first cells.
    #[must_use]
    pub fn compacted(mut self) -> Self {
        let mut numbers = vec![Self::NONE; self.count];
        self.count = 0;
        for id in self.ids.iter_mut().filter(|id| **id != Self::NONE) {
            let number = &mut numbers[*id as usize];
            if *number == Self::NONE {
                *number = self.count as u32;
                self.count += 1;
            }
            *id = *number;
        }
        self
    }
}

/// A back end with one number a region. With Z the matrix whose columns are the regions' indicator
/// vectors, these are products with Z and Zᵀ, and a small dense matrix.
pub trait RegionBackend: Backend {
    /// A [`RegionMap`] on the device.
    type Regions: Send + Sync;
    /// One double-precision number a region, on the device.
    type RegionVector: Send;
    /// A dense square matrix in double precision, on the device.
    type RegionMatrix: Send + Sync;

    /// Puts a map on the device.
    ///
    /// # Errors
    /// As [`Backend::zeros`].
    fn regions(&self, map: &RegionMap) -> Result<Self::Regions>;

    /// A vector of zeros.
    ///
    /// # Errors
    /// As [`Backend::zeros`].
    fn region_vector(&self, count: usize) -> Result<Self::RegionVector>;

    /// Puts a matrix on the device: `size` rows, one after another.
    ///
    /// # Errors
    /// As [`Backend::zeros`].
    fn region_matrix(&self, size: usize, entries: &[f64]) -> Result<Self::RegionMatrix>;

    /// sums = Zᵀ x, the same sums whatever the number of threads
    fn region_sums<T: Real>(
        &self,
        x: &Self::Vector<T>,
        regions: &Self::Regions,
        sums: &mut Self::RegionVector,
    ) -> Result<()>;

    /// y += Z a
    fn add_regional<T: Real>(
        &self,
        regions: &Self::Regions,
        a: &Self::RegionVector,
        y: &mut Self::Vector<T>,
    ) -> Result<()>;

    /// x = 0 in cells of no region
    fn clear_outside<T: Real>(&self, regions: &Self::Regions, x: &mut Self::Vector<T>) -> Result<()>;

    /// y = M x
    fn region_multiply(
        &self,
        matrix: &Self::RegionMatrix,
        x: &Self::RegionVector,
        y: &mut Self::RegionVector,
    ) -> Result<()>;

    /// Copies the numbers to the host, waiting for the steps that write them.
    fn read_regional(&self, x: &Self::RegionVector, to: &mut [f64]) -> Result<()>;

    /// Copies numbers from the host.
    fn write_regional(&self, from: &[f64], x: &mut Self::RegionVector) -> Result<()>;
}

/// The step that deflation adds to an iteration.
pub trait RegionOperator<B: RegionBackend, T: Real>: Operator<B, T> {
    /// q −= A Z a;  σ = ⟨p, q⟩
    fn subtract_regional(
        &self,
        regions: &B::Regions,
        a: &B::RegionVector,
        p: &B::Vector<T>,
        q: &mut B::Vector<T>,
        sigma: Slot,
        scalars: &mut B::Scalars,
    ) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compaction_closes_gaps() {
        let none = RegionMap::NONE;
        let map = RegionMap::new(Shape::new(6, 1, 1), vec![4, none, 2, 4, 7, 2], 9).unwrap().compacted();
        assert_eq!(map.ids(), [0, none, 1, 0, 2, 1]);
        assert_eq!((map.count(), map.sizes()), (3, vec![2, 2, 1]));
        assert!(RegionMap::new(Shape::new(2, 1, 1), vec![0, 3], 3).is_err());
    }
}
