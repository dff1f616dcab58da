//! `[solver.deflation]`: which vectors, and what is done with their matrix.

use serde::{Deserialize, Serialize};

/// Deflation vectors: the indicators of…
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Stripes {
    /// … half rows of the grid (paper D).
    #[default]
    HalfRows,
    /// … so many blocks in x, y and z.
    Blocks([usize; 3]),
    /// … connected bodies of one material, such as bubbles and the liquid around them.
    Bodies,
}

/// How the deflation matrix E is solved with (paper D, section 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CoarseSolve {
    /// Whichever is better for the number of vectors and the device.
    #[default]
    Auto,
    /// By its Cholesky factor, on the host.
    Triangular,
    /// By its inverse, on the device.
    Inverse,
}

/// `[solver.deflation]`: sub-domain deflation of conjugate gradients (paper D).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Deflation {
    /// The vectors.
    pub stripes: Stripes,
    /// How systems with E are solved.
    pub coarse: CoarseSolve,
}
