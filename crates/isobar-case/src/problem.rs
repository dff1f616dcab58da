//! `problem.kind`: the equation, and the sections of the case that it uses.

use std::ops::Range;
use std::path::Path;

use isobar::Shape;
use isobar_io::Mesh;

use crate::assembled::mesh_of;
use crate::heat::{HeatCase, Initial};
use crate::helmholtz::HelmholtzCase;
use crate::rhs::RhsKind;
use crate::{Assembled, DiffusionCase, Document, Error, Result, explain, reader};

/// The problem of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum Problem {
    /// −ω²(∇²u + λ² r⁻² ∂_r(r² ∂_r u)) + u = f (papers A and B).
    Helmholtz(HelmholtzCase),
    /// −∇·(κ∇u) + c u = f (paper D, reservoirs, aquifers).
    Diffusion(Box<DiffusionCase>),
    /// u_t = ∇·(κ∇u) − c u + f (paper E).
    Heat(Box<HeatCase>),
}

/// The kinds that are supported.
const KINDS: [&str; 4] = ["helmholtz", "poisson", "diffusion", "heat"];

impl Problem {
    /// Returns its kind, as in `problem.kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Helmholtz(_) => "helmholtz",
            Self::Diffusion(case) => case.kind,
            Self::Heat(_) => "heat",
        }
    }

    /// Cells in x, y and the vertical.
    pub fn shape(&self) -> Shape {
        match self {
            Self::Helmholtz(case) => case.grid.shape(),
            Self::Diffusion(case) => case.shape,
            Self::Heat(case) => case.shape(),
        }
    }

    /// Returns the mesh of a problem in a box, if it is known without reading files.
    pub fn mesh(&self) -> Option<Mesh> {
        match self {
            Self::Helmholtz(_) => None,
            Self::Diffusion(case) => Some(mesh_of(case.shape, &case.spacing)),
            Self::Heat(case) => (!case.at_points).then(|| mesh_of(case.shape(), &case.diffusion.spacing)),
        }
    }

    /// Returns the seed of its random numbers.
    pub fn seed(&self) -> u64 {
        match self {
            Self::Helmholtz(case) => case.section.rhs.seed,
            Self::Diffusion(case) => case.rhs.seed,
            Self::Heat(case) => case.diffusion.rhs.seed,
        }
    }

    /// Returns the kind of its right-hand side.
    pub(crate) fn rhs_kind(&self) -> RhsKind {
        match self {
            Self::Helmholtz(case) => case.rhs_kind(),
            Self::Diffusion(case) => case.rhs_kind(),
            Self::Heat(case) => case.diffusion.rhs_kind(),
        }
    }

    /// Returns whether it begins with a random state.
    pub(crate) fn begins_randomly(&self) -> bool {
        matches!(self, Self::Heat(case) if case.section.initial == Initial::Random)
    }

    /// Returns the files that it reads.
    pub fn inputs(&self) -> Vec<&Path> {
        match self {
            Self::Helmholtz(case) => case.section.rhs.path.as_deref().into_iter().collect(),
            Self::Diffusion(case) => case.inputs().collect(),
            Self::Heat(case) => case.inputs().collect(),
        }
    }

    /// Describes the problem in one line, for the summary of a run.
    pub fn describe(&self) -> String {
        match self {
            Self::Helmholtz(case) => case.describe(),
            Self::Diffusion(case) => case.describe(),
            Self::Heat(case) => case.describe(),
        }
    }

    /// Builds the linear system; for kind "heat" that of the first step.
    ///
    /// # Errors
    /// An input that cannot be read or does not fit the grid; coefficients that give no valid matrix.
    pub fn assemble(&self) -> Result<Assembled> {
        self.assemble_in(&(0..self.shape().ny))
    }

    /// Builds the linear system with b and the exact solution in some rows of the grid, (nz, rows, nx) in C order. Only these rows of a file are read.
    ///
    /// # Errors
    /// The errors of [`Problem::assemble`] for the part that is read.
    pub fn assemble_in(&self, rows: &Range<usize>) -> Result<Assembled> {
        match self {
            Self::Helmholtz(case) => case.assemble_in(rows),
            Self::Diffusion(case) => case.assemble_in(rows),
            Self::Heat(case) => {
                let mut assembled = case.assemble()?;
                assembled.keep_rows(rows);
                Ok(assembled)
            }
        }
    }

    /// Builds the linear system without b if [`Problem::rhs`] can compute that later, for which there must be room; returns nothing for other problems.
    pub(crate) fn assemble_without_rhs(&self) -> Result<Option<Assembled>> {
        match self {
            Self::Helmholtz(case) if case.computes_rhs() => {
                case.problem().require_room()?;
                case.without_rhs().map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Returns b, shape (nz, ny, nx) in C order.
    pub(crate) fn rhs(&self) -> Result<Vec<f64>> {
        match self {
            Self::Helmholtz(case) => case.rhs_in(&(0..self.shape().ny)),
            _ => Ok(self.assemble()?.rhs),
        }
    }

    /// Returns the right-hand side for a body source given by the caller, C order.
    ///
    /// # Errors
    /// The errors of [`Problem::assemble`]; a wrong number of cells; a heat equation, which has a right-hand side per step only.
    pub fn rhs_from(&self, body: Vec<f64>) -> Result<Vec<f64>> {
        match self {
            Self::Helmholtz(case) => case.rhs_from(body),
            Self::Diffusion(case) => case.rhs_from(body),
            Self::Heat(_) => {
                Err(Error::new("a heat equation has a right-hand side per time step only; use the time stepper"))
            }
        }
    }

    pub(crate) fn read(document: &Document<'_>, folder: &Path) -> Result<Self> {
        let Some(kind) = document.get("problem.kind") else {
            let [first, others @ ..] = KINDS;
            let message = format!(
                "problem.kind is missing; begin the case with\n  [problem]\n  kind = \"{first}\"  # or \"{}\"",
                others.join("\", \"")
            );
            return Err(document.failure(None, &message, None));
        };
        if let (Some(section), Some(kind)) =
            (document.get("heat"), kind.get_ref().as_str().filter(|kind| *kind != "heat"))
        {
            let message = format!("[heat] is for problem.kind = \"heat\", not \"{kind}\"");
            return Err(document.failure(Some(section.span()), &message, None));
        }
        if let (Some(section), Some("helmholtz")) = (document.get("faces"), kind.get_ref().as_str()) {
            let message = "[faces] is for problem.kind = \"diffusion\", not \"helmholtz\"";
            return Err(document.failure(Some(section.span()), message, None));
        }
        let diffusion = |kind| Ok(Self::Diffusion(Box::new(DiffusionCase::read(kind, document, folder)?)));
        match kind.get_ref().as_str() {
            Some("helmholtz") => Ok(Self::Helmholtz(HelmholtzCase::read(document, folder)?)),
            Some("poisson") => diffusion("poisson"),
            Some("diffusion") => diffusion("diffusion"),
            Some("heat") => Ok(Self::Heat(Box::new(HeatCase::read(document, folder)?))),
            Some(other) => {
                let (message, help) = explain::unknown_choice("problem.kind", other, &KINDS);
                Err(document.failure(Some(kind.span()), &message, help.as_deref()))
            }
            None => {
                let message =
                    format!("problem.kind must be a string in quotes, not {}", reader::in_words(kind.get_ref()));
                Err(document.failure(Some(kind.span()), &message, None))
            }
        }
    }
}
