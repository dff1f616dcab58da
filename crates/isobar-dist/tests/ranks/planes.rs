//! Planes, and other grids whose directions change places on ranks as on one device.

use isobar_core::conformance::arrays::distance;
use isobar_core::prelude::*;

use crate::cpu;
use crate::solves::{Like, check_updated, solve_alone, solve_on};

/// Makes a grid of cubes whose couplings are random over 10⁶ in every direction, so that directions cross.
pub(crate) fn crossing(shape: Shape) -> DiffusionProblem {
    let field = |seed: u64| (0..shape.cells()).map(|n| 10f64.powf(3.0 * random(seed, n))).collect();
    let mut problem = DiffusionProblem::new(shape, Coefficient::Diagonal([field(1), field(2), field(3)]));
    problem.spacing = [0, 1, 2].map(|_| Spacing::Uniform(1.0));
    problem.boundary[1] = [Boundary::Dirichlet(1.0), Boundary::Dirichlet(0.0)];
    problem
}

/// Checks that ranks take the iterations of one device, up to half as many more, and find its answer.
fn check_as_fast(problem: &DiffusionProblem) {
    let (stencil, rhs) = (problem.stencil().unwrap(), problem.rhs(Some(RhsKind::Random), 3, Weighting::None).unwrap());
    let options = SolverOptions { tolerance: 1e-9, ..SolverOptions::default() };
    let (alone, expected) = solve_alone(&cpu(None), &stencil, &options, &rhs, None);
    for ranks in [2, 3, 4] {
        let (found, u) = solve_on(ranks, &cpu, &stencil, &options, &rhs, None).unwrap();
        let what = format!("{} on {ranks} ranks", problem.shape);
        let (iterations, most) = (found.iterations, alone.iterations * 3 / 2 + 1);
        assert!(found.converged() && iterations <= most, "{what}: {iterations} iterations, one {}", alone.iterations);
        assert!(distance(&u, &expected) < 1e-5, "{what}: {:e}", distance(&u, &expected));
    }
}

#[test]
fn planes_take_the_iterations_of_one_device() {
    for [nx, ny, nz] in [[37, 32, 1], [32, 37, 1], [12, 300, 1], [1, 48, 40], [6, 4000, 1], [6, 2000, 8]] {
        let shape = Shape::new(nx, ny, nz);
        let mut problem = crossing(shape);
        check_as_fast(&problem);
        problem.coefficient = Coefficient::Isotropic((0..shape.cells()).map(|n| 3.0 + random(5, n)).collect());
        check_as_fast(&problem);
    }
}

#[test]
fn planes_take_other_coefficients() {
    let shape = Shape::new(21, 26, 1);
    let [before, after] = [1.0, 7.0].map(|factor| {
        let mut problem = crossing(shape);
        let field = |seed| (0..shape.cells()).map(|n| factor * 10f64.powf(3.0 * random(seed, n))).collect();
        problem.coefficient = Coefficient::Diagonal([1, 2, 3].map(field));
        problem
    });
    let rhs = after.rhs(Some(RhsKind::Random), 3, Weighting::None).unwrap();
    let [before, after] = [before, after].map(|problem| problem.stencil().unwrap());
    let options = SolverOptions { tolerance: 1e-9, ..SolverOptions::default() };
    check_updated(&cpu, [&before, &after], &[2, 3], &options, &rhs, Like::up_to(8, 1e-5));
}
