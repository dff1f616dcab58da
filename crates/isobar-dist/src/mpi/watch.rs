//! This module detects ranks that hang and answers the other ranks' liveness requests.
//!
//! A rank that has waited for another one for a while sends it a liveness request, on a communicator of its own. A running
//! process always answers: from its waiting loop while it waits, else from a thread that calls MPI every half second. So a
//! rank may be arbitrarily slow, and a rank that waits for one that waits for a third gets an answer. One that does not answer
//! is stopped or unreachable. One that answers, but neither computes nor exchanges where it should do either, detects that
//! itself.

use std::ffi::c_int;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use isobar_core::error::Result;

use super::failure::failure;
use super::functions::{Handle, Request, Status};
use super::job::World;
use crate::patience::{Idle, Lived, remedy};

/// The tag of liveness messages.
const TAG: c_int = 0;
/// The interval between checks for liveness messages.
const ROUND: Duration = Duration::from_millis(250);
/// The time that the reporting rank may take to report a silent rank.
const UNTIL_SAID: Duration = Duration::from_secs(3);

/// A liveness message: its subject, the rank that sent it, and the rank that it is about.
type Letter = [u64; 3];
/// The subject of a liveness request.
const ASK: u64 = 1;
/// The subject of an answer to a request.
const HERE: u64 = 2;
/// The subject of a notice to the reporting rank that a third rank does not answer.
const SILENT: u64 = 3;

/// The pending liveness messages, owned by the thread that has the lock of MPI.
pub(super) struct Post {
    sent: Vec<(Request, Box<Letter>)>,
    /// The ranks that have answered since this was last read.
    here: Vec<usize>,
    /// Whether another rank waits for this one.
    is_asked: bool,
    /// Whether there was an exchange since this was last read.
    pub(super) has_exchanged: bool,
}

impl Post {
    pub(super) fn new() -> Self {
        Self { sent: Vec::new(), here: Vec::new(), is_asked: false, has_exchanged: false }
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        // MPI may still read these buffers, so they are leaked.
        self.sent.drain(..).for_each(|(_, letter)| std::mem::forget(letter));
    }
}

impl<H: Handle> World<H> {
    fn tell(&self, post: &mut Post, to: usize, what: u64, about: usize) {
        let mpi = &self.channel.mpi;
        let letter: Box<Letter> = Box::new([what, self.channel.rank as u64, about as u64]);
        let mut request = 0;
        let (data, length, to) = ((&raw const *letter).cast(), size_of::<Letter>() as c_int, to as c_int);
        // SAFETY: the letter stays where it is until the request is done.
        let status = unsafe { (mpi.isend)(data, length, mpi.constants.byte, to, TAG, self.letters, &raw mut request) };
        if status == 0 {
            post.sent.push((request, letter));
        } else {
            // MPI may still read this buffer, so it is leaked.
            std::mem::forget(letter);
        }
    }

    /// Receives the liveness messages that have arrived, and answers requests.
    fn attend(&self, post: &mut Post) {
        let (mpi, mut status) = (&self.channel.mpi, Status::new());
        post.sent.retain_mut(|(request, _)| {
            let mut is_done = 0;
            // SAFETY: a request that was started and is not done yet; there is room for any family's status.
            let code = unsafe { (mpi.test)(request, &raw mut is_done, &raw mut status) };
            code == 0 && is_done == 0
        });
        let (any, byte, letters) = (mpi.constants.any_source, mpi.constants.byte, self.letters);
        loop {
            let mut is_there = 0;
            // SAFETY: there is room for any family's status.
            let code = unsafe { (mpi.probe)(any, TAG, letters, &raw mut is_there, &raw mut status) };
            if code != 0 || is_there == 0 {
                return;
            }
            let mut letter: Letter = [0; 3];
            let (to, length) = ((&raw mut letter).cast(), size_of::<Letter>() as c_int);
            // SAFETY: it is there, so that nothing is waited for; letters are of that length.
            let code = unsafe { (mpi.receive)(to, length, byte, any, TAG, letters, &raw mut status) };
            if code != 0 {
                return;
            }
            let [what, from, about] = letter;
            match what {
                ASK => {
                    post.is_asked = true;
                    self.tell(post, from as usize, HERE, self.channel.rank);
                }
                HERE => post.here.push(from as usize),
                SILENT => self.say_silent(about as usize),
                _ => {}
            }
        }
    }

    fn say_silent(&self, rank: usize) {
        let limit = self.limit.unwrap_or_default();
        let seconds = limit.as_secs_f64();
        self.abort(
            rank,
            &format!("it hangs: no sign of it for {seconds} s, as if stopped or out of reach; {}", remedy(limit)),
        );
    }
}

/// The hang timer of a rank that waits for another one.
pub(super) struct Patience {
    limit: Option<Duration>,
    lived: Lived,
    peer: Option<usize>,
    /// The time since the last sign of life of `peer`.
    silent: Duration,
    since_look: Duration,
    since_ask: Duration,
    /// The time since the reporting rank was notified.
    since_told: Option<Duration>,
}

impl Patience {
    pub(super) fn new(limit: Option<Duration>) -> Self {
        let none = Duration::ZERO;
        Self {
            limit,
            lived: Lived::new(),
            peer: None,
            silent: none,
            since_look: none,
            since_ask: none,
            since_told: None,
        }
    }

    /// Checks for a hang; to be called repeatedly while waiting for `peer`.
    pub(super) fn look<H: Handle>(&mut self, world: &World<H>, post: &mut Post, peer: usize) {
        let Some(limit) = self.limit else { return };
        if self.peer.replace(peer) != Some(peer) {
            *self = Self { peer: Some(peer), since_look: self.since_look, ..Self::new(self.limit) };
        }
        let step = self.lived.step();
        self.silent += step;
        self.since_look += step;
        self.since_ask += step;
        if self.since_look < ROUND {
            return;
        }
        self.since_look = Duration::ZERO;
        world.attend(post);
        if post.here.drain(..).any(|rank| rank == peer) {
            (self.silent, self.since_told) = (Duration::ZERO, None);
        }
        if self.silent > limit / 4 && self.since_ask > limit / 16 {
            self.since_ask = Duration::ZERO;
            world.tell(post, peer, ASK, peer);
        }
        if self.silent > limit {
            // If several ranks wait for `peer`, only one of them reports it.
            let speaker = usize::from(peer == 0);
            match &mut self.since_told {
                None if speaker != world.channel.rank => {
                    world.tell(post, speaker, SILENT, peer);
                    self.since_told = Some(Duration::ZERO);
                }
                Some(since) if *since < UNTIL_SAID => *since += ROUND,
                _ => world.say_silent(peer),
            }
        }
    }
}

/// The thread that answers liveness requests while the rank does not wait in MPI.
pub(super) struct Watch {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub(super) fn start<H: Handle>(world: &Arc<World<H>>, limit: Duration) -> Result<Self> {
        let (end, ended) = channel::<()>();
        let world = Arc::downgrade(world);
        let round = (2 * ROUND).min(limit / 8);
        let work = move || {
            let mut idle = Idle::new();
            let mut since_asked = Duration::MAX;
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(round) {
                let Some(world) = Weak::upgrade(&world) else { return };
                // A rank that waits in an exchange answers there.
                let Some(mut post) = world.free_turn() else {
                    idle.observe(false);
                    continue;
                };
                world.attend(&mut post);
                let is_asked = std::mem::take(&mut post.is_asked);
                since_asked = if is_asked { Duration::ZERO } else { since_asked.saturating_add(round) };
                let has_exchanged = std::mem::take(&mut post.has_exchanged);
                let nothing_done = idle.observe(world.is_iterating.load(Ordering::Relaxed) && !has_exchanged);
                if nothing_done > limit && since_asked < limit {
                    let seconds = limit.as_secs_f64();
                    let what = format!("it hangs: it has neither computed nor exchanged anything for {seconds} s");
                    world.abort(world.channel.rank, &format!("{what}; {}", remedy(limit)));
                }
            }
        };
        let thread = std::thread::Builder::new().name("watch".into()).spawn(work);
        let thread =
            thread.map_err(|error| failure(format!("the thread that answers ranks cannot be started: {error}")))?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _a_defect_was_said = thread.join();
        }
    }
}
