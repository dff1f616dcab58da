//! Runs of cells along x: a short form of a set of cells.

use std::ops::Range;

use crate::execute::{Execute, rows};
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

/// What is found in a few rows.
#[derive(Clone, Default)]
struct Piece {
    /// The number of runs of each row.
    counts: Vec<u32>,
    cells: Vec<[u32; 2]>,
    /// Rows whose last cell is joined with the first.
    around: Vec<usize>,
}

impl Runs {
    /// Finds the runs of cells of a grid, fewer than 2³². `find(row, is_in, joined)` sets `is_in` for the cells of row j + ny k that belong to any,
    /// and entries of `joined` to 0 for those that do not belong together with the next one. Returns the rows as well whose last cell is joined with the first.
    pub(crate) fn of_cells(
        execute: &impl Execute,
        shape: Shape,
        find: impl Fn(usize, &mut [bool], &mut [u8]) + Sync,
    ) -> (Self, Vec<usize>) {
        let Shape { nx, ny, nz } = shape;
        let mut pieces: Vec<Piece> = vec![Piece::default(); (ny * nz).div_ceil(ROWS)];
        execute.for_each(&mut pieces, |piece, Piece { counts, cells, around }| {
            let (mut is_in, mut joined) = (vec![false; nx], vec![0; nx]);
            for row in piece * ROWS..(ny * nz).min((piece + 1) * ROWS) {
                find(row, &mut is_in, &mut joined);
                let before = cells.len();
                push_runs(&is_in, &joined, (row * nx) as u32, cells);
                counts.push((cells.len() - before) as u32);
                if is_in[0] && is_in[nx - 1] && joined[nx - 1] != 0 {
                    around.push(row);
                }
            }
        });
        let around = pieces.iter().flat_map(|piece| &piece.around).copied().collect();
        let mut next = 0;
        let mut first = Vec::with_capacity(ny * nz + 1);
        for count in pieces.iter().flat_map(|piece| &piece.counts) {
            first.push(next);
            next += count;
        }
        first.push(next);
        let mut cells = vec![[0; 2]; next as usize];
        execute.prefer_large_pages(&cells);
        let mut rest = &mut cells[..];
        let mut places = Vec::with_capacity(pieces.len());
        for Piece { cells: found, .. } in pieces {
            let (place, others) = std::mem::take(&mut rest).split_at_mut(found.len());
            places.push((place, found));
            rest = others;
        }
        execute.for_each(&mut places, |_, (place, found)| place.copy_from_slice(found));
        (Self { shape, first, cells }, around)
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

/// Appends the runs of a row, whose first cell has this number.
fn push_runs(is_in: &[bool], joined: &[u8], first: u32, runs: &mut Vec<[u32; 2]>) {
    let mut goes_on = false;
    for ((cell, &is_in), &joined) in (first..).zip(is_in).zip(joined) {
        match runs.last_mut().filter(|_| goes_on) {
            Some([_, end]) if is_in => *end = cell + 1,
            _ if is_in => runs.push([cell, cell + 1]),
            _ => {}
        }
        goes_on = is_in && joined != 0;
    }
}
