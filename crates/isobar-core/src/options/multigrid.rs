//! `[solver.multigrid]`

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Storage of cycles inside an iteration in double precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum CyclePrecision {
    /// The matrix's [`Choice`](crate::policy::Choice) where cycles precondition conjugate gradients; otherwise the precision of the iteration.
    #[default]
    Auto,
    /// Single precision, which `solver.precision = "mixed"` requests.
    F32,
    /// Double precision.
    F64,
}

/// The relaxation inside multigrid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Smoother {
    /// The smoother of the matrix's [`Choice`](crate::policy::Choice), if method and preconditioner are those of that choice; otherwise, and in
    /// time steps whose method is multigrid, red–black lines.
    #[default]
    Auto,
    /// u += ρ M⁻¹(f − A u), all columns at once; the papers' choice, with ρ = 2/3.
    LineJacobi,
    /// Line Gauss–Seidel, columns with i + j even first, then odd.
    LineRedBlack,
    /// Chebyshev's polynomial of degree 2 in M⁻¹A, M the tridiagonal blocks of the columns: a sweep is two of line Jacobi, symmetric, without
    /// colours.
    Chebyshev,
    /// [`Smoother::PointRedBlack`] on the finest grid alone; below it, halved in all directions, lines on Galerkin grids.
    PointLine,
    /// Over-relaxed point Gauss–Seidel, cells with i + j + k even first, then odd, on grids coarsened in all directions.
    PointRedBlack,
}

impl Smoother {
    /// Returns its name in case files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::LineJacobi => "line-jacobi",
            Self::LineRedBlack => "line-red-black",
            Self::Chebyshev => "chebyshev",
            Self::PointLine => "point-line",
            Self::PointRedBlack => "point-red-black",
        }
    }

    /// Resolves [`Smoother::Auto`] to lines.
    #[must_use]
    pub fn or_lines(self) -> Self {
        if self == Self::Auto { Self::LineRedBlack } else { self }
    }

    /// Returns whether points are relaxed on the finest level.
    pub fn begins_with_points(self) -> bool {
        matches!(self, Self::PointRedBlack | Self::PointLine)
    }
}

/// The start of multigrid as an iteration.
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
    /// can be for diffusion.
    pub levels: Option<usize>,
    /// The relaxation.
    pub smoother: Smoother,
    /// ρ; by default 1 for lines red–black, 1.18 for points and the points of the hybrid smoother, and 2/3 for Jacobi. For
    /// Chebyshev's sweeps it is a factor, 1 by default.
    pub relaxation: Option<f64>,
    /// Sweeps before the coarse correction.
    pub pre: usize,
    /// Sweeps after the coarse correction.
    pub post: usize,
    /// Sweeps on the coarsest level, where it is not solved directly, as of Galerkin levels.
    pub coarse_sweeps: usize,
    /// The number of cycles of the next coarser level in a cycle of each level, for the first levels; it is one for further
    /// levels, and where the next is the coarsest and solved exactly. The default is 1; for diffusion's
    /// Galerkin levels it is 1, then 3 on a processor, and 1, then 2 on a GPU from 256³ cells on.
    pub visits: Option<Vec<usize>>,
    /// The start of the iteration.
    pub start: Start,
    /// Storage of cycles where the iteration around them is in double precision.
    pub precision: CyclePrecision,
}

impl Default for MultigridOptions {
    fn default() -> Self {
        Self {
            levels: None,
            smoother: Smoother::Auto,
            relaxation: None,
            pre: 1,
            post: 1,
            coarse_sweeps: 2,
            visits: None,
            start: Start::Zero,
            precision: CyclePrecision::Auto,
        }
    }
}

/// The most sweeps before or after a coarse correction.
const MOST_SWEEPS: usize = 1000;
/// The most sweeps on the coarsest level.
const MOST_COARSE_SWEEPS: usize = 10_000;
/// The most visits of one level to the next: the numbers of several levels multiply.
const MOST_VISITS: usize = 10;

impl MultigridOptions {
    /// Returns ρ, with the smoother's own default.
    pub fn relaxation(&self) -> f64 {
        self.relaxation.unwrap_or(match self.smoother {
            Smoother::LineJacobi => 2.0 / 3.0,
            Smoother::Auto | Smoother::LineRedBlack | Smoother::Chebyshev => 1.0,
            // Measured: docs/notes/diffusion-multigrid.md.
            Smoother::PointRedBlack | Smoother::PointLine => 1.18,
        })
    }

    /// Checks every value.
    pub(super) fn validate(&self) -> Result<()> {
        let rho = self.relaxation();
        Error::unless(rho > 0.0 && rho < 2.0, "solver.multigrid.relaxation", || {
            format!("{rho} is not between 0 and 2; use 2/3 for line-jacobi, 1 for line-red-black, 1.18 for points")
        })?;
        for (is_valid, key, message) in [
            (self.levels != Some(0), "levels", "0 levels; the finest grid counts, so use 1 or more"),
            (self.coarse_sweeps > 0, "coarse_sweeps", "0 sweeps; use 1 or more (2 is usual)"),
            (
                (self.pre, self.post) != (0, 0),
                "pre",
                "pre and post are both 0; multigrid needs at least one sweep a level",
            ),
        ] {
            Error::unless(is_valid, &format!("solver.multigrid.{key}"), || message)?;
        }
        if let Some(&visits) = self.visits.iter().flatten().find(|visits| !(1..=MOST_VISITS).contains(*visits)) {
            return Err(Error::invalid(
                "solver.multigrid.visits",
                format!("{visits} visits to a level; use 1 (a V-cycle) to {MOST_VISITS}, [1, 3] is usual"),
            ));
        }
        for (key, sweeps, most, usual) in [
            ("solver.multigrid.pre", self.pre, MOST_SWEEPS, "1 or 2 are"),
            ("solver.multigrid.post", self.post, MOST_SWEEPS, "1 or 2 are"),
            ("solver.multigrid.coarse_sweeps", self.coarse_sweeps, MOST_COARSE_SWEEPS, "2 to 30 are"),
        ] {
            Error::unless(sweeps <= most, key, || format!("{sweeps} sweeps; use {most} or fewer ({usual} usual)"))?;
        }
        Ok(())
    }
}
