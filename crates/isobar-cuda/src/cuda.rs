//! The back end itself: one card, its stream, and the vector operations.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use isobar_core::backend::{Backend, BodyAfter, DeviceInfo, Ratio, Slot, TensorProductBackend};
use isobar_core::error::{Error, Result};
use isobar_core::layout::{ArrayView, ArrayViewMut, Layout, Shape};
use isobar_core::real::Real;
use isobar_core::reference::check_shape;
use isobar_core::stencil;

use crate::compile::Source;
use crate::device_array::DeviceArray;
use crate::driver::{Context, Pointer, lock};
use crate::iterate;
use crate::kernels;
use crate::launch::{Argument, Arguments, Kernel, Launch, refuse_while_recording};
use crate::memory::Buffer;
use crate::module::{Module, Modules};
use crate::nvrtc::Nvrtc;
use crate::scalars::Scalars;
use crate::staging::Pinned;
use crate::tensor_product::TensorProduct;
use crate::vector::{Vector, c_name, index};

/// Threads a block of vector operations has.
const BLOCK: usize = 256;
/// Blocks of them a multiprocessor gets.
const BLOCKS_A_MULTIPROCESSOR: usize = 16;
/// The most rows a grid may have: kernels use two blocks a row in a direction that allows 65535.
const MOST_ROWS: usize = 32_767;

/// One NVIDIA card. Cheap to clone; clones share the card's stream.
#[derive(Clone, Debug)]
pub struct Cuda {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    // Dropped in this order: kernels and memory before the context.
    vector: [[VectorKernels; 2]; 2],
    set: Kernel,
    publish: Kernel,
    /// What `dot` needs.
    reduction: Reduction,
    staging: Mutex<Staging>,
    modules: Modules,
    context: Arc<Context>,
}

/// Where users' arrays are on their way.
#[derive(Debug, Default)]
struct Staging {
    card: Option<Buffer>,
    host: Option<Pinned>,
}

/// Kernels that write vectors of one precision and read vectors of another.
#[derive(Clone, Copy, Debug)]
struct VectorKernels {
    fill: Kernel,
    convert: Kernel,
    axpy: Kernel,
    xpay: Kernel,
    dot: Kernel,
    import: Kernel,
    export: Kernel,
}

/// Room for the partial sums of a kernel's blocks.
#[derive(Debug)]
pub(crate) struct Reduction {
    /// Two doubles a block, then the counter.
    buffer: Buffer,
    blocks: usize,
}

impl Reduction {
    pub(crate) fn new(context: &Arc<Context>, blocks: usize) -> Result<Self> {
        Ok(Self { buffer: Buffer::zeros(context, 16 * blocks + 8, "partial sums")?, blocks })
    }

    /// Appends the arguments `partial` and `counter`.
    pub(crate) fn append(&self, arguments: Arguments) -> Arguments {
        arguments.with(self.buffer.start()).with(self.buffer.start() + 16 * self.blocks as Pointer)
    }
}

/// Strides in elements, as transpose.cu has them.
#[derive(Clone, Copy)]
#[repr(C)]
struct Strides([i64; 3]);

// SAFETY: three 64-bit integers, as in transpose.cu.
unsafe impl Argument for Strides {}

fn vector_source<T: Real, S: Real>() -> Source {
    Source::new("vector", kernels::VECTOR).define("REAL", c_name::<T>()).define("FROM_REAL", c_name::<S>())
}

fn transpose_source<T: Real, S: Real>() -> Source {
    Source::new("transpose", kernels::TRANSPOSE).define("REAL", c_name::<T>()).define("USER_REAL", c_name::<S>())
}

/// The sources that every card needs, whatever is solved on it.
pub fn sources() -> Vec<Source> {
    vec![
        vector_source::<f64, f64>(),
        vector_source::<f64, f32>(),
        vector_source::<f32, f64>(),
        vector_source::<f32, f32>(),
        transpose_source::<f64, f64>(),
        transpose_source::<f64, f32>(),
        transpose_source::<f32, f64>(),
        transpose_source::<f32, f32>(),
    ]
}

impl Cuda {
    /// The card of this number.
    ///
    /// # Errors
    /// [`Error::Device`] where there is no driver, no such card, none new enough, or no NVRTC; the message
    /// says what to do.
    pub fn new(ordinal: usize) -> Result<Self> {
        let context = Arc::new(Context::open(ordinal)?);
        Nvrtc::get()?;
        let modules = Modules::default();
        let loaded = modules.get(&context, &sources())?;
        let kernels = |n: usize| -> Result<VectorKernels> {
            let (vector, transpose): (&Module, &Module) = (&loaded[n], &loaded[n + 4]);
            Ok(VectorKernels {
                fill: vector.kernel("fill")?,
                convert: vector.kernel("convert")?,
                axpy: vector.kernel("axpy")?,
                xpay: vector.kernel("xpay")?,
                dot: vector.kernel("dot")?,
                import: transpose.kernel("import_field")?,
                export: transpose.kernel("export_field")?,
            })
        };
        let inner = Inner {
            vector: [[kernels(0)?, kernels(1)?], [kernels(2)?, kernels(3)?]],
            set: loaded[0].kernel("set_scalar")?,
            publish: loaded[0].kernel("publish")?,
            reduction: Reduction::new(&context, BLOCKS_A_MULTIPROCESSOR * context.multiprocessors)?,
            staging: Mutex::default(),
            modules,
            context,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Which card it is.
    pub fn ordinal(&self) -> usize {
        self.context().ordinal
    }

    /// Bytes of memory the card has.
    pub fn memory(&self) -> usize {
        self.context().memory
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.inner.context
    }

    pub(crate) fn modules(&self, sources: &[Source]) -> Result<Vec<Arc<Module>>> {
        self.inner.modules.get(self.context(), sources)
    }

    pub(crate) fn submit(&self, launch: Launch) -> Result<()> {
        launch.submit(self.context())
    }

    fn kernels<T: Real, S: Real>(&self) -> &VectorKernels {
        &self.inner.vector[index::<T>()][index::<S>()]
    }

    /// Launches a vector operation on `len` elements.
    pub(crate) fn elementwise(&self, kernel: Kernel, len: usize, arguments: Arguments) -> Result<()> {
        let blocks = len.div_ceil(BLOCK).min(BLOCKS_A_MULTIPROCESSOR * self.context().multiprocessors);
        self.submit(Launch {
            kernel,
            grid: [blocks as u32, 1, 1],
            block: [BLOCK as u32, 1],
            shared_bytes: 0,
            arguments,
        })
    }

    /// Between the layout and an array on the card in C order.
    fn transpose(&self, kernel: Kernel, layout: &Layout, from: Pointer, to: Pointer) -> Result<()> {
        let Shape { nx, ny, .. } = layout.shape();
        self.reorder(kernel, layout, [1, nx, nx * ny], from, to)
    }

    /// Between the layout and an array on the card with strides (x, y, z).
    fn reorder(&self, kernel: Kernel, layout: &Layout, strides: [usize; 3], from: Pointer, to: Pointer) -> Result<()> {
        let Shape { nx, ny, nz } = layout.shape();
        let pitch = layout.pitch();
        let strides = Strides(strides.map(|stride| stride as i64));
        let arguments = Arguments::new()
            .with(nx as i32)
            .with(ny as i32)
            .with(nz as i32)
            .with(pitch as i32)
            .with(strides)
            .with(from)
            .with(to);
        let grid = [pitch.div_ceil(32) as u32, nz.div_ceil(8) as u32, ny as u32];
        self.submit(Launch { kernel, grid, block: [32, 8], shared_bytes: 0, arguments })
    }

    /// Copies a caller's array on this card to a vector, converting and reordering on the card. The
    /// caller's own work on the array must be finished.
    ///
    /// # Errors
    /// [`Error::Shape`] where the shapes differ; what the card reports.
    pub fn import<S: Real, T: Real>(&self, source: &DeviceArray<S>, target: &mut Vector<T>) -> Result<()> {
        let layout = *target.layout();
        check_shape(source.shape(), layout.shape())?;
        let (from, to) = (source.pointer(), target.pointer());
        self.reorder(self.kernels::<T, S>().import, &layout, source.strides(), from, to)
    }

    /// Copies a vector to a caller's array on this card, converting and reordering on the card; the array
    /// is complete on return.
    ///
    /// # Errors
    /// As [`Cuda::import`].
    pub fn export<S: Real, T: Real>(&self, source: &Vector<T>, target: &mut DeviceArray<S>) -> Result<()> {
        let layout = *source.layout();
        check_shape(target.shape(), layout.shape())?;
        let (from, to) = (source.pointer(), target.pointer());
        self.reorder(self.kernels::<T, S>().export, &layout, target.strides(), from, to)?;
        self.synchronize()
    }

    /// Runs `work` with a buffer of at least so many bytes, and for many bytes what they are copied through.
    fn with_staging<R>(
        &self,
        bytes: usize,
        work: impl FnOnce(&mut Buffer, Option<&mut Pinned>) -> Result<R>,
    ) -> Result<R> {
        let mut staging = lock(&self.inner.staging);
        let Staging { card, host } = &mut *staging;
        if card.as_ref().is_none_or(|buffer| buffer.bytes() < bytes) {
            *card = None; // before there is another
        }
        let card = match card {
            Some(buffer) => buffer,
            none => none.insert(Buffer::zeros(self.context(), bytes, "an array on its way")?),
        };
        if bytes < Pinned::WORTH_IT {
            return work(card, None);
        }
        let host = match host {
            Some(pinned) => pinned,
            none => none.insert(Pinned::new(self.context())?),
        };
        work(card, Some(host))
    }
}

/// Copies an array to a buffer, by the faster way for its size.
fn send<S: Real>(data: &[S], pinned: Option<&mut Pinned>, buffer: &mut Buffer) -> Result<()> {
    match pinned {
        Some(pinned) => pinned.send(data, buffer.start()),
        None => buffer.write(data),
    }
}

/// Copies a buffer to an array, by the faster way for its size.
fn fetch<S: Real>(buffer: &Buffer, pinned: Option<&mut Pinned>, data: &mut [S]) -> Result<()> {
    match pinned {
        Some(pinned) => pinned.fetch(buffer.start(), data),
        None => buffer.read(data),
    }
}

/// Fails where a grid is larger than the kernels can number.
pub(crate) fn check_size(shape: Shape) -> Result<()> {
    let Shape { nx, ny, nz } = shape;
    if ny > MOST_ROWS || nz > 1 << 16 || nx > 1 << 24 || nx.div_ceil(2) * nz > 1 << 30 {
        return Err(Error::Unsupported(format!(
            "a grid of {shape} cells on CUDA: at most {MOST_ROWS} rows (grid.ny), and 2³⁰ cells in half a row of columns"
        )));
    }
    Ok(())
}

impl Backend for Cuda {
    type Vector<T: Real> = Vector<T>;
    type Scalars = Scalars;

    fn device(&self) -> DeviceInfo {
        DeviceInfo { kind: "cuda", name: self.context().name.clone(), count: 1, threads: 1 }
    }

    fn zeros<T: Real>(&self, layout: &Layout) -> Result<Vector<T>> {
        check_size(layout.shape())?;
        refuse_while_recording("allocating")?;
        Vector::zeros(self.context(), layout)
    }

    fn upload<S: Real, T: Real>(&self, source: ArrayView<'_, S>, target: &mut Vector<T>) -> Result<()> {
        refuse_while_recording("uploading")?;
        let layout = *target.layout();
        let shape = layout.shape();
        check_shape(source.shape(), shape)?;
        let packed: Vec<S>;
        let data = match source.as_c_order() {
            Some(data) => data,
            None => {
                let Shape { nx, ny, nz } = shape;
                let rows = (0..nz).flat_map(|k| (0..ny).map(move |j| (j, k)));
                packed = rows.flat_map(|(j, k)| (0..nx).map(move |i| source.get(i, j, k))).collect();
                &packed
            }
        };
        self.with_staging(size_of_val(data), |staging, pinned| {
            send(data, pinned, staging)?;
            self.transpose(self.kernels::<T, S>().import, &layout, staging.start(), target.pointer())
        })
    }

    fn download<S: Real, T: Real>(&self, source: &Vector<T>, target: &mut ArrayViewMut<'_, S>) -> Result<()> {
        refuse_while_recording("downloading")?;
        let layout = *source.layout();
        let shape = layout.shape();
        check_shape(target.shape(), shape)?;
        self.with_staging(shape.cells() * size_of::<S>(), |staging, pinned| {
            self.transpose(self.kernels::<T, S>().export, &layout, source.pointer(), staging.start())?;
            if let Some(data) = target.as_c_order_mut() {
                return fetch(staging, pinned, data);
            }
            let mut packed = vec![S::ZERO; shape.cells()];
            fetch(staging, pinned, &mut packed)?;
            for (row, values) in packed.chunks_exact(shape.nx).enumerate() {
                let (j, k) = (row % shape.ny, row / shape.ny);
                for (i, &value) in values.iter().enumerate() {
                    target.set(i, j, k, value);
                }
            }
            Ok(())
        })
    }

    fn clear<T: Real>(&self, x: &mut Vector<T>) -> Result<()> {
        let len = x.layout().len();
        let arguments = Arguments::new().with(len as i64);
        let arguments = match size_of::<T>() {
            4 => arguments.with(0f32),
            _ => arguments.with(0f64),
        };
        self.elementwise(self.kernels::<T, T>().fill, len, arguments.with(x.pointer()))
    }

    fn convert<S: Real, T: Real>(&self, x: &Vector<S>, y: &mut Vector<T>) -> Result<()> {
        let len = y.layout().len();
        let arguments = Arguments::new().with(len as i64).with(x.pointer()).with(y.pointer());
        self.elementwise(self.kernels::<T, S>().convert, len, arguments)
    }

    fn axpy<S: Real, T: Real>(&self, a: Ratio, x: &Vector<S>, y: &mut Vector<T>, scalars: &Scalars) -> Result<()> {
        let len = y.layout().len();
        let arguments = Arguments::new().with(len as i64).with(scalars.ratio(a)).with(x.pointer()).with(y.pointer());
        self.elementwise(self.kernels::<T, S>().axpy, len, arguments)
    }

    fn xpay<T: Real>(&self, a: Ratio, x: &Vector<T>, y: &mut Vector<T>, scalars: &Scalars) -> Result<()> {
        let len = y.layout().len();
        let arguments = Arguments::new().with(len as i64).with(scalars.ratio(a)).with(x.pointer()).with(y.pointer());
        self.elementwise(self.kernels::<T, T>().xpay, len, arguments)
    }

    fn dot<T: Real>(&self, x: &Vector<T>, y: &Vector<T>, out: Slot, scalars: &mut Scalars) -> Result<()> {
        let len = x.layout().len();
        let arguments = Arguments::new().with(len as i64).with(x.pointer()).with(y.pointer());
        let arguments = self.inner.reduction.append(arguments).with(scalars.slot(out));
        self.elementwise(self.kernels::<T, T>().dot, len, arguments)
    }

    fn scalars(&self) -> Result<Scalars> {
        refuse_while_recording("allocating")?;
        Scalars::new(self.context())
    }

    fn set(&self, scalars: &mut Scalars, slot: Slot, value: f64) -> Result<()> {
        let arguments = Arguments::new().with(value).with(scalars.slot(slot));
        self.submit(Launch { kernel: self.inner.set, grid: [1, 1, 1], block: [1, 1], shared_bytes: 0, arguments })
    }

    fn read(&self, scalars: &Scalars) -> Result<[f64; Slot::COUNT]> {
        refuse_while_recording("reading scalars")?;
        self.submit(scalars.publish(self.inner.publish))?;
        scalars.wait()
    }

    fn iterate(
        &self,
        scalars: &mut Scalars,
        body: &mut dyn FnMut(usize, &mut Scalars) -> Result<()>,
        observe: &mut dyn FnMut(&[f64; Slot::COUNT]) -> ControlFlow<()>,
    ) -> Result<()> {
        let body = &mut |n: Option<usize>, scalars: &mut Scalars| body(n.unwrap_or(0), scalars);
        iterate::iterate(self.context(), self.inner.publish, scalars, false, body, observe)
    }

    fn iterate_after(
        &self,
        scalars: &mut Scalars,
        body: &mut BodyAfter<'_, Scalars>,
        observe: &mut dyn FnMut(&[f64; Slot::COUNT]) -> ControlFlow<()>,
    ) -> Result<()> {
        iterate::iterate(self.context(), self.inner.publish, scalars, true, body, observe)
    }

    fn synchronize(&self) -> Result<()> {
        self.context().synchronize()
    }

    fn copy_bandwidth(&self, layout: &Layout) -> Result<f64> {
        /// Copies between two looks at the clock.
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
}

impl TensorProductBackend for Cuda {
    type TensorProduct<T: Real> = TensorProduct<T>;

    fn tensor_product<T: Real>(&self, stencil: &stencil::TensorProduct) -> Result<TensorProduct<T>> {
        TensorProduct::new(self, stencil)
    }
}
