//! The active cells of a diffusion matrix as the unknowns of a sparse one.

use super::{Axis, Coefficients, Diffusion, Stencil};
use crate::algebraic::Couplings;
use crate::execute::{Host, for_each_row, rows};

/// A matrix of the active cells alone.
pub struct Unknowns {
    /// The cell of each unknown, in C order, ascending.
    pub(crate) cells: Vec<u32>,
    /// The matrix times `factor`.
    pub(crate) matrix: Couplings,
    /// A power of two that brings couplings to at most 1.
    pub(crate) factor: f64,
}

/// The number of a cell that is not active.
const NONE: u32 = u32::MAX;

impl Diffusion {
    /// Returns the matrix of active cells; nothing for negative row sums, for coefficients on a GPU, and for 2³² cells and more.
    pub(super) fn of_active_cells(&self) -> Option<Unknowns> {
        let shape = Stencil::shape(self);
        let is_small = u32::try_from(shape.cells()).is_ok_and(|cells| cells < NONE);
        if !is_small || !self.is_definite() || self.require_host().is_err() {
            return None;
        }
        let largest = match self.coefficients() {
            Coefficients::Faces(_) => self.spreads.first().map_or(0.0, |spread| spread.most),
            _ => self.largest_row(),
        };
        let factor = if largest > 0.0 { (-largest.log2().ceil()).exp2() } else { 1.0 };
        let (numbers, cells) = self.numbered();
        let matrix = Couplings::of_rows(&Host, cells.len(), |k, row| {
            let at = shape.place(cells[k] as usize);
            let neighbours = self.neighbours(at).filter(|(_, t)| *t > 0.0);
            row.couplings.extend(neighbours.map(|(to, t)| (numbers[self.cell(to)], factor * t)));
            row.sum = factor * self.shift(at);
        });
        Some(Unknowns { cells, matrix, factor })
    }

    /// Returns the mean number of neighbours that active cells are coupled to, in some of the rows.
    pub(super) fn mean_neighbours(&self) -> f64 {
        /// The cells to look at.
        const SAMPLED: usize = 1 << 18;
        let nx = Stencil::shape(self).nx;
        let all = Stencil::shape(self).cells() / nx;
        let step = (nx * all).div_ceil(SAMPLED);
        let counts: Vec<[usize; 2]> = rows(&Host, all.div_ceil(step), 1, |n, counts: &mut [[usize; 2]]| {
            let (mut is_active, mut open) = (vec![false; nx], vec![0; nx]);
            self.find_active(n * step, &mut is_active);
            let faces = Axis::ALL.map(|axis| {
                self.open_faces(axis, n * step, &mut open);
                open.iter().map(|&open| usize::from(open)).sum::<usize>()
            });
            counts[0] = [is_active.into_iter().filter(|&is_active| is_active).count(), faces.into_iter().sum()];
        });
        let [cells, faces] = counts.into_iter().fold([0, 0], |[a, b], [c, d]| [a + c, b + d]);
        2.0 * faces as f64 / cells.max(1) as f64
    }

    /// Numbers active cells in C order. Returns the number of each cell, or [`NONE`], and the cells in order.
    fn numbered(&self) -> (Vec<u32>, Vec<u32>) {
        let shape = Stencil::shape(self);
        let (nx, count) = (shape.nx, shape.cells());
        let is_active: Vec<bool> = rows(&Host, count, nx, |row, is_active| self.find_active(row, is_active));
        let mut firsts = vec![0u32; count / nx];
        for_each_row(&Host, &mut firsts, 1, |row, first| {
            first[0] = is_active[row * nx..][..nx].iter().map(|&is_active| u32::from(is_active)).sum();
        });
        let mut all = 0;
        for first in &mut firsts {
            (*first, all) = (all, all + *first);
        }
        let numbers = rows(&Host, count, nx, |row, numbers: &mut [u32]| {
            let mut next = firsts[row];
            for (number, &is_active) in numbers.iter_mut().zip(&is_active[row * nx..]) {
                *number = if is_active { next } else { NONE };
                next += u32::from(is_active);
            }
        });
        let mut cells = Vec::with_capacity(all as usize);
        cells.extend((0..).zip(&is_active).filter(|(_, is_active)| **is_active).map(|(cell, _)| cell));
        (numbers, cells)
    }
}
