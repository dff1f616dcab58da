//! The interface of a transport.

use std::fmt::Debug;

use isobar_core::backend::{Meanwhile, nothing};
use isobar_core::error::{Error, Result};
use isobar_core::real::{bytes_of, bytes_of_mut};

use crate::told::{Tell, Told};

/// A message from one rank to another and one back. An empty slice is no message.
#[derive(Debug)]
pub struct Message<'a> {
    /// The other rank.
    pub peer: usize,
    /// Tells messages of one exchange between two ranks apart.
    pub tag: u32,
    /// The bytes for the other rank.
    pub send: &'a [u8],
    /// Where what it sends goes; of exactly that length.
    pub receive: &'a mut [u8],
}

/// The ranks of a job, seen by one of them.
///
/// All ranks make the same calls in the same order.
pub trait Communicator: Debug + Send + Sync + 'static {
    /// The number of this rank, from 0.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn size(&self) -> usize;

    /// Sends and receives messages, all at the same time, and returns when those to be received have come. While they are under
    /// way `meanwhile` is called, once, which uses none of what is received and does not change what is sent.
    ///
    /// # Errors
    /// [`Error::Device`] where another rank has failed, or the transport does.
    fn exchange_while(&self, messages: &mut [Message<'_>], meanwhile: Meanwhile<'_>) -> Result<()>;

    /// [`Communicator::exchange_while`] with nothing to do meanwhile.
    fn exchange(&self, messages: &mut [Message<'_>]) -> Result<()> {
        self.exchange_while(messages, &mut nothing)
    }

    /// Collects what every rank has, `counts[rank]` bytes of it, one after another in `all`.
    ///
    /// By Bruck's algorithm: in ⌈log₂ size⌉ rounds, in each of which ranks send all that they have so far, so that who waits
    /// always waits for one rank, and knows for which.
    ///
    /// # Errors
    /// As [`Communicator::exchange`]; [`Error::Device`] for slices of other lengths.
    fn all_gather(&self, mine: &[u8], counts: &[usize], all: &mut [u8]) -> Result<()> {
        let (rank, size) = (self.rank(), self.size());
        let total: usize = counts.iter().sum();
        if all.len() != total || counts.len() != size || counts[rank] != mine.len() {
            let message = format!("{total} bytes of {} ranks to be gathered in {}", counts.len(), all.len());
            return Err(Error::Device { device: format!("rank {rank} of {size}"), message });
        }
        let bytes = |blocks: std::ops::Range<usize>| -> usize { blocks.map(|n| counts[(rank + n) % size]).sum() };
        // This rank's, and those of the ranks after it.
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

    /// Collects what every rank has, as much of it on each, one after another.
    fn all_gather_equal(&self, mine: &[u8]) -> Result<Vec<u8>> {
        let mut all = vec![0; self.size() * mine.len()];
        self.all_gather(mine, &vec![mine.len(); self.size()], &mut all)?;
        Ok(all)
    }

    /// Says whether this rank computes and exchanges by turns from now on: one that then does neither for long is found to hang.
    fn set_iterating(&self, _is_iterating: bool) {}

    /// Begins what all ranks do together, and says so; or that it is a part of what they do already.
    fn begin(&self) -> bool {
        true
    }

    /// Ends what all ranks have done together: `mine` is what went wrong on this one. Returns the failure of the first rank that has
    /// one, and that rank, when all know it, and nothing is under way between them any more; nothing where all is well, or where
    /// that failure is this rank's own. A transport that cannot tell others says nothing.
    fn settle(&self, _mine: Option<Told>) -> Option<(usize, Told)> {
        None
    }

    /// Ends the whole job, as far as a transport can: a rank that waits for this one must not wait for ever. Where that ends
    /// this process too, it does not return.
    fn abort(&self, why: &str);

    /// values = the sums of all ranks' values, in the order of ranks, the same on all
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

    /// Gives all ranks what rank 0 has.
    fn broadcast(&self, data: &mut [u8]) -> Result<()> {
        if self.rank() > 0 {
            return self.exchange(&mut [Message { peer: 0, tag: COLLECTIVE, send: &[], receive: data }]);
        }
        let message = |peer| Message { peer, tag: COLLECTIVE, send: &*data, receive: &mut [] };
        self.exchange(&mut (1..self.size()).map(message).collect::<Vec<_>>())
    }

    /// Collects what every rank has at rank 0, `counts[rank]` bytes of it, one after another in `all`, which is empty elsewhere.
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

    /// Returns when all ranks have come here.
    fn barrier(&self) -> Result<()> {
        let size = self.size();
        let mut all = vec![0; size];
        self.all_gather(&[1], &vec![1; size], &mut all)
    }
}

/// The tag of messages that make up what all ranks do together.
pub const COLLECTIVE: u32 = 1000;

/// Returns a hash of bytes that is the same on every machine, FNV-1a.
pub fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Agrees on whether all ranks have got so far: where one has not, all get its error, which names it; the first of several, and
/// that of all without a name where it is the same.
///
/// # Errors
/// The error that all ranks get; those of [`Communicator::exchange`].
pub fn agree<R>(world: &dyn Communicator, mine: Result<R>) -> Result<R> {
    if world.size() == 1 {
        return mine;
    }
    // Its kind, and its words.
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
