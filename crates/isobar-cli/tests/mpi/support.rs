//! Solves by one process and by several, and their files.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::jobs::{Mpi, text};

pub(crate) const TINY: [&str; 6] = ["--set", "grid.nx=24", "--set", "grid.ny=28", "--set", "grid.nz=8"];

pub(crate) fn case(name: &str) -> String {
    format!("{}/../../cases/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Runs the command on a number of ranks with the arguments that follow it, which must succeed; returns what it said.
pub(crate) fn on_ranks(mpi: &Mpi, ranks: &str, args: &[&str]) -> String {
    let said = mpiexec(mpi, &[&["-n", ranks], args].concat());
    assert!(said.status.success(), "{}", text(&said));
    text(&said)
}

/// Runs `mpiexec` with these arguments, where "isobar" is the command.
pub(crate) fn mpiexec(mpi: &Mpi, args: &[&str]) -> Output {
    launcher(mpi, args).output().unwrap()
}

pub(crate) fn launcher(mpi: &Mpi, args: &[&str]) -> Command {
    let mut command = mpi.launcher();
    command.args(args.iter().map(|&arg| if arg == "isobar" { env!("CARGO_BIN_EXE_isobar") } else { arg }));
    command
}

/// Reads the report and the values of the .npy file of a solve.
pub(crate) fn written(folder: &Path) -> (Value, Vec<f64>) {
    let report = serde_json::from_slice(&fs::read(folder.join("report.json")).unwrap()).unwrap();
    let bytes = fs::read(folder.join("u.npy")).unwrap();
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    (report, bytes[start..].as_chunks::<8>().0.iter().map(|&bytes| f64::from_le_bytes(bytes)).collect())
}

/// Writes a file of this text, and returns its path.
pub(crate) fn file(folder: &TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// A case, options of the command, and the numbers of ranks.
pub(crate) type Trial<'a> = (&'a str, &'a [&'a str], &'a [usize]);

/// Compares solves on ranks with those of one process, as far as it is this MPI's turn: messages are tested with each of them, by isobar-dist.
/// Grids are small, unless a trial says more.
pub(crate) fn check_trials(mpi: &Mpi, folder: &Path, trials: &[Trial<'_>]) {
    let [report, output] = ["report.json", "u.npy"].map(|name| folder.join(name).display().to_string());
    for (trial, (case, more, counts)) in trials.iter().enumerate() {
        let counts: Vec<usize> =
            counts.iter().enumerate().filter(|(n, _)| mpi.has_turn(trial + n)).map(|(_, &ranks)| ranks).collect();
        if counts.is_empty() {
            continue;
        }
        let solve = ["isobar", "solve", case, "--device", "cpu", "--report", &report, "--output", &output];
        let args: Vec<&str> = solve.iter().chain(&TINY).chain(*more).copied().collect();
        let (alone, u) = by_one_process(folder, &args);
        for ranks in counts {
            check_as_one(mpi, folder, ranks, &args, (&alone, &u));
        }
    }
}

/// Runs the command as one process; the first argument is "isobar". Returns its report and solution.
pub(crate) fn by_one_process(folder: &Path, args: &[&str]) -> (Value, Vec<f64>) {
    let said = Command::new(env!("CARGO_BIN_EXE_isobar")).args(&args[1..]).output().unwrap();
    assert!(said.status.success(), "{}", text(&said));
    written(folder)
}

/// Runs the same arguments on ranks and compares with one process.
fn check_as_one(mpi: &Mpi, folder: &Path, ranks: usize, args: &[&str], (alone, u): (&Value, &[f64])) {
    fs::remove_file(folder.join("u.npy")).unwrap();
    on_ranks(mpi, &ranks.to_string(), args);
    let (report, v) = written(folder);
    assert_eq!(report["device"]["ranks"], ranks);
    assert_eq!(report["problem"], alone["problem"]);
    // Several processes iterate where one solves directly.
    let iterates = alone["solver"]["method"] == "direct" && report["solver"]["method"] != "direct";
    if !iterates {
        assert_eq!(report["solver"], alone["solver"]);
    }
    let iterations = |report: &Value| report["outcome"]["iterations"].as_i64().unwrap();
    // Rounding may change the count of many iterations by one.
    let slack = i64::from(iterations(alone) > 100 || report["solver"]["preconditioner"] == "multigrid");
    let apart = (iterations(&report) - iterations(alone)).abs();
    assert!(iterates || apart <= slack, "{ranks} ranks, {args:?}");
    assert_near(&v, u, if iterates { 1e-5 } else { 1e-6 }, &format!("{ranks} ranks, {args:?}"));
}

/// Checks that two solutions differ by no more than a fraction of the largest value.
#[track_caller]
pub(crate) fn assert_near(v: &[f64], u: &[f64], allowed: f64, what: &str) {
    let largest = u.iter().fold(0.0f64, |largest, u| largest.max(u.abs()));
    let distance = u.iter().zip(v).fold(0.0f64, |largest, (u, v)| largest.max((u - v).abs()));
    assert!(v.len() == u.len() && distance <= allowed * largest, "{what}: {distance:e} of {largest:e}");
}
