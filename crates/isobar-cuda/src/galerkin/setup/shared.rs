//! Strongly coupled aggregates with cells of several GPUs, found as by [`bodies`](isobar_core::stencil::galerkin::bodies).
//!
//! Each GPU joins the cells of its rows, and those of the row after them to them. It labels the aggregates at its edges by cells of its first and last
//! rows, so that few numbers leave the GPU: the labels of edges go to the neighbours, and the pairs that are one aggregate to all.

use std::collections::HashMap;

use isobar_core::prelude::Result;
use isobar_core::real::{bytes_of, bytes_of_mut};
use isobar_core::stencil::galerkin::bodies::LARGEST;
use isobar_core::stencil::galerkin::{Bodies, Sums, Window, merged};
use isobar_dist::Ranks;

use super::bodies::Search;
use super::matrix::{BLOCK, Matrix, OwnRows};
use super::rows::collected_numbers;
use super::sources::shared_source;
use crate::{Arguments, Buffer, Pointer, argument};

/// Marks cells without an aggregate, and places that hold the number of a shared one, as in shared.cu.
const NONE: u32 = u32::MAX;
const SHARED: u32 = 1 << 31;

argument! {
    /// `Edges` of shared.cu.
    struct Edges {
        lowest: Pointer,
        runs: Pointer,
        counts: Pointer,
        columns: u32,
        base: u32,
    }
}

/// Labels of the cells of a row: columns from which on all have one, with it, in ascending order.
type Runs = Vec<[u32; 2]>;

/// Returns the labels that two rows have in the same column, each pair once.
fn pairs_of(own: &Runs, beside: &Runs) -> Vec<[u32; 2]> {
    let (mut pairs, mut n, mut m) = (Vec::new(), 0, 0);
    while let (Some(&[_, here]), Some(&[_, there])) = (own.get(n), beside.get(m)) {
        pairs.push([here, there]);
        let next = [own.get(n + 1), beside.get(m + 1)].map(|run| run.map_or(u32::MAX, |run| run[0]));
        n += usize::from(next[0] <= next[1]);
        m += usize::from(next[1] <= next[0]);
    }
    pairs.retain(|pair| pair[0] != NONE);
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// `Shared` of shared.cu: a cell of a shared aggregate, and its contributions.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Found {
    number: u32,
    cell: u32,
    sums: [f64; 3],
}

/// The aggregates that ranks share, of which all have the same numbers.
struct Numbers {
    /// The number of the aggregate with each label.
    of_label: HashMap<u32, u32>,
    count: usize,
}

impl Numbers {
    /// Numbers the aggregates that pairs of labels join.
    fn of(pairs: &[f64]) -> Self {
        let mut of_label = merged(pairs);
        let mut firsts: Vec<u32> = of_label.values().copied().collect();
        firsts.sort_unstable();
        firsts.dedup();
        let number = |first: u32| firsts.partition_point(|&other| other < first) as u32;
        of_label.values_mut().for_each(|first| *first = number(*first));
        Self { of_label, count: firsts.len() }
    }
}

/// A search for the aggregates of one threshold, after this rank's cells have been joined and counted.
pub(super) struct Sharing<'a> {
    pub(super) matrix: &'a Matrix,
    pub(super) ranks: &'a Ranks,
    pub(super) window: &'a Window,
    pub(super) search: Search,
    /// Room for a number of each cell.
    pub(super) room: Pointer,
    /// The pitch of vectors.
    pub(super) pitch: usize,
}

impl Sharing<'_> {
    /// Finds the shared aggregates that are worth correcting, in the same order on all ranks, with this rank's cells of them. They are no longer
    /// among those that the rank has for itself.
    ///
    /// # Errors
    /// The errors of the GPU and of the transport.
    pub(super) fn find(&self) -> Result<Bodies> {
        let Self { matrix, ranks, .. } = self;
        let columns = matrix.columns();
        let counts = size_of::<[u32; 4]>();
        let runs =
            Buffer::new(matrix.cuda.context(), counts + size_of::<[u32; 2]>() * 3 * columns, "labels of aggregates")?;
        runs.clear(0, counts)?;
        let edges = Edges {
            lowest: self.room,
            runs: runs.start() + counts as Pointer,
            counts: runs.start(),
            columns: columns as u32,
            base: (2 * columns * ranks.rank()) as u32,
        };
        let (pairs, beside) = self.joined_labels(edges)?;
        let numbers = Numbers::of(&collected_numbers(ranks, &pairs)?);
        let mut bodies = Bodies { starts: vec![0], ..Bodies::default() };
        if numbers.count == 0 {
            return Ok(bodies);
        }
        let (is_small, marks, cells) = self.small(edges, &numbers)?;
        if !is_small.contains(&true) {
            return Ok(bodies);
        }
        let mark_of = |label: u32| match numbers.of_label.get(&label) {
            Some(&number) if is_small[number as usize] => SHARED | number,
            _ => 0,
        };
        let mut marks_beside = vec![0; 2 * columns];
        for (row, runs) in marks_beside.chunks_exact_mut(columns).zip(&beside) {
            for (n, &[column, label]) in runs.iter().enumerate() {
                let end = runs.get(n + 1).map_or(columns, |next| next[0] as usize);
                row[column as usize..end].fill(mark_of(label));
            }
        }
        let found = self.sums(edges, &marks, &marks_beside, cells)?;
        let own = found.chunk_by(|a, b| a.number == b.number).flat_map(|cells| {
            let sum = |n: usize| cells.iter().map(|cell| cell.sums[n]).sum();
            [f64::from(cells[0].number), sum(0), sum(1), sum(2)]
        });
        let all = collected_numbers(ranks, &own.collect::<Vec<f64>>())?;
        let mut sums = vec![Sums::default(); numbers.count];
        for &[number, leaving, absolute, diagonals] in all.as_chunks().0 {
            sums[number as usize].add(Sums { leaving, absolute, diagonals });
        }
        let mut rest = &found[..];
        for (number, sums) in (0..).zip(sums) {
            let own;
            (own, rest) = rest.split_at(rest.partition_point(|cell| cell.number <= number));
            let factor = sums.factor(self.search.least);
            if factor > 0.0 {
                bodies.push(own.iter().map(|cell| cell.cell), factor);
            }
        }
        bodies.shared = bodies.factors.len();
        Ok(bodies)
    }

    fn arguments(&self) -> Arguments {
        Arguments::new().with(self.matrix.operands()).with(self.search).with(OwnRows::of(self.matrix))
    }

    /// Launches a kernel of as many threads as there are elements.
    fn launch(&self, name: &'static str, count: usize, arguments: Arguments) -> Result<()> {
        let kernel = self.matrix.cuda.module(shared_source(self.matrix.number)).kernel(name)?;
        if count > 0 { self.matrix.launch(kernel, count, BLOCK, arguments) } else { Ok(()) }
    }

    /// Labels the aggregates at the edges; returns the pairs of labels that couplings to the next rank join, and the labels of the rows before and after.
    fn joined_labels(&self, edges: Edges) -> Result<(Vec<f64>, [Runs; 2])> {
        let Self { matrix, ranks, window, .. } = self;
        let (context, columns) = (matrix.cuda.context(), matrix.columns());
        for name in ["begin_edges", "label_edges", "list_edges"] {
            self.launch(name, columns, self.arguments().with(edges))?;
        }
        let mut counts = [0u32; 3];
        context.receive(edges.counts, &mut counts)?;
        let mut runs = counts.map(|count| vec![[0u32; 2]; count as usize]);
        for (row, runs) in runs.iter_mut().enumerate() {
            context.receive(edges.runs + (row * columns * size_of::<[u32; 2]>()) as Pointer, runs)?;
            runs.sort_unstable();
        }
        let [first, last, next] = runs;
        let has = [window.own().start > 0, window.own().end < window.rows()];
        let send = [(first, has[0]), (last, has[1])].map(|(runs, has)| if has { runs } else { Runs::new() });
        let send = send.map(|runs| runs.into_iter().flatten().map(f64::from).collect::<Vec<f64>>());
        let exchange = |send: [&[f64]; 2], [before, after]: [&mut [f64]; 2]| {
            ranks.exchange_sides(send.map(bytes_of), [bytes_of_mut(before), bytes_of_mut(after)])
        };
        let lengths = [0, 1].map(|side| vec![send[side].len() as f64; usize::from(has[side])]);
        let mut coming = lengths.clone();
        let [before, after] = &mut coming;
        exchange([&lengths[0], &lengths[1]], [before, after])?;
        let mut beside = coming.map(|length| vec![0.0; length.first().map_or(0, |&length| length as usize)]);
        let [before, after] = &mut beside;
        exchange([&send[0], &send[1]], [before, after])?;
        let beside = beside.map(|runs| runs.as_chunks().0.iter().map(|run: &[f64; 2]| run.map(|n| n as u32)).collect());
        let pairs = pairs_of(&next, &beside[1]);
        Ok((pairs.into_iter().flatten().map(f64::from).collect(), beside))
    }

    /// Returns which aggregates are not too large, the labels and numbers of those that this rank has a part of, and the number of its cells in them.
    fn small(&self, edges: Edges, numbers: &Numbers) -> Result<(Vec<bool>, Vec<[u32; 2]>, usize)> {
        let own = edges.base..edges.base + 2 * edges.columns;
        let mut labels: Vec<u32> = numbers.of_label.keys().copied().filter(|label| own.contains(label)).collect();
        labels.sort_unstable();
        let list = Buffer::from_slice(self.matrix.cuda.context(), &labels, "labels of aggregates")?;
        let arguments = self.arguments().with(edges).with(list.start()).with(labels.len() as u32);
        self.launch("take_shared", labels.len(), arguments)?;
        let mut counts = vec![0u32; labels.len()];
        list.read(&mut counts)?;
        let number = |label: u32| numbers.of_label[&label];
        let own: Vec<f64> =
            labels.iter().zip(&counts).flat_map(|(&label, &count)| [number(label), count].map(f64::from)).collect();
        let mut totals = vec![0.0; numbers.count];
        for &[number, count] in collected_numbers(self.ranks, &own)?.as_chunks().0 {
            totals[number as usize] += count;
        }
        let is_small: Vec<bool> = totals.into_iter().map(|total| total <= f64::from(LARGEST)).collect();
        let kept = || labels.iter().zip(&counts).filter(|(label, _)| is_small[number(**label) as usize]);
        let cells = kept().map(|(_, &count)| count as usize).sum();
        let marks = kept().map(|(&label, _)| [label, number(label)]).collect();
        Ok((is_small, marks, cells))
    }

    /// Returns this rank's cells of shared aggregates that are not too large, by number; `beside` are the marks of the rows before and after.
    fn sums(&self, edges: Edges, marks: &[[u32; 2]], beside: &[u32], cells: usize) -> Result<Vec<Found>> {
        let context = self.matrix.cuda.context();
        let list = Buffer::from_slice(context, marks, "numbers of aggregates")?;
        let arguments = self.arguments().with(edges).with(list.start()).with(marks.len() as u32);
        self.launch("mark_shared", marks.len(), arguments)?;
        let beside = Buffer::from_slice(context, beside, "numbers of aggregates")?;
        let mut found = vec![Found::default(); cells];
        let room = Buffer::new(context, size_of_val(&found[..]), "cells of aggregates")?;
        let arguments = self.arguments().with(edges.columns).with(beside.start()).with(self.pitch as i32);
        let kernel = self.matrix.cuda.module(shared_source(self.matrix.number)).kernel("sum_shared")?;
        self.matrix.launch_loop(kernel, self.matrix.cells(), 1, arguments.with(room.start()))?;
        room.read(&mut found)?;
        found.sort_unstable_by_key(|cell| (cell.number, cell.cell));
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_joined_where_they_have_labels() {
        let own = vec![[0, 5], [3, NONE], [6, 7], [9, 5]];
        let beside = vec![[0, 20], [2, 21], [7, 20], [9, 22]];
        // By column: 5 5 5 – – – 7 7 7 5 and 20 20 21 21 21 21 21 20 20 22.
        assert_eq!(pairs_of(&own, &beside), [[5, 20], [5, 21], [5, 22], [7, 20], [7, 21]]);
        assert_eq!(pairs_of(&vec![[0, 1]], &vec![[0, 2]]), [[1, 2]]);
        assert!(pairs_of(&vec![[0, NONE]], &vec![[0, 2], [1, 3]]).is_empty());
        assert!(pairs_of(&own, &Runs::new()).is_empty());
    }
}
