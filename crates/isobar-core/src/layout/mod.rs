//! The place of grid points in memory.

mod slab;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use self::slab::Slab;
use crate::error::{Error, Result};

/// A direction of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// West to east.
    X = 0,
    /// South to north.
    Y = 1,
    /// Bottom to top.
    Z = 2,
}

impl Axis {
    /// All three directions.
    pub const ALL: [Self; 3] = [Self::X, Self::Y, Self::Z];
}

/// The number of cells in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shape {
    /// Cells in x.
    pub nx: usize,
    /// Cells in y.
    pub ny: usize,
    /// Cells in the vertical.
    pub nz: usize,
}

impl Shape {
    /// Makes a grid of nx × ny × nz cells.
    pub fn new(nx: usize, ny: usize, nz: usize) -> Self {
        Self { nx, ny, nz }
    }

    /// Returns the number of cells.
    pub fn cells(&self) -> usize {
        self.nx * self.ny * self.nz
    }

    /// Returns nx, ny and nz.
    pub fn extents(&self) -> [usize; 3] {
        [self.nx, self.ny, self.nz]
    }

    /// Returns the number of a cell in C order, (nz, ny, nx).
    #[inline(always)]
    pub fn number(&self, [i, j, k]: [usize; 3]) -> usize {
        i + self.nx * (j + self.ny * k)
    }

    /// Returns the cell of a number in C order, (nz, ny, nx).
    #[inline(always)]
    pub fn place(&self, number: usize) -> [usize; 3] {
        [number % self.nx, number / self.nx % self.ny, number / self.nx / self.ny]
    }

    /// Returns all cells in C order, (nz, ny, nx).
    pub fn places(&self) -> impl Iterator<Item = [usize; 3]> + use<> {
        let Self { nx, ny, nz } = *self;
        (0..nz).flat_map(move |k| (0..ny).flat_map(move |j| (0..nx).map(move |i| [i, j, k])))
    }

    /// Returns the numbers of faces between neighbours along an axis: those of cells, one less along the axis unless it is periodic.
    pub fn faces_between(&self, axis: Axis, is_periodic: bool) -> Self {
        if is_periodic { *self } else { self.with(axis, |n| n.saturating_sub(1)) }
    }

    /// Returns the numbers of faces across an axis with those on its two sides: those of cells, one more along the axis.
    pub fn faces_across(&self, axis: Axis) -> Self {
        self.with(axis, |n| n + 1)
    }

    /// Returns the numbers of faces on a side of an axis: those of cells, one along the axis.
    pub fn faces_on_side(&self, axis: Axis) -> Self {
        self.with(axis, |_| 1)
    }

    fn with(&self, axis: Axis, change: impl Fn(usize) -> usize) -> Self {
        let mut extents = self.extents();
        extents[axis as usize] = change(extents[axis as usize]);
        let [nx, ny, nz] = extents;
        Self { nx, ny, nz }
    }

    /// Returns the shape with its directions in another order.
    pub(crate) fn in_order(&self, order: [usize; 3]) -> Self {
        let [nx, ny, nz] = order.map(|axis| self.extents()[axis]);
        Self { nx, ny, nz }
    }

    /// Returns half as many cells in x and in y, rounded up, and as many in the vertical; `None` for a single column.
    pub fn halved(&self) -> Option<Self> {
        (self.nx > 1 || self.ny > 1).then(|| Self::new(self.nx.div_ceil(2), self.ny.div_ceil(2), self.nz))
    }
}

/// Returns a property of the directions before they were put in this order, given that of those in it.
pub(crate) fn undo_order(order: [usize; 3], found: [usize; 3]) -> [usize; 3] {
    let mut before = found;
    order.into_iter().zip(found).for_each(|(axis, n)| before[axis] = n);
    before
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}×{}×{}", self.nx, self.ny, self.nz)
    }
}

/// One of the two sets of columns of a checkerboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Columns with i + j even; swept first.
    Red = 0,
    /// Columns with i + j odd.
    Black = 1,
}

impl Colour {
    /// Both colours, in sweeping order.
    pub const BOTH: [Self; 2] = [Self::Red, Self::Black];

    /// Returns the other colour.
    #[inline(always)]
    pub fn other(self) -> Self {
        match self {
            Self::Red => Self::Black,
            Self::Black => Self::Red,
        }
    }

    /// Returns the colour of column (i, j).
    #[inline(always)]
    pub fn of(i: usize, j: usize) -> Self {
        if (i + j).is_multiple_of(2) { Self::Red } else { Self::Black }
    }
}

/// The one memory layout of isobar: a checkerboard of columns, colours stored apart.
///
/// Row j holds its red columns, then its black ones. With `m` counting the columns of one colour in
/// a row, i = 2m + ((j + colour) mod 2), a grid point is stored at
///
/// ```text
/// index = m + pitch · (k + nz · (colour + 2j)),     pitch = ⌈nx / 2⌉ rounded up to 8
/// ```
///
/// so that x is contiguous within a colour, then comes the vertical, then the colour, then y. Each (j, colour) is a contiguous
/// *half plane* of nz rows. A half sweep of red–black relaxation touches only the memory of the colours it needs, north and south
/// neighbours have the same `m` in the neighbouring rows' other colour, and east and west neighbours `m` and `m ± 1` in the same
/// row's. The padding of a row (at most 7 entries beyond its last column) always holds zeros.
///
/// A grid may be a subdomain of a larger one, a [`Slab`] that begins with its [`first_row`](Self::first_row): before its first and after
/// its last row, if the larger grid continues, there is room for [`halo`](Self::halo) rows of neighbours. Positions count from the
/// first cell, so that halo rows have negative ones or lie beyond [`len`](Self::len). Colours are stored by the subdomain's own
/// numbering; [`local`](Self::local) converts a colour of the larger grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    shape: Shape,
    pitch: usize,
    first_row: usize,
    halo: [usize; 2],
    /// Rows of the larger grid, where y is periodic and divided.
    ring: Option<usize>,
    has_own_halo: bool,
}

/// Row pitches are multiples of this many elements: a 64-byte cache line of f64.
pub const ROW_ALIGNMENT: usize = 8;

impl Layout {
    /// Makes the layout for a grid of this shape.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a direction has no cells, or the padded grid has more than 2⁴⁸ entries.
    pub fn new(shape: Shape) -> Result<Self> {
        for (key, n) in [("grid.nx", shape.nx), ("grid.ny", shape.ny), ("grid.nz", shape.nz)] {
            if n == 0 {
                return Err(Error::invalid(key, "0 cells; use 1 or more"));
            }
        }
        let pitch = shape.nx.div_ceil(2).checked_next_multiple_of(ROW_ALIGNMENT);
        pitch
            .and_then(|p| p.checked_mul(2)?.checked_mul(shape.ny)?.checked_mul(shape.nz))
            .filter(|&entries| entries <= 1 << 48)
            .ok_or_else(|| Error::invalid("grid", format!("{shape} cells are more than can be addressed (2⁴⁸)")))?;
        let pitch = pitch.unwrap_or_default();
        Ok(Self { shape, pitch, first_row: 0, halo: [0; 2], ring: None, has_own_halo: false })
    }

    /// Makes the layout of a single cell, for vectors that are required and not used.
    ///
    /// # Errors
    /// Never in practice.
    pub fn smallest() -> Result<Self> {
        Self::new(Shape::new(1, 1, 1))
    }

    /// Makes the layout of a subdomain of a larger grid, of which it has the rows from number `first_row` on, with room for `halo` rows
    /// of neighbours before the first row and after the last.
    #[must_use]
    pub fn part_of(self, first_row: usize, halo: [usize; 2]) -> Self {
        Self { first_row, halo, ..self }
    }

    /// Makes the layout of vectors whose owner fills their halo: [`Backend::fill`](crate::backend::Backend::fill) does not change it.
    #[must_use]
    pub fn with_own_halo(self) -> Self {
        Self { has_own_halo: true, ..self }
    }

    /// Returns whether neighbours fill its halo.
    pub fn is_filled(&self) -> bool {
        self.is_part() && !self.has_own_halo
    }

    /// Makes the layout of vectors with another number of layers of the same rows, without halo.
    pub fn own_rows(&self, layers: usize) -> Result<Self> {
        Ok(Self::new(Shape { nz: layers, ..self.shape })?.part_of(self.first_row, [0; 2]))
    }

    /// Returns the number of its first row in the larger grid.
    pub fn first_row(&self) -> usize {
        self.first_row
    }

    /// Returns how many halo rows vectors have before the first and after the last.
    #[inline(always)]
    pub fn halo(&self) -> [usize; 2] {
        self.halo
    }

    /// Returns whether it is a subdomain of a larger grid, with neighbours.
    #[inline(always)]
    pub fn is_part(&self) -> bool {
        self.halo != [0; 2]
    }

    /// Returns whether y is periodic and divided, and this has some of the rows.
    #[inline(always)]
    pub fn divides_ring(&self) -> bool {
        self.ring.is_some()
    }

    /// Returns whether the halo rows before the first row, and after the last, are from the other end of a periodic y.
    #[inline(always)]
    pub fn goes_around_in_y(&self) -> [bool; 2] {
        let first = self.first_row;
        self.ring.map_or([false; 2], |rows| [first == 0, first + self.shape.ny == rows])
    }

    /// Returns which of a grid's periodic directions are periodic within this subdomain: a divided one continues in others.
    #[inline(always)]
    pub fn periodic_within(&self, [x, y, z]: [bool; 3]) -> [bool; 3] {
        [x, y && !self.divides_ring(), z]
    }

    /// Returns this subdomain's number of a row or halo row, given its number in the larger grid: −1 is the one before the first.
    #[inline(always)]
    pub fn row_here(&self, row: usize) -> isize {
        let first = self.first_row;
        match self.ring {
            Some(rows) if row < first || row >= first + self.shape.ny => {
                if (row + 1) % rows == first {
                    -1
                } else {
                    self.shape.ny.cast_signed()
                }
            }
            _ => row.cast_signed() - first.cast_signed(),
        }
    }

    /// Returns the number in the larger grid of row j here, which may be a halo row.
    #[inline(always)]
    pub fn row_there(&self, j: isize) -> usize {
        let row = self.first_row.cast_signed() + j;
        self.ring.map_or(row, |rows| row.rem_euclid(rows.cast_signed())).cast_unsigned()
    }

    /// Returns the entries of the halo rows before the first row and after the last.
    #[inline(always)]
    pub fn halo_len(&self) -> [usize; 2] {
        let [before, after] = self.halo;
        [2 * self.half_plane() * before, 2 * self.half_plane() * after]
    }

    /// Returns the entries of a whole vector, padding and halo included.
    #[inline(always)]
    pub fn len_with_halo(&self) -> usize {
        let [before, after] = self.halo_len();
        before + self.len() + after
    }

    /// Returns the colour here of columns of a colour of the larger grid: relaxation must sweep the larger grid's red columns
    /// first, wherever the subdomain begins.
    #[inline(always)]
    pub fn local(&self, colour: Colour) -> Colour {
        if self.first_row.is_multiple_of(2) { colour } else { colour.other() }
    }

    /// Returns the shape of the grid.
    #[inline(always)]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the distance between rows: entries in one row of one colour, padding included.
    #[inline(always)]
    pub fn pitch(&self) -> usize {
        self.pitch
    }

    /// Returns the entries of one (j, colour) half plane, padding included.
    #[inline(always)]
    pub fn half_plane(&self) -> usize {
        self.pitch * self.shape.nz
    }

    /// Returns the entries of a vector, padding included, halo rows not.
    #[inline(always)]
    pub fn len(&self) -> usize {
        2 * self.half_plane() * self.shape.ny
    }

    /// Returns false: a layout has at least one cell.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Returns the number of columns of one colour in row j.
    #[inline(always)]
    pub fn columns(&self, j: usize, colour: Colour) -> usize {
        (self.shape.nx + 1 - self.parity(j, colour)) / 2
    }

    /// Returns i mod 2 of the columns of one colour in row j.
    #[inline(always)]
    pub fn parity(&self, j: usize, colour: Colour) -> usize {
        (j + colour as usize) % 2
    }

    /// Returns the place of grid point (i, j, k).
    #[inline(always)]
    pub fn index(&self, i: usize, j: usize, k: usize) -> usize {
        i / 2 + self.pitch * (k + self.shape.nz * (Colour::of(i, j) as usize + 2 * j))
    }

    /// Returns the grid point (i, j, k) that is stored at an index; `None` in padding.
    pub fn grid_point(&self, index: usize) -> Option<(usize, usize, usize)> {
        let Shape { nx, ny, nz } = self.shape;
        let (m, row) = (index % self.pitch, index / self.pitch);
        let (k, half_plane) = (row % nz, row / nz);
        let (j, colour) = (half_plane / 2, half_plane % 2);
        let i = 2 * m + (j + colour) % 2;
        (i < nx && j < ny).then_some((i, j, k))
    }

    /// Returns the entries of a horizontal field laid out as `m + pitch · (colour + 2j)`, padding included.
    #[inline(always)]
    pub fn columns_len(&self) -> usize {
        2 * self.pitch * self.shape.ny
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_has_its_own_place() {
        for (nx, ny, nz) in [(1, 1, 1), (7, 5, 3), (8, 6, 10), (33, 2, 4), (16, 16, 1)] {
            let layout = Layout::new(Shape::new(nx, ny, nz)).unwrap();
            let mut seen = vec![false; layout.len()];
            for [i, j, k] in layout.shape().places() {
                let index = layout.index(i, j, k);
                assert!(!std::mem::replace(&mut seen[index], true));
                let colour = Colour::of(i, j);
                assert_eq!(i % 2, layout.parity(j, colour));
                assert!(i / 2 < layout.columns(j, colour));
                assert_eq!(layout.grid_point(index), Some((i, j, k)));
            }
            for j in 0..ny {
                let both = Colour::BOTH.map(|c| layout.columns(j, c));
                assert_eq!(both[0] + both[1], nx);
            }
            for (index, seen) in seen.into_iter().enumerate() {
                assert_eq!(layout.grid_point(index).is_some(), seen);
            }
        }
    }

    #[test]
    fn a_part_keeps_the_checkerboard_of_the_whole() {
        let whole = Layout::new(Shape::new(9, 7, 2)).unwrap();
        for first in [0, 2, 3, 1] {
            let part = Layout::new(Shape::new(9, 4, 2)).unwrap().part_of(first, [1, 0]);
            assert_eq!((part.first_row(), part.halo_len()), (first, [2 * part.half_plane(), 0]));
            assert_eq!(part.len_with_halo(), part.len() + 2 * part.half_plane());
            for (i, j) in (0..4).flat_map(|j| (0..5).map(move |i| (i, j))) {
                let there = Colour::of(i, j + first);
                assert_eq!(part.local(there), Colour::of(i, j));
            }
        }
        assert_eq!((whole.halo(), whole.local(Colour::Black)), ([0, 0], Colour::Black));
        let slab = Slab { first: 2, beyond: 5 };
        let layout = slab.layout(whole.shape(), false).unwrap();
        assert_eq!((layout.shape(), layout.first_row(), layout.halo()), (Shape::new(9, 3, 2), 2, [1, 1]));
        assert_eq!(Slab::whole(whole.shape()).layout(whole.shape(), true).unwrap(), whole);
    }

    #[test]
    fn halving_rounds_up_and_ends_with_one_column() {
        let mut shape = Shape::new(33, 6, 4);
        let mut seen = vec![(shape.nx, shape.ny)];
        while let Some(next) = shape.halved() {
            shape = next;
            seen.push((shape.nx, shape.ny));
        }
        assert_eq!(seen, [(33, 6), (17, 3), (9, 2), (5, 1), (3, 1), (2, 1), (1, 1)]);
    }

    #[test]
    fn absurd_sizes_are_refused() {
        assert!(Layout::new(Shape::new(0, 1, 1)).is_err());
        assert!(Layout::new(Shape::new(usize::MAX, usize::MAX, 2)).is_err());
        assert!(Layout::new(Shape::new(1 << 20, 1 << 20, 1 << 20)).is_err());
    }
}
