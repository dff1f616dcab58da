//! The passes of a solve over memory.

use super::blocks::{AcrossRows, AlongRows, MOST_LINES, Order, Rows};
use super::lines::{Place, Solve};
use super::tables::Tables;
use super::transform::Direction;
use crate::shared::Shared;

/// Packs of modes whose lines a thread solves before it takes others.
const PACKS_A_TURN: usize = 8;
/// Cells of a row that are rearranged before those of the next row: a cache line of either colour.
const CELLS_A_TURN: usize = 16;

/// The arrays of a solve other than vectors.
pub(super) struct Passes<'a> {
    pub(super) tables: &'a Tables,
    pub(super) work: Shared<f64>,
    pub(super) passing: Shared<f64>,
    /// Scratch of each thread.
    pub(super) scratch: Shared<f64>,
}

/// An array with rows.
#[derive(Clone, Copy)]
pub(super) enum Array {
    /// A vector.
    Vector(Shared<f64>),
    /// A caller's array in C order.
    Callers(Shared<f64>),
    /// Cells, in an array laid out like the working array.
    Cells(Shared<f64>),
    /// Modes, in such an array that begins with this plane.
    Modes(Shared<f64>, isize),
}

impl Passes<'_> {
    /// Transforms an array to modes.
    pub(super) fn take(&self, b: Array) {
        if self.tables.planes.is_rearranged() {
            self.rearrange(b, Direction::Forward);
            self.forward(Array::Cells(self.work));
        } else {
            self.forward(b);
        }
    }

    /// Transforms modes to an array.
    pub(super) fn give(&self, u: Array) {
        if self.tables.planes.is_rearranged() {
            self.backward(Array::Cells(self.work));
            self.rearrange(u, Direction::Backward);
        } else {
            self.backward(u);
        }
        if let Array::Vector(u) = u {
            self.repeat(u);
        }
    }

    /// Transforms all planes to modes.
    fn forward(&self, from: Array) {
        let tables = self.tables;
        let along = |batch: usize, block: usize, thread: usize| {
            self.along_rows(Direction::Forward, batch, block, [from, Array::Modes(self.work, 0)], thread);
        };
        let across = |plane: usize, pair: usize, thread: usize| {
            let start = tables.planes.row(plane, 0);
            self.across_rows(Direction::Forward, pair, [(self.work, start); 2], thread);
        };
        if tables.divides_batches() {
            self.each_block(along);
            self.each_pair(across);
        } else {
            tables.each(tables.planes.batches(), |batch, thread| {
                (0..tables.blocks(batch)).for_each(|block| along(batch, block, thread));
                for plane in tables.planes.planes(batch) {
                    (0..self.pairs()).for_each(|pair| across(plane, pair, thread));
                }
            });
        }
    }

    /// Transforms all planes back to cells.
    fn backward(&self, to: Array) {
        let tables = self.tables;
        let planes = &tables.planes;
        // Without a transform across rows planes are not buffered.
        let is_passing = tables.across.is_some();
        let across = |plane: usize, first: usize, slot: usize, pair: usize, thread: usize| {
            let target = slot * planes.len(planes.batch) + planes.row(plane - first, 0);
            let from = (self.work, planes.row(plane, 0));
            self.across_rows(Direction::Backward, pair, [from, (self.passing, target)], thread);
        };
        let along = |batch: usize, block: usize, first: usize, slot: usize, thread: usize| {
            let start = (slot * planes.len(planes.batch)) as isize - planes.row(first, 0) as isize;
            let from = if is_passing { Array::Modes(self.passing, start) } else { Array::Modes(self.work, 0) };
            self.along_rows(Direction::Backward, batch, block, [from, to], thread);
        };
        if tables.divides_batches() {
            self.each_pair(|plane, pair, thread| across(plane, 0, 0, pair, thread));
            self.each_block(|batch, block, thread| along(batch, block, 0, 0, thread));
        } else {
            tables.each(planes.batches(), |batch, thread| {
                let first = planes.planes(batch).start;
                for plane in planes.planes(batch) {
                    (0..self.pairs()).for_each(|pair| across(plane, first, thread, pair, thread));
                }
                (0..tables.blocks(batch)).for_each(|block| along(batch, block, first, thread, thread));
            });
        }
    }

    /// Solves along the lines across all planes.
    pub(super) fn solve_lines(&self) {
        let tables = self.tables;
        self.for_lines(|places, thread| {
            let (start, len) = self.scratch_of(thread);
            // SAFETY: each thread has its own.
            let scratch = unsafe { self.scratch.row_mut(start, len) };
            tables.cpu.dispatch::<f64, _>(Solve {
                systems: &tables.systems,
                values: [&tables.values[0], &tables.values[1]],
                x: self.work,
                stride: tables.planes.stride,
                places,
                scratch,
            });
        });
    }

    /// Calls `f(places, thread)` for some packs of modes after others.
    pub(super) fn for_lines(&self, f: impl Fn(&[Place], usize) + Sync) {
        let tables = self.tables;
        let (planes, packs, lanes) = (&tables.planes, tables.packs(), tables.machine.lanes);
        let all = planes.rows * packs;
        tables.each(all.div_ceil(PACKS_A_TURN), |turn, thread| {
            let first = turn * PACKS_A_TURN;
            let place = |n: usize| -> Place {
                let (row, column) = ((first + n) / packs, (first + n) % packs * lanes);
                (planes.row(0, row) + column, column, row)
            };
            let places: [Place; PACKS_A_TURN] = std::array::from_fn(place);
            f(&places[..PACKS_A_TURN.min(all - first)], thread);
        });
    }

    /// Returns the pairs of packs of columns.
    fn pairs(&self) -> usize {
        if self.tables.across.is_some() { self.tables.packs().div_ceil(2) } else { 0 }
    }

    /// Calls `f(batch, block, thread)` for all blocks of rows of all batches.
    fn each_block(&self, f: impl Fn(usize, usize, usize) + Sync) {
        let tables = self.tables;
        // The last batch may have fewer.
        let blocks = tables.blocks(0);
        tables.each(tables.planes.batches() * blocks, |item, thread| {
            let (batch, block) = (item / blocks, item % blocks);
            if block < tables.blocks(batch) {
                f(batch, block, thread);
            }
        });
    }

    /// Calls `f(plane, pair, thread)` for all pairs of packs of all planes.
    fn each_pair(&self, f: impl Fn(usize, usize, usize) + Sync) {
        let pairs = self.pairs();
        self.tables.each(self.tables.planes.count * pairs, |item, thread| f(item / pairs, item % pairs, thread));
    }

    /// Returns the place of a thread's scratch.
    fn scratch_of(&self, thread: usize) -> (isize, usize) {
        let len = self.tables.scratch();
        ((thread * len) as isize, len)
    }

    /// Transforms a block of rows of a batch, from one array to another.
    fn along_rows(&self, direction: Direction, batch: usize, block: usize, [from, to]: [Array; 2], thread: usize) {
        let tables = self.tables;
        let planes = &tables.planes;
        let range = planes.planes(batch);
        let (lines, most) = (range.len() * planes.rows, 2 * tables.machine.lanes);
        let first = block * most;
        // Missing lines are aliases of the last.
        let rows_of = |array: Array| {
            let halves = |n: usize| {
                let line = (first + n).min(lines - 1);
                let (plane, row) = (range.start + line / planes.rows, line % planes.rows);
                match array {
                    Array::Vector(_) => planes.halves_of_vector(plane, row),
                    Array::Callers(_) => [planes.callers_row(plane, row); 2],
                    Array::Cells(_) => planes.halves(plane, row),
                    Array::Modes(_, shift) => [planes.row(plane, row) as isize + shift; 2],
                }
            };
            let (data, order) = match array {
                Array::Vector(data) | Array::Cells(data) => (data, Order::Halves),
                Array::Callers(data) => (data, Order::Dense),
                Array::Modes(data, _) => (data, Order::Packs),
            };
            Rows { data, starts: std::array::from_fn::<_, MOST_LINES, _>(halves), order }
        };
        let (start, len) = self.scratch_of(thread);
        // SAFETY: each thread has its own.
        let scratch = unsafe { self.scratch.row_mut(start, len) };
        tables.cpu.dispatch::<f64, _>(AlongRows {
            transform: &tables.along,
            direction,
            columns: planes.columns,
            from: rows_of(from),
            to: rows_of(to),
            count: most.min(lines - first),
            scratch,
        });
    }

    /// Transforms two packs of columns of a plane, from its start in one array to its start in another.
    fn across_rows(&self, direction: Direction, pair: usize, [from, to]: [(Shared<f64>, usize); 2], thread: usize) {
        let tables = self.tables;
        let Some(transform) = &tables.across else { return };
        let column = 2 * pair * tables.machine.lanes;
        let (start, len) = self.scratch_of(thread);
        // SAFETY: each thread has its own.
        let scratch = unsafe { self.scratch.row_mut(start, len) };
        tables.cpu.dispatch::<f64, _>(AcrossRows {
            transform,
            direction,
            from: from.0,
            to: to.0,
            starts: [from.1 + column, to.1 + column],
            pitch: tables.planes.pitch,
            has_second: 2 * pair + 1 < tables.packs(),
            scratch,
        });
    }

    /// Copies an array to the working array, or back, where rows lie along y and lines along x.
    fn rearrange(&self, array: Array, direction: Direction) {
        let Tables { planes, factors, .. } = self.tables;
        let shape = factors.shape;
        let (data, is_vector) = match array {
            Array::Vector(data) => (data, true),
            Array::Callers(data) | Array::Cells(data) | Array::Modes(data, _) => (data, false),
        };
        self.tables.each(shape.nz, |k, _| {
            for first in (0..shape.nx).step_by(CELLS_A_TURN) {
                for j in 0..shape.ny {
                    for i in first..(first + CELLS_A_TURN).min(shape.nx) {
                        let here = if is_vector { planes.layout.index(i, j, k) } else { shape.number([i, j, k]) };
                        let (here, there) = (here as isize, (planes.row(i, k) + planes.column(j)) as isize);
                        // SAFETY: each cell is copied once.
                        unsafe {
                            match direction {
                                Direction::Forward => self.work.set(there, data.row(here, 1)[0]),
                                Direction::Backward => data.set(here, self.work.row(there, 1)[0]),
                            }
                        }
                    }
                }
            }
        });
    }

    /// Copies the box to the copies of it along periodic axes, if a vector has any.
    fn repeat(&self, vector: Shared<f64>) {
        let (layout, once) = (self.tables.planes.layout, self.tables.factors.shape);
        let all = layout.shape();
        if all == once {
            return;
        }
        self.tables.each(once.nz, |k, _| {
            for (j, i) in (0..all.ny).flat_map(|j| (0..all.nx).map(move |i| (j, i))) {
                let from = layout.index(i % once.nx, j % once.ny, k) as isize;
                // SAFETY: each cell is copied once, from cells that are copied to themselves.
                unsafe { vector.set(layout.index(i, j, k) as isize, vector.row(from, 1)[0]) };
            }
        });
    }
}
