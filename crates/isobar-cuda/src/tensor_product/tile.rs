//! How blocks tile columns, and which kernels run on which grids.

use isobar_core::error::{Error, Result};
use isobar_core::layout::Layout;
use isobar_core::real::Real;

use crate::compile::Source;
use crate::driver::Context;
use crate::kernels::tensor_product as kernels;
use crate::vector::{c_name, is_single};

/// Rows of a block in kernels without a line solve.
pub(crate) const fn rows<T>() -> usize {
    size_of::<T>()
}

/// A thread's layers, and a block's warps, in the first pass of conjugate gradients.
pub(crate) const ADVANCE: [usize; 2] = [4, 4];

/// The same of the residual that streams, which has fewer vectors.
pub(crate) const RESIDUAL: [usize; 2] = [4, 4];
/// Blocks of it that a multiprocessor should hold.
const RESIDUAL_BLOCKS: usize = 3;

/// Blocks of the first pass of conjugate gradients that a multiprocessor should hold.
const fn advance_blocks<T>() -> usize {
    if size_of::<T>() == 8 { 2 } else { 3 }
}

/// Grids of at most so many columns are bound by latency: shorter chunks, more threads.
const SMALL: usize = 64 * 64;
/// Grids of at least so many columns are swept by streaming along y.
const fn large<T>() -> usize {
    if size_of::<T>() == 8 { 16_000 } else { 40_000 }
}

/// A block's share: `lanes` adjacent columns, each of `chunks` × `depth` layers, a chunk a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Columns.
    pub lanes: usize,
    /// Threads a column.
    pub chunks: usize,
    /// Layers a thread.
    pub depth: usize,
}

impl Tile {
    /// The tile for columns of so many layers on a grid of so many columns (measured: docs/notes/cuda-kernels.md).
    ///
    /// # Errors
    /// [`Error::Unsupported`] for columns that no block can hold.
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
            // More lanes than 16 only where the threads suffice.
            let lanes = if lanes * chunks > 1024 { 16 } else { lanes };
            if lanes == 16 {
                chunks = chunks.next_multiple_of(2);
            }
            if lanes * chunks <= 1024 {
                return Ok(Self { lanes, chunks, depth: layers.div_ceil(chunks) });
            }
        }
        Err(Error::Unsupported(format!("columns of {layers} layers on CUDA; at most 4096 fit a block")))
    }

    /// Threads a block.
    pub fn threads(self) -> usize {
        self.lanes * self.chunks
    }

    /// Layers with padding.
    pub fn layers(self) -> usize {
        self.chunks * self.depth
    }

    /// The same columns in single precision, with as many layers a thread, so that tables are the same but rounded.
    #[must_use]
    pub fn in_single(self) -> Self {
        Self { lanes: if 32 * self.chunks <= 1024 { 32 } else { self.lanes }, ..self }
    }

    /// Dynamic shared memory of the streaming kernels: three rows, in a precision of their own, the vertical table, what the
    /// chunks tell each other.
    pub fn stream_bytes<T: Real, U: Real>(self, layers: usize) -> usize {
        let edge = 16 / size_of::<U>();
        3 * layers * (self.lanes + edge) * size_of::<U>() + (6 * self.layers() + 4 * self.threads()) * size_of::<T>()
    }

    fn source<T: Real>(self, layers: usize, name: &'static str, text: &'static str) -> Source {
        let source = Source::new(name, text).define("REAL", c_name::<T>());
        // Only where it saves tests: other numbers of layers share one compilation.
        if layers == self.layers() { source.define("NZ", layers) } else { source }
    }

    /// The source of kernels that solve lines, with registers for so many threads in double precision.
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

    /// Blocks that a multiprocessor should hold, given how many threads it has registers for; a kernel so
    /// small that more would fit needs no help.
    fn min_blocks<T: Real>(self, double_threads: usize) -> usize {
        (double_threads * (8 / size_of::<T>()) / self.threads()).clamp(1, 8)
    }
}

/// Whether a grid is swept by streaming along y.
pub(crate) fn streams<T: Real>(context: &Context, layout: &Layout, tile: Tile) -> bool {
    let shape = layout.shape();
    // The kernel's own static shared memory is less than this.
    const STATIC: usize = 1024;
    // A lane stands for a layer now and then.
    shape.nx * shape.ny >= large::<T>()
        && tile.depth <= tile.lanes
        && tile.stream_bytes::<T, T>(shape.nz) + STATIC <= context.shared_memory
}

/// The sources of an operator, specialised.
pub struct Sources {
    /// The tables.
    pub tables: Source,
    /// The operator by itself, its diagonal, residuals.
    pub apply: Source,
    /// Restriction and prolongation.
    pub transfer: Source,
    /// Sweeps, a tile a block.
    pub smooth: Source,
    /// Sweeps that stream.
    pub stream: Source,
    /// What a mixed-precision cycle does on its finest grid, streaming.
    pub mixed: Source,
    /// The second pass of conjugate gradients, and the line preconditioner.
    pub cg: Source,
    /// The first pass of conjugate gradients.
    pub advance: Source,
    /// The residual after a red–black sweep, streaming.
    pub residual: Source,
}

impl Sources {
    /// For columns of so many layers that are tiled so; `is_odd` where a grid, or the larger one that it is a part of, has an odd
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
