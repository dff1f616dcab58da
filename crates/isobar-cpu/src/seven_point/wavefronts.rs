//! Substitution over the whole grid with (Δ + L) Δ⁻¹ (Δ + Lᵀ), a wavefront of [`tiles`](super::tiles). On a grid divided into
//! subdomains, a tile begins when the previous subdomain's neighbouring z has arrived.
//!
//! Within a tile a row is two loops: all terms but the neighbour in x, by packs, both colours of cells; then the recurrence along
//! x, y_i = a_i + c_i y_{i−1}, cell by cell. The arithmetic of a cell and its order do not depend on the number of threads; sums
//! are stored by plane.
//!
//! Safety of all memory accesses: a tile belongs to one thread, and it reads other tiles only when they are done, or vectors that
//! nothing writes.

use isobar_core::prelude::{Backend, Colour, HostScalars, Pack, Real, ResidualUpdate, Result};
use pulp::Simd;

use super::relay::Relay;
use super::tiles::{Tile, Tiles};
use super::{ChunkSpace, Coefficients, Entries, Kernel, RowCoefficients, SevenPoint, Stored, TileCoefficients};
use crate::{Columns, Geometry, HalfPlane, Row, RowMut, RowSum, Shared, Vector, View, Which, Window};

/// Vectors of both sweeps.
#[derive(Clone, Copy)]
struct Vectors<T> {
    inverse_pivots: Shared<T>,
    r: Shared<T>,
    /// The vector that is subtracted from r first, and its factor.
    q: Option<(Shared<T>, T)>,
    z: Shared<T>,
}

/// Coefficients a and c of the recurrence along x, of cells with even and with odd i.
struct Recurrence<'s, T> {
    a: [&'s mut [T]; 2],
    c: [&'s mut [T]; 2],
}

impl<'s, T: Real> Recurrence<'s, T> {
    #[inline(always)]
    fn new(space: &'s mut ChunkSpace<T>, n: usize) -> Self {
        let [a, c] = &mut space.natural;
        let half = a.len() / 2;
        let ((a_even, a_odd), (c_even, c_odd)) = (a.split_at_mut(half), c.split_at_mut(half));
        Self { a: [&mut a_even[..n], &mut a_odd[..n]], c: [&mut c_even[..n], &mut c_odd[..n]] }
    }

    /// y_i = a_i + c_i y_{i−1}, `before` being the y before the first.
    #[inline(always)]
    fn upwards(&self, even: &mut [T], odd: &mut [T], mut before: T) {
        let [a_even, a_odd] = &self.a;
        let [c_even, c_odd] = &self.c;
        let a = a_even.iter().zip(a_odd.iter());
        let c = c_even.iter().zip(c_odd.iter());
        for (((a, c), even), odd) in a.zip(c).zip(even).zip(odd) {
            *even = c.0.mul_add(before, *a.0);
            *odd = c.1.mul_add(*even, *a.1);
            before = *odd;
        }
    }

    /// y_i = a_i + c_i y_{i+1}, `behind` being the y behind the last.
    #[inline(always)]
    fn downwards(&self, even: &mut [T], odd: &mut [T], mut behind: T) {
        let [a_even, a_odd] = &self.a;
        let [c_even, c_odd] = &self.c;
        let a = a_even.iter().zip(a_odd.iter());
        let c = c_even.iter().zip(c_odd.iter());
        for (((a, c), even), odd) in a.zip(c).zip(even).zip(odd).rev() {
            *odd = c.1.mul_add(behind, *a.1);
            *even = c.0.mul_add(*odd, *a.0);
            behind = *even;
        }
    }
}

/// The place of one colour of a row.
#[derive(Clone, Copy)]
struct Place<'a, 'h, T> {
    g: Geometry<'a, T>,
    h: &'h HalfPlane,
    w: Window,
}

impl<T: Real> Place<'_, '_, T> {
    #[inline(always)]
    fn position(&self) -> isize {
        self.g.position(self.h, self.w)
    }

    /// Returns the column, counted from the window's first, that is at the end of its line and coupled to the other end.
    #[inline(always)]
    fn wrapped_end(&self, upper: bool) -> Option<usize> {
        let Columns { m, n } = self.w.columns;
        let end = if upper { self.h.columns.wrapping_sub(1) } else { 0 };
        (self.g.periodic[0] && (m..m + n).contains(&end)).then(|| end.wrapping_sub(m))
    }

    /// Computes Σ t z over the neighbours in y and z that count, and t of the neighbour in x on one side, both times Δ⁻¹. Returns t
    /// Δ⁻¹ of the neighbour across a periodic end.
    #[inline(always)]
    fn gather<S: Simd>(
        &self,
        simd: S,
        row: &impl RowCoefficients<S, T>,
        vectors: &Vectors<T>,
        which: Which,
        mut start: impl FnMut(usize) -> Pack<S, T>,
        (a, c): (&mut [T], &mut [T]),
    ) -> Option<T> {
        let Window { k, columns } = self.w;
        let view = View { g: self.g, v: vectors.z, h: self.h, columns, which };
        let (position, n) = (self.position(), self.w.columns.n);
        let ahead = [vectors.inverse_pivots.ahead(position), vectors.z.ahead(position)];
        // SAFETY: see the top of this file.
        let (south, north, below, above, inverse) = unsafe {
            let beside = view.in_z();
            (
                view.in_y(false).row(simd, k),
                view.in_y(true).row(simd, k),
                beside.row(simd, k, false),
                beside.row(simd, k, true),
                vectors.inverse_pivots.packs(simd, position, n),
            )
        };
        let (mut a, mut c) = (RowMut::new(simd, a), RowMut::new(simd, c));
        for i in 0..a.len() {
            row.fetch_ahead(i);
            ahead[0].fetch(i, Row::<S, T>::LANES);
            ahead[1].fetch(i, Row::<S, T>::LANES);
            let entries = row.get(i);
            let [t_west, t_east, t_south, t_north] = entries.horizontal();
            let mut sum = t_south.mul_add(south.get(i), t_north * north.get(i));
            if let Some([t_below, t_above]) = entries.vertical() {
                sum = t_below.mul_add(below.get(i), t_above.mul_add(above.get(i), sum));
            }
            let inverse = inverse.get(i);
            let (start, t) = match which {
                // y = Δ⁻¹(r + Σ t y)
                Which::Lower => ((start(i) + sum) * inverse, t_west),
                // z = y + Δ⁻¹ Σ t z
                _ => (sum.mul_add(inverse, start(i)), t_east),
            };
            a.set(i, start);
            c.set(i, t * inverse);
        }
        let lane = self.wrapped_end(which == Which::Lower)?;
        let (i, lane) = (lane / Row::<S, T>::LANES, lane % Row::<S, T>::LANES);
        let [t_west, t_east, ..] = row.get(i).horizontal();
        let t = if which == Which::Lower { t_east } else { t_west };
        let mut lanes = [T::ZERO; 8];
        RowMut::<S, T>::new(simd, &mut lanes[..Row::<S, T>::LANES]).set(0, t * inverse.get(i));
        Some(lanes[lane])
    }
}

/// Returns the half planes of plane j with even and with odd i.
fn by_parity<T: Real>(g: &Geometry<'_, T>, j: usize) -> [HalfPlane; 2] {
    let (red, black) = (g.half_plane(j, Colour::Red), g.half_plane(j, Colour::Black));
    if red.parity == 0 { [red, black] } else { [black, red] }
}

/// r −= αq;  (Δ + L) y = r;  Σ y Δ y and Σ r² of each plane
struct Forward<'s, T> {
    tile: Tile,
    vectors: Vectors<T>,
    space: &'s mut ChunkSpace<T>,
    sums: Shared<[f64; 2]>,
}

impl<T: Real> Kernel<T> for Forward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, C: Coefficients<T>>(self, simd: S, g: Geometry<'_, T>, c: &C) {
        let Self { tile: Tile { planes, layers, columns }, vectors, space, sums } = self;
        let Vectors { inverse_pivots, r, q, z } = vectors;
        let Columns { m, n } = columns;
        let rows = Recurrence::new(space, n);
        for j in planes {
            let halves = by_parity(&g, j);
            let (even, odd) = (c.tile(simd, g, &halves[0], columns), c.tile(simd, g, &halves[1], columns));
            let (mut rho, mut norm) = (RowSum::new(simd), RowSum::new(simd));
            for k in layers.clone() {
                let w = Window { k, columns };
                let places = [Place { g, h: &halves[0], w }, Place { g, h: &halves[1], w }];
                let positions = [places[0].position(), places[1].position()];
                let mut across = None;
                for parity in 0..2 {
                    let position = positions[parity];
                    let row = if parity == 0 { even.row(k) } else { odd.row(k) };
                    let to = (&mut *rows.a[parity], &mut *rows.c[parity]);
                    let end = match q {
                        None => {
                            // SAFETY: see the top of this file, here and below.
                            let r = unsafe { r.packs(simd, position, n) };
                            places[parity].gather(simd, &row, &vectors, Which::Lower, |i| r.get(i), to)
                        }
                        Some((q, alpha)) => {
                            let alpha = Pack::splat(simd, alpha);
                            // SAFETY: as above.
                            let (mut r, q) = unsafe { (r.packs_mut(simd, position, n), q.packs(simd, position, n)) };
                            let start = |i: usize| {
                                let value = r.get(i) - alpha * q.get(i);
                                norm.add_product(value, value);
                                r.set(i, value);
                                value
                            };
                            places[parity].gather(simd, &row, &vectors, Which::Lower, start, to)
                        }
                    };
                    across = end.filter(|_| parity == 1).or(across);
                }
                // SAFETY: as above.
                let (y_even, y_odd, before) = unsafe {
                    let before = if m > 0 { z.row(positions[1] - 1, 1)[0] } else { T::ZERO };
                    (z.row_mut(positions[0], n), z.row_mut(positions[1], n), before)
                };
                rows.upwards(y_even, y_odd, before);
                if let (Some(t), Some(end)) = (across, places[1].wrapped_end(true)) {
                    // SAFETY: as above; the first cell of the line.
                    let first = if m == 0 { y_even[0] } else { unsafe { z.row(positions[0] - m as isize, 1)[0] } };
                    y_odd[end] = t.mul_add(first, y_odd[end]);
                }
                if q.is_some() {
                    for (y, position) in [(&*y_even, positions[0]), (&*y_odd, positions[1])] {
                        // SAFETY: as above.
                        let (y, inverse) = (Row::new(simd, y), unsafe { inverse_pivots.packs(simd, position, n) });
                        for i in 0..y.len() {
                            rho.add_product(y.get(i) * inverse.get(i).reciprocal(), y.get(i));
                        }
                    }
                    rho.end_short_row();
                    norm.end_short_row();
                }
            }
            if q.is_some() {
                // SAFETY: as above; a plane belongs to one thread.
                let sums = &mut unsafe { sums.row_mut(j as isize, 1) }[0];
                sums[0] += rho.total();
                sums[1] += norm.total();
            }
        }
    }
}

/// z = y − Δ⁻¹ Lᵀ z, where z holds y
struct Backward<'s, T> {
    tile: Tile,
    vectors: Vectors<T>,
    space: &'s mut ChunkSpace<T>,
}

impl<T: Real> Kernel<T> for Backward<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, C: Coefficients<T>>(self, simd: S, g: Geometry<'_, T>, c: &C) {
        let Self { tile: Tile { planes, layers, columns }, vectors, space } = self;
        let (z, Columns { m, n }) = (vectors.z, columns);
        let rows = Recurrence::new(space, n);
        for j in planes.rev() {
            let halves = by_parity(&g, j);
            let (even, odd) = (c.tile(simd, g, &halves[0], columns), c.tile(simd, g, &halves[1], columns));
            for k in layers.clone().rev() {
                let w = Window { k, columns };
                let places = [Place { g, h: &halves[0], w }, Place { g, h: &halves[1], w }];
                let positions = [places[0].position(), places[1].position()];
                let mut across = None;
                for parity in 0..2 {
                    let row = if parity == 0 { even.row(k) } else { odd.row(k) };
                    // SAFETY: see the top of this file, here and below.
                    let y = unsafe { z.packs(simd, positions[parity], n) };
                    let to = (&mut *rows.a[parity], &mut *rows.c[parity]);
                    let end = places[parity].gather(simd, &row, &vectors, Which::Higher, |i| y.get(i), to);
                    across = end.filter(|_| parity == 0).or(across);
                }
                // SAFETY: as above.
                let (z_even, z_odd, behind) = unsafe {
                    let beyond = m + n < g.layout.pitch();
                    let behind = if beyond { z.row(positions[0] + n as isize, 1)[0] } else { T::ZERO };
                    (z.row_mut(positions[0], n), z.row_mut(positions[1], n), behind)
                };
                rows.downwards(z_even, z_odd, behind);
                if let (Some(t), Some(0)) = (across, places[0].wrapped_end(false)) {
                    let last = halves[1].columns - 1;
                    let last = if last < n {
                        z_odd[last]
                    } else {
                        // SAFETY: as above; the last cell of the line.
                        unsafe { z.row(positions[1] + last as isize, 1)[0] }
                    };
                    z_even[0] = t.mul_add(last, z_even[0]);
                }
            }
        }
    }
}

impl<C: Stored<T>, T: Real> SevenPoint<C, T> {
    /// z = (Δ + Lᵀ)⁻¹ Δ (Δ + L)⁻¹ r
    pub(crate) fn substitute_whole(&self, inverse_pivots: &Vector<T>, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let vectors = Vectors { inverse_pivots: inverse_pivots.share(), r: r.share(), q: None, z: z.share_mut() };
        self.sweep_both(vectors).map(drop)
    }

    /// r −= αq;  z = (Δ + Lᵀ)⁻¹ Δ (Δ + L)⁻¹ r;  ρ = ⟨r, z⟩ = ⟨y, Δ y⟩;  ‖r‖²
    pub(crate) fn substitute_whole_residual(
        &self,
        inverse_pivots: &Vector<T>,
        v: ResidualUpdate<'_, Vector<T>>,
        scalars: &mut HostScalars,
    ) -> Result<()> {
        let ResidualUpdate { r, q, z, alpha, out } = v;
        let alpha = T::from_f64(scalars.value(alpha));
        let (r, q, z) = (r.share_mut(), Some((q.share(), alpha)), z.share_mut());
        let vectors = Vectors { inverse_pivots: inverse_pivots.share(), r, q, z };
        scalars.reduce(out, self.sweep_both(vectors)?);
        self.cpu().sum(&self.layout, &out.all(), scalars)
    }

    fn sweep_both(&self, vectors: Vectors<T>) -> Result<[f64; 2]> {
        let (c, mut workspace) = (self.coefficients(), self.workspace());
        let (g, cpu) = (self.geometry(), self.cpu());
        let tiles = Tiles::new(cpu, &g.layout);
        workspace.sums.fill([0.0; 2]);
        let (spaces, sums) = (Shared::of(&mut workspace.chunks), Shared::of(&mut workspace.sums));
        // SAFETY: each thread has its own space.
        let space = |thread: usize| &mut unsafe { spaces.row_mut(thread as isize, 1) }[0];
        let mut relay = Relay::new(self.cpu(), &g.layout, [true; 2]);
        tiles.upwards(
            cpu,
            |thread, tile| c.run(cpu, g, Forward { tile, vectors, space: space(thread), sums }),
            // SAFETY: nobody uses z between tiles, here and below.
            |next, done| unsafe { relay.turn(true, vectors.z, next, done) },
        )?;
        tiles.downwards(
            cpu,
            |thread, tile| c.run(cpu, g, Backward { tile, vectors, space: space(thread) }),
            // SAFETY: as above.
            |next, done| unsafe { relay.turn(false, vectors.z, next, done) },
        )?;
        Ok([workspace.total(0), workspace.total(1)])
    }
}
