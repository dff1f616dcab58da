//! Subdomains of a grid for several devices.

use super::{Layout, Shape};
use crate::error::Result;

/// Consecutive rows of a grid, the subdomain of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slab {
    /// The first row.
    pub first: usize,
    /// The end of the rows, one past the last.
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

    /// Makes the layout of its vectors, with a halo row wherever the grid continues; `is_ring` states whether y is
    /// periodic.
    pub fn layout(&self, whole: Shape, is_ring: bool) -> Result<Layout> {
        let ring = (is_ring && self.rows() < whole.ny).then_some(whole.ny);
        let goes_on = [self.first > 0, self.beyond < whole.ny];
        let halo = goes_on.map(|goes_on| usize::from(goes_on || ring.is_some()));
        Ok(Layout { ring, ..Layout::new(self.shape(whole))?.part_of(self.first, halo) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_ring_are_beside_those_at_its_other_end() {
        let whole = Shape::new(4, 8, 3);
        let slab = |first, beyond| Slab { first, beyond }.layout(whole, true).unwrap();
        for (layout, around) in [(slab(0, 2), [true, false]), (slab(2, 5), [false; 2]), (slab(5, 8), [false, true])] {
            assert_eq!((layout.halo(), layout.goes_around_in_y(), layout.divides_ring()), ([1, 1], around, true));
            let (first, rows) = (layout.first_row(), layout.shape().ny.cast_signed());
            for j in -1..=rows {
                assert_eq!(layout.row_there(j), (first + 8).wrapping_add_signed(j) % 8);
                assert_eq!(layout.row_here(layout.row_there(j)), j);
            }
        }
        let whole_ring = slab(0, 8);
        assert_eq!((whole_ring.halo(), whole_ring.divides_ring()), ([0, 0], false));
        // One of two subdomains has the same neighbour on either side.
        let half = Slab { first: 1, beyond: 2 }.layout(Shape::new(4, 2, 3), true).unwrap();
        assert_eq!((half.halo(), half.row_there(-1), half.row_there(1), half.row_here(0)), ([1, 1], 0, 0, -1));
        let line = Slab { first: 2, beyond: 5 }.layout(whole, false).unwrap();
        assert_eq!((line.goes_around_in_y(), line.row_here(1), line.row_there(3)), ([false; 2], -1, 5));
    }
}
