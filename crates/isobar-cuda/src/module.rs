//! Compiled kernels on a GPU.
//!
//! A source is compiled when it is *prepared*, in parallel with others; if it is in the cache on disk, nothing is
//! read yet. Its machine code is loaded when its first kernel is requested: most solves use few of an
//! operator's kernels. The parts of a solver request the kernels of their steps when they are made. A kernel requested later,
//! while an iteration is recorded (see [`crate::iterate`]), is loaded then, which does not affect the recording.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use cudarc::driver::{result, sys};
use isobar_core::error::Result;

use crate::compile::Source;
use crate::driver::{Context, check, error, failure, lock};
use crate::launch::Kernel;

/// A source on a GPU.
#[derive(Debug)]
pub(crate) struct Module {
    context: Arc<Context>,
    source: Source,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether no compilation is needed: the machine code is in the cache, in memory, or on the GPU.
    compiled: bool,
    /// Machine code that was not in the cache.
    cubin: Option<Vec<u8>>,
    handle: Option<Handle>,
    kernels: Vec<Found>,
}

#[derive(Clone, Copy, Debug)]
struct Handle(sys::CUmodule);

// SAFETY: a driver handle, usable from any thread.
unsafe impl Send for Handle {}

#[derive(Clone, Copy, Debug)]
struct Found {
    kernel: Kernel,
    /// Dynamic shared memory allowed for its blocks. B
    shared_bytes: usize,
}

/// Dynamic shared memory that needs no permission: 48 KiB less the static shared memory of kernels.
const FREE_SHARED_BYTES: usize = 40 << 10;

impl Module {
    /// Returns a kernel by name.
    pub(crate) fn kernel(&self, name: &'static str) -> Result<Kernel> {
        self.kernel_with(name, 0)
    }

    /// Returns a kernel whose blocks may use this much dynamic shared memory.
    pub(crate) fn kernel_with(&self, name: &'static str, shared_bytes: usize) -> Result<Kernel> {
        let mut state = lock(&self.state);
        let found = match state.kernels.iter().position(|found| found.kernel.name == name) {
            Some(found) => found,
            None => {
                let kernel = self.find(&mut state, name)?;
                state.kernels.push(Found { kernel, shared_bytes: FREE_SHARED_BYTES });
                state.kernels.len() - 1
            }
        };
        let Found { kernel, shared_bytes: allowed } = &mut state.kernels[found];
        if shared_bytes > *allowed {
            self.context.bind()?;
            let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the kernel's module is loaded.
            check(unsafe { sys::cuFuncSetAttribute(kernel.function, attribute, shared_bytes as i32) }, name)?;
            *allowed = shared_bytes;
        }
        Ok(*kernel)
    }

    /// Loads kernels that will be needed.
    pub(crate) fn prepare(&self, names: &[&'static str], shared_bytes: usize) -> Result<()> {
        names.iter().try_for_each(|name| self.kernel_with(name, shared_bytes).map(drop))
    }

    /// Returns how many blocks with this number of threads the GPU can hold at once.
    pub(crate) fn resident_blocks(&self, kernel: Kernel, threads: usize, shared_bytes: usize) -> Result<usize> {
        self.context.bind()?;
        let mut blocks = 0;
        // SAFETY: the kernel's module is loaded; `blocks` outlives the call.
        let code = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &raw mut blocks,
                kernel.function,
                threads as i32,
                shared_bytes,
            )
        };
        check(code, kernel.name)?;
        Ok(self.context.multiprocessors * usize::try_from(blocks).unwrap_or(0).max(1))
    }

    fn find(&self, state: &mut State, name: &'static str) -> Result<Kernel> {
        let Handle(module) = match state.handle {
            Some(handle) => handle,
            None => {
                let cubin = match state.cubin.take() {
                    Some(cubin) => cubin,
                    None => self.source.cubin(&self.context.architecture())?,
                };
                self.context.bind()?;
                // SAFETY: the driver reads the length from the image's own header, and checks it.
                let handle = unsafe { result::module::load_data(cubin.as_ptr().cast()) }
                    .map_err(|e| failure(e, "loading compiled kernels"))?;
                state.compiled = true;
                *state.handle.insert(Handle(handle))
            }
        };
        let c_name = CString::new(name).map_err(|_| error(format!("{name}: not a name")))?;
        let fail = |e| failure(e, name);
        self.context.bind()?;
        // SAFETY: the module is loaded.
        let function = unsafe { result::module::get_function(module, c_name) }.map_err(fail)?;
        // This query loads the kernel's code now instead of at its first launch.
        let registers = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_NUM_REGS;
        // SAFETY: the function was just found.
        unsafe { result::function::get_function_attribute(function, registers) }.map_err(fail)?;
        Ok(Kernel { function, name, is_early: false })
    }

    /// Returns whether it still has to be compiled, without reading the cache.
    fn must_be_compiled(&self) -> Result<bool> {
        let mut state = lock(&self.state);
        state.compiled = state.compiled || self.source.is_cached(&self.context.architecture())?;
        Ok(!state.compiled)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        let _ = self.context.synchronize();
        if let Some(Handle(module)) = lock(&self.state).handle.take() {
            // SAFETY: loaded once, unloaded once; the `Cuda` that owns it outlives its kernels' users.
            let _ = unsafe { result::module::unload(module) };
        }
    }
}

/// All modules of a GPU, each stored once.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    known: Mutex<HashMap<Source, Arc<Module>>>,
}

impl Modules {
    /// Returns the module of a source that may never be needed: it is compiled, if necessary, when its first kernel is requested.
    pub(crate) fn get(&self, context: &Arc<Context>, source: Source) -> Arc<Module> {
        let make = |source: &Source| {
            Arc::new(Module { context: Arc::clone(context), source: source.clone(), state: Mutex::default() })
        };
        Arc::clone(lock(&self.known).entry(source).or_insert_with_key(make))
    }

    /// Prepares sources; missing ones are compiled in parallel.
    pub(crate) fn prepare<const N: usize>(
        &self,
        context: &Arc<Context>,
        sources: [Source; N],
    ) -> Result<[Arc<Module>; N]> {
        let modules = sources.map(|source| self.get(context, source));
        compile_missing(&modules, &context.architecture())?;
        Ok(modules)
    }

    /// Prepares any number of sources for later use.
    pub(crate) fn prepare_all(&self, context: &Arc<Context>, sources: Vec<Source>) -> Result<()> {
        let modules: Vec<_> = sources.into_iter().map(|source| self.get(context, source)).collect();
        compile_missing(&modules, &context.architecture())
    }
}

/// Compiles modules that are not cached, with as many threads as cores.
fn compile_missing(modules: &[Arc<Module>], architecture: &str) -> Result<()> {
    let mut missing: Vec<&Module> = Vec::new();
    for module in modules {
        if !missing.iter().any(|other| std::ptr::eq(*other, &**module)) && module.must_be_compiled()? {
            missing.push(module);
        }
    }
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(module) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
            let cubin = module.source.cubin(architecture)?;
            let mut state = lock(&module.state);
            (state.compiled, state.cubin) = (true, Some(cubin));
        }
        Ok(())
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(missing.len());
    std::thread::scope(|scope| {
        let compiling: Vec<_> = (0..threads).map(|_| std::thread::Builder::new().spawn_scoped(scope, work)).collect();
        compiling.into_iter().try_for_each(|thread| match thread.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(error("the thread that compiled a kernel failed")),
            Err(cause) => Err(cause.into()),
        })
    })
}
