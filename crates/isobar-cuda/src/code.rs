//! The machine code of a kernel: compiled, loaded, and allowed shared memory.

use std::ffi::CString;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, OnceLock};

use cudarc::driver::{result, sys};
use isobar_core::error::{Error, Result};

use crate::compile::Source;
use crate::driver::{Gpu, check, error, failure, lock};

/// The machine code of one kernel.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) gpu: &'static Gpu,
    source: Source,
    pub(crate) name: &'static str,
    /// Whether it was in the pack or in the cache when it was requested.
    pub(crate) was_compiled: bool,
    /// Whether a solver of this process is expected to launch it.
    pub(crate) is_needed: AtomicBool,
    /// The machine code until it is loaded, or the reason why there is none.
    compiled: OnceLock<std::result::Result<Mutex<Vec<u8>>, String>>,
    loaded: OnceLock<Loaded>,
    /// Dynamic shared memory allowed for its blocks. B
    shared_bytes: Mutex<usize>,
}

/// A kernel on the GPU, which stays there.
#[derive(Clone, Copy, Debug)]
struct Loaded(sys::CUfunction);

// SAFETY: a driver handle, usable from any thread.
unsafe impl Send for Loaded {}

// SAFETY: as above.
unsafe impl Sync for Loaded {}

/// Dynamic shared memory that needs no permission: 48 KiB less the static shared memory of kernels.
const FREE_SHARED_BYTES: usize = 40 << 10;

impl Code {
    pub(crate) fn new(gpu: &'static Gpu, source: &Source, name: &'static str) -> Self {
        Self {
            gpu,
            source: source.clone(),
            name,
            was_compiled: source.is_compiled(name, &gpu.architecture()),
            is_needed: AtomicBool::new(false),
            compiled: OnceLock::new(),
            loaded: OnceLock::new(),
            shared_bytes: Mutex::new(FREE_SHARED_BYTES),
        }
    }

    /// Compiles it, reads it from the pack or the cache, or waits for another thread that does.
    pub(crate) fn compile(&self) -> &std::result::Result<Mutex<Vec<u8>>, String> {
        self.compiled.get_or_init(|| match self.source.cubin(self.name, &self.gpu.architecture()) {
            Ok(cubin) => Ok(Mutex::new(cubin)),
            Err(Error::Device { message, .. }) => Err(message),
            Err(other) => Err(other.to_string()),
        })
    }

    /// Returns whether it has been compiled, or could not be.
    pub(crate) fn is_done(&self) -> bool {
        self.was_compiled || self.compiled.get().is_some()
    }

    /// Returns whether it could not be compiled.
    pub(crate) fn has_failed(&self) -> bool {
        self.compiled.get().is_some_and(std::result::Result::is_err)
    }

    /// Returns the loaded kernel.
    pub(crate) fn function(&self) -> Result<sys::CUfunction> {
        match self.loaded.get() {
            Some(Loaded(function)) => Ok(*function),
            None => self.load(),
        }
    }

    fn load(&self) -> Result<sys::CUfunction> {
        let cubin = self.compile().as_ref().map_err(|message| error(message.clone()))?;
        let mut cubin = lock(cubin);
        if let Some(Loaded(function)) = self.loaded.get() {
            return Ok(*function);
        }
        let name = CString::new(self.name).map_err(|_| error(format!("{}: not a name", self.name)))?;
        let fail = |e| failure(e, self.name);
        self.gpu.bind()?;
        // SAFETY: the driver reads the length from the image's own header, and checks it.
        let module = unsafe { result::module::load_data(cubin.as_ptr().cast()) }
            .map_err(|e| failure(e, "loading a compiled kernel"))?;
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
        Ok(self.loaded.get_or_init(|| Loaded(function)).0)
    }

    /// Allows its blocks this much dynamic shared memory.
    pub(crate) fn allow(&self, shared_bytes: usize) -> Result<()> {
        let mut allowed = lock(&self.shared_bytes);
        if shared_bytes > *allowed {
            if let Some(Loaded(function)) = self.loaded.get() {
                self.gpu.bind()?;
                self.set_shared_bytes(*function, shared_bytes)?;
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
