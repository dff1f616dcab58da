//! Tiles of columns for line solves.

/// Warps per block of line solves with one thread per column.
pub(super) const LINE_ROWS: usize = 4;
/// Largest number of threads per column in a block.
pub(super) const MOST_CHUNKS: usize = 32;

/// A block's tile of columns of one colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineTile {
    /// Adjacent columns.
    pub(super) lanes: usize,
    /// Layers per thread; 0 means all.
    pub(super) depth: usize,
    /// Threads per column; if a thread has all layers, rows.
    pub(super) rows: usize,
}

impl LineTile {
    /// Chooses the tile for columns with this many layers.
    pub(super) fn new<T>(layers: usize) -> Self {
        for depth in [8, 16] {
            if layers > 16 && layers <= depth * MOST_CHUNKS {
                // Whole warps only.
                return Self { lanes: 128 / size_of::<T>(), depth, rows: layers.div_ceil(depth).next_multiple_of(2) };
            }
        }
        Self { lanes: 32, depth: 0, rows: LINE_ROWS }
    }

    /// Returns the threads of a block.
    pub(super) fn block(self) -> [usize; 2] {
        [self.lanes, self.rows]
    }

    /// Returns the blocks for pairs of columns in rows.
    pub(super) fn grid(self, pairs: usize, rows: usize, colours: usize) -> [usize; 3] {
        let rows = if self.depth == 0 { rows.div_ceil(self.rows) } else { rows };
        [pairs.div_ceil(self.lanes), rows, colours]
    }

    /// Returns whether the solve stores a vector of ratios.
    pub(super) fn needs_ratios(self, layers: usize) -> bool {
        self.depth == 0 && layers > 1
    }
}

/// A block's tile of columns of one colour in sweeps with stored pivots, see sweeps.cu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SweepTile {
    /// Adjacent columns.
    pub(super) lanes: usize,
    /// Layers per thread.
    pub(super) depth: usize,
    /// Threads per column.
    pub(super) chunks: usize,
}

impl SweepTile {
    /// Chooses the tile for columns with this many layers; `None` if a thread has a whole column and pivots are not stored.
    pub(super) fn new<T>(layers: usize) -> Option<Self> {
        if LineTile::new::<T>(layers).depth == 0 {
            return None;
        }
        // Few layers are divided among more threads: on small grids a sweep takes as long as a thread.
        let (lanes, depth) = match layers {
            ..=32 => (16, 2),
            33..=64 => (16, 4),
            // A warp's rows are then whole.
            65..=128 => (32, 8),
            129..=256 => (16, 8),
            257..=384 => (16, 12),
            _ => (16, 16),
        };
        let chunks = layers.div_ceil(depth);
        Some(Self { lanes, depth, chunks: chunks.next_multiple_of(2) })
    }

    /// Returns the threads of a block.
    pub(super) fn block(self) -> [usize; 2] {
        [self.lanes, self.chunks]
    }

    /// Returns the blocks for pairs of columns in rows.
    pub(super) fn grid(self, pairs: usize, rows: usize, colours: usize) -> [usize; 3] {
        [pairs.div_ceil(self.lanes), rows, colours]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fit_their_blocks_of_whole_warps() {
        for layers in 1..2000 {
            for tile in [LineTile::new::<f64>(layers), LineTile::new::<f32>(layers)] {
                let threads = tile.lanes * tile.rows;
                assert!(threads % 32 == 0 && threads <= 1024, "{layers}: {tile:?}");
                assert!(
                    tile.depth == 0 || tile.rows <= MOST_CHUNKS && tile.depth * tile.rows >= layers,
                    "{layers}: {tile:?}"
                );
            }
            for tile in [SweepTile::new::<f64>(layers), SweepTile::new::<f32>(layers)].into_iter().flatten() {
                let [x, y] = tile.block();
                assert!(
                    x * y % 32 == 0 && y <= MOST_CHUNKS && tile.depth * tile.chunks >= layers,
                    "{layers}: {tile:?}"
                );
            }
        }
    }
}
