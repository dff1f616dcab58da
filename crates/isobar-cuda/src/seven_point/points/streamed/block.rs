//! Passes of several sweeps: their blocks and sources.

use std::sync::Arc;

use isobar_core::prelude::{Real, Shape};

use crate::kernels::seven_point as kernels;
use crate::seven_point::form::Form;
use crate::{Kernel, Pointer, Reduction, Source};

/// Static shared memory of the kernels of points. B
pub(crate) const STATIC_BYTES: usize = 1024;

/// The shape of a block: see streamed.cu and streamed_even.cu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) sweeps: usize,
    pub(super) moves: bool,
    /// Threads in x and z.
    pub(super) tile: [usize; 2],
    pub(super) min_blocks: usize,
    pub(super) weights: Weights,
}

/// The storage of neighbours' weights in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weights {
    /// The weights are computed from coefficients row by row, `stored` ones per cell in shared memory, the others in registers.
    Rows { stored: usize },
    /// The weights are equal for all cells; a thread has two cells, and with a shift the diagonal is in shared memory.
    Even { has_shift: bool },
}

/// Largest number of sweeps per pass, limited by registers.
const MOST_FLAT: usize = 12;
const MOST: usize = 4;
/// Largest number of sweeps in a plane with equal cells: for more, weights in registers are worth reading coefficients for.
const MOST_EVEN_FLAT: usize = 2;

impl Block {
    /// Chooses the block for a number of sweeps in numbers of `size` bytes; `None` if there are too many. The parameters were measured: docs/notes/jacobi.md.
    pub(super) fn new(sweeps: usize, moves: bool, shape: Shape, size: usize) -> Option<Self> {
        let is_double = size == 8;
        let (tile, min_blocks, stored) = if shape.nz == 1 {
            match sweeps {
                ..=5 if is_double => ([256, 1], 2, 0),
                6..=8 if is_double && !moves => ([128, 1], 3, 2),
                6..=MOST_FLAT if is_double => ([128, 1], 2, 2),
                ..=MOST_FLAT => ([128, 1], 3, 0),
                _ => return None,
            }
        } else {
            match sweeps {
                1 if is_double => ([32, 32], 1, 0),
                1 => ([32, 16], 2, 0),
                2 => ([32, 24], 1, 0),
                3 => ([32, 20], 1, 0),
                MOST => ([32, 16], 1, 0),
                _ => return None,
            }
        };
        Some(Self { sweeps, moves, tile, min_blocks, weights: Weights::Rows { stored } })
    }

    /// Chooses the block for equal cells; `None` if that does not pay, or shared memory is not sufficient.
    pub(super) fn even(
        sweeps: usize,
        moves: bool,
        has_shift: bool,
        shape: Shape,
        size: usize,
        shared_memory: usize,
    ) -> Option<Self> {
        let tiles: &[([usize; 2], usize)] = match (shape.nz == 1, sweeps) {
            (true, ..=MOST_EVEN_FLAT) => &[([256, 1], 3)],
            (false, ..=MOST) => &[([32, 32], 1), ([32, 24], 1), ([32, 20], 1), ([32, 16], 1), ([32, 12], 1)],
            _ => &[],
        };
        let weights = Weights::Even { has_shift };
        let with = |&(tile, min_blocks): &([usize; 2], usize)| Self { sweeps, moves, tile, min_blocks, weights };
        tiles.iter().map(with).find(|block| block.shared_bytes(size) + STATIC_BYTES <= shared_memory)
    }

    pub(super) fn threads(&self) -> usize {
        self.tile[0] * self.tile[1]
    }

    /// Returns the number of tiles of a grid.
    pub(super) fn tiles(&self, Shape { nx, nz, .. }: Shape) -> usize {
        let count = |tile: usize, overlap: usize, n: usize| {
            if tile >= n { 1 } else { (n - overlap).div_ceil(tile - overlap) }
        };
        let ([x, z], k) = (self.tile, self.sweeps);
        match self.weights {
            Weights::Rows { .. } => count(x, 2 * k, nx) * count(z, 2 * k, nz),
            Weights::Even { .. } => count(x, 2 * k.div_ceil(2), nx.div_ceil(2)) * count(z, 2 * k, nz),
        }
    }

    /// Returns the shared memory: rows of stages and of coefficient fields, and weights; or rows of u and f being loaded, and rows of stages.
    pub(super) fn shared_bytes(&self, size: usize) -> usize {
        /// Largest number of fields.
        const FIELDS: usize = 3;
        /// Number of rows of u.
        const U_ROWS: usize = 4;
        let (k, when) = (self.sweeps, |is: bool, rows: usize| if is { rows } else { 0 });
        let rows = match self.weights {
            Weights::Rows { stored } => 2 * (k + FIELDS) + stored * k,
            Weights::Even { has_shift } => {
                let f_rows = k + 3;
                2 * (U_ROWS + f_rows + 2 * (k - 1) + when(has_shift, f_rows) + when(self.moves, U_ROWS))
            }
        };
        rows * self.threads() * size
    }

    /// Returns the rows of a segment, such that the blocks resident at once process as few rows in sequence as possible.
    pub(super) fn length(&self, tiles: usize, rows: usize, resident: usize) -> usize {
        /// The largest number of segments; shorter ones do not pay, because of the rows computed twice.
        const MOST_SEGMENTS: usize = 64;
        let cost = |segments: usize| {
            let times = (tiles * segments).div_ceil(resident.max(1));
            times * (rows.div_ceil(segments) + 2 * self.sweeps - 1)
        };
        let segments = (1..=MOST_SEGMENTS.min(rows)).min_by_key(|&segments| cost(segments)).unwrap_or(1);
        rows.div_ceil(segments)
    }
}

/// A kind of pass, ready to be launched.
#[derive(Clone, Debug)]
pub(crate) struct Streamed {
    pub(super) block: Block,
    pub(super) kernel: Kernel,
    pub(super) shared_bytes: usize,
    pub(super) length: usize,
    /// Tiles, and segments of rows.
    pub(super) grid: [usize; 2],
    /// The address of the common coefficients of all cells.
    pub(super) even: Option<Pointer>,
    pub(super) reduction: Arc<Reduction>,
}

impl Form {
    pub(super) fn streamed<T: Real>(&self, block: Block) -> Source {
        let source = match block.weights {
            Weights::Rows { stored } => {
                self.source::<T>("seven_point_streamed", kernels::STREAMED).define("STORED", stored)
            }
            Weights::Even { .. } => self.source::<T>("seven_point_streamed_even", kernels::STREAMED_EVEN),
        };
        let source = source.define("SWEEPS", block.sweeps).define("MOVES", u32::from(block.moves));
        let source = source.define("LANES", block.tile[0]).define("DEPTH", block.tile[1]);
        source.define("MIN_BLOCKS", block.min_blocks)
    }
}

/// Returns sources for stencils of this form, with momentum and without, for compile tests.
pub(crate) fn sources<T: Real>(form: &Form, shape: Shape) -> Vec<Source> {
    let kinds = [(if shape.nz == 1 { 8 } else { 1 }, false), (3, true)];
    let rows = kinds.into_iter().filter_map(|(sweeps, moves)| Block::new(sweeps, moves, shape, size_of::<T>()));
    let even = |(sweeps, moves)| Block::even(sweeps, moves, form.kind.has_shift(), shape, size_of::<T>(), usize::MAX);
    rows.chain(kinds.into_iter().filter_map(even)).map(|block| form.streamed::<T>(block)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_leave_every_cell_once() {
        // Inner tiles write their cells without the overlap, the first and the last more.
        let ends = |count: usize, tile: usize, overlap: usize, n: usize| {
            let end = |count: usize| count * (tile - overlap) + overlap;
            assert!(end(count) >= n && (count == 1 || end(count - 1) < n), "{n}");
        };
        for (shape, k) in [(Shape::new(8192, 8192, 1), 2), (Shape::new(129, 7, 1), 1), (Shape::new(512, 512, 512), 3)] {
            let rows = Block::new(k, false, shape, 8).unwrap();
            let even = Block::even(k, false, false, shape, 8, 227 << 10).unwrap();
            let (flat, pairs) = (Shape { nz: 1, ..shape }, shape.nx.div_ceil(2));
            ends(rows.tiles(flat), rows.tile[0], 2 * k, shape.nx);
            ends(even.tiles(flat), even.tile[0], 2 * k.div_ceil(2), pairs);
            for block in [rows, even].into_iter().filter(|_| shape.nz > 1) {
                ends(block.tiles(shape) / block.tiles(flat), block.tile[1], 2 * k, shape.nz);
            }
        }
        assert!(Block::even(3, false, false, Shape::new(64, 64, 1), 8, 227 << 10).is_none());
        assert!(Block::new(5, false, Shape::new(64, 64, 64), 8).is_none());
        assert!(Block::new(13, true, Shape::new(64, 64, 1), 4).is_none());
    }

    #[test]
    fn blocks_fit() {
        let tile = |k, moves, has_shift, memory| {
            Block::even(k, moves, has_shift, Shape::new(64, 64, 64), 8, memory).map(|block| block.tile)
        };
        assert_eq!(tile(1, false, false, 227 << 10), Some([32, 32]));
        assert_eq!(tile(4, true, true, 227 << 10), Some([32, 16]));
        assert_eq!((tile(2, false, false, 99 << 10), tile(3, false, true, 64 << 10)), (Some([32, 16]), None));
    }

    #[test]
    fn segments_fill_a_card() {
        let shape = Shape::new(512, 512, 512);
        let block = Block::new(1, false, shape, 8).unwrap();
        // 289 tiles where 132 blocks run at once: five segments are eleven times as many.
        assert_eq!((block.tiles(shape), block.length(289, 512, 132)), (289, 103));
        assert_eq!(block.length(1, 3, 132), 1);
    }
}
