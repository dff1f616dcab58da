//! Cycles with one tile per block: blocks, sources, and the cycles that were prepared.

use std::sync::{Arc, Mutex};

use isobar_core::prelude::{Diffusion, Error, PointCycle, Real, Shape, Stencil};

use super::streamed::block::{self, STATIC_BYTES, Streamed};
use crate::diffusion::Kind;
use crate::kernels::seven_point as kernels;
use crate::seven_point::form::Form;
use crate::{Kernel, Reduction, Source};

/// Largest number of threads per block.
const MOST_THREADS: usize = 1024;
/// The number of threads beyond which a multiprocessor is used no better than with more cells per thread.
const ENOUGH_THREADS: usize = 256;
/// Largest number of cells per thread, a power of two.
const LONGEST_STRIP: usize = 8;

/// The division of a tile within a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Cells per thread, consecutive in y.
    pub(super) strip: usize,
    /// Threads, in whole warps.
    pub(super) threads: usize,
    /// Shared memory for the tile and its surroundings, before and after a sub-iteration. B
    pub(super) shared_bytes: usize,
}

impl Block {
    /// Chooses the block for a tile of numbers of `size` bytes; `None` if no block can hold it.
    pub(super) fn new([x, y, z]: [usize; 3], is_flat: bool, size: usize, shared_memory: usize) -> Option<Self> {
        let threads = |strip: usize| x.saturating_mul(y.div_ceil(strip)).saturating_mul(z);
        let strips =
            || std::iter::successors(Some(1), |strip| Some(2 * strip)).take_while(|&strip| strip <= LONGEST_STRIP);
        let fits = |most: usize| strips().find(|&strip| threads(strip) <= most);
        let strip = fits(ENOUGH_THREADS).or_else(|| fits(MOST_THREADS))?;
        let rows = (y + 2) * if is_flat { 1 } else { z + 2 };
        let shared_bytes = 2 * size * (x + 2) * rows;
        let threads = threads(strip).next_multiple_of(32);
        (shared_bytes + STATIC_BYTES <= shared_memory).then_some(Self { strip, threads, shared_bytes })
    }
}

/// A kind of cycle, ready to be launched.
#[derive(Clone, Debug)]
pub(super) struct Ready {
    pub(super) cycle: PointCycle,
    pub(super) kernel: Kernel,
    /// The stopping test of a cycle of lines.
    pub(super) judge: Option<Kernel>,
    pub(super) block: Block,
    pub(super) reduction: Arc<Reduction>,
}

/// The prepared kinds of cycles.
#[derive(Debug, Default)]
pub(crate) struct Cycles {
    pub(super) tiles: Mutex<Vec<Ready>>,
    pub(super) streamed: Mutex<Vec<Streamed>>,
}

impl Form {
    pub(super) fn points<T: Real>(&self, cycle: &PointCycle, block: Block, by_line: bool) -> Source {
        let ([x, y, z], [overlap_x, overlap_y, overlap_z]) = (cycle.tile, cycle.overlap);
        self.source::<T>("seven_point_points", kernels::POINTS)
            .define("TILE_X", x)
            .define("TILE_Y", y)
            .define("TILE_Z", z)
            .define("OVERLAP_X", overlap_x)
            .define("OVERLAP_Y", overlap_y)
            .define("OVERLAP_Z", overlap_z)
            .define("STRIP", block.strip)
            .define("THREADS", block.threads)
            .define("LINES", u32::from(by_line))
    }
}

/// Returns the sources for cycles and for stencils of this form, for compile tests.
pub(crate) fn sources<T: Real>(stencil: &Diffusion, wide: bool) -> Vec<Source> {
    let shape = stencil.shape();
    let is_flat = shape.nz == 1;
    let tile = if is_flat { [32, 32, 1] } else { [16, 8, 6] };
    let cycle = PointCycle { tile, overlap: tile.map(|n| if n > 1 { 2 } else { 0 }), ..PointCycle::sweep(1.0) };
    let form = Form { wide, ..Form::new(Kind::of(stencil), shape) };
    let mut all = block::sources::<T>(&form, shape);
    if let Some(block) = Block::new(tile, is_flat, size_of::<T>(), 48 << 10) {
        all.extend(
            [false, true][..1 + usize::from(is_flat)].iter().map(|&by_line| form.points::<T>(&cycle, block, by_line)),
        );
    }
    all
}

/// Makes the error for a tile that no block of this GPU can hold.
pub(super) fn too_large(cycle: &PointCycle, shape: Shape, shared_memory: usize) -> Error {
    let [x, y, z] = cycle.tile;
    Error::invalid(
        "solver.jacobi.tile",
        format!(
            "{x} × {y} × {z} cells are too many for a block of this GPU, which can have {MOST_THREADS} threads of {LONGEST_STRIP} cells, \
             consecutive in y, and {} KiB of shared memory; use a smaller tile, such as {:?}",
            shared_memory >> 10,
            suggested(shape),
        ),
    )
}

/// Returns a tile that uses a multiprocessor well.
pub(super) fn suggested(Shape { ny, nz, .. }: Shape) -> [usize; 3] {
    match (ny, nz) {
        (_, 2..) => [32, 8, 8],
        (2.., _) => [32, 32, 1],
        _ => [256, 1, 1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_hold_their_tiles() {
        let block = |tile, is_flat| Block::new(tile, is_flat, 8, 227 << 10);
        assert_eq!(block([32, 32, 1], true), Some(Block { strip: 4, threads: 256, shared_bytes: 2 * 8 * 34 * 34 }));
        assert_eq!(block([5, 1, 1], true).map(|block| (block.strip, block.threads)), Some((1, 32)));
        assert_eq!(block([64, 64, 1], true).map(|block| (block.strip, block.threads)), Some((4, 1024)));
        assert_eq!(block([32, 8, 8], false).map(|block| (block.strip, block.threads)), Some((8, 256)));
        // Too many cells, and too many bytes.
        assert_eq!((block([1025, 1, 1], true), block([32, 16, 32], false)), (None, None));
        assert_eq!(Block::new([64, 64, 1], true, 8, 48 << 10), None);
    }
}
