//! The CUDA driver, with errors that contain a remedy.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fmt;
use std::ops::Deref;
use std::sync::{Mutex, OnceLock};

use cudarc::driver::{result, sys};
use isobar_core::backend::queue;
use isobar_core::error::{Error, Result};
pub(crate) use isobar_core::team::lock;

use crate::memory::{Mailboxes, Pool};
use crate::module::Kernels;
use crate::spare::Spare;
use crate::staging::{Arena, Lanes};

/// An address on the GPU.
pub(crate) type Pointer = sys::CUdeviceptr;

/// Converts a driver's return code to an error that names the operation.
pub(crate) fn check(code: sys::CUresult, doing: &str) -> Result<()> {
    if code == sys::CUresult::CUDA_SUCCESS { Ok(()) } else { Err(failure(result::DriverError(code), doing)) }
}

/// Makes the error for a driver's failure.
pub(crate) fn failure(error: result::DriverError, doing: &str) -> Error {
    let text = |found: std::result::Result<&CStr, _>| found.map(|s| s.to_string_lossy().into_owned());
    let name = text(error.error_name()).unwrap_or_else(|_| format!("error {}", error.0 as u32));
    let description = text(error.error_string()).unwrap_or_default();
    let remedy = match error.0 {
        sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => "; use a smaller grid, or free memory on the GPU",
        sys::CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU
        | sys::CUresult::CUDA_ERROR_INVALID_IMAGE
        | sys::CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION => {
            "; the driver is older than NVRTC: update the driver, or point ISOBAR_NVRTC at an older libnvrtc.so"
        }
        sys::CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE => "; another process has exclusive use of the GPU",
        _ => "",
    };
    Error::Device { device: "cuda".into(), message: format!("{doing}: {name} ({description}){remedy}") }
}

/// Makes an error of the device "cuda".
pub(crate) fn error(message: impl Into<String>) -> Error {
    Error::Device { device: "cuda".into(), message: message.into() }
}

/// The oldest supported driver, as a number: 12.0.
const OLDEST_DRIVER: i32 = 12_000;
/// The oldest supported compute capability: Turing.
pub(crate) const OLDEST_CAPABILITY: (i32, i32) = (7, 5);

/// Returns the name of the architecture of a compute capability, such as `"sm_90"`.
pub(crate) fn architecture((major, minor): (i32, i32)) -> String {
    format!("sm_{major}{minor}")
}

/// Returns whether there is a driver. It is searched for once per process: a hundred failing attempts to open files take half a millisecond.
fn is_present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    // SAFETY: this only searches the library.
    *PRESENT.get_or_init(|| unsafe { sys::is_culib_present() })
}

/// Loads and initialises the driver.
pub(crate) fn start() -> Result<()> {
    if !is_present() {
        return Err(error("no NVIDIA driver (libcuda.so.1 not found); install one, or use the device \"cpu\""));
    }
    let version = version()?;
    if version < OLDEST_DRIVER {
        return Err(error(format!(
            "the driver supports CUDA {}.{}, and 12.0 is needed; update the NVIDIA driver",
            version / 1000,
            version % 1000 / 10
        )));
    }
    // SAFETY: the function has no pointer arguments.
    let code = unsafe { sys::cuInit(0) };
    if code == sys::CUresult::CUDA_ERROR_NO_DEVICE {
        return Err(error(
            "the driver finds no GPU; check nvidia-smi and CUDA_VISIBLE_DEVICES, or use the device \"cpu\"",
        ));
    }
    check(code, "starting the driver")
}

/// Returns the CUDA version that the driver supports, times 1000.
fn version() -> Result<i32> {
    let mut version = 0;
    // SAFETY: `version` outlives the call; this function may be called before the driver is started.
    check(unsafe { sys::cuDriverGetVersion(&raw mut version) }, "asking for the driver's version")?;
    Ok(version)
}

/// Returns the newest major version of CUDA whose machine code the driver loads; `None` without a driver.
pub(crate) fn newest_code() -> Option<u32> {
    is_present().then(version)?.ok().and_then(|version| u32::try_from(version / 1000).ok())
}

/// Returns the number of GPUs.
pub(crate) fn count() -> Result<usize> {
    let count = result::device::get_count().map_err(|e| failure(e, "counting GPUs"))?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// The queues of a GPU besides the first one. Eight solves of small systems keep a GPU busy; more gained nothing.
pub(crate) const BESIDE: usize = 8;
/// All queues of a GPU.
pub(crate) const QUEUES: usize = 1 + BESIDE;

/// A GPU that this process uses: its primary context, and the data that all solvers share. It is opened once and never closed, because loading the kernels
/// of a solver takes longer than the rest of a small setup.
pub(crate) struct Gpu {
    pub(crate) ordinal: usize,
    pub(crate) name: String,
    pub(crate) capability: (i32, i32),
    pub(crate) multiprocessors: usize,
    /// Largest shared memory of a block. B
    pub(crate) shared_memory: usize,
    pub(crate) memory: usize,
    /// Whether kernels may start before earlier ones have ended.
    pub(crate) overlaps: bool,
    device: sys::CUdevice,
    context: sys::CUcontext,
    pub(crate) kernels: Kernels,
    pub(crate) mailboxes: Mailboxes,
    pub(crate) spare: Spare,
    /// The arenas of solvers that no longer exist.
    arenas: Mutex<Vec<Arena>>,
    /// Copying threads, if there are any yet.
    pub(crate) lanes: Mutex<Option<Lanes>>,
}

// SAFETY: driver handles may be used from any thread; `bind` makes the context current on it.
unsafe impl Send for Gpu {}
// SAFETY: as above; the driver locks for itself.
unsafe impl Sync for Gpu {}

impl fmt::Debug for Gpu {
    // Kernels refer to their GPU.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gpu").field("ordinal", &self.ordinal).field("name", &self.name).finish_non_exhaustive()
    }
}

/// The streams of a GPU's queues, and their memory.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) gpu: &'static Gpu,
    /// The stream of each queue; those after the first are made on demand.
    streams: [OnceLock<Stream>; QUEUES],
    /// The event by which one stream waits for another.
    event: Mutex<sys::CUevent>,
    /// Small pieces of memory of each queue.
    pub(crate) pools: [Pool; QUEUES],
    pub(crate) arena: Mutex<Arena>,
}

// SAFETY: driver handles may be used from any thread.
unsafe impl Send for Context {}
// SAFETY: as above; the driver locks for itself.
unsafe impl Sync for Context {}

impl Deref for Context {
    type Target = Gpu;

    fn deref(&self) -> &Gpu {
        self.gpu
    }
}

/// A stream, which its context destroys.
#[derive(Debug)]
struct Stream(sys::CUstream);

// SAFETY: driver handles may be used from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above; the driver locks for itself.
unsafe impl Sync for Stream {}

/// Properties of a GPU that are available without a context.
pub(crate) struct Card {
    device: sys::CUdevice,
    pub(crate) name: String,
    pub(crate) memory: usize,
    pub(crate) capability: (i32, i32),
}

impl Card {
    /// Queries a GPU.
    pub(crate) fn get(ordinal: usize) -> Result<Self> {
        let count = count()?;
        if ordinal >= count {
            return Err(error(match count {
                0 => "there is no GPU; use the device \"cpu\"".to_owned(),
                1 => format!("there is no device cuda:{ordinal}; the only one is cuda:0"),
                _ => format!("there is no device cuda:{ordinal}; there are cuda:0 to cuda:{}", count - 1),
            }));
        }
        let fail = |e| failure(e, "asking about a GPU");
        let device = result::device::get(i32::try_from(ordinal).unwrap_or(i32::MAX)).map_err(fail)?;
        use sys::CUdevice_attribute as Attribute;
        // SAFETY: `device` came from the driver.
        let (memory, major, minor) = unsafe {
            (
                result::device::total_mem(device).map_err(fail)?,
                attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            )
        };
        let name = result::device::get_name(device).map_err(fail)?;
        Ok(Self { device, name, memory, capability: (major, minor) })
    }
}

/// Lets kernels of one GPU access memory that this process has on another.
///
/// # Errors
/// The driver's errors, also for GPUs without a connection.
pub(crate) fn enable_peer_access(context: &Context, ordinal: usize) -> Result<()> {
    let fail = |e| failure(e, "asking about a GPU");
    let other = result::device::get(i32::try_from(ordinal).unwrap_or(i32::MAX)).map_err(fail)?;
    context.bind()?;
    // SAFETY: both come from the driver; the other GPU's context is retained by its user, and during this call.
    unsafe {
        let there = result::primary_ctx::retain(other).map_err(fail)?;
        let code = sys::cuCtxEnablePeerAccess(there, 0);
        let _ = result::primary_ctx::release(other);
        match code {
            sys::CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => Ok(()),
            code => check(code, "reaching another GPU's memory"),
        }
    }
}

/// # Safety
/// `device` must be from the driver.
unsafe fn attribute(device: sys::CUdevice, attribute: sys::CUdevice_attribute) -> Result<i32> {
    // SAFETY: as required of the caller.
    unsafe { result::device::get_attribute(device, attribute) }.map_err(|e| failure(e, "asking about a GPU"))
}

impl Gpu {
    /// Returns the GPU with this number, opened at the first call.
    fn get(ordinal: usize) -> Result<&'static Self> {
        static OPENED: Mutex<BTreeMap<usize, &'static Gpu>> = Mutex::new(BTreeMap::new());
        let mut opened = lock(&OPENED);
        if let Some(gpu) = opened.get(&ordinal) {
            return Ok(gpu);
        }
        let gpu: &'static Self = Box::leak(Box::new(Self::open(ordinal)?));
        opened.insert(ordinal, gpu);
        Ok(gpu)
    }

    fn open(ordinal: usize) -> Result<Self> {
        let Card { device, name, memory, capability } = Card::get(ordinal)?;
        if capability < OLDEST_CAPABILITY {
            return Err(error(format!(
                "cuda:{ordinal} ({name}) has compute capability {}.{}, and {}.{} (Turing) is needed; use another GPU, \
                 or the device \"cpu\"",
                capability.0, capability.1, OLDEST_CAPABILITY.0, OLDEST_CAPABILITY.1
            )));
        }
        use sys::CUdevice_attribute as Attribute;
        // SAFETY: `device` came from the driver.
        let (multiprocessors, shared_memory) = unsafe {
            (
                attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
                attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            )
        };
        let fail = |e| failure(e, &format!("opening cuda:{ordinal}"));
        // SAFETY: `device` came from the driver.
        let context = unsafe { result::primary_ctx::retain(device) }.map_err(fail)?;
        Ok(Self {
            ordinal,
            name,
            capability,
            multiprocessors: usize::try_from(multiprocessors).unwrap_or(1).max(1),
            shared_memory: usize::try_from(shared_memory).unwrap_or(0),
            memory,
            overlaps: capability >= (9, 0),
            device,
            context,
            kernels: Kernels::default(),
            mailboxes: Mailboxes::default(),
            spare: Spare::default(),
            arenas: Mutex::default(),
            lanes: Mutex::default(),
        })
    }

    /// Returns the unique identifier of the GPU.
    pub(crate) fn uuid(&self) -> Result<[u8; 16]> {
        let uuid = result::device::get_uuid(self.device).map_err(|e| failure(e, "asking about a GPU"))?;
        Ok(uuid.bytes.map(i8::cast_unsigned))
    }

    /// Returns the name of the architecture, such as `"sm_90"`.
    pub(crate) fn architecture(&self) -> String {
        architecture(self.capability)
    }

    /// Makes the context current on this thread, as every driver call needs.
    pub(crate) fn bind(&self) -> Result<()> {
        // SAFETY: the context is never released.
        unsafe { result::ctx::set_current(self.context) }.map_err(|e| failure(e, "using the GPU"))
    }

    /// Returns the free memory of the GPU in bytes.
    pub(crate) fn free_memory(&self) -> Result<usize> {
        self.bind()?;
        result::mem_get_info().map(|(free, _)| free).map_err(|e| failure(e, "asking for free memory"))
    }
}

impl Context {
    /// Opens a GPU, with its own streams.
    pub(crate) fn open(ordinal: usize) -> Result<Self> {
        start()?;
        let gpu = Gpu::get(ordinal)?;
        let this = Self {
            gpu,
            streams: Default::default(),
            event: Mutex::new(std::ptr::null_mut()),
            pools: Default::default(),
            arena: Mutex::new(lock(&gpu.arenas).pop().unwrap_or_default()),
        };
        this.bind()?;
        this.open_queue(0)?;
        let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING);
        *lock(&this.event) = event.map_err(|e| failure(e, &format!("opening cuda:{ordinal}")))?;
        Ok(this)
    }

    /// Makes the stream of a queue, unless there is one.
    pub(crate) fn open_queue(&self, queue: usize) -> Result<()> {
        if self.streams[queue].get().is_some() {
            return Ok(());
        }
        self.bind()?;
        let fail = |e| failure(e, &format!("opening a stream of cuda:{}", self.ordinal));
        let stream = Stream(result::stream::create(result::stream::StreamKind::NonBlocking).map_err(fail)?);
        if let Err(Stream(second)) = self.streams[queue].set(stream) {
            // SAFETY: just made, and used by nobody.
            unsafe { result::stream::destroy(second) }.map_err(fail)?;
        }
        Ok(())
    }

    /// Returns the stream of this thread's queue, whose work runs in order.
    pub(crate) fn stream(&self) -> sys::CUstream {
        self.streams[queue::current()].get().map_or(std::ptr::null_mut(), |stream| stream.0)
    }

    /// Waits for all work submitted so far to this thread's queue.
    pub(crate) fn synchronize(&self) -> Result<()> {
        self.bind()?;
        // SAFETY: the stream lives as long as `self`.
        unsafe { result::stream::synchronize(self.stream()) }.map_err(|e| failure(e, "waiting for the GPU"))
    }

    /// Waits for all work submitted so far to any queue.
    pub(crate) fn synchronize_queues(&self) -> Result<()> {
        self.bind()?;
        self.streams.iter().filter_map(OnceLock::get).try_for_each(|stream| {
            // SAFETY: the stream lives as long as `self`.
            unsafe { result::stream::synchronize(stream.0) }.map_err(|e| failure(e, "waiting for the GPU"))
        })
    }

    /// Makes later work wait for the work submitted to a caller's stream so far.
    pub(crate) fn wait_for(&self, stream: u64) -> Result<()> {
        self.order(stream as sys::CUstream, self.stream())
    }

    /// Makes later work of a caller's stream wait for the work submitted here so far.
    pub(crate) fn hold_back(&self, stream: u64) -> Result<()> {
        self.order(self.stream(), stream as sys::CUstream)
    }

    fn order(&self, first: sys::CUstream, second: sys::CUstream) -> Result<()> {
        self.bind()?;
        // A wait refers to the event's state at the time of the call: the event can be reused at once.
        let event = lock(&self.event);
        // SAFETY: the event lives as long as `self`; the caller promises that the stream belongs to this GPU.
        unsafe {
            check(sys::cuEventRecord(*event, first), "waiting for a caller's stream")?;
            check(sys::cuStreamWaitEvent(second, *event, 0), "waiting for a caller's stream")
        }
    }

    /// Returns whether all work submitted so far is done.
    pub(crate) fn is_idle(&self) -> Result<bool> {
        // SAFETY: the stream lives as long as `self`.
        match unsafe { sys::cuStreamQuery(self.stream()) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            code => check(code, "running on the GPU").map(|()| true),
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // Errors in a destructor cannot be reported.
        let _ = self.bind();
        if self.synchronize_queues().is_ok() {
            let arena = std::mem::take(&mut *lock(&self.arena));
            lock(&self.gpu.arenas).push(arena.given_back());
        }
        // SAFETY: made in `open`, and no longer used, as is the memory, whose owners keep the context alive.
        unsafe {
            self.pools.iter().for_each(|pool| pool.free(self));
            let event = *lock(&self.event);
            if !event.is_null() {
                let _ = result::event::destroy(event);
            }
            for stream in self.streams.iter_mut().filter_map(OnceLock::take) {
                let _ = result::stream::destroy(stream.0);
            }
        }
    }
}
