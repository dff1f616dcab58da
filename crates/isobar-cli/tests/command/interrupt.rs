//! Signals to a real process: its files and its exit.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::tempdir;

use crate::support::{after, assert_fails, case, entries, isobar, json, overrides, stderr, values};

/// Starts the command in a folder, listening to signals even where this test was started to ignore them.
pub(crate) fn start(folder: &Path, args: &[&str]) -> Child {
    let mut command = isobar(args);
    command.current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    let listen = || {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: `signal` may be called between fork and exec, and takes no handler of ours.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: the closure allocates nothing and takes no lock.
    unsafe { command.pre_exec(listen) }.spawn().unwrap()
}

pub(crate) fn send(signal: &str, child: &Child) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {}", child.id())]).status().unwrap();
    assert!(sent.success());
}

/// Waits for something that must come soon.
#[track_caller]
fn wait_for(what: &str, mut there: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !there() {
        assert!(begin.elapsed() < Duration::from_secs(60), "waited in vain for {what}");
        sleep(Duration::from_millis(1));
    }
}

fn temporaries(folder: &Path) -> Vec<String> {
    entries(folder).into_iter().filter(|name| name.starts_with(".isobar-")).collect()
}

/// Waits for the first iteration; returns the standard output after it.
fn first_iteration(child: &mut Child) -> BufReader<ChildStdout> {
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("iteration") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "ended too soon");
    }
    out
}

/// Returns the exit status and standard error.
fn end(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    (output.status.code(), stderr(&output))
}

/// Returns arguments of a solve that takes many iterations and reaches no tolerance.
fn endless() -> Vec<String> {
    let sets = [
        "solver.method=cg",
        "solver.preconditioner.kind=none",
        "solver.tolerance=1e-300",
        "solver.max_iterations=2000000",
    ];
    let grid = ["grid.nx=128", "grid.ny=128", "grid.nz=64"];
    let path = case("box.toml");
    let sets = sets.into_iter().chain(grid).flat_map(|set| ["--set".to_owned(), set.to_owned()]);
    [vec!["solve".to_owned(), path, "--device".to_owned(), "cpu".to_owned()], sets.collect()].concat()
}

#[test]
fn no_temporary_stays_behind() {
    // Written slowly enough to be interrupted: 7 million lines, and 256 files.
    let export = ["export", &case("box.toml"), "--matrix", "A.mtx", "--set", "grid.nx=128", "--set", "grid.nz=64"];
    for signal in ["INT", "TERM", "HUP"] {
        let folder = tempdir().unwrap();
        fs::write(folder.path().join("A.mtx"), "an earlier one").unwrap();
        let child = start(folder.path(), &export);
        // The check before the work makes an empty one.
        let begun = |name: &String| fs::metadata(folder.path().join(name)).is_ok_and(|file| file.len() > 0);
        wait_for("half a matrix", || temporaries(folder.path()).iter().any(begun));
        send(signal, &child);
        let (status, message) = end(child);
        assert_eq!((status, message.as_str()), (Some(130), format!("SIG{signal}: interrupted\n").as_str()));
        assert_eq!(entries(folder.path()), ["A.mtx"], "{signal}");
        assert_eq!(fs::read_to_string(folder.path().join("A.mtx")).unwrap(), "an earlier one");
    }
}

#[test]
fn half_a_store_never_stays_behind() {
    let path = case("box.toml");
    let sets = overrides(&["grid.nx=512", "grid.ny=512", "grid.nz=64", "solver.max_iterations=1"]);
    let args = [&["solve", &path, "--device", "cpu", "--output", "u.zarr", "--quiet"], &sets[..]].concat();
    for signal in ["INT", "TERM"] {
        let folder = tempdir().unwrap();
        let child = start(folder.path(), &args);
        // The check before the solve creates and removes a file too: wait for the one with content.
        wait_for("chunks", || {
            temporaries(folder.path()).iter().any(|name| folder.path().join(name).join("u/c/0").exists())
        });
        send(signal, &child);
        assert_eq!(end(child), (Some(130), format!("SIG{signal}: interrupted\n")));
        // It may have been complete by then.
        let left = entries(folder.path());
        assert!(left.is_empty() || left == ["u.zarr"] && folder.path().join("u.zarr/zarr.json").exists(), "{left:?}");
    }
}

/// A killed process cannot remove its temporary files: the next one does.
#[cfg(target_os = "linux")]
#[test]
fn what_a_killed_process_leaves_goes_with_the_next() {
    let folder = tempdir().unwrap();
    let path = case("box.toml");
    let small = ["solve", &path, "--device", "cpu", "--set", "solver.max_iterations=1", "--quiet"];
    let large = ["--set", "grid.nx=512", "--set", "grid.ny=512", "--set", "grid.nz=64"];
    let content = |name: &String| {
        let path = folder.path().join(name);
        path.join("u/c/0").exists() || fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() > 0)
    };
    for output in ["u.zarr", "u.npy"] {
        let mut child = start(folder.path(), &[&small[..], &large, &["--output", output]].concat());
        wait_for("half a result", || {
            temporaries(folder.path()).iter().any(content) || folder.path().join(output).exists()
        });
        child.kill().unwrap();
        // It has not been waited for: it is a zombie, and counts as ended.
        wait_for("its end", || {
            let state = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
            state.rsplit(')').next().unwrap().trim().starts_with('Z')
        });
        let mut next = start(folder.path(), &[&small[..], &["--output", output]].concat());
        next.wait().unwrap();
        assert_eq!(entries(folder.path()), [output]);
        child.wait().unwrap();
        if folder.path().join(output).is_dir() {
            fs::remove_dir_all(folder.path().join(output)).unwrap();
        }
    }
}

/// Without free file descriptors a temporary folder cannot be emptied: the next process empties it.
#[cfg(target_os = "linux")]
#[test]
fn too_few_open_files_leave_nothing_for_good() {
    let folder = tempdir().unwrap();
    let path = case("panel-tiny.toml");
    let (mut failed, mut written) = (0, 0);
    for output in ["u.npy", "u.vti", "u.zarr"] {
        for most in 3..24 {
            let solve = format!("solve '{path}' --device cpu --output {output}");
            let run = after(&format!("ulimit -n {most}"), &solve).current_dir(folder.path()).output().unwrap();
            if run.status.success() {
                written += 1;
            } else {
                failed += 1;
            }
            if temporaries(folder.path()).is_empty() {
                continue;
            }
            let mut next = isobar(["solve", &path, "--device", "cpu", "--output", output]);
            assert!(next.current_dir(folder.path()).output().unwrap().status.success());
            assert_eq!(temporaries(folder.path()), [""; 0], "{output} with {most} files");
        }
    }
    assert!(failed > 0 && written > 0, "{failed} failed, {written} did not");
}

#[test]
fn a_second_signal_ends_a_solve_at_once() {
    let folder = tempdir().unwrap();
    let args = endless();
    let args: Vec<&str> = args.iter().map(String::as_str).chain(["--report", "run.json"]).collect();
    let mut child = start(folder.path(), &args);
    let _out = first_iteration(&mut child);
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    send("INT", &child);
    let mut said = String::new();
    errors.read_line(&mut said).unwrap();
    assert!(said.starts_with("SIGINT: stopping the solve; a second signal ends it at once"), "{said}");
    send("INT", &child);
    let begin = Instant::now();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(begin.elapsed() < Duration::from_secs(10));
    said.clear();
    errors.read_to_string(&mut said).unwrap();
    assert_eq!(said, "SIGINT: interrupted\n");
    assert!(entries(folder.path()).is_empty());
}

#[test]
fn an_interrupted_solve_still_writes_its_results() {
    for (signal, method) in [("INT", "cg"), ("TERM", "bicgstab"), ("INT", "multigrid")] {
        let folder = tempdir().unwrap();
        let mut args = endless();
        let files = ["--report", "run.json", "--output", "u.npy", "--plot", "u.png", "--set"].map(str::to_owned);
        args.extend(files);
        args.push(format!("solver.method={method}"));
        if method == "multigrid" {
            // Such slow cycles neither converge nor stall soon.
            args.extend(["--set", "solver.multigrid.relaxation=1e-3"].map(str::to_owned));
        }
        let mut child = start(folder.path(), &args.iter().map(String::as_str).collect::<Vec<_>>());
        let mut out = first_iteration(&mut child);
        send(signal, &child);
        let begin = Instant::now();
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        let (status, message) = end(child);
        assert_eq!(status, Some(130), "{message}");
        assert!(begin.elapsed() < Duration::from_secs(30));
        assert!(message.starts_with(&format!("SIG{signal}: stopping the solve")), "{message}");
        assert!(rest.contains("NOT converged: interrupted after"), "{rest}");
        assert_eq!(entries(folder.path()), ["run.json", "u.npy", "u.png"]);
        let report = json(&folder.path().join("run.json"));
        assert_eq!(report["outcome"]["stop"], "interrupted");
        let iterations = report["outcome"]["iterations"].as_u64().unwrap();
        assert_eq!(report["outcome"]["history"].as_array().unwrap().len() as u64, iterations + 1);
        // The file holds the current iterate.
        let solution = values(&folder.path().join("u.npy"));
        let sum: f64 = solution.iter().inspect(|value| assert!(value.is_finite())).sum();
        // The best iterate may be the first guess, 0.
        let reported = report["checks"]["sum"].as_f64().unwrap();
        assert!((sum - reported).abs() <= 1e-9 * reported.abs());
    }
}

#[test]
fn ignored_signals_stay_ignored() {
    let folder = tempdir().unwrap();
    let mut solve = after("trap '' HUP", &endless().join(" "));
    let mut child = solve.current_dir(folder.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    send("HUP", &child);
    sleep(Duration::from_millis(300));
    assert_eq!(child.try_wait().unwrap(), None, "nohup must go on working");
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}

#[test]
fn a_limit_on_file_sizes_is_an_error() {
    let folder = tempdir().unwrap();
    let path = case("panel-tiny.toml");
    for output in ["u.npy", "u.vti", "u.zarr"] {
        let solve = format!("solve '{path}' --device cpu --output {output}");
        let run = after("ulimit -f 8", &solve).current_dir(folder.path()).output().unwrap();
        assert_fails(&run, &["--output", output, "`ulimit -f` allows"]);
        assert!(entries(folder.path()).is_empty());
    }
}
