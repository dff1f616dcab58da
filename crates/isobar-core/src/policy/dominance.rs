//! Conjugate gradients without multigrid, where a shift, as that of a short time step, dominates the couplings.

use super::Choice;
use super::choice::Tried;
use crate::options::{Method, Preconditioner};

/// The most iterations that take less time than the setup of multigrid and its iterations…
const MOST: f64 = 40.0;
/// …with lines, beside which levels are those of thin cells, that take longer…
const MOST_BY_LINES: f64 = 60.0;
/// …and where levels are made in little time: of cycles that relax points, and on a GPU. Measured: docs/notes/diffusion-multigrid.md, "Shifts that
/// dominate".
const MOST_BESIDE_FAST: f64 = 25.0;
/// The bound of iterations over the most, up to which they are tried; rough coefficients take about half of the bound…
const BOUND: f64 = 1.9;
/// …and where levels are made in little time.
const BOUND_BESIDE_FAST: f64 = 1.2;
/// The time of an iteration with lines over that of one with the diagonal or without.
const LINES: f64 = 1.5;
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
    /// That of the couplings beside those of lines along z, if these are solved exactly.
    pub(crate) beside_lines: Option<f64>,
    /// The largest diagonal entry without the shift.
    pub(crate) diagonal: f64,
    /// The smallest and the largest shift.
    pub(crate) shift: [f64; 2],
}

impl Dominance {
    /// Returns whether few iterations suffice for this tolerance, with this preconditioner: none, the diagonal, or lines.
    pub(crate) fn is_strong(&self, by: Preconditioner, tolerance: f64) -> bool {
        self.iterations(by, tolerance) <= FEW
    }

    /// Returns whether shifts are even, and the bound of iterations with this preconditioner, the diagonal or lines, is at most `most`, for all rows or
    /// among some; or whether the condition number is small.
    fn is_few(&self, by: Preconditioner, tolerance: f64, most: f64, sampled: &impl Fn(bool) -> f64) -> bool {
        let iterations = self.iterations(by, tolerance);
        let by_samples = || bound(2.0 * sampled(by == Preconditioner::Line) + 1.0, tolerance);
        let is_even = self.shift[0] > 0.0 && self.shift[1] <= EVEN * self.shift[0];
        iterations <= FEW || (is_even && iterations.is_finite() && (iterations <= most || by_samples() <= most))
    }

    /// Returns whether lines may take less time than no preconditioner, and than multigrid; see [`Dominance::tried`].
    pub(crate) fn has_lines(&self, tolerance: f64, sampled: impl Fn(bool) -> f64) -> bool {
        self.has_lines_instead(Preconditioner::None, tolerance, BOUND * MOST_BY_LINES, &sampled)
    }

    /// Returns whether lines may take less time than another preconditioner, and their bound of iterations is at most `most`.
    fn has_lines_instead(&self, of: Preconditioner, tolerance: f64, most: f64, sampled: &impl Fn(bool) -> f64) -> bool {
        let [by_lines, otherwise] = [Preconditioner::Line, of].map(|by| self.iterations(by, tolerance));
        LINES * by_lines <= otherwise && self.is_few(Preconditioner::Line, tolerance, most, sampled)
    }

    /// Returns conjugate gradients without a preconditioner, with the diagonal, or with lines, if these may take less time than `other`, whose levels this
    /// device may make fast. `sampled` returns the largest sum of couplings over the shift among some rows, of all or of those beside lines, which
    /// decides where no bound does.
    pub(crate) fn tried(
        &self,
        tolerance: f64,
        (other, makes_levels_fast): (&Choice, bool),
        sampled: impl Fn(bool) -> f64,
    ) -> Option<Tried> {
        let has_points = other.method == Method::Multigrid;
        // The most iterations, and the largest bound of them.
        let limits = |by: Preconditioner| match by {
            Preconditioner::Line if !has_points => [MOST_BY_LINES, BOUND * MOST_BY_LINES],
            _ if has_points || makes_levels_fast => [MOST_BESIDE_FAST, BOUND_BESIDE_FAST * MOST_BESIDE_FAST],
            _ => [MOST, BOUND * MOST],
        };
        let simple = match self.iterations(Preconditioner::None, tolerance) <= limits(Preconditioner::None)[1] {
            true => Some(Preconditioner::None),
            false => Some(Preconditioner::Jacobi).filter(|&by| self.is_few(by, tolerance, limits(by)[1], &sampled)),
        };
        let instead_of = simple.unwrap_or(Preconditioner::Jacobi);
        let has_lines = self.has_lines_instead(instead_of, tolerance, limits(Preconditioner::Line)[1], &sampled);
        let preconditioner = if has_lines { Preconditioner::Line } else { simple? };
        Some(Tried { preconditioner, most_iterations: limits(preconditioner)[0] })
    }

    /// Returns the bound of iterations. With the diagonal, eigenvalues are between 1 − ρ and 1 + ρ, where ρ is the largest ratio of a row's couplings
    /// to its diagonal; with lines, of the couplings beside them to these and the shift.
    fn iterations(&self, by: Preconditioner, tolerance: f64) -> f64 {
        let Self { couplings, beside_lines, diagonal, shift: [least, most] } = *self;
        let largest = match by {
            Preconditioner::None => couplings + diagonal + most,
            Preconditioner::Line => beside_lines.map_or(f64::INFINITY, |beside| 2.0 * beside + least),
            _ => 2.0 * couplings + least,
        };
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
            let dominance = Dominance { couplings, beside_lines: None, diagonal: couplings, shift };
            dominance
                .tried(tolerance, (other, false), |_| sampled)
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
        let even = Dominance { couplings: 20.0, beside_lines: None, diagonal: 20.0, shift: [1.0; 2] };
        assert_eq!(even.tried(1e-4, (&Choice::galerkin(), true), |_| 1e9), None);
        let held = Dominance { couplings: 1.0, beside_lines: None, diagonal: 1.0, shift: [1.0, 1e6] };
        assert_eq!([Preconditioner::None, Preconditioner::Jacobi].map(|by| held.is_strong(by, 1e-8)), [false, true]);
        // Thin cells: what is beside lines decides, and few of their iterations are better than more without.
        let thin = |beside, shift| {
            let thin = Dominance { couplings: 1e4, beside_lines: Some(beside), diagonal: 1e4, shift: [shift; 2] };
            let tried =
                thin.tried(1e-8, (&Choice::galerkin(), false), |is_beside| if is_beside { 3.0 * beside } else { 1e9 });
            (tried.map(|tried| tried.preconditioner), thin.is_strong(Preconditioner::Line, 1e-8))
        };
        let line = Some(Preconditioner::Line);
        assert_eq!([thin(1.0, 1.0), thin(10.0, 1.0), thin(100.0, 1.0)], [(line, true), (line, false), (None, false)]);
        assert_eq!(
            [thin(1.0, 1e3).0, thin(5e3, 1e3).0, thin(1.0, 1e5).0],
            [line, plain.map(|_| Preconditioner::None), plain.map(|_| Preconditioner::None)]
        );
    }
}
