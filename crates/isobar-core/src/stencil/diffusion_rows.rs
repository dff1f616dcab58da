//! The rows of diffusion's matrix, cell by cell.

use std::ops::Range;

use super::diffusion::{Coefficients, Diffusion, Side};
use crate::execute::{Host, rows};
use crate::layout::Axis;
use crate::layout::Shape;
use crate::real::harmonic;

impl Diffusion {
    /// Returns the position of a cell in arrays of shape (nz, ny, nx).
    #[inline(always)]
    pub fn cell(&self, [i, j, k]: [usize; 3]) -> usize {
        i + self.shape.nx * (j + self.shape.ny * k)
    }

    /// Returns the upper neighbour of a cell in a direction; in a periodic one, that of the last cell is the first.
    #[inline(always)]
    pub fn upper(&self, axis: Axis, mut at: [usize; 3]) -> Option<[usize; 3]> {
        let (d, n) = (axis as usize, self.shape.extents()[axis as usize]);
        at[d] += 1;
        if at[d] == n {
            at[d] = 0;
            return (self.is_periodic(axis) && n > 1).then_some(at);
        }
        Some(at)
    }

    /// Returns the lower neighbour of a cell in a direction; in a periodic one, that of the first cell is the last.
    #[inline(always)]
    pub fn lower(&self, axis: Axis, mut at: [usize; 3]) -> Option<[usize; 3]> {
        let (d, n) = (axis as usize, self.shape.extents()[axis as usize]);
        if at[d] == 0 {
            at[d] = n - 1;
            return (self.is_periodic(axis) && n > 1).then_some(at);
        }
        at[d] -= 1;
        Some(at)
    }

    /// Returns h, the transmissibility from a cell's centre to its face; 0 where only faces are stored, NaN on a GPU, unless
    /// [`Diffusion::has_rows`].
    #[inline(always)]
    pub fn half(&self, axis: Axis, at: [usize; 3]) -> f64 {
        match &self.coefficients {
            Coefficients::Cells { fields, axes } => {
                let (field, factor) = axes[axis as usize];
                factor * fields[field][self.cell(at)]
            }
            Coefficients::DeviceCells { axes, .. } if self.has_rows() => {
                let (field, factor) = axes[axis as usize];
                factor * self.known.0.as_ref().map_or_else(|| self.spreads()[field].least, |known| known(self.cell(at)))
            }
            Coefficients::DeviceCells { .. } => f64::NAN,
            Coefficients::Faces(_) | Coefficients::DeviceFaces { .. } => 0.0,
        }
    }

    /// Returns T of the face between a cell and its upper neighbour; NaN for faces on a GPU.
    #[inline(always)]
    pub fn face(&self, axis: Axis, at: [usize; 3]) -> f64 {
        let Some(upper) = self.upper(axis, at) else { return 0.0 };
        match &self.coefficients {
            Coefficients::Cells { .. } | Coefficients::DeviceCells { .. } => {
                harmonic(self.half(axis, at), self.half(axis, upper))
            }
            Coefficients::Faces(faces) => faces[axis as usize][self.cell(at)],
            Coefficients::DeviceFaces { .. } => f64::NAN,
        }
    }

    /// Returns s, Dirichlet sides included.
    #[inline(always)]
    pub fn shift(&self, at: [usize; 3]) -> f64 {
        let mut sum = self.own_shift(at);
        for axis in Axis::ALL {
            let (d, [lower, upper]) = (axis as usize, self.sides[axis as usize]);
            if lower == Side::Fixed && at[d] == 0 {
                sum += self.half(axis, at);
            }
            if upper == Side::Fixed && at[d] + 1 == self.shape.extents()[d] {
                sum += self.half(axis, at);
            }
        }
        sum
    }

    /// Returns the neighbours of a cell and the transmissibilities of the open faces between them.
    pub fn neighbours(&self, at: [usize; 3]) -> impl Iterator<Item = ([usize; 3], f64)> + '_ {
        let faces = Axis::ALL.into_iter().flat_map(move |axis| {
            let below = self.lower(axis, at).map(|lower| (lower, self.face(axis, lower)));
            let above = self.upper(axis, at).map(|upper| (upper, self.face(axis, at)));
            [below, above]
        });
        faces.flatten().filter(|&(_, t)| t > 0.0)
    }

    /// Returns the diagonal entry of a cell's row.
    pub fn diagonal(&self, at: [usize; 3]) -> f64 {
        self.shift(at) + self.neighbours(at).map(|(_, t)| t).sum::<f64>()
    }

    /// Computes A x, arrays in C order.
    pub fn times(&self, x: &[f64]) -> Vec<f64> {
        self.times_in(&(0..self.shape.ny), |n| x[n])
    }

    /// Computes A x in some rows of the grid, (nz, rows, nx), with x cell by cell.
    pub(crate) fn times_in(&self, own: &Range<usize>, x: impl Fn(usize) -> f64 + Sync) -> Vec<f64> {
        let Shape { nx, nz, .. } = self.shape;
        rows(&Host, nx * own.len() * nz, nx, |row, values| {
            let (j, k) = (own.start + row % own.len(), row / own.len());
            for (i, value) in values.iter_mut().enumerate() {
                let at = [i, j, k];
                let here = x(self.cell(at));
                *value = self
                    .neighbours(at)
                    .fold(self.shift(at) * here, |sum, (other, t)| sum + t * (here - x(self.cell(other))));
            }
        })
    }

    /// Returns all cells, in the order of arrays.
    pub fn cells(&self) -> impl Iterator<Item = [usize; 3]> + use<> {
        self.shape.places()
    }

    /// Returns whether a cell is active: its row is not zero.
    pub fn is_active(&self, at: [usize; 3]) -> bool {
        match &self.coefficients {
            Coefficients::Cells { .. } | Coefficients::DeviceCells { .. } => {
                Axis::ALL.iter().any(|&axis| self.half(axis, at) > 0.0) || self.shift(at) != 0.0
            }
            // The diagonal may be negative, or 0, where the shift is negative.
            Coefficients::Faces(_) | Coefficients::DeviceFaces { .. } => {
                self.shift(at) != 0.0 || self.neighbours(at).next().is_some()
            }
        }
    }
}
