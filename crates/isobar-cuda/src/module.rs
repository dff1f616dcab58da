//! Compiled kernels, loaded on a card.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Arc, Mutex};

use cudarc::driver::{result, sys};
use isobar_core::error::Result;

use crate::compile::Source;
use crate::driver::{Context, check, error, failure, lock};
use crate::launch::Kernel;

/// One loaded source.
#[derive(Debug)]
pub(crate) struct Module {
    context: Arc<Context>,
    handle: sys::CUmodule,
}

// SAFETY: a driver handle, which any thread may use.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Module {
    fn load(context: &Arc<Context>, cubin: &[u8]) -> Result<Self> {
        context.bind()?;
        // SAFETY: the driver reads the length from the image's own header, and checks it.
        let handle = unsafe { result::module::load_data(cubin.as_ptr().cast()) }
            .map_err(|e| failure(e, "loading compiled kernels"))?;
        Ok(Self { context: Arc::clone(context), handle })
    }

    /// A kernel by name. Its code is brought to the card now rather than at its first launch.
    pub(crate) fn kernel(&self, name: &'static str) -> Result<Kernel> {
        self.context.bind()?;
        let c_name = CString::new(name).map_err(|_| error(format!("{name}: not a name")))?;
        let fail = |e| failure(e, name);
        // SAFETY: the module is loaded.
        let function = unsafe { result::module::get_function(self.handle, c_name) }.map_err(fail)?;
        let registers = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_NUM_REGS;
        // SAFETY: the function was just found.
        unsafe { result::function::get_function_attribute(function, registers) }.map_err(fail)?;
        Ok(Kernel { function, name })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        let _ = self.context.synchronize();
        // SAFETY: loaded once, unloaded once; whoever holds a kernel of it holds the `Cuda` that holds it.
        let _ = unsafe { result::module::unload(self.handle) };
    }
}

impl Kernel {
    /// Lets blocks have so much dynamic shared memory.
    pub(crate) fn allow_shared_bytes(self, bytes: usize) -> Result<()> {
        let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the kernel's module is loaded.
        check(unsafe { sys::cuFuncSetAttribute(self.function, attribute, bytes as i32) }, self.name)
    }

    /// Blocks of so many threads that fit on a multiprocessor at once.
    pub(crate) fn occupancy(self, threads: usize, shared_bytes: usize) -> Result<usize> {
        let mut blocks = 0;
        // SAFETY: the kernel's module is loaded; `blocks` outlives the call.
        let code = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &raw mut blocks,
                self.function,
                threads as i32,
                shared_bytes,
            )
        };
        check(code, self.name)?;
        Ok(usize::try_from(blocks).unwrap_or(0).max(1))
    }
}

/// All modules in use on a card, each compiled and loaded once.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    loaded: Mutex<HashMap<Source, Arc<Module>>>,
}

impl Modules {
    /// Loads sources; those that must be compiled are compiled at the same time.
    pub(crate) fn get(&self, context: &Arc<Context>, sources: &[Source]) -> Result<Vec<Arc<Module>>> {
        let missing: Vec<&Source> = {
            let loaded = lock(&self.loaded);
            sources.iter().filter(|source| !loaded.contains_key(source)).collect()
        };
        let architecture = context.architecture();
        let cubins: Vec<Result<Vec<u8>>> = std::thread::scope(|scope| {
            let compiling: Vec<_> = missing
                .iter()
                .map(|source| {
                    let architecture = &architecture;
                    std::thread::Builder::new().spawn_scoped(scope, move || source.cubin(architecture))
                })
                .collect();
            compiling
                .into_iter()
                .map(|thread| match thread.map(std::thread::ScopedJoinHandle::join) {
                    Ok(Ok(cubin)) => cubin,
                    Ok(Err(_)) => Err(error("the thread that compiled a kernel failed")),
                    Err(cause) => Err(cause.into()),
                })
                .collect()
        });
        let mut loaded = lock(&self.loaded);
        for (source, cubin) in missing.into_iter().zip(cubins) {
            let module = Module::load(context, &cubin?)?;
            loaded.entry(source.clone()).or_insert_with(|| Arc::new(module));
        }
        sources
            .iter()
            .map(|source| {
                loaded.get(source).cloned().ok_or_else(|| error(format!("{} has not been loaded", source.name)))
            })
            .collect()
    }
}
