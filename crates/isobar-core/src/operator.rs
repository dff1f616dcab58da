//! The fused steps that solvers are made of, each named by what it means and documented by its
//! recurrence.
//!
//! Every fused step has a default made of unfused pieces: a new stencil works at once, and is made
//! fast by overriding steps one at a time. The defaults, run on the reference back end, are what the
//! conformance suite compares with.

use crate::backend::{Backend, Ratio, Slot};
use crate::error::Result;
use crate::layout::{Colour, Layout, Shape};
use crate::options::Smoother;
use crate::real::Real;

/// The vectors of a conjugate-gradient iteration that the operator's step touches.
#[derive(Debug)]
pub struct Direction<'a, V> {
    /// Solution.
    pub u: &'a mut V,
    /// Search direction.
    pub p: &'a mut V,
    /// Preconditioned residual.
    pub z: &'a V,
    /// A p.
    pub q: &'a mut V,
}

/// What relaxation starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guess {
    /// u = 0; what `u` holds is ignored.
    Zero,
    /// The values in `u`.
    Given,
}

/// How to relax: smoother, ρ, and the order of the colours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Relaxation {
    /// Block Jacobi or red–black Gauss–Seidel.
    pub smoother: Smoother,
    /// ρ
    pub rho: f64,
    /// The colour that a red–black sweep begins with.
    pub first: Colour,
}

/// Something whose data lives on a device.
pub trait OnBackend<B> {
    /// The device.
    fn backend(&self) -> &B;
}

/// A matrix acting on vectors of one layout.
pub trait Operator<B: Backend, T: Real>: OnBackend<B> + Send + Sync {
    /// The vectors it acts on.
    fn layout(&self) -> &Layout;

    /// y = A x
    fn apply(&self, x: &B::Vector<T>, y: &mut B::Vector<T>) -> Result<()>;

    /// z = D⁻¹ r, D the diagonal of A
    fn divide_by_diagonal(&self, r: &B::Vector<T>, z: &mut B::Vector<T>) -> Result<()>;

    /// r = f − A u;  ‖r‖²
    fn residual(
        &self,
        f: &B::Vector<T>,
        u: &B::Vector<T>,
        r: &mut B::Vector<T>,
        norm: Slot,
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
        u: &B::Vector<T>,
        scratch: &mut B::Vector<T>,
        norm: Slot,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.residual(f, u, scratch, norm, scalars)
    }

    /// Whether [`Operator::residual_norm`] writes to its scratch vector.
    fn norm_needs_scratch(&self) -> bool {
        true
    }

    /// How many vectors of coefficients a step of this operator reads; 0 where they are recomputed from a
    /// few numbers.
    fn coefficient_vectors(&self) -> f64 {
        0.0
    }

    /// r −= αq;  z = D⁻¹ r;  ρ = ⟨r, z⟩;  ‖r‖²
    fn scale_residual(
        &self,
        r: &mut B::Vector<T>,
        q: &B::Vector<T>,
        z: &mut B::Vector<T>,
        alpha: Ratio,
        [rho, norm]: [Slot; 2],
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        let backend = self.backend();
        backend.axpy(alpha.negated(), q, r, scalars)?;
        self.divide_by_diagonal(r, z)?;
        backend.dot(r, z, rho, scalars)?;
        backend.dot(r, r, norm, scalars)
    }

    /// Makes the room that [`Operator::advance_direction`] takes beside its vectors, and returns its bytes.
    ///
    /// # Errors
    /// Where it does not fit in memory.
    fn reserve_direction(&self) -> Result<usize> {
        Ok(0)
    }

    /// u += αp;  p = z + βp;  q = A p;  σ = ⟨p, q⟩
    fn advance_direction(
        &self,
        v: Direction<'_, B::Vector<T>>,
        alpha: Ratio,
        beta: Ratio,
        sigma: Slot,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        advance_direction_unfused(self, v, alpha, beta, sigma, scalars)
    }
}

/// [`Operator::advance_direction`] made of unfused pieces, whatever the operator overrides.
///
/// # Errors
/// What the device reports.
pub fn advance_direction_unfused<B: Backend, T: Real>(
    operator: &(impl Operator<B, T> + ?Sized),
    v: Direction<'_, B::Vector<T>>,
    alpha: Ratio,
    beta: Ratio,
    sigma: Slot,
    scalars: &mut B::Scalars,
) -> Result<()> {
    let backend = operator.backend();
    backend.axpy(alpha, v.p, v.u, scalars)?;
    backend.xpay(beta, v.z, v.p, scalars)?;
    operator.apply(v.p, v.q)?;
    backend.dot(v.p, v.q, sigma, scalars)
}

/// Solves the vertical tridiagonal blocks M of a matrix.
pub trait LineSolver<B: Backend, T: Real>: OnBackend<B> + Send + Sync {
    /// How many vectors of coefficients M is made of, as [`Operator::coefficient_vectors`].
    fn line_coefficient_vectors(&self) -> f64 {
        0.0
    }

    /// z = M⁻¹ r
    fn solve_lines(&self, r: &B::Vector<T>, z: &mut B::Vector<T>) -> Result<()>;

    /// r −= αq;  z = M⁻¹ r;  ρ = ⟨r, z⟩;  ‖r‖²
    fn precondition_residual(
        &self,
        r: &mut B::Vector<T>,
        q: &B::Vector<T>,
        z: &mut B::Vector<T>,
        alpha: Ratio,
        [rho, norm]: [Slot; 2],
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        let backend = self.backend();
        backend.axpy(alpha.negated(), q, r, scalars)?;
        self.solve_lines(r, z)?;
        backend.dot(r, z, rho, scalars)?;
        backend.dot(r, r, norm, scalars)
    }
}

/// A matrix whose vertical lines can be relaxed.
pub trait LineOperator<B: Backend, T: Real>: Operator<B, T> + LineSolver<B, T> {
    /// One sweep of u += ρ M⁻¹(f − A u): all columns at once (Jacobi), or the columns of one colour
    /// after the other (red–black Gauss–Seidel). `scratch` is overwritten or left alone.
    fn smooth(
        &self,
        relaxation: Relaxation,
        guess: Guess,
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        scratch: &mut B::Vector<T>,
    ) -> Result<()>;

    /// Whether the steps of this operator write to the scratch vector they are given.
    fn needs_scratch(&self, _smoother: Smoother) -> bool {
        true
    }
}

/// The scratch vector that an operator's steps ask for: a whole one, or the smallest there is.
///
/// # Errors
/// Where it does not fit in memory.
pub fn scratch<B: Backend, T: Real>(operator: &impl LineOperator<B, T>, smoother: Smoother) -> Result<B::Vector<T>> {
    operator.backend().zeros(&scratch_layout(operator, smoother)?)
}

/// The layout of [`scratch`].
///
/// # Errors
/// Never in practice.
pub fn scratch_layout<B: Backend, T: Real>(operator: &impl LineOperator<B, T>, smoother: Smoother) -> Result<Layout> {
    if operator.needs_scratch(smoother) { Ok(*operator.layout()) } else { Layout::new(Shape::new(1, 1, 1)) }
}

/// What a multigrid level holds beside its operator.
#[derive(Debug)]
pub struct LevelVectors<V> {
    /// Right-hand side.
    pub f: V,
    /// Solution or correction.
    pub u: V,
}

/// A matrix with a coarser version of itself.
///
/// Restriction sums the residuals of the fine cells in a coarse one (their cell average, in
/// integrated form). Prolongation is bilinear for the tensor-product operator, weights (9, 3, 3, 1)/16, with the
/// ghost value −u outside a Dirichlet boundary, and constant over a coarse cell for diffusion, where the
/// coarse grid may have half as many cells, rounded up, in x or y alone.
pub trait MultigridOperator<B: Backend, T: Real>: LineOperator<B, T> {
    /// Whether R = Pᵀ, so that a cycle with as many sweeps before as after, and these in the opposite order
    /// of colours, is a symmetric preconditioner.
    fn has_adjoint_transfers(&self) -> bool {
        false
    }

    /// f_c = R f
    fn restrict(&self, coarse: &Self, f: &B::Vector<T>, coarse_f: &mut B::Vector<T>) -> Result<()>;

    /// u += P u_c
    fn prolong(&self, coarse: &Self, coarse_u: &B::Vector<T>, u: &mut B::Vector<T>) -> Result<()>;

    /// f_c = R (f − A u); `scratch` is overwritten or left alone
    fn residual_restrict(
        &self,
        coarse: &Self,
        f: &B::Vector<T>,
        u: &B::Vector<T>,
        coarse_f: &mut B::Vector<T>,
        scratch: &mut B::Vector<T>,
    ) -> Result<()> {
        let backend = self.backend();
        let mut scalars = backend.scalars()?;
        self.residual(f, u, scratch, Slot::new(0), &mut scalars)?;
        self.restrict(coarse, scratch, coarse_f)
    }

    /// One sweep, then f_c = R (f − A u)
    fn smooth_residual_restrict(
        &self,
        coarse: &Self,
        relaxation: Relaxation,
        guess: Guess,
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        coarse_f: &mut B::Vector<T>,
        scratch: &mut B::Vector<T>,
    ) -> Result<()> {
        self.smooth(relaxation, guess, f, u, scratch)?;
        self.residual_restrict(coarse, f, u, coarse_f, scratch)
    }

    /// u += P u_c, then one sweep, then, where asked for, ‖f − A u‖²
    fn prolong_smooth(
        &self,
        coarse: &Self,
        relaxation: Relaxation,
        f: &B::Vector<T>,
        coarse_u: &B::Vector<T>,
        u: &mut B::Vector<T>,
        scratch: &mut B::Vector<T>,
        norm: Option<(Slot, &mut B::Scalars)>,
    ) -> Result<()> {
        self.prolong(coarse, coarse_u, u)?;
        self.smooth(relaxation, Guess::Given, f, u, scratch)?;
        match norm {
            Some((slot, scalars)) => self.residual_norm(f, u, scratch, slot, scalars),
            None => Ok(()),
        }
    }

    /// u += e, then one sweep, then r = f − A u and ‖r‖²: the double-precision half of a
    /// mixed-precision iteration, e and r being stored in the precision S of the other half.
    fn correct_smooth_residual<S: Real>(
        &self,
        relaxation: Relaxation,
        f: &B::Vector<T>,
        e: &B::Vector<S>,
        u: &mut B::Vector<T>,
        r: &mut B::Vector<S>,
        scratch: &mut B::Vector<T>,
        norm: Slot,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        let backend = self.backend();
        backend.axpy(Ratio::ONE, e, u, scalars)?;
        self.smooth(relaxation, Guess::Given, f, u, scratch)?;
        self.residual(f, u, scratch, norm, scalars)?;
        backend.convert(scratch, r)
    }

    /// A mixed-precision cycle on its way up to the finest grid: u += e + P u_c, then one sweep, then r = f − A u and
    /// ‖r‖².
    ///
    /// u and f are in T, everything else is in S; `single` is the same grid's operator and the next coarser one's in
    /// S, and may help. What becomes of e, and in what form r is, is between this and [`MultigridOperator::descend`].
    fn ascend<S: Real, L: MultigridOperator<B, S> + 'static>(
        &self,
        single: [&L; 2],
        relaxation: Relaxation,
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        coarse_u: &B::Vector<S>,
        [e, r]: [&mut B::Vector<S>; 2],
        scratch: &mut B::Vector<T>,
        norm: Slot,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        ascend_unfused(self, single, relaxation, f, u, coarse_u, [e, r], scratch, norm, scalars)
    }

    /// And on its way down again, from what [`MultigridOperator::ascend`] left: e = one sweep from zero on A e = r,
    /// then f_c = R (r − A e). All in S, `scratch` too.
    fn descend<S: Real, L: MultigridOperator<B, S> + 'static>(
        &self,
        [single, coarse]: [&L; 2],
        relaxation: Relaxation,
        [e, r]: [&mut B::Vector<S>; 2],
        coarse_f: &mut B::Vector<S>,
        scratch: &mut B::Vector<S>,
    ) -> Result<()> {
        single.smooth_residual_restrict(coarse, relaxation, Guess::Zero, r, e, coarse_f, scratch)
    }
}

/// [`MultigridOperator::ascend`] made of other steps, whatever the operator overrides; it leaves r itself.
///
/// # Errors
/// What the device reports.
pub fn ascend_unfused<B: Backend, T: Real, S: Real, L: MultigridOperator<B, S>>(
    operator: &(impl MultigridOperator<B, T> + ?Sized),
    [single, coarse]: [&L; 2],
    relaxation: Relaxation,
    f: &B::Vector<T>,
    u: &mut B::Vector<T>,
    coarse_u: &B::Vector<S>,
    [e, r]: [&mut B::Vector<S>; 2],
    scratch: &mut B::Vector<T>,
    norm: Slot,
    scalars: &mut B::Scalars,
) -> Result<()> {
    single.prolong(coarse, coarse_u, e)?;
    operator.correct_smooth_residual(relaxation, f, e, u, r, scratch, norm, scalars)
}

impl<B, A: OnBackend<B>> OnBackend<B> for std::sync::Arc<A> {
    fn backend(&self) -> &B {
        (**self).backend()
    }
}

impl<B: Backend, T: Real, A: Operator<B, T>> Operator<B, T> for std::sync::Arc<A> {
    fn layout(&self) -> &Layout {
        (**self).layout()
    }
    fn apply(&self, x: &B::Vector<T>, y: &mut B::Vector<T>) -> Result<()> {
        (**self).apply(x, y)
    }
    fn divide_by_diagonal(&self, r: &B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        (**self).divide_by_diagonal(r, z)
    }
    fn residual(
        &self,
        f: &B::Vector<T>,
        u: &B::Vector<T>,
        r: &mut B::Vector<T>,
        norm: Slot,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        (**self).residual(f, u, r, norm, scalars)
    }
    fn residual_norm(
        &self,
        f: &B::Vector<T>,
        u: &B::Vector<T>,
        scratch: &mut B::Vector<T>,
        norm: Slot,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        (**self).residual_norm(f, u, scratch, norm, scalars)
    }
    fn norm_needs_scratch(&self) -> bool {
        (**self).norm_needs_scratch()
    }
    fn coefficient_vectors(&self) -> f64 {
        (**self).coefficient_vectors()
    }
    fn scale_residual(
        &self,
        r: &mut B::Vector<T>,
        q: &B::Vector<T>,
        z: &mut B::Vector<T>,
        alpha: Ratio,
        out: [Slot; 2],
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        (**self).scale_residual(r, q, z, alpha, out, scalars)
    }
    fn reserve_direction(&self) -> Result<usize> {
        (**self).reserve_direction()
    }
    fn advance_direction(
        &self,
        v: Direction<'_, B::Vector<T>>,
        alpha: Ratio,
        beta: Ratio,
        sigma: Slot,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        (**self).advance_direction(v, alpha, beta, sigma, scalars)
    }
}
