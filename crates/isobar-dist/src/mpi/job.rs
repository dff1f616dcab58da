//! A job, seen by one of its processes.

use std::ffi::c_int;
use std::fmt;
use std::io::Write;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use isobar_core::error::Result;

use super::failure;
use super::library::{Handle, Mpi, Request, Status};
use super::watch::{Patience, Post, Watch};
use crate::communicator::{Communicator, Message};
use crate::patience;

/// Bytes of a message at most: counts are of type int.
const MOST: usize = 1 << 30;
/// Tests of a request before other processes get a chance to run: a rank that it waits for may need this core.
const TESTS: u32 = 200;

/// How long a launcher gets to pass a last message on.
const TO_BE_PASSED_ON: Duration = Duration::from_millis(300);

/// A job over one library.
pub(super) struct Job<H: Handle> {
    world: Arc<World<H>>,
    /// Whether this has started MPI, and ends it.
    is_ours: bool,
    watch: Option<Watch>,
}

/// What the thread that watches needs too.
pub(super) struct World<H: Handle> {
    pub(super) mpi: Mpi<H>,
    pub(super) rank: usize,
    pub(super) size: usize,
    /// Where letters go: beside all messages, and never taken down, as an answer may be on its way when all is over.
    pub(super) letters: H,
    /// MPI is asked for calls by one thread at a time, whichever it is.
    turn: Mutex<Post>,
    /// How long a rank may be silent.
    pub(super) limit: Option<std::time::Duration>,
    /// Whether this rank should either compute or exchange.
    pub(super) is_iterating: AtomicBool,
    has_aborted: AtomicBool,
}

impl<H: Handle> fmt::Debug for Job<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {} over {}", self.rank(), self.size(), self.world.mpi.family)
    }
}

pub(super) fn check(what: &str, status: c_int) -> Result<()> {
    if status == 0 { Ok(()) } else { Err(failure(format!("{what} failed with error {status}"))) }
}

impl<H: Handle> Job<H> {
    pub(super) fn start(mpi: Mpi<H>) -> Result<Self> {
        let limit = patience::limit()?;
        let (mut initialized, mut provided, mut rank, mut size) = (0, 0, 0, 0);
        let mut letters = mpi.world;
        // SAFETY: the arguments are what the standard says; nothing of MPI has been called but what may be before it starts.
        unsafe {
            check("MPI_Initialized", (mpi.initialized)(&raw mut initialized))?;
            if initialized == 0 {
                let (none, nothing) = (ptr::null_mut(), ptr::null_mut());
                check("MPI_Init_thread", (mpi.init_thread)(none, nothing, mpi.serialized, &raw mut provided))?;
                if provided < mpi.serialized {
                    return Err(failure(format!(
                        "{} offers no calls from several threads, even one at a time (MPI_THREAD_SERIALIZED)",
                        mpi.version()
                    )));
                }
            }
            check("MPI_Comm_rank", (mpi.comm_rank)(mpi.world, &raw mut rank))?;
            check("MPI_Comm_size", (mpi.comm_size)(mpi.world, &raw mut size))?;
            check("MPI_Comm_dup", (mpi.comm_dup)(mpi.world, &raw mut letters))?;
        }
        let count = |n: c_int| usize::try_from(n).map_err(|_| failure(format!("{n} ranks")));
        let world = Arc::new(World {
            mpi,
            rank: count(rank)?,
            size: count(size)?,
            letters,
            turn: Mutex::new(Post::new()),
            limit,
            is_iterating: AtomicBool::new(false),
            has_aborted: AtomicBool::new(false),
        });
        let watch = limit.filter(|_| world.size > 1).map(|limit| Watch::start(&world, limit)).transpose()?;
        Ok(Self { world, is_ours: initialized == 0, watch })
    }
}

impl<H: Handle> World<H> {
    fn turn(&self) -> MutexGuard<'_, Post> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, if nobody has it.
    pub(super) fn free_turn(&self) -> Option<MutexGuard<'_, Post>> {
        self.turn.try_lock().ok()
    }

    /// Ends the job with a message about a rank, the first one.
    pub(super) fn abort(&self, rank: usize, why: &str) {
        // Some libraries return before the launcher has ended this process.
        if self.has_aborted.swap(true, Ordering::SeqCst) {
            return;
        }
        // In one piece, and with time for the launcher to pass it on: what is under way when it ends the job is lost.
        let message = format!("error: rank {rank} of {}: {why}\n", self.size);
        let _gone = std::io::stderr().write_all(message.as_bytes());
        std::thread::sleep(TO_BE_PASSED_ON);
        // SAFETY: may be called at any time between start and end. It is meant to interrupt whatever another thread does.
        unsafe { (self.mpi.abort)(self.mpi.world, 1) };
    }

    /// Returns when what was started with other ranks is done.
    fn wait(&self, post: &mut Post, started: &mut [(Request, usize)]) -> Result<()> {
        let (mut result, mut status) = (Ok(()), Status::new());
        let (mut tests, mut patience) = (0u32, Patience::new(self.limit));
        for (request, peer) in started {
            loop {
                let mut is_done = 0;
                // SAFETY: a request that was started and is not done yet; there is room for any family's status.
                let code = unsafe { (self.mpi.test)(request, &raw mut is_done, &raw mut status) };
                result = result.and(check("MPI_Test", code));
                if is_done != 0 || code != 0 {
                    break;
                }
                tests = tests.wrapping_add(1);
                if tests > TESTS {
                    std::thread::yield_now();
                }
                if tests.is_multiple_of(64) {
                    patience.look(self, post, *peer);
                }
            }
        }
        result
    }
}

impl<H: Handle> Communicator for Job<H> {
    fn rank(&self) -> usize {
        self.world.rank
    }

    fn size(&self) -> usize {
        self.world.size
    }

    fn exchange(&self, messages: &mut [Message<'_>]) -> Result<()> {
        let mut post = self.world.turn();
        post.has_exchanged = true;
        let Mpi { isend, irecv, world, byte, .. } = self.world.mpi;
        let mut requests: Vec<(Request, usize)> = Vec::with_capacity(2 * messages.len());
        let mut started = Ok(());
        // Nothing may return from here on before all requests are done: they use the slices.
        for message in messages {
            let (peer, tag) = (message.peer as c_int, message.tag as c_int);
            for part in message.receive.chunks_mut(MOST) {
                let mut request = 0;
                // SAFETY: the slice stays borrowed until the request is done, below, and nothing else uses it.
                let status = unsafe {
                    irecv(part.as_mut_ptr().cast(), part.len() as c_int, byte, peer, tag, world, &raw mut request)
                };
                started = started.and(check("MPI_Irecv", status));
                requests.push((request, message.peer));
            }
            for part in message.send.chunks(MOST) {
                let mut request = 0;
                // SAFETY: as above; it is only read.
                let status = unsafe {
                    isend(part.as_ptr().cast(), part.len() as c_int, byte, peer, tag, world, &raw mut request)
                };
                started = started.and(check("MPI_Isend", status));
                requests.push((request, message.peer));
            }
        }
        let done = self.world.wait(&mut post, &mut requests);
        let result = started.and(done);
        if let Err(error) = &result {
            // A request that failed may still be using its slice.
            self.abort(&error.to_string());
        }
        result
    }

    fn set_iterating(&self, is_iterating: bool) {
        self.world.is_iterating.store(is_iterating, Ordering::Relaxed);
    }

    fn abort(&self, why: &str) {
        self.world.abort(self.world.rank, why);
    }
}

impl<H: Handle> Drop for Job<H> {
    fn drop(&mut self) {
        // It must have made its last call.
        drop(self.watch.take());
        if self.is_ours {
            // SAFETY: started by `start`; nobody can use it any more.
            unsafe { (self.world.mpi.finalize)() };
        }
    }
}
