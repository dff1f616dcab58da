//! Whether the others are still alive, and showing them that this rank is.
//!
//! A rank that has waited for another one for a while asks it for a sign, by a letter beside all messages; a process that runs
//! answers, whatever it is at: while it waits itself, by the loop in which it does; while it computes, reads or writes, by a
//! thread that takes its turn at MPI every half second. So a rank may be as slow as it likes, and who waits for one that waits
//! for a third is told that it is alive. One that does not answer is stopped or out of reach. One that answers, but neither
//! computes nor exchanges where it should do either, finds that out itself.

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

/// The tag of letters.
const TAG: c_int = 0;
/// How often letters are looked for.
const ROUND: Duration = Duration::from_millis(250);
/// How long the rank that speaks for all may take to say what it was told.
const UNTIL_SAID: Duration = Duration::from_secs(3);

/// Its subject, the rank that sent it, and the rank that it is about.
type Letter = [u64; 3];
/// Are you there?
const ASK: u64 = 1;
/// I am.
const HERE: u64 = 2;
/// The rank does not answer.
const SILENT: u64 = 3;

/// Letters on their way, kept by whoever has the turn.
pub(super) struct Post {
    sent: Vec<(Request, Box<Letter>)>,
    /// Who has answered since that was looked at.
    here: Vec<usize>,
    /// Whether somebody waits for this rank.
    is_asked: bool,
    /// Whether there was an exchange since that was looked at.
    pub(super) has_exchanged: bool,
}

impl Post {
    pub(super) fn new() -> Self {
        Self { sent: Vec::new(), here: Vec::new(), is_asked: false, has_exchanged: false }
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        // What may still be read must not go away.
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
            // What may be read yet must not go away.
            std::mem::forget(letter);
        }
    }

    /// Reads the letters that have come, and answers.
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

/// How a rank waits for another one.
pub(super) struct Patience {
    limit: Option<Duration>,
    lived: Lived,
    peer: Option<usize>,
    /// Since the last sign of it.
    silent: Duration,
    since_look: Duration,
    since_ask: Duration,
    /// Since the rank that speaks for all was told.
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

    /// To be called all the time while waiting for `peer`.
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
            // One rank says it, where several wait.
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

/// The thread that answers where the others do not come to it.
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
                // Who waits in an exchange answers itself.
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
