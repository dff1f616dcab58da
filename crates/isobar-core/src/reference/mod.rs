//! The serial back end that specifies all others: plain loops, nothing fused, nothing optimised.

mod aggregate;
mod backend;
#[cfg(all(debug_assertions, not(test)))]
#[doc(hidden)]
pub mod compiled;
mod diffusion;
mod direct;
mod galerkin;
mod halving;
mod points;
mod seven_point;
mod stored_matrix;
mod tensor_product;
mod triangular;
mod vector;

use crate::operator::LevelBackend;
use crate::{Error, Result, Shape};

pub use aggregate::DenseMatrix;
pub use diffusion::DiffusionRows;
pub use galerkin::{BodyCorrection, Interpolation, Plain27};
pub use halving::PointTransfer;
pub use seven_point::{At, Coupling, Plain, Rows, SevenPoint};
pub use stored_matrix::{Bands, PlainMatrix, check_indices};
pub use tensor_product::{BilinearTransfer, TensorProductRows};
pub use vector::Vector;

/// The serial reference back end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

/// Fails if a caller's array does not have the shape of a vector.
///
/// # Errors
/// [`Error::Shape`]
pub fn check_shape(found: Shape, expected: Shape) -> Result<()> {
    Error::unless_equal("array", found, expected)
}

impl LevelBackend for Reference {}
