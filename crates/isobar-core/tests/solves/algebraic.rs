//! Algebraic multigrid by name, by choice, and where multigrid is slow.

use isobar_core::conformance::arrays::{cg, distance, noise, solve_by};
use isobar_core::prelude::*;

/// Returns problems of cells with these coefficients between two fixed sides in y.
fn between_sides(shape: Shape, of_cell: impl Fn([usize; 3]) -> f64) -> DiffusionProblem {
    let kappa = (0..shape.cells()).map(|n| of_cell(shape.place(n))).collect();
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
    problem.boundary[1] = [Boundary::Dirichlet(1.0), Boundary::Dirichlet(0.0)];
    problem
}

/// Returns 1 for this part of all cells, at random, and 0 for others.
fn noisy(open: f64) -> impl Fn([usize; 3]) -> f64 {
    move |[i, j, k]| f64::from(0.5 + 0.5 * random(17, i + 1000 * (j + 1000 * k)) < open)
}

fn solve(problem: &DiffusionProblem, options: &SolverOptions) -> (Outcome, Vec<f64>, Vec<String>) {
    let rhs = problem.rhs(None, 0, Weighting::None).unwrap();
    let mut system = System::new(&Reference, &problem.stencil().unwrap(), options).unwrap();
    let (outcome, u) = solve_by(&mut system, problem.shape, &rhs);
    let notes = [&system.description().notes[..], &outcome.notes].concat();
    assert!(outcome.converged(), "{outcome:?}");
    (outcome, u, notes)
}

fn auto() -> SolverOptions {
    SolverOptions { tolerance: 1e-8, ..SolverOptions::default() }
}

#[test]
fn it_is_chosen_where_open_cells_have_few_open_neighbours() {
    let amg = SolverOptions { tolerance: 1e-8, ..cg(Preconditioner::Amg) };
    let multigrid = SolverOptions { tolerance: 1e-8, ..cg(Preconditioner::Multigrid) };
    for (shape, threshold, many) in [(Shape::new(30, 31, 29), 0.35, 0.5), (Shape::new(90, 85, 1), 0.61, 0.75)] {
        let problem = between_sides(shape, noisy(threshold));
        let (chosen, u, notes) = solve(&problem, &auto());
        assert!(notes.iter().any(|note| note.contains("open neighbours on average")), "{notes:?}");
        let (named, v, _) = solve(&problem, &amg);
        assert_eq!((chosen.iterations, &u), (named.iterations, &v));
        assert!(named.iterations <= 22, "{}", named.iterations);
        let (other, w, _) = solve(&problem, &multigrid);
        assert!(other.iterations > named.iterations && distance(&v, &w) < 1e-6, "{}", distance(&v, &w));
        // The estimate of the error is that of other preconditioners, though this one varies.
        let [estimate, of_other] = [&named, &other].map(|outcome| outcome.error_estimate.unwrap());
        assert!(distance(&v, &w) < estimate + of_other && estimate < 1e-6, "{estimate} {of_other}");
        let (_, _, notes) = solve(&between_sides(shape, noisy(many)), &auto());
        assert!(!notes.iter().any(|note| note.contains("algebraic")), "{notes:?}");
    }
}

/// Coarse cells do not see conductors along a diagonal.
#[test]
fn it_follows_multigrid_that_is_slow() {
    let shape = Shape::new(164, 160, 1);
    let problem = between_sides(shape, |[i, j, _]| if (i + j) % 3 == 0 { 1e-6 } else { 1.0 });
    let rhs = problem.rhs(None, 0, Weighting::None).unwrap();
    let mut system = System::new(&Reference, &problem.stencil().unwrap(), &auto()).unwrap();
    let [(first, _), (second, u)] = [(); 2].map(|()| solve_by(&mut system, shape, &rhs));
    assert!(first.notes.iter().any(|note| note.contains("continued with algebraic multigrid")), "{:?}", first.notes);
    assert!(first.converged() && first.iterations < 55, "{first:?}");
    assert!(second.converged() && second.iterations < 25, "{second:?}");
    // Other coefficients in the same solver, and back.
    let even = between_sides(shape, |[i, _, _]| 1.0 + (i % 7) as f64).stencil().unwrap();
    for stencil in [&even, &problem.stencil().unwrap()] {
        system.update(stencil).unwrap();
        let (outcome, v) = solve_by(&mut system, shape, &rhs);
        assert!(outcome.converged() && outcome.iterations < 55, "{outcome:?}");
        assert_eq!(distance(&v, &u) < 1e-6, stencil != &even);
    }
    // Multigrid by name is not replaced by it.
    let named = SolverOptions { tolerance: 1e-8, ..cg(Preconditioner::Multigrid) };
    let (outcome, _) =
        solve_by(&mut System::new(&Reference, &problem.stencil().unwrap(), &named).unwrap(), shape, &rhs);
    assert!(!outcome.notes.iter().any(|note| note.contains("algebraic")), "{:?}", outcome.notes);
}

#[test]
fn singular_systems_and_single_precision_are_solved() {
    let shape = Shape::new(40, 37, 3);
    let mut problem =
        between_sides(shape, |[i, j, k]| if (i * j + k) % 5 == 0 { 0.0 } else { 10f64.powi((i % 7) as i32) });
    problem.boundary = [[Boundary::Neumann(0.0), Boundary::Neumann(0.0)]; 3];
    let stencil = problem.stencil().unwrap();
    let wanted = noise(shape.cells(), 5);
    let mut rhs = vec![0.0; shape.cells()];
    let mut system = System::new(&Reference, &stencil, &cg(Preconditioner::Amg)).unwrap();
    let target = ArrayViewMut::c_order(&mut rhs, shape).unwrap();
    system.apply(ArrayView::c_order(&wanted, shape).unwrap().into(), target.into()).unwrap();
    for (precision, tolerance) in [(Precision::F64, 1e-9), (Precision::F32, 1e-4)] {
        let options = SolverOptions { tolerance, precision, method: Method::Cg, ..cg(Preconditioner::Amg) };
        let (outcome, _) = solve_by(&mut System::new(&Reference, &stencil, &options).unwrap(), shape, &rhs);
        assert!(outcome.converged() && outcome.iterations < 40, "{precision}: {outcome:?}");
    }
}

#[test]
fn matrices_without_it_are_refused() {
    let panel = Helmholtz::default().stencil().unwrap();
    let error = System::new(&Reference, &panel, &cg(Preconditioner::Amg)).err().unwrap();
    assert!(error.to_string().contains("\"amg\" is for diffusion"), "{error}");
}
