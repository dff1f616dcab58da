//! Operations on whole vectors, halo rows included except in sums.

use isobar_core::prelude::Real;
use pulp::{Simd, WithSimd};

use crate::cpu::MAX_PARTS;
use crate::{Cpu, Shared, Vector};

/// x = a
pub(crate) fn fill<T: Real>(cpu: &Cpu, a: T, x: &mut Vector<T>) {
    let entries = Shared::of(x.all_entries_mut());
    cpu.for_each_part(x.layout().len_with_halo(), |_, start, end| {
        // SAFETY: parts do not overlap.
        unsafe { entries.row_mut(start as isize, end - start) }.fill(a);
    });
}

/// y = x
pub(crate) fn convert<S: Real, T: Real>(cpu: &Cpu, x: &Vector<S>, y: &mut Vector<T>) {
    zip(cpu, x, y, |x, y| convert_part(cpu, x, y));
}

/// y = x, as fast as this machine copies
pub(crate) fn copy<T: Real>(cpu: &Cpu, x: &Vector<T>, y: &mut Vector<T>) {
    zip(cpu, x, y, |x, y| y.copy_from_slice(x));
}

/// x = a x
pub(crate) fn scale<T: Real>(cpu: &Cpu, a: T, x: &mut Vector<T>) {
    let entries = Shared::of(x.all_entries_mut());
    cpu.for_each_part(x.layout().len_with_halo(), |_, start, end| {
        // SAFETY: parts do not overlap.
        for x in unsafe { entries.row_mut(start as isize, end - start) } {
            *x = *x * a;
        }
    });
}

/// y += (τ − 1) (y − x)
pub(crate) fn extrapolate<T: Real>(cpu: &Cpu, more: T, x: &Vector<T>, y: &mut Vector<T>) {
    zip(cpu, x, y, |x, y| {
        each::<T, _, _>(
            cpu,
            x,
            y,
            #[inline(always)]
            |x, y| *y = more.mul_add(*y - x, *y),
        );
    });
}

/// y += a x
pub(crate) fn axpy<S: Real, T: Real>(cpu: &Cpu, a: T, x: &Vector<S>, y: &mut Vector<T>) {
    zip(cpu, x, y, |x, y| axpy_part::<f64, _, _>(cpu, a, x, y));
}

/// y = x + a y
pub(crate) fn xpay<S: Real, T: Real>(cpu: &Cpu, a: T, x: &Vector<S>, y: &mut Vector<T>) {
    zip(cpu, x, y, |x, y| {
        each::<f64, _, _>(
            cpu,
            x,
            y,
            #[inline(always)]
            |x, y| *y = T::from_f64(x.to_f64()) + a * *y,
        );
    });
}

/// ⟨x, y⟩ in double precision
pub(crate) fn dot<T: Real>(cpu: &Cpu, x: &Vector<T>, y: &Vector<T>) -> f64 {
    let mut sums = [0.0; MAX_PARTS];
    let out = Shared::of(&mut sums);
    let (x, y) = (x.entries(), y.entries());
    cpu.for_each_part(x.len(), |part, start, end| {
        let sum = cpu.dispatch::<f64, _>(Dot { x: &x[start..end], y: &y[start..end] });
        // SAFETY: each part has its own sum.
        unsafe { out.set(part as isize, sum) };
    });
    sums.iter().sum()
}

/// y += a x;  ‖y‖² in double precision
pub(crate) fn axpy_norm<T: Real>(cpu: &Cpu, a: T, x: &Vector<T>, y: &mut Vector<T>) -> f64 {
    zip_sum(cpu, x, y, |_, x, y| axpy_part::<f64, _, _>(cpu, a, x, y))
}

/// Applies `f(first, x, y)` to all entries, piece by piece from entry `first` on, and returns ‖y‖² without halo rows, while the written
/// entries are in cache.
fn zip_sum<S: Real, T: Real>(
    cpu: &Cpu,
    x: &Vector<S>,
    y: &mut Vector<T>,
    f: impl Fn(usize, &[S], &mut [T]) + Sync,
) -> f64 {
    const IN_CACHE: usize = 2048;
    let [before, _] = y.layout().halo_len();
    let beyond = before + y.layout().len();
    let (x, y) = (x.all_entries(), y.all_entries_mut());
    for halo in [0..before, beyond..x.len()] {
        f(halo.start, &x[halo.clone()], &mut y[halo]);
    }
    let (x, y) = (&x[before..beyond], &mut y[before..beyond]);
    let mut sums = [0.0; MAX_PARTS];
    let (out, y) = (Shared::of(&mut sums), Shared::of(y));
    cpu.for_each_part(x.len(), |part, start, end| {
        let mut sum = 0.0;
        for first in (start..end).step_by(IN_CACHE) {
            let piece = first..(first + IN_CACHE).min(end);
            // SAFETY: parts do not overlap.
            let y = unsafe { y.row_mut(first as isize, piece.len()) };
            f(before + first, &x[piece], y);
            sum += cpu.dispatch::<f64, _>(Dot { x: y, y });
        }
        // SAFETY: each part has its own sum.
        unsafe { out.set(part as isize, sum) };
    });
    sums.iter().sum()
}

fn zip<S: Real, T: Real>(cpu: &Cpu, x: &Vector<S>, y: &mut Vector<T>, f: impl Fn(&[S], &mut [T]) + Sync) {
    let x = x.all_entries();
    let out = Shared::of(y.all_entries_mut());
    cpu.for_each_part(x.len(), |_, start, end| {
        // SAFETY: parts do not overlap.
        f(&x[start..end], unsafe { out.row_mut(start as isize, end - start) });
    });
}

/// Calls `f(x, y)` for all entries of a part of two vectors, with this machine's instructions for type P.
#[inline(always)]
fn each<P: Real, S: Real, T: Real>(cpu: &Cpu, x: &[S], y: &mut [T], f: impl Fn(S, &mut T)) {
    cpu.vectorize::<P>(
        #[inline(always)]
        || {
            for (y, &x) in y.iter_mut().zip(x) {
                f(x, y);
            }
        },
    );
}

/// y = x on part of a vector
fn convert_part<S: Real, T: Real>(cpu: &Cpu, x: &[S], y: &mut [T]) {
    each::<f64, _, _>(
        cpu,
        x,
        y,
        #[inline(always)]
        |x, y| *y = T::from_f64(x.to_f64()),
    );
}

/// y += a x on part of a vector, with this machine's instructions for type P
pub(crate) fn axpy_part<P: Real, S: Real, T: Real>(cpu: &Cpu, a: T, x: &[S], y: &mut [T]) {
    each::<P, _, _>(
        cpu,
        x,
        y,
        #[inline(always)]
        |x, y| *y += a * T::from_f64(x.to_f64()),
    );
}

/// u += αp;  p = z + βp on part of three vectors
pub(crate) fn advance<T: Real, Z: Real>(cpu: &Cpu, [alpha, beta]: [T; 2], u: &mut [T], p: &mut [T], z: &[Z]) {
    cpu.vectorize::<T>(
        #[inline(always)]
        || {
            for ((u, p), z) in u.iter_mut().zip(p.iter_mut()).zip(z) {
                let old = *p;
                *u = alpha.mul_add(old, *u);
                *p = beta.mul_add(old, T::from_f64(z.to_f64()));
            }
        },
    );
}

/// p = z + βp on part of two vectors, as [`advance`] computes it
pub(crate) fn advance_part<T: Real, Z: Real>(cpu: &Cpu, beta: T, p: &mut [T], z: &[Z]) {
    each::<T, _, _>(
        cpu,
        z,
        p,
        #[inline(always)]
        |z, p| *p = beta.mul_add(*p, T::from_f64(z.to_f64())),
    );
}

/// ⟨x, y⟩ on part of two vectors
pub(crate) struct Dot<'a, T> {
    pub(crate) x: &'a [T],
    pub(crate) y: &'a [T],
}

impl<T: Real> WithSimd for Dot<'_, T> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        // Independent sums hide the latency of additions.
        let mut sums = [0.0; 32];
        let (x, x_rest) = self.x.as_chunks::<32>();
        let (y, y_rest) = self.y.as_chunks::<32>();
        for (x, y) in x.iter().zip(y) {
            for lane in 0..32 {
                sums[lane] += x[lane].to_f64() * y[lane].to_f64();
            }
        }
        let rest: f64 = x_rest.iter().zip(y_rest).map(|(x, y)| x.to_f64() * y.to_f64()).sum();
        sums.iter().sum::<f64>() + rest
    }
}

impl Cpu {
    /// Returns the largest number, and 0 of none.
    pub(crate) fn largest(&self, values: &[f64]) -> f64 {
        let mut maxima = [0.0; MAX_PARTS];
        let out = Shared::of(&mut maxima);
        self.for_each_part(values.len(), |part, start, end| {
            let largest = values[start..end].iter().fold(0.0f64, |a, &b| a.max(b));
            // SAFETY: each part has its own.
            unsafe { out.set(part as isize, largest) };
        });
        maxima.into_iter().fold(0.0, f64::max)
    }

    /// Returns whether all numbers equal `value`.
    pub(crate) fn are_all(&self, values: &[f64], value: f64) -> bool {
        if values.last() != Some(&value) {
            return false;
        }
        let mut found = [true; MAX_PARTS];
        let out = Shared::of(&mut found);
        self.for_each_part(values.len(), |part, start, end| {
            let is_all = values[start..end].iter().fold(true, |all, &b| all & (b == value));
            // SAFETY: each part has its own.
            unsafe { out.set(part as isize, is_all) };
        });
        found.into_iter().all(|is_all| is_all)
    }
}
