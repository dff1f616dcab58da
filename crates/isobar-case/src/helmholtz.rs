//! Problems of kind "helmholtz": `[problem]` and `[grid]`.

use std::ops::Range;
use std::path::{Path, PathBuf};

use isobar::grid::{EARTH_RADIUS, Geometry, GridOptions};
use isobar::problem::{self, Helmholtz, Weighting};
use isobar_io::{Mesh, Units, npy};
use serde::{Deserialize, Serialize};

use crate::assembled::Assembled;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::matrix::Matrix;
use crate::problem::check_rhs_path;
use crate::text::{Number, name};

/// A Helmholtz problem as the case file describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct HelmholtzCase {
    /// The equation and its right-hand side, `[problem]`.
    pub section: HelmholtzSection,
    /// The panel or the box, `[grid]`.
    pub grid: GridOptions,
}

/// `[problem]` of kind "helmholtz".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HelmholtzSection {
    /// ν; ω = ν h / 2.
    pub courant: f64,
    /// λ, the weight of the vertical part.
    pub lambda: f64,
    /// ω; if given, it is used instead of `courant`.
    pub omega: Option<f64>,
    /// ξ of the advection term −ω² ξ·∇u, constant in x, y and the vertical.
    pub advection: [f64; 3],
    /// The right-hand side, `[problem.rhs]`.
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
    /// The kind of its entries.
    pub kind: RhsKind,
    /// The seed of kind "random": equal seeds give equal numbers on every machine.
    pub seed: u64,
    /// Whether entries are values of f, to be integrated over cells, or entries of the vector b itself. A
    /// manufactured right-hand side is always integrated, because its solution would not be known otherwise.
    pub weighting: Weighting,
    /// The file of kind "file"; after reading, relative to the working directory.
    pub path: Option<PathBuf>,
}

/// `problem.rhs.kind`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RhsKind {
    /// 1 everywhere.
    Constant,
    /// Reproducible noise in [−1, 1).
    #[default]
    Random,
    /// A sum of two smooth functions of the relative position.
    Smooth,
    /// Computed from a known solution.
    Manufactured,
    /// Read from an `.npy` file of shape (nz, ny, nx).
    File,
}

impl HelmholtzCase {
    pub(crate) fn read(document: &Document<'_>, folder: &Path) -> Result<Self> {
        for key in ["grid.spacing", "grid.size"] {
            if document.get(key).is_some() {
                let message = "is a key of problem.kind = \"diffusion\" and \"poisson\"; for kind \"helmholtz\" use grid.geometry \
                               and grid.depth";
                return Err(document.failure_at_key(key, message));
            }
        }
        if let Some(section) = document.get("diffusion") {
            let message = "[diffusion] is for problem.kind = \"diffusion\" or \"poisson\", not \"helmholtz\"";
            return Err(document.failure(Some(section.span()), message, None));
        }
        let mut section: HelmholtzSection = document.read_without("problem", &["kind"])?;
        section.check(document)?;
        section.rhs.path = section.rhs.path.map(|path| folder.join(path));
        let grid: GridOptions = document.read("grid")?;
        grid.validate().map_err(|error| crate::case::at_key(document, error))?;
        Ok(Self { section, grid })
    }

    /// Describes the problem in one line, for the summary of a run.
    pub fn describe(&self) -> String {
        let (section, shape) = (&self.section, self.grid.shape());
        let size = match section.omega {
            Some(omega) => format!("ω = {}", Number(omega)),
            None => format!("ν = {}", Number(section.courant)),
        };
        let rhs = match section.rhs.kind {
            RhsKind::Random => format!("random right-hand side (seed {})", section.rhs.seed),
            RhsKind::File => {
                format!("right-hand side from {}", section.rhs.path.as_deref().unwrap_or("".as_ref()).display())
            }
            RhsKind::Constant => "constant right-hand side".to_owned(),
            RhsKind::Smooth => "smooth right-hand side".to_owned(),
            RhsKind::Manufactured => "manufactured solution".to_owned(),
        };
        let geometry = name(&self.grid.geometry);
        format!("helmholtz on {geometry} {shape} = {} unknowns, {size}, {rhs}", shape.cells())
    }

    /// Builds the problem on its grid.
    pub fn problem(&self) -> Helmholtz {
        Helmholtz {
            grid: self.grid.clone(),
            courant: self.section.courant,
            omega: self.section.omega,
            lambda: self.section.lambda,
            advection: self.section.advection,
        }
    }

    /// Returns the right-hand side for a body source given by the caller.
    ///
    /// # Errors
    /// A wrong number of cells.
    pub(crate) fn rhs_from(&self, mut body: Vec<f64>) -> Result<Vec<f64>> {
        let (found, shape) = (body.len(), self.grid.shape());
        if found != shape.cells() {
            return Err(isobar::Error::shape("the body source", format!("{found} cells"), shape.to_string()).into());
        }
        if self.section.rhs.weighting == Weighting::Volume {
            self.problem().times_volume(&mut body)?;
        }
        Ok(body)
    }

    /// Builds the linear system.
    ///
    /// # Errors
    /// A right-hand side that cannot be read or does not fit the grid; coefficients that give no valid
    /// matrix.
    pub fn assemble(&self) -> Result<Assembled> {
        self.assemble_in(&(0..self.grid.ny))
    }

    /// Builds the linear system with the right-hand side and the exact solution in some rows of the grid only.
    pub(crate) fn assemble_in(&self, rows: &Range<usize>) -> Result<Assembled> {
        let (problem, grid, rhs) = (self.problem(), &self.grid, &self.section.rhs);
        if rhs.kind == RhsKind::Manufactured && self.section.advection != [0.0; 3] && grid.geometry != Geometry::Box {
            return Err(Error::new(
                "problem.rhs.kind: \"manufactured\" with problem.advection is supported on a box only; use grid.geometry = \
                 \"box\" or another right-hand side",
            ));
        }
        let made = |kind, weighting| problem.rhs_in(rows, kind, rhs.seed, weighting);
        let values = match rhs.kind {
            RhsKind::Constant => made(problem::RhsKind::Constant, rhs.weighting)?,
            RhsKind::Random => made(problem::RhsKind::Random, rhs.weighting)?,
            RhsKind::Smooth => made(problem::RhsKind::Smooth, rhs.weighting)?,
            RhsKind::Manufactured => made(problem::RhsKind::Manufactured, Weighting::Volume)?,
            RhsKind::File => {
                let path = rhs.path.as_deref().unwrap_or(Path::new(""));
                let mut values = npy::read_rows(path, [grid.nz, grid.ny, grid.nx], rows.clone())
                    .map_err(|error| Error::new(format!("problem.rhs.path: {error}")))?;
                if rhs.weighting == Weighting::Volume {
                    problem.times_volume_in(rows, &mut values)?;
                }
                values
            }
        };
        let heights = grid.heights().iter().map(|height| height * EARTH_RADIUS).collect();
        Ok(Assembled {
            matrix: Matrix::TensorProduct(problem.stencil()?),
            rhs: values,
            exact: (rhs.kind == RhsKind::Manufactured).then(|| problem.exact_in(rows)),
            active: None,
            mesh: Mesh {
                centres: problem.coordinates(),
                faces: [Vec::new(), Vec::new(), heights],
                spacing: None,
                units: Units::Atmosphere,
            },
            box_of_cells: None,
        })
    }
}

impl HelmholtzSection {
    fn check(&self, document: &Document<'_>) -> Result<()> {
        for (key, value) in [
            ("problem.courant", self.courant),
            ("problem.lambda", self.lambda),
            ("problem.omega", self.omega.unwrap_or(0.0)),
        ] {
            // Beyond this ω² overflows, or all other terms are lost to rounding.
            if !(0.0..=1e12).contains(&value) {
                return Err(document.failure_at_key(key, &format!("{} is out of range; use 0 to 1e12", Number(value))));
            }
        }
        check_rhs_path(document, self.rhs.kind == RhsKind::File, self.rhs.path.as_deref())
    }
}
