//! The Galerkin levels of diffusion on several ranks: divided as those of [`levels`](crate::levels), then whole on every rank.
//!
//! Every rank makes the matrices of the whole grid, and takes its rows of those that are divided. Strongly coupled aggregates that
//! several ranks have cells of are corrected by sums over ranks.

use std::sync::Arc;

use isobar_core::error::Result;
use isobar_core::layout::{Layout, Slab};
use isobar_core::operator::{CoarsestSolver, Correction, LineSmoother, Transfer, layout_of};
use isobar_core::real::Real;
use isobar_core::stencil::galerkin::Grid;
use isobar_core::stencil::galerkin_levels::{
    self, Below, COARSEST_CELLS, DenseSolver, Descent, Finer, SupportsGalerkin, bodies, descend, every_cell,
};
use isobar_core::stencil::{Axis, Diffusion, Hierarchy, Stencil, Update};

use crate::levels::{too_thin, transfer_to};
use crate::part::SupportsParts;
use crate::patches::Patches;
use crate::ranks::Ranks;
use crate::slabs::Slabs;

/// A back end whose 27-point operators may be subdomains.
pub trait SupportsGalerkinParts: SupportsGalerkin + SupportsParts<Diffusion> {
    /// Whether such levels may lie below a finest grid whose points are relaxed.
    const DIVIDES_POINTS_ABOVE_LINES: bool = true;

    /// Some rows of a matrix, the first of which is even.
    ///
    /// # Errors
    /// As [`SupportsGalerkin::coarse`].
    fn coarse_part<T: Real>(&self, matrix: &Self::Matrix, slab: Slab) -> Result<Arc<Self::Coarse<T>>>;

    /// One of several subdomains' share of strongly coupled aggregates, as
    /// [`Bodies::part`](isobar_core::stencil::galerkin::Bodies::part).
    ///
    /// # Errors
    /// The errors of the device.
    fn part_of_bodies(&self, all: Self::Bodies, whole: &Layout, starts: &[usize], rank: usize) -> Result<Self::Bodies>;
}

/// Whether a grid has such levels on these ranks.
pub(crate) fn has_galerkin(ranks: &Ranks, stencil: &Diffusion) -> Result<bool> {
    Ok(ranks.has_whole_rows() && ranks.patches(stencil.shape())?.rows().halved().is_some())
}

/// The hierarchy of a stencil, as [`galerkin`](galerkin_levels::galerkin) on one device.
///
/// # Errors
/// As there; [`Error::Unsupported`](isobar_core::Error::Unsupported) where x is divided, or a slab has no pair of rows.
pub fn by_galerkin<B: SupportsGalerkinParts, T: Real>(
    backend: &B,
    stencil: &Diffusion,
    finest: &Arc<B::Operator<T>>,
    wanted: Option<usize>,
) -> Result<Hierarchy<B, Diffusion, T>>
where
    B::Operator<T>: LineSmoother<B, T>,
{
    let Some(ranks) = backend.ranks() else { return galerkin_levels::galerkin(backend, stencil, finest, wanted) };
    let slabs = ranks.slabs(stencil.shape(), "multigrid on Galerkin grids")?;
    by_galerkin_on(backend, ranks, stencil, finest, &slabs, wanted)
}

/// A level below the finest, and where the rows of each rank begin if it is divided.
struct Level<B: SupportsGalerkin, T: Real> {
    below: Below<B, T>,
    starts: Option<Vec<usize>>,
}

/// The strongly coupled aggregates of a level, or this rank's share of them.
fn own_bodies<B: SupportsGalerkinParts>(
    backend: &B,
    has_bodies: bool,
    matrix: &B::Matrix,
    (starts, rank): (Option<&[usize]>, usize),
) -> Result<B::Bodies> {
    let layout = Layout::new(backend.grid(matrix).shape)?;
    let all = bodies(backend, has_bodies, matrix, &layout)?;
    match starts {
        Some(starts) => backend.part_of_bodies(all, &layout, starts, rank),
        None => Ok(all),
    }
}

/// The hierarchy of a stencil whose rows are divided like this.
///
/// # Errors
/// As [`by_galerkin`].
pub(crate) fn by_galerkin_on<B: SupportsGalerkinParts, T: Real>(
    backend: &B,
    ranks: &Ranks,
    stencil: &Diffusion,
    finest: &Arc<B::Operator<T>>,
    slabs: &Slabs,
    wanted: Option<usize>,
) -> Result<Hierarchy<B, Diffusion, T>>
where
    B::Operator<T>: LineSmoother<B, T>,
{
    if slabs.halved().is_none() {
        return Err(too_thin(stencil.shape(), &Patches::of_rows(stencil.shape(), slabs.clone())));
    }
    let (rank, alone, finest_starts) = (ranks.rank(), backend.alone(), slabs.starts());
    let matrix = backend.finest(stencil, finest)?;
    let has_bodies = backend.may_have_bodies(&matrix)?;
    let own = own_bodies(backend, has_bodies, &matrix, (Some(finest_starts), rank))?;
    let top = backend.body_correction::<T>(layout_of::<B, T>(&**finest), own)?;
    let (mut levels, mut transfers) = (Vec::<Level<B, T>>::new(), Vec::<Arc<dyn Transfer<B, T>>>::new());
    let mut all_do_it = None;
    let Descent { coarsest, visits, mut notes } = descend(backend, matrix, wanted, &mut |axes, weights, matrix| {
        let before = levels.last().map_or(Some(finest_starts), |level| level.starts.as_deref());
        let starts = before.map(|starts| -> Vec<usize> {
            let of = |&start: &usize| if axes.contains(&Axis::Y) { start.div_ceil(2) } else { start };
            starts.iter().map(of).collect()
        });
        let slab = starts.as_ref().map(|starts| Slab { first: starts[rank], beyond: starts[rank + 1] });
        let Grid { shape, periodic: [_, is_periodic, _] } = backend.grid(matrix);
        // Cells of one colour are beside each other where a periodic direction has an odd number of rows.
        let is_odd = is_periodic && !shape.ny.is_multiple_of(2);
        let is_worth_it = |starts: &Vec<usize>| Slabs::from_starts(starts).stay_divided();
        let stays = shape.cells() > COARSEST_CELLS && !is_odd && starts.as_ref().is_some_and(is_worth_it);
        let (operator, on) = match slab.filter(|_| stays) {
            Some(slab) => (backend.coarse_part::<T>(matrix, slab)?, backend),
            None => (alone.coarse::<T>(matrix)?, &alone),
        };
        let whole = *layout_of::<B, T>(&*operator);
        // A transfer from a subdomain to a whole grid acts on this rank's rows of that.
        let layout = slab.map_or(Ok(whole), |slab| slab.layout(shape, is_periodic))?;
        let finer = match levels.last() {
            None => Finer::Finest(finest),
            Some(level) => Finer::Coarse(&level.below.operator),
        };
        let transfer = backend.interpolation(finer, &layout, weights)?;
        let gathered = starts.as_ref().filter(|_| !stays);
        if gathered.is_some() {
            all_do_it = Some(format!("multigrid: every rank does all the work from {shape} on"));
        }
        let gathered = gathered.map(|starts| (layout, Patches::of_rows(shape, Slabs::from_starts(starts))));
        transfers.push(transfer_to(backend, Arc::clone(&transfer) as _, &whole, gathered)?);
        let starts = starts.filter(|_| stays);
        let own = own_bodies(backend, has_bodies, matrix, (starts.as_deref(), rank))?;
        let correction = on.body_correction(&whole, own)?;
        levels.push(Level { below: Below { axes, operator, transfer, correction }, starts });
        Ok(())
    })?;
    notes.splice(0..0, all_do_it);
    let of_finest = |matrix| {
        let cells = every_cell(stencil.shape())?.of_part(layout_of::<B, T>(&**finest))?;
        DenseSolver::new(backend, &cells, &backend.inverse(&matrix)?)
    };
    let solver = coarsest.map(|matrix| match levels.is_empty() {
        true => of_finest(matrix),
        false => DenseSolver::of(&alone, &matrix),
    });
    let solver = solver.transpose()?.map(Arc::new);
    let all_levels = levels.iter().map(|level| Arc::clone(&level.below.operator) as Arc<dyn LineSmoother<B, T>>);
    let all_corrections = levels.iter().map(|level| Arc::clone(&level.below.correction) as Arc<dyn Correction<B, T>>);
    Ok(Hierarchy {
        levels: [Arc::clone(finest) as Arc<dyn LineSmoother<B, T>>].into_iter().chain(all_levels).collect(),
        transfers,
        corrections: [Arc::clone(&top) as _].into_iter().chain(all_corrections).map(Some).collect(),
        coarsest: solver.clone().map(|solver| solver as Arc<dyn CoarsestSolver<B, T>>),
        by_points: 0,
        visits,
        notes,
        update: update(backend, finest, (finest_starts, rank), (top, levels, solver)),
    })
}

/// The parts of a hierarchy: the finest grid's correction, the levels below, and the exact solver of the coarsest.
type Made<B, T> = (Arc<<B as SupportsGalerkin>::BodyCorrection<T>>, Vec<Level<B, T>>, Option<Arc<DenseSolver<B>>>);

/// Gives all of it the coefficients of another stencil.
fn update<B: SupportsGalerkinParts, T: Real>(
    backend: &B,
    finest: &Arc<B::Operator<T>>,
    (starts, rank): (&[usize], usize),
    (top, levels, solver): Made<B, T>,
) -> Update<Diffusion> {
    let (backend, finest, finest_starts) = (backend.clone(), Arc::clone(finest), starts.to_vec());
    Box::new(move |stencil: &Diffusion| {
        let mut matrix = backend.finest(stencil, &finest)?;
        let has_bodies = backend.may_have_bodies(&matrix)?;
        backend.update_bodies(&top, own_bodies(&backend, has_bodies, &matrix, (Some(&finest_starts), rank))?)?;
        for Level { below: Below { axes, operator, transfer, correction }, starts } in &levels {
            let weights;
            (weights, matrix) = backend.coarsen(matrix, axes)?;
            backend.update_interpolation(transfer, weights)?;
            backend.update_coarse(operator, &matrix)?;
            let own = own_bodies(&backend, has_bodies, &matrix, (starts.as_deref(), rank))?;
            backend.update_bodies(correction, own)?;
        }
        solver.as_ref().map_or(Ok(()), |solver| solver.update(&backend.inverse(&matrix)?))
    })
}
