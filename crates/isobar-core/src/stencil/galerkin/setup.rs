//! What the levels of a hierarchy are made with, wherever that is done.

use super::{Bodies, Coarsening, Couplings, Execute, Grid, Weights, bodies, coarsen, coarsest};
use crate::error::Result;
use crate::layout::Layout;
use crate::stencil::Axis;

/// Makes the matrices of the levels, each from the one before.
///
/// Whatever has [`Execute`] does so on the host, by the passes of [`galerkin`](super), which specify what any other must come
/// to, but for rounding.
pub trait Setup {
    /// A matrix in double precision, of which the next one can be made.
    type Matrix;
    /// P, one direction after the other.
    type Weights;
    /// See [`bodies`]; none by default.
    type Bodies: Default;

    /// The cells of a matrix.
    fn grid(&self, matrix: &Self::Matrix) -> Grid;

    /// As [`Couplings::strong_axes`].
    ///
    /// # Errors
    /// What the device reports.
    fn strong_axes(&self, matrix: &Self::Matrix) -> Result<Vec<Axis>>;

    /// P and PᵀAP with these directions halved, in their order.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) where it does not fit; what the device reports.
    fn coarsen(&self, matrix: Self::Matrix, axes: &[Axis]) -> Result<(Self::Weights, Self::Matrix)>;

    /// Whether there can be bodies in the matrix of a stencil, or in coarser ones.
    ///
    /// # Errors
    /// What the device reports.
    fn may_have_bodies(&self, finest: &Self::Matrix) -> Result<bool>;

    /// The bodies of a matrix whose vectors have this layout.
    ///
    /// # Errors
    /// As [`Setup::coarsen`].
    fn bodies(&self, matrix: &Self::Matrix, layout: &Layout) -> Result<Self::Bodies>;

    /// G with A G A = A, as [`coarsest::inverse`].
    ///
    /// # Errors
    /// What the device reports.
    fn inverse(&self, matrix: &Self::Matrix) -> Result<Vec<f64>>;
}

impl<E: Execute> Setup for E {
    type Matrix = Couplings;
    type Weights = Vec<Weights>;
    type Bodies = Vec<Bodies>;

    fn grid(&self, matrix: &Couplings) -> Grid {
        matrix.grid
    }

    fn strong_axes(&self, matrix: &Couplings) -> Result<Vec<Axis>> {
        Ok(matrix.strong_axes(self))
    }

    fn coarsen(&self, matrix: Couplings, axes: &[Axis]) -> Result<(Vec<Weights>, Couplings)> {
        let Coarsening { weights, coarse } = coarsen(self, matrix, axes);
        Ok((weights, coarse))
    }

    fn may_have_bodies(&self, finest: &Couplings) -> Result<bool> {
        Ok(bodies::may_exist(self, finest))
    }

    fn bodies(&self, matrix: &Couplings, layout: &Layout) -> Result<Vec<Bodies>> {
        Ok(bodies::find(self, matrix, layout))
    }

    fn inverse(&self, matrix: &Couplings) -> Result<Vec<f64>> {
        Ok(coarsest::inverse(matrix))
    }
}
