//! Whole solves.

use super::fixture::{problem, stencil};
use crate::backend::TensorProductBackend;
use crate::error::{Error, Result};
use crate::layout::{ArrayView, ArrayViewMut, Shape};
use crate::operator::Guess;
use crate::options::{Method, MultigridOptions, PreconditionerKind, Smoother, SolverOptions, Start};
use crate::outcome::{Outcome, Stop};
use crate::problem::random;
use crate::real::{Precision, Real};
use crate::reference::Reference;
use crate::solver::{Solve, System};
use crate::stencil::TensorProduct;

/// Options in the precision of the suite: what is solved in single precision is asked for less.
fn options<T: Real>() -> SolverOptions {
    SolverOptions {
        precision: T::PRECISION,
        tolerance: if T::PRECISION == Precision::F64 { 1e-9 } else { 1e-4 },
        ..SolverOptions::default()
    }
}

fn solve<B: TensorProductBackend + Clone>(
    backend: &B,
    stencil: &TensorProduct,
    options: &SolverOptions,
    rhs: &[f64],
    u: &mut [f64],
    guess: Guess,
) -> Result<Outcome> {
    let shape = stencil.shape();
    let mut system = System::new(backend, stencil, options)?;
    system.solve(ArrayView::c_order(rhs, shape)?, &mut ArrayViewMut::c_order(u, shape)?, guess, &mut |_| {})
}

fn from_zero<B: TensorProductBackend + Clone>(
    backend: &B,
    stencil: &TensorProduct,
    options: &SolverOptions,
    rhs: &[f64],
) -> (Outcome, Vec<f64>) {
    let mut u = vec![f64::NAN; rhs.len()];
    match solve(backend, stencil, options, rhs, &mut u, Guess::Zero) {
        Ok(outcome) => (outcome, u),
        Err(error) => panic!("{error}"),
    }
}

fn random_rhs(stencil: &TensorProduct) -> Vec<f64> {
    (0..stencil.shape().cells()).map(|n| random(5, n)).collect()
}

fn variants<T: Real>() -> Vec<SolverOptions> {
    let base = options::<T>();
    let mut all = Vec::new();
    for method in [Method::Cg, Method::CgTextbook, Method::Bicgstab] {
        use PreconditionerKind::{Jacobi, Line, Multigrid, None};
        for kind in [None, Jacobi, Line, Multigrid] {
            let mut options = SolverOptions { method, ..base.clone() };
            options.preconditioner.kind = kind;
            all.push(options);
        }
    }
    for smoother in [Smoother::LineJacobi, Smoother::LineRedBlack] {
        for (start, pre, post) in
            [(Start::Zero, 1, 1), (Start::Full, 1, 1), (Start::Zero, 0, 2), (Start::Full, 2, 0), (Start::Zero, 3, 3)]
        {
            let multigrid = MultigridOptions { smoother, start, pre, post, ..MultigridOptions::default() };
            all.push(SolverOptions { multigrid, ..base.clone() });
        }
    }
    if T::PRECISION == Precision::F64 {
        let mixed: Vec<_> = all
            .iter()
            .filter(|options| options.method == Method::Multigrid)
            .map(|options| SolverOptions { precision: Precision::Mixed, ..options.clone() })
            .collect();
        all.extend(mixed);
    }
    all
}

/// Every method reaches the same answer in as many iterations as on the reference, ±1.
pub fn every_method<B: TensorProductBackend + Clone, T: Real>(backend: &B) {
    let stencil = stencil(Shape::new(34, 20, 12));
    let rhs = random_rhs(&stencil);
    for options in variants::<T>() {
        let (outcome, u) = from_zero(backend, &stencil, &options, &rhs);
        let (expected, expected_u) = from_zero(&Reference, &stencil, &options, &rhs);
        assert!(outcome.converged(), "{options:?}: {outcome:?}");
        assert!(outcome.relative_residual <= options.tolerance, "{options:?}: {outcome:?}");
        assert!(outcome.iterations.abs_diff(expected.iterations) <= 1, "{options:?}: {outcome:?} {expected:?}");
        assert_eq!(outcome.history.len(), outcome.iterations + 1);
        let distance: f64 = u.iter().zip(&expected_u).map(|(a, b)| (a - b).powi(2)).sum();
        let norm: f64 = expected_u.iter().map(|b| b * b).sum();
        assert!(distance.sqrt() <= 100.0 * options.tolerance * norm.sqrt(), "{options:?}: {distance} {norm}");
    }
}

/// One cell, one column, one row.
pub fn size_one<B: TensorProductBackend + Clone, T: Real>(backend: &B) {
    for (nx, ny, nz) in [(1, 1, 1), (1, 1, 20), (9, 1, 1), (1, 6, 3)] {
        let stencil = stencil(Shape::new(nx, ny, nz));
        let rhs = random_rhs(&stencil);
        for options in variants::<T>() {
            let (outcome, _) = from_zero(backend, &stencil, &options, &rhs);
            assert!(outcome.converged(), "{nx}×{ny}×{nz} {options:?}: {outcome:?}");
        }
    }
}

/// b = 0 is solved by u = 0 at once.
pub fn zero_right_hand_side<B: TensorProductBackend + Clone, T: Real>(backend: &B) {
    let stencil = stencil(Shape::new(8, 6, 5));
    for options in variants::<T>() {
        let (outcome, u) = from_zero(backend, &stencil, &options, &[0.0; 240]);
        assert_eq!((outcome.stop, outcome.iterations), (Stop::Converged, 0), "{options:?}");
        assert_eq!(outcome.relative_residual, 0.0);
        assert!(u.iter().all(|&v| v == 0.0));
    }
}

/// A first guess that is good enough is left alone.
pub fn already_converged<B: TensorProductBackend + Clone, T: Real>(backend: &B) {
    let stencil = stencil(Shape::new(8, 6, 5));
    let rhs = random_rhs(&stencil);
    let strict = SolverOptions { tolerance: 1e-12, ..SolverOptions::default() };
    let (_, exact) = from_zero(backend, &stencil, &strict, &rhs);
    for options in variants::<T>() {
        let options = SolverOptions { norm: crate::options::Norm::Rhs, ..options };
        let mut u = exact.clone();
        let outcome = match solve(backend, &stencil, &options, &rhs, &mut u, Guess::Given) {
            Ok(outcome) => outcome,
            Err(error) => panic!("{error}"),
        };
        assert_eq!((outcome.stop, outcome.iterations), (Stop::Converged, 0), "{options:?}: {outcome:?}");
        assert_eq!(u, exact);
    }
}

/// NaN and infinity in the input are named, not computed with.
pub fn not_finite<B: TensorProductBackend + Clone, T: Real>(backend: &B) {
    let stencil = stencil(Shape::new(8, 6, 5));
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut rhs = random_rhs(&stencil);
        rhs[1 + 8 * (2 + 6 * 3)] = bad;
        let mut u = vec![0.0; rhs.len()];
        for guess in [Guess::Zero, Guess::Given] {
            match solve(backend, &stencil, &options::<T>(), &rhs, &mut u, guess) {
                Err(Error::NotFinite { i: 1, j: 2, k: 3, .. }) => {}
                other => panic!("{other:?}"),
            }
        }
        let mut guess = vec![0.0; rhs.len()];
        guess[7] = bad;
        let rhs = random_rhs(&stencil);
        match solve(backend, &stencil, &options::<T>(), &rhs, &mut guess, Guess::Given) {
            Err(Error::NotFinite { i: 7, j: 0, k: 0, .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Starting half way takes fewer iterations and ends at the same tolerance.
pub fn first_guess<B: TensorProductBackend + Clone, T: Real>(backend: &B) {
    let stencil = stencil(Shape::new(34, 20, 12));
    let rhs = random_rhs(&stencil);
    for options in variants::<T>() {
        let options = SolverOptions { norm: crate::options::Norm::Rhs, ..options };
        let (from_nothing, mut u) = from_zero(backend, &stencil, &options, &rhs);
        for v in &mut u {
            *v *= 1.001;
        }
        match solve(backend, &stencil, &options, &rhs, &mut u, Guess::Given) {
            Ok(outcome) => {
                assert!(outcome.converged(), "{options:?}: {outcome:?}");
                assert!(outcome.iterations <= from_nothing.iterations, "{options:?}: {outcome:?}");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Advection: BiCGStab and multigrid solve it, conjugate gradients refuse it.
pub fn not_symmetric<B: TensorProductBackend + Clone, T: Real>(backend: &B) {
    let problem = crate::problem::Helmholtz { advection: [3.0, -2.0, 0.0], ..problem(Shape::new(24, 16, 6)) };
    let stencil = problem.stencil().unwrap_or_else(|error| panic!("{error}"));
    assert!(!stencil.is_symmetric());
    let rhs = random_rhs(&stencil);
    for method in [Method::Bicgstab, Method::Multigrid] {
        // Thin layers leave single precision few digits of this one.
        let tolerance = if T::PRECISION == Precision::F64 { 1e-7 } else { 0.1 };
        let (outcome, _) = from_zero(backend, &stencil, &SolverOptions { method, tolerance, ..options::<T>() }, &rhs);
        assert!(outcome.converged(), "{method:?}: {outcome:?}");
    }
    let mut u = vec![0.0; rhs.len()];
    let cg = SolverOptions { method: Method::Cg, ..options::<T>() };
    assert!(matches!(solve(backend, &stencil, &cg, &rhs, &mut u, Guess::Zero), Err(Error::Invalid { .. })));
}

/// The iteration limit is an outcome, with the residual that was reached.
pub fn too_few_iterations<B: TensorProductBackend + Clone, T: Real>(backend: &B) {
    let stencil = stencil(Shape::new(34, 20, 12));
    let rhs = random_rhs(&stencil);
    for options in variants::<T>() {
        let options = SolverOptions { max_iterations: 1, ..options };
        let (outcome, _) = from_zero(backend, &stencil, &options, &rhs);
        if outcome.stop == Stop::MaxIterations {
            assert_eq!(outcome.iterations, 1, "{options:?}");
            assert!(outcome.relative_residual > options.tolerance);
            let seen = outcome.history[1];
            assert!((outcome.relative_residual - seen).abs() <= 1e-3 * seen + 1e-5, "{options:?}: {outcome:?}");
        } else {
            assert!(outcome.converged(), "{options:?}: {outcome:?}");
        }
    }
}

/// A tolerance below rounding never passes for converged.
pub fn unreachable_tolerance<B: TensorProductBackend + Clone, T: Real>(backend: &B) {
    let stencil = problem(Shape::new(16, 16, 40)).stencil().unwrap_or_else(|error| panic!("{error}"));
    let rhs = random_rhs(&stencil);
    for options in variants::<T>() {
        let options = SolverOptions { tolerance: 1e-15, max_iterations: 200, ..options };
        let (outcome, _) = from_zero(backend, &stencil, &options, &rhs);
        assert_eq!(outcome.converged(), outcome.relative_residual <= 1e-15, "{options:?}: {outcome:?}");
    }
}
