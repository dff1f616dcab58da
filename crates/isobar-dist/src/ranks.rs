//! Ranks exchange halo rows, pieces of rows and sums through the host.

use std::sync::Arc;

use isobar_core::backend::part::{Edge, Exchange, Handed, Meanwhile};
use isobar_core::error::Result;

use crate::communicator::{Communicator, Message};

/// The tag of what is handed on, beside those of the colours.
const HANDED: u32 = 2;
/// The first tag of messages that say which way they go.
const DIRECTED: u32 = 8;

/// The ranks of a job, numbered along x first.
#[derive(Debug)]
pub(crate) struct Ranks {
    pub(crate) world: Arc<dyn Communicator>,
    /// How many parts x and y are divided in.
    pub(crate) parts: [usize; 2],
}

impl Ranks {
    /// The rank so many parts further in x and in y, perhaps around periodic directions.
    fn neighbour(&self, [to_x, to_y]: [isize; 2]) -> usize {
        let (rank, [in_x, in_y]) = (self.world.rank(), self.parts);
        let further = |part: usize, to: isize, parts: usize| (part + parts).wrapping_add_signed(to) % parts;
        further(rank % in_x, to_x, in_x) + in_x * further(rank / in_x, to_y, in_y)
    }
}

impl Exchange for Ranks {
    fn edges(&self, edges: &mut [Edge<'_, u8>], meanwhile: Meanwhile<'_>) -> Result<()> {
        let mut messages = Vec::with_capacity(2 * edges.len());
        for Edge { towards, colour, send, receive } in edges {
            let (peer, colour, [to_x, to_y]) = (self.neighbour(*towards), *colour as u32, *towards);
            if to_x == 0 && self.parts[1] > 2 {
                messages.push(Message { peer, tag: colour, send, receive });
                continue;
            }
            // On a ring of two parts the same rank is on both sides: tags say which way messages go.
            let tag = |x: isize, y: isize| DIRECTED + 2 * (3 * (y + 1) + x + 1).unsigned_abs() as u32 + colour;
            messages.push(Message { peer, tag: tag(to_x, to_y), send, receive: &mut [] });
            messages.push(Message { peer, tag: tag(-to_x, -to_y), send: &[], receive });
        }
        self.world.exchange_while(&mut messages, meanwhile)
    }

    fn hand_on(&self, Handed { upwards, send, receive }: Handed<'_, u8>) -> Result<()> {
        let rank = self.world.rank();
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

    fn sum(&self, numbers: &mut [f64]) -> Result<()> {
        self.world.sum(numbers)
    }
}
