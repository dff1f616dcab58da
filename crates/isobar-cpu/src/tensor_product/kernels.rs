//! The loops of the stages. Each kernel works on one half plane (restriction and prolongation on a
//! whole plane), row by row upwards, then, where lines are solved, downwards.

use isobar_core::layout::Colour;
use isobar_core::real::Real;
use pulp::{Simd, WithSimd};

use super::stages::Restricted;
use super::{ChunkScratch, TensorProduct};
use crate::half_plane::{
    Columns, HalfPlane, Neighbours, Vertical, accumulate_row, eliminate_row, fma, substitute_row,
};
use crate::shared::Shared;

impl<T: Real> TensorProduct<T> {
    fn nz(&self) -> usize {
        self.levels.len()
    }

    /// Tiles of columns: first column and number.
    #[inline(always)]
    fn tiles(&self) -> impl Iterator<Item = (usize, usize)> {
        let (pitch, tile) = (self.layout.pitch(), self.tile);
        (0..pitch).step_by(tile).map(move |m| (m, tile.min(pitch - m)))
    }

    /// Forward elimination and backward substitution of one tile. `rhs(k, m)` is the right-hand side
    /// over |T|, `out(k)` the row that receives the solution, `finish(k)` is called on the way down
    /// once row k is final.
    ///
    /// # Safety
    /// The rows that `out` gives lie within their vector, and nothing else uses them.
    #[inline(always)]
    unsafe fn solve_tile<S: Simd, G: Fn(usize) -> T>(
        &self,
        columns: &Columns<'_, T>,
        ratio: &mut [T],
        factors: &mut [T],
        out: impl Fn(usize) -> (Shared<T>, isize),
        mut rhs: impl FnMut(usize) -> G,
        mut finish: impl FnMut(usize),
    ) {
        let n = columns.total.len();
        let nz = self.nz();
        ratio[..n].fill(T::ZERO);
        for k in 0..nz {
            let g = rhs(k);
            let (vector, position) = out(k);
            // SAFETY: promised by the caller; rows k and k − 1 are different rows.
            let y = unsafe { vector.row_mut(position, n) };
            let below = if k > 0 {
                let (vector, position) = out(k - 1);
                // SAFETY: as above.
                unsafe { vector.row(position, n) }
            } else {
                columns.total
            };
            let factor = &mut factors[k * self.tile..k * self.tile + n];
            eliminate_row::<S, T>(self.levels[k], columns.total, ratio, below, y, factor, g);
        }
        for k in (0..nz).rev() {
            if k + 1 < nz {
                let ((vector, position), (above_vector, above)) = (out(k), out(k + 1));
                // SAFETY: as above.
                let (y, above) = unsafe { (vector.row_mut(position, n), above_vector.row(above, n)) };
                substitute_row::<S, T>(&factors[k * self.tile..k * self.tile + n], above, y);
            }
            finish(k);
        }
    }
}

/// y = A x, and Σ x y where asked for.
pub(super) struct Apply<'a, T> {
    pub(super) a: &'a TensorProduct<T>,
    pub(super) h: HalfPlane,
    pub(super) x: Shared<T>,
    pub(super) y: Shared<T>,
    pub(super) sums: Option<&'a mut Vec<f64>>,
}

impl<T: Real> WithSimd for Apply<'_, T> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) -> f64 {
        let Self { a, h, x, y, .. } = self;
        let mut total = 0.0;
        for (m0, n) in a.tiles() {
            let c = a.columns(&h, m0, n);
            if let Some(sums) = &mut self.sums {
                sums[..n].fill(0.0);
            }
            for k in 0..a.nz() {
                let v = a.levels[k];
                // SAFETY: see the module `stages`.
                let (around, column, out) = unsafe {
                    (
                        Neighbours::new(x, &h, k, m0, n),
                        Vertical::new(x, &h, a.nz(), k, m0, n),
                        y.row_mut(h.row(k, m0), n),
                    )
                };
                for m in 0..n {
                    out[m] = c.area[m] * column.apply::<S>(v, &c, &around, m);
                }
                if let Some(sums) = &mut self.sums {
                    accumulate_row::<S, T>(column.centre, out, sums);
                }
            }
            if let Some(sums) = &self.sums {
                total += sums[..n].iter().sum::<f64>();
            }
        }
        total
    }
}

/// z = D⁻¹ r
pub(super) struct Divide<'a, T> {
    pub(super) a: &'a TensorProduct<T>,
    pub(super) h: HalfPlane,
    pub(super) r: Shared<T>,
    pub(super) z: Shared<T>,
}

impl<T: Real> WithSimd for Divide<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { a, h, r, z } = self;
        let n = a.layout.pitch();
        let c = a.columns(&h, 0, n);
        for k in 0..a.nz() {
            let v = a.levels[k];
            let vertical = v.mass + v.above + v.below;
            // SAFETY: see the module `stages`.
            let (r, z) = unsafe { (r.row(h.row(k, 0), n), z.row_mut(h.row(k, 0), n)) };
            for m in 0..n {
                z[m] = r[m] * c.inverse_area[m] / fma::<S, T>(v.horizontal, c.total[m], vertical);
            }
        }
    }
}

/// Σ (f − A u)², storing the residual where asked for.
pub(super) struct Residual<'a, T, R> {
    pub(super) a: &'a TensorProduct<T>,
    pub(super) h: HalfPlane,
    pub(super) f: Shared<T>,
    pub(super) u: Shared<T>,
    pub(super) r: Option<Shared<R>>,
    pub(super) sums: &'a mut Vec<f64>,
}

impl<T: Real, R: Real> WithSimd for Residual<'_, T, R> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        let Self { a, h, f, u, r, sums } = self;
        let mut total = 0.0;
        for (m0, n) in a.tiles() {
            let c = a.columns(&h, m0, n);
            let sums = &mut sums[..n];
            sums.fill(0.0);
            for k in 0..a.nz() {
                let v = a.levels[k];
                // SAFETY: see the module `stages`.
                let (around, column, f) = unsafe {
                    (
                        Neighbours::new(u, &h, k, m0, n),
                        Vertical::new(u, &h, a.nz(), k, m0, n),
                        f.row(h.row(k, m0), n),
                    )
                };
                let residual = |m: usize| fma::<S, T>(-c.area[m], column.apply::<S>(v, &c, &around, m), f[m]);
                match r {
                    Some(r) => {
                        // SAFETY: as above.
                        let r = unsafe { r.row_mut(h.row(k, m0), n) };
                        for m in 0..n {
                            let value = residual(m);
                            r[m] = R::from_f64(value.to_f64());
                            sums[m] = fma::<S, f64>(value.to_f64(), value.to_f64(), sums[m]);
                        }
                    }
                    None => {
                        for m in 0..n {
                            let value = residual(m).to_f64();
                            sums[m] = fma::<S, f64>(value, value, sums[m]);
                        }
                    }
                }
            }
            total += sums.iter().sum::<f64>();
        }
        total
    }
}

/// u += αp;  p = z + βp
pub(super) struct Advance<'a, T> {
    pub(super) alpha: T,
    pub(super) beta: T,
    pub(super) u: &'a mut [T],
    pub(super) p: &'a mut [T],
    pub(super) z: &'a [T],
}

impl<T: Real> WithSimd for Advance<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { alpha, beta, u, p, z } = self;
        for ((u, p), &z) in u.iter_mut().zip(p).zip(z) {
            *u = fma::<S, T>(alpha, *p, *u);
            *p = fma::<S, T>(beta, *p, z);
        }
    }
}

/// y += a x
pub(super) struct Correct<'a, T, R> {
    pub(super) a: T,
    pub(super) x: &'a [R],
    pub(super) y: &'a mut [T],
}

impl<T: Real, R: Real> WithSimd for Correct<'_, T, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (y, x) in self.y.iter_mut().zip(self.x) {
            *y = fma::<S, T>(self.a, T::from_f64(x.to_f64()), *y);
        }
    }
}

/// z = M⁻¹ r
pub(super) struct Solve<'a, T> {
    pub(super) a: &'a TensorProduct<T>,
    pub(super) h: HalfPlane,
    pub(super) r: Shared<T>,
    pub(super) z: Shared<T>,
    pub(super) scratch: &'a mut ChunkScratch<T>,
}

impl<T: Real> WithSimd for Solve<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { a, h, r, z, scratch } = self;
        for (m0, n) in a.tiles() {
            let c = a.columns(&h, m0, n);
            let rhs = |k: usize| {
                // SAFETY: see the module `stages`.
                let r = unsafe { r.row(h.row(k, m0), n) };
                move |m: usize| r[m] * c.inverse_area[m]
            };
            // SAFETY: see the module `stages`.
            unsafe {
                let out = |k: usize| (z, h.row(k, m0));
                a.solve_tile::<S, _>(&c, &mut scratch.ratio, &mut scratch.factors, out, rhs, |_| {});
            }
        }
    }
}

/// r −= αq;  z = M⁻¹ r;  Σ r z;  Σ r²
pub(super) struct Precondition<'a, T> {
    pub(super) a: &'a TensorProduct<T>,
    pub(super) h: HalfPlane,
    pub(super) alpha: T,
    pub(super) r: Shared<T>,
    pub(super) q: Shared<T>,
    pub(super) z: Shared<T>,
    pub(super) scratch: &'a mut ChunkScratch<T>,
}

impl<T: Real> WithSimd for Precondition<'_, T> {
    type Output = [f64; 2];

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> [f64; 2] {
        let Self { a, h, alpha, r, q, z, scratch } = self;
        let ChunkScratch { ratio, factors, sums: [rz, rr], .. } = scratch;
        let mut totals = [0.0; 2];
        for (m0, n) in a.tiles() {
            let c = a.columns(&h, m0, n);
            let (rz, rr) = (&mut rz[..n], &mut rr[..n]);
            rz.fill(0.0);
            rr.fill(0.0);
            let rhs = |k: usize| {
                // SAFETY: see the module `stages`.
                let (r, q) = unsafe { (r.row_mut(h.row(k, m0), n), q.row(h.row(k, m0), n)) };
                for m in 0..n {
                    let value = fma::<S, T>(-alpha, q[m], r[m]);
                    r[m] = value;
                    rr[m] = fma::<S, f64>(value.to_f64(), value.to_f64(), rr[m]);
                }
                let r: &[T] = r;
                move |m: usize| r[m] * c.inverse_area[m]
            };
            let finish = |k: usize| {
                // SAFETY: as above.
                let (r, z) = unsafe { (r.row(h.row(k, m0), n), z.row(h.row(k, m0), n)) };
                accumulate_row::<S, T>(r, z, rz);
            };
            // SAFETY: as above.
            unsafe { a.solve_tile::<S, _>(&c, ratio, factors, |k| (z, h.row(k, m0)), rhs, finish) };
            totals[0] += rz.iter().sum::<f64>();
            totals[1] += rr.iter().sum::<f64>();
        }
        totals
    }
}

/// u += ρ(M⁻¹(f − (A − M) u) − u) on one colour: a column's own old values never meet the vertical
/// operator.
pub(super) struct Relax<'a, T> {
    pub(super) a: &'a TensorProduct<T>,
    pub(super) h: HalfPlane,
    pub(super) from_zero: bool,
    pub(super) rho: T,
    pub(super) f: Shared<T>,
    pub(super) u: Shared<T>,
    pub(super) scratch: &'a mut ChunkScratch<T>,
}

impl<T: Real> WithSimd for Relax<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { a, h, from_zero, rho, f, u, scratch } = self;
        let ChunkScratch { ratio, factors, values, .. } = scratch;
        let tile = a.tile;
        let values = Shared::of(values);
        for (m0, n) in a.tiles() {
            let c = a.columns(&h, m0, n);
            // SAFETY: see the module `stages`, here and below.
            let load = |k: usize| unsafe { (f.row(h.row(k, m0), n), Neighbours::new(u, &h, k, m0, n)) };
            let coupled = |k: usize| {
                let (v, (f, around)) = (a.levels[k], load(k));
                move |m: usize| fma::<S, T>(v.horizontal, around.sum::<S>(&c, m), f[m] * c.inverse_area[m])
            };
            let uncoupled = |k: usize| {
                // SAFETY: as above.
                let f = unsafe { f.row(h.row(k, m0), n) };
                move |m: usize| f[m] * c.inverse_area[m]
            };
            // SAFETY: as above; `values` is this thread's own.
            unsafe {
                if from_zero {
                    a.solve_tile::<S, _>(&c, ratio, factors, |k| (u, h.row(k, m0)), uncoupled, |_| {});
                } else if rho == T::ONE {
                    a.solve_tile::<S, _>(&c, ratio, factors, |k| (u, h.row(k, m0)), coupled, |_| {});
                } else {
                    let out = |k: usize| (values, (k * tile) as isize);
                    let finish = |k: usize| {
                        let (u, value) = (u.row_mut(h.row(k, m0), n), values.row((k * tile) as isize, n));
                        for m in 0..n {
                            u[m] = fma::<S, T>(rho, value[m] - u[m], u[m]);
                        }
                    };
                    a.solve_tile::<S, _>(&c, ratio, factors, out, coupled, finish);
                }
            }
        }
    }
}

/// δ = M⁻¹(f − A u), kept apart from u.
pub(super) struct JacobiCorrection<'a, T> {
    pub(super) a: &'a TensorProduct<T>,
    pub(super) h: HalfPlane,
    pub(super) from_zero: bool,
    pub(super) f: Shared<T>,
    pub(super) u: Shared<T>,
    pub(super) corrections: Shared<T>,
    pub(super) kept: isize,
    pub(super) scratch: &'a mut ChunkScratch<T>,
}

impl<T: Real> WithSimd for JacobiCorrection<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { a, h, from_zero, f, u, corrections, kept, scratch } = self;
        let ChunkScratch { ratio, factors, .. } = scratch;
        let pitch = a.layout.pitch();
        for (m0, n) in a.tiles() {
            let c = a.columns(&h, m0, n);
            let out = |k: usize| (corrections, kept + (k * pitch + m0) as isize);
            let residual = |k: usize| {
                let v = a.levels[k];
                // SAFETY: see the module `stages`, here and below.
                let (f, around, column) = unsafe {
                    (
                        f.row(h.row(k, m0), n),
                        Neighbours::new(u, &h, k, m0, n),
                        Vertical::new(u, &h, a.nz(), k, m0, n),
                    )
                };
                move |m: usize| fma::<S, T>(f[m], c.inverse_area[m], -column.apply::<S>(v, &c, &around, m))
            };
            let uncoupled = |k: usize| {
                // SAFETY: as above.
                let f = unsafe { f.row(h.row(k, m0), n) };
                move |m: usize| f[m] * c.inverse_area[m]
            };
            // SAFETY: as above; the corrections of plane j are this stage's.
            unsafe {
                if from_zero {
                    a.solve_tile::<S, _>(&c, ratio, factors, out, uncoupled, |_| {});
                } else {
                    a.solve_tile::<S, _>(&c, ratio, factors, out, residual, |_| {});
                }
            }
        }
    }
}

/// A coarse plane from the fine planes j − 1 and j.
pub(super) struct Restrict<'a, T> {
    pub(super) a: &'a TensorProduct<T>,
    pub(super) coarse: &'a TensorProduct<T>,
    pub(super) j: usize,
    pub(super) what: Restricted<T>,
    pub(super) coarse_f: Shared<T>,
    pub(super) row: &'a mut Vec<T>,
}

impl<T: Real> WithSimd for Restrict<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { a, coarse, j, what, coarse_f, row } = self;
        let n = a.layout.pitch();
        let coarse_n = coarse.layout.pitch();
        let (even, odd) = by_parity(coarse, j / 2);
        let fine = [j - 1, j].map(|j| Colour::BOTH.map(|colour| a.half_plane(j, colour)));
        let row = &mut row[..n.max(2 * coarse_n)];
        row.fill(T::ZERO);
        for k in 0..a.nz() {
            let v = a.levels[k];
            let sums = &mut row[..n];
            sums.fill(T::ZERO);
            // Fine columns 2m and 2m + 1, of either colour, make up coarse column m.
            for h in fine.as_flattened() {
                match what {
                    Restricted::Vector(f) => {
                        // SAFETY: see the module `stages`, here and below.
                        let f = unsafe { f.row(h.row(k, 0), n) };
                        for m in 0..n {
                            sums[m] += f[m];
                        }
                    }
                    Restricted::Residual { f, u, colours } => {
                        if !colours.contains(&h.colour) {
                            continue;
                        }
                        let c = a.columns(h, 0, n);
                        // SAFETY: as above.
                        let (f, around, column) = unsafe {
                            (
                                f.row(h.row(k, 0), n),
                                Neighbours::new(u, h, k, 0, n),
                                Vertical::new(u, h, a.nz(), k, 0, n),
                            )
                        };
                        for m in 0..n {
                            sums[m] += fma::<S, T>(-c.area[m], column.apply::<S>(v, &c, &around, m), f[m]);
                        }
                    }
                }
            }
            // SAFETY: as above; even and odd columns are different half planes.
            let (even, odd) = unsafe {
                (coarse_f.row_mut(even.row(k, 0), coarse_n), coarse_f.row_mut(odd.row(k, 0), coarse_n))
            };
            for ((pair, even), odd) in row.as_chunks::<2>().0.iter().zip(even).zip(odd) {
                [*even, *odd] = *pair;
            }
        }
    }
}

/// u += P u_c on plane j.
pub(super) struct Prolong<'a, T> {
    pub(super) a: &'a TensorProduct<T>,
    pub(super) coarse: &'a TensorProduct<T>,
    pub(super) j: usize,
    pub(super) colours: &'static [Colour],
    pub(super) coarse_u: Shared<T>,
    pub(super) u: Shared<T>,
    pub(super) row: &'a mut Vec<T>,
}

impl<T: Real> WithSimd for Prolong<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { a, coarse, j, colours, coarse_u, u, row } = self;
        let n = a.layout.pitch();
        let coarse_n = coarse.layout.pitch();
        let shape = coarse.layout.shape();
        let (near, far) = (j / 2, if j % 2 == 0 { (j / 2).checked_sub(1) } else { Some(j / 2 + 1) });
        let far = far.filter(|&far| far < shape.ny);
        let (near_weight, far_weight) = (T::from_f64(0.75), T::from_f64(if far.is_some() { 0.25 } else { -0.25 }));
        let (near, far) = (by_parity(coarse, near), by_parity(coarse, far.unwrap_or(near)));
        let row = &mut row[..n.max(2 * coarse_n) + 2];
        row.fill(T::ZERO);
        for k in 0..a.nz() {
            // Between the two coarse rows, in natural order from position 1.
            for (odd, near, far) in [(0, near.0, far.0), (1, near.1, far.1)] {
                // SAFETY: see the module `stages`, here and below.
                let (near, far) =
                    unsafe { (coarse_u.row(near.row(k, 0), coarse_n), coarse_u.row(far.row(k, 0), coarse_n)) };
                for ((pair, &near), &far) in row[1..].as_chunks_mut::<2>().0.iter_mut().zip(near).zip(far) {
                    pair[odd] = fma::<S, T>(near_weight, near, far_weight * far);
                }
            }
            row[0] = -row[1];
            row[1 + shape.nx] = -row[shape.nx];
            for &colour in colours {
                let h = a.half_plane(j, colour);
                let parity = a.layout.parity(j, colour);
                let columns = a.layout.columns(j, colour);
                // SAFETY: as above.
                let u = unsafe { u.row_mut(h.row(k, 0), n) };
                let (near, far) = (&row[1..1 + columns], &row[2 * parity..2 * parity + columns]);
                for ((u, &near), &far) in u.iter_mut().zip(near).zip(far) {
                    *u += fma::<S, T>(T::from_f64(0.75), near, T::from_f64(0.25) * far);
                }
            }
        }
    }
}

/// The half planes of a plane with even and with odd column indices.
fn by_parity<T: Real>(a: &TensorProduct<T>, j: usize) -> (HalfPlane, HalfPlane) {
    let [red, black] = Colour::BOTH.map(|colour| a.half_plane(j, colour));
    if j % 2 == 0 { (red, black) } else { (black, red) }
}
