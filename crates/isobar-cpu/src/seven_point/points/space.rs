//! A thread's copy of a tile, and its layout.

use isobar_core::layout::ROW_ALIGNMENT;
use isobar_core::options::Span;
use isobar_core::prelude::{Error, Layout, PointCycle, Real, Result, Shape};

use crate::{Cpu, Vector};

/// The workspace of tiles, or of alternating sweeps; it holds nothing between cycles.
#[derive(Debug)]
pub(crate) struct Tiles<T> {
    /// One space per thread.
    pub(super) spaces: Vec<TileSpace<T>>,
    /// Σ r² of each tile.
    pub(super) sums: Vec<f64>,
    /// Σ r² of each line of cells along x, in tiles that follow each other in x.
    pub(super) lines: Vec<f64>,
    /// The u between the sweeps of a cycle that is computed sweep by sweep.
    pub(super) between: Option<Vector<T>>,
}

impl<T> Default for Tiles<T> {
    fn default() -> Self {
        Self { spaces: Vec::new(), sums: Vec::new(), lines: Vec::new(), between: None }
    }
}

impl<T: Real> Tiles<T> {
    pub(crate) fn bytes(&self) -> usize {
        self.spaces.iter().map(TileSpace::bytes).sum::<usize>()
            + size_of_val(&self.sums[..])
            + size_of_val(&self.lines[..])
            + self.between.as_ref().map_or(0, |between| size_of_val(between.entries()))
    }
}

/// Lanes between rows: the last of them holds the neighbour west of the next row, the first the one east of the previous row.
const MARGIN: usize = ROW_ALIGNMENT;

/// A thread's copy of a tile, aligned to cache lines.
#[derive(Debug)]
pub(super) struct TileSpace<T> {
    /// The u before and after a sub-iteration, alternating: after an odd number of sub-iterations u is in the second.
    pub(super) u: [Vector<T>; 2],
    /// The c of [`Update`]; at the place of a cell next to the tile in x, the value there.
    pub(super) constant: Vector<T>,
    /// The w of [`Update`]: west, east, south, north, below, above.
    pub(super) weights: [Vector<T>; 6],
    /// The residual of a row.
    pub(super) residual: Vector<T>,
}

/// The places in memory of the rows of a cycle's tiles, the same for all tile sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    /// Lanes of a row that belong to cells.
    pub(super) lanes: usize,
    /// Rows of a layer, and layers, neighbours included.
    pub(super) rows: usize,
    pub(super) layers: usize,
    /// Layers of neighbours below.
    pub(super) below: isize,
}

impl Rows {
    pub(super) fn new(cycle: &PointCycle, shape: Shape) -> Self {
        let [x, y, z] = cycle.tile;
        let pitch = shape.nx.div_ceil(2).next_multiple_of(ROW_ALIGNMENT);
        let below = usize::from(shape.nz > 1);
        Self {
            lanes: x.min(shape.nx).div_ceil(2).next_multiple_of(ROW_ALIGNMENT).min(pitch),
            rows: y.min(shape.ny) + 2,
            layers: z.min(shape.nz) + 2 * below,
            below: below as isize,
        }
    }

    pub(super) fn pitch(&self) -> usize {
        self.lanes + MARGIN
    }

    /// Returns the entries of both parities.
    fn len(&self) -> usize {
        2 * self.parity_len()
    }

    /// Returns the entries of one parity, margins at both ends included.
    fn parity_len(&self) -> usize {
        self.pitch() * self.rows * self.layers + 2 * MARGIN
    }

    /// Returns the first lane of row j of layer k, both counted from the tile's own first.
    #[inline(always)]
    pub(super) fn at(&self, parity: usize, j: isize, k: isize) -> usize {
        let row = (j + 1) as usize + self.rows * (k + self.below) as usize;
        parity * self.parity_len() + row * self.pitch() + MARGIN
    }
}

impl<T: Real> TileSpace<T> {
    /// Allocates the space for the tiles of a cycle.
    pub(super) fn new(cpu: &Cpu, cycle: &PointCycle, shape: Shape) -> Result<Self> {
        let rows = Rows::new(cycle, shape);
        let room = |entries: usize| {
            Vector::zeros(cpu, &Layout::new(Shape::new(entries.max(1), 1, 1))?).map_err(|error| match error {
                Error::OutOfMemory { needed_bytes, available_bytes, .. } => {
                    let [x, y, z] = cycle.tile;
                    let what = format!("a tile of {x} × {y} × {z} cells (solver.jacobi.tile)");
                    Error::OutOfMemory { what, needed_bytes, available_bytes }
                }
                other => other,
            })
        };
        let flat = || room(rows.len());
        let vertical = || room(if shape.nz > 1 { rows.len() } else { 0 });
        Ok(Self {
            u: [flat()?, flat()?],
            constant: flat()?,
            weights: [flat()?, flat()?, flat()?, flat()?, vertical()?, vertical()?],
            residual: room(rows.lanes)?,
        })
    }

    /// Returns whether the tiles of another cycle fit.
    pub(super) fn holds(&self, cycle: &PointCycle, shape: Shape) -> bool {
        let rows = Rows::new(cycle, shape);
        let has = |vector: &Vector<T>, entries: usize| vector.entries().len() >= entries;
        has(&self.constant, rows.len())
            && has(&self.residual, rows.lanes)
            && (shape.nz == 1 || has(&self.weights[5], rows.len()))
    }

    pub(super) fn bytes(&self) -> usize {
        let vectors = self.u.iter().chain(&self.weights).chain([&self.constant, &self.residual]);
        vectors.map(|vector| size_of_val(vector.entries())).sum()
    }
}

/// The lanes of rows of one parity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lanes {
    /// The number m of the first lane.
    pub(super) m: usize,
    /// The first and one past the last that are relaxed.
    pub(super) relaxed: [usize; 2],
    /// The first and one past the last that the tile writes.
    pub(super) left: [usize; 2],
    /// The lanes of the neighbours in x of this parity, west and east of the tile, counted from one lane before the first.
    pub(super) beside: [Option<usize>; 2],
    /// Whether the tile's first cell in x is of this parity, and whether its last one is.
    pub(super) starts_line: bool,
    pub(super) ends_line: bool,
}

impl Lanes {
    pub(super) fn new(rows: &Rows, Span { relaxed, left }: Span, parity: usize, pitch: usize) -> Self {
        // m of the first cell from i on with this parity.
        let m_from = |i: usize| (i + 1 - parity) / 2;
        let m = m_from(relaxed[0]).min(pitch - rows.lanes);
        let lane = |i: usize| m_from(i) - m;
        // The lanes of cells i − 1 that have this parity.
        let beside = |i: usize| (i % 2 != parity).then(|| (i + 1 - parity) / 2 - m);
        let (starts_line, ends_line) = (relaxed[0] % 2 == parity, relaxed[1] % 2 != parity);
        let beside = [beside(relaxed[0]), beside(relaxed[1] + 1)];
        Self { m, relaxed: relaxed.map(lane), left: left.map(lane), beside, starts_line, ends_line }
    }
}
