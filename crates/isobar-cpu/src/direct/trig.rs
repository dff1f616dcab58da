//! Trigonometric transforms of real lines, two packs of lines at a time.

use isobar_core::direct::Trig;
use isobar_core::simd::Pack;
use pulp::Simd;

use super::both::{Both, packs, registers, scaled};
use super::fft::{Fft, root, times};

/// Transforms that equal a complex Fourier transform of the same length of reordered lines: one line is the real, another the
/// imaginary part.
///
/// Type II: v_n = x_2n, v_{N−1−n} = x_{2n+1} (Makhoul, 1980). Type IV of odd length: every fourth entry of the line continued
/// by its symmetries, 2n + 1 ≡ N (mod 8) (Chan and Ho, 1990). With V_f = Σ v_n exp(−2π i f n / N),
///
/// ```text
/// X_a = c_a Re V_f + s_a Im V_f;   X_b = c_b Re V_f + s_b Im V_f,   0 < f < N/2
/// ```
#[derive(Debug)]
pub(super) struct Paired {
    fft: Fft,
    /// The place of entry i of a line, and its factor, 1 or −1.
    places: Vec<(u32, f64)>,
    /// The outputs with f = 0 and f = N/2.
    alone: Vec<Alone>,
    /// The outputs with f = 1, 2, …
    pairs: Vec<Pair>,
}

#[derive(Clone, Copy, Debug)]
struct Alone {
    frequency: usize,
    output: usize,
    factor: f64,
}

/// Outputs a and b; c_a, s_a, c_b and s_b, halved.
#[derive(Clone, Copy, Debug)]
struct Pair {
    outputs: [usize; 2],
    factors: [f64; 4],
}

impl Paired {
    /// Makes the transform of n entries times a number, or nothing if there is none of this length.
    pub(super) fn new(trig: Trig, n: usize, scale: f64) -> Option<Self> {
        let fft = Fft::new(n)?;
        let [lone, half] = [scale * (1.0 / n as f64).sqrt(), 0.5 * scale * (2.0 / n as f64).sqrt()];
        let pairs = 1..n.div_ceil(2);
        let middle = n.is_multiple_of(2).then_some(n / 2);
        let (places, alone, pairs): (Vec<_>, Vec<_>, Vec<_>) = match trig {
            Trig::Cosine | Trig::Sine => {
                let is_sine = trig == Trig::Sine;
                let sign = |i: usize| if is_sine && i % 2 == 1 { -1.0 } else { 1.0 };
                // Factors (−1)^i turn sines into cosines in reverse order.
                let output = |k: usize| if is_sine { n - 1 - k } else { k };
                let pair = |f: usize| {
                    let [c, s] = root(f, 4 * n).map(|part| half * part);
                    Pair { outputs: [output(f), output(n - f)], factors: [c, s, s, -c] }
                };
                let alone = [(0, lone)].into_iter().chain(middle.map(|f| (f, lone)));
                (
                    (0..n).map(|i| (if i % 2 == 0 { i / 2 } else { n - 1 - i / 2 }, sign(i))).collect(),
                    alone.map(|(frequency, factor)| Alone { frequency, output: output(frequency), factor }).collect(),
                    pairs.map(pair).collect(),
                )
            }
            Trig::Fourier => {
                let pair = |f: usize| Pair { outputs: [2 * f - 1, 2 * f], factors: [half, 0.0, 0.0, -half] };
                let alone = [(0, 0)].into_iter().chain(middle.map(|f| (f, n - 1)));
                (
                    (0..n).map(|i| (i, 1.0)).collect(),
                    alone.map(|(frequency, output)| Alone { frequency, output, factor: lone }).collect(),
                    pairs.map(pair).collect(),
                )
            }
            Trig::CosineFour | Trig::SineFour if n % 2 == 1 => {
                let is_sine = trig == Trig::SineFour;
                // Sines are cosines of the reversed line with alternating signs.
                let mut places = vec![(0, 0.0); n];
                for slot in 0..n {
                    let m = (n / 2 + 4 * slot) % (4 * n);
                    let (i, sign) = match m / n {
                        0 => (m, 1.0),
                        1 => (2 * n - 1 - m, -1.0),
                        2 => (m - 2 * n, -1.0),
                        _ => (4 * n - 1 - m, 1.0),
                    };
                    places[if is_sine { n - 1 - i } else { i }] = (slot, sign);
                }
                let output = |f: usize| if f % 2 == 1 { (f - 1) / 2 } else { (f + n - 1) / 2 };
                let factors = |k: usize| {
                    let sign = if is_sine && k % 2 == 1 { -half } else { half };
                    root(2 * k + 1, 8).map(|part| sign * part)
                };
                let pair = |f: usize| {
                    let outputs = [output(f), output(n - f)];
                    let ([ca, sa], [cb, sb]) = (factors(outputs[0]), factors(outputs[1]));
                    Pair { outputs, factors: [ca, sa, cb, -sb] }
                };
                let middle = n / 2;
                let alone = Alone { frequency: 0, output: middle, factor: 2.0 * factors(middle)[0] };
                (places, vec![alone], pairs.map(pair).collect())
            }
            _ => return None,
        };
        let places = places.into_iter().map(|(place, sign)| (place as u32, sign)).collect();
        Some(Self { fft, places, alone, pairs })
    }

    /// Returns the packs of scratch.
    pub(super) fn scratch(&self) -> usize {
        4 * self.fft.len
    }

    /// Returns the bytes of its tables.
    pub(super) fn bytes(&self) -> usize {
        self.fft.bytes() + size_of_val(&self.places[..]) + size_of_val(&self.pairs[..])
    }

    #[inline(always)]
    pub(super) fn forward<S: Simd>(
        &self,
        simd: S,
        scratch: [&mut [f64]; 2],
        load: impl Fn(usize) -> Both<S>,
        mut store: impl FnMut(usize, Both<S>),
    ) {
        let [first, second] = scratch;
        let (z, _) = S::as_mut_simd_f64s(first).0.as_chunks_mut::<2>();
        for (i, &(place, sign)) in self.places.iter().enumerate() {
            let sign = Pack::splat(simd, sign);
            z[place as usize] = registers(scaled(sign, load(i)));
        }
        let [z, _] = self.fft.run(simd, first, second);
        let (z, _) = S::as_simd_f64s(z).0.as_chunks::<2>();
        let z = |f: usize| packs(simd, z[f]);
        for alone in &self.alone {
            let factor = Pack::splat(simd, alone.factor);
            store(alone.output, scaled(factor, z(alone.frequency)));
        }
        let n = self.places.len();
        for (f, Pair { outputs, factors }) in (1..).zip(&self.pairs) {
            let ([re, im], [other_re, other_im]) = (z(f), z(n - f));
            // The two lines' transforms, twice.
            let real = [re + other_re, im + other_im];
            let imaginary = [im - other_im, other_re - re];
            let [ca, sa, cb, sb] = *factors;
            store(outputs[0], combined(simd, [ca, sa], real, imaginary));
            store(outputs[1], combined(simd, [cb, sb], real, imaginary));
        }
    }

    /// Applies the transpose, which is the inverse.
    #[inline(always)]
    pub(super) fn backward<S: Simd>(
        &self,
        simd: S,
        scratch: [&mut [f64]; 2],
        load: impl Fn(usize) -> Both<S>,
        mut store: impl FnMut(usize, Both<S>),
    ) {
        let [first, second] = scratch;
        let (z, _) = S::as_mut_simd_f64s(first).0.as_chunks_mut::<2>();
        // With real and imaginary parts exchanged, the transform is its inverse.
        for alone in &self.alone {
            let factor = Pack::splat(simd, alone.factor);
            let [a, b] = load(alone.output);
            z[alone.frequency] = registers(scaled(factor, [b, a]));
        }
        let n = self.places.len();
        for (f, Pair { outputs, factors }) in (1..).zip(&self.pairs) {
            let (a, b) = (load(outputs[0]), load(outputs[1]));
            let [ca, sa, cb, sb] = *factors;
            let (real, imaginary) = (combined(simd, [ca, cb], a, b), combined(simd, [sa, sb], a, b));
            z[f] = registers([imaginary[0] + real[1], real[0] - imaginary[1]]);
            z[n - f] = registers([real[1] - imaginary[0], real[0] + imaginary[1]]);
        }
        let [z, _] = self.fft.run(simd, first, second);
        let (z, _) = S::as_simd_f64s(z).0.as_chunks::<2>();
        for (i, &(place, sign)) in self.places.iter().enumerate() {
            let ([b, a], sign) = (z[place as usize], Pack::splat(simd, sign));
            store(i, scaled(sign, packs(simd, [a, b])));
        }
    }
}

/// Returns c x + s y.
#[inline(always)]
fn combined<S: Simd>(simd: S, [c, s]: [f64; 2], x: Both<S>, y: Both<S>) -> Both<S> {
    let [c, s] = [Pack::splat(simd, c), Pack::splat(simd, s)];
    [c.mul_add(x[0], s * y[0]), c.mul_add(x[1], s * y[1])]
}

/// The transform of type IV and even length N, its own inverse, by a complex transform of half the length a line:
///
/// ```text
/// C_k = ω_k Σ (x_2n + i x_{N−1−2n}) ω_n exp(−4π i k n / N);   X_2k = Re C_k;   X_{N−1−2k} = −Im C_k;   ω_n = exp(−π i (n + ⅛) / N)
/// ```
///
/// for cosines; for sines use the reversed line, and drop the minus.
#[derive(Debug)]
pub(super) struct TypeFour {
    fft: Fft,
    is_sine: bool,
    /// ω, times the square root of the scale.
    twiddles: Vec<[f64; 2]>,
}

impl TypeFour {
    /// Makes the transform of n entries times a number, or nothing if there is none of this length.
    pub(super) fn new(trig: Trig, n: usize, scale: f64) -> Option<Self> {
        let is_four = matches!(trig, Trig::CosineFour | Trig::SineFour) && n.is_multiple_of(2);
        let fft = if is_four { Fft::new(n / 2)? } else { return None };
        let scale = (scale * (2.0 / n as f64).sqrt()).sqrt();
        let twiddle = |k: usize| root(8 * k + 1, 16 * n);
        let twiddles = (0..n / 2).map(twiddle).map(|[c, s]| [scale * c, -scale * s]).collect();
        Some(Self { fft, is_sine: trig == Trig::SineFour, twiddles })
    }

    /// Returns the packs of scratch.
    pub(super) fn scratch(&self) -> usize {
        8 * self.fft.len
    }

    /// Returns the bytes of its tables.
    pub(super) fn bytes(&self) -> usize {
        self.fft.bytes() + size_of_val(&self.twiddles[..])
    }

    #[inline(always)]
    pub(super) fn apply<S: Simd>(
        &self,
        simd: S,
        scratch: [&mut [f64]; 2],
        load: impl Fn(usize) -> Both<S>,
        mut store: impl FnMut(usize, Both<S>),
    ) {
        let half = self.fft.len;
        let middle = 2 * half * S::F64_LANES;
        let ([first, second], n) = (scratch.map(|part| part.split_at_mut(middle)), 2 * half);
        {
            let [(a, _), (b, _)] =
                [&mut *first.0, &mut *first.1].map(|part| S::as_mut_simd_f64s(part).0.as_chunks_mut::<2>());
            for (k, &twiddle) in self.twiddles.iter().enumerate() {
                let (mut x, mut y) = (load(2 * k), load(n - 1 - 2 * k));
                if self.is_sine {
                    (x, y) = (y, x);
                }
                a[k] = registers(times(simd, [x[0], y[0]], twiddle));
                b[k] = registers(times(simd, [x[1], y[1]], twiddle));
            }
        }
        let ([a, _], [b, _]) = (self.fft.run(simd, first.0, second.0), self.fft.run(simd, first.1, second.1));
        let [(a, _), (b, _)] = [&*a, &*b].map(|part| S::as_simd_f64s(part).0.as_chunks::<2>());
        for (k, &twiddle) in self.twiddles.iter().enumerate() {
            let (a, b) = (times(simd, packs(simd, a[k]), twiddle), times(simd, packs(simd, b[k]), twiddle));
            store(2 * k, [a[0], b[0]]);
            store(n - 1 - 2 * k, if self.is_sine { [a[1], b[1]] } else { [-a[1], -b[1]] });
        }
    }
}

/// The sine transform of type I, its own inverse, by the line continued as an odd function to 2 (n + 1) entries.
#[derive(Debug)]
pub(super) struct SineOne {
    fft: Fft,
    n: usize,
    factor: f64,
}

impl SineOne {
    /// Makes the transform of n entries times a number, or nothing if there is none of this length.
    pub(super) fn new(trig: Trig, n: usize, scale: f64) -> Option<Self> {
        let fft = if trig == Trig::SineOne { Fft::new(2 * (n + 1))? } else { return None };
        Some(Self { fft, n, factor: 0.5 * scale * (2.0 / (n + 1) as f64).sqrt() })
    }

    /// Returns the packs of scratch.
    pub(super) fn scratch(&self) -> usize {
        4 * self.fft.len
    }

    /// Returns the bytes of its tables.
    pub(super) fn bytes(&self) -> usize {
        self.fft.bytes()
    }

    #[inline(always)]
    pub(super) fn apply<S: Simd>(
        &self,
        simd: S,
        scratch: [&mut [f64]; 2],
        load: impl Fn(usize) -> Both<S>,
        mut store: impl FnMut(usize, Both<S>),
    ) {
        let [first, second] = scratch;
        let (z, _) = S::as_mut_simd_f64s(first).0.as_chunks_mut::<2>();
        let (n, factor, zero) = (self.n, Pack::splat(simd, self.factor), Pack::splat(simd, 0.0));
        (z[0], z[n + 1]) = ([zero.register(); 2], [zero.register(); 2]);
        for i in 0..n {
            let x = scaled(factor, load(i));
            z[i + 1] = registers(x);
            z[2 * n + 1 - i] = registers([-x[0], -x[1]]);
        }
        let [z, _] = self.fft.run(simd, first, second);
        let (z, _) = S::as_simd_f64s(z).0.as_chunks::<2>();
        for k in 0..n {
            let [re, im] = packs(simd, z[k + 1]);
            store(k, [-im, re]);
        }
    }
}
