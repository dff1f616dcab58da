//! Places of the neighbours of a row of cells: half planes, links across sides, rows with one lane replaced.
//!
//! Beyond a closed side lies a row of zeros, so that loops need no special case: an entry or a value of zero is read there.

use isobar_core::prelude::{Colour, Layout, Pack, Real};
use pulp::Simd;

use crate::shared::{Ahead, Row, Shared};

/// A grid and its periodic directions.
///
/// Kernels hold a copy: data behind a reference would be read again in every row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry<'a, T> {
    pub(crate) layout: Layout,
    /// False in directions with one cell.
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
    /// There is no neighbour.
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
    fn counts(self, link: Link, upper_side: bool) -> bool {
        let higher = upper_side == (link == Link::Inner);
        link != Link::Closed && (self == Self::All || (self == Self::Higher) == higher)
    }
}

/// A half plane, the cells of one colour in plane j, and its place in a vector.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HalfPlane {
    pub(crate) j: usize,
    pub(crate) colour: Colour,
    /// i mod 2 of its columns.
    pub(crate) parity: usize,
    pub(crate) columns: usize,
    /// Position of its first entry.
    pub(crate) start: isize,
    /// The first entry of the other colour of its plane, and those of the half planes beside; its own plane's where there are none.
    other: isize,
    south: isize,
    north: isize,
    southern: Link,
    northern: Link,
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

/// Layer k of some columns of a half plane.
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

    /// Returns the plane beside plane j on one side, and its link; plane j itself where there is none.
    pub(crate) fn plane_beside(&self, j: usize, north: bool) -> (usize, Link) {
        beside(j, self.layout.shape().ny, north, self.periodic[1])
    }

    /// Returns the number of the plane beside plane j, −1 or the number of planes for a halo row; j itself where there is none.
    pub(crate) fn number_beside(&self, j: usize, north: bool) -> isize {
        self.start_beside(j, north).0 / self.plane_len() as isize
    }

    /// Returns the start of the plane beside plane j, which may be a halo row, and its link; plane j itself where there is none.
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

/// Returns the neighbour of number n of `count` on one side, and its link; n itself where there is none.
#[inline(always)]
fn beside(n: usize, count: usize, upper: bool, periodic: bool) -> (usize, Link) {
    let (inner, wrapped) = if upper { (n + 1 < count, 0) } else { (n > 0, count - 1) };
    match (inner, periodic) {
        (true, _) => (if upper { n + 1 } else { n - 1 }, Link::Inner),
        (false, true) => (wrapped, Link::Wrapped),
        (false, false) => (n, Link::Closed),
    }
}

/// A row of which one or two lanes are replaced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended<'a, S: Simd, T: Real> {
    row: Row<'a, S, T>,
    first: End<S, T>,
    second: End<S, T>,
}

/// A replacement for one pack of a row.
#[derive(Clone, Copy, Debug)]
struct End<S: Simd, T: Real> {
    /// The number of the pack; without a replacement the largest integer, which a loop over packs never reaches.
    at: usize,
    pack: Pack<S, T>,
}

impl<S: Simd, T: Real> End<S, T> {
    #[inline(always)]
    fn none(simd: S) -> Self {
        Self { at: usize::MAX, pack: Pack::splat(simd, T::ZERO) }
    }
}

impl<'a, S: Simd, T: Real> Ended<'a, S, T> {
    /// Takes the row unchanged.
    #[inline(always)]
    pub(crate) fn whole(simd: S, row: Row<'a, S, T>) -> Self {
        Self { row, first: End::none(simd), second: End::none(simd) }
    }

    /// Replaces the value in one lane.
    #[inline(always)]
    pub(crate) fn with(mut self, lane: usize, value: T) -> Self {
        let (at, lane) = (lane / Row::<S, T>::LANES, lane % Row::<S, T>::LANES);
        if self.first.at == at {
            self.first.pack = self.first.pack.with_lane(lane, value);
        } else {
            self.second = self.first;
            self.first = End { at, pack: self.row.get(at).with_lane(lane, value) };
        }
        self
    }

    #[inline(always)]
    pub(crate) fn get(&self, i: usize) -> Pack<S, T> {
        if i == self.first.at {
            self.first.pack
        } else if i == self.second.at {
            self.second.pack
        } else {
            self.row.get(i)
        }
    }
}

/// A vector, as read from one window of a half plane.
#[derive(Clone, Copy)]
pub(crate) struct View<'a, 'h, S: Simd, T: Real> {
    pub(crate) simd: S,
    pub(crate) g: Geometry<'a, T>,
    pub(crate) v: Shared<T>,
    pub(crate) h: &'h HalfPlane,
    pub(crate) w: Window,
    pub(crate) which: Which,
}

impl<'a, S: Simd, T: Real> View<'a, '_, S, T> {
    /// # Safety
    /// Nobody writes the row meanwhile.
    #[inline(always)]
    unsafe fn row(&self, counts: bool, position: isize) -> Row<'a, S, T> {
        if counts {
            // SAFETY: promised by the caller; rows of the vector, or one entry into its guard.
            unsafe { self.v.packs(self.simd, position, self.w.columns.n) }
        } else {
            self.g.zeros(self.simd, self.w.columns.n)
        }
    }

    /// Returns the entries west or east of each: the neighbours in x, except at an end of a line.
    ///
    /// # Safety
    /// Nobody writes them meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn row_in_x(&self, upper: bool) -> Row<'a, S, T> {
        let position = self.h.other + self.g.offset(self.w) + self.h.parity as isize - if upper { 0 } else { 1 };
        // SAFETY: promised by the caller.
        unsafe { self.row(self.which.counts(Link::Inner, upper), position) }
    }

    /// Returns the column, counted from the window's first, at the lower or upper end of its line, if its neighbour there would be of
    /// the other colour: the first cell of a line, and the last one of an even number.
    #[inline(always)]
    pub(crate) fn end_in_x(&self, upper: bool) -> Option<usize> {
        let (h, Columns { m, n }) = (self.h, self.w.columns);
        let last = h.columns.wrapping_sub(1);
        match upper {
            false => (h.parity == 0 && m == 0).then_some(0),
            true => {
                let is_even = self.g.layout.shape().nx.is_multiple_of(2);
                (h.parity == 1 && is_even && (m..m + n).contains(&last)).then(|| last.wrapping_sub(m))
            }
        }
    }

    /// Returns the western or the eastern neighbours.
    ///
    /// # Safety
    /// Nobody writes them meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn in_x(&self, upper: bool) -> Ended<'a, S, T> {
        let Self { simd, g, v, h, w, which } = *self;
        let Columns { m, n } = w.columns;
        // SAFETY: promised by the caller.
        let row = unsafe { self.row_in_x(upper) };
        let mut ended = Ended::whole(simd, row);
        if !g.replaces_ends {
            return ended;
        }
        // East of a row's last entry lies another row, with arbitrary values.
        if upper && h.parity == 1 && m + n == g.layout.pitch() {
            ended = ended.with(n - 1, T::ZERO);
        }
        let Some(lane) = self.end_in_x(upper) else { return ended };
        if g.layout.goes_on_in_x()[usize::from(upper)] {
            let is_around = g.layout.goes_around_in_x()[usize::from(upper)];
            if !which.counts(if is_around { Link::Wrapped } else { Link::Inner }, upper) {
                return ended.with(lane, T::ZERO);
            }
            let position = g.layout.beyond(upper, h.j as isize) + w.k as isize;
            // SAFETY: promised by the caller.
            return ended.with(lane, unsafe { v.row(position, 1)[0] });
        }
        if !(g.periodic[0] && which.counts(Link::Wrapped, upper)) {
            // East of the last column lies padding, or the row's end.
            return if upper { ended } else { ended.with(lane, T::ZERO) };
        }
        // The first cell of a line of even length has even i, the last one odd i: both are of the other colour here.
        let m = if upper { 0 } else { g.layout.shape().nx / 2 - 1 };
        let position = h.other + (w.k * g.layout.pitch() + m) as isize;
        // SAFETY: promised by the caller.
        ended.with(lane, unsafe { v.row(position, 1)[0] })
    }

    /// Returns the southern or the northern neighbours.
    ///
    /// # Safety
    /// Nobody writes them meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn in_y(&self, upper: bool) -> Row<'a, S, T> {
        let (start, link) = if upper { (self.h.north, self.h.northern) } else { (self.h.south, self.h.southern) };
        // SAFETY: promised by the caller.
        unsafe { self.row(self.which.counts(link, upper), start + self.g.offset(self.w)) }
    }

    /// Returns the neighbours below or above.
    ///
    /// # Safety
    /// Nobody writes them meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn in_z(&self, upper: bool) -> Row<'a, S, T> {
        let (k, link) = self.g.layer_beside(self.w.k, upper);
        let position = self.g.position(self.h, Window { k, ..self.w });
        // SAFETY: promised by the caller.
        unsafe { self.row(self.which.counts(link, upper), position) }
    }

    /// Returns the cells themselves.
    ///
    /// # Safety
    /// Nobody writes them meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn own(&self) -> Row<'a, S, T> {
        // SAFETY: promised by the caller.
        unsafe { self.v.packs(self.simd, self.g.position(self.h, self.w), self.w.columns.n) }
    }

    /// Prefetches the northern neighbours, or their replacement: the others were read one plane ago.
    #[inline(always)]
    pub(crate) fn ahead(&self) -> Ahead<T> {
        self.v.ahead(self.h.north + self.g.offset(self.w))
    }
}

/// The values around a row, zeros where no neighbour counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around<'a, S: Simd, T: Real> {
    west: Ended<'a, S, T>,
    east: Ended<'a, S, T>,
    south: Row<'a, S, T>,
    north: Row<'a, S, T>,
    below: Row<'a, S, T>,
    above: Row<'a, S, T>,
    ahead: Ahead<T>,
}

impl<'a, S: Simd, T: Real> Around<'a, S, T> {
    /// # Safety
    /// Nobody writes the neighbours meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn new(view: View<'a, '_, S, T>) -> Self {
        // SAFETY: promised by the caller.
        unsafe {
            Self {
                west: view.in_x(false),
                east: view.in_x(true),
                south: view.in_y(false),
                north: view.in_y(true),
                below: view.in_z(false),
                above: view.in_z(true),
                ahead: view.ahead(),
            }
        }
    }

    /// Prefetches the values needed a little after pack i.
    #[inline(always)]
    pub(crate) fn fetch_ahead(&self, i: usize) {
        self.ahead.fetch(i, Row::<S, T>::LANES);
    }

    /// Returns the values west, east, south, north.
    #[inline(always)]
    pub(crate) fn horizontal(&self, i: usize) -> [Pack<S, T>; 4] {
        [self.west.get(i), self.east.get(i), self.south.get(i), self.north.get(i)]
    }

    /// Returns the values below and above.
    #[inline(always)]
    pub(crate) fn vertical(&self, i: usize) -> [Pack<S, T>; 2] {
        [self.below.get(i), self.above.get(i)]
    }
}
