//! The tensor-product operator.

use std::sync::Arc;

use isobar_core::array::ArrayViewMut;
use isobar_core::backend::Backend;
use isobar_core::build::{Solve, System};
use isobar_core::options::{Method, Smoother, SolverOptions};
use isobar_core::problem::Helmholtz;
use isobar_core::reference::Reference;
use isobar_core::stencil::Stencil;
use isobar_cpu::Cpu;
use isobar_dist::{Communicator, Distributed, threads};

use crate::checks::{GRIDS, check_apply, check_solves, krylov, multigrid, problem, rhs};
use crate::solves::{distance, joined, rows_of, solve_alone, solve_on};

#[test]
fn apply() {
    check_apply(|_| Reference, usize::MAX);
    check_apply(|_| Cpu::new(1).unwrap(), usize::MAX);
}

#[test]
fn krylov_methods() {
    for ([nx, ny, nz], ranks) in GRIDS {
        let problem = problem(nx, ny, nz);
        for options in krylov() {
            check_solves(|_| Reference, &problem, ranks, &options);
            check_solves(|_| Cpu::new(1).unwrap(), &problem, ranks, &options);
        }
    }
}

#[test]
fn a_rank_for_every_row() {
    let problem = problem(6, 5, 4);
    for options in krylov() {
        check_solves(|_| Reference, &problem, &[5], &options);
        check_solves(|_| Cpu::new(1).unwrap(), &problem, &[5], &options);
    }
    // Sweeps begin with the red columns of the whole grid, wherever a rank begins.
    let mut options = SolverOptions { method: Method::Multigrid, tolerance: 1e-6, ..SolverOptions::default() };
    options.multigrid.levels = Some(1);
    for smoother in [Smoother::LineRedBlack, Smoother::LineJacobi] {
        options.multigrid.smoother = smoother;
        check_solves(|_| Reference, &problem, &[5], &options);
        check_solves(|_| Cpu::new(1).unwrap(), &problem, &[5], &options);
    }
}

#[test]
fn multigrid_methods() {
    for ([nx, ny, nz], ranks) in GRIDS {
        let problem = problem(nx, ny, nz);
        for options in multigrid() {
            check_solves(|_| Reference, &problem, ranks, &options);
            check_solves(|_| Cpu::new(1).unwrap(), &problem, ranks, &options);
        }
    }
}

/// Large enough for several threads a rank, whose chunks of planes have boundaries of their own.
#[test]
fn several_threads_a_rank() {
    let problem = problem(64, 64, 16);
    for options in [&krylov()[0], &multigrid()[0]] {
        check_solves(|_| Cpu::new(3).unwrap(), &problem, &[1, 2, 3], options);
    }
}

#[test]
fn a_first_guess() {
    let problem = problem(16, 24, 6);
    let (stencil, rhs) = (problem.stencil().unwrap(), rhs(&problem));
    for options in [&krylov()[0], &multigrid()[0]] {
        let rough = SolverOptions { tolerance: 1e-2, ..options.clone() };
        let (_, guess) = solve_alone(&Cpu::new(1).unwrap(), &stencil, &rough, &rhs, None);
        let (alone, u) = solve_alone(&Cpu::new(1).unwrap(), &stencil, options, &rhs, Some(&guess));
        let (outcome, together) = solve_on(3, |_| Cpu::new(1).unwrap(), &stencil, options, &rhs, Some(&guess)).unwrap();
        assert_eq!(outcome.iterations, alone.iterations);
        assert!(distance(&together, &u) < 1e-9);
    }
}

/// New coefficients reach all levels on all ranks.
#[test]
fn updates() {
    let problem = problem(16, 24, 6);
    let other = Helmholtz { courant: 20.0, ..problem.clone() };
    let (before, after, rhs) = (problem.stencil().unwrap(), other.stencil().unwrap(), rhs(&problem));
    let options = &multigrid()[0];
    let (alone, u) = solve_alone(&Reference, &after, options, &rhs, None);
    let shape = before.shape();
    let parts = threads::run(3, |world| {
        let rank = world.rank();
        let backend = Distributed::new(Cpu::new(1)?, Arc::new(world));
        assert_eq!(backend.device().threads, 1);
        let slab = backend.slabs(shape)?.of(rank);
        let mut system = System::new(&backend, &before, options)?;
        system.update(&after)?;
        let mut v = vec![0.0; slab.shape(shape).cells()];
        let target = ArrayViewMut::c_order(&mut v, slab.shape(shape))?;
        let guess = isobar_core::operator::Guess::Zero;
        let outcome =
            system.solve(rows_of(&rhs, shape, slab).into(), target.into(), guess, &mut isobar_core::solver::ignore)?;
        assert_eq!(outcome.iterations, alone.iterations);
        Ok((slab, v))
    });
    assert!(distance(&joined(shape, &parts.unwrap()), &u) < 1e-9);
}
