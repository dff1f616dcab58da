//! The levels of multigrid.

use std::sync::Arc;

use super::{Stencil, Supports, Update};
use crate::backend::Backend;
use crate::error::Result;
use crate::layout::Shape;
use crate::operator::{CoarsestSolver, Correction, LineSmoother, Transfer};
use crate::options::{MultigridOptions, Smoother};
use crate::real::Real;

/// The levels of multigrid, and what goes between them.
pub struct Hierarchy<B: Backend, S, T: Real> {
    /// Finest first.
    pub levels: Vec<Arc<dyn LineSmoother<B, T>>>,
    /// From each level to the next coarser one.
    pub transfers: Vec<Arc<dyn Transfer<B, T>>>,
    /// Beside the sweeps of each level, where there is one.
    pub corrections: Vec<Option<Arc<dyn Correction<B, T>>>>,
    /// The solver on the coarsest level, if not sweeps.
    pub coarsest: Option<Arc<dyn CoarsestSolver<B, T>>>,
    /// How many of the first levels are relaxed by points though those below are relaxed by lines; none, where all are relaxed
    /// alike.
    pub by_points: usize,
    /// How many cycles of the next coarser level one of each level contains.
    pub visits: Vec<usize>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Changes the coefficients of all levels but the finest, given the finest's.
    pub update: Update<S>,
}

/// The levels below an operator that options ask for, whose smoother is resolved; none where the back end has no such levels.
pub(crate) fn levels<B: Supports<S>, S: Stencil, T: Real>(
    backend: &B,
    stencil: &S,
    finest: &Arc<B::Operator<T>>,
    options: &MultigridOptions,
) -> Result<Option<Hierarchy<B, S, T>>> {
    let found = match options.smoother {
        Smoother::PointRedBlack => backend.point_hierarchy(stencil, finest, options.levels),
        Smoother::PointLine => backend.point_line_hierarchy(stencil, finest, options.levels),
        _ => backend.hierarchy(stencil, finest, options.levels),
    }?;
    Ok(found.map(|found| match &options.visits {
        Some(visits) => found.visited(visits),
        None => found,
    }))
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
        Self { levels, transfers, corrections, coarsest: None, by_points: 0, visits, notes, update }
    }

    /// Sets the numbers of visits of the first levels to the next ones; others visit once.
    #[must_use]
    pub fn visited(mut self, visits: &[usize]) -> Self {
        let wanted = visits.iter().copied().chain(std::iter::repeat(1));
        self.visits.iter_mut().zip(wanted).for_each(|(visits, wanted)| *visits = wanted);
        // What is solved on exactly needs no second visit.
        if self.coarsest.is_some()
            && let Some(last) = self.visits.last_mut()
        {
            *last = 1;
        }
        self
    }

    /// Leaves the levels from `first` on to a solver.
    #[must_use]
    pub fn cut(mut self, first: usize, coarsest: Arc<dyn CoarsestSolver<B, T>>) -> Self {
        self.levels.truncate(first + 1);
        self.corrections.truncate(first + 1);
        self.transfers.truncate(first);
        self.visits.truncate(first);
        self.coarsest = Some(coarsest);
        self
    }

    /// The grids.
    pub fn shapes(&self) -> Vec<Shape> {
        let below = self.coarsest.iter().flat_map(|solver| solver.shapes());
        self.levels.iter().map(|level| level.layout().shape()).chain(below).collect()
    }
}

/// A stencil whose coarser versions are stencils of the same kind.
pub trait Coarsen: Stencil {
    /// Makes the equation on a coarser grid; `None` where no coarser grid helps.
    fn coarsened(&self) -> Option<Self>;

    /// How many levels are best where nobody says; `None` for as many as there can be.
    fn default_levels(&self) -> Option<usize>;
}

/// A back end that makes the levels of such a stencil. What goes between two of them does not depend on coefficients.
pub trait SupportsLevels<S: Coarsen>: Supports<S> {
    /// Between two of them.
    type Transfer<T: Real>: Transfer<Self, T> + 'static;

    /// The transfer between the operators of a stencil and of its coarser version.
    ///
    /// # Errors
    /// As [`Supports::operator`].
    fn transfer<T: Real>(
        &self,
        fine: &Arc<Self::Operator<T>>,
        coarse: &Arc<Self::Operator<T>>,
    ) -> Result<Arc<Self::Transfer<T>>>;
}

/// The coarser versions of a stencil, finest first, which make with it as many levels as wanted, or as suit it, or as there can be.
pub fn coarser_versions<S: Coarsen>(stencil: &S, wanted: Option<usize>) -> impl Iterator<Item = S> + use<S> {
    let coarser = wanted.or(stencil.default_levels()).map_or(usize::MAX, |wanted| wanted.saturating_sub(1));
    let mut fine = stencil.clone();
    std::iter::from_fn(move || {
        fine = fine.coarsened()?;
        Some(fine.clone())
    })
    .take(coarser)
}

/// A note for the user where there are fewer levels than wanted, the last of which has this grid.
pub fn ends_early<S: Coarsen>(stencil: &S, wanted: Option<usize>, have: usize, last: Shape) -> Option<String> {
    let wanted = wanted.or(stencil.default_levels()).filter(|&wanted| have < wanted)?;
    let Shape { nx, ny, .. } = last;
    Some(format!("{have} of {wanted} multigrid levels: {nx}×{ny} columns are not coarsened further"))
}

/// A stencil's operators on all levels, and what goes between them, by coarsening on the host.
pub struct Coarsened<B: SupportsLevels<S>, S: Coarsen, T: Real> {
    /// Finest first.
    pub operators: Vec<Arc<B::Operator<T>>>,
    /// From each level to the next coarser one.
    pub transfers: Vec<Arc<B::Transfer<T>>>,
    notes: Vec<String>,
    backend: B,
    stencil: std::marker::PhantomData<S>,
}

impl<B, S, T> Coarsened<B, S, T>
where
    B: SupportsLevels<S>,
    S: Coarsen,
    T: Real,
    B::Operator<T>: LineSmoother<B, T>,
{
    /// As many levels as wanted, or as suit the stencil.
    ///
    /// # Errors
    /// As [`Supports::operator`].
    pub fn new(backend: &B, stencil: &S, finest: &Arc<B::Operator<T>>, wanted: Option<usize>) -> Result<Self> {
        let (mut operators, mut transfers, mut last) = (vec![Arc::clone(finest)], Vec::new(), stencil.shape());
        for coarse in coarser_versions(stencil, wanted) {
            let operator = backend.operator::<T>(&coarse)?;
            transfers.push(backend.transfer(&operators[operators.len() - 1], &operator)?);
            operators.push(operator);
            last = coarse.shape();
        }
        let notes = ends_early(stencil, wanted, operators.len(), last).into_iter().collect();
        Ok(Self { operators, transfers, notes, backend: backend.clone(), stencil: std::marker::PhantomData })
    }

    /// Levels for V-cycles of sweeps alone.
    pub fn hierarchy(self) -> Hierarchy<B, S, T> {
        let Self { operators, transfers, notes, backend, .. } = self;
        let levels = operators.iter().map(|operator| Arc::clone(operator) as Arc<dyn LineSmoother<B, T>>).collect();
        let transfers = transfers.into_iter().map(|transfer| transfer as Arc<dyn Transfer<B, T>>).collect();
        let update = move |stencil: &S| {
            let update = |(operator, coarse): (&Arc<B::Operator<T>>, S)| backend.update(operator, &coarse);
            operators[1..].iter().zip(coarser_versions(stencil, Some(operators.len()))).try_for_each(update)
        };
        Hierarchy::plain(levels, transfers, notes, Box::new(update))
    }
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
    Coarsened::new(backend, stencil, finest, wanted).map(Coarsened::hierarchy)
}
