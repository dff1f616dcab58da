//! The extreme eigenvalues of M⁻¹A, from the coefficients of conjugate gradients.

use crate::outcome::Spectrum;

/// The fewest iterations for an estimate: earlier an eigenvalue may not have appeared.
const FEWEST: usize = 6;
/// An eigenvalue that has kept this fraction of itself has settled.
const SETTLED: f64 = 0.8;

/// The tridiagonal matrix that conjugate gradients generate (Golub and Van Loan, Matrix Computations, section 10.2.5 of the third
/// edition):
///
/// T_kk = 1/α_k + β_{k−1}/α_{k−1},  T_{k,k+1} = √β_k / α_k,
///
/// whose extreme eigenvalues converge to those of M⁻¹A on the space that r₀ spans.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lanczos {
    diagonal: Vec<f64>,
    /// Squares of the off-diagonal entries.
    squares: Vec<f64>,
    /// β/α of the last iteration.
    carried: f64,
}

impl Lanczos {
    /// Makes room for `iterations` iterations.
    pub(crate) fn with_capacity(iterations: usize) -> Self {
        let room = || Vec::with_capacity(iterations);
        Self { diagonal: room(), squares: room(), carried: 0.0 }
    }

    /// Discards all coefficients, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.diagonal.clear();
        self.squares.clear();
        self.carried = 0.0;
    }

    /// Notes one iteration: α = ρ/σ and β = ρ_next/ρ.
    pub(crate) fn push(&mut self, alpha: f64, beta: f64) {
        self.diagonal.push(1.0 / alpha + self.carried);
        self.carried = beta / alpha;
        self.squares.push(beta / (alpha * alpha));
    }

    /// Returns the extreme eigenvalues, by bisection with Sturm sequences; `None` without iterations, or where the matrix is not
    /// positive definite.
    pub(crate) fn spectrum(&self) -> Option<Spectrum> {
        self.spectrum_of(self.diagonal.len())
    }

    /// Returns whether the smallest eigenvalue has hardly fallen in the second half of the iterations. Before that it may be far above
    /// the smallest of M⁻¹A: this was so in 1 of 15 of 3 000 random problems with weak preconditioners, and in none of those that pass
    /// this test.
    pub(crate) fn has_settled(&self) -> bool {
        let n = self.diagonal.len();
        let smallest = |n: usize| self.spectrum_of(n).map_or(0.0, |found| found.smallest);
        n >= FEWEST && smallest(n) >= SETTLED * smallest(n.div_ceil(2))
    }

    /// Estimates the extreme eigenvalues from the first `n` iterations; see [`Lanczos::spectrum`].
    fn spectrum_of(&self, n: usize) -> Option<Spectrum> {
        // Gershgorin: all eigenvalues lie below this.
        let off = |k: usize| self.squares[k].sqrt();
        let bound = (0..n)
            .map(|k| self.diagonal[k] + if k > 0 { off(k - 1) } else { 0.0 } + if k + 1 < n { off(k) } else { 0.0 })
            .fold(0.0, f64::max);
        if !(bound > 0.0 && bound.is_finite()) {
            return None;
        }
        let find = |wanted: usize| {
            let (mut low, mut high) = (0.0, bound);
            while high - low > 1e-12 * high {
                let middle = 0.5 * (low + high);
                if self.count_below(middle, n) >= wanted {
                    high = middle;
                } else {
                    low = middle;
                }
                if high < 1e-300 {
                    break;
                }
            }
            0.5 * (low + high)
        };
        Some(Spectrum { smallest: find(1), largest: find(n) })
    }

    /// Returns how many eigenvalues of the first `n` rows lie below x: the negative pivots of T − x.
    fn count_below(&self, x: f64, n: usize) -> usize {
        let (mut count, mut pivot) = (0, 1.0);
        for (k, &d) in self.diagonal[..n].iter().enumerate() {
            let coupling = if k > 0 { self.squares[k - 1] / pivot } else { 0.0 };
            pivot = d - x - coupling;
            if pivot == 0.0 {
                pivot = f64::MIN_POSITIVE;
            }
            count += usize::from(pivot < 0.0);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eigenvalues_of_a_known_matrix() {
        // T = tridiag(−1, 2, −1) of order 50 as a Lanczos matrix: 2 − 2 cos(πm/51).
        let n = 50;
        let lanczos = Lanczos { diagonal: vec![2.0; n], squares: vec![1.0; n], carried: 0.0 };
        let spectrum = lanczos.spectrum().unwrap();
        let eigenvalue = |m: f64| 2.0 - 2.0 * (std::f64::consts::PI * m / 51.0).cos();
        assert!((spectrum.smallest - eigenvalue(1.0)).abs() < 1e-12);
        assert!((spectrum.largest - eigenvalue(50.0)).abs() < 1e-11);
        assert_eq!(Lanczos::default().spectrum(), None);
    }

    #[test]
    fn conjugate_gradients_on_a_diagonal_matrix() {
        // A = diag(1, 10): two iterations find both eigenvalues.
        let (a, mut r) = ([1.0f64, 10.0], [1.0f64, 1.0]);
        let mut p = r;
        let mut lanczos = Lanczos::with_capacity(2);
        let dot = |x: [f64; 2], y: [f64; 2]| x[0] * y[0] + x[1] * y[1];
        for _ in 0..2 {
            let rho = dot(r, r);
            let q = [a[0] * p[0], a[1] * p[1]];
            let alpha = rho / dot(p, q);
            r = [r[0] - alpha * q[0], r[1] - alpha * q[1]];
            let beta = dot(r, r) / rho;
            p = [r[0] + beta * p[0], r[1] + beta * p[1]];
            lanczos.push(alpha, beta);
        }
        let spectrum = lanczos.spectrum().unwrap();
        assert!((spectrum.smallest - 1.0).abs() < 1e-9 && (spectrum.condition() - 10.0).abs() < 1e-8);
        assert!(!lanczos.has_settled(), "after two iterations");
    }

    #[test]
    fn an_eigenvalue_settles_when_it_no_longer_falls() {
        // The smallest of tridiag(−1, 2, −1) falls to a quarter whenever the order doubles; that of tridiag(−1, 4, −1) hardly falls.
        let of = |diagonal| Lanczos { diagonal: vec![diagonal; 40], squares: vec![1.0; 40], carried: 0.0 };
        assert!(!of(2.0).has_settled() && of(4.0).has_settled());
    }
}
