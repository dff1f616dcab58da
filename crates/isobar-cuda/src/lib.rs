//! CUDA back end of isobar.
//!
//! The kernels ([`kernels`]) are CUDA C++, compiled at run time by NVRTC for the GPU that is present and
//! cached on disk ([`compile`]). Driver and compiler are loaded when a GPU is opened; programs build and run without
//! them. All work runs in order on one stream; scalars stay on the GPU; iterations are recorded and replayed.
//!
//! * [`Cuda`]: one GPU; `backend`: its back end for solvers; [`devices`]: the GPUs found; `array`: callers' arrays, in host or GPU memory,
//! * `overhead`: memory besides vectors and coefficients; `driver`, `memory`, `spare`, `staging`: the driver, GPU memory, copies to and from the
//!   GPU,
//! * [`compile`], [`nvrtc`], `module`, `code`: compilation and loading of kernels; `background`: compilation in the background; `files`: files of
//!   kernels; [`compilations`]: statistics of compilation,
//! * [`pack`]: kernels that come compiled; [`variants`]: all kernels, for tests without a GPU,
//! * `launch` and `iterate`: launches and iterations,
//! * [`seven_point`]: operators that couple a cell to its six neighbours: [`tensor_product`] with its own kernels,
//!   [`diffusion`] with generic kernels, a header and coefficients,
//! * [`galerkin`]: Galerkin levels of diffusion,
//! * [`link`]: exchange between GPUs: [`peers`] by stores to each other's memory, [`nccl`] by messages of that library; `part`: vectors on
//!   subdomains, `neighbour`: neighbouring ranks,
//! * [`direct`]: direct solves of separable matrices,
//! * [`problem`]: diffusion problems whose coefficients are callers' arrays,
//! * [`stored_matrix`]: stored matrices; [`aggregate`]: aggregates,
//! * [`solvers`]: solvers as trait objects.

pub mod aggregate;
mod array;
mod backend;
mod background;
mod code;
pub mod compilations;
pub mod compile;
mod cuda;
mod device;
pub mod diffusion;
pub mod direct;
mod driver;
mod files;
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
mod neighbour;
pub mod nvrtc;
mod overhead;
pub mod pack;
mod part;
pub mod peers;
pub mod problem;
mod reduction;
mod scalars;
pub mod seven_point;
pub mod solvers;
mod spare;
mod staging;
pub mod stored_matrix;
pub mod tensor_product;
pub mod variants;
mod vector;

pub use cuda::Cuda;
pub use device::{DeviceDescription, devices};
pub use overhead::OVERHEAD;
pub use scalars::Scalars;
pub use variants::sources;
pub use vector::Vector;

// The names that most files of this crate use.
pub(crate) use compile::Source;
pub(crate) use driver::{Context, Pointer};
pub(crate) use launch::{Argument, Arguments, Kernel, Launch, argument};
pub(crate) use memory::Buffer;
pub(crate) use module::Module;
pub(crate) use reduction::Reduction;

/// A sweep of vectors on the GPU.
pub(crate) type Sweep<'s, T> = isobar_core::operator::Sweep<'s, Vector<T>>;
/// A scalar on the GPU that a step sums.
pub(crate) type Sum<'s> = isobar_core::prelude::Sum<'s, Cuda>;
