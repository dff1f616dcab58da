//! Places of the neighbours of a row of cells: half planes, links across sides.

use isobar_core::prelude::{Colour, Layout, Real};
use pulp::Simd;

use crate::shared::Row;

/// A grid and its periodic directions.
///
/// Kernels hold a copy: data behind a reference would be read again in every row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry<'a, T> {
    pub(crate) layout: Layout,
    /// Whether x, y and z are periodic; false in directions with one cell.
    pub(crate) periodic: [bool; 3],
    /// The values beyond closed sides: a row of zeros.
    pub(crate) zeros: &'a [T],
    /// Whether the values beyond the ends of lines in x must be replaced; otherwise their entries are zero. Halo columns require it.
    pub(crate) replaces_ends: bool,
    /// The layers, first and one past the last, that loops over rows visit.
    pub(crate) layers_visited: (usize, usize),
    /// The columns that loops over lines visit.
    pub(crate) columns_visited: Columns,
}

/// The neighbour of a cell in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// The cell has no neighbour.
    Closed,
    /// The next cell.
    Inner,
    /// The cell at the other end of a periodic direction.
    Wrapped,
}

/// The neighbours that count, in the order x, y, z of unknowns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    All,
    /// Neighbours of lower number.
    Lower,
    /// Neighbours of higher number.
    Higher,
}

impl HalfPlane {
    /// Returns whether there is a plane to the south or to the north.
    #[inline(always)]
    pub(crate) fn has_beside(&self, north: bool) -> bool {
        let link = if north { self.northern } else { self.southern };
        link != Link::Closed
    }
}

impl Which {
    /// Returns whether a neighbour on the upper or the lower side counts.
    #[inline(always)]
    pub(crate) fn counts(self, link: Link, upper_side: bool) -> bool {
        let higher = upper_side == (link == Link::Inner);
        link != Link::Closed && (self == Self::All || (self == Self::Higher) == higher)
    }
}

/// A half plane, the cells of one colour in plane j, and its place in a vector.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HalfPlane {
    pub(crate) j: usize,
    pub(crate) colour: Colour,
    /// The value of i mod 2 in its columns.
    pub(crate) parity: usize,
    pub(crate) columns: usize,
    /// The position of its first entry.
    pub(crate) start: isize,
    /// The first entry of the other colour of its plane, and those of the neighbouring half planes; its own plane's if there are
    /// none.
    pub(crate) other: isize,
    pub(crate) south: isize,
    pub(crate) north: isize,
    pub(crate) southern: Link,
    pub(crate) northern: Link,
}

/// The starts of three planes in a vector.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planes {
    pub(crate) south: isize,
    pub(crate) here: isize,
    pub(crate) north: isize,
}

/// Columns m … m + n − 1 of a half plane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns {
    pub(crate) m: usize,
    pub(crate) n: usize,
}

/// The layer k of some columns of a half plane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) k: usize,
    pub(crate) columns: Columns,
}

impl<'a, T: Real> Geometry<'a, T> {
    #[inline(always)]
    pub(crate) fn layers(&self) -> usize {
        self.layout.shape().nz
    }

    #[inline(always)]
    pub(crate) fn plane_len(&self) -> usize {
        2 * self.layout.half_plane()
    }

    #[inline(always)]
    pub(crate) fn plane_start(&self, j: usize) -> isize {
        (j * self.plane_len()) as isize
    }

    /// Returns the neighbour of plane j on one side, and its link; plane j itself if there is none.
    pub(crate) fn plane_beside(&self, j: usize, north: bool) -> (usize, Link) {
        beside(j, self.layout.shape().ny, north, self.periodic[1])
    }

    /// Returns the number of the neighbour of plane j, −1 or the number of planes for a halo row; j itself if there is none.
    pub(crate) fn number_beside(&self, j: usize, north: bool) -> isize {
        self.start_beside(j, north).0 / self.plane_len() as isize
    }

    /// Returns the start of the neighbour of plane j, which may be a halo row, and its link; plane j itself if there is none.
    fn start_beside(&self, j: usize, north: bool) -> (isize, Link) {
        let rows = self.layout.shape().ny;
        let is_end = if north { j + 1 == rows } else { j == 0 };
        if is_end && self.layout.halo()[usize::from(north)] > 0 {
            let start = if north { self.plane_start(rows) } else { -(self.plane_len() as isize) };
            let is_around = self.layout.goes_around_in_y()[usize::from(north)];
            return (start, if is_around { Link::Wrapped } else { Link::Inner });
        }
        let (plane, link) = self.plane_beside(j, north);
        (self.plane_start(plane), link)
    }

    /// Returns the layer below or above, and its link.
    #[inline(always)]
    pub(crate) fn layer_beside(&self, k: usize, above: bool) -> (usize, Link) {
        beside(k, self.layers(), above, self.periodic[2])
    }

    pub(crate) fn half_plane(&self, j: usize, colour: Colour) -> HalfPlane {
        let start = |north| self.start_beside(j, north).0;
        self.half_plane_in(j, colour, Planes { south: start(false), here: self.plane_start(j), north: start(true) })
    }

    /// Returns a half plane in a vector that holds only some planes.
    pub(crate) fn half_plane_in(&self, j: usize, colour: Colour, planes: Planes) -> HalfPlane {
        let position = |colour: Colour| (colour as usize * self.layout.half_plane()) as isize;
        let other = position(colour.other());
        HalfPlane {
            j,
            colour,
            parity: self.layout.parity(j, colour),
            columns: self.layout.columns(j, colour),
            start: planes.here + position(colour),
            other: planes.here + other,
            south: planes.south + other,
            north: planes.north + other,
            southern: self.start_beside(j, false).1,
            northern: self.start_beside(j, true).1,
        }
    }

    /// Returns all columns of a half plane.
    #[inline(always)]
    pub(crate) fn all_columns(&self) -> Columns {
        Columns { m: 0, n: self.layout.pitch() }
    }

    /// Returns the layers of a half plane that loops visit, as whole rows.
    #[inline(always)]
    pub(crate) fn rows(&self) -> impl Iterator<Item = Window> + use<'a, T> {
        let (columns, (first, beyond)) = (self.all_columns(), self.layers_visited);
        (first..beyond).map(move |k| Window { k, columns })
    }

    /// Returns a row of zeros.
    #[inline(always)]
    pub(crate) fn zeros<S: Simd>(&self, simd: S, n: usize) -> Row<'a, S, T> {
        Row::new(simd, &self.zeros[..n])
    }

    /// Returns the position of a window relative to the first entry of its half plane.
    #[inline(always)]
    fn offset(&self, w: Window) -> isize {
        (w.k * self.layout.pitch() + w.columns.m) as isize
    }

    /// Returns the position of a window of a half plane in a vector.
    #[inline(always)]
    pub(crate) fn position(&self, h: &HalfPlane, w: Window) -> isize {
        h.start + self.offset(w)
    }
}

/// Returns the starts, in layer 0, of the rows of plane j with even and with odd i; j may be a halo row.
#[inline(always)]
pub(crate) fn starts_by_parity(layout: &Layout, j: isize) -> [isize; 2] {
    let start = |colour: Colour| (colour as isize + 2 * j) * layout.half_plane() as isize;
    let (red, black) = (start(Colour::Red), start(Colour::Black));
    if j % 2 == 0 { [red, black] } else { [black, red] }
}

/// Returns the neighbour of number n of `count` on one side, and its link; n itself if there is none.
#[inline(always)]
pub(crate) fn beside(n: usize, count: usize, upper: bool, periodic: bool) -> (usize, Link) {
    let (inner, wrapped) = if upper { (n + 1 < count, 0) } else { (n > 0, count - 1) };
    match (inner, periodic) {
        (true, _) => (if upper { n + 1 } else { n - 1 }, Link::Inner),
        (false, true) => (wrapped, Link::Wrapped),
        (false, false) => (n, Link::Closed),
    }
}
