//! Exchanges: halo rows, sums and layers by stores to other ranks' memory.

use isobar_core::prelude::{Colour, Layout, Real, Result, Scalar};
use isobar_dist::part::{Division, Link, Redivision};

use super::{MOST_RANKS, PATIENCE_SECONDS, PIECES, Peers, SUMS};
use crate::driver::lock;
use crate::neighbour::Neighbour;
use crate::{Arguments, Cuda, Pointer, Scalars, Vector, argument};

/// Largest number of slots for halo rows.
const PIECES_OF_ROWS: usize = 32;
/// Slots of one side before those of the other, for two subdomains that are neighbours on both sides of a periodic direction.
const PLACES_AROUND: usize = PIECES_OF_ROWS;
/// Threads per block.
const THREADS: usize = 512;
/// Words of 16 bytes that justify a block.
const WORDS_A_BLOCK: usize = 256;

argument! {
    /// `Edge` of exchange.cu.
    struct Edge {
        own: [Pointer; 2],
        halo: [Pointer; 2],
        rank: i32,
        place: i32,
    }
}

impl Edge {
    /// Makes the first or the last row of this rank's subdomain, of a vector whose first cell is at `start`, with rows of these colours.
    fn of<T: Real>(layout: &Layout, start: Pointer, colours: &[Colour], is_last: bool, ranks: [usize; 2]) -> Self {
        let rows = layout.shape().ny as i64;
        let (row, beyond) = if is_last { (rows - 1, rows) } else { (0, -1) };
        let half_plane = (layout.half_plane() * size_of::<T>()) as i64;
        let at = |half_planes: i64| start.wrapping_add_signed(half_planes * half_plane);
        let mut edge = Self { own: [0; 2], halo: [0; 2], rank: -1, place: 0 };
        let Some(neighbour) = Neighbour::of(layout, is_last, ranks) else { return edge };
        edge.rank = neighbour.rank as i32;
        // Both ranks at an end of a periodic direction use the same slots for it.
        edge.place = if neighbour.is_around { PLACES_AROUND as i32 } else { 0 };
        for (place, &colour) in Colour::BOTH.iter().filter(|colour| colours.contains(colour)).enumerate() {
            let local = layout.local(colour) as i64;
            (edge.own[place], edge.halo[place]) = (at(2 * row + local), at(2 * beyond + local));
        }
        edge
    }
}

argument! {
    /// `Patience` of exchange.cu.
    struct Patience {
        fault: Pointer,
        nanoseconds: i64,
    }
}

/// Returns the 16-byte words of a half plane.
fn words<T: Real>(x: &Vector<T>) -> usize {
    x.layout().half_plane() * size_of::<T>() / 16
}

/// Returns the number of blocks for a message.
fn places(words: usize, most: usize) -> usize {
    words.div_ceil(WORDS_A_BLOCK).clamp(1, most)
}

/// Returns `Starts` of exchange.cu.
fn starts(starts: &[usize]) -> [i32; MOST_RANKS + 4] {
    let mut all = [0; MOST_RANKS + 4];
    for (to, &from) in all.iter_mut().zip(starts) {
        *to = from as i32;
    }
    all
}

/// Returns the largest subdomain of a rank.
fn largest(starts: &[usize]) -> usize {
    starts.windows(2).map(|part| part[1] - part[0]).max().unwrap_or(0)
}

impl Peers {
    /// Implements [`Cuda::sum_over_ranks`].
    pub(crate) fn sum_numbers(&self, cuda: &Cuda, start: Pointer, count: usize) -> Result<()> {
        let arguments = Arguments::new().with(self.table.start()).with(self.rank as i32).with(self.size as i32);
        let arguments = arguments.with(start).with(count as i64).with(self.patience());
        self.launch(cuda, "sum_numbers", [count.div_ceil(THREADS).clamp(1, PIECES), 1, 1], arguments)
    }

    /// Gathers rows of `bytes` from all ranks in a vector of the whole grid, in which those of this rank are.
    pub(crate) fn gather_rows(&self, cuda: &Cuda, whole: Pointer, bytes: usize, rows: &[usize]) -> Result<()> {
        self.gather_from(cuda, whole + (rows[self.rank] * bytes) as Pointer, whole, bytes / 32, rows)
    }

    /// Gathers the rows of all ranks, with half planes of so many words.
    fn gather_from(&self, cuda: &Cuda, part: Pointer, whole: Pointer, words: usize, rows: &[usize]) -> Result<()> {
        let arguments = Arguments::new().with(self.table.start()).with(self.rank as i32);
        let arguments = arguments.with(part).with(whole).with(words as i64);
        let grid = [places(2 * words * largest(rows), PIECES), self.size, 1];
        self.launch(cuda, "gather_rows", grid, arguments.with(starts(rows)).with(self.patience()))
    }

    fn patience(&self) -> Patience {
        Patience { fault: lock(&self.fault).numbers(), nanoseconds: (PATIENCE_SECONDS * 1_000_000_000) as i64 }
    }

    fn launch(&self, cuda: &Cuda, name: &'static str, grid: [usize; 3], arguments: Arguments) -> Result<()> {
        cuda.launch(self.module.kernel(name)?, grid, [THREADS, 1], arguments)
    }
}

impl Link<Cuda> for Peers {
    fn fill<T: Real>(&self, cuda: &Cuda, x: &mut Vector<T>, colours: &[Colour]) -> Result<()> {
        let ranks = [self.rank, self.size];
        let edge = |is_last: bool| Edge::of::<T>(x.layout(), x.pointer(), colours, is_last, ranks);
        let (words, colours) = (words(x), colours.len().min(2));
        let arguments = Arguments::new().with(self.table.start()).with(edge(false)).with(edge(true));
        let arguments = arguments.with(words as i64).with(colours as i32).with(self.patience());
        self.launch(cuda, "exchange_rows", [places(colours * words, PIECES_OF_ROWS), 2, 1], arguments)
    }

    fn sum(&self, cuda: &Cuda, sums: &[Scalar], scalars: &mut Scalars) -> Result<()> {
        for sums in sums.chunks(SUMS) {
            // `Numbers` of exchange.cu.
            let mut numbers: [Pointer; SUMS] = [0; SUMS];
            for (place, &scalar) in numbers.iter_mut().zip(sums) {
                *place = scalars.pointer(scalar);
            }
            let arguments = Arguments::new().with(self.table.start()).with(self.rank as i32).with(self.size as i32);
            let arguments = arguments.with(numbers).with(sums.len() as i32).with(self.patience());
            cuda.launch(self.module.kernel("sum_ranks")?, [1, 1, 1], [32, 1], arguments)?;
        }
        Ok(())
    }

    fn gather<T: Real>(&self, cuda: &Cuda, part: &Vector<T>, rows: &[usize], whole: &mut Vector<T>) -> Result<()> {
        self.gather_from(cuda, part.pointer(), whole.pointer(), words(part), rows)
    }

    fn redivide<T: Real>(&self, cuda: &Cuda, division: &Division, change: Redivision<'_, Vector<T>>) -> Result<()> {
        let ([rows, layers], to_layers) = change.vectors();
        let words = rows.layout().pitch() * size_of::<T>() / 16;
        let arguments = Arguments::new().with(self.table.start()).with(self.rank as i32);
        let arguments = arguments.with(rows.pointer()).with(layers.pointer()).with(words as i32);
        let arguments = arguments.with(rows.layout().shape().nz as i32).with(i32::from(to_layers));
        let arguments = arguments.with(starts(&division.rows)).with(starts(&division.layers));
        let most = 2 * words * largest(&division.rows) * largest(&division.layers);
        self.launch(cuda, "divide_again", [places(most, PIECES), self.size, 1], arguments.with(self.patience()))
    }
}

#[cfg(test)]
mod tests;
