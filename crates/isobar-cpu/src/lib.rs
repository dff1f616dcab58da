//! The multi-threaded back end of isobar, for this machine's processor cores.
//!
//! * [`Cpu`] the back end: threads and vector instructions, both found at run time,
//! * [`Vector`] a vector with a guard at either end,
//! * `wavefront` runs several stages over the planes of a grid in one pass over memory,
//! * `half_plane` the arithmetic, one (j, colour) half plane at a time, SIMD lanes across columns,
//! * [`TensorProduct`] and [`StoredMatrix`] the operators, put together from those.

mod blas;
mod cpu;
mod half_plane;
mod shared;
mod stored_matrix;
mod tensor_product;
mod vector;
mod wavefront;

pub use cpu::Cpu;
pub use stored_matrix::{StoredMatrix, StoredTridiagonal};
pub use tensor_product::TensorProduct;
pub use vector::Vector;
