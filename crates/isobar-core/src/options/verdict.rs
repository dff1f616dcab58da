//! How a solve is judged: what the tolerance is relative to, of which solution, and what becomes of right-hand sides without one.

use serde::{Deserialize, Serialize};

/// What the tolerance is relative to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Norm {
    /// ‖r₀‖, the residual of the first guess.
    #[default]
    Initial,
    /// ‖b‖, the right-hand side.
    Rhs,
    /// Both in the norm of the symmetrically scaled system: ‖D^−½ r‖ against ‖D^−½ b‖, D the diagonal.
    Scaled,
}

/// What to do with a right-hand side that a singular matrix cannot produce.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compatibility {
    /// Refuse it.
    #[default]
    Require,
    /// Take out its mean over every component of the grid that is tied to nothing fixed.
    Project,
}

/// Whose residual decides whether a solve has converged, where the caller's array is of single precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Judge {
    /// That of the array that is handed back, after rounding.
    #[default]
    Array,
    /// That of the solution in double precision, before it is rounded.
    Internal,
}
