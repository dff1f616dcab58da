//! This module takes part in a program that has started MPI, on a communicator of that program.
//!
//! The program has started MPI and will end it. Messages go over duplicates of its communicator, so that they never match the
//! program's own. A failed rank does not end the program: all ranks abandon the operation and get its error, see
//! [`settle`](super::settle). Ranks that hang are not detected, since a program may allow MPI one thread only.
//!
//! Unless the program has started MPI with MPI_THREAD_MULTIPLE, threads with a communicator each take turns ([`turn`](super::turn)): a thread has its
//! turn while it starts messages and while it tests them, but not while it computes or rests.

use std::fmt;
use std::io::Write;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use isobar_core::prelude::{Error, Meanwhile, Result, lock};

use super::channel::{Channel, caught, let_loose};
use super::failure::failure;
use super::functions::{Handle, Mpi};
use super::settle::Affairs;
use super::turn::{CALLS, Turn};
use crate::communicator::{Communicator, Message};
use crate::told::{Tell, Told};

/// The time that a rank still waits for its messages after a failure notice: they may be on their way, and this rank may then find
/// a more precise failure, such as a cell of its own.
const GRACE: Duration = Duration::from_millis(200);

/// One rank of a program's communicator.
pub(super) struct Guest<H: Handle> {
    pub(super) channel: Channel<H>,
    /// A duplicate of the communicator for failure notices.
    pub(super) letters: H,
    /// Whether the program allows MPI calls on one thread only (MPI_THREAD_FUNNELED or less).
    is_bound: bool,
    /// Whether the program allows MPI calls on several threads at the same time (MPI_THREAD_MULTIPLE).
    is_free: bool,
    /// The process that is the rank, and not one that was forked from it.
    process: u32,
    affairs: Mutex<Affairs>,
}

impl<H: Handle> fmt::Debug for Guest<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {} over {}", self.rank(), self.size(), self.channel.mpi.family)
    }
}

/// Returns whether a program is between MPI_Init and MPI_Finalize.
pub(super) fn is_running<H: Handle>(mpi: &Mpi<H>) -> Result<bool> {
    Ok(mpi.ask("MPI_Initialized", mpi.initialized)? != 0 && mpi.ask("MPI_Finalized", mpi.finalized)? == 0)
}

/// A guard while which a wrong handle gives an error code instead of ending the program.
struct Codes<'m, H: Handle> {
    mpi: &'m Mpi<H>,
    before: Vec<(H, H)>,
}

impl<'m, H: Handle> Codes<'m, H> {
    fn new(mpi: &'m Mpi<H>) -> Result<Self> {
        let mut this = Self { mpi, before: Vec::new() };
        // MPI 4 has changed which of the two gets the errors that belong to no communicator.
        for communicator in [mpi.constants.world, mpi.constants.only_self] {
            let before = mpi.ask_of("MPI_Comm_get_errhandler", mpi.get_errhandler, communicator, H::ZERO)?;
            this.before.push((communicator, before));
            // SAFETY: both are handles.
            let code = unsafe { (mpi.set_errhandler)(communicator, mpi.constants.errors_return) };
            mpi.check("MPI_Comm_set_errhandler", code)?;
        }
        Ok(this)
    }
}

impl<H: Handle> Drop for Codes<'_, H> {
    fn drop(&mut self) {
        for (communicator, before) in &mut self.before {
            // SAFETY: both are handles; the second was got for this.
            unsafe {
                (self.mpi.set_errhandler)(*communicator, *before);
                (self.mpi.errhandler_free)(before);
            }
        }
    }
}

impl<H: Handle> Guest<H> {
    /// Duplicates the program's communicator; all of its ranks must call this.
    pub(super) fn new(mpi: Mpi<H>, communicator: i32) -> Result<Self> {
        let wrong = |why: &str| Error::invalid("communicator", format!("{communicator} is {why}"));
        let provided = mpi.ask("MPI_Query_thread", mpi.query_thread)?;
        let is_bound = provided < mpi.constants.serialized;
        require_thread(&mpi, is_bound)?;
        let is_free = provided > mpi.constants.serialized;
        let _turn = (!is_free).then(|| CALLS.turn());
        let duplicates = {
            let _codes = Codes::new(&mpi)?;
            // SAFETY: takes any number, while MPI runs.
            let theirs = unsafe { (mpi.constants.from_fortran)(communicator) };
            if theirs == mpi.constants.null || (theirs == H::ZERO && mpi.family != super::Family::Mpich) {
                return Err(wrong("none that there is; give that of MPI_Comm_c2f, or Fortran's own"));
            }
            let is_between = mpi
                .ask_of("MPI_Comm_test_inter", mpi.comm_test_inter, theirs, 0)
                .map_err(|_| wrong("no communicator; give that of MPI_Comm_c2f, or Fortran's own"))?;
            if is_between != 0 {
                return Err(wrong("an intercommunicator; give one of MPI_Intercomm_merge"));
            }
            let duplicate = || -> Result<H> {
                let made = mpi.ask_of("MPI_Comm_dup", mpi.comm_dup, theirs, H::ZERO)?;
                // SAFETY: both are handles.
                let code = unsafe { (mpi.set_errhandler)(made, mpi.constants.errors_return) };
                mpi.check("MPI_Comm_set_errhandler", code).map(|()| made)
            };
            [duplicate()?, duplicate()?]
        };
        let [messages, letters] = duplicates;
        let channel = Channel::new(mpi, messages)?;
        let affairs = Mutex::new(Affairs::new(channel.size));
        Ok(Self { channel, letters, is_bound, is_free, process: std::process::id(), affairs })
    }

    /// Returns when this thread may call MPI.
    pub(super) fn turn(&self) -> Option<Turn<'static>> {
        (!self.is_free).then(|| CALLS.turn())
    }

    /// Yields this thread's core and its turn.
    pub(super) fn rest(&self, turn: &mut Option<Turn<'static>>) {
        *turn = None;
        std::thread::yield_now();
        *turn = self.turn();
    }

    pub(super) fn affairs(&self) -> MutexGuard<'_, Affairs> {
        lock(&self.affairs)
    }
}

/// Fails on a thread that may not use MPI, and after `MPI_Finalize`.
fn require_thread<H: Handle>(mpi: &Mpi<H>, is_bound: bool) -> Result<()> {
    if !is_running(mpi)? {
        return Err(failure("the program has called MPI_Finalize already; call before it".into()));
    }
    if is_bound && mpi.ask("MPI_Is_thread_main", mpi.is_thread_main)? == 0 {
        return Err(failure(
            "the program has allowed MPI the thread that started it alone; call from that one, or start MPI by MPI_Init_thread \
             with MPI_THREAD_SERIALIZED"
                .into(),
        ));
    }
    Ok(())
}

impl<H: Handle> Communicator for Guest<H> {
    fn rank(&self) -> usize {
        self.channel.rank
    }

    fn size(&self) -> usize {
        self.channel.size
    }

    fn exchange_while(&self, messages: &mut [Message<'_>], meanwhile: Meanwhile<'_>) -> Result<()> {
        require_thread(&self.channel.mpi, self.is_bound)?;
        let mut affairs = self.affairs();
        if let Some((rank, failure)) = affairs.failure() {
            return Err(Error::told([rank, self.size()], failure));
        }
        let mut started = Vec::with_capacity(2 * messages.len());
        let (mut is_told, mut told_at, mut done) = (false, None, Ok(()));
        let begun = {
            let _turn = self.turn();
            // SAFETY: the slices stay borrowed until all is over, which after a failure it is when all have met.
            unsafe { self.channel.start(messages, &mut started) }
        };
        let result = begun.and_then(|()| {
            done = caught(meanwhile);
            let mut turn = self.turn();
            self.channel.wait(&mut started, &mut || self.rest(&mut turn), &mut |peer| {
                if !self.has_letters(&affairs) {
                    return Ok(());
                }
                is_told = told_at.get_or_insert_with(Instant::now).elapsed() > GRACE;
                if is_told { Err(failure(format!("rank {peer} does not answer"))) } else { Ok(()) }
            })
        });
        affairs.note(&started);
        let Err(error) = result else {
            drop(affairs);
            let_loose(done);
            return Ok(());
        };
        // If this rank was notified, the other ranks report the failure.
        let mine = (!is_told).then(|| error.tell());
        let (rank, failure) = self.meet(&mut affairs, mine, &mut started);
        Err(Error::told([rank, self.size()], failure))
    }

    fn begin(&self) -> bool {
        self.affairs().begin()
    }

    fn settle(&self, mine: Option<Told>) -> Option<(usize, Told)> {
        let has_failed = self.affairs().failure().is_some();
        let settled = match &mine {
            _ if has_failed => Ok(()),
            None => self.barrier(),
            Some(_) => require_thread(&self.channel.mpi, self.is_bound)
                .map(|()| drop(self.meet(&mut self.affairs(), mine.clone(), &mut []))),
        };
        let failure = self.affairs().end(mine.as_ref());
        failure.or_else(|| settled.err().map(|error| (self.rank(), error.tell())))
    }

    fn abort(&self, why: &str) {
        let message = format!("error: rank {} of {}: {why}\n", self.rank(), self.size());
        let _gone = std::io::stderr().write_all(message.as_bytes());
        // SAFETY: may be called at any time between start and end.
        unsafe { (self.channel.mpi.abort)(self.channel.communicator, 1) };
    }
}

impl<H: Handle> Drop for Guest<H> {
    fn drop(&mut self) {
        let mpi = &self.channel.mpi;
        // After MPI_Finalize nothing is left to free; a thread that may not call MPI leaves the duplicates to MPI_Finalize.
        let is_rank = self.process == std::process::id();
        if is_rank && is_running(mpi).unwrap_or(false) && require_thread(mpi, self.is_bound).is_ok() {
            let _turn = self.turn();
            // SAFETY: handles of duplicates that nobody can use any more.
            unsafe {
                (mpi.comm_free)(&raw mut self.channel.communicator);
                (mpi.comm_free)(&raw mut self.letters);
            }
        }
    }
}
