//! This module cancels all pending messages after one rank has failed, so that the next call can begin.
//!
//! A rank that fails sends every other a notice: the number of messages that it has ever sent there, and its failure. A rank that waits
//! for a message also checks for notices, and then does the same. Each rank then cancels its pending receives and receives all messages
//! that the others report as sent, so that all sends complete as well. No message is left, all ranks know all failures, and the next
//! call begins as if nothing had happened. A successful call ends with a barrier, in which a waiting rank is notified of one that has
//! failed.

use std::ffi::c_int;

use isobar_core::error::Result;

use super::channel::Started;
use super::failure::failure;
use super::functions::{Handle, Request, Status};
use super::guest::Guest;
use crate::communicator::Communicator;
use crate::told::{Kind, Told};

/// The number of tags of notices, which are the numbers of calls: MPI guarantees tags up to 32767.
const NUMBERS: c_int = 1 << 14;

/// One rank's state of a collective operation.
pub(super) struct Affairs {
    /// The number of the call.
    number: c_int,
    /// Whether a collective operation is in progress.
    is_within: bool,
    /// The numbers of messages sent to each rank, and received from each.
    sent: Vec<u64>,
    received: Vec<u64>,
    failure: Option<Failure>,
}

/// The failure that all ranks agreed on for the current call.
struct Failure {
    rank: usize,
    told: Told,
    /// Whether every rank has failed with the same message.
    is_everybodys: bool,
}

/// A failure notice from one rank to another.
struct Letter {
    sent: u64,
    failure: Option<Told>,
}

impl Letter {
    fn bytes(&self) -> Vec<u8> {
        let told = self.failure.as_ref().map(Told::to_bytes).unwrap_or_default();
        self.sent.to_le_bytes().into_iter().chain(told).collect()
    }

    fn read(bytes: &[u8]) -> Result<Self> {
        match bytes.split_first_chunk() {
            Some((&sent, told)) => Ok(Self { sent: u64::from_le_bytes(sent), failure: Told::from_bytes(told) }),
            None => Err(failure(format!("a letter of {} bytes", bytes.len()))),
        }
    }
}

impl Affairs {
    pub(super) fn new(ranks: usize) -> Self {
        Self { number: 0, is_within: false, sent: vec![0; ranks], received: vec![0; ranks], failure: None }
    }

    /// Begins a collective call; returns false within another one.
    pub(super) fn begin(&mut self) -> bool {
        if std::mem::replace(&mut self.is_within, true) {
            return false;
        }
        self.number = (self.number + 1) % NUMBERS;
        self.failure = None;
        true
    }

    /// Ends the call; returns its failure unless all ranks, this one included, reported the same one.
    pub(super) fn end(&mut self, mine: Option<&Told>) -> Option<(usize, Told)> {
        self.is_within = false;
        let failure = self.failure.take()?;
        let stands = failure.is_everybodys && mine.is_some_and(|mine| *mine == failure.told);
        (!stands).then_some((failure.rank, failure.told))
    }

    /// Returns the failure of the present call, if there is one.
    pub(super) fn failure(&self) -> Option<(usize, Told)> {
        self.failure.as_ref().map(|failure| (failure.rank, failure.told.clone()))
    }

    /// Counts messages.
    pub(super) fn note(&mut self, started: &[Started]) {
        for message in started {
            match message.expected {
                None => self.sent[message.peer] += 1,
                Some(_) if message.is_over => self.received[message.peer] += 1,
                Some(_) => {}
            }
        }
    }
}

impl<H: Handle> Guest<H> {
    /// Returns whether another rank has sent a failure notice for the current call.
    pub(super) fn has_letters(&self, affairs: &Affairs) -> bool {
        let (mpi, mut is_there, mut status) = (&self.channel.mpi, 0, Status::new());
        let any = mpi.constants.any_source;
        // SAFETY: there is room for any family's status.
        let code = unsafe { (mpi.probe)(any, affairs.number, self.letters, &raw mut is_there, &raw mut status) };
        code == 0 && is_there != 0
    }

    /// Exchanges failure notices with all ranks, completes or cancels this rank's messages, and returns the first failure and its rank;
    /// `mine` is this rank's own.
    pub(super) fn meet(&self, affairs: &mut Affairs, mine: Option<Told>, started: &mut [Started]) -> (usize, Told) {
        let letters = self.exchange_letters(affairs, mine.clone(), started);
        let failures = match letters {
            Ok(failures) => failures,
            Err(error) => {
                self.abort(&format!("MPI fails while ranks tell each other of a failure: {error}"));
                // MPI may still be reading the send buffers.
                std::process::abort();
            }
        };
        let all = || failures.iter().enumerate().filter_map(|(rank, told)| Some((rank, told.clone()?)));
        let first = all().find(|(_, told)| told.kind == Kind::NotFinite).or_else(|| all().next());
        let unknown = || Told { kind: Kind::Device, message: "a rank has failed and not said why".into() };
        let (rank, told) = first.unwrap_or_else(|| (self.channel.rank, mine.unwrap_or_else(unknown)));
        let is_everybodys = failures.iter().all(|other| other.as_ref() == Some(&told));
        affairs.failure = Some(Failure { rank, told: told.clone(), is_everybodys });
        (rank, told)
    }

    /// Completes all messages between ranks, then returns the failure of each rank.
    fn exchange_letters(
        &self,
        affairs: &mut Affairs,
        mine: Option<Told>,
        started: &mut [Started],
    ) -> Result<Vec<Option<Told>>> {
        let (rank, size, mpi) = (self.channel.rank, self.channel.size, &self.channel.mpi);
        let mut turn = self.turn();
        for message in started.iter_mut().filter(|message| message.expected.is_some() && !message.is_over) {
            self.withdraw(message, affairs)?;
        }
        let others = || (0..size).filter(|&peer| peer != rank);
        let letter = |peer: usize| Letter { sent: affairs.sent[peer], failure: mine.clone() }.bytes();
        let texts: Vec<(usize, Vec<u8>)> = others().map(|peer| (peer, letter(peer))).collect();
        let mut letters: Vec<Request> = Vec::with_capacity(texts.len());
        for (peer, text) in &texts {
            let (mut request, length, byte) = (0, text.len() as c_int, mpi.constants.byte);
            let (to, tag) = (*peer as c_int, affairs.number);
            // SAFETY: the text stays until its request is done, below.
            let code =
                unsafe { (mpi.isend)(text.as_ptr().cast(), length, byte, to, tag, self.letters, &raw mut request) };
            mpi.check("MPI_Isend", code)?;
            letters.push(request);
        }
        let mut heard: Vec<Option<Letter>> = (0..size).map(|_| None).collect();
        loop {
            let mut is_over = true;
            for peer in others() {
                match &heard[peer] {
                    None => {
                        is_over = false;
                        let text = self.take(self.letters, peer, affairs.number)?;
                        heard[peer] = text.map(|text| Letter::read(&text)).transpose()?;
                    }
                    Some(letter) if affairs.received[peer] < letter.sent => {
                        is_over = false;
                        let any = mpi.constants.any_tag;
                        let message = self.take(self.channel.communicator, peer, any)?;
                        affairs.received[peer] += u64::from(message.is_some());
                    }
                    Some(_) => {}
                }
            }
            for message in started.iter_mut().filter(|message| !message.is_over) {
                is_over &= self.channel.test(message)?;
            }
            let mut still_sent = Ok(());
            letters.retain_mut(|request| {
                let (mut is_done, mut status) = (0, Status::new());
                // SAFETY: a request that was started and is not done yet.
                let code = unsafe { (mpi.test)(request, &raw mut is_done, &raw mut status) };
                if let Err(error) = mpi.check("MPI_Test", code) {
                    still_sent = Err(error);
                }
                is_done == 0
            });
            still_sent?;
            if is_over && letters.is_empty() {
                break;
            }
            self.rest(&mut turn);
        }
        let failures = heard.into_iter().enumerate();
        Ok(failures.map(|(n, letter)| if n == rank { mine.clone() } else { letter?.failure }).collect())
    }

    /// Cancels a receive whose message has not arrived.
    fn withdraw(&self, message: &mut Started, affairs: &mut Affairs) -> Result<()> {
        let (mpi, mut status) = (&self.channel.mpi, Status::new());
        // SAFETY: a request that was started and is not done yet.
        mpi.check("MPI_Cancel", unsafe { (mpi.cancel)(&raw mut message.request) })?;
        while !message.is_over {
            let mut is_done = 0;
            // SAFETY: as before; there is room for any family's status.
            let code = unsafe { (mpi.test)(&raw mut message.request, &raw mut is_done, &raw mut status) };
            message.is_over = is_done != 0 || code != 0;
        }
        let mut is_cancelled = 0;
        // SAFETY: a status that the library has filled.
        mpi.check("MPI_Test_cancelled", unsafe { (mpi.test_cancelled)(&raw const status, &raw mut is_cancelled) })?;
        affairs.received[message.peer] += u64::from(is_cancelled == 0);
        Ok(())
    }

    /// Receives a message from a rank, if one has arrived.
    fn take(&self, communicator: H, peer: usize, tag: c_int) -> Result<Option<Vec<u8>>> {
        let (mpi, from, mut is_there, mut status) = (&self.channel.mpi, peer as c_int, 0, Status::new());
        // SAFETY: there is room for any family's status.
        let code = unsafe { (mpi.probe)(from, tag, communicator, &raw mut is_there, &raw mut status) };
        mpi.check("MPI_Iprobe", code)?;
        if is_there == 0 {
            return Ok(None);
        }
        let mut bytes = vec![0u8; mpi.count(&status)?];
        let (to, length, byte) = (bytes.as_mut_ptr().cast(), bytes.len() as c_int, mpi.constants.byte);
        // SAFETY: it is there, so that nothing is waited for, and there is room for it.
        let code = unsafe { (mpi.receive)(to, length, byte, from, tag, communicator, &raw mut status) };
        mpi.check("MPI_Recv", code).map(|()| Some(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_read_as_they_were_written() {
        let told = |kind, message: &str| Some(Told { kind, message: message.into() });
        for (sent, failure) in
            [(0, None), (7, told(Kind::Invalid, "b has shape 3 × 3")), (u64::MAX, told(Kind::Device, ""))]
        {
            let read = Letter::read(&Letter { sent, failure: failure.clone() }.bytes()).unwrap();
            assert_eq!((read.sent, read.failure), (sent, failure));
        }
        assert!(Letter::read(&[0; 7]).is_err());
    }

    #[test]
    fn a_call_within_another_is_a_part_of_it() {
        let mut affairs = Affairs::new(2);
        assert!(affairs.begin() && !affairs.begin());
        let told = Told { kind: Kind::Invalid, message: "this".into() };
        affairs.failure = Some(Failure { rank: 1, told: told.clone(), is_everybodys: false });
        assert_eq!(affairs.end(None), Some((1, told.clone())));
        assert!(affairs.begin() && affairs.failure().is_none());
        // A failure that all ranks share is not attributed to one.
        affairs.failure = Some(Failure { rank: 0, told: told.clone(), is_everybodys: true });
        assert_eq!(affairs.end(Some(&told)), None);
    }
}
