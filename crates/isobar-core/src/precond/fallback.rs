//! A preconditioner with simpler ones in reserve.

use super::Preconditioner;
use crate::operator::ResidualUpdate;
use crate::traffic::StepTraffic;
use crate::{Backend, Real, Result};

/// Several preconditioners of one matrix, of which one is in use: the first is the user's choice, and each later one,
/// which is simpler and safer, replaces one that fails or is slow.
pub struct Fallback<B: Backend, T: Real> {
    ranks: Vec<(&'static str, Box<dyn Preconditioner<B, T>>)>,
    rank: usize,
    backend: B,
}

impl<B: Backend, T: Real> Fallback<B, T> {
    /// Takes a preconditioner, and its replacements, the best first. Names are those of case files.
    pub fn new(
        name: &'static str,
        first: Box<dyn Preconditioner<B, T>>,
        others: Vec<(&'static str, Box<dyn Preconditioner<B, T>>)>,
    ) -> Self {
        let backend = first.backend().clone();
        let ranks = std::iter::once((name, first)).chain(others).collect();
        Self { ranks, rank: 0, backend }
    }

    fn chosen(&self) -> &dyn Preconditioner<B, T> {
        &*self.ranks[self.rank].1
    }

    fn chosen_mut(&mut self) -> &mut dyn Preconditioner<B, T> {
        &mut *self.ranks[self.rank].1
    }
}

impl<B: Backend, T: Real> Preconditioner<B, T> for Fallback<B, T> {
    fn backend(&self) -> &B {
        &self.backend
    }

    fn apply(&mut self, r: &mut B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        self.chosen_mut().apply(r, z)
    }

    fn precondition_residual(&mut self, v: ResidualUpdate<'_, B::Vector<T>>, scalars: &mut B::Scalars) -> Result<()> {
        self.chosen_mut().precondition_residual(v, scalars)
    }

    fn project_out(&mut self, z: &mut B::Vector<T>) -> Result<()> {
        self.chosen_mut().project_out(z)
    }

    fn is_strong(&self) -> bool {
        self.chosen().is_strong()
    }

    fn update(&mut self) -> Result<()> {
        self.ranks.iter_mut().try_for_each(|(_, preconditioner)| preconditioner.update())
    }

    fn choose(&mut self, rank: usize) -> Option<&'static str> {
        let (name, _) = self.ranks.get(rank)?;
        self.rank = rank;
        Some(name)
    }

    fn another(&self) -> Result<Option<Box<dyn Preconditioner<B, T>>>> {
        self.ranks[0].1.another()
    }

    fn is_variable(&self) -> bool {
        self.chosen().is_variable()
    }

    fn tells_spectrum(&self) -> bool {
        self.chosen().tells_spectrum()
    }

    fn needs_host(&self) -> bool {
        self.chosen().needs_host()
    }

    fn apply_traffic(&self, cells: usize) -> Vec<StepTraffic> {
        self.chosen().apply_traffic(cells)
    }

    fn traffic(&self, cells: usize) -> Vec<StepTraffic> {
        self.chosen().traffic(cells)
    }

    fn workspace_bytes(&self) -> usize {
        self.ranks.iter().map(|(_, preconditioner)| preconditioner.workspace_bytes()).sum()
    }
}
