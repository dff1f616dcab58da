//! Aggregates, sets of cells with one number each, which carry deflation vectors and null spaces.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::{Backend, Runs};
use crate::error::{Error, Result};
use crate::execute::{Execute, Host, PIECE, map_pieces, rows};
use crate::layout::{Colour, Layout, Shape};
use crate::real::Real;

/// A map from cells to aggregates.
#[derive(Clone, Debug)]
pub struct AggregateMap {
    shape: Shape,
    /// The aggregate of each cell; made on demand if it is one aggregate, or if the aggregates are given as runs.
    ids: Arc<OnceLock<Vec<u32>>>,
    count: usize,
    is_whole: bool,
    /// The aggregates as runs of cells, with the id of each.
    runs: Option<(Arc<Runs>, Arc<[u32]>)>,
    /// The aggregates of the cells in a subdomain's halo rows, x first, then layers.
    halo: [Option<Vec<u32>>; 2],
}

impl PartialEq for AggregateMap {
    fn eq(&self, other: &Self) -> bool {
        let is_same = (self.shape, self.count, &self.halo) == (other.shape, other.count, &other.halo);
        is_same && ((self.is_whole && other.is_whole) || self.ids() == other.ids())
    }
}

impl Eq for AggregateMap {}

impl AggregateMap {
    /// The id of cells in no aggregate.
    pub const NONE: u32 = u32::MAX;

    /// Makes a map of an id for every cell, C order, each below `count` or [`AggregateMap::NONE`].
    ///
    /// # Errors
    /// [`Error::Shape`] for another number of cells, [`Error::Invalid`] for ids out of range.
    pub fn new(shape: Shape, ids: Vec<u32>, count: usize) -> Result<Self> {
        if ids.len() != shape.cells() {
            let found = format!("{} cells", ids.len());
            return Err(Error::shape("the map of aggregates", found, format!("{shape} cells")));
        }
        match ids.iter().find(|&&id| id != Self::NONE && id as usize >= count) {
            Some(id) => {
                Err(Error::invalid("aggregates", format!("aggregate {id}, but there are {count}, counted from 0")))
            }
            None => Ok(Self::from_parts(shape, ids, count)),
        }
    }

    /// Makes a map of ids that are known to be valid.
    pub(crate) fn from_parts(shape: Shape, ids: Vec<u32>, count: usize) -> Self {
        let ids = Arc::new(OnceLock::from(ids));
        Self { shape, ids, count, is_whole: false, runs: None, halo: [None, None] }
    }

    /// Makes a map of runs of cells with an id for each. The ids of cells are made when they are first used.
    pub(crate) fn of_runs(shape: Shape, runs: Arc<Runs>, ids: Arc<[u32]>, count: usize) -> Self {
        Self { shape, ids: Arc::default(), count, is_whole: false, runs: Some((runs, ids)), halo: [None, None] }
    }

    /// Returns the runs of cells, and the id of each, if the map was made from runs.
    pub(crate) fn runs(&self) -> Option<(&Arc<Runs>, &[u32])> {
        self.runs.as_ref().map(|(runs, ids)| (runs, &**ids))
    }

    /// Makes one aggregate of all cells.
    pub fn whole(shape: Shape) -> Self {
        Self { shape, ids: Arc::default(), count: 1, is_whole: true, runs: None, halo: [None, None] }
    }

    /// Restricts a whole grid's aggregates to the cells of a layout, of all or of a subdomain. They keep their numbers.
    ///
    /// # Errors
    /// [`Error::Shape`] for a subdomain of another grid.
    pub fn on(self, layout: &Layout) -> Result<Self> {
        if layout.is_part() { self.of_part(layout) } else { Ok(self) }
    }

    /// Restricts a whole grid's aggregates to the cells of a subdomain and its halo rows. They keep their numbers.
    ///
    /// # Errors
    /// [`Error::Shape`] for a subdomain of another grid.
    pub fn of_part(&self, part: &Layout) -> Result<Self> {
        let (own, whole, first, [before, after]) = (part.shape(), self.shape, part.first_row(), part.halo());
        let is_ring = part.divides_ring();
        let has_halo = is_ring || (first >= before && first + own.ny + after <= whole.ny);
        if (own.nx, own.nz) != (whole.nx, whole.nz) || first + own.ny > whole.ny || !has_halo {
            return Err(Error::shape("a subdomain of a map of aggregates", own, format!("cells of {whole}")));
        }
        let rows = |first: usize, count: usize| -> Vec<u32> {
            if self.is_whole {
                return vec![0; own.nx * count * whole.nz];
            }
            let layers = self.ids().chunks_exact(whole.nx * whole.ny);
            layers.flat_map(|layer| &layer[whole.nx * first..][..whole.nx * count]).copied().collect()
        };
        let beside = |j: isize| rows(part.row_there(j), 1);
        let halo = [(before > 0).then(|| beside(-1)), (after > 0).then(|| beside(own.ny.cast_signed()))];
        let ids = if self.is_whole { OnceLock::new() } else { OnceLock::from(rows(first, own.ny)) };
        Ok(Self { shape: own, ids: Arc::new(ids), count: self.count, is_whole: self.is_whole, runs: None, halo })
    }

    /// Returns the aggregates of the cells in the halo rows of a subdomain, before its first row and after its last: an id or
    /// [`AggregateMap::NONE`] for each, x first, then layers.
    pub fn halo(&self) -> [Option<&[u32]>; 2] {
        self.halo.each_ref().map(Option::as_deref)
    }

    /// Returns whether it was made by [`AggregateMap::whole`].
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Returns the shape of the grid.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the aggregate of each cell, C order.
    pub fn ids(&self) -> &[u32] {
        self.ids.get_or_init(|| match &self.runs {
            Some((runs, ids)) => runs.expanded(&Host, ids, Self::NONE),
            None => vec![0; self.shape.cells()],
        })
    }

    /// Calls `f(aggregate, cells)` for runs of cells of row j + ny k that belong to one aggregate, in their order, counted from the first of the row.
    pub fn for_each_run(&self, row: usize, mut f: impl FnMut(u32, Range<usize>)) {
        let nx = self.shape.nx;
        match &self.runs {
            Some((runs, ids)) => runs.for_each_of_row(row, |run, cells| {
                if ids[run] != Self::NONE {
                    f(ids[run], cells);
                }
            }),
            None if self.is_whole => f(0, 0..nx),
            None => {
                let mut next = 0;
                for run in self.ids()[row * nx..][..nx].chunk_by(|a, b| a == b) {
                    let cells = next..next + run.len();
                    next = cells.end;
                    if run[0] != Self::NONE {
                        f(run[0], cells);
                    }
                }
            }
        }
    }

    /// Calls `f(aggregate, places)` for runs of places of plane j of a vector that belong to one aggregate, in their order.
    pub fn for_each_run_of_plane(&self, layout: &Layout, j: usize, mut f: impl FnMut(u32, Range<usize>)) {
        let Shape { ny, nz, .. } = self.shape;
        for (colour, k) in Colour::BOTH.into_iter().flat_map(|colour| (0..nz).map(move |k| (colour, k))) {
            let parity = layout.parity(j, colour);
            // Runs of cells that follow each other become one of this colour, if only a cell of the other is between them.
            let mut last: Option<(u32, Range<usize>)> = None;
            let mut end = |run: Option<(u32, Range<usize>)>| {
                if let Some((id, run)) = run {
                    let start = layout.index(2 * run.start + parity, j, k);
                    f(id, start..start + run.len());
                }
            };
            self.for_each_run(j + ny * k, |id, cells| {
                let place = |i: usize| i.saturating_sub(parity).div_ceil(2);
                let run = place(cells.start)..place(cells.end);
                match &mut last {
                    Some((before, cells)) if *before == id && cells.end == run.start => cells.end = run.end,
                    _ if run.is_empty() => {}
                    _ => end(last.replace((id, run))),
                }
            });
            end(last);
        }
    }

    /// Returns the number of aggregates.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the aggregate of a cell.
    pub fn aggregate(&self, cell: usize) -> Option<usize> {
        let id = match (self.ids.get(), &self.runs) {
            (None, Some((runs, ids))) => ids[runs.of_cell(cell)?],
            _ => self.ids()[cell],
        };
        (id != Self::NONE).then_some(id as usize)
    }

    /// Returns the aggregate of cell (i, j, k), which may be in a halo row; j of the row before the first
    /// is 0 − 1, wrapping around.
    pub fn aggregate_at(&self, [i, j, k]: [usize; 3]) -> Option<usize> {
        let Shape { nx, ny, .. } = self.shape;
        let id = match &self.halo {
            [Some(before), _] if j == usize::MAX => before[i + nx * k],
            [_, Some(after)] if j == ny => after[i + nx * k],
            _ => return self.aggregate(i + nx * (j + ny * k)),
        };
        (id != Self::NONE).then_some(id as usize)
    }

    /// Removes the aggregates of a whole grid for which `keep` is false.
    #[must_use]
    pub fn filtered(self, keep: impl Fn(usize) -> bool) -> Self {
        if (0..self.count).all(&keep) {
            return self;
        }
        let of = |&id: &u32| if id != Self::NONE && keep(id as usize) { id } else { Self::NONE };
        let ids = self.ids().iter().map(of).collect();
        Self::from_parts(self.shape, ids, self.count).compacted()
    }

    /// Removes all aggregates of a whole grid that are not `kept`, and renumbers the others without gaps, in their order.
    #[must_use]
    pub fn of_kept(&self, kept: &[bool], execute: &impl Execute) -> Self {
        if !kept.contains(&false) {
            return self.clone();
        }
        let mut next = 0..;
        let number = |&kept: &bool| if kept { next.next() } else { None }.unwrap_or(Self::NONE);
        let numbers: Vec<u32> = kept.iter().map(number).collect();
        let of = |&id: &u32| numbers.get(id as usize).copied().unwrap_or(Self::NONE);
        let count = kept.iter().filter(|kept| **kept).count();
        if let Some((runs, ids)) = &self.runs {
            return Self::of_runs(self.shape, Arc::clone(runs), ids.iter().map(of).collect(), count);
        }
        let before = self.ids();
        let ids = rows(execute, before.len(), PIECE, |piece, ids| {
            ids.iter_mut().zip(&before[piece * PIECE..]).for_each(|(id, before)| *id = of(before));
        });
        Self::from_parts(self.shape, ids, count)
    }

    /// Returns whether every cell is in some aggregate.
    pub fn has_all_cells(&self) -> bool {
        match &self.runs {
            Some(_) => self.cells() == self.shape.cells(),
            None => self.is_whole || !self.ids().contains(&Self::NONE),
        }
    }

    /// Returns the number of cells in all aggregates together, counted by all threads.
    pub fn cells(&self) -> usize {
        if self.is_whole {
            return self.shape.cells();
        }
        if let Some((runs, ids)) = &self.runs {
            let of_run = |(&id, run): (&u32, usize)| if id == Self::NONE { 0 } else { runs.length(run) };
            let of_piece = |first: usize, ids: &[u32]| ids.iter().zip(first..).map(of_run).sum::<usize>();
            return map_pieces(&Host, ids, of_piece).into_iter().sum();
        }
        let of_piece = |_, ids: &[u32]| ids.iter().map(|&id| usize::from(id != Self::NONE)).sum::<usize>();
        map_pieces(&Host, self.ids(), of_piece).into_iter().sum()
    }

    /// Returns the number of cells in each aggregate.
    pub fn sizes(&self) -> Vec<usize> {
        let mut sizes = vec![0; self.count];
        if let Some((runs, ids)) = &self.runs {
            let inside = ids.iter().enumerate().filter(|(_, id)| **id != Self::NONE);
            inside.for_each(|(run, &id)| sizes[id as usize] += runs.length(run));
            return sizes;
        }
        if self.count == 1 {
            return vec![self.cells()];
        }
        for &id in self.ids().iter().filter(|&&id| id != Self::NONE) {
            sizes[id as usize] += 1;
        }
        sizes
    }

    /// Renumbers the aggregates of a whole grid without gaps, in the order of their first cells.
    #[must_use]
    pub fn compacted(self) -> Self {
        if self.is_whole {
            return self;
        }
        let (mut numbers, mut count) = (vec![Self::NONE; self.count], 0);
        self.ids();
        let mut ids = Arc::unwrap_or_clone(self.ids).into_inner().unwrap_or_default();
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

/// Implements [`AggregateBackend::multiply_cells`] step by step.
pub fn multiply_cells<B: AggregateBackend, T: Real>(
    backend: &B,
    cells: &B::Aggregates,
    matrix: &B::AggregateMatrix,
    [sums, solution]: &mut [B::AggregateVector; 2],
    f: &B::Vector<T>,
    u: &mut B::Vector<T>,
) -> Result<()> {
    backend.aggregate_sums(f, cells, sums)?;
    backend.aggregate_multiply(matrix, sums, solution)?;
    backend.clear(u)?;
    backend.add_aggregated(cells, solution, u)
}

/// A back end with one number for each aggregate. With Z the matrix of the aggregates' indicator vectors as columns, its steps
/// are products with Z and Zᵀ, and with a small dense matrix.
pub trait AggregateBackend: Backend {
    /// A [`AggregateMap`] on the device.
    type Aggregates: Send + Sync;
    /// One double-precision number for each aggregate, on the device.
    type AggregateVector: Send;
    /// A dense square matrix in double precision, on the device.
    type AggregateMatrix: Send + Sync;

    /// Returns whether sums pass through the host, so that steps with them cannot be recorded and replayed.
    fn sums_on_host(&self) -> bool {
        false
    }

    /// Puts a map on the device.
    fn aggregates(&self, map: &AggregateMap) -> Result<Self::Aggregates>;

    /// Makes a vector of zeros.
    fn aggregate_vector(&self, count: usize) -> Result<Self::AggregateVector>;

    /// Puts a matrix on the device: `size` rows, one after another.
    fn aggregate_matrix(&self, size: usize, entries: &[f64]) -> Result<Self::AggregateMatrix>;

    /// Computes sums = Zᵀ x, with a result that does not depend on the number of threads.
    fn aggregate_sums<T: Real>(
        &self,
        x: &Self::Vector<T>,
        aggregates: &Self::Aggregates,
        sums: &mut Self::AggregateVector,
    ) -> Result<()>;

    /// Computes y += Z a.
    fn add_aggregated<T: Real>(
        &self,
        aggregates: &Self::Aggregates,
        a: &Self::AggregateVector,
        y: &mut Self::Vector<T>,
    ) -> Result<()>;

    /// Computes y = x + Z a.
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

    /// Computes y = M x.
    fn aggregate_multiply(
        &self,
        matrix: &Self::AggregateMatrix,
        x: &Self::AggregateVector,
        y: &mut Self::AggregateVector,
    ) -> Result<()>;

    /// Computes u = M f for a matrix with a row for each cell, each of which is an aggregate; `between` is for their numbers.
    fn multiply_cells<T: Real>(
        &self,
        cells: &Self::Aggregates,
        matrix: &Self::AggregateMatrix,
        between: &mut [Self::AggregateVector; 2],
        f: &Self::Vector<T>,
        u: &mut Self::Vector<T>,
    ) -> Result<()> {
        multiply_cells(self, cells, matrix, between, f, u)
    }

    /// Computes y = f ∘ x, number by number.
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
        assert_eq!((map.count(), map.sizes(), map.cells()), (3, vec![2, 2, 1], 5));
        assert_eq!(map.filtered(|aggregate| aggregate == 1).sizes(), [2]);
        assert!(AggregateMap::new(Shape::new(2, 1, 1), vec![0, 3], 3).is_err());
    }

    #[test]
    fn a_part_knows_its_halo_rows() {
        use crate::layout::Slab;
        let (whole, none) = (Shape::new(2, 5, 3), AggregateMap::NONE);
        let ids: Vec<u32> = (0..30).map(|n| if n % 7 == 0 { none } else { n }).collect();
        let (map, all) = (AggregateMap::new(whole, ids, 30).unwrap(), AggregateMap::whole(whole));
        for slab in [Slab { first: 0, beyond: 2 }, Slab { first: 2, beyond: 3 }, Slab { first: 3, beyond: 5 }] {
            let layout = slab.layout(whole, false).unwrap();
            let (part, [before, after]) = (map.of_part(&layout).unwrap(), layout.halo());
            assert_eq!((part.count(), part.halo().map(|row| row.is_some())), (30, [before > 0, after > 0]));
            for j in slab.first - before..slab.beyond + after {
                for (i, k) in (0..3).flat_map(|k| (0..2).map(move |i| (i, k))) {
                    let at = [i, j.wrapping_sub(slab.first), k];
                    assert_eq!(part.aggregate_at(at), map.aggregate(i + 2 * (j + 5 * k)), "{slab:?} {at:?}");
                    assert_eq!(all.of_part(&layout).unwrap().aggregate_at(at), Some(0));
                }
            }
        }
        assert!(map.of_part(&Layout::new(Shape::new(3, 5, 3)).unwrap()).is_err());
        let layout = Slab { first: 3, beyond: 5 }.layout(whole, true).unwrap();
        let part = map.of_part(&layout).unwrap();
        assert_eq!((part.aggregate_at([1, usize::MAX, 0]), part.aggregate_at([1, 2, 0])), (Some(5), Some(1)));
    }
}
