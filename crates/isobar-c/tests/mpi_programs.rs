//! C and Fortran programs under MPI.

#[path = "../../isobar-dist/tests/mpi/jobs.rs"]
mod jobs;
mod programs;

use std::path::{Path, PathBuf};
use std::process::Command;

use jobs::{Mpi, Test};
use programs::{C_STRICT, crate_folder, fortran, libraries, run};
use tempfile::TempDir;

fn main() {
    let tests: [(&str, fn(&Mpi)); 5] = [
        ("a_model_in_c_solves_on_its_communicator", a_model_in_c_solves_on_its_communicator),
        ("rows_of_a_rank_give_the_solution_of_one", rows_of_a_rank_give_the_solution_of_one),
        ("threads_with_a_communicator_each_take_turns", threads_with_a_communicator_each_take_turns),
        ("misuse_on_one_rank_comes_back_on_all", misuse_on_one_rank_comes_back_on_all),
        ("a_model_in_fortran_solves_on_its_communicator", a_model_in_fortran_solves_on_its_communicator),
    ];
    jobs::run("mpicc", |_| tests.map(|(name, test)| (name.to_owned(), Box::new(test) as Test)).into());
}

/// Returns a command with `mpicc` where the compiler looks for its parts.
fn mpicc(mpi: &Mpi, name: &str) -> Command {
    let mut compile = Command::new(mpi.folder.join(name));
    compile.env("PATH", mpi.path());
    compile
}

/// Returns the output of a program on this number of ranks.
fn on_ranks(mpi: &Mpi, ranks: usize, program: &Path) -> String {
    let paths = [libraries(), mpi.folder.join("../lib")];
    let mut launch = mpi.launcher();
    launch.args(["-n", &ranks.to_string()]).arg(program);
    run(launch.env("LD_LIBRARY_PATH", std::env::join_paths(paths).unwrap()))
}

/// Compiles a C program with warnings denied.
fn compile_c(mpi: &Mpi, compiler: &str, source: &str, out: &TempDir) -> PathBuf {
    let program = out.path().join("program");
    let mut compile = mpicc(mpi, compiler);
    compile.args(C_STRICT).arg(crate_folder().join("include")).arg(crate_folder().join(source));
    compile.arg("-L").arg(libraries()).args(["-lisobar_c", "-lm", "-o"]).arg(&program);
    run(&mut compile);
    program
}

/// Returns the compiler wrappers of an MPI, including that of the MPI 5 ABI if it has one.
fn compilers(mpi: &Mpi) -> impl Iterator<Item = &'static str> {
    ["mpicc", "mpicc_abi"].into_iter().filter(|name| mpi.folder.join(name).exists())
}

fn a_model_in_c_solves_on_its_communicator(mpi: &Mpi) {
    for compiler in compilers(mpi) {
        let out = TempDir::new().unwrap();
        let program = compile_c(mpi, compiler, "examples/model_mpi.c", &out);
        for ranks in [1, 2, 3] {
            let text = on_ranks(mpi, ranks, &program);
            assert_eq!(text, format!("{ranks} ranks, largest error below 1e-9\n"), "{compiler}");
        }
    }
}

fn rows_of_a_rank_give_the_solution_of_one(mpi: &Mpi) {
    has_no_failures(mpi, "tests/mpi/rows.c", &[1, 2, 3]);
}

fn threads_with_a_communicator_each_take_turns(mpi: &Mpi) {
    has_no_failures(mpi, "tests/mpi/threads.c", &[2]);
}

/// Checks the output of a C program that counts its failures.
fn has_no_failures(mpi: &Mpi, source: &str, ranks: &[usize]) {
    for compiler in compilers(mpi) {
        let out = TempDir::new().unwrap();
        let program = compile_c(mpi, compiler, source, &out);
        for &ranks in ranks {
            assert_eq!(on_ranks(mpi, ranks, &program), "0 failures\n", "{compiler}, {ranks} ranks");
        }
    }
}

fn misuse_on_one_rank_comes_back_on_all(mpi: &Mpi) {
    has_no_failures(mpi, "tests/mpi/misuse.c", &[2, 3]);
}

fn a_model_in_fortran_solves_on_its_communicator(mpi: &Mpi) {
    let source = "examples/model_mpi.f90";
    let Some(mut compile) = fortran(source) else { return };
    let out = TempDir::new().unwrap();
    let (stand_in, program) = (out.path().join("mpi.o"), out.path().join("program"));
    let c = crate_folder().join("tests/mpi/mpi.c");
    run(mpicc(mpi, "mpicc").arg("-c").arg(c).arg("-o").arg(&stand_in));
    compile.arg("-J").arg(out.path());
    for source in ["fortran/isobar.f90", "tests/mpi/mpi.f90", source] {
        compile.arg(crate_folder().join(source));
    }
    compile.arg(&stand_in).arg("-L").arg(libraries()).arg("-lisobar_c");
    run(compile.arg("-L").arg(mpi.folder.join("../lib")).args(["-lmpi", "-o"]).arg(&program));
    for ranks in [1, 3] {
        let text = on_ranks(mpi, ranks, &program);
        assert!(text.starts_with("after 5 steps as it should be") && text.contains("(i, j, k) = (2, 0, 1)"), "{text}");
    }
}
