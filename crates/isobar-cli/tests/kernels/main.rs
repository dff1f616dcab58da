//! The kernels that releases bring compiled are those that the cases and problems of usual sizes request, as a driver that does
//! nothing shows (`driver.c`). With `ISOBAR_UPDATE_KERNELS=1` their list is written anew.
#![cfg(target_os = "linux")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use isobar::internals::cuda;
use isobar::internals::cuda::pack::{Pack, list};

const PROGRAM: &str = env!("CARGO_BIN_EXE_isobar");

/// A solve: of a case with settings, and what the driver's GPU is and its kernels measure.
struct Run {
    case: PathBuf,
    settings: Vec<String>,
    gpu: &'static str,
    fields: &'static str,
    couplings: &'static str,
}

/// Measures of equal coefficients.
const EVEN: [&str; 2] = ["1,1,1", "1,1,1,0,1,1"];
/// Measures of coefficients that vary a little, and of a grid that is coarsened in one direction at first.
const SMOOTH: [&str; 2] = ["1,1,2", "1,1,100,0,1,1"];
/// Measures of coefficients with contrast.
const ROUGH: [&str; 2] = ["1,1000,1000", "1,1,1,1,1,1e9"];

/// GPUs by compute capability and shared memory of a block in bytes, which some tiles depend on.
const HOPPER: &str = "9,0,232448";
const OTHERS: [&str; 3] = ["7,5,65536", "8,0,166912", "8,9,101376"];

/// A diffusion problem of 128³ cells that are alike.
const DIFFUSION: &str = "
problem.kind = \"diffusion\"
grid = { nx = 128, ny = 128, nz = 128, spacing = [1.0, 1.0, 1.0] }
diffusion.coefficient = 1.0
";

fn runs(folder: &Path) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut add_on = |gpu, case: &Path, settings: &[&str], [fields, couplings]: [&'static str; 2]| {
        let settings = settings.iter().map(ToString::to_string).collect();
        runs.push(Run { case: case.to_owned(), settings, gpu, fields, couplings });
    };
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cases");
    for case in std::fs::read_dir(&cases).unwrap().map(|entry| entry.unwrap().path()) {
        if case.extension().is_some_and(|ending| ending == "toml") {
            let measures_nothing = std::fs::read_to_string(&case).unwrap().contains("\"helmholtz\"");
            let measures = if measures_nothing { vec![EVEN] } else { vec![EVEN, SMOOTH, ROUGH] };
            OTHERS.into_iter().for_each(|gpu| add_on(gpu, &case, &[], EVEN));
            measures.into_iter().for_each(|measures| add_on(HOPPER, &case, &[], measures));
        }
    }
    let mut add = |case: &Path, settings: &[&str], measures| add_on(HOPPER, case, settings, measures);
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
    // Coarse levels whose columns take blocks of more than 256 threads, in single and in double precision.
    let bubbles = cases.join("bubbles_3d.toml");
    for precision in ["f32", "f64"] {
        let precision = format!("solver.multigrid.precision={precision}");
        add(&bubbles, &["grid.nx=256", "grid.ny=256", &precision], EVEN);
    }
    // Steps that are not solved directly, with a preconditioner and without.
    for (case, setting) in [("heat.toml", "solver.preconditioner=mic"), ("heat-2d.toml", "solver.method=cg")] {
        add(&cases.join(case), &[setting], EVEN);
    }
    // Along one axis, as for effective conductivities, and on all sides.
    let diffusion = folder.join("diffusion.toml");
    std::fs::write(&diffusion, DIFFUSION).unwrap();
    for sides in ["x", "y", "z", "all"] {
        let sides = format!("diffusion.boundary.{sides}=dirichlet");
        for measures in [EVEN, ROUGH] {
            add(&diffusion, &[&sides], measures);
        }
        // Columns of these heights, with cycles in either precision, as they are if a smoother is chosen, and with z exchanged for x.
        for layers in [128, 256, 512] {
            for precision in ["f32", "f64"] {
                for smoother in ["auto", "line-red-black"] {
                    let layers = format!("grid.nz={layers}");
                    let precision = format!("solver.multigrid.precision={precision}");
                    let smoother = format!("solver.multigrid.smoother={smoother}");
                    let settings = ["grid.nx=64", "grid.ny=64", &layers, &sides, &precision, &smoother];
                    add(&diffusion, &settings, ROUGH);
                }
            }
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

/// Returns the command on the driver in a folder, without the cache and without packs of kernels.
fn isobar(program: &Path, folder: &Path, library: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", folder).env("ISOBAR_NVRTC", library).env("ISOBAR_CACHE_DIR", "/dev/null/none");
    command.env("ISOBAR_KERNELS", "");
    command
}

/// Returns the lines of the kernels that a run requests.
fn requested(run: &Run, folder: &Path, library: &Path) -> BTreeSet<String> {
    let working = tempfile::tempdir_in(folder).unwrap();
    let log = working.path().join("log");
    let mut command = isobar(PROGRAM.as_ref(), folder, library);
    command.arg("solve").arg(&run.case).args(["--quiet", "--device", "cuda", "--threads", "1"]);
    command.args(run.settings.iter().flat_map(|setting| ["--set", setting]));
    command.current_dir(&working).env("GPU", run.gpu).env("FIELDS", run.fields).env("COUPLINGS", run.couplings);
    let output = command.env("ISOBAR_KERNELS_LOG", &log).output().unwrap();
    let log = std::fs::read_to_string(log).unwrap_or_default();
    assert!(!log.is_empty(), "{}: {}", run.case.display(), String::from_utf8_lossy(&output.stderr));
    log.lines().map(str::to_owned).collect()
}

#[test]
#[ignore = "a hundred large problems; .ci/run has it"]
fn the_list_of_packed_kernels_is_what_problems_request() {
    let folder = tempfile::tempdir().unwrap();
    let library = driver(folder.path());
    // What all GPUs need, some of it for arrays and ranks that no case has, and sums over components and strongly coupled aggregates, which
    // this driver does not find.
    const ON_AGGREGATES: [&str; 4] = ["aggregate ", "galerkin_bodies ", "galerkin_rows ", "galerkin_setup_shared "];
    let is_on_aggregates = |line: &String| ON_AGGREGATES.iter().any(|name| line.starts_with(name));
    let known = cuda::variants::all().unwrap();
    let on_aggregates = known.iter().flat_map(list::lines).filter(is_on_aggregates);
    let mut all: BTreeSet<String> = cuda::sources().iter().flat_map(list::lines).chain(on_aggregates).collect();
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
        let mut kernels = BTreeMap::<_, Vec<_>>::new();
        for line in &all {
            let (name, rest) = line.split_once(' ').unwrap();
            let (kernel, definitions) = rest.split_once(' ').unwrap_or((rest, ""));
            kernels.entry((name, definitions)).or_default().push(kernel);
        }
        let line = |((name, definitions), kernels): (_, Vec<_>)| format!("{name} {} {definitions}", kernels.join(","));
        let lines: Vec<_> = kernels.into_iter().map(line).collect();
        std::fs::write(path, lines.iter().map(|line| format!("{}\n", line.trim_end())).collect::<String>()).unwrap();
        return;
    }
    let listed: BTreeSet<String> = list::PACKED.lines().flat_map(list::each).collect();
    let [missing, unused] = [all.difference(&listed), listed.difference(&all)].map(Iterator::collect::<Vec<_>>);
    assert!(
        missing.is_empty() && unused.is_empty(),
        "packed.txt (ISOBAR_UPDATE_KERNELS=1 updates it) lacks {missing:#?}, and nothing requests {unused:#?}"
    );
}

/// Writes the pack for the driver's GPU, with something else than machine code.
fn write_pack(path: &Path, nvrtc: (i32, i32)) {
    let kernels = list::read(list::PACKED, &cuda::variants::all().unwrap()).unwrap();
    let codes: Vec<_> =
        kernels.iter().map(|kernel| (kernel.key("sm_90"), kernel.kernel.clone().into_bytes())).collect();
    Pack::write(path, "sm_90", nvrtc, &codes).unwrap();
}

/// Kernels that turn out not to be needed are compiled still when the run ends, and the compiler cleans up after itself.
#[test]
#[ignore = "half a minute, with a compiler; .ci/run has it"]
fn a_run_ends_while_kernels_are_compiled() {
    let compiler = std::env::var_os("ISOBAR_NVRTC").expect("ISOBAR_NVRTC names no compiler");
    let folder = tempfile::tempdir().unwrap();
    driver(folder.path());
    let case = folder.path().join("case.toml");
    let noise = "coefficient = { noise = { sigma = 2.0, seed = 3 } }";
    let rough = DIFFUSION.replace("128", "40").replace("coefficient = 1.0", noise);
    std::fs::write(&case, format!("{rough}problem.rhs.kind = \"constant\"\n")).unwrap();
    let mut command = isobar(PROGRAM.as_ref(), folder.path(), compiler.as_ref());
    command.arg("solve").arg(&case).args(["--device", "cuda"]).env("GPU", HOPPER).env("FIELDS", "1,1,0");
    let output = command.output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    // The numbers of such a driver mean nothing, so the solve need not converge.
    assert!(matches!(output.status.code(), Some(0 | 2)) && out.contains("outcome"), "{}: {out}{err}", output.status);
}

#[test]
fn a_pack_is_used_without_a_compiler_unless_it_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    driver(folder);
    // As in an archive of a release.
    let [program, pack] = ["bin/isobar", "share/isobar/kernels-sm_90.pack"].map(|name| folder.join(name));
    std::fs::create_dir(folder.join("bin")).unwrap();
    std::fs::copy(PROGRAM, &program).unwrap();
    let run = |arguments: &[&str], kernels: Option<&Path>| {
        let mut command = isobar(&program, folder, Path::new("/nowhere/libnvrtc.so"));
        match kernels {
            Some(folder) => command.env("ISOBAR_KERNELS", folder),
            None => command.env_remove("ISOBAR_KERNELS"),
        };
        let output = command.args(arguments).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let panel = concat!(env!("CARGO_MANIFEST_DIR"), "/../../cases/panel.toml");
    let solve = ["solve", panel, "--device", "cuda"];
    let expect = |(code, text): (Option<i32>, String), expected, part: &str| {
        assert!(code == Some(expected) && text.contains(part), "{code:?}, {part:?} is not in:\n{text}");
    };
    expect(run(&solve, None), 1, "NVRTC, which compiles the kernels, was not found");
    write_pack(&pack, (13, 0));
    expect(run(&solve, None), 0, "converged");
    expect(run(&solve, pack.parent()), 0, "converged");
    expect(run(&solve, Some(Path::new(""))), 1, "NVRTC, which compiles the kernels, was not found");
    expect(run(&["devices"], None), 0, " for sm_90, compiled by NVRTC 13.0, ");
    let other = [&solve[..], &["--set", "grid.nz=37"]].concat();
    expect(run(&other, None), 1, "is not one of those compiled in ");
    for (text, nvrtc) in
        [("is of CUDA 14.1, which the driver is too old for", (14, 1)), ("kernels-sm_90.pack is cut off", (13, 0))]
    {
        write_pack(&pack, nvrtc);
        if text.ends_with("off") {
            let whole = std::fs::read(&pack).unwrap();
            std::fs::write(&pack, &whole[..whole.len() - 1]).unwrap();
        }
        expect(run(&["devices"], None), 0, text);
        expect(run(&solve, None), 1, "NVRTC, which compiles the kernels, was not found");
    }
}
