//! Ranks that are threads of one process.

use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use isobar_core::prelude::{Error, Meanwhile, Result};
use isobar_core::team::lock;

use crate::communicator::{Communicator, Message};

/// The communicator of one of several threads.
#[derive(Clone)]
pub struct Threads {
    rank: usize,
    shared: Arc<Shared>,
}

struct Shared {
    mailboxes: Vec<Mailbox>,
    /// The rank that failed first, and its error.
    failure: Mutex<Option<(usize, String)>>,
}

#[derive(Default)]
struct Mailbox {
    letters: Mutex<Letters>,
    arrived: Condvar,
}

/// Messages to one rank that it has not read yet.
#[derive(Default)]
struct Letters {
    waiting: Vec<Letter>,
    /// Buffers to be used again.
    free: Vec<Vec<u8>>,
}

struct Letter {
    from: usize,
    tag: u32,
    data: Vec<u8>,
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {} threads", self.rank, self.size())
    }
}

impl Threads {
    /// Makes the communicators of as many ranks, one for each thread.
    pub fn ranks(size: usize) -> Vec<Self> {
        let mailboxes = (0..size).map(|_| Mailbox::default()).collect();
        let shared = Arc::new(Shared { mailboxes, failure: Mutex::new(None) });
        (0..size).map(|rank| Self { rank, shared: Arc::clone(&shared) }).collect()
    }

    /// Forgets failures and unread messages; to be called while no rank computes. Returns the failure.
    fn forget(&self) -> Option<(usize, String)> {
        let failure = lock(&self.shared.failure).take();
        if failure.is_some() {
            self.shared.mailboxes.iter().for_each(|mailbox| lock(&mailbox.letters).waiting.clear());
        }
        failure
    }

    fn check(&self) -> Result<()> {
        match &*lock(&self.shared.failure) {
            Some((rank, why)) => {
                Err(Error::Device { device: format!("rank {rank} of {}", self.size()), message: why.clone() })
            }
            None => Ok(()),
        }
    }

    fn receive(&self, message: &mut Message<'_>) -> Result<()> {
        let mailbox = &self.shared.mailboxes[self.rank];
        let mut letters = lock(&mailbox.letters);
        loop {
            let is_it = |letter: &Letter| (letter.from, letter.tag) == (message.peer, message.tag);
            if let Some(place) = letters.waiting.iter().position(is_it) {
                let Letter { data, .. } = letters.waiting.remove(place);
                if data.len() != message.receive.len() {
                    return Err(Error::Device {
                        device: format!("rank {} of {}", self.rank, self.size()),
                        message: format!(
                            "rank {} sent {} bytes where {} were expected; all ranks must solve the same problem",
                            message.peer,
                            data.len(),
                            message.receive.len()
                        ),
                    });
                }
                message.receive.copy_from_slice(&data);
                letters.free.push(data);
                return Ok(());
            }
            self.check()?;
            letters = mailbox.arrived.wait(letters).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Communicator for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.shared.mailboxes.len()
    }

    fn exchange_while(&self, messages: &mut [Message<'_>], meanwhile: Meanwhile<'_>) -> Result<()> {
        for message in messages.iter().filter(|message| !message.send.is_empty()) {
            let mailbox = &self.shared.mailboxes[message.peer];
            let mut letters = lock(&mailbox.letters);
            let mut data = letters.free.pop().unwrap_or_default();
            data.clear();
            data.extend_from_slice(message.send);
            letters.waiting.push(Letter { from: self.rank, tag: message.tag, data });
            drop(letters);
            mailbox.arrived.notify_all();
        }
        meanwhile();
        messages.iter_mut().filter(|message| !message.receive.is_empty()).try_for_each(|message| self.receive(message))
    }

    fn abort(&self, why: &str) {
        lock(&self.shared.failure).get_or_insert_with(|| (self.rank, why.to_owned()));
        for mailbox in &self.shared.mailboxes {
            // A thread that has seen no failure holds this lock until it waits.
            drop(lock(&mailbox.letters));
            mailbox.arrived.notify_all();
        }
    }
}

/// Runs `work` on as many threads, one per rank, and returns their results, by rank.
///
/// # Errors
/// The first error of any rank; the others end as soon as they wait for that rank.
///
/// # Panics
/// Panics if `work` does, after all ranks have ended.
pub fn run<R: Send>(size: usize, work: impl Fn(Threads) -> Result<R> + Sync) -> Result<Vec<R>> {
    let ranks = Threads::ranks(size);
    run_each(ranks.iter().map(|rank| (rank, rank.clone())), work)
}

/// Runs `work` for all ranks of a job at once, each with its own argument on its own thread, and returns their results. The
/// ranks may be used again, also after an error.
///
/// # Panics
/// Panics as [`run`] does.
pub fn run_each<'r, I: Send, R: Send>(
    ranks: impl IntoIterator<Item = (&'r Threads, I)>,
    work: impl Fn(I) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let (worlds, own): (Vec<_>, Vec<_>) = ranks.into_iter().map(|(rank, own)| (rank, Mutex::new(Some(own)))).unzip();
    let results: Vec<_> = own.iter().map(|_| Mutex::new(None)).collect();
    run_numbered(&worlds, &|n| {
        let own = lock(&own[n]).take();
        *lock(&results[n]) = own.map(&work).transpose()?;
        Ok(())
    })?;
    Ok(results.into_iter().filter_map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner)).collect())
}

/// Runs `work(n)` for the nth of all ranks of a job, each on its own thread: compiled once for all kinds of work.
fn run_numbered(ranks: &[&Threads], work: &(dyn Fn(usize) -> Result<()> + Sync)) -> Result<()> {
    let first_error = Mutex::new(None);
    let run = |n: usize| {
        let this = ranks[n];
        let result = panic::catch_unwind(AssertUnwindSafe(|| work(n)));
        match &result {
            Ok(Ok(())) => {}
            Ok(Err(error)) => this.abort(&error.to_string()),
            Err(_) => this.abort("it ended by a defect of isobar"),
        }
        if let Ok(Err(error)) = result {
            if lock(&this.shared.failure).as_ref().is_some_and(|(rank, _)| *rank == this.rank) {
                *lock(&first_error) = Some(error);
            }
            return Ok(());
        }
        result.map(drop)
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = (0..ranks.len()).map(|n| scope.spawn(move || run(n))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(Err)).collect()
    });
    let failure = ranks.first().and_then(|job| job.forget());
    if let Some(error) = lock(&first_error).take() {
        return Err(error);
    }
    if let Some(panic) = results.into_iter().find_map(std::result::Result::err) {
        panic::resume_unwind(panic);
    }
    match (ranks.first(), failure) {
        (Some(job), Some((rank, message))) => {
            Err(Error::Device { device: format!("rank {rank} of {}", job.size()), message })
        }
        _ => Ok(()),
    }
}
