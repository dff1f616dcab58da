//! NVIDIA's library of sparse matrices, loaded on demand, for comparisons with paper A.
//!
//! * `product`: products of a matrix in compressed rows and a vector,
//! * `tridiagonal`: batches of tridiagonal systems.

mod product;
mod tridiagonal;

use std::ffi::{c_char, c_int, c_void};
use std::sync::{Arc, Mutex};

use cudarc::driver::sys;
use isobar_core::prelude::{Real, Result};
use libloading::Library;

use crate::driver::{Context, Pointer, error, lock};
use crate::libraries::{self, Loaded, Once, Wanted, symbol};
use crate::vector::index;

pub(crate) use product::{CompressedRows, MatrixProduct};
pub(crate) use tridiagonal::TridiagonalSolve;

/// A handle, matrix or vector of the library; an array on the GPU; a number on the host.
type Any = *mut c_void;
/// `cusparseSpMV` and its preparation: handle, operation, one, matrix, x, zero, y, precision, algorithm, and
/// the workspace or a pointer to its size.
type Product = unsafe extern "C" fn(Any, c_int, Any, Any, Any, Any, Any, c_int, c_int, Any) -> c_int;
/// `cusparse<t>gtsvInterleavedBatch` and its preparation: handle, algorithm, unknowns, the three diagonals, x,
/// systems, and the workspace or a pointer to its size.
type Tridiagonal = unsafe extern "C" fn(Any, c_int, c_int, Any, Any, Any, Any, c_int, Any) -> c_int;

/// The functions that are used.
#[derive(Debug)]
pub struct Functions {
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    create: unsafe extern "C" fn(*mut Any) -> c_int,
    destroy: unsafe extern "C" fn(Any) -> c_int,
    set_stream: unsafe extern "C" fn(Any, sys::CUstream) -> c_int,
    create_csr: unsafe extern "C" fn(*mut Any, i64, i64, i64, Any, Any, Any, c_int, c_int, c_int, c_int) -> c_int,
    destroy_matrix: unsafe extern "C" fn(Any) -> c_int,
    create_vector: unsafe extern "C" fn(*mut Any, i64, Any, c_int) -> c_int,
    destroy_vector: unsafe extern "C" fn(Any) -> c_int,
    set_values: unsafe extern "C" fn(Any, Any) -> c_int,
    product_size: Product,
    /// Available since CUDA 12.4.
    product_preprocess: Option<Product>,
    product: Product,
    /// In double and single precision.
    tridiagonal_size: [Tridiagonal; 2],
    tridiagonal: [Tridiagonal; 2],
}

/// The loaded library.
pub type Cusparse = Loaded<Functions>;

impl libraries::Functions for Functions {
    const WANTED: Wanted<'static> = Wanted {
        what: "cuSPARSE, which stored matrices on CUDA need",
        remedy: "install it (pip install nvidia-cusparse, or the CUDA toolkit) and set ISOBAR_CUSPARSE to the path of \
             libcusparse.so.12, or use the device \"cpu\"",
        variable: "ISOBAR_CUSPARSE",
        names: &["libcusparse.so.12", "libcusparse.so", "cusparse64_12.dll"],
        packages: &["cu13/lib", "cusparse/lib"],
        neighbour: "libnvJitLink.so",
    };

    fn loaded() -> &'static Once<Self> {
        static LOADED: Once<Functions> = Once::new();
        &LOADED
    }

    fn of(library: &Library) -> std::result::Result<Self, libloading::Error> {
        // SAFETY: the types are those of cusparse.h of CUDA 12 and 13, with enumerations as ints.
        unsafe {
            Ok(Self {
                error_string: symbol!(library, b"cusparseGetErrorString\0"),
                create: symbol!(library, b"cusparseCreate\0"),
                destroy: symbol!(library, b"cusparseDestroy\0"),
                set_stream: symbol!(library, b"cusparseSetStream\0"),
                create_csr: symbol!(library, b"cusparseCreateCsr\0"),
                destroy_matrix: symbol!(library, b"cusparseDestroySpMat\0"),
                create_vector: symbol!(library, b"cusparseCreateDnVec\0"),
                destroy_vector: symbol!(library, b"cusparseDestroyDnVec\0"),
                set_values: symbol!(library, b"cusparseDnVecSetValues\0"),
                product_size: symbol!(library, b"cusparseSpMV_bufferSize\0"),
                product_preprocess: library.get(b"cusparseSpMV_preprocess\0").ok().map(|found| *found),
                product: symbol!(library, b"cusparseSpMV\0"),
                tridiagonal_size: [
                    symbol!(library, b"cusparseDgtsvInterleavedBatch_bufferSizeExt\0"),
                    symbol!(library, b"cusparseSgtsvInterleavedBatch_bufferSizeExt\0"),
                ],
                tridiagonal: [
                    symbol!(library, b"cusparseDgtsvInterleavedBatch\0"),
                    symbol!(library, b"cusparseSgtsvInterleavedBatch\0"),
                ],
            })
        }
    }

    fn version(library: &Library) -> std::result::Result<(i32, i32), libloading::Error> {
        type Property = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;
        let mut version = (0, 0);
        // SAFETY: the type is that of cusparse.h, whose first two properties are major and minor version; both numbers outlive
        // the calls.
        unsafe {
            let property = library.get::<Property>(b"cusparseGetProperty\0")?;
            property(0, &raw mut version.0);
            property(1, &raw mut version.1);
        }
        Ok(version)
    }
}

impl Cusparse {
    fn check(&self, code: c_int, doing: &str) -> Result<()> {
        const ALLOCATION_FAILED: c_int = 2;
        if code == 0 {
            return Ok(());
        }
        let (version, what) = self.describe(self.functions.error_string, code);
        let remedy = match code {
            ALLOCATION_FAILED => "use a smaller grid, or free memory on the GPU",
            _ => "try another version (set ISOBAR_CUSPARSE to its libcusparse.so.12), or use the device \"cpu\"",
        };
        Err(error(format!("cuSPARSE {version}, {doing}: {what} (status {code}); {remedy}")))
    }
}

/// A handle of the library for one operator on one GPU.
#[derive(Debug)]
struct Handle {
    library: &'static Cusparse,
    context: Arc<Context>,
    raw: Mutex<Any>,
}

// SAFETY: any thread may use a handle, one at a time, which the lock ensures.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    fn new(context: &Arc<Context>) -> Result<Self> {
        let library = Cusparse::get()?;
        context.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` outlives the call, and a context is current.
        library.check(unsafe { (library.functions.create)(&raw mut raw) }, "starting")?;
        Ok(Self { library, context: Arc::clone(context), raw: Mutex::new(raw) })
    }

    /// Makes calls on a stream of the current context.
    fn on<R>(&self, stream: sys::CUstream, work: impl FnOnce(&Functions, Any) -> Result<R>) -> Result<R> {
        let raw = lock(&self.raw);
        let functions = &self.library.functions;
        // SAFETY: the handle is alive, and no other thread uses it while it is locked.
        self.check(unsafe { (functions.set_stream)(*raw, stream) }, "choosing a stream")?;
        work(functions, *raw)
    }

    fn check(&self, code: c_int, doing: &str) -> Result<()> {
        self.library.check(code, doing)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Errors in a destructor cannot be reported.
        let _ = self.context.synchronize();
        // SAFETY: made in `new`, destroyed once, and the GPU has finished with it.
        let _ = unsafe { (self.library.functions.destroy)(*lock(&self.raw)) };
    }
}

/// Returns the `cudaDataType` of a precision.
fn data_type<T: Real>() -> c_int {
    const REAL_64: c_int = 1;
    const REAL_32: c_int = 0;
    [REAL_64, REAL_32][index::<T>()]
}

/// Returns an address on the GPU.
fn on_card(pointer: Pointer) -> Any {
    pointer as Any
}
