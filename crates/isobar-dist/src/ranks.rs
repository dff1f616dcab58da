//! This module describes the ranks of a job to a back end.

use std::sync::Arc;

use isobar_core::backend::nothing;
use isobar_core::prelude::{Colour, Meanwhile, Result, Shape, Shares};

use crate::communicator::{Communicator, Message};
use crate::edge::{Edge, Handed};
use crate::slabs::{Slabs, too_thin};

/// The tag of messages of pipelined substitution; smaller tags are those of the colours.
const HANDED: u32 = 2;
/// The first tag of messages whose tags contain their direction.
const DIRECTED: u32 = 8;

/// The ranks that share a grid, seen by one of them: each has consecutive rows.
#[derive(Debug)]
pub struct Ranks {
    world: Arc<dyn Communicator>,
    /// A grid of multigrid that is divided at the same rows as the finer one.
    coarser: Option<(Shape, Slabs)>,
}

impl Ranks {
    pub(crate) fn new(world: Arc<dyn Communicator>) -> Self {
        Self { world, coarser: None }
    }

    /// Returns the job's communicator.
    pub fn world(&self) -> &Arc<dyn Communicator> {
        &self.world
    }

    /// Returns the number of this rank, from 0.
    pub fn rank(&self) -> usize {
        self.world.rank()
    }

    /// Returns the number of ranks.
    pub fn size(&self) -> usize {
        self.world.size()
    }

    /// Returns how the rows of a grid are divided.
    ///
    /// # Errors
    /// The errors of [`Slabs::new`].
    pub fn slabs(&self, shape: Shape) -> Result<Slabs> {
        match &self.coarser {
            Some((grid, slabs)) if *grid == shape => Ok(slabs.clone()),
            _ => Slabs::new(shape, self.size()),
        }
    }

    /// Returns these ranks, which divide a grid like that.
    pub(crate) fn dividing(&self, grid: Shape, slabs: Slabs) -> Self {
        Self { world: Arc::clone(&self.world), coarser: Some((grid, slabs)) }
    }

    /// Returns how the rows of a grid with Galerkin levels are divided.
    ///
    /// # Errors
    /// The errors of [`Slabs::new`]; [`Error::Unsupported`](isobar_core::Error::Unsupported) if a pair of rows is divided.
    pub fn pairs_of_rows(&self, grid: Shape) -> Result<Slabs> {
        let slabs = self.slabs(grid)?;
        if slabs.halved().is_none() { Err(too_thin(grid.ny, self.size())) } else { Ok(slabs) }
    }

    /// Implements [`Backend::shares`](isobar_core::backend::Backend::shares).
    pub fn shares(&self, grid: Shape) -> Option<Shares> {
        Some(self.slabs(grid).ok()?.shares())
    }

    /// Marks this rank as one that alternates between computing and exchanging, as long as the guard lives: if it then does neither for
    /// long, it is reported to hang.
    pub fn watch(&self) -> Watched<'_> {
        self.world.set_iterating(true);
        Watched(&*self.world)
    }

    /// Sends the edges of a subdomain to the neighbours, perhaps around a periodic direction, and receives theirs; `meanwhile` is done,
    /// once, while they travel.
    pub(crate) fn exchange(&self, edges: &mut [Edge<'_, u8>], meanwhile: Meanwhile<'_>) -> Result<()> {
        let (rank, size) = (self.rank(), self.size());
        let mut messages = Vec::with_capacity(2 * edges.len());
        for Edge { is_after, colour, send, receive } in edges {
            let (peer, colour) = ((rank + if *is_after { 1 } else { size - 1 }) % size, *colour as u32);
            if size > 2 {
                messages.push(Message { peer, tag: colour, send, receive });
                continue;
            }
            // In a periodic direction of two subdomains the same rank is on both sides, so tags contain the direction of messages.
            let tag = |is_after: bool| DIRECTED + 2 * u32::from(is_after) + colour;
            messages.push(Message { peer, tag: tag(*is_after), send, receive: &mut [] });
            messages.push(Message { peer, tag: tag(!*is_after), send: &[], receive });
        }
        self.world.exchange_while(&mut messages, meanwhile)
    }

    /// Sends bytes to the ranks with the rows before and after, perhaps around a periodic direction, and receives bytes from them. Nothing is sent to, or
    /// received from, a side where there are none.
    ///
    /// # Errors
    /// The errors of [`Communicator::exchange`].
    pub fn exchange_sides(&self, send: [&[u8]; 2], receive: [&mut [u8]; 2]) -> Result<()> {
        let sides = [false, true].into_iter().zip(send.into_iter().zip(receive));
        let edges = sides.map(|(is_after, (send, receive))| Edge { is_after, colour: Colour::Red, send, receive });
        let mut edges: Vec<Edge<'_, u8>> = edges.filter(|edge| !edge.send.is_empty()).collect();
        self.exchange(&mut edges, &mut nothing)
    }

    /// Implements [`PartBackend::hand_on`](crate::PartBackend::hand_on). What one call sends, the neighbour receives in one call.
    pub(crate) fn hand_on(&self, Handed { upwards, send, receive }: Handed<'_, u8>) -> Result<()> {
        let rank = self.rank();
        let peer = |is_next: bool| if is_next { rank + 1 } else { rank - 1 };
        let mut messages = Vec::with_capacity(2);
        if !send.is_empty() {
            messages.push(Message { peer: peer(upwards), tag: HANDED, send, receive: &mut [] });
        }
        if !receive.is_empty() {
            messages.push(Message { peer: peer(!upwards), tag: HANDED, send: &[], receive });
        }
        self.world.exchange(&mut messages)
    }
}

/// A guard that marks a rank as alternating between computing and exchanging.
pub struct Watched<'w>(&'w dyn Communicator);

impl Watched<'_> {
    /// Runs work that may take any time, as a caller's function may, without being reported to hang.
    pub fn pause<R>(&self, work: impl FnOnce() -> R) -> R {
        self.0.set_iterating(false);
        let result = work();
        self.0.set_iterating(true);
        result
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.0.set_iterating(false);
    }
}
