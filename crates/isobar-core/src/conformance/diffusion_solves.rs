//! Whole solves with the diffusion operator.

use std::sync::Arc;

use super::diffusion::{ok, stencils};
use crate::backend::DiffusionBackend;
use crate::layout::{ArrayView, ArrayViewMut, Shape};
use crate::operator::Guess;
use crate::options::{CoarseSolve, Compatibility, Method, Norm, PreconditionerKind, SolverOptions, Stripes};
use crate::outcome::Outcome;
use crate::problem::random;
use crate::real::{Precision, Real};
use crate::reference::Reference;
use crate::solver::{Solve, System};
use crate::stencil::{Coefficients, Diffusion, Side};

fn solve<B: DiffusionBackend + Clone>(
    backend: &B,
    stencil: &Diffusion,
    options: &SolverOptions,
    rhs: &[f64],
) -> (Outcome, Vec<f64>) {
    let shape = stencil.shape();
    let mut u = vec![f64::NAN; rhs.len()];
    let mut system = ok(System::new(backend, stencil, options));
    let mut view = ok(ArrayViewMut::c_order(&mut u, shape));
    let outcome = ok(system.solve(ok(ArrayView::c_order(rhs, shape)), &mut view, Guess::Zero, &mut |_| {}));
    (outcome, u)
}

/// Methods and preconditioners that the diffusion operator offers.
fn variants<T: Real>() -> Vec<SolverOptions> {
    let base = SolverOptions {
        precision: T::PRECISION,
        tolerance: if T::PRECISION == Precision::F64 { 1e-9 } else { 1e-3 },
        max_iterations: 5000,
        compatibility: Compatibility::Project,
        ..SolverOptions::default()
    };
    let mut all = Vec::new();
    use PreconditionerKind::{BlockIc, IncompletePoisson, Jacobi, Line, Multigrid, Neumann, None};
    for kind in [None, Jacobi, Line, Multigrid, BlockIc, IncompletePoisson, Neumann] {
        for method in [Method::Cg, Method::DeflatedCg, Method::Bicgstab] {
            let mut options = SolverOptions { method, ..base.clone() };
            options.preconditioner.kind = kind;
            options.deflation.stripes = Stripes::Blocks([3, 2, 1]);
            all.push(options);
        }
    }
    for order in [0, 1, 3, 4] {
        let mut options = SolverOptions { method: Method::Cg, norm: Norm::Scaled, ..base.clone() };
        options.preconditioner.kind = Neumann;
        options.preconditioner.order = order;
        all.push(options);
    }
    for (stripes, coarse) in [
        (Stripes::HalfRows, CoarseSolve::Triangular),
        (Stripes::HalfRows, CoarseSolve::Inverse),
        (Stripes::Bodies, CoarseSolve::Auto),
    ] {
        let mut options = SolverOptions { method: Method::DeflatedCg, ..base.clone() };
        options.deflation.stripes = stripes;
        options.deflation.coarse = coarse;
        all.push(options);
    }
    if T::PRECISION == Precision::F64 {
        let mut mixed = SolverOptions { method: Method::Cg, precision: Precision::Mixed, ..base.clone() };
        mixed.preconditioner.kind = Multigrid;
        all.push(mixed);
    }
    all.push(base);
    all
}

/// Every method reaches the reference's answer, anchored or floating, with inactive cells, in as many
/// iterations give or take a few.
pub fn diffusion_every_method<B: DiffusionBackend + Clone, T: Real>(backend: &B) {
    let shape = Shape::new(21, 14, 6);
    let stencils = stencils(Shape::new(20, 14, 6));
    let odd = stencils_of_odd(shape);
    for stencil in [&stencils[1], &stencils[5], &stencils[9], &odd] {
        let rhs: Vec<f64> = (0..stencil.shape().cells()).map(|n| random(5, n)).collect();
        for options in variants::<T>() {
            let (outcome, u) = solve(backend, stencil, &options, &rhs);
            let (expected, expected_u) = solve(&Reference, stencil, &options, &rhs);
            assert!(outcome.converged(), "{options:?}: {outcome:?}");
            // The residual of BiCGStab jumps about, so that rounding decides when it is small enough.
            let slack = 2 + expected.iterations / if options.method == Method::Bicgstab { 5 } else { 20 };
            assert!(outcome.iterations.abs_diff(expected.iterations) <= slack, "{options:?}: {outcome:?} {expected:?}");
            assert_eq!(outcome.removed.is_some(), expected.removed.is_some());
            let distance: f64 = u.iter().zip(&expected_u).map(|(a, b)| (a - b).powi(2)).sum();
            let norm: f64 = expected_u.iter().map(|b| b * b).sum();
            assert!(distance.sqrt() <= 1e3 * options.tolerance * norm.sqrt(), "{options:?}: {distance} {norm}");
        }
    }
}

/// No side fixed, nothing else either: the constant must be taken care of.
fn stencils_of_odd(shape: Shape) -> Diffusion {
    let field: Arc<[f64]> = (0..shape.cells()).map(|n| if n % 5 == 0 { 0.0 } else { 1.5 + random(1, n) }).collect();
    let cells = Coefficients::Cells { fields: vec![field], axes: [(0, 1.0); 3] };
    ok(Diffusion::new(shape, cells, None, [[Side::Closed; 2]; 3]))
}

/// Grids of one cell, of one column, of one row, and nothing to solve.
pub fn diffusion_small<B: DiffusionBackend + Clone, T: Real>(backend: &B) {
    for (nx, ny, nz) in [(1, 1, 1), (1, 1, 9), (9, 1, 1), (1, 6, 3), (2, 2, 1)] {
        let shape = Shape::new(nx, ny, nz);
        for stencil in stencils(shape) {
            for zero in [true, false] {
                let rhs: Vec<f64> = (0..shape.cells()).map(|n| if zero { 0.0 } else { random(6, n) }).collect();
                for options in variants::<T>() {
                    if options.method == Method::DeflatedCg || no_cell_is_active(&stencil) {
                        continue;
                    }
                    let (outcome, u) = solve(backend, &stencil, &options, &rhs);
                    assert!(outcome.converged(), "{shape} {stencil:?} {rhs:?} {options:?}: {outcome:?}");
                    assert!(u.iter().all(|v| v.is_finite()));
                    assert!(!zero || u.iter().all(|&v| v == 0.0));
                }
            }
        }
    }
}

fn no_cell_is_active(stencil: &Diffusion) -> bool {
    !stencil.cells().any(|at| stencil.is_active(at))
}

/// A right-hand side that no u can produce is refused, unless it shall be projected.
pub fn diffusion_compatibility<B: DiffusionBackend + Clone, T: Real>(backend: &B) {
    let shape = Shape::new(8, 6, 4);
    let field: Arc<[f64]> = vec![1.0; shape.cells()].into();
    let cells = Coefficients::Cells { fields: vec![field], axes: [(0, 1.0); 3] };
    let stencil = ok(Diffusion::new(shape, cells, None, [[Side::Closed; 2]; 3]));
    let mut options = SolverOptions { method: Method::Cg, ..SolverOptions::default() };
    let ones = vec![1.0; shape.cells()];
    let mut u = vec![0.0; shape.cells()];
    let mut system = ok(System::new(backend, &stencil, &options));
    let refused = system.solve(
        ok(ArrayView::c_order(&ones, shape)),
        &mut ok(ArrayViewMut::c_order(&mut u, shape)),
        Guess::Zero,
        &mut |_| {},
    );
    let message = refused.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(message.contains("192 cells") && message.contains("project"), "{message}");

    // Balanced: solved, with mean zero.
    let mut balanced: Vec<f64> = (0..shape.cells()).map(|n| random(7, n)).collect();
    let mean = balanced.iter().sum::<f64>() / balanced.len() as f64;
    balanced.iter_mut().for_each(|b| *b -= mean);
    let (outcome, u) = solve(backend, &stencil, &options, &balanced);
    assert!(outcome.converged() && outcome.removed.is_some_and(|removed| removed < 1e-12), "{outcome:?}");
    assert!(u.iter().sum::<f64>().abs() < 1e-8 * u.iter().map(|v| v.abs()).sum::<f64>());

    // Projected: the same answer as without the mean.
    options.compatibility = Compatibility::Project;
    let shifted: Vec<f64> = balanced.iter().map(|b| b + 3.0).collect();
    let (outcome, projected) = solve(backend, &stencil, &options, &shifted);
    assert!(outcome.converged() && outcome.removed.is_some_and(|removed| removed > 0.9), "{outcome:?}");
    let largest = u.iter().fold(0.0f64, |a, b| a.max(b.abs()));
    assert!(u.iter().zip(&projected).all(|(a, b)| (a - b).abs() < 1e-3 * largest));
}
