//! The back end of a rank.

use std::ops::ControlFlow;
use std::sync::Arc;

use isobar_core::array::{ArrayView, ArrayViewMut, DeviceArray};
use isobar_core::backend::part::{Link, PartBackend, Shares};
use isobar_core::backend::{
    AggregateBackend, AggregateMap, Backend, BodyAfter, DeviceInfo, Ratio, Scalar, iterate_after_first,
};
use isobar_core::error::{Error, Result};
use isobar_core::layout::{Layout, Patch, Shape, needs_whole_rows};
use isobar_core::operator::{DirectBackend, PointSmoother};
use isobar_core::real::Real;
use isobar_core::stencil::Stencil;
use isobar_core::stencil::parts::SupportsParts;

use crate::communicator::Communicator;
use crate::operator::DistributedOperator;
use crate::patches::{Patches, collect_layers};
use crate::ranks::Ranks;
use crate::slabs::Slabs;
use crate::vector::Vector;

/// One of several ranks, each with a back end of its own, that share a grid: this one's vectors are its patch of columns, and
/// callers' arrays are those columns.
///
/// Stencils are those of the whole grid, on every rank. Ranks that are threads must not share the threads of an inner back
/// end: one that waits for another would keep it from running.
#[derive(Clone, Debug)]
pub struct Distributed<B> {
    inner: B,
    world: Arc<dyn Communicator>,
    /// How many parts x and y are divided in.
    parts: [usize; 2],
}

impl<B: PartBackend> Distributed<B> {
    /// This rank of a job, on a back end. Ranks have slabs of whole rows.
    pub fn new(inner: B, world: Arc<dyn Communicator>) -> Self {
        let parts = [1, world.size()];
        Self { inner: inner.joined(Arc::new(Ranks { world: Arc::clone(&world), parts })), world, parts }
    }

    /// The same with x and y divided in so many parts, ranks being numbered along x first.
    ///
    /// # Errors
    /// [`Error::Invalid`] where there are not as many ranks, [`Error::Unsupported`] where parts of this back end have whole rows.
    pub fn divided_in(self, parts: [usize; 2]) -> Result<Self> {
        let ([in_x, in_y], ranks) = (parts, self.world.size());
        if in_x.checked_mul(in_y) != Some(ranks) {
            return Err(other_number_of_parts(parts, ranks));
        }
        if in_x > 1 && !B::DIVIDES_ROWS {
            let kind = self.inner.device().kind;
            return Err(Error::Unsupported(format!(
                "{in_x}x{in_y} parts on devices of kind {kind}, whose parts have whole rows; use 1x{ranks}, or the device \"cpu\""
            )));
        }
        let ranks = Ranks { world: Arc::clone(&self.world), parts };
        Ok(Self { inner: self.inner.joined(Arc::new(ranks)), parts, ..self })
    }

    /// What this rank computes on.
    pub fn inner(&self) -> &B {
        &self.inner
    }

    /// The job.
    pub fn world(&self) -> &dyn Communicator {
        &*self.world
    }

    /// The job, for what outlives this.
    pub fn shared_world(&self) -> Arc<dyn Communicator> {
        Arc::clone(&self.world)
    }

    /// How the columns of a grid are divided.
    ///
    /// # Errors
    /// Those of [`Patches::new`].
    pub fn patches(&self, shape: Shape) -> Result<Patches> {
        Patches::new(shape, self.parts)
    }

    /// The columns of a grid that this rank has.
    ///
    /// # Errors
    /// Those of [`Patches::new`].
    pub fn patch(&self, shape: Shape) -> Result<Patch> {
        Ok(self.patches(shape)?.of(self.world.rank()))
    }

    /// Whether every rank has whole rows.
    pub(crate) fn has_whole_rows(&self) -> bool {
        self.parts[0] == 1
    }

    /// How the rows of a grid are divided, for what works on whole ones alone; `what` says what that is.
    ///
    /// # Errors
    /// Those of [`Slabs::new`]; [`Error::Unsupported`] where x is divided.
    pub(crate) fn slabs(&self, shape: Shape, what: &str) -> Result<Slabs> {
        if self.has_whole_rows() { Slabs::new(shape, self.world.size()) } else { Err(needs_whole_rows(what)) }
    }

    /// This rank's part of a stencil's operator.
    pub(crate) fn part<S: Stencil, T: Real>(&self, stencil: &S) -> Result<Arc<DistributedOperator<B, B::Part<T>>>>
    where
        B: SupportsParts<S>,
    {
        let part = self.inner.part(stencil, self.patch(stencil.shape())?)?;
        Ok(Arc::new(DistributedOperator::of_part(self, part)))
    }

    /// Relaxation of points of this rank's rows, where parts relax them.
    pub(crate) fn points<S: Stencil, T: Real>(
        &self,
        operator: &DistributedOperator<B, B::Part<T>>,
    ) -> Option<Arc<dyn PointSmoother<Self, T>>>
    where
        B: SupportsParts<S>,
    {
        let part = self.inner.part_points::<T>(operator.part())?;
        Some(Arc::new(DistributedOperator::of_part(self, part)))
    }

    /// Whether there are others.
    pub(crate) fn has_others(&self) -> bool {
        self.world.size() > 1
    }

    /// Whether ranks exchange anything by way of the host.
    pub(crate) fn needs_host(&self) -> bool {
        self.has_others() && self.inner.link().is_none()
    }

    /// Scalars = their sums over all ranks.
    pub(crate) fn combine<const N: usize>(&self, sums: [Scalar; N], scalars: &mut B::Scalars) -> Result<()> {
        if !self.has_others() {
            return Ok(());
        }
        if let Some(link) = self.inner.link() {
            return link.sum(&self.inner, &sums, scalars);
        }
        let bank = self.inner.read(scalars)?;
        let mut values = sums.map(|scalar| bank[scalar.index()]);
        self.world.sum(&mut values)?;
        sums.into_iter().zip(values).try_for_each(|(scalar, value)| self.inner.set(scalars, scalar, value))
    }
}

/// What is said where parts are not as many as ranks.
pub fn other_number_of_parts([in_x, in_y]: [usize; 2], ranks: usize) -> Error {
    let message = format!(
        "{in_x}x{in_y} are not as many parts as there are ranks, {ranks}; use two numbers with that product, as 1x{ranks}"
    );
    Error::invalid("parts", message)
}

/// A rank that computes and exchanges by turns, as long as this lives. One whose computing is another device's work is not said
/// to: its processor waits.
struct Watched<'w>(Option<&'w dyn Communicator>);

impl<'w> Watched<'w> {
    fn new<B: PartBackend>(backend: &'w Distributed<B>) -> Self {
        let watched = Some(backend.world()).filter(|_| backend.inner.device().kind == "cpu");
        watched.inspect(|world| world.set_iterating(true));
        Self(watched)
    }

    /// Does something that may take any time, as a caller's function may.
    fn pause<R>(&self, work: impl FnOnce() -> R) -> R {
        self.0.inspect(|world| world.set_iterating(false));
        let result = work();
        self.0.inspect(|world| world.set_iterating(true));
        result
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.0.inspect(|world| world.set_iterating(false));
    }
}

impl<B: PartBackend> Backend for Distributed<B> {
    type Vector<T: Real> = Vector<B::Vector<T>>;
    type Scalars = B::Scalars;

    fn device(&self) -> DeviceInfo {
        let (inner, ranks) = (self.inner.device(), self.world.size());
        // Ranks may share a processor, and have a card each.
        let count = if inner.kind == "cuda" { inner.count * ranks } else { inner.count };
        DeviceInfo { count, ranks, ..inner }
    }

    fn shares(&self, grid: Shape) -> Option<Shares> {
        Some(self.patches(grid).ok()?.shares()).filter(|_| self.has_others())
    }

    fn own_columns(&self, grid: Shape) -> Result<Patch> {
        self.patch(grid)
    }

    fn collect(&self, own: Vec<f64>, grid: Shape) -> Result<Vec<f64>> {
        collect_layers(self.world(), &own, grid, self.parts, &vec![0..grid.nz; self.world.size()])
    }

    fn zeros<T: Real>(&self, layout: &Layout) -> Result<Self::Vector<T>> {
        Ok(Vector::new(self.inner.zeros(layout)?))
    }

    fn upload<S: Real, T: Real>(&self, source: ArrayView<'_, S>, target: &mut Self::Vector<T>) -> Result<()> {
        self.inner.upload(source, target.part_mut())
    }

    fn download<S: Real, T: Real>(&self, source: &Self::Vector<T>, target: &mut ArrayViewMut<'_, S>) -> Result<()> {
        self.inner.download(&*source.part()?, target)
    }

    fn import<T: Real>(&self, source: &DeviceArray, target: &mut Self::Vector<T>) -> Result<()> {
        self.inner.import(source, target.part_mut())
    }

    fn export<T: Real>(&self, source: &Self::Vector<T>, target: &mut DeviceArray) -> Result<()> {
        self.inner.export(&*source.part()?, target)
    }

    fn clear<T: Real>(&self, x: &mut Self::Vector<T>) -> Result<()> {
        self.inner.clear(x.part_mut())
    }

    fn convert<S: Real, T: Real>(&self, x: &Self::Vector<S>, y: &mut Self::Vector<T>) -> Result<()> {
        self.inner.convert(&*x.part()?, y.part_mut())
    }

    fn scale<T: Real>(&self, a: f64, x: &mut Self::Vector<T>) -> Result<()> {
        self.inner.scale(a, x.part_mut())
    }

    fn extrapolate<T: Real>(&self, tau: f64, x: &Self::Vector<T>, y: &mut Self::Vector<T>) -> Result<()> {
        self.inner.extrapolate(tau, &*x.part()?, y.part_mut())
    }

    fn axpy<S: Real, T: Real>(
        &self,
        a: Ratio,
        x: &Self::Vector<S>,
        y: &mut Self::Vector<T>,
        scalars: &Self::Scalars,
    ) -> Result<()> {
        self.inner.axpy(a, &*x.part()?, y.part_mut(), scalars)
    }

    fn xpay<T: Real>(
        &self,
        a: Ratio,
        x: &Self::Vector<T>,
        y: &mut Self::Vector<T>,
        scalars: &Self::Scalars,
    ) -> Result<()> {
        self.inner.xpay(a, &*x.part()?, y.part_mut(), scalars)
    }

    fn dot<T: Real>(
        &self,
        x: &Self::Vector<T>,
        y: &Self::Vector<T>,
        out: Scalar,
        scalars: &mut Self::Scalars,
    ) -> Result<()> {
        self.inner.dot(&*x.part()?, &*y.part()?, out, scalars)?;
        self.combine([out], scalars)
    }

    fn axpy_norm<T: Real>(
        &self,
        a: Ratio,
        x: &Self::Vector<T>,
        y: &mut Self::Vector<T>,
        out: Scalar,
        scalars: &mut Self::Scalars,
    ) -> Result<()> {
        self.inner.axpy_norm(a, &*x.part()?, y.part_mut(), out, scalars)?;
        self.combine([out], scalars)
    }

    fn scalars(&self) -> Result<Self::Scalars> {
        self.inner.scalars()
    }

    fn set(&self, scalars: &mut Self::Scalars, scalar: Scalar, value: f64) -> Result<()> {
        self.inner.set(scalars, scalar, value)
    }

    fn read(&self, scalars: &Self::Scalars) -> Result<[f64; Scalar::COUNT]> {
        self.inner.read(scalars)
    }

    fn iterate(
        &self,
        scalars: &mut Self::Scalars,
        body: &mut dyn FnMut(usize, &mut Self::Scalars) -> Result<()>,
        observe: &mut dyn FnMut(&[f64; Scalar::COUNT]) -> ControlFlow<()>,
    ) -> Result<()> {
        if self.needs_host() {
            let watched = Watched::new(self);
            self.iterate_stepwise(scalars, body, &mut |bank| watched.pause(|| observe(bank)))
        } else {
            self.inner.iterate(scalars, body, observe)
        }
    }

    fn iterate_after(
        &self,
        scalars: &mut Self::Scalars,
        body: &mut BodyAfter<'_, Self::Scalars>,
        observe: &mut dyn FnMut(&[f64; Scalar::COUNT]) -> ControlFlow<()>,
    ) -> Result<()> {
        if self.needs_host() {
            let watched = Watched::new(self);
            iterate_after_first(self, scalars, body, &mut |bank| watched.pause(|| observe(bank)))
        } else {
            self.inner.iterate_after(scalars, body, observe)
        }
    }

    fn enter<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        // What communicates in `work` must do so on this thread where a transport says so.
        if self.world.is_bound_to_thread() { work() } else { self.inner.enter(work) }
    }

    /// On all ranks, so that none counts as work that it waits for another.
    fn synchronize(&self) -> Result<()> {
        self.inner.synchronize()?;
        if self.has_others() { self.world.barrier() } else { Ok(()) }
    }

    fn copy_bandwidth(&self, layout: &Layout) -> Result<f64> {
        self.inner.copy_bandwidth(layout)
    }
}

/// This rank's cells of aggregates, which all ranks number in the same way.
#[derive(Debug)]
pub struct Aggregates<A> {
    pub(crate) part: A,
    count: usize,
}

/// Sums are those over all ranks.
// Transforms of whole axes are not divided.
impl<B: PartBackend> DirectBackend for Distributed<B> {}

impl<B: AggregateBackend + PartBackend> AggregateBackend for Distributed<B> {
    type Aggregates = Aggregates<B::Aggregates>;
    type AggregateVector = B::AggregateVector;
    type AggregateMatrix = B::AggregateMatrix;

    fn sums_on_host(&self) -> bool {
        self.has_others()
    }

    fn aggregates(&self, map: &AggregateMap) -> Result<Self::Aggregates> {
        Ok(Aggregates { part: self.inner.aggregates(map)?, count: map.count() })
    }

    fn aggregate_vector(&self, count: usize) -> Result<Self::AggregateVector> {
        self.inner.aggregate_vector(count)
    }

    fn aggregate_matrix(&self, size: usize, entries: &[f64]) -> Result<Self::AggregateMatrix> {
        self.inner.aggregate_matrix(size, entries)
    }

    fn aggregate_sums<T: Real>(
        &self,
        x: &Self::Vector<T>,
        aggregates: &Self::Aggregates,
        sums: &mut Self::AggregateVector,
    ) -> Result<()> {
        self.inner.aggregate_sums(&*x.part()?, &aggregates.part, sums)?;
        if !self.has_others() {
            return Ok(());
        }
        let mut all = vec![0.0; aggregates.count];
        self.inner.read_aggregated(sums, &mut all)?;
        self.world.sum(&mut all)?;
        self.inner.write_aggregated(&all, sums)
    }

    fn add_aggregated<T: Real>(
        &self,
        aggregates: &Self::Aggregates,
        a: &Self::AggregateVector,
        y: &mut Self::Vector<T>,
    ) -> Result<()> {
        self.inner.add_aggregated(&aggregates.part, a, y.part_mut())
    }

    fn clear_outside<T: Real>(&self, aggregates: &Self::Aggregates, x: &mut Self::Vector<T>) -> Result<()> {
        self.inner.clear_outside(&aggregates.part, x.part_mut())
    }

    fn aggregate_multiply(
        &self,
        matrix: &Self::AggregateMatrix,
        x: &Self::AggregateVector,
        y: &mut Self::AggregateVector,
    ) -> Result<()> {
        self.inner.aggregate_multiply(matrix, x, y)
    }

    fn aggregate_scale(
        &self,
        f: &Self::AggregateVector,
        x: &Self::AggregateVector,
        y: &mut Self::AggregateVector,
    ) -> Result<()> {
        self.inner.aggregate_scale(f, x, y)
    }

    fn read_aggregated(&self, x: &Self::AggregateVector, to: &mut [f64]) -> Result<()> {
        self.inner.read_aggregated(x, to)
    }

    fn write_aggregated(&self, from: &[f64], x: &mut Self::AggregateVector) -> Result<()> {
        self.inner.write_aggregated(from, x)
    }
}
