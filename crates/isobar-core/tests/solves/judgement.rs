//! The reported residual of a solve, compared with that of the returned solution.

use isobar_core::conformance::arrays::{self, cg, distance, noise, norm, solve_again, solve_into, without_mean};
use isobar_core::prelude::*;
use isobar_core::problem::materials::{self, Bubbles};
use isobar_core::stencil::{Csr, StoredMatrix};

fn solve<S: Stencil>(stencil: &S, options: &SolverOptions, b: &[f64]) -> (Outcome, Vec<f64>)
where
    Reference: Supports<S>,
{
    arrays::solve(&Reference, stencil, options, b)
}

fn projecting(tolerance: f64) -> SolverOptions {
    SolverOptions { tolerance, compatibility: Compatibility::Project, ..SolverOptions::default() }
}

/// Computes A u face by face, in another order than any back end.
fn apply(stencil: &Diffusion, u: &[f64]) -> Vec<f64> {
    let mut v = vec![0.0; u.len()];
    for at in stencil.cells() {
        let here = stencil.cell(at);
        v[here] += stencil.shift(at) * u[here];
        for axis in Axis::ALL {
            let Some(there) = stencil.upper(axis, at).map(|upper| stencil.cell(upper)) else { continue };
            let flow = stencil.face(axis, at) * (u[here] - u[there]);
            v[here] += flow;
            v[there] -= flow;
        }
    }
    v
}

/// Computes ‖b − A u‖ / ‖b‖, b without its mean, for a single floating component.
fn residual(stencil: &Diffusion, b: &[f64], u: &[f64]) -> f64 {
    distance(&apply(stencil, u), &without_mean(b.to_vec()))
}

/// In closed boxes with contrasts so large that rounding of the mean of u exceeds the tolerance, the report is true for the
/// returned u.
#[test]
fn the_residual_is_that_of_the_solution_returned() {
    use Preconditioner::{Auto, Jacobi, Line};
    for (shape, contrast, tolerance) in [
        (Shape::new(8, 8, 8), 1e12, 1e-10),
        (Shape::new(16, 16, 1), 1e9, 1e-10),
        (Shape::new(8, 6, 13), 6e11, 1e-6),
        (Shape::new(12, 10, 1), 1e4, 1e-10),
    ] {
        for method in [Method::Auto, Method::Cg, Method::Bicgstab, Method::Multigrid] {
            for preconditioner in [Auto, Line, Jacobi] {
                let field = materials::two_phase(shape, contrast).unwrap();
                let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(field));
                problem.spacing[1] = Spacing::Uniform(100.0);
                let stencil = problem.stencil().unwrap();
                let b = noise(shape.cells(), 1);
                let options = SolverOptions { method, preconditioner, ..projecting(tolerance) };
                let (outcome, u) = solve(&stencil, &options, &b);
                let what = format!("{shape} {contrast:e} {method:?} {preconditioner:?}: {outcome:?}");
                if !outcome.is_returned {
                    continue;
                }
                let mean = u.iter().sum::<f64>() / u.len() as f64;
                assert!(mean.abs() <= 1e-14 * norm(&u), "{mean:e} {what}");
                let found = residual(&stencil, &b, &u);
                // Two orders of summation differ by the rounding of A u.
                let largest = apply(&stencil, &u.iter().map(|u| u.abs()).collect::<Vec<_>>());
                let rounding = f64::EPSILON * (norm(&largest) + contrast * norm(&u)) / norm(&b);
                let said = outcome.relative_residual;
                assert!((found - said).abs() <= 0.3 * said + 100.0 * rounding, "{found:e} {what}");
                assert_eq!(outcome.converged(), said <= tolerance, "{what}");
                assert!(said <= 1.0, "worse than nothing: {what}");
            }
        }
    }
}

/// Returns the cells of rows of a 1D grid, cut where a coefficient is 0.
fn rows(lengths: &[(usize, f64)]) -> (Diffusion, Vec<std::ops::Range<usize>>) {
    let (mut field, mut parts) = (Vec::new(), Vec::new());
    for &(length, coefficient) in lengths {
        parts.push(field.len()..field.len() + length);
        field.extend(std::iter::repeat_n(coefficient, length));
        field.push(0.0);
    }
    let shape = Shape::new(field.len(), 1, 1);
    (Diffusion::of_field(shape, field, [1.0; 3], None, [[Side::Closed; 2]; 3]).unwrap(), parts)
}

/// Where a small component's sources vanish without their mean, u is exactly 0 there, however weak couplings amplify rounding;
/// in other components the mean is 0 to rounding.
#[test]
fn means_over_small_parts_are_exact() {
    let (stencil, parts) = rows(&[(3, 1e-12), (200, 1.0), (7, 1e-9), (1, 1.0), (50, 1e6)]);
    let mut b = noise(stencil.shape().cells(), 3);
    for (part, value) in [(0, 0.1), (2, 1e3 / 3.0)] {
        b[parts[part].clone()].fill(value);
    }
    let (outcome, u) = solve(&stencil, &projecting(1e-9), &b);
    assert!(outcome.converged(), "{outcome:?}");
    for part in [0, 2, 3] {
        assert!(u[parts[part].clone()].iter().all(|&u| u == 0.0), "{:?}", &u[parts[part].clone()]);
    }
    for part in [1, 4] {
        let u = &u[parts[part].clone()];
        let mean = u.iter().sum::<f64>() / u.len() as f64;
        assert!(norm(u) > 0.0 && mean.abs() <= 1e-15 * norm(u), "{mean:e} of {:e}", norm(u));
    }
}

/// A right-hand side that vanishes after projection has the solution 0, for any first guess.
#[test]
fn nothing_gives_nothing() {
    let stencil =
        DiffusionProblem::new(Shape::new(13, 7, 5), Coefficient::Isotropic(vec![1.0; 455])).stencil().unwrap();
    for guess in [Guess::Zero, Guess::Given] {
        for method in [Method::Cg, Method::Bicgstab, Method::Multigrid] {
            let mut u = noise(455, 2);
            let options = SolverOptions { method, ..projecting(1e-5) };
            let outcome = solve_into(&Reference, &stencil, &options, &vec![0.7; 455], &mut u, guess).unwrap();
            assert_eq!((outcome.stop, outcome.iterations), (Stop::Converged, 0), "{method:?} {outcome:?}");
            assert!(u.iter().all(|&u| u == 0.0));
        }
    }
}

/// With the norm ‖D^−½ r‖ a right-hand side in cells without a diagonal is one that has no solution, too.
#[test]
fn scaled_norms_see_isolated_cells() {
    let shape = Shape::new(6, 6, 1);
    let is_closed = |n: usize| (2..5).contains(&(n % 6)) && (2..5).contains(&(n / 6)) && n != 21;
    let kappa = (0..36).map(|n| if is_closed(n) { 0.0 } else { 1.0 }).collect();
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
    problem.boundary[0][0] = Boundary::Dirichlet(0.0);
    let stencil = problem.stencil().unwrap();
    let b: Vec<f64> = (0..36).map(|n| if n == 21 { 1.0 } else { 0.0 }).collect();
    let options = SolverOptions { method: Method::Cg, norm: Norm::Scaled, ..SolverOptions::default() };
    let mut u = vec![0.0; 36];
    let refused = solve_into(&Reference, &stencil, &options, &b, &mut u, Guess::Zero).unwrap_err().to_string();
    assert!(refused.contains("it has no solution: a component of 1 cell has no fixed value"), "{refused}");
    let options = SolverOptions { compatibility: Compatibility::Project, ..options };
    let (outcome, u) = solve(&stencil, &options, &b);
    assert!(outcome.converged() && outcome.removed == Some(1.0) && u.iter().all(|&u| u == 0.0), "{outcome:?}");
}

/// A first guess that solves the equations still gets the mean 0.
#[test]
fn a_good_first_guess_is_projected() {
    let stencil = DiffusionProblem::new(Shape::new(9, 8, 1), Coefficient::Isotropic(vec![1.0; 72])).stencil().unwrap();
    let b = noise(72, 4);
    let options = SolverOptions { norm: Norm::Rhs, ..projecting(1e-8) };
    let (_, exact) = solve(&stencil, &SolverOptions { tolerance: 1e-12, ..options.clone() }, &b);
    let mut u: Vec<f64> = exact.iter().map(|u| u + 5.0).collect();
    let outcome = solve_into(&Reference, &stencil, &options, &b, &mut u, Guess::Given).unwrap();
    assert!(outcome.converged() && outcome.iterations <= 1, "{outcome:?}");
    let largest = norm(&exact);
    assert!(u.iter().zip(&exact).all(|(u, exact)| (u - exact).abs() < 1e-12 * largest));
}

/// A first guess may have a small residual and a gross error, where sources are small beside what sides add to b.
#[test]
fn a_first_guess_within_the_tolerance_is_examined() {
    let shape = Shape::new(40, 40, 1);
    let is_body = |n: usize| (10..30).contains(&(n % 40)) && (10..30).contains(&(n / 40));
    let kappa = (0..1600).map(|n| if is_body(n) { 1e-10 } else { 1.0 }).collect();
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
    problem.boundary[0] = [Boundary::Dirichlet(1.0), Boundary::Dirichlet(0.0)];
    let b = |source: f64| {
        let body = (0..1600).map(|n| if is_body(n) { source } else { 0.0 }).collect();
        problem.rhs_from(body, Weighting::Volume).unwrap()
    };
    let options = SolverOptions { norm: Norm::Rhs, tolerance: 1e-8, ..SolverOptions::default() };
    let stencil = problem.stencil().unwrap();
    let (outcome, mut u) = solve(&stencil, &options, &b(1e-8));
    assert!(outcome.converged());
    for source in [2e-8, 4e-8] {
        let (_, exact) = solve(&stencil, &SolverOptions { tolerance: 1e-15, ..options.clone() }, &b(source));
        let outcome = solve_into(&Reference, &stencil, &options, &b(source), &mut u, Guess::Given).unwrap();
        let off: Vec<f64> = u.iter().zip(&exact).map(|(u, exact)| u - exact).collect();
        assert!(outcome.converged() && norm(&off) < 0.01 * norm(&exact), "{outcome:?}");
    }
    // What is exact to rounding stays.
    let mut again = u.clone();
    let outcome = solve_into(
        &Reference,
        &stencil,
        &SolverOptions { tolerance: 1e-3, ..options },
        &stencil.times(&u),
        &mut again,
        Guess::Given,
    );
    assert_eq!((outcome.unwrap().iterations, again), (0, u));
}

/// A solution as the first guess is converged, also where the tolerance is relative to what it leaves: steady states of time steps are.
#[test]
fn a_solution_as_the_first_guess_is_converged() {
    let shape = Shape::new(20, 16, 12);
    for contrast in [1.0, 1e3, 1e7] {
        let bubbles = Bubbles { count: 6, radius: 0.2, contrast, seed: 1 };
        let field = materials::bubbles(shape, [1.0; 3], &bubbles).unwrap();
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(field));
        problem.boundary[0] = [Boundary::Dirichlet(1.0), Boundary::Dirichlet(0.0)];
        let stencil = problem.stencil().unwrap();
        let rhs = problem.rhs(Some(RhsKind::Constant), 0, Weighting::Volume).unwrap();
        let options =
            SolverOptions { method: Method::Cg, norm: Norm::Initial, tolerance: 1e-5, ..SolverOptions::default() };
        let mut system = System::new(&Reference, &stencil, &options).unwrap();
        let mut u = vec![0.0; shape.cells()];
        for n in 0..6 {
            let guess = if n == 0 { Guess::Zero } else { Guess::Given };
            let outcome = solve_again(&mut system, shape, &rhs, &mut u, guess).unwrap();
            assert!(outcome.converged() && outcome.relative_residual <= 1e-5, "{contrast}, {n}: {outcome:?}");
        }
        assert!(distance(&apply(&stencil, &u), &rhs) <= 1e-9 * norm(&rhs), "{contrast}");
    }
}

/// At the limit of double precision a solve stops, reports it, and returns an equally good iterate.
#[test]
fn the_floor_is_named_and_returned() {
    let mut problem = DiffusionProblem::new(
        Shape::new(24, 24, 1),
        Coefficient::Isotropic(materials::two_phase(Shape::new(24, 24, 1), 1e-7).unwrap()),
    );
    problem.boundary[1][1] = Boundary::Dirichlet(0.0);
    let stencil = problem.stencil().unwrap();
    let b = noise(576, 5);
    for preconditioner in [Preconditioner::Multigrid, Preconditioner::Line, Preconditioner::Jacobi] {
        for method in [Method::Cg, Method::Bicgstab] {
            let options = SolverOptions {
                method,
                preconditioner,
                tolerance: 1e-18,
                max_iterations: 3000,
                ..SolverOptions::default()
            };
            let (outcome, u) = solve(&stencil, &options, &b);
            let what = format!("{method:?} {preconditioner:?}: {:?} {:e}", outcome.stop, outcome.relative_residual);
            let scale: f64 = f64::EPSILON * norm(&apply(&stencil, &u.iter().map(|u| u.abs()).collect::<Vec<_>>()));
            let floor = (scale + f64::EPSILON * 8.0 * norm(&u)) / norm(&b);
            assert!(!outcome.converged(), "{what}");
            assert!(outcome.relative_residual <= 100.0 * floor, "{what}, floor {floor:e}");
            if outcome.stop == Stop::Stagnated {
                assert!(outcome.advice.as_ref().unwrap().contains("rounding"), "{outcome:?}");
            }
        }
    }
}

/// Multigrid that rounding makes indefinite is replaced by lines or the diagonal, with a note.
#[test]
fn a_breakdown_is_survived() {
    let shape = Shape::new(8, 6, 13);
    let field = materials::two_phase(shape, 598089450574.6986).unwrap();
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(field));
    problem.boundary = [[Boundary::Periodic; 2]; 3];
    problem.spacing =
        [10.860285631475401 / 8.0, 0.07396062664379403 / 6.0, 377.1348287707323 / 13.0].map(Spacing::Uniform);
    let stencil = problem.stencil().unwrap();
    let multigrid = MultigridOptions { smoother: Smoother::LineJacobi, ..MultigridOptions::default() };
    for seed in 0..4 {
        let b = noise(shape.cells(), seed);
        let (outcome, u) = solve(&stencil, &SolverOptions { multigrid: multigrid.clone(), ..projecting(1e-6) }, &b);
        assert!(outcome.is_returned && outcome.relative_residual <= 1.0, "{outcome:?}");
        assert!(
            outcome.stop != Stop::Breakdown || outcome.notes.iter().any(|note| note.contains("continued with")),
            "{outcome:?}"
        );
        assert!(outcome.advice.iter().all(|advice| !advice.contains("not positive definite")), "{outcome:?}");
        assert!(u.iter().all(|u| u.is_finite()));
    }
}

/// A matrix that is not positive definite is reported, with the number that shows it.
#[test]
fn an_indefinite_matrix_is_named() {
    let entry = |n: usize| if n.is_multiple_of(3) { -1.0 } else { 2.0 + n as f64 };
    let matrix = Csr::from_rows(60, |row, entries| entries.push((row, entry(row)))).unwrap();
    let matrix = StoredMatrix::new(matrix, Shape::new(60, 1, 1)).unwrap();
    let options = SolverOptions { tolerance: 1e-10, ..cg(Preconditioner::None) };
    let mut b = vec![1e-3; 60];
    b[0] = 1.0;
    let (outcome, _) = solve(&matrix, &options, &b);
    assert_eq!(outcome.stop, Stop::Breakdown);
    assert!(outcome.advice.unwrap().contains("not positive definite"));
}

/// The square of paper D with a contrast of 10⁶, with a Dirichlet side at the low coefficient, or floating.
#[test]
fn deflation_keeps_what_it_takes_out() {
    let shape = Shape::new(40, 40, 1);
    for (sides, method) in
        [([true, false], "low"), ([false, true], "high"), ([true, true], "both"), ([false, false], "none")]
    {
        let field = materials::two_phase(shape, 1e6).unwrap();
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(field));
        for (side, is_fixed) in problem.boundary[1].iter_mut().zip(sides) {
            if is_fixed {
                *side = Boundary::Dirichlet(0.0);
            }
        }
        let stencil = problem.stencil().unwrap();
        let b = problem.rhs(Some(RhsKind::Manufactured), 0, Weighting::None).unwrap();
        for preconditioner in [Preconditioner::Jacobi, Preconditioner::BlockIc { block: None }] {
            let options = SolverOptions {
                method: Method::Cg,
                preconditioner,
                norm: Norm::Rhs,
                max_iterations: 2000,
                ..projecting(1e-12)
            };
            let (plain, _) = solve(&stencil, &options, &b);
            for stripes in [Stripes::HalfRows, Stripes::Blocks([8, 8, 1])] {
                for coarse in [CoarseSolve::Inverse, CoarseSolve::Triangular] {
                    let deflation = Some(Deflation { stripes, coarse });
                    let (deflated, _) = solve(&stencil, &SolverOptions { deflation, ..options.clone() }, &b);
                    let what = format!("{method} {preconditioner:?} {stripes:?} {coarse:?}: {deflated:?}");
                    assert!(deflated.converged(), "{what}");
                    assert!(deflated.iterations <= plain.iterations, "{}: {what}", plain.iterations);
                }
            }
        }
    }
}

/// The estimate of the error is hardly below it, and the further above it, the weaker the preconditioner.
#[test]
fn errors_are_estimated() {
    let shape = Shape::new(48, 48, 1);
    let mut estimates = 0;
    for contrast in [1.0, 1e3, 1e-3, 1e6] {
        let field = materials::two_phase(shape, contrast).unwrap();
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(field));
        problem.boundary[1] = [Boundary::Dirichlet(0.0); 2];
        let stencil = problem.stencil().unwrap();
        let exact: Vec<f64> = (0..shape.cells()).map(|n| (n as f64).cos()).collect();
        let b = stencil.times(&exact);
        for (preconditioner, above) in [
            // Twice as large after few iterations, before the smallest eigenvalue has settled.
            (Preconditioner::Multigrid, 10.0),
            (Preconditioner::Line, 300.0),
            (Preconditioner::Jacobi, 300.0),
            (Preconditioner::Neumann { order: 2 }, 300.0),
        ] {
            for tolerance in [1e-3, 1e-6, 1e-9, 1e-12] {
                let options = SolverOptions { norm: Norm::Rhs, tolerance, max_iterations: 5000, ..cg(preconditioner) };
                let (outcome, u) = solve(&stencil, &options, &b);
                // With weak preconditioners the smallest eigenvalue appears only near the solution.
                let Some(estimate) = outcome.error_estimate else {
                    assert!(preconditioner != Preconditioner::Multigrid, "{contrast:e} {tolerance:e}");
                    continue;
                };
                let (error, rounding) = (distance(&exact, &u), f64::EPSILON * contrast.max(1.0 / contrast));
                estimates += 1;
                assert!(
                    (0.9 * error..above * error + 2.0 * rounding).contains(&estimate),
                    "{contrast:e} {preconditioner:?} {tolerance:e}: {error:e} {estimate:e}"
                );
            }
        }
    }
    assert!(estimates >= 24, "{estimates} of 64");
}

/// Paper D's false convergence is a residual of 10⁻⁶ with errors of a half. The estimate shows them.
#[test]
fn false_convergence_is_seen() {
    let shape = Shape::new(256, 256, 1);
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(materials::two_phase(shape, 1e6).unwrap()));
    problem.boundary[1] = [Boundary::Dirichlet(0.0); 2];
    let stencil = problem.stencil().unwrap();
    let b = problem.rhs(Some(RhsKind::Manufactured), 0, Weighting::None).unwrap();
    let exact = problem.exact();
    let options = SolverOptions { norm: Norm::Rhs, tolerance: 1e-6, max_iterations: 5000, ..cg(Preconditioner::None) };
    let (outcome, u) = solve(&stencil, &options, &b);
    let difference: Vec<f64> = u.iter().zip(&exact).map(|(u, exact)| u - exact).collect();
    let largest = difference.iter().fold(0.0, |most: f64, d| most.max(d.abs()));
    let (error, estimate) = (norm(&difference) / norm(&u), outcome.error_estimate.unwrap());
    assert!(outcome.converged() && largest > 0.3, "{largest}");
    assert!(estimate >= 0.9 * error && estimate > 1e-2, "{error:e} {estimate:e}");
}

/// Automatically chosen multigrid is replaced where it is slow, here because it has one level, without losing progress; if the
/// options ask for it, it stays.
#[test]
fn a_slow_choice_is_left() {
    let shape = Shape::new(44, 44, 2);
    let field = materials::noise(shape, 5.0, 3).unwrap();
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(field));
    problem.boundary[0] = [Boundary::Dirichlet(0.0); 2];
    let stencil = problem.stencil().unwrap();
    let b = noise(shape.cells(), 8);
    let multigrid = MultigridOptions { levels: Some(1), ..MultigridOptions::default() };
    let automatic = SolverOptions { multigrid, tolerance: 1e-8, max_iterations: 20_000, ..SolverOptions::default() };
    let (outcome, _) = solve(&stencil, &automatic, &b);
    assert!(outcome.converged(), "{outcome:?}");
    assert!(outcome.notes.iter().any(|note| note.contains("multigrid was slow")), "{:?}", outcome.notes);
    // The change loses nothing.
    let history = &outcome.history;
    assert!(history.windows(2).all(|pair| pair[1] < 1e3 * pair[0]), "{history:?}");
    let asked = SolverOptions { method: Method::Cg, preconditioner: Preconditioner::Multigrid, ..automatic };
    let (outcome, _) = solve(&stencil, &asked, &b);
    assert!(outcome.notes.is_empty(), "{:?}", outcome.notes);
    // With all its levels it is fast, and stays.
    let usual = SolverOptions { multigrid: MultigridOptions::default(), ..asked };
    let (outcome, _) = solve(&stencil, &SolverOptions { preconditioner: Preconditioner::Auto, ..usual }, &b);
    assert!(outcome.converged() && outcome.notes.is_empty(), "{outcome:?}");
}
