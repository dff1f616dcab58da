//! This module sends and receives messages over one communicator.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use isobar_core::prelude::{Meanwhile, Result};

use super::failure::failure;
use super::functions::{Handle, Mpi, Request, Status};
use crate::communicator::Message;

/// Bytes of a message at most: counts are of type int.
const MOST: usize = 1 << 30;
/// The number of tests of a request before this thread yields its core, which the awaited rank may need.
const TESTS: u32 = 200;
/// The number of tests of a request between two checks for failure notices.
const TESTS_PER_LOOK: u32 = 64;

/// Calls `meanwhile` and catches its panic, because MPI still uses the slices of the messages.
pub(super) fn caught(meanwhile: Meanwhile<'_>) -> std::thread::Result<()> {
    catch_unwind(AssertUnwindSafe(meanwhile))
}

/// Resumes a caught panic.
pub(super) fn let_loose(done: std::thread::Result<()>) {
    if let Err(defect) = done {
        resume_unwind(defect);
    }
}

/// A communicator, seen by one of its ranks.
pub(super) struct Channel<H> {
    pub(super) mpi: Mpi<H>,
    pub(super) communicator: H,
    pub(super) rank: usize,
    pub(super) size: usize,
}

/// A message under way.
pub(super) struct Started {
    pub(super) request: Request,
    pub(super) peer: usize,
    /// The length of a message to be received, in bytes.
    pub(super) expected: Option<usize>,
    /// Whether MPI has completed it, successfully or not.
    pub(super) is_over: bool,
}

impl<H: Handle> Channel<H> {
    pub(super) fn new(mpi: Mpi<H>, communicator: H) -> Result<Self> {
        let rank = mpi.ask_of("MPI_Comm_rank", mpi.comm_rank, communicator, 0)?;
        let size = mpi.ask_of("MPI_Comm_size", mpi.comm_size, communicator, 0)?;
        let count = |n: c_int| usize::try_from(n).map_err(|_| failure(format!("{n} ranks")));
        Ok(Self { communicator, rank: count(rank)?, size: count(size)?, mpi })
    }

    /// Starts to receive and to send.
    ///
    /// # Safety
    /// The slices stay borrowed until all that was started is over; nobody writes to them until then, or reads those to be received.
    pub(super) unsafe fn start(&self, messages: &mut [Message<'_>], started: &mut Vec<Started>) -> Result<()> {
        let Mpi { isend, irecv, .. } = self.mpi;
        let (byte, communicator) = (self.mpi.constants.byte, self.communicator);
        for message in messages {
            let (peer, tag) = (message.peer as c_int, message.tag as c_int);
            let mut begun = |request, expected| {
                started.push(Started { request, peer: message.peer, expected, is_over: false });
            };
            for part in message.receive.chunks_mut(MOST) {
                let (mut request, length) = (0, part.len() as c_int);
                // SAFETY: promised by the caller.
                let code =
                    unsafe { irecv(part.as_mut_ptr().cast(), length, byte, peer, tag, communicator, &raw mut request) };
                self.mpi.check("MPI_Irecv", code)?;
                begun(request, Some(part.len()));
            }
            for part in message.send.chunks(MOST) {
                let (mut request, length) = (0, part.len() as c_int);
                // SAFETY: as above; it is only read.
                let code =
                    unsafe { isend(part.as_ptr().cast(), length, byte, peer, tag, communicator, &raw mut request) };
                self.mpi.check("MPI_Isend", code)?;
                begun(request, None);
            }
        }
        Ok(())
    }

    /// Returns whether MPI has completed a message. Fails if it failed or has another length.
    pub(super) fn test(&self, message: &mut Started) -> Result<bool> {
        let (mut is_done, mut status) = (0, Status::new());
        // SAFETY: a request that was started and is not done yet; there is room for any family's status.
        let code = unsafe { (self.mpi.test)(&raw mut message.request, &raw mut is_done, &raw mut status) };
        message.is_over = is_done != 0 || code != 0;
        self.mpi.check("MPI_Test", code)?;
        match message.expected {
            Some(expected) if message.is_over => match self.mpi.count(&status)? {
                found if found == expected => Ok(true),
                found => Err(failure(format!(
                    "rank {} sent {found} bytes where {expected} were expected; all ranks must make the same calls for \
                     the same problem",
                    message.peer
                ))),
            },
            _ => Ok(message.is_over),
        }
    }

    /// Returns when all messages are complete, or one has failed; `look` is called with the awaited rank at intervals, and its error
    /// ends the waiting. `rest` yields this thread's core.
    pub(super) fn wait(
        &self,
        started: &mut [Started],
        rest: &mut dyn FnMut(),
        look: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        let mut tests = 0u32;
        for message in started {
            while !self.test(message)? {
                tests = tests.wrapping_add(1);
                if tests > TESTS {
                    rest();
                }
                if tests.is_multiple_of(TESTS_PER_LOOK) {
                    look(message.peer)?;
                }
            }
        }
        Ok(())
    }
}
