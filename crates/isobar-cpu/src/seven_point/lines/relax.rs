//! Relaxation of lines for a given u, and the corrections that it would make. Safety of all memory accesses: see
//! the module `kernels`.

use isobar_core::prelude::{Pack, Real};
use pulp::Simd;

use super::{LineRow, LineTask, Target, into_vector, solve_tiles};
use crate::around::{Around, AroundRow};
use crate::geometry::{Columns, Geometry, HalfPlane, Window};
use crate::seven_point::kernels::{ResidualRow, Residuals, around};
use crate::seven_point::{Coefficients, Entries, Kernel, LineSpace};
use crate::shared::{Ahead, Row, Shared, Strip};

/// u += ρ(M⁻¹(f − (A − M) u) − u) on one colour: a column's own old values do not enter, except across a periodic end.
pub(crate) struct Relax<'s, T> {
    pub(crate) h: HalfPlane,
    pub(crate) rho: T,
    pub(crate) f: Shared<T>,
    pub(crate) u: Shared<T>,
    pub(crate) space: LineSpace<'s, T>,
}

/// The row f + Σ t u over the entries out of the column.
struct Coupled<'a, S: Simd, T: Real> {
    simd: S,
    g: Geometry<'a, T>,
    h: HalfPlane,
    f: Shared<T>,
    u: Shared<T>,
}

struct CoupledTile<'a, T> {
    f: Strip<'a, T>,
    around: Around<'a, T>,
    ahead: Ahead<T>,
}

struct CoupledRow<'a, S: Simd, T: Real> {
    f: Row<'a, S, T>,
    around: AroundRow<'a, S, T>,
    /// The row itself, which enters at a periodic end.
    own: Row<'a, S, T>,
    ahead: Ahead<T>,
}

impl<S: Simd, T: Real> LineRow<S, T> for CoupledRow<'_, S, T> {
    #[inline(always)]
    fn get(&mut self, entries: &impl Entries<S, T>, across: [Option<Pack<S, T>>; 2], i: usize) -> Pack<S, T> {
        let mut sum = entries.add_horizontal_sum(self.around.horizontal(i), entries.over_weight(self.f.get(i)));
        let [below, above] = across;
        if let Some(t) = below {
            sum = t.mul_add(self.around.vertical(i)[0] + self.own.get(i), sum);
        }
        if let Some(t) = above {
            sum = t.mul_add(self.around.vertical(i)[1] + self.own.get(i), sum);
        }
        sum
    }

    #[inline(always)]
    fn fetch_ahead(&self, i: usize) {
        self.ahead.fetch(i, Row::<S, T>::LANES);
        self.around.fetch_ahead(i);
    }
}

impl<'a, S: Simd, T: Real> LineTask<S, T> for Coupled<'a, S, T> {
    type Tile = CoupledTile<'a, T>;
    type Row = CoupledRow<'a, S, T>;

    #[inline(always)]
    fn tile(&self, columns: Columns) -> Self::Tile {
        let Self { g, h, f, u, .. } = *self;
        let position = h.start + columns.m as isize;
        // SAFETY: see the top of this file.
        let (rows, around) =
            unsafe { (f.strip(position, columns.n, g.layout.pitch(), g.layers()), around(g, u, &h, columns)) };
        CoupledTile { f: rows, around, ahead: f.ahead(position) }
    }

    #[inline(always)]
    fn row(&mut self, tile: &Self::Tile, Window { k, .. }: Window) -> Self::Row {
        let simd = self.simd;
        let ahead = tile.ahead.after(k * self.g.layout.pitch());
        // SAFETY: see the top of this file.
        unsafe {
            CoupledRow {
                f: tile.f.row(simd, k),
                around: tile.around.row(simd, k),
                own: tile.around.own(simd, k),
                ahead,
            }
        }
    }
}

/// A solution that is stored in `values` first, before u += ρ(values − u).
struct Lagged<'a, S: Simd, T: Real> {
    coupled: Coupled<'a, S, T>,
    values: Shared<T>,
    pitch: usize,
    rho: Pack<S, T>,
}

impl<'a, S: Simd, T: Real> LineTask<S, T> for Lagged<'a, S, T> {
    type Tile = CoupledTile<'a, T>;
    type Row = CoupledRow<'a, S, T>;

    #[inline(always)]
    fn tile(&self, columns: Columns) -> Self::Tile {
        self.coupled.tile(columns)
    }

    #[inline(always)]
    fn row(&mut self, tile: &Self::Tile, w: Window) -> Self::Row {
        self.coupled.row(tile, w)
    }

    #[inline(always)]
    fn finish(&mut self, w: Window) {
        let Coupled { simd, g, h, u, .. } = self.coupled;
        let n = w.columns.n;
        // SAFETY: see the top of this file; `values` is this thread's own.
        let (mut u, value) = unsafe {
            (u.packs_mut(simd, g.position(&h, w), n), self.values.packs(simd, (w.k * self.pitch) as isize, n))
        };
        for i in 0..u.len() {
            u.set(i, self.rho.mul_add(value.get(i) - u.get(i), u.get(i)));
        }
    }
}

impl<T: Real> Kernel<T> for Relax<'_, T> {
    type Output = [f64; 2];

    #[inline(always)]
    fn run<S: Simd, C: Coefficients<T>>(self, simd: S, g: Geometry<'_, T>, c: &C) -> [f64; 2] {
        let Self { h, rho, f, u, space } = self;
        let LineSpace { ratio, factors, values, tile } = space;
        let mut task = Coupled { simd, g, h, f, u };
        let work = (ratio, factors, tile);
        if rho == T::ONE && !g.periodic[2] {
            // SAFETY: see the top of this file.
            unsafe { solve_tiles(simd, g, c, &h, work, |_| into_vector(g, &h, u), &mut task) };
        } else {
            let (values, pitch) = (Shared::of(values), tile);
            let mut task = Lagged { coupled: task, values, pitch, rho: Pack::splat(simd, rho) };
            let out = |m: usize| Target { vector: values, start: -(m as isize), pitch };
            // SAFETY: as above; `values` is this thread's own.
            unsafe { solve_tiles(simd, g, c, &h, work, out, &mut task) };
        }
        [0.0; 2]
    }
}

/// δ = M⁻¹(f − A u), stored at a distance from its place in u.
pub(crate) struct Correction<'s, T> {
    pub(crate) h: HalfPlane,
    pub(crate) f: Shared<T>,
    pub(crate) u: Shared<T>,
    pub(crate) delta: Shared<T>,
    pub(crate) shift: isize,
    pub(crate) space: LineSpace<'s, T>,
}

/// f − A u
struct Defect<'a, S: Simd, T: Real>(Coupled<'a, S, T>);

impl<S: Simd, T: Real> LineRow<S, T> for ResidualRow<'_, S, T> {
    #[inline(always)]
    fn get(&mut self, entries: &impl Entries<S, T>, _: [Option<Pack<S, T>>; 2], i: usize) -> Pack<S, T> {
        self.get_over_weight(entries, i)
    }

    #[inline(always)]
    fn fetch_ahead(&self, i: usize) {
        ResidualRow::fetch_ahead(self, i);
    }
}

impl<'a, S: Simd, T: Real> LineTask<S, T> for Defect<'a, S, T> {
    type Tile = Residuals<'a, T>;
    type Row = ResidualRow<'a, S, T>;

    #[inline(always)]
    fn tile(&self, columns: Columns) -> Self::Tile {
        let Coupled { g, h, f, u, .. } = self.0;
        // SAFETY: see the top of this file.
        unsafe { Residuals::new(g, [f, u], &h, columns) }
    }

    #[inline(always)]
    fn row(&mut self, tile: &Self::Tile, w: Window) -> Self::Row {
        // SAFETY: see the top of this file.
        unsafe { tile.row(self.0.simd, w.k) }
    }
}

impl<T: Real> Kernel<T> for Correction<'_, T> {
    type Output = [f64; 2];

    #[inline(always)]
    fn run<S: Simd, C: Coefficients<T>>(self, simd: S, g: Geometry<'_, T>, c: &C) -> [f64; 2] {
        let Self { h, f, u, delta, shift, space } = self;
        let LineSpace { ratio, factors, tile, .. } = space;
        let mut task = Defect(Coupled { simd, g, h, f, u });
        let out = |_| Target { vector: delta, start: h.start + shift, pitch: g.layout.pitch() };
        // SAFETY: see the top of this file.
        unsafe { solve_tiles(simd, g, c, &h, (ratio, factors, tile), out, &mut task) };
        [0.0; 2]
    }
}
