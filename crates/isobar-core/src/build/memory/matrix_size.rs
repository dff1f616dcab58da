//! The properties of a matrix that are known before its numbers.

use crate::layout::Shape;
use crate::options::{Choice, CyclePrecision, Method, Preconditioner};
use crate::stencil::rings::Turns;
use crate::stencil::{Axis, Coefficients, Diffusion, OwnOperator, Stencil, StoredMatrix, TensorProduct};

/// The properties of a matrix that determine its memory, known before its numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixSize {
    /// The grid.
    pub shape: Shape,
    /// The stored numbers.
    pub kind: MatrixKind,
}

/// The numbers that a matrix stores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MatrixKind {
    /// [`TensorProduct`]: numbers a column.
    TensorProduct,
    /// [`Diffusion`]: numbers a cell.
    Diffusion {
        /// Coefficient fields, one to three.
        fields: usize,
        /// Whether there are reactions or wells.
        has_shift: bool,
        /// Couplings in each direction over those in x, about: what decides which directions coarser grids halve.
        strengths: [f64; 3],
        /// Which directions are periodic.
        is_periodic: [bool; 3],
    },
    /// [`StoredMatrix`]: every entry.
    Stored {
        /// How many.
        entries: usize,
    },
    /// [`OwnOperator`]: what a caller's function keeps is not counted.
    Own,
}

impl From<&TensorProduct> for MatrixSize {
    fn from(matrix: &TensorProduct) -> Self {
        Self { shape: matrix.shape(), kind: MatrixKind::TensorProduct }
    }
}

impl From<&Diffusion> for MatrixSize {
    fn from(matrix: &Diffusion) -> Self {
        let mean = |field: &[f64]| field.iter().sum::<f64>() / field.len().max(1) as f64;
        let (fields, strengths) = match matrix.coefficients() {
            Coefficients::Cells { fields, axes } => {
                let [(x, factor_x), ..] = *axes;
                let of_fields = |field: usize| if field == x { 1.0 } else { mean(&fields[field]) / mean(&fields[x]) };
                (fields.len(), axes.map(|(field, factor)| factor / factor_x * of_fields(field)))
            }
            Coefficients::DeviceCells { fields, axes, .. } => {
                (fields.len(), axes.map(|(_, factor)| factor / axes[0].1))
            }
            Coefficients::Faces(faces) => (3, Axis::ALL.map(|axis| mean(&faces[axis as usize]) / mean(&faces[0]))),
        };
        let (is_periodic, has_shift) = (Axis::ALL.map(|axis| matrix.is_periodic(axis)), matrix.has_shift());
        Self { shape: matrix.shape(), kind: MatrixKind::Diffusion { fields, has_shift, strengths, is_periodic } }
    }
}

impl From<&StoredMatrix> for MatrixSize {
    fn from(matrix: &StoredMatrix) -> Self {
        Self { shape: matrix.shape(), kind: MatrixKind::Stored { entries: matrix.matrix().entries() } }
    }
}

impl From<&OwnOperator> for MatrixSize {
    fn from(matrix: &OwnOperator) -> Self {
        Self { shape: matrix.shape(), kind: MatrixKind::Own }
    }
}

impl MatrixSize {
    /// The solver that such a matrix chooses where nobody says, as [`Stencil::choice`]; of a
    /// stored matrix, if it is symmetric. Of a tensor product, [`Method::Auto`], for coefficients decide; of diffusion, of which they
    /// decide too, what takes more and may follow.
    pub fn choice(&self) -> Choice {
        let (method, preconditioner) = match self.kind {
            MatrixKind::TensorProduct => (Method::Auto, Preconditioner::Line),
            MatrixKind::Diffusion { .. } => (Method::Cg, Preconditioner::Multigrid),
            MatrixKind::Stored { .. } => (Method::Cg, Preconditioner::Jacobi),
            MatrixKind::Own => (Method::Cg, Preconditioner::None),
        };
        let cycles = match self.kind {
            MatrixKind::Diffusion { .. } => CyclePrecision::Auto,
            _ => CyclePrecision::F64,
        };
        Choice { cycles, ..Choice::new(method, preconditioner) }
    }

    /// How often a solver's grid goes around the matrix's.
    pub(super) fn turns(&self) -> Turns {
        match self.kind {
            MatrixKind::Diffusion { is_periodic, .. } => Turns::of(self.shape, is_periodic),
            _ => Turns::ONE,
        }
    }

    /// The matrix that a solver works with.
    pub(super) fn around(&self) -> Self {
        Self { shape: self.turns().around(self.shape), ..*self }
    }
}
