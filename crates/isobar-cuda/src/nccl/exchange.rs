//! Exchange of halo rows, sums and layers by messages of NCCL.

use isobar_core::prelude::{Colour, Layout, Real, Result, Scalar};
use isobar_dist::part::{Division, Link, Redivision};

use super::link::{NcclLink, ROOM};
use super::messages::{Job, Message};
use crate::neighbour::Neighbour;
use crate::{Arguments, Cuda, Pointer, Scalars, Vector};

/// Largest number of scalars summed at once.
const SUMS: usize = 8;

/// Runs of 16-byte words at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Runs {
    place: Pointer,
    /// Words per run.
    run: usize,
    /// Words from one run to the next.
    pitch: usize,
    count: usize,
    /// Whether adjacent runs are stored in exchanged order.
    is_exchanged: bool,
}

/// Returns start and length of the part of a message of `words` that is sent in a round.
fn piece(words: usize, room: usize, round: usize) -> [usize; 2] {
    let first = (round * room).min(words);
    [first, room.min(words - first)]
}

/// Returns the messages between the first and last rows of a subdomain, its halo rows, and its neighbours, for a vector whose first cell is at `start`.
///
/// Messages between two ranks are matched by order only. Two subdomains in a periodic direction are neighbours on both sides: the first row
/// that one sends is received beyond the last row of the other, so rows are received in reverse order of sending.
fn messages_of_edges<T: Real>(layout: &Layout, start: Pointer, colours: &[Colour], ranks: [usize; 2]) -> Vec<Message> {
    let (rows, bytes) = (layout.shape().ny as i64, layout.half_plane() * size_of::<T>());
    let ends = [(true, false, 0), (true, true, rows - 1), (false, true, rows), (false, false, -1)];
    let of_end = |(is_sent, is_last, row): (bool, bool, i64)| {
        let neighbour = Neighbour::of(layout, is_last, ranks);
        let colours = Colour::BOTH.into_iter().filter(|colour| colours.contains(colour));
        neighbour.into_iter().flat_map(move |Neighbour { rank, .. }| {
            colours.clone().map(move |colour| {
                let half_plane = 2 * row + layout.local(colour) as i64;
                Message { rank, is_sent, place: start.wrapping_add_signed(half_plane * bytes as i64), bytes }
            })
        })
    };
    ends.into_iter().flat_map(of_end).collect()
}

impl NcclLink {
    /// Implements [`Cuda::sum_over_ranks`].
    pub(crate) fn sum_numbers(&self, cuda: &Cuda, start: Pointer, count: usize) -> Result<()> {
        let [_, received] = &self.rooms;
        let room = ROOM / 8 / self.job.size;
        for first in (0..count).step_by(room) {
            let (own, length) = (start + (8 * first) as Pointer, room.min(count - first));
            let at = |rank: usize| received.start() + (8 * length * rank) as Pointer;
            let messages = self.others().flat_map(|rank| {
                [(true, own), (false, at(rank))].map(|(is_sent, place)| Message {
                    rank,
                    is_sent,
                    place,
                    bytes: 8 * length,
                })
            });
            self.exchange(cuda.context(), messages.collect())?;
            let arguments = Arguments::new().with(own).with(received.start()).with(self.job.rank as i32);
            let arguments = arguments.with(self.job.size as i32).with(length as i32);
            cuda.launch(self.module.kernel("sum_all_received")?, [length.div_ceil(256), 1, 1], [256, 1], arguments)?;
        }
        Ok(())
    }

    /// Gathers rows of `bytes` from all ranks in a vector of the whole grid, in which those of this rank are.
    pub(crate) fn gather_rows(&self, cuda: &Cuda, whole: Pointer, bytes: usize, rows: &[usize]) -> Result<()> {
        let section = |rank: usize, of: usize, is_sent: bool| Message {
            rank,
            is_sent,
            place: whole + (bytes * rows[of]) as Pointer,
            bytes: bytes * (rows[of + 1] - rows[of]),
        };
        let own = self.job.rank;
        let messages = self.others().flat_map(|rank| [section(rank, own, true), section(rank, rank, false)]);
        self.exchange(cuda.context(), messages.collect())
    }

    /// Packs runs into contiguous memory, or unpacks them.
    fn pack(&self, cuda: &Cuda, runs: Runs, packed: Pointer, [first, count]: [usize; 2], unpacked: bool) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let arguments = Arguments::new().with(runs.place).with(packed).with(runs.run as i64).with(runs.pitch as i64);
        let arguments = arguments.with(i32::from(runs.is_exchanged)).with(first as i64).with(count as i64);
        cuda.elementwise(self.module.kernel("pack")?, count, arguments.with(i32::from(unpacked)))
    }
}

impl Link<Cuda> for NcclLink {
    fn fill<T: Real>(&self, cuda: &Cuda, x: &mut Vector<T>, colours: &[Colour]) -> Result<()> {
        let ranks = [self.job.rank, self.job.size];
        self.exchange(cuda.context(), messages_of_edges::<T>(x.layout(), x.pointer(), colours, ranks))
    }

    fn sum(&self, cuda: &Cuda, sums: &[Scalar], scalars: &mut Scalars) -> Result<()> {
        let (own, bytes) = (scalars.all(), 8 * Scalar::COUNT);
        let at = |rank: usize| self.numbers.start() + (bytes * rank) as Pointer;
        let messages = self.others().flat_map(|rank| {
            [(true, own), (false, at(rank))].map(|(is_sent, place)| Message { rank, is_sent, place, bytes })
        });
        self.exchange(cuda.context(), messages.collect())?;
        for sums in sums.chunks(SUMS) {
            // `Which` of packing.cu.
            let mut which = [0_i32; SUMS];
            for (place, scalar) in which.iter_mut().zip(sums) {
                *place = scalar.index() as i32;
            }
            let arguments = Arguments::new().with(own).with(self.numbers.start()).with(self.job.rank as i32);
            let arguments = arguments.with(self.job.size as i32).with(Scalar::COUNT as i32);
            let arguments = arguments.with(which).with(sums.len() as i32);
            cuda.launch(self.module.kernel("sum_received")?, [1, 1, 1], [32, 1], arguments)?;
        }
        Ok(())
    }

    fn gather<T: Real>(&self, cuda: &Cuda, part: &Vector<T>, rows: &[usize], whole: &mut Vector<T>) -> Result<()> {
        let [first, beyond] = [0, 1].map(|end| rows[self.job.rank + end]);
        cuda.copy_rows(part, first, beyond - first, whole, first.cast_signed())?;
        let row = 2 * whole.layout().half_plane() * size_of::<T>();
        self.gather_rows(cuda, whole.pointer(), row, rows)
    }

    fn redivide<T: Real>(&self, cuda: &Cuda, division: &Division, change: Redivision<'_, Vector<T>>) -> Result<()> {
        let ([rows, layers], to_layers) = change.vectors();
        let Job { rank, size, .. } = self.job;
        let words = rows.layout().pitch() * size_of::<T>() / 16;
        let count = |starts: &[usize], rank: usize| starts[rank + 1] - starts[rank];
        // `in_rows`: the other rank's layers, in this rank's rows; `in_layers`: this rank's layers, in the other's rows.
        let in_rows = |other: usize| Runs {
            place: rows.pointer() + (16 * words * division.layers[other]) as Pointer,
            run: words * count(&division.layers, other),
            pitch: words * rows.layout().shape().nz,
            count: 2 * count(&division.rows, rank),
            is_exchanged: false,
        };
        let in_layers = |other: usize| {
            let run = words * count(&division.layers, rank);
            Runs {
                place: layers.pointer() + (2 * 16 * run * division.rows[other]) as Pointer,
                run,
                pitch: run,
                count: 2 * count(&division.rows, other),
                is_exchanged: division.rows[other] % 2 == 1,
            }
        };
        let of = |other: usize| {
            if to_layers { [in_rows(other), in_layers(other)] } else { [in_layers(other), in_rows(other)] }
        };
        let room = ROOM / 16 / size;
        let longest = |starts: &[usize]| (0..size).map(|rank| count(starts, rank)).max().unwrap_or(0);
        let most = 2 * words * longest(&division.rows) * longest(&division.layers);
        let place =
            |is_sent: bool, other: usize| self.rooms[usize::from(!is_sent)].start() + (16 * room * other) as Pointer;
        for round in 0..most.div_ceil(room) {
            let part = |runs: Runs| piece(runs.run * runs.count, room, round);
            let mut messages = Vec::with_capacity(2 * size);
            for other in 0..size {
                let [from, to] = of(other);
                self.pack(cuda, from, place(true, other), part(from), false)?;
                if other != rank {
                    messages.extend([(true, from), (false, to)].map(|(is_sent, runs)| Message {
                        rank: other,
                        is_sent,
                        place: place(is_sent, other),
                        bytes: 16 * part(runs)[1],
                    }));
                }
            }
            self.exchange(cuda.context(), messages)?;
            for other in 0..size {
                let [_, to] = of(other);
                self.pack(cuda, to, place(other == rank, other), part(to), true)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use isobar_core::layout::{Shape, Slab};

    use super::*;

    /// Messages are received in the order of sending: each halo row equals the whole grid's row beyond the end.
    #[test]
    fn rows_are_received_in_the_order_in_which_they_are_sent() {
        let shape = Shape::new(6, 12, 4);
        for (starts, is_ring) in [(vec![0, 4, 12], true), (vec![0, 3, 8, 12], true), (vec![0, 3, 8, 12], false)] {
            let size = starts.len() - 1;
            let layout =
                |rank: usize| Slab { first: starts[rank], beyond: starts[rank + 1] }.layout(shape, is_ring).unwrap();
            let start = 1 << 32;
            // Row and colour of the larger grid that a message's place is of.
            let there = |rank: usize, message: &Message| {
                let half = (message.place as i64 - start as i64) / message.bytes as i64;
                let local = Colour::BOTH[half.rem_euclid(2) as usize];
                (layout(rank).row_there(half.div_euclid(2) as isize), layout(rank).local(local))
            };
            for colours in [&Colour::BOTH[..], &[Colour::Black]] {
                let all: Vec<Vec<Message>> = (0..size)
                    .map(|rank| messages_of_edges::<f64>(&layout(rank), start, colours, [rank, size]))
                    .collect();
                let between = |of: usize, with: usize, is_sent: bool| -> Vec<_> {
                    let wanted = |message: &&Message| (message.rank, message.is_sent) == (with, is_sent);
                    all[of].iter().filter(wanted).map(|message| there(of, message)).collect()
                };
                let pairs = || (0..size).flat_map(|from| (0..size).map(move |to| (from, to)));
                for (from, to) in pairs() {
                    assert_eq!(between(from, to, true), between(to, from, false), "{from} to {to}, {starts:?}");
                }
                let sent: usize = pairs().map(|(from, to)| between(from, to, true).len()).sum();
                assert_eq!(sent, colours.len() * if is_ring { 2 * size } else { 2 * size - 2 });
            }
        }
    }

    #[test]
    fn rounds_move_every_word_once() {
        for (words, room) in [(0, 4), (1, 4), (4, 4), (9, 4), (12, 5)] {
            let rounds = usize::div_ceil(words, room) + 1;
            let pieces: Vec<_> = (0..rounds).map(|round| piece(words, room, round)).collect();
            let mut next = 0;
            for [first, count] in pieces {
                assert_eq!(first, next);
                assert!(count <= room);
                next += count;
            }
            assert_eq!(next, words);
        }
    }
}
