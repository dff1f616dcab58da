//! The multi-threaded back end of isobar, for this machine's processor cores.
//!
//! * [`Cpu`] the back end: threads and vector instructions, both found at run time; `backend` its interface for solvers,
//! * `overhead` the memory that it takes besides vectors and coefficients,
//! * [`Vector`] a vector with a guard at either end,
//! * `wavefront` runs several stages over the planes of a grid in one pass over memory,
//! * `geometry` and `around` locate the neighbours of a row of cells,
//! * [`SevenPoint`] the engine of all operators that couple a cell to its six neighbours: the arithmetic, one
//!   (j, colour) half plane at a time, SIMD lanes across columns,
//! * [`TensorProduct`] and [`Diffusion`] the entries of these stencils, `transfer` the transfers between two levels of either,
//!   `modes` those between a grid and its vertical modes,
//! * [`StoredMatrix`] any matrix, [`Aggregates`] sets of cells as runs of a vector's entries,
//! * `direct` solves separable boxes by transforms and tridiagonal systems,
//! * [`solvers`] solvers as objects.

mod aggregate;
mod around;
mod backend;
mod bilinear;
mod blas;
mod cpu;
mod diffusion;
mod direct;
mod galerkin;
mod geometry;
mod halving;
mod modes;
mod overhead;
mod part;
mod per_queue;
mod row_sum;
mod seven_point;
mod shared;
pub mod solvers;
mod stored_matrix;
mod tensor_product;
mod transfer;
mod vector;
mod wavefront;

pub use aggregate::{AggregateMatrix, Aggregates};
pub use cpu::Cpu;
pub use diffusion::{Diffusion, DiffusionCoefficients};
pub use galerkin::{BodyCorrection, Interpolation, Level27};
pub use seven_point::SevenPoint;
pub use stored_matrix::StoredMatrix;
pub use tensor_product::{Factors, TensorProduct};
pub use vector::Vector;

// The names that most files of this crate use.
pub(crate) use around::View;
pub(crate) use geometry::{Columns, Geometry, HalfPlane, Which, Window};
pub(crate) use row_sum::RowSum;
pub(crate) use shared::{Row, RowMut, Shared};
