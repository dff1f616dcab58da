//! The interface of a device: vectors, scalars that stay where the vectors are, and the loop.
//!
//! * this file: [`Backend`],
//! * [`scalars`] names of scalars, and the coefficients that are made of them,
//! * [`aggregate`] one number a set of cells.

pub mod aggregate;
pub mod scalars;

use std::fmt;
use std::ops::ControlFlow;

use serde::Serialize;

use crate::array::{ArrayView, ArrayViewMut, DeviceArray};
use crate::error::{Error, Result};
use crate::layout::{Colour, Layout, Patch, Shape};
use crate::real::Real;

pub use aggregate::{AggregateBackend, AggregateMap};
pub use scalars::{HostScalars, Ratio, Scalar, Sums};

/// Work that is done while halo rows travel: it reads none of those, and changes nothing of what is sent.
pub type Meanwhile<'w> = &'w mut dyn FnMut();

/// A [`Meanwhile`] of steps that need what they wait for at once.
pub fn nothing() {}

/// How a grid's columns are divided among ranks: what each has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shares {
    /// In how many parts x and y are divided.
    pub parts: [usize; 2],
    /// Cells along x of a part, the fewest and the most.
    pub in_x: [usize; 2],
    /// Cells along y, rows.
    pub in_y: [usize; 2],
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |[fewest, most]: [usize; 2]| match fewest == most {
            true => most.to_string(),
            false => format!("{fewest} to {most}"),
        };
        let [x, y] = self.parts;
        write!(f, "{x} in x, {y} in y, of {} × {} columns each", count(self.in_x), count(self.in_y))
    }
}

/// The body of [`Backend::iterate_after`].
pub type BodyAfter<'b, S> = dyn FnMut(Option<usize>, &mut S) -> Result<()> + 'b;

/// A description of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// `"cpu"` or `"cuda"`, as reports say it.
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

/// A device that solvers run on. Clones share it.
///
/// A back end owns nothing of a particular problem: operators are made from stencils and vectors from layouts, see
/// [`Supports`](crate::stencil::Supports). All vector operations leave padding at zero. Steps may run asynchronously;
/// whatever reads a scalar or downloads a vector waits.
pub trait Backend: Clone + Send + Sync + 'static {
    /// A vector on the device, in one [`Layout`].
    type Vector<T: Real>: Send + Sync;
    /// The bank of scalars.
    type Scalars: Send;

    /// Describes the device.
    fn device(&self) -> DeviceInfo;

    /// How a grid is divided among several ranks; nothing on one.
    fn shares(&self, _grid: Shape) -> Option<Shares> {
        None
    }

    /// The columns of a grid that arrays have here: on one of several ranks its own.
    ///
    /// # Errors
    /// Where ranks cannot divide it.
    fn own_columns(&self, grid: Shape) -> Result<Patch> {
        Ok(Patch::whole(grid))
    }

    /// All of an array of a grid, (nz, ny, nx) in C order, of whose columns [`Backend::own_columns`] are given, (nz, rows, columns).
    /// All ranks call it.
    ///
    /// # Errors
    /// Where another rank has failed.
    fn collect(&self, own: Vec<f64>, _grid: Shape) -> Result<Vec<f64>> {
        Ok(own)
    }

    /// Fills the halo of a vector that is part of a larger one, for the given colours of the larger grid, with the neighbours' cells
    /// there. All parts make the same calls in the same order.
    ///
    /// # Errors
    /// The errors of the device or the transport.
    fn fill<T: Real>(&self, x: &mut Self::Vector<T>, colours: &[Colour]) -> Result<()> {
        self.fill_while(x, colours, &mut nothing)
    }

    /// [`Backend::fill`] that may call `meanwhile`, once, while messages travel. Whether it did the caller finds out, and calls it
    /// otherwise.
    ///
    /// # Errors
    /// See [`Backend::fill`].
    fn fill_while<T: Real>(
        &self,
        _x: &mut Self::Vector<T>,
        _colours: &[Colour],
        _meanwhile: Meanwhile<'_>,
    ) -> Result<()> {
        Ok(())
    }

    /// Scalars = their sums over all subdomains, where vectors of this layout are subdomains. A step calls it on what it has summed up,
    /// and all ranks add in the same order.
    ///
    /// # Errors
    /// See [`Backend::fill`].
    fn sum(&self, _of: &Layout, _sums: &[Scalar], _scalars: &mut Self::Scalars) -> Result<()> {
        Ok(())
    }

    /// A vector of zeros.
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
    ///
    /// # Errors
    /// See [`Backend::import`].
    fn export<T: Real>(&self, _source: &Self::Vector<T>, target: &mut DeviceArray) -> Result<()> {
        Err(elsewhere(self, target))
    }

    /// x = 0
    fn clear<T: Real>(&self, x: &mut Self::Vector<T>) -> Result<()>;

    /// y = x, rounding where T is the shorter type
    fn convert<S: Real, T: Real>(&self, x: &Self::Vector<S>, y: &mut Self::Vector<T>) -> Result<()>;

    /// x = a x
    fn scale<T: Real>(&self, a: f64, x: &mut Self::Vector<T>) -> Result<()>;

    /// y = τ y + (1 − τ) x
    fn extrapolate<T: Real>(&self, tau: f64, x: &Self::Vector<T>, y: &mut Self::Vector<T>) -> Result<()>;

    /// y += a x
    fn axpy<S: Real, T: Real>(
        &self,
        a: Ratio,
        x: &Self::Vector<S>,
        y: &mut Self::Vector<T>,
        scalars: &Self::Scalars,
    ) -> Result<()>;

    /// y = x + a y
    fn xpay<T: Real>(
        &self,
        a: Ratio,
        x: &Self::Vector<T>,
        y: &mut Self::Vector<T>,
        scalars: &Self::Scalars,
    ) -> Result<()>;

    /// out = ⟨x, y⟩, accumulated in double precision, the same sum whatever the number of threads
    fn dot<T: Real>(
        &self,
        x: &Self::Vector<T>,
        y: &Self::Vector<T>,
        out: Scalar,
        scalars: &mut Self::Scalars,
    ) -> Result<()>;

    /// y += a x;  out = ‖y‖²
    ///
    /// # Errors
    /// The errors of the device.
    fn axpy_norm<T: Real>(
        &self,
        a: Ratio,
        x: &Self::Vector<T>,
        y: &mut Self::Vector<T>,
        out: Scalar,
        scalars: &mut Self::Scalars,
    ) -> Result<()> {
        self.axpy(a, x, y, scalars)?;
        self.dot(y, y, out, scalars)
    }

    /// y = x, rounding where T is the shorter type;  out = ⟨y, z⟩
    ///
    /// # Errors
    /// The errors of the device.
    fn convert_dot<S: Real, T: Real>(
        &self,
        x: &Self::Vector<S>,
        y: &mut Self::Vector<T>,
        z: &Self::Vector<T>,
        out: Scalar,
        scalars: &mut Self::Scalars,
    ) -> Result<()> {
        self.convert(x, y)?;
        self.dot(y, z, out, scalars)
    }

    /// A bank of zeros (and the constant 1).
    ///
    /// # Errors
    /// See [`Backend::zeros`].
    fn scalars(&self) -> Result<Self::Scalars>;

    /// Stores a scalar.
    fn set(&self, scalars: &mut Self::Scalars, scalar: Scalar, value: f64) -> Result<()>;

    /// The whole bank, waiting for the steps that write it.
    fn read(&self, scalars: &Self::Scalars) -> Result<[f64; Scalar::COUNT]>;

    /// Runs `body(n, scalars)` for n = 0, 1, 2, … until `observe` breaks; `observe` sees the bank
    /// after every iteration, in order.
    ///
    /// The body must depend on `n` only through its parity, and look at no scalar: that lets a device
    /// record two iterations once and replay them. Whatever the body exchanges on the host, such as the
    /// handles of two vectors, is on return as after the last iteration.
    fn iterate(
        &self,
        scalars: &mut Self::Scalars,
        body: &mut dyn FnMut(usize, &mut Self::Scalars) -> Result<()>,
        observe: &mut dyn FnMut(&[f64; Scalar::COUNT]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.iterate_stepwise(scalars, body, observe)
    }

    /// [`Backend::iterate`] with an iteration of another kind before the first, `body(None, scalars)`, which `observe`
    /// sees too.
    fn iterate_after(
        &self,
        scalars: &mut Self::Scalars,
        body: &mut BodyAfter<'_, Self::Scalars>,
        observe: &mut dyn FnMut(&[f64; Scalar::COUNT]) -> ControlFlow<()>,
    ) -> Result<()> {
        iterate_after_first(self, scalars, body, observe)
    }

    /// [`Backend::iterate_after`] for such bodies as [`Backend::iterate_stepwise`] is for.
    fn iterate_after_stepwise(
        &self,
        scalars: &mut Self::Scalars,
        body: &mut BodyAfter<'_, Self::Scalars>,
        observe: &mut dyn FnMut(&[f64; Scalar::COUNT]) -> ControlFlow<()>,
    ) -> Result<()> {
        body(None, scalars)?;
        if observe(&self.read(scalars)?).is_break() {
            return Ok(());
        }
        self.iterate_stepwise(scalars, &mut |n, scalars| body(Some(n), scalars), observe)
    }

    /// [`Backend::iterate`] for bodies that look at scalars or work on the host: step after step, nothing
    /// recorded.
    fn iterate_stepwise(
        &self,
        scalars: &mut Self::Scalars,
        body: &mut dyn FnMut(usize, &mut Self::Scalars) -> Result<()>,
        observe: &mut dyn FnMut(&[f64; Scalar::COUNT]) -> ControlFlow<()>,
    ) -> Result<()> {
        for n in 0.. {
            body(n, scalars)?;
            if observe(&self.read(scalars)?).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Runs a piece of work, such as a whole iteration, from wherever steps are cheapest to start.
    fn enter<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        work()
    }

    /// Waits for everything submitted so far.
    fn synchronize(&self) -> Result<()>;

    /// Bytes read and written a second by a plain copy of a vector of this layout, measured now.
    fn copy_bandwidth(&self, layout: &Layout) -> Result<f64>;
}

/// [`Backend::iterate_after`] by [`Backend::iterate`].
///
/// # Errors
/// The errors of `body`; the errors of the device.
pub fn iterate_after_first<B: Backend>(
    backend: &B,
    scalars: &mut B::Scalars,
    body: &mut BodyAfter<'_, B::Scalars>,
    observe: &mut dyn FnMut(&[f64; Scalar::COUNT]) -> ControlFlow<()>,
) -> Result<()> {
    body(None, scalars)?;
    if observe(&backend.read(scalars)?).is_break() {
        return Ok(());
    }
    backend.iterate(scalars, &mut |n, scalars| body(Some(n), scalars), observe)
}

/// Bytes a second that a copy of a vector of this grid moves, measured now.
///
/// # Errors
/// The errors of the device; no memory for two vectors.
pub fn copy_bandwidth<B: Backend>(backend: &B, shape: Shape) -> Result<f64> {
    // Beyond this size a copy is no faster, and two more vectors may not fit beside a solver.
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
