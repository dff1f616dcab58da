//! The Galerkin levels of diffusion on several devices: the finest ones divided, the others whole on every device.
//!
//! Setup is that of the whole grid, wherever each makes such matrices: all make the same, and take their rows of those that are
//! divided.

use std::sync::Arc;

use super::galerkin::Grid;
use super::galerkin_levels::{
    Below, COARSEST_CELLS, DenseSolver, Descent, Finer, LineSmootherOf, SupportsGalerkin, bodies, descend,
};
use super::{Axis, Diffusion, Hierarchy};
use crate::backend::part::PartBackend;
use crate::error::Result;
use crate::layout::{Layout, Slab};
use crate::operator::part::PartSmoother;
use crate::operator::{CoarsestSolver, Correction, LineSmoother, Transfer};
use crate::real::Real;

/// How a grid's rows are divided, and which of them are to be had here.
#[derive(Clone, Copy)]
pub struct Division<'a> {
    /// Where the rows of each part of the finest grid begin, all with an even number, and where the last one's end.
    pub starts: &'a [usize],
    /// The part that this is.
    pub rank: usize,
    /// Whether a coarser grid divided like this is worth it; the next one may be divided too.
    pub stays: &'a dyn Fn(&[usize]) -> bool,
}

/// A back end whose 27-point operators may be parts.
pub trait SupportsGalerkinParts: SupportsGalerkin + PartBackend {
    /// The matrix of a stencil, all of it, of whose grid the operator is a part.
    ///
    /// # Errors
    /// As [`SupportsGalerkin::finest`].
    fn finest_of_whole<T: Real>(&self, stencil: &Diffusion, part: &Arc<Self::Operator<T>>) -> Result<Self::Matrix> {
        self.finest(stencil, part)
    }

    /// Some rows of a matrix, the first of which is even.
    ///
    /// # Errors
    /// As [`SupportsGalerkin::coarse`].
    fn coarse_part<T: Real>(&self, matrix: &Self::Matrix, slab: Slab) -> Result<Arc<Self::Coarse<T>>>;

    /// Those of one of several parts, as [`Bodies::part`](super::galerkin::Bodies::part).
    ///
    /// # Errors
    /// What the device reports.
    fn part_of_bodies(&self, all: Self::Bodies, whole: &Layout, starts: &[usize], rank: usize) -> Result<Self::Bodies>;
}

/// What a device has of the levels: those that are divided first.
pub struct GalerkinParts<B: PartBackend, T: Real> {
    /// Those below the finest that are divided.
    pub divided: Vec<Arc<dyn PartSmoother<B, T>>>,
    /// From the finest and from each of these to the next coarser one.
    pub transfers: Vec<Arc<dyn Transfer<B, T>>>,
    /// How the first coarser level that is whole would be divided: this part's vectors, and where all parts begin.
    pub gathered: Option<(Layout, Vec<usize>)>,
    /// Beside the sweeps of the finest and of each that is divided.
    pub corrections: Vec<Arc<dyn Correction<B, T>>>,
    /// Those that are whole; the update is that of all but the finest.
    pub whole: Hierarchy<B, Diffusion, T>,
    /// How many cycles of the next coarser level one of each level contains, the finest first.
    pub visits: Vec<usize>,
    /// Where the finest grid is so small that it is solved on exactly: its inverse.
    pub inverse: Option<Box<Inverse>>,
}

/// A dense inverse, row after row.
pub type Inverse = dyn Fn(&Diffusion) -> Result<Vec<f64>> + Send + Sync;

/// A level below the finest, and how it is divided if it is.
struct Level<B: SupportsGalerkin, T: Real> {
    below: Below<B, T>,
    starts: Option<Vec<usize>>,
}

/// The bodies of a level, or this part's of them.
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

/// The levels of a diffusion stencil, as [`galerkin`](super::galerkin_levels::galerkin), of whose finest level this is a part.
///
/// # Errors
/// As [`Supports::operator`](super::Supports::operator).
pub fn galerkin_parts<B: SupportsGalerkinParts, T: Real>(
    backend: &B,
    stencil: &Diffusion,
    finest: &Arc<B::Operator<T>>,
    division: Division<'_>,
    wanted: Option<usize>,
) -> Result<GalerkinParts<B, T>>
where
    B::Operator<T>: PartSmoother<B, T>,
    B::Coarse<T>: PartSmoother<B, T>,
{
    let Division { starts: finest_starts, rank, stays } = division;
    let matrix = backend.finest_of_whole(stencil, finest)?;
    let has_bodies = backend.may_have_bodies(&matrix)?;
    let layout = *LineSmootherOf::layout::<B, T>(&**finest);
    let own = own_bodies(backend, has_bodies, &matrix, (Some(finest_starts), rank))?;
    let top = backend.body_correction::<T>(&layout, own)?;
    let (mut levels, mut gathered) = (Vec::<Level<B, T>>::new(), None);
    let Descent { coarsest, visits, notes } = descend(backend, matrix, wanted, &mut |axes, weights, matrix| {
        let before = levels.last().map_or(Some(finest_starts), |level| level.starts.as_deref());
        let starts = before.map(|starts| -> Vec<usize> {
            let of = |&start: &usize| if axes.contains(&Axis::Y) { start.div_ceil(2) } else { start };
            starts.iter().map(of).collect()
        });
        let slab = starts.as_ref().map(|starts| Slab { first: starts[rank], beyond: starts[rank + 1] });
        let Grid { shape, periodic: [_, is_ring, _] } = backend.grid(matrix);
        // Cells of one colour are beside each other where an odd number of rows is a ring.
        let is_odd = is_ring && !shape.ny.is_multiple_of(2);
        let stays = shape.cells() > COARSEST_CELLS && !is_odd && starts.as_ref().is_some_and(|starts| stays(starts));
        let operator = match slab.filter(|_| stays) {
            Some(slab) => backend.coarse_part::<T>(matrix, slab)?,
            None => backend.coarse::<T>(matrix)?,
        };
        // What goes from a part to what is whole knows this part's rows of it alone.
        let layout = match slab {
            Some(slab) => slab.layout(shape, is_ring)?,
            None => *LineSmootherOf::layout::<B, T>(&*operator),
        };
        let finer = match levels.last() {
            None => Finer::Finest(finest),
            Some(level) => Finer::Coarse(&level.below.operator),
        };
        let transfer = backend.interpolation(finer, &layout, weights)?;
        if !stays && let Some(starts) = &starts {
            gathered = Some((layout, starts.clone()));
        }
        let starts = starts.filter(|_| stays);
        let own = own_bodies(backend, has_bodies, matrix, (starts.as_deref(), rank))?;
        let correction = backend.body_correction(LineSmootherOf::layout::<B, T>(&*operator), own)?;
        levels.push(Level { below: Below { axes, operator, transfer, correction }, starts });
        Ok(())
    })?;
    let is_solved = levels.is_empty() && coarsest.is_some();
    let solver = match coarsest {
        Some(matrix) if !levels.is_empty() => Some(Arc::new(DenseSolver::of(backend, &matrix)?)),
        _ => None,
    };
    let inverse = is_solved.then(|| {
        let (backend, finest) = (backend.clone(), Arc::clone(finest));
        Box::new(move |stencil: &Diffusion| backend.inverse(&backend.finest_of_whole(stencil, &finest)?))
            as Box<Inverse>
    });
    let first_whole = levels.iter().take_while(|level| level.starts.is_some()).count();
    let (divided, whole) = levels.split_at(first_whole);
    let parts = levels.iter().take(first_whole + 1);
    let transfers = parts.map(|level| Arc::clone(&level.below.transfer) as _).collect();
    let corrections = divided.iter().map(|level| Arc::clone(&level.below.correction) as _);
    let corrections = [Arc::clone(&top) as Arc<dyn Correction<B, T>>].into_iter().chain(corrections).collect();
    let divided = divided.iter().map(|level| Arc::clone(&level.below.operator) as _).collect();
    let whole_levels = whole.iter().map(|level| Arc::clone(&level.below.operator) as Arc<dyn LineSmoother<B, T>>);
    let whole_transfers =
        whole.iter().skip(1).map(|level| Arc::clone(&level.below.transfer) as Arc<dyn Transfer<B, T>>);
    let whole_corrections =
        whole.iter().map(|level| Some(Arc::clone(&level.below.correction) as Arc<dyn Correction<B, T>>));
    let (whole_levels, whole_transfers, whole_corrections) =
        (whole_levels.collect(), whole_transfers.collect(), whole_corrections.collect());
    let solves = solver.clone().map(|solver| solver as Arc<dyn CoarsestSolver<B, T>>);
    let (backend, finest, starts) = (backend.clone(), Arc::clone(finest), finest_starts.to_vec());
    let update = move |stencil: &Diffusion| {
        let mut matrix = backend.finest_of_whole(stencil, &finest)?;
        let has_bodies = backend.may_have_bodies(&matrix)?;
        backend.update_bodies(&top, own_bodies(&backend, has_bodies, &matrix, (Some(&starts), rank))?)?;
        for Level { below: Below { axes, operator, transfer, correction }, starts } in &levels {
            let weights;
            (weights, matrix) = backend.coarsen(matrix, axes)?;
            backend.update_interpolation(transfer, weights)?;
            backend.update_coarse(operator, &matrix)?;
            let own = own_bodies(&backend, has_bodies, &matrix, (starts.as_deref(), rank))?;
            backend.update_bodies(correction, own)?;
        }
        solver.as_ref().map_or(Ok(()), |solver| solver.update(&backend.inverse(&matrix)?))
    };
    let whole = Hierarchy {
        levels: whole_levels,
        transfers: whole_transfers,
        corrections: whole_corrections,
        coarsest: solves,
        by_points: 0,
        visits: visits.get(first_whole + 1..).unwrap_or_default().to_vec(),
        notes,
        update: Box::new(update),
    };
    Ok(GalerkinParts { divided, transfers, gathered, corrections, whole, visits, inverse })
}
