//! The eigenvectors of one axis.

use std::f64::consts::PI;

use super::axis::AxisMatrix;
use super::periodic;
use crate::eigen::{self, Eigen};
use crate::error::{Error, Result};

/// Numbers within this relative distance are equal up to rounding.
const ROUNDING: f64 = 1e-13;

/// The transforms that multiply by the eigenvectors of an axis with uniform cells, numbers k and i counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trig {
    /// Closed sides: cos(π k (i + ½) / n), the discrete cosine transform of type II.
    Cosine,
    /// Values given half a cell away: sin(π (k + 1)(i + ½) / n), the sine transform of type II.
    Sine,
    /// A closed lower side, a value half a cell beyond the upper one: cos(π (k + ½)(i + ½) / n), the cosine transform of type IV.
    CosineFour,
    /// A value half a cell before the lower side, a closed upper one: sin(π (k + ½)(i + ½) / n), the sine transform of type IV.
    SineFour,
    /// Values given a whole cell away: sin(π (k + 1)(i + 1) / (n + 1)), the sine transform of type I.
    SineOne,
    /// A periodic axis: 1, cos and sin of 2π i/n, of 4π i/n, …, and for even n (−1)^i, as a real Fourier transform.
    Fourier,
}

impl Trig {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cosine => "cosine transform",
            Self::Sine => "sine transform",
            Self::CosineFour => "cosine transform of type IV",
            Self::SineFour => "sine transform of type IV",
            Self::SineOne => "sine transform of type I",
            Self::Fourier => "Fourier transform",
        }
    }
}

/// A reflection that maps the eigenvectors of an axis to themselves or to their negatives, so that even and odd parts of a line can
/// be transformed separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symmetry {
    /// There is no such reflection.
    None,
    /// Cell i is exchanged with cell n − 1 − i.
    Reversal,
    /// Cell i is exchanged with cell (n − i) mod n.
    Periodic,
}

/// The eigenvectors S and eigenvalues μ of an axis: K S = M S diag(μ), Sᵀ M S = 1.
#[derive(Clone, Debug)]
pub struct Basis {
    values: Vec<f64>,
    /// Vectors one after another; empty if a transform replaces them.
    vectors: Vec<f64>,
    trig: Option<Trig>,
    symmetry: Symmetry,
    /// The factor of the entries of normalised trigonometric vectors.
    scale: f64,
}

impl Basis {
    /// Computes the basis of an axis: of uniform cells by formulas, else by an eigenvalue decomposition.
    ///
    /// # Errors
    /// [`Error::Invalid`] if K is not positive semi-definite or its decomposition does not converge.
    pub fn new(matrix: &AxisMatrix) -> Result<Self> {
        let n = matrix.len();
        let scale = 1.0 / matrix.mass[0].sqrt();
        if let Some(trig) = trig_of(matrix) {
            let stiffness = matrix.couplings[0] / matrix.mass[0];
            let value = |k: usize| 4.0 * stiffness * (0.5 * angle(trig, n, k)).sin().powi(2);
            let symmetry = match trig {
                Trig::Fourier => Symmetry::Periodic,
                Trig::CosineFour | Trig::SineFour => Symmetry::None,
                _ => Symmetry::Reversal,
            };
            return Ok(Self {
                values: (0..n).map(value).collect(),
                vectors: Vec::new(),
                trig: Some(trig),
                symmetry,
                scale,
            });
        }
        let Some(Eigen { values, vectors }) = decompose(matrix) else {
            return Err(Error::invalid(
                "solver.method",
                format!(
                    "\"direct\" needs the eigenvalues of an axis of {n} cells, and their computation failed: its matrix is not \
                     positive semi-definite, or holds numbers of extreme size; use \"multigrid\""
                ),
            ));
        };
        let is_mirrored = |values: &[f64]| {
            let n = values.len();
            (0..n / 2).all(|i| is_same(values[i], values[n - 1 - i]))
        };
        let AxisMatrix { mass, shift, couplings } = matrix;
        let is_ring = couplings[n - 1] != 0.0;
        let has_symmetry = !is_ring && is_mirrored(mass) && is_mirrored(shift) && is_mirrored(&couplings[..n - 1]);
        let mut this = Self { values, vectors, trig: None, symmetry: Symmetry::None, scale };
        if has_symmetry && this.is_alternating() {
            this.symmetry = Symmetry::Reversal;
        }
        Ok(this)
    }

    /// Returns whether an axis has a fast transform, so that nothing need be computed.
    pub fn is_fast(matrix: &AxisMatrix) -> bool {
        matrix.len() == 1 || trig_of(matrix).is_some()
    }

    /// Returns μ, in the order of the vectors.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Returns the cells of the axis.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns whether there is no cell, which no grid has.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the fast transform that multiplies by the vectors, if there is one.
    pub fn trig(&self) -> Option<Trig> {
        self.trig
    }

    /// Returns the reflection under which vectors are even or odd: even ones have even numbers with [`Symmetry::Reversal`], and
    /// number 0 and odd numbers with [`Symmetry::Periodic`].
    pub fn symmetry(&self) -> Symmetry {
        self.symmetry
    }

    /// Returns whether vector k is even under [`Basis::symmetry`].
    pub fn is_even(&self, k: usize) -> bool {
        match self.symmetry {
            Symmetry::Periodic => k == 0 || k % 2 == 1,
            _ => k.is_multiple_of(2),
        }
    }

    /// Returns entry i of vector k.
    pub fn entry(&self, k: usize, i: usize) -> f64 {
        let n = self.len();
        let Some(trig) = self.trig else { return self.vectors[k * n + i] };
        self.scale * normalised(trig, n, k, i)
    }

    /// Returns all vectors, one after another.
    pub fn vectors(&self) -> Vec<f64> {
        let n = self.len();
        match self.trig {
            None => self.vectors.clone(),
            Some(_) => (0..n).flat_map(|k| (0..n).map(move |i| self.entry(k, i))).collect(),
        }
    }

    /// Returns the factor 1/√m of trigonometric vectors of length 1.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Returns whether vectors are alternately even and odd, up to rounding.
    fn is_alternating(&self) -> bool {
        let n = self.len();
        (0..n).all(|k| {
            let vector = &self.vectors[k * n..][..n];
            let most = vector.iter().fold(0f64, |most, value| most.max(value.abs()));
            let sign = if k.is_multiple_of(2) { 1.0 } else { -1.0 };
            (0..n / 2).all(|i| (vector[i] - sign * vector[n - 1 - i]).abs() <= 1e-9 * most)
        })
    }
}

fn is_same(a: f64, b: f64) -> bool {
    (a - b).abs() <= ROUNDING * a.abs().max(b.abs())
}

/// Returns the transform of an axis whose masses and couplings are uniform and whose ends have one.
pub fn trig_of(matrix: &AxisMatrix) -> Option<Trig> {
    let AxisMatrix { mass, shift, couplings } = matrix;
    let n = mass.len();
    let t = couplings[0];
    let is_uniform = n > 1
        && t > 0.0
        && mass.iter().all(|&m| is_same(m, mass[0]))
        && couplings[..n - 1].iter().all(|&other| is_same(other, t))
        && shift[1..n - 1].iter().all(|&shift| shift == 0.0);
    if !is_uniform {
        return None;
    }
    let ends = [shift[0], shift[n - 1]];
    if couplings[n - 1] != 0.0 {
        return (is_same(couplings[n - 1], t) && ends == [0.0; 2]).then_some(Trig::Fourier);
    }
    let is_times = |end: f64, times: f64| if times == 0.0 { end == 0.0 } else { is_same(end, times * t) };
    let are = |lower: f64, upper: f64| is_times(ends[0], lower) && is_times(ends[1], upper);
    [
        ([0.0, 0.0], Trig::Cosine),
        ([2.0, 2.0], Trig::Sine),
        ([0.0, 2.0], Trig::CosineFour),
        ([2.0, 0.0], Trig::SineFour),
        ([1.0, 1.0], Trig::SineOne),
    ]
    .into_iter()
    .find_map(|([lower, upper], trig)| are(lower, upper).then_some(trig))
}

/// Returns θ with the eigenvalue 4 sin²(θ/2).
fn angle(trig: Trig, n: usize, k: usize) -> f64 {
    let (k, n) = (k as f64, n as f64);
    match trig {
        Trig::Cosine => PI * k / n,
        Trig::Sine => PI * (k + 1.0) / n,
        Trig::CosineFour | Trig::SineFour => PI * (k + 0.5) / n,
        Trig::SineOne => PI * (k + 1.0) / (n + 1.0),
        Trig::Fourier => 2.0 * PI * (0.5 * (k + 1.0)).floor() / n,
    }
}

/// Returns entry i of vector k of length 1. Angles are reduced as whole numbers first, so that large ones lose no digits.
fn normalised(trig: Trig, n: usize, k: usize, i: usize) -> f64 {
    let wide = n as f64;
    // Returns sin and cos of π a / b.
    let cosine = |a: usize, b: usize| (PI * (a % (2 * b)) as f64 / b as f64).cos();
    let sine = |a: usize, b: usize| (PI * (a % (2 * b)) as f64 / b as f64).sin();
    let length = |is_half: bool| if is_half { (1.0 / wide).sqrt() } else { (2.0 / wide).sqrt() };
    match trig {
        Trig::Cosine => length(k == 0) * cosine(k * (2 * i + 1), 2 * n),
        Trig::Sine => length(k + 1 == n) * sine((k + 1) * (2 * i + 1), 2 * n),
        Trig::CosineFour => length(false) * cosine((2 * k + 1) * (2 * i + 1), 4 * n),
        Trig::SineFour => length(false) * sine((2 * k + 1) * (2 * i + 1), 4 * n),
        Trig::SineOne => (2.0 / (wide + 1.0)).sqrt() * sine((k + 1) * (i + 1), n + 1),
        Trig::Fourier if k == 0 => length(true),
        Trig::Fourier if k + 1 == n && k % 2 == 1 => length(true) * if i.is_multiple_of(2) { 1.0 } else { -1.0 },
        Trig::Fourier if k % 2 == 1 => length(false) * cosine(k.div_ceil(2) * 2 * i, n),
        Trig::Fourier => length(false) * sine(k.div_ceil(2) * 2 * i, n),
    }
}

/// Computes all eigenvalues and eigenvectors of a pencil, with Sᵀ M S = 1.
fn decompose(matrix: &AxisMatrix) -> Option<Eigen> {
    let AxisMatrix { mass, shift, couplings } = matrix;
    let n = mass.len();
    let mut eigen = if n > 1 && couplings[n - 1] != 0.0 {
        periodic::decompose(matrix)?
    } else {
        // K = RᵀR by elimination with row sums, R upper bidiagonal; its singular values keep the digits of small ones.
        let (mut diagonal, mut above, mut carried) = (Vec::with_capacity(n), Vec::with_capacity(n), 0.0);
        for k in 0..n {
            let excess = shift[k] + carried;
            let pivot = excess + couplings[k];
            if !(pivot > 0.0 || (pivot == 0.0 && k + 1 == n)) {
                return None;
            }
            diagonal.push(pivot.sqrt() / mass[k].sqrt());
            if k + 1 < n {
                above.push(-couplings[k] / pivot.sqrt() / mass[k + 1].sqrt());
            }
            carried = if pivot > 0.0 { couplings[k] * excess / pivot } else { 0.0 };
        }
        eigen::of_factor(&diagonal, &above)?
    };
    for vector in eigen.vectors.chunks_exact_mut(n) {
        vector.iter_mut().zip(mass).for_each(|(entry, mass)| *entry /= mass.sqrt());
    }
    if shift.iter().all(|&shift| shift == 0.0) {
        // The eigenvalue of the constant is exactly 0.
        eigen.values[0] = 0.0;
        let entry = 1.0 / mass.iter().sum::<f64>().sqrt();
        eigen.vectors[..n].fill(entry);
    }
    Some(eigen)
}
/// Returns whether a number has no other prime factors than 2, 3 and 5, which fast transforms have special steps for.
pub fn has_small_factors(n: usize) -> bool {
    let mut rest = n;
    while let Some(factor) = [2, 3, 5].into_iter().find(|&factor| rest > 1 && rest.is_multiple_of(factor)) {
        rest /= factor;
    }
    rest == 1
}
