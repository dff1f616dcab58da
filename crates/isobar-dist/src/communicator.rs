//! The interface of a transport.

use std::fmt::Debug;

use isobar_core::backend::{Meanwhile, nothing};
use isobar_core::error::{Error, Result};
use isobar_core::real::{bytes_of, bytes_of_mut};

use crate::told::{Tell, Told};

/// A message from one rank to another and one back. An empty slice is no message.
#[derive(Debug)]
pub struct Message<'a> {
    /// The other rank's number.
    pub peer: usize,
    /// Tells messages of one exchange between two ranks apart.
    pub tag: u32,
    /// The bytes for the other rank.
    pub send: &'a [u8],
    /// The buffer for the bytes that the other rank sends, of exactly their length.
    pub receive: &'a mut [u8],
}

/// The ranks of a job, seen by one of them.
///
/// All ranks make the same calls in the same order.
pub trait Communicator: Debug + Send + Sync + 'static {
    /// Returns the number of this rank, from 0.
    fn rank(&self) -> usize;

    /// Returns the number of ranks.
    fn size(&self) -> usize;

    /// Sends and receives messages, all at the same time, and returns when those to be received have arrived. In the meantime it
    /// calls `meanwhile` once, which may neither read what is received nor change what is sent.
    ///
    /// # Errors
    /// [`Error::Device`] if another rank or the transport has failed.
    fn exchange_while(&self, messages: &mut [Message<'_>], meanwhile: Meanwhile<'_>) -> Result<()>;

    /// Calls [`Communicator::exchange_while`] with nothing to do meanwhile.
    fn exchange(&self, messages: &mut [Message<'_>]) -> Result<()> {
        self.exchange_while(messages, &mut nothing)
    }

    /// Collects on every rank what all ranks have: `counts[rank]` bytes of each, one after another in `all`.
    ///
    /// Uses Bruck's algorithm: ⌈log₂ size⌉ rounds, in each of which ranks send all that they have so far. A waiting rank always
    /// waits for one known rank.
    ///
    /// # Errors
    /// The errors of [`Communicator::exchange`]; [`Error::Device`] for slices of other lengths.
    fn all_gather(&self, mine: &[u8], counts: &[usize], all: &mut [u8]) -> Result<()> {
        let (rank, size) = (self.rank(), self.size());
        let total: usize = counts.iter().sum();
        if all.len() != total || counts.len() != size || counts[rank] != mine.len() {
            let message = format!("{total} bytes of {} ranks to be gathered in {}", counts.len(), all.len());
            return Err(Error::Device { device: format!("rank {rank} of {size}"), message });
        }
        let bytes = |blocks: std::ops::Range<usize>| -> usize { blocks.map(|n| counts[(rank + n) % size]).sum() };
        // The bytes of this rank, then those of the ranks after it.
        let mut held = vec![0; total];
        held[..mine.len()].copy_from_slice(mine);
        let mut blocks = 1;
        while blocks < size {
            let more = blocks.min(size - blocks);
            let (have, rest) = held.split_at_mut(bytes(0..blocks));
            let (to, from) = ((rank + size - blocks) % size, (rank + blocks) % size);
            let (send, receive) = (&have[..bytes(0..more)], &mut rest[..bytes(blocks..blocks + more)]);
            self.exchange(&mut [
                Message { peer: to, tag: COLLECTIVE, send, receive: &mut [] },
                Message { peer: from, tag: COLLECTIVE, send: &[], receive },
            ])?;
            blocks += more;
        }
        let (before, own_and_after) = all.split_at_mut(counts[..rank].iter().sum());
        let (after, wrapped) = held.split_at(own_and_after.len());
        own_and_after.copy_from_slice(after);
        before.copy_from_slice(wrapped);
        Ok(())
    }

    /// Collects on every rank what all ranks have, equally many bytes of each, one after another.
    fn all_gather_equal(&self, mine: &[u8]) -> Result<Vec<u8>> {
        let mut all = vec![0; self.size() * mine.len()];
        self.all_gather(mine, &vec![mine.len(); self.size()], &mut all)?;
        Ok(all)
    }

    /// Sets whether this rank alternates between computing and exchanging from now on: if it then does neither for long, it is
    /// reported to hang.
    fn set_iterating(&self, _is_iterating: bool) {}

    /// Begins a collective operation; returns false within another one.
    fn begin(&self) -> bool {
        true
    }

    /// Ends a collective operation; `mine` is the failure of this rank. When all ranks know of all failures and no message is under
    /// way, it returns the first rank's failure and number; nothing if there is none, or if it is this rank's own. A transport that
    /// cannot report failures returns nothing.
    fn settle(&self, _mine: Option<Told>) -> Option<(usize, Told)> {
        None
    }

    /// Ends the whole job, as far as a transport can, so that no rank waits for this one for ever. It does not return if that ends
    /// this process too.
    fn abort(&self, why: &str);

    /// Replaces values by the sums of all ranks' values, added in the order of ranks, the same on all.
    fn sum(&self, values: &mut [f64]) -> Result<()> {
        /// Numbers of all ranks that fit on the stack.
        const FEW: usize = 128;
        let (size, n) = (self.size(), values.len());
        if size == 1 {
            return Ok(());
        }
        let (mut few, mut many) = ([0.0; FEW], Vec::new());
        let all = if size * n <= FEW {
            &mut few[..size * n]
        } else {
            many.resize(size * n, 0.0);
            &mut many[..]
        };
        let counts = vec![n * size_of::<f64>(); size];
        self.all_gather(bytes_of(values), &counts, bytes_of_mut(all))?;
        for (i, value) in values.iter_mut().enumerate() {
            *value = all.iter().skip(i).step_by(n).sum();
        }
        Ok(())
    }

    /// Copies the data of rank 0 to all ranks.
    fn broadcast(&self, data: &mut [u8]) -> Result<()> {
        if self.rank() > 0 {
            return self.exchange(&mut [Message { peer: 0, tag: COLLECTIVE, send: &[], receive: data }]);
        }
        let message = |peer| Message { peer, tag: COLLECTIVE, send: &*data, receive: &mut [] };
        self.exchange(&mut (1..self.size()).map(message).collect::<Vec<_>>())
    }

    /// Collects on rank 0 what all ranks have: `counts[rank]` bytes of each, one after another in `all`, which is empty elsewhere.
    fn gather(&self, mine: &[u8], counts: &[usize], all: &mut [u8]) -> Result<()> {
        if self.rank() > 0 {
            return self.exchange(&mut [Message { peer: 0, tag: COLLECTIVE, send: mine, receive: &mut [] }]);
        }
        let mut messages = Vec::with_capacity(counts.len());
        let mut rest = all;
        for (peer, &count) in counts.iter().enumerate() {
            let (receive, others) = rest.split_at_mut(count);
            rest = others;
            if peer == 0 {
                receive.copy_from_slice(mine);
            } else {
                messages.push(Message { peer, tag: COLLECTIVE, send: &[], receive });
            }
        }
        self.exchange(&mut messages)
    }

    /// Returns when all ranks have called it.
    fn barrier(&self) -> Result<()> {
        let size = self.size();
        let mut all = vec![0; size];
        self.all_gather(&[1], &vec![1; size], &mut all)
    }
}

/// The tag of the messages of collective operations.
pub const COLLECTIVE: u32 = 1000;

/// Returns a hash of bytes that is the same on every machine, FNV-1a.
pub fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns an error on all ranks if any rank has one: that of the first rank, with its name, or the error itself if all ranks have
/// the same.
///
/// # Errors
/// The error that all ranks get; those of [`Communicator::exchange`].
pub fn agree<R>(world: &dyn Communicator, mine: Result<R>) -> Result<R> {
    if world.size() == 1 {
        return mine;
    }
    // The error's kind and message.
    let mut text = mine.as_ref().err().map(|error| error.tell().to_bytes()).unwrap_or_default();
    let mut lengths = vec![0.0; world.size()];
    lengths[world.rank()] = text.len() as f64;
    world.sum(&mut lengths)?;
    if lengths.iter().all(|&length| length == 0.0) {
        return mine;
    }
    let counts: Vec<usize> = lengths.iter().map(|&length| length as usize).collect();
    let mut texts = vec![b' '; counts.iter().sum()];
    text.resize(counts[world.rank()], b' ');
    world.all_gather(&text, &counts, &mut texts)?;
    let rank = counts.iter().position(|&count| count > 0).unwrap_or(0);
    let first = &texts[..counts[rank]];
    let is_everybodys =
        counts.iter().all(|count| *count == first.len()) && texts.chunks(first.len()).all(|t| t == first);
    match mine {
        Err(error) if is_everybodys => Err(error),
        _ => Err(match Told::from_bytes(first) {
            Some(told) => Error::told([rank, world.size()], told),
            None => Error::Device { device: format!("rank {rank} of {}", world.size()), message: "no message".into() },
        }),
    }
}
