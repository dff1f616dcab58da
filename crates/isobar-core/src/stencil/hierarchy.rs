//! The levels of multigrid.

use std::sync::Arc;

use crate::operator::{CoarsestSolver, Correction, LineSmoother, Transfer};
use crate::{Backend, Real, Result, Shape};

/// A function that changes the coefficients of an object made from a stencil.
pub type Update<S> = Box<dyn Fn(&S) -> Result<()> + Send + Sync>;

/// The levels of multigrid and the transfers between them.
pub struct Hierarchy<B: Backend, S, T: Real> {
    /// The levels, the finest first.
    pub levels: Vec<Arc<dyn LineSmoother<B, T>>>,
    /// The transfers; entry n is between level n and level n + 1.
    pub transfers: Vec<Arc<dyn Transfer<B, T>>>,
    /// The aggregate corrections of the levels, where there are any.
    pub corrections: Vec<Option<Arc<dyn Correction<B, T>>>>,
    /// The solver on the coarsest level, if not sweeps.
    pub coarsest: Option<Arc<dyn CoarsestSolver<B, T>>>,
    /// The number of finest levels that the hybrid smoother relaxes by points; 0 if all levels are relaxed alike.
    pub by_points: usize,
    /// The number of cycles of the next coarser level in a cycle of each level.
    pub visits: Vec<usize>,
    /// Notes for the user.
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
        Self { levels, transfers, corrections, coarsest: None, by_points: 0, visits, notes, update }
    }

    /// Sets the numbers of visits of the first levels to the next ones; others visit once.
    #[must_use]
    pub fn visited(mut self, visits: &[usize]) -> Self {
        let wanted = visits.iter().copied().chain(std::iter::repeat(1));
        self.visits.iter_mut().zip(wanted).for_each(|(visits, wanted)| *visits = wanted);
        // An exact solve needs no second visit.
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

    /// Returns the grids of the levels.
    pub fn shapes(&self) -> Vec<Shape> {
        let below = self.coarsest.iter().flat_map(|solver| solver.shapes());
        self.levels.iter().map(|level| level.layout().shape()).chain(below).collect()
    }
}
