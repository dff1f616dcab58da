//! Stored matrices on CUDA by cuSPARSE, for comparison with paper A.
//!
//! The matrix is renumbered to the checkerboard layout, so that products need no copies of vectors. The tridiagonal
//! solve needs the columns of the whole grid interleaved and overwrites its matrix: copies of the right-hand
//! side, of three diagonals and of the solution are its overhead.

use std::sync::Arc;

use isobar_core::prelude::{
    Capabilities, Diagonal, Error, Layout, LineSolver, Operator, Real, Result, Shape, Stencil, Supports,
};
use isobar_core::reference::{self, Bands};
use isobar_core::stencil::{self, Csr, Lines};

use crate::cusparse::{CompressedRows, Cusparse, MatrixProduct, TridiagonalSolve};
use crate::launch::{Call, refuse_while_recording};
use crate::memory::require;
use crate::vector::{c_name, check_size};
use crate::{Arguments, Buffer, Cuda, Module, Source, Vector, kernels};

/// Returns the source of the kernels in one precision.
pub fn source<T: Real>() -> Source {
    Source::new("stored_matrix", kernels::STORED_MATRIX).define("REAL", c_name::<T>())
}

/// Fails if 32-bit indices, which cuSPARSE uses here, are too small.
fn check_indices(rows: usize, entries: usize) -> Result<()> {
    let most = i32::MAX as usize;
    if rows.max(entries) > most {
        return Err(Error::Unsupported(format!(
            "a stored matrix of {rows} rows, padding included, and {entries} entries is too large: cuSPARSE uses 32-bit \
             indices, for at most {most} of either; use a smaller grid, or the matrix-free operator, which has no such \
             limit"
        )));
    }
    Ok(())
}

/// Checks the conditions before anything is allocated.
fn check(cuda: &Cuda, stencil: &stencil::StoredMatrix, bytes: usize) -> Result<()> {
    refuse_while_recording("making an operator")?;
    Cusparse::get()?;
    check_size(stencil.shape())?;
    let matrix = stencil.matrix();
    require(
        cuda.context(),
        bytes,
        &format!("a stored matrix of {} rows and {} entries", matrix.rows(), matrix.entries()),
    )
}

/// A [`stencil::StoredMatrix`] in compressed rows on the GPU, in the order of the layout; padding rows are empty.
#[derive(Debug)]
pub struct StoredMatrix<T: Real> {
    cuda: Cuda,
    layout: Layout,
    product: Arc<MatrixProduct<T>>,
    /// 1 over the diagonal; 0 in padding and where the diagonal is 0.
    inverse_diagonal: Buffer,
    module: Arc<Module>,
}

/// A matrix in the order of a layout, and 1 over its diagonal.
struct Ordered<T> {
    matrix: Csr,
    inverse_diagonal: Vec<T>,
}

impl<T: Real> Ordered<T> {
    fn new(stencil: &stencil::StoredMatrix, layout: &Layout) -> Result<Self> {
        let Shape { nx, nz, .. } = layout.shape();
        let mut inverse_diagonal = vec![T::ZERO; layout.len()];
        let matrix = Csr::from_rows(layout.len(), |place, entries| {
            let Some((i, j, k)) = layout.grid_point(place) else { return };
            let row = i + nx * (k + nz * j);
            for (column, value) in stencil.matrix().row(row) {
                if column == row && value != 0.0 {
                    inverse_diagonal[place] = T::from_f64(1.0 / value);
                }
                let (i, j, k) = stencil.grid_point(column);
                entries.push((layout.index(i, j, k), value));
            }
        })?;
        Ok(Self { matrix, inverse_diagonal })
    }

    fn values(&self) -> Vec<T> {
        self.matrix.values().iter().map(|&value| T::from_f64(value)).collect()
    }
}

impl<T: Real> StoredMatrix<T> {
    fn new(cuda: &Cuda, stencil: &stencil::StoredMatrix) -> Result<Self> {
        let layout = Layout::new(stencil.shape())?;
        let (rows, entries) = (layout.len(), stencil.matrix().entries());
        check_indices(rows, entries)?;
        check(cuda, stencil, size_of::<i32>() * (rows + 1 + entries) + size_of::<T>() * (entries + rows))?;
        let ordered = Ordered::<T>::new(stencil, &layout)?;
        let row_starts: Vec<i32> = ordered.matrix.row_starts().iter().map(|&start| start as i32).collect();
        let columns = ordered.matrix.column_indices();
        let context = cuda.context();
        let stored = CompressedRows {
            rows,
            entries,
            row_starts: Buffer::from_slice(context, &row_starts, "the row starts of a stored matrix")?,
            columns: Buffer::from_slice(context, columns, "the columns of a stored matrix")?,
            values: Buffer::from_slice(context, &ordered.values(), "the values of a stored matrix")?,
        };
        let inverse_diagonal = Buffer::from_slice(context, &ordered.inverse_diagonal, "a diagonal")?;
        let module = cuda.module(source::<T>());
        Ok(Self {
            cuda: cuda.clone(),
            layout,
            product: Arc::new(MatrixProduct::new(context, stored, inverse_diagonal.start())?),
            inverse_diagonal,
            module,
        })
    }

    fn update(&self, stencil: &stencil::StoredMatrix) -> Result<()> {
        refuse_while_recording("updating an operator")?;
        let ordered = Ordered::<T>::new(stencil, &self.layout)?;
        self.inverse_diagonal.write(&ordered.inverse_diagonal)?;
        self.product.update(&ordered.values(), self.inverse_diagonal.start())
    }
}

impl<T: Real> Operator<Cuda, T> for StoredMatrix<T> {
    fn backend(&self) -> &Cuda {
        &self.cuda
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn apply(&self, x: &mut Vector<T>, y: &mut Vector<T>) -> Result<()> {
        Call::new(&self.product, [x.pointer(), y.pointer()]).submit(self.cuda.context())
    }

    fn coefficient_bytes(&self) -> usize {
        self.product.bytes() + self.inverse_diagonal.bytes()
    }
}

impl<T: Real> Diagonal<Cuda, T> for StoredMatrix<T> {
    fn divide_by_diagonal(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let len = self.layout.len();
        let arguments = Arguments::new().with(len as i64).with(self.inverse_diagonal.start());
        self.cuda.elementwise(self.module.kernel("multiply")?, len, arguments.with(r.pointer()).with(z.pointer()))
    }
}

/// Smallest number of layers passed to the library: fewer are not documented to work, and its other
/// tridiagonal solvers reject them.
const FEWEST_LAYERS: usize = 3;

/// The vertical tridiagonal blocks of a matrix as three vectors with interleaved columns.
#[derive(Debug)]
pub struct StoredTridiagonal<T: Real> {
    cuda: Cuda,
    layout: Layout,
    /// Unknowns per column: the layers of the grid, or [`FEWEST_LAYERS`].
    layers: usize,
    /// Lower, main and upper diagonal.
    bands: [Buffer; 3],
    solve: Arc<TridiagonalSolve<T>>,
    module: Arc<Module>,
}

impl<T: Real> StoredTridiagonal<T> {
    fn new(cuda: &Cuda, stencil: &stencil::StoredMatrix) -> Result<Self> {
        let layout = Layout::new(stencil.shape())?;
        let (layers, systems) = (layout.shape().nz.max(FEWEST_LAYERS), layout.columns_len());
        let len = layers * systems;
        check_indices(len, stencil.matrix().entries())?;
        // Three bands, and copies of them and of the right-hand side.
        check(cuda, stencil, 7 * len * size_of::<T>())?;
        let context = cuda.context();
        let band = || Buffer::new(context, len * size_of::<T>(), "the tridiagonal blocks of a stored matrix");
        let module = cuda.module(source::<T>());
        let this = Self {
            cuda: cuda.clone(),
            layout,
            layers,
            bands: [band()?, band()?, band()?],
            solve: Arc::new(TridiagonalSolve::new(context, layers, systems)?),
            module,
        };
        this.send(stencil)?;
        Ok(this)
    }

    fn send(&self, stencil: &stencil::StoredMatrix) -> Result<()> {
        refuse_while_recording("updating an operator")?;
        let (Shape { nx, ny, nz }, systems) = (self.layout.shape(), self.layout.columns_len());
        let Bands { below, diagonal, above } = Bands::<T>::new(stencil, &self.layout)?;
        // Pivots of 1 outside the grid keep zeros zero.
        for (buffer, (band, elsewhere)) in
            self.bands.iter().zip([(below, T::ZERO), (diagonal, T::ONE), (above, T::ZERO)])
        {
            let mut out = vec![elsewhere; self.layers * systems];
            for (k, row) in out.chunks_exact_mut(systems).take(nz).enumerate() {
                for (i, j) in (0..ny).flat_map(|j| (0..nx).map(move |i| (i, j))) {
                    row[self.layout.column_index(i, j)] = band.get(i, j, k);
                }
            }
            buffer.write(&out)?;
        }
        Ok(())
    }

    fn reorder(&self, name: &'static str, layers: usize, arguments: Arguments) -> Result<()> {
        let half_planes = 2 * self.layout.shape().ny;
        let grid = [self.layout.pitch().div_ceil(32), layers.div_ceil(8), half_planes];
        self.cuda.launch(self.module.kernel(name)?, grid, [32, 8], arguments)
    }
}

impl<T: Real> LineSolver<Cuda, T> for StoredTridiagonal<T> {
    fn backend(&self) -> &Cuda {
        &self.cuda
    }

    fn solve_lines(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let nz = self.layout.shape().nz;
        let [to_below, to_diagonal, to_above, x] = self.solve.arrays();
        let grid = Arguments::new().with(self.layout.pitch() as i32).with(nz as i32);
        let mut arguments = grid.clone().with(self.layers as i32).with(r.pointer());
        for array in self.bands.each_ref().map(Buffer::start).into_iter().chain([to_below, to_diagonal, to_above, x]) {
            arguments = arguments.with(array);
        }
        self.reorder("interleave", self.layers, arguments)?;
        Call::new(&self.solve, [x, x]).submit(self.cuda.context())?;
        self.reorder("deinterleave", nz, grid.with(x).with(z.pointer()))
    }
}

impl Supports<stencil::StoredMatrix> for Cuda {
    type Operator<T: Real> = StoredMatrix<T>;

    fn operator<T: Real>(&self, stencil: &stencil::StoredMatrix) -> Result<Arc<StoredMatrix<T>>> {
        reference::check_indices(&Layout::new(stencil.shape())?)?;
        Ok(Arc::new(StoredMatrix::new(self, stencil)?))
    }

    fn update<T: Real>(&self, operator: &StoredMatrix<T>, stencil: &stencil::StoredMatrix) -> Result<bool> {
        operator.update(stencil)?;
        Ok(true)
    }

    fn capabilities<T: Real>(&self, operator: &Arc<StoredMatrix<T>>) -> Capabilities<Self, T> {
        Capabilities::of_rows(operator)
    }

    fn lines<T: Real>(
        &self,
        stencil: &stencil::StoredMatrix,
        _: &Arc<StoredMatrix<T>>,
    ) -> Result<Option<Lines<Self, stencil::StoredMatrix, T>>> {
        let blocks = Arc::new(StoredTridiagonal::<T>::new(self, stencil)?);
        let solver = Arc::clone(&blocks) as _;
        Ok(Some(Lines { solver, update: Some(Box::new(move |stencil| blocks.send(stencil))) }))
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
