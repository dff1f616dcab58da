//! Tiles of columns, and the choice of kernels for a grid.

use isobar_core::prelude::{Error, Layout, Real, Result};

use crate::kernels::tensor_product as kernels;
use crate::vector::{c_name, is_single};
use crate::{Context, Source};

/// Returns the rows per block in kernels without a line solve.
pub(crate) const fn rows<T>() -> usize {
    size_of::<T>()
}

/// Layers per thread and warps per block in the first pass of conjugate gradients.
pub(crate) const ADVANCE: [usize; 2] = [4, 4];

/// Layers per thread and warps per block in the streaming residual, which has fewer vectors.
pub(crate) const RESIDUAL: [usize; 2] = [4, 4];
/// Blocks of the streaming residual that a multiprocessor should hold.
const RESIDUAL_BLOCKS: usize = 3;

/// Blocks of the first pass of conjugate gradients that a multiprocessor should hold.
const fn advance_blocks<T>() -> usize {
    if size_of::<T>() == 8 { 2 } else { 3 }
}

/// Grids of at most this many columns are limited by latency: shorter chunks, more threads.
const SMALL: usize = 64 * 64;
/// Grids of at least this many columns are swept by streaming along y.
const fn large<T>() -> usize {
    if size_of::<T>() == 8 { 16_000 } else { 40_000 }
}

/// A block's tile: `lanes` adjacent columns with `chunks` × `depth` layers, one chunk per thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Columns.
    pub lanes: usize,
    /// Threads per column.
    pub chunks: usize,
    /// Layers per thread.
    pub depth: usize,
}

impl Tile {
    /// Chooses the tile for columns with this many layers on a grid with this many columns (measured: docs/notes/cuda-kernels.md).
    ///
    /// # Errors
    /// [`Error::Unsupported`] for columns that do not fit into a block.
    pub fn new<T: Real>(layers: usize, columns: usize) -> Result<Self> {
        let small = columns <= SMALL;
        let lanes = if small || size_of::<T>() == 8 { 16 } else { 32 };
        for depth in if small { [8, 16, 32, 64] } else { [16, 16, 32, 64] } {
            let mut chunks = layers.div_ceil(depth);
            // Whole warps only.
            let lanes = if chunks == 1 { 32 } else { lanes };
            if lanes == 16 {
                chunks = chunks.next_multiple_of(2);
            }
            // More than 16 lanes only if the threads suffice.
            let lanes = if lanes * chunks > 1024 { 16 } else { lanes };
            if lanes == 16 {
                chunks = chunks.next_multiple_of(2);
            }
            if lanes * chunks <= 1024 {
                return Ok(Self { lanes, chunks, depth: layers.div_ceil(chunks) });
            }
        }
        Err(Error::Unsupported(format!(
            "columns of {layers} layers are too long for CUDA; at most 4096 layers are supported"
        )))
    }

    /// Returns the threads per block.
    pub fn threads(self) -> usize {
        self.lanes * self.chunks
    }

    /// Returns the layers with padding.
    pub fn layers(self) -> usize {
        self.chunks * self.depth
    }

    /// Returns the tile for single precision with the same layers per thread, so that tables can be rounded.
    #[must_use]
    pub fn in_single(self) -> Self {
        Self { lanes: if 32 * self.chunks <= 1024 { 32 } else { self.lanes }, ..self }
    }

    /// Returns the dynamic shared memory of the streaming kernels: three rows, in a precision of their own, the vertical table, and
    /// values exchanged between chunks.
    pub fn stream_bytes<T: Real, U: Real>(self, layers: usize) -> usize {
        let edge = 16 / size_of::<U>();
        3 * layers * (self.lanes + edge) * size_of::<U>() + (6 * self.layers() + 4 * self.threads()) * size_of::<T>()
    }

    fn source<T: Real>(self, layers: usize, name: &'static str, text: &'static str) -> Source {
        let source = Source::new(name, text).define("REAL", c_name::<T>());
        // Only without padding: other numbers of layers share one compilation.
        if layers == self.layers() { source.define("NZ", layers) } else { source }
    }

    /// Returns the source of kernels with line solves, with registers for this many threads in double precision.
    pub(super) fn of_lines<T: Real>(
        self,
        layers: usize,
        name: &'static str,
        text: &'static str,
        double_threads: usize,
    ) -> Source {
        self.source::<T>(layers, name, text)
            .define("LANES", self.lanes)
            .define("CHUNKS", self.chunks)
            .define("DEPTH", self.depth)
            .define("MIN_BLOCKS", self.min_blocks::<T>(double_threads))
    }

    /// Returns the number of blocks that a multiprocessor should hold, given how many threads it has registers for; kernels
    /// small enough for more blocks need no limit.
    fn min_blocks<T: Real>(self, double_threads: usize) -> usize {
        (double_threads * (8 / size_of::<T>()) / self.threads()).clamp(1, 8)
    }
}

/// Returns whether a grid is swept by streaming along y.
pub(crate) fn streams<T: Real>(context: &Context, layout: &Layout, tile: Tile) -> bool {
    let shape = layout.shape();
    // Upper bound of the kernel's static shared memory.
    const STATIC: usize = 1024;
    // A lane represents a layer at times.
    shape.nx * shape.ny >= large::<T>()
        && tile.depth <= tile.lanes
        && tile.stream_bytes::<T, T>(shape.nz) + STATIC <= context.shared_memory
}

/// The specialised sources of an operator.
pub struct Sources {
    /// The tables.
    pub tables: Source,
    /// Unfused products, diagonal and residuals.
    pub apply: Source,
    /// Restriction and prolongation.
    pub transfer: Source,
    /// Sweeps with one tile per block.
    pub smooth: Source,
    /// Streaming sweeps.
    pub stream: Source,
    /// Streaming steps of mixed-precision cycles on the finest level.
    pub mixed: Source,
    /// The second pass of conjugate gradients, and the line preconditioner.
    pub cg: Source,
    /// The first pass of conjugate gradients.
    pub advance: Source,
    /// The streaming residual after a red–black sweep.
    pub residual: Source,
}

impl Sources {
    /// Returns the sources for columns with this many layers and this tile; `is_odd` if a grid, or the whole grid of a subdomain, has an odd
    /// number of columns or rows.
    pub fn new<T: Real>(tile: Tile, layers: usize, is_odd: bool) -> Self {
        let source = |name, text| tile.source::<T>(layers, name, text);
        let odd = u32::from(is_odd);
        let single = u32::from(is_single::<T>());
        let of_cells = |name, text| source(name, text).define("ROWS", rows::<T>()).define("ODD", odd);
        let of_lines = |name, text, double_threads| tile.of_lines::<T>(layers, name, text, double_threads);
        let [depth, warps] = ADVANCE;
        Self {
            tables: Source::new("tensor_product_tables", kernels::TABLES)
                .define("REAL", c_name::<T>())
                .define("CHUNKS", tile.chunks)
                .define("DEPTH", tile.depth),
            apply: of_cells("tensor_product_apply", kernels::APPLY).define("SINGLE", single),
            transfer: of_cells("tensor_product_transfer", kernels::TRANSFER),
            smooth: of_lines("tensor_product_smooth", kernels::SMOOTH, 384).define("ODD", odd),
            stream: of_lines("tensor_product_stream", kernels::STREAM, 256).define("ODD", odd),
            mixed: of_lines("tensor_product_mixed", kernels::MIXED, 256).define("ODD", odd).define("SINGLE", single),
            cg: of_lines("tensor_product_cg", kernels::CG, 256),
            advance: source("tensor_product_advance", kernels::ADVANCE)
                .define("DEPTH", depth)
                .define("CHUNKS", warps)
                .define("MIN_BLOCKS", advance_blocks::<T>()),
            residual: source("tensor_product_residual_stream", kernels::RESIDUAL_STREAM)
                .define("DEPTH", RESIDUAL[0])
                .define("CHUNKS", RESIDUAL[1])
                .define("MIN_BLOCKS", RESIDUAL_BLOCKS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tile_holds_its_columns_in_whole_warps() {
        for layers in 1..=4096 {
            for columns in [1, 1 << 20] {
                for tile in [Tile::new::<f64>(layers, columns).unwrap(), Tile::new::<f32>(layers, columns).unwrap()] {
                    assert!(tile.layers() >= layers && tile.threads() <= 1024, "{layers}: {tile:?}");
                    assert!(tile.threads() % 32 == 0 && tile.depth <= 64, "{layers}: {tile:?}");
                }
            }
        }
        assert!(Tile::new::<f64>(5000, 1).is_err());
        let tile = |lanes, chunks, depth| Tile { lanes, chunks, depth };
        assert_eq!(Tile::new::<f64>(128, 1 << 18).unwrap(), tile(16, 8, 16));
        assert_eq!(Tile::new::<f32>(128, 1 << 18).unwrap(), tile(32, 8, 16));
        assert_eq!(Tile::new::<f32>(128, 1 << 10).unwrap(), tile(16, 16, 8));
    }
}
