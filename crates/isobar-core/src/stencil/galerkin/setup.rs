//! The operations that set up the levels of a hierarchy, on any device.

use super::{Bodies, Coarsening, Couplings, Grid, Ranked, Weights, Window, bodies, coarsen, coarsest};
use crate::stencil::{Axis, Diffusion, MOST_CONTRAST_SINGLE, MOST_SINGLE, Stencil};
use crate::{Precision, Result};

/// Makes the matrices of the levels, each from the previous one.
///
/// Every [`Ranked`] does so on the host, by the passes of [`galerkin`](super), which specify the results of all others up to
/// rounding. Of several ranks each makes its [`Window`], while there are enough rows.
pub trait Setup {
    /// A matrix, from which the next one can be made.
    type Matrix;
    /// The interpolation P, one direction after the other.
    type Weights;
    /// The strongly coupled aggregates, see [`bodies`]; none by default.
    type Bodies: Default;

    /// Returns the cells of a matrix, those of all ranks.
    fn grid(&self, matrix: &Self::Matrix) -> Grid;

    /// Returns the strong directions, see [`Couplings::strong_axes`].
    fn strong_axes(&self, matrix: &Self::Matrix, halves_lines: bool) -> Result<Vec<Axis>>;

    /// Makes P and PᵀAP with these directions halved, in their order.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) if it does not fit; the errors of the device.
    fn coarsen(&self, matrix: Self::Matrix, axes: &[Axis]) -> Result<(Self::Weights, Self::Matrix)>;

    /// Returns whether the matrix of a stencil, or coarser ones, can have strongly coupled aggregates.
    fn may_have_bodies(&self, finest: &Self::Matrix) -> Result<bool>;

    /// Finds the strongly coupled aggregates of a matrix, for residuals in the precision of the levels: of several ranks each its share, as [`Bodies::part`].
    ///
    /// # Errors
    /// The errors of the device; [`Error::Unsupported`](crate::Error::Unsupported) if ranks divide a pair of rows.
    fn bodies(&self, matrix: &Self::Matrix, levels: Precision) -> Result<Self::Bodies>;

    /// Makes a matrix whole on every rank, before a level that every rank has whole.
    ///
    /// # Errors
    /// The errors of the transport.
    fn whole(&self, matrix: Self::Matrix) -> Result<Self::Matrix> {
        Ok(matrix)
    }
}

/// A matrix from which levels are made on the host.
#[derive(Clone, Debug)]
pub enum Matrix {
    /// A matrix in single precision, for coarse grids whose row sums, which are differences, are accurate in it.
    Single(Couplings<f32>),
    /// A matrix in double precision, for any couplings.
    Double(Couplings),
}

/// P on the host, one direction after the other.
#[derive(Clone, Debug)]
pub enum Directions {
    /// Weights of [`Matrix::Single`].
    Single(Vec<Weights<f32>>),
    /// Weights of [`Matrix::Double`].
    Double(Vec<Weights>),
}

/// Evaluates an expression of the numbers of a [`Matrix`] or of [`Directions`] in their precision.
macro_rules! in_its_precision {
    ($kind:ident, $of:expr, $numbers:pat => $value:expr) => {
        match $of {
            $kind::Single($numbers) => $value,
            $kind::Double($numbers) => $value,
        }
    };
}

impl Matrix {
    /// Makes the matrix of a stencil for levels in this precision: single where these are single, all cells are open, and
    /// couplings differ by a factor of at most [`MOST_CONTRAST_SINGLE`] and lie within [`MOST_SINGLE`] of 1.
    ///
    /// # Errors
    /// The errors of [`Ranked::division`] and of the transport.
    pub fn of(on: &impl Ranked, stencil: &Diffusion, levels: Precision) -> Result<Self> {
        let division = on.division(stencil.shape())?;
        let is_periodic = Grid::of(stencil).periodic[1];
        let window = division.and_then(|(starts, rank)| Window::new(starts, rank, is_periodic));
        if levels == Precision::F32 {
            let single = Couplings::<f32>::within(on, stencil, window.clone());
            let [least, most] = single.extremes(on)?;
            let is_in_range = (1.0 / MOST_SINGLE..=MOST_SINGLE).contains(&most);
            if least > 0.0 && most <= MOST_CONTRAST_SINGLE * least && is_in_range {
                return Ok(Self::Single(single));
            }
        }
        Ok(Self::Double(Couplings::within(on, stencil, window)))
    }

    /// Returns the cells of the whole grid.
    pub fn grid(&self) -> Grid {
        in_its_precision!(Matrix, self, matrix => matrix.whole_grid())
    }

    /// Computes G with A G A = A, row by row, see [`coarsest::inverse`].
    pub fn inverse(&self, levels: Precision) -> Vec<f64> {
        in_its_precision!(Matrix, self, matrix => coarsest::inverse(matrix, levels))
    }

    /// Returns its numbers in double precision.
    pub fn in_double(&self) -> Couplings {
        in_its_precision!(Matrix, self, matrix => matrix.in_double())
    }
}

impl Directions {
    /// Returns the weights in double precision.
    pub fn in_double(&self) -> Vec<Weights> {
        in_its_precision!(Directions, self, weights => weights.iter().map(Weights::in_double).collect())
    }
}

impl<E: Ranked> Setup for E {
    type Matrix = Matrix;
    type Weights = Directions;
    type Bodies = Vec<Bodies>;

    fn grid(&self, matrix: &Matrix) -> Grid {
        matrix.grid()
    }

    fn strong_axes(&self, matrix: &Matrix, halves_lines: bool) -> Result<Vec<Axis>> {
        in_its_precision!(Matrix, matrix, matrix => matrix.strong_axes(self, halves_lines))
    }

    fn coarsen(&self, matrix: Matrix, axes: &[Axis]) -> Result<(Directions, Matrix)> {
        Ok(match matrix {
            Matrix::Single(matrix) => {
                let Coarsening { weights, coarse } = coarsen(self, matrix, axes)?;
                (Directions::Single(weights), Matrix::Single(coarse))
            }
            Matrix::Double(matrix) => {
                let Coarsening { weights, coarse } = coarsen(self, matrix, axes)?;
                (Directions::Double(weights), Matrix::Double(coarse))
            }
        })
    }

    fn may_have_bodies(&self, finest: &Matrix) -> Result<bool> {
        in_its_precision!(Matrix, finest, matrix => bodies::may_exist(self, matrix))
    }

    fn bodies(&self, matrix: &Matrix, levels: Precision) -> Result<Vec<Bodies>> {
        in_its_precision!(Matrix, matrix, matrix => bodies::find(self, matrix, levels))
    }

    fn whole(&self, matrix: Matrix) -> Result<Matrix> {
        Ok(match matrix {
            Matrix::Single(matrix) => Matrix::Single(matrix.whole(self)?),
            Matrix::Double(matrix) => Matrix::Double(matrix.whole(self)?),
        })
    }
}
