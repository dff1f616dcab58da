//! Whole solves, and bad input.

use std::ops::ControlFlow;

use super::arrays::{distance, noise, solve, solve_again, solve_into, without_mean};
use super::complete::Complete;
use super::fixture::{Sample, floating, helmholtz, ok, reference_solve, sample, sample_of_mass};
use crate::options::{Acceleration, Overlap};
use crate::prelude::*;
use crate::solver::Progress;

/// Returns options in the precision of the suite: single precision gets a larger tolerance.
pub(super) fn options<T: Real>() -> SolverOptions {
    SolverOptions {
        precision: T::PRECISION,
        tolerance: if T::PRECISION == Precision::F64 { 1e-9 } else { 1e-4 },
        ..SolverOptions::default()
    }
}

/// Returns options for floating grids and simple preconditioners, in the precision of the suite.
pub(super) fn loose_options<T: Real>() -> SolverOptions {
    let tolerance = if T::PRECISION == Precision::F64 { 1e-9 } else { 1e-3 };
    SolverOptions { tolerance, max_iterations: 5000, compatibility: Compatibility::Project, ..options::<T>() }
}

fn random_rhs(shape: Shape) -> Vec<f64> {
    noise(shape.cells(), 5)
}

fn in_mixed_precision(options: &SolverOptions) -> SolverOptions {
    SolverOptions { precision: Precision::Mixed, ..options.clone() }
}

/// Returns whether the method is multigrid or modes, without another iteration around its cycles.
fn has_cycles_alone(options: &SolverOptions) -> bool {
    matches!(options.method, Method::Auto | Method::Modes)
}

/// Returns methods for the tensor-product operator.
fn tensor_product_variants<T: Real>() -> Vec<SolverOptions> {
    let base = options::<T>();
    let mut all = Vec::new();
    for method in [Method::Cg, Method::Bicgstab] {
        use Preconditioner::{Jacobi, Line, Mic, Modes, Multigrid, None, SsorAi};
        let mic = Mic { relaxation: 1.0, block: Option::None };
        for preconditioner in [None, Jacobi, Line, Multigrid, Modes, SsorAi, mic] {
            all.push(SolverOptions { method, preconditioner, ..base.clone() });
        }
    }
    for smoother in [Smoother::LineJacobi, Smoother::LineRedBlack, Smoother::Chebyshev] {
        for (start, pre, post) in
            [(Start::Zero, 1, 1), (Start::Full, 1, 1), (Start::Zero, 0, 2), (Start::Full, 2, 0), (Start::Zero, 3, 3)]
        {
            let multigrid = MultigridOptions { smoother, start, pre, post, ..MultigridOptions::default() };
            all.push(SolverOptions { multigrid, ..base.clone() });
        }
    }
    for count in [Count::Auto, Count::Given(1)] {
        let modes = ModesOptions { count, ..ModesOptions::default() };
        all.push(SolverOptions { method: Method::Modes, modes, ..base.clone() });
    }
    if T::PRECISION == Precision::F64 {
        let cycles = all.iter().filter(|options| has_cycles_alone(options));
        all.extend(cycles.map(in_mixed_precision).collect::<Vec<_>>());
    }
    all
}

/// Returns methods and preconditioners for the diffusion operator.
fn diffusion_variants<T: Real>() -> Vec<SolverOptions> {
    use Preconditioner::{BlockIc, Ic, IncompletePoisson, Jacobi, Line, Mic, Multigrid, Neumann, None};
    let base = loose_options::<T>();
    let deflated = |stripes, coarse| Some(Deflation { stripes, coarse });
    let mut all = Vec::new();
    for preconditioner in [
        None,
        Jacobi,
        Line,
        Multigrid,
        BlockIc { block: Option::None },
        Ic { block: Option::None },
        Mic { relaxation: 1.0, block: Option::None },
        IncompletePoisson { scaling: true },
        Neumann { order: 2 },
    ] {
        let plain = SolverOptions { preconditioner, ..base.clone() };
        let deflation = deflated(Stripes::Blocks([3, 2, 1]), CoarseSolve::Auto);
        all.push(SolverOptions { method: Method::Cg, ..plain.clone() });
        all.push(SolverOptions { method: Method::Cg, deflation, ..plain.clone() });
        all.push(SolverOptions { method: Method::Bicgstab, ..plain });
    }
    for order in [0, 1, 3, 4] {
        let preconditioner = Neumann { order };
        all.push(SolverOptions { method: Method::Cg, norm: Norm::Scaled, preconditioner, ..base.clone() });
    }
    for (stripes, coarse) in [
        (Stripes::HalfRows, CoarseSolve::Triangular),
        (Stripes::HalfRows, CoarseSolve::Inverse),
        (Stripes::Bodies, CoarseSolve::Auto),
        (Stripes::LargeBodies, CoarseSolve::Auto),
    ] {
        let deflation = deflated(stripes, coarse);
        all.push(SolverOptions { method: Method::Cg, preconditioner: Line, deflation, ..base.clone() });
    }
    if T::PRECISION == Precision::F64 {
        all.push(in_mixed_precision(&base));
    }
    all.push(SolverOptions { method: Method::Multigrid, ..base.clone() });
    let multigrid = MultigridOptions { smoother: Smoother::Chebyshev, ..MultigridOptions::default() };
    let cycles = SolverOptions { method: Method::Multigrid, multigrid, ..base };
    all.extend([SolverOptions { method: Method::Cg, preconditioner: Multigrid, ..cycles.clone() }, cycles]);
    all
}

/// Checks that every variant reaches the reference's solution, in about as many iterations.
pub(super) fn like_the_reference<B: Supports<S>, S: Stencil>(
    backend: &B,
    name: &str,
    stencil: &S,
    variants: &[SolverOptions],
    slack: impl Fn(&SolverOptions, usize) -> usize,
) where
    Reference: Supports<S>,
{
    let rhs = random_rhs(stencil.shape());
    for options in variants {
        let (outcome, u) = solve(backend, stencil, options, &rhs);
        let reference = reference_solve(name, stencil, options, &rhs);
        let (expected, expected_u) = &*reference;
        assert!(outcome.converged(), "{options:?}: {outcome:?}");
        assert!(outcome.relative_residual <= options.tolerance, "{options:?}: {outcome:?}");
        let slack = slack(options, expected.iterations);
        assert!(outcome.iterations <= expected.iterations + slack, "{options:?}: {outcome:?} {expected:?}");
        // A GPU solves exactly on larger coarse grids.
        let may_be_fewer = backend.device().kind == "cuda" || outcome.iterations + slack >= expected.iterations;
        assert!(may_be_fewer, "{options:?}: {outcome:?} {expected:?}");
        assert_eq!(outcome.history.len(), outcome.iterations + 1);
        assert_eq!(outcome.removed.is_some(), expected.removed.is_some());
        let apart = distance(&u, expected_u);
        assert!(apart <= 1e3 * options.tolerance, "{options:?}: {apart:e}");
    }
}

/// Checks every method for the tensor-product operator, ±1 iteration.
pub(super) fn tensor_product<B: Complete, T: Real>(backend: &B) {
    let stencil = tensor_product_stencil();
    like_the_reference(backend, "tensor product", &stencil, &tensor_product_variants::<T>(), |_, _| 1);
    // Odd in every direction.
    let odd = super::fixture::sample(Shape::new(33, 17, 5));
    let cycles: Vec<_> = tensor_product_variants::<T>().into_iter().filter(has_cycles_alone).collect();
    like_the_reference(backend, "odd tensor product", &odd, &cycles, |_, _| 1);
}

/// Checks a = 0, as in Poisson's equation, on grids with and without padding behind their columns.
pub(super) fn without_a_mass<B: Complete, T: Real>(backend: &B) {
    for (nx, ny, nz) in [(7, 6, 5), (13, 9, 4), (32, 8, 8)] {
        let stencil = sample_of_mass(Shape::new(nx, ny, nz), 0.0);
        let rhs = random_rhs(Stencil::shape(&stencil));
        let base = options::<T>();
        for options in [
            SolverOptions { method: Method::Multigrid, ..base.clone() },
            SolverOptions { method: Method::Modes, ..base.clone() },
            SolverOptions { method: Method::Cg, preconditioner: Preconditioner::Line, ..base },
        ] {
            let outcome = solve(backend, &stencil, &options, &rhs).0;
            assert!(outcome.converged() && outcome.notes.is_empty(), "{nx}×{ny}×{nz}, {options:?}: {outcome:?}");
        }
    }
}

fn tensor_product_stencil() -> crate::stencil::TensorProduct {
    super::fixture::sample(Shape::new(34, 20, 12))
}

/// Checks every method for the diffusion operator, anchored or floating, with inactive cells.
pub(super) fn diffusion<B: Complete, T: Real>(backend: &B) {
    let samples = Diffusion::samples(Shape::new(20, 14, 6));
    let odd = ("floating".to_owned(), floating(Shape::new(21, 14, 6)));
    for (name, stencil) in [&samples[1], &samples[5], &samples[9], &odd] {
        // The residual of BiCGStab is erratic, so that rounding decides when it is small enough.
        like_the_reference(backend, name, stencil, &diffusion_variants::<T>(), |options, expected| {
            2 + expected / if options.method == Method::Bicgstab { 5 } else { 20 }
        });
    }
}

/// Checks Jacobi's method, by sweeps and by tiles, where a reaction keeps it short.
pub(super) fn jacobi<B: Complete, T: Real>(backend: &B) {
    let samples = Diffusion::samples(Shape::new(20, 14, 6));
    let (name, stencil) = &samples[1];
    let tiles = |sub_iterations, overlap| JacobiOptions {
        sub_iterations: Count::Given(sub_iterations),
        overlap: Overlap::All(overlap),
        tile: Some(vec![8, 7, 4]),
        ..JacobiOptions::default()
    };
    let damped = JacobiOptions { relaxation: Some(0.8), ..tiles(1, 0) };
    let exact = JacobiOptions { exact: true, overlap: Overlap::Auto, ..tiles(2, 0) };
    let accelerated = JacobiOptions { acceleration: Acceleration::Chebyshev, ..JacobiOptions::default() };
    let variants: Vec<_> = [tiles(1, 0), damped, tiles(3, 0), tiles(4, 2), exact, accelerated]
        .into_iter()
        .map(|jacobi| SolverOptions { method: Method::Jacobi, jacobi, max_iterations: 5000, ..options::<T>() })
        .collect();
    like_the_reference(backend, name, stencil, &variants, |_, expected| 1 + expected / 100);
    let on_faces = [&variants[0], &variants[5]].map(SolverOptions::clone);
    like_the_reference(backend, "tensor product", &tensor_product_stencil(), &on_faces, |_, expected| {
        1 + expected / 100
    });
}

/// Checks cycles that relax points, for constant and smooth coefficients, and their replacement for others.
pub(super) fn points<B: Complete, T: Real>(backend: &B) {
    use crate::stencil::Side;
    let mut points = options::<T>();
    points.compatibility = Compatibility::Project;
    points.multigrid.smoother = Smoother::PointRedBlack;
    let cycles = SolverOptions { method: Method::Multigrid, ..points.clone() };
    let preconditioner = SolverOptions { method: Method::Cg, preconditioner: Preconditioner::Multigrid, ..points };
    let mut full = cycles.clone();
    full.multigrid.start = Start::Full;
    let mut variants =
        vec![cycles, preconditioner, full, SolverOptions { compatibility: Compatibility::Project, ..options::<T>() }];
    if T::PRECISION == Precision::F64 {
        let mixed = variants.iter().filter(|options| options.multigrid.start == Start::Zero);
        variants.extend(mixed.map(in_mixed_precision).collect::<Vec<_>>());
    }
    let smooth = |[i, j, k]: [f64; 3]| (0.3 * i + 1.0).sin() * (0.2 * j).cos() + 0.05 * k;
    let kinds: [(&str, [[Side; 2]; 3], &dyn Fn([f64; 3]) -> f64); 4] = [
        ("constant, fixed", [[Side::Fixed; 2]; 3], &|_| 2.0),
        ("constant, bottom fixed", [[Side::Closed; 2], [Side::Closed; 2], [Side::Fixed, Side::Closed]], &|_| 1.0),
        ("smooth, rings and a floating mean", [[Side::Periodic; 2], [Side::Closed; 2], [Side::Closed; 2]], &|at| {
            (0.3 * smooth(at)).exp()
        }),
        ("rough, fixed", [[Side::Fixed; 2]; 3], &|[i, j, _]| if (i + j) % 7.0 < 3.0 { 1.0 } else { 300.0 }),
    ];
    for (shape, (name, sides, kappa)) in
        [Shape::new(16, 12, 9), Shape::new(32, 17, 1)].into_iter().flat_map(|s| kinds.map(|k| (s, k)))
    {
        let field: Vec<f64> = shape.places().map(|at| kappa(at.map(|n| n as f64))).collect();
        let sides = if shape.nz == 1 { [sides[0], sides[2], [Side::Closed; 2]] } else { sides };
        let stencil = ok(Diffusion::of_field(shape, field, [1.0; 3], None, sides));
        // Rough coefficients are left to the automatic choice.
        let only = if name.starts_with("rough") { &variants[3..4] } else { &variants[..] };
        like_the_reference(backend, &format!("{name}, {shape}"), &stencil, only, |_, expected| 1 + expected / 10);
    }
}

/// Checks Krylov methods with every entry stored.
pub(super) fn stored_matrix<B: Complete, T: Real>(backend: &B) {
    let stencil = ok(super::fixture::sample(Shape::new(12, 10, 8)).stored());
    let variants: Vec<_> = tensor_product_variants::<T>()
        .into_iter()
        .filter(|options| {
            use Preconditioner::{Jacobi, Line, None};
            !has_cycles_alone(options) && matches!(options.preconditioner, None | Jacobi | Line)
        })
        .collect();
    like_the_reference(backend, "stored matrix", &stencil, &variants, |_, _| 1);
    let (outcome, _) = solve(backend, &stencil, &options::<T>(), &random_rhs(stencil.shape()));
    assert!(outcome.converged(), "{outcome:?}");
    let cycles = SolverOptions { method: Method::Multigrid, ..options::<T>() };
    assert!(matches!(System::new(backend, &stencil, &cycles), Err(Error::Unsupported(_))));
    for preconditioner in [Preconditioner::SsorAi, Preconditioner::Mic { relaxation: 1.0, block: None }] {
        let by_faces = SolverOptions { method: Method::Cg, preconditioner, ..options::<T>() };
        assert!(matches!(System::new(backend, &stencil, &by_faces), Err(Error::Unsupported(_))));
    }
}

/// Checks one cell, one column, one row.
pub(super) fn small_grids<B: Complete, T: Real>(backend: &B) {
    for (nx, ny, nz) in [(1, 1, 1), (1, 1, 9), (9, 1, 1), (1, 6, 3), (2, 2, 1)] {
        let shape = Shape::new(nx, ny, nz);
        for zero in [true, false] {
            let rhs = if zero { vec![0.0; shape.cells()] } else { random_rhs(shape) };
            let check = |what: &str, (outcome, u): (crate::outcome::Outcome, Vec<f64>)| {
                assert!(outcome.converged(), "{shape} {what}: {outcome:?}");
                assert!(u.iter().all(|v| v.is_finite()) && (!zero || u.iter().all(|&v| v == 0.0)), "{shape} {what}");
            };
            let stencil = sample(shape);
            for options in tensor_product_variants::<T>() {
                check(&format!("{options:?}"), solve(backend, &stencil, &options, &rhs));
            }
            for (name, stencil) in Diffusion::samples(shape) {
                let is_dead = !stencil.cells().any(|at| stencil.is_active(at));
                for options in diffusion_variants::<T>() {
                    if options.deflation.is_none() && !is_dead {
                        check(&format!("{name} {options:?}"), solve(backend, &stencil, &options, &rhs));
                    }
                }
            }
        }
    }
}

/// Checks that b = 0 is solved by u = 0 at once, for any first guess and norm.
pub(super) fn zero_right_hand_side<B: Complete, T: Real>(backend: &B) {
    let stencil = sample(Shape::new(8, 6, 5));
    let rhs = vec![0.0; 240];
    for options in tensor_product_variants::<T>() {
        let (outcome, u) = solve(backend, &stencil, &options, &rhs);
        assert_eq!((outcome.stop, outcome.iterations), (Stop::Converged, 0), "{options:?}");
        assert_eq!(outcome.relative_residual, 0.0);
        assert!(u.iter().all(|&v| v == 0.0));
        let mut u = random_rhs(stencil.shape());
        let options = SolverOptions { norm: Norm::Rhs, ..options };
        let outcome = ok(solve_into(backend, &stencil, &options, &rhs, &mut u, Guess::Given));
        assert!(outcome.converged() && u.iter().all(|&v| v == 0.0), "{options:?}: {outcome:?}");
    }
}

/// Checks that right-hand sides too large or small for sums of squares are solved like others, bit for bit.
pub(super) fn extreme_right_hand_sides<B: Complete, T: Real>(backend: &B) {
    let stencil = sample(Shape::new(8, 6, 5));
    let rhs = random_rhs(stencil.shape());
    let first: Vec<f64> = rhs.iter().rev().copied().collect();
    for options in tensor_product_variants::<T>() {
        for guess in [Guess::Zero, Guess::Given] {
            let mut expected = first.clone();
            let usual = ok(solve_into(backend, &stencil, &options, &rhs, &mut expected, guess));
            for exponent in [-900, -550, -100, 100, 550, 900] {
                let factor = 2f64.powi(exponent);
                let times = |v: &[f64]| -> Vec<f64> { v.iter().map(|v| v * factor).collect() };
                let mut u = times(&first);
                let outcome = ok(solve_into(backend, &stencil, &options, &times(&rhs), &mut u, guess));
                assert_eq!(outcome.history, usual.history, "2^{exponent} {options:?}");
                assert_eq!((outcome.stop, outcome.is_returned), (usual.stop, usual.is_returned));
                assert_eq!(u, times(&expected), "2^{exponent} {options:?}");
            }
        }
    }
}

/// Checks that a first guess that is good enough is unchanged.
pub(super) fn already_converged<B: Complete, T: Real>(backend: &B) {
    let stencil = sample(Shape::new(8, 6, 5));
    let rhs = random_rhs(stencil.shape());
    let strict = SolverOptions { tolerance: 1e-12, ..SolverOptions::default() };
    let (_, exact) = solve(backend, &stencil, &strict, &rhs);
    for options in tensor_product_variants::<T>() {
        let options = SolverOptions { norm: Norm::Rhs, ..options };
        let mut u = exact.clone();
        let outcome = ok(solve_into(backend, &stencil, &options, &rhs, &mut u, Guess::Given));
        assert_eq!((outcome.stop, outcome.iterations), (Stop::Converged, 0), "{options:?}: {outcome:?}");
        assert_eq!(u, exact);
    }
}

/// Checks that NaN and infinity in the input are reported, not computed with.
pub(super) fn not_finite<B: Complete, T: Real>(backend: &B) {
    let stencil = sample(Shape::new(8, 6, 5));
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut rhs = random_rhs(stencil.shape());
        rhs[1 + 8 * (2 + 6 * 3)] = bad;
        let mut u = vec![0.0; rhs.len()];
        for guess in [Guess::Zero, Guess::Given] {
            match solve_into(backend, &stencil, &options::<T>(), &rhs, &mut u, guess) {
                Err(Error::NotFinite { i: 1, j: 2, k: 3, .. }) => {}
                other => panic!("{other:?}"),
            }
        }
        let mut guess = vec![0.0; rhs.len()];
        guess[7] = bad;
        let rhs = random_rhs(stencil.shape());
        match solve_into(backend, &stencil, &options::<T>(), &rhs, &mut guess, Guess::Given) {
            Err(Error::NotFinite { i: 7, j: 0, k: 0, .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Checks that a better first guess takes no more iterations and ends at the same tolerance.
pub(super) fn first_guess<B: Complete, T: Real>(backend: &B) {
    let stencil = tensor_product_stencil();
    let rhs = random_rhs(stencil.shape());
    for options in tensor_product_variants::<T>() {
        let options = SolverOptions { norm: Norm::Rhs, ..options };
        let (from_nothing, mut u) = solve(backend, &stencil, &options, &rhs);
        for v in &mut u {
            *v *= 1.001;
        }
        let outcome = ok(solve_into(backend, &stencil, &options, &rhs, &mut u, Guess::Given));
        assert!(outcome.converged(), "{options:?}: {outcome:?}");
        assert!(outcome.iterations <= from_nothing.iterations, "{options:?}: {outcome:?}");
    }
}

/// Checks that a solve does not depend on earlier ones, even if they met NaN or were stopped.
pub(super) fn after_a_failure<B: Complete, T: Real>(backend: &B) {
    let stencil = tensor_product_stencil();
    let (shape, rhs) = (stencil.shape(), random_rhs(stencil.shape()));
    for options in tensor_product_variants::<T>() {
        let mut system = ok(System::new(backend, &stencil, &options));
        let mut solve = |rhs: &[f64], u: &mut [f64], guess| solve_again(&mut system, shape, rhs, u, guess);
        let (mut first, mut second) = (vec![f64::NAN; rhs.len()], vec![f64::NAN; rhs.len()]);
        let outcome = ok(solve(&rhs, &mut first, Guess::Zero));
        assert!(solve(&rhs, &mut vec![f64::NAN; rhs.len()], Guess::Given).is_err());
        let mut bad = rhs.clone();
        bad[17] = f64::INFINITY;
        assert!(solve(&bad, &mut second, Guess::Zero).is_err());
        let again = ok(solve(&rhs, &mut second, Guess::Zero));
        assert_eq!(outcome.history, again.history, "{options:?}");
        assert!(first == second, "{options:?}");
    }
}

/// Checks advection: BiCGStab and multigrid solve it, conjugate gradients refuse it.
pub(super) fn not_symmetric<B: Complete, T: Real>(backend: &B) {
    let problem = crate::problem::Helmholtz { advection: [3.0, -2.0, 0.0], ..helmholtz(Shape::new(24, 16, 6)) };
    let stencil = ok(problem.stencil());
    assert!(!stencil.is_symmetric());
    let rhs = random_rhs(stencil.shape());
    // Thin layers leave single precision few digits of this one.
    let tolerance = if T::PRECISION == Precision::F64 { 1e-7 } else { 0.1 };
    for method in [Method::Bicgstab, Method::Multigrid] {
        let (outcome, _) = solve(backend, &stencil, &SolverOptions { method, tolerance, ..options::<T>() }, &rhs);
        assert!(outcome.converged(), "{method:?}: {outcome:?}");
    }
    let cg = SolverOptions { method: Method::Cg, ..options::<T>() };
    assert!(matches!(System::new(backend, &stencil, &cg), Err(Error::Invalid { .. })));
    assert!(matches!(System::new(backend, &ok(stencil.stored()), &cg), Err(Error::Invalid { .. })));
}

/// Checks that the iteration limit is an outcome, with the final residual.
pub(super) fn too_few_iterations<B: Complete, T: Real>(backend: &B) {
    let stencil = tensor_product_stencil();
    let rhs = random_rhs(stencil.shape());
    for options in tensor_product_variants::<T>() {
        let options = SolverOptions { max_iterations: 1, ..options };
        let (outcome, _) = solve(backend, &stencil, &options, &rhs);
        if outcome.stop == Stop::MaxIterations {
            assert_eq!(outcome.iterations, 1, "{options:?}");
            assert!(outcome.relative_residual > options.tolerance && outcome.advice.is_some());
            let seen = outcome.history[1];
            assert!((outcome.relative_residual - seen).abs() <= 1e-3 * seen + 1e-5, "{options:?}: {outcome:?}");
        } else {
            assert!(outcome.converged(), "{options:?}: {outcome:?}");
        }
    }
}

/// Checks that an observer can end a solve, which returns its current iterate.
pub(super) fn interrupted<B: Complete, T: Real>(backend: &B) {
    let stencil = tensor_product_stencil();
    let shape = stencil.shape();
    let rhs = random_rhs(shape);
    for options in tensor_product_variants::<T>() {
        let mut system = ok(System::new(backend, &stencil, &options));
        let mut u = vec![f64::NAN; rhs.len()];
        let (b, target) = (ok(ArrayView::c_order(&rhs, shape)), ok(ArrayViewMut::c_order(&mut u, shape)));
        let mut stop_at_two = |seen: &Progress| {
            if seen.iteration >= 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let outcome = ok(system.solve(b.into(), target.into(), Guess::Zero, &mut stop_at_two));
        assert!(u.iter().all(|v| v.is_finite()));
        if !outcome.converged() {
            assert_eq!((outcome.stop, outcome.iterations), (Stop::Interrupted, 2), "{options:?}");
            let seen = outcome.history[2];
            assert!((outcome.relative_residual - seen).abs() <= 1e-3 * seen + 1e-5, "{options:?}: {outcome:?}");
        }
    }
}

/// Checks that a tolerance below rounding never counts as converged.
pub(super) fn unreachable_tolerance<B: Complete, T: Real>(backend: &B) {
    let stencil = ok(helmholtz(Shape::new(16, 16, 40)).stencil());
    let rhs = random_rhs(stencil.shape());
    for options in tensor_product_variants::<T>() {
        let options = SolverOptions { tolerance: 1e-15, max_iterations: 200, ..options };
        let (outcome, _) = solve(backend, &stencil, &options, &rhs);
        assert_eq!(outcome.converged(), outcome.relative_residual <= 1e-15, "{options:?}: {outcome:?}");
    }
}

/// Checks that a right-hand side that no u can produce is refused, unless it is to be projected.
pub(super) fn compatibility<B: Complete, T: Real>(backend: &B) {
    let shape = Shape::new(8, 6, 4);
    let stencil = ok(Diffusion::of_field(shape, vec![1.0; shape.cells()], [1.0; 3], None, [[Side::Closed; 2]; 3]));
    let mut options = SolverOptions { method: Method::Cg, preconditioner: Preconditioner::Line, ..options::<T>() };
    let ones = vec![1.0; shape.cells()];
    let refused = solve_into(backend, &stencil, &options, &ones, &mut vec![0.0; ones.len()], Guess::Zero);
    let message = refused.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(message.contains("192 cells") && message.contains("project"), "{message}");

    // Balanced: solved, with mean zero.
    let balanced = without_mean(noise(shape.cells(), 7));
    let (outcome, u) = solve(backend, &stencil, &options, &balanced);
    assert!(outcome.converged() && outcome.removed.is_some_and(|removed| removed < 1e-12), "{outcome:?}");
    assert!(u.iter().sum::<f64>().abs() < 1e-8 * u.iter().map(|v| v.abs()).sum::<f64>());

    // Projected: the solution is that without the mean; and a constant vanishes.
    options.compatibility = Compatibility::Project;
    let shifted: Vec<f64> = balanced.iter().map(|b| b + 3.0).collect();
    let (outcome, projected) = solve(backend, &stencil, &options, &shifted);
    assert!(outcome.converged() && outcome.removed.is_some_and(|removed| removed > 0.9), "{outcome:?}");
    let largest = u.iter().fold(0.0f64, |a, b| a.max(b.abs()));
    assert!(u.iter().zip(&projected).all(|(a, b)| (a - b).abs() < 1e-3 * largest));
    let (outcome, nothing) = solve(backend, &stencil, &options, &ones);
    assert!(outcome.converged() && nothing.iter().all(|&u| u == 0.0), "{outcome:?}");
}
