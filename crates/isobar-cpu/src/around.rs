//! Vectors seen from a half plane: rows of cells and of their neighbours, some with one lane replaced.
//!
//! Data that are the same in all layers are found once, because rows are short: a row costs a few additions. Beyond a closed side
//! lies a row of zeros, so that loops need no special case: an entry or a value of zero is read there.

use isobar_core::prelude::{Pack, Real};
use pulp::Simd;

use crate::geometry::{Columns, Geometry, HalfPlane, Link, Which, beside};
use crate::shared::{Ahead, Row, Shared, Strip};

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

impl<'a, S: Simd, T: Real> Ended<'a, S, T> {
    /// Takes the row unchanged.
    #[inline(always)]
    pub(crate) fn whole(simd: S, row: Row<'a, S, T>) -> Self {
        let none = End { at: usize::MAX, pack: Pack::splat(simd, T::ZERO) };
        Self { row, first: none, second: none }
    }

    /// Replaces the value in one lane.
    #[inline(always)]
    fn with(mut self, lane: usize, value: T) -> Self {
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

/// Rows of which one or two lanes are replaced, the same in all layers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedStrip<'a, T> {
    strip: Strip<'a, T>,
    /// The lane, and its values.
    ends: [Option<(usize, Strip<'a, T>)>; 2],
}

impl<'a, T: Real> EndedStrip<'a, T> {
    /// Takes the rows unchanged.
    #[inline(always)]
    pub(crate) fn whole(strip: Strip<'a, T>) -> Self {
        Self { strip, ends: [None; 2] }
    }

    /// Replaces the values in one lane by those of rows of one entry.
    #[inline(always)]
    pub(crate) fn with(self, lane: usize, values: Strip<'a, T>) -> Self {
        Self { ends: [self.ends[1], Some((lane, values))], ..self }
    }

    /// Returns a row.
    ///
    /// # Safety
    /// See [`Strip::row`].
    #[inline(always)]
    pub(crate) unsafe fn row<S: Simd>(&self, simd: S, k: usize) -> Ended<'a, S, T> {
        // SAFETY: promised by the caller, here and below.
        let mut row = Ended::whole(simd, unsafe { self.strip.row(simd, k) });
        let [first, second] = self.ends;
        if let Some((lane, values)) = first {
            // SAFETY: as above.
            row = row.with(lane, unsafe { values.first(k) });
        }
        if let Some((lane, values)) = second {
            // SAFETY: as above.
            row = row.with(lane, unsafe { values.first(k) });
        }
        row
    }
}

/// The rows below and above those of a strip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beside<'a, T> {
    own: Strip<'a, T>,
    zeros: Strip<'a, T>,
    layers: usize,
    is_ring: bool,
    which: Which,
}

impl<'a, T: Real> Beside<'a, T> {
    /// Returns the row below or above row k.
    ///
    /// # Safety
    /// See [`Strip::row`].
    #[inline(always)]
    pub(crate) unsafe fn row<S: Simd>(&self, simd: S, k: usize, above: bool) -> Row<'a, S, T> {
        let (k, link) = beside(k, self.layers, above, self.is_ring);
        // SAFETY: promised by the caller.
        unsafe { if self.which.counts(link, above) { self.own.row(simd, k) } else { self.zeros.row(simd, k) } }
    }

    /// Returns row k itself.
    ///
    /// # Safety
    /// See [`Strip::row`].
    #[inline(always)]
    pub(crate) unsafe fn own<S: Simd>(&self, simd: S, k: usize) -> Row<'a, S, T> {
        // SAFETY: promised by the caller.
        unsafe { self.own.row(simd, k) }
    }
}

/// A vector, as read from some columns of a half plane.
#[derive(Clone, Copy)]
pub(crate) struct View<'a, 'h, T: Real> {
    pub(crate) g: Geometry<'a, T>,
    pub(crate) v: Shared<T>,
    pub(crate) h: &'h HalfPlane,
    pub(crate) columns: Columns,
    pub(crate) which: Which,
}

impl<'a, T: Real> View<'a, '_, T> {
    /// Returns the rows of a half plane that begins at `start`, or zeros.
    ///
    /// # Safety
    /// Nobody writes the rows meanwhile.
    #[inline(always)]
    unsafe fn strip(&self, counts: bool, start: isize) -> Strip<'a, T> {
        let Columns { m, n } = self.columns;
        if !counts {
            return Strip::repeated(&self.g.zeros[..n]);
        }
        // SAFETY: promised by the caller; rows of the vector, or one entry into its guard.
        unsafe { self.v.strip(start + m as isize, n, self.g.layout.pitch(), self.g.layers()) }
    }

    /// Returns the entries west or east of each: the neighbours in x, except at an end of a line.
    ///
    /// # Safety
    /// Nobody writes them meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn strip_in_x(&self, upper: bool) -> Strip<'a, T> {
        let start = self.h.other + self.h.parity as isize - if upper { 0 } else { 1 };
        // SAFETY: promised by the caller.
        unsafe { self.strip(self.which.counts(Link::Inner, upper), start) }
    }

    /// Returns the column, counted from the first of these, at the lower or upper end of its line, if its neighbour there would be of
    /// the other colour: the first cell of a line, and the last one of an even number.
    #[inline(always)]
    pub(crate) fn end_in_x(&self, upper: bool) -> Option<usize> {
        let (h, Columns { m, n }) = (self.h, self.columns);
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
    pub(crate) unsafe fn in_x(&self, upper: bool) -> EndedStrip<'a, T> {
        let Self { g, v, h, columns: Columns { m, n }, which } = *self;
        let (pitch, layers, zero) = (g.layout.pitch(), g.layers(), Strip::repeated(&g.zeros[..1]));
        // SAFETY: promised by the caller.
        let mut ended = EndedStrip::whole(unsafe { self.strip_in_x(upper) });
        if !g.replaces_ends {
            return ended;
        }
        // East of a row's last entry lies another row, with arbitrary values.
        if upper && h.parity == 1 && m + n == pitch {
            ended = ended.with(n - 1, zero);
        }
        let Some(lane) = self.end_in_x(upper) else { return ended };
        if !(g.periodic[0] && which.counts(Link::Wrapped, upper)) {
            // East of the last column lies padding, or the row's end.
            return if upper { ended } else { ended.with(lane, zero) };
        }
        // The first cell of a line of even length has even i, the last one odd i: both are of the other colour here.
        let m = if upper { 0 } else { g.layout.shape().nx / 2 - 1 };
        // SAFETY: promised by the caller.
        ended.with(lane, unsafe { v.strip(h.other + m as isize, 1, pitch, layers) })
    }

    /// Returns the southern or the northern neighbours.
    ///
    /// # Safety
    /// Nobody writes them meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn in_y(&self, upper: bool) -> Strip<'a, T> {
        let (start, link) = if upper { (self.h.north, self.h.northern) } else { (self.h.south, self.h.southern) };
        // SAFETY: promised by the caller.
        unsafe { self.strip(self.which.counts(link, upper), start) }
    }

    /// Returns the neighbours below and above.
    ///
    /// # Safety
    /// Nobody writes them meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn in_z(&self) -> Beside<'a, T> {
        let Self { g, columns: Columns { n, .. }, which, .. } = *self;
        // SAFETY: promised by the caller.
        let own = unsafe { self.own() };
        Beside { own, zeros: Strip::repeated(&g.zeros[..n]), layers: g.layers(), is_ring: g.periodic[2], which }
    }

    /// Returns the cells themselves.
    ///
    /// # Safety
    /// Nobody writes them meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn own(&self) -> Strip<'a, T> {
        // SAFETY: promised by the caller.
        unsafe { self.strip(true, self.h.start) }
    }

    /// Prefetches the northern neighbours of row 0, or their replacement: the others were read one plane ago.
    #[inline(always)]
    pub(crate) fn ahead(&self) -> Ahead<T> {
        self.v.ahead(self.h.north + self.columns.m as isize)
    }

    /// Returns the cells and their neighbours.
    ///
    /// # Safety
    /// Nobody writes the neighbours meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn around(&self) -> Around<'a, T> {
        // SAFETY: promised by the caller.
        unsafe { Around::of([self; 3]) }
    }
}

/// The values around the rows of a half plane, zeros where no neighbour counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around<'a, T> {
    west: EndedStrip<'a, T>,
    east: EndedStrip<'a, T>,
    south: Strip<'a, T>,
    north: Strip<'a, T>,
    beside: Beside<'a, T>,
    ahead: Ahead<T>,
    pitch: usize,
}

impl<'a, T: Real> Around<'a, T> {
    /// Takes the neighbours in x, y and z from a view each, of the same columns; the cells are those of the last view.
    ///
    /// # Safety
    /// Nothing may write the neighbours meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn of([x, y, z]: [&View<'a, '_, T>; 3]) -> Self {
        // SAFETY: promised by the caller.
        unsafe {
            Self {
                west: x.in_x(false),
                east: x.in_x(true),
                south: y.in_y(false),
                north: y.in_y(true),
                beside: z.in_z(),
                ahead: x.ahead(),
                pitch: x.g.layout.pitch(),
            }
        }
    }

    /// Returns the values around row k.
    ///
    /// # Safety
    /// See [`Strip::row`].
    #[inline(always)]
    pub(crate) unsafe fn row<S: Simd>(&self, simd: S, k: usize) -> AroundRow<'a, S, T> {
        // SAFETY: promised by the caller.
        unsafe {
            AroundRow {
                west: self.west.row(simd, k),
                east: self.east.row(simd, k),
                south: self.south.row(simd, k),
                north: self.north.row(simd, k),
                below: self.beside.row(simd, k, false),
                above: self.beside.row(simd, k, true),
                ahead: self.ahead.after(k * self.pitch),
            }
        }
    }

    /// Returns row k itself.
    ///
    /// # Safety
    /// See [`Strip::row`].
    #[inline(always)]
    pub(crate) unsafe fn own<S: Simd>(&self, simd: S, k: usize) -> Row<'a, S, T> {
        // SAFETY: promised by the caller.
        unsafe { self.beside.own(simd, k) }
    }
}

/// The values around a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AroundRow<'a, S: Simd, T: Real> {
    west: Ended<'a, S, T>,
    east: Ended<'a, S, T>,
    south: Row<'a, S, T>,
    north: Row<'a, S, T>,
    below: Row<'a, S, T>,
    above: Row<'a, S, T>,
    ahead: Ahead<T>,
}

impl<S: Simd, T: Real> AroundRow<'_, S, T> {
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
