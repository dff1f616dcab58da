//! All eigenvalues and eigenvectors of symmetric tridiagonal matrices, such as those of one direction of a grid.

use std::mem;
use std::ops::Range;

use pulp::Arch;

use crate::execute::{Execute, Host, Serial};
use crate::simd::Plain;

/// The eigenvalues and eigenvectors of A: A V = V Λ with VᵀV = 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Eigen {
    /// λ, the smallest first.
    pub values: Vec<f64>,
    /// The eigenvectors in the same order, one after another.
    pub vectors: Vec<f64>,
}

/// The most sweeps an eigenvalue; two or three are usual. Beyond them the matrix holds numbers that are not finite.
const MOST_SWEEPS: usize = 40;
/// An off-diagonal entry below this fraction of a lower bound of the singular values is zero.
const NEGLIGIBLE: f64 = 4.0 * f64::EPSILON;
/// Entries of vectors that are rotated at once: 128 bytes of every vector.
const WIDTH: usize = 16;
/// Rotations that are collected before they are applied to vectors in the cache.
const ROTATIONS: usize = 1 << 14;

/// Computes the eigenvalues and eigenvectors of a symmetric tridiagonal matrix with this diagonal and the n − 1 entries next to
/// it; λ to some ε ‖A‖. Returns nothing if an entry is not finite.
///
/// They are the eigenvalues of A + σ = RᵀR, which is positive definite by Gershgorin's circles, minus σ: see [`of_factor`].
pub fn symmetric(diagonal: &[f64], beside: &[f64]) -> Option<Eigen> {
    let n = diagonal.len();
    let radius = |k: usize| if k > 0 { beside[k - 1].abs() } else { 0.0 } + beside.get(k).map_or(0.0, |b| b.abs());
    let lowest = (0..n).map(|k| diagonal[k] - radius(k)).fold(f64::INFINITY, f64::min);
    let largest = (0..n).map(|k| diagonal[k].abs() + radius(k)).fold(0.0, f64::max);
    let shift = 4.0 * f64::EPSILON * largest - lowest;
    let mut off: Vec<f64> = beside.to_vec();
    let mut pivots = Vec::with_capacity(n);
    let mut before = 0.0;
    for (k, entry) in diagonal.iter().enumerate() {
        let pivot = (entry + shift - before * before).max(0.0).sqrt();
        if let Some(off) = off.get_mut(k) {
            *off = if pivot > 0.0 { *off / pivot } else { 0.0 };
            before = *off;
        }
        pivots.push(pivot);
    }
    let mut eigen = of_factor(&pivots, &off)?;
    eigen.values.iter_mut().for_each(|value| *value -= shift);
    Some(eigen)
}

/// Computes the eigenvalues and eigenvectors of RᵀR, R upper bidiagonal with this diagonal and the n − 1 entries above it. Returns
/// nothing if an entry is not finite.
///
/// They are the squares of the singular values of R and its right singular vectors, by implicit QR with shifts, or without a shift
/// if that would destroy small values (Demmel and Kahan, 1990): every λ has a relative error of about n ε for the given R, however
/// small it is relative to the largest. Values take O(n²) operations, vectors about 6 n³, on all threads: 2 ms for n = 128, 45 ms
/// for 512.
///
/// # Panics
/// Panics if there are not n − 1 entries above a diagonal of n.
pub fn of_factor(diagonal: &[f64], above: &[f64]) -> Option<Eigen> {
    assert_eq!(above.len() + 1, diagonal.len().max(1), "entries above a diagonal of {}", diagonal.len());
    let mut factor = Bidiagonal { d: diagonal.to_vec(), e: above.to_vec() };
    let mut vectors = Vectors::unit(diagonal.len());
    let mut end = diagonal.len();
    let mut sweeps_left = MOST_SWEEPS * end;
    let mut last: Option<(Range<usize>, bool)> = None;
    while end > 1 {
        if factor.e[end - 2] == 0.0 {
            end -= 1;
            continue;
        }
        let block = (0..end - 1).rev().find(|&k| factor.e[k] == 0.0).map_or(0, |k| k + 1)..end;
        sweeps_left = sweeps_left.checked_sub(1)?;
        if block.len() == 2 {
            vectors.rotate(block.start, false, &[factor.diagonalise(block.start)]);
        } else if let Some(smallest) = factor.split(&block) {
            // A part of the previous block is swept in the same direction.
            let is_up = match &last {
                Some((before, is_up)) if block.start < before.end && before.start < block.end => *is_up,
                _ => factor.d[block.start].abs() < factor.d[end - 1].abs(),
            };
            vectors.rotate(if is_up { end - 1 } else { block.start }, is_up, &factor.sweep(&block, is_up, smallest));
            last = Some((block, is_up));
        }
    }
    let singular = factor.d;
    let mut order: Vec<usize> = (0..singular.len()).collect();
    order.sort_by(|&m, &n| singular[m].abs().total_cmp(&singular[n].abs()));
    let values: Vec<f64> = order.iter().map(|&m| singular[m] * singular[m]).collect();
    values.iter().all(|value| value.is_finite()).then(|| Eigen { values, vectors: vectors.in_order(&order) })
}

/// The rotation of (x, y) to (c x + s y, c y − s x).
#[derive(Clone, Copy)]
struct Rotation {
    c: f64,
    s: f64,
}

impl Rotation {
    const NONE: Self = Self { c: 1.0, s: 0.0 };

    /// Returns the rotation that turns (f, g) into (r, 0), and r.
    fn to_first(f: f64, g: f64) -> (Self, f64) {
        if g == 0.0 {
            return (Self::NONE, f);
        }
        let square = f * f + g * g;
        let r = if (1e-280..1e280).contains(&square) { square.sqrt() } else { f.hypot(g) };
        (Self { c: f / r, s: g / r }, r)
    }
}

/// The upper bidiagonal R, which converges to a diagonal matrix.
struct Bidiagonal {
    d: Vec<f64>,
    e: Vec<f64>,
}

impl Bidiagonal {
    /// Clears entries above the diagonal that are negligible relative to a lower bound of the singular values, computed from one
    /// end or the other; if there are none, returns that bound.
    fn split(&mut self, block: &Range<usize>) -> Option<f64> {
        let Self { d, e } = self;
        let mut is_split = false;
        let mut bound_from = |start: usize, steps: &mut dyn Iterator<Item = (usize, usize)>| {
            let mut bound = d[start].abs();
            let mut smallest = bound;
            for (between, to) in steps {
                if e[between].abs() <= (NEGLIGIBLE * bound).max(f64::MIN_POSITIVE) {
                    e[between] = 0.0;
                    is_split = true;
                    bound = d[to].abs();
                } else {
                    bound = d[to].abs() * (bound / (bound + e[between].abs()));
                }
                smallest = smallest.min(bound);
            }
            smallest
        };
        let Range { start, end } = *block;
        let down = bound_from(start, &mut (start..end - 1).map(|k| (k, k + 1)));
        let up = bound_from(end - 1, &mut (start..end - 1).rev().map(|k| (k, k)));
        (!is_split).then(|| down.max(up))
    }

    /// Returns the rotation of two columns, decoupled from all others, that makes them orthogonal.
    fn diagonalise(&mut self, at: usize) -> Rotation {
        let (f, g, h) = (self.d[at], self.e[at], self.d[at + 1]);
        let zeta = ((h - f) * (h + f) + g * g) / (2.0 * f * g);
        let t = if f == 0.0 { 0.0 } else { 1f64.copysign(zeta) / (zeta.abs() + zeta.hypot(1.0)) };
        let c = 1.0 / t.hypot(1.0);
        let s = -c * t;
        let lengths = [(c * f + s * g).hypot(s * h), (c * g - s * f).hypot(c * h)];
        // The smaller one follows from the determinant, to avoid cancellation.
        let large = lengths[0].max(lengths[1]);
        let small = if large > 0.0 { f.abs() * (h.abs() / large) } else { 0.0 };
        (self.d[at], self.d[at + 1]) = if lengths[0] > lengths[1] { (large, small) } else { (small, large) };
        self.e[at] = 0.0;
        Rotation { c, s }
    }

    /// Does a step of QR from one end to the other, and returns the rotations of the columns of R in order.
    fn sweep(&mut self, block: &Range<usize>, is_up: bool, smallest: f64) -> Vec<Rotation> {
        let Self { d, e } = self;
        let (start, last) = (block.start, block.end - 1);
        let n = last - start;
        let largest = d[start..=last].iter().chain(&e[start..last]).fold(0f64, |most, x| most.max(x.abs()));
        // Read from its end, R is lower bidiagonal: rows and columns are exchanged.
        let d_at = |k: usize| if is_up { last - k } else { start + k };
        let e_at = |k: usize| if is_up { last - 1 - k } else { start + k };
        let shift = smallest_of_two(d[d_at(n - 1)], e[e_at(n - 1)], d[d_at(n)]);
        let first = d[d_at(0)];
        let mut rotations = Vec::with_capacity(n);
        // No shift, if it would destroy small values or change nothing.
        if smallest * (100 * n) as f64 <= largest || (shift / first).powi(2) < f64::EPSILON {
            let (mut right, mut left) = (Rotation::NONE, Rotation::NONE);
            for k in 0..n {
                let length;
                (right, length) = Rotation::to_first(d[d_at(k)] * right.c, e[e_at(k)]);
                if k > 0 {
                    e[e_at(k - 1)] = left.s * length;
                }
                (left, d[d_at(k)]) = Rotation::to_first(left.c * length, d[d_at(k + 1)] * right.s);
                rotations.push(if is_up { left } else { right });
            }
            let rest = d[d_at(n)] * right.c;
            d[d_at(n)] = rest * left.c;
            e[e_at(n - 1)] = rest * left.s;
            return rotations;
        }
        let mut f = (first.abs() - shift) * (1f64.copysign(first) + shift / first);
        let mut g = e[e_at(0)];
        for k in 0..n {
            let (right, length) = Rotation::to_first(f, g);
            if k > 0 {
                e[e_at(k - 1)] = length;
            }
            let (here, between, next) = (d[d_at(k)], e[e_at(k)], d[d_at(k + 1)]);
            let between_turned = right.c * between - right.s * here;
            let (left, length) = Rotation::to_first(right.c * here + right.s * between, right.s * next);
            d[d_at(k)] = length;
            f = left.c * between_turned + left.s * (right.c * next);
            d[d_at(k + 1)] = left.c * (right.c * next) - left.s * between_turned;
            if k + 1 < n {
                g = left.s * e[e_at(k + 1)];
                e[e_at(k + 1)] *= left.c;
            }
            rotations.push(if is_up { left } else { right });
        }
        e[e_at(n - 1)] = f;
        rotations
    }
}

/// Returns the smaller singular value of the rows (f, g) and (0, h).
fn smallest_of_two(f: f64, g: f64, h: f64) -> f64 {
    let (small, large, g) = (f.abs().min(h.abs()), f.abs().max(h.abs()), g.abs());
    if small == 0.0 {
        return 0.0;
    }
    let scale = large.max(g);
    let (sum, difference, g) = ((large + small) / scale, (large - small) / scale, g / scale);
    2.0 * small * (large / scale) / (sum.hypot(g) + difference.hypot(g))
}

/// Rows of Vᵀ, stored as panels of a few entries of all rows.
struct Vectors {
    panels: Vec<Vec<[f64; WIDTH]>>,
    /// The start of each sweep, its direction, and its number of rotations.
    sweeps: Vec<(usize, bool, usize)>,
    rotations: Vec<Rotation>,
}

impl Vectors {
    fn unit(n: usize) -> Self {
        let row = |m: usize, first: usize| std::array::from_fn(|w| f64::from(u8::from(m == first + w)));
        let panels = (0..n).step_by(WIDTH).map(|first| (0..n).map(|m| row(m, first)).collect()).collect();
        Self { panels, sweeps: Vec::new(), rotations: Vec::new() }
    }

    /// Rotates row `first` and the one below (above, if it goes up), then that and the next.
    fn rotate(&mut self, first: usize, is_up: bool, rotations: &[Rotation]) {
        self.sweeps.push((first, is_up, rotations.len()));
        self.rotations.extend_from_slice(rotations);
        if self.rotations.len() > ROTATIONS {
            self.apply();
        }
    }

    /// Applies the collected rotations.
    fn apply(&mut self) {
        let Self { panels, sweeps, rotations } = self;
        let (arch, sweeps, rotations) = (Arch::new(), mem::take(sweeps), mem::take(rotations));
        let turn = |_, rows: &mut Vec<[f64; WIDTH]>| {
            arch.dispatch(Plain(
                #[inline(always)]
                || turn(rows, &sweeps, &rotations),
            ));
        };
        // Less work is not worth waking a thread.
        if panels.len() < 4 { Serial.for_each(panels, turn) } else { Host.for_each(panels, turn) }
    }

    fn in_order(mut self, order: &[usize]) -> Vec<f64> {
        self.apply();
        let n = order.len();
        let mut vectors = Vec::with_capacity(n * n);
        for &m in order {
            let entries = self.panels.iter().flat_map(|rows| rows[m]);
            vectors.extend(entries.take(n));
        }
        vectors
    }
}

#[inline(always)]
fn turn(rows: &mut [[f64; WIDTH]], sweeps: &[(usize, bool, usize)], rotations: &[Rotation]) {
    let mut rotations = rotations.iter();
    for &(first, is_up, count) in sweeps {
        let mut at = first;
        let mut x = rows[at];
        for &Rotation { c, s } in rotations.by_ref().take(count) {
            let next = if is_up { at - 1 } else { at + 1 };
            let y = rows[next];
            for w in 0..WIDTH {
                rows[at][w] = c * x[w] + s * y[w];
                x[w] = c * y[w] - s * x[w];
            }
            at = next;
        }
        rows[at] = x;
    }
}

#[cfg(test)]
mod tests;
