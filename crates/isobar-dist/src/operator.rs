//! Operators of ranks.

use std::sync::Arc;

use isobar_core::backend::part::{PartBackend, nothing};
use isobar_core::backend::{AggregateBackend, Ratio, Scalar, Sums};
use isobar_core::error::Result;
use isobar_core::layout::{Colour, Layout};
use isobar_core::operator::part::{PartOperator, PartSmoother};
use isobar_core::operator::{
    Capabilities, CgOperator, Diagonal, Direction, Guess, LineSmoother, LineSolver, MixedSmoother, Operator, Relaxation,
};
use isobar_core::options::Smoother;
use isobar_core::real::Real;

use crate::distributed::Distributed;
use crate::vector::Vector;

/// A rank's part O of an operator; or all of it, for grids so coarse that every rank works on the whole.
///
/// Each step fills halo rows where the part's step reads them, takes that step, fused as it is, and combines sums. An
/// iteration of conjugate gradients with lines exchanges one row a side and combines three numbers in two messages; a sweep
/// of red–black relaxation exchanges half a row twice, in the middle of its pass.
#[derive(Debug)]
pub struct DistributedOperator<B, O: ?Sized> {
    backend: Distributed<B>,
    part: Arc<O>,
    is_whole: bool,
}

impl<B: PartBackend, O: ?Sized> DistributedOperator<B, O> {
    /// A part, whose neighbours the neighbouring ranks have.
    pub(crate) fn of_part(backend: &Distributed<B>, part: Arc<O>) -> Self {
        Self { is_whole: !backend.has_others(), backend: backend.clone(), part }
    }

    /// The whole, which every rank has.
    pub(crate) fn whole(backend: &Distributed<B>, part: Arc<O>) -> Self {
        Self { is_whole: true, backend: backend.clone(), part }
    }

    /// The ranks that share it.
    pub(crate) fn ranks(&self) -> &Distributed<B> {
        &self.backend
    }

    /// This rank's part.
    pub fn part(&self) -> &Arc<O> {
        &self.part
    }

    /// All that it offers.
    pub(crate) fn capabilities<T: Real>(self: &Arc<Self>) -> Capabilities<Distributed<B>, T>
    where
        B: AggregateBackend,
        O: PartOperator<B, T> + Sized + 'static,
    {
        let (operator, diagonal) = (Arc::clone(self), Arc::clone(self));
        Capabilities { operator, diagonal: Some(diagonal), points: None, triangular: None, aggregates: None }
    }

    /// Fills the halo rows of a vector that a step is to read.
    pub(crate) fn fill_to_read<T: Real>(&self, x: &Vector<B::Vector<T>>) -> Result<()> {
        if self.is_whole { Ok(()) } else { self.backend.inner().fill(&mut *x.halo()?, &Colour::BOTH, &mut nothing) }
    }

    /// Scalars = their sums over all parts.
    pub(crate) fn combine<const N: usize>(&self, sums: [Scalar; N], scalars: &mut B::Scalars) -> Result<()> {
        if self.is_whole { Ok(()) } else { self.backend.combine(sums, scalars) }
    }
}

impl<B: PartBackend, T: Real, O: PartSmoother<B, T> + ?Sized> Operator<Distributed<B>, T>
    for DistributedOperator<B, O>
{
    fn backend(&self) -> &Distributed<B> {
        &self.backend
    }

    fn layout(&self) -> &Layout {
        self.part.layout()
    }

    fn apply(&self, x: &Vector<B::Vector<T>>, y: &mut Vector<B::Vector<T>>) -> Result<()> {
        self.part.apply_part(&mut *x.halo()?, y.part_mut())
    }

    fn residual(
        &self,
        f: &Vector<B::Vector<T>>,
        u: &Vector<B::Vector<T>>,
        r: &mut Vector<B::Vector<T>>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        let (f, mut u, r) = (f.part()?, u.halo()?, r.part_mut());
        self.part.residual_part(&*f, &mut *u, r, norm, scalars)?;
        self.combine([norm], scalars)
    }

    fn residual_norm(
        &self,
        f: &Vector<B::Vector<T>>,
        u: &Vector<B::Vector<T>>,
        scratch: &mut Vector<B::Vector<T>>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        let (f, mut u, scratch) = (f.part()?, u.halo()?, scratch.part_mut());
        self.part.residual_norm_part(&*f, &mut *u, scratch, norm, scalars)?;
        self.combine([norm], scalars)
    }

    fn norm_needs_scratch(&self) -> bool {
        self.part.norm_needs_scratch()
    }

    fn needs_host(&self) -> bool {
        (!self.is_whole && self.backend.needs_host()) || self.part.needs_host()
    }

    fn coefficient_vectors(&self) -> f64 {
        self.part.coefficient_vectors()
    }

    fn coefficient_bytes(&self) -> usize {
        self.part.coefficient_bytes()
    }
}

impl<B: PartBackend, T: Real, O: PartOperator<B, T>> CgOperator<Distributed<B>, T> for DistributedOperator<B, O> {
    /// The halo rows of z are filled, and p is advanced there too: what the neighbours do with their rows.
    fn advance_direction(
        &self,
        v: Direction<'_, Vector<B::Vector<T>>>,
        alpha: Ratio,
        beta: Ratio,
        sigma: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        let mut z = v.z.halo()?;
        let inner = Direction {
            u: v.u.part_mut(),
            p: v.p.part_mut(),
            next: v.next.map(Vector::part_mut),
            z: &mut *z,
            q: v.q.part_mut(),
        };
        self.part.advance_direction_part(inner, alpha, beta, sigma, scalars)?;
        self.combine([sigma], scalars)
    }

    fn needs_next_direction(&self) -> Result<bool> {
        self.part.needs_next_direction()
    }
}

impl<B: PartBackend, T: Real, O: PartOperator<B, T> + ?Sized> Diagonal<Distributed<B>, T>
    for DistributedOperator<B, O>
{
    fn divide_by_diagonal(&self, r: &Vector<B::Vector<T>>, z: &mut Vector<B::Vector<T>>) -> Result<()> {
        self.part.divide_by_diagonal(&*r.part()?, z.part_mut())
    }

    fn scale_residual(
        &self,
        r: &mut Vector<B::Vector<T>>,
        q: &Vector<B::Vector<T>>,
        z: &mut Vector<B::Vector<T>>,
        alpha: Ratio,
        out: Sums<2>,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.part.scale_residual(r.part_mut(), &*q.part()?, z.part_mut(), alpha, out, scalars)?;
        self.combine([out.get(0), out.get(1)], scalars)
    }
}

impl<B: PartBackend, T: Real, O: PartOperator<B, T>> LineSolver<Distributed<B>, T> for DistributedOperator<B, O> {
    fn backend(&self) -> &Distributed<B> {
        &self.backend
    }

    fn line_coefficient_vectors(&self) -> f64 {
        self.part.line_coefficient_vectors()
    }

    fn solve_lines(&self, r: &Vector<B::Vector<T>>, z: &mut Vector<B::Vector<T>>) -> Result<()> {
        self.part.solve_lines(&*r.part()?, z.part_mut())
    }

    fn precondition_residual(
        &self,
        r: &mut Vector<B::Vector<T>>,
        q: &Vector<B::Vector<T>>,
        z: &mut Vector<B::Vector<T>>,
        alpha: Ratio,
        out: Sums<2>,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.part.precondition_residual(r.part_mut(), &*q.part()?, z.part_mut(), alpha, out, scalars)?;
        self.combine([out.get(0), out.get(1)], scalars)
    }
}

impl<B: PartBackend, T: Real, O: PartSmoother<B, T> + ?Sized> LineSmoother<Distributed<B>, T>
    for DistributedOperator<B, O>
{
    fn smooth(
        &self,
        relaxation: Relaxation,
        guess: Guess,
        f: &Vector<B::Vector<T>>,
        u: &mut Vector<B::Vector<T>>,
        scratch: &mut Vector<B::Vector<T>>,
    ) -> Result<()> {
        let (f, u, scratch) = (f.part()?, u.part_mut(), scratch.part_mut());
        self.part.smooth(relaxation, guess, &*f, u, scratch)
    }

    fn colours(&self) -> usize {
        self.part.colours()
    }

    fn needs_scratch(&self, smoother: Smoother) -> bool {
        self.part.needs_scratch(smoother)
    }
}

impl<B: PartBackend, O: PartOperator<B, f64> + MixedSmoother<B>> MixedSmoother<Distributed<B>>
    for DistributedOperator<B, O>
{
    fn residual_in_single(
        &self,
        f: &Vector<B::Vector<f64>>,
        u: &Vector<B::Vector<f64>>,
        r: &mut Vector<B::Vector<f32>>,
        scratch: &mut Vector<B::Vector<f64>>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.fill_to_read(u)?;
        let (r, scratch) = (r.part_mut(), scratch.part_mut());
        self.part.residual_in_single(&*f.part()?, &*u.part()?, r, scratch, norm, scalars)?;
        self.combine([norm], scalars)
    }

    fn correct_smooth_residual(
        &self,
        relaxation: Relaxation,
        f: &Vector<B::Vector<f64>>,
        e: &Vector<B::Vector<f32>>,
        u: &mut Vector<B::Vector<f64>>,
        r: &mut Vector<B::Vector<f32>>,
        scratch: &mut Vector<B::Vector<f64>>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        let (f, e, u, r, scratch) = (f.part()?, e.part()?, u.part_mut(), r.part_mut(), scratch.part_mut());
        self.part.correct_smooth_residual(relaxation, &*f, &*e, u, r, scratch, norm, scalars)?;
        self.combine([norm], scalars)
    }

    fn mixed_needs_scratch(&self, smoother: Smoother) -> bool {
        self.part.mixed_needs_scratch(smoother)
    }
}
