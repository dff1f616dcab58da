//! Where the neighbours of a row of cells lie: half planes, links across sides, rows with one lane replaced.
//!
//! What lies beyond a closed side is a row of zeros, so that loops know nothing of sides: an entry or a value of zero
//! meets them there.

use isobar_core::layout::{Colour, Layout};
use isobar_core::real::Real;
use isobar_core::simd::Pack;
use pulp::Simd;

use crate::shared::{Ahead, Row, Shared};

/// A grid and which of its directions are periodic.
///
/// Kernels have one of their own: what is reached by a reference would be read again in every row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry<'a, T> {
    pub(crate) layout: Layout,
    /// False in directions with one cell.
    pub(crate) periodic: [bool; 3],
    /// The values beyond closed sides: a row of zeros.
    pub(crate) zeros: &'a [T],
    /// Whether what lies beyond the ends of lines in x must be replaced; if not, entries of zero meet it. Where there are halo columns
    /// it must.
    pub(crate) replaces_ends: bool,
}

/// The neighbour of a cell in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// Nothing.
    Closed,
    /// The next cell.
    Inner,
    /// The cell at the other end of a periodic direction.
    Wrapped,
}

/// Which neighbours count, in the order x, y, z of unknowns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    All,
    /// Neighbours of lower number.
    Lower,
    /// Neighbours of higher number.
    Higher,
}

impl HalfPlane {
    /// Whether there is a plane beside, in the south or in the north.
    #[inline(always)]
    pub(crate) fn has_beside(&self, north: bool) -> bool {
        let link = if north { self.northern } else { self.southern };
        link != Link::Closed
    }
}

impl Which {
    /// Whether a neighbour on the upper or the lower side counts.
    #[inline(always)]
    fn counts(self, link: Link, upper_side: bool) -> bool {
        let higher = upper_side == (link == Link::Inner);
        link != Link::Closed && (self == Self::All || (self == Self::Higher) == higher)
    }
}

/// One half plane, the cells of one colour in plane j, and where it lies in a vector.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HalfPlane {
    pub(crate) j: usize,
    pub(crate) colour: Colour,
    /// i mod 2 of its columns.
    pub(crate) parity: usize,
    pub(crate) columns: usize,
    /// Position of its first entry.
    pub(crate) start: isize,
    /// The same of the other colour of its plane, and of the planes beside; of its own plane where there are none.
    other: isize,
    south: isize,
    north: isize,
    southern: Link,
    northern: Link,
}

/// Where three planes start in a vector.
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

    /// The plane beside plane j on one side, and how it is reached; plane j itself where there is none.
    pub(crate) fn plane_beside(&self, j: usize, north: bool) -> (usize, Link) {
        beside(j, self.layout.shape().ny, north, self.periodic[1])
    }

    /// The number of the plane beside plane j, which is −1 or the number of planes for a halo row; that of plane j itself where there
    /// is none.
    pub(crate) fn number_beside(&self, j: usize, north: bool) -> isize {
        self.start_beside(j, north).0 / self.plane_len() as isize
    }

    /// Where the plane beside plane j starts, a halo row perhaps, and how it is reached; plane j itself where there is none.
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

    /// The layer below or above, and how it is reached.
    #[inline(always)]
    pub(crate) fn layer_beside(&self, k: usize, above: bool) -> (usize, Link) {
        beside(k, self.layers(), above, self.periodic[2])
    }

    pub(crate) fn half_plane(&self, j: usize, colour: Colour) -> HalfPlane {
        let start = |north| self.start_beside(j, north).0;
        self.half_plane_in(j, colour, Planes { south: start(false), here: self.plane_start(j), north: start(true) })
    }

    /// A half plane in a vector that holds just some planes.
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

    /// Columns of a half plane, all of them.
    #[inline(always)]
    pub(crate) fn all_columns(&self) -> Columns {
        Columns { m: 0, n: self.layout.pitch() }
    }

    /// Layers of a half plane, whole rows.
    #[inline(always)]
    pub(crate) fn rows(&self) -> impl Iterator<Item = Window> + use<'a, T> {
        let columns = self.all_columns();
        (0..self.layers()).map(move |k| Window { k, columns })
    }

    /// A row of zeros.
    #[inline(always)]
    pub(crate) fn zeros<S: Simd>(&self, simd: S, n: usize) -> Row<'a, S, T> {
        Row::new(simd, &self.zeros[..n])
    }

    /// Position of a window behind the first entry of its half plane.
    #[inline(always)]
    fn offset(&self, w: Window) -> isize {
        (w.k * self.layout.pitch() + w.columns.m) as isize
    }

    /// Position of a window of a half plane in a vector.
    #[inline(always)]
    pub(crate) fn position(&self, h: &HalfPlane, w: Window) -> isize {
        h.start + self.offset(w)
    }
}

/// The neighbour of number n of `count` on one side, and how it is reached; n itself where there is none.
#[inline(always)]
fn beside(n: usize, count: usize, upper: bool, periodic: bool) -> (usize, Link) {
    let (inner, wrapped) = if upper { (n + 1 < count, 0) } else { (n > 0, count - 1) };
    match (inner, periodic) {
        (true, _) => (if upper { n + 1 } else { n - 1 }, Link::Inner),
        (false, true) => (wrapped, Link::Wrapped),
        (false, false) => (n, Link::Closed),
    }
}

/// A row with a lane of one pack replaced, and one of another or of the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended<'a, S: Simd, T: Real> {
    row: Row<'a, S, T>,
    first: End<S, T>,
    second: End<S, T>,
}

/// A replacement for one pack of a row.
#[derive(Clone, Copy, Debug)]
struct End<S: Simd, T: Real> {
    /// Its number; none has the largest, which a loop over packs never reaches.
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
    /// The row as it is.
    #[inline(always)]
    pub(crate) fn whole(simd: S, row: Row<'a, S, T>) -> Self {
        Self { row, first: End::none(simd), second: End::none(simd) }
    }

    /// With another value in one lane.
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

/// A vector, seen from one window of a half plane.
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

    /// The entries west or east of each: the neighbours in x, but at an end of a line.
    ///
    /// # Safety
    /// Nobody writes them meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn row_in_x(&self, upper: bool) -> Row<'a, S, T> {
        let position = self.h.other + self.g.offset(self.w) + self.h.parity as isize - if upper { 0 } else { 1 };
        // SAFETY: promised by the caller.
        unsafe { self.row(self.which.counts(Link::Inner, upper), position) }
    }

    /// The column, counted from the window's first, at the lower or upper end of its line, if its neighbour there would
    /// be of the other colour: the first cell of a line, and the last one of an even number, as it is where lines go on.
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

    /// The western or the eastern neighbours.
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
        // East of a row's last entry lies another row, whose values may be anything.
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
            // What is east of the last column is padding, or the row's end.
            return if upper { ended } else { ended.with(lane, T::ZERO) };
        }
        // The first cell of a line of even length has even i, the last one odd i: both are of the other colour here.
        let m = if upper { 0 } else { g.layout.shape().nx / 2 - 1 };
        let position = h.other + (w.k * g.layout.pitch() + m) as isize;
        // SAFETY: promised by the caller.
        ended.with(lane, unsafe { v.row(position, 1)[0] })
    }

    /// The southern or the northern neighbours.
    ///
    /// # Safety
    /// Nobody writes them meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn in_y(&self, upper: bool) -> Row<'a, S, T> {
        let (start, link) = if upper { (self.h.north, self.h.northern) } else { (self.h.south, self.h.southern) };
        // SAFETY: promised by the caller.
        unsafe { self.row(self.which.counts(link, upper), start + self.g.offset(self.w)) }
    }

    /// The neighbours below or above.
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

    /// The cells themselves.
    ///
    /// # Safety
    /// Nobody writes them meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn own(&self) -> Row<'a, S, T> {
        // SAFETY: promised by the caller.
        unsafe { self.v.packs(self.simd, self.g.position(self.h, self.w), self.w.columns.n) }
    }

    /// The northern neighbours, or what is in their place, to be fetched: the others have been met a plane ago.
    #[inline(always)]
    pub(crate) fn ahead(&self) -> Ahead<T> {
        self.v.ahead(self.h.north + self.g.offset(self.w))
    }
}

/// The values around a row: zeros where there is no neighbour, or none that counts.
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

    /// Asks memory for what will be needed a little after pack i.
    #[inline(always)]
    pub(crate) fn fetch_ahead(&self, i: usize) {
        self.ahead.fetch(i, Row::<S, T>::LANES);
    }

    /// West, east, south, north.
    #[inline(always)]
    pub(crate) fn horizontal(&self, i: usize) -> [Pack<S, T>; 4] {
        [self.west.get(i), self.east.get(i), self.south.get(i), self.north.get(i)]
    }

    /// Below, above.
    #[inline(always)]
    pub(crate) fn vertical(&self, i: usize) -> [Pack<S, T>; 2] {
        [self.below.get(i), self.above.get(i)]
    }
}
