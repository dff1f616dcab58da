//! Unsupported divisions, and ranks that fail.

use isobar_core::prelude::*;
use isobar_dist::communicator::agree;
use isobar_dist::{Communicator, threads};

use super::messages::check_messages;
use crate::solves::{distance, solve_alone, solve_on};
use crate::{cpu, refusal};

fn problem(ny: usize) -> Helmholtz {
    Helmholtz { grid: GridOptions { nx: 8, ny, nz: 4, ..GridOptions::default() }, ..Helmholtz::default() }
}

fn message(result: Result<impl Sized>) -> String {
    match result {
        Ok(_) => panic!("this cannot be"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn too_many_ranks() {
    let problem = problem(4);
    let stencil = problem.stencil().unwrap();
    let options = SolverOptions { method: Method::Multigrid, ..SolverOptions::default() };
    let why = refusal(5, &stencil, &options);
    assert!(why.contains("grid.ny: 4 rows for 5 ranks") && why.contains("at most 4 ranks"), "{why}");
    // One row a rank leaves no pair for a coarser grid; multigrid has at least two levels here.
    let why = refusal(4, &stencil, &options);
    assert!(why.contains("4 ranks, which need 7 at least"), "{why}");
    let modes = ModesOptions { count: Count::Given(5), ..ModesOptions::default() };
    let options = SolverOptions { method: Method::Modes, modes, ..options };
    let why = refusal(4, &stencil, &options);
    assert!(why.contains("5 modes of a grid of 4 layers"), "{why}");
}

/// NaN and infinities on one rank end the solve on all, and do not affect the next one.
#[test]
fn not_finite() {
    let problem = problem(12);
    let stencil = problem.stencil().unwrap();
    let mut rhs = problem.rhs(RhsKind::Random, 1, Weighting::None).unwrap();
    let options = SolverOptions { method: Method::Multigrid, ..SolverOptions::default() };
    let (alone, u) = solve_alone(&cpu(None), &stencil, &options, &rhs, None);
    rhs[8 * 10] = f64::NAN;
    let why = message(solve_on(3, &cpu, &stencil, &options, &rhs, None));
    assert!(why.contains("right-hand side"), "{why}");
    rhs[8 * 10] = problem.rhs(RhsKind::Random, 1, Weighting::None).unwrap()[8 * 10];
    let (outcome, together) = solve_on(3, &cpu, &stencil, &options, &rhs, None).unwrap();
    assert!(outcome.iterations == alone.iterations && distance(&together, &u) < 1e-9);
}

/// An active cell without couplings of one rank ends the solve on all.
#[test]
fn no_solution_in_one_cell() {
    let shape = Shape::new(5, 12, 1);
    let [x, y] = [Axis::X, Axis::Y].map(|axis| vec![1.0; shape.faces_between(axis, false).cells()]);
    let [mut x, mut y] = [x, y];
    // Cell (2, 10) is cut off.
    (x[4 * 10 + 1], x[4 * 10 + 2], y[5 * 9 + 2], y[5 * 10 + 2]) = (0.0, 0.0, 0.0, 0.0);
    let shift = (0..60).map(|n| if n == 52 { 0.0 } else { 0.1 }).collect();
    let stencil = Diffusion::from_faces(shape, [x, y, Vec::new()], [false; 3], Some(shift), Some(&[true; 60])).unwrap();
    let mut rhs = vec![1.0; 60];
    let options =
        SolverOptions { method: Method::Cg, preconditioner: Preconditioner::Jacobi, ..SolverOptions::default() };
    let why = message(solve_on(3, &cpu, &stencil, &options, &rhs, None));
    assert!(why.contains("(2, 10, 0) has no conductance"), "{why}");
    rhs[52] = 0.0;
    let (outcome, _) = solve_on(3, &cpu, &stencil, &options, &rhs, None).unwrap();
    assert!(outcome.converged());
}

/// A rank that fails ends those that wait for it.
#[test]
fn one_rank_fails() {
    let why = message(threads::run(3, |world| {
        if world.rank() == 1 {
            return Err(Error::Unsupported("out of luck".into()));
        }
        world.barrier()
    }));
    assert_eq!(why, "out of luck");
    let caught = std::panic::catch_unwind(|| {
        threads::run(3, |world| {
            assert!(world.rank() != 2, "a defect");
            world.barrier()
        })
    });
    assert!(caught.is_err() || caught.is_ok_and(|result| result.is_err()));
}

#[test]
fn errors_are_agreed_on() {
    let results = threads::run(4, |world| {
        let mine = if world.rank() == 2 { Err(Error::Unsupported("no memory here".into())) } else { Ok(world.rank()) };
        Ok(agree(&world, mine).map_err(|error| error.to_string()))
    });
    for result in results.unwrap() {
        assert_eq!(result.unwrap_err(), "rank 2 of 4: no memory here");
    }
    let results = threads::run(3, |world| {
        let mine: Result<()> = Err(Error::Unsupported("no such thing".into()));
        Ok(agree(&world, mine).map_err(|error| error.to_string()))
    });
    for result in results.unwrap() {
        assert_eq!(result.unwrap_err(), "no such thing");
    }
    let fine = threads::run(3, |world| agree(&world, Ok(world.rank()))).unwrap();
    assert_eq!(fine, [0, 1, 2]);
}

#[test]
fn messages_and_collectives() {
    for ranks in [1, 2, 3, 4, 6] {
        threads::run(ranks, |world| check_messages(&world)).unwrap();
    }
}
