//! The kernels that releases bring compiled are those that the cases and problems of usual sizes request, as a driver that does
//! nothing shows (`driver.c`). With `ISOBAR_UPDATE_KERNELS=1` their list is written anew.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use isobar::internals::cuda;

/// A solve: of a case with settings, and what the driver's kernels measure.
struct Run {
    case: PathBuf,
    settings: Vec<String>,
    fields: &'static str,
    couplings: &'static str,
}

/// Measures of equal coefficients.
const EVEN: [&str; 2] = ["1,1,1", "1,1,1,0,1,1"];
/// Measures of coefficients that vary a little, and of a grid that is coarsened in one direction at first.
const SMOOTH: [&str; 2] = ["1,1,2", "1,1,100,0,1,1"];
/// Measures of coefficients with contrast.
const ROUGH: [&str; 2] = ["1,1000,1000", "1,1,1,1,1,1e9"];

/// A diffusion problem of 128³ cells.
const DIFFUSION: &str = "
problem.kind = \"diffusion\"
grid = { nx = 128, ny = 128, nz = 128 }
diffusion.coefficient = 1.0
";

fn runs(folder: &Path) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut add = |case: &Path, settings: &[&str], [fields, couplings]: [&'static str; 2]| {
        let settings = settings.iter().map(ToString::to_string).collect();
        runs.push(Run { case: case.to_owned(), settings, fields, couplings });
    };
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases");
    for case in std::fs::read_dir(&cases).unwrap().map(|entry| entry.unwrap().path()) {
        if case.extension().is_some_and(|ending| ending == "toml") {
            let measures_nothing = std::fs::read_to_string(&case).unwrap().contains("\"helmholtz\"");
            let measures = if measures_nothing { vec![EVEN] } else { vec![EVEN, SMOOTH, ROUGH] };
            measures.into_iter().for_each(|measures| add(&case, &[], measures));
        }
    }
    let panel = cases.join("panel.toml");
    for columns in [64, 128, 256] {
        let [nx, ny] = ["nx", "ny"].map(|name| format!("grid.{name}={columns}"));
        for layers in [32, 64, 128] {
            add(&panel, &[&nx, &ny, &format!("grid.nz={layers}")], EVEN);
        }
        for precision in ["f64", "mixed"] {
            add(&panel, &[&nx, &ny, "solver.method=multigrid", &format!("solver.precision={precision}")], EVEN);
        }
    }
    // Along one axis, as for effective conductivities, and on all sides.
    let diffusion = folder.join("diffusion.toml");
    std::fs::write(&diffusion, DIFFUSION).unwrap();
    for sides in ["x", "y", "z", "all"] {
        let sides = format!("diffusion.boundary.{sides}=dirichlet");
        for measures in [EVEN, ROUGH] {
            add(&diffusion, &[&sides], measures);
        }
    }
    runs
}

/// Compiles the driver.
fn driver(folder: &Path) -> PathBuf {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let library = folder.join("libcuda.so.1");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/driver.c");
    let mut build = Command::new(&compiler);
    build.args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]).args([&library, &source]);
    let status = build.status();
    assert!(status.as_ref().is_ok_and(std::process::ExitStatus::success), "{compiler}: {status:?}");
    std::fs::copy(&library, folder.join("libcuda.so")).unwrap();
    library
}

/// Returns the lines of the kernels that a run compiles.
fn requested(run: &Run, folder: &Path, library: &Path) -> BTreeSet<String> {
    let working = tempfile::tempdir_in(folder).unwrap();
    let log = working.path().join("log");
    let mut command = Command::new(env!("CARGO_BIN_EXE_isobar"));
    command.arg("solve").arg(&run.case).args(["--quiet", "--device", "cuda", "--threads", "1"]);
    command.args(run.settings.iter().flat_map(|setting| ["--set", setting]));
    command.current_dir(&working).env("FIELDS", run.fields).env("COUPLINGS", run.couplings);
    command.env("LD_LIBRARY_PATH", folder).env("ISOBAR_NVRTC", library).env("ISOBAR_CACHE_DIR", "/dev/null/none");
    let output = command.env("ISOBAR_KERNELS", "").env("ISOBAR_KERNELS_LOG", &log).output().unwrap();
    let log = std::fs::read_to_string(log).unwrap_or_default();
    assert!(!log.is_empty(), "{}: {}", run.case.display(), String::from_utf8_lossy(&output.stderr));
    log.lines().map(str::to_owned).collect()
}

#[test]
fn the_list_of_packed_kernels_is_what_problems_request() {
    let folder = tempfile::tempdir().unwrap();
    let library = driver(folder.path());
    // What all GPUs need, some of it for arrays and ranks that no case has.
    let mut all: BTreeSet<String> = cuda::sources().iter().flat_map(cuda::pack::list::lines).collect();
    let runs = Mutex::new(runs(folder.path()));
    let next = || runs.lock().unwrap().pop();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let work = || {
            let mut found = BTreeSet::new();
            while let Some(run) = next() {
                found.extend(requested(&run, folder.path(), &library));
            }
            found
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().for_each(|worker| all.extend(worker.join().unwrap()));
    });
    if std::env::var_os("ISOBAR_UPDATE_KERNELS").is_some_and(|value| value == "1") {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../isobar-cuda/src/pack/packed.txt");
        let text: String = all.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(path, text).unwrap();
        return;
    }
    let listed: BTreeSet<String> = cuda::pack::list::PACKED.lines().map(str::to_owned).collect();
    let [missing, unused] = [all.difference(&listed), listed.difference(&all)].map(Iterator::collect::<Vec<_>>);
    assert!(
        missing.is_empty() && unused.is_empty(),
        "packed.txt (ISOBAR_UPDATE_KERNELS=1 updates it) lacks {missing:#?}, and nothing requests {unused:#?}"
    );
}
