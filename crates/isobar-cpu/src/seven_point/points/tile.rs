//! All sub-iterations of one tile, in a thread's own memory that stays in cache.
//!
//! A tile is stored by parity of i: cells with even i, and cells with odd i, each x first, then y, then layers, with a row and
//! a layer of neighbours around. Neighbours in x are of the other parity, those in y and z of the same, all at distances in
//! memory that do not depend on the row, so that a sub-iteration is a few long loops. These also run over the margins between
//! rows; the values there, and beside the tile in x, are restored after each.

use isobar_core::options::Span;
use isobar_core::prelude::{Colour, Pack, PointCycle, Real};
use pulp::{Simd, WithSimd};

use super::space::{Lanes, Rows, TileSpace};
use super::sweep::{Update, rest};
use crate::geometry::Link;
use crate::seven_point::kernels::{Applied, around};
use crate::seven_point::{Coefficients, Entries, Kernel, RowCoefficients, Stored, TileCoefficients};
use crate::{Columns, Cpu, Geometry, HalfPlane, Row, RowMut, Shared, Vector, Window};

/// v = u after a cycle, in the cells that a tile writes;  Σ (f − A u)² over them
pub(super) struct Tile<'t, T> {
    pub(super) cycle: &'t PointCycle,
    /// Whether sub-iterations are confined to the cells on which the written ones depend.
    pub(super) is_exact: bool,
    pub(super) spans: [Span; 3],
    pub(super) f: Shared<T>,
    pub(super) u: Shared<T>,
    pub(super) v: Shared<T>,
    /// The place where Σ (f − A u)² of each row is added, from the grid's first row on, if it is wanted.
    pub(super) lines: Option<(Shared<f64>, isize)>,
    /// The operands of momentum.
    pub(super) moving: Option<Moving<T>>,
    pub(super) space: &'t mut TileSpace<T>,
}

/// The momentum of an exact cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moving<T> {
    /// m
    pub(super) momentum: T,
    /// The previous u.
    pub(super) before: Shared<T>,
    /// Receives the u before v.
    pub(super) last: Shared<T>,
}

impl<T: Real> Tile<'_, T> {
    /// Computes all sub-iterations, and returns Σ (f − A u)².
    pub(super) fn relax<C: Stored<T>>(mut self, cpu: &Cpu, g: Geometry<'_, T>, c: &C) -> f64 {
        let rows = Rows::new(self.cycle, g.layout.shape());
        let lanes = [0, 1].map(|parity| Lanes::new(&rows, self.spans[0], parity, g.layout.pitch()));
        let (sum, weights) = c.run(cpu, g, First { tile: &mut self, rows: &rows, lanes: &lanes });
        self.copy_neighbours(g, &rows, &lanes);
        let is_tall = g.layers() > 1;
        cpu.dispatch::<T, _>(Others { tile: &mut self, rows: &rows, lanes: &lanes, weights, is_tall });
        self.leave(g, &rows, &lanes);
        sum
    }
}

/// The first sub-iteration of a tile, which stores c and w for the others.
struct First<'a, 't, T> {
    tile: &'a mut Tile<'t, T>,
    rows: &'a Rows,
    lanes: &'a [Lanes; 2],
}

impl<T: Real> Kernel<T> for First<'_, '_, T> {
    /// Σ (f − A u)², and the structure of w.
    type Output = (f64, Weights<T>);

    #[inline(always)]
    fn run<S: Simd, C: Coefficients<T>>(self, simd: S, g: Geometry<'_, T>, c: &C) -> Self::Output {
        let Self { tile: this, rows, lanes } = self;
        let [y, z] = this.relaxed();
        let mut sum = 0.0;
        let mut found = Weights::Uniform([None; 6]);
        for j in y[0]..y[1] {
            for colour in Colour::BOTH {
                let h = g.half_plane(j, colour);
                let own = &lanes[h.parity];
                let tile = c.tile(simd, g, &h, Columns { m: own.m, n: rows.lanes });
                for k in z[0]..z[1] {
                    this.first(simd, g, rows, (&h, k), own, tile.row(k));
                    let at = rows.at(h.parity, (j - y[0]) as isize, (k - z[0]) as isize);
                    found = this.compare(g, found, at, own, [j, k]);
                    let of_row = this.residual_norm(j, k, own);
                    sum += of_row;
                    if let Some((lines, first)) = this.lines
                        && (this.spans[1].left[0]..this.spans[1].left[1]).contains(&j)
                    {
                        // SAFETY: of the tiles at the same place in x, one writes this row of cells.
                        unsafe { lines.row_mut(first + j as isize, 1)[0] += of_row };
                    }
                    this.put_beside(g, &h, own, k, at);
                }
            }
        }
        (sum, found)
    }
}

/// The sub-iterations after the first: they need no matrix, and are compiled once for all kinds of coefficients.
struct Others<'a, 't, T> {
    tile: &'a mut Tile<'t, T>,
    rows: &'a Rows,
    lanes: &'a [Lanes; 2],
    weights: Weights<T>,
    is_tall: bool,
}

impl<T: Real> WithSimd for Others<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { tile, rows, lanes, weights, is_tall } = self;
        for s in 2..=tile.cycle.sub_iterations {
            match (weights.couples_in_y(), is_tall) {
                (false, false) => tile.sub_iteration::<S, false, false>(simd, s, rows, lanes, weights),
                (true, false) => tile.sub_iteration::<S, true, false>(simd, s, rows, lanes, weights),
                (false, true) => tile.sub_iteration::<S, false, true>(simd, s, rows, lanes, weights),
                (true, true) => tile.sub_iteration::<S, true, true>(simd, s, rows, lanes, weights),
            }
        }
    }
}

/// The structure of a tile's w, as found so far.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Weights<T> {
    /// The weights are equal in all cells, except at missing faces; by direction, if one has been found.
    Uniform([Option<T>; 6]),
    /// The weights differ, with or without couplings in y.
    Various(bool),
}

impl<T: Real> Weights<T> {
    fn couples_in_y(self) -> bool {
        match self {
            Self::Uniform([_, _, south, north, ..]) => [south, north].into_iter().flatten().any(|w| w != T::ZERO),
            Self::Various(couples) => couples,
        }
    }
}

impl<T: Real> Tile<'_, T> {
    /// Returns the rows and the layers that are relaxed. (Here and below nothing is mapped by an array's `map`, which would not be
    /// inlined.)
    #[inline(always)]
    fn relaxed(&self) -> [[usize; 2]; 2] {
        let [_, y, z] = &self.spans;
        [y.relaxed, z.relaxed]
    }

    /// Stores c and w of a row, and computes the first sub-iteration.
    #[inline(always)]
    fn first<'a, S: Simd>(
        &'a mut self,
        simd: S,
        g: Geometry<'_, T>,
        rows: &Rows,
        (h, k): (&HalfPlane, usize),
        lanes: &Lanes,
        row: impl RowCoefficients<S, T>,
    ) {
        let [y, z] = self.relaxed();
        let n = rows.lanes;
        let w = Window { k, columns: Columns { m: lanes.m, n } };
        // SAFETY: rows of vectors that nobody writes.
        let (au, f) = unsafe {
            let u = around(g, self.u, h, w.columns);
            (Applied::new(simd, &u, k), self.f.packs(simd, g.position(h, w), n))
        };
        let omega = T::from_f64(self.cycle.relaxation);
        let (rest, omega) = (rest(simd, omega), Pack::splat(simd, omega));
        let at = rows.at(h.parity, (h.j - y[0]) as isize, (k - z[0]) as isize);
        let TileSpace { u: [first, after], constant, weights, residual } = &mut *self.space;
        // SAFETY: a row of a vector that nobody writes.
        let before = self.moving.map(|Moving { momentum, before, .. }| unsafe {
            (Pack::splat(simd, momentum), before.packs(simd, g.position(h, w), n))
        });
        let mut first = RowMut::new(simd, &mut first.entries_mut()[at..at + n]);
        let is_tall = g.layers() > 1;
        let [west, east, south, north, below, above] = weights;
        let to = |weights: &'a mut Vector<T>| RowMut::new(simd, &mut weights.entries_mut()[at..at + n]);
        let mut horizontal = [to(west), to(east), to(south), to(north)];
        let mut vertical = if is_tall { Some([to(below), to(above)]) } else { None };
        let mut after = RowMut::new(simd, &mut after.entries_mut()[at..at + n]);
        let mut constant = RowMut::new(simd, &mut constant.entries_mut()[at..at + n]);
        let mut residual = RowMut::new(simd, &mut residual.entries_mut()[..n]);
        for i in 0..after.len() {
            let entries = row.get(i);
            let update = Update::new(&entries, omega, f.get(i));
            residual.set(i, entries.less_weighted(f.get(i), au.get(&entries, i)));
            let own = au.own.get(i);
            let value = update.apply(rest, own, au.around.horizontal(i), au.around.vertical(i));
            match &before {
                Some((momentum, before)) => {
                    first.set(i, own);
                    after.set(i, momentum.mul_add(own - before.get(i), value));
                }
                None => after.set(i, value),
            }
            constant.set(i, update.constant);
            for (d, to) in horizontal.iter_mut().enumerate() {
                to.set(i, update.horizontal[d]);
            }
            if let (Some([to_below, to_above]), Some([below, above])) = (&mut vertical, update.vertical) {
                to_below.set(i, below);
                to_above.set(i, above);
            }
        }
    }

    /// Updates the structure of the tile's w with another row, of plane j and layer k. Beyond closed sides values are zero,
    /// and w is arbitrary.
    fn compare(
        &self,
        g: Geometry<'_, T>,
        known: Weights<T>,
        at: usize,
        lanes: &Lanes,
        [j, k]: [usize; 2],
    ) -> Weights<T> {
        let [first, end] = lanes.relaxed.map(|lane| at + lane);
        if first == end {
            return known;
        }
        let couples = |known: bool| {
            let any = |d: usize| self.space.weights[d].entries()[first..end].iter().any(|&w| w != T::ZERO);
            known || any(2) || any(3)
        };
        let Weights::Uniform(mut all) = known else { return Weights::Various(couples(known.couples_in_y())) };
        let (shape, [x0, x1]) = (g.layout.shape(), self.spans[0].relaxed);
        let is_closed = |d: usize, is_end: bool| is_end && !g.periodic[d];
        let ends = [j == 0, j + 1 == shape.ny, k == 0, k + 1 == shape.nz];
        for (d, all) in all.iter_mut().enumerate().take(if g.layers() > 1 { 6 } else { 4 }) {
            let (from, to) = match d {
                // Excludes the first or the last cell of a line, if it has this parity.
                0 => (first + usize::from(is_closed(0, x0 == 0) && lanes.starts_line), end),
                1 => (first, end - usize::from(is_closed(0, x1 == shape.nx) && lanes.ends_line)),
                _ if is_closed(d / 2, ends[d - 2]) => continue,
                _ => (first, end),
            };
            let Some((&value, rest)) = self.space.weights[d].entries()[from..to].split_first() else { continue };
            let expected = *all.get_or_insert(value);
            if value != expected || rest.iter().any(|&w| w != expected) {
                return Weights::Various(couples(known.couples_in_y()));
            }
        }
        Weights::Uniform(all)
    }

    /// Restores the values next to the tile in x, which are stored in c.
    fn put_beside(&mut self, g: Geometry<'_, T>, h: &HalfPlane, lanes: &Lanes, k: usize, at: usize) {
        let nx = g.layout.shape().nx;
        let [x0, x1] = self.spans[0].relaxed;
        for (lane, i) in lanes.beside.into_iter().zip([x0 as isize - 1, x1 as isize]) {
            let Some(lane) = lane else { continue };
            let value = if (0..nx as isize).contains(&i) || g.periodic[0] {
                let from = i.rem_euclid(nx as isize) as usize;
                let w = Window { k, columns: Columns { m: from / 2, n: 1 } };
                // SAFETY: one entry of a vector that nobody writes.
                unsafe { self.u.row(g.position(h, w), 1)[0] }
            } else {
                T::ZERO
            };
            let place = at + lane - 1;
            let TileSpace { u: [before, after], constant, .. } = &mut *self.space;
            for vector in [before, after, constant] {
                vector.entries_mut()[place] = value;
            }
        }
    }

    /// Copies the values of the rows and layers around the tile, zeros beyond closed sides.
    fn copy_neighbours(&mut self, g: Geometry<'_, T>, rows: &Rows, lanes: &[Lanes; 2]) {
        let [_, y, z] = self.spans.map(|span| span.relaxed);
        let n = rows.lanes;
        let mut copy = |at: usize, from: Option<isize>| {
            for u in &mut self.space.u {
                let u = u.entries_mut();
                match from {
                    // SAFETY: a row of a vector that nobody writes.
                    Some(position) => u[at..at + n].copy_from_slice(unsafe { self.u.row(position, n) }),
                    None => u[at..at + n].fill(T::ZERO),
                }
            }
        };
        for parity in [0, 1] {
            let position = |j: usize, k: usize| {
                let half_plane = ((j + parity) % 2 * g.layout.half_plane()) as isize;
                g.plane_start(j) + half_plane + (k * g.layout.pitch() + lanes[parity].m) as isize
            };
            for (j, upper, to) in [(y[0], false, -1), (y[1] - 1, true, (y[1] - y[0]) as isize)] {
                let (beside, link) = g.plane_beside(j, upper);
                for k in z[0]..z[1] {
                    let from = (link != Link::Closed).then(|| position(beside, k));
                    copy(rows.at(parity, to, (k - z[0]) as isize), from);
                }
            }
            if rows.below == 0 {
                continue;
            }
            for (k, upper, to) in [(z[0], false, -1), (z[1] - 1, true, (z[1] - z[0]) as isize)] {
                let (beside, link) = g.layer_beside(k, upper);
                for j in y[0]..y[1] {
                    let from = (link != Link::Closed).then(|| position(j, beside));
                    copy(rows.at(parity, (j - y[0]) as isize, to), from);
                }
            }
        }
    }

    /// Returns Σ r² over the cells of a row that the tile writes.
    #[inline(always)]
    fn residual_norm(&self, j: usize, k: usize, lanes: &Lanes) -> f64 {
        let [_, y, z] = self.spans.map(|span| span.left);
        if !(y[0]..y[1]).contains(&j) || !(z[0]..z[1]).contains(&k) {
            return 0.0;
        }
        let mut sums = [0.0; 4];
        for four in self.space.residual.entries()[lanes.left[0]..lanes.left[1]].chunks(4) {
            for (sum, r) in sums.iter_mut().zip(four) {
                *sum += r.to_f64() * r.to_f64();
            }
        }
        (sums[0] + sums[1]) + (sums[2] + sums[3])
    }

    /// Computes sub-iteration s ≥ 2, with or without couplings in y and z.
    #[inline(always)]
    fn sub_iteration<S: Simd, const Y: bool, const Z: bool>(
        &mut self,
        simd: S,
        s: usize,
        rows: &Rows,
        lanes: &[Lanes; 2],
        weights: Weights<T>,
    ) {
        let still = self.cycle.sub_iterations - s;
        // An exact cycle computes only the cells on which the written ones depend.
        let needed = |Span { relaxed, left }: Span| {
            let first = if self.is_exact { relaxed[0].max(left[0].saturating_sub(still)) } else { relaxed[0] };
            let end = if self.is_exact { relaxed[1].min(left[1] + still) } else { relaxed[1] };
            [(first - relaxed[0]) as isize, (end - relaxed[0]) as isize]
        };
        let (y, z) = (needed(self.spans[1]), needed(self.spans[2]));
        let factors = Factors {
            rest: rest(simd, T::from_f64(self.cycle.relaxation)),
            momentum: self.moving.map(|moving| Pack::splat(simd, moving.momentum)),
        };
        let TileSpace { u: [even, odd], constant, weights: stored, .. } = &mut *self.space;
        let (before, after) = if s.is_multiple_of(2) { (&*odd, even) } else { (&*even, odd) };
        let (before, after, constant) = (before.entries(), after.entries_mut(), constant.entries());
        let (pitch, layer) = (rows.pitch(), rows.pitch() * rows.rows);
        let len = (y[1] - y[0]) as usize * pitch;
        for parity in [0, 1] {
            let [own, other] = [&lanes[parity], &lanes[1 - parity]];
            for k in z[0]..z[1] {
                let at = rows.at(parity, y[0], k);
                // Cell m of this parity lies between m + parity − 1 and m + parity of the other.
                let across = rows.at(1 - parity, y[0], k) + own.m + parity - other.m;
                let row = |start: usize| Row::<S, T>::new(simd, &before[start..start + len]);
                let beside = Beside {
                    here: row(at),
                    x: [row(across - 1), row(across)],
                    y: if Y { [row(at - pitch), row(at + pitch)] } else { [row(at); 2] },
                    z: if Z { [row(at - layer), row(at + layer)] } else { [row(at); 2] },
                };
                let constant_row = Row::<S, T>::new(simd, &constant[at..at + len]);
                let out = RowMut::new(simd, &mut after[at..at + len]);
                let vertical = if Z { at } else { 0 };
                let row = |d: usize, at: usize, len: usize| Row::<S, T>::new(simd, &stored[d].entries()[at..at + len]);
                let some = if Z { len } else { 0 };
                let stored = [
                    row(0, at, len),
                    row(1, at, len),
                    row(2, at, len),
                    row(3, at, len),
                    row(4, vertical, some),
                    row(5, vertical, some),
                ];
                match weights {
                    Weights::Uniform(all) => {
                        let mut uniform = [Pack::splat(simd, T::ZERO); 6];
                        for (d, pack) in uniform.iter_mut().enumerate() {
                            *pack = Pack::splat(simd, all[d].unwrap_or(T::ZERO));
                        }
                        relax::<S, T, Y, Z, true>(factors, constant_row, &uniform, &stored, &beside, out);
                    }
                    Weights::Various(_) => {
                        let none = [Pack::splat(simd, T::ZERO); 6];
                        relax::<S, T, Y, Z, false>(factors, constant_row, &none, &stored, &beside, out);
                    }
                }
                for j in 0..(y[1] - y[0]) as usize {
                    for lane in own.beside.into_iter().flatten() {
                        let place = at + j * pitch + lane - 1;
                        after[place] = constant[place];
                    }
                }
            }
        }
    }

    /// Writes the tile's cells.
    fn leave(&self, g: Geometry<'_, T>, rows: &Rows, lanes: &[Lanes; 2]) {
        let [_, y0, z0] = self.spans.map(|span| span.relaxed[0]);
        let [_, y, z] = self.spans.map(|span| span.left);
        let k = self.cycle.sub_iterations;
        let (u, before) = (self.space.u[k % 2].entries(), self.space.u[(k - 1) % 2].entries());
        for j in y[0]..y[1] {
            for colour in Colour::BOTH {
                let h = g.half_plane(j, colour);
                let Lanes { m, left: [first, end], .. } = lanes[h.parity];
                for k in z[0]..z[1] {
                    let at = rows.at(h.parity, (j - y0) as isize, (k - z0) as isize);
                    let w = Window { k, columns: Columns { m: m + first, n: end - first } };
                    // SAFETY: every cell is written by one tile, and nobody reads v.
                    let out = unsafe { self.v.row_mut(g.position(&h, w), end - first) };
                    out.copy_from_slice(&u[at + first..at + end]);
                    if let Some(moving) = self.moving {
                        // SAFETY: as above.
                        let out = unsafe { moving.last.row_mut(g.position(&h, w), end - first) };
                        out.copy_from_slice(&before[at + first..at + end]);
                    }
                }
            }
        }
    }
}

/// The values of some rows and those around them.
struct Beside<'a, S: Simd, T: Real> {
    here: Row<'a, S, T>,
    x: [Row<'a, S, T>; 2],
    y: [Row<'a, S, T>; 2],
    z: [Row<'a, S, T>; 2],
}

/// 1 − ω and m, where they are not zero.
#[derive(Clone, Copy)]
struct Factors<S: Simd, T: Real> {
    rest: Option<Pack<S, T>>,
    momentum: Option<Pack<S, T>>,
}

/// Computes c + (1 − ω) u + Σ w u, in the order of [`Update::apply`], + m (u − out); w is uniform, where U, or stored.
#[inline(always)]
fn relax<S: Simd, T: Real, const Y: bool, const Z: bool, const U: bool>(
    Factors { rest, momentum }: Factors<S, T>,
    constant: Row<'_, S, T>,
    uniform: &[Pack<S, T>; 6],
    stored: &[Row<'_, S, T>; 6],
    u: &Beside<'_, S, T>,
    mut out: RowMut<'_, S, T>,
) {
    for i in 0..out.len() {
        let mut value = constant.get(i);
        if let Some(rest) = rest {
            value = rest.mul_add(u.here.get(i), value);
        }
        value = weight::<S, T, U>(uniform, stored, 0, i).mul_add(u.x[0].get(i), value);
        value = weight::<S, T, U>(uniform, stored, 1, i).mul_add(u.x[1].get(i), value);
        if Y {
            value = weight::<S, T, U>(uniform, stored, 2, i).mul_add(u.y[0].get(i), value);
            value = weight::<S, T, U>(uniform, stored, 3, i).mul_add(u.y[1].get(i), value);
        }
        if Z {
            value = weight::<S, T, U>(uniform, stored, 4, i).mul_add(u.z[0].get(i), value);
            value = weight::<S, T, U>(uniform, stored, 5, i).mul_add(u.z[1].get(i), value);
        }
        if let Some(momentum) = momentum {
            value = momentum.mul_add(u.here.get(i) - out.get(i), value);
        }
        out.set(i, value);
    }
}

#[inline(always)]
fn weight<S: Simd, T: Real, const U: bool>(
    uniform: &[Pack<S, T>; 6],
    stored: &[Row<'_, S, T>; 6],
    d: usize,
    i: usize,
) -> Pack<S, T> {
    if U { uniform[d] } else { stored[d].get(i) }
}
