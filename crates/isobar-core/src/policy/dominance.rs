//! Conjugate gradients without multigrid, where a shift, as that of a short time step, dominates the couplings.

use super::Choice;
use crate::options::{Method, Preconditioner};

/// The most iterations by their bound that take less time than the setup of multigrid and its iterations…
const FEW: f64 = 20.0;
/// …and than cycles that relax points, whose levels are made in little time. Measured: docs/notes/diffusion-multigrid.md, "Shifts that dominate".
const FEW_BESIDE_POINTS: f64 = 12.0;

/// Bounds of the rows of a matrix, which bound its condition number.
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
    /// Returns whether any choice may follow for this tolerance: with the diagonal, eigenvalues are between 1 − ρ and 1 + ρ, where ρ is the
    /// largest ratio of a row's couplings to its diagonal.
    pub(crate) fn is_strong(&self, tolerance: f64) -> bool {
        self.iterations(true, tolerance) <= FEW
    }

    /// Returns conjugate gradients without a preconditioner, or with the diagonal, if one of these takes few iterations, instead of `other`.
    pub(crate) fn choice(&self, tolerance: f64, other: Choice) -> Choice {
        let few = if other.method == Method::Multigrid { FEW_BESIDE_POINTS } else { FEW };
        let [plain, diagonal] = [false, true].map(|has_diagonal| self.iterations(has_diagonal, tolerance));
        let (preconditioner, iterations) = match plain <= few {
            true => (Preconditioner::None, plain),
            false => (Preconditioner::Jacobi, diagonal),
        };
        if iterations.is_nan() || iterations > few {
            return other;
        }
        let why =
            format!("no multigrid: the shift dominates the couplings, {:.0} iterations suffice", iterations.ceil());
        Choice { why: Some(why), ..Choice::new(Method::Cg, preconditioner) }
    }

    /// Returns the bound of iterations, ½ √κ ln(2/tolerance) (Saad, Iterative Methods for Sparse Linear Systems, 2003, eq. 6.128), κ by Gershgorin's
    /// circles.
    fn iterations(&self, has_diagonal: bool, tolerance: f64) -> f64 {
        let Self { couplings, diagonal, shift: [least, most] } = *self;
        let largest = if has_diagonal { 2.0 * couplings + least } else { couplings + diagonal + most };
        if least > 0.0 { 0.5 * (largest / least).sqrt() * (2.0 / tolerance).ln() } else { f64::INFINITY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Smoother;

    #[test]
    fn a_shift_that_dominates_needs_no_multigrid() {
        let of = |couplings: f64, shift: [f64; 2], tolerance: f64, other: Choice| {
            let dominance = Dominance { couplings, diagonal: couplings, shift };
            let choice = dominance.choice(tolerance, other);
            assert!(dominance.is_strong(tolerance) || choice.preconditioner == Preconditioner::Multigrid);
            (choice.method, choice.preconditioner)
        };
        let points = Choice { method: Method::Multigrid, smoother: Smoother::PointRedBlack, ..Choice::galerkin() };
        let [plain, jacobi] = [Preconditioner::None, Preconditioner::Jacobi].map(|kind| (Method::Cg, kind));
        let multigrid = (Method::Cg, Preconditioner::Multigrid);
        // κ = 3, 9 iterations; κ = 9, 15 iterations.
        assert_eq!(of(1.0, [1.0; 2], 1e-4, Choice::galerkin()), plain);
        assert_eq!(of(1.0, [1.0; 2], 1e-4, points.clone()), plain);
        assert_eq!(of(4.0, [1.0; 2], 1e-4, Choice::galerkin()), plain);
        assert_eq!(of(4.0, [1.0; 2], 1e-4, points.clone()), (Method::Multigrid, Preconditioner::Multigrid));
        assert_eq!(of(1.0, [1.0, 1e6], 1e-4, Choice::galerkin()), jacobi);
        assert_eq!(of(4.0, [1.0; 2], 1e-8, Choice::galerkin()), multigrid);
        assert_eq!(of(1e12, [1.0; 2], 1e-8, Choice::galerkin()), multigrid);
        assert_eq!(of(1e-9, [0.0, 1.0], 1e-4, Choice::galerkin()), multigrid);
    }
}
