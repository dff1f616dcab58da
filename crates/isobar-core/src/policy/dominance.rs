//! Conjugate gradients without multigrid, where a shift, as that of a short time step, dominates the couplings.

use super::Choice;
use super::choice::Tried;
use crate::options::{Method, Preconditioner};

/// The most iterations that take less time than the setup of multigrid and its iterations…
const MOST: f64 = 40.0;
/// …and where levels are made in little time: of cycles that relax points, and on a GPU. Measured: docs/notes/diffusion-multigrid.md, "Shifts that
/// dominate".
const MOST_BESIDE_FAST: f64 = 25.0;
/// The bound of iterations over the most, up to which they are tried; rough coefficients take about half of the bound…
const BOUND: f64 = 1.9;
/// …and where levels are made in little time.
const BOUND_BESIDE_FAST: f64 = 1.2;
/// The largest shift over the smallest beyond which the condition number must be small: a residual that is small beside rows that are held by far larger
/// shifts says nothing of the others, unless the error can be estimated.
const EVEN: f64 = 100.0;
/// The most iterations by their bound with which the condition number counts as small.
const FEW: f64 = 20.0;

/// Bounds of the rows of a matrix, which bound its condition number by Gershgorin's circles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dominance {
    /// The largest sum of a row's couplings.
    pub(crate) couplings: f64,
    /// The largest diagonal entry without the shift.
    pub(crate) diagonal: f64,
    /// The smallest and the largest shift.
    pub(crate) shift: [f64; 2],
}

impl Dominance {
    /// Returns whether few iterations suffice for this tolerance, with the diagonal or without.
    pub(crate) fn is_strong(&self, has_diagonal: bool, tolerance: f64) -> bool {
        self.iterations(has_diagonal, tolerance) <= FEW
    }

    /// Returns conjugate gradients without a preconditioner, or with the diagonal, if these may take less time than `other`, whose levels this device
    /// may make fast. `sampled` returns the largest sum of couplings over the shift among some rows, which decides on the diagonal where no bound
    /// does.
    pub(crate) fn tried(
        &self,
        tolerance: f64,
        (other, makes_levels_fast): (&Choice, bool),
        sampled: impl FnOnce() -> f64,
    ) -> Option<Tried> {
        let (most_iterations, times) = match makes_levels_fast || other.method == Method::Multigrid {
            true => (MOST_BESIDE_FAST, BOUND_BESIDE_FAST),
            false => (MOST, BOUND),
        };
        let is_few = |iterations: f64| iterations <= times * most_iterations;
        let by = |preconditioner| Some(Tried { preconditioner, most_iterations });
        let [least, most] = self.shift;
        let is_even = least > 0.0 && most <= EVEN * least;
        if is_few(self.iterations(false, tolerance)) {
            by(Preconditioner::None)
        } else if self.is_strong(true, tolerance) || (is_even && is_few(self.iterations(true, tolerance))) {
            by(Preconditioner::Jacobi)
        } else if is_even {
            let condition = 2.0 * sampled() + 1.0;
            if is_few(bound(condition, tolerance)) { by(Preconditioner::Jacobi) } else { None }
        } else {
            None
        }
    }

    /// Returns the bound of iterations. With the diagonal, eigenvalues are between 1 − ρ and 1 + ρ, where ρ is the largest ratio of a row's couplings
    /// to its diagonal.
    fn iterations(&self, has_diagonal: bool, tolerance: f64) -> f64 {
        let Self { couplings, diagonal, shift: [least, most] } = *self;
        let largest = if has_diagonal { 2.0 * couplings + least } else { couplings + diagonal + most };
        if least > 0.0 { bound(largest / least, tolerance) } else { f64::INFINITY }
    }
}

/// Returns the bound of iterations for a condition number, ½ √κ ln(2/tolerance) (Saad, Iterative Methods for Sparse Linear Systems, 2003, eq. 6.128).
fn bound(condition: f64, tolerance: f64) -> f64 {
    0.5 * condition.sqrt() * (2.0 / tolerance).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Smoother;

    #[test]
    fn a_shift_that_dominates_needs_no_multigrid() {
        let points = Choice { method: Method::Multigrid, smoother: Smoother::PointRedBlack, ..Choice::galerkin() };
        let of = |couplings: f64, shift: [f64; 2], tolerance: f64, other: &Choice, sampled: f64| {
            let dominance = Dominance { couplings, diagonal: couplings, shift };
            dominance
                .tried(tolerance, (other, false), || sampled)
                .map(|tried| (tried.preconditioner, tried.most_iterations))
        };
        let [plain, jacobi] = [Preconditioner::None, Preconditioner::Jacobi].map(|kind| Some((kind, MOST)));
        // Bounds of 9 and 31 iterations.
        assert_eq!(of(1.0, [1.0; 2], 1e-4, &Choice::galerkin(), 1e9), plain);
        assert_eq!(of(1.0, [1.0; 2], 1e-4, &points, 1e9), Some((Preconditioner::None, MOST_BESIDE_FAST)));
        assert_eq!(of(20.0, [1.0; 2], 1e-4, &points, 1.0), Some((Preconditioner::Jacobi, MOST_BESIDE_FAST)));
        assert_eq!(of(20.0, [1.0; 2], 1e-4, &points, 1e9), None);
        assert_eq!(of(1.0, [1.0, 1e6], 1e-4, &Choice::galerkin(), 1e9), jacobi);
        // Bounds of 78 iterations by all rows, and by some of 30 and 86.
        assert_eq!(of(33.0, [1.0; 2], 1e-8, &Choice::galerkin(), 4.0), jacobi);
        assert_eq!(of(33.0, [1.0; 2], 1e-8, &Choice::galerkin(), 40.0), None);
        assert_eq!(of(33.0, [1.0, 1e3], 1e-8, &Choice::galerkin(), 4.0), None);
        assert_eq!(of(80.0, [1.0, 90.0], 1e-4, &Choice::galerkin(), 1e9), jacobi);
        assert_eq!(of(9.0, [1.0, 1e6], 1e-4, &Choice::galerkin(), 1.0), None);
        assert_eq!(of(1e-9, [0.0, 1.0], 1e-4, &Choice::galerkin(), 1.0), None);
        let even = Dominance { couplings: 20.0, diagonal: 20.0, shift: [1.0; 2] };
        assert_eq!(even.tried(1e-4, (&Choice::galerkin(), true), || 1e9), None);
        let held = Dominance { couplings: 1.0, diagonal: 1.0, shift: [1.0, 1e6] };
        assert_eq!([false, true].map(|has_diagonal| held.is_strong(has_diagonal, 1e-8)), [false, true]);
    }
}
