//! Ranks as processes, with every MPI whose `mpiexec` is in one of the folders of `$ISOBAR_MPI_PATHS`, as `PATH` lists
//! folders. Without any the tests are ignored, or fail where `$ISOBAR_REQUIRE_MPI` is set.
//!
//! Started by that `mpiexec`, this program is one of the ranks.

#![cfg(unix)]

#[path = "ranks/messages.rs"]
mod messages;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use isobar_core::prelude::*;
use isobar_cpu::Cpu;
use isobar_dist::{Message, join_rows, mpi, together};
use libtest_mimic::{Arguments, Failed, Trial};

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
    let folders: Vec<PathBuf> = std::env::var_os("ISOBAR_MPI_PATHS").iter().flat_map(std::env::split_paths).collect();
    let found: Vec<PathBuf> = folders.into_iter().filter(|folder| folder.join("mpiexec").exists()).collect();
    let mut all = Vec::new();
    if found.is_empty() {
        let is_required = std::env::var_os("ISOBAR_REQUIRE_MPI").is_some();
        let none = || Err("no mpiexec in any folder of ISOBAR_MPI_PATHS".into());
        all.push(Trial::test("mpi", none).with_ignored_flag(!is_required));
    }
    for (n, folder) in found.into_iter().enumerate() {
        for ranks in [1, 2, 3, 4, 6] {
            let folder = folder.clone();
            all.push(Trial::test(format!("mpi_{n}::{ranks}_ranks"), move || on_ranks(&folder, ranks, SOLVE, None)));
        }
        for (name, what) in [("slow_ranks_are_waited_for", BE_SLOW), ("a_rank_that_hangs_is_named", HANG)] {
            let folder = folder.clone();
            all.push(Trial::test(format!("mpi_{n}::{name}"), move || {
                let (is_fine, text) = launch(&folder, 3, what, &[("ISOBAR_RANK_TIMEOUT", LIMIT.as_ref())])?;
                let named = text.matches("rank 1 of 3: it hangs: it has neither computed").count();
                let expected = if what == HANG { (false, 1) } else { (true, 0) };
                if (is_fine, named) == expected { Ok(()) } else { Err(text.into()) }
            }));
        }
        // Each kind of handles of this MPI.
        for name in ["libmpi_abi.so.1", "libmpi.so.12", "libmpich.so.12", "libmpi.so.40"] {
            let (folder, library) = (folder.clone(), folder.join("../lib").join(name));
            if library.exists() {
                for (what, ranks) in [(SOLVE, 3), (BE_A_GUEST, 3), (BE_A_GUEST, 1)] {
                    let (folder, library) = (folder.clone(), library.clone());
                    let name = format!("mpi_{n}::{name}::{what}_{ranks}").replace(' ', "_");
                    all.push(Trial::test(name, move || on_ranks(&folder, ranks, what, Some(&library))));
                }
            }
        }
    }
    let mut arguments = Arguments::from_args();
    // Ranks wait for each other busily; two jobs at a time would take very long.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, all).exit();
}

fn on_ranks(folder: &Path, ranks: usize, what: &str, library: Option<&Path>) -> std::result::Result<(), Failed> {
    let environment: Vec<(&str, &OsStr)> = library.iter().map(|library| ("ISOBAR_MPI", library.as_os_str())).collect();
    let (is_fine, text) = launch(folder, ranks, what, &environment)?;
    let seen = text.lines().filter(|line| line.contains(&format!("of {ranks} is fine"))).count();
    if is_fine && seen == ranks { Ok(()) } else { Err(text.into()) }
}

/// Runs ranks, and returns whether they succeeded, and their output.
fn launch(folder: &Path, ranks: usize, what: &str, environment: &[(&str, &OsStr)]) -> std::io::Result<(bool, String)> {
    let mut paths = vec![folder.to_path_buf()];
    paths.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
    let output = Command::new(folder.join("mpiexec"))
        .args(["-n", &ranks.to_string()])
        .arg(std::env::current_exe()?)
        .env(RANK, what)
        .env("PATH", std::env::join_paths(paths).map_err(std::io::Error::other)?)
        // Open MPI: more ranks than cores, and any user, as in a container.
        .env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .envs(environment.iter().copied())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    Ok((output.status.success(), text))
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

        let backend = join_rows(Cpu::new(1)?, world.clone())?;
        let slab = backend.own_columns(shape)?.y;
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
