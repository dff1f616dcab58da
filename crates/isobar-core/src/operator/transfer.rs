//! Transfers between a level of multigrid and the next coarser one.

use super::{LineSmoother, Sweep};
use crate::{Backend, Layout, Real, Result, Scalar, Sum};

/// Restriction R and prolongation P between two levels, and the steps that fuse them with relaxation of the finer one.
///
/// For the tensor-product operator restriction sums the residuals of the fine cells in a coarse one (their cell average, in
/// integrated form), and prolongation is bilinear, weights (9, 3, 3, 1)/16, with the ghost value −u outside a Dirichlet boundary
/// (paper B); across the last, narrower cell of an odd number it is constant. For diffusion both are computed from the
/// coefficients, and R = Pᵀ.
///
/// Between subdomains of two grids, which have the same rows, steps fill the halo rows of the vectors whose neighbouring cells
/// they read, like those of [`Operator`](super::Operator).
pub trait Transfer<B: Backend, T: Real>: Send + Sync {
    /// Returns the operator of the finer level.
    fn fine(&self) -> &dyn LineSmoother<B, T>;

    /// Returns the layout of vectors of the coarser level.
    fn coarse_layout(&self) -> &Layout;

    /// Returns whether R = Pᵀ, so that a cycle with equally many sweeps before and after, the latter in the opposite order of
    /// colours, is a symmetric preconditioner.
    fn is_adjoint(&self) -> bool {
        false
    }

    /// Computes f_c = R f.
    fn restrict(&self, f: &mut B::Vector<T>, coarse_f: &mut B::Vector<T>) -> Result<()>;

    /// Computes u += P u_c.
    fn prolong(&self, coarse_u: &mut B::Vector<T>, u: &mut B::Vector<T>) -> Result<()>;

    /// f_c = R (f − A u); `scratch` is overwritten or left alone
    fn residual_restrict(&self, f: &B::Vector<T>, [u, coarse_f, scratch]: [&mut B::Vector<T>; 3]) -> Result<()> {
        let backend = self.fine().backend();
        let mut scalars = backend.scalars()?;
        self.fine().residual(f, [u, scratch], Scalar::new(0).of(&mut scalars))?;
        self.restrict(scratch, coarse_f)
    }

    /// Does one sweep, then computes f_c = R (f − A u).
    fn smooth_residual_restrict(&self, sweep: Sweep<'_, B::Vector<T>>, coarse_f: &mut B::Vector<T>) -> Result<()> {
        smooth_residual_restrict_unfused(self, sweep, coarse_f)
    }

    /// Copies `before` = u, then does [`Transfer::smooth_residual_restrict`].
    fn keep_smooth_residual_restrict(
        &self,
        sweep: Sweep<'_, B::Vector<T>>,
        before: &mut B::Vector<T>,
        coarse_f: &mut B::Vector<T>,
    ) -> Result<()> {
        self.fine().backend().convert(sweep.u, before)?;
        self.smooth_residual_restrict(sweep, coarse_f)
    }

    /// Computes u += P u_c, then one sweep, then u = τ u + (1 − τ) `before`, which may be exchanged with u or overwritten.
    fn prolong_smooth_extrapolate(
        &self,
        coarse_u: &mut B::Vector<T>,
        mut sweep: Sweep<'_, B::Vector<T>>,
        (before, tau): (&mut B::Vector<T>, f64),
    ) -> Result<()> {
        self.prolong_smooth(coarse_u, sweep.again(), None)?;
        self.fine().backend().extrapolate(tau, before, sweep.u)
    }

    /// Computes u += P u_c, then one sweep from there, then, where it is wanted, ‖f − A u‖².
    fn prolong_smooth(
        &self,
        coarse_u: &mut B::Vector<T>,
        sweep: Sweep<'_, B::Vector<T>>,
        norm: Option<Sum<'_, B>>,
    ) -> Result<()> {
        prolong_smooth_unfused(self, coarse_u, sweep, norm)
    }
}

/// Does [`Transfer::smooth_residual_restrict`] in unfused pieces.
pub fn smooth_residual_restrict_unfused<B: Backend, T: Real>(
    transfer: &(impl Transfer<B, T> + ?Sized),
    mut sweep: Sweep<'_, B::Vector<T>>,
    coarse_f: &mut B::Vector<T>,
) -> Result<()> {
    transfer.fine().smooth(sweep.again())?;
    transfer.residual_restrict(sweep.f, [sweep.u, coarse_f, sweep.scratch])
}

/// Does [`Transfer::prolong_smooth`] in unfused pieces.
pub fn prolong_smooth_unfused<B: Backend, T: Real>(
    transfer: &(impl Transfer<B, T> + ?Sized),
    coarse_u: &mut B::Vector<T>,
    mut sweep: Sweep<'_, B::Vector<T>>,
    norm: Option<Sum<'_, B>>,
) -> Result<()> {
    transfer.prolong(coarse_u, sweep.u)?;
    transfer.fine().smooth(sweep.again())?;
    let Some((scalar, scalars)) = norm else { return Ok(()) };
    transfer.fine().residual_norm(sweep.f, [sweep.u, sweep.scratch], scalar.of(scalars))
}
