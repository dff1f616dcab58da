//! Kernels on a GPU.
//!
//! A kernel is compiled by itself, in the background from the moment it is requested (see [`crate::background`]); the parts of a solver
//! request those of their steps when they are made, so that they are compiled at the same time, and no others are. Machine code
//! is loaded when all requested kernels are awaited ([`Modules::load`]), at the end of a solver's setup, or else by a kernel's first launch.
//! A kernel requested later, while an iteration is noted (see [`crate::iterate`]), is loaded when that runs.

use std::collections::HashMap;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use cudarc::driver::{result, sys};
use isobar_core::error::{Error, Result};

use crate::background;
use crate::compile::Source;
use crate::driver::{Context, check, error, failure, lock};
use crate::launch::Kernel;
use crate::pack::list;

/// A source on a GPU, whose kernels are compiled when they are requested.
#[derive(Debug)]
pub(crate) struct Module {
    context: Arc<Context>,
    source: Source,
    kernels: Mutex<Vec<Arc<Code>>>,
    awaited: Arc<Mutex<Vec<Arc<Code>>>>,
}

/// The machine code of one kernel.
#[derive(Debug)]
pub(crate) struct Code {
    context: Arc<Context>,
    source: Source,
    name: &'static str,
    /// Whether it was in the pack or in the cache when it was requested.
    was_compiled: bool,
    /// Whether a solver will launch it, for all that is known.
    is_needed: AtomicBool,
    /// Machine code until it is loaded, or why there is none.
    compiled: OnceLock<std::result::Result<Mutex<Vec<u8>>, String>>,
    loaded: OnceLock<Loaded>,
    /// Dynamic shared memory allowed for its blocks. B
    shared_bytes: Mutex<usize>,
}

/// Machine code on the GPU.
#[derive(Debug)]
struct Image {
    context: Arc<Context>,
    module: sys::CUmodule,
}

#[derive(Debug)]
struct Loaded {
    function: sys::CUfunction,
    _image: Image,
}

// SAFETY: driver handles, usable from any thread.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

/// Dynamic shared memory that needs no permission: 48 KiB less the static shared memory of kernels.
const FREE_SHARED_BYTES: usize = 40 << 10;

impl Module {
    /// Returns a kernel by name.
    pub(crate) fn kernel(&self, name: &'static str) -> Result<Kernel> {
        self.kernel_with(name, 0)
    }

    /// Returns a kernel whose blocks may use this much dynamic shared memory.
    pub(crate) fn kernel_with(&self, name: &'static str, shared_bytes: usize) -> Result<Kernel> {
        let code = self.code(name);
        code.is_needed.store(true, Ordering::Relaxed);
        code.allow(shared_bytes)?;
        Ok(Kernel { code })
    }

    /// Requests kernels that will be needed.
    pub(crate) fn prepare(&self, names: &[&'static str], shared_bytes: usize) -> Result<()> {
        names.iter().try_for_each(|name| self.kernel_with(name, shared_bytes).map(drop))
    }

    /// Has kernels compiled that will probably be needed.
    pub(crate) fn expect(&self, names: &[&'static str]) {
        names.iter().for_each(|name| drop(self.code(name)));
    }

    /// Returns how many blocks with this number of threads the GPU can hold at once.
    pub(crate) fn resident_blocks(&self, kernel: &Kernel, threads: usize, shared_bytes: usize) -> Result<usize> {
        let function = kernel.code.function()?;
        self.context.bind()?;
        let mut blocks = 0;
        // SAFETY: the kernel is loaded; `blocks` outlives the call.
        let code = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&raw mut blocks, function, threads as i32, shared_bytes)
        };
        check(code, kernel.code.name)?;
        Ok(self.context.multiprocessors * usize::try_from(blocks).unwrap_or(0).max(1))
    }

    fn code(&self, name: &'static str) -> Arc<Code> {
        let mut kernels = lock(&self.kernels);
        if let Some(code) = kernels.iter().find(|code| code.name == name) {
            return Arc::clone(code);
        }
        let code = Arc::new(Code {
            context: Arc::clone(&self.context),
            source: self.source.clone(),
            name,
            was_compiled: self.source.is_compiled(name, &self.context.architecture()),
            is_needed: AtomicBool::new(false),
            compiled: OnceLock::new(),
            loaded: OnceLock::new(),
            shared_bytes: Mutex::new(FREE_SHARED_BYTES),
        });
        if !code.was_compiled {
            list::log(&self.source, name);
            background::compile(&code);
        }
        lock(&self.awaited).push(Arc::clone(&code));
        kernels.push(Arc::clone(&code));
        code
    }
}

impl Code {
    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Compiles it, reads it from the pack or the cache, or waits for another thread that does.
    pub(crate) fn compile(&self) -> &std::result::Result<Mutex<Vec<u8>>, String> {
        self.compiled.get_or_init(|| match self.source.cubin(self.name, &self.context.architecture()) {
            Ok(cubin) => Ok(Mutex::new(cubin)),
            Err(Error::Device { message, .. }) => Err(message),
            Err(other) => Err(other.to_string()),
        })
    }

    /// Returns the loaded kernel.
    pub(crate) fn function(&self) -> Result<sys::CUfunction> {
        match self.loaded.get() {
            Some(loaded) => Ok(loaded.function),
            None => self.load(),
        }
    }

    fn load(&self) -> Result<sys::CUfunction> {
        let cubin = self.compile().as_ref().map_err(|message| error(message.clone()))?;
        let mut cubin = lock(cubin);
        if let Some(loaded) = self.loaded.get() {
            return Ok(loaded.function);
        }
        let name = CString::new(self.name).map_err(|_| error(format!("{}: not a name", self.name)))?;
        let fail = |e| failure(e, self.name);
        self.context.bind()?;
        // SAFETY: the driver reads the length from the image's own header, and checks it.
        let module = unsafe { result::module::load_data(cubin.as_ptr().cast()) }
            .map_err(|e| failure(e, "loading a compiled kernel"))?;
        let image = Image { context: Arc::clone(&self.context), module };
        // SAFETY: the module is loaded.
        let function = unsafe { result::module::get_function(module, name) }.map_err(fail)?;
        // This query loads the kernel's code now instead of at its first launch.
        let registers = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_NUM_REGS;
        // SAFETY: the function was just found.
        unsafe { result::function::get_function_attribute(function, registers) }.map_err(fail)?;
        let shared_bytes = lock(&self.shared_bytes);
        if *shared_bytes > FREE_SHARED_BYTES {
            self.set_shared_bytes(function, *shared_bytes)?;
        }
        *cubin = Vec::new();
        Ok(self.loaded.get_or_init(|| Loaded { function, _image: image }).function)
    }

    /// Allows its blocks this much dynamic shared memory.
    fn allow(&self, shared_bytes: usize) -> Result<()> {
        let mut allowed = lock(&self.shared_bytes);
        if shared_bytes > *allowed {
            if let Some(loaded) = self.loaded.get() {
                self.context.bind()?;
                self.set_shared_bytes(loaded.function, shared_bytes)?;
            }
            *allowed = shared_bytes;
        }
        Ok(())
    }

    fn set_shared_bytes(&self, function: sys::CUfunction, shared_bytes: usize) -> Result<()> {
        let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the kernel is loaded.
        check(unsafe { sys::cuFuncSetAttribute(function, attribute, shared_bytes as i32) }, self.name)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = self.context.synchronize();
        // SAFETY: loaded once, unloaded once; whoever launches the kernel holds its `Code`, and so this.
        let _ = unsafe { result::module::unload(self.module) };
    }
}

/// All modules of a GPU, each stored once.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    known: Mutex<HashMap<Source, Arc<Module>>>,
    /// Kernels that were named since the last were loaded.
    awaited: Arc<Mutex<Vec<Arc<Code>>>>,
}

impl Modules {
    /// Returns the module of a source.
    pub(crate) fn get(&self, context: &Arc<Context>, source: Source) -> Arc<Module> {
        let make = |source: &Source| {
            Arc::new(Module {
                context: Arc::clone(context),
                source: source.clone(),
                kernels: Mutex::default(),
                awaited: Arc::clone(&self.awaited),
            })
        };
        Arc::clone(lock(&self.known).entry(source).or_insert_with_key(make))
    }

    /// Waits for all requested kernels, and loads them and those expected ones that are there, so that no solve does.
    pub(crate) fn load(&self) -> Result<()> {
        for code in std::mem::take(&mut *lock(&self.awaited)) {
            if code.is_needed.load(Ordering::Relaxed) {
                code.function()?;
            } else if code.was_compiled || code.compiled.get().is_some() {
                // Whoever needs it after all will be told of an error.
                let _ = code.function();
            }
        }
        Ok(())
    }
}
