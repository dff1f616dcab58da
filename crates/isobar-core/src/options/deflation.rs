//! `[solver.deflation]`: the choice of vectors, and the solution with their matrix.

use serde::{Deserialize, Serialize};

/// Deflation vectors: the indicators of…
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Stripes {
    /// … half rows of the grid (paper D).
    #[default]
    HalfRows,
    /// … blocks of cells, this many in x, y and z.
    Blocks([usize; 3]),
    /// … connected bodies of one material, such as bubbles and the liquid around them.
    Bodies,
    /// … the 2√cells largest of them, at most 2048, if at least two have 32 cells or more; else none. Slow multigrid uses them
    /// automatically: coarse grids resolve grains badly whose walls hardly conduct.
    LargeBodies,
}

/// The method of solving with the deflation matrix E (paper D, section 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CoarseSolve {
    /// The faster one for the number of vectors and the device.
    #[default]
    Auto,
    /// The Cholesky factor of E, on the host.
    Triangular,
    /// The inverse of E, on the device.
    Inverse,
}

/// `[solver.deflation]`: sub-domain deflation of conjugate gradients (paper D).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Deflation {
    /// The vectors.
    pub stripes: Stripes,
    /// The method of solving systems with E.
    pub coarse: CoarseSolve,
}
