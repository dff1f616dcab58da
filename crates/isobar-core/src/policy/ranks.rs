//! The solver on a grid that is divided among ranks.

use super::Choice;
use crate::options::{Method, Preconditioner, Smoother, SolverOptions};

/// A division of a grid among ranks.
#[derive(Clone, Copy, Debug)]
pub struct Division {
    /// Rows of the grid.
    pub rows: usize,
    /// Ranks that share it.
    pub ranks: usize,
    /// Whether every rank has pairs of rows, so that Galerkin grids can be shared.
    pub has_pairs: bool,
}

/// Chooses for diffusion: as `alone`, the choice of one device, if its coarser grids can be shared; else conjugate gradients with lines.
/// `has_points` returns whether those of cycles that relax points can be.
pub fn of_diffusion(
    alone: Choice,
    options: &SolverOptions,
    division: Division,
    has_points: impl FnOnce() -> bool,
) -> Choice {
    let Division { rows, ranks, has_pairs } = division;
    if alone.smoother == Smoother::PointRedBlack {
        if options.multigrid.smoother == Smoother::PointRedBlack || has_points() {
            let reserve = if has_pairs { alone.preconditioner } else { Preconditioner::Line };
            return Choice { preconditioner: reserve, ..alone };
        }
    } else if has_pairs {
        return alone;
    }
    // Coarser grids are shared by ranks that have a pair of rows each.
    let remedy = match rows / 2 {
        0 | 1 => "use one process".to_owned(),
        most if most < ranks => format!("use {most} processes or fewer"),
        _ => "use one process".to_owned(),
    };
    let why = format!(
        "conjugate gradients with lines, which take many times the iterations of multigrid: {rows} rows are too few for {ranks} ranks \
         to share coarser grids; {remedy}"
    );
    // A preconditioner that is named stays.
    let why = (options.preconditioner == Preconditioner::Auto).then_some(why);
    Choice { why, ..Choice::new(Method::Cg, Preconditioner::Line) }
}
