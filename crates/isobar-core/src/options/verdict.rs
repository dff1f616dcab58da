//! The judgement of a solve: the norm of the tolerance, the solution that is judged, and right-hand sides without a solution.

use serde::{Deserialize, Serialize};

/// The norm that the tolerance is relative to.
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

/// The treatment of a right-hand side that a singular matrix cannot produce.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compatibility {
    /// An error.
    #[default]
    Require,
    /// Removes its mean over every floating component of the grid.
    Project,
}

/// The solution whose residual decides convergence where the caller's array is in single precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Judge {
    /// The array that is returned, after rounding.
    #[default]
    Array,
    /// The solution in double precision, before it is rounded.
    Internal,
}
