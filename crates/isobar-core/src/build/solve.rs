//! The interface of any solver.

use crate::backend::{DeviceInfo, Shares};
use crate::operator::Guess;
use crate::options::{Compatibility, Smoother};
use crate::outcome::{Outcome, Stop};
use crate::solver::Observer;
use crate::traffic::StepTraffic;
use crate::{Precision, Result, Shape, Source, Target};

/// A description of a solver.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// The device.
    pub device: DeviceInfo,
    /// The division of the grid among several ranks.
    pub shares: Option<Shares>,
    /// The iteration, by its name in case files.
    pub method: String,
    /// The preconditioner, by its name in case files; `none` for methods without one, `own` for a caller's.
    pub preconditioner: String,
    /// The relaxation inside multigrid, if there is any.
    pub smoother: Smoother,
    /// Storage of vectors.
    pub precision: Precision,
    /// The grids of the multigrid hierarchy, finest first; empty if there is none.
    pub levels: Vec<Shape>,
    /// Notes for the user: options that could not be followed, and why.
    pub notes: Vec<String>,
    /// Bytes of vectors on the device.
    pub bytes: usize,
    /// Bytes of coefficients, and of the operators' own working space, on the device.
    pub coefficient_bytes: usize,
    /// The traffic of an iteration, step by step.
    pub traffic: Vec<StepTraffic>,
}

/// Sums over a solution u of A u = b, in double precision, with the residual r = b − A u. From them a caller computes flows and energies
/// without a copy of u: A 1 has the shifts of A, those of its fixed sides among them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Balance {
    /// ⟨A 1 − b, u⟩, a flow out of the domain where the parts of b are values on sides.
    pub outflow: f64,
    /// Σ r, by which more flows into the domain than out of it.
    pub excess: f64,
    /// ⟨r, u⟩
    pub work: f64,
}

/// A solver ready for use, of any method and on any device.
pub trait Solve<S>: Send {
    /// Solves A u = `rhs`, starting from the values of `u` for [`Guess::Given`].
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) or [`Error::NotFinite`](crate::Error::NotFinite) for arrays that do not fit the
    /// problem; the errors of the device. Not converging is an outcome.
    fn solve(&mut self, rhs: Source<'_>, u: Target<'_>, guess: Guess, observer: &mut Observer<'_>) -> Result<Outcome>;

    /// Returns solvers of the same matrix, for up to this many systems, which may solve at the same time, each on its own queue; none if there
    /// would be only one. They have no methods in reserve, and do not change u if they neither converge nor are interrupted.
    fn beside(&mut self, systems: usize) -> Result<Vec<&mut dyn Solve<S>>> {
        let _ = systems;
        Ok(Vec::new())
    }

    /// Computes v = A u.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape); the errors of the device.
    fn apply(&mut self, u: Source<'_>, v: Target<'_>) -> Result<()>;

    /// Computes z = B r with a fixed linear B ≈ A⁻¹: `iterations` steps z += M⁻¹ (r − A z) from zero, where M is the
    /// preconditioner of a Krylov method, or one cycle of multigrid or of vertical modes, or the diagonal of Jacobi's method. The
    /// residual is not checked. Where A is singular, r and z lose their means over floating components.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape), [`Error::NotFinite`](crate::Error::NotFinite); the errors of the device.
    fn precondition(&mut self, r: Source<'_>, z: Target<'_>, iterations: usize) -> Result<()>;

    /// Sets the tolerance of later solves.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for one that is not between 0 and 1.
    fn set_tolerance(&mut self, tolerance: f64) -> Result<()>;

    /// Gives the matrix the coefficients of a stencil that differs from the present one in nothing else. Nothing is allocated,
    /// compiled or recorded again, if the preconditioner permits.
    ///
    /// # Errors
    /// See [`Stencil::check_update`](crate::stencil::Stencil::check_update); the errors of the device, and then the solver must
    /// be updated once more before it solves again.
    fn update(&mut self, stencil: &S) -> Result<()>;

    /// Computes sums of the last solution.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) for matrices other than diffusion; the errors of the device.
    fn balance(&mut self) -> Result<Balance>;

    /// Sets how later solves treat the part of a right-hand side that a singular matrix cannot produce; returns the former setting.
    fn set_compatibility(&mut self, compatibility: Compatibility) -> Compatibility;

    /// Describes the solver.
    fn description(&self) -> &Description;

    /// Measures the bytes a second that a copy of a vector of this size moves.
    fn copy_bandwidth(&self) -> Result<f64>;
}

/// Returns whether another method would not do better.
pub(super) fn is_final(outcome: &Outcome) -> bool {
    matches!(outcome.stop, Stop::Converged | Stop::Interrupted | Stop::MaxIterations)
}
