//! Ranks as processes: started by an `mpiexec`, this program is one of them.

#![cfg(unix)]

#[path = "mpi/jobs.rs"]
mod jobs;
#[path = "ranks/messages.rs"]
mod messages;

use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};

use isobar_core::prelude::*;
use isobar_cpu::Cpu;
use isobar_dist::{Message, join, mpi, together};

use crate::jobs::{Mpi, Test};

/// The environment variable of ranks, which names their task.
const RANK: &str = "ISOBAR_TEST_RANK";
const SOLVE: &str = "solve";
const BE_SLOW: &str = "be slow";
const HANG: &str = "hang";
const BE_A_GUEST: &str = "be a guest";
/// Seconds that ranks may be silent in tests of hangs.
const LIMIT: &str = "2";

fn main() {
    match std::env::var(RANK).as_deref() {
        Ok(HANG) => return hang().unwrap(),
        Ok(BE_SLOW) => return be_slow().unwrap(),
        Ok(BE_A_GUEST) => return be_a_guest().unwrap(),
        Ok(_) => return be_a_rank().unwrap(),
        Err(_) => {}
    }
    jobs::run("mpiexec", |mpi| {
        let mut all: Vec<(String, Test)> = Vec::new();
        for ranks in [1, 2, 3, 4, 6] {
            all.push((format!("{ranks}_ranks"), Box::new(move |mpi| on_ranks(mpi, ranks, SOLVE, None))));
        }
        for (name, what) in [("slow_ranks_are_waited_for", BE_SLOW), ("a_rank_that_hangs_is_named", HANG)] {
            let test = move |mpi: &Mpi| {
                let (is_fine, text) = launch(mpi, 3, what, Some(("ISOBAR_RANK_TIMEOUT", LIMIT.as_ref())));
                let named = text.matches("rank 1 of 3: it hangs: it has neither computed").count();
                assert_eq!((is_fine, named), if what == HANG { (false, 1) } else { (true, 0) }, "{text}");
            };
            all.push((name.to_owned(), Box::new(test)));
        }
        // Each kind of handles of this MPI.
        for name in ["libmpi_abi.so.1", "libmpi.so.12", "libmpich.so.12", "libmpi.so.40"] {
            let library = mpi.folder.join("../lib").join(name);
            for (what, ranks) in [(SOLVE, 3), (BE_A_GUEST, 3), (BE_A_GUEST, 1)].into_iter().filter(|_| library.exists())
            {
                let library = library.clone();
                let name = format!("{name}::{what}_{ranks}").replace(' ', "_");
                all.push((name, Box::new(move |mpi| on_ranks(mpi, ranks, what, Some(&library)))));
            }
        }
        all
    });
}

fn on_ranks(mpi: &Mpi, ranks: usize, what: &str, library: Option<&Path>) {
    let (is_fine, text) = launch(mpi, ranks, what, library.map(|library| ("ISOBAR_MPI", library.as_os_str())));
    let seen = text.lines().filter(|line| line.contains(&format!("of {ranks} is fine"))).count();
    assert!(is_fine && seen == ranks, "{text}");
}

/// Runs ranks with another environment variable, and returns whether they succeeded, and their output.
fn launch(mpi: &Mpi, ranks: usize, what: &str, variable: Option<(&str, &OsStr)>) -> (bool, String) {
    let mut command = mpi.launcher();
    command.args(["-n", &ranks.to_string()]).arg(std::env::current_exe().unwrap());
    let output = command.env(RANK, what).envs(variable).output().unwrap();
    (output.status.success(), jobs::text(&output))
}

/// Rank 1 reads for longer than ranks may be silent, and computes for as long; the others wait, rank 0 for rank 2 at first.
fn be_slow() -> Result<()> {
    let world = mpi::start()?;
    let long = Duration::from_secs(5);
    if world.rank() == 1 {
        std::thread::sleep(long);
    }
    world.barrier()?;
    world.set_iterating(true);
    let start = Instant::now();
    while world.rank() == 1 && start.elapsed() < long {
        std::hint::spin_loop();
    }
    world.barrier()
}

/// Rank 1 hangs.
fn hang() -> Result<()> {
    let world = mpi::start()?;
    world.set_iterating(true);
    if world.rank() == 1 {
        std::thread::sleep(Duration::from_secs(60));
    }
    world.barrier()
}

/// Ranks on a program's communicator, whose MPI is here started by this library, fail alternately and continue.
fn be_a_guest() -> Result<()> {
    let host = mpi::start()?;
    let all = match mpi::find()?.family {
        mpi::Family::OpenMpi => 0,
        mpi::Family::Mpich => 0x4400_0000,
        mpi::Family::Standard => 0x101,
    };
    assert!(matches!(mpi::on_communicator(987_654_321), Err(Error::Invalid { .. })));
    let world = mpi::on_communicator(all)?;
    let (rank, size) = (world.rank(), world.size());
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    let mine = || Error::Unsupported("it is raining".into());
    for round in 0..12 {
        messages::check_messages(&*world)?;
        // More than the eager limit, and little.
        let sent = vec![rank as u8; if round % 2 == 0 { 3 << 20 } else { 10 }];
        let fails = round % size;
        let failed = together(&*world, || {
            if rank == fails && round % 3 > 0 {
                return Err(mine());
            }
            let mut received = vec![0; sent.len()];
            world.exchange(&mut [
                Message { peer: next, tag: 7, send: &sent, receive: &mut [] },
                Message { peer: before, tag: 7, send: &[], receive: &mut received },
            ])?;
            // A nested call is a part of the outer one.
            together(&*world, || if rank == fails { Err(mine()) } else { Ok(()) })?;
            world.exchange(&mut [
                Message { peer: next, tag: 8, send: &sent, receive: &mut [] },
                Message { peer: before, tag: 8, send: &[], receive: &mut received },
            ])?;
            Ok(received)
        });
        let expected = if size == 1 { mine().to_string() } else { format!("rank {fails} of {size}: {}", mine()) };
        assert_eq!(failed.unwrap_err().to_string(), expected, "round {round}");
    }
    // An error of all ranks names none.
    let failed = together(&*world, || Err::<(), _>(mine()));
    assert_eq!(failed.unwrap_err().to_string(), mine().to_string());
    if size > 1 {
        // Ranks that make different calls.
        let failed =
            together(&*world, || world.all_gather_equal(&[0; 4][..if rank == 0 { 4 } else { 2 }])).unwrap_err();
        assert!(failed.to_string().contains("same calls") || failed.to_string().contains("trunc"), "{failed}");
    }
    assert_eq!(together(&*world, || Ok::<_, Error>(rank))?, rank);
    messages::check_messages(&*world)?;
    drop(world);
    host.barrier()?;
    println!("rank {rank} of {size} is fine");
    host.barrier()
}

fn be_a_rank() -> Result<()> {
    let world = mpi::start()?;
    messages::check_messages(&*world)?;
    let (rank, size) = (world.rank(), world.size());
    let grid = GridOptions { nx: 18, ny: 32, nz: 8, ..GridOptions::default() };
    let problem = Helmholtz { grid, ..Helmholtz::default() };
    let (stencil, rhs) = (problem.stencil()?, problem.rhs(RhsKind::Random, 3, Weighting::None)?);
    let shape = stencil.shape();
    for method in [Method::Cg, Method::Multigrid, Method::Modes] {
        let options = SolverOptions { method, tolerance: 1e-7, ..SolverOptions::default() };
        let mut expected = vec![0.0; shape.cells()];
        let target = ArrayViewMut::c_order(&mut expected, shape)?;
        let source = ArrayView::c_order(&rhs, shape)?;
        let mut alone = System::new(&Cpu::new(1)?, &stencil, &options)?;
        let alone = alone.solve(source.into(), target.into(), Guess::Zero, &mut ignore)?;

        let backend = join(Cpu::new(1)?, world.clone());
        let slab = backend.own_rows(shape)?;
        let strides = [1, shape.nx, shape.nx * shape.ny];
        let source = ArrayView::new(&rhs[slab.first * shape.nx..], slab.shape(shape), strides)?;
        let mut u = vec![0.0_f64; slab.shape(shape).cells()];
        let target = ArrayViewMut::c_order(&mut u, slab.shape(shape))?;
        let mut system = System::new(&backend, &stencil, &options)?;
        let outcome = system.solve(source.into(), target.into(), Guess::Zero, &mut ignore)?;
        assert_eq!((outcome.stop, outcome.iterations), (alone.stop, alone.iterations));
        let expected = ArrayView::new(&expected[slab.first * shape.nx..], slab.shape(shape), strides)?;
        let largest = u.iter().fold(0.0f64, |largest, u| largest.max(u.abs()));
        for (n, &u) in u.iter().enumerate() {
            let (i, rest) = (n % shape.nx, n / shape.nx);
            let other = expected.get(i, rest % slab.rows(), rest / slab.rows());
            assert!((u - other).abs() <= 1e-9 * largest, "{u:e} instead of {other:e}");
        }
    }
    println!("rank {rank} of {size} is fine");
    world.barrier()
}
