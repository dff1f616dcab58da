//! Every mistake ends with status 1, one message with a remedy, and no partial file.

use std::fs;

use tempfile::tempdir;

use crate::support::{Case, after, assert_fails, case, entries, isobar, npy, stderr, stdout};

const CASE: &str = "[problem]\nkind = \"helmholtz\"\n[grid]\nnx = 8\nny = 8\nnz = 4\n";

#[track_caller]
fn fails(args: &[&str], parts: &[&str]) {
    let output = isobar(args).output().unwrap();
    assert_fails(&output, parts);
    assert_eq!(stdout(&output), "");
}

/// Checks that a case of this text fails, with the message naming file and line.
#[track_caller]
fn case_fails(text: impl AsRef<[u8]>, parts: &[&str]) {
    let case = Case::new("").with("case.toml", text);
    let output = case.run("solve", &["--report", "report.json"]);
    assert_fails(&output, parts);
    assert_fails(&output, &["case.toml"]);
    assert_eq!(stdout(&output), "");
    assert_eq!(entries(case.folder()), ["case.toml"]);
}

/// Checks that the tiny case with these further arguments fails.
#[track_caller]
fn tiny_fails(args: &[&str], parts: &[&str]) {
    fails(&[&["solve", &case("panel-tiny.toml")], args].concat(), parts);
}

#[test]
fn command_lines() {
    let usage = |args: &[&str], part: &str| {
        let output = isobar(args).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
        assert_eq!(stdout(&output), "");
    };
    usage(&[], "Usage");
    usage(&["sovle"], "solve");
    usage(&["solve"], "CASE.toml");
    usage(&["solve", "a.toml", "--sett", "x=1"], "--set");
    usage(&["solve", "a.toml", "b.toml"], "b.toml");
    usage(&["solve", "a.toml", "--device", "gpu"], "cuda:N");
    usage(&["solve", "a.toml", "--device", "cuda:x"], "cuda:N");
    usage(&["solve", "a.toml", "--threads", "0"], "from 1 to");
    usage(&["solve", "a.toml", "--threads", "many"], "from 1 to");
    usage(&["solve", "a.toml", "--threads", "-1"], "from 1 to");
    usage(&["effective", "a.npy", "--open", "true"], "use a whole number, the label of the open cells");
    usage(&["solve", "a.toml", "--threads", "100000"], "from 1 to");
    usage(&["solve", "a.toml", "--report"], "--report");
    let output = isobar(["solve", "a.toml", "--device", "\u{7}\u{1b}[31mred"]).output().unwrap();
    assert!(stderr(&output).contains("red' for '--device") && !stderr(&output).contains(['\u{7}', '\u{1b}']));
    usage(&["export", "a.toml"], "--matrix");
}

#[test]
fn case_files_that_cannot_be_read() {
    fails(&["solve", "no/such/case.toml"], &["no/such/case.toml", "no such file"]);
    let folder = tempdir().unwrap();
    fails(&["solve", folder.path().to_str().unwrap()], &["a folder"]);
    fails(&["solve", &case("panel-tiny.toml/")], &["no such file"]);
    #[cfg(target_os = "linux")]
    fails(&["solve", "/dev/zero"], &["/dev/zero: longer than 64 MiB"]);
    case_fails(b"[problem]\nkind = \"\xff\xfe\"\n", &["byte 18 is not UTF-8"]);
    case_fails(b"\x93NUMPY\x01\x00", &["not UTF-8"]);
    case_fails("", &["problem.kind is missing"]);
    case_fails("[problem\nkind = 1", &["case.toml:1:"]);
    case_fails("[problem]\nkind = helmholtz\n", &["case.toml:2:"]);
    case_fails("\0\0\0", &["case.toml:1:"]);
}

#[test]
fn case_files_that_are_wrong() {
    case_fails(format!("{CASE}nw = 3\n"), &["case.toml:7:1", "unknown key \"nw\" in [grid]", "7 | nw = 3", "^^"]);
    case_fails(CASE.replace("helmholtz", "heat"), &["[heat] needs the key \"dt\""]);
}

#[test]
fn overrides() {
    tiny_fails(&["--set", "grid.nxx=5"], &["--set grid.nxx=5:", "did you mean \"nx\"?"]);
    tiny_fails(&["--precision", "f16"], &["solver.precision", "f64, f32, mixed"]);
    tiny_fails(&["--precision", "mixed", "--set", "solver.method=cg"], &["solver.precision", "multigrid"]);
}

#[test]
fn devices() {
    // No machine has a thousand GPUs; the missing part depends on the machine.
    tiny_fails(&["--device", "cuda:1000"], &["--device cuda:1000"]);
}

#[test]
fn grids_larger_than_the_machine() {
    let cubed = |n: &str| ["nx", "ny", "nz"].map(|key| format!("grid.{key}={n}"));
    for (n, parts) in [("20000", ["memory", "available"]), ("9223372036854775807", ["grid", "cells"])] {
        let [x, y, z] = cubed(n);
        tiny_fails(&["--set", &x, "--set", &y, "--set", &z], &parts);
    }
    tiny_fails(&["--set", "grid.nx=18446744073709551616"], &["grid.nx"]);
}

#[test]
fn outputs_are_checked_before_the_solve() {
    let folder = tempdir().unwrap();
    let inside = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    tiny_fails(&["--output", &inside("u.xyz")], &["--output", "u.xyz", ".npy", ".vti", ".vtr", ".zarr"]);
    tiny_fails(&["--output", &inside("u")], &["--output", ".npy"]);
    tiny_fails(&["--plot", &inside("u.pdf")], &["--plot", "u.pdf", ".png"]);
    tiny_fails(&["--report", &inside("no/report.json")], &["--report", "does not exist"]);
    tiny_fails(&["--output", &inside("no/u.npy")], &["--output", "does not exist"]);
    tiny_fails(&["--plot", &inside("no/u.png")], &["--plot", "does not exist"]);
    #[cfg(target_os = "linux")]
    tiny_fails(
        &["--quiet", "--output", "/proc/u.npy"],
        &["--output", "no file can be made in /proc; choose another folder"],
    );
    tiny_fails(&["--report", folder.path().to_str().unwrap()], &["--report", "is a folder"]);
    tiny_fails(&["--report", ""], &["--report", "a value is required"]);
    tiny_fails(&["--report", &inside("same"), "--plot", &inside("same")], &[".png"]);
    tiny_fails(&["--report", &inside("same.npy"), "--output", &inside("same.npy")], &["same file"]);
    fs::write(folder.path().join("u.zarr"), "mine").unwrap();
    tiny_fails(&["--output", &inside("u.zarr")], &["u.zarr", "not a zarr store"]);
    assert_eq!(fs::read(folder.path().join("u.zarr")).unwrap(), b"mine");
    assert_eq!(entries(folder.path()), ["u.zarr"]);
}

#[cfg(target_os = "linux")]
#[test]
fn places_that_cannot_be_written() {
    tiny_fails(&["--report", "/sys/isobar-report.json"], &["--report /sys/isobar-report.json", "permission denied"]);
    let path = case("panel-tiny.toml");
    let output = isobar(["solve", &path, "--report", "/dev/full"]).output().unwrap();
    assert_fails(&output, &["/dev/full", "disk is full"]);
    assert!(!fs::metadata("/dev/full").unwrap().is_file());

    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = isobar(["solve", &path]).stdout(full).output().unwrap();
    assert_fails(&output, &["standard output"]);
}

#[test]
fn right_hand_sides_from_files() {
    let case = Case::new(&format!("{CASE}[problem.rhs]\nkind = \"file\"\npath = \"rhs.npy\"\n"));
    case.fails(&["problem.rhs.path", "rhs.npy", "no such file"]);
    let fails_with = |bytes: &[u8], parts: &[&str]| {
        fs::write(case.path("rhs.npy"), bytes).unwrap();
        case.fails(parts);
    };
    fails_with(b"", &["problem.rhs.path", "rhs.npy"]);
    fails_with(&npy("(4, 8, 9)", &[1.0; 288]), &["(4, 8, 9)", "(4, 8, 8)"]);
    let mut values = [1.0; 256];
    values[100] = f64::NAN;
    fails_with(&npy("(4, 8, 8)", &values), &["a[1, 4, 4] is NaN"]);
    fs::remove_file(case.path("rhs.npy")).unwrap();
    fs::create_dir(case.path("rhs.npy")).unwrap();
    case.fails(&["is a folder"]);
    case_fails(format!("{CASE}[problem.rhs]\nkind = \"file\"\n"), &["case.toml:8:8", "problem.rhs.path"]);
}

#[test]
fn subcommands_that_moved_say_where() {
    for (args, command) in [
        (&["reproduce"][..], "-p isobar-papers -- reproduce a"),
        (&["reproduce", "b", "--size", "small", "--help"], "-p isobar-papers -- reproduce a"),
        (&["model", "--ranks", "16384"], "-p isobar-papers -- model --ranks 64"),
    ] {
        fails(args, &[command]);
    }
    let help = stdout(&isobar(["--help"]).output().unwrap());
    assert!(!help.contains("reproduce") && !help.contains("model"), "{help}");
}

/// With any memory limit a case is solved, refused, or ended with a message; never killed by a signal.
#[cfg(target_os = "linux")]
#[test]
fn too_little_memory() {
    let path = case("bubbles_3d.toml");
    let sets = "--set grid.nx=96 --set grid.ny=96 --set grid.nz=96 --set solver.max_iterations=1";
    let solve = format!("solve '{path}' --device cpu --threads 1 --quiet {sets}");
    let run = |limit: u32| after(&format!("ulimit -v {limit}"), &solve).output().unwrap();
    assert_fails(&run(115_000), &["a grid of 96×96×96 cells needs", "of memory are available"]);
    for limit in (120_000..480_000).step_by(40_000) {
        let output = run(limit);
        let message = stderr(&output);
        assert!(matches!(output.status.code(), Some(0..=2)), "{limit}: {:?} {message}", output.status);
        assert!(output.status.code() != Some(1) || message.contains("error: "), "{limit}: {message}");
    }
}
