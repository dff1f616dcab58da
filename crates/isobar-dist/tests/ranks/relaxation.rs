//! Jacobi's method on several ranks.

use isobar_core::conformance::arrays::without_mean;
use isobar_core::execute::Serial;
use isobar_core::prelude::*;

use crate::checks::{problem, rhs};
use crate::cpu;
use crate::rocks::{rough, smooth};
use crate::solves::solve_on;
use crate::sweeps::check_sweeps;

#[test]
fn sweeps_are_those_of_one_rank() {
    let mut problems =
        vec![(rough(Shape::new(7, 13, 5)), &[1, 2, 3, 4, 6, 13][..]), (rough(Shape::new(8, 10, 1)), &[2, 3])];
    problems.push(smooth().swap_remove(1));
    let mut floating = smooth().swap_remove(7).0;
    floating.boundary = [[Boundary::default(); 2], [Boundary::default(); 2], [Boundary::Periodic; 2]];
    problems.push((floating, &[2, 3]));
    for (problem, ranks) in problems {
        let stencil = problem.stencil().unwrap();
        let mut rhs = problem.rhs(Some(RhsKind::Random), 3, Weighting::None).unwrap();
        let is_floating = stencil.components(&Serial).is_some_and(|components| components.floating().count() > 0);
        if is_floating {
            rhs = without_mean(rhs);
        }
        check_sweeps(&cpu, &stencil, &rhs, ranks, is_floating);
    }
    let problem = problem(12, 15, 4);
    check_sweeps(&cpu, &problem.stencil().unwrap(), &rhs(&problem), &[2, 3, 6], false);
}

/// Ranks use sweeps unless tiles are asked for, which are refused.
#[test]
fn tiles_stay_with_one_rank() {
    let problem = rough(Shape::new(40, 48, 20));
    let stencil = problem.stencil().unwrap();
    let rhs = vec![1.0; problem.shape.cells()];
    let with = |jacobi| SolverOptions { method: Method::Jacobi, jacobi, max_iterations: 5, ..SolverOptions::default() };
    let solve = |jacobi| solve_on(2, &cpu, &stencil, &with(jacobi), &rhs, None);
    let plain = JacobiOptions { sub_iterations: Count::Given(1), ..JacobiOptions::default() };
    assert_eq!(solve(JacobiOptions::default()).unwrap().1, solve(plain).unwrap().1);
    let tiles = JacobiOptions { sub_iterations: Count::Given(4), ..JacobiOptions::default() };
    let said = solve(tiles).unwrap_err().to_string();
    assert!(said.contains("on several ranks") && said.contains("sub_iterations = 1"), "{said}");
}
