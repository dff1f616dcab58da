//! Stored matrices, row by row.

use std::sync::{Arc, RwLock, RwLockReadGuard};

use super::{Reference, Vector};
use crate::operator::{Capabilities, Diagonal, LineSolver, Operator};
use crate::stencil::{Lines, Stencil, StoredMatrix, Supports};
use crate::{Error, Layout, Real, Result, Shape, read, write};

/// A [`StoredMatrix`] on the reference back end.
#[derive(Debug)]
pub struct PlainMatrix<T> {
    layout: Layout,
    entries: RwLock<Entries<T>>,
}

#[derive(Debug)]
struct Entries<T> {
    row_starts: Vec<usize>,
    /// Positions in the layout.
    columns: Vec<u32>,
    values: Vec<T>,
    diagonal: Vec<T>,
}

/// The vertical tridiagonal blocks of a matrix, as three vectors in the layout (as paper A passes them to the
/// tridiagonal solver of a library).
#[derive(Clone, Debug)]
pub struct Bands<T> {
    /// The entries below the diagonal.
    pub below: Vector<T>,
    /// The diagonal.
    pub diagonal: Vector<T>,
    /// The entries above the diagonal.
    pub above: Vector<T>,
}

/// Fails if a vector has more entries than the indices of a stored matrix support.
///
/// # Errors
/// [`Error::Unsupported`]
pub fn check_indices(layout: &Layout) -> Result<()> {
    if u32::try_from(layout.len()).is_err() {
        return Err(Error::Unsupported(format!(
            "a stored matrix of {} rows: at most 2³² − 1 are supported; the matrix-free operator has no such limit",
            layout.shape().cells()
        )));
    }
    Ok(())
}

impl<T: Real> Entries<T> {
    fn new(stencil: &StoredMatrix, layout: &Layout) -> Self {
        let matrix = stencil.matrix();
        let position = |row| {
            let (i, j, k) = stencil.grid_point(row);
            layout.index(i, j, k)
        };
        Self {
            row_starts: matrix.row_starts().to_vec(),
            columns: matrix.column_indices().iter().map(|&c| position(c as usize) as u32).collect(),
            values: matrix.values().iter().map(|&v| T::from_f64(v)).collect(),
            diagonal: (0..matrix.rows())
                .map(|row| T::from_f64(matrix.row(row).find(|&(c, _)| c == row).map_or(0.0, |(_, v)| v)))
                .collect(),
        }
    }
}

impl<T: Real> PlainMatrix<T> {
    /// Renumbers the columns to positions in the layout.
    fn new(stencil: &StoredMatrix) -> Result<Self> {
        let layout = Layout::new(stencil.shape())?;
        check_indices(&layout)?;
        Ok(Self { entries: RwLock::new(Entries::new(stencil, &layout)), layout })
    }

    fn entries(&self) -> RwLockReadGuard<'_, Entries<T>> {
        read(&self.entries)
    }

    fn row_of(&self, i: usize, j: usize, k: usize) -> usize {
        let Shape { nx, nz, .. } = self.layout.shape();
        i + nx * (k + nz * j)
    }
}

impl<T: Real> Operator<Reference, T> for PlainMatrix<T> {
    fn backend(&self) -> &Reference {
        &Reference
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn apply(&self, x: &mut Vector<T>, y: &mut Vector<T>) -> Result<()> {
        let (x, a) = (x.entries(), self.entries());
        y.fill_with(|i, j, k| {
            let row = self.row_of(i, j, k);
            let range = a.row_starts[row]..a.row_starts[row + 1];
            a.columns[range.clone()].iter().zip(&a.values[range]).map(|(&c, &v)| v * x[c as usize]).sum()
        });
        Ok(())
    }
}

impl<T: Real> Diagonal<Reference, T> for PlainMatrix<T> {
    fn divide_by_diagonal(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let a = self.entries();
        z.fill_with(|i, j, k| match a.diagonal[self.row_of(i, j, k)] {
            d if d == T::ZERO => T::ZERO,
            d => r.get(i, j, k) / d,
        });
        Ok(())
    }
}

impl<T: Real> Bands<T> {
    /// Extracts the blocks.
    pub fn new(stencil: &StoredMatrix, layout: &Layout) -> Result<Self> {
        let zeros = || Vector::<T>::zeros(layout);
        let (mut below, mut diagonal, mut above) = (zeros()?, zeros()?, zeros()?);
        let (nx, matrix) = (layout.shape().nx, stencil.matrix());
        for row in 0..matrix.rows() {
            let (i, j, k) = stencil.grid_point(row);
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
}

/// [`Bands`] solved by the Thomas algorithm.
#[derive(Debug)]
struct PlainBands<T>(RwLock<Bands<T>>);

impl<T: Real> LineSolver<Reference, T> for PlainBands<T> {
    fn backend(&self) -> &Reference {
        &Reference
    }

    fn solve_lines(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let bands = read(&self.0);
        let Shape { nx, ny, nz } = r.layout().shape();
        let mut factors = vec![T::ZERO; nz];
        for j in 0..ny {
            for i in 0..nx {
                let (mut factor, mut y) = (T::ZERO, T::ZERO);
                for (k, stored) in factors.iter_mut().enumerate() {
                    let below = bands.below.get(i, j, k);
                    let pivot = bands.diagonal.get(i, j, k) - below * factor;
                    y = (r.get(i, j, k) - below * y) / pivot;
                    factor = bands.above.get(i, j, k) / pivot;
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

impl Supports<StoredMatrix> for Reference {
    type Operator<T: Real> = PlainMatrix<T>;

    fn operator<T: Real>(&self, stencil: &StoredMatrix) -> Result<Arc<PlainMatrix<T>>> {
        Ok(Arc::new(PlainMatrix::new(stencil)?))
    }

    fn update<T: Real>(&self, operator: &PlainMatrix<T>, stencil: &StoredMatrix) -> Result<bool> {
        let entries = Entries::new(stencil, &operator.layout);
        *write(&operator.entries) = entries;
        Ok(true)
    }

    fn capabilities<T: Real>(&self, operator: &Arc<PlainMatrix<T>>) -> Capabilities<Self, T> {
        Capabilities::of_rows(operator)
    }

    fn lines<T: Real>(
        &self,
        stencil: &StoredMatrix,
        operator: &Arc<PlainMatrix<T>>,
    ) -> Result<Option<Lines<Self, StoredMatrix, T>>> {
        let layout = operator.layout;
        let bands = Arc::new(PlainBands(RwLock::new(Bands::<T>::new(stencil, &layout)?)));
        let solver = Arc::clone(&bands) as Arc<dyn LineSolver<Self, T>>;
        let update = move |stencil: &StoredMatrix| {
            *write(&bands.0) = Bands::new(stencil, &layout)?;
            Ok(())
        };
        Ok(Some(Lines { solver, update: Some(Box::new(update)) }))
    }
}
