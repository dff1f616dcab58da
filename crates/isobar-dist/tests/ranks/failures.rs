//! What cannot be, and ranks that fail.

use isobar_core::error::{Error, Result};
use isobar_core::grid::GridOptions;
use isobar_core::options::{Method, ModesOptions, SolverOptions};
use isobar_core::problem::{Helmholtz, RhsKind, Weighting};
use isobar_core::reference::Reference;
use isobar_cpu::Cpu;
use isobar_dist::communicator::agree;
use isobar_dist::{Communicator, Message, threads};

use super::{distance, solve_alone, solve_on};

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
    let (stencil, rhs) = (problem.stencil().unwrap(), vec![1.0; 8 * 4 * 4]);
    let options = SolverOptions::default();
    let why = message(solve_on(5, || Reference, &stencil, &options, &rhs, None));
    assert!(why.contains("grid.ny: 4 rows for 5 ranks") && why.contains("at most 4 ranks"), "{why}");
    // One row a rank leaves no pair for a coarser grid; two levels are what multigrid is here at least.
    let why = message(solve_on(4, || Reference, &stencil, &options, &rhs, None));
    assert!(why.contains("4 ranks, which need 7 at least"), "{why}");
    let options = SolverOptions { method: Method::Modes, modes: ModesOptions::default(), ..options };
    let why = message(solve_on(2, || Reference, &stencil, &options, &rhs, None));
    assert!(why.contains("vertical modes on several ranks"), "{why}");
}

/// Numbers that are none on one rank end the solve on all, and the next one is not spoilt by them.
#[test]
fn not_finite() {
    let problem = problem(12);
    let stencil = problem.stencil().unwrap();
    let mut rhs = problem.rhs(RhsKind::Random, 1, Weighting::None).unwrap();
    let options = SolverOptions::default();
    let (alone, u) = solve_alone(&Cpu::new(1).unwrap(), &stencil, &options, &rhs, None);
    rhs[8 * 10] = f64::NAN;
    let why = message(solve_on(3, || Cpu::new(1).unwrap(), &stencil, &options, &rhs, None));
    assert!(why.contains("right-hand side"), "{why}");
    rhs[8 * 10] = problem.rhs(RhsKind::Random, 1, Weighting::None).unwrap()[8 * 10];
    let (outcome, together) = solve_on(3, || Cpu::new(1).unwrap(), &stencil, &options, &rhs, None).unwrap();
    assert!(outcome.iterations == alone.iterations && distance(&together, &u) < 1e-9);
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
    let ranks = 4;
    threads::run(ranks, |world| {
        let (rank, size) = (world.rank(), world.size());
        let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
        for round in 0..20u8 {
            let sent = [rank as u8, round];
            let mut got = [[0; 2]; 2];
            let [a, b] = &mut got;
            // Two messages to one rank in one exchange, told apart by their tags.
            world.exchange(&mut [
                Message { peer: next, tag: 1, send: &sent, receive: &mut [] },
                Message { peer: before, tag: 2, send: &[], receive: a },
                Message { peer: next, tag: 2, send: &[round, 9], receive: &mut [] },
                Message { peer: before, tag: 1, send: &[], receive: b },
            ])?;
            assert_eq!(got, [[round, 9], [before as u8, round]]);
        }
        let mut values = [0.1 * (rank + 1) as f64, 1.0, rank as f64];
        world.sum(&mut values)?;
        assert_eq!(values, [0.1 + 0.2 + 0.1 * 3.0 + 0.4, 4.0, 6.0]);
        let mut many: Vec<f64> = (0..100).map(f64::from).collect();
        world.sum(&mut many)?;
        assert!(many.iter().enumerate().all(|(n, &value)| value == 4.0 * n as f64));
        let mut data = if rank == 0 { [3, 1, 4] } else { [0; 3] };
        world.broadcast(&mut data)?;
        assert_eq!(data, [3, 1, 4]);
        let counts = [1, 0, 3, 2];
        let mut all = vec![0; if rank == 0 { 6 } else { 0 }];
        world.gather(&vec![rank as u8; counts[rank]], &counts, &mut all)?;
        assert!(rank > 0 || all == [0, 2, 2, 2, 3, 3]);
        let mut all = [9; 6];
        world.all_gather(&vec![rank as u8; counts[rank]], &counts, &mut all)?;
        assert_eq!(all, [0, 2, 2, 2, 3, 3]);
        world.barrier()
    })
    .unwrap();
}
