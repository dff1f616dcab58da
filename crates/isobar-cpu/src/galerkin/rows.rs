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
        self.half_rows(numbers, (j, 0), f, x, (y, 0)) + self.half_rows(numbers, (j, 1), f, x, (y, 0))
    }

    /// Computes y = A x, or f − A x, on a half plane, stored `shift` from its place; Σ y².
    fn half_rows(
        &self,
        numbers: &Numbers<T>,
        (j, parity): (usize, usize),
        f: Option<Shared<T>>,
        x: Shared<T>,
        y: (Shared<T>, isize),
    ) -> f64 {
        let Level27 { cpu, layout, grid, .. } = self;
        let [sum, _] = cpu.sum_pieces(layout, grid.shape.nz, |_, first, beyond| {
            let layers = (first, beyond);
            [cpu.dispatch::<T, _>(HalfRows { level: self, numbers, j, parity, layers, f, x, y }), 0.0]
        });
        sum
    }

    /// Computes r = f − A u on a half plane, stored `shift` from its place.
    pub(super) fn residual_of(
        &self,
        numbers: &Numbers<T>,
        half: (usize, usize),
        [f, u]: [Shared<T>; 2],
        r: (Shared<T>, isize),
    ) {
        self.half_rows(numbers, half, Some(f), u, r);
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
        let Level27 { cpu, layout, grid, .. } = self;
        cpu.for_each_piece(layout, grid.shape.nz, |_, first, beyond| {
            let layers = (first, beyond);
            cpu.dispatch::<T, _>(LaterRows { level: self, numbers, j, parity, layers, order, u, r, shift });
        });
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

/// Computes y = A x or f − A x on some layers of a half plane, first and one past the last; Σ y².
struct HalfRows<'a, T> {
    level: &'a Level27<T>,
    numbers: &'a Numbers<T>,
    j: usize,
    parity: usize,
    layers: (usize, usize),
    f: Option<Shared<T>>,
    x: Shared<T>,
    /// The result y, and the distance of its entries from those of x.
    y: (Shared<T>, isize),
}

impl<T: Real> WithSimd for HalfRows<'_, T> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        let Self { level, numbers, j, parity, layers, f, x, y: (y, shift) } = self;
        let (pitch, start) = (level.layout.pitch(), level.start(j, parity));
        for part @ (first, beyond) in parts(level.grid.shape.nz, layers) {
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
        let entries = layers.0 * pitch..layers.1 * pitch;
        let (first, n) = (start + entries.start as isize, entries.len());
        // SAFETY: as above.
        let (own, out) = unsafe { (x.row(first, n), y.row_mut(first + shift, n)) };
        let (values, half) = (Values { u: x, ring: None }, (j, parity));
        // SAFETY: as above.
        let end = unsafe { level.sum_at_end(numbers, half, &entries, Which::All, values, Some(own)) };
        if let Some((entry, sum)) = end {
            let at = entry - entries.start;
            out[at] = numbers.sums.entries()[start as usize + entry] * own[at] + sum;
        }
        let across = &numbers.across[2 * j + Level27::<T>::colour(j, parity)];
        for across in across.couplings.iter().filter(|across| entries.contains(&(across.entry as usize))) {
            let at = across.entry as usize - entries.start;
            // SAFETY: as above.
            let other = unsafe { x.row(across.position, 1)[0] };
            out[at] += across.coupling * (own[at] - other);
        }
        let Some(f) = f else { return 0.0 };
        // SAFETY: as above.
        let f = unsafe { f.packs(simd, first, n) };
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

/// Computes r = Σ c u over the columns relaxed later, on some layers of a half plane.
struct LaterRows<'a, T> {
    level: &'a Level27<T>,
    numbers: &'a Numbers<T>,
    j: usize,
    parity: usize,
    layers: (usize, usize),
    order: Order,
    u: Shared<T>,
    r: Shared<T>,
    shift: isize,
}

impl<T: Real> WithSimd for LaterRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { level, numbers, j, parity, layers, order, u, r, shift } = self;
        let (pitch, start, which) = (level.layout.pitch(), level.start(j, parity), Which::After(order));
        for part @ (first, beyond) in parts(level.grid.shape.nz, layers) {
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
        let entries = layers.0 * pitch..layers.1 * pitch;
        // SAFETY: as above.
        unsafe {
            let end = level.sum_at_end(numbers, (j, parity), &entries, which, Values { u, ring: None }, None);
            if let Some((entry, sum)) = end {
                r.set(start + shift + entry as isize, sum);
            }
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

    /// Returns the number of couplings per row, plus the row sum and the pivot.
    fn coefficient_vectors(&self) -> f64 {
        (self.offsets.len() / 2 + 2) as f64
    }
}
