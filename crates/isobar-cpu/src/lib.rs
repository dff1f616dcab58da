//! The multi-threaded back end of isobar, for this machine's processor cores.
//!
//! * [`Cpu`] the back end: threads and vector instructions, both found at run time,
//! * [`Vector`] a vector with a guard at either end,
//! * `wavefront` runs several stages over the planes of a grid in one pass over memory,
//! * `half_plane` the arithmetic, one (j, colour) half plane at a time, SIMD lanes across columns,
//! * [`TensorProduct`], [`Diffusion`] and [`StoredMatrix`] the operators, put together from those,
//! * [`Regions`] sets of cells, as runs of a vector's entries.

mod blas;
mod cpu;
mod diffusion;
mod half_plane;
mod region;
mod shared;
mod stored_matrix;
mod tensor_product;
mod vector;
mod wavefront;

pub use cpu::Cpu;
pub use diffusion::Diffusion;
pub use region::{RegionMatrix, Regions};
pub use stored_matrix::{StoredMatrix, StoredTridiagonal};
pub use tensor_product::TensorProduct;
pub use vector::Vector;
