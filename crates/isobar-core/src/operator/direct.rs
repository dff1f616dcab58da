//! What solves a separable matrix without iterating.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::backend::Backend;
use crate::direct::Separable;
use crate::error::Result;

/// Transforms along two axes of a box and tridiagonal systems along the third, see [`crate::direct`].
pub trait DirectSolver<B: Backend>: Send {
    /// u = A⁻¹ b, up to a constant where A is singular.
    ///
    /// # Errors
    /// What the device reports.
    fn solve(&mut self, b: &B::Vector<f64>, u: &mut B::Vector<f64>) -> Result<()>;

    /// x = A⁻¹ x, up to a constant where A is singular.
    ///
    /// # Errors
    /// What the device reports.
    fn solve_in_place(&mut self, x: &mut B::Vector<f64>) -> Result<()>;

    /// Takes the factors of another matrix on the same grid.
    ///
    /// # Errors
    /// Those of [`Separable::bases`]; what the device reports.
    fn update(&mut self, factors: &Separable) -> Result<()>;

    /// What is done along each axis, in words.
    fn describe(&self) -> String;

    /// Bytes of working space and of eigenvectors.
    fn bytes(&self) -> usize;
}

/// A direct solver that an iteration uses and an update changes.
pub type SharedDirect<B> = Arc<Mutex<dyn DirectSolver<B>>>;

/// The solver itself.
pub fn locked<B: Backend>(solver: &SharedDirect<B>) -> MutexGuard<'_, dyn DirectSolver<B> + 'static> {
    // Nobody panics with it half changed.
    solver.lock().unwrap_or_else(PoisonError::into_inner)
}
