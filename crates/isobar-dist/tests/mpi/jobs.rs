//! Jobs on the ranks of every MPI whose programs are in one of the folders of `$ISOBAR_MPI_PATHS`, as `PATH` lists folders; for the tests
//! of several crates. Without any the tests are ignored, or fail where `$ISOBAR_REQUIRE_MPI` is set.

#![allow(dead_code, reason = "not every crate needs all")]

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Output};

use libtest_mimic::{Arguments, Trial};

/// An MPI: its folder of programs, and its number among all.
#[derive(Clone)]
pub(crate) struct Mpi {
    pub(crate) folder: PathBuf,
    n: usize,
    of: usize,
}

impl Mpi {
    /// Returns whether it is this one's turn at a job that all divide.
    pub(crate) fn has_turn(&self, job: usize) -> bool {
        job % self.of == self.n
    }

    /// Returns `PATH` with its programs first.
    pub(crate) fn path(&self) -> OsString {
        let paths = std::env::var_os("PATH");
        let paths = std::iter::once(self.folder.clone()).chain(paths.iter().flat_map(std::env::split_paths));
        std::env::join_paths(paths).unwrap()
    }

    /// Returns `mpiexec`, without arguments yet.
    pub(crate) fn launcher(&self) -> Command {
        let mut command = Command::new(self.folder.join("mpiexec"));
        if !cfg!(target_os = "linux") {
            // The library is found by the first launcher on the path.
            command.env("PATH", self.path());
        }
        command
            // Open MPI: more ranks than cores, and any user, as in a container.
            .env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command
    }
}

/// Returns what a command said.
pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A test with an MPI, which panics where it fails.
pub(crate) type Test = Box<dyn FnOnce(&Mpi) + Send>;

/// Runs tests by name with each MPI that has `program`, and ends this process.
pub(crate) fn run(program: &str, tests: impl Fn(&Mpi) -> Vec<(String, Test)>) -> ! {
    let folders = std::env::var_os("ISOBAR_MPI_PATHS");
    let folders = folders.iter().flat_map(std::env::split_paths);
    let found: Vec<PathBuf> = folders.filter(|folder| folder.join(program).exists()).collect();
    let mut all = Vec::new();
    if found.is_empty() {
        let none = format!("no {program} in any folder of ISOBAR_MPI_PATHS");
        let is_required = std::env::var_os("ISOBAR_REQUIRE_MPI").is_some();
        all.push(Trial::test("mpi", || Err(none.into())).with_ignored_flag(!is_required));
    }
    let of = found.len();
    for (n, folder) in found.into_iter().enumerate() {
        let mpi = Mpi { folder, n, of };
        all.extend(tests(&mpi).into_iter().map(|(name, test)| {
            let mpi = mpi.clone();
            Trial::test(format!("mpi_{n}::{name}"), move || {
                test(&mpi);
                Ok(())
            })
        }));
    }
    // Ranks wait for each other busily; two jobs at a time would take very long.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, all).exit()
}
