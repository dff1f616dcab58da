//! Runs of cells along x: a short form of a set of cells.

use std::ops::Range;

use crate::execute::{Execute, rows};
use crate::large_pages::prefer_large_pages;
use crate::layout::Shape;

/// Rows of cells that a thread takes at a time.
const ROWS: usize = 64;

/// Runs of consecutive cells along x, in the order of arrays.
#[derive(Debug)]
pub(crate) struct Runs {
    shape: Shape,
    /// The number of the first run of each row of cells, and their count.
    first: Vec<u32>,
    /// The first cell of each run, and the one after its last.
    cells: Vec<[u32; 2]>,
}

impl Runs {
    /// Finds the runs of cells of a grid, fewer than 2³². `find(row, is_in, joined)` sets `is_in` for the cells of row j + ny k that belong to a set, and
    /// entries of `joined` to 0 for those that do not belong to the same set as the next one. Returns also the rows whose last cell is joined with the
    /// first.
    pub(crate) fn of_cells(
        execute: &impl Execute,
        shape: Shape,
        find: impl Fn(usize, &mut [bool], &mut [u8]) + Sync,
    ) -> (Self, Vec<usize>) {
        let Shape { nx, ny, nz } = shape;
        let rows = ny * nz;
        let rows_of = |piece: usize| piece * ROWS..rows.min((piece + 1) * ROWS);
        let buffers = || (vec![false; nx], vec![0; nx]);
        // The runs are counted first: with arrays that grow, threads would wait for memory.
        let mut first = vec![0; rows + 1];
        let mut around = vec![Vec::new(); rows.div_ceil(ROWS)];
        let mut pieces: Vec<_> = first[..rows].chunks_mut(ROWS).zip(&mut around).collect();
        execute.for_each(&mut pieces, |piece, (counts, around)| {
            let (mut is_in, mut joined) = buffers();
            for (row, count) in rows_of(piece).zip(&mut **counts) {
                find(row, &mut is_in, &mut joined);
                for_each_run(&is_in, &joined, |_| *count += 1);
                if is_in[0] && is_in[nx - 1] && joined[nx - 1] != 0 {
                    around.push(row);
                }
            }
        });
        let mut next = 0u32;
        for count in &mut first {
            (*count, next) = (next, next + *count);
        }
        let mut cells = vec![[0; 2]; next as usize];
        prefer_large_pages(&cells);
        let mut rest = &mut cells[..];
        let length = |piece: usize| (first[rows_of(piece).end] - first[piece * ROWS]) as usize;
        let mut pieces: Vec<_> =
            (0..around.len()).map(|piece| rest.split_off_mut(..length(piece)).unwrap_or_default()).collect();
        execute.for_each(&mut pieces, |piece, cells| {
            let ((mut is_in, mut joined), mut places) = (buffers(), cells.iter_mut());
            for row in rows_of(piece) {
                find(row, &mut is_in, &mut joined);
                let start = row * nx;
                for_each_run(&is_in, &joined, |run| {
                    if let Some(place) = places.next() {
                        *place = [run.start, run.end].map(|cell| (start + cell) as u32);
                    }
                });
            }
        });
        (Self { shape, first, cells }, around.concat())
    }

    /// Returns the number of runs.
    pub(crate) fn count(&self) -> usize {
        self.cells.len()
    }

    /// Returns the number of cells of a run.
    pub(crate) fn length(&self, run: usize) -> usize {
        let [first, end] = self.cells[run];
        (end - first) as usize
    }

    /// Returns the numbers of the runs of a row of cells.
    pub(crate) fn of_row(&self, row: usize) -> Range<usize> {
        self.first[row] as usize..self.first[row + 1] as usize
    }

    /// Calls `f(run, cells)` for the runs of a row, with their cells counted from the first of the row.
    pub(crate) fn for_each_of_row(&self, row: usize, mut f: impl FnMut(usize, Range<usize>)) {
        let start = row * self.shape.nx;
        for run in self.of_row(row) {
            let [first, end] = self.cells[run].map(|cell| cell as usize - start);
            f(run, first..end);
        }
    }

    /// Returns the run of a cell.
    pub(crate) fn of_cell(&self, cell: usize) -> Option<usize> {
        let runs = self.of_row(cell / self.shape.nx);
        let before = self.cells[runs.clone()].partition_point(|[first, _]| *first as usize <= cell).checked_sub(1)?;
        let run = runs.start + before;
        (cell < self.cells[run][1] as usize).then_some(run)
    }

    /// Calls `f(lower, upper, cells)` for the runs of two rows that lie beside each other in some cells, counted from the first of a row.
    pub(crate) fn for_each_overlap(&self, lower: usize, upper: usize, mut f: impl FnMut(u32, u32, Range<usize>)) {
        let [first, other_first] = [lower, upper].map(|row| row * self.shape.nx);
        let (mut own, mut other) = (self.of_row(lower), self.of_row(upper));
        while let (Some(&a), Some(&b)) = (self.cells[own.clone()].first(), self.cells[other.clone()].first()) {
            let [a, a_end] = a.map(|cell| cell as usize - first);
            let [b, b_end] = b.map(|cell| cell as usize - other_first);
            let both = a.max(b)..a_end.min(b_end);
            if !both.is_empty() {
                f(own.start as u32, other.start as u32, both);
            }
            if a_end <= b_end {
                own.start += 1;
            } else {
                other.start += 1;
            }
        }
    }

    /// Makes an array with the number `of` each run in its cells, and `beyond` in all others.
    pub(crate) fn expanded(&self, execute: &impl Execute, of: &[u32], beyond: u32) -> Vec<u32> {
        rows(execute, self.shape.cells(), self.shape.nx, |row, values| {
            values.fill(beyond);
            self.for_each_of_row(row, |run, cells| values[cells].fill(of[run]));
        })
    }
}

/// Calls `f` with the cells of each run of a row.
fn for_each_run(is_in: &[bool], joined: &[u8], mut f: impl FnMut(Range<usize>)) {
    let mut start = None;
    for (cell, (&is_in, &joined)) in is_in.iter().zip(joined).enumerate() {
        start = start.or(is_in.then_some(cell));
        if let Some(first) = start.filter(|_| joined == 0 || !is_in) {
            f(first..cell + usize::from(is_in));
            start = None;
        }
    }
    if let Some(first) = start {
        f(first..is_in.len());
    }
}
