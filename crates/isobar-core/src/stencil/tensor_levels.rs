//! The levels of a tensor product, by coarsening on the host, and its vertical modes: the interface of a back end, and the hierarchy
//! that it gives.

use std::ops::Range;
use std::sync::Arc;

use super::{Hierarchy, Stencil, Supports, TensorProduct, VerticalModes};
use crate::operator::{LevelBackend, LineSmoother, ModalTransfer, OwnModes, Transfer, layout_of};
use crate::options::{MultigridOptions, SolverOptions};
use crate::policy::modes::Plan;
use crate::{Backend, Layout, Real, Result, Shape};

/// Some vertical modes of a matrix on a device. The modes have a precision of their own.
pub struct Modes<B: Backend, S, T: Real, C: Real> {
    /// The transfer between the grid and its vertical modes.
    pub transfer: Arc<dyn ModalTransfer<B, T, C>>,
    /// The two-dimensional problems, a layer each, and the levels of multigrid for them. Their update updates the transfer too, given
    /// the coefficients of the whole matrix.
    pub problems: Hierarchy<B, S, C>,
    /// The number of modes, sweeps and cycles of an iteration.
    pub plan: Plan,
}

/// A back end that goes between the grids of a tensor product, and between a grid and its vertical modes.
pub trait SupportsTransfers: Supports<TensorProduct> + LevelBackend {
    /// Makes the transfer between the operators of a matrix and of its coarser version, whose vectors have this layout on this rank.
    /// It does not depend on coefficients.
    fn transfer<T: Real>(
        &self,
        fine: &Arc<Self::Operator<T>>,
        coarse: &Arc<Self::Operator<T>>,
        own: &Layout,
    ) -> Result<Arc<dyn Transfer<Self, T>>>;

    /// Makes the transfer between the operator of a grid and some of its modes.
    fn modal_transfer<T: Real, C: Real>(
        &self,
        operator: &Arc<Self::Operator<T>>,
        modes: &VerticalModes,
    ) -> Result<Arc<dyn ModalTransfer<Self, T, C>>>;

    /// Makes the levels of multigrid for the problems of modes, whose layers are not coupled to each other, from levels for any layers
    /// with known operators.
    fn levels_of_modes<C: Real>(
        &self,
        levels: Hierarchy<Self, TensorProduct, C>,
        _operators: &[Arc<Self::Operator<C>>],
        _options: &MultigridOptions,
    ) -> Result<Hierarchy<Self, TensorProduct, C>> {
        Ok(levels)
    }
}

/// Returns the coarser versions of a matrix, finest first: with the matrix `wanted` levels, or the default number, or as many as there
/// can be.
fn coarser_versions(stencil: &TensorProduct, wanted: Option<usize>) -> impl Iterator<Item = TensorProduct> + use<> {
    let coarser = std::iter::successors(stencil.coarsened(), TensorProduct::coarsened);
    coarser.take(wanted.unwrap_or(TensorProduct::DEFAULT_LEVELS).saturating_sub(1))
}

/// A hierarchy and its operators.
type Coarsened<B, T> = (Hierarchy<B, TensorProduct, T>, Vec<Arc<<B as Supports<TensorProduct>>::Operator<T>>>);

/// Makes the hierarchy of a tensor product, which coarsens on the host, and its operators on all levels.
pub fn by_coarsening<B: SupportsTransfers, T: Real>(
    backend: &B,
    stencil: &TensorProduct,
    finest: &Arc<B::Operator<T>>,
    wanted: Option<usize>,
) -> Result<Coarsened<B, T>>
where
    B::Operator<T>: LineSmoother<B, T>,
{
    let (mut operators, mut transfers, mut notes) = (vec![Arc::clone(finest)], Vec::new(), Vec::new());
    let (mut on, mut last) = (backend.clone(), stencil.shape());
    for coarse in coarser_versions(stencil, wanted) {
        let coarser = on.coarser(last, coarse.shape(), false)?;
        let (operator, own) = (coarser.level().operator::<T>(&coarse)?, coarser.own.layout(&coarse)?);
        let to_own = on.transfer(&operators[operators.len() - 1], &operator, &own)?;
        transfers.push(coarser.transfer(to_own, &own, layout_of::<B, T>(&*operator))?);
        notes.extend(coarser.note(coarse.shape()));
        operators.push(operator);
        (on, last) = (coarser.level().clone(), coarse.shape());
    }
    let (have, wanted) = (operators.len(), wanted.unwrap_or(TensorProduct::DEFAULT_LEVELS));
    if have < wanted {
        let Shape { nx, ny, .. } = last;
        notes.push(format!("{have} of {wanted} multigrid levels: {nx}×{ny} columns are not coarsened further"));
    }
    let levels = operators.iter().map(|operator| Arc::clone(operator) as Arc<dyn LineSmoother<B, T>>).collect();
    let (backend, below) = (backend.clone(), operators[1..].to_vec());
    let update = move |stencil: &TensorProduct| {
        let mut pairs = below.iter().zip(coarser_versions(stencil, Some(have)));
        pairs.try_for_each(|(operator, coarse)| backend.update(operator, &coarse).map(drop))
    };
    Ok((Hierarchy::plain(levels, transfers, notes, Box::new(update)), operators))
}

/// Makes the two-dimensional problems of some modes of a matrix, a layer each, and as many levels of multigrid for them as the hardest
/// of all modes needs. Their update takes the coefficients of the whole matrix.
///
/// # Errors
/// The errors of [`VerticalModes::new`]; those of [`Supports::operator`].
fn problems_of_modes<B, C>(
    backend: &B,
    stencil: &TensorProduct,
    which: Range<usize>,
    options: &MultigridOptions,
) -> Result<Hierarchy<B, TensorProduct, C>>
where
    B: SupportsTransfers,
    C: Real,
    B::Operator<C>: LineSmoother<B, C>,
{
    let modes = stencil.modes()?;
    let plane = stencil.of_modes(&modes.only(which.clone()))?;
    let problem = backend.operator::<C>(&plane)?;
    let wanted = modes.values().first().map(|&mu| stencil.levels_of_modes(mu));
    let (levels, operators) = by_coarsening(backend, &plane, &problem, wanted)?;
    let mut problems = backend.levels_of_modes(levels, &operators, options)?;
    let (backend, update_levels) = (backend.clone(), problems.update);
    problems.update = Box::new(move |stencil: &TensorProduct| {
        let plane = stencil.of_modes(&stencil.modes()?.only(which.clone()))?;
        backend.update(&problem, &plane)?;
        update_levels(&plane)
    });
    Ok(problems)
}

/// Makes the planned modes of a tensor-product matrix; a rank gets the two-dimensional problems that it solves.
///
/// # Errors
/// The errors of [`VerticalModes::new`] and [`LevelBackend::own_modes`]; those of [`Supports::operator`].
pub fn by_modes<B, T, C>(
    backend: &B,
    stencil: &TensorProduct,
    operator: &Arc<B::Operator<T>>,
    options: &SolverOptions,
    tolerance: f64,
) -> Result<Modes<B, TensorProduct, T, C>>
where
    B: SupportsTransfers,
    T: Real,
    C: Real,
    B::Operator<C>: LineSmoother<B, C>,
{
    let modes = stencil.modes()?;
    let plan = Plan::new(stencil.largest_ratio(), modes.values(), &options.modes, tolerance)?;
    let to_all = backend.modal_transfer::<T, C>(operator, &modes.only(0..plan.count))?;
    let OwnModes { alone, which, transfer } = backend.own_modes(stencil.shape(), Arc::clone(&to_all))?;
    let mut problems = problems_of_modes(&alone, stencil, which, &options.multigrid)?;
    let (update_problems, count) = (problems.update, plan.count);
    problems.update = Box::new(move |stencil: &TensorProduct| {
        to_all.update(&stencil.modes()?.only(0..count))?;
        update_problems(stencil)
    });
    Ok(Modes { transfer, problems, plan })
}
