//! Batches of tridiagonal systems by `cusparse<t>gtsvInterleavedBatch`.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::Arc;

use cudarc::driver::sys;
use isobar_core::prelude::{Real, Result};

use super::{Any, Handle, Tridiagonal, on_card};
use crate::launch::Library;
use crate::vector::index;
use crate::{Buffer, Context, Pointer};

/// The Thomas algorithm without pivoting: the fastest of the library's three, and sufficient for diagonally dominant matrices.
const THOMAS: c_int = 0;

/// Interleaved systems: entry k of system c is at `c + systems · k`. The library
/// overwrites all its arguments, so the matrix must be copied again before every solve.
#[derive(Debug)]
pub(crate) struct TridiagonalSolve<T> {
    // Dropped in this order: the handle before the memory it uses.
    handle: Handle,
    unknowns: usize,
    systems: usize,
    /// The lower, main and upper diagonal; the right-hand side, then the solution.
    arrays: [Buffer; 4],
    workspace: Option<Buffer>,
    precision: PhantomData<T>,
}

impl<T: Real> TridiagonalSolve<T> {
    /// Allocates the arrays.
    pub(crate) fn new(context: &Arc<Context>, unknowns: usize, systems: usize) -> Result<Self> {
        let handle = Handle::new(context)?;
        let array = || {
            let bytes = unknowns * systems * size_of::<T>();
            Buffer::new(context, bytes, "the arrays of a tridiagonal solve")
        };
        let arrays = [array()?, array()?, array()?, array()?];
        let mut this = Self { handle, unknowns, systems, arrays, workspace: None, precision: PhantomData };
        let mut bytes = 0usize;
        let size = this.handle.library.functions.tridiagonal_size[index::<T>()];
        this.call(size, (&raw mut bytes).cast(), context.stream())?;
        this.workspace = Some(Buffer::new(context, bytes, "the workspace of a tridiagonal solve")?);
        Ok(this)
    }

    /// Returns the addresses of the diagonals (lower, main, upper) and of the right-hand side, which becomes the solution.
    pub(crate) fn arrays(&self) -> [Pointer; 4] {
        self.arrays.each_ref().map(Buffer::start)
    }

    /// Calls the solve or its preparation.
    fn call(&self, function: Tridiagonal, last: Any, stream: sys::CUstream) -> Result<()> {
        let [below, diagonal, above, x] = self.arrays().map(on_card);
        let (unknowns, systems) = (self.unknowns as c_int, self.systems as c_int);
        self.handle.on(stream, |_, handle| {
            // SAFETY: the arrays have these lengths and live as long as `self`.
            let code = unsafe { function(handle, THOMAS, unknowns, below, diagonal, above, x, systems, last) };
            self.handle.check(code, "solving tridiagonal systems")
        })
    }
}

impl<T: Real> Library for TridiagonalSolve<T> {
    /// Solves the systems in its own arrays.
    fn run(&self, _vectors: [Pointer; 2], stream: sys::CUstream) -> Result<()> {
        let workspace = self.workspace.as_ref().map_or(0, Buffer::start);
        self.call(self.handle.library.functions.tridiagonal[index::<T>()], on_card(workspace), stream)
    }
}
