//! Separable matrices, which transforms and tridiagonal systems solve without iterating.
//!
//! * [`Separable`]: the factors of such a matrix, A = M_a ⊗ M_b ⊗ T + K_a ⊗ M_b ⊗ D_a + M_a ⊗ K_b ⊗ D_b,
//! * `separate`: finds them in a matrix, or names the first number that does not fit,
//! * `nearest`: the nearest factors of a matrix that is not separable,
//! * [`Basis`]: the eigenvectors of one axis, and the fast transform that multiplies by them where its cells are uniform,
//! * `periodic`: eigenvectors of stretched periodic axes,
//! * `divided`: lines that are divided among ranks.
//!
//! With the eigenvectors S of both transformed axes, K S = M S diag(μ) and Sᵀ M S = 1, the matrix decouples into one tridiagonal system T
//! + μ D_a + ν D_b for each pair of eigenvalues (Lynch, Rice and Thomas, 1964).

mod axis;
mod basis;
mod divided;
mod lines;
mod nearest;
mod periodic;
mod separable;
mod separate;

pub use axis::AxisMatrix;
pub use basis::{Basis, Symmetry, Trig, has_small_factors, trig_of};
pub use divided::Piece;
pub use lines::{Lines, Pivot};
pub(crate) use nearest::{MOST_EIGENVECTORS, Nearest, Samples, nearest};
pub use separable::Separable;
pub(crate) use separate::{SeparableRows, looks_separable, separate};

#[cfg(test)]
mod tests;
