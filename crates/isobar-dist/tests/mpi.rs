//! Ranks that are processes, with every MPI whose `mpiexec` is in one of the folders of `$ISOBAR_MPI_PATHS`, as `PATH` lists
//! folders. Without any the tests are ignored, or fail where `$ISOBAR_REQUIRE_MPI` is set.
//!
//! Started by that `mpiexec`, this program is one of the ranks.

#![cfg(unix)]

#[path = "ranks/messages.rs"]
mod messages;

use std::path::{Path, PathBuf};
use std::process::Command;

use isobar_core::array::{ArrayView, ArrayViewMut};
use isobar_core::build::{Solve, System};
use isobar_core::error::Result;
use isobar_core::grid::GridOptions;
use isobar_core::operator::Guess;
use isobar_core::options::{Method, SolverOptions};
use isobar_core::problem::{Helmholtz, RhsKind, Weighting};
use isobar_core::solver::ignore;
use isobar_core::stencil::Stencil;
use isobar_cpu::Cpu;
use isobar_dist::{Distributed, mpi};
use libtest_mimic::{Arguments, Failed, Trial};

/// Set for ranks.
const RANK: &str = "ISOBAR_TEST_RANK";

fn main() {
    if std::env::var_os(RANK).is_some() {
        be_a_rank().unwrap();
        return;
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
            all.push(Trial::test(format!("mpi_{n}::{ranks}_ranks"), move || on_ranks(&folder, ranks, None)));
        }
        // Each kind of handles that this MPI has.
        for name in ["libmpi_abi.so.1", "libmpi.so.12", "libmpi.so.40"] {
            let (folder, library) = (folder.clone(), folder.join("../lib").join(name));
            if library.exists() {
                all.push(Trial::test(format!("mpi_{n}::{name}"), move || on_ranks(&folder, 3, Some(&library))));
            }
        }
    }
    let mut arguments = Arguments::from_args();
    // Ranks wait for each other busily; two jobs at a time would wait for ever so long.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, all).exit();
}

fn on_ranks(folder: &Path, ranks: usize, library: Option<&Path>) -> std::result::Result<(), Failed> {
    let mut paths = vec![folder.to_path_buf()];
    paths.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
    let output = Command::new(folder.join("mpiexec"))
        .args(["-n", &ranks.to_string()])
        .arg(std::env::current_exe()?)
        .env(RANK, "1")
        .env("PATH", std::env::join_paths(paths)?)
        // Open MPI: more ranks than cores, and any user, as in a container.
        .env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .envs(library.map(|library| ("ISOBAR_MPI", library)))
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let seen = text.lines().filter(|line| line.contains(&format!("of {ranks} is fine"))).count();
    if output.status.success() && seen == ranks { Ok(()) } else { Err(text.into()) }
}

fn be_a_rank() -> Result<()> {
    let world = mpi::start()?;
    messages::check_messages(&*world)?;
    let (rank, size) = (world.rank(), world.size());
    let grid = GridOptions { nx: 18, ny: 32, nz: 8, ..GridOptions::default() };
    let problem = Helmholtz { grid, ..Helmholtz::default() };
    let (stencil, rhs) = (problem.stencil()?, problem.rhs(RhsKind::Random, 3, Weighting::None)?);
    let shape = stencil.shape();
    for method in [Method::Cg, Method::Multigrid] {
        let options = SolverOptions { method, tolerance: 1e-7, ..SolverOptions::default() };
        let mut expected = vec![0.0; shape.cells()];
        let target = ArrayViewMut::c_order(&mut expected, shape)?;
        let source = ArrayView::c_order(&rhs, shape)?;
        let mut alone = System::new(&Cpu::new(1)?, &stencil, &options)?;
        let alone = alone.solve(source.into(), target.into(), Guess::Zero, &mut ignore)?;

        let backend = Distributed::new(Cpu::new(1)?, world.clone());
        let slab = backend.slabs(shape)?.of(rank);
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
