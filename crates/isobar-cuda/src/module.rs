//! Kernels on a GPU.
//!
//! A kernel is compiled by itself, in the background from the moment it is requested (see [`crate::background`]); the parts of a solver
//! request those of their steps when they are made, so that they are compiled at the same time, and no others are. Machine code
//! is loaded when all requested kernels are awaited ([`Modules::load`]), at the end of a solver's setup, or else by a kernel's first launch.
//! A kernel requested later, while an iteration is noted (see [`crate::iterate`]), is loaded when that runs.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use cudarc::driver::sys;
use isobar_core::error::Result;

use crate::code::Code;
use crate::driver::{check, lock};
use crate::pack::list;
use crate::{Context, Kernel, Source, background};

/// A source on a GPU, whose kernels are compiled when they are requested.
#[derive(Debug)]
pub(crate) struct Module {
    context: Arc<Context>,
    source: Source,
    kernels: Mutex<Vec<Arc<Code>>>,
    awaited: Arc<Mutex<Vec<Arc<Code>>>>,
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
        self.context.bind()?;
        let mut blocks = 0;
        // SAFETY: the kernel is loaded; `blocks` outlives the call.
        let code = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&raw mut blocks, function, threads as i32, shared_bytes)
        };
        check(code, kernel.code.name())?;
        Ok(self.context.multiprocessors * usize::try_from(blocks).unwrap_or(0).max(1))
    }

    fn code(&self, name: &'static str) -> Arc<Code> {
        let mut kernels = lock(&self.kernels);
        if let Some(code) = kernels.iter().find(|code| code.name() == name) {
            return Arc::clone(code);
        }
        let code = Arc::new(Code::new(&self.context, &self.source, name));
        if !code.was_compiled {
            list::log(&self.source, name);
            background::compile(&code);
        }
        lock(&self.awaited).push(Arc::clone(&code));
        kernels.push(Arc::clone(&code));
        code
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
            } else if code.is_done() {
                // Whoever needs it after all will be told of an error.
                let _ = code.function();
            }
        }
        Ok(())
    }
}
