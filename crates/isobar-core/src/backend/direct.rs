//! Direct solvers of separable matrices.

use std::sync::{Arc, Mutex, MutexGuard};

use super::Backend;
use crate::array::{Source, Target};
use crate::direct::Separable;
use crate::error::Result;
use crate::lock;

/// A solver by transforms along two axes of a box and tridiagonal systems along the third, see [`crate::direct`].
///
/// Vectors may hold the box several times along periodic axes, with equal numbers; callers' arrays hold it once.
pub trait DirectSolver<B: Backend>: Send {
    /// Computes u = A⁻¹ b, up to a constant where A is singular.
    fn solve(&mut self, b: &B::Vector<f64>, u: &mut B::Vector<f64>) -> Result<()>;

    /// Computes x = A⁻¹ x, up to a constant where A is singular.
    fn solve_in_place(&mut self, x: &mut B::Vector<f64>) -> Result<()>;

    /// Computes u = A⁻¹ b between callers' arrays without copying them, and the norms for the judgement. Where A is singular the mean of b
    /// is left out, and u has the mean 0. Returns nothing, and may have written to u, where the arrays are of another kind.
    fn solve_arrays(&mut self, b: &Source<'_>, u: &mut Target<'_>) -> Result<Option<Judged>> {
        let _ = (b, u);
        Ok(None)
    }

    /// Replaces the factors by those of another matrix on the same grid.
    fn update(&mut self, factors: &Separable) -> Result<()>;

    /// Describes how each axis is treated, in words.
    fn describe(&self) -> String;

    /// Returns the bytes of working space and of eigenvectors.
    fn bytes(&self) -> usize;
}

/// The norms of a solve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// ‖b‖, without the part that was left out.
    pub rhs: f64,
    /// ‖b − A u‖
    pub residual: f64,
    /// The norm of the part that was left out of b over ‖b‖, where A is singular.
    pub removed: Option<f64>,
}

/// A direct solver that an iteration uses and an update changes.
pub type SharedDirect<B> = Arc<Mutex<dyn DirectSolver<B>>>;

/// Locks the solver.
pub fn locked<B: Backend>(solver: &SharedDirect<B>) -> MutexGuard<'_, dyn DirectSolver<B> + 'static> {
    // A poisoned lock does no harm: no panic leaves the solver half changed.
    lock(solver)
}
