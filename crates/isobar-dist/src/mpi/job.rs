//! A job, seen by one of its processes.

use std::fmt;
use std::io::Write;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use isobar_core::prelude::{Meanwhile, Result, lock};

use super::channel::{Channel, caught, let_loose};
use super::failure::failure;
use super::functions::{Handle, Mpi};
use super::watch::{Patience, Post, Watch};
use crate::communicator::{Communicator, Message};
use crate::patience;

/// The time in which a launcher can forward a last message.
const TO_BE_PASSED_ON: Duration = Duration::from_millis(300);

/// A job over one library.
pub(super) struct Job<H: Handle> {
    world: Arc<World<H>>,
    /// Whether this library has started MPI, and must end it.
    is_ours: bool,
    watch: Option<Watch>,
    /// The process that is the rank.
    process: u32,
}

/// The state that the watching thread shares.
pub(super) struct World<H: Handle> {
    pub(super) channel: Channel<H>,
    /// The communicator of liveness messages. It is never freed, since an answer may still be on its way at the end.
    pub(super) letters: H,
    /// The lock of MPI, which only one thread calls at a time.
    turn: Mutex<Post>,
    /// The time that a rank may be silent; no limit if `None`.
    pub(super) limit: Option<Duration>,
    /// Whether this rank should be either computing or exchanging.
    pub(super) is_iterating: AtomicBool,
    has_aborted: AtomicBool,
}

impl<H: Handle> fmt::Debug for Job<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {} over {}", self.rank(), self.size(), self.world.channel.mpi.family)
    }
}

impl<H: Handle> Job<H> {
    pub(super) fn start(mpi: Mpi<H>) -> Result<Self> {
        let limit = patience::limit()?;
        let is_ours = mpi.ask("MPI_Initialized", mpi.initialized)? == 0;
        if is_ours {
            let (none, nothing, serialized, mut provided) =
                (ptr::null_mut(), ptr::null_mut(), mpi.constants.serialized, 0);
            // SAFETY: the arguments are what the standard says; nothing of MPI has been called but what may be before it starts.
            let code = unsafe { (mpi.init_thread)(none, nothing, serialized, &raw mut provided) };
            mpi.check("MPI_Init_thread", code)?;
            if provided < serialized {
                return Err(failure(format!(
                    "{} offers no calls from several threads, even one at a time (MPI_THREAD_SERIALIZED)",
                    mpi.version()
                )));
            }
        }
        let all = mpi.constants.world;
        let letters = mpi.ask_of("MPI_Comm_dup", mpi.comm_dup, all, H::ZERO)?;
        let channel = Channel::new(mpi, all)?;
        let world = Arc::new(World {
            channel,
            letters,
            turn: Mutex::new(Post::new()),
            limit,
            is_iterating: AtomicBool::new(false),
            has_aborted: AtomicBool::new(false),
        });
        let watched = limit.filter(|_| world.channel.size > 1);
        let watch = watched.map(|limit| Watch::start(&world, limit)).transpose()?;
        Ok(Self { world, is_ours, watch, process: std::process::id() })
    }
}

impl<H: Handle> World<H> {
    fn turn(&self) -> MutexGuard<'_, Post> {
        lock(&self.turn)
    }

    /// Locks MPI if no other thread has it.
    pub(super) fn free_turn(&self) -> Option<MutexGuard<'_, Post>> {
        self.turn.try_lock().ok()
    }

    /// Ends the job with a message about a rank, the first one.
    pub(super) fn abort(&self, rank: usize, why: &str) {
        // Some libraries return before the launcher has ended this process.
        if self.has_aborted.swap(true, Ordering::SeqCst) {
            return;
        }
        // One write, and time for the launcher to forward it: it loses what is under way when it ends the job.
        let message = format!("error: rank {rank} of {}: {why}\n", self.channel.size);
        let _gone = std::io::stderr().write_all(message.as_bytes());
        std::thread::sleep(TO_BE_PASSED_ON);
        // SAFETY: may be called at any time between start and end. It is meant to interrupt whatever another thread does.
        unsafe { (self.channel.mpi.abort)(self.channel.communicator, 1) };
    }
}

impl<H: Handle> Communicator for Job<H> {
    fn rank(&self) -> usize {
        self.world.channel.rank
    }

    fn size(&self) -> usize {
        self.world.channel.size
    }

    fn exchange_while(&self, messages: &mut [Message<'_>], meanwhile: Meanwhile<'_>) -> Result<()> {
        let (channel, mut started) = (&self.world.channel, Vec::with_capacity(2 * messages.len()));
        let post = self.world.turn();
        // SAFETY: the slices stay borrowed until all is over, or the job is.
        let begun = unsafe { channel.start(messages, &mut started) };
        // Liveness requests are answered meanwhile.
        drop(post);
        let result = begun.and_then(|()| {
            let done = caught(meanwhile);
            let (mut post, mut patience) = (self.world.turn(), Patience::new(self.world.limit));
            post.has_exchanged = true;
            channel.wait(&mut started, &mut std::thread::yield_now, &mut |peer| {
                patience.look(&self.world, &mut post, peer);
                Ok(())
            })?;
            drop(post);
            let_loose(done);
            Ok(())
        });
        if let Err(error) = &result {
            // MPI still uses the slices.
            self.abort(&error.to_string());
        }
        result
    }

    fn set_iterating(&self, is_iterating: bool) {
        self.world.is_iterating.store(is_iterating, Ordering::Relaxed);
    }

    fn abort(&self, why: &str) {
        self.world.abort(self.world.channel.rank, why);
    }
}

impl<H: Handle> Drop for Job<H> {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // Neither the thread nor the messages belong to a process that was forked from the rank.
            return std::mem::forget(self.watch.take());
        }
        // The thread must have made its last MPI call.
        drop(self.watch.take());
        if self.is_ours {
            // SAFETY: started by `start`; nobody can use it any more.
            unsafe { (self.world.channel.mpi.finalize)() };
        }
    }
}
