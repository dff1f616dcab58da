//! Tests of channels, and of exchanges across periodic ends.

use isobar_core::prelude::{Backend, Shape, Slab};
use isobar_dist::part::copy_part;

use super::*;
use crate::memory::Buffer;
use crate::peers::inbox::{Opened, reach};
use crate::peers::{CHANNEL, PIECE_BYTES, Prepared};

#[test]
fn channels_are_as_the_kernels_have_them() {
    // Pieces are words of 16 bytes, and numbers of 8 come before them.
    assert_eq!((CHANNEL % 16, (32 * (PIECES + 1)) % 16, PIECE_BYTES % 16), (0, 0, 0));
    let all = [1, WORDS_A_BLOCK + 1, 1 << 30].map(|words| places(words, PIECES));
    assert_eq!(all, [1, 2, PIECES]);
    const { assert!(PLACES_AROUND >= PIECES_OF_ROWS && PLACES_AROUND + PIECES_OF_ROWS <= PIECES) };
}

/// The receiver of an edge uses the sender's slots, and finds there the row of the larger grid beyond its own edge; no two
/// edges of a rank use the same slots of a channel.
#[test]
fn edges_of_a_ring_meet_by_the_same_places() {
    let shape = Shape::new(6, 12, 4);
    for (starts, is_ring) in [(vec![0, 4, 12], true), (vec![0, 3, 8, 12], true), (vec![0, 3, 8, 12], false)] {
        let size = starts.len() - 1;
        let layout =
            |rank: usize| Slab { first: starts[rank], beyond: starts[rank + 1] }.layout(shape, is_ring).unwrap();
        // Vectors of different ranks lie far apart.
        let start = |rank: usize| (1 + rank as u64) << 32;
        let colours = Colour::BOTH;
        let edges: Vec<_> = (0..size)
            .flat_map(|rank| [false, true].map(|is_last| (rank, is_last)))
            .map(|(rank, is_last)| (rank, Edge::of::<f64>(&layout(rank), start(rank), &colours, is_last, [rank, size])))
            .filter(|(_, edge)| edge.rank >= 0)
            .collect();
        assert_eq!(edges.len(), if is_ring { 2 * size } else { 2 * size - 2 });
        // The half plane and colour of the larger grid, by its address.
        let half_plane_there = |rank: usize, address: Pointer| {
            let layout = layout(rank);
            let bytes = (layout.half_plane() * size_of::<f64>()) as i64;
            let half = (address as i64 - start(rank) as i64) / bytes;
            let local = Colour::BOTH[half.rem_euclid(2) as usize];
            (layout.row_there(half.div_euclid(2) as isize), layout.local(local))
        };
        for (rank, edge) in &edges {
            let other = edge.rank as usize;
            let meets = |(of, met): &&(usize, Edge)| *of == other && met.rank as usize == *rank;
            let met: Vec<_> = edges.iter().filter(meets).filter(|(_, met)| met.place == edge.place).collect();
            let [(_, met)] = met[..] else { panic!("{rank} to {other}: {} edges", met.len()) };
            for n in 0..2 {
                assert_eq!(half_plane_there(*rank, edge.own[n]), half_plane_there(other, met.halo[n]));
            }
        }
    }
}

const SIZE: usize = 2;

/// Returns two ranks that share a GPU, each with its own stream, and use the kernels of separate GPUs.
fn two_ranks() -> ([Cuda; SIZE], [Peers; SIZE]) {
    let cards = [0, 1].map(|_| Cuda::new(0).unwrap());
    let prepared = cards.each_ref().map(|card| Prepared::new(card.context(), card.modules(), SIZE).unwrap());
    // A kernel that waits for the other rank's would keep that from being loaded.
    cards.iter().for_each(|card| card.await_prepared().unwrap());
    let addresses = prepared.each_ref().map(|prepared| prepared.address);
    let mut ranks = 0..SIZE;
    let peers = prepared.map(|prepared| {
        let (rank, mut inboxes) = (ranks.next().unwrap(), Vec::new());
        let context = cards[rank].context();
        let mut opened = Opened::new(context);
        let reached = addresses
            .each_ref()
            .map(|address| reach(context, &addresses[rank], address, &mut opened, &mut inboxes).unwrap());
        Peers::meet(prepared, [rank, SIZE], &reached, opened, inboxes).unwrap()
    });
    (cards, peers)
}

/// Sums of a few numbers, of as many as fill all slots, and of more, repeatedly.
#[test]
#[ignore = "needs a GPU"]
fn sums_of_arrays_over_two_ranks() {
    let (cards, peers) = two_ranks();
    let most = PIECES * PIECE_BYTES / 8;
    for (turn, count) in [1, 3, 700, most, 5, most + 1, 2 * most + 12_345, 2].into_iter().enumerate() {
        let given = |rank: usize| -> Vec<f64> { (0..count).map(|n| (n + turn) as f64 / (3 + rank) as f64).collect() };
        let buffers =
            [0, 1].map(|rank| Buffer::from_slice(cards[rank].context(), &given(rank), "numbers to add").unwrap());
        for rank in 0..SIZE {
            peers[rank].sum_numbers(&cards[rank], buffers[rank].start(), count).unwrap();
        }
        let expected: Vec<f64> = given(0).iter().zip(given(1)).map(|(own, other)| own + other).collect();
        for rank in 0..SIZE {
            let mut found = vec![0.0; count];
            buffers[rank].read(&mut found).unwrap();
            peers[rank].check().unwrap();
            assert!(found == expected, "{count} numbers, rank {rank}");
        }
    }
}

/// Checks two subdomains of a periodic direction, neighbours on both sides, repeatedly.
#[test]
#[ignore = "needs a GPU"]
fn halo_rows_around_a_ring_of_two() {
    // A row that fits into a slot, and one that does not.
    for (shape, starts) in [(Shape::new(6, 12, 4), [0, 5, 12]), (Shape::new(3000, 4, 100), [0, 2, 4])] {
        let whole = Layout::new(shape).unwrap();
        let layouts = [0, 1]
            .map(|rank: usize| Slab { first: starts[rank], beyond: starts[rank + 1] }.layout(shape, true).unwrap());
        let (cards, peers) = two_ranks();
        let mut vectors = [0, 1].map(|rank| cards[rank].zeros::<f64>(&layouts[rank]).unwrap());
        for (turn, colours) in
            [&Colour::BOTH[..], &[Colour::Red], &[Colour::Black], &Colour::BOTH, &[Colour::Red]].into_iter().enumerate()
        {
            // Entries of a vector of the whole grid, and those of the previous turn in halo rows.
            let of_turn = |turn: usize| -> Vec<f64> { (0..whole.len()).map(|n| (n * 7 + 1 + turn) as f64).collect() };
            let parts = |turn: usize| {
                layouts.each_ref().map(|layout| {
                    let mut part = vec![0.0; layout.len_with_halo()];
                    copy_part(&of_turn(turn), layout, &mut part);
                    part
                })
            };
            let (before, after) = (parts(turn), parts(turn + 1));
            for rank in 0..SIZE {
                let [halo, _] = layouts[rank].halo_len();
                let mut given = before[rank].clone();
                given[halo..halo + layouts[rank].len()].copy_from_slice(&after[rank][halo..halo + layouts[rank].len()]);
                cards[rank].context().send(&given, vectors[rank].all().0).unwrap();
                cards[rank].context().synchronize().unwrap();
            }
            for rank in 0..SIZE {
                peers[rank].fill(&cards[rank], &mut vectors[rank], colours).unwrap();
            }
            for rank in 0..SIZE {
                cards[rank].context().synchronize().unwrap();
                peers[rank].check().unwrap();
                let layout = &layouts[rank];
                let mut found = vec![0.0; layout.len_with_halo()];
                cards[rank].context().receive(vectors[rank].all().0, &mut found).unwrap();
                for (half, found) in found.chunks_exact(layout.half_plane()).enumerate() {
                    let place = half * layout.half_plane()..(half + 1) * layout.half_plane();
                    let is_halo = half < 2 || half >= 2 * (1 + layout.shape().ny);
                    let is_filled = colours.contains(&layout.local(Colour::BOTH[half % 2]));
                    let expected = if is_halo && !is_filled { &before[rank][place] } else { &after[rank][place] };
                    assert!(found == expected, "{shape}, turn {turn}, rank {rank}, half plane {half}");
                }
            }
        }
    }
}
