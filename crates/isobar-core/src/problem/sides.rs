//! Boundary conditions on the sides of a box.

use super::{DiffusionProblem, SIDES};
use crate::stencil::Axis;
use crate::{Error, Result, Shape};

/// The boundary condition on one side of the domain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Boundary {
    /// The flux κ ∂u/∂n into the domain, per unit area.
    Neumann(f64),
    /// The value of u on the side.
    Dirichlet(f64),
    /// A flux out of the domain, per unit area, proportional to the excess of u on the side over v:
    ///
    /// −κ ∂u/∂n = h (u − v),  h ≥ 0
    ///
    /// It passes through half a cell of width Δ first, so that the cell and v are coupled by A / (Δ/(2κ) + 1/h), A the area of the face. h = 0
    /// is no flow, and a large h holds u at v.
    Robin {
        /// h, a conductance per unit area.
        coefficient: f64,
        /// v, the value of u outside.
        value: f64,
    },
    /// The opposite side is the neighbour.
    Periodic,
}

impl Default for Boundary {
    fn default() -> Self {
        Self::Neumann(0.0)
    }
}

/// Numbers that differ from face to face on a side and replace those of its [`Boundary`], in C order: shape (nz, ny) for a side of x, (nz, nx)
/// for one of y, (ny, nx) for one of z.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SideFields {
    /// The flux of a Neumann side, the value of a Dirichlet side or of a Robin side.
    pub value: Option<Vec<f64>>,
    /// The coefficient of a Robin side.
    pub coefficient: Option<Vec<f64>>,
}

impl SideFields {
    /// Returns the boundary condition on a face of a side, given by its number.
    pub(super) fn at(&self, side: Boundary, face: usize) -> Boundary {
        let of_face = |field: &Option<Vec<f64>>, number| field.as_ref().map_or(number, |f| f[face]);
        match side {
            Boundary::Neumann(flux) => Boundary::Neumann(of_face(&self.value, flux)),
            Boundary::Dirichlet(value) => Boundary::Dirichlet(of_face(&self.value, value)),
            Boundary::Robin { coefficient, value } => Boundary::Robin {
                coefficient: of_face(&self.coefficient, coefficient),
                value: of_face(&self.value, value),
            },
            Boundary::Periodic => Boundary::Periodic,
        }
    }
}

/// Returns the number of a cell's face among those of a side of this axis.
pub(super) fn face_of(shape: Shape, axis: Axis, [i, j, k]: [usize; 3]) -> usize {
    match axis {
        Axis::X => j + shape.ny * k,
        Axis::Y => i + shape.nx * k,
        Axis::Z => i + shape.nx * j,
    }
}

/// Returns two conductances in series, without overflow.
pub(super) fn in_series(a: f64, b: f64) -> f64 {
    let (less, more) = (a.min(b), a.max(b));
    if more > 0.0 { less / (1.0 + less / more) } else { 0.0 }
}

impl DiffusionProblem {
    /// Returns the boundary condition on the face of a cell at the lower or the upper side of an axis.
    pub(super) fn side_at(&self, axis: Axis, is_upper: bool, at: [usize; 3]) -> Boundary {
        let (d, side) = (axis as usize, usize::from(is_upper));
        self.side_fields[d][side].at(self.boundary[d][side], face_of(self.shape, axis, at))
    }

    /// Returns whether the lower or the upper side of direction d may contribute to the right-hand side.
    pub(super) fn is_driven(&self, d: usize, is_upper: bool) -> bool {
        let side = usize::from(is_upper);
        match self.boundary[d][side] {
            Boundary::Periodic => false,
            Boundary::Neumann(value) | Boundary::Dirichlet(value) | Boundary::Robin { value, .. } => {
                value != 0.0 || self.side_fields[d][side].value.is_some()
            }
        }
    }

    /// Returns A, the area of a cell's faces across an axis.
    pub(super) fn area(&self, axis: Axis, at: [usize; 3]) -> f64 {
        self.volume(at) / self.widths(at)[axis as usize]
    }

    /// Returns A / (Δ/(2κ) + 1/h), the coupling of a cell to the value outside a Robin side.
    pub(super) fn through(&self, axis: Axis, at: [usize; 3], coefficient: f64) -> f64 {
        in_series(self.half(axis, at), coefficient * self.area(axis, at))
    }

    /// Returns the cells at Robin sides and their couplings to the values outside. A cell in a corner appears once for each side.
    pub(super) fn robin_ties(&self) -> impl Iterator<Item = ([usize; 3], f64)> {
        let sides = Axis::ALL.into_iter().flat_map(|axis| [false, true].map(|is_upper| (axis, is_upper)));
        let is_robin = |&(axis, is_upper): &(Axis, bool)| {
            matches!(self.boundary[axis as usize][usize::from(is_upper)], Boundary::Robin { .. })
        };
        sides.filter(is_robin).flat_map(move |(axis, is_upper)| {
            self.end(axis as usize, is_upper).map(move |at| match self.side_at(axis, is_upper, at) {
                Boundary::Robin { coefficient, .. } if self.is_active(at) => (at, self.through(axis, at, coefficient)),
                _ => (at, 0.0),
            })
        })
    }

    /// Fails for invalid numbers of sides.
    pub(super) fn check_sides(&self) -> Result<()> {
        for axis in Axis::ALL {
            for side in 0..2 {
                self.check_side(axis, side)?;
            }
        }
        Ok(())
    }

    fn check_side(&self, axis: Axis, side: usize) -> Result<()> {
        let d = axis as usize;
        let name = SIDES[d][side];
        let fail = |message: String| Err(Error::invalid(format!("diffusion.boundary.{name}"), message));
        let SideFields { value: values, coefficient: coefficients } = &self.side_fields[d][side];
        let (value, coefficient) = match self.boundary[d][side] {
            Boundary::Periodic => (None, None),
            Boundary::Neumann(value) | Boundary::Dirichlet(value) => (Some(value), None),
            Boundary::Robin { coefficient, value } => (Some(value), Some(coefficient)),
        };
        let axes = [[1, 2], [0, 2], [0, 1]][d];
        let [along, across] = axes.map(|e| self.shape.extents()[e]);
        let letters = axes.map(|e| ["x", "y", "z"][e]);
        let finite: (fn(f64) -> bool, &str) = (f64::is_finite, "use a finite number");
        let positive: (fn(f64) -> bool, &str) =
            (|h| h >= 0.0 && h.is_finite(), "use a finite number that is not negative");
        for (what, number, field, (is_right, remedy)) in
            [("the value", value, values, finite), ("the coefficient", coefficient, coefficients, positive)]
        {
            match (number, field) {
                (None, Some(_)) => return fail(format!("{what} is given for each face, but the side takes none")),
                (Some(number), None) if !is_right(number) => return fail(format!("{what} is {number}; {remedy}")),
                (Some(_), Some(field)) if field.len() != along * across => {
                    return fail(format!(
                        "{} numbers for {what}; give {}, one for each face, of shape (n{}, n{}) = ({across}, {along})",
                        field.len(),
                        along * across,
                        letters[1],
                        letters[0],
                    ));
                }
                (Some(_), Some(field)) => {
                    if let Some(n) = field.iter().position(|&number| !is_right(number)) {
                        let (m, l) = (n % along, n / along);
                        return fail(format!(
                            "{what} is {} on the face of cell {m} in {} and {l} in {}, counted from 0; {remedy}",
                            field[n], letters[0], letters[1]
                        ));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}
