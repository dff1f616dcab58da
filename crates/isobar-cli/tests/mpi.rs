//! `mpirun -n N isobar solve`, with every MPI whose `mpiexec` is in one of the folders of `$ISOBAR_MPI_PATHS`, as `PATH` lists
//! folders. Without any the tests are ignored, or fail where `$ISOBAR_REQUIRE_MPI` is set.

#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use tempfile::tempdir;

const TINY: [&str; 6] = ["--set", "grid.nx=24", "--set", "grid.ny=28", "--set", "grid.nz=8"];

/// Closed but at two sides, one of which two ranks at most have rows beside.
const ROCK: &str = r#"
[problem]
kind = "diffusion"
[grid]
nx = 24
ny = 28
nz = 8
[diffusion]
coefficient = { noise = { sigma = 1.0, seed = 5 } }
boundary = { west = { dirichlet = 1.0 }, south = { dirichlet = 0.0 } }
[solver]
tolerance = 1e-8
"#;

fn main() {
    let folders: Vec<PathBuf> = std::env::var_os("ISOBAR_MPI_PATHS").iter().flat_map(std::env::split_paths).collect();
    let found: Vec<PathBuf> = folders.into_iter().filter(|folder| folder.join("mpiexec").exists()).collect();
    let mut all = Vec::new();
    if found.is_empty() {
        let is_required = std::env::var_os("ISOBAR_REQUIRE_MPI").is_some();
        let none = || Err("no mpiexec in any folder of ISOBAR_MPI_PATHS".into());
        all.push(Trial::test("mpi", none).with_ignored_flag(!is_required));
    }
    for (n, folder) in found.into_iter().enumerate() {
        let mut trial = |name: &str, run: fn(&Path)| {
            let folder = folder.clone();
            all.push(Trial::test(format!("mpi_{n}::{name}"), move || {
                run(&folder);
                Ok(())
            }));
        };
        trial("solves_are_those_of_one_process", solves_are_those_of_one_process);
        trial("one_rank_says_how_it_went", one_rank_says_how_it_went);
        trial("failures_are_said_once", failures_are_said_once);
        trial("ranks_must_agree", ranks_must_agree);
    }
    let mut arguments = Arguments::from_args();
    // Ranks wait for each other busily; two jobs at a time would wait for ever so long.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, all).exit();
}

fn case(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases").join(name).display().to_string()
}

/// Runs `mpiexec` with these arguments, where "isobar" is the command.
fn mpiexec(folder: &Path, args: &[&str]) -> Output {
    let mut paths = vec![folder.to_path_buf()];
    paths.extend(std::env::var_os("PATH").iter().flat_map(std::env::split_paths));
    Command::new(folder.join("mpiexec"))
        .args(args.iter().map(|&arg| if arg == "isobar" { env!("CARGO_BIN_EXE_isobar") } else { arg }))
        .env("PATH", std::env::join_paths(paths).unwrap())
        // Open MPI: more ranks than cores, and any user, as in a container.
        .env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The report and the values of a .npy file that a solve wrote.
fn written(folder: &Path) -> (Value, Vec<f64>) {
    let report = serde_json::from_slice(&fs::read(folder.join("report.json")).unwrap()).unwrap();
    let bytes = fs::read(folder.join("u.npy")).unwrap();
    let start = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    (report, bytes[start..].as_chunks::<8>().0.iter().map(|&bytes| f64::from_le_bytes(bytes)).collect())
}

fn solves_are_those_of_one_process(mpi: &Path) {
    let (panel, files) = (case("panel.toml"), tempdir().unwrap());
    let rock = files.path().join("rock.toml").display().to_string();
    fs::write(&rock, ROCK).unwrap();
    let [report, output] = ["report.json", "u.npy"].map(|name| files.path().join(name).display().to_string());
    let cg = ["--set", "solver.method=cg", "--set", "solver.preconditioner.kind=line"];
    let cycles = ["--set", "solver.method=multigrid"];
    let mixed = ["--set", "solver.method=multigrid", "--precision", "mixed"];
    for (case, method) in [(&panel, &cycles[..]), (&panel, &cg), (&panel, &mixed), (&rock, &cg)] {
        let solve = ["isobar", "solve", case, "--device", "cpu", "--report", &report, "--output", &output];
        let args: Vec<&str> = solve.iter().chain(&TINY).chain(method).copied().collect();
        assert!(Command::new(env!("CARGO_BIN_EXE_isobar")).args(&args[1..]).output().unwrap().status.success());
        let (alone, u) = written(files.path());
        let largest = u.iter().fold(0.0f64, |largest, u| largest.max(u.abs()));
        for ranks in [1, 2, 3, 6] {
            fs::remove_file(&output).unwrap();
            let count = ranks.to_string();
            let on_ranks: Vec<&str> = ["-n", &count].into_iter().chain(args.iter().copied()).collect();
            let said = mpiexec(mpi, &on_ranks);
            assert!(said.status.success(), "{}", text(&said));
            let (report, v) = written(files.path());
            assert_eq!(report["device"]["ranks"], ranks);
            assert_eq!(report["problem"], alone["problem"]);
            let iterations = |report: &Value| report["outcome"]["iterations"].as_i64().unwrap();
            // Rounding may move the count of many iterations by one.
            let slack = i64::from(iterations(&alone) > 100);
            assert!((iterations(&report) - iterations(&alone)).abs() <= slack, "{ranks} ranks, {method:?}");
            assert_eq!(v.len(), u.len());
            let distance = u.iter().zip(&v).fold(0.0f64, |largest, (u, v)| largest.max((u - v).abs()));
            assert!(distance <= 1e-6 * largest, "{ranks} ranks, {method:?}: {distance:e} of {largest:e}");
        }
    }
}

fn one_rank_says_how_it_went(mpi: &Path) {
    let panel = case("panel.toml");
    let args = |more: &[&'static str]| -> Vec<String> {
        let all = ["-n", "3", "isobar", "solve", &panel, "--threads", "1"];
        all.iter().chain(&TINY).chain(more).map(|&arg| arg.to_owned()).collect()
    };
    let run = |more: &[&'static str]| {
        let args = args(more);
        mpiexec(mpi, &args.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let said = run(&[]);
    let lines = text(&said);
    assert!(said.status.success() && lines.contains("3 ranks of 1 thread"), "{lines}");
    for word in ["problem ", "outcome ", "time "] {
        assert_eq!(lines.lines().filter(|line| line.starts_with(word)).count(), 1, "{lines}");
    }
    let said = run(&["--set", "solver.max_iterations=1", "--quiet"]);
    assert_eq!(said.status.code(), Some(2), "{}", text(&said));
    assert_eq!(String::from_utf8_lossy(&said.stdout), "");
}

/// One message, and exit status 1.
#[track_caller]
fn assert_fails(output: &Output, part: &str) {
    let said = text(output);
    assert!(!output.status.success(), "{said}");
    assert_eq!(said.matches("error: ").count(), 1, "{said}");
    assert!(said.contains(part), "{part:?} is not in:\n{said}");
}

fn failures_are_said_once(mpi: &Path) {
    let (panel, heat) = (case("panel-tiny.toml"), case("heat.toml"));
    assert_fails(&mpiexec(mpi, &["-n", "3", "isobar", "solve", "nothing.toml"]), "nothing.toml: no such file");
    assert_fails(&mpiexec(mpi, &["-n", "3", "isobar", "solve", &panel, "--nonsense"]), "--nonsense");
    assert_fails(&mpiexec(mpi, &["-n", "3", "isobar", "bench", &panel]), "only `isobar solve` runs on several ranks");
    assert_fails(&mpiexec(mpi, &["-n", "2", "isobar", "solve", &heat]), "time steps on several ranks");
    assert_fails(&mpiexec(mpi, &["-n", "2", "isobar", "solve", &panel, "--device", "cuda"]), "--device cpu");
    let few = ["-n", "5", "isobar", "solve", &panel, "--set", "grid.ny=4"];
    assert_fails(&mpiexec(mpi, &few), "4 rows for 5 ranks");
    let nowhere = ["-n", "2", "isobar", "solve", &panel, "--output", "/no/such/folder/u.npy"];
    assert_fails(&mpiexec(mpi, &nowhere), "/no/such/folder");
}

/// A rank that cannot do its part, or does another, ends all with a message that names it.
fn ranks_must_agree(mpi: &Path) {
    let (panel, other) = (case("panel-tiny.toml"), case("box.toml"));
    let with = |last: &[&str]| {
        let mut args = vec!["-n", "2", "isobar", "solve", &panel, ":", "-n", "1", "isobar", "solve"];
        args.extend(last);
        mpiexec(mpi, &args)
    };
    assert_fails(&with(&["nothing.toml"]), "rank 2 of 3: nothing.toml: no such file");
    assert_fails(&with(&[&other]), "rank 2 of 3: the version of isobar, or the case: not the same as on rank 0");
    assert_fails(&with(&[&panel, "--set", "grid.ny=20"]), "rank 2 of 3: the version of isobar, or the case");
}
