//! Sweeps of a multigrid cycle on each of its levels.

use std::f64::consts::PI;
use std::sync::Arc;

use crate::operator::{LineSmoother, Relaxation, Transfer};
use crate::options::{MultigridOptions, Smoother};
use crate::stencil::Hierarchy;
use crate::{Backend, Colour, Real};

/// The degree of Chebyshev's polynomials.
const DEGREE: usize = 2;
/// The largest eigenvalue of M⁻¹A over the smallest that a Chebyshev sweep damps; coarser grids reduce the others.
const DAMPED: f64 = 4.0;

/// The sweeps of a cycle on a level.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    /// Sweeps before the coarse correction.
    pub(super) pre: Vec<Relaxation>,
    /// Sweeps after it.
    pub(super) post: Vec<Relaxation>,
    /// Sweeps instead of both on the coarsest grid.
    pub(super) coarse: Vec<Relaxation>,
    /// One single sweep, after steps in single precision.
    pub(super) single: Relaxation,
}

/// Returns the relaxation of each level of a hierarchy before the coarse correction.
pub(crate) fn relaxations<B: Backend, S, T: Real>(
    hierarchy: &Hierarchy<B, S, T>,
    options: &MultigridOptions,
) -> Vec<Relaxation> {
    Recipe::of_levels(hierarchy, options).into_iter().map(|recipe| recipe.single).collect()
}

impl Recipe {
    /// Returns the recipes of all levels of a hierarchy; the first may relax points and the others lines.
    pub(super) fn of_levels<B: Backend, S, T: Real>(
        hierarchy: &Hierarchy<B, S, T>,
        options: &MultigridOptions,
    ) -> Vec<Self> {
        let is_symmetric =
            |transfers: &[Arc<dyn Transfer<B, T>>]| transfers.iter().all(|transfer| transfer.is_adjoint());
        let (by_points, by_lines) = hierarchy.transfers.split_at(hierarchy.by_points);
        let points = MultigridOptions { smoother: Smoother::PointRedBlack, ..options.clone() };
        let lines = MultigridOptions { smoother: Smoother::LineRedBlack, relaxation: None, ..options.clone() };
        let of_level = |(n, level): (usize, &Arc<dyn LineSmoother<B, T>>)| {
            let colours = level.colours();
            let recipe = match hierarchy.by_points {
                0 => Self::new(options, colours, is_symmetric(&hierarchy.transfers)),
                count if n < count => Self::new(&points, colours, is_symmetric(by_points)),
                _ => Self::new(&lines, colours, is_symmetric(by_lines)),
            };
            if n == 0 && !hierarchy.transfers.is_empty() { recipe.returning() } else { recipe }
        };
        hierarchy.levels.iter().enumerate().map(of_level).collect()
    }

    fn new(options: &MultigridOptions, colours: usize, is_symmetric: bool) -> Self {
        let &MultigridOptions { pre, post, coarse_sweeps, .. } = options;
        // This bounds the eigenvalues of M⁻¹A.
        let largest = colours as f64;
        let mut rho = options.relaxation();
        let sweep = |smoother, rho| Relaxation { smoother, rho, first: Colour::Red, returns: false };
        if options.smoother == Smoother::Chebyshev {
            let sweeps = chebyshev(largest).map(|factor| sweep(Smoother::LineJacobi, rho * factor));
            return Self {
                pre: sweeps.repeat(pre),
                post: sweeps.repeat(post),
                coarse: sweeps.repeat(coarse_sweeps),
                single: sweep(Smoother::LineJacobi, rho * 2.0 * DAMPED / (largest * (DAMPED + 1.0))),
            };
        }
        if options.smoother == Smoother::LineJacobi {
            // ρ is for columns in two colours; with more, eigenvalues may be larger.
            rho *= 2.0 / largest;
        }
        let single = sweep(options.smoother.or_lines(), rho);
        let back = Relaxation { first: Colour::Black, ..single };
        let post_sweep = if is_symmetric { back } else { single };
        // Alternating orders, which a symmetric cycle needs and others may have.
        let coarse = (0..coarse_sweeps).map(|n| if n % 2 == 0 { single } else { post_sweep }).collect();
        Self { pre: vec![single; pre], post: vec![post_sweep; post], coarse, single }
    }

    /// Returns the recipe of a finest level, with black, red and black columns instead of red–black before a coarse correction and black–red
    /// after it; see [`Relaxation::returns`].
    fn returning(self) -> Self {
        match (&self.pre[..], &self.post[..]) {
            ([pre], [post]) if pre.smoother == Smoother::LineRedBlack && pre.first != post.first => {
                let sweep = Relaxation { returns: true, ..*post };
                Self { pre: vec![sweep], post: vec![sweep], single: sweep, ..self }
            }
            _ => self,
        }
    }
}

/// Returns whether sweeps reverse the order of others, as the second half of a symmetric cycle does.
pub(super) fn mirrors(there: &[Relaxation], back: &[Relaxation]) -> bool {
    // Sweeps of Jacobi's kind are polynomials in M⁻¹A, which commute.
    let commutes = there.iter().chain(back).all(|sweep| sweep.smoother == Smoother::LineJacobi);
    there.len() == back.len()
        && (commutes || there.iter().rev().zip(back).all(|(a, b)| a.last() == b.first && a.returns == b.returns))
}

/// Returns ρ of the sweeps that together are Chebyshev's polynomial, the smallest on [λ/4, λ] of those that are 1 at 0: the inverses of its
/// roots.
fn chebyshev(largest: f64) -> [f64; DEGREE] {
    let smallest = largest / DAMPED;
    let (centre, radius) = (0.5 * (largest + smallest), 0.5 * (largest - smallest));
    std::array::from_fn(|n| 1.0 / (centre + radius * (PI * (n as f64 + 0.5) / DEGREE as f64).cos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_are_chebyshevs_polynomial() {
        // 1 at 0, and on [λ/4, λ] at most 1 / T₂(5/3) = 9/41, which it reaches at both ends and in the middle.
        for largest in [2.0, 4.0] {
            let value = |x: f64| chebyshev(largest).iter().map(|rho| 1.0 - rho * x).product::<f64>();
            let within = (0..=300).map(|n| value(largest * (0.25 + 0.75 * f64::from(n) / 300.0)).abs());
            assert!(within.fold(0.0, f64::max) <= 9.0 / 41.0 + 1e-14);
            for (x, expected) in [(0.25, 9.0 / 41.0), (0.625, -9.0 / 41.0), (1.0, 9.0 / 41.0)] {
                assert!((value(largest * x) - expected).abs() < 1e-14, "{x}");
            }
        }
    }
}
