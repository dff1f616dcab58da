//! A few problems of the suite of hard ones; the bench `diffusion_suite` has all.

#[path = "../../benches/diffusion_suite/problems.rs"]
mod problems;

use isobar_core::conformance::arrays;
use isobar_core::prelude::*;
use isobar_cpu::Cpu;

use problems::{Problem, closed_blocks, problem, rounding_floor};

/// Returns the iterations to `tolerance`; nothing where that is beyond double precision.
fn iterations(cpu: &Cpu, problem: &Problem, precision: Precision, tolerance: f64) -> Option<usize> {
    let options =
        SolverOptions { tolerance, precision, compatibility: Compatibility::Project, ..SolverOptions::default() };
    let (outcome, u) = arrays::solve(cpu, &problem.stencil, &options, &problem.rhs);
    if !outcome.converged() {
        let floor = rounding_floor(&problem.stencil, &u, &problem.rhs);
        assert!(4.0 * floor > tolerance, "{}: {outcome:?}, floor {floor:e}", problem.name);
        return None;
    }
    Some(outcome.iterations)
}

#[test]
fn hard_problems_are_solved() {
    let cpu = Cpu::new(2).unwrap();
    let mut counts: Vec<usize> = (0..30).filter_map(|n| iterations(&cpu, &problem(n), Precision::F64, 1e-8)).collect();
    counts.sort_unstable();
    assert!(counts.len() > 15, "{counts:?}");
    assert!(counts[counts.len() / 2] <= 16 && counts[counts.len() - 1] <= 80, "{counts:?}");
}

/// Components beside each other have a negligible effect on each other's coarse cells.
#[test]
fn blocks_of_closed_cells_do_not_matter() {
    let cpu = Cpu::new(2).unwrap();
    for n in [55, 284, 417, 472, 566, 591, 716, 782, 1156] {
        let problem = closed_blocks(n);
        let count = iterations(&cpu, &problem, Precision::F64, 1e-8);
        assert!(count.is_some_and(|count| count <= 20), "{}: {count:?}", problem.name);
    }
}

/// The numbers do not depend on the number of threads.
#[test]
fn threads_do_not_matter() {
    let problem = problem(10);
    let of = |threads: usize| iterations(&Cpu::new(threads).unwrap(), &problem, Precision::F64, 1e-8);
    assert_eq!(of(1), of(3));
}
