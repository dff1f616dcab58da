//! The levels of diffusion whose cells are relaxed each by itself, on several ranks: as those of [`levels`](crate::levels), on grids
//! that are halved in all directions; and points on the finest grid, lines on the Galerkin grids below it.
//!
//! Every rank has the coefficients of the whole grid, makes those of all coarser grids, and takes its rows of them.

use std::sync::Arc;

use isobar_core::error::{Error, Result};
use isobar_core::layout::Patch;
use isobar_core::operator::LineSmoother;
use isobar_core::real::Real;
use isobar_core::stencil::halving::Halving;
use isobar_core::stencil::point_levels::{self, SupportsPoints, step_above_lines, steps};
use isobar_core::stencil::point_levels::{wanted_below, with_points_above};
use isobar_core::stencil::{Diffusion, Hierarchy, Stencil};

use crate::galerkin::{SupportsGalerkinParts, by_galerkin_on};
use crate::levels::too_thin;
use crate::patches::Patches;
use crate::ranks::Ranks;
use crate::slabs::Slabs;

/// Whether a grid has such levels on these ranks.
pub(crate) fn has_points(ranks: &Ranks, stencil: &Diffusion) -> Result<bool> {
    let patches = ranks.patches(stencil.shape())?;
    let is_halved = |by: &Halving| patches.halved([0, 1].map(|d: usize| by.along[d].is_halved)).is_some();
    Ok(steps(stencil, None).is_ok_and(|steps| steps.first().is_none_or(is_halved)))
}

/// The rows of the grid below, divided as those of the finest; nothing where a pair is divided, or would be on the grid below that.
fn below(slabs: &Slabs, by: &Halving) -> Option<Slabs> {
    let coarse = if by.along[1].is_halved { slabs.halved()? } else { slabs.clone() };
    coarse.halved().map(|_| coarse)
}

/// Whether a grid has points above lines on these ranks.
pub(crate) fn has_points_above_lines<B: SupportsGalerkinParts>(ranks: &Ranks, stencil: &Diffusion) -> Result<bool> {
    if !B::DIVIDES_POINTS_ABOVE_LINES || !ranks.has_whole_rows() {
        return Ok(false);
    }
    let slabs = Slabs::new(stencil.shape(), ranks.size())?;
    Ok(step_above_lines(stencil).is_ok_and(|by| below(&slabs, &by).is_some()))
}

/// The hierarchy of points above lines, as [`points_above_lines`](point_levels::points_above_lines) on one device: the grid below is
/// divided in the same places.
///
/// # Errors
/// As there; [`Error::Unsupported`] where the back end divides no such levels, x is divided, or slabs are too thin.
pub fn points_above_lines<B: SupportsPoints + SupportsGalerkinParts, T: Real>(
    backend: &B,
    stencil: &Diffusion,
    finest: &Arc<B::Operator<T>>,
    wanted: Option<usize>,
) -> Result<Hierarchy<B, Diffusion, T>>
where
    B::Operator<T>: LineSmoother<B, T>,
{
    let Some(ranks) = backend.ranks() else {
        return point_levels::points_above_lines(backend, stencil, finest, wanted);
    };
    if !B::DIVIDES_POINTS_ABOVE_LINES {
        return Err(Error::Unsupported(
            "solver.multigrid.smoother: \"point-line\" on several of these devices; use \"point-red-black\" where coefficients are \
             smooth, solver.method = \"cg\" with the preconditioner \"line\", or run on one"
                .into(),
        ));
    }
    let shape = stencil.shape();
    let slabs = ranks.slabs(shape, "points above lines")?;
    let by = step_above_lines(stencil)?;
    let divided = below(&slabs, &by).ok_or_else(|| too_thin(shape, &Patches::of_rows(shape, slabs.clone())))?;
    let coarse = stencil.halved_by_faces(&by)?;
    let patch = Patch { y: divided.of(ranks.rank()), ..Patch::whole(by.coarse) };
    let operator = backend.part::<T>(&coarse, patch)?;
    let below = by_galerkin_on(backend, ranks, &coarse, &operator, &divided, wanted_below(wanted))?;
    with_points_above(backend, finest, by, &operator, below)
}
