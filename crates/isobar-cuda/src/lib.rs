//! CUDA back end of isobar.
//!
//! The kernels ([`kernels`]) are CUDA C++, compiled at run time by NVRTC for the card that is there and
//! kept in a cache on disk ([`compile`]). Driver and compiler are looked for when a card is opened, cuSPARSE
//! ([`cusparse`]) when a stored matrix is made: programs build and run without any of them. Everything runs in order on one stream; scalars stay on the card;
//! iterations are recorded and replayed.

pub mod compile;
mod cuda;
pub mod cusparse;
mod device;
mod device_array;
pub mod diffusion;
mod driver;
mod iterate;
pub mod kernels;
mod launch;
mod libraries;
mod memory;
mod module;
pub mod nvrtc;
pub mod region;
mod scalars;
mod staging;
pub mod stored_matrix;
pub mod tensor_product;
mod vector;

pub use cuda::{Cuda, sources};
pub use device::{DeviceDescription, devices};
pub use device_array::DeviceArray;
pub use scalars::Scalars;
pub use vector::Vector;
