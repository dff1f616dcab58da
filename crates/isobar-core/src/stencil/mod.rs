//! Stencils are data: what a back end needs to compute rows of the matrix.
//!
//! * [`TensorProduct`] vertical vectors times horizontal fields (papers A and B),
//! * [`Csr`] any matrix, for comparison and exchange,
//! * [`matrix_market`] matrices as files.

mod csr;
pub mod matrix_market;
mod tensor_product;

pub use csr::Csr;
pub use tensor_product::{Coupling, TensorProduct};
