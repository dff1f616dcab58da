//! Derivatives by the values on the sides of a box.

use super::Pair;
use crate::error::Result;
use crate::problem::{Boundary, DiffusionProblem};
use crate::stencil::Axis;

/// Derivatives of a number by the values on the faces of a side, in the order of [`SideFields`](crate::problem::SideFields). Their sum is the
/// derivative by a number common to all faces.
#[derive(Clone, Debug, PartialEq)]
pub struct SideGradient {
    /// Derivatives by the flux of a Neumann side, the value of a Dirichlet side or of a Robin side; 0 on periodic sides.
    pub value: Vec<f64>,
    /// Derivatives by the coefficient of a Robin side; 0 on all others.
    pub coefficient: Vec<f64>,
}

impl DiffusionProblem {
    /// Computes the derivatives of a number J(u) by the values and coefficients of the lower or the upper side of an axis, from u and λ of
    /// [`DiffusionProblem::gradient`].
    ///
    /// A side couples a cell to a value v by a conductance t. The derivative by v is t λ, by t it is λ (v − u); by the flux of a Neumann side it is A
    /// λ, A the area of the face. Where b does not follow the sides (without `moves_rhs`) it is 0 by values, and −λ u by t.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::error::Error::Shape) for arrays of another length.
    pub fn side_gradient(
        &self,
        u: &[f64],
        adjoint: &[f64],
        axis: Axis,
        is_upper: bool,
        moves_rhs: bool,
    ) -> Result<SideGradient> {
        let pair = Pair::new(self.shape, u, adjoint, moves_rhs)?;
        let driven = if moves_rhs { 1.0 } else { 0.0 };
        let of_cell = |at: [usize; 3]| {
            let n = self.cell(at);
            if !self.takes_part(n) {
                return (0.0, 0.0);
            }
            let (half, area, lambda) = (self.half(axis, at), self.area(axis, at), driven * adjoint[n]);
            match self.side_at(axis, is_upper, at) {
                Boundary::Periodic => (0.0, 0.0),
                Boundary::Neumann(_) => (lambda * area, 0.0),
                Boundary::Dirichlet(_) => (lambda * half, 0.0),
                Boundary::Robin { coefficient, value } => {
                    let film = coefficient * area;
                    let share = if half > 0.0 { half / (half + film) } else { 0.0 };
                    (lambda * share * film, pair.by_tie(n, value) * share * share * area)
                }
            }
        };
        // The cells at an end have the order of its faces.
        let (value, coefficient) = self.end(axis as usize, is_upper).map(of_cell).unzip();
        Ok(SideGradient { value, coefficient })
    }
}
