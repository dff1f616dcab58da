//! Kernels of red–black point relaxation: their names, blocks and sources.

use std::sync::{Arc, OnceLock};

use isobar_core::prelude::{Real, Shape};

use crate::kernels::seven_point as kernels;
use crate::seven_point::form::Form;
use crate::{Kernel, Module, Reduction, Source};

/// Kernels and parameters of red–black point relaxation.
#[derive(Debug)]
pub(crate) struct Colours {
    pub(super) module: Arc<Module>,
    pub(super) reduction: Reduction,
    /// Rows per thread.
    pub(super) march: usize,
    /// Passes that fuse a sweep and a transfer, if possible.
    pub(super) streamed: OnceLock<Streamed>,
}

/// The kernels of red–black relaxation and of its transfers.
pub(crate) const COLOURS: &[&str] = &[
    "sweep_cells",
    "sweep_cells_zero",
    "sweep_cells_own_zero",
    "restrict_cells",
    "restrict_field",
    "prolong_cells",
    "halve_field",
    "norm_cells",
];

/// The kernels of streamed passes.
pub(crate) const STREAMED: &[&str] = &["relax_restrict", "relax_zero_restrict", "prolong_relax", "prolong_relax_norm"];
/// Half sweeps per pass.
const STAGES: usize = 2;
/// Cells at a tile's ends in x and y, and layers, that are invalid after all half sweeps.
const HALO: usize = STAGES + 2;
const HALO_LAYERS: usize = STAGES + 1;
/// Static shared memory of the kernels. B
const STATIC_BYTES: usize = 1024;

/// The shape of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// Pairs of cells in x, and layers.
    pub(super) tile: [usize; 2],
    pub(super) min_blocks: usize,
    /// Dynamic shared memory. B
    pub(super) shared_bytes: usize,
}

impl Block {
    /// Chooses the block for numbers of `size` bytes and this much shared memory. The parameters were measured: docs/notes/diffusion-multigrid.md.
    pub(super) fn new(is_flat: bool, has_shift: bool, size: usize, shared_memory: usize) -> Option<Self> {
        let tiles: &[[usize; 2]] =
            if is_flat { &[[256, 1]] } else { &[[32, 32], [32, 24], [32, 20], [32, 16], [32, 12]] };
        let min_blocks = if is_flat { 3 } else { 1 };
        let with = |&tile: &[usize; 2]| Self { tile, min_blocks, shared_bytes: shared_numbers(tile, has_shift) * size };
        tiles.iter().map(with).find(|block| block.shared_bytes + STATIC_BYTES <= shared_memory)
    }

    pub(super) fn threads(&self) -> usize {
        self.tile[0] * self.tile[1]
    }

    /// Returns the number of tiles of a grid.
    pub(super) fn tiles(&self, Shape { nx, nz, .. }: Shape) -> usize {
        let x = nx.div_ceil(2).saturating_sub(HALO).div_ceil(self.tile[0] - HALO).max(1);
        // The first tile has two more valid layers.
        if nz == 1 { x } else { x * (nz - 2).div_ceil(self.tile[1] - 2 * HALO_LAYERS).max(1) }
    }

    /// Returns the rows of a segment, an even number: such that the blocks resident at once process as few rows in sequence as possible.
    pub(super) fn length(tiles: usize, rows: usize, resident: usize) -> usize {
        /// The largest number of segments; shorter ones do not pay, because of the rows computed twice.
        const MOST_SEGMENTS: usize = 64;
        let length = |segments: usize| rows.div_ceil(segments).next_multiple_of(2);
        let cost = |segments: usize| (tiles * segments).div_ceil(resident.max(1)) * (length(segments) + 2 * HALO);
        let segments = (1..=MOST_SEGMENTS.min(rows)).min_by_key(|&segments| cost(segments));
        length(segments.unwrap_or(1))
    }
}

/// Returns the numbers in the kernels' `Shared`.
fn shared_numbers([lanes, depth]: [usize; 2], has_shift: bool) -> usize {
    /// Rows of u being loaded, and rows of f and the shift, which are kept.
    const U_ROWS: usize = 3;
    const F_ROWS: usize = 6;
    let left = 2 * (STAGES + 1) + 1;
    let rows = left + 3 + 2 * (U_ROWS + F_ROWS) + if has_shift { 2 * F_ROWS } else { 0 };
    // Weights in x, and an unused shift.
    rows * lanes * depth + 4 * lanes + 2
}

/// A kernel with suitable segments.
#[derive(Clone, Debug)]
pub(super) struct Pass {
    pub(super) kernel: Kernel,
    pub(super) length: usize,
    pub(super) segments: usize,
}

/// Streamed passes of red–black relaxation, ready to be launched.
#[derive(Debug)]
pub(super) struct Streamed {
    pub(super) block: Block,
    pub(super) tiles: usize,
    /// The passes down from u, and from zero.
    pub(super) down: [Pass; 2],
    /// The passes up without the norm, and with it.
    pub(super) up: [Pass; 2],
    pub(super) reduction: Reduction,
}

impl Form {
    pub(super) fn block_of_colours<T: Real>(&self, shared_memory: usize) -> Option<Block> {
        Block::new(self.flat, self.kind.has_shift(), size_of::<T>(), shared_memory)
    }

    pub(super) fn colours_streamed<T: Real>(&self, block: Block) -> Source {
        self.source::<T>("seven_point_colours_streamed", kernels::COLOURS_STREAMED)
            .define("LANES", block.tile[0])
            .define("DEPTH", block.tile[1])
            .define("MIN_BLOCKS", block.min_blocks)
    }

    /// Returns the source for compile tests, if there is such a pass.
    pub(crate) fn colours_streamed_source<T: Real>(&self) -> Option<Source> {
        let block = self.block_of_colours::<T>(usize::MAX)?;
        (self.kind.periodic() == 0).then(|| self.colours_streamed::<T>(block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_leave_every_cell_once() {
        for shape in
            [Shape::new(8192, 8192, 1), Shape::new(497, 40, 1), Shape::new(512, 512, 512), Shape::new(65, 64, 61)]
        {
            let block = Block::new(shape.nz == 1, false, 8, 227 << 10).unwrap();
            let z = if shape.nz == 1 { 1 } else { (shape.nz - 2).div_ceil(block.tile[1] - 6) };
            let x = block.tiles(shape) / z;
            // The last tile's valid cells end with the grid or beyond it, and those of the previous tile do not.
            let pairs = shape.nx.div_ceil(2);
            assert!(
                x * (block.tile[0] - HALO) + HALO >= pairs
                    && (x == 1 || (x - 1) * (block.tile[0] - HALO) + HALO < pairs)
            );
            if shape.nz > 1 {
                let end = |tiles: usize| (tiles - 1) * (block.tile[1] - 6) + block.tile[1] - 4;
                assert!(end(z) >= shape.nz && (z == 1 || end(z - 1) < shape.nz));
            }
        }
    }

    #[test]
    fn blocks_fit() {
        // 29 rows of 1024 numbers do not fit on an Ampere GPU.
        let tile = |has_shift, shared_memory| Block::new(false, has_shift, 8, shared_memory).map(|block| block.tile);
        assert_eq!(tile(false, 227 << 10), Some([32, 32]));
        assert_eq!(tile(true, 227 << 10), Some([32, 20]));
        assert_eq!((tile(false, 163 << 10), tile(false, 48 << 10)), (Some([32, 20]), None));
    }

    #[test]
    fn segments_are_even() {
        assert!((1..300).all(|rows| Block::length(17, rows, 264).is_multiple_of(2)));
        // 527 blocks in two waves of 264.
        assert_eq!(Block::length(17, 8192, 264), 266);
    }
}
