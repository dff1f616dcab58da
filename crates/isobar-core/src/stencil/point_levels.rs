//! The levels of diffusion whose cells are relaxed one by one: seven-point operators throughout, on grids halved in all directions, with
//! coefficients averaged over cells.

use std::sync::Arc;

use super::galerkin_levels::{SupportsGalerkin, galerkin};
use super::halving::{End, Halving, halvings};
use super::hierarchy::AtOnce;
use super::{Diffusion, Hierarchy, Small, Stencil, Supports};
use crate::operator::{LevelBackend, LineSmoother, Transfer, layout_of};
use crate::options::{MultigridOptions, Smoother};
use crate::{Error, Layout, Real, Result, Shape};

/// A back end that has such levels.
pub trait SupportsPoints: Supports<Diffusion> + LevelBackend {
    /// Makes the transfer between an operator and that of the coarser grid, whose vectors have this layout: R sums the cells of a coarser
    /// one, P is linear between centres (see [`Halving`]).
    fn point_transfer<T: Real>(
        &self,
        fine: &Arc<Self::Operator<T>>,
        coarse: &Layout,
        by: &Halving,
    ) -> Result<Arc<dyn Transfer<Self, T>>>;

    /// Makes the [`Supports::operator`] of a coarser level, which is used to relax points only.
    fn point_operator<T: Real>(&self, stencil: &Diffusion) -> Result<Arc<Self::Operator<T>>> {
        self.operator(stencil)
    }

    /// Makes the operator of a stencil on the coarser grid, and that stencil, with the data that [`SupportsPoints::rehalve`] needs.
    ///
    /// # Errors
    /// The errors of [`Supports::operator`], and of [`Diffusion::halved`].
    fn halve<T: Real>(
        &self,
        stencil: &Diffusion,
        _operator: &Arc<Self::Operator<T>>,
        by: &Halving,
    ) -> Result<(Diffusion, Arc<Self::Operator<T>>)> {
        halve_on_host(self, stencil, by)
    }

    /// Gives the coarser one of two operators the coefficients that those of the finer one, which are `stencil`'s, make. Returns
    /// the coarser stencil.
    fn rehalve<T: Real>(
        &self,
        stencil: &Diffusion,
        _fine: &Arc<Self::Operator<T>>,
        coarse: &Arc<Self::Operator<T>>,
        by: &Halving,
    ) -> Result<Diffusion> {
        rehalve_on_host(self, stencil, coarse, by)
    }

    /// Makes a solver that does a cycle from zero on some of these levels, from one below the finest to the coarsest, where that takes less time than
    /// step after step. By default there is none.
    ///
    /// # Errors
    /// Fails if the device lacks memory.
    fn small_levels<T: Real>(
        &self,
        _operators: &[Arc<Self::Operator<T>>],
        _steps: &[Halving],
        _options: &MultigridOptions,
    ) -> Result<Option<Small<Self, T>>> {
        Ok(None)
    }
}

/// Implements [`SupportsPoints::halve`] from coefficients of the whole grid, whatever part of it an operator has.
fn halve_on_host<B: SupportsPoints, T: Real>(
    backend: &B,
    stencil: &Diffusion,
    by: &Halving,
) -> Result<(Diffusion, Arc<B::Operator<T>>)> {
    let coarse = stencil.halved(by)?;
    let operator = backend.point_operator(&coarse)?;
    Ok((coarse, operator))
}

/// Implements [`SupportsPoints::rehalve`] in the same way.
fn rehalve_on_host<B: SupportsPoints, T: Real>(
    backend: &B,
    stencil: &Diffusion,
    coarse: &B::Operator<T>,
    by: &Halving,
) -> Result<Diffusion> {
    let stencil = stencil.halved(by)?;
    backend.update(coarse, &stencil)?;
    Ok(stencil)
}

/// Cells of a grid that a few sweeps do not solve on.
const TOO_MANY: usize = 8;

/// Makes the hierarchy of a stencil for a smoother.
///
/// # Errors
/// The errors of [`Supports::operator`], [`Diffusion::halved`], [`LevelBackend::coarser`] and [`galerkin`]; [`Error::Unsupported`] for a grid
/// that is not halved.
pub fn levels_for<B: SupportsPoints + SupportsGalerkin, T: Real>(
    backend: &B,
    stencil: &Diffusion,
    finest: &Arc<B::Operator<T>>,
    smoother: Smoother,
    wanted: Option<usize>,
) -> Result<Hierarchy<B, Diffusion, T>>
where
    B::Operator<T>: LineSmoother<B, T>,
{
    match smoother {
        Smoother::PointRedBlack => by_points(backend, stencil, finest, wanted),
        Smoother::PointLine => points_above_lines(backend, stencil, finest, wanted),
        _ => galerkin(backend, stencil, finest, wanted),
    }
}

/// Makes the hierarchy of a stencil: `wanted` levels, or as many as lead to a single cell.
fn by_points<B: SupportsPoints, T: Real>(
    backend: &B,
    stencil: &Diffusion,
    finest: &Arc<B::Operator<T>>,
    wanted: Option<usize>,
) -> Result<Hierarchy<B, Diffusion, T>>
where
    B::Operator<T>: LineSmoother<B, T>,
{
    let steps = steps(stencil, wanted)?;
    // A rank's coefficients do not suffice for those of its share of a coarser grid.
    let is_part = layout_of::<B, T>(&**finest).is_part();
    let (mut operators, mut transfers, mut notes) = (vec![Arc::clone(finest)], Vec::new(), Vec::new());
    let (mut on, mut fine) = (backend.clone(), stencil.clone());
    for by in &steps {
        let before = &operators[operators.len() - 1];
        let coarser = on.coarser(by.fine, by.coarse, false)?;
        let (coarse, operator) = match is_part {
            true => halve_on_host(coarser.level(), &fine, by)?,
            false => coarser.level().halve(&fine, before, by)?,
        };
        let own = coarser.own.own_rows(by.coarse)?.layout(by.coarse, coarse.has_periodic_rows())?;
        let to_own = on.point_transfer(before, &own, by)?;
        transfers.push(coarser.transfer(to_own, &own, layout_of::<B, T>(&*operator))?);
        notes.extend(coarser.note(by.coarse));
        operators.push(operator);
        (on, fine) = (coarser.level().clone(), coarse);
    }
    notes.extend(ends_large(stencil.shape(), &steps, wanted));
    let levels = operators.iter().map(|operator| Arc::clone(operator) as Arc<dyn LineSmoother<B, T>>).collect();
    let at_once = (!is_part).then(|| {
        let (backend, operators, steps) = (backend.clone(), operators.clone(), steps.clone());
        Box::new(move |options: &MultigridOptions| backend.small_levels(&operators, &steps, options)) as AtOnce<B, T>
    });
    let backend = backend.clone();
    let update = move |stencil: &Diffusion| {
        let mut fine = stencil.clone();
        for (pair, by) in operators.windows(2).zip(&steps) {
            fine = match is_part {
                true => rehalve_on_host(&backend, &fine, &pair[1], by)?,
                false => backend.rehalve(&fine, &pair[0], &pair[1], by)?,
            };
        }
        Ok(())
    };
    Ok(Hierarchy { at_once, ..Hierarchy::plain(levels, transfers, notes, Box::new(update)) })
}

/// Makes the hierarchy of a stencil whose finest grid alone is relaxed by points: the grid below, halved in all strong directions, has the
/// faces of [`Diffusion::halved_by_faces`], and the Galerkin levels of these follow. There are `wanted` levels in total, at least two.
///
/// # Errors
/// The errors of [`Supports::operator`], and of [`Diffusion::halved_by_faces`]; [`Error::Unsupported`] for a grid that is not halved.
fn points_above_lines<B: SupportsPoints + SupportsGalerkin, T: Real>(
    backend: &B,
    stencil: &Diffusion,
    finest: &Arc<B::Operator<T>>,
    wanted: Option<usize>,
) -> Result<Hierarchy<B, Diffusion, T>>
where
    B::Operator<T>: LineSmoother<B, T>,
{
    let by = step_above_lines(stencil)?;
    let coarse = stencil.halved_by_faces(&by)?;
    let on = backend.coarser(by.fine, by.coarse, false)?.own;
    let operator = on.operator::<T>(&coarse)?;
    let below = galerkin(&on, &coarse, &operator, wanted.map(|wanted| wanted.saturating_sub(1).max(1)))?;
    let transfer = backend.point_transfer(finest, layout_of::<B, T>(&*operator), &by)?;
    let update_below = below.update;
    let update = move |stencil: &Diffusion| {
        let coarse = stencil.halved_by_faces(&by)?;
        on.update(&operator, &coarse)?;
        update_below(&coarse)
    };
    let made = Hierarchy {
        levels: [Arc::clone(finest) as _].into_iter().chain(below.levels).collect(),
        transfers: [transfer].into_iter().chain(below.transfers).collect(),
        corrections: [None].into_iter().chain(below.corrections).collect(),
        visits: [1].into_iter().chain(below.visits).collect(),
        by_points: 1,
        update: Box::new(update),
        coarsest: below.coarsest,
        notes: below.notes,
        at_once: None,
    };
    Ok(made.visited(B::visits(stencil.shape().cells())))
}

/// Returns how the finest grid of the hybrid smoother is halved.
///
/// # Errors
/// [`Error::Unsupported`] for a grid that cannot be halved.
pub fn step_above_lines(stencil: &Diffusion) -> Result<Halving> {
    steps(stencil, Some(2))?.into_iter().next().ok_or_else(|| {
        let rings = stencil.ends().into_iter().zip(stencil.shape().extents()).zip(["x", "y", "z"]);
        let odd = rings.filter(|((ends, n), _)| ends[0] == End::Ring && *n > 2 && n % 4 != 0);
        let odd: Vec<String> = odd.map(|((_, n), name)| format!("{name} has {n}")).collect();
        let why = if odd.is_empty() {
            format!("{} cells cannot be halved", stencil.shape())
        } else {
            format!("a periodic direction needs 2 cells or a multiple of 4 for that, and {}", odd.join(", "))
        };
        Error::Unsupported(format!(
            "solver.multigrid.smoother: \"point-line\" halves the finest grid once; {why}; change the grid, or use \"line-red-black\""
        ))
    })
}

/// Returns the coarsenings of a stencil's grid: `wanted` levels, or as many as lead to a single cell.
///
/// # Errors
/// [`Error::Unsupported`] for periodic directions with an odd number of cells, which do not alternate in colour.
pub fn steps(stencil: &Diffusion, wanted: Option<usize>) -> Result<Vec<Halving>> {
    let shape = stencil.shape();
    let is_odd = |&(ends, n): &([End; 2], usize)| ends[0] == End::Ring && n > 1 && n % 2 == 1;
    if stencil.ends().into_iter().zip(shape.extents()).any(|direction| is_odd(&direction)) {
        return Err(Error::Unsupported(format!(
            "solver.multigrid.smoother: points where an odd number of cells goes around a ring, of {shape} cells; use \
             \"line-red-black\""
        )));
    }
    Ok(halvings(shape, stencil.ends(), stencil.strengths(), wanted))
}

/// Returns a note for the user if coarsening ends at a grid with many cells.
fn ends_large(shape: Shape, steps: &[Halving], wanted: Option<usize>) -> Option<String> {
    let last = steps.last().map_or(shape, |by| by.coarse);
    (wanted.is_none() && last.cells() > TOO_MANY).then(|| {
        format!("{last} cells are not coarsened further, and only relaxed: an odd number of cells goes around a ring")
    })
}

/// Returns whether coarsening ends at a grid that is small enough for sweeps to solve on it.
pub fn ends_small(stencil: &Diffusion) -> bool {
    steps(stencil, None)
        .is_ok_and(|steps| steps.last().map_or(Stencil::shape(stencil), |by| by.coarse).cells() <= TOO_MANY)
}
