//! Tests of `mpirun -n N isobar solve`. Several MPIs take turns at the solves that are compared with one process.

#![cfg(unix)]

#[path = "../../../isobar-dist/tests/mpi/jobs.rs"]
mod jobs;
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use isobar_io::{Field, Mesh};
use tempfile::tempdir;

use crate::jobs::{Mpi, Test, text};
use crate::support::{assert_near, by_one_process, case, check_trials, file, launcher, mpiexec, on_ranks, written};

/// A case of 24 × 28 × 8 cells with these lines, which follow those of its grid.
macro_rules! cells {
    ($lines:literal) => {
        concat!(
            "[problem]\nkind = \"diffusion\"\n[grid]\nnx = 24\nny = 28\nnz = 8\n",
            $lines,
            "\n[solver]\ntolerance = 1e-8\n"
        )
    };
}

/// A case that is closed except at two sides, one of which touches the rows of at most two ranks.
const ROCK: &str = cells!(
    r#"[diffusion]
coefficient = { noise = { sigma = 1.0, seed = 5 } }
boundary = { west = { dirichlet = 1.0 }, south = { dirichlet = 0.0 } }"#
);

/// A smooth floating case.
const SMOOTH: &str = cells!(
    r#"spacing = [1.0, 1.0, 1.0]
[diffusion]
coefficient = 2.0
sources = [ { i = 3, j = 4, k = [1, 2], rate = 1.0 }, { i = 20, j = 25, k = [5, 5], rate = -1.0 } ]"#
);

/// A case with bubbles and holes across the borders of slabs, for which conjugate gradients with lines take hundreds of
/// iterations.
const BUBBLES: &str = cells!(
    r#"[diffusion]
coefficient = { bubbles = { contrast = 1e-6, count = 12, radius = 0.12, seed = 3 } }
boundary = { west = { dirichlet = 1.0 }, south = { dirichlet = 0.0 } }"#
);

/// A case of ten steps with a checkpoint after five.
const HEAT: &str = r#"
[problem]
kind = "heat"
[grid]
nx = 12
ny = 14
nz = 6
[heat]
dt = 1e-3
end_time = 1e-2
first_guess = "extrapolated"
output_every = 4
checkpoint = "run.ckpt"
checkpoint_every = 5
[solver]
tolerance = 1e-10
preconditioner = { kind = "line" }
"#;

fn main() {
    let tests: [(&str, fn(&Mpi)); 8] = [
        ("solves_are_those_of_one_process", solves_are_those_of_one_process),
        ("time_steps_are_those_of_one_process", time_steps_are_those_of_one_process),
        ("stores_are_those_of_one_process", stores_are_those_of_one_process),
        ("one_rank_says_how_it_went", one_rank_says_how_it_went),
        ("failures_are_said_once", failures_are_said_once),
        ("ranks_must_agree", ranks_must_agree),
        ("a_stopped_rank_ends_all", a_stopped_rank_ends_all),
        ("killed_ranks_leave_nothing_for_good", killed_ranks_leave_nothing_for_good),
    ];
    jobs::run("mpiexec", |_| tests.map(|(name, test)| (name.to_owned(), Box::new(test) as Test)).into());
}

/// Compares one solve of each kind. All methods and preconditioners are compared by isobar-dist, on threads.
fn solves_are_those_of_one_process(mpi: &Mpi) {
    let (panel, files) = (case("panel.toml"), tempdir().unwrap());
    let rock = file(&files, "rock.toml", ROCK);
    let bubbles = file(&files, "bubbles.toml", BUBBLES);
    let smooth = file(&files, "smooth.toml", SMOOTH);
    // Periodic in y, and in x too; two copies of the odd ones.
    let in_y = "south = \"periodic\", north = \"periodic\"";
    let ring = file(&files, "ring.toml", &ROCK.replace("south = { dirichlet = 0.0 }", in_y));
    let both = format!("coefficient = 2.0\nboundary = {{ west = \"periodic\", east = \"periodic\", {in_y} }}");
    let both = file(&files, "both.toml", &SMOOTH.replace("coefficient = 2.0", &both));
    let odd = ["--set", "grid.nx=23", "--set", "grid.ny=27"];
    let cg = ["--set", "solver.method=cg", "--set", "solver.preconditioner.kind=line"];
    let modes = ["--set", "solver.method=modes"];
    let ic = ["--set", "solver.method=cg", "--set", "solver.preconditioner.kind=ic"];
    let deflated = ["--set", "solver.method=deflated-cg", "--set", "solver.preconditioner.kind=neumann"];
    let b = files.path().join("b.npy");
    let values: Vec<f64> = (0..24 * 28 * 8).map(|n| f64::from(n).sin()).collect();
    isobar_io::npy::write(fs::File::create(&b).unwrap(), &[8, 28, 24], &values).unwrap();
    let rhs = format!("problem.rhs.path={}", b.display());
    let from_file = ["--set", "problem.rhs.kind=file", "--set", &rhs];
    let trials: [(&str, &[&str]); 10] = [
        (&panel, &modes),
        (&ring, &odd),
        (&both, &[]),
        (&rock, &cg),
        (&smooth, &[]),
        (&rock, &[]),
        (&bubbles, &[]),
        (&rock, &ic),
        (&rock, &deflated),
        (&rock, &from_file),
    ];
    check_trials(mpi, files.path(), &trials.map(|(case, more)| (case, more, &[1, 2, 3, 6][..])));
}

/// Rank 0 writes frames, report and checkpoint; a checkpoint does not depend on the number of ranks.
fn time_steps_are_those_of_one_process(mpi: &Mpi) {
    let files = tempdir().unwrap();
    let heat = file(&files, "heat.toml", HEAT);
    let [report, output, frames] =
        ["report.json", "u.npy", "u.zarr"].map(|name| files.path().join(name).display().to_string());
    let checkpoint = files.path().join("run.ckpt").display().to_string();
    let solve = ["isobar", "solve", &heat, "--device", "cpu", "--report", &report, "--output", &output];
    let run = |ranks: &str, more: &[&str]| {
        let said = on_ranks(mpi, ranks, &[&solve, more].concat());
        assert_eq!(said.matches("outcome ").count(), 1, "{said}");
        written(files.path())
    };
    let (alone, u) = by_one_process(files.path(), &solve);
    for ranks in ["1", "2", "3", "6"] {
        fs::remove_file(&output).unwrap();
        let (report, v) = run(ranks, &[]);
        assert_near(&v, &u, 1e-8, ranks);
        assert_eq!(report["steps"].as_array().unwrap().len(), alone["steps"].as_array().unwrap().len());
        let energies = [&report, &alone].map(|report| report["steps"][9]["energy"].as_f64().unwrap());
        assert!((energies[0] - energies[1]).abs() <= 1e-6 * energies[1], "{energies:?}");
    }
    // Half of the way on three ranks, the rest on two.
    let half = ["--set", "heat.end_time=5e-3", "--set", "heat.checkpoint_every=0"];
    run("3", &half);
    let (_, v) = run("2", &["--restart", &checkpoint]);
    assert_near(&v, &u, 1e-8, "after a restart");
    let said = on_ranks(mpi, "2", &["isobar", "solve", &heat, "--device", "cpu", "--output", &frames]);
    assert!(files.path().join("u.zarr").is_dir(), "{said}");
}

/// Returns the chunks and the metadata of u in a store.
fn chunks(store: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut folders = vec![store.join("u")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                all.insert(entry.path().strip_prefix(store).unwrap().to_owned(), fs::read(entry.path()).unwrap());
            }
        }
    }
    all
}

/// Ranks write a store together, byte for byte that of one process, since cycles of multigrid compute the same on all. One of
/// three writes none of the two chunks. Inactive cells are marked, and with a plot rank 0 writes.
fn stores_are_those_of_one_process(mpi: &Mpi) {
    let files = tempdir().unwrap();
    let [store, plot, mask] = ["u.zarr", "u.png", "mask.npy"].map(|name| files.path().join(name));
    let panel = case("panel.toml");
    let sets = ["grid.nx=512", "grid.ny=128", "grid.nz=36", "solver.method=multigrid", "solver.max_iterations=1"];
    let wide: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let shape = [8, 28, 24];
    let is_active: Vec<f64> = (0..8 * 28 * 24).map(|n| f64::from(u8::from(n % 24 > 3 || n / 24 % 28 > 19))).collect();
    isobar_io::write(&mask, &Field::new("active", &is_active, shape, &Mesh::unit([24, 28, 8]))).unwrap();
    let rock = file(&files, "rock.toml", &(ROCK.to_owned() + "max_iterations = 3\n"));
    let [output, picture, active] = [&store, &plot, &mask].map(|path| path.display().to_string());
    let masked = format!("diffusion.active={{ file = \"{active}\" }}");
    let masked = ["--set", &masked, "--set", "solver.method=cg", "--set", "solver.preconditioner.kind=line"];
    for (case, more, is_exact) in [(&panel, &wide[..], true), (&rock, &masked[..], false)] {
        let solve = ["isobar", "solve", case, "--device", "cpu", "--threads", "1", "--output", &output];
        let args: Vec<&str> = solve.iter().chain(more).copied().collect();
        let said = Command::new(env!("CARGO_BIN_EXE_isobar")).args(&args[1..]).output().unwrap();
        assert_eq!(said.status.code(), Some(2), "{}", text(&said));
        let alone = chunks(&store);
        assert_eq!(alone.len(), if is_exact { 3 } else { 2 });
        for (ranks, plotted) in [("2", false), ("3", false), ("2", true), ("4", false)] {
            fs::remove_dir_all(&store).unwrap();
            let plot = if plotted { &["--plot", &picture][..] } else { &[] };
            let said = mpiexec(mpi, &[&["-n", ranks], &args[..], plot].concat());
            assert_eq!(said.status.code(), Some(2), "{}", text(&said));
            assert_eq!(text(&said).matches("wrote ").count(), 1 + usize::from(plotted), "{}", text(&said));
            let together = chunks(&store);
            assert!(together.keys().eq(alone.keys()));
            if is_exact {
                assert!(together == alone, "{ranks} ranks");
                continue;
            }
            let numbers = |bytes: &[u8]| -> Vec<f64> {
                bytes.as_chunks::<8>().0.iter().map(|&bytes| f64::from_le_bytes(bytes)).collect()
            };
            let chunk = Path::new("u/c/0/0/0");
            for (n, (u, v)) in numbers(&alone[chunk]).iter().zip(numbers(&together[chunk])).enumerate() {
                assert_eq!(u.is_nan(), is_active[n] == 0.0);
                assert!(u.is_nan() && v.is_nan() || (u - v).abs() <= 1e-6, "cell {n}: {u} {v}");
            }
        }
    }
    // Nothing but these is left.
    let mut names: Vec<_> = fs::read_dir(files.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    assert_eq!(names, ["mask.npy", "rock.toml", "u.png", "u.zarr"]);
}

fn one_rank_says_how_it_went(mpi: &Mpi) {
    let panel = case("panel.toml");
    let tiny = [&["-n", "3", "isobar", "solve", &panel, "--threads", "1"], &support::TINY[..]].concat();
    let run = |more: &[&str]| mpiexec(mpi, &[&tiny, more].concat());
    let said = run(&[]);
    let lines = text(&said);
    assert!(said.status.success() && lines.contains("3 ranks of 1 thread"), "{lines}");
    assert!(lines.contains("slabs      3 of "), "{lines}");
    for word in ["problem ", "outcome ", "time "] {
        assert_eq!(lines.lines().filter(|line| line.starts_with(word)).count(), 1, "{lines}");
    }
    let said = run(&["--set", "solver.method=multigrid", "--set", "solver.max_iterations=1", "--quiet"]);
    assert_eq!(said.status.code(), Some(2), "{}", text(&said));
    let flow = |said: Output| text(&said).lines().find(|line| line.starts_with("flow ")).map(str::to_owned);
    let files = tempdir().unwrap();
    let rock = [&file(&files, "rock.toml", ROCK), "--threads", "1", "--set", "solver.tolerance=1e-12"];
    let alone = Command::new(env!("CARGO_BIN_EXE_isobar")).arg("solve").args(rock).output().unwrap();
    let found = [alone, mpiexec(mpi, &[&["-n", "3", "isobar", "solve"], &rock[..]].concat())].map(flow);
    assert!(found[0].is_some() && found[0] == found[1], "{found:?}");
    assert_eq!(String::from_utf8_lossy(&said.stdout), "");
}

/// Checks for one message and exit status 1.
#[track_caller]
fn assert_fails(output: &Output, part: &str) {
    let said = text(output);
    assert!(!output.status.success(), "{said}");
    assert_eq!(said.matches("error: ").count(), 1, "{said}");
    assert!(said.contains(part), "{part:?} is not in:\n{said}");
}

fn failures_are_said_once(mpi: &Mpi) {
    let panel = case("panel-tiny.toml");
    assert_fails(&mpiexec(mpi, &["-n", "3", "isobar", "solve", "nothing.toml"]), "nothing.toml: no such file");
    assert_fails(&mpiexec(mpi, &["-n", "3", "isobar", "solve", &panel, "--nonsense"]), "--nonsense");
    assert_fails(
        &mpiexec(mpi, &["-n", "3", "isobar", "bench", &panel]),
        "error: only `isobar solve` runs on several ranks",
    );
    assert_fails(&mpiexec(mpi, &["-n", "2", "isobar", "solve", &panel, "--device", "cuda"]), "--device cpu");
    let few = ["-n", "5", "isobar", "solve", &panel, "--set", "grid.ny=4", "--set", "grid.nx=8"];
    assert_fails(&mpiexec(mpi, &few), "4 rows for 5 ranks, each of which takes at least one; use at most 4 ranks");
    let batch = ["-n", "2", "isobar", "solve", &case("jacobi-batch.toml"), "--set", "solver.jacobi={batch=true}"];
    assert_fails(&mpiexec(mpi, &batch), "solver.jacobi.batch: on 2 ranks");
    // What rank 2 alone reads.
    let files = tempdir().unwrap();
    let (rock, b) = (file(&files, "rock.toml", ROCK), files.path().join("b.npy"));
    let mut values = vec![1.0; 8 * 28 * 24];
    values[27 * 24 + 3] = f64::NAN;
    isobar_io::npy::write(fs::File::create(&b).unwrap(), &[8, 28, 24], &values).unwrap();
    let path = format!("problem.rhs={{ kind = \"file\", path = \"{}\" }}", b.display());
    let said = mpiexec(mpi, &["-n", "3", "isobar", "solve", &rock, "--threads", "1", "--set", &path]);
    assert_fails(&said, "a[0, 27, 3] is NaN");
    let written = files.path().join("u.npy").display().to_string();
    let more = ["-n", "1", "isobar", "solve", &rock, ":", "-n", "1", "isobar", "solve", &rock, "--output", &written];
    assert_fails(&mpiexec(mpi, &more), "rank 1 of 2: the version of isobar, the case, or its files");
    let nowhere = ["-n", "2", "isobar", "solve", &panel, "--output", "/no/such/folder/u.npy"];
    assert_fails(&mpiexec(mpi, &nowhere), "/no/such/folder");
}

/// A rank that fails, or has other input, ends all with a message that names it.
fn ranks_must_agree(mpi: &Mpi) {
    let (panel, other) = (case("panel-tiny.toml"), case("box.toml"));
    let first = ["-n", "2", "isobar", "solve", &panel, ":", "-n", "1", "isobar", "solve"];
    let with = |last: &[&str]| mpiexec(mpi, &[&first, last].concat());
    assert_fails(&with(&["nothing.toml"]), "rank 2 of 3: nothing.toml: no such file");
    assert_fails(
        &with(&[&other]),
        "rank 2 of 3: the version of isobar, the case, or its files: not the same as on rank 0",
    );
    assert_fails(&with(&[&panel, "--set", "grid.ny=20"]), "rank 2 of 3: the version of isobar, the case, or its files");
}

/// Returns the processes of a job on this case, each with its rank.
#[cfg(target_os = "linux")]
fn ranks_of(case: &str) -> Vec<(u32, Option<usize>)> {
    let pid = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let found = fs::read_dir("/proc").unwrap().flatten().filter_map(pid).filter_map(|pid: u32| {
        let read =
            |what: &str| Some(String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/{what}")).ok()?).into_owned());
        let (arguments, environment) = (read("cmdline")?, read("environ")?);
        let is_rank = arguments.contains(case) && arguments.starts_with(env!("CARGO_BIN_EXE_isobar"));
        let rank = environment.split('\0').find_map(|entry| {
            ["PMI_RANK=", "OMPI_COMM_WORLD_RANK="].iter().find_map(|name| entry.strip_prefix(name)?.parse().ok())
        });
        is_rank.then_some((pid, rank))
    });
    found.collect()
}

/// Waits until something exists, for 30 s.
#[cfg(target_os = "linux")]
fn wait_for<R>(what: &str, mut look: impl FnMut() -> Option<R>) -> R {
    let start = std::time::Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed().as_secs() < 30, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// A process that is stopped during steps ends the job with a message that names its rank.
fn a_stopped_rank_ends_all(mpi: &Mpi) {
    #[cfg(target_os = "linux")]
    {
        let files = tempdir().unwrap();
        let steps = HEAT.replace("dt = 1e-3", "dt = 1e-7").replace("output_every = 4", "output_every = 0");
        let heat = file(&files, "long.toml", &steps);
        let args = ["-n", "3", "isobar", "solve", &heat, "--device", "cpu", "--set", "heat.checkpoint_every=50"];
        let mut job = launcher(mpi, &args);
        job.env("ISOBAR_RANK_TIMEOUT", "2").current_dir(files.path());
        job.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let job = job.spawn().unwrap();
        wait_for("steps are taken", || files.path().join("run.ckpt").exists().then_some(()));
        let stopped = ranks_of(&heat).into_iter().find(|(_, rank)| *rank == Some(1)).unwrap().0;
        assert!(Command::new("sh").args(["-c", &format!("kill -STOP {stopped}")]).status().unwrap().success());
        let start = std::time::Instant::now();
        let said = job.wait_with_output().unwrap();
        assert!(start.elapsed().as_secs() < 30, "{}", text(&said));
        assert_fails(&said, "rank 1 of 3: it hangs: no sign of it for 2 s");
        wait_for("all processes are gone", || ranks_of(&heat).is_empty().then_some(()));
    }
}

/// A rank that is killed while all write a store together leaves temporary files that the next run removes.
fn killed_ranks_leave_nothing_for_good(mpi: &Mpi) {
    #[cfg(target_os = "linux")]
    for killed in 0..2 {
        let files = tempdir().unwrap();
        let heavy =
            file(&files, "heavy.toml", &ROCK.replace("nx = 24\nny = 28\nnz = 8", "nx = 512\nny = 512\nnz = 64"));
        let output = files.path().join("u.zarr").display().to_string();
        let few = ["--device", "cpu", "--set", "solver.method=cg", "--set", "solver.preconditioner.kind=jacobi"];
        let few = [&few[..], &["--set", "solver.max_iterations=1", "--output", &output]].concat();
        let mut job = launcher(mpi, &[&["-n", "2", "isobar", "solve", &heavy], &few[..]].concat());
        job.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let job = job.spawn().unwrap();
        let has_chunks = |entry: fs::DirEntry| entry.path().join("u/c").exists().then_some(());
        wait_for("chunks are written", || fs::read_dir(files.path()).unwrap().flatten().find_map(has_chunks));
        let rank = ranks_of(&heavy).into_iter().find(|(_, rank)| *rank == Some(killed));
        let is_killed = rank.is_some_and(|(rank, _)| {
            Command::new("sh").args(["-c", &format!("kill -KILL {rank}")]).status().unwrap().success()
        });
        job.wait_with_output().unwrap();
        wait_for("all processes are gone", || ranks_of(&heavy).is_empty().then_some(()));
        let tiny = ["--set", "grid.nx=8", "--set", "grid.ny=8", "--set", "grid.nz=8"];
        let next = [&["solve", &heavy], &few[..], &tiny[..]].concat();
        Command::new(env!("CARGO_BIN_EXE_isobar")).args(&next).output().unwrap();
        let mut left: Vec<_> = fs::read_dir(files.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["heavy.toml", "u.zarr"], "rank {killed} killed: {is_killed}");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = mpi;
}
