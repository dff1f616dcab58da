//! The back end: one GPU, its queues, and vector operations.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use isobar_core::array::{ArrayView, ArrayViewMut, DeviceArray};
use isobar_core::backend::{
    Backend, BodyAfter, DeviceInfo, Meanwhile, Ratio, Scalar, SharedDirect, Shares, iterate_after_first, queue,
};
use isobar_core::direct::Separable;
use isobar_core::error::Result;
use isobar_core::layout::{Colour, Layout, Patch, Shape};
use isobar_core::real::Real;
use isobar_dist::Ranks;
use isobar_dist::part::{self, PartBackend};

use crate::array;
use crate::compile::Source;
use crate::direct;
use crate::driver::{BESIDE, Context, Pointer, lock};
use crate::iterate;
use crate::kernels;
use crate::launch::{Arguments, Kernel, Launch, refuse_while_recording};
use crate::link::{CardLink, Ways};
use crate::module::{Module, Modules};
use crate::nvrtc::Nvrtc;
use crate::pack;
use crate::problem;
use crate::reduction::Reduction;
use crate::scalars::Scalars;
use crate::staging::Staging;
use crate::vector::{Vector, c_name, check_size, index, is_single};

/// Threads per block of vector operations.
const BLOCK: usize = 256;
/// Blocks of vector operations per multiprocessor.
const BLOCKS_A_MULTIPROCESSOR: usize = 16;

/// One NVIDIA GPU. Clones are cheap and share the GPU's stream.
#[derive(Clone, Debug)]
pub struct Cuda {
    inner: Arc<Inner>,
    /// The link to other ranks' GPUs.
    pub(crate) link: Option<Arc<CardLink>>,
    /// The ranks, if this is one of several.
    pub(crate) ranks: Option<Arc<Ranks>>,
}

#[derive(Debug)]
struct Inner {
    // Dropped in this order: kernels and memory before the context.
    /// Vector operations in double and in single precision.
    vector: [Arc<Module>; 2],
    /// Kernels for callers' arrays.
    array: [Arc<Module>; 2],
    /// Buffers of `dot`.
    reduction: Reduction,
    staging: Staging,
    modules: Modules,
    context: Arc<Context>,
}

pub(crate) fn vector_source<T: Real>() -> Source {
    Source::new("vector", kernels::VECTOR).define("REAL", c_name::<T>())
}

/// Returns the sources that every GPU needs, whatever the solver.
pub fn sources() -> [Source; 5] {
    let [array_f64, array_f32] = [array::source::<f64>(), array::source::<f32>()];
    [vector_source::<f64>(), vector_source::<f32>(), array_f64, array_f32, problem::source()]
}

impl Cuda {
    /// Opens the GPU with this number.
    ///
    /// # Errors
    /// [`Error::Device`](isobar_core::error::Error::Device) if the driver or the GPU is missing or too old, or if there is neither
    /// NVRTC nor a pack of compiled kernels; the message says what to do.
    pub fn new(ordinal: usize) -> Result<Self> {
        let context = Arc::new(Context::open(ordinal)?);
        if pack::get(&context.architecture()).is_none() {
            Nvrtc::get()?;
        }
        let modules = Modules::default();
        let [vector_f64, vector_f32, array_f64, array_f32, _] = sources().map(|source| modules.get(&context, source));
        // Used by every solve, as is the memory for scalars.
        array_f64.expect(&["import_coefficients_f64", "import_f64", "export_f64"]);
        vector_f64.expect(&["publish", "set_scalar", "dot", "fill", "axpy_f64"]);
        Scalars::new(&context)?;
        let inner = Inner {
            vector: [vector_f64, vector_f32],
            array: [array_f64, array_f32],
            reduction: Reduction::new(&context, BLOCKS_A_MULTIPROCESSOR * context.multiprocessors)?,
            staging: Staging::default(),
            modules,
            context,
        };
        Ok(Self { inner: Arc::new(inner), link: None, ranks: None })
    }

    /// Returns the GPU with this number, opened once in a process for problems whose coefficients are there ([`crate::problem`]), and never closed. Solvers have
    /// streams of their own.
    ///
    /// # Errors
    /// See [`Cuda::new`].
    pub fn shared(ordinal: usize) -> Result<Self> {
        static OPENED: Mutex<BTreeMap<usize, Cuda>> = Mutex::new(BTreeMap::new());
        let mut opened = lock(&OPENED);
        if let Some(cuda) = opened.get(&ordinal) {
            return Ok(cuda.clone());
        }
        let cuda = Self::new(ordinal)?;
        opened.insert(ordinal, cuda.clone());
        Ok(cuda)
    }

    /// Makes this GPU rank `rank` of `size`. If possible, the ranks' GPUs then exchange without the host: connected GPUs of one
    /// host write to each other's memory, within a process or between processes; otherwise NCCL is used, if all ranks have it
    /// and a GPU each. `ISOBAR_LINK` restricts this choice ([`Ways`]). It is collective. `all_gather` gathers equally long messages of all
    /// ranks in the order of ranks.
    ///
    /// # Errors
    /// The errors of `all_gather` and of the driver. It is not an error if GPUs cannot reach each other: they then exchange
    /// through the host.
    pub fn join(&self, rank: usize, size: usize, all_gather: &mut dyn FnMut(&[u8]) -> Result<Vec<u8>>) -> Result<Self> {
        let ways = Ways::from_environment();
        // A rank with an invalid setting still takes part, because the others wait for it.
        let joined = self.join_by(*ways.as_ref().unwrap_or(&Ways::HOST), rank, size, all_gather)?;
        ways.map(|_| joined)
    }

    /// Like [`Cuda::join`], with the allowed ways as an argument instead of `ISOBAR_LINK`.
    ///
    /// # Errors
    /// The errors of [`Cuda::join`].
    pub fn join_by(
        &self,
        ways: Ways,
        rank: usize,
        size: usize,
        all_gather: &mut dyn FnMut(&[u8]) -> Result<Vec<u8>>,
    ) -> Result<Self> {
        let link = CardLink::join(self, ways, [rank, size], all_gather)?;
        Ok(Self { inner: Arc::clone(&self.inner), link: link.map(Arc::new), ranks: self.ranks.clone() })
    }

    /// Returns the link to other ranks' GPUs, if any.
    pub fn card_link(&self) -> Option<&CardLink> {
        self.link.as_deref()
    }

    /// Fails if another rank has not answered.
    fn check_link(&self) -> Result<()> {
        self.card_link().map_or(Ok(()), CardLink::check)
    }

    /// Returns the number of the GPU.
    pub fn ordinal(&self) -> usize {
        self.context().ordinal
    }

    /// Returns the GPU's memory in bytes.
    pub fn memory(&self) -> usize {
        self.context().memory
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.inner.context
    }

    /// Has kernels compiled that will probably be needed.
    pub(crate) fn expect(&self, source: Source, kernels: &[&'static str]) {
        self.module(source).expect(kernels);
    }

    pub(crate) fn module(&self, source: Source) -> Arc<Module> {
        self.inner.modules.get(self.context(), source)
    }

    pub(crate) fn array_modules(&self) -> &[Arc<Module>; 2] {
        &self.inner.array
    }

    /// Returns the memory for sums over all blocks.
    pub(crate) fn reduction(&self) -> &Reduction {
        &self.inner.reduction
    }

    pub(crate) fn kernel<T: Real>(&self, name: &'static str) -> Result<Kernel> {
        self.inner.vector[index::<T>()].kernel(name)
    }

    /// Submits a kernel without dynamic shared memory.
    pub(crate) fn launch(
        &self,
        kernel: Kernel,
        grid: [usize; 3],
        block: [usize; 2],
        arguments: Arguments,
    ) -> Result<()> {
        let (grid, block) = (grid.map(|n| n as u32), block.map(|n| n as u32));
        self.submit(Launch { kernel, grid, block, shared_bytes: 0, arguments })
    }

    pub(crate) fn submit(&self, launch: Launch) -> Result<()> {
        launch.submit(self.context())
    }

    /// Converts `len` elements between precisions.
    pub(crate) fn convert_entries<S: Real, T: Real>(&self, len: usize, from: Pointer, to: Pointer) -> Result<()> {
        let arguments = Arguments::new().with(len as i64).with(from).with(to);
        let name = if is_single::<S>() { "convert_f32" } else { "convert_f64" };
        self.elementwise(self.kernel::<T>(name)?, len, arguments)
    }

    /// Launches a vector operation on `len` elements.
    pub(crate) fn elementwise(&self, kernel: Kernel, len: usize, arguments: Arguments) -> Result<()> {
        self.launch(kernel, [self.blocks(len), 1, 1], [BLOCK, 1], arguments)
    }

    pub(crate) fn blocks(&self, len: usize) -> usize {
        len.div_ceil(BLOCK).min(BLOCKS_A_MULTIPROCESSOR * self.context().multiprocessors)
    }

    /// Copies arrays to the GPU, where they stay for the work that `work` submits.
    pub(crate) fn staged<S: Copy + Sync, const N: usize>(
        &self,
        arrays: [&[S]; N],
        work: impl FnOnce([Pointer; N]) -> Result<()>,
    ) -> Result<()> {
        self.inner.staging.send(self.context(), arrays, work)
    }

    /// Copies an array to an address on the GPU, after all submitted work; several threads copy a large one.
    pub(crate) fn send<S: Copy + Sync>(&self, array: &[S], to: Pointer) -> Result<()> {
        self.inner.staging.send_to(self.context(), &[(to, array)])
    }

    /// Copies an array, which `fill` submits the computation of, to the host.
    pub(crate) fn fetch<S: Copy + Send>(
        &self,
        array: &mut [S],
        fill: impl FnOnce(Pointer) -> Result<()>,
    ) -> Result<()> {
        self.inner.staging.fetch(self.context(), array, fill)
    }
}

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

    fn own_columns(&self, grid: Shape) -> Result<Patch> {
        isobar_dist::own_columns(self, grid)
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

    fn xpay<T: Real>(&self, a: Ratio, x: &Vector<T>, y: &mut Vector<T>, scalars: &Scalars) -> Result<()> {
        let (from, (to, len)) = (x.all().0, y.all());
        let arguments = Arguments::new().with(len as i64).with(scalars.ratio(a)).with(from).with(to);
        self.elementwise(self.kernel::<T>("xpay")?, len, arguments)
    }

    fn dot<T: Real>(&self, x: &Vector<T>, y: &Vector<T>, out: Scalar, scalars: &mut Scalars) -> Result<()> {
        let arguments = Arguments::new().with(x.layout().len() as i64).with(x.pointer()).with(y.pointer());
        self.with_sum::<T>("dot", arguments, x.layout(), out, scalars)
    }

    fn axpy_norm<T: Real>(
        &self,
        a: Ratio,
        x: &Vector<T>,
        y: &mut Vector<T>,
        out: Scalar,
        scalars: &mut Scalars,
    ) -> Result<()> {
        let arguments = Arguments::new().with(y.layout().len() as i64).with(scalars.ratio(a));
        let arguments = arguments.with(x.pointer()).with(y.pointer());
        self.with_sum::<T>("axpy_norm", arguments, y.layout(), out, scalars)
    }

    fn axpy_norm_convert<T: Real, S: Real>(
        &self,
        a: Ratio,
        x: &Vector<T>,
        y: &mut Vector<T>,
        converted: &mut Vector<S>,
        out: Scalar,
        scalars: &mut Scalars,
    ) -> Result<()> {
        let arguments = Arguments::new().with(y.layout().len() as i64).with(scalars.ratio(a));
        let arguments = arguments.with(x.pointer()).with(y.pointer()).with(converted.pointer());
        let name = if is_single::<S>() { "axpy_norm_convert_f32" } else { "axpy_norm_convert_f64" };
        self.with_sum::<T>(name, arguments, y.layout(), out, scalars)
    }

    fn convert_dot<S: Real, T: Real>(
        &self,
        x: &Vector<S>,
        y: &mut Vector<T>,
        z: &Vector<T>,
        out: Scalar,
        scalars: &mut Scalars,
    ) -> Result<()> {
        let arguments = Arguments::new().with(y.layout().len() as i64);
        let arguments = arguments.with(x.pointer()).with(y.pointer()).with(z.pointer());
        let name = if is_single::<S>() { "convert_dot_f32" } else { "convert_dot_f64" };
        self.with_sum::<T>(name, arguments, y.layout(), out, scalars)
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
        scalars: &mut Scalars,
        body: &mut dyn FnMut(usize, &mut Scalars) -> Result<()>,
        observe: &mut dyn FnMut(&[f64; Scalar::COUNT]) -> ControlFlow<()>,
    ) -> Result<()> {
        if self.exchanges_on_host() {
            return self.iterate_stepwise(scalars, body, observe);
        }
        let body = &mut |n: Option<usize>, scalars: &mut Scalars| body(n.unwrap_or(0), scalars);
        iterate::iterate(self.context(), &self.kernel::<f64>("publish")?, scalars, false, body, observe)?;
        self.check_link()
    }

    fn iterate_after(
        &self,
        scalars: &mut Scalars,
        body: &mut BodyAfter<'_, Scalars>,
        observe: &mut dyn FnMut(&[f64; Scalar::COUNT]) -> ControlFlow<()>,
    ) -> Result<()> {
        if self.exchanges_on_host() {
            return iterate_after_first(self, scalars, body, observe);
        }
        iterate::iterate(self.context(), &self.kernel::<f64>("publish")?, scalars, true, body, observe)?;
        self.check_link()
    }

    fn await_prepared(&self) -> Result<()> {
        self.inner.modules.load()
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
            // Also after an error: what was submitted uses memory that may be freed.
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
                y.buffer_mut().copy_from(x.buffer())?;
            }
            self.synchronize()?;
            best = best.min(clock.elapsed().as_secs_f64());
        }
        Ok((2 * COPIES * x.buffer().bytes()) as f64 / best.max(1e-9))
    }

    /// Transforms of whole axes are not divided.
    fn has_direct(&self) -> bool {
        self.ranks.is_none()
    }

    fn direct(&self, layout: &Layout, factors: &Separable) -> Result<Option<SharedDirect<Self>>> {
        self.has_direct().then(|| direct::direct(self, layout, factors)).transpose()
    }
}
