//! Many tridiagonal systems by `cusparse<t>gtsvInterleavedBatch`.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::sys;
use isobar_core::error::Result;
use isobar_core::real::Real;

use super::{Any, Handle, Tridiagonal, on_card};
use crate::driver::{Context, Pointer};
use crate::launch::Library;
use crate::memory::Buffer;
use crate::vector::index;

/// The Thomas algorithm without pivoting. Of the library's three the fastest, and our matrices are diagonally
/// dominant.
const THOMAS: c_int = 0;

/// Systems of so many unknowns side by side: entry k of system c is at `c + systems · k`. The library
/// overwrites all that it is given, so that the matrix has to be put there again before every solve.
#[derive(Debug)]
pub(crate) struct TridiagonalSolve<T> {
    // Dropped in this order: the handle before the memory it uses.
    handle: Handle,
    unknowns: usize,
    systems: usize,
    /// Below, on and above the diagonal; the right-hand side, then the solution.
    arrays: [Buffer; 4],
    workspace: Option<Buffer>,
    precision: PhantomData<T>,
}

impl<T: Real> TridiagonalSolve<T> {
    /// Makes room for so many systems.
    pub(crate) fn new(context: &Arc<Context>, unknowns: usize, systems: usize) -> Result<Self> {
        let handle = Handle::new(context)?;
        let array = || {
            let bytes = unknowns * systems * size_of::<T>();
            Buffer::new(context, bytes, "what a tridiagonal solve overwrites")
        };
        let arrays = [array()?, array()?, array()?, array()?];
        let mut this = Self { handle, unknowns, systems, arrays, workspace: None, precision: PhantomData };
        let mut bytes = 0usize;
        let size = this.handle.library.functions.tridiagonal_size[index::<T>()];
        this.call(size, (&raw mut bytes).cast(), context.stream())?;
        this.workspace = Some(Buffer::new(context, bytes, "the workspace of a tridiagonal solve")?);
        Ok(this)
    }

    /// Where the diagonals (below, on, above) and the right-hand side are put, and the solution is found.
    pub(crate) fn arrays(&self) -> [Pointer; 4] {
        self.arrays.each_ref().map(Buffer::start)
    }

    /// Calls the solve or what prepares it.
    fn call(&self, function: Tridiagonal, last: Any, stream: sys::CUstream) -> Result<()> {
        let [below, diagonal, above, x] = self.arrays().map(on_card);
        let (unknowns, systems) = (self.unknowns as c_int, self.systems as c_int);
        self.handle.on(stream, |_, handle| {
            // SAFETY: the arrays are that long and live as long as `self`.
            let code = unsafe { function(handle, THOMAS, unknowns, below, diagonal, above, x, systems, last) };
            self.handle.check(code, "solving tridiagonal systems")
        })
    }
}

impl<T: Real> Library for TridiagonalSolve<T> {
    /// Solves what is in its own arrays, whichever the vectors.
    fn run(&self, _vectors: [Pointer; 2], stream: sys::CUstream) -> Result<()> {
        let workspace = self.workspace.as_ref().map_or(0, Buffer::start);
        self.call(self.handle.library.functions.tridiagonal[index::<T>()], on_card(workspace), stream)
    }
}
