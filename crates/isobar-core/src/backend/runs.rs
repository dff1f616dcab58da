//! Runs of cells along x: a short form of a set of cells.

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

impl Runs {
    /// Finds the runs of cells for which `find`, called with the number of a row, j + ny k, leaves true. A grid has fewer than 2³² cells.
    pub(crate) fn of_cells(execute: &impl Execute, shape: Shape, find: impl Fn(usize, &mut [bool]) + Sync) -> Self {
        let Shape { nx, ny, nz } = shape;
        let mut pieces: Vec<(Vec<u32>, Vec<[u32; 2]>)> = vec![Default::default(); (ny * nz).div_ceil(ROWS)];
        execute.for_each(&mut pieces, |piece, (counts, cells)| {
            let mut is_in = vec![false; nx];
            for row in piece * ROWS..(ny * nz).min((piece + 1) * ROWS) {
                find(row, &mut is_in);
                let before = cells.len();
                push_runs(&is_in, (row * nx) as u32, cells);
                counts.push((cells.len() - before) as u32);
            }
        });
        let mut next = 0;
        let mut first = Vec::with_capacity(ny * nz + 1);
        for count in pieces.iter().flat_map(|(counts, _)| counts) {
            first.push(next);
            next += count;
        }
        first.push(next);
        let mut cells = vec![[0; 2]; next as usize];
        execute.prefer_large_pages(&cells);
        let mut rest = &mut cells[..];
        let mut places = Vec::with_capacity(pieces.len());
        for (_, found) in pieces {
            let (place, others) = std::mem::take(&mut rest).split_at_mut(found.len());
            places.push((place, found));
            rest = others;
        }
        execute.for_each(&mut places, |_, (place, found)| place.copy_from_slice(found));
        Self { shape, first, cells }
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
    fn of_row(&self, row: usize) -> std::ops::Range<usize> {
        self.first[row] as usize..self.first[row + 1] as usize
    }

    /// Calls `f(run, cells)` for the runs of a row, with their cells counted from the first of the row.
    pub(crate) fn for_each_of_row(&self, row: usize, mut f: impl FnMut(usize, std::ops::Range<usize>)) {
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

    /// Calls `f(lower, upper)` for the runs with cells that are neighbours in y or z, on all threads.
    pub(crate) fn for_each_beside(&self, execute: &impl Execute, f: impl Fn(u32, u32) + Sync) {
        let Shape { nx, ny, nz } = self.shape;
        execute.for_each(&mut vec![(); (ny * nz).div_ceil(ROWS)], |piece, ()| {
            for row in piece * ROWS..(ny * nz).min((piece + 1) * ROWS) {
                for (is_there, step) in [(row % ny + 1 < ny, 1), (row / ny + 1 < nz, ny)] {
                    if is_there {
                        self.for_each_overlap(row, row + step, (step * nx) as u32, &f);
                    }
                }
            }
        });
    }

    /// Calls `f` for the runs of two rows that overlap, the second row `step` cells after the first.
    fn for_each_overlap(&self, lower: usize, upper: usize, step: u32, f: impl Fn(u32, u32)) {
        let (mut own, mut other) = (self.of_row(lower), self.of_row(upper));
        while let (Some(&[a, a_end]), Some(&[b, b_end])) =
            (self.cells[own.clone()].first(), self.cells[other.clone()].first())
        {
            let (b, b_end) = (b - step, b_end - step);
            if a.max(b) < a_end.min(b_end) {
                f(own.start as u32, other.start as u32);
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

/// Appends the runs of cells that are true in a row, whose first cell has this number.
fn push_runs(is_in: &[bool], first: u32, runs: &mut Vec<[u32; 2]>) {
    let mut before = false;
    for (cell, &is_in) in (first..).zip(is_in) {
        if is_in != before {
            match (is_in, runs.last_mut()) {
                (true, _) => runs.push([cell, cell]),
                (false, Some([_, end])) => *end = cell,
                (false, None) => {}
            }
            before = is_in;
        }
    }
    if let (true, Some([_, end])) = (before, runs.last_mut()) {
        *end = first + is_in.len() as u32;
    }
}
