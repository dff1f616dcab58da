//! Periodic directions of an odd number of cells, solved on two copies: solutions are those of the matrix itself.

use isobar_core::conformance::arrays::{cg, noise, norm, solve_again};
use isobar_core::precond::OwnPreconditioner;
use isobar_core::prelude::*;
use isobar_core::problem::materials;

use crate::heat;

const RING: [Boundary; 2] = [Boundary::Periodic; 2];

/// The preconditioner M = I.
struct Unchanged;

impl OwnPreconditioner for Unchanged {
    fn apply(&mut self, r: &[f64], z: &mut [f64]) -> Result<()> {
        z.copy_from_slice(r);
        Ok(())
    }
}

fn problem(shape: Shape, boundary: [[Boundary; 2]; 3], seed: u64) -> DiffusionProblem {
    let rock = materials::noise(shape, 1.0, seed).unwrap();
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(rock));
    problem.boundary = boundary;
    problem
}

fn solve(system: &mut System<Reference, Diffusion>, stencil: &Diffusion, shape: Shape, tolerance: f64, what: &str) {
    let b = noise(shape.cells(), 5);
    let mut u = noise(shape.cells(), 6);
    let outcome = solve_again(system, shape, &b, &mut u, Guess::Given).unwrap();
    assert!(outcome.converged(), "{what}: {outcome:?}");
    let mut residual: Vec<f64> = b.iter().zip(stencil.times(&u)).map(|(b, au)| b - au).collect();
    if stencil.cells().all(|at| stencil.shift(at) == 0.0) {
        // The matrix is singular: b was projected, and the mean removed from u.
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        assert!(mean(&u).abs() < 1e-12 * norm(&u), "{what}");
        let removed = mean(&b);
        residual.iter_mut().for_each(|r| *r -= removed);
    }
    assert!(norm(&residual) < 1.01 * tolerance * norm(&b), "{what}: {:e} of {:e}", norm(&residual), norm(&b));
}

#[test]
fn every_method_solves_on_odd_rings() {
    let fixed = [Boundary::Dirichlet(0.0), Boundary::Neumann(0.0)];
    let closed = [Boundary::Neumann(0.0); 2];
    let mut points = SolverOptions { method: Method::Multigrid, ..SolverOptions::default() };
    points.multigrid.smoother = Smoother::PointRedBlack;
    let ways = [
        SolverOptions::default(),
        SolverOptions { precision: Precision::Mixed, ..cg(Preconditioner::Multigrid) },
        SolverOptions { deflation: Some(Deflation::default()), ..cg(Preconditioner::Ic { block: None }) },
        cg(Preconditioner::Line),
        cg(Preconditioner::SsorAi),
        SolverOptions { method: Method::Bicgstab, ..cg(Preconditioner::Jacobi) },
        SolverOptions { method: Method::Jacobi, max_iterations: 20_000, ..SolverOptions::default() },
        points,
    ];
    for (shape, boundary) in [
        (Shape::new(7, 4, 3), [RING, fixed, closed]),
        (Shape::new(6, 5, 1), [fixed, RING, closed]),
        (Shape::new(5, 7, 3), [RING, RING, fixed]),
        (Shape::new(9, 3, 2), [RING, RING, closed]),
        (Shape::new(3, 1, 1), [RING, closed, closed]),
    ] {
        let problem = problem(shape, boundary, 3);
        let stencil = problem.stencil().unwrap();
        for way in &ways {
            let tolerance = 1e-7;
            let compatibility = Compatibility::Project;
            let options =
                SolverOptions { tolerance, compatibility, norm: isobar_core::options::Norm::Rhs, ..way.clone() };
            let what = format!("{shape} {boundary:?} {:?} {:?}", options.method, options.preconditioner);
            let mut system = System::new(&Reference, &stencil, &options).unwrap();
            let notes = &system.description().notes;
            let is_direct = system.description().method == "direct";
            assert_ne!(notes.iter().any(|note| note.contains("two copies")), is_direct, "{what}: {notes:?}");
            solve(&mut system, &stencil, shape, tolerance, &what);
            // Other coefficients, in place.
            let other = self::problem(shape, boundary, 8).stencil().unwrap();
            system.update(&other).unwrap();
            solve(&mut system, &other, shape, tolerance, &what);
            // Sizes in messages are the caller's.
            let wider = self::problem(Shape { nx: shape.nx + 1, ..shape }, boundary, 8).stencil().unwrap();
            let message = system.update(&wider).unwrap_err().to_string();
            assert!(message.contains(&shape.to_string()), "{message}");
            let mut v = vec![0.0; shape.cells()];
            let u = noise(shape.cells(), 7);
            let view = ArrayViewMut::c_order(&mut v, shape).unwrap();
            system.apply(ArrayView::c_order(&u, shape).unwrap().into(), view.into()).unwrap();
            let most = v.iter().zip(other.times(&u)).fold(0.0_f64, |most, (a, b)| most.max((a - b).abs()));
            assert!(most < 1e-10, "{what}: {most:e}");
        }
    }
}

#[test]
fn what_knows_the_grid_says_so() {
    let shape = Shape::new(5, 4, 1);
    let problem = problem(shape, [RING, [Boundary::Dirichlet(1.0); 2], [Boundary::Neumann(0.0); 2]], 1);
    let stencil = problem.stencil().unwrap();
    let refused = System::with_preconditioner(&Reference, &stencil, &SolverOptions::default(), Box::new(Unchanged));
    let message = refused.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(message.contains("odd number of cells") && message.contains("even"), "{message}");
    let mut system = System::new(&Reference, &stencil, &SolverOptions::default()).unwrap();
    let (b, mut u) = (vec![1.0; 40], vec![0.0; 40]);
    let around = Shape::new(10, 4, 1);
    let wrong = solve_again(&mut system, around, &b, &mut u, Guess::Zero).unwrap_err();
    assert!(wrong.to_string().contains("5×4×1"), "{wrong}");
}

/// Computes M (u' − u)/dt + K u' − s after a step of backward Euler, and ½ uᵀK u − sᵀu.
#[test]
fn time_steps_on_odd_rings() {
    for widths in [Spacing::Uniform(0.2), Spacing::Given((0..5).map(|n| 0.1 + 0.03 * n as f64).collect())] {
        let shape = Shape::new(7, 5, 3);
        let mut problem = problem(shape, [RING, RING, [Boundary::Dirichlet(1.0), Boundary::Neumann(0.0)]], 4);
        problem.spacing[1] = widths;
        let run = Heat::in_cells(&problem, Some(noise(shape.cells(), 2))).unwrap();
        let source = run.source.clone().unwrap();
        let options = HeatOptions { guess: StepGuess::Ones, ..heat::options(0.01, 0.02, Scheme::BackwardEuler) };
        let solver = SolverOptions { tolerance: 1e-12, method: Method::Cg, ..SolverOptions::default() };
        let before = noise(shape.cells(), 1);
        let mut stepper = heat::stepper(&run, options, &solver, &before);
        assert!(stepper.step(&mut ignore).unwrap().is_taken);
        let after = heat::state(&mut stepper, shape);
        let c = 100.0;
        let mass = run.shifted(c).unwrap();
        let (with_mass, stiff) = (mass.times(&after), run.stiffness.times(&after));
        let (old, old_stiff) = (mass.times(&before), run.stiffness.times(&before));
        // (K + c M) u' = c M u + s
        for n in 0..shape.cells() {
            let right = old[n] - old_stiff[n] + source[n];
            assert!((with_mass[n] - right).abs() < 1e-9, "{n}: {} {right}", with_mass[n]);
        }
        let energy: f64 = (0..shape.cells()).map(|n| after[n] * (0.5 * stiff[n] - source[n])).sum();
        let found = stepper.energy().unwrap();
        assert!((found - energy).abs() < 1e-9 * energy.abs(), "{found} {energy}");
    }
}

/// Components are counted on the caller's grid, whether or not they go around an odd direction.
#[test]
fn components_around_odd_directions_are_counted() {
    let shape = Shape::new(5, 6, 1);
    // Two rows go around, two cells above them do not, and one is alone.
    let is_open = |n: usize| n < 10 || n == 15 || n == 16 || n == 28;
    let kappa = (0..30).map(|n| if is_open(n) { 1.0 } else { 0.0 }).collect();
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
    problem.boundary[0] = RING;
    let system = System::new(&Reference, &problem.stencil().unwrap(), &cg(Preconditioner::Line)).unwrap();
    let notes = system.description().notes.join("; ");
    let expected = "2 connected components (the largest of 10 cells) without fixed values: the solution has mean 0 there; 1 cell with no open face: \
         the solution is 0 there; 17 inactive cells";
    assert!(notes.contains(expected), "{notes}");
}
