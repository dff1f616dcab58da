//! One engine for all operators that couple a cell to its six neighbours: each fused step is one pass over memory.
//!
//! A stencil supplies [`Coefficients`], the entries of a pack of cells; everything else is here:
//!
//! * this file: the operator, and the composition of a pass,
//! * [`kernels`]: loops over one half plane, [`lines`]: loops that solve lines, [`triangular`]: loops of the strict
//!   triangular parts,
//! * [`steps`]: the fused steps as lists of stages, [`sweeps`]: those with relaxation,
//! * `points`: relaxation of points, in sweeps and in tiles,
//! * [`substitution`]: factorisation, and substitution in blocks, [`wavefronts`]: substitution over the whole grid, by
//!   [`tiles`], whose results [`relay`] sends to the next subdomain,
//! * [`aggregated`]: deflation's step.

#![expect(private_bounds, reason = "operators are public as types that back ends name; their storage is not")]

pub(crate) mod aggregated;
pub(crate) mod coefficients;
pub(crate) mod kernels;
pub(crate) mod lines;
mod points;
pub(crate) mod relay;
mod steps;
pub(crate) mod substitution;
pub(crate) mod sweeps;
pub(crate) mod tiles;
pub(crate) mod triangular;
pub(crate) mod wavefronts;

use std::sync::{MutexGuard, RwLock, RwLockReadGuard};

use isobar_core::prelude::{Colour, Layout, Meanwhile, Real, Result, Shape, read, write};

pub(crate) use self::coefficients::{Coefficients, Entries, Kernel, On, RowCoefficients, Stored, TileCoefficients};
use crate::cpu::MOST_PIECES;
use crate::geometry::Columns;
use crate::per_queue::PerQueue;
use crate::wavefront::{self, Chunks};
use crate::{Cpu, Geometry, HalfPlane, Shared, Vector};

/// The most bytes of elimination factors of a tile of columns, so that they stay in the second-level cache together with the rows
/// that stream through.
const FACTOR_BYTES: usize = 192 << 10;

/// Planes that a thread keeps for itself: two at the ends of its chunk and two in flight, or the planes from which a coarse
/// plane is restricted.
pub(crate) const PLANES: usize = 4;

/// An operator on processor cores; C is the storage of its stencil.
///
/// Beside the coefficients it stores, for every thread, the elimination factors of a tile and four planes; where points are
/// relaxed in tiles, one tile.
#[derive(Debug)]
pub struct SevenPoint<C, T> {
    cpu: Cpu,
    layout: Layout,
    periodic: [bool; 3],
    /// The values beyond closed sides.
    zeros: Vec<T>,
    coefficients: RwLock<C>,
    workspace: PerQueue<Workspace<T>>,
    tiles: PerQueue<points::Tiles<T>>,
}

/// The workspace of passes; it holds nothing between them.
#[derive(Debug)]
pub(crate) struct Workspace<T> {
    pub(crate) chunks: Vec<ChunkSpace<T>>,
    /// Two sums per plane.
    pub(crate) sums: Vec<[f64; 2]>,
    /// [`PLANES`] planes per chunk.
    pub(crate) planes: Vector<T>,
}

/// The workspace of one thread for its chunk of planes.
#[derive(Debug)]
pub(crate) struct ChunkSpace<T> {
    /// The number of the chunk.
    pub(crate) number: usize,
    /// excess / pivot of the row below, for as many columns as are eliminated together.
    pub(crate) ratio: Vec<T>,
    /// The elimination factors of a tile, all layers.
    pub(crate) factors: Vec<T>,
    /// The solution of a tile, all layers, if u must not be overwritten yet.
    pub(crate) values: Vec<T>,
    /// The columns that are eliminated together.
    tile: usize,
    /// A row for each piece, where results are before they are rounded.
    pub(crate) rows: Vec<T>,
    /// Rows in natural order, with ghosts.
    pub(crate) natural: [Vec<T>; 2],
    /// The planes that this thread's own ones hold, halo rows among them.
    pub(crate) kept: [Option<isize>; PLANES],
}

/// The workspace of a loop over lines: ratio, factors and values as in [`ChunkSpace`], and the columns that are eliminated together.
pub(crate) struct LineSpace<'s, T> {
    pub(crate) ratio: &'s mut [T],
    pub(crate) factors: &'s mut [T],
    pub(crate) values: &'s mut [T],
    pub(crate) tile: usize,
}

impl<T> ChunkSpace<T> {
    /// Lends the workspace to a loop over all lines of a half plane.
    pub(crate) fn lines(&mut self) -> LineSpace<'_, T> {
        let Self { ratio, factors, values, tile, .. } = self;
        LineSpace { ratio, factors, values, tile: *tile }
    }
}

/// A stage of a pass, called with a plane and the space of its chunk.
pub(crate) type Stage<'a, T> = &'a (dyn Fn(usize, &mut ChunkSpace<T>) + Sync);

/// Returns the entries of a row in natural order with a ghost at either end and padding for packs.
fn natural_row_len(layout: &Layout) -> usize {
    2 * layout.pitch() + 32
}

impl<T: Real> Workspace<T> {
    /// Makes the workspace of the threads that are worth using on vectors of this layout.
    fn new(cpu: &Cpu, layout: &Layout) -> Result<Self> {
        let layers = layout.shape().nz;
        let tile = (FACTOR_BYTES / (layers * size_of::<T>())).next_multiple_of(8).clamp(8, layout.pitch());
        // Threads share the columns of a single row.
        let (columns, rows) = if layout.shape().ny == 1 { (layout.pitch(), MOST_PIECES) } else { (tile, 1) };
        let chunk = |number| ChunkSpace {
            number,
            tile,
            ratio: vec![T::ZERO; columns],
            factors: vec![T::ZERO; columns * layers],
            values: vec![T::ZERO; columns * layers],
            rows: vec![T::ZERO; rows * layout.pitch()],
            natural: [0, 1].map(|_| vec![T::ZERO; natural_row_len(layout)]),
            kept: [None; PLANES],
        };
        let shape = layout.shape();
        let threads = cpu.threads_for(layout.len()).min(shape.ny);
        // A chunk that has planes of its own has two or more of the grid.
        let chunks = threads.min(shape.ny / 2).max(1);
        let planes = Layout::new(Shape { ny: chunks * PLANES, ..shape })?;
        Ok(Self {
            chunks: (0..threads).map(chunk).collect(),
            sums: vec![[0.0; 2]; shape.ny],
            planes: Vector::zeros(cpu, &planes)?,
        })
    }
}

impl<C: Stored<T>, T: Real> SevenPoint<C, T> {
    /// Makes an operator; `periodic` holds the periodic directions of the whole grid, except those with one cell.
    pub(crate) fn new(cpu: &Cpu, layout: Layout, periodic: [bool; 3], coefficients: C) -> Result<Self> {
        Ok(Self {
            cpu: cpu.clone(),
            layout,
            periodic,
            zeros: vec![T::ZERO; layout.pitch()],
            coefficients: RwLock::new(coefficients),
            workspace: PerQueue::new(cpu, Workspace::new(cpu, &layout)?),
            tiles: PerQueue::new(cpu, points::Tiles::default()),
        })
    }

    pub(crate) fn cpu(&self) -> &Cpu {
        &self.cpu
    }

    pub(crate) fn geometry(&self) -> Geometry<'_, T> {
        let periodic = self.layout.periodic_within(self.periodic);
        Geometry {
            layout: self.layout,
            periodic,
            zeros: &self.zeros,
            replaces_ends: true,
            layers_visited: (0, self.layout.shape().nz),
            columns_visited: Columns { m: 0, n: self.layout.pitch() },
        }
    }

    /// Returns the current coefficients. They are written entry by entry, and stay valid numbers after a panic elsewhere.
    pub(crate) fn coefficients(&self) -> RwLockReadGuard<'_, C> {
        read(&self.coefficients)
    }

    /// Changes the coefficients.
    pub(crate) fn change(&self, change: impl FnOnce(&Layout, &mut C) -> Result<()>) -> Result<()> {
        change(&self.layout, &mut write(&self.coefficients))
    }

    pub(crate) fn workspace(&self) -> MutexGuard<'_, Workspace<T>> {
        self.workspace.lock(|| Workspace::new(&self.cpu, &self.layout))
    }

    fn workspace_bytes(&self) -> usize {
        let tiles = self.tiles.first().bytes();
        let workspace = self.workspace.first();
        let chunk = |space: &ChunkSpace<T>| {
            let natural: usize = space.natural.iter().map(Vec::len).sum();
            space.ratio.len() + space.factors.len() + space.values.len() + space.rows.len() + natural
        };
        let numbers = workspace.chunks.iter().map(chunk).sum::<usize>() + workspace.planes.entries().len();
        numbers * size_of::<T>() + size_of_val(&workspace.sums[..]) + tiles
    }

    fn chunks(&self, workspace: &Workspace<T>, stages: usize) -> Chunks {
        let chunks = Chunks::new(self.layout.shape().ny, workspace.chunks.len(), stages);
        if self.layout.periodic_within(self.periodic)[1] { chunks.periodic() } else { chunks }
    }

    /// Runs stages in one pass over the planes of a subdomain, with `exchange(s, inside)` before each, or each but the first: see
    /// [`wavefront::run_part`].
    pub(crate) fn pass_on_part(
        &self,
        workspace: &mut Workspace<T>,
        stages: &[Stage<'_, T>],
        from_start: bool,
        mut exchange: impl FnMut(usize, Meanwhile<'_>) -> Result<()>,
    ) -> Result<()> {
        let [before, after] = self.layout.halo();
        let open = [before > 0, after > 0];
        let chunks = self.chunks(workspace, stages.len()).open(open, from_start);
        let spaces = Shared::of(&mut workspace.chunks);
        let stage = |s: usize, plane: usize, chunk: usize| {
            // SAFETY: calls with the same `chunk` never overlap.
            let space = unsafe { spaces.row_mut(chunk as isize, 1) };
            stages[s](plane, &mut space[0]);
        };
        wavefront::run_part(&self.cpu, chunks, &stage, &mut exchange)
    }

    /// Runs stages in one pass over the planes.
    pub(crate) fn pass(&self, workspace: &mut Workspace<T>, stages: &[Stage<'_, T>]) {
        let chunks = self.chunks(workspace, stages.len());
        let spaces = Shared::of(&mut workspace.chunks);
        wavefront::run(&self.cpu, chunks, &|s, plane, chunk| {
            // SAFETY: calls with the same `chunk` never overlap.
            let space = unsafe { spaces.row_mut(chunk as isize, 1) };
            stages[s](plane, &mut space[0]);
        });
    }

    /// Returns the start of one of a chunk's own planes in [`Workspace::planes`].
    pub(crate) fn own_plane(&self, space: &ChunkSpace<T>, place: usize) -> isize {
        self.geometry().plane_start(space.number * PLANES + place)
    }

    /// Runs a kernel on both half planes of plane j and adds up their sums.
    pub(crate) fn on_both<K: Kernel<T, Output = [f64; 2]>>(
        &self,
        coefficients: &C,
        j: usize,
        kernel: impl Fn(HalfPlane) -> K + Sync,
    ) -> [f64; 2] {
        self.sum_halves(j, &mut |h| self.on_rows(coefficients, |_| kernel(h)))
    }

    /// Runs a kernel on a half plane, row by row; threads share those of a single plane, each piece with its own kernel.
    pub(crate) fn on_rows<K: Kernel<T, Output = [f64; 2]>>(
        &self,
        coefficients: &C,
        kernel: impl Fn(usize) -> K + Sync,
    ) -> [f64; 2] {
        let g = self.geometry();
        self.cpu.sum_pieces(&self.layout, g.layers(), |piece, first, beyond| {
            coefficients.run(&self.cpu, Geometry { layers_visited: (first, beyond), ..g }, kernel(piece))
        })
    }

    /// Runs a kernel on a half plane, line by line; threads share those of a single plane.
    pub(crate) fn on_lines<'s, K: Kernel<T>>(
        &self,
        coefficients: &C,
        space: &'s mut ChunkSpace<T>,
        kernel: impl Fn(LineSpace<'s, T>) -> K + Sync,
    ) {
        let g = self.geometry();
        let run = |g, space: LineSpace<'s, T>| {
            coefficients.run(&self.cpu, g, kernel(space));
        };
        if self.layout.shape().ny > 1 {
            return run(g, space.lines());
        }
        let layers = g.layers();
        let LineSpace { ratio, factors, values, tile } = space.lines();
        let [ratio, factors, values] = [Shared::of(ratio), Shared::of(factors), Shared::of(values)];
        self.cpu.for_each_columns(&self.layout, |m, beyond| {
            let columns_visited = Columns { m, n: beyond - m };
            let of = |all: Shared<T>, each: usize| {
                // SAFETY: each column has its own place in the workspace, and comes once.
                unsafe { all.row_mut((m * each) as isize, columns_visited.n * each) }
            };
            let tile = tile.min(columns_visited.n);
            let space =
                LineSpace { ratio: of(ratio, 1), factors: of(factors, layers), values: of(values, layers), tile };
            run(Geometry { columns_visited, ..g }, space);
        });
    }

    /// Adds up the results of a loop for both half planes of plane j.
    pub(crate) fn sum_halves(&self, j: usize, run: &mut dyn FnMut(HalfPlane) -> [f64; 2]) -> [f64; 2] {
        let g = self.geometry();
        let (red, black) = (run(g.half_plane(j, Colour::Red)), run(g.half_plane(j, Colour::Black)));
        [red[0] + black[0], red[1] + black[1]]
    }
}

impl<T> Workspace<T> {
    /// Invalidates the chunks' own planes.
    pub(crate) fn forget_planes(&mut self) {
        for chunk in &mut self.chunks {
            chunk.kept = [None; PLANES];
        }
    }

    /// Adds up the sums that the stages stored for each plane.
    pub(crate) fn total(&self, which: usize) -> f64 {
        self.sums.iter().map(|sums| sums[which]).sum()
    }
}

/// Stores a plane's sums.
pub(crate) fn store(sums: Shared<[f64; 2]>, j: usize, values: [f64; 2]) {
    // SAFETY: a stage runs once on each plane.
    unsafe { sums.set(j as isize, values) };
}
