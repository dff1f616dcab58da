//! Diffusion with its unknowns at points inside a box; the sides are a whole grid distance away.

use std::ops::Range;

use super::sides::face_of;
use super::{Boundary, DiffusionProblem, RhsKind, SIDES, Spacing, Weighting};
use crate::stencil::{Axis, Diffusion};
use crate::{Error, Result};

/// The equation −∇·(κ∇u) + c u = f at the points inside a box, n of them per direction, h = L/(n + 1) apart, with values given on
/// its sides (papers C and E), by the finite differences
///
/// (A u)_n = V (c u_n + Σ κ (u_n − u_m)/h²),  V the product of all h,
///
/// over the neighbours m. Neighbours on a side have the side's value; the coupling between two points has the harmonic mean of κ.
/// A direction with one point is left out.
#[derive(Clone, Debug)]
pub struct PointProblem {
    /// The problem with cells around the points, without the Dirichlet sides.
    pub inner: DiffusionProblem,
    /// Positions of the unknowns in x, y and z.
    pub coordinates: [Vec<f64>; 3],
    /// The number of each point beside a Dirichlet side, its coupling κ V/h², and the side's value.
    ties: Vec<(usize, f64, f64)>,
}

impl PointProblem {
    /// Makes it from a problem whose widths are ignored, on a box of this size.
    ///
    /// # Errors
    /// [`Error::Invalid`] for sides that are neither Dirichlet nor periodic (Robin sides need cells), for wells and point sources.
    pub fn new(problem: DiffusionProblem, size: [f64; 3]) -> Result<Self> {
        problem.check_sides()?;
        let (extents, boundary) = (problem.shape.extents(), problem.boundary);
        let mut inner = problem;
        let fields = std::mem::take(&mut inner.side_fields);
        let (mut spacing, mut origin) = ([0.0; 3], [0.0; 3]);
        for d in 0..3 {
            let n = extents[d] as f64;
            (spacing[d], origin[d]) = match boundary[d] {
                _ if extents[d] == 1 => (size[d], 0.5 * size[d]),
                [Boundary::Periodic, Boundary::Periodic] => (size[d] / n, 0.0),
                [Boundary::Dirichlet(_), Boundary::Dirichlet(_)] => (size[d] / (n + 1.0), size[d] / (n + 1.0)),
                [lower, _] => {
                    let side = SIDES[d][usize::from(matches!(lower, Boundary::Dirichlet(_)))];
                    return Err(Error::invalid(
                        "diffusion.boundary",
                        format!(
                            "unknowns at points need a value on every side, but {side} is closed, or has a flux or a film (beside others, a side \
                             without a condition is closed); give it a value, as in {side} = {{ dirichlet = 0.0 }}, or use unknowns = \"cells\""
                        ),
                    ));
                }
            };
            inner.spacing[d] = Spacing::Uniform(spacing[d]);
            if extents[d] == 1 || inner.boundary[d][0] != Boundary::Periodic {
                inner.boundary[d] = [Boundary::Neumann(0.0); 2];
            }
        }
        if !inner.wells.is_empty() || !inner.sources.is_empty() {
            return Err(Error::invalid(
                "diffusion.wells",
                "wells and sources belong to cells; use unknowns = \"cells\" with them",
            ));
        }
        inner.validate()?;
        let volume: f64 = spacing.iter().product();
        let mut ties = Vec::new();
        for at in inner.cells_on_sides().filter(|&at| inner.is_active(at)) {
            let n = inner.cell(at);
            for axis in Axis::ALL {
                let d = axis as usize;
                let kappa = inner.coefficient.along(axis)[n];
                for (side, is_on_it) in [at[d] == 0, at[d] + 1 == extents[d]].into_iter().enumerate() {
                    if let (Boundary::Dirichlet(value), true, true) = (boundary[d][side], is_on_it, extents[d] > 1) {
                        let value =
                            fields[d][side].value.as_ref().map_or(value, |field| field[face_of(inner.shape, axis, at)]);
                        ties.push((n, kappa * volume / (spacing[d] * spacing[d]), value));
                    }
                }
            }
        }
        let coordinates = [0, 1, 2].map(|d| (0..extents[d]).map(|m| origin[d] + m as f64 * spacing[d]).collect());
        Ok(Self { inner, coordinates, ties })
    }

    /// Makes the matrix.
    ///
    /// # Errors
    /// See [`DiffusionProblem::stencil`].
    pub fn stencil(&self) -> Result<Diffusion> {
        self.with_ties(&self.inner.stencil()?)
    }

    /// Adds the couplings of points to the sides to a matrix of the inner problem.
    pub(super) fn with_ties(&self, inner: &Diffusion) -> Result<Diffusion> {
        if self.ties.is_empty() {
            return Ok(inner.clone());
        }
        let mut shift = vec![0.0; self.inner.shape.cells()];
        for &(n, tie, _) in &self.ties {
            shift[n] += tie;
        }
        inner.with_more_shift(1.0, &shift)
    }

    /// Adds the contributions of the values on the sides to a right-hand side in some rows of the grid, (nz, rows, nx).
    pub(super) fn add_sides_in(&self, rows: &Range<usize>, rhs: &mut [f64]) {
        let shape = self.inner.shape;
        for &(n, tie, value) in &self.ties {
            let [i, j, k] = shape.place(n);
            if rows.contains(&j) {
                rhs[i + shape.nx * (j - rows.start + rows.len() * k)] += tie * value;
            }
        }
    }

    /// Makes a right-hand side as [`DiffusionProblem::rhs`] does.
    ///
    /// # Errors
    /// See [`PointProblem::stencil`].
    pub fn rhs(&self, kind: Option<RhsKind>, seed: u64, weighting: Weighting) -> Result<Vec<f64>> {
        self.rhs_in(&(0..self.inner.shape.ny), kind, seed, weighting)
    }

    /// Makes some rows of a right-hand side as [`CheckedProblem::rhs_in`](super::CheckedProblem::rhs_in) does.
    ///
    /// # Errors
    /// See [`PointProblem::stencil`].
    pub fn rhs_in(
        &self,
        rows: &Range<usize>,
        kind: Option<RhsKind>,
        seed: u64,
        weighting: Weighting,
    ) -> Result<Vec<f64>> {
        if kind == Some(RhsKind::Manufactured) {
            return Ok(self.stencil()?.times_in(rows, |n| self.inner.exact_at(n)));
        }
        let mut values = self.inner.checked()?.rhs_in(rows, kind, seed, weighting)?;
        self.add_sides_in(rows, &mut values);
        Ok(values)
    }

    /// Makes a right-hand side as [`DiffusionProblem::rhs_from`] does.
    ///
    /// # Errors
    /// See [`PointProblem::stencil`].
    pub fn rhs_from(&self, body: Vec<f64>, weighting: Weighting) -> Result<Vec<f64>> {
        self.rhs_from_in(&(0..self.inner.shape.ny), body, weighting)
    }

    /// Makes some rows of a right-hand side as [`CheckedProblem::rhs_from_in`](super::CheckedProblem::rhs_from_in) does.
    ///
    /// # Errors
    /// See [`PointProblem::stencil`].
    pub fn rhs_from_in(&self, rows: &Range<usize>, body: Vec<f64>, weighting: Weighting) -> Result<Vec<f64>> {
        let mut values = self.inner.checked()?.rhs_from_in(rows, body, weighting)?;
        self.add_sides_in(rows, &mut values);
        Ok(values)
    }
}
