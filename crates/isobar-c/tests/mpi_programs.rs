//! C and Fortran programs under MPI, with every MPI whose `mpicc` and `mpiexec` are in one of the folders of `$ISOBAR_MPI_PATHS`,
//! as `PATH` lists folders. Without any, nothing is tested, or the test fails where `$ISOBAR_REQUIRE_MPI` is set.

mod programs;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use programs::{C_STRICT, crate_folder, fortran, libraries, run};
use tempfile::TempDir;

/// A lock for one job at a time: ranks wait for each other busily, and two jobs would take very long.
static TURN: Mutex<()> = Mutex::new(());

/// Runs a test with the folders of each MPI.
fn each_mpi(test: impl Fn(&Path)) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folders: Vec<PathBuf> = std::env::var_os("ISOBAR_MPI_PATHS").iter().flat_map(std::env::split_paths).collect();
    let found: Vec<&PathBuf> = folders.iter().filter(|folder| folder.join("mpicc").exists()).collect();
    assert!(!found.is_empty() || std::env::var_os("ISOBAR_REQUIRE_MPI").is_none(), "no mpicc in ISOBAR_MPI_PATHS");
    found.into_iter().for_each(|folder| test(folder));
}

/// Returns a command with `mpicc` where the compiler looks for its parts.
fn mpicc(folder: &Path, name: &str) -> Command {
    let mut compile = Command::new(folder.join(name));
    compile.env("PATH", path_with(folder));
    compile
}

fn path_with(folder: &Path) -> std::ffi::OsString {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::iter::once(folder.to_path_buf()).chain(std::env::split_paths(&paths))).unwrap()
}

/// Returns the output of a program on this number of ranks.
fn on_ranks(folder: &Path, ranks: usize, program: &Path) -> String {
    let paths = [libraries(), folder.join("../lib")];
    let mut launch = Command::new(folder.join("mpiexec"));
    launch.args(["-n", &ranks.to_string()]).arg(program);
    launch.env("PATH", path_with(folder)).env("LD_LIBRARY_PATH", std::env::join_paths(paths).unwrap());
    // Open MPI: more ranks than cores, and any user, as in a container.
    launch.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    launch.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    run(&mut launch)
}

/// Compiles a C program with warnings denied.
fn compile_c(folder: &Path, compiler: &str, source: &str, out: &TempDir) -> PathBuf {
    let program = out.path().join("program");
    let mut compile = mpicc(folder, compiler);
    compile.args(C_STRICT).arg(crate_folder().join("include")).arg(crate_folder().join(source));
    compile.arg("-L").arg(libraries()).args(["-lisobar_c", "-lm", "-o"]).arg(&program);
    run(&mut compile);
    program
}

/// Returns the compiler wrappers of an MPI, including that of the MPI 5 ABI if it has one.
fn compilers(folder: &Path) -> impl Iterator<Item = &'static str> {
    ["mpicc", "mpicc_abi"].into_iter().filter(|name| folder.join(name).exists())
}

#[test]
fn a_model_in_c_solves_on_its_communicator() {
    each_mpi(|folder| {
        for compiler in compilers(folder) {
            let out = TempDir::new().unwrap();
            let program = compile_c(folder, compiler, "examples/model_mpi.c", &out);
            for ranks in [1, 2, 3] {
                let text = on_ranks(folder, ranks, &program);
                assert_eq!(text, format!("{ranks} ranks, largest error below 1e-9\n"), "{compiler}");
            }
        }
    });
}

#[test]
fn misuse_on_one_rank_comes_back_on_all() {
    each_mpi(|folder| {
        for compiler in compilers(folder) {
            let out = TempDir::new().unwrap();
            let program = compile_c(folder, compiler, "tests/mpi/misuse.c", &out);
            for ranks in [2, 3] {
                assert_eq!(on_ranks(folder, ranks, &program), "0 failures\n", "{compiler}");
            }
        }
    });
}

#[test]
fn a_model_in_fortran_solves_on_its_communicator() {
    let source = "examples/model_mpi.f90";
    each_mpi(|folder| {
        let Some(mut compile) = fortran(source) else { return };
        let out = TempDir::new().unwrap();
        let (stand_in, program) = (out.path().join("mpi.o"), out.path().join("program"));
        let c = crate_folder().join("tests/mpi/mpi.c");
        run(mpicc(folder, "mpicc").arg("-c").arg(c).arg("-o").arg(&stand_in));
        compile.arg("-J").arg(out.path());
        for source in ["fortran/isobar.f90", "tests/mpi/mpi.f90", source] {
            compile.arg(crate_folder().join(source));
        }
        compile.arg(&stand_in).arg("-L").arg(libraries()).arg("-lisobar_c");
        run(compile.arg("-L").arg(folder.join("../lib")).args(["-lmpi", "-o"]).arg(&program));
        for ranks in [1, 3] {
            let text = on_ranks(folder, ranks, &program);
            assert!(
                text.starts_with("after 5 steps as it should be") && text.contains("(i, j, k) = (2, 0, 1)"),
                "{text}"
            );
        }
    });
}
