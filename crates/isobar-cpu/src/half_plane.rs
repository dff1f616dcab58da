//! The arithmetic of the tensor-product operator on one (j, colour) half plane: SIMD lanes across
//! columns, rows of columns below and above each other.
//!
//! Loops are written over plain slices; run inside [`pulp::Arch::dispatch`], the compiler turns them
//! into the widest vector instructions that this machine has.

use isobar_core::layout::{Colour, Layout};
use isobar_core::real::Real;
use pulp::Simd;

use crate::shared::Shared;

/// a b + c, in one rounding where the machine has an instruction for it.
#[inline(always)]
pub(crate) fn fma<S: Simd, T: Real>(a: T, b: T, c: T) -> T {
    if S::IS_SCALAR { a * b + c } else { a.mul_add(b, c) }
}

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

/// The horizontal factors, divided by |T|, a row of `n` columns of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns<'a, T> {
    pub(crate) west: &'a [T],
    pub(crate) east: &'a [T],
    pub(crate) south: &'a [T],
    pub(crate) north: &'a [T],
    /// α_T / |T|
    pub(crate) total: &'a [T],
    /// |T|, 0 in padding
    pub(crate) area: &'a [T],
    /// 1 / |T|, 0 in padding
    pub(crate) inverse_area: &'a [T],
}

/// The other colour's values around a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neighbours<'a, T> {
    west: &'a [T],
    east: &'a [T],
    south: &'a [T],
    north: &'a [T],
}

impl<'a, T: Real> Neighbours<'a, T> {
    /// Of row k of a half plane, columns m … m + n − 1.
    ///
    /// # Safety
    /// Nobody writes the other colour of planes j − 1, j, j + 1 meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn new(u: Shared<T>, h: &HalfPlane, k: usize, m: usize, n: usize) -> Self {
        let offset = (k * h.pitch + m) as isize;
        // SAFETY: rows of the vector, or one entry into its guard; not written, as promised.
        unsafe {
            Self {
                west: u.row(h.other + offset + h.west, n),
                east: u.row(h.other + offset + h.west + 1, n),
                south: u.row(h.south + offset, n),
                north: u.row(h.north + offset, n),
            }
        }
    }

    /// Σ α_{TT'} u_{T'} / |T| of column m
    #[inline(always)]
    pub(crate) fn sum<S: Simd>(&self, c: &Columns<'_, T>, m: usize) -> T {
        let x = fma::<S, T>(c.west[m], self.west[m], c.east[m] * self.east[m]);
        let y = fma::<S, T>(c.south[m], self.south[m], c.north[m] * self.north[m]);
        x + y
    }
}

/// A row and the rows below and above it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vertical<'a, T> {
    below: &'a [T],
    pub(crate) centre: &'a [T],
    above: &'a [T],
}

impl<'a, T: Real> Vertical<'a, T> {
    /// Row k of a half plane, columns m … m + n − 1. At bottom and top the row stands in for the one
    /// outside, where a coupling of zero meets it.
    ///
    /// # Safety
    /// Nobody writes the half plane meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn new(u: Shared<T>, h: &HalfPlane, levels: usize, k: usize, m: usize, n: usize) -> Self {
        // SAFETY: rows of the vector; not written, as promised.
        unsafe {
            Self {
                below: u.row(h.row(k.saturating_sub(1), m), n),
                centre: u.row(h.row(k, m), n),
                above: u.row(h.row((k + 1).min(levels - 1), m), n),
            }
        }
    }

    /// (A u)_{T,k} / |T| of column m: a u_k − b (u_k − u_{k+1}) − c (u_k − u_{k−1}) + d (Σ… − α_T u_k) / |T|.
    #[inline(always)]
    pub(crate) fn apply<S: Simd>(&self, v: Level<T>, c: &Columns<'_, T>, around: &Neighbours<'_, T>, m: usize) -> T {
        let u = self.centre[m];
        let vertical = fma::<S, T>(v.above, u - self.above[m], fma::<S, T>(v.below, u - self.below[m], v.mass * u));
        fma::<S, T>(v.horizontal, fma::<S, T>(c.total[m], u, -around.sum::<S>(c, m)), vertical)
    }
}

/// One row of forward elimination, in the form without subtractions that the reference explains:
///
/// ```text
/// excess = a − d α_T/|T| − c · ratio₋;   pivot = excess − b
/// y = (g − c y₋) / pivot;   factor = −b / pivot;   ratio = excess / pivot
/// ```
///
/// `g(m)` is the right-hand side over |T|; `ratio` goes from level to level.
#[inline(always)]
pub(crate) fn eliminate_row<S: Simd, T: Real>(
    v: Level<T>,
    total: &[T],
    ratio: &mut [T],
    below: &[T],
    y: &mut [T],
    factor: &mut [T],
    g: impl Fn(usize) -> T,
) {
    let n = y.len();
    let (total, ratio, below, factor) = (&total[..n], &mut ratio[..n], &below[..n], &mut factor[..n]);
    for m in 0..n {
        let excess = fma::<S, T>(v.below, ratio[m], fma::<S, T>(v.horizontal, total[m], v.mass));
        let inverse = T::ONE / (excess + v.above);
        ratio[m] = excess * inverse;
        factor[m] = v.above * inverse;
        y[m] = fma::<S, T>(v.below, below[m], g(m)) * inverse;
    }
}

/// One row of backward substitution: x = y + factor · x₊, in place.
#[inline(always)]
pub(crate) fn substitute_row<S: Simd, T: Real>(factor: &[T], above: &[T], y: &mut [T]) {
    let n = y.len();
    let (factor, above) = (&factor[..n], &above[..n]);
    for m in 0..n {
        y[m] = fma::<S, T>(factor[m], above[m], y[m]);
    }
}

/// sums += x y, lane by lane, in double precision.
#[inline(always)]
pub(crate) fn accumulate_row<S: Simd, T: Real>(x: &[T], y: &[T], sums: &mut [f64]) {
    let n = x.len();
    let (y, sums) = (&y[..n], &mut sums[..n]);
    for m in 0..n {
        sums[m] = fma::<S, f64>(x[m].to_f64(), y[m].to_f64(), sums[m]);
    }
}
