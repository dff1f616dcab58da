//! The levels of multigrid.

use std::sync::Arc;

use super::{Stencil, Supports, Update};
use crate::backend::Backend;
use crate::error::Result;
use crate::layout::Shape;
use crate::operator::{CoarsestSolver, Correction, LineSmoother, Transfer};
use crate::real::Real;

/// The levels of multigrid, and what goes between them.
pub struct Hierarchy<B: Backend, S, T: Real> {
    /// Finest first.
    pub levels: Vec<Arc<dyn LineSmoother<B, T>>>,
    /// From each level to the next coarser one.
    pub transfers: Vec<Arc<dyn Transfer<B, T>>>,
    /// Beside the sweeps of each level, where there is one.
    pub corrections: Vec<Option<Arc<dyn Correction<B, T>>>>,
    /// What solves on the coarsest level, if not sweeps.
    pub coarsest: Option<Arc<dyn CoarsestSolver<B, T>>>,
    /// How many cycles of the next coarser level one of each level contains.
    pub visits: Vec<usize>,
    /// What a user should know of it.
    pub notes: Vec<String>,
    /// Changes the coefficients of all levels but the finest, given the finest's.
    pub update: Update<S>,
}

impl<B: Backend, S, T: Real> Hierarchy<B, S, T> {
    /// Levels for V-cycles of sweeps alone.
    pub fn plain(
        levels: Vec<Arc<dyn LineSmoother<B, T>>>,
        transfers: Vec<Arc<dyn Transfer<B, T>>>,
        notes: Vec<String>,
        update: Update<S>,
    ) -> Self {
        let corrections = levels.iter().map(|_| None).collect();
        let visits = vec![1; transfers.len()];
        Self { levels, transfers, corrections, coarsest: None, visits, notes, update }
    }

    /// The grids.
    pub fn shapes(&self) -> Vec<Shape> {
        self.levels.iter().map(|level| level.layout().shape()).collect()
    }
}

/// A stencil whose coarser versions are stencils of the same kind.
pub trait Coarsen: Stencil {
    /// The same equation on a coarser grid; `None` where no coarser grid helps.
    fn coarsened(&self) -> Option<Self>;

    /// How many levels are best where nobody says; `None` for as many as there can be.
    fn default_levels(&self) -> Option<usize>;
}

/// A back end that makes the levels of such a stencil.
pub trait SupportsLevels<S: Coarsen>: Supports<S> {
    /// Between two of them.
    type Transfer<T: Real>: Transfer<Self, T> + 'static;

    /// What goes between the operators of `stencil` and of its coarser version.
    ///
    /// # Errors
    /// As [`Supports::operator`].
    fn transfer<T: Real>(
        &self,
        stencil: &S,
        fine: &Arc<Self::Operator<T>>,
        coarse: &Arc<Self::Operator<T>>,
    ) -> Result<Arc<Self::Transfer<T>>>;

    /// Gives a transfer the coefficients of another stencil of the finer level.
    ///
    /// # Errors
    /// What the device reports.
    fn update_transfer<T: Real>(&self, transfer: &Self::Transfer<T>, stencil: &S) -> Result<()>;
}

/// The hierarchy of a stencil that coarsens on the host.
///
/// # Errors
/// As [`Supports::operator`].
pub fn by_coarsening<B, S, T>(
    backend: &B,
    stencil: &S,
    finest: &Arc<B::Operator<T>>,
    wanted: Option<usize>,
) -> Result<Hierarchy<B, S, T>>
where
    B: SupportsLevels<S>,
    S: Coarsen,
    T: Real,
    B::Operator<T>: LineSmoother<B, T>,
{
    let wanted = wanted.or(stencil.default_levels());
    let (mut operators, mut transfers, mut notes) = (vec![Arc::clone(finest)], Vec::new(), Vec::new());
    let mut fine = stencil.clone();
    while wanted.is_none_or(|wanted| operators.len() < wanted) {
        let Some(coarse) = fine.coarsened() else {
            if let Some(wanted) = wanted {
                let (Shape { nx, ny, .. }, have) = (fine.shape(), operators.len());
                notes.push(format!("{have} of {wanted} multigrid levels: {nx}×{ny} columns are not coarsened further"));
            }
            break;
        };
        let operator = backend.operator::<T>(&coarse)?;
        transfers.push(backend.transfer(&fine, &operators[operators.len() - 1], &operator)?);
        operators.push(operator);
        fine = coarse;
    }
    let levels = operators.iter().map(|operator| Arc::clone(operator) as Arc<dyn LineSmoother<B, T>>).collect();
    let shared = transfers.iter().map(|transfer| Arc::clone(transfer) as Arc<dyn Transfer<B, T>>).collect();
    let backend = backend.clone();
    let update = move |stencil: &S| {
        let mut fine = stencil.clone();
        for (transfer, operator) in transfers.iter().zip(&operators[1..]) {
            let Some(coarse) = fine.coarsened() else { break };
            backend.update_transfer(transfer, &fine)?;
            backend.update(operator, &coarse)?;
            fine = coarse;
        }
        Ok(())
    };
    Ok(Hierarchy::plain(levels, shared, notes, Box::new(update)))
}
