//! Incomplete factorisation, cell by cell, over the whole grid or in blocks of consecutive unknowns, and substitution in
//! such blocks; [`super::wavefronts`] has that over the whole grid.

use isobar_core::layout::Shape;
use isobar_core::operator::triangular::singular_pivot;
use isobar_core::real::Real;
use isobar_core::stencil::Axis;

use crate::cpu::Cpu;
use crate::diffusion::CellCoefficients;
use crate::geometry::{Geometry, Link};
use crate::seven_point::wavefronts::Tiles;
use crate::shared::Shared;
use crate::vector::Vector;

/// Blocks of so many unknowns of a grid, in the order x, y, z.
pub(crate) struct Blocks<'a, T> {
    pub(crate) cpu: &'a Cpu,
    pub(crate) g: Geometry<'a, T>,
    pub(crate) block: usize,
}

/// Consecutive unknowns.
type Block = std::ops::Range<usize>;

/// A neighbour of a cell.
struct Neighbour<T> {
    /// Number, and position in a vector.
    number: usize,
    position: usize,
    /// −a_nm
    t: T,
    /// Whether it has the higher number.
    higher: bool,
}

impl<T: Real> Blocks<'_, T> {
    /// 1 over the pivots, see [`Triangular::factorise`](isobar_core::operator::Triangular::factorise).
    pub(crate) fn factorise(&self, entries: &impl CellCoefficients<T>, omega: T, inverse_pivots: &mut Vector<T>) {
        let out = Shared::of(inverse_pivots.entries_mut());
        let cells = self.g.layout.shape().cells();
        if self.block >= cells {
            return Tiles::new(self.cpu, &self.g.layout).upwards(self.cpu, |_, tile| {
                for j in tile.planes.clone() {
                    for k in tile.layers.clone() {
                        for i in tile.cells_in_x(&self.g.layout) {
                            // SAFETY: a tile is one thread's, and those that it depends on are done.
                            unsafe { self.eliminate(entries, omega, [i, j, k], &(0..cells), out) };
                        }
                    }
                }
            });
        }
        self.for_each(|block| {
            for n in block.clone() {
                // SAFETY: cells of a block are this thread's.
                unsafe { self.eliminate(entries, omega, self.cell(n), &block, out) };
            }
        });
    }

    /// Sets 1 over the pivot of a cell.
    ///
    /// # Safety
    /// Those of its lower neighbours in the block are set, and nobody else writes them or this one.
    #[inline(always)]
    unsafe fn eliminate(
        &self,
        entries: &impl CellCoefficients<T>,
        omega: T,
        at: [usize; 3],
        block: &Block,
        out: Shared<T>,
    ) {
        let shift = entries.shift(&self.g.layout, at);
        let (mut pivot, mut diagonal) = (shift, shift);
        self.for_each_neighbour(entries, at, |Neighbour { number, position, t, higher }| {
            diagonal += t;
            let taken = if !higher && block.contains(&number) {
                let left_out =
                    if omega > T::ZERO { omega * (self.upper_sum(entries, number, block) - t) } else { T::ZERO };
                // SAFETY: promised by the caller.
                (t + left_out) * unsafe { out.row(position as isize, 1) }[0]
            } else {
                T::ZERO
            };
            pivot += t * (T::ONE - taken);
        });
        let value = if pivot > T::from_f64(singular_pivot::<T>()) * diagonal { pivot } else { diagonal };
        let inverse = if value > T::ZERO { T::ONE / value } else { T::ZERO };
        // SAFETY: promised by the caller.
        unsafe { out.set(self.position(at) as isize, inverse) };
    }

    /// Σ T over the upper neighbours in the block.
    fn upper_sum(&self, entries: &impl CellCoefficients<T>, number: usize, block: &Block) -> T {
        let mut sum = T::ZERO;
        self.for_each_neighbour(entries, self.cell(number), |Neighbour { number, t, higher, .. }| {
            if higher && block.contains(&number) {
                sum += t;
            }
        });
        sum
    }

    /// z = M⁻¹ r, blocks side by side.
    pub(crate) fn substitute(
        &self,
        entries: &impl CellCoefficients<T>,
        inverse_pivots: &Vector<T>,
        r: &Vector<T>,
        z: &mut Vector<T>,
    ) {
        let (inverse_pivots, r, z) = (inverse_pivots.entries(), r.entries(), Shared::of(z.entries_mut()));
        self.for_each(|block| {
            // Σ T z over the neighbours of higher or lower number within the block.
            let coupled = |at: [usize; 3], wanted: bool, mut sum: T| {
                self.for_each_neighbour(entries, at, |Neighbour { number, position, t, higher }| {
                    if higher == wanted && block.contains(&number) {
                        // SAFETY: cells of a block are this thread's, here and below.
                        sum += t * unsafe { z.row(position as isize, 1) }[0];
                    }
                });
                sum
            };
            for n in block.clone() {
                let at = self.cell(n);
                let position = self.position(at);
                let value = coupled(at, false, r[position]) * inverse_pivots[position];
                // SAFETY: as above.
                unsafe { z.set(position as isize, value) };
            }
            for n in block.clone().rev() {
                let at = self.cell(n);
                let position = self.position(at);
                let sum = coupled(at, true, T::ZERO);
                // SAFETY: as above.
                unsafe { z.set(position as isize, z.row(position as isize, 1)[0] + sum * inverse_pivots[position]) };
            }
        });
    }

    fn for_each(&self, f: impl Fn(Block) + Sync) {
        let cells = self.g.layout.shape().cells();
        let block = self.block.clamp(1, cells);
        let blocks = cells.div_ceil(block);
        let threads = self.cpu.threads_for(cells).min(blocks);
        self.cpu.for_each(threads, |n| {
            for number in blocks * n / threads..blocks * (n + 1) / threads {
                f(number * block..((number + 1) * block).min(cells));
            }
        });
    }

    #[inline(always)]
    fn cell(&self, n: usize) -> [usize; 3] {
        let Shape { nx, ny, .. } = self.g.layout.shape();
        [n % nx, n / nx % ny, n / nx / ny]
    }

    #[inline(always)]
    fn position(&self, [i, j, k]: [usize; 3]) -> usize {
        self.g.layout.index(i, j, k)
    }

    #[inline(always)]
    fn for_each_neighbour(&self, entries: &impl CellCoefficients<T>, at: [usize; 3], mut f: impl FnMut(Neighbour<T>)) {
        let Shape { nx, ny, nz } = self.g.layout.shape();
        let here = self.position(at);
        for (axis, size) in Axis::ALL.into_iter().zip([nx, ny, nz]) {
            let d = axis as usize;
            for upper in [false, true] {
                let mut other = at;
                let link = match (upper, other[d]) {
                    (true, m) if m + 1 < size => Link::Inner,
                    (false, m) if m > 0 => Link::Inner,
                    _ if self.g.periodic[d] => Link::Wrapped,
                    _ => continue,
                };
                other[d] = if upper { (other[d] + 1) % size } else { (other[d] + size - 1) % size };
                let position = self.position(other);
                let (from, to) = if upper { (here, position) } else { (position, here) };
                f(Neighbour {
                    number: other[0] + nx * (other[1] + ny * other[2]),
                    position,
                    t: entries.between(axis, from, to, link, [at[1], at[2]]),
                    higher: upper == (link == Link::Inner),
                });
            }
        }
    }
}
