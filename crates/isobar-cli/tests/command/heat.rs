//! Heat equations with the command: results, frames, checkpoints, and messages about wrong input.

use std::fs;

use serde_json::Value;
use tempfile::tempdir;

use crate::interrupt::{send, start};
use crate::support::{
    Case, after, assert_fails, case, entries, isobar, json, npy, overrides, stderr, stdout, succeeded, values,
};

const CASE: &str = r#"
[problem]
kind = "heat"
[grid]
nx = 9
ny = 7
nz = 5
[heat]
dt = 1e-3
end_time = 0.02
[solver]
tolerance = 1e-12
"#;

#[test]
fn a_run_reports_its_steps() {
    let run = Case::new(CASE);
    let report = run.solve(&["--output", "u.npy"]);
    let steps = report["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 20);
    assert_eq!(steps[19]["time"].as_f64(), Some(0.02));
    assert!(steps.iter().all(|step| step["iterations"].as_u64().unwrap() >= 1));
    let energies: Vec<f64> = steps.iter().map(|step| step["energy"].as_f64().unwrap()).collect();
    assert!(energies.windows(2).all(|pair| pair[1] <= pair[0]));
    assert_eq!(
        (report["problem"]["kind"].as_str(), report["outcome"]["stop"].as_str()),
        (Some("heat"), Some("converged"))
    );
    assert_eq!(report["solver"]["method"], "direct");
    // The sine is an eigenvector, for which one iteration is enough.
    let plain = run.solve(&["--set", "solver.method=cg"]);
    assert_eq!(plain["solver"]["preconditioner"], Value::Null);
    let rough = run.solve(&[
        "--set",
        "solver.method=cg",
        "--set",
        "heat.initial=random",
        "--set",
        "heat.dt=1e-2",
        "--set",
        "grid.nx=90",
    ]);
    assert_eq!(rough["solver"]["preconditioner"], "multigrid");
    assert_eq!(values(&run.path("u.npy")).len(), 9 * 7 * 5);
    // It differs from the continuous solution by the discretisation error.
    let error = report["error"]["max"].as_f64().unwrap();
    assert!(error > 1e-4 && error < 0.1, "{error}");
}

#[test]
fn a_short_last_step_is_said() {
    let run = Case::new(CASE);
    let output = run.run("solve", &["--set", "heat.dt=3e-3"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("not a multiple") && text.contains("step 7 of 7, t = 0.02"), "{text}");
}

#[test]
fn frames_go_into_one_store_or_numbered_files() {
    let run = Case::new(CASE);
    for name in ["run.zarr", "run.vti"] {
        run.solve(&["--output", name, "--set", "heat.output_every=8"]);
    }
    // At 0, 8, 16, and at the end.
    let array = json(&run.path("run.zarr/u/zarr.json"));
    assert_eq!(array["shape"], serde_json::json!([4, 5, 7, 9]));
    let names = entries(run.folder());
    for name in ["run.pvd", "run.vti", "run_0000.vti", "run_0003.vti"] {
        assert!(names.iter().any(|found| found == name), "{name} in {names:?}");
    }
    assert!(!names.iter().any(|name| name.contains(".tmp") || name == "run_0004.vti"), "{names:?}");
    assert_eq!(fs::read_to_string(run.path("run.pvd")).unwrap().matches("<DataSet").count(), 4);
    let output = run.run("solve", &["--output", "run.npy", "--set", "heat.output_every=8"]);
    assert!(stdout(&output).contains("run.npy will hold the last state only; use .zarr"), "{}", stdout(&output));
}

#[test]
fn a_restart_goes_on_bit_for_bit() {
    let guesses = ["previous", "extrapolated", "ones"].map(|guess| format!("heat.first_guess={guess}"));
    for (guess, method) in guesses.iter().flat_map(|guess| ["direct", "cg"].map(|method| (guess, method))) {
        let run = Case::new(CASE);
        // Direct steps are those that nothing is said about.
        let by = if method == "cg" { "solver.method=cg" } else { "solver.method=auto" };
        let common = overrides(&[guess, by, "heat.initial=random", "solver.tolerance=1e-6"]);
        run.solve(&[&common[..], &["--output", "whole.npy"]].concat());
        run.solve(&[&common[..], &["--set", "heat.end_time=0.008", "--set", "heat.checkpoint=run.ckpt"]].concat());
        let report = run.solve(&[&common[..], &["--restart", "run.ckpt", "--output", "parts.npy"]].concat());
        let (used, steps) = (report["solver"]["method"].as_str(), report["steps"].as_array().unwrap().len());
        assert_eq!((used, steps), (Some(method), 12));
        assert_eq!(fs::read(run.path("whole.npy")).unwrap(), fs::read(run.path("parts.npy")).unwrap(), "{guess}");
    }
}

/// A run that goes on with its own output has all frames of a run that was not interrupted.
#[test]
fn a_restart_goes_on_with_the_frames() {
    let run = Case::new(CASE);
    let common = ["--set", "heat.initial=random", "--set", "heat.output_every=4", "--output"];
    let solve = |name: &str, more: &[&str]| {
        let output = run.run("solve", &[&common[..], &[name], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let [part, restart] = [["--set", "heat.end_time=0.008"], ["--restart", "run.ckpt"]];
    run.solve(&[&common[..4], &part, &["--set", "heat.checkpoint=run.ckpt"]].concat());
    let list = |name: &str| fs::read_to_string(run.path(name)).unwrap();
    for (name, whole) in [("run.zarr", "whole.zarr"), ("run.vti", "whole.vti")] {
        solve(whole, &[]);
        // The frames of a complete run, of which those after the checkpoint are computed again; then those of a part.
        for (first, said) in
            [(&[][..], "3 frames up to this time kept, 3 later"), (&part, "3 frames up to this time kept, 0")]
        {
            solve(name, first);
            let text = solve(name, &restart);
            assert!(text.contains(said), "{text}");
            if name == "run.vti" {
                assert_eq!(list("run.pvd"), list("whole.pvd").replace("whole", "run"));
                for n in 0..6 {
                    let [found, expected] =
                        ["run", "whole"].map(|stem| fs::read(run.path(&format!("{stem}_{n:04}.vti"))));
                    assert_eq!(found.unwrap(), expected.unwrap());
                }
                continue;
            }
            for file in ["time/c/0", "time/zarr.json", "u/zarr.json", "u/c/0/0/0/0", "u/c/2/0/0/0", "u/c/5/0/0/0"] {
                let [found, expected] = [name, whole].map(|store| fs::read(run.path(&format!("{store}/{file}"))));
                assert_eq!(found.unwrap(), expected.unwrap(), "{file}");
            }
        }
    }
    let text = solve("elsewhere.zarr", &restart);
    assert!(text.contains("elsewhere.zarr: has none of the earlier run, and begins at t = "), "{text}");
    // Another grid, or another program's list.
    run.solve(&["--set", "grid.size=[1, 1, 2]", "--set", "heat.output_every=4", "--output", "run.zarr"]);
    run.fails_with(
        &[&restart[..], &common[..], &["run.zarr"]].concat(),
        &["--output run.zarr", "z differs", "another name"],
    );
    fs::write(run.path("run.pvd"), "mine").unwrap();
    run.fails_with(&[&restart[..], &common[..], &["run.vti"]].concat(), &["--output run.pvd", "another name"]);
    assert_eq!(list("run.pvd"), "mine");
}

#[test]
fn a_shorter_run_leaves_no_frames_of_a_longer_one() {
    let run = Case::new(CASE);
    let common = ["--set", "heat.output_every=4", "--output", "run.vti"];
    run.solve(&common);
    assert!(run.path("run_0005.vti").is_file());
    run.solve(&[&common[..], &["--set", "heat.end_time=0.008"]].concat());
    let names = ["case.toml", "report.json", "run.pvd", "run.vti", "run_0000.vti", "run_0001.vti", "run_0002.vti"];
    assert_eq!(entries(run.folder()), names);
}

#[test]
fn checkpoints_that_do_not_fit_are_refused() {
    let run = Case::new(CASE);
    run.solve(&["--set", "heat.end_time=0.008", "--set", "heat.checkpoint=run.ckpt"]);
    let checkpoint = run.path("run.ckpt");
    let path = checkpoint.to_str().unwrap();
    let fails = |args: &[&str], parts: &[&str]| {
        run.fails_with(&[&["--restart", path], args].concat(), parts);
    };
    fails(&["--set", "grid.nx=10"], &["--restart", "9×7×5", "10×7×5"]);
    fails(&["--set", "heat.dt=2e-3"], &["heat.dt", "2e-3"]);
    fails(&["--set", "heat.scheme=backward-euler"], &["heat.scheme"]);
    fails(&["--set", "heat.end_time=0.008"], &["is complete", "heat.end_time"]);
    let mask = [vec![1.0; 9 * 7 * 5 - 1], vec![0.0]].concat();
    fs::write(run.path("mask.npy"), npy("(5, 7, 9)", &mask)).unwrap();
    for (set, key) in [
        ("diffusion.coefficient=2.0", "diffusion.coefficient;"),
        ("diffusion.coefficient_z=0.5", "diffusion.coefficient;"),
        ("diffusion.reaction=1.0", "diffusion.reaction;"),
        ("diffusion.active={ file = \"mask.npy\" }", "diffusion.active;"),
        ("diffusion.boundary.west={ dirichlet = 1.0 }", "diffusion.boundary"),
        ("grid.size=[1, 1, 2]", "grid.spacing;"),
        ("heat.unknowns=cells", "heat.unknowns;"),
        ("problem.rhs.kind=constant", "problem.rhs;"),
    ] {
        fails(&["--set", set], &["--restart", "another", key, "heat.initial={ file = "]);
    }
    // Options for solving and output may differ.
    let others = ["solver.tolerance=1e-7", "heat.output_every=3", "heat.first_guess=ones", "heat.end_time=0.03"];
    run.solve(&[&overrides(&others)[..], &["--restart", path, "--threads", "1"]].concat());
    // A new run of another problem, from the state.
    let state = format!("heat.initial={{ file = {path:?} }}");
    let report = run.solve(&["--set", "diffusion.coefficient=2.0", "--set", &state]);
    assert_eq!(report["steps"].as_array().unwrap().len(), 20);
    let whole = fs::read(&checkpoint).unwrap();
    fs::write(&checkpoint, &whole[..whole.len() / 2]).unwrap();
    fails(&[], &["--restart", "truncated"]);
    let other = isobar(["solve", &case("panel-tiny.toml"), "--quiet", "--device", "cpu", "--restart", path]);
    assert_fails(&{ other }.output().unwrap(), &["--restart", "helmholtz"]);
}

#[test]
fn a_run_begins_with_the_state_that_another_wrote() {
    let run = Case::new(CASE);
    let mut mask = vec![1.0; 315];
    mask[100] = 0.0;
    fs::write(run.path("mask.npy"), npy("(5, 7, 9)", &mask)).unwrap();
    let (state, masked) = (run.path("state.npy"), "diffusion.active={ file = \"mask.npy\" }");
    let first = run.solve(&["--set", masked, "--output", state.to_str().unwrap()]);
    let set = format!("heat.initial={{ file = {state:?} }}");
    let next = run.solve(&["--set", masked, "--set", &set]);
    let norm = |report: &serde_json::Value| report["checks"]["norm2"].as_f64().unwrap();
    assert!(norm(&next) > 0.0 && norm(&next) < norm(&first));
    // An active cell must have a number.
    run.fails_with(&["--set", &set], &["heat.initial", "a[1, 4, 1] is NaN"]);
}

#[test]
fn bad_input_is_named() {
    let run = Case::new(CASE);
    let fails = |set: &str, parts: &[&str]| {
        run.fails_with(&["--set", set], parts);
    };
    fails("heat.dt=0", &["heat.dt"]);
    fails("heat.dt=\"long\"", &["heat.dt", "auto"]);
    fails("heat.step_tolerance=1e-3", &["heat.step_tolerance", "auto"]);
    fails("heat.end_time=0", &["heat.end_time"]);
    fails("heat.scheme=\"explicit\"", &["heat.scheme", "crank-nicolson"]);
    fails("heat.initial=\"cosine\"", &["heat.initial"]);
    fails("heat.first_gues=\"ones\"", &["first_guess"]);
    fails("heat.checkpoint_every=5", &["heat.checkpoint"]);
    fails("diffusion.coefficient=-1", &["diffusion.coefficient"]);
    fails("diffusion.coefficient=0", &["active"]);
    fails("solver.preconditioner={ kind = \"mic\", relaxation = 1.5 }", &["relaxation"]);
    fails("problem.rhs.kind=manufactured", &["problem.rhs.kind"]);
    fs::write(run.path("u.npy"), npy("(5, 7, 9)", &[f64::NAN; 315])).unwrap();
    fails("heat.initial={ file = \"u.npy\" }", &["heat.initial", "finite"]);
    fs::write(run.path("u.npy"), npy("(5, 7, 8)", &[0.0; 280])).unwrap();
    fails("heat.initial={ file = \"u.npy\" }", &["heat.initial", "(5, 7, 8)"]);
    Case::new("[problem]\nkind = \"heat\"\n[heat]\ndt = 0.1\n").fails(&["end_time"]);
}

#[test]
fn a_step_that_fails_ends_the_run_with_what_there_is() {
    let run = Case::new(CASE);
    let sets = ["solver.method=cg", "solver.max_iterations=1", "heat.initial=random", "heat.checkpoint=run.ckpt"];
    let output = run.run("solve", &[&overrides(&sets)[..], &["--report", "report.json"]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let report = json(&run.path("report.json"));
    assert_eq!(report["outcome"]["stop"], "max_iterations");
    assert!(stdout(&output).contains("--restart"), "{}", stdout(&output));
    assert!(run.path("run.ckpt").is_file());
}

#[test]
fn the_cases_run() {
    for (name, few) in [
        ("heat.toml", "heat.end_time=0.003"),
        ("heat-2d.toml", "heat.end_time=3e-4"),
        ("heat-bubbles.toml", "heat.end_time=0.003"),
    ] {
        let folder = tempdir().unwrap();
        let plot = folder.path().join("run.png");
        let args = ["solve", &case(name), "--device", "cpu", "--quiet", "--set", few, "--plot"];
        succeeded(&isobar(args).arg(&plot).output().unwrap());
        assert!(fs::read(&plot).unwrap().starts_with(b"\x89PNG"));
    }
}

/// The end of a run is a multiple of dt but for rounding: 0.3 and 3 · 0.1.
#[test]
fn a_finished_run_goes_on() {
    let run = Case::new(CASE);
    let of = |end: &'static str| ["--set", "heat.dt=0.1", "--set", end];
    run.solve(&[&of("heat.end_time=0.3")[..], &["--set", "heat.checkpoint=run.ckpt"]].concat());
    let more = run.solve(&[&of("heat.end_time=0.6")[..], &["--restart", "run.ckpt"]].concat());
    assert_eq!(more["steps"].as_array().unwrap().last().unwrap()["time"].as_f64(), Some(0.6));
    // One that was shortened does not.
    run.solve(&[&of("heat.end_time=0.25")[..], &["--set", "heat.checkpoint=run.ckpt"]].concat());
    run.fails_with(&[&of("heat.end_time=0.6")[..], &["--restart", "run.ckpt"]].concat(), &["shortened", "2.5e-1"]);
}

#[test]
fn steps_that_choose_their_length() {
    let run = Case::new(CASE);
    let common = ["--set", "heat.dt=\"auto\"", "--set", "heat.initial=random", "--set", "heat.step_tolerance=1e-3"];
    let report = run.solve(&[&common[..], &["--set", "heat.checkpoint=run.ckpt"]].concat());
    let steps = report["steps"].as_array().unwrap();
    assert_eq!(steps.last().unwrap()["time"].as_f64(), Some(0.02));
    assert!(steps.iter().all(|step| step["error"].as_f64().unwrap() <= 1e-3));
    let [first, late] = [steps[0]["dt"].as_f64().unwrap(), steps[steps.len() - 2]["dt"].as_f64().unwrap()];
    assert!(late > 2.0 * first, "{first} {late}");
    let output = run.run("solve", &common);
    assert!(stdout(&output).contains("largest estimated error"), "{}", stdout(&output));
    let fails = |args: &[&str], parts: &[&str]| run.fails_with(&[&["--restart", "run.ckpt"], args].concat(), parts);
    fails(&common, &["is complete", "heat.end_time"]);
    fails(&common[..4], &["heat.step_tolerance", "1e-3"]);
    fails(&[], &["heat.dt", "auto"]);
    let more = run.solve(&[&common[..], &["--set", "heat.end_time=0.03", "--restart", "run.ckpt"]].concat());
    assert_eq!(more["steps"].as_array().unwrap().last().unwrap()["time"].as_f64(), Some(0.03));
}

/// An interrupted run continues bit for bit, wherever it was interrupted: steps of one length and adaptive steps.
#[cfg(unix)]
#[test]
fn an_interrupted_run_goes_on_bit_for_bit() {
    // Thousands of steps, so that the signal arrives before the end even on a busy machine.
    for (dt, end_time) in [("1e-6", "heat.end_time=1e-2"), ("\"auto\"", "heat.end_time=2e-3")] {
        let run = Case::new(CASE);
        let length = format!("heat.dt={dt}");
        let mut common =
            vec!["--set", length.as_str(), "--set", "heat.initial=random", "--set", "solver.tolerance=1e-8"];
        common.extend(["--set", "solver.method=cg", "--set", "solver.preconditioner=auto", "--set", end_time]);
        if dt != "1e-6" {
            common.extend(["--set", "heat.step_tolerance=1e-9"]);
        }
        let case = run.path("case.toml");
        let mut args = vec!["solve", case.to_str().unwrap(), "--device", "cpu", "--quiet"];
        args.extend(&common);
        args.extend(["--set", "heat.checkpoint=run.ckpt", "--set", "heat.checkpoint_every=1"]);
        args.extend(["--output", "run.zarr", "--set", "heat.output_every=10"]);
        let mut child = start(run.folder(), &args);
        let begin = std::time::Instant::now();
        while !run.path("run.ckpt").is_file() {
            assert!(begin.elapsed().as_secs() < 60, "no checkpoint");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        send("INT", &child);
        assert_eq!(child.wait().unwrap().code(), Some(130), "{dt}");
        assert!(!entries(run.folder()).iter().any(|name| name.contains("tmp") || name.starts_with(".isobar")));
        let parts = run.solve(&[&common[..], &["--restart", "run.ckpt", "--output", "parts.npy"]].concat());
        let whole = run.solve(&[&common[..], &["--output", "whole.npy"]].concat());
        assert!(whole["steps"].as_array().unwrap().len() > parts["steps"].as_array().unwrap().len());
        assert_eq!(fs::read(run.path("whole.npy")).unwrap(), fs::read(run.path("parts.npy")).unwrap(), "{dt}");
    }
}

/// A run that multigrid has joined continues bit for bit.
#[test]
fn a_run_with_multigrid_goes_on_bit_for_bit() {
    let run = Case::new(CASE);
    let set = ["grid.nx=90", "solver.method=cg", "heat.initial=random", "heat.dt=1e-2", "heat.end_time=0.06"];
    let sets = |more: &[&str], last: &[&str]| run.solve(&[&overrides(&[&set[..], more].concat())[..], last].concat());
    let whole = sets(&[], &["--output", "whole.npy"]);
    assert_eq!(whole["solver"]["preconditioner"], "multigrid");
    assert!(
        whole["outcome"]["notes"][0]
            .as_str()
            .unwrap()
            .contains("multigrid instead of no preconditioner from step 1 on")
    );
    sets(&["heat.end_time=0.03", "heat.checkpoint=run.ckpt"], &[]);
    sets(&[], &["--restart", "run.ckpt", "--output", "parts.npy"]);
    assert_eq!(fs::read(run.path("whole.npy")).unwrap(), fs::read(run.path("parts.npy")).unwrap());
}

/// "auto" is what a case without a preconditioner means.
#[test]
fn an_open_preconditioner_is_the_default() {
    let run = Case::new(CASE);
    let of = |sets: &[&str]| {
        let common = ["--set", "heat.initial=random", "--set", "solver.method=cg", "--output", "u.npy"];
        let report = run.solve(&[&common, sets].concat());
        (report["solver"]["preconditioner"].clone(), fs::read(run.path("u.npy")).unwrap())
    };
    let default = of(&[]);
    for set in ["solver.preconditioner=auto", "solver.preconditioner.kind=auto"] {
        assert!(of(&["--set", set]) == default, "{set}");
    }
}

/// A last checkpoint that cannot be written does not prevent any other result.
#[cfg(target_os = "linux")]
#[test]
fn a_last_checkpoint_that_fails_leaves_all_other_results() {
    let run = Case::new(CASE);
    let common = ["heat.checkpoint=/dev/full", "heat.output_every=8"];
    for name in ["u.npy", "u.zarr", "u.vti"] {
        let files = ["--output", name, "--report", "report.json", "--plot", "plot.png"];
        let output = run.run("solve", &[&overrides(&common)[..], &files].concat());
        assert_fails(&output, &["heat.checkpoint: /dev/full", "the disk is full"]);
        let text = stdout(&output);
        let wrote = |what: &str| text.lines().any(|line| line.starts_with("wrote") && line.ends_with(what));
        assert!(wrote("report.json") && wrote("plot.png") && !text.contains("\ncheckpoint"), "{text}");
        assert!(wrote(&name.replace("vti", "pvd")), "{text}");
        assert_eq!(json(&run.path("report.json"))["steps"].as_array().unwrap().len(), 20);
        assert!(fs::read(run.path("plot.png")).unwrap().starts_with(b"\x89PNG"));
        fs::remove_file(run.path("report.json")).unwrap();
    }
    assert_eq!(values(&run.path("u.npy")).len(), 9 * 7 * 5);
    assert_eq!(json(&run.path("u.zarr/u/zarr.json"))["shape"][0], 4);
    assert!(run.path("u_0003.vti").is_file());
}

#[test]
fn a_checkpoint_that_fails_ends_the_run_with_all_other_results() {
    let run = Case::new(CASE);
    let sets = overrides(&["heat.checkpoint=/dev/full", "heat.checkpoint_every=4"]);
    let files = ["--output", "u.npy", "--report", "report.json", "--plot", "plot.png"];
    let output = run.run("solve", &[&sets[..], &files].concat());
    assert_fails(&output, &["heat.checkpoint: /dev/full", "the disk is full"]);
    assert!(stdout(&output).contains("NOT complete"), "{}", stdout(&output));
    let report = json(&run.path("report.json"));
    assert_eq!(report["outcome"]["stop"], "interrupted");
    let steps = report["steps"].as_array().unwrap().len();
    assert!((4..20).contains(&steps), "{steps}");
    assert_eq!(values(&run.path("u.npy")).len(), 9 * 7 * 5);
    assert!(run.path("plot.png").is_file());
}

#[test]
fn outputs_overwrite_neither_the_checkpoint_nor_frames() {
    let run = Case::new(CASE);
    run.solve(&overrides(&["heat.end_time=0.008", "heat.checkpoint=run.ckpt"]));
    let good = fs::read(run.path("run.ckpt")).unwrap();
    let fails = |args: &str, parts: &[&str]| {
        assert_fails(&run.run("solve", &args.split(' ').collect::<Vec<_>>()), parts);
        assert_eq!(fs::read(run.path("run.ckpt")).unwrap(), good);
    };
    fails("--restart run.ckpt --report run.ckpt", &["--report run.ckpt: would overwrite an input of this run"]);
    let frames = "--set heat.output_every=4 --output o.vti";
    for other in ["o.pvd", "./o_0002.vti", "../{}/o_0011.vti"] {
        let other = other.replace("{}", run.folder().file_name().unwrap().to_str().unwrap());
        fails(&format!("{frames} --report {other}"), &["is a file of the frames of --output"]);
    }
    fails(&format!("{frames} --set heat.checkpoint=o_0001.vti"), &["heat.checkpoint", "is a file of the frames"]);
    succeeded(&run.run("solve", &[&frames.split(' ').collect::<Vec<_>>()[..], &["--report", "o_a.json"]].concat()));
    // A store is no checkpoint, and a name may be too long: both are found before the steps.
    fs::create_dir(run.path("old.zarr")).unwrap();
    fails("--set heat.checkpoint=old.zarr", &["heat.checkpoint", "is a folder"]);
    let long = format!("{}.json", "a".repeat(300));
    fails(&format!("--report {long}"), &["--report", "the file name is too long"]);
}

/// `heat.checkpoint` is relative to the folder of the case, `--restart` to the working directory.
#[test]
fn a_checkpoint_beside_the_case_is_named() {
    let run = Case::new(CASE);
    let (elsewhere, path) = (tempdir().unwrap(), run.path("case.toml"));
    let solve = |more: &[&str]| {
        let common = ["solve", path.to_str().unwrap(), "--device", "cpu"];
        isobar([&common[..], more].concat()).current_dir(elsewhere.path()).output().unwrap()
    };
    let checkpoint = run.path("run.ckpt");
    let text = succeeded(&solve(&overrides(&["heat.end_time=0.008", "heat.checkpoint=run.ckpt"])));
    let line = format!("checkpoint {}", checkpoint.display());
    assert!(text.lines().any(|found| found == line), "{text}");
    let fails = |restart: &str, parts: &[&str]| assert_fails(&solve(&["--quiet", "--restart", restart]), parts);
    let there = format!("use --restart {}", checkpoint.display());
    fails("run.ckpt", &["--restart run.ckpt: no such file; heat.checkpoint is relative to the folder", &there]);
    fails("other.ckpt", &["--restart other.ckpt: no such file; check the path"]);
    fails(".", &["--restart .: is a folder; name a file in it"]);
    succeeded(&solve(&["--quiet", "--restart", checkpoint.to_str().unwrap()]));
}

#[test]
fn bench_times_the_solve_of_a_step() {
    let run = Case::new(CASE);
    let bench = |sets: &[&str]| {
        succeeded(&run.run("bench", &[&overrides(sets)[..], &["--report", "report.json"]].concat()));
        json(&run.path("report.json"))["solver"]["preconditioner"].clone()
    };
    assert_eq!(bench(&["solver.method=cg"]), "multigrid");
    assert_eq!(bench(&["solver.method=cg", "solver.preconditioner=line"]), "line");
    assert_eq!(bench(&[]), Value::Null);
}

/// A full disk during a run keeps the last good checkpoint, and leaves no partial file.
#[cfg(unix)]
#[test]
fn a_full_disk_leaves_the_last_good_checkpoint() {
    let run = Case::new(CASE);
    run.solve(&["--set", "heat.end_time=0.008", "--set", "heat.checkpoint=run.ckpt"]);
    let good = fs::read(run.path("run.ckpt")).unwrap();
    for (what, args) in [
        ("heat.checkpoint", "--set heat.checkpoint=run.ckpt --set heat.checkpoint_every=2"),
        ("--output", "--output run.vti --set heat.output_every=2 --set heat.checkpoint=run.ckpt"),
        ("--output", "--output run.zarr --set heat.output_every=2"),
    ] {
        let solve = format!("solve case.toml --device cpu --quiet --restart run.ckpt {args}");
        let output = after("ulimit -f 2", &solve).current_dir(run.folder()).output();
        assert_fails(&output.unwrap(), &[what, "`ulimit -f` allows"]);
        assert_eq!(fs::read(run.path("run.ckpt")).unwrap(), good, "{what}");
        assert_eq!(entries(run.folder()), ["case.toml", "report.json", "run.ckpt"]);
    }
}
