//! Iterations, written once over any back end.
//!
//! * [`cg`]: preconditioned conjugate gradients,
//! * [`bicgstab`]: for non-symmetric operators,
//! * [`multigrid`]: multigrid as an iteration; [`crate::precond::multigrid`] holds the cycle,
//! * [`jacobi`]: Jacobi's method, plain and hierarchical; `momentum`: the acceleration of its sweeps; [`batch`]: lines with a stopping
//!   test each,
//! * [`modes`]: vertical modes of a tensor product, [`direct`]: transforms that solve a separable matrix,
//! * [`monitor`]: decides when to stop, `spectrum`: estimates the condition number.

pub mod batch;
pub mod bicgstab;
pub mod cg;
pub mod direct;
pub mod jacobi;
pub mod modes;
mod momentum;
pub mod monitor;
pub mod multigrid;
mod spectrum;

use crate::backend::Judged;
use crate::operator::Guess;
use crate::outcome::Batch;
use crate::traffic::StepTraffic;
use crate::{Backend, Real, Result, Source, Target};

pub use monitor::{Broken, Monitor, Observer, Progress, ignore};

/// The arguments of [`Iteration::run`].
pub struct Run<'r, 'o, B: Backend, T: Real> {
    /// b
    pub b: &'r mut B::Vector<T>,
    /// u
    pub u: &'r mut B::Vector<T>,
    /// The first guess.
    pub guess: Guess,
    /// If given, receives a copy of an iterate that was much better than later ones, if there was one; the monitor then has its
    /// residual.
    pub best: Option<&'r mut B::Vector<f64>>,
    /// Decides when to stop.
    pub monitor: &'r mut Monitor<'o>,
}

/// An iterative method with its workspace, made once and used for any number of right-hand sides.
pub trait Iteration<B: Backend, T: Real>: Send {
    /// Takes a first guess, and computes ‖b − A u‖, or the norm that the iteration watches; for [`Guess::Zero`] it is ‖b‖ and computed
    /// by the caller. The iteration stores the part of the residual that [`Iteration::run`] needs.
    fn begin(&mut self, b: &B::Vector<T>, u: &mut B::Vector<T>, guess: Guess) -> Result<Option<f64>>;

    /// Returns whether [`Iteration::begin`] also computes ‖b‖ for [`Guess::Zero`], so that the caller need not.
    fn finds_norm_of_rhs(&self) -> bool {
        false
    }

    /// Improves u until the monitor stops it, or finds the preconditioner slow. Before, the monitor received ‖r₀‖, and
    /// [`Iteration::begin`] was called with the same b, u and guess.
    ///
    /// # Errors
    /// The errors of the device; the monitor reports a lack of convergence.
    fn run(&mut self, run: Run<'_, '_, B, T>) -> Result<()>;

    /// Solves between callers' arrays at once, see [`DirectSolver::solve_arrays`](crate::backend::DirectSolver::solve_arrays).
    fn solve_arrays(&mut self, b: &Source<'_>, u: &mut Target<'_>) -> Result<Option<Judged>> {
        let _ = (b, u);
        Ok(None)
    }

    /// Returns ‖b − A u‖ of u after the last [`Iteration::run`], where it was computed from that u in double precision and need
    /// not be computed again.
    fn residual_left(&self) -> Option<f64> {
        None
    }

    /// Returns the outcome of the lines of a batch in the last [`Iteration::run`].
    fn batch(&self) -> Option<Batch> {
        None
    }

    /// Changes to the preconditioner of this rank: 0 is the user's choice, others are simpler and safer. Returns its name; if there is
    /// none, returns nothing and changes nothing.
    fn choose(&mut self, rank: usize) -> Option<&'static str> {
        let _ = rank;
        None
    }

    /// Computes z = M⁻¹ r with a fixed linear M: the preconditioner of a Krylov method, one cycle or sweep from zero of other
    /// methods.
    fn precondition(&mut self, r: &mut B::Vector<T>, z: &mut B::Vector<T>) -> Result<()>;

    /// Returns whether that M is symmetric where A is. A cycle is not where restriction is not the transpose of prolongation.
    fn preconditions_symmetrically(&self) -> bool {
        true
    }

    /// Computes again all that depends on the matrix, whose coefficients have changed.
    fn update(&mut self) -> Result<()> {
        Ok(())
    }

    /// Makes another iteration with the same operators and its own vectors, for another queue; without the preconditioners of higher
    /// ranks. Returns `None` if the operators have memory that only one may use at a time.
    fn another(&self) -> Result<Option<Box<dyn Iteration<B, T>>>> {
        Ok(None)
    }

    /// Returns the traffic of an iteration.
    fn traffic(&self) -> Vec<StepTraffic>;

    /// Returns the bytes of vectors held, besides `b` and `u`.
    fn workspace_bytes(&self) -> usize;
}
