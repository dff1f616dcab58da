//! A stencil for any matrix.

use std::sync::Arc;

use super::{Csr, Stencil};
use crate::options::SolverOptions;
use crate::policy::Choice;
use crate::{Error, Result, Shape};

/// A matrix with every entry stored, acting on the cells of a grid: unknown (i, j, k) is row i + nx (k + nz j) (paper B,
/// equation 13).
#[derive(Clone, Debug, PartialEq)]
pub struct StoredMatrix {
    matrix: Arc<Csr>,
    shape: Shape,
    is_symmetric: bool,
}

impl StoredMatrix {
    /// Takes a matrix.
    ///
    /// # Errors
    /// [`Error::Shape`] if it has another number of rows or columns than the grid has cells.
    pub fn new(matrix: Csr, shape: Shape) -> Result<Self> {
        let cells = shape.cells();
        if matrix.rows() != cells || matrix.columns() != cells {
            return Err(Error::shape(
                "matrix",
                format!("{}×{}", matrix.rows(), matrix.columns()),
                format!("{cells}×{cells}, the cells of {shape}"),
            ));
        }
        let is_symmetric = matrix.is_symmetric();
        Ok(Self { matrix: Arc::new(matrix), shape, is_symmetric })
    }

    /// Returns the entries.
    pub fn matrix(&self) -> &Csr {
        &self.matrix
    }

    /// Returns the grid point (i, j, k) of a row.
    pub fn grid_point(&self, row: usize) -> (usize, usize, usize) {
        let Shape { nx, nz, .. } = self.shape;
        (row % nx, row / nx / nz, row / nx % nz)
    }
}

impl Stencil for StoredMatrix {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn is_symmetric(&self) -> bool {
        self.is_symmetric
    }

    fn choice(&self, _: &SolverOptions) -> Choice {
        Choice::of_rows(self.is_symmetric, true)
    }

    fn check_update(&self, new: &Self) -> Result<()> {
        Error::unless_equal("the new matrix", new.shape, self.shape)?;
        let (here, there) = (&self.matrix, &new.matrix);
        if here.row_starts() != there.row_starts() || here.column_indices() != there.column_indices() {
            return Err(Error::invalid(
                "matrix",
                "its entries are in other places; make a new solver for another pattern",
            ));
        }
        Ok(())
    }
}
