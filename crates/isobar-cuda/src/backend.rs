//! The CUDA back end as solvers see it: operations on vectors, and iterations.

use isobar_core::backend::{Body, DeviceInfo, Iterations, Look, iterate_stepwise, queue};
use isobar_core::prelude::{
    ArrayView, ArrayViewMut, Backend, Colour, DeviceArray, Layout, Meanwhile, Ratio, Real, Result, Scalar, Separable,
    Shape, SharedDirect, Shares, Slab,
};
use isobar_dist::part::{self, PartBackend};

use crate::driver::BESIDE;
use crate::launch::refuse_while_recording;
use crate::link::CardLink;
use crate::vector::{check_size, is_single};
use crate::{Arguments, Cuda, Pointer, Scalars, Sum, Vector, direct, iterate};

impl Backend for Cuda {
    type Vector<T: Real> = Vector<T>;
    type Scalars = Scalars;

    fn device(&self) -> DeviceInfo {
        let one = DeviceInfo { kind: "cuda", name: self.context().name.clone(), count: 1, ranks: 1, threads: 1 };
        isobar_dist::device(self, one)
    }

    fn shares(&self, grid: Shape) -> Option<Shares> {
        self.ranks.as_ref()?.shares(grid)
    }

    fn own_rows(&self, grid: Shape) -> Result<Slab> {
        isobar_dist::own_rows(self, grid)
    }

    fn collect(&self, own: Vec<f64>, grid: Shape) -> Result<Vec<f64>> {
        isobar_dist::collect(self, own, grid)
    }

    fn fill_while<T: Real>(&self, x: &mut Vector<T>, colours: &[Colour], meanwhile: Meanwhile<'_>) -> Result<()> {
        let layout = *x.layout();
        part::fill(self, &layout, x, colours, meanwhile)
    }

    fn sum(&self, of: &Layout, sums: &[Scalar], scalars: &mut Scalars) -> Result<()> {
        part::sum(self, of, sums, scalars)
    }

    fn zeros<T: Real>(&self, layout: &Layout) -> Result<Vector<T>> {
        check_size(layout.shape())?;
        refuse_while_recording("allocating")?;
        // Vectors are made only to be used, so the context is made current here.
        self.kernel::<T>("fill")?;
        Vector::zeros(self.context(), layout)
    }

    fn upload<S: Real, T: Real>(&self, source: ArrayView<'_, S>, target: &mut Vector<T>) -> Result<()> {
        self.upload_array(source, target)
    }

    fn download<S: Real, T: Real>(&self, source: &Vector<T>, target: &mut ArrayViewMut<'_, S>) -> Result<()> {
        self.download_array(source, target)?;
        // A kernel that gave up waiting for another GPU leaves no valid result.
        self.check_link()
    }

    fn import<T: Real>(&self, source: &DeviceArray, target: &mut Vector<T>) -> Result<()> {
        self.import_array(source, target)
    }

    fn export<T: Real>(&self, source: &Vector<T>, target: &mut DeviceArray) -> Result<()> {
        self.export_array(source, target)
    }

    fn average<T: Real>(&self, _: &Layout, period: [usize; 2], x: &mut Vector<T>) -> Result<()> {
        self.average_copies(period, x)
    }

    fn clear<T: Real>(&self, x: &mut Vector<T>) -> Result<()> {
        let (all, len) = x.all();
        let arguments = Arguments::new().with(len as i64).with_real::<T>(0.0).with(all);
        self.elementwise(self.kernel::<T>("fill")?, len, arguments)
    }

    fn convert<S: Real, T: Real>(&self, x: &Vector<S>, y: &mut Vector<T>) -> Result<()> {
        let (from, (to, len)) = (x.all().0, y.all());
        self.convert_entries::<S, T>(len, from, to)
    }

    fn scale<T: Real>(&self, a: f64, x: &mut Vector<T>) -> Result<()> {
        let (all, len) = x.all();
        let arguments = Arguments::new().with(len as i64).with_real::<T>(a).with(all);
        self.elementwise(self.kernel::<T>("scale")?, len, arguments)
    }

    fn extrapolate<T: Real>(&self, tau: f64, x: &Vector<T>, y: &mut Vector<T>) -> Result<()> {
        let (from, (to, len)) = (x.all().0, y.all());
        let arguments = Arguments::new().with(len as i64).with_real::<T>(tau - 1.0).with(from).with(to);
        self.elementwise(self.kernel::<T>("extrapolate")?, len, arguments)
    }

    fn axpy<S: Real, T: Real>(&self, a: Ratio, x: &Vector<S>, y: &mut Vector<T>, scalars: &Scalars) -> Result<()> {
        let (from, (to, len)) = (x.all().0, y.all());
        let arguments = Arguments::new().with(len as i64).with(scalars.ratio(a)).with(from).with(to);
        let name = if is_single::<S>() { "axpy_f32" } else { "axpy_f64" };
        self.elementwise(self.kernel::<T>(name)?, len, arguments)
    }

    fn xpay<S: Real, T: Real>(&self, a: Ratio, x: &Vector<S>, y: &mut Vector<T>, scalars: &Scalars) -> Result<()> {
        let (from, (to, len)) = (x.all().0, y.all());
        let arguments = Arguments::new().with(len as i64).with(scalars.ratio(a)).with(from).with(to);
        let name = if is_single::<S>() { "xpay_f32" } else { "xpay_f64" };
        self.elementwise(self.kernel::<T>(name)?, len, arguments)
    }

    fn dot<T: Real>(&self, x: &Vector<T>, y: &Vector<T>, out: Sum<'_>) -> Result<()> {
        let arguments = Arguments::new().with(x.layout().len() as i64).with(x.pointer()).with(y.pointer());
        self.with_sum::<T>("dot", arguments, x.layout(), out)
    }

    fn axpy_norm<T: Real>(&self, a: Ratio, x: &Vector<T>, y: &mut Vector<T>, (out, scalars): Sum<'_>) -> Result<()> {
        let arguments = Arguments::new().with(y.layout().len() as i64).with(scalars.ratio(a));
        let arguments = arguments.with(x.pointer()).with(y.pointer());
        self.with_sum::<T>("axpy_norm", arguments, y.layout(), out.of(scalars))
    }

    fn scalars(&self) -> Result<Scalars> {
        refuse_while_recording("allocating")?;
        Scalars::new(self.context())
    }

    fn set(&self, scalars: &mut Scalars, scalar: Scalar, value: f64) -> Result<()> {
        let arguments = Arguments::new().with(value).with(scalars.pointer(scalar));
        self.launch(self.kernel::<f64>("set_scalar")?, [1, 1, 1], [1, 1], arguments)
    }

    fn read(&self, scalars: &Scalars) -> Result<[f64; Scalar::COUNT]> {
        refuse_while_recording("reading scalars")?;
        self.submit(scalars.publish(&self.kernel::<f64>("publish")?))?;
        scalars.note_submitted();
        let values = scalars.wait()?;
        self.check_link()?;
        Ok(values)
    }

    fn iterate(
        &self,
        how: Iterations,
        scalars: &mut Scalars,
        body: &mut Body<'_, Scalars>,
        observe: &mut Look<'_>,
    ) -> Result<()> {
        if how.on_host || self.exchanges_on_host() {
            return iterate_stepwise(self, scalars, body, observe);
        }
        iterate::iterate(self.context(), &self.kernel::<f64>("publish")?, scalars, how.first_differs, body, observe)?;
        self.check_link()
    }

    fn await_prepared(&self) -> Result<()> {
        self.modules().load()
    }

    fn queues(&self, systems: usize, _: &Layout, bytes: usize) -> Result<usize> {
        if self.ranks.is_some() || self.link.is_some() {
            return Ok(0);
        }
        // A quarter of the free memory.
        Ok(BESIDE.min(systems).min(self.context().free_memory()? / (4 * bytes.max(1))))
    }

    fn most_queues(&self) -> usize {
        BESIDE
    }

    fn on_queue<R>(&self, queue: usize, work: impl FnOnce() -> Result<R>) -> Result<R> {
        self.context().open_queue(queue)?;
        queue::on(queue, || {
            let done = work();
            // Synchronise after an error too, because submitted kernels still use memory that the caller may free.
            self.context().synchronize().and(done)
        })
    }

    fn synchronize(&self) -> Result<()> {
        self.context().synchronize()?;
        self.check_link()?;
        self.ranks.as_ref().map_or(Ok(()), |ranks| ranks.world().barrier())
    }

    fn copy_bandwidth(&self, layout: &Layout) -> Result<f64> {
        /// Copies between two readings of the clock.
        const COPIES: usize = 20;
        let (x, mut y) = (self.zeros::<f64>(layout)?, self.zeros::<f64>(layout)?);
        let mut best = f64::INFINITY;
        for _ in 0..4 {
            self.synchronize()?;
            let clock = std::time::Instant::now();
            for _ in 0..COPIES {
                y.buffer.copy_from(&x.buffer)?;
            }
            self.synchronize()?;
            best = best.min(clock.elapsed().as_secs_f64());
        }
        Ok((2 * COPIES * x.buffer.bytes()) as f64 / best.max(1e-9))
    }

    fn has_direct(&self) -> bool {
        true
    }

    fn direct_pays(&self, factors: &Separable) -> bool {
        direct::pays(self, factors)
    }

    fn direct(&self, layout: &Layout, factors: &Separable) -> Result<Option<SharedDirect<Self>>> {
        direct::direct(self, layout, factors)
    }
}

impl Cuda {
    /// Fails if another rank has not answered.
    fn check_link(&self) -> Result<()> {
        self.card_link().map_or(Ok(()), CardLink::check)
    }

    /// Launches an operation on all entries of vectors of a layout, which also sums.
    pub(crate) fn with_sum<T: Real>(
        &self,
        name: &'static str,
        arguments: Arguments,
        layout: &Layout,
        (out, scalars): Sum<'_>,
    ) -> Result<()> {
        let arguments = self.reduction().append(arguments, self.blocks(layout.len()), scalars.pointer(out));
        self.elementwise(self.kernel::<T>(name)?, layout.len(), arguments)?;
        self.sum(layout, &[out], scalars)
    }

    /// Appends the buffers that a kernel of [`Cuda::summing_blocks`] blocks needs to sum two numbers, and the address of the sums.
    pub(crate) fn summing(&self, arguments: Arguments, sums: Pointer) -> Arguments {
        self.reduction().append(arguments, self.summing_blocks(), sums)
    }

    /// Returns the number of blocks of kernels that sum over whole arrays.
    pub(crate) fn summing_blocks(&self) -> usize {
        /// Blocks of 256 threads.
        const A_MULTIPROCESSOR: usize = 8;
        A_MULTIPROCESSOR * self.context().multiprocessors
    }
}
