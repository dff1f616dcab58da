//! Preconditioners: approximations M of A that are cheap to invert.
//!
//! * [`Identity`]: no preconditioner,
//! * [`Jacobi`]: the diagonal,
//! * [`Line`]: a tridiagonal solve in every column,
//! * [`NearestBox`]: a direct solve of a box,
//! * [`multigrid::Cycle`]: one multigrid cycle, [`Modal`]: a correction in vertical modes between sweeps of lines,
//! * [`IncompleteCholesky`]: papers D's and E's; [`IncompletePoisson`] and [`Neumann`]: paper D's, from triangular parts,
//! * [`Single`]: any of these in single precision, [`Own`]: a caller's, or [`Algebraic`] multigrid, on host arrays,
//! * [`Fallback`]: one of these, with simpler ones in reserve,
//! * [`Pieces`]: one of these with the constants of disconnected components as coarse vectors, or projected out where they float,
//! * [`deflation`]: removes a few slow directions from an iteration, [`null_space`]: those that A maps to zero.

mod algebraic;
pub mod deflation;
mod direct;
mod fallback;
mod incomplete_cholesky;
mod incomplete_poisson;
mod modes;
pub mod multigrid;
pub(crate) mod neumann;
pub mod null_space;
mod own;
mod pieces;
mod recipe;
mod single;

use std::sync::Arc;

use crate::operator::{Diagonal, LineSolver, ResidualUpdate, update_residual_unfused};
use crate::traffic::{self, StepTraffic};
use crate::{Backend, Real, Result};

pub use algebraic::Algebraic;
pub use deflation::Deflation;
pub use direct::NearestBox;
pub use fallback::Fallback;
pub use incomplete_cholesky::IncompleteCholesky;
pub use incomplete_poisson::IncompletePoisson;
pub use modes::{Modal, ModalProblems};
pub use neumann::Neumann;
pub use null_space::NullSpace;
pub use own::{Own, OwnPreconditioner};
pub use pieces::Pieces;
pub(crate) use recipe::relaxations;
pub use single::Single;

/// Applies M⁻¹.
pub trait Preconditioner<B: Backend, T: Real>: Send {
    /// Returns the device it lives on.
    fn backend(&self) -> &B;

    /// Computes z = M⁻¹ r; on a subdomain the halo of r may be filled.
    fn apply(&mut self, r: &mut B::Vector<T>, z: &mut B::Vector<T>) -> Result<()>;

    /// r −= αq;  z = M⁻¹ r;  ρ = ⟨r, z⟩;  ‖r‖²
    fn precondition_residual(&mut self, v: ResidualUpdate<'_, B::Vector<T>>, scalars: &mut B::Scalars) -> Result<()> {
        let backend = self.backend().clone();
        update_residual_unfused::<B, T>(&backend, v, scalars, |r, z| self.apply(r, z))
    }

    /// Projects the null space of A out of z = M⁻¹ r, where [`apply`](Self::apply) does not.
    fn project_out(&mut self, z: &mut B::Vector<T>) -> Result<()> {
        let _ = z;
        Ok(())
    }

    /// Computes again all that depends on the matrix, whose coefficients have changed.
    fn update(&mut self) -> Result<()> {
        Ok(())
    }

    /// Changes to the approximation of this rank, if there are several: 0 is the user's choice, others are simpler and safer. Returns its name; if
    /// there is none, returns nothing and changes nothing.
    fn choose(&mut self, rank: usize) -> Option<&'static str> {
        let _ = rank;
        None
    }

    /// Returns whether M = 1, so that z is r.
    fn is_identity(&self) -> bool {
        false
    }

    /// Returns whether M differs from one application to the next or is not symmetric, so that CG must not rely on it.
    fn is_variable(&self) -> bool {
        false
    }

    /// Returns whether the coefficients of conjugate gradients tell the eigenvalues of M⁻¹A, as they do where M hardly varies.
    fn tells_spectrum(&self) -> bool {
        !self.is_variable()
    }

    /// Returns whether the eigenvalues of M⁻¹A are near 1 on any grid, as for a cycle of multigrid.
    fn is_strong(&self) -> bool {
        false
    }

    /// Returns whether it works on the host, so that its steps cannot be recorded and replayed.
    fn needs_host(&self) -> bool {
        false
    }

    /// Makes another preconditioner with the same operators and its own vectors, see [`Iteration::another`](crate::solver::Iteration::another).
    fn another(&self) -> Result<Option<Box<dyn Preconditioner<B, T>>>> {
        Ok(None)
    }

    /// Returns the traffic of one `apply` on this many cells.
    fn apply_traffic(&self, cells: usize) -> Vec<StepTraffic>;

    /// Returns the traffic of one `precondition_residual` on this many cells.
    fn traffic(&self, cells: usize) -> Vec<StepTraffic> {
        let mut steps = self.apply_traffic(cells);
        steps.push(StepTraffic::once::<T>(traffic::UPDATE_RESIDUAL, cells));
        steps
    }

    /// Returns the bytes of vectors held.
    fn workspace_bytes(&self) -> usize {
        0
    }
}

/// The preconditioner M = 1
#[derive(Debug)]
pub struct Identity<B>(
    /// The device.
    pub B,
);

impl<B: Backend, T: Real> Preconditioner<B, T> for Identity<B> {
    fn backend(&self) -> &B {
        &self.0
    }

    fn apply(&mut self, r: &mut B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        self.0.convert(r, z)
    }

    fn is_identity(&self) -> bool {
        true
    }

    fn another(&self) -> Result<Option<Box<dyn Preconditioner<B, T>>>> {
        Ok(Some(Box::new(Self(self.0.clone()))))
    }

    fn apply_traffic(&self, cells: usize) -> Vec<StepTraffic> {
        vec![StepTraffic::once::<T>(traffic::COPY, cells)]
    }

    fn traffic(&self, cells: usize) -> Vec<StepTraffic> {
        vec![StepTraffic::once::<T>(traffic::REDUCE_RESIDUAL, cells)]
    }
}

/// The preconditioner M = the diagonal of A
pub struct Jacobi<B: Backend, T: Real>(
    /// The matrix.
    pub Arc<dyn Diagonal<B, T>>,
);

impl<B: Backend, T: Real> Preconditioner<B, T> for Jacobi<B, T> {
    fn backend(&self) -> &B {
        self.0.backend()
    }

    fn apply(&mut self, r: &mut B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        self.0.divide_by_diagonal(r, z)
    }

    fn precondition_residual(&mut self, v: ResidualUpdate<'_, B::Vector<T>>, scalars: &mut B::Scalars) -> Result<()> {
        self.0.scale_residual(v, scalars)
    }

    fn another(&self) -> Result<Option<Box<dyn Preconditioner<B, T>>>> {
        Ok(Some(Box::new(Self(Arc::clone(&self.0)))))
    }

    fn apply_traffic(&self, cells: usize) -> Vec<StepTraffic> {
        let vectors = self.0.coefficient_vectors();
        vec![StepTraffic::once::<T>(traffic::DIVIDE_BY_DIAGONAL, cells).with_coefficients(vectors)]
    }

    fn traffic(&self, cells: usize) -> Vec<StepTraffic> {
        let vectors = self.0.coefficient_vectors();
        vec![StepTraffic::once::<T>(traffic::SCALE_RESIDUAL, cells).with_coefficients(vectors)]
    }
}

/// The preconditioner M = the tridiagonal blocks of A, one per column (papers A and B)
pub struct Line<B: Backend, T: Real>(
    /// The solver of the lines.
    pub Arc<dyn LineSolver<B, T>>,
);

impl<B: Backend, T: Real> Preconditioner<B, T> for Line<B, T> {
    fn backend(&self) -> &B {
        self.0.backend()
    }

    fn apply(&mut self, r: &mut B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        self.0.solve_lines(r, z)
    }

    fn precondition_residual(&mut self, v: ResidualUpdate<'_, B::Vector<T>>, scalars: &mut B::Scalars) -> Result<()> {
        self.0.precondition_residual(v, scalars)
    }

    fn another(&self) -> Result<Option<Box<dyn Preconditioner<B, T>>>> {
        Ok(Some(Box::new(Self(Arc::clone(&self.0)))))
    }

    fn apply_traffic(&self, cells: usize) -> Vec<StepTraffic> {
        let vectors = self.0.line_coefficient_vectors();
        vec![StepTraffic::once::<T>(traffic::SOLVE_LINES, cells).with_coefficients(vectors)]
    }

    fn traffic(&self, cells: usize) -> Vec<StepTraffic> {
        let vectors = self.0.line_coefficient_vectors();
        vec![StepTraffic::once::<T>(traffic::PRECONDITION_RESIDUAL, cells).with_coefficients(vectors)]
    }
}
