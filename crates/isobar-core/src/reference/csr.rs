//! Stored matrices, row by row.

use super::{Reference, Vector};
use crate::error::{Error, Result};
use crate::layout::{Layout, Shape};
use crate::operator::{LineSolver, OnBackend, Operator};
use crate::real::Real;
use crate::stencil::Csr;

/// A [`Csr`] matrix on the reference back end.
#[derive(Clone, Debug)]
pub struct StoredMatrix<T> {
    layout: Layout,
    row_starts: Vec<usize>,
    /// Positions in the layout.
    columns: Vec<u32>,
    values: Vec<T>,
    diagonal: Vec<T>,
}

/// The vertical tridiagonal blocks of a matrix, stored as three vectors in the layout (as paper A
/// hands them to the tridiagonal solver of a library).
#[derive(Clone, Debug)]
pub struct StoredTridiagonal<T> {
    below: Vector<T>,
    diagonal: Vector<T>,
    above: Vector<T>,
}

/// Grid point (i, j, k) of row i + nx (k + nz j).
pub fn grid_point(row: usize, shape: Shape) -> (usize, usize, usize) {
    let Shape { nx, nz, .. } = shape;
    (row % nx, row / nx / nz, row / nx % nz)
}

/// Fails where a matrix does not act on vectors of a layout.
///
/// # Errors
/// [`Error::Shape`]
pub fn check_matrix(matrix: &Csr, layout: &Layout) -> Result<()> {
    let cells = layout.shape().cells();
    if matrix.rows() != cells || matrix.columns() != cells {
        return Err(Error::shape(
            "matrix",
            format!("{}×{}", matrix.rows(), matrix.columns()),
            format!("{cells}×{cells}, the cells of {}", layout.shape()),
        ));
    }
    if u32::try_from(layout.len()).is_err() {
        return Err(Error::Unsupported(format!(
            "a stored matrix of {cells} rows: at most 2³² − 1 are supported; the matrix-free operator has no such limit"
        )));
    }
    Ok(())
}

impl<T: Real> StoredMatrix<T> {
    /// Renumbers the columns to positions in the layout.
    ///
    /// # Errors
    /// Those of [`check_matrix`].
    pub fn new(matrix: &Csr, layout: &Layout) -> Result<Self> {
        check_matrix(matrix, layout)?;
        let position = |row| {
            let (i, j, k) = grid_point(row, layout.shape());
            layout.index(i, j, k)
        };
        Ok(Self {
            layout: *layout,
            row_starts: matrix.row_starts().to_vec(),
            columns: matrix.column_indices().iter().map(|&c| position(c as usize) as u32).collect(),
            values: matrix.values().iter().map(|&v| T::from_f64(v)).collect(),
            diagonal: (0..matrix.rows())
                .map(|row| T::from_f64(matrix.row(row).find(|&(c, _)| c == row).map_or(0.0, |(_, v)| v)))
                .collect(),
        })
    }

    fn row_of(&self, i: usize, j: usize, k: usize) -> usize {
        let Shape { nx, nz, .. } = self.layout.shape();
        i + nx * (k + nz * j)
    }
}

impl<T> OnBackend<Reference> for StoredMatrix<T> {
    fn backend(&self) -> &Reference {
        &Reference
    }
}

impl<T: Real> Operator<Reference, T> for StoredMatrix<T> {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn apply(&self, x: &Vector<T>, y: &mut Vector<T>) -> Result<()> {
        let entries = x.entries();
        y.fill_with(|i, j, k| {
            let row = self.row_of(i, j, k);
            let range = self.row_starts[row]..self.row_starts[row + 1];
            self.columns[range.clone()].iter().zip(&self.values[range]).map(|(&c, &v)| v * entries[c as usize]).sum()
        });
        Ok(())
    }

    fn divide_by_diagonal(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        z.fill_with(|i, j, k| r.get(i, j, k) / self.diagonal[self.row_of(i, j, k)]);
        Ok(())
    }
}

impl<T: Real> StoredTridiagonal<T> {
    /// Extracts the blocks.
    ///
    /// # Errors
    /// Those of [`check_matrix`] and of [`Vector::zeros`].
    pub fn new(matrix: &Csr, layout: &Layout) -> Result<Self> {
        check_matrix(matrix, layout)?;
        let zeros = || Vector::<T>::zeros(layout);
        let (mut below, mut diagonal, mut above) = (zeros()?, zeros()?, zeros()?);
        let nx = layout.shape().nx;
        for row in 0..matrix.rows() {
            let (i, j, k) = grid_point(row, layout.shape());
            for (column, value) in matrix.row(row) {
                let value = T::from_f64(value);
                if column == row {
                    diagonal.set(i, j, k, value);
                } else if column + nx == row && k > 0 {
                    below.set(i, j, k, value);
                } else if column == row + nx && k + 1 < layout.shape().nz {
                    above.set(i, j, k, value);
                }
            }
        }
        Ok(Self { below, diagonal, above })
    }

    /// The sub-diagonal, diagonal and super-diagonal.
    pub fn bands(&self) -> [&Vector<T>; 3] {
        [&self.below, &self.diagonal, &self.above]
    }
}

impl<T> OnBackend<Reference> for StoredTridiagonal<T> {
    fn backend(&self) -> &Reference {
        &Reference
    }
}

impl<T: Real> LineSolver<Reference, T> for StoredTridiagonal<T> {
    fn solve_lines(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let Shape { nx, ny, nz } = self.diagonal.layout().shape();
        let mut factors = vec![T::ZERO; nz];
        for j in 0..ny {
            for i in 0..nx {
                // The Thomas algorithm.
                let (mut factor, mut y) = (T::ZERO, T::ZERO);
                for (k, stored) in factors.iter_mut().enumerate() {
                    let below = self.below.get(i, j, k);
                    let pivot = self.diagonal.get(i, j, k) - below * factor;
                    y = (r.get(i, j, k) - below * y) / pivot;
                    factor = self.above.get(i, j, k) / pivot;
                    *stored = factor;
                    z.set(i, j, k, y);
                }
                for k in (0..nz - 1).rev() {
                    z.set(i, j, k, z.get(i, j, k) - factors[k] * z.get(i, j, k + 1));
                }
            }
        }
        Ok(())
    }
}
