//! Incomplete factorisation, cell by cell, over the whole grid or in blocks of consecutive unknowns, and substitution in such
//! blocks; for substitution over the whole grid see [`super::wavefronts`].
//!
//! Blocks are processed in parallel. On a subdomain, whose first and last blocks may be cut, cells are visited in the same order as
//! on the whole grid.

use isobar_core::operator::triangular::{blocks_cross, singular_pivot};
use isobar_core::prelude::{Axis, Real, Result, Shape};

use crate::diffusion::CellCoefficients;
use crate::geometry::Link;
use crate::seven_point::relay::Relay;
use crate::seven_point::tiles::Tiles;
use crate::{Cpu, Geometry, Shared, Vector};

/// Blocks of consecutive unknowns of a grid, in the order x, y, z. Cells are numbered as in the whole grid, wherever this subdomain
/// begins.
pub(crate) struct Blocks<'a, T> {
    cpu: &'a Cpu,
    g: Geometry<'a, T>,
    whole: Shape,
    block: usize,
}

/// A range of consecutive unknowns.
type Block = std::ops::Range<usize>;

/// A neighbour of a cell.
struct Neighbour<T> {
    /// The neighbour's number, and its position in a vector.
    number: usize,
    position: isize,
    /// −a_nm
    t: T,
    /// Whether the neighbour has the higher number.
    higher: bool,
}

impl<'a, T: Real> Blocks<'a, T> {
    /// Makes blocks of `block` unknowns of a grid with this shape, of which `g` has some rows.
    pub(crate) fn new(cpu: &'a Cpu, g: Geometry<'a, T>, whole: Shape, block: usize) -> Self {
        Self { cpu, g, whole, block: block.clamp(1, whole.cells()) }
    }

    /// Returns whether there is only one block.
    pub(crate) fn is_one(&self) -> bool {
        self.block == self.whole.cells()
    }

    fn is_part(&self) -> bool {
        self.g.layout.shape() != self.whole
    }

    /// Returns whether a block has cells in both the row before this subdomain's first and that one; likewise for its last row.
    fn crosses(&self) -> [bool; 2] {
        let (first, rows) = (self.g.layout.first_row(), self.g.layout.shape().ny);
        [first, first + rows].map(|row| blocks_cross(self.whole, self.block, row))
    }

    /// Computes 1 over the pivots, see [`Triangular::factorise`](isobar_core::operator::Triangular::factorise).
    pub(crate) fn factorise(
        &self,
        entries: &impl CellCoefficients<T>,
        omega: T,
        inverse_pivots: &mut Vector<T>,
    ) -> Result<()> {
        let out = inverse_pivots.share_mut();
        if self.is_one() || self.is_part() {
            let mut relay = Relay::new(self.cpu, &self.g.layout, self.crosses());
            return Tiles::new(self.cpu, &self.g.layout).upwards(
                self.cpu,
                |_, tile| {
                    for j in tile.planes.clone() {
                        for k in tile.layers.clone() {
                            for i in tile.cells_in_x(&self.g.layout) {
                                let at = self.in_whole([i, j, k]);
                                // SAFETY: a tile belongs to one thread, and the tiles it depends on are done.
                                unsafe { self.eliminate(entries, omega, at, &self.block_of(at), out) };
                            }
                        }
                    }
                },
                // SAFETY: nobody uses them between tiles.
                |next, done| unsafe { relay.turn(true, out, next, done) },
            );
        }
        self.for_each(|block| {
            for n in block.clone() {
                // SAFETY: the cells of a block belong to this thread.
                unsafe { self.eliminate(entries, omega, self.whole.place(n), &block, out) };
            }
        });
        Ok(())
    }

    /// Sets 1 over the pivot of a cell.
    ///
    /// # Safety
    /// The pivots of its lower neighbours in the block are set, and no other thread writes them or this one.
    #[inline(always)]
    unsafe fn eliminate(
        &self,
        entries: &impl CellCoefficients<T>,
        omega: T,
        at: [usize; 3],
        block: &Block,
        out: Shared<T>,
    ) {
        let [i, j, k] = at;
        let shift = entries.shift(&self.g.layout, [i, j - self.g.layout.first_row(), k]);
        let (mut pivot, mut diagonal) = (shift, shift);
        self.for_each_neighbour(
            entries,
            at,
            |_| true,
            |Neighbour { number, position, t, higher }| {
                diagonal += t;
                let taken = if !higher && block.contains(&number) {
                    let left_out =
                        if omega > T::ZERO { omega * (self.upper_sum(entries, number, block) - t) } else { T::ZERO };
                    // SAFETY: promised by the caller.
                    (t + left_out) * unsafe { out.row(position, 1) }[0]
                } else {
                    T::ZERO
                };
                pivot += t * (T::ONE - taken);
            },
        );
        let value = if pivot > T::from_f64(singular_pivot::<T>()) * diagonal { pivot } else { diagonal };
        let inverse = if value > T::ZERO { T::ONE / value } else { T::ZERO };
        // SAFETY: promised by the caller.
        unsafe { out.set(self.position(at), inverse) };
    }

    /// Returns Σ T over the upper neighbours in the block.
    fn upper_sum(&self, entries: &impl CellCoefficients<T>, number: usize, block: &Block) -> T {
        let mut sum = T::ZERO;
        // Other neighbours of a cell in a halo row may be out of reach.
        self.for_each_neighbour(
            entries,
            self.whole.place(number),
            |higher| higher,
            |Neighbour { number, t, .. }| {
                if block.contains(&number) {
                    sum += t;
                }
            },
        );
        sum
    }

    /// z = M⁻¹ r
    pub(crate) fn substitute(
        &self,
        entries: &impl CellCoefficients<T>,
        inverse_pivots: &Vector<T>,
        r: &Vector<T>,
        z: &mut Vector<T>,
    ) -> Result<()> {
        let z = z.share_mut();
        // Adds Σ T z over the neighbours of higher or lower number within the block.
        let coupled = |at: [usize; 3], block: &Block, wanted: bool, mut sum: T| {
            self.for_each_neighbour(
                entries,
                at,
                |higher| higher == wanted,
                |Neighbour { number, position, t, .. }| {
                    if block.contains(&number) {
                        // SAFETY: the cells of a block belong to one thread, or to tiles that are done, here and below.
                        sum += t * unsafe { z.row(position, 1) }[0];
                    }
                },
            );
            sum
        };
        let forward = |at: [usize; 3], block: &Block| {
            let position = self.position(at);
            let value = coupled(at, block, false, r.at(position)) * inverse_pivots.at(position);
            // SAFETY: as above.
            unsafe { z.set(position, value) };
        };
        let backward = |at: [usize; 3], block: &Block| {
            let position = self.position(at);
            let sum = coupled(at, block, true, T::ZERO);
            // SAFETY: as above.
            unsafe { z.set(position, z.row(position, 1)[0] + sum * inverse_pivots.at(position)) };
        };
        if self.is_part() {
            let mut relay = Relay::new(self.cpu, &self.g.layout, self.crosses());
            let tiles = Tiles::new(self.cpu, &self.g.layout);
            let visit = |at: [usize; 3], f: &dyn Fn([usize; 3], &Block)| {
                let at = self.in_whole(at);
                f(at, &self.block_of(at));
            };
            tiles.upwards(
                self.cpu,
                |_, tile| {
                    for (j, k) in tile.planes.clone().flat_map(|j| tile.layers.clone().map(move |k| (j, k))) {
                        tile.cells_in_x(&self.g.layout).for_each(|i| visit([i, j, k], &forward));
                    }
                },
                // SAFETY: nobody uses it between tiles, here and below.
                |next, done| unsafe { relay.turn(true, z, next, done) },
            )?;
            return tiles.downwards(
                self.cpu,
                |_, tile| {
                    for (j, k) in tile.planes.clone().rev().flat_map(|j| tile.layers.clone().rev().map(move |k| (j, k)))
                    {
                        tile.cells_in_x(&self.g.layout).rev().for_each(|i| visit([i, j, k], &backward));
                    }
                },
                // SAFETY: as above.
                |next, done| unsafe { relay.turn(false, z, next, done) },
            );
        }
        self.for_each(|block| {
            block.clone().for_each(|n| forward(self.whole.place(n), &block));
            block.clone().rev().for_each(|n| backward(self.whole.place(n), &block));
        });
        Ok(())
    }

    fn for_each(&self, f: impl Fn(Block) + Sync) {
        let (cells, block) = (self.whole.cells(), self.block);
        let blocks = cells.div_ceil(block);
        let threads = self.cpu.threads_for(cells).min(blocks);
        self.cpu.for_each(threads, |n| {
            for number in blocks * n / threads..blocks * (n + 1) / threads {
                f(number * block..((number + 1) * block).min(cells));
            }
        });
    }

    /// Returns the block of a cell.
    fn block_of(&self, at: [usize; 3]) -> Block {
        let first = self.whole.number(at) / self.block * self.block;
        first..first + self.block
    }

    /// Returns the indices of a cell of this subdomain in the whole grid.
    fn in_whole(&self, [i, j, k]: [usize; 3]) -> [usize; 3] {
        [i, j + self.g.layout.first_row(), k]
    }

    /// Returns the position of a cell in a vector, also in its halo rows.
    #[inline(always)]
    fn position(&self, [i, j, k]: [usize; 3]) -> isize {
        // Shifts by two rows, which keeps the colours.
        let layout = &self.g.layout;
        let row = (layout.row_here(j) + 2).cast_unsigned();
        layout.index(i, row, k) as isize - (4 * layout.half_plane()) as isize
    }

    /// Visits the neighbours on the `wanted` side: of higher or of lower number.
    #[inline(always)]
    fn for_each_neighbour(
        &self,
        entries: &impl CellCoefficients<T>,
        at: [usize; 3],
        wanted: impl Fn(bool) -> bool,
        mut f: impl FnMut(Neighbour<T>),
    ) {
        let Shape { nx, ny, nz } = self.whole;
        let here = self.position(at);
        for (axis, size) in Axis::ALL.into_iter().zip([nx, ny, nz]) {
            let d = axis as usize;
            for upper in [false, true] {
                let mut other = at;
                let link = match (upper, other[d]) {
                    (true, m) if m + 1 < size => Link::Inner,
                    (false, m) if m > 0 => Link::Inner,
                    _ if self.g.periodic[d] || (axis == Axis::Y && self.g.layout.divides_ring()) => Link::Wrapped,
                    _ => continue,
                };
                let higher = upper == (link == Link::Inner);
                if !wanted(higher) {
                    continue;
                }
                other[d] = if upper { (other[d] + 1) % size } else { (other[d] + size - 1) % size };
                let position = self.position(other);
                let (from, to) = if upper { (here, position) } else { (position, here) };
                f(Neighbour {
                    number: self.whole.number(other),
                    position,
                    t: entries.between(axis, from, to, link, [at[1], at[2]]),
                    higher,
                });
            }
        }
    }
}
