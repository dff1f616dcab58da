//! What a device must offer: vectors, scalars that stay where the vectors are, and the loop.

use std::ops::ControlFlow;

use crate::error::Result;
use crate::layout::{ArrayView, ArrayViewMut, Layout};
use crate::operator::MultigridOperator;
use crate::real::Real;
use crate::region::{RegionBackend, RegionOperator};
use crate::stencil::{Csr, Diffusion, TensorProduct};
use crate::triangular::TriangularOperator;

/// Names one scalar of a solve. Scalars live on the device, in double precision; fused steps read
/// and write them by slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u8);

impl Slot {
    /// How many slots there are.
    pub const COUNT: usize = 16;
    /// Always 0.
    pub const ZERO: Self = Self(0);
    /// Always 1.
    pub const ONE: Self = Self(1);

    /// A slot of the solver's own; `n` < 14.
    pub const fn new(n: u8) -> Self {
        assert!(n < 14, "slots 0 and 1 are constants, so 14 are free");
        Self(n + 2)
    }

    /// Position in the bank.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A coefficient that a step computes from slots as it starts: a quotient, or a product of two.
///
/// So α = ρ/σ needs no kernel of its own and no visit to the host. A zero denominator gives zero: it
/// occurs when the iteration is already exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    /// Above the line.
    pub numerators: [Slot; 2],
    /// Below it.
    pub denominators: [Slot; 2],
    /// Whether to flip the sign.
    pub negative: bool,
}

impl Ratio {
    /// The constant 0.
    pub const ZERO: Self = Self::new(Slot::ZERO, Slot::ONE);
    /// The constant 1.
    pub const ONE: Self = Self::new(Slot::ONE, Slot::ONE);

    /// numerator / denominator
    pub const fn new(numerator: Slot, denominator: Slot) -> Self {
        Self { numerators: [numerator, Slot::ONE], denominators: [denominator, Slot::ONE], negative: false }
    }

    /// This times numerator / denominator.
    pub const fn times(self, numerator: Slot, denominator: Slot) -> Self {
        Self {
            numerators: [self.numerators[0], numerator],
            denominators: [self.denominators[0], denominator],
            negative: self.negative,
        }
    }

    /// Minus this.
    pub const fn negated(self) -> Self {
        Self { negative: !self.negative, ..self }
    }

    /// Its value, given the bank.
    #[inline(always)]
    pub fn value(self, bank: &[f64; Slot::COUNT]) -> f64 {
        let quotient = |n: usize| {
            let denominator = bank[self.denominators[n].index()];
            if denominator == 0.0 { 0.0 } else { bank[self.numerators[n].index()] / denominator }
        };
        let value = quotient(0) * quotient(1);
        if self.negative { -value } else { value }
    }
}

/// A bank of scalars in host memory, for back ends whose device is the host.
#[derive(Clone, Debug)]
pub struct HostScalars(pub [f64; Slot::COUNT]);

impl Default for HostScalars {
    fn default() -> Self {
        let mut bank = [0.0; Slot::COUNT];
        bank[Slot::ONE.index()] = 1.0;
        Self(bank)
    }
}

/// The body of [`Backend::iterate_after`].
pub type BodyAfter<'b, S> = dyn FnMut(Option<usize>, &mut S) -> Result<()> + 'b;

/// What there is to compute on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// `"cpu"` or `"cuda"`, as reports say it.
    pub kind: &'static str,
    /// The model.
    pub name: String,
    /// Devices working together.
    pub count: usize,
    /// Host threads in use.
    pub threads: usize,
}

/// A device that solvers run on.
///
/// A back end owns nothing of a particular problem: operators are made from stencils (see
/// [`TensorProductBackend`]) and vectors from layouts. All vector operations leave padding at zero.
/// Steps may run asynchronously; whatever reads a scalar or downloads a vector waits.
pub trait Backend: Sized + Send + Sync + 'static {
    /// A vector on the device, in one [`Layout`].
    type Vector<T: Real>: Send;
    /// The bank of scalars.
    type Scalars: Send;

    /// What this is.
    fn device(&self) -> DeviceInfo;

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

    /// x = 0
    fn clear<T: Real>(&self, x: &mut Self::Vector<T>) -> Result<()>;

    /// y = x, rounding where T is the shorter type
    fn convert<S: Real, T: Real>(&self, x: &Self::Vector<S>, y: &mut Self::Vector<T>) -> Result<()>;

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
        out: Slot,
        scalars: &mut Self::Scalars,
    ) -> Result<()>;

    /// A bank of zeros (and the constant 1).
    ///
    /// # Errors
    /// As [`Backend::zeros`].
    fn scalars(&self) -> Result<Self::Scalars>;

    /// Stores a scalar.
    fn set(&self, scalars: &mut Self::Scalars, slot: Slot, value: f64) -> Result<()>;

    /// The whole bank, waiting for the steps that write it.
    fn read(&self, scalars: &Self::Scalars) -> Result<[f64; Slot::COUNT]>;

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
        observe: &mut dyn FnMut(&[f64; Slot::COUNT]) -> ControlFlow<()>,
    ) -> Result<()> {
        self.iterate_stepwise(scalars, body, observe)
    }

    /// [`Backend::iterate`] with an iteration of another kind before the first, `body(None, scalars)`, which `observe`
    /// sees too.
    fn iterate_after(
        &self,
        scalars: &mut Self::Scalars,
        body: &mut BodyAfter<'_, Self::Scalars>,
        observe: &mut dyn FnMut(&[f64; Slot::COUNT]) -> ControlFlow<()>,
    ) -> Result<()> {
        body(None, scalars)?;
        if observe(&self.read(scalars)?).is_break() {
            return Ok(());
        }
        self.iterate(scalars, &mut |n, scalars| body(Some(n), scalars), observe)
    }

    /// [`Backend::iterate`] for bodies that look at scalars or work on the host: step after step, nothing
    /// recorded.
    fn iterate_stepwise(
        &self,
        scalars: &mut Self::Scalars,
        body: &mut dyn FnMut(usize, &mut Self::Scalars) -> Result<()>,
        observe: &mut dyn FnMut(&[f64; Slot::COUNT]) -> ControlFlow<()>,
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

/// A back end that the tensor-product operator runs on.
pub trait TensorProductBackend: Backend {
    /// The operator with its coefficients on the device.
    type TensorProduct<T: Real>: crate::operator::MultigridOperator<Self, T> + 'static;

    /// Puts a stencil on the device.
    ///
    /// # Errors
    /// As [`Backend::zeros`].
    fn tensor_product<T: Real>(&self, stencil: &TensorProduct) -> Result<Self::TensorProduct<T>>;
}

/// A back end that the diffusion operator runs on.
pub trait DiffusionBackend: RegionBackend {
    /// The operator with its coefficients on the device.
    type Diffusion<T: Real>: MultigridOperator<Self, T>
        + TriangularOperator<Self, T>
        + RegionOperator<Self, T>
        + 'static;

    /// Puts a stencil on the device; for a multigrid level with the weights of transfers to the next coarser one
    /// ([`Diffusion::transfer_weights`]), without which it cannot restrict or prolong.
    ///
    /// # Errors
    /// As [`Backend::zeros`].
    fn diffusion<T: Real>(&self, stencil: &Diffusion, with_transfers: bool) -> Result<Self::Diffusion<T>>;
}

/// A back end that stored matrices run on, for the comparison of paper A.
pub trait CsrBackend: Backend {
    /// The matrix on the device, acting on vectors of a grid's layout.
    type Csr<T: Real>: crate::operator::Operator<Self, T> + 'static;
    /// The tridiagonal blocks of a matrix, stored as three vectors.
    type Tridiagonal<T: Real>: crate::operator::LineSolver<Self, T> + 'static;

    /// Puts a matrix on the device. Row i + nx (k + nz j) belongs to grid point (i, j, k).
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) where the matrix does not fit the layout.
    fn csr<T: Real>(&self, matrix: &Csr, layout: &Layout) -> Result<Self::Csr<T>>;

    /// Extracts the vertical tridiagonal blocks of a matrix.
    ///
    /// # Errors
    /// [`Shape`](crate::Error::Shape) where the matrix does not fit the layout.
    fn tridiagonal<T: Real>(&self, matrix: &Csr, layout: &Layout) -> Result<Self::Tridiagonal<T>>;
}
