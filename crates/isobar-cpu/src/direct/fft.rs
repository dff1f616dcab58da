//! Complex Fourier transforms of as many lines at once as a register has lanes.
//!
//! Stockham's algorithm with mixed radices: a stage reads one array and writes the other, and no stage permutes anything.

use std::f64::consts::PI;

use isobar_core::simd::Pack;
use pulp::{Simd, WithSimd};

use super::both::{packs, registers};

/// A number in each lane.
type P<S> = Pack<S, f64>;
/// A complex number in each lane.
type Complex<S> = [P<S>; 2];

/// The largest prime factor that a stage supports: its time grows with the square of it.
pub(super) const LARGEST_FACTOR: usize = 61;

/// The transform F_k = Σ_n v_n exp(−2π i n k / N).
#[derive(Debug)]
pub(super) struct Fft {
    pub(super) len: usize,
    stages: Vec<Stage>,
}

#[derive(Debug)]
struct Stage {
    radix: usize,
    /// cos and −sin of 2π p j / (radix · steps) for all p < steps and 0 < j < radix.
    twiddles: Vec<[f64; 2]>,
    /// cos and sin of 2π j / radix, where the radix is odd.
    roots: Vec<[f64; 2]>,
}

/// Returns exp(2π i a / b), exact where it is a number such as 1 or i.
pub(super) fn root(a: usize, b: usize) -> [f64; 2] {
    // The rest of the circle reflects one eighth of it.
    let a = a % b;
    let (eighth, rest) = (8 * a / b, 8 * a % b);
    let angle = |part: usize| PI * part as f64 / (4.0 * b as f64);
    let (sin, cos) = if eighth % 2 == 0 { angle(rest).sin_cos() } else { angle(b - rest).sin_cos() };
    match eighth {
        0 => [cos, sin],
        1 => [sin, cos],
        2 => [-sin, cos],
        3 => [-cos, sin],
        4 => [-cos, -sin],
        5 => [-sin, -cos],
        6 => [sin, -cos],
        _ => [cos, -sin],
    }
}

/// Returns the radices of a length, or nothing if it has a factor that is too large.
fn radices(mut len: usize) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    let mut divide = |radix: usize| {
        while len.is_multiple_of(radix) {
            found.push(radix);
            len /= radix;
        }
    };
    [8, 4, 2].into_iter().for_each(&mut divide);
    (3..=LARGEST_FACTOR).step_by(2).for_each(&mut divide);
    // Replaces 8 · 2 by 4 · 4.
    if found.first() == Some(&8)
        && let Some(at) = found.iter().position(|&radix| radix == 2)
    {
        (found[at - 1], found[at]) = (4, 4);
    }
    (len == 1).then_some(found)
}

impl Fft {
    /// Makes the transform of this length, or nothing if it has a factor that is too large.
    pub(super) fn new(len: usize) -> Option<Self> {
        let mut rest = len;
        let stage = |radix: usize| {
            let steps = rest / radix;
            let twiddles = (0..steps).flat_map(|p| (1..radix).map(move |j| (p, j)));
            let twiddles = twiddles.map(|(p, j)| root(p * j, rest)).map(|[cos, sin]| [cos, -sin]).collect();
            let roots = if radix % 2 == 1 { (0..radix).map(|j| root(j, radix)).collect() } else { Vec::new() };
            rest = steps;
            Stage { radix, twiddles, roots }
        };
        Some(Self { len, stages: radices(len)?.into_iter().map(stage).collect() })
    }

    /// Returns the bytes of its tables.
    pub(super) fn bytes(&self) -> usize {
        self.stages.iter().map(|stage| (stage.twiddles.len() + stage.roots.len()) * size_of::<[f64; 2]>()).sum()
    }

    /// Transforms the first array, packs of real and of imaginary parts alternating. Returns the array with the result, and the other.
    #[inline(always)]
    pub(super) fn run<'a, S: Simd>(&self, simd: S, from: &'a mut [f64], to: &'a mut [f64]) -> [&'a mut [f64]; 2] {
        let len = 2 * self.len * S::F64_LANES;
        let (mut x, mut y) = (&mut from[..len], &mut to[..len]);
        let mut stride = 1;
        for stage in &self.stages {
            simd.vectorize(RunStage { stage, x: &*x, y: &mut *y, steps: self.len / (stage.radix * stride), stride });
            stride *= stage.radix;
            (x, y) = (y, x);
        }
        [x, y]
    }
}

struct RunStage<'a> {
    stage: &'a Stage,
    x: &'a [f64],
    y: &'a mut [f64],
    steps: usize,
    stride: usize,
}

impl WithSimd for RunStage<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let roots = &self.stage.roots;
        match self.stage.radix {
            2 => self.each::<2, S>(simd, |_, [a, b]| [plus(a, b), minus(a, b)]),
            4 => self.each::<4, S>(simd, |_, z| four(z)),
            8 => self.each::<8, S>(simd, eight),
            3 => self.each::<3, S>(simd, |simd, z| odd::<3, 1, S>(simd, z, roots)),
            5 => self.each::<5, S>(simd, |simd, z| odd::<5, 2, S>(simd, z, roots)),
            7 => self.each::<7, S>(simd, |simd, z| odd::<7, 3, S>(simd, z, roots)),
            _ => self.any(simd),
        }
    }
}

impl RunStage<'_> {
    /// Runs all butterflies of R numbers.
    #[inline(always)]
    fn each<const R: usize, S: Simd>(self, simd: S, butterfly: impl Fn(S, [Complex<S>; R]) -> [Complex<S>; R]) {
        let Self { stage, x, y, steps, stride } = self;
        let (x, _) = S::as_simd_f64s(x).0.as_chunks::<2>();
        let (y, _) = S::as_mut_simd_f64s(y).0.as_chunks_mut::<2>();
        assert!(x.len() == R * steps * stride && y.len() == x.len() && stage.twiddles.len() == (R - 1) * steps);
        for (p, (y, twiddles)) in y.chunks_exact_mut(R * stride).zip(stage.twiddles.chunks_exact(R - 1)).enumerate() {
            for q in 0..stride {
                // SAFETY: q < stride and p < steps, and so all of them are below R · steps · stride.
                let load = |j: usize| unsafe { *x.get_unchecked(q + stride * (p + steps * j)) };
                let mut z = [packs(simd, load(0)); R];
                for (j, z) in z.iter_mut().enumerate().skip(1) {
                    *z = packs(simd, load(j));
                }
                let z = butterfly(simd, z);
                for j in 0..R {
                    let z = if j == 0 || p == 0 { z[j] } else { times(simd, z[j], twiddles[j - 1]) };
                    // SAFETY: this is below R · stride.
                    unsafe { *y.get_unchecked_mut(q + stride * j) = registers(z) };
                }
            }
        }
    }

    /// Runs butterflies of a large odd radix.
    #[inline(always)]
    fn any<S: Simd>(self, simd: S) {
        const HALF: usize = LARGEST_FACTOR / 2;
        let Self { stage: Stage { radix, twiddles, roots }, x, y, steps, stride } = self;
        let (x, _) = S::as_simd_f64s(x).0.as_chunks::<2>();
        let (y, _) = S::as_mut_simd_f64s(y).0.as_chunks_mut::<2>();
        let zero = [Pack::splat(simd, 0.0); 2];
        let (mut sums, mut differences) = ([zero; HALF], [zero; HALF]);
        let half = radix / 2;
        for (p, q) in (0..steps).flat_map(|p| (0..stride).map(move |q| (p, q))) {
            let load = |j: usize| packs(simd, x[q + stride * (p + steps * j)]);
            let mut store = |k: usize, z: Complex<S>| {
                let z = if k == 0 { z } else { times(simd, z, twiddles[p * (radix - 1) + k - 1]) };
                y[q + stride * (radix * p + k)] = registers(z);
            };
            let first = load(0);
            let mut total = first;
            for j in 0..half {
                let (a, b) = (load(j + 1), load(radix - 1 - j));
                (sums[j], differences[j]) = (plus(a, b), minus(a, b));
                total = plus(total, sums[j]);
            }
            store(0, total);
            for k in 1..=half {
                let (mut even, mut odd, mut at) = (first, zero, 0);
                for j in 0..half {
                    at = if at + k >= *radix { at + k - radix } else { at + k };
                    (even, odd) = gathered(simd, roots[at], sums[j], differences[j], even, odd);
                }
                store(k, [even[0] + odd[1], even[1] - odd[0]]);
                store(radix - k, [even[0] - odd[1], even[1] + odd[0]]);
            }
        }
    }
}

#[inline(always)]
fn plus<S: Simd>(a: Complex<S>, b: Complex<S>) -> Complex<S> {
    [a[0] + b[0], a[1] + b[1]]
}

#[inline(always)]
fn minus<S: Simd>(a: Complex<S>, b: Complex<S>) -> Complex<S> {
    [a[0] - b[0], a[1] - b[1]]
}

/// Returns −i z.
#[inline(always)]
fn turned<S: Simd>([re, im]: Complex<S>) -> Complex<S> {
    [im, -re]
}

/// Returns z times a number.
#[inline(always)]
pub(super) fn times<S: Simd>(simd: S, [re, im]: Complex<S>, factor: [f64; 2]) -> Complex<S> {
    let [c, s] = [Pack::splat(simd, factor[0]), Pack::splat(simd, factor[1])];
    [c.mul_add(re, -(s * im)), c.mul_add(im, s * re)]
}

/// Returns even + cos · sum and odd + sin · difference.
#[inline(always)]
fn gathered<S: Simd>(
    simd: S,
    [cos, sin]: [f64; 2],
    sum: Complex<S>,
    difference: Complex<S>,
    even: Complex<S>,
    odd: Complex<S>,
) -> (Complex<S>, Complex<S>) {
    let [cos, sin] = [Pack::splat(simd, cos), Pack::splat(simd, sin)];
    (
        [cos.mul_add(sum[0], even[0]), cos.mul_add(sum[1], even[1])],
        [sin.mul_add(difference[0], odd[0]), sin.mul_add(difference[1], odd[1])],
    )
}

#[inline(always)]
fn four<S: Simd>([a, b, c, d]: [Complex<S>; 4]) -> [Complex<S>; 4] {
    let (even, even_rest) = (plus(a, c), minus(a, c));
    let (odd, odd_rest) = (plus(b, d), turned(minus(b, d)));
    [plus(even, odd), plus(even_rest, odd_rest), minus(even, odd), minus(even_rest, odd_rest)]
}

#[inline(always)]
fn eight<S: Simd>(simd: S, z: [Complex<S>; 8]) -> [Complex<S>; 8] {
    let diagonal = Pack::splat(simd, std::f64::consts::FRAC_1_SQRT_2);
    let even = four([z[0], z[2], z[4], z[6]]);
    let odd = four([z[1], z[3], z[5], z[7]]);
    let odd = [
        odd[0],
        // (1 − i) / √2
        [diagonal * (odd[1][0] + odd[1][1]), diagonal * (odd[1][1] - odd[1][0])],
        turned(odd[2]),
        // −(1 + i) / √2
        [diagonal * (odd[3][1] - odd[3][0]), -(diagonal * (odd[3][0] + odd[3][1]))],
    ];
    let mut out = z;
    for k in 0..4 {
        (out[k], out[k + 4]) = (plus(even[k], odd[k]), minus(even[k], odd[k]));
    }
    out
}

/// Transforms R = 2 H + 1 numbers, even and odd parts apart.
#[inline(always)]
fn odd<const R: usize, const H: usize, S: Simd>(simd: S, z: [Complex<S>; R], roots: &[[f64; 2]]) -> [Complex<S>; R] {
    let (mut sums, mut differences) = ([z[0]; H], [z[0]; H]);
    for j in 0..H {
        (sums[j], differences[j]) = (plus(z[j + 1], z[R - 1 - j]), minus(z[j + 1], z[R - 1 - j]));
    }
    let mut out = z;
    for sum in sums {
        out[0] = plus(out[0], sum);
    }
    for k in 1..=H {
        let (mut even, mut odd) = (z[0], [Pack::splat(simd, 0.0); 2]);
        for j in 0..H {
            (even, odd) = gathered(simd, roots[(j + 1) * k % R], sums[j], differences[j], even, odd);
        }
        out[k] = [even[0] + odd[1], even[1] - odd[0]];
        out[R - k] = [even[0] - odd[1], even[1] + odd[0]];
    }
    out
}
