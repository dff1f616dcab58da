//! The arithmetic of the tensor-product operator on one (j, colour) half plane: SIMD lanes across
//! columns, rows of columns below and above each other.
//!
//! Every loop runs over packs of lanes, see [`isobar_core::simd`].

use isobar_core::layout::{Colour, Layout};
use isobar_core::real::{Precision, Real};
use isobar_core::simd::Pack;
use pulp::Simd;

use crate::shared::{Ahead, Row, RowMut, Shared};

/// The vertical factors of one level, signed so that all are positive in an M-matrix.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Level<T> {
    /// a
    pub(crate) mass: T,
    /// −b
    pub(crate) above: T,
    /// −c
    pub(crate) below: T,
    /// −d
    pub(crate) horizontal: T,
}

/// One half plane and its surroundings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HalfPlane {
    pub(crate) colour: Colour,
    /// Position of its first row in a vector.
    pub(crate) start: isize,
    /// Position of the same plane's other colour.
    other: isize,
    /// How far the western neighbour's entry lies from the same position in the other colour: −1 or 0.
    west: isize,
    /// Positions of the other colour in the neighbouring planes; those outside the grid are replaced
    /// by the plane's own, where a coupling of zero meets them.
    south: isize,
    north: isize,
    /// Position of its coefficients in a horizontal field.
    pub(crate) column: isize,
    pitch: usize,
}

impl HalfPlane {
    pub(crate) fn new(layout: &Layout, j: usize, colour: Colour) -> Self {
        let position = |j: usize, colour: Colour| ((colour as usize + 2 * j) * layout.half_plane()) as isize;
        let other = position(j, colour.other());
        Self {
            colour,
            start: position(j, colour),
            other,
            west: layout.parity(j, colour) as isize - 1,
            south: if j > 0 { position(j - 1, colour.other()) } else { other },
            north: if j + 1 < layout.shape().ny { position(j + 1, colour.other()) } else { other },
            column: ((colour as usize + 2 * j) * layout.pitch()) as isize,
            pitch: layout.pitch(),
        }
    }

    /// Position of row k, from column m.
    #[inline(always)]
    pub(crate) fn row(&self, k: usize, m: usize) -> isize {
        self.start + (k * self.pitch + m) as isize
    }
}

impl<T: Real> Level<T> {
    /// In all lanes.
    #[inline(always)]
    pub(crate) fn splat<S: Simd>(self, simd: S) -> Level<Pack<S, T>> {
        let splat = |value| Pack::splat(simd, value);
        Level {
            mass: splat(self.mass),
            above: splat(self.above),
            below: splat(self.below),
            horizontal: splat(self.horizontal),
        }
    }
}

/// The horizontal factors of a row, divided by |T|.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns<'a, S: Simd, T: Real> {
    pub(crate) west: Row<'a, S, T>,
    pub(crate) east: Row<'a, S, T>,
    pub(crate) south: Row<'a, S, T>,
    pub(crate) north: Row<'a, S, T>,
    /// α_T / |T|
    pub(crate) total: Row<'a, S, T>,
    /// |T|, 0 in padding
    pub(crate) area: Row<'a, S, T>,
    /// 1 / |T|, 0 in padding
    pub(crate) inverse_area: Row<'a, S, T>,
}

/// The other colour's values around a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neighbours<'a, S: Simd, T: Real> {
    west: Row<'a, S, T>,
    east: Row<'a, S, T>,
    south: Row<'a, S, T>,
    north: Row<'a, S, T>,
    /// Of the northern row: the others have been met a plane ago.
    ahead: Ahead<T>,
}

impl<'a, S: Simd, T: Real> Neighbours<'a, S, T> {
    /// Of row k of a half plane, columns m … m + n − 1.
    ///
    /// # Safety
    /// Nobody writes the other colour of planes j − 1, j, j + 1 meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn new(simd: S, u: Shared<T>, h: &HalfPlane, k: usize, m: usize, n: usize) -> Self {
        let offset = (k * h.pitch + m) as isize;
        // SAFETY: rows of the vector, or one entry into its guard; not written, as promised.
        unsafe {
            Self {
                west: u.packs(simd, h.other + offset + h.west, n),
                east: u.packs(simd, h.other + offset + h.west + 1, n),
                south: u.packs(simd, h.south + offset, n),
                north: u.packs(simd, h.north + offset, n),
                ahead: u.ahead(h.north + offset),
            }
        }
    }

    /// Asks memory for what will be needed a little after pack i.
    #[inline(always)]
    pub(crate) fn fetch_ahead(&self, i: usize) {
        self.ahead.fetch(i, Row::<S, T>::LANES);
    }

    /// Σ α_{TT'} u_{T'} / |T| of pack i
    #[inline(always)]
    pub(crate) fn sum(&self, c: &Columns<'_, S, T>, i: usize) -> Pack<S, T> {
        let x = c.west.get(i).mul_add(self.west.get(i), c.east.get(i) * self.east.get(i));
        let y = c.south.get(i).mul_add(self.south.get(i), c.north.get(i) * self.north.get(i));
        x + y
    }
}

/// A row and the rows below and above it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vertical<'a, S: Simd, T: Real> {
    below: Row<'a, S, T>,
    pub(crate) centre: Row<'a, S, T>,
    above: Row<'a, S, T>,
}

impl<'a, S: Simd, T: Real> Vertical<'a, S, T> {
    /// Row k of a half plane, columns m … m + n − 1. At bottom and top the row stands in for the one
    /// outside, where a coupling of zero meets it.
    ///
    /// # Safety
    /// Nobody writes the half plane meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn new(
        simd: S,
        u: Shared<T>,
        h: &HalfPlane,
        levels: usize,
        k: usize,
        m: usize,
        n: usize,
    ) -> Self {
        // SAFETY: rows of the vector; not written, as promised.
        unsafe {
            Self {
                below: u.packs(simd, h.row(k.saturating_sub(1), m), n),
                centre: u.packs(simd, h.row(k, m), n),
                above: u.packs(simd, h.row((k + 1).min(levels - 1), m), n),
            }
        }
    }

    /// (A u)_{T,k} / |T| of pack i: a u_k − b (u_k − u_{k+1}) − c (u_k − u_{k−1}) + d (Σ… − α_T u_k) / |T|.
    #[inline(always)]
    pub(crate) fn apply(
        &self,
        v: Level<Pack<S, T>>,
        c: &Columns<'_, S, T>,
        around: &Neighbours<'_, S, T>,
        i: usize,
    ) -> Pack<S, T> {
        let u = self.centre.get(i);
        let vertical = v.above.mul_add(u - self.above.get(i), v.below.mul_add(u - self.below.get(i), v.mass * u));
        v.horizontal.mul_add(c.total.get(i).mul_add(u, -around.sum(c, i)), vertical)
    }
}

/// A row that is computed pack by pack.
pub(crate) trait RowValues<S: Simd, T: Real> {
    /// Pack i.
    fn get(&self, i: usize) -> Pack<S, T>;

    /// Asks memory for what will be needed a little after pack i.
    fn fetch_ahead(&self, i: usize);
}

/// One row of forward elimination, in the form without subtractions that the reference explains:
///
/// ```text
/// excess = a − d α_T/|T| − c · ratio₋;   pivot = excess − b
/// y = (g − c y₋) / pivot;   factor = −b / pivot;   ratio = excess / pivot
/// ```
///
/// `g` is the right-hand side over |T|; `ratio` goes from level to level.
#[inline(always)]
pub(crate) fn eliminate_row<S: Simd, T: Real>(
    simd: S,
    v: Level<Pack<S, T>>,
    total: Row<'_, S, T>,
    mut ratio: RowMut<'_, S, T>,
    below: Row<'_, S, T>,
    mut y: RowMut<'_, S, T>,
    mut factor: RowMut<'_, S, T>,
    y_ahead: Ahead<T>,
    g: &impl RowValues<S, T>,
) {
    let one = Pack::splat(simd, T::ONE);
    for i in 0..y.len() {
        y_ahead.fetch(i, Row::<S, T>::LANES);
        g.fetch_ahead(i);
        let excess = v.below.mul_add(ratio.get(i), v.horizontal.mul_add(total.get(i), v.mass));
        let inverse = one.over(excess + v.above);
        ratio.set(i, excess * inverse);
        factor.set(i, v.above * inverse);
        y.set(i, v.below.mul_add(below.get(i), g.get(i)) * inverse);
    }
}

/// One row of backward substitution: x = y + factor · x₊, in place.
#[inline(always)]
pub(crate) fn substitute_row<S: Simd, T: Real>(factor: Row<'_, S, T>, above: Row<'_, S, T>, mut y: RowMut<'_, S, T>) {
    for i in 0..y.len() {
        y.set(i, factor.get(i).mul_add(above.get(i), y.get(i)));
    }
}

/// A sum that is kept in lanes along a row and in double precision from row to row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowSum<S: Simd, T: Real> {
    simd: S,
    lanes: Pack<S, T>,
    total: f64,
}

impl<S: Simd, T: Real> RowSum<S, T> {
    #[inline(always)]
    pub(crate) fn new(simd: S) -> Self {
        Self { simd, lanes: Pack::splat(simd, T::ZERO), total: 0.0 }
    }

    /// Adds a b.
    #[inline(always)]
    pub(crate) fn add_product(&mut self, a: Pack<S, T>, b: Pack<S, T>) {
        self.lanes = a.mul_add(b, self.lanes);
    }

    /// Ends a row.
    #[inline(always)]
    pub(crate) fn end_row(&mut self) {
        let mut lanes = [T::ZERO; 8];
        let (registers, _) = T::registers_mut::<S>(&mut lanes);
        registers[0] = self.lanes.register();
        self.total += lanes.iter().map(|lane| lane.to_f64()).sum::<f64>();
        self.lanes = Pack::splat(self.simd, T::ZERO);
    }

    /// Ends a row that may be short: lanes of double precision go on, as adding them up takes as long as a few packs.
    #[inline(always)]
    pub(crate) fn end_short_row(&mut self) {
        if T::PRECISION == Precision::F32 {
            self.end_row();
        }
    }

    /// The sum of all rows.
    #[inline(always)]
    pub(crate) fn total(mut self) -> f64 {
        self.end_row();
        self.total
    }
}
