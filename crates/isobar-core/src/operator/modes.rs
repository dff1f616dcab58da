//! Transfers between a grid and some of its vertical modes.

use super::{Guess, LineSmoother, Relaxation};
use crate::backend::{Backend, Scalar};
use crate::error::Result;
use crate::layout::Layout;
use crate::real::Real;
use crate::stencil::modes::VerticalModes;

/// Projection on modes s_m and expansion in them, and the steps that fuse these with relaxation of the grid. A vector of
/// modes is a grid with the same columns and a layer a mode; it has a precision of its own.
pub trait ModalTransfer<B: Backend, T: Real, C: Real>: Send + Sync {
    /// The grid's operator.
    fn fine(&self) -> &dyn LineSmoother<B, T>;

    /// The vectors of modes.
    fn modal_layout(&self) -> &Layout;

    /// Takes other modes, as many as there were.
    ///
    /// # Errors
    /// The errors of the device.
    fn update(&self, modes: &VerticalModes) -> Result<()>;

    /// g_m = Σ_k s_m(k) r_k
    fn project(&self, r: &B::Vector<T>, g: &mut B::Vector<C>) -> Result<()>;

    /// g_m = Σ_k s_m(k) f_k;  ‖f‖²; in `u`, whatever it holds, goes what steps from [`Guess::Zero`] want to find there
    fn project_rhs(
        &self,
        f: &B::Vector<T>,
        g: &mut B::Vector<C>,
        _u: &mut B::Vector<T>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.project(f, g)?;
        self.fine().backend().dot(f, f, norm, scalars)
    }

    /// u_k += Σ_m s_m(k) x_m, or u_k = where the guess is zero
    fn expand(&self, x: &B::Vector<C>, guess: Guess, u: &mut B::Vector<T>) -> Result<()>;

    /// g_m = Σ_k s_m(k) (f − A u)_k;  ‖f − A u‖²; `scratch` is overwritten or left alone
    fn project_residual(
        &self,
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        g: &mut B::Vector<C>,
        scratch: &mut B::Vector<T>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.fine().residual(f, u, scratch, norm, scalars)?;
        self.project(scratch, g)
    }

    /// u_k += Σ_m s_m(k) x_m, or u_k = where the guess is zero, then so many sweeps that overwrite what they solve for.
    ///
    /// From [`Guess::Zero`] u is as [`ModalTransfer::project_rhs`] has left it, given the same f. Of the sweeps all but the last may
    /// then be in the modes' precision: what the last one leaves of an error in u are couplings between columns.
    fn expand_smooth(
        &self,
        x: &B::Vector<C>,
        guess: Guess,
        (relaxation, sweeps): (Relaxation, usize),
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        scratch: &mut B::Vector<T>,
    ) -> Result<()> {
        let fine = self.fine();
        self.expand(x, guess, u)?;
        (0..sweeps).try_for_each(|_| fine.smooth(relaxation, Guess::Given, f, u, scratch))
    }

    /// [`ModalTransfer::expand_smooth`], then [`ModalTransfer::project_residual`]
    fn expand_smooth_project(
        &self,
        x: &B::Vector<C>,
        guess: Guess,
        smoother: (Relaxation, usize),
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        g: &mut B::Vector<C>,
        scratch: &mut B::Vector<T>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.expand_smooth(x, guess, smoother, f, u, scratch)?;
        self.project_residual(f, u, g, scratch, norm, scalars)
    }

    /// [`ModalTransfer::expand_smooth`], then ‖f − A u‖² of the resulting u.
    fn expand_smooth_norm(
        &self,
        x: &B::Vector<C>,
        guess: Guess,
        smoother: (Relaxation, usize),
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        scratch: &mut B::Vector<T>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.expand_smooth(x, guess, smoother, f, u, scratch)?;
        self.fine().residual_norm(f, u, scratch, norm, scalars)
    }

    /// Whether these steps write to the scratch vector they are given.
    fn needs_scratch(&self) -> bool {
        true
    }
}
