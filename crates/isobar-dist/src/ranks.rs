//! The ranks of a job, as a back end knows them.

use std::sync::Arc;

use isobar_core::layout::needs_whole_rows;
use isobar_core::prelude::{Meanwhile, Patch, Result, Shape, Shares};

use crate::communicator::{Communicator, Message};
use crate::edge::{Edge, Handed};
use crate::patches::{Patches, too_thin};
use crate::slabs::Slabs;

/// The tag of what is handed on, beside those of the colours.
const HANDED: u32 = 2;
/// The first tag of messages that say which way they go.
const DIRECTED: u32 = 8;

/// The ranks that share a grid, seen by one of them: each has a rectangle of columns, numbered along x first.
#[derive(Debug)]
pub struct Ranks {
    world: Arc<dyn Communicator>,
    pub(crate) parts: [usize; 2],
    /// A grid of multigrid that is divided in the same places as the finer one.
    coarser: Option<(Shape, Patches)>,
}

impl Ranks {
    pub(crate) fn new(world: Arc<dyn Communicator>, parts: [usize; 2]) -> Self {
        Self { world, parts, coarser: None }
    }

    /// The job.
    pub fn world(&self) -> &Arc<dyn Communicator> {
        &self.world
    }

    /// The number of this rank, from 0.
    pub fn rank(&self) -> usize {
        self.world.rank()
    }

    /// How many ranks there are.
    pub fn size(&self) -> usize {
        self.world.size()
    }

    /// Whether every rank has whole rows.
    pub fn has_whole_rows(&self) -> bool {
        self.parts[0] == 1
    }

    /// How the columns of a grid are divided.
    pub fn patches(&self, shape: Shape) -> Result<Patches> {
        match &self.coarser {
            Some((grid, patches)) if *grid == shape => Ok(patches.clone()),
            _ => Patches::new(shape, self.parts),
        }
    }

    /// These ranks, which divide a grid like that.
    pub(crate) fn dividing(&self, grid: Shape, patches: Patches) -> Self {
        Self { world: Arc::clone(&self.world), parts: self.parts, coarser: Some((grid, patches)) }
    }

    /// The columns of a grid that this rank has.
    pub fn patch(&self, shape: Shape) -> Result<Patch> {
        Ok(self.patches(shape)?.of(self.rank()))
    }

    /// How the rows of a grid are divided, for what works on whole ones alone and is called `what`.
    ///
    /// # Errors
    /// As [`Slabs::new`]; [`Error::Unsupported`](isobar_core::Error::Unsupported) where x is divided.
    pub(crate) fn slabs(&self, shape: Shape, what: &str) -> Result<Slabs> {
        if self.has_whole_rows() { Slabs::new(shape, self.size()) } else { Err(needs_whole_rows(what)) }
    }

    /// How the rows of a grid with Galerkin levels are divided.
    ///
    /// # Errors
    /// As [`Slabs::new`]; [`Error::Unsupported`](isobar_core::Error::Unsupported) where x is divided, or a pair of rows.
    pub fn pairs_of_rows(&self, grid: Shape) -> Result<Slabs> {
        self.slabs(grid, "multigrid on Galerkin grids")?;
        let patches = self.patches(grid)?;
        if patches.rows().halved().is_none() { Err(too_thin(grid, &patches)) } else { Ok(patches.rows().clone()) }
    }

    /// [`Backend::shares`](isobar_core::backend::Backend::shares).
    pub fn shares(&self, grid: Shape) -> Option<Shares> {
        Some(self.patches(grid).ok()?.shares())
    }

    /// Marks this rank as one that computes and exchanges in turn, as long as the guard lives: one that then does neither for long is
    /// found to hang.
    pub fn watch(&self) -> Watched<'_> {
        self.world.set_iterating(true);
        Watched(&*self.world)
    }

    /// The rank so many parts further in x and in y, perhaps around periodic directions.
    fn neighbour(&self, [to_x, to_y]: [isize; 2]) -> usize {
        let (rank, [in_x, in_y]) = (self.rank(), self.parts);
        let further = |part: usize, to: isize, parts: usize| (part + parts).wrapping_add_signed(to) % parts;
        further(rank % in_x, to_x, in_x) + in_x * further(rank / in_x, to_y, in_y)
    }

    /// Sends the edges of a subdomain to the neighbours, and receives theirs; `meanwhile` is done, once, while they travel.
    pub(crate) fn exchange(&self, edges: &mut [Edge<'_, u8>], meanwhile: Meanwhile<'_>) -> Result<()> {
        let mut messages = Vec::with_capacity(2 * edges.len());
        for Edge { towards, colour, send, receive } in edges {
            let (peer, colour, [to_x, to_y]) = (self.neighbour(*towards), *colour as u32, *towards);
            if to_x == 0 && self.parts[1] > 2 {
                messages.push(Message { peer, tag: colour, send, receive });
                continue;
            }
            // In a periodic direction of two parts the same rank is on both sides: tags say which way messages go.
            let tag = |x: isize, y: isize| DIRECTED + 2 * (3 * (y + 1) + x + 1).unsigned_abs() as u32 + colour;
            messages.push(Message { peer, tag: tag(to_x, to_y), send, receive: &mut [] });
            messages.push(Message { peer, tag: tag(-to_x, -to_y), send: &[], receive });
        }
        self.world.exchange_while(&mut messages, meanwhile)
    }

    /// [`PartBackend::hand_on`](crate::PartBackend::hand_on). What is sent in one call the neighbour receives in one call.
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

/// A rank that computes and exchanges in turn.
pub struct Watched<'w>(&'w dyn Communicator);

impl Watched<'_> {
    /// Does something that may take any time, as a caller's function may.
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
