//! Stored matrices on CUDA, for comparison with paper A and for any matrix of a user.
//!
//! The matrix is renumbered to the checkerboard layout, so that products need no copies of vectors and neighbouring threads
//! read neighbouring numbers, in products and in tridiagonal solves.

use std::array::from_fn;
use std::sync::Arc;

use isobar_core::prelude::{
    Capabilities, Diagonal, Layout, LineSolver, Operator, Real, Result, Shape, Stencil, Supports,
};
use isobar_core::reference::{self, Bands};
use isobar_core::stencil::{self, Lines};

use crate::launch::refuse_while_recording;
use crate::vector::{c_name, check_size};
use crate::{Arguments, Buffer, Cuda, Module, Source, Vector, kernels};

/// Threads of a block.
const BLOCK: usize = 256;
/// Rows of a slice.
const SLICE: usize = 32;
/// The column of entries that a slice has beyond the end of a row.
const NO_COLUMN: u32 = u32::MAX;

/// Returns the source of the kernels in one precision.
pub fn source<T: Real>() -> Source {
    Source::new("stored_matrix", kernels::STORED_MATRIX).define("REAL", c_name::<T>())
}

/// Checks the conditions before anything is allocated.
fn check(stencil: &stencil::StoredMatrix) -> Result<Layout> {
    refuse_while_recording("making an operator")?;
    check_size(stencil.shape())?;
    let layout = Layout::new(stencil.shape())?;
    reference::check_indices(&layout)?;
    Ok(layout)
}

/// A [`stencil::StoredMatrix`] on the GPU, in the order of the layout; padding rows are empty.
#[derive(Debug)]
pub struct StoredMatrix<T: Real> {
    cuda: Cuda,
    layout: Layout,
    starts: Buffer,
    columns: Buffer,
    values: Buffer,
    inverse_diagonal: Buffer,
    module: Arc<Module>,
    precision: std::marker::PhantomData<T>,
}

/// A matrix in slices of rows, each as wide as its longest row (SELL-C-σ without sorting: Kreutzer, Hager, Wellein, Fehske, Bishop,
/// SIAM J. Sci. Comput. 36, 2014): entry e of row r of a slice is at [`SLICE`] · (start + e) + r.
struct Sliced<T> {
    /// The start of each slice, and the end.
    starts: Vec<u32>,
    columns: Vec<u32>,
    values: Vec<T>,
    /// 1 over the diagonal; 0 in padding and where the diagonal is 0.
    inverse_diagonal: Vec<T>,
}

impl<T: Real> Sliced<T> {
    fn new(stencil: &stencil::StoredMatrix, layout: &Layout) -> Self {
        let (Shape { nx, nz, .. }, matrix) = (layout.shape(), stencil.matrix());
        let row_at = |place| {
            let (i, j, k) = (place < layout.len()).then(|| layout.grid_point(place)).flatten()?;
            Some(i + nx * (k + nz * j))
        };
        let (mut starts, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
        let mut inverse_diagonal = vec![T::ZERO; layout.len()];
        for first in (0..layout.len()).step_by(SLICE) {
            let rows: [Option<usize>; SLICE] = from_fn(|n| row_at(first + n));
            let longest = rows.iter().flatten().map(|&row| matrix.row(row).count()).max().unwrap_or(0);
            let start = columns.len();
            columns.resize(start + SLICE * longest, NO_COLUMN);
            values.resize(columns.len(), T::ZERO);
            for (r, row) in rows.into_iter().enumerate() {
                let Some(row) = row else { continue };
                for (e, (column, value)) in matrix.row(row).enumerate() {
                    let (i, j, k) = stencil.grid_point(column);
                    columns[start + SLICE * e + r] = layout.index(i, j, k) as u32;
                    values[start + SLICE * e + r] = T::from_f64(value);
                    if column == row && value != 0.0 {
                        inverse_diagonal[first + r] = T::from_f64(1.0 / value);
                    }
                }
            }
            starts.push((columns.len() / SLICE) as u32);
        }
        Self { starts, columns, values, inverse_diagonal }
    }
}

impl<T: Real> StoredMatrix<T> {
    fn new(cuda: &Cuda, stencil: &stencil::StoredMatrix) -> Result<Self> {
        let layout = check(stencil)?;
        let Sliced { starts, columns, values, inverse_diagonal } = Sliced::<T>::new(stencil, &layout);
        let context = cuda.context();
        Ok(Self {
            cuda: cuda.clone(),
            layout,
            starts: Buffer::from_slice(context, &starts, "the slices of a stored matrix")?,
            columns: Buffer::from_slice(context, &columns, "the columns of a stored matrix")?,
            values: Buffer::from_slice(context, &values, "the values of a stored matrix")?,
            inverse_diagonal: Buffer::from_slice(context, &inverse_diagonal, "a diagonal")?,
            module: cuda.module(source::<T>()),
            precision: std::marker::PhantomData,
        })
    }

    fn update(&self, stencil: &stencil::StoredMatrix) -> Result<()> {
        refuse_while_recording("updating an operator")?;
        let Sliced { values, inverse_diagonal, .. } = Sliced::<T>::new(stencil, &self.layout);
        self.values.write(&values)?;
        self.inverse_diagonal.write(&inverse_diagonal)
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
        let rows = self.layout.len();
        let arguments = [&self.starts, &self.columns, &self.values]
            .into_iter()
            .fold(Arguments::new().with(rows as i64), |arguments, array| arguments.with(array.start()));
        let arguments = arguments.with(x.pointer()).with(y.pointer());
        self.cuda.launch(self.module.kernel("product")?, [rows.div_ceil(BLOCK), 1, 1], [BLOCK, 1], arguments)
    }

    fn coefficient_bytes(&self) -> usize {
        [&self.starts, &self.columns, &self.values, &self.inverse_diagonal].map(Buffer::bytes).iter().sum()
    }
}

impl<T: Real> Diagonal<Cuda, T> for StoredMatrix<T> {
    fn divide_by_diagonal(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let len = self.layout.len();
        let arguments = Arguments::new().with(len as i64).with(self.inverse_diagonal.start());
        self.cuda.elementwise(self.module.kernel("multiply")?, len, arguments.with(r.pointer()).with(z.pointer()))
    }
}

/// The vertical tridiagonal blocks of a matrix, eliminated: the entry below each diagonal, 1 over the pivot, and the entry above times that.
#[derive(Debug)]
pub struct StoredTridiagonal<T: Real> {
    cuda: Cuda,
    layout: Layout,
    bands: [Buffer; 3],
    module: Arc<Module>,
    precision: std::marker::PhantomData<T>,
}

/// Eliminates the tridiagonal blocks.
fn eliminated<T: Real>(stencil: &stencil::StoredMatrix, layout: &Layout) -> Result<[Vec<T>; 3]> {
    let bands = Bands::<T>::new(stencil, layout)?;
    let [below, mut inverse, mut above] =
        [bands.below, bands.diagonal, bands.above].map(|band| band.entries().to_vec());
    for half_plane in 0..2 * layout.shape().ny {
        let first = half_plane * layout.half_plane();
        for n in first..first + layout.half_plane() {
            // Padding keeps its zeros.
            if layout.grid_point(n).is_none() {
                continue;
            }
            let eliminated = if n < first + layout.pitch() { T::ZERO } else { below[n] * above[n - layout.pitch()] };
            inverse[n] = T::ONE / (inverse[n] - eliminated);
            above[n] = above[n] * inverse[n];
        }
    }
    Ok([below, inverse, above])
}

impl<T: Real> StoredTridiagonal<T> {
    fn new(cuda: &Cuda, stencil: &stencil::StoredMatrix) -> Result<Self> {
        let layout = check(stencil)?;
        let bytes = layout.len() * size_of::<T>();
        let band = || Buffer::new(cuda.context(), bytes, "the tridiagonal blocks of a stored matrix");
        let bands = [band()?, band()?, band()?];
        let module = cuda.module(source::<T>());
        let this = Self { cuda: cuda.clone(), layout, bands, module, precision: std::marker::PhantomData };
        this.send(stencil)?;
        Ok(this)
    }

    fn send(&self, stencil: &stencil::StoredMatrix) -> Result<()> {
        refuse_while_recording("updating an operator")?;
        let bands = eliminated::<T>(stencil, &self.layout)?;
        self.bands.iter().zip(&bands).try_for_each(|(buffer, band)| buffer.write(band))
    }
}

impl<T: Real> LineSolver<Cuda, T> for StoredTridiagonal<T> {
    fn backend(&self) -> &Cuda {
        &self.cuda
    }

    fn solve_lines(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let (columns, pitch, nz) = (self.layout.columns_len(), self.layout.pitch(), self.layout.shape().nz);
        let sizes = Arguments::new().with(columns as i64).with(pitch as i32).with(nz as i32);
        let arguments = self.bands.iter().fold(sizes, |arguments, band| arguments.with(band.start()));
        let arguments = arguments.with(r.pointer()).with(z.pointer());
        self.cuda.launch(self.module.kernel("solve_lines")?, [columns.div_ceil(BLOCK), 1, 1], [BLOCK, 1], arguments)
    }
}

impl Supports<stencil::StoredMatrix> for Cuda {
    type Operator<T: Real> = StoredMatrix<T>;

    fn operator<T: Real>(&self, stencil: &stencil::StoredMatrix) -> Result<Arc<StoredMatrix<T>>> {
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
