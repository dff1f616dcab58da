//! The levels of diffusion whose cells are relaxed each by itself, on several ranks: as those of [`levels`](crate::levels), on grids
//! that are halved in all directions; and points on the finest grid, lines on the Galerkin grids below it.
//!
//! Every rank has the coefficients of the whole grid, makes those of all coarser grids, and takes its rows of them.

use std::sync::Arc;

use isobar_core::error::{Error, Result};
use isobar_core::layout::{Patch, Shape};
use isobar_core::operator::{LineSmoother, Transfer, layout_of};
use isobar_core::real::Real;
use isobar_core::stencil::halving::Halving;
use isobar_core::stencil::point_levels::{self, SupportsPoints, ends_large, step_above_lines, steps};
use isobar_core::stencil::point_levels::{wanted_below, with_points_above};
use isobar_core::stencil::{Diffusion, Hierarchy, Stencil};

use crate::galerkin::{SupportsGalerkinParts, by_galerkin_on};
use crate::levels::{too_thin, transfer_to};
use crate::part::SupportsParts;
use crate::patches::Patches;
use crate::ranks::Ranks;
use crate::slabs::Slabs;

/// How each coarser grid is divided, or, the last, would be if it were not whole on every rank.
///
/// # Errors
/// The grid that cannot be halved where patches meet, and these.
fn divided(patches: Patches, by: &[Halving]) -> std::result::Result<Vec<Patches>, (Shape, Patches)> {
    let mut all = vec![patches];
    for by in by {
        let last = &all[all.len() - 1];
        if all.len() > 1 && !last.stay_divided() {
            break;
        }
        let [x, y, _] = &by.along;
        let coarse = last.halved([x.is_halved, y.is_halved]).ok_or_else(|| (by.fine, last.clone()))?;
        all.push(coarse);
    }
    all.remove(0);
    Ok(all)
}

/// Whether a grid has such levels on these ranks.
pub(crate) fn has_points(ranks: &Ranks, stencil: &Diffusion) -> Result<bool> {
    let patches = ranks.patches(stencil.shape())?;
    Ok(steps(stencil, None).is_ok_and(|steps| divided(patches, &steps).is_ok()))
}

/// The hierarchy of a stencil, as [`by_points`](point_levels::by_points) on one device.
///
/// # Errors
/// As there; [`Error::Unsupported`] where a slab has no pair of rows.
pub fn by_points<B: SupportsPoints + SupportsParts<Diffusion>, T: Real>(
    backend: &B,
    stencil: &Diffusion,
    finest: &Arc<B::Operator<T>>,
    wanted: Option<usize>,
) -> Result<Hierarchy<B, Diffusion, T>>
where
    B::Operator<T>: LineSmoother<B, T>,
{
    let Some(ranks) = backend.ranks() else { return point_levels::by_points(backend, stencil, finest, wanted) };
    let (steps, alone) = (steps(stencil, wanted)?, backend.alone());
    let patches =
        divided(ranks.patches(stencil.shape())?, &steps).map_err(|(shape, patches)| too_thin(shape, &patches))?;
    let (mut operators, mut transfers, mut notes) = (vec![Arc::clone(finest)], Vec::new(), Vec::new());
    let mut fine = stencil.clone();
    for (n, by) in steps.iter().enumerate() {
        let coarse = fine.halved(by)?;
        let (whole, patches) = (Patch::whole(by.coarse), patches.get(n));
        let patch = patches.map_or(whole, |patches| patches.of(ranks.rank()));
        let stays = patches.is_some_and(Patches::stay_divided);
        let operator = match stays {
            true => backend.point_part::<T>(&coarse, patch)?,
            false => alone.point_part::<T>(&coarse, whole)?,
        };
        let part_layout = patch.layout(by.coarse, coarse.rings())?;
        let part: Arc<dyn Transfer<B, T>> =
            backend.point_transfer(&operators[operators.len() - 1], &part_layout, by)?;
        let gathered = patches.filter(|_| !stays).map(|patches| (part_layout, patches.clone()));
        if gathered.is_some() {
            notes.push(format!("multigrid: every rank does all the work from {} on", by.coarse));
        }
        transfers.push(transfer_to(backend, part, layout_of::<B, T>(&*operator), gathered)?);
        operators.push(operator);
        fine = coarse;
    }
    notes.extend(ends_large(stencil.shape(), &steps, wanted));
    let levels = operators.iter().map(|operator| Arc::clone(operator) as Arc<dyn LineSmoother<_, T>>).collect();
    let backend = backend.clone();
    let update = move |stencil: &Diffusion| {
        let mut fine = stencil.clone();
        for (operator, by) in operators[1..].iter().zip(&steps) {
            fine = fine.halved(by)?;
            backend.update(operator, &fine)?;
        }
        Ok(())
    };
    Ok(Hierarchy::plain(levels, transfers, notes, Box::new(update)))
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
