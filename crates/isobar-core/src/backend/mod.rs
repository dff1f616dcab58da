//! The interface of a device: vectors, scalars that stay with the vectors, and the loop.
//!
//! * this file: [`Backend`],
//! * [`scalars`]: names of scalars, and coefficients made from them,
//! * [`aggregate`]: one number for each set of cells, `runs`: sets of cells in a short form,
//! * [`direct`]: transforms that solve a separable matrix,
//! * [`queue`]: work of several systems at the same time.

pub mod aggregate;
pub mod direct;
pub mod queue;
mod runs;
pub mod scalars;

use std::fmt;
use std::ops::ControlFlow;

use serde::Serialize;

use crate::array::{ArrayView, ArrayViewMut, DeviceArray, average_copies};
use crate::direct::Separable;
use crate::error::{Error, Result};
use crate::layout::{Colour, Layout, Shape, Slab};
use crate::real::Real;

pub use aggregate::{AggregateBackend, AggregateMap, multiply_cells};
pub use direct::{DirectSolver, Judged, SharedDirect};
pub(crate) use runs::Runs;
pub use scalars::{HostScalars, Ratio, Scalar, Sum, Sums};

/// Work done while halo rows are exchanged: it must not read them, and must not change the cells that are sent.
pub type Meanwhile<'w> = &'w mut dyn FnMut();

/// Does nothing; the [`Meanwhile`] of steps without work to overlap.
pub fn nothing() {}

/// The sizes of the slabs among which ranks divide a grid's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shares {
    /// The number of slabs.
    pub slabs: usize,
    /// The fewest and the most rows of a slab.
    pub rows: [usize; 2],
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slabs, rows: [fewest, most] } = self;
        match fewest == most {
            true => write!(f, "{slabs} of {most} rows each"),
            false => write!(f, "{slabs} of {fewest} to {most} rows each"),
        }
    }
}

/// The body of [`Backend::iterate`], which receives the number of the iteration, from 0.
pub type Body<'b, S> = dyn FnMut(usize, &mut S) -> Result<()> + 'b;
/// The observer of [`Backend::iterate`], which receives the bank of scalars after every iteration and may end the loop.
pub type Look<'l> = dyn FnMut(&[f64; Scalar::COUNT]) -> ControlFlow<()> + 'l;

/// The properties of the iterations of [`Backend::iterate`] that decide how they are run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Iterations {
    /// Whether iteration 0 differs from all others.
    pub first_differs: bool,
    /// Whether the body reads scalars or works on the host, so that it runs step by step, without being recorded.
    pub on_host: bool,
}

/// A description of the device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceInfo {
    /// `"cpu"` or `"cuda"`, for reports.
    pub kind: &'static str,
    /// The model.
    pub name: String,
    /// Devices working together.
    pub count: usize,
    /// Processes, or threads of one, that share the grid.
    pub ranks: usize,
    /// Host threads in use, of each rank.
    pub threads: usize,
}

/// A device that solvers run on. Clones share the device.
///
/// A back end owns nothing of a particular problem: operators are made from stencils and vectors from layouts, see
/// [`Supports`](crate::stencil::Supports). All vector operations keep padding at zero. Steps may run asynchronously; reading a
/// scalar or downloading a vector waits.
pub trait Backend: Clone + Send + Sync + 'static {
    /// A vector on the device, in one [`Layout`].
    type Vector<T: Real>: Send + Sync;
    /// The bank of scalars.
    type Scalars: Send;

    /// Describes the device.
    fn device(&self) -> DeviceInfo;

    /// Returns how several ranks divide a grid; nothing on one.
    fn shares(&self, _grid: Shape) -> Option<Shares> {
        None
    }

    /// Returns the rows of a grid that arrays have here: on one of several ranks its own.
    ///
    /// # Errors
    /// Fails if ranks cannot divide it.
    fn own_rows(&self, grid: Shape) -> Result<Slab> {
        Ok(Slab::whole(grid))
    }

    /// Collects an array of a grid, (nz, ny, nx) in C order, from each rank's rows, those of [`Backend::own_rows`], (nz, rows, nx).
    /// All ranks must call it.
    ///
    /// # Errors
    /// Fails if another rank has failed.
    fn collect(&self, own: Vec<f64>, _grid: Shape) -> Result<Vec<f64>> {
        Ok(own)
    }

    /// Fills the halo of a subdomain's vector with the neighbours' cells of the given colours, which are those of the whole grid.
    /// All ranks must make the same calls in the same order.
    fn fill<T: Real>(&self, x: &mut Self::Vector<T>, colours: &[Colour]) -> Result<()> {
        self.fill_while(x, colours, &mut nothing)
    }

    /// Does [`Backend::fill`], and may call `meanwhile` once during the exchange. The caller detects whether it was called, and
    /// calls it otherwise.
    fn fill_while<T: Real>(
        &self,
        _x: &mut Self::Vector<T>,
        _colours: &[Colour],
        _meanwhile: Meanwhile<'_>,
    ) -> Result<()> {
        Ok(())
    }

    /// Replaces scalars by their sums over all subdomains, where vectors of this layout are subdomains. A step calls it on its sums,
    /// and all ranks add in the same order.
    fn sum(&self, _of: &Layout, _sums: &[Scalar], _scalars: &mut Self::Scalars) -> Result<()> {
        Ok(())
    }

    /// Makes a vector of zeros.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::Error::OutOfMemory) where it does not fit.
    fn zeros<T: Real>(&self, layout: &Layout) -> Result<Self::Vector<T>>;

    /// Copies a caller's array to the device, converting and reordering.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) where the shapes differ.
    fn upload<S: Real, T: Real>(&self, source: ArrayView<'_, S>, target: &mut Self::Vector<T>) -> Result<()>;

    /// Copies a vector to a caller's array, converting and reordering.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) where the shapes differ.
    fn download<S: Real, T: Real>(&self, source: &Self::Vector<T>, target: &mut ArrayViewMut<'_, S>) -> Result<()>;

    /// Copies a caller's array in the memory of this device to a vector, converting and reordering there.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) where the shapes differ; [`Unsupported`](crate::Error::Unsupported) for an array on
    /// another device.
    fn import<T: Real>(&self, source: &DeviceArray, _target: &mut Self::Vector<T>) -> Result<()> {
        Err(elsewhere(self, source))
    }

    /// Copies a vector to a caller's array in the memory of this device, converting and reordering there.
    fn export<T: Real>(&self, _source: &Self::Vector<T>, target: &mut DeviceArray) -> Result<()> {
        Err(elsewhere(self, target))
    }

    /// Replaces all copies of a cell by their mean, in a vector of this layout that has the copies of a grid with these numbers of cells in x and y.
    fn average<T: Real>(&self, layout: &Layout, period: [usize; 2], x: &mut Self::Vector<T>) -> Result<()> {
        let shape = layout.shape();
        let mut values = vec![T::ZERO; shape.cells()];
        self.download(x, &mut ArrayViewMut::c_order(&mut values, shape)?)?;
        average_copies(shape, period, &mut values);
        self.upload(ArrayView::c_order(&values, shape)?, x)
    }

    /// Sets x = 0.
    fn clear<T: Real>(&self, x: &mut Self::Vector<T>) -> Result<()>;

    /// Computes y = x, rounding where T is the shorter type.
    fn convert<S: Real, T: Real>(&self, x: &Self::Vector<S>, y: &mut Self::Vector<T>) -> Result<()>;

    /// Computes x = a x.
    fn scale<T: Real>(&self, a: f64, x: &mut Self::Vector<T>) -> Result<()>;

    /// Computes y = τ y + (1 − τ) x.
    fn extrapolate<T: Real>(&self, tau: f64, x: &Self::Vector<T>, y: &mut Self::Vector<T>) -> Result<()>;

    /// Computes y += a x.
    fn axpy<S: Real, T: Real>(
        &self,
        a: Ratio,
        x: &Self::Vector<S>,
        y: &mut Self::Vector<T>,
        scalars: &Self::Scalars,
    ) -> Result<()>;

    /// Computes y = x + a y.
    fn xpay<S: Real, T: Real>(
        &self,
        a: Ratio,
        x: &Self::Vector<S>,
        y: &mut Self::Vector<T>,
        scalars: &Self::Scalars,
    ) -> Result<()>;

    /// Computes out = ⟨x, y⟩, accumulated in double precision, with a result that does not depend on the number of threads.
    fn dot<T: Real>(&self, x: &Self::Vector<T>, y: &Self::Vector<T>, out: Sum<'_, Self>) -> Result<()>;

    /// Computes y += a x;  out = ‖y‖².
    fn axpy_norm<T: Real>(
        &self,
        a: Ratio,
        x: &Self::Vector<T>,
        y: &mut Self::Vector<T>,
        (out, scalars): Sum<'_, Self>,
    ) -> Result<()> {
        self.axpy(a, x, y, scalars)?;
        self.dot(y, y, out.of(scalars))
    }

    /// Makes a bank of zeros (and the constant 1).
    fn scalars(&self) -> Result<Self::Scalars>;

    /// Stores a scalar.
    fn set(&self, scalars: &mut Self::Scalars, scalar: Scalar, value: f64) -> Result<()>;

    /// Reads the whole bank, waiting for the steps that write it.
    fn read(&self, scalars: &Self::Scalars) -> Result<[f64; Scalar::COUNT]>;

    /// Runs `body(n, scalars)` for n = 0, 1, 2, … until `observe` breaks; `observe` sees the bank
    /// after every iteration, in order.
    ///
    /// Unless `how` states otherwise, the body depends on `n` only through its parity and reads no scalar, so that a device can record two
    /// iterations once and replay them. Host state that the body swaps, such as the handles of two vectors, is on return as after the last
    /// iteration.
    fn iterate(
        &self,
        how: Iterations,
        scalars: &mut Self::Scalars,
        body: &mut Body<'_, Self::Scalars>,
        observe: &mut Look<'_>,
    ) -> Result<()> {
        let _ = how;
        iterate_stepwise(self, scalars, body, observe)
    }

    /// Runs a piece of work, whose passes on the [host](crate::execute::Host) run on the back end's own threads, if it has any.
    fn enter<R>(&self, work: impl FnOnce() -> R) -> R {
        work()
    }

    /// Returns how many queues besides the first are worth using for this many systems on vectors of this layout, whose workspaces take `bytes`
    /// each.
    fn queues(&self, systems: usize, layout: &Layout, bytes: usize) -> Result<usize> {
        let _ = (systems, layout, bytes);
        Ok(0)
    }

    /// Returns the largest number of queues besides the first.
    fn most_queues(&self) -> usize {
        0
    }

    /// Runs work on a queue, and waits for what it has submitted. Other threads may run work on other queues meanwhile, if it shares no
    /// vector or scalar, and if nothing is left to do on the first queue.
    ///
    /// # Errors
    /// The errors of the work and of the device.
    fn on_queue<R>(&self, queue: usize, work: impl FnOnce() -> Result<R>) -> Result<R> {
        queue::on(queue, work)
    }

    /// Waits for all submitted work.
    fn synchronize(&self) -> Result<()>;

    /// Waits for the code of all steps that were prepared: called at the end of a solver's setup. Exchanges nothing.
    fn await_prepared(&self) -> Result<()> {
        Ok(())
    }

    /// Returns whether [`Backend::direct`] solves separable matrices on whole grids.
    fn has_direct(&self) -> bool {
        false
    }

    /// Returns whether a direct solver of a separable matrix is worth while on this device.
    fn direct_pays(&self, _factors: &Separable) -> bool {
        true
    }

    /// Returns how many eigenvectors of axes without a fast transform take as long, in an iteration with the nearest box, as all the rest of it,
    /// where both were measured beside multigrid.
    fn products_like_rest(&self) -> Option<f64> {
        None
    }

    /// Makes the direct solver of a separable matrix for vectors of this layout, where this back end has one.
    fn direct(&self, _layout: &Layout, _factors: &Separable) -> Result<Option<SharedDirect<Self>>> {
        Ok(None)
    }

    /// Bytes read and written a second by a plain copy of a vector of this layout, measured now.
    fn copy_bandwidth(&self, layout: &Layout) -> Result<f64>;
}

/// Implements [`Backend::iterate`] without recording.
///
/// # Errors
/// The errors of `body`; the errors of the device.
pub fn iterate_stepwise<B: Backend>(
    backend: &B,
    scalars: &mut B::Scalars,
    body: &mut Body<'_, B::Scalars>,
    observe: &mut Look<'_>,
) -> Result<()> {
    for n in 0.. {
        body(n, scalars)?;
        if observe(&backend.read(scalars)?).is_break() {
            break;
        }
    }
    Ok(())
}

/// Measures the bytes a second that a copy of a vector of this grid moves.
///
/// # Errors
/// The errors of the device; no memory for two vectors.
pub fn copy_bandwidth<B: Backend>(backend: &B, shape: Shape) -> Result<f64> {
    // A copy of larger vectors is no faster, and they may not fit beside a solver.
    let (layout, large) = (Layout::new(shape)?, Layout::new(Shape::new(512, 512, 128))?);
    backend.copy_bandwidth(if layout.len() < large.len() { &layout } else { &large })
}

fn elsewhere(backend: &impl Backend, array: &DeviceArray) -> Error {
    Error::Unsupported(format!(
        "an array in the memory of cuda:{} for a solver on {}; copy it to host memory, or make the solver on that device",
        array.device(),
        backend.device().kind
    ))
}
