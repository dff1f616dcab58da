//! The capabilities of a matrix on a device, one trait each.
//!
//! A trait's methods are *fused steps*, named by what they mean and documented by their recurrence. Most have a default that calls
//! unfused steps: a new stencil works at once, and becomes fast by overriding steps one at a time. The conformance suite compares
//! with these defaults, run on the reference back end.
//!
//! * [`Operator`] products with A,
//! * [`Diagonal`] divisions by its diagonal,
//! * [`mod@line`] solution of its columns, and their relaxation,
//! * [`points`] relaxation of its cells one by one,
//! * [`triangular`] steps with its triangular parts,
//! * [`aggregate`] the steps that deflation and singular systems need,
//! * [`transfer`] the steps between two levels of multigrid, [`correction`] the corrections besides their sweeps, [`mixed`] the
//!   finest level in two precisions, [`levels`] levels on several ranks, [`modes`] transfers between a grid and its vertical modes,
//! * [`Capabilities`] all that one matrix offers.

pub mod aggregate;
mod capabilities;
pub mod correction;
pub mod levels;
pub mod line;
pub mod mixed;
pub mod modes;
pub mod points;
pub mod transfer;
pub mod triangular;

use crate::{Backend, Layout, Ratio, Real, Result, Scalar, Sum, Sums};

pub use aggregate::AggregateOperator;
pub use capabilities::Capabilities;
pub use correction::{CoarsestSolver, Correction};
pub use levels::{Coarser, LevelBackend, OwnModes};
pub use line::{LineSmoother, LineSolver, Relaxation, Sweep};
pub use mixed::{MixedSmoother, MixedTop};
pub use modes::{Expansion, ModalTransfer};
pub use points::{PointSmoother, lines_layout};
pub use transfer::{Transfer, prolong_smooth_unfused, smooth_residual_restrict_unfused};
pub use triangular::Triangular;

/// The first guess of an iteration or a relaxation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guess {
    /// The guess u = 0; the values in `u` are ignored.
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
    fn residual(&self, f: &B::Vector<T>, [u, r]: [&mut B::Vector<T>; 2], (norm, scalars): Sum<'_, B>) -> Result<()> {
        let backend = self.backend();
        self.apply(u, r)?;
        backend.xpay(Ratio::ONE.negated(), f, r, scalars)?;
        backend.dot(r, r, norm.of(scalars))
    }

    /// Computes r = f − A u; it may write the norm too, if that costs nothing.
    fn residual_alone(&self, f: &B::Vector<T>, [u, r]: [&mut B::Vector<T>; 2], norm: Sum<'_, B>) -> Result<()> {
        self.residual(f, [u, r], norm)
    }

    /// ‖f − A u‖²; `scratch` is overwritten or left alone
    fn residual_norm(&self, f: &B::Vector<T>, [u, scratch]: [&mut B::Vector<T>; 2], norm: Sum<'_, B>) -> Result<()> {
        self.residual(f, [u, scratch], norm)
    }

    /// Returns whether [`Operator::residual_norm`] writes to its scratch vector.
    fn norm_needs_scratch(&self) -> bool {
        true
    }

    /// u += αp;  p' = z + βp;  q = A p';  σ = ⟨p', q⟩, where p' is `next` if given, else p itself
    fn advance_direction(&self, v: Direction<'_, B::Vector<T>>, scalars: &mut B::Scalars) -> Result<()> {
        advance_direction_unfused(self, v, scalars)
    }

    /// Does [`Operator::advance_direction`] with z and q in single precision. q is rounded after σ is summed up.
    fn advance_direction_single(
        &self,
        v: Direction<'_, B::Vector<T>, B::Vector<f32>>,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        let Direction { u, p, next, z, q, alpha, beta, sigma } = v;
        let backend = self.backend();
        let mut image = backend.zeros(self.layout())?;
        let p = step_along(backend, [u, p], next, z, [alpha, beta], scalars)?;
        self.apply(p, &mut image)?;
        backend.dot(p, &image, sigma.of(scalars))?;
        backend.convert(&image, q)
    }

    /// Returns whether [`Operator::advance_direction`] needs a `next`, because blocks of a grid advance p while others still read
    /// it. An iteration that uses the step calls this at its setup, which also prepares the step, or with `is_single` that of
    /// [`Operator::advance_direction_single`].
    ///
    /// # Errors
    /// The errors of preparing the step.
    fn needs_next_direction(&self, is_single: bool) -> Result<bool> {
        let _ = is_single;
        Ok(false)
    }

    /// Returns whether its steps work on the host, so that they cannot be recorded and replayed.
    fn needs_host(&self) -> bool {
        false
    }

    /// Returns how many vectors of coefficients a step of this operator reads; 0 if they are recomputed from a few numbers.
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

/// The operator's step of a conjugate-gradient iteration: u += αp;  p = z + βp;  q = A p;  σ = ⟨p, q⟩
///
/// z and q may be in another precision than u and p.
#[derive(Debug)]
pub struct Direction<'a, V, R = V> {
    /// The solution.
    pub u: &'a mut V,
    /// The search direction.
    pub p: &'a mut V,
    /// The next search direction, where it must not overwrite p.
    pub next: Option<&'a mut V>,
    /// The preconditioned residual.
    pub z: &'a mut R,
    /// A times the next search direction.
    pub q: &'a mut R,
    /// α of the iteration before.
    pub alpha: Ratio,
    /// β
    pub beta: Ratio,
    /// σ
    pub sigma: Scalar,
}

/// Computes [`Operator::advance_direction`] in unfused pieces, whatever the operator overrides.
pub fn advance_direction_unfused<B: Backend, T: Real>(
    operator: &(impl Operator<B, T> + ?Sized),
    v: Direction<'_, B::Vector<T>>,
    scalars: &mut B::Scalars,
) -> Result<()> {
    let Direction { u, p, next, z, q, alpha, beta, sigma } = v;
    let backend = operator.backend();
    let p = step_along(backend, [u, p], next, z, [alpha, beta], scalars)?;
    operator.apply(p, q)?;
    backend.dot(p, q, sigma.of(scalars))
}

/// u += αp;  p' = z + βp; returns p'
fn step_along<'a, B: Backend, T: Real, R: Real>(
    backend: &B,
    [u, p]: [&'a mut B::Vector<T>; 2],
    next: Option<&'a mut B::Vector<T>>,
    z: &B::Vector<R>,
    [alpha, beta]: [Ratio; 2],
    scalars: &B::Scalars,
) -> Result<&'a mut B::Vector<T>> {
    backend.axpy(alpha, p, u, scalars)?;
    let p = match next {
        Some(next) => {
            backend.convert(p, next)?;
            next
        }
        None => p,
    };
    backend.xpay(beta, z, p, scalars)?;
    Ok(p)
}

/// The preconditioner's step of a conjugate-gradient iteration: r −= αq;  z = M⁻¹ r;  ρ = ⟨r, z⟩;  ‖r‖²
#[derive(Debug)]
pub struct ResidualUpdate<'a, V> {
    /// The residual.
    pub r: &'a mut V,
    /// A times the search direction.
    pub q: &'a V,
    /// The preconditioned residual.
    pub z: &'a mut V,
    /// α
    pub alpha: Ratio,
    /// ρ and ‖r‖².
    pub out: Sums<2>,
}

/// Does the step of [`ResidualUpdate`] in unfused pieces; `solve` computes z = M⁻¹ r.
pub fn update_residual_unfused<B: Backend, T: Real>(
    backend: &B,
    v: ResidualUpdate<'_, B::Vector<T>>,
    scalars: &mut B::Scalars,
    solve: impl FnOnce(&mut B::Vector<T>, &mut B::Vector<T>) -> Result<()>,
) -> Result<()> {
    let ResidualUpdate { r, q, z, alpha, out } = v;
    backend.axpy_norm(alpha.negated(), q, r, out.get(1).of(scalars))?;
    solve(r, z)?;
    backend.dot(r, z, out.get(0).of(scalars))
}

/// A matrix whose diagonal D is known.
pub trait Diagonal<B: Backend, T: Real>: Operator<B, T> {
    /// Computes z = D⁻¹ r, and 0 where D is 0.
    fn divide_by_diagonal(&self, r: &B::Vector<T>, z: &mut B::Vector<T>) -> Result<()>;

    /// r −= αq;  z = D⁻¹ r;  ρ = ⟨r, z⟩;  ‖r‖²
    fn scale_residual(&self, v: ResidualUpdate<'_, B::Vector<T>>, scalars: &mut B::Scalars) -> Result<()> {
        update_residual_unfused::<B, T>(self.backend(), v, scalars, |r, z| self.divide_by_diagonal(r, z))
    }
}
