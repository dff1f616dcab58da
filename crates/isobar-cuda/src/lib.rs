//! CUDA back end of isobar.
//!
//! The kernels ([`kernels`]) are CUDA C++, compiled at run time by NVRTC for the GPU that is there and
//! kept in a cache on disk ([`compile`]). Driver and compiler are looked for when a GPU is opened, cuSPARSE
//! ([`cusparse`]) when a stored matrix is made: programs build and run without any of them. Everything runs in order on one
//! stream; scalars stay on the GPU; iterations are recorded and replayed.
//!
//! * [`Cuda`] the back end, [`devices`] what there is to open; `array` callers' arrays, on the GPU or not,
//! * `driver`, `memory`, `staging` the GPU, what is allocated there, what is sent there,
//! * [`compile`], [`nvrtc`], `module` from sources to kernels, [`compilations`] what that took, `launch` and `iterate` from kernels to iterations,
//! * [`seven_point`] operators that couple a cell to its six neighbours, written once: [`tensor_product`] with kernels of
//!   its own, [`diffusion`] as a header and its coefficients,
//! * [`galerkin`] coarse grids of diffusion,
//! * [`link`] how GPUs reach each other: [`peers`] by stores into each other's memory, [`nccl`] by that library's messages;
//!   `part` vectors that are parts of larger ones,
//! * [`direct`] separable boxes, solved without iterating,
//! * [`stored_matrix`] every entry stored, by cuSPARSE; [`aggregate`] one number a set of cells,
//! * [`solvers`] solvers as objects.

pub mod aggregate;
mod array;
pub mod compilations;
pub mod compile;
mod cuda;
pub mod cusparse;
mod device;
pub mod diffusion;
pub mod direct;
mod driver;
pub mod galerkin;
mod halving;
mod iterate;
pub mod kernels;
mod launch;
mod libraries;
pub mod link;
mod memory;
mod module;
pub mod nccl;
pub mod nvrtc;
mod part;
pub mod peers;
mod reduction;
mod scalars;
pub mod seven_point;
pub mod solvers;
mod staging;
pub mod stored_matrix;
pub mod tensor_product;
mod vector;

pub use cuda::{Cuda, sources};
pub use device::{DeviceDescription, devices};
pub use scalars::Scalars;
pub use vector::Vector;
