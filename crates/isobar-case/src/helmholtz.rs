//! Problems of kind "helmholtz": `[problem]` and `[grid]`.

use std::ops::Range;
use std::path::Path;

use isobar::grid::{EARTH_RADIUS, Geometry, GridOptions};
use isobar::problem::{self, Helmholtz, Weighting};
use isobar_io::{Mesh, Units};
use serde::Deserialize;

use crate::rhs::RhsSection;
use crate::text::name;
use crate::{Assembled, Document, Error, Matrix, Number, Result, RhsKind};

/// A Helmholtz problem as the case file describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct HelmholtzCase {
    /// The equation and its right-hand side, `[problem]`.
    pub section: HelmholtzSection,
    /// The panel or the box, `[grid]`.
    pub grid: GridOptions,
}

/// `[problem]` of kind "helmholtz".
#[derive(Clone, Debug, PartialEq, Deserialize)]
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
            let message = "[diffusion] is for problem.kind = \"diffusion\", \"poisson\" or \"heat\", not \"helmholtz\"";
            return Err(document.failure(Some(section.span()), message, None));
        }
        let mut section: HelmholtzSection = document.read_without("problem", &["kind"])?;
        if section.omega.is_some() && document.get("problem.courant").is_some() {
            return Err(document.failure_at_key("problem.omega", "problem.courant is given too; remove one of them"));
        }
        section.check(document)?;
        section.rhs.complete(document, folder)?;
        let grid: GridOptions = document.read("grid")?;
        grid.validate().map_err(|error| document.failure_of(error))?;
        Ok(Self { section, grid })
    }

    /// Returns the kind of the right-hand side, with the default resolved.
    pub fn rhs_kind(&self) -> RhsKind {
        self.section.rhs.kind.unwrap_or(RhsKind::Random)
    }

    /// Describes the problem in one line, for the summary of a run.
    pub fn describe(&self) -> String {
        let (section, shape) = (&self.section, self.grid.shape());
        let size = match section.omega {
            Some(omega) => format!("ω = {}", Number(omega)),
            None => format!("ν = {}", Number(section.courant)),
        };
        let rhs = section.rhs.describe(self.rhs_kind());
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

    /// Builds the linear system with the right-hand side and the exact solution in some rows of the grid only.
    ///
    /// # Errors
    /// A right-hand side that cannot be read or does not fit the grid; coefficients that give no valid matrix.
    pub(crate) fn assemble_in(&self, rows: &Range<usize>) -> Result<Assembled> {
        let without_rhs = self.without_rhs()?;
        let rhs = self.rhs_in(rows)?;
        let exact = (self.rhs_kind() == RhsKind::Manufactured).then(|| self.problem().exact_in(rows));
        Ok(Assembled { rhs, exact, ..without_rhs })
    }

    /// Returns whether the right-hand side can be computed once it is needed: no file is read for it, and no mistake of the case is found by it, as by
    /// a manufactured one.
    pub(crate) fn computes_rhs(&self) -> bool {
        matches!(self.rhs_kind(), RhsKind::Constant | RhsKind::Random | RhsKind::Smooth)
    }

    /// Returns the right-hand side in some rows of the grid.
    ///
    /// # Errors
    /// See [`HelmholtzCase::assemble_in`].
    pub(crate) fn rhs_in(&self, rows: &Range<usize>) -> Result<Vec<f64>> {
        let (problem, grid, rhs) = (self.problem(), &self.grid, &self.section.rhs);
        let is_known = self.rhs_kind() == RhsKind::Manufactured;
        if is_known && self.section.advection != [0.0; 3] && grid.geometry != Geometry::Box {
            return Err(Error::new(
                "problem.rhs.kind: \"manufactured\" with problem.advection is supported on a box only; use grid.geometry = \
                 \"box\" or another right-hand side",
            ));
        }
        let weighting = if is_known { Weighting::Volume } else { rhs.weighting };
        rhs.values(
            self.rhs_kind(),
            grid.shape(),
            rows,
            |kind| problem.rhs_in(rows, kind.unwrap_or(problem::RhsKind::Random), rhs.seed, weighting),
            |mut values| {
                if weighting == Weighting::Volume {
                    problem.times_volume_in(rows, &mut values)?;
                }
                Ok(values)
            },
        )
    }

    /// Builds the linear system without right-hand side and exact solution.
    ///
    /// # Errors
    /// Coefficients that give no valid matrix.
    pub(crate) fn without_rhs(&self) -> Result<Assembled> {
        let problem = self.problem();
        let heights = self.grid.heights().iter().map(|height| height * EARTH_RADIUS).collect();
        Ok(Assembled {
            matrix: Matrix::TensorProduct(problem.stencil()?),
            rhs: Vec::new(),
            exact: None,
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
        if self.rhs.kind == Some(RhsKind::None) {
            let message = "\"none\" is not supported for kind \"helmholtz\"; use \"constant\", \"random\", \"smooth\", \"manufactured\" \
                           or \"file\"";
            return Err(document.failure_at_key("problem.rhs.kind", message));
        }
        Ok(())
    }
}
