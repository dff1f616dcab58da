//! One cycle of point relaxation: tiles, their overlap, sub-iterations.

use crate::layout::Shape;

/// Relaxation of points by plain sweeps u += ω D⁻¹(f − A u), or by hierarchical cycles (paper C).
///
/// A cycle relaxes every tile k times, with the values outside the tile from before the cycle. In each direction tile t begins at cell t (b − o),
/// with b cells in a tile, o of them shared with the next one; there are ⌈(n − o)/(b − o)⌉ tiles, of which the last ends with the grid. A tile
/// writes its cells except o/2 at each end with another tile beyond. Tiles end at periodic sides as at others.
///
/// With o/2 ≥ k − 1 no written cell has depended on an old value: k sub-iterations are then k plain sweeps.
///
/// Sweeps, and exact cycles, may have momentum (Frankel 1950: Richardson's second-order method): u += ω D⁻¹(f − A u) + m (u − u′), with u′ the
/// previous u.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PointCycle {
    /// ω
    pub relaxation: f64,
    /// m, 0 or more and less than 1; for sweeps, and for exact cycles.
    pub momentum: f64,
    /// k, 1 or more; 1 is a plain sweep, for any tiles.
    pub sub_iterations: usize,
    /// b in x, y and z, at most the cells of the grid.
    pub tile: [usize; 3],
    /// o in x, y and z: even, less than b, and 0 if there is one tile.
    pub overlap: [usize; 3],
}

/// A tile in one direction, as ranges of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first cell that is relaxed, and one past the last.
    pub relaxed: [usize; 2],
    /// The first cell that is written, and one past the last.
    pub left: [usize; 2],
}

impl PointCycle {
    /// Makes a plain sweep.
    pub const fn sweep(relaxation: f64) -> Self {
        Self { relaxation, momentum: 0.0, sub_iterations: 1, tile: [1; 3], overlap: [0; 3] }
    }

    /// Returns whether this is a plain sweep.
    pub fn is_sweep(&self) -> bool {
        self.sub_iterations == 1
    }

    /// Returns the number of tiles in direction d of n cells.
    pub fn count(&self, d: usize, n: usize) -> usize {
        let (tile, overlap) = (self.tile[d], self.overlap[d]);
        if tile >= n { 1 } else { (n - overlap).div_ceil(tile - overlap) }
    }

    /// Returns tile t in direction d of n cells.
    pub fn span(&self, d: usize, n: usize, t: usize) -> Span {
        let (tile, overlap) = (self.tile[d], self.overlap[d]);
        let start = t * (tile - overlap);
        let end = (start + tile).min(n);
        let inner = |is_inner: bool| if is_inner { overlap / 2 } else { 0 };
        Span { relaxed: [start, end], left: [start + inner(t > 0), end - inner(t + 1 < self.count(d, n))] }
    }

    /// Returns the numbers of tiles of a grid.
    pub fn counts(&self, shape: Shape) -> [usize; 3] {
        let n = shape.extents();
        [0, 1, 2].map(|d| self.count(d, n[d]))
    }

    /// Returns tile t of a grid, counted x first: its spans in x, y and z.
    pub fn spans(&self, shape: Shape, t: usize) -> [Span; 3] {
        let ([x, y, _], n) = (self.counts(shape), shape.extents());
        let t = [t % x, t / x % y, t / x / y];
        [0, 1, 2].map(|d| self.span(d, n[d], t[d]))
    }

    /// Returns the number of tiles of a grid.
    pub fn tiles(&self, shape: Shape) -> usize {
        self.counts(shape).iter().product()
    }

    /// Returns whether a cycle on a grid with these periodic directions equals k plain sweeps.
    pub fn is_exact(&self, shape: Shape, periodic: [bool; 3]) -> bool {
        let counts = self.counts(shape);
        let is_exact = |d: usize| !periodic[d] && (counts[d] == 1 || self.overlap[d] / 2 + 1 >= self.sub_iterations);
        self.is_sweep() || (0..3).all(is_exact)
    }

    /// Returns the cells relaxed in a cycle, over all sub-iterations, each counted once for every tile that contains it.
    pub fn updates(&self, shape: Shape) -> f64 {
        if self.is_sweep() {
            return shape.cells() as f64;
        }
        let n = shape.extents();
        let cells = [0, 1, 2].map(|d| n[d] + (self.count(d, n[d]) - 1) * self.overlap[d]);
        self.sub_iterations as f64 * cells.iter().map(|&cells| cells as f64).product::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_left_by_one_tile() {
        for n in 1..40 {
            for tile in 1..=n {
                for overlap in (0..tile).step_by(2) {
                    let cycle = PointCycle {
                        tile: [tile; 3],
                        overlap: [overlap; 3],
                        sub_iterations: 2,
                        ..PointCycle::sweep(1.0)
                    };
                    let count = cycle.count(0, n);
                    assert!(tile == n || count == (n - overlap).div_ceil(tile - overlap));
                    let mut next = 0;
                    for t in 0..count {
                        let Span { relaxed, left } = cycle.span(0, n, t);
                        assert_eq!((relaxed[0], left[0]), (t * (tile - overlap), next), "{n} {tile} {overlap}");
                        assert!(relaxed[0] <= left[0] && left[0] < left[1] && left[1] <= relaxed[1]);
                        assert!(relaxed[1] - relaxed[0] <= tile && (t + 1 == count || relaxed[1] - relaxed[0] == tile));
                        next = left[1];
                    }
                    assert_eq!(next, n, "{n} {tile} {overlap}");
                }
            }
        }
    }

    #[test]
    fn wide_overlaps_are_exact() {
        let shape = Shape::new(20, 9, 1);
        let with = |overlap| PointCycle {
            sub_iterations: 4,
            tile: [8, 9, 1],
            overlap: [overlap, 0, 0],
            ..PointCycle::sweep(1.0)
        };
        assert!(with(6).is_exact(shape, [false; 3]) && !with(4).is_exact(shape, [false; 3]));
        assert!(!with(6).is_exact(shape, [true, false, false]));
        assert_eq!((with(6).counts(shape), with(0).updates(shape)), ([7, 1, 1], 720.0));
    }
}
