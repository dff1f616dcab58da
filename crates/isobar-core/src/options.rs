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
}

impl Method {
    /// Its name in case files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cg => "cg",
            Self::CgTextbook => "cg-textbook",
            Self::Multigrid => "multigrid",
            Self::Bicgstab => "bicgstab",
        }
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
}

impl PreconditionerKind {
    /// Its name in case files.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Jacobi => "jacobi",
            Self::Line => "line",
            Self::Multigrid => "multigrid",
        }
    }
}

/// `[solver.preconditioner]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PreconditionerOptions {
    /// Which.
    pub kind: PreconditionerKind,
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
    /// Levels wanted, the finest included. Sizes that cannot be halved end the hierarchy earlier.
    pub levels: usize,
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
            levels: 5,
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
        if multigrid.levels == 0 {
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
        if self.precision == Precision::Mixed && self.method != Method::Multigrid {
            return Err(Error::invalid(
                "solver.precision",
                "\"mixed\" runs single-precision multigrid cycles inside a double-precision correction, so it \
                 needs solver.method = \"multigrid\"; use \"f64\" or \"f32\" with the other methods",
            ));
        }
        Ok(())
    }
}
