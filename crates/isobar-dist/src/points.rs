//! The levels of diffusion whose cells are relaxed each by itself, on several ranks: as those of [`levels`](crate::levels), on grids
//! that are halved in all directions.
//!
//! Every rank has the coefficients of the whole grid, makes those of all coarser grids, and takes its rows of them.

use std::sync::Arc;

use isobar_core::error::Result;
use isobar_core::layout::{Patch, Shape};
use isobar_core::operator::{LineSmoother, Operator, Transfer};
use isobar_core::real::Real;
use isobar_core::stencil::halving::Halving;
use isobar_core::stencil::parts::SupportsPointParts;
use isobar_core::stencil::point_levels::{ends_large, steps};
use isobar_core::stencil::{Diffusion, Hierarchy, Stencil};

use crate::distributed::Distributed;
use crate::levels::{DistributedTransfer, too_thin};
use crate::operator::DistributedOperator;
use crate::patches::Patches;

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
pub(crate) fn has_points<B: SupportsPointParts>(backend: &Distributed<B>, stencil: &Diffusion) -> Result<bool> {
    if !backend.has_others() {
        return Ok(true);
    }
    let patches = backend.patches(stencil.shape())?;
    Ok(steps(stencil, None).is_ok_and(|steps| divided(patches, &steps).is_ok()))
}

/// The hierarchy of a stencil.
///
/// # Errors
/// As [`isobar_core::stencil::point_levels::by_points`]; [`isobar_core::error::Error::Unsupported`] where a slab has no pair of rows.
pub(crate) fn by_points<B: SupportsPointParts, T: Real>(
    backend: &Distributed<B>,
    stencil: &Diffusion,
    finest: &Arc<DistributedOperator<B, B::Part<T>>>,
    wanted: Option<usize>,
) -> Result<Hierarchy<Distributed<B>, Diffusion, T>> {
    let (world, inner) = (backend.world(), backend.inner());
    let steps = steps(stencil, wanted)?;
    let patches = match backend.has_others() {
        true => {
            divided(backend.patches(stencil.shape())?, &steps).map_err(|(shape, patches)| too_thin(shape, &patches))?
        }
        false => Vec::new(),
    };
    inner.prepare_points(finest.part())?;
    let (mut operators, mut transfers, mut notes) = (vec![Arc::clone(finest)], Vec::new(), Vec::new());
    let mut fine = stencil.clone();
    for (n, by) in steps.iter().enumerate() {
        let coarse = fine.halved(by)?;
        let (whole, patches) = (Patch::whole(by.coarse), patches.get(n));
        let patch = patches.map_or(whole, |patches| patches.of(world.rank()));
        let stays = patches.is_some_and(Patches::stay_divided);
        let operator = match stays {
            true => DistributedOperator::of_part(backend, inner.point_part::<T>(&coarse, patch)?),
            false => DistributedOperator::whole(backend, inner.point_part::<T>(&coarse, whole)?),
        };
        inner.prepare_points(operator.part())?;
        let before = &operators[operators.len() - 1];
        let part_layout = patch.layout(by.coarse, coarse.rings())?;
        let part = inner.point_part_transfer(before.part(), &part_layout, by)?;
        let gathered = patches.filter(|_| !stays).map(|patches| (part_layout, patches));
        if gathered.is_some() {
            notes.push(format!("multigrid: every rank does all the work from {} on", by.coarse));
        }
        let layout = *Operator::<_, T>::layout(&operator);
        let transfer: Arc<dyn Transfer<Distributed<B>, T>> = DistributedTransfer::new(before, part, layout, gathered)?;
        transfers.push(transfer);
        operators.push(Arc::new(operator));
        fine = coarse;
    }
    notes.extend(ends_large(stencil.shape(), &steps, wanted));
    let levels = operators.iter().map(|operator| Arc::clone(operator) as Arc<dyn LineSmoother<_, T>>).collect();
    let inner = inner.clone();
    let update = move |stencil: &Diffusion| {
        let mut fine = stencil.clone();
        for (operator, by) in operators[1..].iter().zip(&steps) {
            fine = fine.halved(by)?;
            inner.update_part(operator.part(), &fine)?;
        }
        Ok(())
    };
    Ok(Hierarchy::plain(levels, transfers, notes, Box::new(update)))
}
