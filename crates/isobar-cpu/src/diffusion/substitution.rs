//! Forward and backward substitution in blocks of consecutive unknowns.

use isobar_core::layout::Shape;
use isobar_core::real::Real;
use isobar_core::stencil::Axis;

use super::Diffusion;
use super::faces::{Coefficients, Faces};
use super::rows::{Geometry, Link};
use crate::shared::Shared;
use crate::vector::Vector;

/// Consecutive unknowns, first and one past the last.
#[derive(Clone, Copy)]
struct Block {
    first: usize,
    beyond: usize,
}

struct Substitution<'a, T, F> {
    g: &'a Geometry<T>,
    faces: &'a F,
    inverse_pivots: &'a [T],
    r: &'a [T],
    z: Shared<T>,
}

impl<T: Real> Diffusion<T> {
    /// z = M⁻¹ r, blocks side by side.
    pub(super) fn substitute_blocks(&self, block: usize, inverse_pivots: &Vector<T>, r: &Vector<T>, z: &mut Vector<T>) {
        let (inverse_pivots, r, z, g) = (inverse_pivots.entries(), r.entries(), z.share_mut(), &self.geometry);
        match &self.coefficients {
            Coefficients::Cells(faces) => self.for_each_block(block, &Substitution { g, faces, inverse_pivots, r, z }),
            Coefficients::Stored(faces) => self.for_each_block(block, &Substitution { g, faces, inverse_pivots, r, z }),
        }
    }

    fn for_each_block<F: Faces<T>>(&self, block: usize, substitution: &Substitution<'_, T, F>) {
        let cells = self.layout().shape().cells();
        let block = block.clamp(1, cells);
        let blocks = cells.div_ceil(block);
        let threads = self.cpu.threads_for(cells).min(blocks);
        self.cpu.for_each(threads, |n| {
            for number in blocks * n / threads..blocks * (n + 1) / threads {
                let block = Block { first: number * block, beyond: ((number + 1) * block).min(cells) };
                substitution.forward(block);
                substitution.backward(block);
            }
        });
    }
}

impl<T: Real, F: Faces<T>> Substitution<'_, T, F> {
    fn forward(&self, block: Block) {
        let Shape { nx, ny, .. } = self.g.layout.shape();
        for n in block.first..block.beyond {
            let (i, j, k) = (n % nx, n / nx % ny, n / nx / ny);
            let at = self.g.layout.index(i, j, k);
            let value = self.coupled([i, j, k], block, false, self.r[at]) * self.inverse_pivots[at];
            // SAFETY: cells of a block are this thread's.
            unsafe { self.z.set(at as isize, value) };
        }
    }

    fn backward(&self, block: Block) {
        let Shape { nx, ny, .. } = self.g.layout.shape();
        for n in (block.first..block.beyond).rev() {
            let (i, j, k) = (n % nx, n / nx % ny, n / nx / ny);
            let at = self.g.layout.index(i, j, k);
            let sum = self.coupled([i, j, k], block, true, T::ZERO);
            // SAFETY: as above.
            unsafe { self.z.set(at as isize, self.z.row(at as isize, 1)[0] + sum * self.inverse_pivots[at]) };
        }
    }

    /// `sum` + Σ T z over the neighbours of higher or lower number within the block.
    fn coupled(&self, [i, j, k]: [usize; 3], block: Block, higher: bool, mut sum: T) -> T {
        let g = self.g;
        let Shape { nx, ny, nz } = g.layout.shape();
        let here = g.layout.index(i, j, k);
        for (axis, size) in Axis::ALL.into_iter().zip([nx, ny, nz]) {
            let d = axis as usize;
            for upper in [false, true] {
                let mut other = [i, j, k];
                let link = match (upper, other[d]) {
                    (true, m) if m + 1 < size => Link::Inner,
                    (false, m) if m > 0 => Link::Inner,
                    _ if g.periodic[d] => Link::Wrapped,
                    _ => continue,
                };
                if (upper == (link == Link::Inner)) != higher {
                    continue;
                }
                other[d] = if upper { (other[d] + 1) % size } else { (other[d] + size - 1) % size };
                let number = other[0] + nx * (other[1] + ny * other[2]);
                if !(block.first..block.beyond).contains(&number) {
                    continue;
                }
                let there = g.layout.index(other[0], other[1], other[2]);
                let (from, to) = if upper { (here, there) } else { (there, here) };
                let t = self.faces.between(axis, from, to, link, j, k);
                // SAFETY: cells of a block are this thread's.
                sum += t * unsafe { self.z.row(there as isize, 1) }[0];
            }
        }
        sum
    }
}
