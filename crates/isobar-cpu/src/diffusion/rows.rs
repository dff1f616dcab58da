//! Where the neighbours of a row of cells lie: half planes, their links across sides, rows with one lane replaced.
//!
//! What lies beyond a closed side is a row of zeros, so that loops know nothing of sides: a transmissibility or a
//! value of zero meets them there.

use isobar_core::layout::{Colour, Layout};
use isobar_core::real::Real;
use isobar_core::simd::Pack;
use pulp::Simd;

use crate::shared::{Ahead, Row, Shared};

/// A grid and which of its directions are periodic.
#[derive(Debug)]
pub(super) struct Geometry<T> {
    pub(super) layout: Layout,
    /// Of directions with one cell: no.
    pub(super) periodic: [bool; 3],
    /// What lies beyond closed sides: a row of zeros.
    zeros: Vec<T>,
}

/// What is beside a cell in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// Nothing.
    Closed,
    /// The next cell.
    Inner,
    /// The cell at the other end of a periodic direction.
    Wrapped,
}

/// Which neighbours count, in the order x, y, z of unknowns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// Every one.
    All,
    /// Those of lower number.
    Lower,
    /// Those of higher number.
    Higher,
}

impl Which {
    /// Whether a neighbour on the upper or the lower side counts.
    fn counts(self, link: Link, upper_side: bool) -> bool {
        let higher = upper_side == (link == Link::Inner);
        link != Link::Closed && (self == Self::All || (self == Self::Higher) == higher)
    }
}

/// One half plane: the cells of one colour in plane j.
#[derive(Clone, Copy, Debug)]
pub(super) struct HalfPlane {
    pub(super) j: usize,
    /// Of the plane in a vector, and of its southern and northern neighbour.
    pub(super) planes: Planes,
    pub(super) south: Link,
    pub(super) north: Link,
    /// Position within a plane.
    pub(super) own: isize,
    /// The same of the other colour.
    pub(super) other: isize,
    pub(super) parity: usize,
    pub(super) columns: usize,
}

/// Where three planes start in a vector.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planes {
    pub(super) south: isize,
    pub(super) here: isize,
    pub(super) north: isize,
}

/// Columns m … m + n − 1 of row k of a half plane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) k: usize,
    pub(super) m: usize,
    pub(super) n: usize,
}

impl<T: Real> Geometry<T> {
    pub(super) fn new(layout: Layout, periodic: [bool; 3]) -> Self {
        Self { layout, periodic, zeros: vec![T::ZERO; layout.pitch()] }
    }

    /// Whether there are vertical faces.
    #[inline(always)]
    pub(super) fn is_tall(&self) -> bool {
        self.layout.shape().nz > 1
    }

    pub(super) fn plane_len(&self) -> usize {
        2 * self.layout.half_plane()
    }

    /// The plane beside plane j on one side, and how it is reached; plane j itself where there is none.
    pub(super) fn beside(&self, j: usize, north: bool) -> (usize, Link) {
        let ny = self.layout.shape().ny;
        let (inner, wrapped) = if north { (j + 1 < ny, 0) } else { (j > 0, ny - 1) };
        match (inner, self.periodic[1]) {
            (true, _) => (if north { j + 1 } else { j - 1 }, Link::Inner),
            (false, true) => (wrapped, Link::Wrapped),
            (false, false) => (j, Link::Closed),
        }
    }

    pub(super) fn half_plane(&self, j: usize, colour: Colour) -> HalfPlane {
        let ((southern, south), (northern, north)) = (self.beside(j, false), self.beside(j, true));
        let start = |j: usize| (j * self.plane_len()) as isize;
        let position = |colour: Colour| (colour as usize * self.layout.half_plane()) as isize;
        HalfPlane {
            j,
            planes: Planes { south: start(southern), here: start(j), north: start(northern) },
            south,
            north,
            own: position(colour),
            other: position(colour.other()),
            parity: self.layout.parity(j, colour),
            columns: self.layout.columns(j, colour),
        }
    }

    /// The level below or above, and how it is reached.
    pub(super) fn level_beside(&self, k: usize, above: bool) -> (usize, Link) {
        let nz = self.layout.shape().nz;
        let (inner, wrapped) = if above { (k + 1 < nz, 0) } else { (k > 0, nz - 1) };
        match (inner, self.periodic[2]) {
            (true, _) => (if above { k + 1 } else { k - 1 }, Link::Inner),
            (false, true) => (wrapped, Link::Wrapped),
            (false, false) => (k, Link::Closed),
        }
    }

    /// A row of zeros.
    #[inline(always)]
    pub(super) fn zeros<S: Simd>(&self, simd: S, n: usize) -> Row<'_, S, T> {
        Row::new(simd, &self.zeros[..n])
    }

    /// A row of a vector, or of zeros.
    ///
    /// # Safety
    /// Nobody writes it meanwhile.
    #[inline(always)]
    pub(super) unsafe fn row<S: Simd>(
        &self,
        simd: S,
        v: Shared<T>,
        position: Option<isize>,
        n: usize,
    ) -> Row<'_, S, T> {
        match position {
            // SAFETY: promised by the caller.
            Some(position) => unsafe { v.packs(simd, position, n) },
            None => self.zeros(simd, n),
        }
    }

    /// Where the neighbours of a window's cells are. Compiled once, whatever the lanes.
    #[inline(never)]
    pub(super) fn places(&self, h: &HalfPlane, w: Window, which: Which) -> Places {
        let Window { k, m, n } = w;
        let here = h.planes.here + h.other + self.offset(k, m);
        let inner = |upper_side: bool, position: isize| which.counts(Link::Inner, upper_side).then_some(position);
        let beside = |link: Link, upper_side: bool, position: isize| which.counts(link, upper_side).then_some(position);
        let level = |above: bool| {
            let (level, link) = self.level_beside(k, above);
            beside(link, above, h.planes.here + h.own + self.offset(level, m))
        };
        // The first and the last cell of a line of even length: of even and of odd i.
        let [first, last] = [0, 1].map(|parity| {
            let colour = if h.parity == parity { h.own } else { h.other };
            h.planes.here + colour + self.offset(k, parity * (self.layout.shape().nx / 2).saturating_sub(1))
        });
        let across = |upper_side: bool| {
            let counts = self.periodic[0] && which.counts(Link::Wrapped, upper_side);
            counts.then_some(if upper_side { first } else { last })
        };
        let last_column = h.columns.wrapping_sub(1);
        // Beyond the last column of an odd number lies padding.
        let at_east_end =
            h.parity == 1 && self.layout.shape().nx.is_multiple_of(2) && (m..m + n).contains(&last_column);
        Places {
            west: inner(false, here + h.parity as isize - 1),
            east: inner(true, here + h.parity as isize),
            south: beside(h.south, false, h.planes.south + h.other + self.offset(k, m)),
            north: beside(h.north, true, h.planes.north + h.other + self.offset(k, m)),
            below: level(false),
            above: level(true),
            west_end: (h.parity == 0 && m == 0).then(|| (0, across(false))),
            east_end: at_east_end.then(|| (last_column.wrapping_sub(m), across(true))),
            ahead: h.planes.north + h.other + self.offset(k, m),
        }
    }

    /// Position of a window within a plane, less the colour's.
    #[inline(always)]
    pub(super) fn offset(&self, k: usize, m: usize) -> isize {
        (k * self.layout.pitch() + m) as isize
    }

    /// Position of a window of a half plane in a vector.
    #[inline(always)]
    pub(super) fn position(&self, h: &HalfPlane, w: Window) -> isize {
        h.planes.here + h.own + self.offset(w.k, w.m)
    }
}

/// Positions of the neighbours of a window's cells in a vector; none where there are none, or none that count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) west: Option<isize>,
    pub(super) east: Option<isize>,
    pub(super) south: Option<isize>,
    pub(super) north: Option<isize>,
    pub(super) below: Option<isize>,
    pub(super) above: Option<isize>,
    /// The lane whose western neighbour is not one entry away, and where that is.
    pub(super) west_end: Option<(usize, Option<isize>)>,
    /// The same of the eastern neighbour.
    pub(super) east_end: Option<(usize, Option<isize>)>,
    /// Of the northern row, whether or not it counts.
    pub(super) ahead: isize,
}

/// The value to put in the lane at an end of a line.
///
/// # Safety
/// Nobody writes it meanwhile.
#[inline(always)]
pub(super) unsafe fn end<T: Real>(v: Shared<T>, end: Option<(usize, Option<isize>)>) -> Option<(usize, T)> {
    match end {
        None => None,
        Some((lane, None)) => Some((lane, T::ZERO)),
        // SAFETY: promised by the caller.
        Some((lane, Some(position))) => Some((lane, unsafe { v.row(position, 1) }[0])),
    }
}

/// A row with one lane replaced.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended<'a, S: Simd, T: Real> {
    row: Row<'a, S, T>,
    /// Number of the pack that holds the lane; none has the largest number.
    at: usize,
    end: Pack<S, T>,
}

impl<'a, S: Simd, T: Real> Ended<'a, S, T> {
    #[inline(always)]
    pub(super) fn new(simd: S, row: Row<'a, S, T>, end: Option<(usize, T)>) -> Self {
        match end {
            None => Self { row, at: usize::MAX, end: Pack::splat(simd, T::ZERO) },
            Some((lane, value)) => {
                let (at, lane) = (lane / Row::<S, T>::LANES, lane % Row::<S, T>::LANES);
                Self { row, at, end: row.get(at).with_lane(lane, value) }
            }
        }
    }

    #[inline(always)]
    pub(super) fn get(&self, i: usize) -> Pack<S, T> {
        if i == self.at { self.end } else { self.row.get(i) }
    }
}

/// The values around a row: zeros where there is no neighbour, or none that counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around<'a, S: Simd, T: Real> {
    pub(super) west: Ended<'a, S, T>,
    pub(super) east: Ended<'a, S, T>,
    pub(super) south: Row<'a, S, T>,
    pub(super) north: Row<'a, S, T>,
    pub(super) below: Row<'a, S, T>,
    pub(super) above: Row<'a, S, T>,
    /// Of the northern row: the others have been met a plane ago.
    ahead: Ahead<T>,
}

impl<'a, S: Simd, T: Real> Around<'a, S, T> {
    /// Of a vector's window with neighbours at these places.
    ///
    /// # Safety
    /// Nobody writes the neighbours meanwhile.
    #[inline(always)]
    pub(super) unsafe fn new(simd: S, g: &'a Geometry<T>, v: Shared<T>, places: &Places, n: usize) -> Self {
        // SAFETY: rows of the vector, or one entry into its guard; not written, as promised.
        unsafe {
            Self {
                west: Ended::new(simd, g.row(simd, v, places.west, n), end(v, places.west_end)),
                east: Ended::new(simd, g.row(simd, v, places.east, n), end(v, places.east_end)),
                south: g.row(simd, v, places.south, n),
                north: g.row(simd, v, places.north, n),
                below: g.row(simd, v, places.below, n),
                above: g.row(simd, v, places.above, n),
                ahead: v.ahead(places.ahead),
            }
        }
    }

    /// Asks memory for what will be needed a little after pack i.
    #[inline(always)]
    pub(super) fn fetch_ahead(&self, i: usize) {
        self.ahead.fetch(i, Row::<S, T>::LANES);
    }

    /// West, east, south, north.
    #[inline(always)]
    pub(super) fn horizontal(&self, i: usize) -> [Pack<S, T>; 4] {
        [self.west.get(i), self.east.get(i), self.south.get(i), self.north.get(i)]
    }

    /// Below, above.
    #[inline(always)]
    pub(super) fn vertical(&self, i: usize) -> [Pack<S, T>; 2] {
        [self.below.get(i), self.above.get(i)]
    }
}
