//! Working memory of operators.

use std::sync::{Mutex, MutexGuard, OnceLock};

use isobar_core::backend::{Backend, queue};
use isobar_core::error::Result;
use isobar_core::prelude::lock;

use crate::cpu::Cpu;

/// The working memory of an operator for each queue. That of the first queue is for all threads; that of each other queue is for one, and is made
/// on demand. It holds nothing between steps, so that a panic elsewhere does no harm.
#[derive(Debug)]
pub(crate) struct PerQueue<W> {
    first: Mutex<W>,
    others: Box<[OnceLock<Mutex<W>>]>,
}

impl<W> PerQueue<W> {
    /// Takes the memory of the first queue.
    pub(crate) fn new(cpu: &Cpu, first: W) -> Self {
        Self { first: Mutex::new(first), others: (0..cpu.most_queues()).map(|_| OnceLock::new()).collect() }
    }

    /// Returns the memory of this thread's queue, made by `make`. If there is too little memory, all queues take turns with that of the first one.
    pub(crate) fn lock(&self, make: impl FnOnce() -> Result<W>) -> MutexGuard<'_, W> {
        let own = queue::current().checked_sub(1).and_then(|queue| self.others.get(queue)).and_then(|own| {
            if own.get().is_none() {
                // A queue is used by one thread at a time, so that no other one has set it meanwhile.
                let _ = own.set(Mutex::new(make().ok()?));
            }
            own.get()
        });
        lock(own.unwrap_or(&self.first))
    }

    /// Returns the memory of the first queue.
    pub(crate) fn first(&self) -> MutexGuard<'_, W> {
        lock(&self.first)
    }
}
