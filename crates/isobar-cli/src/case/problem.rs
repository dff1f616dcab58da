//! `[problem]`: which equation, with which right-hand side.

use std::path::{Path, PathBuf};

use isobar::grid::{Geometry, GridOptions};
use isobar::problem::{self, Helmholtz, Weighting};
use isobar::stencil::TensorProduct;
use serde::{Deserialize, Serialize};

use super::document::Document;
use super::explain;
use crate::failure::{Failure, Result};
use crate::output;

/// The problem of a case, by `problem.kind`.
#[derive(Clone, Debug, PartialEq)]
pub enum Problem {
    /// −ω²(∇²u + λ² r⁻² ∂_r(r² ∂_r u)) + u = f (papers A and B).
    Helmholtz(HelmholtzSection),
}

/// `[problem]` of kind "helmholtz".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HelmholtzSection {
    /// ν; ω = ν h / 2.
    pub courant: f64,
    /// λ, the vertical part's weight.
    pub lambda: f64,
    /// ω itself; counts, where it is given, instead of `courant`.
    pub omega: Option<f64>,
    /// ξ of −ω² ξ·∇u, constant in x, y and the vertical.
    pub advection: [f64; 3],
    /// `[problem.rhs]`
    pub rhs: RhsSection,
}

impl Default for HelmholtzSection {
    fn default() -> Self {
        Self { courant: 8.4, lambda: 1.0, omega: None, advection: [0.0; 3], rhs: RhsSection::default() }
    }
}

/// `[problem.rhs]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RhsSection {
    /// Which.
    pub kind: RhsKind,
    /// Of kind "random": the same seed gives the same numbers everywhere.
    pub seed: u64,
    /// Whether entries are values of f, to be integrated over cells, or the vector itself. A
    /// manufactured right-hand side is always integrated: its solution would not be known otherwise.
    pub weighting: Weighting,
    /// Of kind "file": where; after reading, relative to the working directory.
    pub path: Option<PathBuf>,
}

/// `problem.rhs.kind`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RhsKind {
    /// Ones.
    Constant,
    /// Reproducible noise in [−1, 1).
    #[default]
    Random,
    /// A few waves.
    Smooth,
    /// That of a known solution.
    Manufactured,
    /// Read from an `.npy` file of shape (nz, ny, nx).
    File,
}

/// The kinds that this version solves.
const KINDS: [&str; 1] = ["helmholtz"];

impl Problem {
    /// The name of its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Helmholtz(_) => "helmholtz",
        }
    }

    pub(super) fn read(document: &Document<'_>, folder: &Path) -> Result<Self> {
        let Some(kind) = document.get("problem.kind") else {
            let message =
                format!("no problem.kind; begin the case with\n  [problem]\n  kind = \"{}\"", KINDS.join("\" (or \""));
            return Err(document.failure(None, &message, None));
        };
        match kind.get_ref().as_str() {
            Some("helmholtz") => {
                let mut section: HelmholtzSection = document.read_without("problem", &["kind"])?;
                section.check(document)?;
                section.rhs.path = section.rhs.path.map(|path| folder.join(path));
                Ok(Self::Helmholtz(section))
            }
            Some(other) => {
                let (message, help) = explain::unknown_choice("problem.kind", other, &KINDS);
                Err(document.failure(Some(kind.span()), &message, help.as_deref()))
            }
            None => {
                let message = format!("problem.kind must be a string in quotes, not {}", kind.get_ref().type_str());
                Err(document.failure(Some(kind.span()), &message, None))
            }
        }
    }
}

impl HelmholtzSection {
    fn check(&self, document: &Document<'_>) -> Result<()> {
        for (key, value) in [
            ("problem.courant", self.courant),
            ("problem.lambda", self.lambda),
            ("problem.omega", self.omega.unwrap_or(0.0)),
        ] {
            // Beyond this, ω² overflows or swamps every other term to the last digit.
            if !(0.0..=1e12).contains(&value) {
                return Err(document.failure_at_key(key, &format!("{value} is out of range; use 0 to 1e12")));
            }
        }
        match (self.rhs.kind, &self.rhs.path) {
            (RhsKind::File, None) => {
                let message = "\"file\" needs problem.rhs.path, an .npy file of shape (nz, ny, nx)";
                Err(document.failure_at_key("problem.rhs.kind", message))
            }
            (RhsKind::File, Some(path)) if path.as_os_str().is_empty() => {
                Err(document.failure_at_key("problem.rhs.path", "an empty path; name an .npy file"))
            }
            _ => Ok(()),
        }
    }
}

impl HelmholtzSection {
    /// The problem on a grid.
    pub fn on(&self, grid: &GridOptions) -> Helmholtz {
        Helmholtz {
            grid: grid.clone(),
            courant: self.courant,
            omega: self.omega,
            lambda: self.lambda,
            advection: self.advection,
        }
    }
}

/// A linear system with what is known about it, in (z, y, x) C order.
#[derive(Clone, Debug)]
pub struct Assembled {
    /// The matrix.
    pub stencil: TensorProduct,
    /// The right-hand side.
    pub rhs: Vec<f64>,
    /// The exact solution of the equation at the cell centres, where it is known.
    pub exact: Option<Vec<f64>>,
    /// Cell centres in x, y (in the geometry's own units) and height (m).
    pub coordinates: [Vec<f64>; 3],
}

impl Problem {
    /// Builds the linear system.
    ///
    /// # Errors
    /// A right-hand side that cannot be read or does not fit the grid; coefficients that make no
    /// sensible matrix.
    pub fn assemble(&self, grid: &GridOptions) -> Result<Assembled> {
        let Self::Helmholtz(section) = self;
        let problem = section.on(grid);
        let rhs = &section.rhs;
        if rhs.kind == RhsKind::Manufactured && section.advection != [0.0; 3] && grid.geometry != Geometry::Box {
            return Err(Failure::new(
                "problem.rhs.kind: \"manufactured\" is known with problem.advection on the box only; use grid.geometry = \
                 \"box\" or another right-hand side",
            ));
        }
        let made = |kind, weighting| problem.rhs(kind, rhs.seed, weighting);
        let values = match rhs.kind {
            RhsKind::Constant => made(problem::RhsKind::Constant, rhs.weighting)?,
            RhsKind::Random => made(problem::RhsKind::Random, rhs.weighting)?,
            RhsKind::Smooth => made(problem::RhsKind::Smooth, rhs.weighting)?,
            RhsKind::Manufactured => made(problem::RhsKind::Manufactured, Weighting::Volume)?,
            RhsKind::File => {
                let path = rhs.path.as_deref().unwrap_or(Path::new(""));
                let mut values = output::npy::read(path, [grid.nz, grid.ny, grid.nx])
                    .map_err(|error| Failure::new(format!("problem.rhs.path: {error}")))?;
                if rhs.weighting == Weighting::Volume {
                    problem.times_volume(&mut values)?;
                }
                values
            }
        };
        Ok(Assembled {
            stencil: problem.stencil()?,
            rhs: values,
            exact: (rhs.kind == RhsKind::Manufactured).then(|| problem.exact()),
            coordinates: problem.coordinates(),
        })
    }
}

/// Every key of `[problem]` with its default, for suggestions.
pub(super) fn defaults() -> serde_json::Value {
    let mut members = serde_json::json!(HelmholtzSection::default());
    members["kind"] = serde_json::json!(KINDS[0]);
    members
}
