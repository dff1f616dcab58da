//! Rows of the 27-point operator: products and residuals.

use isobar_core::prelude::{Backend, Colour, Layout, Operator, Pack, Real, Result, Sum};
use pulp::{Simd, WithSimd};

use super::operator::{Level27, Numbers, Workspace};
use super::streams::{Order, Values, Which, parts};
use crate::{Cpu, RowMut, RowSum, Shared, Vector};

impl<T: Real> Level27<T> {
    /// Runs `f(j)` for all planes, on all threads, each with a number.
    pub(super) fn for_each_plane(&self, threads: usize, f: impl Fn(usize, usize) + Sync) {
        let ny = self.grid.shape.ny;
        self.cpu.for_each(threads, |thread| {
            for j in ny * thread / threads..ny * (thread + 1) / threads {
                f(j, thread);
            }
        });
    }

    /// Computes y = A x, or f − A x, on plane j; returns Σ y².
    fn plane(&self, numbers: &Numbers<T>, j: usize, f: Option<Shared<T>>, x: Shared<T>, y: Shared<T>) -> f64 {
        let half = |parity| self.cpu.dispatch::<T, _>(HalfRows { level: self, numbers, j, parity, f, x, y: (y, 0) });
        half(0) + half(1)
    }

    /// Computes r = f − A u on a half plane, stored `shift` from its place.
    pub(super) fn residual_of(
        &self,
        numbers: &Numbers<T>,
        (j, parity): (usize, usize),
        [f, u]: [Shared<T>; 2],
        (r, shift): (Shared<T>, isize),
    ) {
        let half = HalfRows { level: self, numbers, j, parity, f: Some(f), x: u, y: (r, shift) };
        self.cpu.dispatch::<T, _>(half);
    }

    /// Computes the residual after a sweep from u = 0, with ρ = 1 and [`Level27::has_no_rings`]: a column's residual
    /// vanishes when it is relaxed, so that only the updates of later columns contribute.
    pub(super) fn residual_after(
        &self,
        numbers: &Numbers<T>,
        (j, parity): (usize, usize),
        order: Order,
        u: Shared<T>,
        (r, shift): (Shared<T>, isize),
    ) {
        self.cpu.dispatch::<T, _>(LaterRows { level: self, numbers, j, parity, order, u, r, shift });
    }

    fn pass(&self, f: Option<&Vector<T>>, x: &Vector<T>, y: &mut Vector<T>) -> f64 {
        let (numbers, mut workspace) = (self.numbers(), self.workspace());
        let (f, x, y) = (f.map(Vector::share), x.share(), y.share_mut());
        let Workspace { values, norms, .. } = &mut *workspace;
        let sums = Shared::of(norms);
        self.for_each_plane(values.len(), |j, _| {
            let sum = self.plane(&numbers, j, f, x, y);
            // SAFETY: each plane is visited once.
            unsafe { sums.set(j as isize, sum) };
        });
        norms.iter().sum()
    }
}

/// Computes y = A x or f − A x on a half plane; Σ y².
struct HalfRows<'a, T> {
    level: &'a Level27<T>,
    numbers: &'a Numbers<T>,
    j: usize,
    parity: usize,
    f: Option<Shared<T>>,
    x: Shared<T>,
    /// y and its distance from its place.
    y: (Shared<T>, isize),
}

impl<T: Real> WithSimd for HalfRows<'_, T> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let Self { level, numbers, j, parity, f, x, y: (y, shift) } = self;
        let (pitch, start) = (level.layout.pitch(), level.start(j, parity));
        for part @ (first, beyond) in parts(level.grid.shape.nz) {
            let (position, n) = (start + (first * pitch) as isize, (beyond - first) * pitch);
            // SAFETY: each plane of y belongs to one thread, and nobody writes x, f or coefficients, here and below.
            let (streams, own, sums, mut out) = unsafe {
                (
                    level.streams(simd, numbers, (j, parity), part, Which::All, Values { u: x, ring: None }),
                    x.packs(simd, position, n),
                    numbers.sums.share().packs(simd, position, n),
                    y.packs_mut(simd, position + shift, n),
                )
            };
            streams.add_differences(&mut out, sums, own);
        }
        let n = level.layout.half_plane();
        // SAFETY: as above.
        let (own, out) = unsafe { (x.row(start, n), y.row_mut(start + shift, n)) };
        // SAFETY: as above.
        let (entry, sum) =
            unsafe { level.sum_at_end(numbers, (j, parity), Which::All, Values { u: x, ring: None }, Some(own)) };
        out[entry] = numbers.sums.entries()[start as usize + entry] * own[entry] + sum;
        for across in &numbers.across[2 * j + Level27::<T>::colour(j, parity)].couplings {
            let entry = across.entry as usize;
            // SAFETY: as above.
            let other = unsafe { x.row(across.position, 1)[0] };
            out[entry] += across.coupling * (own[entry] - other);
        }
        let Some(f) = f else { return 0.0 };
        // SAFETY: as above.
        let f = unsafe { f.packs(simd, start, n) };
        let mut out = RowMut::new(simd, out);
        let mut sum = RowSum::new(simd);
        for i in 0..out.len() {
            let value = f.get(i) - out.get(i);
            sum.add_product(value, value);
            out.set(i, value);
        }
        sum.total()
    }
}

/// Computes r = Σ c u over the columns relaxed later, on a half plane.
struct LaterRows<'a, T> {
    level: &'a Level27<T>,
    numbers: &'a Numbers<T>,
    j: usize,
    parity: usize,
    order: Order,
    u: Shared<T>,
    r: Shared<T>,
    shift: isize,
}

impl<T: Real> WithSimd for LaterRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { level, numbers, j, parity, order, u, r, shift } = self;
        let (pitch, start, which) = (level.layout.pitch(), level.start(j, parity), Which::After(order));
        for part @ (first, beyond) in parts(level.grid.shape.nz) {
            let (position, n) = (start + (first * pitch) as isize, (beyond - first) * pitch);
            // SAFETY: each plane of r belongs to one thread, and nobody writes u or coefficients, here and below.
            let (streams, mut out) = unsafe {
                (
                    level.streams(simd, numbers, (j, parity), part, which, Values { u, ring: None }),
                    r.packs_mut(simd, position + shift, n),
                )
            };
            streams.add_to(
                &mut out,
                #[inline(always)]
                |_| Pack::splat(simd, T::ZERO),
            );
        }
        // SAFETY: as above.
        unsafe {
            let (entry, sum) = level.sum_at_end(numbers, (j, parity), which, Values { u, ring: None }, None);
            r.set(start + shift + entry as isize, sum);
        }
    }
}

impl<T: Real> Operator<Cpu, T> for Level27<T> {
    fn backend(&self) -> &Cpu {
        &self.cpu
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn apply(&self, x: &mut Vector<T>, y: &mut Vector<T>) -> Result<()> {
        self.cpu.fill(x, &Colour::BOTH)?;
        self.pass(None, x, y);
        Ok(())
    }

    fn residual(&self, f: &Vector<T>, [u, r]: [&mut Vector<T>; 2], (norm, scalars): Sum<'_, Cpu>) -> Result<()> {
        self.cpu.fill(u, &Colour::BOTH)?;
        let sum = self.pass(Some(f), u, r);
        scalars.reduce(norm, [sum]);
        self.cpu.sum(&self.layout, &[norm], scalars)
    }

    /// These are couplings, row sums and pivots.
    fn coefficient_vectors(&self) -> f64 {
        (self.offsets.len() / 2 + 2) as f64
    }
}
