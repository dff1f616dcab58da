//! Entries of grids whose cells all have the same coefficients: a few numbers.

use isobar_core::prelude::{Layout, Pack, Real};
use pulp::Simd;

use super::cells::Cells;
use super::entries::Transmissibilities;
use crate::geometry::{Columns, Geometry, HalfPlane, Link};
use crate::seven_point::{Coefficients, RowCoefficients, TileCoefficients};
use crate::shared::Row;

/// The entries of such a grid.
#[derive(Debug)]
pub(super) struct Even<T> {
    /// Transmissibilities of faces by direction.
    t: [T; 3],
    /// The coupling across half a cell, which Dirichlet sides add.
    half: [T; 3],
    /// Transmissibilities to the west and to the east, by parity.
    in_x: [[Vec<T>; 2]; 2],
}

impl<T: Real> Even<T> {
    /// Makes the entries from the half-cell transmissibilities h of each direction; x is periodic or not.
    pub(super) fn new(layout: &Layout, is_ring: bool, half: [f64; 3]) -> Self {
        let nx = layout.shape().nx;
        let t = half.map(|h| T::from_f64(0.5 * h));
        let in_x = [0, 1].map(|parity| {
            [0, 1].map(|side| {
                let end = [0, nx - 1][side];
                let at = |m: usize| {
                    let i = 2 * m + parity;
                    if i < nx && (i != end || is_ring) { t[0] } else { T::ZERO }
                };
                (0..layout.pitch()).map(at).collect()
            })
        });
        Self { t, half: half.map(T::from_f64), in_x }
    }
}

/// The entries, with Dirichlet sides and shift.
pub(super) struct EvenCells<'c, T: Real> {
    pub(super) even: &'c Even<T>,
    pub(super) cells: &'c Cells<T>,
}

/// The entries of some columns.
pub(crate) struct EvenTile<'a, S: Simd, T: Real> {
    simd: S,
    even: &'a Even<T>,
    cells: &'a Cells<T>,
    g: Geometry<'a, T>,
    h: HalfPlane,
    columns: Columns,
}

/// The entries of one layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EvenRow<'a, S: Simd, T: Real> {
    west: Row<'a, S, T>,
    east: Row<'a, S, T>,
    south: Pack<S, T>,
    north: Pack<S, T>,
    vertical: Option<[Pack<S, T>; 2]>,
    /// The number of Dirichlet sides in x that each cell touches, and the contribution of one.
    ends: Option<(Row<'a, S, T>, Pack<S, T>)>,
    /// The contribution of Dirichlet sides in y and z.
    sides: Pack<S, T>,
    shift: Option<Row<'a, S, T>>,
}

impl<T: Real> Coefficients<T> for EvenCells<'_, T> {
    const IS_PLAIN: bool = false;
    type Tile<'a, S: Simd>
        = EvenTile<'a, S, T>
    where
        Self: 'a;
    type WithoutVectors = Cells<T>;

    fn without_vectors(&self) -> &Cells<T> {
        self.cells
    }

    #[inline(always)]
    fn tile<'a, S: Simd>(&'a self, simd: S, g: Geometry<'a, T>, h: &HalfPlane, columns: Columns) -> Self::Tile<'a, S> {
        EvenTile { simd, even: self.even, cells: self.cells, g, h: *h, columns }
    }
}

impl<'a, S: Simd, T: Real> TileCoefficients<S, T> for EvenTile<'a, S, T> {
    type Row = EvenRow<'a, S, T>;

    #[inline(always)]
    fn row(&self, k: usize) -> Self::Row {
        let Self { simd, even, cells, g, h, columns: Columns { m, n } } = self;
        let (simd, m, n) = (*simd, *m, *n);
        let through = |is_there: bool, t: T| Pack::splat(simd, if is_there { t } else { T::ZERO });
        let above = |upper: bool| through(g.layer_beside(k, upper).1 != Link::Closed, even.t[2]);
        let [y, z] = cells.sides_at(&g.layout, h.j, k);
        let (y, z) = (T::from_f64(y), T::from_f64(z));
        let [west, east] = &even.in_x[h.parity];
        EvenRow {
            west: Row::new(simd, &west[m..m + n]),
            east: Row::new(simd, &east[m..m + n]),
            south: through(h.has_beside(false), even.t[1]),
            north: through(h.has_beside(true), even.t[1]),
            vertical: (g.layers() > 1).then(|| [above(false), above(true)]),
            ends: cells.ends(h.parity).map(|ends| (Row::new(simd, &ends[m..m + n]), Pack::splat(simd, even.half[0]))),
            sides: Pack::splat(simd, y * even.half[1] + z * even.half[2]),
            // SAFETY: a row of a vector that nobody writes while it is borrowed.
            shift: cells.shift.as_ref().map(|shift| unsafe {
                let position = h.start + (k * g.layout.pitch() + m) as isize;
                shift.share().packs(simd, position, n)
            }),
        }
    }
}

impl<S: Simd, T: Real> RowCoefficients<S, T> for EvenRow<'_, S, T> {
    type Entries = Transmissibilities<S, T>;

    #[inline(always)]
    fn get(&self, i: usize) -> Self::Entries {
        let mut shift = self.sides;
        if let Some((count, half)) = self.ends {
            shift = count.get(i).mul_add(half, shift);
        }
        if let Some(stored) = self.shift {
            shift = shift + stored.get(i);
        }
        let horizontal = [self.west.get(i), self.east.get(i), self.south, self.north];
        Transmissibilities { horizontal, vertical: self.vertical, shift }
    }

    #[inline(always)]
    fn fetch_ahead(&self, _: usize) {}
}
