//! The tensor-product operator on several ranks.

use isobar_core::conformance::arrays::solve_by;
use isobar_core::prelude::*;

use crate::checks::{
    GRIDS, GRIDS_OF_MODES, check_a_rank_for_every_row, check_apply, check_grids, check_solves, krylov, modes,
    multigrid, problem, rhs,
};
use crate::solves::{distance, solve_alone, solve_on, solve_updated};
use crate::{cpu, cpus, described};

#[test]
fn apply() {
    check_apply(&cpu);
}

#[test]
fn krylov_methods() {
    check_grids(&cpu, &GRIDS, &krylov());
}

#[test]
fn a_rank_for_every_row() {
    check_a_rank_for_every_row(&cpu);
}

#[test]
fn multigrid_methods() {
    check_grids(&cpu, &GRIDS, &multigrid());
}

#[test]
fn vertical_modes() {
    check_grids(&cpu, &GRIDS_OF_MODES, &modes());
}

/// A constant right-hand side is smooth, and left to the modes.
#[test]
fn vertical_modes_of_a_constant() {
    let problem = problem(20, 24, 12);
    let (stencil, rhs) = (problem.stencil().unwrap(), vec![1.0; 20 * 24 * 12]);
    // The residual of a constant is below the rounding of single precision.
    for options in modes().into_iter().filter(|options| options.precision != Precision::F32) {
        let (alone, u) = solve_alone(&cpu(None), &stencil, &options, &rhs, None);
        assert!(alone.converged(), "{options:?}");
        for ranks in [2, 3, 6] {
            let (outcome, together) = solve_on(ranks, &cpu, &stencil, &options, &rhs, None).unwrap();
            assert_eq!((outcome.stop, outcome.iterations), (alone.stop, alone.iterations), "{ranks}: {options:?}");
            let tolerance = if options.precision == Precision::F64 { 1e-9 } else { 1e-5 };
            assert!(distance(&together, &u) <= tolerance, "{ranks}: {options:?}");
        }
    }
}

/// By default ranks choose what one would.
#[test]
fn the_default_is_that_of_one_rank() {
    for (lambda, expected) in [(1.0, Method::Modes), (0.01, Method::Multigrid)] {
        let problem = Helmholtz { lambda, ..problem(24, 24, 16) };
        let stencil = problem.stencil().unwrap();
        let chosen = |method| SolverOptions { method, ..SolverOptions::default() };
        let alone = System::new(&cpu(None), &stencil, &chosen(Method::Auto)).unwrap();
        for of in described(3, &stencil, &chosen(Method::Auto)) {
            assert_eq!(of.method, chosen(expected).method_name());
            assert_eq!(of.method, alone.description().method);
            assert!(alone.description().notes.iter().all(|note| of.notes.contains(note)), "{:?}", of.notes);
        }
    }
}

/// Checks grids large enough for several threads a rank, whose chunks of planes have boundaries of their own.
#[test]
fn several_threads_a_rank() {
    let problem = problem(64, 64, 16);
    for options in [&krylov()[0], &multigrid()[0], &modes()[0], &modes()[1]] {
        check_solves(&cpus(3), &problem, &[1, 2, 3], options);
    }
}

#[test]
fn a_first_guess() {
    for options in [&krylov()[0], &multigrid()[0], &modes()[0], &modes()[1]] {
        check_a_first_guess(3, options);
    }
}

/// Checks a first guess, the solution of a larger tolerance.
pub(crate) fn check_a_first_guess(ranks: usize, options: &SolverOptions) {
    let problem = problem(16, 24, 6);
    let (stencil, rhs) = (problem.stencil().unwrap(), rhs(&problem));
    let rough = SolverOptions { tolerance: 1e-2, ..options.clone() };
    let (_, guess) = solve_alone(&cpu(None), &stencil, &rough, &rhs, None);
    let (alone, u) = solve_alone(&cpu(None), &stencil, options, &rhs, Some(&guess));
    let (outcome, together) = solve_on(ranks, &cpu, &stencil, options, &rhs, Some(&guess)).unwrap();
    assert_eq!(outcome.iterations, alone.iterations);
    assert!(distance(&together, &u) < 1e-9);
}

#[test]
fn updates() {
    for options in [&multigrid()[0], &modes()[0]] {
        check_updates(3, options);
    }
}

/// Checks that new coefficients reach all levels on all ranks.
pub(crate) fn check_updates(ranks: usize, options: &SolverOptions) {
    let problem = problem(16, 24, 6);
    let other = Helmholtz { courant: 20.0, ..problem.clone() };
    let (before, after, rhs) = (problem.stencil().unwrap(), other.stencil().unwrap(), rhs(&problem));
    // With an unchanged number of modes.
    let mut alone = System::new(&cpu(None), &before, options).unwrap();
    alone.update(&after).unwrap();
    let (alone, u) = solve_by(&mut alone, before.shape(), &rhs);
    let (outcome, _, v) = solve_updated(ranks, &cpu, [&before, &after], options, &rhs).unwrap();
    assert_eq!(outcome.iterations, alone.iterations);
    assert!(distance(&v, &u) < 1e-9);
}
