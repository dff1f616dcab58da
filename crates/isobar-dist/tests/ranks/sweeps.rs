//! Sweeps of Jacobi's method on ranks, compared with one.

use isobar_core::options::Acceleration;
use isobar_core::prelude::*;

use crate::solves::{Devices, Like, check_like, solve_alone};

/// Returns plain, damped and accelerated sweeps.
fn sweeps() -> Vec<SolverOptions> {
    let plain = JacobiOptions { sub_iterations: Count::Given(1), ..JacobiOptions::default() };
    let base = SolverOptions {
        method: Method::Jacobi,
        tolerance: 1e-3,
        max_iterations: 120,
        jacobi: plain.clone(),
        ..SolverOptions::default()
    };
    let with = |jacobi: JacobiOptions| SolverOptions { jacobi, ..base.clone() };
    vec![
        base.clone(),
        with(JacobiOptions { relaxation: Some(0.8), ..plain.clone() }),
        with(JacobiOptions { acceleration: Acceleration::Chebyshev, ..plain }),
        SolverOptions { precision: Precision::F32, ..base.clone() },
    ]
}

/// Checks for the sweeps of one rank, its residuals and its numbers: only the norm is rounded in another order.
pub(crate) fn check_sweeps<S: Stencil>(
    backend: &impl Devices<Backend: Supports<S>>,
    stencil: &S,
    rhs: &[f64],
    ranks: &[usize],
    is_floating: bool,
) {
    for options in sweeps() {
        let (alone, u) = solve_alone(&backend.of(None), stencil, &options, rhs, None);
        // The estimated spectral radius is rounded like norms, and so are means that are removed.
        let is_exact = options.jacobi.acceleration == Acceleration::None && !is_floating;
        let like = Like { iterations: 0, residuals: 1e-7, compared: usize::MAX, u: if is_exact { 0.0 } else { 1e-9 } };
        check_like(backend, ("", stencil, rhs), ranks, &options, (&alone, &u), like);
    }
}
