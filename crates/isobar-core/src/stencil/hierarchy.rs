//! The levels of multigrid.

use std::sync::Arc;

use crate::operator::{CoarsestSolver, Correction, LineSmoother, Transfer};
use crate::options::{MultigridOptions, Start};
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
    /// Makes a solver that takes all steps of small levels at once, if the back end has one.
    pub at_once: Option<AtOnce<B, T>>,
}

/// Small levels: the number of the first, and a solver that does a cycle from zero on it and all coarser ones.
pub struct Small<B: Backend, T: Real> {
    /// The first level, not the finest.
    pub first: usize,
    /// The solver.
    pub solver: Arc<dyn CoarsestSolver<B, T>>,
}

/// A function that makes the solver of small levels for cycles with these options, if there are any.
pub type AtOnce<B, T> = Box<dyn FnOnce(&MultigridOptions) -> Result<Option<Small<B, T>>>>;

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
        Self { levels, transfers, corrections, coarsest: None, by_points: 0, visits, notes, update, at_once: None }
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

    /// Leaves small levels on to the back end's solver of all of them at once, if it has one for these options: for cycles from zero, each of which
    /// visits them once.
    ///
    /// # Errors
    /// Fails if the device lacks memory.
    pub fn at_once(mut self, options: &MultigridOptions) -> Result<Self> {
        let at_once = self
            .at_once
            .take()
            .filter(|_| options.start == Start::Zero && self.visits.iter().all(|&visits| visits == 1));
        Ok(match at_once.map(|make| make(options)).transpose()?.flatten() {
            Some(Small { first, solver }) => self.cut(first, solver),
            None => self,
        })
    }

    /// Returns the grids of the levels.
    pub fn shapes(&self) -> Vec<Shape> {
        let below = self.coarsest.iter().flat_map(|solver| solver.shapes());
        self.levels.iter().map(|level| level.layout().shape()).chain(below).collect()
    }
}
