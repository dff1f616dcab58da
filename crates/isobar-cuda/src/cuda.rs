//! One GPU: its kernels, its streams, and launches on it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use isobar_core::prelude::{Real, Result};
use isobar_dist::Ranks;

use crate::driver::lock;
use crate::link::{CardLink, Ways};
use crate::module::Modules;
use crate::nvrtc::Nvrtc;
use crate::staging::Staging;
use crate::vector::{c_name, index, is_single};
use crate::{Arguments, Context, Kernel, Launch, Module, Pointer, Reduction, Scalars, Source, kernels, pack};

/// Threads per block of vector operations.
const BLOCK: usize = 256;
/// The elements per thread of vector operations, if that leaves enough threads: a sum over fewer blocks ends earlier.
const EACH: usize = 4;
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
    /// Levels of fewer cells are whole on every rank.
    pub(crate) whole_below: usize,
}

/// Cells of a level that justify dividing it: a sweep on fewer takes less time than the exchanges of a divided one, 10 µs each.
const WORTH_DIVIDING: usize = 1 << 20;

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

/// Returns the source of operations on vectors.
pub(crate) fn vector_source<T: Real>() -> Source {
    Source::new("vector", kernels::VECTOR).define("REAL", c_name::<T>())
}

/// Returns the source of conversions of callers' arrays.
pub(crate) fn array_source<T: Real>() -> Source {
    Source::new("array", kernels::ARRAY).define("REAL", c_name::<T>())
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
        let [vector, array] =
            [[vector_source::<f64>(), vector_source::<f32>()], [array_source::<f64>(), array_source::<f32>()]]
                .map(|sources| sources.map(|source| modules.get(&context, source)));
        // Used by every solve, as is the memory for scalars.
        array[0].expect(&["import_coefficients_f64", "import_f64", "export_f64"]);
        vector[0].expect(&["publish", "set_scalar", "dot", "fill", "axpy_f64"]);
        Scalars::new(&context)?;
        let inner = Inner {
            vector,
            array,
            reduction: Reduction::new(&context, BLOCKS_A_MULTIPROCESSOR * context.multiprocessors)?,
            staging: Staging::default(),
            modules,
            context,
        };
        Ok(Self { inner: Arc::new(inner), link: None, ranks: None, whole_below: WORTH_DIVIDING })
    }

    /// Returns the GPU with this number, opened once in a process for problems whose coefficients are there ([`crate::problem`]), and never closed. Solvers have
    /// streams of their own.
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

    /// Joins as [`Cuda::join`] does, with the allowed links as an argument instead of `ISOBAR_LINK`.
    pub fn join_by(
        &self,
        ways: Ways,
        rank: usize,
        size: usize,
        all_gather: &mut dyn FnMut(&[u8]) -> Result<Vec<u8>>,
    ) -> Result<Self> {
        let link = CardLink::join(self.context(), self.modules(), ways, [rank, size], all_gather)?;
        Ok(Self { link: link.map(Arc::new), ..self.clone() })
    }

    /// Divides all levels of multigrid that can be divided among ranks, down to this number of cells; coarser ones, and by default those of fewer than 2²⁰ cells,
    /// are whole on every rank.
    #[must_use]
    pub fn dividing_down_to(self, cells: usize) -> Self {
        Self { whole_below: cells, ..self }
    }

    /// Returns the link to other ranks' GPUs, if any.
    pub fn card_link(&self) -> Option<&CardLink> {
        self.link.as_deref()
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

    pub(crate) fn modules(&self) -> &Modules {
        &self.inner.modules
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
        len.div_ceil(EACH * BLOCK).min(BLOCKS_A_MULTIPROCESSOR * self.context().multiprocessors)
    }

    /// Copies arrays to the GPU, where they stay for the work that `work` submits.
    pub(crate) fn staged<S: Copy + Sync>(
        &self,
        pieces: &[&[S]],
        work: impl FnOnce(Pointer) -> Result<()>,
    ) -> Result<()> {
        self.inner.staging.send(self.context(), pieces, work)
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
        self.fetch_pieces(vec![array], fill)
    }

    /// Copies an array, which `fill` submits the computation of, to pieces of the host's memory.
    pub(crate) fn fetch_pieces<S: Copy + Send>(
        &self,
        pieces: Vec<&mut [S]>,
        fill: impl FnOnce(Pointer) -> Result<()>,
    ) -> Result<()> {
        self.inner.staging.fetch(self.context(), pieces, fill)
    }
}
