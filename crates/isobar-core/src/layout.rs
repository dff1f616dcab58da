//! Where a grid point lives in memory.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

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
    /// A grid of nx × ny × nz cells.
    pub fn new(nx: usize, ny: usize, nz: usize) -> Self {
        Self { nx, ny, nz }
    }

    /// The number of cells.
    pub fn cells(&self) -> usize {
        self.nx * self.ny * self.nz
    }

    /// Half as many cells in x and in y, the same in the vertical; `None` where that leaves a
    /// remainder.
    pub fn halved(&self) -> Option<Self> {
        (self.nx.is_multiple_of(2) && self.ny.is_multiple_of(2)).then(|| Self::new(self.nx / 2, self.ny / 2, self.nz))
    }
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
    /// Both, in sweeping order.
    pub const BOTH: [Self; 2] = [Self::Red, Self::Black];

    /// The other one.
    #[inline(always)]
    pub fn other(self) -> Self {
        match self {
            Self::Red => Self::Black,
            Self::Black => Self::Red,
        }
    }

    /// The colour of column (i, j).
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
/// so x is contiguous within a colour, then comes the vertical, then the colour, then y. Each
/// (j, colour) is a contiguous *half plane* of nz rows. A half sweep of red–black relaxation then
/// touches only the memory of the colours it needs, north and south neighbours sit at the same `m`
/// of the neighbouring rows' other colour, and east and west at `m` and `m ± 1` of the same row's.
/// The padding of a row (at most 7 entries beyond its last column) holds zeros, always.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    shape: Shape,
    pitch: usize,
}

/// Row pitches are multiples of this many elements: a 64-byte line of f64.
pub const ROW_ALIGNMENT: usize = 8;

impl Layout {
    /// The layout for a grid of this shape.
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
        Ok(Self { shape, pitch: pitch.unwrap_or_default() })
    }

    /// The grid.
    #[inline(always)]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Distance between rows: entries in one row of one colour, padding included.
    #[inline(always)]
    pub fn pitch(&self) -> usize {
        self.pitch
    }

    /// Entries of one (j, colour) half plane, padding included.
    #[inline(always)]
    pub fn half_plane(&self) -> usize {
        self.pitch * self.shape.nz
    }

    /// Entries of a whole vector, padding included.
    #[inline(always)]
    pub fn len(&self) -> usize {
        2 * self.half_plane() * self.shape.ny
    }

    /// Never: a layout has at least one cell.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Columns of one colour in row j.
    #[inline(always)]
    pub fn columns(&self, j: usize, colour: Colour) -> usize {
        (self.shape.nx + 1 - self.parity(j, colour)) / 2
    }

    /// i mod 2 of the columns of one colour in row j.
    #[inline(always)]
    pub fn parity(&self, j: usize, colour: Colour) -> usize {
        (j + colour as usize) % 2
    }

    /// Where grid point (i, j, k) is stored.
    #[inline(always)]
    pub fn index(&self, i: usize, j: usize, k: usize) -> usize {
        i / 2 + self.pitch * (k + self.shape.nz * (Colour::of(i, j) as usize + 2 * j))
    }

    /// The grid point (i, j, k) that is stored at an index; `None` in padding.
    pub fn grid_point(&self, index: usize) -> Option<(usize, usize, usize)> {
        let Shape { nx, ny, nz } = self.shape;
        let (m, row) = (index % self.pitch, index / self.pitch);
        let (k, half_plane) = (row % nz, row / nz);
        let (j, colour) = (half_plane / 2, half_plane % 2);
        let i = 2 * m + (j + colour) % 2;
        (i < nx && j < ny).then_some((i, j, k))
    }

    /// Where column (i, j) is stored in a horizontal field laid out as `m + pitch · (colour + 2j)`.
    #[inline(always)]
    pub fn column_index(&self, i: usize, j: usize) -> usize {
        i / 2 + self.pitch * (Colour::of(i, j) as usize + 2 * j)
    }

    /// Entries of a horizontal field, padding included.
    #[inline(always)]
    pub fn columns_len(&self) -> usize {
        2 * self.pitch * self.shape.ny
    }
}

/// A caller's three-dimensional array: any strides, borrowed, never copied before it is needed.
///
/// Strides are in elements and ordered (x, y, z). The default of the field's files, C order with
/// shape (nz, ny, nx), is [`ArrayView::c_order`].
#[derive(Clone, Copy, Debug)]
pub struct ArrayView<'a, T> {
    data: &'a [T],
    shape: Shape,
    strides: [usize; 3],
}

/// The writable counterpart of [`ArrayView`].
#[derive(Debug)]
pub struct ArrayViewMut<'a, T> {
    data: &'a mut [T],
    shape: Shape,
    strides: [usize; 3],
}

fn check_strides(len: usize, shape: Shape, strides: [usize; 3]) -> Result<()> {
    let extent = |n: usize, stride: usize| (n.max(1) - 1).checked_mul(stride);
    let last = extent(shape.nx, strides[0])
        .and_then(|x| extent(shape.ny, strides[1])?.checked_add(x))
        .and_then(|xy| extent(shape.nz, strides[2])?.checked_add(xy));
    match last {
        Some(last) if last < len => Ok(()),
        _ => Err(Error::shape(
            "array",
            format!("{len} elements"),
            format!("room for {shape} cells at strides (x, y, z) = {strides:?}"),
        )),
    }
}

fn c_order_strides(shape: Shape) -> [usize; 3] {
    [1, shape.nx, shape.nx * shape.ny]
}

impl<'a, T: Copy> ArrayView<'a, T> {
    /// A view with strides (x, y, z) in elements.
    ///
    /// # Errors
    /// [`Error::Shape`] if the last element would lie outside `data`.
    pub fn new(data: &'a [T], shape: Shape, strides: [usize; 3]) -> Result<Self> {
        check_strides(data.len(), shape, strides)?;
        Ok(Self { data, shape, strides })
    }

    /// A view of an array of shape (nz, ny, nx) in C order.
    ///
    /// # Errors
    /// [`Error::Shape`] if `data` has another length.
    pub fn c_order(data: &'a [T], shape: Shape) -> Result<Self> {
        exact_length(data.len(), shape)?;
        Self::new(data, shape, c_order_strides(shape))
    }

    /// The same value everywhere.
    pub fn constant(value: &'a T, shape: Shape) -> Self {
        Self { data: std::slice::from_ref(value), shape, strides: [0; 3] }
    }

    /// The grid.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The entries in C order, (nz, ny, nx), if that is how they lie in memory.
    pub fn as_c_order(&self) -> Option<&'a [T]> {
        (self.strides == c_order_strides(self.shape)).then(|| &self.data[..self.shape.cells()])
    }

    /// One entry.
    #[inline(always)]
    pub fn get(&self, i: usize, j: usize, k: usize) -> T {
        self.data[i * self.strides[0] + j * self.strides[1] + k * self.strides[2]]
    }
}

impl<'a, T: Copy> ArrayViewMut<'a, T> {
    /// A view with strides (x, y, z) in elements.
    ///
    /// # Errors
    /// [`Error::Shape`] if the last element would lie outside `data`.
    pub fn new(data: &'a mut [T], shape: Shape, strides: [usize; 3]) -> Result<Self> {
        check_strides(data.len(), shape, strides)?;
        Ok(Self { data, shape, strides })
    }

    /// A view of an array of shape (nz, ny, nx) in C order.
    ///
    /// # Errors
    /// [`Error::Shape`] if `data` has another length.
    pub fn c_order(data: &'a mut [T], shape: Shape) -> Result<Self> {
        exact_length(data.len(), shape)?;
        Self::new(data, shape, c_order_strides(shape))
    }

    /// The grid.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The same array, read only.
    pub fn as_view(&self) -> ArrayView<'_, T> {
        ArrayView { data: self.data, shape: self.shape, strides: self.strides }
    }

    /// The entries in C order, (nz, ny, nx), if that is how they lie in memory.
    pub fn as_c_order_mut(&mut self) -> Option<&mut [T]> {
        (self.strides == c_order_strides(self.shape)).then(|| &mut self.data[..self.shape.cells()])
    }

    /// Stores one entry.
    #[inline(always)]
    pub fn set(&mut self, i: usize, j: usize, k: usize, value: T) {
        self.data[i * self.strides[0] + j * self.strides[1] + k * self.strides[2]] = value;
    }
}

fn exact_length(len: usize, shape: Shape) -> Result<()> {
    if len == shape.cells() {
        Ok(())
    } else {
        Err(Error::shape("array", format!("{len} elements"), format!("{} = {shape}", shape.cells())))
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
            for j in 0..ny {
                for k in 0..nz {
                    for i in 0..nx {
                        let index = layout.index(i, j, k);
                        assert!(!std::mem::replace(&mut seen[index], true));
                        let colour = Colour::of(i, j);
                        assert_eq!(i % 2, layout.parity(j, colour));
                        assert!(i / 2 < layout.columns(j, colour));
                        assert_eq!(layout.grid_point(index), Some((i, j, k)));
                    }
                }
                let both = Colour::BOTH.map(|c| layout.columns(j, c));
                assert_eq!(both[0] + both[1], nx);
            }
            for (index, seen) in seen.into_iter().enumerate() {
                assert_eq!(layout.grid_point(index).is_some(), seen);
            }
        }
    }

    #[test]
    fn absurd_sizes_are_refused() {
        assert!(Layout::new(Shape::new(0, 1, 1)).is_err());
        assert!(Layout::new(Shape::new(usize::MAX, usize::MAX, 2)).is_err());
        assert!(Layout::new(Shape::new(1 << 20, 1 << 20, 1 << 20)).is_err());
    }

    #[test]
    fn views_check_their_bounds() {
        let data = [0.0; 24];
        let shape = Shape::new(4, 3, 2);
        assert!(ArrayView::c_order(&data, shape).is_ok());
        assert!(ArrayView::c_order(&data[..23], shape).is_err());
        assert!(ArrayView::new(&data, shape, [6, 2, 1]).is_ok());
        assert!(ArrayView::new(&data, shape, [7, 2, 1]).is_err());
        assert!(ArrayView::new(&data, shape, [usize::MAX, 2, 1]).is_err());
    }
}
