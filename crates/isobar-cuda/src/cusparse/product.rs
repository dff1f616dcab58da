//! y = A x by `cusparseSpMV`.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::sys;
use isobar_core::prelude::{Real, Result};

use super::{Any, Handle, Product, data_type, on_card};
use crate::launch::Library;
use crate::{Buffer, Context, Pointer};

// Constants of cusparse.h.
const INDEX_32I: c_int = 2;
const INDEX_BASE_ZERO: c_int = 0;
const OPERATION_NON_TRANSPOSE: c_int = 0;
const SPMV_CSR_ALG1: c_int = 2;

/// A square matrix in compressed rows, with 32-bit indices from 0, on the GPU.
#[derive(Debug)]
pub(crate) struct CompressedRows {
    pub(crate) rows: usize,
    pub(crate) entries: usize,
    pub(crate) row_starts: Buffer,
    pub(crate) columns: Buffer,
    pub(crate) values: Buffer,
}

/// A matrix prepared for products with vectors.
#[derive(Debug)]
pub(crate) struct MatrixProduct<T> {
    /// A, x and y as objects of the library. The addresses of x and y are set at every call.
    matrix: Any,
    x: Any,
    y: Any,
    // Dropped in this order: the handle before the memory it uses.
    handle: Handle,
    workspace: Option<Buffer>,
    stored: CompressedRows,
    precision: PhantomData<T>,
}

// SAFETY: the library's objects for A, x and y are host memory, used only while the handle is locked.
unsafe impl<T> Send for MatrixProduct<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for MatrixProduct<T> {}

impl<T: Real> MatrixProduct<T> {
    /// Prepares the product. `place` is any vector of this length; it is neither read nor written.
    pub(crate) fn new(context: &Arc<Context>, stored: CompressedRows, place: Pointer) -> Result<Self> {
        let null = std::ptr::null_mut();
        let handle = Handle::new(context)?;
        let mut this = Self { matrix: null, x: null, y: null, handle, workspace: None, stored, precision: PhantomData };
        this.describe(place)?;
        let mut bytes = 0usize;
        let stream = context.stream();
        this.call(this.handle.library.functions.product_size, [place; 2], (&raw mut bytes).cast(), stream)?;
        this.workspace = Some(Buffer::new(context, bytes, "the workspace of a matrix product")?);
        this.preprocess(place)?;
        Ok(this)
    }

    /// Replaces the values of the entries and repeats the preparation.
    pub(crate) fn update(&self, values: &[T], place: Pointer) -> Result<()> {
        self.stored.values.write(values)?;
        self.preprocess(place)
    }

    /// Returns the bytes of the matrix.
    pub(crate) fn bytes(&self) -> usize {
        let CompressedRows { row_starts, columns, values, .. } = &self.stored;
        row_starts.bytes() + columns.bytes() + values.bytes()
    }

    fn preprocess(&self, place: Pointer) -> Result<()> {
        let context = &self.handle.context;
        context.bind()?;
        match self.handle.library.functions.product_preprocess {
            Some(preprocess) => self.call(preprocess, [place; 2], self.workspace(), context.stream()),
            None => Ok(()),
        }
    }

    fn workspace(&self) -> Any {
        on_card(self.workspace.as_ref().map_or(0, Buffer::start))
    }

    fn describe(&mut self, place: Pointer) -> Result<()> {
        let Self { handle, stored, matrix, x, y, .. } = self;
        let f = &handle.library.functions;
        let (rows, entries, real) = (stored.rows as i64, stored.entries as i64, data_type::<T>());
        let [starts, columns, values] =
            [&stored.row_starts, &stored.columns, &stored.values].map(|array| on_card(array.start()));
        let (indices, base) = (INDEX_32I, INDEX_BASE_ZERO);
        // SAFETY: the arrays have the lengths for these rows and entries, and live as long as `self`.
        unsafe {
            let code =
                (f.create_csr)(matrix, rows, rows, entries, starts, columns, values, indices, indices, base, real);
            handle.check(code, "describing a matrix")?;
            handle.check((f.create_vector)(x, rows, on_card(place), real), "describing a vector")?;
            handle.check((f.create_vector)(y, rows, on_card(place), real), "describing a vector")
        }
    }

    /// Calls the product or its preparation.
    fn call(&self, function: Product, [x, y]: [Pointer; 2], last: Any, stream: sys::CUstream) -> Result<()> {
        let (mut one, mut zero) = (T::ONE, T::ZERO);
        let (one, zero): (Any, Any) = ((&raw mut one).cast(), (&raw mut zero).cast());
        let (operation, real) = (OPERATION_NON_TRANSPOSE, data_type::<T>());
        self.handle.on(stream, |f, handle| {
            // SAFETY: all objects were made in `new` and are alive; the caller borrows the vectors;
            // the two numbers are read before the call returns.
            unsafe {
                self.handle.check((f.set_values)(self.x, on_card(x)), "choosing a vector")?;
                self.handle.check((f.set_values)(self.y, on_card(y)), "choosing a vector")?;
                let algorithm = SPMV_CSR_ALG1;
                let code = function(handle, operation, one, self.matrix, self.x, zero, self.y, real, algorithm, last);
                self.handle.check(code, "multiplying a matrix")
            }
        })
    }
}

impl<T: Real> Library for MatrixProduct<T> {
    fn run(&self, [x, y]: [Pointer; 2], stream: sys::CUstream) -> Result<()> {
        self.call(self.handle.library.functions.product, [x, y], self.workspace(), stream)
    }
}

impl<T> Drop for MatrixProduct<T> {
    fn drop(&mut self) {
        // Errors in a destructor cannot be reported.
        let _ = self.handle.context.synchronize();
        let f = &self.handle.library.functions;
        // SAFETY: made in `new`, or null if that failed; destroyed once, and the GPU has finished with them.
        unsafe {
            for vector in [self.x, self.y] {
                if !vector.is_null() {
                    let _ = (f.destroy_vector)(vector);
                }
            }
            if !self.matrix.is_null() {
                let _ = (f.destroy_matrix)(self.matrix);
            }
        }
    }
}
