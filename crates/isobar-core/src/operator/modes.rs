//! Transfers between a grid and some of its vertical modes.

use super::{Guess, LineSmoother, Relaxation, Sweep};
use crate::stencil::modes::VerticalModes;
use crate::{Backend, Layout, Real, Result, Sum};

/// Modes to expand in, and the sweeps that follow.
#[derive(Debug)]
pub struct Expansion<'a, X> {
    /// x_m of the modes.
    pub x: &'a X,
    /// Whether the expansion is added to u or replaces it.
    pub guess: Guess,
    /// The relaxation of each sweep.
    pub relaxation: Relaxation,
    /// The number of sweeps.
    pub sweeps: usize,
}

/// The projection on modes s_m, the expansion in them, and the steps that fuse these with relaxation of the grid. A vector of modes
/// is a grid with the same columns and a layer for each mode; it may have another precision.
pub trait ModalTransfer<B: Backend, T: Real, C: Real>: Send + Sync {
    /// Returns the grid's operator.
    fn fine(&self) -> &dyn LineSmoother<B, T>;

    /// Returns the layout of vectors of modes.
    fn modal_layout(&self) -> &Layout;

    /// Replaces the modes by as many others.
    fn update(&self, modes: &VerticalModes) -> Result<()>;

    /// g_m = Σ_k s_m(k) r_k
    fn project(&self, r: &B::Vector<T>, g: &mut B::Vector<C>) -> Result<()>;

    /// g_m = Σ_k s_m(k) f_k;  ‖f‖²; also initialises `u` for steps from [`Guess::Zero`]
    fn project_rhs(
        &self,
        f: &B::Vector<T>,
        g: &mut B::Vector<C>,
        _u: &mut B::Vector<T>,
        norm: Sum<'_, B>,
    ) -> Result<()> {
        self.project(f, g)?;
        self.fine().backend().dot(f, f, norm)
    }

    /// Computes u_k += Σ_m s_m(k) x_m, or u_k = Σ_m s_m(k) x_m where the guess is zero.
    fn expand(&self, x: &B::Vector<C>, guess: Guess, u: &mut B::Vector<T>) -> Result<()>;

    /// g_m = Σ_k s_m(k) (f − A u)_k;  ‖f − A u‖²; `scratch` is overwritten or left alone
    fn project_residual(
        &self,
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        g: &mut B::Vector<C>,
        scratch: &mut B::Vector<T>,
        norm: Sum<'_, B>,
    ) -> Result<()> {
        self.fine().residual(f, [u, scratch], norm)?;
        self.project(scratch, g)
    }

    /// Computes u_k += Σ_m s_m(k) x_m, or u_k = Σ_m s_m(k) x_m where the guess is zero, then n sweeps, each of which overwrites the
    /// columns it solves for.
    ///
    /// From [`Guess::Zero`] u must be as [`ModalTransfer::project_rhs`] left it for the same f. All sweeps but the last may then be
    /// in the modes' precision: after the last one only couplings between columns carry an error of u.
    fn expand_smooth(
        &self,
        &Expansion { x, guess, relaxation, sweeps }: &Expansion<'_, B::Vector<C>>,
        f: &B::Vector<T>,
        [u, scratch]: [&mut B::Vector<T>; 2],
    ) -> Result<()> {
        let fine = self.fine();
        self.expand(x, guess, u)?;
        let mut sweep = Sweep { relaxation, guess: Guess::Given, f, u, scratch };
        (0..sweeps).try_for_each(|_| fine.smooth(sweep.again()))
    }

    /// Does [`ModalTransfer::expand_smooth`], then [`ModalTransfer::project_residual`].
    fn expand_smooth_project(
        &self,
        expansion: &Expansion<'_, B::Vector<C>>,
        f: &B::Vector<T>,
        [u, scratch]: [&mut B::Vector<T>; 2],
        g: &mut B::Vector<C>,
        norm: Sum<'_, B>,
    ) -> Result<()> {
        self.expand_smooth(expansion, f, [&mut *u, &mut *scratch])?;
        self.project_residual(f, u, g, scratch, norm)
    }

    /// Does [`ModalTransfer::expand_smooth`], then computes ‖f − A u‖² of the resulting u.
    fn expand_smooth_norm(
        &self,
        expansion: &Expansion<'_, B::Vector<C>>,
        f: &B::Vector<T>,
        [u, scratch]: [&mut B::Vector<T>; 2],
        norm: Sum<'_, B>,
    ) -> Result<()> {
        self.expand_smooth(expansion, f, [&mut *u, &mut *scratch])?;
        self.fine().residual_norm(f, [u, scratch], norm)
    }

    /// Returns whether these steps write to the scratch vector they are given.
    fn needs_scratch(&self) -> bool {
        true
    }
}
