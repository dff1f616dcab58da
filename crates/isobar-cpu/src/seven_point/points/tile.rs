//! All sub-iterations of one tile, in memory of the thread's own that stays in cache.
//!
//! A tile is kept as the grid is: rows of one colour, x contiguous, then layers, colours and planes, with a plane and a layer
//! of neighbours around. What lies beyond stays as it was; of a row's own lanes those that belong to no cell of the tile are
//! computed too, but nobody looks at them but for the cells next to the tile's in x, whose values are put back.

use isobar_core::error::{Error, Result};
use isobar_core::layout::{Colour, ROW_ALIGNMENT, Shape};
use isobar_core::options::{PointCycle, Span};
use isobar_core::real::Real;
use isobar_core::simd::Pack;
use pulp::Simd;

use super::sweep::{Update, rest};
use crate::geometry::{Columns, Geometry, HalfPlane, Link, Window};
use crate::seven_point::kernels::Applied;
use crate::seven_point::{Coefficients, Entries, Kernel, RowCoefficients, TileCoefficients};
use crate::shared::{Row, RowMut, Shared};

/// Entries beside a row that hold a neighbour in x.
const MARGIN: usize = ROW_ALIGNMENT;

/// What a thread keeps of a tile.
#[derive(Debug)]
pub(super) struct TileSpace<T> {
    /// u before and after a sub-iteration, by turns: after an odd number of them in the second.
    u: [Vec<T>; 2],
    /// c of [`Update`]; in the place of a cell next to the tile in x, the value there.
    constant: Vec<T>,
    /// w of [`Update`]: west, east, south, north, below, above.
    weights: [Vec<T>; 6],
    /// The residual of a row.
    residual: Vec<T>,
}

impl<T> Default for TileSpace<T> {
    fn default() -> Self {
        let empty = Vec::new;
        Self { u: [(); 2].map(|()| empty()), constant: empty(), weights: [(); 6].map(|()| empty()), residual: empty() }
    }
}

/// Lanes of a row that holds so many cells of one colour and those beside them.
fn lanes(cells: usize) -> usize {
    (cells / 2 + 2).next_multiple_of(ROW_ALIGNMENT)
}

impl<T> TileSpace<T> {
    pub(super) fn bytes(&self) -> usize {
        let vectors = self.u.iter().chain(&self.weights).chain([&self.constant, &self.residual]);
        vectors.map(|vector| size_of_val(&vector[..])).sum()
    }
}

impl<T: Real> TileSpace<T> {
    /// Room for the largest tile of a cycle.
    pub(super) fn make_room(&mut self, cycle: &PointCycle, shape: Shape) -> Result<()> {
        let [x, y, z] = cycle.tile;
        let rows = 2 * (y + 2) * if shape.nz > 1 { z + 2 } else { 1 };
        let entries = rows.saturating_mul(lanes(x) + 2 * MARGIN);
        let vertical = if shape.nz > 1 { entries } else { 0 };
        let Self { u: [before, after], constant, weights: [west, east, south, north, below, above], residual } = self;
        let flat = [before, after, constant, west, east, south, north].map(|vector| (vector, entries));
        let others = [(below, vertical), (above, vertical), (residual, lanes(x))];
        for (vector, wanted) in flat.into_iter().chain(others) {
            let more = wanted.saturating_sub(vector.len());
            vector.try_reserve_exact(more).map_err(|_| Error::OutOfMemory {
                what: format!("a tile of {x} × {y} × {z} cells (solver.jacobi.tile)"),
                needed_bytes: (9 * entries * size_of::<T>()) as u64,
                available_bytes: 0,
            })?;
            vector.resize(vector.len() + more, T::ZERO);
        }
        Ok(())
    }
}

/// v = u after a cycle, in the cells that a tile leaves;  Σ (f − A u)² over them
pub(super) struct Tile<'t, T> {
    pub(super) cycle: &'t PointCycle,
    /// Whether a sub-iteration need not go further than what will be left depends on.
    pub(super) is_exact: bool,
    pub(super) spans: [Span; 3],
    pub(super) f: Shared<T>,
    pub(super) u: Shared<T>,
    pub(super) v: Shared<T>,
    pub(super) space: &'t mut TileSpace<T>,
}

/// Where a tile's rows lie in its memory.
#[derive(Clone, Copy)]
struct Rows {
    /// Lanes, and the first one's m.
    columns: Columns,
    /// Layers, those of neighbours included.
    layers: usize,
    /// Layers of neighbours below.
    below: usize,
}

impl Rows {
    /// The first lane of layer k of a half plane of plane j, both counted from the tile's own first.
    #[inline(always)]
    fn at(&self, j: isize, colour: usize, k: isize) -> usize {
        let row = (2 * (j + 1) as usize + colour) * self.layers + (k + self.below as isize) as usize;
        row * (self.columns.n + 2 * MARGIN) + MARGIN
    }
}

/// The lanes of one colour's rows, by parity of their columns.
#[derive(Clone, Copy)]
struct Lanes {
    /// The first that is left, and one past the last.
    left: [usize; 2],
    /// Those of the neighbours in x that a row's packs overwrite.
    beside: [Option<usize>; 2],
}

impl<T: Real> Kernel<T> for Tile<'_, T> {
    type Output = f64;

    #[inline(always)]
    fn run<S: Simd, C: Coefficients<T>>(mut self, simd: S, g: Geometry<'_, T>, c: &C) -> f64 {
        let [x, y, z] = self.spans.map(|span| span.relaxed);
        let n = lanes(x[1] - x[0]).min(g.layout.pitch());
        let columns = Columns { m: (x[0].saturating_sub(1) / 2).min(g.layout.pitch() - n), n };
        let below = usize::from(g.layers() > 1);
        let rows = Rows { columns, layers: z[1] - z[0] + 2 * below, below };
        let lanes = [0, 1].map(|parity| self.lanes(columns, parity));
        let (mut sum, mut couples) = (0.0, Pack::splat(simd, T::ZERO));
        for j in y[0]..y[1] {
            for colour in Colour::BOTH {
                let h = g.half_plane(j, colour);
                let tile = c.tile(simd, g, &h, columns);
                for k in z[0]..z[1] {
                    couples = couples + self.first(simd, g, &rows, &h, k, tile.row(k));
                    sum += self.residual_norm(j, k, &lanes[h.parity]);
                    self.put_beside(g, &rows, &h, k, &lanes[h.parity]);
                }
            }
        }
        self.copy_neighbours(g, &rows);
        let mut all = [T::ZERO; 8];
        T::registers_mut::<S>(&mut all).0[0] = couples.register();
        let in_y = all.iter().any(|&coupling| coupling > T::ZERO);
        for s in 2..=self.cycle.sub_iterations {
            match (in_y, g.layers() > 1) {
                (false, false) => self.sub_iteration::<S, false, false>(simd, s, &rows, &lanes),
                (true, false) => self.sub_iteration::<S, true, false>(simd, s, &rows, &lanes),
                (false, true) => self.sub_iteration::<S, false, true>(simd, s, &rows, &lanes),
                (true, true) => self.sub_iteration::<S, true, true>(simd, s, &rows, &lanes),
            }
        }
        self.leave(g, &rows, &lanes);
        sum
    }
}

impl<T: Real> Tile<'_, T> {
    fn lanes(&self, Columns { m, n }: Columns, parity: usize) -> Lanes {
        let Span { relaxed, left } = self.spans[0];
        let lane = |i: usize| (i + 1 - parity) / 2 - m;
        // Of cell `i` if it has this parity, counted with one cell more in front.
        let beside = |one_more: usize| {
            let is_here = one_more % 2 != parity && one_more > parity;
            is_here.then(|| ((one_more - 1 - parity) / 2).wrapping_sub(m)).filter(|&lane| lane < n)
        };
        Lanes { left: left.map(lane), beside: [beside(relaxed[0]), beside(relaxed[1] + 1)] }
    }

    /// The values next to the tile in x.
    #[inline(always)]
    fn put_beside(&mut self, g: Geometry<'_, T>, rows: &Rows, h: &HalfPlane, k: usize, lanes: &Lanes) {
        let nx = g.layout.shape().nx;
        let [[x0, x1], y, z] = self.spans.map(|span| span.relaxed);
        let at = rows.at((h.j - y[0]) as isize, h.colour as usize, (k - z[0]) as isize);
        for (side, i) in [x0 as isize - 1, x1 as isize].into_iter().enumerate() {
            if (i - h.parity as isize) % 2 != 0 {
                continue;
            }
            let is_inside = (0..nx as isize).contains(&i);
            let from = i.rem_euclid(nx as isize) as usize;
            let value = if is_inside || g.periodic[0] {
                let w = Window { k, columns: Columns { m: from / 2, n: 1 } };
                // SAFETY: one entry of a vector that nobody writes.
                unsafe { self.u.row(g.position(h, w), 1)[0] }
            } else {
                T::ZERO
            };
            let lane = (i - h.parity as isize) / 2 - rows.columns.m as isize;
            let place = at.wrapping_add_signed(lane);
            self.space.u[0][place] = value;
            self.space.u[1][place] = value;
            if lanes.beside[side].is_some() {
                self.space.constant[place] = value;
            }
        }
    }

    /// The values of the planes and layers around the tile, zeros beyond closed sides.
    #[inline(always)]
    fn copy_neighbours(&mut self, g: Geometry<'_, T>, rows: &Rows) {
        let [_, y, z] = self.spans.map(|span| span.relaxed);
        let Columns { m, n } = rows.columns;
        let mut copy = |at: usize, from: Option<isize>| {
            for u in &mut self.space.u {
                match from {
                    // SAFETY: a row of a vector that nobody writes.
                    Some(position) => u[at..at + n].copy_from_slice(unsafe { self.u.row(position, n) }),
                    None => u[at..at + n].fill(T::ZERO),
                }
            }
        };
        for colour in Colour::BOTH {
            let position = |j: usize, k: usize| {
                let half_plane = (colour as usize * g.layout.half_plane()) as isize;
                g.plane_start(j) + half_plane + (k * g.layout.pitch() + m) as isize
            };
            for (j, upper, to) in [(y[0], false, -1), (y[1] - 1, true, (y[1] - y[0]) as isize)] {
                let (beside, link) = g.plane_beside(j, upper);
                for k in z[0]..z[1] {
                    let from = (link != Link::Closed).then(|| position(beside, k));
                    copy(rows.at(to, colour as usize, (k - z[0]) as isize), from);
                }
            }
            if rows.below == 0 {
                continue;
            }
            for (k, upper, to) in [(z[0], false, -1), (z[1] - 1, true, (z[1] - z[0]) as isize)] {
                let (beside, link) = g.layer_beside(k, upper);
                for j in y[0]..y[1] {
                    let from = (link != Link::Closed).then(|| position(j, beside));
                    copy(rows.at((j - y[0]) as isize, colour as usize, to), from);
                }
            }
        }
    }

    /// Stores c and w of a row, and takes the first sub-iteration. Returns the squares of the couplings in y.
    #[inline(always)]
    fn first<S: Simd>(
        &mut self,
        simd: S,
        g: Geometry<'_, T>,
        rows: &Rows,
        h: &HalfPlane,
        k: usize,
        row: impl RowCoefficients<S, T>,
    ) -> Pack<S, T> {
        let [_, y, z] = self.spans.map(|span| span.relaxed);
        let w = Window { k, columns: rows.columns };
        let (position, n) = (g.position(h, w), rows.columns.n);
        // SAFETY: rows of vectors that nobody writes.
        let (au, f) = unsafe { (Applied::new(simd, g, self.u, h, w), self.f.packs(simd, position, n)) };
        let omega = T::from_f64(self.cycle.relaxation);
        let (rest, omega) = (rest(simd, omega), Pack::splat(simd, omega));
        let at = rows.at((h.j - y[0]) as isize, h.colour as usize, (k - z[0]) as isize);
        let TileSpace { u: [_, after], constant, weights, residual } = &mut *self.space;
        let is_tall = g.layers() > 1;
        let [west, east, south, north, below, above] = weights;
        let mut to = [west, east, south, north].map(|weights| RowMut::new(simd, &mut weights[at..at + n]));
        let mut to_vertical =
            [below, above].map(|weights| RowMut::new(simd, if is_tall { &mut weights[at..at + n] } else { &mut [] }));
        let mut after = RowMut::new(simd, &mut after[at..at + n]);
        let mut constant = RowMut::new(simd, &mut constant[at..at + n]);
        let mut residual = RowMut::new(simd, &mut residual[..n]);
        let mut couples = Pack::splat(simd, T::ZERO);
        for i in 0..after.len() {
            let entries = row.get(i);
            let update = Update::new(&entries, omega, f.get(i));
            residual.set(i, entries.less_weighted(f.get(i), au.get(&entries, i)));
            after.set(i, update.apply(rest, au.own.get(i), au.around.horizontal(i), au.around.vertical(i)));
            constant.set(i, update.constant);
            for (to, weight) in to.iter_mut().zip(update.horizontal) {
                to.set(i, weight);
            }
            let [.., south, north] = update.horizontal;
            couples = south.mul_add(south, north.mul_add(north, couples));
            if is_tall && let Some(vertical) = update.vertical {
                for (to, weight) in to_vertical.iter_mut().zip(vertical) {
                    to.set(i, weight);
                }
            }
        }
        couples
    }

    /// Σ r² over the cells of a row that the tile leaves
    #[inline(always)]
    fn residual_norm(&self, j: usize, k: usize, lanes: &Lanes) -> f64 {
        let [_, y, z] = self.spans.map(|span| span.left);
        if !(y[0]..y[1]).contains(&j) || !(z[0]..z[1]).contains(&k) {
            return 0.0;
        }
        let mut sums = [0.0; 4];
        for four in self.space.residual[lanes.left[0]..lanes.left[1]].chunks(4) {
            for (sum, r) in sums.iter_mut().zip(four) {
                *sum += r.to_f64() * r.to_f64();
            }
        }
        (sums[0] + sums[1]) + (sums[2] + sums[3])
    }

    /// Gives the cells beside the tile in x their values back.
    #[inline(always)]
    fn put_back(&mut self, to: usize, at: usize, lanes: &Lanes) {
        let TileSpace { u, constant, .. } = &mut *self.space;
        for lane in lanes.beside.into_iter().flatten() {
            u[to][at + lane] = constant[at + lane];
        }
    }

    /// Sub-iteration s, 2 or more; with couplings in y and z or without.
    #[inline(always)]
    fn sub_iteration<S: Simd, const Y: bool, const Z: bool>(
        &mut self,
        simd: S,
        s: usize,
        rows: &Rows,
        lanes: &[Lanes; 2],
    ) {
        let still = self.cycle.sub_iterations - s;
        // Of an exact cycle, no more than what is left depends on.
        let [y, z] = [1, 2].map(|d| {
            let Span { relaxed, left } = self.spans[d];
            let first = if self.is_exact { relaxed[0].max(left[0].saturating_sub(still)) } else { relaxed[0] };
            let end = if self.is_exact { relaxed[1].min(left[1] + still) } else { relaxed[1] };
            [(first - relaxed[0]) as isize, (end - relaxed[0]) as isize]
        });
        let (from, to) = ((s + 1) % 2, s % 2);
        let n = rows.columns.n;
        let first_plane = self.spans[1].relaxed[0];
        let rest = rest(simd, T::from_f64(self.cycle.relaxation));
        for j in y[0]..y[1] {
            for colour in [0, 1] {
                let parity = (first_plane + j as usize + colour) % 2;
                for k in z[0]..z[1] {
                    let at = rows.at(j, colour, k);
                    {
                        let TileSpace { u: [even, odd], constant, weights, .. } = &mut *self.space;
                        let (before, after) = if from == 0 { (&*even, odd) } else { (&*odd, even) };
                        let row = |start: usize| Row::<S, T>::new(simd, &before[start..start + n]);
                        let weight = |d: usize| Row::<S, T>::new(simd, &weights[d][at..at + n]);
                        let across = rows.at(j, 1 - colour, k) + parity;
                        let own = row(at);
                        let x = [(weight(0), row(across - 1)), (weight(1), row(across))];
                        let y = if Y {
                            let [south, north] = [j - 1, j + 1].map(|j| row(rows.at(j, 1 - colour, k)));
                            [(weight(2), south), (weight(3), north)]
                        } else {
                            x
                        };
                        let z = if Z {
                            let [below, above] = [k - 1, k + 1].map(|k| row(rows.at(j, colour, k)));
                            [(weight(4), below), (weight(5), above)]
                        } else {
                            x
                        };
                        let constant = Row::<S, T>::new(simd, &constant[at..at + n]);
                        let mut out = RowMut::new(simd, &mut after[at..at + n]);
                        for i in 0..out.len() {
                            let mut value = constant.get(i);
                            if let Some(rest) = rest {
                                value = rest.mul_add(own.get(i), value);
                            }
                            value = x[1].0.get(i).mul_add(x[1].1.get(i), x[0].0.get(i).mul_add(x[0].1.get(i), value));
                            if Y {
                                value =
                                    y[1].0.get(i).mul_add(y[1].1.get(i), y[0].0.get(i).mul_add(y[0].1.get(i), value));
                            }
                            if Z {
                                value =
                                    z[1].0.get(i).mul_add(z[1].1.get(i), z[0].0.get(i).mul_add(z[0].1.get(i), value));
                            }
                            out.set(i, value);
                        }
                    }
                    self.put_back(to, at, &lanes[parity]);
                }
            }
        }
    }

    /// Writes what the tile leaves.
    #[inline(always)]
    fn leave(&self, g: Geometry<'_, T>, rows: &Rows, lanes: &[Lanes; 2]) {
        let [_, y0, z0] = self.spans.map(|span| span.relaxed[0]);
        let [_, y, z] = self.spans.map(|span| span.left);
        let u = &self.space.u[self.cycle.sub_iterations % 2];
        for j in y[0]..y[1] {
            for colour in Colour::BOTH {
                let h = g.half_plane(j, colour);
                let [first, end] = lanes[h.parity].left;
                for k in z[0]..z[1] {
                    let at = rows.at((j - y0) as isize, colour as usize, (k - z0) as isize);
                    let w = Window { k, columns: Columns { m: rows.columns.m + first, n: end - first } };
                    // SAFETY: every cell is left by one tile, and nobody reads v.
                    let out = unsafe { self.v.row_mut(g.position(&h, w), end - first) };
                    out.copy_from_slice(&u[at + first..at + end]);
                }
            }
        }
    }
}
