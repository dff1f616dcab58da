//! The capabilities of a matrix on a device, each a trait of its own.
//!
//! A trait's methods are *fused steps*, named by what they mean and documented by their recurrence. Every fused step has
//! a default made of unfused pieces: a new stencil works at once, and is made fast by overriding steps one at a time.
//! The defaults, run on the reference back end, are what the conformance suite compares with.
//!
//! * [`Operator`] A can be applied; [`CgOperator`] and what conjugate gradients fuse with that,
//! * [`Diagonal`] its diagonal can be divided by,
//! * [`mod@line`] its columns can be solved for and relaxed,
//! * [`points`] its cells can be relaxed each by itself,
//! * [`triangular`] its triangular parts can be used,
//! * [`aggregate`] what deflation and singular systems ask of it,
//! * [`transfer`] what goes between two levels of multigrid, [`correction`] what stands beside their sweeps, [`mixed`]
//!   the finest of them in two precisions, [`levels`] how several ranks have them, [`modes`] between a grid and its vertical modes,
//! * [`direct`] transforms that solve a separable matrix,
//! * [`Capabilities`] all that one matrix offers.

pub mod aggregate;
pub mod correction;
pub mod direct;
pub mod levels;
pub mod line;
pub mod mixed;
pub mod modes;
pub mod points;
pub mod transfer;
pub mod triangular;

use std::sync::Arc;

use crate::backend::{AggregateBackend, Backend, Ratio, Scalar, Sums};
use crate::error::Result;
use crate::layout::Layout;
use crate::real::Real;

pub use aggregate::AggregateOperator;
pub use correction::{CoarsestSolver, Correction};
pub use direct::{DirectBackend, DirectSolver, Judged, SharedDirect};
pub use levels::{Coarser, LevelBackend, OwnModes};
pub use line::{LineSmoother, LineSolver, Relaxation};
pub use mixed::{MixedSmoother, MixedTop};
pub use modes::{Expansion, ModalTransfer};
pub use points::{PointSmoother, lines_layout};
pub use transfer::Transfer;
pub use triangular::Triangular;

/// The first guess of an iteration or a relaxation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guess {
    /// u = 0; what `u` holds is ignored.
    Zero,
    /// The values in `u`.
    Given,
}

/// A matrix acting on vectors of one layout.
///
/// On a subdomain a step fills the halo of the vectors whose neighbouring cells it reads, which are `&mut` only for that, and
/// its sums are those of the whole grid.
pub trait Operator<B: Backend, T: Real>: Send + Sync {
    /// Returns the device that it lives on.
    fn backend(&self) -> &B;

    /// Returns the layout of the vectors that it acts on.
    fn layout(&self) -> &Layout;

    /// Computes y = A x.
    fn apply(&self, x: &mut B::Vector<T>, y: &mut B::Vector<T>) -> Result<()>;

    /// r = f − A u;  ‖r‖²
    fn residual(
        &self,
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        r: &mut B::Vector<T>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        let backend = self.backend();
        self.apply(u, r)?;
        backend.xpay(Ratio::ONE.negated(), f, r, scalars)?;
        backend.dot(r, r, norm, scalars)
    }

    /// ‖f − A u‖²; `scratch` is overwritten or left alone
    fn residual_norm(
        &self,
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        scratch: &mut B::Vector<T>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.residual(f, u, scratch, norm, scalars)
    }

    /// Returns whether [`Operator::residual_norm`] writes to its scratch vector.
    fn norm_needs_scratch(&self) -> bool {
        true
    }

    /// Returns whether its steps work on the host, so that they cannot be recorded and replayed.
    fn needs_host(&self) -> bool {
        false
    }

    /// Returns how many vectors of coefficients a step of this operator reads; 0 where they are recomputed from a few numbers.
    fn coefficient_vectors(&self) -> f64 {
        0.0
    }

    /// Returns its bytes on the device: coefficients, and working space of its own.
    fn coefficient_bytes(&self) -> usize {
        (self.coefficient_vectors() * (self.layout().len() * size_of::<T>()) as f64) as usize
    }
}

/// Returns [`Operator::layout`] of an operator that acts on vectors of several back ends or precisions.
pub fn layout_of<B: Backend, T: Real>(operator: &(impl Operator<B, T> + ?Sized)) -> &Layout {
    operator.layout()
}

/// The vectors of a conjugate-gradient iteration for the operator's step.
#[derive(Debug)]
pub struct Direction<'a, V> {
    /// The solution.
    pub u: &'a mut V,
    /// The search direction.
    pub p: &'a mut V,
    /// The next search direction, where it must not overwrite p.
    pub next: Option<&'a mut V>,
    /// The preconditioned residual.
    pub z: &'a mut V,
    /// A times the next search direction.
    pub q: &'a mut V,
}

/// Steps of conjugate gradients that are fused with an application of A.
pub trait CgOperator<B: Backend, T: Real>: Operator<B, T> {
    /// u += αp;  p' = z + βp;  q = A p';  σ = ⟨p', q⟩, where p' is `next` if given, else p itself
    fn advance_direction(
        &self,
        v: Direction<'_, B::Vector<T>>,
        alpha: Ratio,
        beta: Ratio,
        sigma: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        advance_direction_unfused(self, v, alpha, beta, sigma, scalars)
    }

    /// Returns whether [`CgOperator::advance_direction`] needs a `next`: where blocks of a grid advance p while others still
    /// read it. An iteration that uses the step asks at its set-up, when the step is also prepared.
    ///
    /// # Errors
    /// The errors of preparing the step.
    fn needs_next_direction(&self) -> Result<bool> {
        Ok(false)
    }
}

/// Does [`CgOperator::advance_direction`] in unfused pieces, whatever the operator overrides.
///
/// # Errors
/// The errors of the device.
pub fn advance_direction_unfused<B: Backend, T: Real>(
    operator: &(impl Operator<B, T> + ?Sized),
    v: Direction<'_, B::Vector<T>>,
    alpha: Ratio,
    beta: Ratio,
    sigma: Scalar,
    scalars: &mut B::Scalars,
) -> Result<()> {
    let backend = operator.backend();
    backend.axpy(alpha, v.p, v.u, scalars)?;
    let p = match v.next {
        Some(next) => {
            backend.convert(v.p, next)?;
            next
        }
        None => v.p,
    };
    backend.xpay(beta, v.z, p, scalars)?;
    operator.apply(p, v.q)?;
    backend.dot(p, v.q, sigma, scalars)
}

/// A matrix whose diagonal D is known.
pub trait Diagonal<B: Backend, T: Real>: Operator<B, T> {
    /// Computes z = D⁻¹ r, and 0 where D is 0.
    fn divide_by_diagonal(&self, r: &B::Vector<T>, z: &mut B::Vector<T>) -> Result<()>;

    /// r −= αq;  z = D⁻¹ r;  ρ = ⟨r, z⟩;  ‖r‖²
    fn scale_residual(
        &self,
        r: &mut B::Vector<T>,
        q: &B::Vector<T>,
        z: &mut B::Vector<T>,
        alpha: Ratio,
        out: Sums<2>,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        let backend = self.backend();
        backend.axpy(alpha.negated(), q, r, scalars)?;
        self.divide_by_diagonal(r, z)?;
        backend.dot(r, z, out.get(0), scalars)?;
        backend.dot(r, r, out.get(1), scalars)
    }
}

/// All capabilities of a matrix on a device except lines and coarser levels, which are made on demand. Code that wraps them
/// names every field, so that none is lost by oversight.
pub struct Capabilities<B: AggregateBackend, T: Real> {
    /// The matrix can be applied.
    pub operator: Arc<dyn CgOperator<B, T>>,
    /// Its diagonal is known.
    pub diagonal: Option<Arc<dyn Diagonal<B, T>>>,
    /// Its cells can be relaxed each by itself.
    pub points: Option<Arc<dyn PointSmoother<B, T>>>,
    /// Its triangular parts can be used.
    pub triangular: Option<Arc<dyn Triangular<B, T>>>,
    /// It can be deflated, and it may be singular.
    pub aggregates: Option<Arc<dyn AggregateOperator<B, T>>>,
}
