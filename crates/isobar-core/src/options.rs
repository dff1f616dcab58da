//! Everything a user can choose about a solve, as plain data. The names are those of the case file.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::real::Precision;

/// The outer iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Preconditioned conjugate gradients, fused: two passes over the grid an iteration.
    Cg,
    /// The same in textbook form: one vector operation after another.
    CgTextbook,
    /// Tensor-product multigrid cycles.
    #[default]
    Multigrid,
    /// BiCGStab, for non-symmetric operators.
    Bicgstab,
    /// Conjugate gradients with sub-domain deflation (paper D).
    DeflatedCg,
}

impl Method {
    /// Its name in case files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cg => "cg",
            Self::CgTextbook => "cg-textbook",
            Self::Multigrid => "multigrid",
            Self::Bicgstab => "bicgstab",
            Self::DeflatedCg => "deflated-cg",
        }
    }

    /// Whether it only works for symmetric matrices.
    pub fn needs_symmetry(self) -> bool {
        matches!(self, Self::Cg | Self::CgTextbook | Self::DeflatedCg)
    }
}

/// What the tolerance is relative to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
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
    /// Take out its mean over every part of the grid that is tied to nothing fixed.
    Project,
}

/// What CG and BiCGStab are preconditioned with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PreconditionerKind {
    /// Nothing.
    None,
    /// The diagonal.
    Jacobi,
    /// A tridiagonal solve in every vertical column (papers A and B).
    #[default]
    Line,
    /// One multigrid cycle.
    Multigrid,
    /// Incomplete Cholesky in blocks of consecutive unknowns (paper D).
    BlockIc,
    /// Incomplete Poisson (paper D).
    IncompletePoisson,
    /// Truncated Neumann series (paper D).
    Neumann,
}

impl PreconditionerKind {
    /// Its name in case files.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Jacobi => "jacobi",
            Self::Line => "line",
            Self::Multigrid => "multigrid",
            Self::BlockIc => "block-ic",
            Self::IncompletePoisson => "incomplete-poisson",
            Self::Neumann => "neumann",
        }
    }
}

/// `[solver.preconditioner]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PreconditionerOptions {
    /// Which.
    pub kind: PreconditionerKind,
    /// Neumann: terms of the series.
    pub order: usize,
    /// Block-IC: consecutive unknowns in a block; by default eight rows of the grid.
    pub block: Option<usize>,
    /// Incomplete Poisson: of the symmetrically scaled matrix.
    pub scaling: bool,
}

impl Default for PreconditionerOptions {
    fn default() -> Self {
        Self { kind: PreconditionerKind::default(), order: 2, block: None, scaling: true }
    }
}

/// Deflation vectors: the indicators of…
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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

/// `[solver.deflation]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeflationOptions {
    /// The vectors.
    pub stripes: Stripes,
    /// What is done with E.
    pub coarse: CoarseSolve,
}

/// The relaxation inside multigrid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Smoother {
    /// u += ρ M⁻¹(f − A u), all columns at once; the papers' choice, with ρ = 2/3.
    LineJacobi,
    /// Line Gauss–Seidel, columns with i + j even first, then odd.
    #[default]
    LineRedBlack,
}

/// What multigrid starts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// The first guess that was given (zero by default).
    #[default]
    Zero,
    /// Full multigrid: solve on the coarsest level, interpolate, cycle, and so on up.
    Full,
}

/// `[solver.multigrid]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MultigridOptions {
    /// Levels wanted, the finest included; by default 5 for the tensor-product operator, and as many as there
    /// can be for diffusion. Sizes that cannot be halved end the hierarchy earlier.
    pub levels: Option<usize>,
    /// The relaxation.
    pub smoother: Smoother,
    /// ρ; by default 1 for red–black and 2/3 for Jacobi.
    pub relaxation: Option<f64>,
    /// Sweeps before the coarse correction.
    pub pre: usize,
    /// Sweeps after it.
    pub post: usize,
    /// Sweeps that stand in for a solve on the coarsest level.
    pub coarse_sweeps: usize,
    /// Where to start from.
    pub start: Start,
}

impl Default for MultigridOptions {
    fn default() -> Self {
        Self {
            levels: None,
            smoother: Smoother::LineRedBlack,
            relaxation: None,
            pre: 1,
            post: 1,
            coarse_sweeps: 2,
            start: Start::Zero,
        }
    }
}

impl MultigridOptions {
    /// ρ, with the smoother's own default.
    pub fn relaxation(&self) -> f64 {
        self.relaxation.unwrap_or(match self.smoother {
            Smoother::LineJacobi => 2.0 / 3.0,
            Smoother::LineRedBlack => 1.0,
        })
    }
}

/// `[solver]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SolverOptions {
    /// The outer iteration.
    pub method: Method,
    /// Stop at ‖r‖ ≤ tolerance · ‖r₀‖ (or ‖b‖).
    pub tolerance: f64,
    /// What the tolerance is relative to.
    pub norm: Norm,
    /// Give up after so many iterations.
    pub max_iterations: usize,
    /// Storage of vectors and coefficients.
    pub precision: Precision,
    /// Multigrid, as a method or as a preconditioner.
    pub multigrid: MultigridOptions,
    /// The preconditioner of the Krylov methods.
    pub preconditioner: PreconditionerOptions,
    /// The deflation of `deflated-cg`.
    pub deflation: DeflationOptions,
    /// What becomes of a right-hand side without a solution.
    pub compatibility: Compatibility,
}

impl Default for SolverOptions {
    fn default() -> Self {
        Self {
            method: Method::default(),
            tolerance: 1e-5,
            norm: Norm::default(),
            max_iterations: 500,
            precision: Precision::default(),
            multigrid: MultigridOptions::default(),
            preconditioner: PreconditionerOptions::default(),
            deflation: DeflationOptions::default(),
            compatibility: Compatibility::default(),
        }
    }
}

impl SolverOptions {
    /// Checks every value on its own.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the key, its value and the range it must lie in.
    pub fn validate(&self) -> Result<()> {
        let tolerance = self.tolerance;
        if !(tolerance > 0.0 && tolerance < 1.0) {
            return Err(Error::invalid(
                "solver.tolerance",
                format!("{tolerance} is not between 0 and 1; a usual value is 1e-5"),
            ));
        }
        let multigrid = &self.multigrid;
        let rho = multigrid.relaxation();
        if !(rho > 0.0 && rho < 2.0) {
            return Err(Error::invalid(
                "solver.multigrid.relaxation",
                format!("{rho} is not between 0 and 2; use 2/3 for line-jacobi, 1 for line-red-black"),
            ));
        }
        if multigrid.levels == Some(0) {
            return Err(Error::invalid(
                "solver.multigrid.levels",
                "0 levels; the finest grid counts, so use 1 or more",
            ));
        }
        if multigrid.coarse_sweeps == 0 {
            return Err(Error::invalid("solver.multigrid.coarse_sweeps", "0 sweeps; use 1 or more (2 is usual)"));
        }
        if multigrid.pre + multigrid.post == 0 {
            return Err(Error::invalid(
                "solver.multigrid.pre",
                "pre and post are both 0; multigrid needs at least one sweep a level",
            ));
        }
        let multigrid = self.method == Method::Multigrid || self.preconditioner.kind == PreconditionerKind::Multigrid;
        if self.precision == Precision::Mixed && !multigrid {
            return Err(Error::invalid(
                "solver.precision",
                "\"mixed\" runs single-precision multigrid cycles inside a double-precision iteration, so it needs \
                 solver.method = \"multigrid\" or solver.preconditioner.kind = \"multigrid\"; use \"f64\" or \"f32\" with \
                 the others",
            ));
        }
        if self.norm == Norm::Scaled && !self.method.needs_symmetry() {
            return Err(Error::invalid(
                "solver.norm",
                format!(
                    "\"scaled\" is for conjugate gradients, not for {:?}; use \"initial\" or \"rhs\"",
                    self.method.name()
                ),
            ));
        }
        let order = self.preconditioner.order;
        if order > MOST_TERMS {
            return Err(Error::invalid(
                "solver.preconditioner.order",
                format!("{order} terms of the Neumann series; more than {MOST_TERMS} never pay, 1 or 2 are usual"),
            ));
        }
        Ok(())
    }
}

/// The longest Neumann series.
const MOST_TERMS: usize = 50;
