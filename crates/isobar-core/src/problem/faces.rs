//! Problems given by the conductances of faces.

use std::ops::Range;

use super::gradient::Pair;
use super::{Boundary, Coefficient, DiffusionProblem, Field, Flow, RhsKind, Weighting};
use crate::execute::{rows, shared};
use crate::stencil::{Axis, Diffusion, Stencil};
use crate::{Error, Host, Result, Shape, Source};

/// The system (A u)_n = s_n u_n + Σ T_nm (u_n − u_m) with a conductance T for each face between two cells and a shift s for each cell, as for finite
/// volumes on unequal cells, cut cells and networks.
///
/// Cells have no volume here: a right-hand side is the total inflow of each cell. A coupling to a value beyond a side is part of s, and times that
/// value part of the right-hand side. A cell without conductances and shift is inactive, unless a mask marks it as active; then it may have no
/// source.
#[derive(Clone, Debug)]
pub struct FaceProblem {
    matrix: Diffusion,
    /// A problem on the same cells with κ = 1 in active ones, for right-hand sides and sides.
    cells: DiffusionProblem,
}

/// Derivatives of a number by the coefficients of a [`FaceProblem`], in the order of its arrays.
#[derive(Clone, Debug, PartialEq)]
pub struct FaceGradient {
    /// Derivatives by the conductances between neighbours in x, y and z.
    pub faces: [Vec<f64>; 3],
    /// Derivatives by the shift of every cell.
    pub shift: Vec<f64>,
}

impl FaceProblem {
    /// Makes a problem from conductances; see [`Diffusion::from_faces`].
    ///
    /// # Errors
    /// See [`Diffusion::from_faces`]; [`Error::Invalid`] if no cell is active.
    pub fn new(
        shape: Shape,
        faces: [Vec<f64>; 3],
        is_periodic: [bool; 3],
        shift: Option<Vec<f64>>,
        active: Option<&[bool]>,
    ) -> Result<Self> {
        let matrix = Diffusion::from_faces(shape, faces, is_periodic, shift, active)?;
        let set = |ones: &mut [f64], takes_part: &[bool]| {
            ones.iter_mut().zip(takes_part).for_each(|(one, &takes_part)| *one = f64::from(u8::from(takes_part)));
        };
        let (ones, is_empty) = if let Some(active) = active {
            // Sources of cells that have neither conductance nor shift must not be left out before a solve can refuse them.
            let ones = Field::new(shape.cells(), |first, ones| set(ones, &active[first..]));
            (ones, active.iter().filter(|is_active| **is_active).count() == matrix.isolated().len())
        } else {
            let ones = Field::from(shared(&Host, shape.cells(), shape.nx, |row, ones| {
                let mut takes_part = vec![false; ones.len()];
                matrix.find_active(row, &mut takes_part);
                set(ones, &takes_part);
            }));
            let is_empty = !ones.values().contains(&1.0);
            (ones, is_empty)
        };
        if is_empty {
            let count = shape.cells();
            return Err(match active {
                Some(active) if !active.contains(&true) => {
                    Error::invalid("active", format!("none of the {count} cells is active; check the mask"))
                }
                Some(_) => {
                    Error::invalid("conductances", "none of the active cells has one, or a shift, that is not 0")
                }
                None => {
                    let message = format!("none of the {count} cells has a conductance or a shift that is not 0");
                    Error::invalid("conductances", message)
                }
            });
        }
        let mut cells = DiffusionProblem::new(shape, Coefficient::Shared([&ones; 3].map(Field::clone)));
        for (sides, _) in cells.boundary.iter_mut().zip(is_periodic).filter(|(_, is_periodic)| *is_periodic) {
            *sides = [Boundary::Periodic; 2];
        }
        Ok(Self { matrix, cells })
    }

    /// Makes the flow through its faces; nothing flows through the sides of the grid.
    pub fn flow(&self) -> Flow<'_> {
        self.cells.flow(&self.matrix)
    }

    /// Returns the matrix.
    pub fn stencil(&self) -> &Diffusion {
        &self.matrix
    }

    /// Computes a right-hand side in some rows of the grid, shape (nz, rows, nx), 0 in inactive cells; [`RhsKind::Manufactured`] is A x with x from
    /// [`FaceProblem::exact`].
    ///
    /// # Errors
    /// None but for memory.
    pub fn rhs_in(&self, rows: &Range<usize>, kind: Option<RhsKind>, seed: u64) -> Result<Vec<f64>> {
        if kind == Some(RhsKind::Manufactured) {
            return Ok(self.matrix.times_in(rows, |n| self.cells.exact_at(n)));
        }
        self.cells.checked()?.rhs_in(rows, kind, seed, Weighting::None)
    }

    /// Makes a right-hand side in some rows of the grid from the inflow of each of their cells, shape (nz, rows, nx).
    ///
    /// # Errors
    /// [`Error::Shape`] for another number of cells.
    pub fn rhs_from_in(&self, rows: &Range<usize>, values: Vec<f64>) -> Result<Vec<f64>> {
        self.cells.checked()?.rhs_from_in(rows, values, Weighting::None)
    }

    /// Writes the right-hand side for the inflow of each cell, 0 without one; `values` are in C order, shape (nz, ny, nx).
    ///
    /// # Errors
    /// [`Error::Shape`] for another number of cells; [`Error::Unsupported`] for a source on a device.
    pub fn write_rhs(&self, inflow: Option<Source<'_>>, values: &mut [f64]) -> Result<()> {
        self.cells.checked()?.write_rhs(inflow, Weighting::None, values)
    }

    /// Computes the derivatives of a number J(u) by all conductances and shifts for a fixed b, from a solution `u` of A u = b and its `adjoint` λ =
    /// A⁻¹ ∂J/∂u: −(λ_m − λ_n)(u_m − u_n) by the conductance between cells m and n, −λ_n u_n by the shift of cell n, and 0 by the faces and shifts of
    /// inactive cells.
    ///
    /// # Errors
    /// [`Error::Shape`] for arrays of another length.
    pub fn gradient(&self, u: &[f64], adjoint: &[f64]) -> Result<FaceGradient> {
        let pair = Pair::new(self.shape(), u, adjoint, false)?;
        let shape = self.shape();
        let faces = Axis::ALL.map(|axis| {
            let faces = shape.faces_between(axis, self.matrix.is_periodic(axis));
            rows(&Host, faces.cells(), faces.nx.max(1), |row, values: &mut [f64]| {
                for (i, value) in values.iter_mut().enumerate() {
                    let at = [i, row % faces.ny, row / faces.ny];
                    let between = self.matrix.upper(axis, at).map(|upper| [shape.number(at), shape.number(upper)]);
                    let open = between.filter(|cells| cells.iter().all(|&n| self.cells.takes_part(n)));
                    *value = open.map_or(0.0, |[lower, upper]| pair.by_face(lower, upper));
                }
            })
        });
        let shift = rows(&Host, u.len(), shape.nx, |row, values: &mut [f64]| {
            for (value, n) in values.iter_mut().zip(row * shape.nx..) {
                *value = if self.cells.takes_part(n) { pair.by_tie(n, 0.0) } else { 0.0 };
            }
        });
        Ok(FaceGradient { faces, shift })
    }

    /// Computes the exact solution of [`RhsKind::Manufactured`]; see [`DiffusionProblem::exact`]. It is 0 in cells without conductances and shift.
    pub fn exact(&self) -> Vec<f64> {
        let mut exact = self.cells.exact();
        self.matrix.isolated().iter().for_each(|&at| exact[self.shape().number(at)] = 0.0);
        exact
    }

    /// Returns the shape of the grid.
    pub fn shape(&self) -> Shape {
        Stencil::shape(&self.matrix)
    }
}
