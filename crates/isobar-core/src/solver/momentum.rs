//! The momentum of Jacobi's sweeps, estimated during the iteration.

use crate::layout::Shape;

/// The fraction of a predicted gap in convergence factors that confirms it: a sum of many vectors is slower at first than the
/// slowest alone.
const KEPT: f64 = 0.3;
/// The smallest gap of the spectral radius to 1.
const LEAST_GAP: f64 = 1e-13;

/// The momentum of sweeps u += (1 + m) ω D⁻¹(f − A u) + m (u − u′), by an estimate ρ of the spectral radius of 1 − ω D⁻¹A:
///
/// m = (ρ / (1 + √(1 − ρ²)))²
///
/// is the limit of Chebyshev's semi-iteration (Golub & Varga 1961; Frankel 1950), and every vector with an eigenvalue μ of at most
/// ρ then falls by √m a sweep, so that √κ sweeps do the work of κ sweeps without it. The others fall by the larger root z of z² −
/// (1 + m) μ z + m = 0: more slowly, but they fall as long as |μ| < 1. An estimate that is too low therefore shows in the
/// residual, and μ = (z² + m) / ((1 + m) z) with the observed factor z is the next one (Hageman & Young 1981, chapter 5). An
/// estimate that is too high does not show; the first is that of −Δ with u = 0 on all sides.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Momentum {
    pub(super) radius: f64,
    /// Sweeps since the estimate, and since the residual was noted.
    sweeps: usize,
    noted_at: usize,
    noted: f64,
}

impl Momentum {
    /// Estimates for a grid and sweeps with this ω.
    pub(super) fn new(shape: Shape, relaxation: f64) -> Self {
        let sizes = shape.extents().into_iter().filter(|&n| n > 1);
        // 1 − cos(π/n), without cancellation.
        let gaps: Vec<f64> = sizes.map(|n| 2.0 * (std::f64::consts::PI / (2.0 * n as f64)).sin().powi(2)).collect();
        // A single cell has no neighbours to wait for.
        let gap = if gaps.is_empty() { 1.0 } else { relaxation * gaps.iter().sum::<f64>() / gaps.len() as f64 };
        Self { radius: (1.0 - gap).clamp(0.0, 1.0 - LEAST_GAP), sweeps: 0, noted_at: 0, noted: f64::INFINITY }
    }

    /// Returns m.
    pub(super) fn momentum(&self) -> f64 {
        let rho = self.radius;
        (rho / (1.0 + ((1.0 - rho) * (1.0 + rho)).sqrt())).powi(2)
    }

    /// Starts another run, unrelated to earlier residuals.
    pub(super) fn begin(&mut self) {
        (self.sweeps, self.noted_at, self.noted) = (0, 0, f64::INFINITY);
    }

    /// Notes ‖r‖ before `sweeps` sweeps; returns whether the estimate has changed.
    pub(super) fn note(&mut self, norm: f64, sweeps: usize) -> bool {
        let momentum = self.momentum();
        let rate = momentum.sqrt();
        // After a jump the residual falls like n √mⁿ, which is near its asymptotic factor after two of these.
        let window = (1.0 / (1.0 - rate)).ceil() as usize + 2;
        self.sweeps += sweeps;
        if self.sweeps < self.noted_at + window {
            return false;
        }
        let seen = (norm / self.noted).powf(1.0 / (self.sweeps - self.noted_at) as f64);
        let is_warm = self.noted_at >= window;
        (self.noted_at, self.noted) = (self.sweeps, norm);
        if !is_warm || !seen.is_finite() || 1.0 - seen >= KEPT * (1.0 - rate) {
            return false;
        }
        // A growing residual gives no convergence factor.
        let seen = seen.min(1.0 - KEPT * KEPT * (1.0 - rate));
        let radius = ((seen * seen + momentum) / ((1.0 + momentum) * seen)).min(1.0 - LEAST_GAP);
        if radius <= self.radius {
            return false;
        }
        self.radius = radius;
        self.begin();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs sweeps on one vector of each eigenvalue, in the eigenvectors' coordinates, to 1e-8.
    fn sweeps(momentum: &mut Momentum, eigenvalues: &[f64]) -> usize {
        let mut now = vec![1.0; eigenvalues.len()];
        let mut before = now.clone();
        for n in 0..1_000_000 {
            let norm = now.iter().zip(eigenvalues).map(|(e, mu)| ((1.0 - mu) * e).powi(2)).sum::<f64>().sqrt();
            if norm < 1e-8 {
                return n;
            }
            momentum.note(norm, 1);
            let m = momentum.momentum();
            for ((now, before), mu) in now.iter_mut().zip(&mut before).zip(eigenvalues) {
                let next = *now + (1.0 + m) * (mu - 1.0) * *now + m * (*now - *before);
                (*before, *now) = (*now, next);
            }
        }
        usize::MAX
    }

    #[test]
    fn a_line_of_cells_takes_as_many_sweeps_as_it_is_long() {
        for n in [64, 256] {
            let eigenvalues: Vec<f64> =
                (1..=n).map(|k| (std::f64::consts::PI * k as f64 / (n + 1) as f64).cos()).collect();
            let mut momentum = Momentum::new(Shape::new(n, 1, 1), 1.0);
            let taken = sweeps(&mut momentum, &eigenvalues);
            // ln(1e-8) / ln √m is 5.9 n, and n √mⁿ takes longer than √mⁿ; the plain method takes 3.7 n².
            assert!(taken < 12 * n && taken > 5 * n, "{n}: {taken}");
        }
    }

    #[test]
    fn an_estimate_that_is_too_low_is_raised() {
        let eigenvalues: Vec<f64> = [0.9, 0.5, 0.0, -0.5, -0.9].into_iter().chain([1.0 - 1e-5]).collect();
        let mut momentum = Momentum::new(Shape::new(20, 20, 1), 1.0);
        let first = momentum.radius;
        let taken = sweeps(&mut momentum, &eigenvalues);
        assert!(first < 0.99 && momentum.radius > 1.0 - 1e-4, "{first} {}", momentum.radius);
        // With ρ known from the start it is 4 100.
        assert!(taken < 15_000, "{taken}");
    }

    #[test]
    fn one_cell_has_none() {
        assert_eq!(
            Momentum::new(Shape::new(1, 1, 1), 1.0).momentum(),
            Momentum::new(Shape::new(1, 1, 1), 0.5).momentum()
        );
        assert!(Momentum::new(Shape::new(1, 1, 1), 1.0).momentum() < 1.0);
        assert_eq!(Momentum::new(Shape::new(1, 1, 1), 1.0).momentum(), 0.0);
    }
}
