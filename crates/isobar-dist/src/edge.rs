//! The edges of a subdomain, over which it exchanges rows with its neighbours.

use isobar_core::prelude::{Colour, Layout, Real};

/// The cells of one colour in the row at one edge of a subdomain, and in the halo beyond it.
#[derive(Debug)]
pub struct Edge<'a, T> {
    /// Whether the neighbour has the rows after this subdomain's last one; otherwise those before its first.
    pub is_after: bool,
    /// The colour of these cells in the larger grid.
    pub colour: Colour,
    /// The numbers that the neighbour needs, a half plane with its padding.
    pub send: &'a [T],
    /// The halo row that the neighbour fills.
    pub receive: &'a mut [T],
}

/// A piece of the last row of a subdomain, which is the halo row of the next one, for substitution that visits unknowns in order.
#[derive(Debug)]
pub struct Handed<'a, T> {
    /// Whether subdomains compute in order from the first to the last; otherwise from the last to the first.
    pub upwards: bool,
    /// The numbers that the next subdomain needs; empty if there is nothing to send.
    pub send: &'a [T],
    /// The buffer for what the previous subdomain has sent; empty if there is nothing to receive.
    pub receive: &'a mut [T],
}

/// Returns the edges; the first entries are present.
pub(super) fn edges_of<'a, T: Real>(
    layout: &Layout,
    entries: &'a mut [T],
    colours: &[Colour],
) -> [Option<Edge<'a, T>>; 4] {
    let half_plane = layout.half_plane();
    let [before_len, after_len] = layout.halo_len();
    let (before, rest) = entries.split_at_mut(before_len);
    let (own, behind) = rest.split_at_mut(layout.len());
    let (own, rows): (&[T], _) = (own, layout.shape().ny);
    let halves = [before, &mut behind[..after_len]].map(|halo| {
        let mut halves = halo.chunks_exact_mut(half_plane);
        [halves.next(), halves.next()]
    });
    let mut edges: [Option<Edge<'_, T>>; 4] = [None, None, None, None];
    let mut count = 0;
    for (is_after, halves) in [false, true].into_iter().zip(halves) {
        for (local, half) in Colour::BOTH.into_iter().zip(halves) {
            let colour = layout.local(local);
            let Some(receive) = half.filter(|_| colours.contains(&colour)) else { continue };
            let row = if is_after { rows - 1 } else { 0 };
            let send = &own[(2 * row + local as usize) * half_plane..][..half_plane];
            edges[count] = Some(Edge { is_after, colour, send, receive });
            count += 1;
        }
    }
    edges
}
