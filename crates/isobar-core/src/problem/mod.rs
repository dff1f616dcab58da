//! Problems: an equation, a grid and a right-hand side.
//!
//! * [`Helmholtz`]: the pressure correction of an atmosphere model (papers A and B),
//! * [`DiffusionProblem`]: a coefficient in every cell, as in two-phase flow (paper D), reservoirs,
//!   aquifers,
//! * [`Flow`]: the flow through its faces,
//! * [`PointProblem`]: diffusion with unknowns at points inside a box (paper C),
//! * [`FaceProblem`]: a conductance for every face,
//! * [`Heat`]: the heat equation, discretised in space (paper E),
//! * [`materials`]: coefficient fields of two phases, bubbles, layers; [`LabelTable`]: those of
//!   images, [`Phases`]: images with one byte a cell.

mod coefficient;
mod diffusion;
mod diffusion_rhs;
mod faces;
mod flux;
mod gradient;
mod heat;
mod helmholtz;
mod labels;
pub mod materials;
mod phases;
mod points;
mod sides;
mod spacing;
#[cfg(test)]
mod tests;
mod wells;

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

pub use coefficient::{Coefficient, Field};
pub use diffusion::{CheckedProblem, DiffusionProblem, Weight};
pub use faces::{FaceGradient, FaceProblem};
pub use flux::{Flow, SIDES};
pub use gradient::SideGradient;
pub use heat::{Heat, Mass};
pub use helmholtz::Helmholtz;
pub use labels::LabelTable;
pub use phases::Phases;
pub use points::PointProblem;
pub use sides::{Boundary, SideFields};
pub use spacing::Spacing;
pub use wells::{Source, Well};

/// Right-hand sides that any implementation can reproduce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RhsKind {
    /// 1 everywhere.
    Constant,
    /// Uniform in (−1, 1), from a hash of seed and index.
    Random,
    /// A sum of two smooth functions.
    Smooth,
    /// The right-hand side of a known exact solution, see [`Helmholtz::exact`].
    Manufactured,
}

/// Whether a right-hand side holds point values or integrals over cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weighting {
    /// Point values, to be multiplied by the cell volumes |T| a_k.
    #[default]
    Volume,
    /// The vector itself.
    None,
}

/// Returns a number uniform in (−1, 1) from the 64-bit hash SplitMix64 (Steele, Lea and Flood, 2014) of index and seed.
pub fn random(seed: u64, index: usize) -> f64 {
    let mut z = (index as u64).wrapping_add(seed << 32).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^= z >> 31;
    (z >> 11) as f64 * 2f64.powi(-53) * 2.0 - 1.0
}

/// Returns sin πx sin 2πy (1 + ½ cos πz) + xy(1−x)(1−y) cos 3πz.
pub(crate) fn smooth(x: f64, y: f64, z: f64) -> f64 {
    (PI * x).sin() * (2.0 * PI * y).sin() * (1.0 + 0.5 * (PI * z).cos())
        + x * y * (1.0 - x) * (1.0 - y) * (3.0 * PI * z).cos()
}
