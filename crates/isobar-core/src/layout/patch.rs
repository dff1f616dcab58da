//! Subdomains of a grid for several devices.

use super::{Beside, Layout, Shape};
use crate::error::{Error, Result};

/// Consecutive rows of a grid, or cells along x.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slab {
    /// The first row.
    pub first: usize,
    /// One past the last.
    pub beyond: usize,
}

impl Slab {
    /// Returns all rows of a grid.
    pub fn whole(shape: Shape) -> Self {
        Self { first: 0, beyond: shape.ny }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.beyond - self.first
    }

    /// Returns its shape as a subdomain of a grid.
    pub fn shape(&self, whole: Shape) -> Shape {
        Shape { ny: self.rows(), ..whole }
    }

    /// Makes the layout of its vectors, with a halo row wherever the grid continues; `is_ring` tells whether y is periodic.
    pub fn layout(&self, whole: Shape, is_ring: bool) -> Result<Layout> {
        let ring = (is_ring && self.rows() < whole.ny).then_some(whole.ny);
        let goes_on = [self.first > 0, self.beyond < whole.ny];
        let halo = goes_on.map(|goes_on| usize::from(goes_on || ring.is_some()));
        Ok(Layout { ring, ..Layout::new(self.shape(whole))?.part_of([0, self.first], halo) })
    }
}

/// A rectangle of the columns of a grid, the subdomain of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Its columns of a row.
    pub x: Slab,
    /// Its rows.
    pub y: Slab,
}

impl Patch {
    /// Returns all of a grid.
    pub fn whole(shape: Shape) -> Self {
        Self { x: Slab { first: 0, beyond: shape.nx }, y: Slab::whole(shape) }
    }

    /// Returns its shape as a subdomain of a grid.
    pub fn shape(&self, whole: Shape) -> Shape {
        Shape { nx: self.x.rows(), ny: self.y.rows(), ..whole }
    }

    /// Returns the cell (i, j) of the grid where it begins.
    pub fn origin(&self) -> [usize; 2] {
        [self.x.first, self.y.first]
    }

    /// Returns whether it has whole rows of a grid.
    pub fn has_whole_rows(&self, whole: Shape) -> bool {
        self.x.rows() == whole.nx
    }

    /// Returns its rows for code that requires whole ones; `what` names that code.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where it has only some columns of a grid.
    pub fn whole_rows(&self, whole: Shape, what: &str) -> Result<Slab> {
        if self.has_whole_rows(whole) { Ok(self.y) } else { Err(needs_whole_rows(what)) }
    }

    /// Makes the layout of its vectors, with a halo row or column wherever the grid continues; `rings` tells whether x, and y, are
    /// periodic.
    pub fn layout(&self, whole: Shape, rings: [bool; 2]) -> Result<Layout> {
        let rows = self.y.layout(Shape { nx: self.x.rows(), ..whole }, rings[1])?;
        let around = if rings[0] && !self.has_whole_rows(whole) { Beside::Around } else { Beside::Nothing };
        let beside =
            [self.x.first > 0, self.x.beyond < whole.nx].map(|goes_on| if goes_on { Beside::Next } else { around });
        Ok(Layout { origin: self.origin(), beside, ..rows })
    }
}

/// Returns the error where ranks divide rows, and `what` needs whole rows.
pub fn needs_whole_rows(what: &str) -> Error {
    Error::Unsupported(format!(
        "{what} on ranks that divide x; let each have whole rows (--parts 1xN, of as many ranks as rows at most), or use \
         solver.method = \"cg\" with the preconditioner \"line\""
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halo_columns_lie_behind_all_rows() {
        let whole = Shape::new(12, 7, 3);
        let patch = Patch { x: Slab { first: 4, beyond: 8 }, y: Slab { first: 2, beyond: 5 } };
        let layout = patch.layout(whole, [false; 2]).unwrap();
        assert_eq!((layout.shape(), layout.origin()), (Shape::new(4, 3, 3), [4, 2]));
        assert_eq!((layout.halo(), layout.goes_on_in_x()), ([1, 1], [true, true]));
        let rows = layout.len() + layout.halo_len()[1];
        // Five rows of three layers, on two cache lines.
        assert_eq!(layout.beyond(false, -1), rows as isize);
        assert_eq!(layout.beyond(true, 3), (rows + 16 + 4 * 3) as isize);
        assert_eq!(layout.len_with_halo(), layout.halo_len()[0] + rows + 32);
        let west = Patch { x: Slab { first: 0, beyond: 4 }, ..patch };
        assert_eq!(west.layout(whole, [false; 2]).unwrap().goes_on_in_x(), [false, true]);
        let on_ring = west.layout(whole, [true, false]).unwrap();
        assert_eq!((on_ring.goes_on_in_x(), on_ring.goes_around_in_x()), ([true, true], [true, false]));
        let ring = Patch { y: patch.y, ..Patch::whole(whole) };
        assert_eq!(ring.layout(whole, [true, false]).unwrap(), patch.y.layout(whole, false).unwrap());
        assert_eq!(ring.whole_rows(whole, "this").unwrap(), patch.y);
        assert!(patch.whole_rows(whole, "this").unwrap_err().to_string().contains("this on ranks that divide x"));
    }

    #[test]
    fn rows_of_a_ring_are_beside_those_at_its_other_end() {
        let whole = Shape::new(4, 8, 3);
        let slab = |first, beyond| Slab { first, beyond }.layout(whole, true).unwrap();
        for (layout, around) in [(slab(0, 2), [true, false]), (slab(2, 5), [false; 2]), (slab(5, 8), [false, true])] {
            assert_eq!((layout.halo(), layout.goes_around_in_y(), layout.divides_ring()), ([1, 1], around, true));
            let (first, rows) = (layout.origin()[1], layout.shape().ny.cast_signed());
            for j in -1..=rows {
                assert_eq!(layout.row_there(j), (first + 8).wrapping_add_signed(j) % 8);
                assert_eq!(layout.row_here(layout.row_there(j)), j);
            }
        }
        let whole_ring = slab(0, 8);
        assert_eq!((whole_ring.halo(), whole_ring.divides_ring()), ([0, 0], false));
        // One of two subdomains has the same row on either side.
        let half = Slab { first: 1, beyond: 2 }.layout(Shape::new(4, 2, 3), true).unwrap();
        assert_eq!((half.halo(), half.row_there(-1), half.row_there(1), half.row_here(0)), ([1, 1], 0, 0, -1));
        let line = Slab { first: 2, beyond: 5 }.layout(whole, false).unwrap();
        assert_eq!((line.goes_around_in_y(), line.row_here(1), line.row_there(3)), ([false; 2], -1, 5));
    }
}
