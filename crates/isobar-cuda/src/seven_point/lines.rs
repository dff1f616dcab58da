//! How blocks of line solves tile columns.

/// Warps a block of line solves has where a thread has a column.
pub(super) const LINE_ROWS: usize = 4;
/// Threads a column in a block at most.
pub(super) const MOST_CHUNKS: usize = 32;

/// A block's share of the columns of a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineTile {
    /// Columns side by side.
    pub(super) lanes: usize,
    /// Layers a thread; 0 for all.
    pub(super) depth: usize,
    /// Threads a column; where a thread has all layers, rows.
    pub(super) rows: usize,
}

impl LineTile {
    /// For columns of so many layers.
    pub(super) fn new<T>(layers: usize) -> Self {
        for depth in [8, 16] {
            if layers > 16 && layers <= depth * MOST_CHUNKS {
                // Whole warps only.
                return Self { lanes: 128 / size_of::<T>(), depth, rows: layers.div_ceil(depth).next_multiple_of(2) };
            }
        }
        Self { lanes: 32, depth: 0, rows: LINE_ROWS }
    }

    /// Threads.
    pub(super) fn block(self) -> [usize; 2] {
        [self.lanes, self.rows]
    }

    /// Blocks that so many pairs of columns in so many rows need.
    pub(super) fn grid(self, pairs: usize, rows: usize, colours: usize) -> [usize; 3] {
        let rows = if self.depth == 0 { rows.div_ceil(self.rows) } else { rows };
        [pairs.div_ceil(self.lanes), rows, colours]
    }

    /// Whether the solve keeps a vector of ratios.
    pub(super) fn needs_ratios(self, layers: usize) -> bool {
        self.depth == 0 && layers > 1
    }
}

/// A block's share of the columns of a colour in sweeps with stored pivots, see sweeps.cu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SweepTile {
    /// Columns side by side.
    pub(super) lanes: usize,
    /// Layers a thread.
    pub(super) depth: usize,
    /// Threads a column.
    pub(super) chunks: usize,
}

impl SweepTile {
    /// For columns of so many layers; `None` where a thread has a column, and pivots are not stored.
    pub(super) fn new<T>(layers: usize) -> Option<Self> {
        if LineTile::new::<T>(layers).depth == 0 {
            return None;
        }
        let depth = if layers > 256 { 16 } else { 8 };
        let chunks = layers.div_ceil(depth);
        Some(Self { lanes: 16, depth, chunks: chunks.next_multiple_of(2) })
    }

    /// Threads.
    pub(super) fn block(self) -> [usize; 2] {
        [self.lanes, self.chunks]
    }

    /// Blocks that so many pairs of columns in so many rows need.
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
