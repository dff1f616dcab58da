//! Levels that every rank has to itself, with all that its back end makes of them.

use std::sync::Arc;

use isobar_core::backend::Scalar;
use isobar_core::backend::part::PartBackend;
use isobar_core::error::Result;
use isobar_core::layout::{Layout, Shape};
use isobar_core::operator::{CoarsestSolver, Correction, Guess, LineSmoother, Operator, Relaxation, Transfer};
use isobar_core::options::Smoother;
use isobar_core::real::Real;
use isobar_core::stencil::Hierarchy;

use crate::distributed::Distributed;
use crate::vector::Vector;

/// What an inner back end offers, on vectors of ranks. Nothing is exchanged.
struct Own<B, I: ?Sized> {
    backend: Distributed<B>,
    inner: Arc<I>,
}

impl<B: PartBackend, I: ?Sized> Own<B, I> {
    fn new(backend: &Distributed<B>, inner: &Arc<I>) -> Self {
        Self { backend: backend.clone(), inner: Arc::clone(inner) }
    }
}

/// Between two such levels.
struct OwnTransfer<B: PartBackend, T: Real> {
    fine: Own<B, dyn LineSmoother<B, T>>,
    inner: Arc<dyn Transfer<B, T>>,
}

/// The levels of an inner back end as those of a rank.
pub(crate) fn own_levels<B: PartBackend, S, T: Real>(
    backend: &Distributed<B>,
    hierarchy: Hierarchy<B, S, T>,
) -> Hierarchy<Distributed<B>, S, T> {
    let Hierarchy { levels, transfers, corrections, coarsest, by_points, visits, notes, update } = hierarchy;
    let transfer = |(fine, inner): (&Arc<_>, &Arc<_>)| -> Arc<dyn Transfer<Distributed<B>, T>> {
        Arc::new(OwnTransfer { fine: Own::new(backend, fine), inner: Arc::clone(inner) })
    };
    let correction = |inner: &Arc<dyn Correction<B, T>>| -> Arc<dyn Correction<Distributed<B>, T>> {
        Arc::new(Own::new(backend, inner))
    };
    let level = |inner: &Arc<dyn LineSmoother<B, T>>| -> Arc<dyn LineSmoother<Distributed<B>, T>> {
        Arc::new(Own::new(backend, inner))
    };
    Hierarchy {
        levels: levels.iter().map(level).collect(),
        transfers: levels.iter().zip(&transfers).map(transfer).collect(),
        corrections: corrections.iter().map(|inner| inner.as_ref().map(correction)).collect(),
        coarsest: coarsest.map(|inner| Arc::new(Own::new(backend, &inner)) as _),
        by_points,
        visits,
        notes,
        update,
    }
}

impl<B: PartBackend, T: Real, I: LineSmoother<B, T> + ?Sized> Operator<Distributed<B>, T> for Own<B, I> {
    fn backend(&self) -> &Distributed<B> {
        &self.backend
    }

    fn layout(&self) -> &Layout {
        self.inner.layout()
    }

    fn apply(&self, x: &Vector<B::Vector<T>>, y: &mut Vector<B::Vector<T>>) -> Result<()> {
        self.inner.apply(&*x.part()?, y.part_mut())
    }

    fn residual(
        &self,
        f: &Vector<B::Vector<T>>,
        u: &Vector<B::Vector<T>>,
        r: &mut Vector<B::Vector<T>>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.inner.residual(&*f.part()?, &*u.part()?, r.part_mut(), norm, scalars)
    }

    fn residual_norm(
        &self,
        f: &Vector<B::Vector<T>>,
        u: &Vector<B::Vector<T>>,
        scratch: &mut Vector<B::Vector<T>>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.inner.residual_norm(&*f.part()?, &*u.part()?, scratch.part_mut(), norm, scalars)
    }

    fn norm_needs_scratch(&self) -> bool {
        self.inner.norm_needs_scratch()
    }

    fn needs_host(&self) -> bool {
        self.inner.needs_host()
    }

    fn coefficient_vectors(&self) -> f64 {
        self.inner.coefficient_vectors()
    }

    fn coefficient_bytes(&self) -> usize {
        self.inner.coefficient_bytes()
    }
}

impl<B: PartBackend, T: Real, I: LineSmoother<B, T> + ?Sized> LineSmoother<Distributed<B>, T> for Own<B, I> {
    fn smooth(
        &self,
        relaxation: Relaxation,
        guess: Guess,
        f: &Vector<B::Vector<T>>,
        u: &mut Vector<B::Vector<T>>,
        scratch: &mut Vector<B::Vector<T>>,
    ) -> Result<()> {
        self.inner.smooth(relaxation, guess, &*f.part()?, u.part_mut(), scratch.part_mut())
    }

    fn colours(&self) -> usize {
        self.inner.colours()
    }

    fn needs_scratch(&self, smoother: Smoother) -> bool {
        self.inner.needs_scratch(smoother)
    }
}

impl<B: PartBackend, T: Real> Transfer<Distributed<B>, T> for OwnTransfer<B, T> {
    fn fine(&self) -> &dyn LineSmoother<Distributed<B>, T> {
        &self.fine
    }

    fn coarse_layout(&self) -> &Layout {
        self.inner.coarse_layout()
    }

    fn is_adjoint(&self) -> bool {
        self.inner.is_adjoint()
    }

    fn restrict(&self, f: &Vector<B::Vector<T>>, coarse_f: &mut Vector<B::Vector<T>>) -> Result<()> {
        self.inner.restrict(&*f.part()?, coarse_f.part_mut())
    }

    fn prolong(&self, coarse_u: &Vector<B::Vector<T>>, u: &mut Vector<B::Vector<T>>) -> Result<()> {
        self.inner.prolong(&*coarse_u.part()?, u.part_mut())
    }

    fn residual_restrict(
        &self,
        f: &Vector<B::Vector<T>>,
        u: &Vector<B::Vector<T>>,
        coarse_f: &mut Vector<B::Vector<T>>,
        scratch: &mut Vector<B::Vector<T>>,
    ) -> Result<()> {
        self.inner.residual_restrict(&*f.part()?, &*u.part()?, coarse_f.part_mut(), scratch.part_mut())
    }

    fn smooth_residual_restrict(
        &self,
        relaxation: Relaxation,
        guess: Guess,
        f: &Vector<B::Vector<T>>,
        u: &mut Vector<B::Vector<T>>,
        coarse_f: &mut Vector<B::Vector<T>>,
        scratch: &mut Vector<B::Vector<T>>,
    ) -> Result<()> {
        let (u, coarse_f, scratch) = (u.part_mut(), coarse_f.part_mut(), scratch.part_mut());
        self.inner.smooth_residual_restrict(relaxation, guess, &*f.part()?, u, coarse_f, scratch)
    }

    fn keep_smooth_residual_restrict(
        &self,
        relaxation: Relaxation,
        f: &Vector<B::Vector<T>>,
        u: &mut Vector<B::Vector<T>>,
        before: &mut Vector<B::Vector<T>>,
        coarse_f: &mut Vector<B::Vector<T>>,
        scratch: &mut Vector<B::Vector<T>>,
    ) -> Result<()> {
        let (u, before, coarse_f) = (u.part_mut(), before.part_mut(), coarse_f.part_mut());
        self.inner.keep_smooth_residual_restrict(relaxation, &*f.part()?, u, before, coarse_f, scratch.part_mut())
    }

    fn prolong_smooth_extrapolate(
        &self,
        relaxation: Relaxation,
        f: &Vector<B::Vector<T>>,
        coarse_u: &Vector<B::Vector<T>>,
        u: &mut Vector<B::Vector<T>>,
        (before, tau): (&mut Vector<B::Vector<T>>, f64),
        scratch: &mut Vector<B::Vector<T>>,
    ) -> Result<()> {
        let (u, before, scratch) = (u.part_mut(), (before.part_mut(), tau), scratch.part_mut());
        self.inner.prolong_smooth_extrapolate(relaxation, &*f.part()?, &*coarse_u.part()?, u, before, scratch)
    }

    fn prolong_smooth(
        &self,
        relaxation: Relaxation,
        f: &Vector<B::Vector<T>>,
        coarse_u: &Vector<B::Vector<T>>,
        u: &mut Vector<B::Vector<T>>,
        scratch: &mut Vector<B::Vector<T>>,
        norm: Option<(Scalar, &mut B::Scalars)>,
    ) -> Result<()> {
        let (u, scratch) = (u.part_mut(), scratch.part_mut());
        self.inner.prolong_smooth(relaxation, &*f.part()?, &*coarse_u.part()?, u, scratch, norm)
    }
}

impl<B: PartBackend, T: Real> Correction<Distributed<B>, T> for Own<B, dyn Correction<B, T>> {
    fn is_active(&self) -> bool {
        self.inner.is_active()
    }

    fn correct(&self, r: &Vector<B::Vector<T>>, u: &mut Vector<B::Vector<T>>) -> Result<()> {
        self.inner.correct(&*r.part()?, u.part_mut())
    }

    fn bytes(&self) -> usize {
        self.inner.bytes()
    }
}

impl<B: PartBackend, T: Real> CoarsestSolver<Distributed<B>, T> for Own<B, dyn CoarsestSolver<B, T>> {
    fn solve(&self, f: &Vector<B::Vector<T>>, u: &mut Vector<B::Vector<T>>) -> Result<()> {
        self.inner.solve(&*f.part()?, u.part_mut())
    }

    fn bytes(&self) -> usize {
        self.inner.bytes()
    }

    fn shapes(&self) -> Vec<Shape> {
        self.inner.shapes()
    }
}
