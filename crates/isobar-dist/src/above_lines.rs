//! Points on the finest grid, lines on the Galerkin grids below it, on several ranks: the grid below is divided in the same places.

use std::sync::Arc;

use isobar_core::error::{Error, Result};
use isobar_core::layout::Patch;
use isobar_core::operator::{Operator, Transfer};
use isobar_core::real::Real;
use isobar_core::stencil::halving::Halving;
use isobar_core::stencil::parts::SupportsPointParts;
use isobar_core::stencil::point_levels::{step_above_lines, wanted_below, with_points_above};
use isobar_core::stencil::{Diffusion, Hierarchy, Stencil};

use crate::distributed::Distributed;
use crate::galerkin::by_galerkin_on;
use crate::levels::{DistributedTransfer, too_thin};
use crate::operator::DistributedOperator;
use crate::patches::Patches;
use crate::slabs::Slabs;

/// The rows of the grid below, divided as those of the finest; nothing where a pair is divided, or would be on the grid below that.
fn below(slabs: &Slabs, by: &Halving) -> Option<Slabs> {
    let coarse = if by.along[1].is_halved { slabs.halved()? } else { slabs.clone() };
    coarse.halved().map(|_| coarse)
}

/// Whether a grid has such levels on these ranks.
pub(crate) fn has_points_above_lines<B: SupportsPointParts>(
    backend: &Distributed<B>,
    stencil: &Diffusion,
) -> Result<bool> {
    if !B::DIVIDES_POINTS_ABOVE_LINES || !backend.has_whole_rows() {
        return Ok(false);
    }
    let slabs = Slabs::new(stencil.shape(), backend.world().size())?;
    Ok(step_above_lines(stencil).is_ok_and(|by| !backend.has_others() || below(&slabs, &by).is_some()))
}

/// The hierarchy of a stencil.
///
/// # Errors
/// As [`isobar_core::stencil::point_levels::points_above_lines`]; [`Error::Unsupported`] where the back end divides no such levels, x
/// is divided, or slabs are too thin.
pub(crate) fn points_above_lines<B: SupportsPointParts, T: Real>(
    backend: &Distributed<B>,
    stencil: &Diffusion,
    finest: &Arc<DistributedOperator<B, B::Part<T>>>,
    wanted: Option<usize>,
) -> Result<Hierarchy<Distributed<B>, Diffusion, T>> {
    let refused = || {
        Error::Unsupported(
            "solver.multigrid.smoother: \"point-line\" on several of these devices; use \"point-red-black\" where coefficients are \
             smooth, solver.method = \"cg\" with the preconditioner \"line\", or run on one"
                .into(),
        )
    };
    if !B::DIVIDES_POINTS_ABOVE_LINES {
        return Err(refused());
    }
    let (shape, inner, rank) = (stencil.shape(), backend.inner(), backend.world().rank());
    let slabs = backend.slabs(shape, "points above lines")?;
    let by = step_above_lines(stencil)?;
    let divided = match backend.has_others() {
        true => below(&slabs, &by).ok_or_else(|| too_thin(shape, &Patches::of_rows(shape, slabs.clone())))?,
        false => Slabs::from_starts(&[0, by.coarse.ny]),
    };
    let coarse = stencil.halved_by_faces(&by)?;
    let patch = Patch { y: divided.of(rank), ..Patch::whole(by.coarse) };
    let operator = Arc::new(DistributedOperator::of_part(backend, inner.part::<T>(&coarse, patch)?));
    inner.prepare_points(finest.part())?;
    let layout = *Operator::<_, T>::layout(&*operator);
    let part = inner.point_part_transfer(finest.part(), &layout, &by)?;
    let transfer: Arc<dyn Transfer<Distributed<B>, T>> = DistributedTransfer::new(finest, part, layout, None)?;
    let hierarchy = by_galerkin_on(backend, &coarse, &operator, &divided, wanted_below(wanted))?;
    let inner = inner.clone();
    let update = move |coarse: &Diffusion| inner.update_part(operator.part(), coarse);
    Ok(with_points_above(Arc::clone(finest) as _, transfer, by, hierarchy.ok_or_else(refused)?, update))
}
