//! Parts of multigrid besides sweeps and transfers: corrections of a few slow vectors, and exact solves on the coarsest
//! grid.

use super::Guess;
use crate::{Backend, Real, Result, Shape};

/// An additive correction besides the sweeps of a level.
pub trait Correction<B: Backend, T: Real>: Send + Sync {
    /// Returns whether there is anything to correct; an update of the coefficients may change it.
    fn is_active(&self) -> bool;

    /// Computes u += ω Σ_θ Z D⁻¹ Zᵀ r from the guess, see [`bodies`](crate::stencil::galerkin::bodies).
    fn correct(&self, r: &B::Vector<T>, u: &mut B::Vector<T>, guess: Guess) -> Result<()>;

    /// Returns the bytes of tables.
    fn bytes(&self) -> usize;

    /// Returns whether it works on the host, so that its steps cannot be recorded and replayed.
    fn needs_host(&self) -> bool {
        false
    }
}

/// A solver on the coarsest level of multigrid.
pub trait CoarsestSolver<B: Backend, T: Real>: Send + Sync {
    /// Computes u = G f, with G a symmetric generalised inverse, or multigrid's approximation of one.
    fn solve(&self, f: &B::Vector<T>, u: &mut B::Vector<T>) -> Result<()>;

    /// Returns the bytes held.
    fn bytes(&self) -> usize;

    /// Implements [`Correction::needs_host`].
    fn needs_host(&self) -> bool {
        false
    }

    /// Returns the grids below the coarsest level that it includes, finest first.
    fn shapes(&self) -> Vec<Shape> {
        Vec::new()
    }
}
