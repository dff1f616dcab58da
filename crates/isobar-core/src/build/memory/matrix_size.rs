//! The properties of a matrix that are known before its numbers.

use crate::layout::Shape;
use crate::options::{CyclePrecision, Method, SolverOptions};
use crate::policy::Choice;
use crate::stencil::orientation::Orientation;
use crate::stencil::turns::Turns;
use crate::stencil::{Coefficients, Crossing, Diffusion, OwnOperator, Stencil, StoredMatrix, TensorProduct};

/// The properties of a matrix that determine its memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixSize {
    /// The grid.
    pub shape: Shape,
    /// The stencil.
    pub kind: MatrixKind,
    /// The stored numbers per cell.
    pub values: f64,
    /// Couplings in x, y and z over those in x, roughly: they decide which directions coarser grids halve; those of tensor products do not
    /// halve z.
    pub strengths: [f64; 3],
    /// Whether x, y and z are periodic.
    pub is_periodic: [bool; 3],
    /// The directions whose couplings cross, if known.
    pub crossing: Crossing,
}

/// The kind of a stencil.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixKind {
    /// [`TensorProduct`]
    TensorProduct,
    /// [`Diffusion`]
    Diffusion,
    /// [`StoredMatrix`]
    Stored,
    /// [`OwnOperator`], of which nothing is counted that the caller's function keeps.
    Own,
}

impl MatrixSize {
    fn of(shape: Shape, kind: MatrixKind, values: f64) -> Self {
        Self { shape, kind, values, strengths: [1.0, 1.0, 0.0], is_periodic: [false; 3], crossing: Crossing::default() }
    }

    /// Returns the size of a tensor product, which stores seven numbers a column.
    pub fn tensor_product(shape: Shape) -> Self {
        Self::of(shape, MatrixKind::TensorProduct, 7.0 / shape.nz as f64)
    }
}

impl From<&TensorProduct> for MatrixSize {
    fn from(matrix: &TensorProduct) -> Self {
        Self::tensor_product(matrix.shape())
    }
}

impl From<&Diffusion> for MatrixSize {
    fn from(matrix: &Diffusion) -> Self {
        let strengths = matrix.strengths();
        let fields = match matrix.coefficients() {
            Coefficients::Cells { fields, .. } => fields.len(),
            Coefficients::DeviceCells { fields, .. } => fields.len(),
            Coefficients::Faces(_) | Coefficients::DeviceFaces { .. } => 3,
        };
        Self {
            shape: matrix.shape(),
            kind: MatrixKind::Diffusion,
            values: fields as f64 + f64::from(matrix.has_shift()),
            strengths: strengths.map(|strength| strength / strengths[0]),
            is_periodic: matrix.periodic(),
            crossing: matrix.crossing(),
        }
    }
}

impl From<&StoredMatrix> for MatrixSize {
    /// Columns take half as much as values in double precision; rows and the diagonal two vectors.
    fn from(matrix: &StoredMatrix) -> Self {
        let (shape, entries) = (matrix.shape(), matrix.matrix().entries() as f64);
        Self::of(shape, MatrixKind::Stored, 1.5 * entries / shape.cells() as f64 + 2.0)
    }
}

impl From<&OwnOperator> for MatrixSize {
    fn from(matrix: &OwnOperator) -> Self {
        Self::of(matrix.shape(), MatrixKind::Own, 0.0)
    }
}

impl MatrixSize {
    /// Returns the solver that such a matrix chooses if options leave it open, as [`Stencil::choice`] does; for a stored matrix, if it is
    /// symmetric. Coefficients decide for a tensor product ([`Method::Auto`]), and for diffusion, for which this is the choice that takes more
    /// memory.
    pub fn choice(&self) -> Choice {
        match self.kind {
            MatrixKind::TensorProduct => Choice { method: Method::Auto, ..Choice::cycles() },
            MatrixKind::Diffusion => Choice { cycles: CyclePrecision::Auto, ..Choice::galerkin() },
            MatrixKind::Stored => Choice::of_rows(true, true),
            MatrixKind::Own => Choice::of_rows(true, false),
        }
    }

    /// Returns the matrix that a solver with these options works with, on copies of odd periodic directions or with directions in a device's order,
    /// and whether that is a copy in another order.
    pub(super) fn around(&self, options: &SolverOptions, orientation: Orientation) -> (Self, bool) {
        let turns = (self.kind == MatrixKind::Diffusion)
            .then(|| {
                orientation.turns(self.shape, self.is_periodic, options, || self.crossing.most(), || self.strengths)
            })
            .flatten();
        let turns = turns.unwrap_or_else(|| Turns::of(self.shape, self.is_periodic));
        let (strengths, is_periodic) = (turns.of_axes(self.strengths), turns.of_axes(self.is_periodic));
        let around = Self {
            shape: turns.around(self.shape),
            strengths,
            is_periodic,
            crossing: self.crossing.around(turns),
            ..*self
        };
        (around, turns.moves(self.shape))
    }
}
