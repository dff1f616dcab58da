//! Cycles of hierarchical Jacobi on paper C's problems, compared with counts of an independent implementation.

use isobar_core::conformance::arrays::{self, solve_into};
use isobar_core::options::Overlap;
use isobar_core::prelude::*;
use isobar_core::problem::PointProblem;
use isobar_cpu::Cpu;

/// Returns the cycles from a first guess of ones until the residual has fallen to 1e-4.
fn cycles(shape: Shape, sub_iterations: usize, overlap: usize) -> usize {
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
    problem.boundary = [[Boundary::Dirichlet(0.0); 2]; 3];
    let problem = PointProblem::new(problem, [1.0; 3]).unwrap();
    let jacobi = JacobiOptions {
        sub_iterations: Count::Given(sub_iterations),
        overlap: Overlap::All(overlap),
        tile: Some(vec![32.min(shape.nx), 32.min(shape.ny)]),
        ..JacobiOptions::default()
    };
    let options = SolverOptions {
        method: Method::Jacobi,
        jacobi,
        tolerance: 1e-4,
        max_iterations: 200_000,
        ..SolverOptions::default()
    };
    let rhs = problem.rhs(Some(RhsKind::Constant), 0, Weighting::Volume).unwrap();
    let mut u = vec![1.0; shape.cells()];
    let (cpu, stencil) = (Cpu::new(2).unwrap(), problem.stencil().unwrap());
    let outcome = solve_into(&cpu, &stencil, &options, &rhs, &mut u, Guess::Given).unwrap();
    assert!(outcome.converged() && outcome.relative_residual <= 1e-4, "{:?}", outcome.stop);
    outcome.iterations
}

fn assert_counts(shape: Shape, counts: &[(usize, usize, usize)]) {
    for &(sub_iterations, overlap, expected) in counts {
        let found = cycles(shape, sub_iterations, overlap);
        assert!(found.abs_diff(expected) <= 1, "{shape} {sub_iterations} {overlap}: {found} instead of {expected}");
    }
}

#[test]
fn in_one_dimension() {
    assert_counts(Shape::new(256, 1, 1), &[(1, 0, 35_037)]);
    let counts = [(8, 4, 14_858), (16, 2, 9_547), (16, 4, 8_094), (32, 0, 16_632), (32, 8, 4_124)];
    assert_counts(Shape::new(1024, 1, 1), &counts);
}

#[test]
fn in_two_dimensions() {
    assert_counts(Shape::new(128, 128, 1), &[(1, 0, 13_299)]);
    assert_counts(Shape::new(256, 256, 1), &[(32, 4, 1_355)]);
}

/// Returns u after `iterations` iterations in three dimensions.
fn after(shape: Shape, cpu: &Cpu, iterations: usize, jacobi: JacobiOptions) -> Vec<f64> {
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
    problem.boundary = [[Boundary::Dirichlet(0.0); 2], [Boundary::Neumann(0.0); 2], [Boundary::Dirichlet(1.0); 2]];
    let options = SolverOptions {
        method: Method::Jacobi,
        jacobi,
        tolerance: 1e-12,
        max_iterations: iterations,
        ..SolverOptions::default()
    };
    let rhs = problem.rhs(Some(RhsKind::Constant), 0, Weighting::Volume).unwrap();
    let (outcome, u) = arrays::solve(cpu, &problem.stencil().unwrap(), &options, &rhs);
    assert_eq!((outcome.converged(), outcome.iterations), (false, iterations));
    u
}

/// Cycles of more sweeps than one pass over memory computes, on one thread and on several, whose chunks meet.
#[test]
fn exact_cycles_in_three_dimensions_are_sweeps() {
    let shape = Shape::new(41, 50, 26);
    let sweeps = |count| JacobiOptions { sub_iterations: Count::Given(count), ..JacobiOptions::default() };
    let plain = after(shape, &Cpu::new(1).unwrap(), 42, sweeps(1));
    for threads in [1, 3] {
        let cycles = JacobiOptions { exact: true, tile: Some(vec![20, 20, 20]), ..sweeps(7) };
        assert!(after(shape, &Cpu::new(threads).unwrap(), 6, cycles) == plain, "{threads} threads");
    }
}
