//! How blocks cut columns up, and which kernels run on which grids.

use isobar_core::error::{Error, Result};
use isobar_core::layout::Layout;
use isobar_core::real::Real;

use crate::compile::Source;
use crate::driver::Context;
use crate::kernels;
use crate::vector::c_name;

/// Rows of a block in kernels without a line solve.
pub(crate) const fn rows<T>() -> usize {
    size_of::<T>()
}

/// A thread's levels, and a block's warps, in the first pass of conjugate gradients.
pub(crate) const ADVANCE: [usize; 2] = [4, 4];

/// Blocks of them that a multiprocessor should hold.
const fn advance_blocks<T>() -> usize {
    if size_of::<T>() == 8 { 2 } else { 3 }
}

/// Grids of at most so many columns are bound by latency: shorter chunks, more threads.
const SMALL: usize = 64 * 64;
/// Grids of at least so many columns are swept by marching.
const fn large<T>() -> usize {
    if size_of::<T>() == 8 { 16_000 } else { 40_000 }
}

/// A block's share: `lanes` adjacent columns, each of `chunks` × `depth` levels, a chunk a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Columns.
    pub lanes: usize,
    /// Threads a column.
    pub chunks: usize,
    /// Levels a thread.
    pub depth: usize,
}

impl Cut {
    /// The cut for columns of `levels` on a grid of so many columns (measured: docs/notes/cuda-kernels.md).
    ///
    /// # Errors
    /// [`Error::Unsupported`] for columns that no block can hold.
    pub fn new<T: Real>(levels: usize, columns: usize) -> Result<Self> {
        let small = columns <= SMALL;
        let lanes = if small || size_of::<T>() == 8 { 16 } else { 32 };
        for depth in if small { [8, 16, 32, 64] } else { [16, 16, 32, 64] } {
            let mut chunks = levels.div_ceil(depth);
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
                return Ok(Self { lanes, chunks, depth: levels.div_ceil(chunks) });
            }
        }
        Err(Error::Unsupported(format!("columns of {levels} levels on CUDA; at most 4096 fit a block")))
    }

    /// Threads a block.
    pub fn threads(self) -> usize {
        self.lanes * self.chunks
    }

    /// Levels with padding.
    pub fn levels(self) -> usize {
        self.chunks * self.depth
    }

    /// Dynamic shared memory of the marching kernels: three rows, the vertical table, what the chunks tell
    /// each other.
    pub fn march_bytes<T: Real>(self, levels: usize) -> usize {
        let edge = 16 / size_of::<T>();
        (3 * levels * (self.lanes + edge) + 6 * self.levels() + 4 * self.threads()) * size_of::<T>()
    }

    /// Blocks that a multiprocessor should hold, given how many threads it has registers for; a kernel so
    /// small that more would fit needs no help.
    fn min_blocks<T: Real>(self, double_threads: usize) -> usize {
        (double_threads * (8 / size_of::<T>()) / self.threads()).clamp(1, 8)
    }

    fn define<T: Real>(self, source: Source, levels: usize) -> Source {
        let source = source
            .define("REAL", c_name::<T>())
            .define("LANES", self.lanes)
            .define("CHUNKS", self.chunks)
            .define("DEPTH", self.depth);
        // Only where it saves tests: other numbers of levels share one compilation.
        if levels == self.levels() { source.define("NZ", levels) } else { source }
    }
}

/// Whether a grid is swept by marching along y.
pub(crate) fn marches<T: Real>(context: &Context, layout: &Layout, cut: Cut) -> bool {
    let shape = layout.shape();
    // The kernel's own static shared memory is less than this.
    const STATIC: usize = 1024;
    // A lane stands for a level now and then.
    shape.nx * shape.ny >= large::<T>()
        && cut.depth <= cut.lanes
        && cut.march_bytes::<T>(shape.nz) + STATIC <= context.shared_memory
}

/// The sources of an operator, specialised.
pub struct Sources {
    /// Sweeps.
    pub smooth: Source,
    /// Marching sweeps, taking a correction in double and in single precision.
    pub march: [Source; 2],
    /// What a mixed-precision cycle does on its finest grid, marching.
    pub mixed: Source,
    /// The second pass of conjugate gradients, and the line preconditioner.
    pub cg: Source,
    /// The first pass of conjugate gradients.
    pub advance: Source,
    /// Residuals and transfers, residuals stored in double and in single precision.
    pub transfer: [Source; 2],
    /// The operator by itself.
    pub apply: Source,
}

impl Sources {
    /// For columns of `levels`, cut so.
    pub fn new<T: Real>(cut: Cut, levels: usize) -> Self {
        let with_levels = |source: Source| if levels == cut.levels() { source.define("NZ", levels) } else { source };
        let line = |name, text| cut.define::<T>(Source::new(name, text), levels);
        let march = |name, text, correction: &str| {
            line(name, text).define("MIN_BLOCKS", cut.min_blocks::<T>(256)).define("COARSE_REAL", correction)
        };
        let transfer = |residual: &str| {
            with_levels(
                Source::new("transfer", kernels::TRANSFER)
                    .define("REAL", c_name::<T>())
                    .define("RESIDUAL_REAL", residual)
                    .define("ROWS", rows::<T>()),
            )
        };
        Self {
            smooth: line("smooth", kernels::SMOOTH).define("MIN_BLOCKS", cut.min_blocks::<T>(384)),
            march: ["double", "float"].map(|correction| march("march", kernels::MARCH, correction)),
            mixed: march("mixed", kernels::MIXED, "float"),
            cg: line("cg", kernels::CG).define("MIN_BLOCKS", cut.min_blocks::<T>(256)),
            advance: {
                let [depth, warps] = ADVANCE;
                with_levels(
                    Source::new("advance", kernels::ADVANCE)
                        .define("REAL", c_name::<T>())
                        .define("DEPTH", depth)
                        .define("CHUNKS", warps)
                        .define("MIN_BLOCKS", advance_blocks::<T>()),
                )
            },
            transfer: [transfer("double"), transfer("float")],
            apply: Source::new("apply", kernels::APPLY).define("REAL", c_name::<T>()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cut_holds_its_columns_in_whole_warps() {
        for levels in 1..=4096 {
            for columns in [1, 1 << 20] {
                for cut in [Cut::new::<f64>(levels, columns).unwrap(), Cut::new::<f32>(levels, columns).unwrap()] {
                    assert!(cut.levels() >= levels && cut.threads() <= 1024, "{levels}: {cut:?}");
                    assert!(cut.threads() % 32 == 0 && cut.depth <= 64, "{levels}: {cut:?}");
                }
            }
        }
        assert!(Cut::new::<f64>(5000, 1).is_err());
        let cut = |lanes, chunks, depth| Cut { lanes, chunks, depth };
        assert_eq!(Cut::new::<f64>(128, 1 << 18).unwrap(), cut(16, 8, 16));
        assert_eq!(Cut::new::<f32>(128, 1 << 18).unwrap(), cut(32, 8, 16));
        assert_eq!(Cut::new::<f32>(128, 1 << 10).unwrap(), cut(16, 16, 8));
    }
}
