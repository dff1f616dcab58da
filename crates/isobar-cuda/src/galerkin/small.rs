//! Fused steps of levels that do not fill a GPU, see `kernels/galerkin/small.cu`.

use std::sync::Arc;

use isobar_core::prelude::{Axis, Colour, Layout, Real, Result, Shape};
use isobar_core::stencil::galerkin::couplings::UPPER;

use super::interpolation::Weights;
use super::sources::small_source;
use super::twenty_seven::Operands;
use crate::{Arguments, Buffer, Cuda, Launch, Module, Pointer};

/// Columns of a tile of a sweep; this and the following numbers as in small.cu.
const TILE: [usize; 2] = [8, 2];
/// Half columns and rows of a tile with its surroundings.
const AROUND: [usize; 2] = [8, 6];
/// The fewest columns and rows of a periodic grid: none lies in a region three times.
const PERIODIC: [usize; 2] = [12, 6];
/// Cells of a block that computes residuals.
const CELLS: [usize; 3] = [8, 4, 8];
/// Coarse cells of a block that restricts.
const COARSE: [usize; 3] = [4, 2, 4];
/// The fields of a tile that setup computes, in addition to the couplings: inverse pivots and their ratios.
const MADE: usize = UPPER + 2;
/// The most threads of a block.
const MOST_THREADS: usize = 512;
/// A bound of the shared memory outside a block's region.
const OTHER_BYTES: usize = 8 << 10;

/// The kernels of a level, and their launches.
#[derive(Debug)]
pub(super) struct Small {
    cuda: Cuda,
    module: Arc<Module>,
    shape: Shape,
    /// Numbers of the matrix that sweeps read, tile after tile.
    image: Buffer,
    /// Shared memory of sweeps, of residuals, and of their restriction.
    bytes: [usize; 3],
}

impl Small {
    /// Returns `None` if the level fills the GPU, is one of several subdomains, or is periodic in z.
    pub(super) fn new<T: Real>(cuda: &Cuda, layout: &Layout, periodic: [bool; 3]) -> Result<Option<Self>> {
        let shape @ Shape { nx, ny, nz } = layout.shape();
        let (tiles, threads) = (nx.div_ceil(TILE[0]) * ny.div_ceil(TILE[1]), 2 * AROUND[0] * nz);
        let is_ring = |d: usize, n: usize| periodic[d] && n < PERIODIC[d];
        let fits = threads <= MOST_THREADS && tiles <= 2 * cuda.context().multiprocessors;
        if !fits || layout.halo() != [0; 2] || periodic[Axis::Z as usize] || is_ring(0, nx) || is_ring(1, ny) {
            return Ok(None);
        }
        // A region: numbers that separate its fields, and the fields.
        let region = |fields: usize, half: usize, rows: usize, layers: usize| {
            (half + fields * half * (2 * rows * layers + 1)) * size_of::<T>()
        };
        let [half, rows] = AROUND;
        let fine = COARSE.map(|n| 2 * n + 1);
        let bytes = [
            region(MADE + 2, half, rows, nz) + 2 * threads * size_of::<T>(),
            region(UPPER + 3, CELLS[0] / 2 + 2, CELLS[1] + 2, CELLS[2] + 2),
            region(UPPER + 3, fine[0].div_ceil(2) + 1, fine[1] + 2, fine[2] + 2),
        ];
        if bytes.iter().any(|bytes| bytes + OTHER_BYTES > cuda.context().shared_memory) {
            return Ok(None);
        }
        let module = cuda.module(small_source::<T>(if threads <= 256 { 256 } else { MOST_THREADS }));
        for (name, bytes) in ["sweep_small", "residual_small", "restrict_small"].into_iter().zip(bytes) {
            module.prepare(&[name], bytes)?;
        }
        module.prepare(&["pack_small"], 0)?;
        let image = tiles * (region(MADE, half, rows, nz) - half * size_of::<T>());
        let image = Buffer::new(cuda.context(), image, &format!("tiles of a matrix of {shape} cells"))?;
        Ok(Some(Self { cuda: cuda.clone(), module, shape, image, bytes }))
    }

    /// Makes the tiles of a matrix.
    pub(super) fn update(&self, matrix: Operands) -> Result<()> {
        self.launch_tiles("pack_small", 0, Arguments::new().with(matrix).with(self.image.start()))
    }

    /// Returns the bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.image.bytes()
    }

    /// Computes `result` = a sweep from u, or from zero if it is null.
    pub(super) fn sweep(&self, matrix: Operands, first: Colour, [u, f, result]: [Pointer; 3]) -> Result<()> {
        let arguments = Arguments::new().with(matrix).with(turn(first)).with(self.image.start());
        self.launch_tiles("sweep_small", self.bytes[0], arguments.with(u).with(f).with(result))
    }

    /// Computes r = f − A u.
    pub(super) fn residual(&self, matrix: Operands, vectors: [Pointer; 3]) -> Result<()> {
        let Shape { nx, ny, nz } = self.shape;
        let grid = [nx.div_ceil(CELLS[0]), nz.div_ceil(CELLS[2]), ny.div_ceil(CELLS[1])];
        let arguments = vectors.into_iter().fold(Arguments::new().with(matrix), Arguments::with);
        self.launch("residual_small", self.bytes[1], grid, [CELLS[0], CELLS[1] * CELLS[2]], arguments)
    }

    /// Computes f_c = R (f − A u); `from_zero` is the first colour of a sweep from zero that u comes from.
    pub(super) fn restrict(
        &self,
        (matrix, weights): (Operands, Weights),
        from_zero: Option<Colour>,
        vectors: [Pointer; 3],
    ) -> Result<()> {
        let Shape { nx, ny, nz } = self.shape;
        let grid = [nx.div_ceil(2 * COARSE[0]), nz.div_ceil(2 * COARSE[2]), ny.div_ceil(2 * COARSE[1])];
        let arguments = Arguments::new().with(matrix).with(weights).with(from_zero.map_or(-1, turn));
        let arguments = vectors.into_iter().fold(arguments, Arguments::with);
        let [x, y, z] = COARSE.map(|n| 2 * n + 1);
        self.launch("restrict_small", self.bytes[2], grid, [x, y * z], arguments)
    }

    fn launch_tiles(&self, name: &'static str, bytes: usize, arguments: Arguments) -> Result<()> {
        let Shape { nx, ny, nz } = self.shape;
        self.launch(name, bytes, [nx.div_ceil(TILE[0]), ny.div_ceil(TILE[1]), 1], [AROUND[0], 2 * nz], arguments)
    }

    fn launch(
        &self,
        name: &'static str,
        bytes: usize,
        grid: [usize; 3],
        block: [usize; 2],
        arguments: Arguments,
    ) -> Result<()> {
        let kernel = self.module.kernel_with(name, bytes)?;
        let (grid, block) = (grid.map(|n| n as u32), block.map(|n| n as u32));
        self.cuda.submit(Launch { kernel, grid, block, shared_bytes: bytes as u32, arguments })
    }
}

/// Returns 0 for a sweep of the colours in order, 3 in reverse order.
pub(super) fn turn(first: Colour) -> i32 {
    if first == Colour::Red { 0 } else { 3 }
}
