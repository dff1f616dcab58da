//! Tests of successful solves.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use serde_json::Value;
use tempfile::tempdir;

use crate::support::{
    Case, assert_fails, case, entries, isobar, json, matrix_size, npy, number, overrides, stderr, stdout, succeeded,
    succeeds,
};

/// Solves a case of this repository; returns the exit status and the report.
fn solve(name: &str, args: &[&str]) -> (Option<i32>, Value) {
    let folder = tempdir().unwrap();
    let report = folder.path().join("report.json");
    let solve = ["solve", &case(name), "--report", report.to_str().unwrap()];
    let output = isobar([&solve, args].concat()).output().unwrap();
    assert_eq!(stderr(&output), "");
    (output.status.code(), json(&report))
}

#[test]
fn a_report_says_everything() {
    let (status, report) = solve("panel-tiny.toml", &["--device", "cpu", "--threads", "2"]);
    assert_eq!(status, Some(0));
    assert_eq!(report["version"], env!("CARGO_PKG_VERSION"));
    assert!(report["case"].as_str().unwrap().ends_with("panel-tiny.toml"));
    assert_eq!(report["problem"], serde_json::json!({"kind": "helmholtz", "unknowns": 4096, "grid": [16, 16, 16]}));
    assert_eq!(report["device"]["kind"], "cpu");
    assert_eq!(report["device"]["count"], 1);
    assert_eq!(report["device"]["ranks"], 1);
    assert_eq!(report["device"]["threads"], 2);
    assert_eq!(report["solver"]["method"], "multigrid");
    assert_eq!(report["solver"]["precision"], "f64");
    let outcome = &report["outcome"];
    assert_eq!(outcome["stop"], "converged");
    let history = outcome["history"].as_array().unwrap();
    assert_eq!(history.len() as u64, outcome["iterations"].as_u64().unwrap() + 1);
    assert_eq!(number(&history[0]), 1.0);
    assert!(number(&outcome["relative_residual"]) <= 1e-5);
    assert!(report["error"].is_null());
    assert!(report.get("steps").is_none());
    assert!(number(&report["checks"]["norm2"]) > 0.0);
    let [setup, upload, solve, download, total] =
        ["setup", "upload", "solve", "download", "total"].map(|key| number(&report["seconds"][key]));
    assert!(setup > 0.0 && solve > 0.0 && total >= setup + upload + solve + download, "{}", report["seconds"]);
    assert!(number(&report["traffic"]["bytes"]) > 0.0);
    // Short runs are not compared with a copy.
    assert!(report["traffic"]["copy_gb_per_s"].is_null());
}

/// The default is vertical modes where they are predicted to be faster, with the reason; multigrid where coupling along
/// columns is weak.
#[test]
fn the_default_is_what_is_predicted_to_be_faster() {
    for (lambda, method) in [("1.0", "modes"), ("0.01", "multigrid")] {
        let lambda = format!("problem.lambda={lambda}");
        let (status, report) = solve("panel-tiny.toml", &["--set", "solver.method=auto", "--set", &lambda]);
        assert_eq!(status, Some(0));
        assert_eq!(report["solver"]["method"], method, "{lambda}");
    }
    let output = isobar(["solve", &case("panel-tiny.toml"), "--set", "solver.method=auto"]).output().unwrap();
    assert!(stdout(&output).contains("vertical modes are predicted to read and write"), "{}", stdout(&output));
}

#[test]
fn every_precision_is_reported() {
    // Thin layers keep the true residual of a solution stored in single precision above 1e-3.
    for (precision, tolerance) in [("f64", "1e-8"), ("mixed", "1e-8"), ("f32", "5e-3")] {
        let tolerance = format!("solver.tolerance={tolerance}");
        let (status, report) = solve("panel-tiny.toml", &["--precision", precision, "--set", &tolerance]);
        assert_eq!((status, &report["solver"]["precision"]), (Some(0), &precision.into()));
    }
}

#[test]
fn the_error_is_reported_where_the_solution_is_known() {
    let (status, report) = solve("box-manufactured.toml", &overrides(&["grid.nx=16", "grid.ny=16", "grid.nz=16"]));
    let error = number(&report["error"]["l2"]);
    assert!(status == Some(0) && error > 0.0 && error < 0.1, "{error}");
}

#[test]
fn not_converging_is_status_2_with_a_report() {
    let (status, report) = solve("panel-tiny.toml", &["--set", "solver.max_iterations=1"]);
    assert_eq!(status, Some(2));
    assert_eq!(report["outcome"]["stop"], "max_iterations");
    assert_eq!(report["outcome"]["iterations"], 1);
    let output = isobar(["solve", &case("panel-tiny.toml"), "--set", "solver.max_iterations=1"]).output().unwrap();
    assert!(stdout(&output).contains("NOT converged") && stdout(&output).contains("raise solver.max_iterations"));
}

#[test]
fn a_right_hand_side_comes_from_a_file() {
    let case = Case::new(
        "[problem]\nkind = \"helmholtz\"\n[problem.rhs]\nkind = \"file\"\npath = \"rhs.npy\"\nweighting = \"none\"\n\
         [grid]\nnx = 8\nny = 6\nnz = 4\n",
    )
    .with("rhs.npy", npy("(4, 6, 8)", &[1.0; 192]));
    let sum = |args: &[&str]| number(&case.solve(args)["checks"]["sum"]);
    assert_eq!(sum(&[]), sum(&["--set", "problem.rhs.kind=constant"]));
}

#[test]
fn solutions_are_written_in_every_format() {
    let folder = tempdir().unwrap();
    let path = case("panel-tiny.toml");
    for name in ["u.npy", "u.vti", "u.zarr"] {
        let target = folder.path().join(name);
        let text = succeeds(["solve".as_ref(), path.as_ref(), "--output".as_ref(), target.as_os_str()]);
        assert!(text.contains(name), "{text}");
    }
    let plot = folder.path().join("u.png");
    succeeds(["solve".as_ref(), path.as_ref(), "--plot".as_ref(), plot.as_os_str()]);
    assert!(fs::read(&plot).unwrap().starts_with(b"\x89PNG"));
    assert_eq!(entries(folder.path()), ["u.npy", "u.png", "u.vti", "u.zarr"]);
    assert_eq!(fs::metadata(folder.path().join("u.npy")).unwrap().len(), 128 + 8 * 4096);
}

#[test]
fn progress_is_lines_in_a_pipe_and_nothing_when_quiet() {
    let path = case("panel-tiny.toml");
    let output = isobar(["solve", &path, "--set", "solver.method=cg"]).output().unwrap();
    let text = stdout(&output);
    assert!(text.lines().filter(|line| line.starts_with("iteration ")).count() >= 3, "{text}");
    assert!(!text.contains('\r') && !text.contains('\u{1b}'), "{text}");
    assert_eq!(succeeds(["solve", &path, "--quiet"]), "");
}

#[test]
fn a_reader_that_leaves_changes_nothing() {
    let folder = tempdir().unwrap();
    let report = folder.path().join("report.json");
    let path = case("panel-tiny.toml");
    for command in ["solve", "bench"] {
        let mut child = isobar([command.as_ref(), path.as_ref(), "--report".as_ref(), report.as_os_str()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let mut message = String::new();
        child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
        assert_eq!((child.wait().unwrap().code(), message.as_str()), (Some(0), ""));
        assert!(report.exists());
        fs::remove_file(&report).unwrap();
    }
}

#[test]
fn keys_without_use_are_noted() {
    let text = "[problem]\nkind = \"diffusion\"\n[problem.rhs]\nkind = \"constant\"\n[grid]\nnx = 12\nny = 12\nnz = 12\n[diffusion]\nboundary = 0.0\n";
    let run = Case::new(text);
    let said = |sets: &[&str]| stdout(&run.run("solve", &overrides(sets)));
    for (method, key, note) in [
        ("multigrid", "solver.jacobi.relaxation=0.5", "solver.jacobi is not used by the method \"multigrid\""),
        ("direct", "solver.multigrid.pre=2", "solver.multigrid is not used by the method \"direct\""),
        ("cg", "solver.modes.sweeps=2", "solver.modes is not used by the method \"cg\""),
        (
            "cg",
            "solver.deflation.stripes=bodies",
            "solver.deflation is not used by the method \"cg\"; use \"deflated-cg\"",
        ),
        (
            "cg",
            "solver.preconditioner.order=5",
            "solver.preconditioner.order is not used by the preconditioner \"auto\"; use \"neumann\"",
        ),
        ("multigrid", "problem.rhs.seed=3", "problem.rhs.seed is not used by a right-hand side of kind \"constant\""),
    ] {
        let method = format!("solver.method={method}");
        let without = said(&[&method]);
        assert!(!without.contains("is not used by"), "{without}");
        let with = said(&[&method, key]);
        assert_eq!((with.contains(note), with.matches("is not used by").count()), (true, 1), "{with}");
    }
    for used in ["solver.guess=random", "problem.rhs.kind=random"] {
        let text = said(&["problem.rhs.seed=3", used]);
        assert!(!text.contains("is not used by"), "{text}");
    }
    // Time steps say so too.
    let sets = overrides(&["heat.end_time=1e-3", "grid.nz=8", "solver.jacobi.relaxation=0.5"]);
    let heat = ["solve", &case("heat.toml"), "--device", "cpu"];
    let text = succeeded(&isobar([&heat[..], &sets].concat()).output().unwrap());
    assert!(text.contains("solver.jacobi is not used by the method"), "{text}");
}

#[test]
fn bench_scales_with_threads() {
    let folder = tempdir().unwrap();
    let report = folder.path().join("report.json");
    let path = case("panel-tiny.toml");
    let bench = |arguments: &[&str]| {
        let common = ["bench", &path, "--device", "cpu", "--report", report.to_str().unwrap()];
        isobar([&common, arguments].concat()).output().unwrap()
    };
    for (scaling, grow) in [("weak", true), ("strong", false)] {
        let text = succeeded(&bench(&["--threads", "3", "--scaling", scaling]));
        assert!(text.contains("efficiency"), "{text}");
        let report = json(&report);
        let points = report["points"].as_array().unwrap();
        assert_eq!(points.iter().map(|point| point["count"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!((number(&points[0]["efficiency"]), report["scaling"].as_str()), (1.0, Some(scaling)));
        for point in points {
            let factor = if grow { number(&point["count"]) } else { 1.0 };
            assert_eq!(number(&point["grid"][1]), factor * number(&points[0]["grid"][1]));
            assert!(number(&point["relative_residual"]) <= 1e-5 && number(&point["efficiency"]) > 0.0);
        }
    }
    // Cells keep their widths: one solve takes as many iterations as the other, on levels of the same kind.
    let mut bubbles =
        isobar(["bench", &case("bubbles_3d.toml"), "--device", "cpu", "--threads", "2", "--scaling", "weak"]);
    bubbles
        .args(["--set", "grid.nx=16", "--set", "grid.ny=16", "--set", "grid.nz=16"])
        .args(["--set", "diffusion.coefficient=1.0", "--set", "diffusion.boundary=0.0"])
        .args(["--set", "solver.method=cg", "--set", "solver.preconditioner=multigrid"])
        .args(["--report", report.to_str().unwrap()]);
    succeeded(&bubbles.output().unwrap());
    let points = json(&report)["points"].clone();
    assert_eq!(points[0]["iterations"], points[1]["iterations"], "{points}");
    let output = bench(&["--scaling", "sideways"]);
    assert!(stderr(&output).contains("weak"), "{}", stderr(&output));
    let heat = isobar(["bench", &case("heat.toml"), "--scaling", "weak"]).output().unwrap();
    assert!(stderr(&heat).contains("heat equations"), "{}", stderr(&heat));
    let text = "[problem]\nkind = \"diffusion\"\n[grid]\nnx = 4\nny = 3\nnz = 1\n[diffusion]\ncoefficient = { file = \"k.npy\" }\nboundary = 0.0\n";
    let files = Case::new(text).with("k.npy", npy("(1, 3, 4)", &[1.0; 12]));
    assert_fails(&files.run("bench", &["--scaling", "weak"]), &["--scaling weak", "k.npy", "use --scaling strong"]);
    succeeded(&files.run("bench", &["--scaling", "strong", "--threads", "1"]));
}

#[test]
fn bench_times_every_step() {
    let folder = tempdir().unwrap();
    let report = folder.path().join("report.json");
    let path = case("panel-tiny.toml");
    for (set, step) in [
        ("solver.precision=f64", "prolong_smooth"),
        ("solver.precision=mixed", "ascend"),
        ("solver.method=cg", "advance_direction"),
        ("solver.method=bicgstab", "apply"),
    ] {
        let text = succeeds(["bench", &path, "--set", set, "--report", report.to_str().unwrap()]);
        assert!(text.contains(step), "{text}");
        let report = json(&report);
        let first = text.lines().next().unwrap_or_default();
        assert!(first.starts_with("setup ") && first.contains("update"), "{first}");
        for key in ["setup", "setup_warm", "update"] {
            assert!(number(&report["timing"][key]) > 0.0, "{key}");
        }
        let kernels = report["kernels"].as_array().unwrap();
        assert!(kernels.iter().any(|kernel| kernel["name"] == step && number(&kernel["gb_per_s"]) > 0.0));
    }
}

#[test]
fn a_matrix_is_exported() {
    let folder = tempdir().unwrap();
    let (matrix, rhs) = (folder.path().join("A.mtx"), folder.path().join("b.mtx"));
    let [to, rhs_to] = [&matrix, &rhs].map(|path| path.to_str().unwrap());
    succeeds(["export", &case("panel-tiny.toml"), "--matrix", to, "--rhs", rhs_to, "--set", "grid.nx=4"]);
    assert_eq!(matrix_size(&fs::read_to_string(&matrix).unwrap())[..2], [1024; 2]);
    assert!(fs::read_to_string(&rhs).unwrap().starts_with(
        "%%MatrixMarket matrix array real general\n% unknown (i, j, k) is row 1 + i + nx (k + nz j)\n1024 1\n"
    ));
}

#[test]
fn help_and_version_are_no_errors() {
    for args in [&["--help"][..], &["--version"], &["solve", "--help"], &["help", "bench"]] {
        assert!(!succeeds(args).is_empty());
    }
    let version = |flag: &str| stdout(&isobar([flag]).output().unwrap());
    assert_eq!(version("-V"), format!("isobar {}\n", env!("CARGO_PKG_VERSION")));
    assert!(
        version("--version").starts_with(&version("-V"))
            && version("--version").contains("GPUs")
            && version("--version").contains(".svg")
    );
}

#[test]
fn devices_are_listed() {
    let text = succeeds(["devices"]);
    assert!(text.contains("cpu") && text.contains("GB/s") && text.contains("MPI"), "{text}");
    // One line reports that there is no GPU; libraries for GPUs are not reported then.
    assert!(!text.contains("\nGPU       none: ") || !text.contains("\nNVRTC     none: "), "{text}");
}

#[test]
fn completions_are_printed() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(succeeds(["completions", shell]).contains("threads"), "{shell}");
    }
    assert_eq!(isobar(["completions", "tcsh"]).output().unwrap().status.code(), Some(1));
}

#[test]
fn the_manual_has_a_page_for_the_command_and_for_each_subcommand() {
    let page = |arguments: &[&str]| {
        let output = isobar(std::iter::once(&"man").chain(arguments)).output().unwrap();
        (output.status.code(), stdout(&output), stderr(&output))
    };
    let (code, text, said) = page(&[]);
    assert_eq!((code, said.as_str()), (Some(0), ""));
    assert!(
        text.contains(".TH isobar 1") && text.contains("isobar\\-solve(1)") && !text.contains("reproduce"),
        "{text}"
    );
    for name in ["solve", "effective", "bench", "devices", "export", "completions", "man"] {
        let (code, text, said) = page(&[name]);
        assert_eq!((code, said.as_str()), (Some(0), ""), "{name}");
        assert!(text.contains(&format!(".TH isobar-{name} 1")) && text.contains("SYNOPSIS"), "{text}");
    }
    for wrong in ["reproduce", "Solve", ""] {
        let (code, _, said) = page(&[wrong]);
        assert!(code == Some(1) && said.contains("there is no subcommand"), "{wrong}: {said}");
    }
}

#[test]
fn every_case_of_the_repository_is_valid() {
    let mut count = 0;
    for entry in fs::read_dir(case(".")).unwrap() {
        let path = entry.unwrap().path();
        // The files that a case reads lie in folders.
        if path.is_file() {
            isobar_case::Case::load(&path, &[]).unwrap().assemble().unwrap();
            count += 1;
        }
    }
    assert!(count >= 12);
}
