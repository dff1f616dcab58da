//! Outputs never destroy an input, another output, or other data.

use std::fs;
use std::path::Path;

use tempfile::{TempDir, tempdir};

use crate::support::{after, assert_fails, entries, isobar, matrix_size, npy, stderr, stdout, succeeded};

const CASE: &str = "[problem]\nkind = \"diffusion\"\n[problem.rhs]\nkind = \"file\"\npath = \"f.npy\"\n[grid]\nnx = 4\nny = 4\n\
                    [diffusion]\ncoefficient = { file = \"k.npy\" }\ncoefficient_z = { ratio_file = \"ratio.npy\" }\n\
                    active = { file = \"active.npy\" }\nreaction = { file = \"c.npy\" }\nmultiplier = { file = \"ntg.npy\" }\n";
/// Every input file of the case.
const INPUTS: [&str; 7] = ["case.toml", "f.npy", "k.npy", "ratio.npy", "active.npy", "c.npy", "ntg.npy"];

/// Makes a folder with the case and its files.
fn folder() -> TempDir {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join("case.toml"), CASE).unwrap();
    for name in &INPUTS[1..] {
        let (shape, count) = if *name == "ratio.npy" { ("(1,)", 1) } else { ("(4, 4)", 16) };
        fs::write(folder.path().join(name), npy(shape, &vec![1.0; count])).unwrap();
    }
    folder
}

/// Runs the command in a folder; it must refuse, and leave the folder as it is.
#[track_caller]
fn refused(folder: &Path, args: &[&str], parts: &[&str]) {
    let before = snapshot(folder);
    let output = isobar(args).current_dir(folder).output().unwrap();
    assert_fails(&output, parts);
    assert_eq!(stdout(&output), "");
    assert_eq!(snapshot(folder), before, "{args:?}");
}

/// Returns every file below a folder with its content.
fn snapshot(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for name in entries(folder) {
        let path = folder.join(&name);
        if path.is_dir() {
            files.extend(snapshot(&path).into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)));
        } else {
            files.push((name, fs::read(&path).unwrap_or_default()));
        }
    }
    files
}

#[track_caller]
fn solved(folder: &Path, args: &[&str]) {
    let all = [&["solve", "case.toml", "--device", "cpu"], args].concat();
    succeeded(&isobar(all).current_dir(folder).output().unwrap());
}

#[test]
fn no_option_overwrites_an_input() {
    let folder = folder();
    let folder = folder.path();
    for input in INPUTS {
        for (command, option) in [("solve", "--report"), ("bench", "--report"), ("export", "--matrix")] {
            refused(folder, &[command, "case.toml", option, input], &[option, input, "would overwrite an input"]);
        }
        let rhs = ["export", "case.toml", "--matrix", "A.mtx", "--rhs", input];
        refused(folder, &rhs, &["--rhs", input, "would overwrite an input"]);
        if input.ends_with(".npy") {
            refused(folder, &["solve", "case.toml", "--output", input], &["--output", "would overwrite an input"]);
        }
    }
    fs::copy(folder.join("k.npy"), folder.join("k.png")).unwrap();
    let set = "diffusion.coefficient.file=k.png";
    refused(folder, &["solve", "case.toml", "--set", set, "--plot", "k.png"], &["--plot", "would overwrite an input"]);
    let spelt = format!("../{}/./k.npy", folder.file_name().unwrap().to_str().unwrap());
    refused(folder, &["solve", "case.toml", "--report", &spelt], &["would overwrite an input"]);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("k.npy", folder.join("link.json")).unwrap();
        refused(folder, &["solve", "case.toml", "--report", "link.json"], &["would overwrite an input"]);
    }
}

#[test]
fn no_output_overwrites_another() {
    let folder = folder();
    let folder = folder.path();
    fs::create_dir(folder.join("deep")).unwrap();
    refused(folder, &["export", "case.toml", "--matrix", "A.mtx", "--rhs", "deep/../A.mtx"], &["--rhs", "same file"]);
    refused(folder, &["solve", "case.toml", "--report", "u.npy", "--output", "./u.npy"], &["--output", "same file"]);
    refused(folder, &["solve", "case.toml", "--report", "u.zarr", "--output", "u.zarr/"], &["--output", "same file"]);
    solved(folder, &["--output", "u.zarr"]);
    let args = ["solve", "case.toml", "--output", "u.zarr", "--report", "u.zarr/run.json"];
    refused(folder, &args, &["--output u.zarr", "u.zarr/run.json of --report lies in it"]);
    let args = ["solve", "case.toml", "--output", "u.zarr", "--plot", "u.zarr/u/u.png"];
    refused(folder, &args, &["--plot u.zarr/u/u.png", "lies in u.zarr, which --output replaces"]);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("run.json", folder.join("link.json")).unwrap();
        let args = ["export", "case.toml", "--matrix", "run.json", "--rhs", "link.json"];
        refused(folder, &args, &["--rhs", "same file"]);
    }
}

#[test]
fn stores_of_others_stay() {
    let folder = folder();
    let folder = folder.path();
    solved(folder, &["--output", "u.zarr"]);
    solved(folder, &["--output", "u.zarr"]);
    // An input inside the store.
    fs::copy(folder.join("k.npy"), folder.join("u.zarr/k.npy")).unwrap();
    let set = ["--set", "diffusion.coefficient.file=u.zarr/k.npy"];
    let args = [&["solve", "case.toml", "--output", "u.zarr"][..], &set].concat();
    refused(folder, &args, &["--output u.zarr", "replaced as a whole", "u.zarr/k.npy, an input"]);
    refused(folder, &["solve", "case.toml", "--output", "u.zarr"], &["also holds k.npy", "choose another name"]);
    fs::remove_file(folder.join("u.zarr/k.npy")).unwrap();
    // The whole working folder is a store.
    fs::write(folder.join("zarr.json"), "{\"zarr_format\": 3, \"node_type\": \"group\"}").unwrap();
    let up = format!("../{}.zarr", folder.file_name().unwrap().to_str().unwrap());
    #[cfg(unix)]
    {
        let link = folder.join(&up);
        std::os::unix::fs::symlink(folder, &link).unwrap();
        refused(folder, &["solve", "case.toml", "--output", &up], &["--output", "an input, lies in it"]);
        fs::remove_file(link).unwrap();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_working_folder_that_is_gone() {
    let folder = folder();
    let gone = folder.path().join("gone");
    fs::create_dir(&gone).unwrap();
    let solve = format!("solve '{}/case.toml' --report run.json", folder.path().display());
    let output = after(&format!("cd '{0}' && rmdir '{0}'", gone.display()), &solve).output().unwrap();
    assert_fails(&output, &["--report run.json", "the working folder no longer exists"]);
}

#[test]
fn a_hyphen_is_standard_output() {
    let folder = folder();
    let folder = folder.path();
    let run = |args: &[&str]| {
        let output = isobar(args).current_dir(folder).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(entries(folder).len(), INPUTS.len(), "{:?}", entries(folder));
        output
    };
    for command in ["solve", "bench"] {
        let output = run(&[command, "case.toml", "--device", "cpu", "--report", "-"]);
        let report: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(report["outcome"]["stop"], "converged");
        assert!(stderr(&output).contains("outcome    converged"), "{}", stderr(&output));
        let quiet = run(&[command, "case.toml", "--device", "cpu", "--report", "-", "--quiet"]);
        assert!(!stdout(&quiet).is_empty() && stderr(&quiet).is_empty());
    }
    let output = run(&["export", "case.toml", "--matrix", "-"]);
    assert_eq!(matrix_size(&stdout(&output))[..2], [16, 16]);
    assert!(stderr(&output).contains("16 rows"));

    refused(
        folder,
        &["export", "case.toml", "--matrix", "-", "--rhs", "-"],
        &["--rhs -: --matrix goes to standard output too"],
    );
    refused(
        folder,
        &["solve", "case.toml", "--output", "-"],
        &["--output -", "a file only", ".npy, .vti, .vtr or .zarr", "./-"],
    );
    refused(folder, &["solve", "case.toml", "--plot", "-"], &["--plot -", "a file only", ".png"]);
    #[cfg(target_os = "linux")]
    {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let args = ["solve", "case.toml", "--device", "cpu", "--report", "-", "--quiet"];
        let output = isobar(args).current_dir(folder).stdout(full).output().unwrap();
        assert_fails(&output, &["--report -: standard output"]);
    }
}

#[cfg(unix)]
#[test]
fn names_of_files_do_not_command_the_terminal() {
    let folder = folder();
    let folder = folder.path();
    fs::copy(folder.join("case.toml"), folder.join("\u{1b}[31m.toml")).unwrap();
    let output = isobar(["solve", "\u{1b}[31m.toml", "--device", "cpu", "--report", "\u{1b}]0;x\u{7}"])
        .current_dir(folder)
        .output()
        .unwrap();
    let text = stdout(&output) + &stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("wrote      \\u{1b}]0;x\\u{7}") && !text.contains('\u{1b}'), "{text:?}");
    refused(folder, &["solve", "\u{1b}[2J"], &["\\u{1b}[2J: no such file"]);
}
