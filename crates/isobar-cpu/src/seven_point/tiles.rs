//! The decomposition of a grid into tiles for factorisation and substitution, where each tile depends on those before it in every
//! direction.
//!
//! Cells depend on their lower neighbours in x, y and z, so that a tile can start when the tiles before it in every direction are
//! done. Threads own consecutive planes, and work on the tiles of their planes one after the other, each thread one tile behind
//! the previous thread:
//!
//! ```text
//! round        0  1  2  3  4
//! thread 0     a  b  c  d
//! thread 1        a  b  c  d      a, b, … tiles: some layers, or some columns where there are few layers
//! ```
//!
//! Subdomains of a grid follow each other in the same way.

use std::ops::Range;

use isobar_core::prelude::{Layout, Result, Shape};

use crate::{Columns, Cpu};

/// The approximate number of tiles in a thread's planes: more tiles shorten the waits at the ends.
const TILES: usize = 16;
/// The fewest columns of a tile.
const FEWEST_COLUMNS: usize = 32;

/// The decomposition of a grid into tiles; only the planes depend on the number of threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tiles {
    shape: Shape,
    threads: usize,
    /// Layers of a tile.
    layers: usize,
    /// Columns of one colour of a tile.
    columns: usize,
    pitch: usize,
}

/// A tile: some planes, layers and columns.
#[derive(Clone, Debug)]
pub(crate) struct Tile {
    pub(crate) planes: Range<usize>,
    pub(crate) layers: Range<usize>,
    /// Columns of each colour.
    pub(crate) columns: Columns,
}

impl Tile {
    /// Returns the range of i of its cells.
    pub(crate) fn cells_in_x(&self, layout: &Layout) -> Range<usize> {
        let Columns { m, n } = self.columns;
        2 * m..(2 * (m + n)).min(layout.shape().nx)
    }
}

impl Tiles {
    pub(crate) fn new(cpu: &Cpu, layout: &Layout) -> Self {
        let (shape, pitch) = (layout.shape(), layout.pitch());
        let layers = shape.nz.div_ceil(TILES);
        // With few layers, columns are divided too.
        let across = TILES.div_ceil(shape.nz.div_ceil(layers));
        let columns = if across > 1 { pitch.div_ceil(across).max(FEWEST_COLUMNS).next_multiple_of(8) } else { pitch };
        let threads = cpu.threads_for(layout.len()).min(shape.ny);
        Self { shape, threads, layers, columns: columns.min(pitch), pitch }
    }

    fn count(&self) -> [usize; 2] {
        [self.pitch.div_ceil(self.columns), self.shape.nz.div_ceil(self.layers)]
    }

    /// Returns tile n of a thread.
    fn tile(&self, thread: usize, n: usize) -> Tile {
        let across = self.count()[0];
        let (m, k) = (n % across * self.columns, n / across * self.layers);
        let first = |thread: usize| self.shape.ny * thread / self.threads;
        Tile {
            planes: first(thread)..first(thread + 1),
            layers: k..(k + self.layers).min(self.shape.nz),
            columns: Columns { m, n: self.columns.min(self.pitch - m) },
        }
    }

    /// Runs `f(thread, tile)` for all tiles, each after those before it in every direction; between tiles it calls `turn(next,
    /// done)`, before the next tile of the first planes begins, and after one of the last planes is done.
    pub(crate) fn upwards(
        &self,
        cpu: &Cpu,
        f: impl Fn(usize, Tile) + Sync,
        mut turn: impl FnMut(Option<Tile>, Option<Tile>) -> Result<()>,
    ) -> Result<()> {
        let of = |n: Option<usize>| n.map(|n| self.tile(0, n));
        self.run(cpu, |thread, n, _| f(thread, self.tile(thread, n)), |next, done, _| turn(of(next), of(done)))
    }

    /// Runs `f(thread, tile)` for all tiles, each after those behind it in every direction; `turn` is called likewise, with the
    /// last planes as the first.
    pub(crate) fn downwards(
        &self,
        cpu: &Cpu,
        f: impl Fn(usize, Tile) + Sync,
        mut turn: impl FnMut(Option<Tile>, Option<Tile>) -> Result<()>,
    ) -> Result<()> {
        let tile = |thread: usize, n: usize, tiles: usize| self.tile(self.threads - 1 - thread, tiles - 1 - n);
        let of = |n: Option<usize>, tiles: usize| n.map(|n| tile(0, n, tiles));
        self.run(
            cpu,
            |thread, n, tiles| f(self.threads - 1 - thread, tile(thread, n, tiles)),
            |next, done, tiles| turn(of(next, tiles), of(done, tiles)),
        )
    }

    /// Runs `f(thread, n, number of tiles)`, thread t one tile behind thread t − 1.
    fn run(
        &self,
        cpu: &Cpu,
        f: impl Fn(usize, usize, usize) + Sync,
        mut turn: impl FnMut(Option<usize>, Option<usize>, usize) -> Result<()>,
    ) -> Result<()> {
        let tiles: usize = self.count().into_iter().product();
        for round in 0..tiles + self.threads {
            turn((round < tiles).then_some(round), round.checked_sub(self.threads), tiles)?;
            // The threads that have a tile in this round; the last round has none.
            let (first, beyond) = ((round + 1).saturating_sub(tiles), (round + 1).min(self.threads));
            cpu.for_each(beyond - first, |n| f(first + n, round - (first + n), tiles));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Checks that every cell is visited once, after its lower neighbours, or after the higher ones.
    #[test]
    fn tiles_follow_those_that_they_depend_on() {
        let cpu = Cpu::new(3).unwrap();
        for (nx, ny, nz) in [(1, 1, 1), (700, 90, 1), (64, 40, 20), (3, 2, 9000), (40000, 2, 1), (33, 70, 17)] {
            let layout = Layout::new(Shape::new(nx, ny, nz)).unwrap();
            let tiles = Tiles::new(&cpu, &layout);
            for up in [true, false] {
                let done = Mutex::new(vec![false; nx * ny * nz]);
                let visit = |_: usize, tile: Tile| {
                    let mut done = done.lock().unwrap();
                    let at = |i: usize, j: usize, k: usize| i + nx * (j + ny * k);
                    let (j, k) =
                        if up { (tile.planes.start, tile.layers.start) } else { (tile.planes.end, tile.layers.end) };
                    let cells = tile.cells_in_x(&layout);
                    for i in cells.clone() {
                        for other_k in tile.layers.clone() {
                            match up {
                                true if j > 0 => assert!(done[at(i, j - 1, other_k)]),
                                false if j < ny => assert!(done[at(i, j, other_k)]),
                                _ => {}
                            }
                        }
                        for j in tile.planes.clone() {
                            match up {
                                true if k > 0 => assert!(done[at(i, j, k - 1)]),
                                false if k < nz => assert!(done[at(i, j, k)]),
                                _ => {}
                            }
                        }
                    }
                    for (j, k) in tile.planes.flat_map(|j| tile.layers.clone().map(move |k| (j, k))) {
                        match up {
                            true if cells.start > 0 => assert!(done[at(cells.start - 1, j, k)]),
                            false if cells.end < nx => assert!(done[at(cells.end, j, k)]),
                            _ => {}
                        }
                        for i in cells.clone() {
                            assert!(!std::mem::replace(&mut done[at(i, j, k)], true));
                        }
                    }
                };
                // A neighbour must receive all pieces in order, each when it is done and before the tile that needs it.
                let (seen, planes) = (Mutex::new((Vec::new(), Vec::new())), if up { [0, ny - 1] } else { [ny - 1, 0] });
                let is_done = |plane: usize, tile: &Tile| {
                    let done = done.lock().unwrap();
                    let mut cells = tile.layers.clone().flat_map(|k| tile.cells_in_x(&layout).map(move |i| (i, k)));
                    cells.all(|(i, k)| done[i + nx * (plane + ny * k)])
                };
                let turn = |next: Option<Tile>, left: Option<Tile>| {
                    let mut seen = seen.lock().unwrap();
                    if let Some(tile) = next {
                        assert!(tile.cells_in_x(&layout).is_empty() || !is_done(planes[0], &tile));
                        seen.0.push((tile.layers, tile.columns.m));
                    }
                    if let Some(tile) = left {
                        assert!(is_done(planes[1], &tile));
                        seen.1.push((tile.layers, tile.columns.m));
                    }
                    Ok(())
                };
                if up {
                    tiles.upwards(&cpu, visit, turn).unwrap();
                } else {
                    tiles.downwards(&cpu, visit, turn).unwrap();
                }
                let (received, sent) = seen.into_inner().unwrap();
                assert_eq!((received.len(), &received), (tiles.count().into_iter().product(), &sent));
                assert!(done.into_inner().unwrap().into_iter().all(|done| done), "{nx} {ny} {nz}");
            }
        }
    }
}
