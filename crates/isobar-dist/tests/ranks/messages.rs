//! Checks of every transport.

use isobar_core::prelude::*;
use isobar_dist::{Communicator, Message};

/// Checks messages and collective operations, on any number of ranks.
pub(crate) fn check_messages(world: &dyn Communicator) -> Result<()> {
    let (rank, size) = (world.rank(), world.size());
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    for round in 0..20u8 {
        let sent = [rank as u8, round];
        let mut got = [[0; 2]; 2];
        let [a, b] = &mut got;
        // Two messages to one rank in one exchange, told apart by their tags.
        world.exchange(&mut [
            Message { peer: next, tag: 1, send: &sent, receive: &mut [] },
            Message { peer: before, tag: 2, send: &[], receive: a },
            Message { peer: next, tag: 2, send: &[round, 9], receive: &mut [] },
            Message { peer: before, tag: 1, send: &[], receive: b },
        ])?;
        assert_eq!(got, [[round, 9], [before as u8, round]]);
    }
    // Sums are in the order of ranks, not of arrival.
    let term = |rank: usize| 0.1 * (rank + 1) as f64;
    let mut values = [term(rank), 1.0];
    world.sum(&mut values)?;
    assert_eq!(values, [(0..size).map(term).sum::<f64>(), size as f64]);
    let mut many: Vec<f64> = (0..100).map(f64::from).collect();
    world.sum(&mut many)?;
    assert!(many.iter().enumerate().all(|(n, &value)| value == (size * n) as f64));
    // More than the eager limit of transports.
    let large = vec![rank as u8; 3 << 20];
    let mut other = vec![0; large.len()];
    let mut times = 0;
    let messages = &mut [
        Message { peer: next, tag: 3, send: &large, receive: &mut [] },
        Message { peer: before, tag: 3, send: &[], receive: &mut other },
    ];
    world.exchange_while(messages, &mut || times += 1)?;
    assert_eq!(times, 1);
    assert!(other.iter().all(|&byte| usize::from(byte) == before));
    let mut data = if rank == 0 { [3, 1, 4] } else { [0; 3] };
    world.broadcast(&mut data)?;
    assert_eq!(data, [3, 1, 4]);
    // Messages of different lengths, also of 0.
    let counts: Vec<usize> = (0..size).map(|rank| (2 * rank) % 3).collect();
    let expected: Vec<u8> = counts.iter().enumerate().flat_map(|(rank, &count)| vec![rank as u8; count]).collect();
    let mine = vec![rank as u8; counts[rank]];
    let mut all = vec![0; if rank == 0 { expected.len() } else { 0 }];
    world.gather(&mine, &counts, &mut all)?;
    assert!(rank > 0 || all == expected);
    let mut all = vec![9; expected.len()];
    world.all_gather(&mine, &counts, &mut all)?;
    assert_eq!(all, expected);
    world.barrier()
}
