//! Kernels on a GPU.
//!
//! A kernel is compiled separately, in the background from the moment it is requested (see [`crate::background`]); the parts of a solver request those of
//! their steps when they are made, so that these are compiled at the same time, and no others are. Machine code is loaded when all requested kernels are
//! awaited ([`Modules::load`]), at the end of a solver's setup, or else by a kernel's first launch. A kernel that is first requested while an iteration is
//! noted (see [`crate::iterate`]) is loaded when that runs. It stays loaded for later solvers of the process.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use cudarc::driver::sys;
use isobar_core::error::Result;

use crate::code::Code;
use crate::driver::{Gpu, check, lock};
use crate::pack::list;
use crate::{Context, Kernel, Source, background};

/// The kernels of a source that were requested.
type Requested = Mutex<Vec<Arc<Code>>>;

/// All kernels of a GPU, each compiled and loaded once.
#[derive(Debug, Default)]
pub(crate) struct Kernels {
    known: Mutex<HashMap<Source, Arc<Requested>>>,
}

impl Kernels {
    fn of(&self, source: &Source) -> Arc<Requested> {
        Arc::clone(lock(&self.known).entry(source.clone()).or_default())
    }
}

/// A source on a GPU, whose kernels are compiled when they are requested.
#[derive(Debug)]
pub(crate) struct Module {
    gpu: &'static Gpu,
    source: Source,
    /// The kernels that were requested here, and in the whole process.
    kernels: Requested,
    all: Arc<Requested>,
    awaited: Arc<Requested>,
}

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
        self.gpu.bind()?;
        let mut blocks = 0;
        // SAFETY: the kernel is loaded; `blocks` outlives the call.
        let code = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&raw mut blocks, function, threads as i32, shared_bytes)
        };
        check(code, kernel.code.name)?;
        Ok(self.gpu.multiprocessors * usize::try_from(blocks).unwrap_or(0).max(1))
    }

    fn code(&self, name: &'static str) -> Arc<Code> {
        let mut kernels = lock(&self.kernels);
        if let Some(code) = kernels.iter().find(|code| code.name == name) {
            return Arc::clone(code);
        }
        let code = self.code_of_process(name);
        lock(&self.awaited).push(Arc::clone(&code));
        kernels.push(Arc::clone(&code));
        code
    }

    fn code_of_process(&self, name: &'static str) -> Arc<Code> {
        let mut all = lock(&self.all);
        // A failed compilation is tried again, because the user may have installed the compiler since.
        all.retain(|code| code.name != name || !code.has_failed());
        if let Some(code) = all.iter().find(|code| code.name == name) {
            return Arc::clone(code);
        }
        let code = Arc::new(Code::new(self.gpu, &self.source, name));
        if !code.was_compiled {
            list::log(&self.source, name);
            background::compile(&code);
        }
        all.push(Arc::clone(&code));
        code
    }
}

/// All modules of a solver, each stored once.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    known: Mutex<HashMap<Source, Arc<Module>>>,
    /// Kernels that were named since the last were loaded.
    awaited: Arc<Requested>,
}

impl Modules {
    /// Returns the module of a source.
    pub(crate) fn get(&self, context: &Arc<Context>, source: Source) -> Arc<Module> {
        let make = |source: &Source| {
            Arc::new(Module {
                gpu: context.gpu,
                source: source.clone(),
                kernels: Mutex::default(),
                all: context.kernels.of(source),
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
            } else if code.is_done() {
                // A solver that needs the kernel later gets the error then.
                let _ = code.function();
            }
        }
        Ok(())
    }
}
