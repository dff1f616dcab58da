//! This module distributes vertical modes over several ranks.
//!
//! Steps on the grid stay with a rank's rows. The modes' two-dimensional problems are independent: every rank solves those of some
//! modes, on the whole grid and without communication. Before and after, the ranks exchange the projections of their rows and the
//! solutions of their modes.

use std::sync::{Arc, Mutex, MutexGuard};

use isobar_core::operator::OwnModes;
use isobar_core::prelude::{
    Expansion, Guess, Layout, LineSmoother, ModalTransfer, Real, Result, Shape, Sum, VerticalModes, lock,
};

use crate::divided::Divided;
use crate::part::{Division, PartBackend};

/// The transfer between a rank's rows and the modes that it solves.
struct Redividing<B: PartBackend, T: Real, C: Real> {
    backend: B,
    /// The transfer between the grid and all modes, on this rank's rows.
    part: Arc<dyn ModalTransfer<B, T, C>>,
    /// The layout of this rank's modes.
    layout: Layout,
    divided: Mutex<Divided<B, C>>,
}

impl<B: PartBackend, T: Real, C: Real> Redividing<B, T, C> {
    fn divided(&self) -> MutexGuard<'_, Divided<B, C>> {
        // A poisoned lock does no harm: the vectors are overwritten completely before they are read.
        lock(&self.divided)
    }

    /// Runs a step that projects rows.
    fn project_by(&self, g: &mut B::Vector<C>, step: impl FnOnce(&mut B::Vector<C>) -> Result<()>) -> Result<()> {
        let mut divided = self.divided();
        step(&mut divided.g)?;
        divided.collect(&self.backend, g)
    }

    /// Runs a step that expands rows.
    fn expand_by(&self, x: &B::Vector<C>, step: impl FnOnce(&B::Vector<C>) -> Result<()>) -> Result<()> {
        let mut divided = self.divided();
        divided.take(&self.backend, x)?;
        step(&divided.x)
    }
}

impl<B: PartBackend, T: Real, C: Real> ModalTransfer<B, T, C> for Redividing<B, T, C> {
    fn fine(&self) -> &dyn LineSmoother<B, T> {
        self.part.fine()
    }

    fn modal_layout(&self) -> &Layout {
        &self.layout
    }

    fn update(&self, modes: &VerticalModes) -> Result<()> {
        self.part.update(modes)
    }

    fn project(&self, r: &B::Vector<T>, g: &mut B::Vector<C>) -> Result<()> {
        self.project_by(g, |g| self.part.project(r, g))
    }

    fn project_rhs(
        &self,
        f: &B::Vector<T>,
        g: &mut B::Vector<C>,
        u: &mut B::Vector<T>,
        norm: Sum<'_, B>,
    ) -> Result<()> {
        self.project_by(g, |g| self.part.project_rhs(f, g, u, norm))
    }

    fn expand(&self, x: &B::Vector<C>, guess: Guess, u: &mut B::Vector<T>) -> Result<()> {
        self.expand_by(x, |x| self.part.expand(x, guess, u))
    }

    fn project_residual(
        &self,
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        g: &mut B::Vector<C>,
        scratch: &mut B::Vector<T>,
        norm: Sum<'_, B>,
    ) -> Result<()> {
        self.project_by(g, |g| self.part.project_residual(f, u, g, scratch, norm))
    }

    fn expand_smooth_project(
        &self,
        expansion: &Expansion<'_, B::Vector<C>>,
        f: &B::Vector<T>,
        vectors: [&mut B::Vector<T>; 2],
        g: &mut B::Vector<C>,
        norm: Sum<'_, B>,
    ) -> Result<()> {
        let mut divided = self.divided();
        divided.take(&self.backend, expansion.x)?;
        let Divided { g: own, x, .. } = &mut *divided;
        self.part.expand_smooth_project(&Expansion { x, ..*expansion }, f, vectors, own, norm)?;
        divided.collect(&self.backend, g)
    }

    fn expand_smooth_norm(
        &self,
        expansion: &Expansion<'_, B::Vector<C>>,
        f: &B::Vector<T>,
        vectors: [&mut B::Vector<T>; 2],
        norm: Sum<'_, B>,
    ) -> Result<()> {
        self.expand_by(expansion.x, |x| self.part.expand_smooth_norm(&Expansion { x, ..*expansion }, f, vectors, norm))
    }

    fn needs_scratch(&self) -> bool {
        self.part.needs_scratch()
    }
}

/// Implements [`LevelBackend::own_modes`](isobar_core::operator::LevelBackend::own_modes) for a device that may be one of several
/// ranks.
pub fn own_modes<B: PartBackend, T: Real, C: Real>(
    backend: &B,
    grid: Shape,
    to_all: Arc<dyn ModalTransfer<B, T, C>>,
) -> Result<OwnModes<B, T, C>> {
    let (alone, count) = (backend.alone(), to_all.modal_layout().shape().nz);
    let Some(ranks) = backend.ranks() else { return Ok(OwnModes { alone, which: 0..count, transfer: to_all }) };
    let slabs = ranks.slabs(grid)?;
    let (rank, size) = (ranks.rank(), ranks.size());
    let starts: Vec<usize> = (0..=size).map(|rank| count * rank / size).collect();
    let which = match starts[rank]..starts[rank + 1] {
        // No grid has zero layers: a rank without modes gets one problem that nobody uses, with the solution zero.
        none if none.is_empty() => count - 1..count,
        own => own,
    };
    let layout = Layout::new(Shape { nz: which.len(), ..grid })?;
    let division = Division { rows: slabs.starts().to_vec(), layers: starts };
    let divided = Mutex::new(Divided::new(backend, division, to_all.modal_layout(), &layout)?);
    let transfer = Arc::new(Redividing { backend: backend.clone(), part: to_all, layout, divided });
    Ok(OwnModes { alone, which, transfer })
}
