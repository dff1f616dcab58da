//! Iterations, written once over any back end.
//!
//! * [`cg`] preconditioned conjugate gradients, fused and textbook,
//! * [`bicgstab`] for non-symmetric operators,
//! * [`multigrid`] multigrid as an iteration; [`crate::precond::multigrid`] holds the cycle,
//! * [`jacobi`] Jacobi's method, plain and hierarchical, `momentum` how its sweeps are accelerated, [`batch`] lines each with a
//!   stopping test of its own,
//! * [`modes`] vertical modes of a tensor product, [`direct`] transforms that solve a separable matrix,
//! * [`monitor`] decides when to stop, `spectrum` what the condition number was.

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

use crate::array::{Source, Target};
use crate::backend::Backend;
use crate::error::Result;
use crate::operator::{Guess, Judged};
use crate::outcome::Batch;
use crate::real::Real;
use crate::traffic::StepTraffic;

pub use monitor::{Broken, Monitor, Observer, Progress, ignore};

/// An iterative method with its workspace, made once and used for any number of right-hand sides.
pub trait Iteration<B: Backend, T: Real>: Send {
    /// Takes up a first guess, and computes ‖b − A u‖, or in the norm that the iteration watches, which for
    /// [`Guess::Zero`] is ‖b‖ and left to the caller. What it needs of the residual it keeps for [`Iteration::run`].
    ///
    /// # Errors
    /// The errors of the device.
    fn begin(&mut self, b: &B::Vector<T>, u: &mut B::Vector<T>, guess: Guess) -> Result<Option<f64>>;

    /// Whether [`Iteration::begin`] finds ‖b‖ on its way, for [`Guess::Zero`], so that the caller need not.
    fn finds_norm_of_rhs(&self) -> bool {
        false
    }

    /// Improves `u` until the monitor says stop, or finds the preconditioner slow. The monitor has been told ‖r₀‖, and
    /// [`Iteration::begin`] was called with the same `b`, `u` and `guess`. In `best`, where given, goes a copy of an iterate
    /// that was much better than those after it, if there was one; the monitor knows.
    ///
    /// # Errors
    /// Only what the device reports; not converging is the monitor's to say.
    fn run(
        &mut self,
        b: &mut B::Vector<T>,
        u: &mut B::Vector<T>,
        guess: Guess,
        best: Option<&mut B::Vector<f64>>,
        monitor: &mut Monitor<'_>,
    ) -> Result<()>;

    /// Solves between callers' arrays at once, see [`DirectSolver::solve_arrays`](crate::operator::DirectSolver::solve_arrays).
    ///
    /// # Errors
    /// The errors of the device.
    fn solve_arrays(&mut self, b: &Source<'_>, u: &mut Target<'_>) -> Result<Option<Judged>> {
        let _ = (b, u);
        Ok(None)
    }

    /// ‖b − A u‖ of the u that the last [`Iteration::run`] left, where it was computed from that u in double precision, so that
    /// nobody need do it again.
    fn residual_left(&self) -> Option<f64> {
        None
    }

    /// The outcome of the lines of a batch in the last [`Iteration::run`].
    fn batch(&self) -> Option<Batch> {
        None
    }

    /// Takes the preconditioner of this rank from now on: 0 is the one that was asked for, others are simpler and safer.
    /// Returns its name, or nothing where there is none and all stays as it is.
    fn choose(&mut self, rank: usize) -> Option<&'static str> {
        let _ = rank;
        None
    }

    /// z = M⁻¹ r with a fixed linear M: the preconditioner of a Krylov method, one cycle or sweep from zero of other methods.
    ///
    /// # Errors
    /// The errors of the device.
    fn precondition(&mut self, r: &mut B::Vector<T>, z: &mut B::Vector<T>) -> Result<()>;

    /// Whether that M is symmetric where A is. Cycles are not whose restriction is not the transpose of prolongation.
    fn preconditions_symmetrically(&self) -> bool {
        true
    }

    /// Computes anew what depends on the matrix, whose coefficients have changed.
    ///
    /// # Errors
    /// The errors of the device.
    fn update(&mut self) -> Result<()> {
        Ok(())
    }

    /// The traffic that an iteration declares.
    fn traffic(&self) -> Vec<StepTraffic>;

    /// Bytes of vectors held, beside `b` and `u`.
    fn workspace_bytes(&self) -> usize;
}
