//! A job, seen by one of its processes.

use std::ffi::c_int;
use std::fmt;
use std::io::Write;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use isobar_core::error::Result;

use super::failure;
use super::library::{Handle, Mpi, Request, Status};
use crate::communicator::{Communicator, Message, all_gather_by_exchange};

/// Bytes of a message at most: counts are of type int.
const MOST: usize = 1 << 30;

/// A job over one library.
pub(super) struct Job<H: Handle> {
    mpi: Mpi<H>,
    rank: usize,
    size: usize,
    /// Whether this has started MPI, and ends it.
    is_ours: bool,
    /// MPI is asked for calls by one thread at a time, whichever it is.
    turn: Mutex<()>,
}

impl<H: Handle> fmt::Debug for Job<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {} over {}", self.rank, self.size, self.mpi.family)
    }
}

fn check(what: &str, status: c_int) -> Result<()> {
    if status == 0 { Ok(()) } else { Err(failure(format!("{what} failed with error {status}"))) }
}

impl<H: Handle> Job<H> {
    pub(super) fn start(mpi: Mpi<H>) -> Result<Self> {
        let (mut initialized, mut provided, mut rank, mut size) = (0, 0, 0, 0);
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
        }
        let count = |n: c_int| usize::try_from(n).map_err(|_| failure(format!("{n} ranks")));
        Ok(Self { mpi, rank: count(rank)?, size: count(size)?, is_ours: initialized == 0, turn: Mutex::new(()) })
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H: Handle> Communicator for Job<H> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn exchange(&self, messages: &mut [Message<'_>]) -> Result<()> {
        let _turn = self.turn();
        let Mpi { isend, irecv, wait, world, byte, .. } = self.mpi;
        let mut requests: Vec<Request> = Vec::with_capacity(2 * messages.len());
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
                requests.push(request);
            }
            for part in message.send.chunks(MOST) {
                let mut request = 0;
                // SAFETY: as above; it is only read.
                let status = unsafe {
                    isend(part.as_ptr().cast(), part.len() as c_int, byte, peer, tag, world, &raw mut request)
                };
                started = started.and(check("MPI_Isend", status));
                requests.push(request);
            }
        }
        for request in &mut requests {
            let mut status = Status::new();
            // SAFETY: a request that was started above; there is room for any family's status.
            started = started.and(check("MPI_Wait", unsafe { wait(request, &raw mut status) }));
        }
        if let Err(error) = &started {
            // A request that failed may still be using its slice.
            self.abort(&error.to_string());
        }
        started
    }

    fn all_gather(&self, mine: &[u8], counts: &[usize], all: &mut [u8]) -> Result<()> {
        let total: usize = counts.iter().sum();
        if all.len() != total || counts.len() != self.size || counts[self.rank] != mine.len() {
            return Err(failure(format!("{total} bytes of {} ranks to be gathered in {}", counts.len(), all.len())));
        }
        if total > MOST {
            return all_gather_by_exchange(self, mine, counts, all);
        }
        let counts: Vec<c_int> = counts.iter().map(|&count| count as c_int).collect();
        let starts: Vec<c_int> =
            counts.iter().scan(0, |start, count| Some(std::mem::replace(start, *start + count))).collect();
        let _turn = self.turn();
        let Mpi { all_gather, world, byte, .. } = self.mpi;
        // SAFETY: as many counts and starts as ranks, and room for all of them, see above.
        let status = unsafe {
            // The pointer of an empty slice may be anything, such as what stands for MPI_IN_PLACE.
            let mut nothing = 0u8;
            let to = if all.is_empty() { &raw mut nothing } else { all.as_mut_ptr() }.cast();
            let from = if mine.is_empty() { &raw const nothing } else { mine.as_ptr() }.cast();
            all_gather(from, mine.len() as c_int, byte, to, counts.as_ptr(), starts.as_ptr(), byte, world)
        };
        check("MPI_Allgatherv", status)
    }

    fn abort(&self, why: &str) {
        let _gone = writeln!(std::io::stderr(), "error: rank {} of {}: {why}", self.rank, self.size);
        // SAFETY: may be called at any time between start and end. It is meant to interrupt whatever another thread does.
        unsafe { (self.mpi.abort)(self.mpi.world, 1) };
    }
}

impl<H: Handle> Drop for Job<H> {
    fn drop(&mut self) {
        if self.is_ours {
            // SAFETY: started by `start`; nobody can use it any more.
            unsafe { (self.mpi.finalize)() };
        }
    }
}
