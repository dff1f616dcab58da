//! The machine code of a kernel: compiled, loaded, and allowed shared memory.

use std::ffi::CString;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

use cudarc::driver::{result, sys};
use isobar_core::error::{Error, Result};

use crate::compile::Source;
use crate::driver::{Context, check, error, failure, lock};

/// The machine code of one kernel.
#[derive(Debug)]
pub(crate) struct Code {
    context: Arc<Context>,
    source: Source,
    name: &'static str,
    /// Whether it was in the pack or in the cache when it was requested.
    pub(crate) was_compiled: bool,
    /// Whether a solver will launch it, for all that is known.
    pub(crate) is_needed: AtomicBool,
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

impl Code {
    pub(crate) fn new(context: &Arc<Context>, source: &Source, name: &'static str) -> Self {
        Self {
            context: Arc::clone(context),
            source: source.clone(),
            name,
            was_compiled: source.is_compiled(name, &context.architecture()),
            is_needed: AtomicBool::new(false),
            compiled: OnceLock::new(),
            loaded: OnceLock::new(),
            shared_bytes: Mutex::new(FREE_SHARED_BYTES),
        }
    }

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

    /// Returns whether it has been compiled, or could not be.
    pub(crate) fn is_done(&self) -> bool {
        self.was_compiled || self.compiled.get().is_some()
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
    pub(crate) fn allow(&self, shared_bytes: usize) -> Result<()> {
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
