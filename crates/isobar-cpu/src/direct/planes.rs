//! Places of numbers in vectors and in the working array.

use isobar_core::direct::Separable;
use isobar_core::layout::{Layout, ROW_ALIGNMENT};

use super::memory::LINE;

/// The fewest lines in a batch of planes, so that few blocks of lines have idle lanes.
const LINES_A_BATCH: usize = 96;

/// The layout of the working array: planes across the lines, one after another, of rows along the first transformed axis.
///
/// A row holds modes in their order; or cells as in vectors, those with even numbers first, then those with odd ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planes {
    pub(super) layout: Layout,
    line: usize,
    /// Cells of a row.
    pub(super) columns: usize,
    /// Rows of a plane.
    pub(super) rows: usize,
    /// Planes.
    pub(super) count: usize,
    /// Planes in a batch, for any number of threads.
    pub(super) batch: usize,
    /// The place of the first cell with an odd number in a row.
    half: usize,
    /// The distance from a row to the next.
    pub(super) pitch: usize,
    /// The distance from a plane to the next.
    pub(super) stride: usize,
}

/// The starts of the cells of a row with even numbers, and of those with odd ones.
pub(super) type Halves = [isize; 2];

impl Planes {
    pub(super) fn new(layout: Layout, factors: &Separable) -> Self {
        let [columns, rows] = factors.across.map(|axis| factors.extent(axis));
        let count = factors.extent(factors.line);
        let half = columns.div_ceil(2).next_multiple_of(ROW_ALIGNMENT);
        let pitch = 2 * half;
        // An odd number of cache lines, so that the cells of a line spread over the sets of a cache.
        let stride = rows * pitch + LINE * usize::from((rows * pitch / LINE).is_multiple_of(2));
        let batch = LINES_A_BATCH.div_ceil(rows).min(count);
        Self { layout, line: factors.line, columns, rows, count, batch, half, pitch, stride }
    }

    /// Returns the numbers in this many planes.
    pub(super) fn len(&self, planes: usize) -> usize {
        planes * self.stride
    }

    /// Returns whether rows lie across vectors, so that these must be rearranged.
    pub(super) fn is_rearranged(&self) -> bool {
        self.line == 0
    }

    /// Returns the number of batches of planes.
    pub(super) fn batches(&self) -> usize {
        self.count.div_ceil(self.batch)
    }

    /// Returns the planes of a batch.
    pub(super) fn planes(&self, batch: usize) -> std::ops::Range<usize> {
        batch * self.batch..((batch + 1) * self.batch).min(self.count)
    }

    /// Returns the start of a row of modes.
    pub(super) fn row(&self, plane: usize, row: usize) -> usize {
        plane * self.stride + row * self.pitch
    }

    /// Returns the starts of the cells of a row of the working array.
    pub(super) fn halves(&self, plane: usize, row: usize) -> Halves {
        let start = self.row(plane, row);
        [start as isize, (start + self.half) as isize]
    }

    /// Returns the starts of the cells of a row of a vector.
    pub(super) fn halves_of_vector(&self, plane: usize, row: usize) -> Halves {
        let (j, k) = if self.line == 1 { (plane, row) } else { (row, plane) };
        let start = |colour: usize| (self.layout.pitch() * (k + self.layout.shape().nz * (colour + 2 * j))) as isize;
        // Red columns have i + j even.
        [start(j % 2), start(1 - j % 2)]
    }

    /// Returns the start of a row of an array in C order.
    pub(super) fn callers_row(&self, plane: usize, row: usize) -> isize {
        // Planes and rows are layers and rows, or the reverse.
        let row = if self.line == 1 { plane + self.count * row } else { row + self.rows * plane };
        (self.columns * row) as isize
    }

    /// Returns the place of cell i in a row.
    pub(super) fn column(&self, i: usize) -> usize {
        i / 2 + self.half * (i % 2)
    }
}
