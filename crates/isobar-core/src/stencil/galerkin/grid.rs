//! The cells of a matrix, and the order of its numbers.

use super::couplings::{UPPER, along};
use crate::stencil::{Axis, Diffusion, Stencil};
use crate::{Real, Shape};

/// A grid, and the order of numbers in its planes.
///
/// A plane holds all cells of one j, row by row in k. Rows have two ghosts at either end, and planes a row of ghosts below
/// and above: zeros, or copies across a periodic side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// The cells.
    pub shape: Shape,
    /// The periodic directions; those with one cell are not.
    pub periodic: [bool; 3],
}

impl Grid {
    /// Returns the grid of a stencil.
    pub fn of(stencil: &Diffusion) -> Self {
        let shape = stencil.shape();
        let extents = [shape.nx, shape.ny, shape.nz];
        let periodic = Axis::ALL.map(|axis| stencil.is_periodic(axis) && extents[axis as usize] > 1);
        Self { shape, periodic }
    }

    /// Returns the stored offsets of a seven-point matrix.
    pub fn seven_points(&self) -> [bool; UPPER] {
        let mut present = [false; UPPER];
        for axis in Axis::ALL {
            present[along(axis)] = self.extents()[axis as usize] > 1;
        }
        present
    }

    /// Returns the numbers of cells in each direction.
    #[inline(always)]
    pub fn extents(&self) -> [usize; 3] {
        [self.shape.nx, self.shape.ny, self.shape.nz]
    }

    /// Returns the entries from a row to the next.
    #[inline(always)]
    pub fn row(&self) -> usize {
        self.shape.nx + 4
    }

    /// Returns the entries of a row with one ghost at either end, as [`Couplings::row`](super::Couplings::row) returns it.
    #[inline(always)]
    pub fn span(&self) -> usize {
        self.shape.nx + 2
    }

    /// Returns the entries of a plane.
    #[inline(always)]
    pub fn plane(&self) -> usize {
        self.row() * (self.shape.nz + 2)
    }

    /// Returns the place of cell (i, k), which may be a ghost, in its plane.
    #[inline(always)]
    pub fn at(&self, i: isize, k: isize) -> usize {
        (i + 2) as usize + self.row() * (k + 1) as usize
    }

    /// Returns the neighbour of plane j in direction dy; none beyond a side.
    #[inline(always)]
    pub fn beside(&self, j: usize, dy: isize) -> Option<usize> {
        let (ny, to) = (self.shape.ny as isize, j as isize + dy);
        match to {
            _ if (0..ny).contains(&to) => Some(to as usize),
            _ if self.periodic[1] => Some(to.rem_euclid(ny) as usize),
            _ => None,
        }
    }

    /// Sets a plane's ghosts to zero.
    pub fn clear_ghosts<N: Real>(&self, plane: &mut [N]) {
        let (row, nx, last) = (self.row(), self.shape.nx, self.shape.nz + 1);
        for row in plane.chunks_exact_mut(row) {
            [row[0], row[1]] = [N::ZERO; 2];
            row[nx + 2..].fill(N::ZERO);
        }
        plane[..row].fill(N::ZERO);
        plane[last * row..].fill(N::ZERO);
    }

    /// Copies the cells across periodic sides into a plane's ghosts.
    pub fn fill_ghosts<N: Copy>(&self, plane: &mut [N]) {
        let Shape { nx, nz, .. } = self.shape;
        if self.periodic[0] {
            for row in plane.chunks_exact_mut(self.row()) {
                for ghost in 0..2 {
                    row[ghost] = row[2 + (ghost + 2 * nx - 2) % nx];
                    row[nx + 2 + ghost] = row[2 + ghost % nx];
                }
            }
        }
        if self.periodic[2] {
            let row = self.row();
            plane.copy_within(nz * row..(nz + 1) * row, 0);
            plane.copy_within(row..2 * row, (nz + 1) * row);
        }
    }
}
