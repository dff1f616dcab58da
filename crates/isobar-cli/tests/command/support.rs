//! Execution of the command and inspection of its results.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::{TempDir, tempdir};

/// Returns the command, not started yet.
pub(crate) fn isobar<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isobar"));
    command.args(args).env("RUST_BACKTRACE", "1");
    command
}

/// Returns the standard output of a command that must succeed, with nothing on the standard error.
#[track_caller]
pub(crate) fn succeeds<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> String {
    succeeded(&isobar(args).output().unwrap())
}

/// Checks that it did.
#[track_caller]
pub(crate) fn succeeded(output: &Output) -> String {
    assert_eq!((output.status.code(), stderr(output)), (Some(0), String::new()));
    stdout(output)
}

/// Returns the standard output.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Returns the standard error.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Returns the path of a case file of this repository.
pub(crate) fn case(name: &str) -> String {
    format!("{}/../../cases/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Returns the command, started by a shell after other commands.
#[cfg(unix)]
pub(crate) fn after(commands: &str, args: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{commands} && exec '{}' {args}", env!("CARGO_BIN_EXE_isobar"))]);
    command
}

/// Returns the names in a folder.
pub(crate) fn entries(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Fails unless the command ended with status 1 and one message that holds all `parts`.
#[track_caller]
pub(crate) fn assert_fails(output: &Output, parts: &[&str]) {
    let message = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.starts_with("error: "), "{message}");
    assert_eq!(message.matches("error: ").count(), 1, "{message}");
    assert!(message.lines().count() <= 8, "{message}");
    for wrong in ["panicked", "backtrace", "RUST_BACKTRACE", "internal error", "Some(", "Err("] {
        assert!(!message.contains(wrong), "{wrong:?} in:\n{message}");
    }
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in:\n{message}");
    }
}

/// A case file in its own folder, for files beside it.
pub(crate) struct Case {
    folder: TempDir,
}

impl Case {
    pub(crate) fn new(text: &str) -> Self {
        Self { folder: tempdir().unwrap() }.with("case.toml", text)
    }

    pub(crate) fn with(self, name: &str, bytes: impl AsRef<[u8]>) -> Self {
        fs::write(self.path(name), bytes).unwrap();
        self
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Returns what a command says about the case.
    pub(crate) fn run(&self, command: &str, args: &[&str]) -> Output {
        let all = [&[command, "case.toml", "--device", "cpu"], args].concat();
        isobar(all).current_dir(self.folder()).output().unwrap()
    }

    /// Returns the report of a solve that converges.
    #[track_caller]
    pub(crate) fn solve(&self, args: &[&str]) -> Value {
        succeeded(&self.run("solve", &[&["--quiet", "--report", "report.json"], args].concat()));
        json(&self.path("report.json"))
    }

    /// Checks that the solve fails with one message that holds all parts.
    #[track_caller]
    pub(crate) fn fails(&self, parts: &[&str]) {
        self.fails_with(&[], parts);
    }

    /// Checks that it fails with more arguments.
    #[track_caller]
    pub(crate) fn fails_with(&self, args: &[&str], parts: &[&str]) {
        assert_fails(&self.run("solve", &[&["--quiet"], args].concat()), parts);
    }
}

/// Returns the arguments that override keys of a case.
pub(crate) fn overrides<'a>(sets: &[&'a str]) -> Vec<&'a str> {
    sets.iter().flat_map(|&set| ["--set", set]).collect()
}

/// Reads a report.
pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// Reads the values of an .npy file.
pub(crate) fn values(path: &Path) -> Vec<f64> {
    fs::read(path).unwrap()[128..].as_chunks().0.iter().map(|&bytes| f64::from_le_bytes(bytes)).collect()
}

/// Makes the .npy file of an array of ones, or of other content.
pub(crate) fn npy(shape: &str, values: &[f64]) -> Vec<u8> {
    let mut header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

/// Returns the rows, columns and entries of a Matrix Market file, which must have as many lines.
#[track_caller]
pub(crate) fn matrix_size(file: &str) -> [usize; 3] {
    let mut lines = file.lines().skip_while(|line| line.starts_with('%'));
    let sizes: Vec<usize> = lines.next().unwrap().split(' ').map(|size| size.parse().unwrap()).collect();
    assert_eq!(lines.count(), sizes[2]);
    sizes.try_into().unwrap()
}
