//! The diffusion operator.

use isobar_core::conformance::arrays::{cg, solve_into};
use isobar_core::prelude::*;

use crate::rocks::{
    check_all_floating, check_points, check_rough, check_smooth, floating, point_cycles, rough, smooth, uneven,
};
use crate::solves::{Like, check_updated, solve_on};
use crate::{cpu, cpus, described, direct, refusal};

#[test]
fn conjugate_gradients() {
    for (nx, ny, nz) in [(7, 13, 5), (8, 16, 4), (12, 9, 1)] {
        let problem = rough(Shape::new(nx, ny, nz));
        check_rough(&cpu, &problem, &[1, 2, 3, 4, 6]);
    }
    check_rough(&cpus(2), &rough(Shape::new(40, 40, 24)), &[2, 3]);
}

#[test]
fn cycles_that_relax_points() {
    check_smooth(&cpu);
}

/// Checks two copies of a periodic x, of which every rank has its rows.
#[test]
fn rings_of_an_odd_number_of_cells() {
    let mut problem = rough(Shape::new(7, 13, 5));
    problem.boundary[0] = [Boundary::Periodic; 2];
    check_rough(&cpu, &problem, &[1, 2, 3]);
}

/// Checks grids large enough for several threads a rank, whose chunks of planes have boundaries of their own.
#[test]
fn points_with_several_threads_a_rank() {
    let shape = Shape::new(48, 64, 32);
    let kappa = (0..shape.cells()).map(|n| uneven([n % 48, n / 48 % 64, n / 48 / 64])).collect();
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
    problem.boundary[2] = [Boundary::Dirichlet(0.0); 2];
    for options in &point_cycles()[..2] {
        check_points(&cpus(3), &problem, &[2, 3], options);
    }
}

/// Ranks choose what one would, while slabs have pairs of rows; the description has the choice and its reason.
#[test]
fn what_is_chosen() {
    let shape = Shape::new(8, 16, 8);
    let described = |problem: &DiffusionProblem, ranks: usize| {
        described(ranks, &problem.stencil().unwrap(), &SolverOptions::default()).swap_remove(ranks - 1)
    };
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
    problem.boundary[1] = [Boundary::Dirichlet(0.0); 2];
    assert_eq!(&*described(&problem, 2).method, "direct");
    let smooth = |[i, j, k]: [usize; 3]| 1.0 + 0.1 * ((i * j * k) as f64 / 100.0).sin();
    problem.coefficient = Coefficient::Isotropic(shape.places().map(smooth).collect());
    let of = described(&problem, 2);
    assert_eq!((&*of.method, of.smoother), ("multigrid", Smoother::PointRedBlack));
    assert!(of.notes.iter().any(|note| note.starts_with("points: no direction is stiff")), "{:?}", of.notes);
    assert!(of.notes.iter().any(|note| note.contains("every rank does all the work from")), "{:?}", of.notes);
    let of = described(&problem, 16);
    assert_eq!((&*of.method, &*of.preconditioner), ("cg", "line"));
    assert!(of.notes.iter().any(|note| note.contains("16 rows are too few for 16 ranks")), "{:?}", of.notes);
    let of = described(&rough(shape), 3);
    assert_eq!((&*of.method, &*of.preconditioner), ("cg", "multigrid"));
    let why = "lines on Galerkin grids, not points: cells are closed";
    assert!(of.notes.iter().any(|note| note.starts_with(why)), "{:?}", of.notes);
    let of = described(&rough(shape), 16);
    assert_eq!((&*of.method, &*of.preconditioner), ("cg", "line"));
    assert!(of.notes.iter().any(|note| note.contains("16 rows are too few for 16 ranks")), "{:?}", of.notes);
}

/// Checks that new coefficients reach all levels on all ranks.
#[test]
fn updates_of_points() {
    let (problem, _) = smooth().swap_remove(1);
    let after = problem.stencil().unwrap();
    let shape = problem.shape;
    let before = DiffusionProblem { coefficient: Coefficient::Isotropic(vec![0.1; shape.cells()]), ..problem.clone() };
    let (before, rhs) = (before.stencil().unwrap(), problem.rhs(Some(RhsKind::Random), 3, Weighting::None).unwrap());
    check_updated(&cpu, [&before, &after], &[3], &point_cycles()[0], &rhs, Like::up_to(0, 1e-9));
}

/// In floating problems u has the mean 0, and sources must balance, over the cells of all ranks.
#[test]
fn what_floats() {
    check_all_floating(&cpu);
    let (problem, _, options) = floating().swap_remove(0);
    let (stencil, rhs) = (problem.stencil().unwrap(), vec![1.0; problem.shape.cells()]);
    let mut u = vec![0.0; rhs.len()];
    let alone = solve_into(&cpu(None), &stencil, &options, &rhs, &mut u, Guess::Zero);
    let expected = alone.unwrap_err();
    let found = solve_on(3, &cpu, &stencil, &options, &rhs, None).unwrap_err();
    assert_eq!(found.to_string(), expected.to_string());
    assert!(found.to_string().contains("its sources must add up to 0"), "{found}");
    let project = SolverOptions { compatibility: Compatibility::Project, ..options };
    let (outcome, u) = solve_on(3, &cpu, &stencil, &project, &rhs, None).unwrap();
    assert!(outcome.converged() && u.iter().all(|&u| u == 0.0) && outcome.removed == Some(1.0), "{outcome:?}");
}

#[test]
fn what_is_not_there_is_said() {
    let shape = Shape::new(6, 8, 4);
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
    problem.boundary[0] = [Boundary::Dirichlet(0.0); 2];
    let (stencil, galerkin) = (problem.stencil().unwrap(), cg(Preconditioner::Multigrid));
    let said = refusal(5, &stencil, &galerkin);
    assert!(
        said.contains("8 rows on 5 ranks, which need 9 at least") && said.contains("preconditioner \"line\""),
        "{said}"
    );
    let said = refusal(9, &stencil, &galerkin);
    assert!(said.contains("8 rows for 9 ranks") && said.contains("use at most 8 ranks"), "{said}");
}

#[test]
fn divided_lines_are_solved_directly() {
    direct::check_boxes(&cpu);
    direct::check_boxes(&cpus(2));
}

#[test]
fn direct_solvers_take_other_coefficients() {
    direct::check_changes(&cpu);
}

#[test]
fn boxes_are_solved_directly_where_lines_along_y_can_be() {
    direct::check_choice(&cpu);
}
