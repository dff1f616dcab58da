//! Transforms of a block: two packs of lines, which lie along rows or across them.

use isobar_core::simd::Pack;
use pulp::{Simd, WithSimd};

use super::both::Both;
use super::planes::Halves;
use super::transform::{Direction, Transform};
use super::transpose::{MOST_LANES, transposed};
use crate::shared::Shared;

/// The most lines of a block.
pub(super) const MOST_LINES: usize = 2 * MOST_LANES;

/// Rows that a block is read from or written to.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) data: Shared<f64>,
    /// Starts of the rows; of rows that are not in halves only the first counts.
    pub(super) starts: [Halves; MOST_LINES],
    pub(super) order: Order,
}

/// The order of numbers in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Those with even numbers first, then those with odd ones, in whole packs each.
    Halves,
    /// As they are counted, in whole packs.
    Packs,
    /// As they are counted, up to the last.
    Dense,
}

/// Transforms rows.
pub(super) struct AlongRows<'a> {
    pub(super) transform: &'a Transform,
    pub(super) direction: Direction,
    pub(super) columns: usize,
    pub(super) from: Rows,
    pub(super) to: Rows,
    /// The number of rows; rows beyond are read and not written.
    pub(super) count: usize,
    pub(super) scratch: &'a mut [f64],
}

impl WithSimd for AlongRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { transform, direction, columns, from, to, count, scratch } = self;
        let (block, scratch) = scratch.split_at_mut(2 * S::F64_LANES * columns);
        let block = Shared::of(block);
        from.read::<S>(simd, columns, block);
        let position = |i: usize| (2 * i * S::F64_LANES) as isize;
        let load = |i: usize| -> Both<S> {
            // SAFETY: the block is this thread's, and a transform writes when it has read everything.
            let row = unsafe { block.packs(simd, position(i), 2 * S::F64_LANES) };
            [row.get(0), row.get(1)]
        };
        let store = |k: usize, [a, b]: Both<S>| {
            // SAFETY: as above.
            let mut row = unsafe { block.packs_mut(simd, position(k), 2 * S::F64_LANES) };
            row.set(0, a);
            row.set(1, b);
        };
        transform.apply(simd, direction, scratch, load, store);
        to.write::<S>(simd, columns, block, count);
    }
}

impl Rows {
    /// Returns runs of columns: the start they follow, their number, the first column and the stride.
    #[inline(always)]
    fn runs(&self, columns: usize) -> [(usize, usize, usize); 2] {
        match self.order {
            Order::Halves => [(columns.div_ceil(2), 0, 2), (columns / 2, 1, 2)],
            Order::Packs | Order::Dense => [(columns, 0, 1), (0, 0, 1)],
        }
    }

    /// Returns the numbers of a pack that lie in its row, of this many from its start to the last column.
    #[inline(always)]
    fn within(&self, lanes: usize, left: usize) -> usize {
        if self.order == Order::Dense { lanes.min(left) } else { lanes }
    }

    #[inline(always)]
    fn read<S: Simd>(&self, simd: S, columns: usize, block: Shared<f64>) {
        let lanes = S::F64_LANES;
        for (half, (count, first, step)) in self.runs(columns).into_iter().enumerate() {
            for c in (0..count).step_by(lanes) {
                for pack in 0..2 {
                    let mut tile = [Pack::<S, f64>::splat(simd, 0.0).register(); MOST_LANES];
                    for (lane, tile) in tile.iter_mut().enumerate().take(lanes) {
                        let start = self.starts[pack * lanes + lane][half] + c as isize;
                        // SAFETY: numbers of the row, and nobody writes them meanwhile.
                        let row = unsafe { self.data.row(start, self.within(lanes, count - c)) };
                        *tile =
                            if row.len() == lanes { S::as_simd_f64s(row).0[0] } else { simd.partial_load_f64s(row) };
                    }
                    let tile = transposed::<S>(tile);
                    for (n, tile) in tile.into_iter().enumerate().take(lanes.min(count - c)) {
                        let i = first + step * (c + n);
                        // SAFETY: the block belongs to this thread.
                        unsafe { block.packs_mut(simd, ((2 * i + pack) * lanes) as isize, lanes) }
                            .set(0, Pack::new(simd, tile));
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn write<S: Simd>(&self, simd: S, columns: usize, block: Shared<f64>, lines: usize) {
        let lanes = S::F64_LANES;
        for (half, (count, first, step)) in self.runs(columns).into_iter().enumerate() {
            for c in (0..count).step_by(lanes) {
                for pack in 0..2 {
                    // Columns beyond the last are zero.
                    let mut tile = [Pack::<S, f64>::splat(simd, 0.0).register(); MOST_LANES];
                    for (n, tile) in tile.iter_mut().enumerate().take(lanes.min(count - c)) {
                        let i = first + step * (c + n);
                        // SAFETY: the block is this thread's.
                        *tile =
                            unsafe { block.packs(simd, ((2 * i + pack) * lanes) as isize, lanes) }.get(0).register();
                    }
                    let tile = transposed::<S>(tile);
                    let lines = lines.saturating_sub(pack * lanes).min(lanes);
                    for (lane, tile) in tile.into_iter().enumerate().take(lines) {
                        let start = self.starts[pack * lanes + lane][half] + c as isize;
                        // SAFETY: numbers of the row, which is this thread's.
                        let row = unsafe { self.data.row_mut(start, self.within(lanes, count - c)) };
                        if row.len() == lanes {
                            S::as_mut_simd_f64s(row).0[0] = tile;
                        } else {
                            simd.partial_store_f64s(row, tile);
                        }
                    }
                }
            }
        }
    }
}

/// Transforms lines across rows.
pub(super) struct AcrossRows<'a> {
    pub(super) transform: &'a Transform,
    pub(super) direction: Direction,
    pub(super) from: Shared<f64>,
    pub(super) to: Shared<f64>,
    /// The beginning of the first row in either array.
    pub(super) starts: [usize; 2],
    /// The distance from a row to the next.
    pub(super) pitch: usize,
    /// Whether there is a second pack of lines.
    pub(super) has_second: bool,
    pub(super) scratch: &'a mut [f64],
}

impl WithSimd for AcrossRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { transform, direction, from, to, starts: [start, target], pitch, has_second, scratch } = self;
        let lanes = S::F64_LANES;
        let second = if has_second { lanes } else { 0 };
        let load = |i: usize| {
            let position = start + i * pitch;
            // SAFETY: these lines are this thread's, and a transform writes when it has read everything.
            unsafe {
                let first = from.packs(simd, position as isize, lanes).get(0);
                [first, from.packs(simd, (position + second) as isize, lanes).get(0)]
            }
        };
        let store = |k: usize, [a, b]: Both<S>| {
            let position = (target + k * pitch) as isize;
            // SAFETY: as above.
            unsafe {
                to.packs_mut(simd, position, lanes).set(0, a);
                if has_second {
                    to.packs_mut(simd, position + lanes as isize, lanes).set(0, b);
                }
            }
        };
        transform.apply(simd, direction, scratch, load, store);
    }
}
