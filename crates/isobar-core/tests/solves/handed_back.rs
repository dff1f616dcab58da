//! The verdict of a solve is about the caller's array, and a solver as a preconditioner is a fixed symmetric map.

use isobar_core::array::Source;
use isobar_core::conformance::arrays::{self, cg, distance, noise, norm, residual, solve_again, without_mean};
use isobar_core::grid::HorizontalField;
use isobar_core::options::Judge;
use isobar_core::prelude::*;
use isobar_core::problem::materials;

use crate::heat;

const CLOSED: [Boundary; 2] = [Boundary::Neumann(0.0); 2];
const FIXED: [Boundary; 2] = [Boundary::Dirichlet(0.0); 2];
const PERIODIC: [Boundary; 2] = [Boundary::Periodic; 2];

fn rock(shape: Shape, sigma: f64, boundary: [[Boundary; 2]; 3]) -> Diffusion {
    let field = materials::noise(shape, sigma, 3).unwrap();
    DiffusionProblem { boundary, ..DiffusionProblem::new(shape, Coefficient::Isotropic(field)) }.stencil().unwrap()
}

/// Solves for an array of either precision, and returns u in double precision.
fn solve(
    system: &mut System<Reference, Diffusion>,
    shape: Shape,
    b: &[f64],
    first: Option<&[f64]>,
    is_single: bool,
) -> (Outcome, Vec<f64>) {
    let guess = if first.is_some() { Guess::Given } else { Guess::Zero };
    // An array without a first guess need not have numbers.
    let mut u = first.map_or_else(|| vec![f64::NAN; b.len()], <[f64]>::to_vec);
    if !is_single {
        return (solve_again(system, shape, b, &mut u, guess).unwrap(), u);
    }
    let rhs = source(b, shape);
    let mut single: Vec<f32> = u.iter().map(|&u| u as f32).collect();
    let target = ArrayViewMut::c_order(&mut single, shape).unwrap();
    let outcome = system.solve(rhs, target.into(), guess, &mut ignore).unwrap();
    (outcome, single.into_iter().map(f64::from).collect())
}

fn source(values: &[f64], shape: Shape) -> Source<'_> {
    ArrayView::c_order(values, shape).unwrap().into()
}

/// A first guess with a large constant, which closed sides leave open, is as good as without it.
#[test]
fn a_constant_of_the_first_guess_does_not_count() {
    let shape = Shape::new(16, 12, 10);
    let stencil = rock(shape, 1.0, [CLOSED; 3]);
    let mut b = noise(shape.cells(), 6);
    let mean = b.iter().sum::<f64>() / b.len() as f64;
    b.iter_mut().for_each(|b| *b -= mean);
    for method in [Method::Auto, Method::Multigrid] {
        let options = SolverOptions { method, tolerance: 1e-9, norm: Norm::Rhs, ..SolverOptions::default() };
        let mut system = System::new(&Reference, &stencil, &options).unwrap();
        let (_, u) = solve(&mut system, shape, &b, None, false);
        for constant in [1e6, 1e10] {
            let first: Vec<f64> = u.iter().map(|u| u + constant).collect();
            let (again, _) = solve(&mut system, shape, &b, Some(&first), false);
            assert!(again.converged(), "{constant:e} {again:?}");
        }
    }
}

/// Arrays in single precision are judged with their rounding, unless the caller wants the unrounded solution judged.
#[test]
fn arrays_in_single_precision_are_judged_as_they_are() {
    let shape = Shape::new(24, 20, 1);
    let stencil = rock(shape, 1.0, [FIXED, FIXED, CLOSED]);
    let b = noise(shape.cells(), 5);
    for (tolerance, judge) in
        [(1e-3, Judge::Array), (1e-9, Judge::Array), (1e-9, Judge::Internal), (1e-3, Judge::Internal)]
    {
        let options = SolverOptions { tolerance, judge, norm: Norm::Rhs, ..SolverOptions::default() };
        let mut system = System::new(&Reference, &stencil, &options).unwrap();
        let (outcome, u) = solve(&mut system, shape, &b, None, true);
        let found = residual(&stencil, &b, &u);
        let what = format!("{tolerance:e} {judge:?} {found:e} {outcome:?}");
        match judge {
            Judge::Array => {
                assert!((found - outcome.relative_residual).abs() < 1e-3 * found, "{what}");
                assert_eq!(outcome.converged(), found <= tolerance, "{what}");
            }
            Judge::Internal => assert!(outcome.converged(), "{what}"),
        }
        if judge == Judge::Array && tolerance == 1e-9 {
            assert_eq!(outcome.stop, Stop::Stagnated, "{what}");
            assert!(outcome.advice.unwrap().contains("solver.judge"), "{tolerance:e}");
            // The returned array, as a first guess, has the reported residual.
            let (again, _) = solve(&mut system, shape, &b, Some(&u), true);
            assert!(again.iterations > 0 && again.stop == Stop::Stagnated, "{again:?}");
        }
        // Repeats this with an array in double precision.
        let (outcome, u) = solve(&mut system, shape, &b, None, false);
        assert!(outcome.converged() && residual(&stencil, &b, &u) <= 1.001 * tolerance, "{outcome:?}");
    }
    // Numbers beyond single precision are no solution.
    let mut system = System::new(&Reference, &stencil, &SolverOptions::default()).unwrap();
    let large: Vec<f64> = b.iter().map(|b| b * 1e45).collect();
    let (outcome, u) = solve(&mut system, shape, &large, None, true);
    assert_eq!((outcome.stop, outcome.is_returned), (Stop::Breakdown, false), "{outcome:?}");
    assert!(outcome.advice.unwrap().contains("range of single precision") && u.iter().all(|&u| u == 0.0));
    // Nor are small numbers that round to 0.
    let small: Vec<f64> = b.iter().map(|b| b * 1e-200).collect();
    let (outcome, u) = solve(&mut system, shape, &small, None, true);
    assert!(!outcome.converged() && u.iter().all(|&u| u == 0.0), "{outcome:?}");
    assert!((outcome.relative_residual - 1.0).abs() < 1e-12, "{outcome:?}");
}

/// Where the solution does not fit into double precision, the array has the first guess, and the residual is that of it.
#[test]
fn the_residual_is_that_of_the_first_guess_where_there_is_no_solution() {
    let shape = Shape::new(8, 8, 8);
    for (size, rhs) in [(1e-160, 1e200), (1e200, 1e-200)] {
        let field = (0..shape.cells()).map(|n| size * (1.0 + (n % 5) as f64)).collect();
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(field));
        problem.boundary = [FIXED; 3];
        let stencil = problem.stencil().unwrap();
        for method in [Method::Auto, Method::Multigrid, Method::Bicgstab, Method::Jacobi] {
            let mut system =
                System::new(&Reference, &stencil, &SolverOptions { method, ..SolverOptions::default() }).unwrap();
            let (outcome, u) = solve(&mut system, shape, &vec![rhs; shape.cells()], None, false);
            assert!(!outcome.is_returned && u.iter().all(|&u| u == 0.0), "{outcome:?}");
            assert_eq!((outcome.stop, outcome.relative_residual), (Stop::Breakdown, 1.0));
            assert!(outcome.advice.unwrap().contains("range of double precision"));
        }
    }
}

/// Periodic directions of an odd number of cells are judged correctly, with tolerances near rounding.
#[test]
fn odd_periodic_directions_are_judged_as_they_are_handed_back() {
    for (shape, boundary) in [
        (Shape::new(17, 11, 1), [PERIODIC, PERIODIC, CLOSED]),
        (Shape::new(11, 10, 5), [PERIODIC, FIXED, FIXED]),
        (Shape::new(6, 9, 3), [CLOSED, PERIODIC, PERIODIC]),
    ] {
        for sigma in [0.5, 4.0] {
            let mut problem =
                DiffusionProblem::new(shape, Coefficient::Isotropic(materials::noise(shape, sigma, 7).unwrap()));
            problem.boundary = boundary;
            problem.reaction = Some(vec![1e-4; shape.cells()]);
            let stencil = problem.stencil().unwrap();
            let b = noise(shape.cells(), 8);
            let try_at = |tolerance: f64| {
                let options = SolverOptions { tolerance, norm: Norm::Rhs, ..SolverOptions::default() };
                let (outcome, u) =
                    solve(&mut System::new(&Reference, &stencil, &options).unwrap(), shape, &b, None, false);
                let found = residual(&stencil, &b, &u);
                let what = format!("{shape} {sigma} {tolerance:e}: {found:e} {outcome:?}");
                assert!((found - outcome.relative_residual).abs() < 0.1 * found + 1e-15, "{what}");
                assert!(!outcome.converged() || found <= 1.01 * tolerance, "{what}");
                found
            };
            let floor = try_at(1e-16);
            for times in [1.02, 1.5, 3.0, 100.0] {
                try_at(times * floor);
            }
        }
    }
}

/// A run that continues from a state equals the uninterrupted run, bit for bit.
#[test]
fn odd_periodic_directions_continue_bit_for_bit() {
    let shape = Shape::new(7, 5, 2);
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(materials::noise(shape, 1.0, 2).unwrap()));
    problem.boundary = [PERIODIC, PERIODIC, FIXED];
    let run = Heat::in_cells(&problem, None).unwrap();
    for guess in [StepGuess::Previous, StepGuess::Extrapolated, StepGuess::Ones] {
        let options = HeatOptions { guess, ..heat::options(0.1, 0.6, Scheme::CrankNicolson) };
        let stepper = || HeatStepper::new(&Reference, run.clone(), options, &SolverOptions::default()).unwrap();
        let read = |stepper: &mut HeatStepper<Reference>, before: bool| {
            let mut u = vec![0.0; shape.cells()];
            let target = ArrayViewMut::c_order(&mut u, shape).unwrap().into();
            if before { stepper.read_before(target).map(drop) } else { stepper.read(target) }.unwrap();
            u
        };
        let mut whole = stepper();
        whole.set(source(&noise(shape.cells(), 4), shape), None, 0).unwrap();
        let mut states = Vec::new();
        for _ in 0..6 {
            assert!(whole.step(&mut ignore).unwrap().is_taken);
            states.push((read(&mut whole, false), read(&mut whole, true)));
        }
        let mut continued = stepper();
        let (state, before) = &states[2];
        continued.set(source(state, shape), Some(source(before, shape)), 3).unwrap();
        for expected in &states[3..] {
            assert!(continued.step(&mut ignore).unwrap().is_taken);
            assert_eq!(read(&mut continued, false), expected.0, "{guess:?}");
        }
    }
}

/// Every method's fixed map is linear, and symmetric, for smooth and rough vectors, and for singular matrices too.
#[test]
fn a_solver_is_a_linear_symmetric_preconditioner() {
    let mut points = SolverOptions { method: Method::Multigrid, ..SolverOptions::default() };
    points.multigrid.smoother = Smoother::PointRedBlack;
    let mut chebyshev = cg(Preconditioner::Multigrid);
    (chebyshev.multigrid.smoother, chebyshev.multigrid.coarse_sweeps) = (Smoother::Chebyshev, 1);
    let ways = [
        SolverOptions::default(),
        points,
        chebyshev,
        cg(Preconditioner::Multigrid),
        SolverOptions { precision: Precision::Mixed, ..cg(Preconditioner::Multigrid) },
        SolverOptions { precision: Precision::F32, ..cg(Preconditioner::Multigrid) },
        cg(Preconditioner::Ic { block: None }),
        cg(Preconditioner::Line),
        SolverOptions { method: Method::Bicgstab, ..cg(Preconditioner::Jacobi) },
        SolverOptions { deflation: Some(Deflation::default()), ..cg(Preconditioner::SsorAi) },
        SolverOptions { method: Method::Jacobi, ..SolverOptions::default() },
    ];
    for (shape, boundary) in [
        (Shape::new(12, 10, 6), [FIXED, FIXED, FIXED]),
        (Shape::new(17, 16, 1), [FIXED, CLOSED, CLOSED]),
        (Shape::new(9, 8, 3), [PERIODIC, CLOSED, CLOSED]),
    ] {
        for sigma in [0.0, 2.0] {
            let stencil = rock(shape, sigma, boundary);
            for options in &ways {
                let options = SolverOptions { compatibility: Compatibility::Project, ..options.clone() };
                let mut system = System::new(&Reference, &stencil, &options).unwrap();
                let (nan, mut z) = (vec![f64::NAN; shape.cells()], vec![0.0; shape.cells()]);
                let target = ArrayViewMut::c_order(&mut z, shape).unwrap().into();
                let refused = Solve::precondition(&mut system, source(&nan, shape), target, 1);
                assert!(matches!(refused, Err(Error::NotFinite { .. })), "{refused:?}");
                for iterations in [1, 3] {
                    let mut apply = |r: &[f64]| {
                        let mut z = vec![f64::NAN; r.len()];
                        let target = ArrayViewMut::c_order(&mut z, shape).unwrap().into();
                        let r = ArrayView::c_order(r, shape).unwrap().into();
                        Solve::precondition(&mut system, r, target, iterations).unwrap();
                        z
                    };
                    let (smooth, rough) = (vec![1.0; shape.cells()], noise(shape.cells(), 9));
                    let sum: Vec<f64> = smooth.iter().zip(&rough).map(|(a, b)| 1e3 * a - 2.0 * b).collect();
                    let [of_smooth, of_rough, of_sum] = [&smooth, &rough, &sum].map(|r| apply(r));
                    let what =
                        format!("{shape} {sigma} {:?} {:?} {iterations}", options.method, options.preconditioner);
                    let single = options.precision != Precision::F64
                        || system.description().notes.iter().any(|note| note.contains("single precision"));
                    let digits = if single { 3e-5 } else { 1e-11 };
                    let expected: Vec<f64> = of_smooth.iter().zip(&of_rough).map(|(a, b)| 1e3 * a - 2.0 * b).collect();
                    let apart = distance(&of_sum, &expected);
                    assert!(apart <= digits, "{what}: not linear, {apart:e}");
                    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
                    let (left, right) = (dot(&rough, &of_smooth), dot(&smooth, &of_rough));
                    let size = norm(&smooth) * norm(&of_rough).max(norm(&of_smooth));
                    assert!((left - right).abs() <= digits * size, "{what}: not symmetric, {left} {right}");
                    assert!(dot(&rough, &of_rough) > 0.0, "{what}: not positive");
                    if !matches!(boundary, [PERIODIC, ..]) {
                        assert!(norm(&of_smooth) > 0.0, "{what}: nothing for a smooth vector");
                    }
                }
            }
        }
    }
}

/// A first guess far from the solution does not count as divergence.
#[test]
fn a_first_guess_far_away_is_no_divergence() {
    let shape = Shape::new(10, 12, 1);
    let stencil = rock(shape, 1.0, [FIXED, CLOSED, CLOSED]);
    for method in [Method::Auto, Method::Cg, Method::Multigrid, Method::Bicgstab, Method::Jacobi] {
        let options = SolverOptions {
            method,
            norm: Norm::Rhs,
            tolerance: 1e-5,
            max_iterations: 5000,
            ..SolverOptions::default()
        };
        let mut system = System::new(&Reference, &stencil, &options).unwrap();
        for scale in [1e-6, 1e-10, 1e-12, 1e-20] {
            let b: Vec<f64> = noise(shape.cells(), 1).iter().map(|b| b * scale).collect();
            let (outcome, u) = solve(&mut system, shape, &b, Some(&noise(shape.cells(), 2)), false);
            let found = residual(&stencil, &b, &u);
            assert!(outcome.iterations > 0 && outcome.stop != Stop::Diverged, "{method:?} {scale:e} {outcome:?}");
            assert!(
                (found - outcome.relative_residual).abs() <= 1e-2 * found + 1e-9,
                "{method:?} {scale:e} {found:e} {outcome:?}"
            );
            assert!(outcome.converged() || scale < 1e-10, "{method:?} {scale:e} {outcome:?}");
        }
    }
}

/// A first guess that leaves more than the right-hand side is not used: a former solution, where coefficients of a large contrast have moved.
#[test]
fn a_first_guess_worse_than_zero_is_left_out() {
    let shape = Shape::new(12, 10, 4);
    let stencil = rock(shape, 6.0, [FIXED, CLOSED, CLOSED]);
    let b = noise(shape.cells(), 1);
    let options = SolverOptions { norm: Norm::Rhs, tolerance: 1e-8, ..SolverOptions::default() };
    let mut system = System::new(&Reference, &stencil, &options).unwrap();
    let (cold, u) = solve(&mut system, shape, &b, None, false);
    let far: Vec<f64> = u.iter().zip(noise(shape.cells(), 2)).map(|(u, noise)| u + 1e3 * noise).collect();
    let near: Vec<f64> = u.iter().map(|u| 0.999 * u).collect();
    let (from_far, found) = solve(&mut system, shape, &b, Some(&far), false);
    assert_eq!((from_far.iterations, &found), (cold.iterations, &u));
    assert!(from_far.notes.iter().any(|note| note.contains("began from 0")), "{from_far:?}");
    let (from_near, _) = solve(&mut system, shape, &b, Some(&near), false);
    assert!(
        from_near.converged() && from_near.iterations < cold.iterations && from_near.notes.is_empty(),
        "{from_near:?}"
    );
}

/// With an erratic residual the best iterate is returned, or one as good within the factor that detects a rise.
#[test]
fn krylov_methods_return_the_best_iterate() {
    let shape = Shape::new(30, 30, 1);
    let stencil = rock(shape, 3.0, [FIXED, CLOSED, CLOSED]);
    let b = noise(shape.cells(), 3);
    let mut rises = 0;
    for method in [Method::Cg, Method::Bicgstab] {
        for max_iterations in 3..60 {
            let options = SolverOptions {
                method,
                max_iterations,
                preconditioner: Preconditioner::Jacobi,
                tolerance: 1e-12,
                norm: Norm::Rhs,
                ..SolverOptions::default()
            };
            let (outcome, _) = solve(&mut System::new(&Reference, &stencil, &options).unwrap(), shape, &b, None, false);
            let least = outcome.history.iter().copied().fold(f64::INFINITY, f64::min);
            rises += usize::from(outcome.history[outcome.history.len() - 1] > 2.0 * least);
            assert!(outcome.relative_residual <= 2.01 * least, "{method:?} {max_iterations} {least:e} {outcome:?}");
        }
    }
    assert!(rises > 0, "no residual has risen: this tests nothing");
}

/// Relaxation follows the matrix: after an update to a singular matrix it equals that of a new solver.
#[test]
fn jacobi_relaxes_a_matrix_that_has_become_singular() {
    let shape = Shape::new(6, 5, 1);
    let options = SolverOptions {
        method: Method::Jacobi,
        tolerance: 1e-8,
        max_iterations: 20_000,
        compatibility: Compatibility::Project,
        ..SolverOptions::default()
    };
    let field = vec![1.0; shape.cells()];
    let with = |reaction: f64| {
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(field.clone()));
        problem.reaction = Some(vec![reaction; shape.cells()]);
        problem.stencil().unwrap()
    };
    let (tied, floating) = (with(1.0), with(0.0));
    let b = noise(shape.cells(), 4);
    let mut updated = System::new(&Reference, &tied, &options).unwrap();
    assert!(solve(&mut updated, shape, &b, None, false).0.converged());
    updated.update(&floating).unwrap();
    let made = solve(&mut System::new(&Reference, &floating, &options).unwrap(), shape, &b, None, false);
    assert!(made.0.converged());
    assert_eq!(solve(&mut updated, shape, &b, None, false).1, made.1);
    updated.update(&tied).unwrap();
    assert!(solve(&mut updated, shape, &b, None, false).0.converged());
}

/// The unbalanced sources of a component are judged relative to its own, not to another component's.
#[test]
fn each_component_must_balance_its_own_sources() {
    let shape = Shape::new(20, 10, 1);
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
    problem.active = Some((0..shape.cells()).map(|n| n % 20 != 10).collect());
    let stencil = problem.stencil().unwrap();
    let options = SolverOptions { tolerance: 1e-8, ..SolverOptions::default() };
    let balanced = |size: f64, seed: u64, off: f64| {
        without_mean(noise(100, seed)).into_iter().map(|value| size * value + off).collect::<Vec<_>>()
    };
    for size in [1.0, 1e3, 1e8, 1e12] {
        for (off, is_refused) in [(0.0, false), (0.1, true)] {
            let (left, right) = (balanced(size, 1, 0.0), balanced(1.0, 2, off));
            let b: Vec<f64> = (0..shape.cells())
                .map(|n| match n % 20 {
                    10 => 0.0,
                    i if i < 10 => left[n / 20 * 10 + i],
                    i => right[(n / 20 * 10 + i - 11) % 100],
                })
                .collect();
            // The right component has nine columns of the ten.
            let mean = (0..shape.cells()).filter(|n| n % 20 > 10).map(|n| b[n]).sum::<f64>() / 90.0 - off;
            let b: Vec<f64> = (0..shape.cells()).map(|n| if n % 20 > 10 { b[n] - mean } else { b[n] }).collect();
            let mut system = System::new(&Reference, &stencil, &options).unwrap();
            let mut u = vec![0.0; b.len()];
            let found = solve_again(&mut system, shape, &b, &mut u, Guess::Zero);
            assert_eq!(matches!(found, Err(Error::Invalid { .. })), is_refused, "{size:e} {off} {found:?}");
        }
    }
}

/// Estimated errors of steps do not depend on the units of the state, even if these make it very small or large.
#[test]
fn estimates_of_steps_do_not_depend_on_units() {
    let run = Heat::unit_box(Shape::new(16, 1, 1)).unwrap();
    let sine = run.sine([1.0; 3]);
    for scheme in [Scheme::CrankNicolson, Scheme::BackwardEuler] {
        let mut expected = None;
        for scale in [1.0, 1e-100, 1e-155, 1e-160, 1e-200, 1e100, 1e153, 1e155, 1e200] {
            let options = HeatOptions { error: Some(1e-5), ..heat::options(1e-4, 0.01, scheme) };
            let solver = SolverOptions { tolerance: 1e-9, ..SolverOptions::default() };
            let scaled: Vec<f64> = sine.iter().map(|u| scale * u).collect();
            let step = heat::stepper(&run, options, &solver, &scaled).step(&mut ignore).unwrap();
            assert!(step.is_taken, "{scheme:?} {scale:e} {step:?}");
            let (error, expected) = (step.error.unwrap(), *expected.get_or_insert(step.error.unwrap()));
            assert!(step.is_taken && expected > 0.0, "{scheme:?} {scale:e} {step:?}");
            assert!((error - expected).abs() < 1e-4 * expected, "{scheme:?} {scale:e}: {error:e}, not {expected:e}");
        }
    }
}

/// Without mass and with closed sides the matrix on a grid of one column vanishes, and multigrid must not divide by it.
#[test]
fn tensor_products_without_mass_have_no_singular_level() {
    for [nx, ny] in [[3, 3], [6, 6], [5, 5], [8, 8], [2, 7]] {
        let ones = |n: usize| vec![1.0; n];
        let [mut x, mut y] = [ones((nx + 1) * ny), ones(nx * (ny + 1))];
        (0..ny).for_each(|j| (x[j * (nx + 1)], x[j * (nx + 1) + nx]) = (0.0, 0.0));
        (0..nx).for_each(|i| (y[i], y[i + nx * ny]) = (0.0, 0.0));
        let horizontal = HorizontalField::from_faces(nx, ny, ones(nx * ny), &x, &y).unwrap();
        let vertical = VerticalProfile::new(vec![0.0], vec![0.0], vec![0.0], vec![-1.0]).unwrap();
        let stencil = TensorProduct::new(vertical, horizontal).unwrap();
        let shape = Shape::new(nx, ny, 1);
        let b = without_mean(noise(shape.cells(), 3));
        let system = System::new(&Reference, &stencil, &SolverOptions::default()).unwrap();
        assert!(
            system
                .description()
                .notes
                .iter()
                .any(|note| note.contains("without fixed values: the solution has mean 0"))
        );
        for method in [Method::Auto, Method::Multigrid, Method::Modes, Method::Cg] {
            let options = SolverOptions { method, tolerance: 1e-8, norm: Norm::Rhs, ..SolverOptions::default() };
            let (outcome, _) = arrays::solve(&Reference, &stencil, &options, &b);
            assert!(outcome.converged() && outcome.iterations < 50, "{shape} {method:?} {outcome:?}");
        }
    }
}

/// A first guess of ones is far from a small state, whose steps are judged relative to the right-hand side.
#[test]
fn small_states_are_resolved_from_a_first_guess_of_ones() {
    let shape = Shape::new(12, 12, 1);
    let run = Heat::unit_box(shape).unwrap();
    let small: Vec<f64> = run.sine([1.0; 3]).iter().map(|u| 1e-6 * u).collect();
    let [ones, previous] = [StepGuess::Ones, StepGuess::Previous].map(|guess| {
        let options = HeatOptions { guess, ..heat::options(1e-3, 0.01, Scheme::CrankNicolson) };
        let solver = SolverOptions { tolerance: 1e-6, ..SolverOptions::default() };
        let mut stepper = heat::stepper(&run, options, &solver, &small);
        while !stepper.is_finished() {
            assert!(stepper.step(&mut ignore).unwrap().is_taken);
        }
        heat::state(&mut stepper, shape)
    });
    let apart = distance(&ones, &previous);
    assert!(apart < 1e-4, "{apart:e}");
}

/// A state without sources decays to 0, which is no failure, however long it is stepped; solutions near the end of double precision have all digits.
#[test]
fn states_may_decay_to_nothing() {
    let shape = Shape::new(12, 12, 1);
    let run = Heat::unit_box(shape).unwrap();
    for preconditioner in [Preconditioner::Auto, Preconditioner::Jacobi] {
        let solver = SolverOptions { preconditioner, tolerance: 1e-8, ..SolverOptions::default() };
        let options = heat::options(1e5, 1e7, Scheme::BackwardEuler);
        let mut stepper = heat::stepper(&run, options, &solver, &run.sine([1.0; 3]));
        while !stepper.is_finished() {
            let step = stepper.step(&mut ignore).unwrap();
            assert!(step.is_taken, "{step:?}");
        }
        assert!(heat::state(&mut stepper, shape).iter().all(|&u| u.abs() < 1e-300));
    }
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
    problem.boundary[0] = FIXED;
    let mut system = System::new(&Reference, &problem.stencil().unwrap(), &SolverOptions::default()).unwrap();
    let [(one, u), (small, v)] =
        [1.0, 1e-304].map(|rhs| solve(&mut system, shape, &vec![rhs; shape.cells()], None, false));
    let scaled: Vec<f64> = v.iter().map(|v| 1e200 * v * 1e104).collect();
    assert!(one.converged() && small.converged() && distance(&scaled, &u) < 1e-12, "{small:?}");
}
