//! Messages between GPUs by NCCL.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cudarc::driver::sys;
use isobar_core::error::{Error, Result};

use super::{Functions, Handle, Nccl, UniqueId};
use crate::driver::{Context, Pointer, check, error, lock};
use crate::launch::Library;
use crate::memory::Mailbox;
use crate::peers::PATIENCE_SECONDS;

/// Bytes on this GPU that are sent to a rank or received from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) rank: usize,
    pub(super) is_sent: bool,
    pub(super) place: Pointer,
    pub(super) bytes: usize,
}

/// This rank's endpoint of a job.
#[derive(Debug)]
pub(super) struct Job {
    ends: Arc<Ends>,
    watch: Option<JoinHandle<()>>,
    pub(super) rank: usize,
    pub(super) size: usize,
}

/// Data shared with the watching thread.
#[derive(Debug)]
struct Ends {
    nccl: &'static Nccl,
    context: Arc<Context>,
    /// Null after the job was aborted.
    handle: Mutex<Raw>,
    /// Number of message groups submitted; the first number of the mailbox counts those completed.
    submitted: AtomicU64,
    done: Mutex<Mailbox>,
    has_failed: AtomicBool,
    is_over: AtomicBool,
}

#[derive(Debug)]
struct Raw(Handle);

// SAFETY: any thread may use a handle, one at a time, which its lock ensures.
unsafe impl Send for Raw {}

impl Job {
    /// Connects all ranks of the job with this `id`. Returns when all have called it.
    pub(super) fn meet(context: &Arc<Context>, [rank, size]: [usize; 2], id: &[u8]) -> Result<Self> {
        let nccl = Nccl::get()?;
        context.bind()?;
        let id = UniqueId(id.try_into().map_err(|_| error("rank 0 has no name for NCCL's job"))?);
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` outlives the call, and a context is current.
        let code = unsafe { (nccl.functions.create)(&raw mut raw, size as c_int, id, rank as c_int) };
        nccl.check(code, "meeting the other ranks")?;
        let ends = Arc::new(Ends {
            nccl,
            context: Arc::clone(context),
            handle: Mutex::new(Raw(raw)),
            submitted: AtomicU64::new(0),
            done: Mutex::new(Mailbox::new(context)?),
            has_failed: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        });
        let watched = Arc::clone(&ends);
        let watch = std::thread::Builder::new().name("nccl-watch".into()).spawn(move || watched.watch());
        let watch = watch.map_err(|why| error(format!("starting a thread that watches NCCL: {why}")))?;
        Ok(Self { ends, watch: Some(watch), rank, size })
    }

    /// Makes an identifier for a new job.
    pub(super) fn name() -> Result<Vec<u8>> {
        let nccl = Nccl::get()?;
        let mut id = UniqueId([0; UniqueId::BYTES]);
        // SAFETY: `id` outlives the call.
        nccl.check(unsafe { (nccl.functions.unique_id)(&raw mut id) }, "naming a job")?;
        Ok(id.0.to_vec())
    }

    /// Bytes of an identifier.
    pub(super) const NAME: usize = UniqueId::BYTES;

    /// Fails if another rank has not answered.
    pub(super) fn check(&self) -> Result<()> {
        if !self.ends.has_failed.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(Error::Device {
            device: format!("rank {} of {}", self.rank, self.size),
            message: format!("a rank has not answered for {PATIENCE_SECONDS} s; it has failed or hangs"),
        })
    }

    /// Makes a group of messages that are sent at the same time, to be submitted.
    pub(super) fn group(&self, messages: Vec<Message>) -> Arc<Group> {
        Arc::new(Group { ends: Arc::clone(&self.ends), messages })
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.ends.is_over.store(true, Ordering::Release);
        if let Some(watch) = self.watch.take() {
            watch.thread().unpark();
            // Errors in a destructor cannot be reported.
            let _ = watch.join();
        }
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        let handle = lock(&self.handle).0;
        if !handle.is_null() {
            let _ = self.context.synchronize();
            // SAFETY: made in `meet`, destroyed once, and the GPU has finished with it.
            let _ = unsafe { (self.nccl.functions.destroy)(handle) };
        }
    }
}

impl Ends {
    /// Aborts the job if a group has not completed for a long time; waiting kernels then end.
    fn watch(&self) {
        const PATIENCE: Duration = Duration::from_secs(PATIENCE_SECONDS);
        let (mut last, mut since) = (0, Instant::now());
        while !self.is_over.load(Ordering::Acquire) {
            std::thread::park_timeout(Duration::from_secs(1));
            let done = lock(&self.done).first();
            if done != last || done == self.submitted.load(Ordering::Acquire) {
                (last, since) = (done, Instant::now());
            } else if since.elapsed() > PATIENCE {
                self.has_failed.store(true, Ordering::Release);
                let mut handle = lock(&self.handle);
                // SAFETY: made in `meet`, not yet destroyed, and null from now on.
                let _ = unsafe { (self.nccl.functions.abort)(std::mem::replace(&mut handle.0, std::ptr::null_mut())) };
                return;
            }
        }
    }

    fn submit(&self, messages: &[Message], stream: sys::CUstream) -> Result<()> {
        /// `ncclUint8`
        const BYTE: c_int = 1;
        let handle = lock(&self.handle);
        if handle.0.is_null() {
            return Err(error("the other ranks have been given up"));
        }
        let Functions { begin_group, end_group, send, receive, .. } = &self.nccl.functions;
        // SAFETY: the handle is alive, and no other thread uses it while it is locked; the stream's context is current.
        unsafe {
            self.nccl.check(begin_group(), "beginning messages")?;
            let mut result = Ok(());
            for message in messages {
                let (transfer, doing) = if message.is_sent { (send, "sending") } else { (receive, "receiving") };
                let place = message.place as *mut c_void;
                let code = transfer(place, message.bytes, BYTE, message.rank as c_int, handle.0, stream);
                result = result.and(self.nccl.check(code, doing));
            }
            // A group that was begun must be ended, also after an error.
            result.and(self.nccl.check(end_group(), "exchanging"))?;
            let number = self.submitted.fetch_add(1, Ordering::AcqRel) + 1;
            let code = sys::cuStreamWriteValue64_v2(stream, lock(&self.done).numbers(), number, 0);
            check(code, "counting messages")
        }
    }
}

/// Messages that are sent at the same time.
#[derive(Debug)]
pub(super) struct Group {
    ends: Arc<Ends>,
    messages: Vec<Message>,
}

impl Library for Group {
    fn run(&self, stream: sys::CUstream) -> Result<()> {
        self.ends.submit(&self.messages, stream)
    }
}
