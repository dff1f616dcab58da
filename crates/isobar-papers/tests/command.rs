//! Tests of the command through its interface.

use std::path::Path;
use std::process::{Command, Output};

/// Runs the command.
fn papers<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    Command::new(env!("CARGO_BIN_EXE_isobar-papers")).args(args).env("RUST_BACKTRACE", "1").output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Fails unless the command, with these arguments, ends with status 1, nothing on standard output, and a message that holds all `parts`.
#[track_caller]
fn fails(args: &[&str], parts: &[&str]) {
    let output = papers(args);
    let message = stderr(&output);
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), String::new()), "{message}");
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in:\n{message}");
    }
}

#[test]
fn a_given_machine_is_predicted() {
    let machine = "--bandwidth 250 --network 1 --latency 10 --share 80,40";
    let args = format!("model --ranks 64 --grid 16,16,8 {machine} --threads 1 --device cpu --report -");
    let output = papers(args.split(' '));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    for (key, expected) in [("memory", 250e9), ("network", 1e9), ("latency", 1e-5)] {
        assert!((report["machine"][key].as_f64().unwrap() / expected - 1.0).abs() < 1e-12, "{key}");
    }
    assert_eq!(report["given"], serde_json::json!([true, true, true]));
    // For 1, 4, 16 and 64 ranks, and a trillion unknowns, by two methods.
    let rows = report["predicted"].as_array().unwrap();
    assert_eq!(rows.len(), 2 * 5);
    assert_eq!(rows[0]["efficiency"], 1.0);
    // 10 vectors of 16 · 16 · 8 numbers at 80 % of 250 GB/s.
    assert!((rows[0]["an_iteration"].as_f64().unwrap() - 10.0 * 2048.0 * 8.0 / 200e9).abs() < 1e-18);
    let (last, trillion) = (&rows[3], &rows[4]);
    assert_eq!((last["ranks"].as_f64(), last["unknowns"].as_f64()), (Some(64.0), Some(64.0 * 2048.0)));
    // ρ by hand: conjugate gradients send a row of 4 · 16 numbers for 10 of 16 · 16 that they read and write, 250 times as slowly.
    let rho = 250.0 * 64.0 / 2560.0;
    assert!((last["rho"].as_f64().unwrap() - rho).abs() < 1e-12 * rho);
    // A message and two sums over 2⁶ ranks.
    let seconds = &last["seconds"];
    assert!((seconds["messages"].as_f64().unwrap() - 1e-5).abs() < 1e-15);
    assert!((seconds["sums"].as_f64().unwrap() - 12e-5).abs() < 1e-15);
    assert!((trillion["unknowns"].as_f64().unwrap() / 1e12 - 1.0).abs() < 1e-9);
    assert!(report["measured"].as_array().unwrap().iter().all(|row| row["an_iteration"].as_f64().unwrap() > 0.0));
    let summary = stderr(&output);
    for part in ["250.0 GB/s, as given", "10.0 µs, as given", "Assumed: ", "equation", "1.00e12"] {
        assert!(summary.contains(part), "{part:?} is not in:\n{summary}");
    }
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    for (args, part) in [
        (&["model"][..], "--ranks"),
        (&["model", "--ranks", "0"], "'0'"),
        (&["model", "--ranks", "4", "--grid", "8,8"], "three whole numbers"),
        (&["model", "--ranks", "4", "--latency=-1"], "--latency"),
        (&["model", "--ranks", "4", "--network", "inf"], "positive number"),
        (&["model", "--ranks", "4", "--precision", "mixed"], "f64 or f32"),
        (&["model", "--ranks", "4", "--share", "80"], "two positive numbers"),
    ] {
        fails(args, &[part]);
    }
    fails(&["model", "--ranks", "1000000", "--unknowns", "1e6"], &["error: --unknowns", "less than a column"]);
    fails(&["model", "--ranks", "2", "--unknowns", "nan"], &["error: --unknowns"]);
}

#[test]
fn papers_that_are_not_there() {
    fails(&["reproduce"], &["PAPER"]);
    fails(&["reproduce", "a", "--size", "huge"], &["small"]);
    fails(&["reproduce", "a", "--plot", "x.png"], &["error: --plot", "paper c"]);
    fails(&["reproduce", "z"], &["\"z\"", "available: a, b"]);
    fails(&["reproduce", "a", "--report", "no/such/folder.json"], &["error: --report", "does not exist"]);
    assert!(!Path::new("no").exists());
}
