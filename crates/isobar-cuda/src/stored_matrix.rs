//! Stored matrices on CUDA, by cuSPARSE: the comparison of paper A.
//!
//! The matrix is renumbered to the checkerboard, so that vectors need no copy for a product. The tridiagonal
//! solve wants the columns of the whole grid interleaved and overwrites its matrix: copies of the right-hand
//! side, of three diagonals and of the solution are what the library costs.

use std::sync::Arc;

use isobar_core::backend::CsrBackend;
use isobar_core::error::{Error, Result};
use isobar_core::layout::{Layout, Shape};
use isobar_core::operator::{LineSolver, OnBackend, Operator};
use isobar_core::real::Real;
use isobar_core::reference;
use isobar_core::stencil::Csr;

use crate::compile::Source;
use crate::cuda::{Cuda, check_size};
use crate::cusparse::{CompressedRows, Cusparse, MatrixProduct, TridiagonalSolve};
use crate::kernels;
use crate::launch::{Arguments, Call, Kernel, Launch};
use crate::memory::{Buffer, require};
use crate::vector::{Vector, c_name};

/// The kernels, in one precision.
pub fn source<T: Real>() -> Source {
    Source::new("stored_matrix", kernels::STORED_MATRIX).define("REAL", c_name::<T>())
}

/// Fails where 32-bit indices, which are what cuSPARSE is given, do not reach.
fn check_indices(rows: usize, entries: usize) -> Result<()> {
    let most = i32::MAX as usize;
    if rows.max(entries) > most {
        return Err(Error::Unsupported(format!(
            "a stored matrix of {rows} rows, padding included, and {entries} entries on CUDA: cuSPARSE is given 32-bit \
             indices, for {most} of either at most; use a smaller grid, or the matrix-free operator, which has no such \
             limit"
        )));
    }
    Ok(())
}

/// What must hold before anything is allocated.
fn check(cuda: &Cuda, matrix: &Csr, layout: &Layout, bytes: usize) -> Result<()> {
    Cusparse::get()?;
    reference::check_matrix(matrix, layout)?;
    check_size(layout.shape())?;
    let what = format!("a stored matrix of {} rows and {} entries", matrix.rows(), matrix.entries());
    require(cuda.context(), bytes, &what).map(|_| ())
}

/// A [`Csr`] matrix in compressed rows on the card, in the order of the layout; rows of padding are empty.
#[derive(Debug)]
pub struct StoredMatrix<T: Real> {
    cuda: Cuda,
    layout: Layout,
    product: Arc<MatrixProduct<T>>,
    /// 1 over the diagonal, 0 in padding.
    inverse_diagonal: Buffer,
    multiply: Kernel,
}

impl<T: Real> StoredMatrix<T> {
    fn new(cuda: &Cuda, matrix: &Csr, layout: &Layout) -> Result<Self> {
        let (rows, entries) = (layout.len(), matrix.entries());
        check_indices(rows, entries)?;
        let bytes = size_of::<i32>() * (rows + 1 + entries) + size_of::<T>() * (entries + rows);
        check(cuda, matrix, layout, bytes)?;
        let Shape { nx, nz, .. } = layout.shape();
        let mut inverse_diagonal = vec![T::ZERO; rows];
        let ordered = Csr::from_rows(rows, |place, entries| {
            let Some((i, j, k)) = layout.grid_point(place) else { return };
            let row = i + nx * (k + nz * j);
            for (column, value) in matrix.row(row) {
                if column == row {
                    inverse_diagonal[place] = T::from_f64(1.0 / value);
                }
                let (i, j, k) = reference::grid_point(column, layout.shape());
                entries.push((layout.index(i, j, k), value));
            }
        })?;
        let row_starts: Vec<i32> = ordered.row_starts().iter().map(|&start| start as i32).collect();
        let values: Vec<T> = ordered.values().iter().map(|&value| T::from_f64(value)).collect();
        let context = cuda.context();
        let stored = CompressedRows {
            rows,
            entries,
            row_starts: Buffer::from_slice(context, &row_starts, "the row starts of a stored matrix")?,
            columns: Buffer::from_slice(context, ordered.column_indices(), "the columns of a stored matrix")?,
            values: Buffer::from_slice(context, &values, "the values of a stored matrix")?,
        };
        let inverse_diagonal = Buffer::from_slice(context, &inverse_diagonal, "a diagonal")?;
        Ok(Self {
            cuda: cuda.clone(),
            layout: *layout,
            product: Arc::new(MatrixProduct::new(context, stored, inverse_diagonal.start())?),
            inverse_diagonal,
            multiply: cuda.modules(&[source::<T>()])?[0].kernel("multiply")?,
        })
    }
}

impl<T: Real> OnBackend<Cuda> for StoredMatrix<T> {
    fn backend(&self) -> &Cuda {
        &self.cuda
    }
}

impl<T: Real> Operator<Cuda, T> for StoredMatrix<T> {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn apply(&self, x: &Vector<T>, y: &mut Vector<T>) -> Result<()> {
        Call::new(&self.product, [x.pointer(), y.pointer()]).submit(self.cuda.context())
    }

    fn divide_by_diagonal(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let len = self.layout.len();
        let arguments = Arguments::new().with(len as i64).with(self.inverse_diagonal.start());
        self.cuda.elementwise(self.multiply, len, arguments.with(r.pointer()).with(z.pointer()))
    }
}

/// The fewest levels that the library is given: it does not say whether it takes fewer, and its other
/// tridiagonal solvers do not.
const FEWEST_LEVELS: usize = 3;

/// The vertical tridiagonal blocks of a matrix, stored as three vectors, columns interleaved.
#[derive(Debug)]
pub struct StoredTridiagonal<T: Real> {
    cuda: Cuda,
    layout: Layout,
    /// Unknowns of a column: those of the grid, or [`FEWEST_LEVELS`].
    levels: usize,
    /// Below, on and above the diagonal.
    bands: [Buffer; 3],
    solve: Arc<TridiagonalSolve<T>>,
    interleave: Kernel,
    deinterleave: Kernel,
}

impl<T: Real> StoredTridiagonal<T> {
    fn new(cuda: &Cuda, matrix: &Csr, layout: &Layout) -> Result<Self> {
        let Shape { nx, ny, nz } = layout.shape();
        let (levels, systems) = (nz.max(FEWEST_LEVELS), layout.columns_len());
        let len = levels * systems;
        check_indices(len, matrix.entries())?;
        // Three bands, and what they and the right-hand side are copied to.
        check(cuda, matrix, layout, 7 * len * size_of::<T>())?;
        let plain = reference::StoredTridiagonal::<T>::new(matrix, layout)?;
        let context = cuda.context();
        let copy = |band: &reference::Vector<T>, elsewhere: T| {
            let mut out = vec![elsewhere; len];
            for j in 0..ny {
                for (k, row) in out.chunks_exact_mut(systems).take(nz).enumerate() {
                    for i in 0..nx {
                        row[layout.column_index(i, j)] = band.get(i, j, k);
                    }
                }
            }
            Buffer::from_slice(context, &out, "the tridiagonal blocks of a stored matrix")
        };
        let [below, diagonal, above] = plain.bands();
        // A pivot of 1 where there is no grid keeps zeros zero.
        let bands = [copy(below, T::ZERO)?, copy(diagonal, T::ONE)?, copy(above, T::ZERO)?];
        let module = &cuda.modules(&[source::<T>()])?[0];
        Ok(Self {
            cuda: cuda.clone(),
            layout: *layout,
            levels,
            bands,
            solve: Arc::new(TridiagonalSolve::new(context, levels, systems)?),
            interleave: module.kernel("interleave")?,
            deinterleave: module.kernel("deinterleave")?,
        })
    }

    fn reorder(&self, kernel: Kernel, levels: usize, arguments: Arguments) -> Result<()> {
        let half_planes = 2 * self.layout.shape().ny;
        let grid = [self.layout.pitch().div_ceil(32) as u32, levels.div_ceil(8) as u32, half_planes as u32];
        self.cuda.submit(Launch { kernel, grid, block: [32, 8], shared_bytes: 0, arguments })
    }
}

impl<T: Real> OnBackend<Cuda> for StoredTridiagonal<T> {
    fn backend(&self) -> &Cuda {
        &self.cuda
    }
}

impl<T: Real> LineSolver<Cuda, T> for StoredTridiagonal<T> {
    fn solve_lines(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let nz = self.layout.shape().nz;
        let [to_below, to_diagonal, to_above, x] = self.solve.arrays();
        let grid = Arguments::new().with(self.layout.pitch() as i32).with(nz as i32);
        let mut arguments = grid.clone().with(self.levels as i32).with(r.pointer());
        for array in self.bands.each_ref().map(Buffer::start).into_iter().chain([to_below, to_diagonal, to_above, x]) {
            arguments = arguments.with(array);
        }
        self.reorder(self.interleave, self.levels, arguments)?;
        Call::new(&self.solve, [x, x]).submit(self.cuda.context())?;
        self.reorder(self.deinterleave, nz, grid.with(x).with(z.pointer()))
    }
}

impl CsrBackend for Cuda {
    type Csr<T: Real> = StoredMatrix<T>;
    type Tridiagonal<T: Real> = StoredTridiagonal<T>;

    fn csr<T: Real>(&self, matrix: &Csr, layout: &Layout) -> Result<StoredMatrix<T>> {
        StoredMatrix::new(self, matrix, layout)
    }

    fn tridiagonal<T: Real>(&self, matrix: &Csr, layout: &Layout) -> Result<StoredTridiagonal<T>> {
        StoredTridiagonal::new(self, matrix, layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_that_do_not_fit_are_refused() {
        let most = i32::MAX as usize;
        assert!(check_indices(most, most).is_ok());
        for (rows, entries) in [(most + 1, 7), (most / 7 + 1, most + 1)] {
            match check_indices(rows, entries) {
                Err(Error::Unsupported(message)) => {
                    assert!(message.contains("2147483647") && message.contains("matrix-free"), "{message}");
                    assert!(message.contains(&rows.to_string()) && message.contains(&entries.to_string()));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
