//! Messages between subdomains for loops that visit unknowns in order.

use isobar_core::prelude::{Layout, Real, Result};
use isobar_dist::part::{Handed, PartBackend};

use super::tiles::Tile;
use crate::{Cpu, Shared};

/// Receives pieces of the halo row before a subdomain's rows, in the order of unknowns or in reverse, and sends those of its last
/// row: a tile's layers and columns at a time.
pub(crate) struct Relay<'a, T> {
    cpu: &'a Cpu,
    layout: Layout,
    /// Whether messages cross the subdomain's first end, and its last.
    crosses: [bool; 2],
    sent: Vec<T>,
    received: Vec<T>,
}

impl<'a, T: Real> Relay<'a, T> {
    /// Crosses those ends that have a neighbour.
    pub(crate) fn new(cpu: &'a Cpu, layout: &Layout, crosses: [bool; 2]) -> Self {
        let halo = layout.halo();
        let crosses = [crosses[0] && halo[0] > 0, crosses[1] && halo[1] > 0];
        Self { cpu, layout: *layout, crosses, sent: Vec::new(), received: Vec::new() }
    }

    /// Receives the previous subdomain's v of one tile, and sends this subdomain's v of another.
    ///
    /// # Safety
    /// Nothing else may use v meanwhile.
    pub(crate) unsafe fn turn(
        &mut self,
        upwards: bool,
        v: Shared<T>,
        receive: Option<Tile>,
        send: Option<Tile>,
    ) -> Result<()> {
        let [before, behind] = if upwards { self.crosses } else { [self.crosses[1], self.crosses[0]] };
        let (receive, send) = (receive.filter(|_| before), send.filter(|_| behind));
        if receive.is_none() && send.is_none() {
            return Ok(());
        }
        let Self { cpu, layout, sent, received, .. } = self;
        let rows = layout.shape().ny as isize;
        let (own, halo) = if upwards { (rows - 1, -1) } else { (0, rows) };
        sent.clear();
        for (position, n) in send.iter().flat_map(|tile| places(layout, own, tile)) {
            // SAFETY: promised by the caller.
            sent.extend_from_slice(unsafe { v.row(position, n) });
        }
        let to = || receive.iter().flat_map(|tile| places(layout, halo, tile));
        received.resize(to().map(|(_, n)| n).sum(), T::ZERO);
        cpu.hand_on(Handed { upwards, send: sent, receive: received })?;
        let mut rest = &received[..];
        for (position, n) in to() {
            let (from, others) = rest.split_at(n);
            // SAFETY: promised by the caller.
            unsafe { v.row_mut(position, n) }.copy_from_slice(from);
            rest = others;
        }
        Ok(())
    }
}

/// Returns the places of a tile's rows in row j of the grid, and their lengths: cells with even i first, wherever the subdomain
/// begins.
fn places<'a>(layout: &'a Layout, j: isize, tile: &'a Tile) -> impl Iterator<Item = (isize, usize)> + use<'a> {
    [0, 1].into_iter().flat_map(move |parity| {
        let colour = (parity + j).rem_euclid(2);
        let start = (colour + 2 * j) * layout.half_plane() as isize;
        tile.layers.clone().map(move |k| (start + (k * layout.pitch() + tile.columns.m) as isize, tile.columns.n))
    })
}
