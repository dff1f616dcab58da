//! Diffusion problems with the command: results, and messages about wrong input.

use std::fs;

use serde_json::Value;
use tempfile::tempdir;

use crate::support::{
    Case, assert_fails, case, isobar, json, matrix_size, npy, number, overrides, stderr, stdout, succeeded, succeeds,
    values,
};

/// 1 in (−∂_x, ∂_x): linear from 0 in the west to 1 in the east.
const LINEAR: &str = "[problem]\nkind = \"poisson\"\n[grid]\nnx = 8\nny = 6\n\
                      [diffusion]\nboundary = { west = \"dirichlet\", east = { dirichlet = 1.0 } }\n\
                      [solver]\ntolerance = 1e-12\n";

#[test]
fn linear_solutions_are_exact() {
    let case = Case::new(LINEAR);
    let report = case.solve(&["--output", "u.npy"]);
    assert_eq!(report["problem"], serde_json::json!({"kind": "poisson", "unknowns": 48, "grid": [8, 6, 1]}));
    assert_eq!((&report["solver"]["method"], &report["solver"]["preconditioner"]), (&"direct".into(), &Value::Null));
    for (n, u) in values(&case.path("u.npy")).into_iter().enumerate() {
        let x = (n % 8) as f64 / 8.0 + 1.0 / 16.0;
        assert!((u - x).abs() < 1e-10, "cell {n}: {u}, not {x}");
    }
}

#[test]
fn negative_reactions_are_solved_directly() {
    let case = Case::new(&LINEAR.replace("[diffusion]", "[diffusion]\nreaction = -40.0"))
        .with("c.npy", npy("(6, 8)", &[-40.0; 48]));
    let report = case.solve(&["--output", "u.npy"]);
    assert_eq!(report["solver"]["method"], "direct");
    case.solve(&["--output", "f.npy", "--set", "diffusion.reaction={ file = \"c.npy\" }"]);
    assert_eq!(values(&case.path("f.npy")), values(&case.path("u.npy")));
    case.fails_with(&["--set", "solver.method=cg"], &["diffusion.reaction: negative in cell", "\"direct\" can"]);
}

#[test]
fn coefficients_that_jump_at_a_face_are_met_exactly() {
    // Flux 2/(1/1 + 1/4) = 1.6 through two slabs of length ½.
    let case = Case::new(&LINEAR.replace("[diffusion]", "[diffusion]\ncoefficient = { file = \"k.npy\" }"))
        .with("k.npy", npy("(6, 8)", &[1.0, 1.0, 1.0, 1.0, 4.0, 4.0, 4.0, 4.0].repeat(6)));
    case.solve(&["--output", "u.npy"]);
    let u = values(&case.path("u.npy"));
    assert!((u[3] - 1.6 * 7.0 / 16.0).abs() < 1e-10 && (u[4] - (0.8 + 0.4 / 16.0)).abs() < 1e-10, "{:?}", &u[..8]);
}

#[test]
fn grids_of_one_and_three_directions() {
    let line = Case::new(&LINEAR.replace("ny = 6", "ny = 1\nsize = [2.0]"));
    for file in ["u.npy", "u.vti"] {
        line.solve(&["--output", file, "--plot", "u.png"]);
    }
    let holds = |case: &Case, file: &str, part: &str| {
        assert!(String::from_utf8_lossy(&fs::read(case.path(file)).unwrap()).contains(part), "{part} in {file}");
    };
    assert_eq!(values(&line.path("u.npy")).len(), 8);
    assert!(fs::read(line.path("u.png")).unwrap().starts_with(b"\x89PNG"));
    holds(&line, "u.vti", "Spacing=\"0.25 1 1\"");
    let graded = LINEAR.replace("ny = 6", "ny = 6\nnz = 3\nspacing = [1.0, 2, [1.0, 2.0, 4.0]]");
    let graded = Case::new(&graded);
    let report = graded.solve(&[]);
    assert_eq!(report["problem"]["grid"], serde_json::json!([8, 6, 3]));
    graded.fails_with(&["--output", "u.vti"], &["--output", "u.vti", "differ in width", ".vtr"]);
    graded.solve(&["--output", "u.vtr"]);
    holds(&graded, "u.vtr", "<RectilinearGrid WholeExtent=\"0 8 0 6 0 3\"");
    // Equal widths that are given one by one make a uniform grid.
    let even = LINEAR.replace("ny = 6", "ny = 6\nspacing = [1.0, [0.1, 0.1, 0.1, 0.1, 0.1, 0.1], 1.0]");
    let even = Case::new(&even);
    even.solve(&["--output", "u.vti"]);
    holds(&even, "u.vti", "Spacing=\"1 0.1 1\"");
}

#[test]
fn inactive_cells_are_marked() {
    let mask = [1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0].repeat(6);
    let case = Case::new(&LINEAR.replace("[diffusion]", "[diffusion]\nactive = { file = \"active.npy\" }"))
        .with("active.npy", npy("(1, 6, 8)", &mask));
    let report = case.solve(&["--output", "u.npy", "--plot", "u.png"]);
    case.solve(&["--output", "u.zarr"]);
    for (u, active) in values(&case.path("u.npy")).into_iter().zip(&mask) {
        assert_eq!(u.is_nan(), *active == 0.0);
    }
    // The eastern half is all at 1, and inactive cells count as 0.
    assert!((number(&report["checks"]["sum"]) - 18.0).abs() < 1e-8);
    let text = stdout(&case.run("solve", &[]));
    assert!(text.contains("12 inactive cells"), "{text}");
}

#[test]
fn singular_systems_say_what_was_done() {
    let text = "[problem]\nkind = \"poisson\"\n[problem.rhs]\nkind = \"manufactured\"\n[grid]\nnx = 12\nny = 8\n";
    let report = Case::new(text).solve(&["--set", "solver.tolerance=1e-10", "--set", "solver.method=cg"]);
    assert!(number(&report["error"]["max"]) < 1e-7, "{}", report["error"]);
    assert!(number(&report["outcome"]["projected"]) < 1e-12);
    assert!(number(&report["outcome"]["condition"]) >= 1.0);
    assert_eq!(report["outcome"]["eigenvalues"].as_array().unwrap().len(), 2);

    let unbalanced = Case::new(&text.replace("manufactured", "constant"));
    unbalanced.fails(&["has no solution", "96 cells", "solver.compatibility = \"project\""]);
    let set = ["--set", "solver.compatibility=project", "--set", "problem.rhs.kind=random"];
    let text = succeeded(&unbalanced.run("solve", &set));
    assert!(
        text.contains("1 connected component of 96 cells without fixed values")
            && text.contains("the singular matrix cannot produce"),
        "{text}"
    );
}

#[test]
fn a_ring_of_an_odd_number_of_cells() {
    let sides = LINEAR.replace("nx = 8", "nx = 7").replace("west = \"dirichlet\", east =", "x = \"periodic\", south =");
    let case = Case::new(&sides);
    // Only iterations are on two copies.
    for (method, is_on_copies) in [("auto", false), ("cg", true)] {
        let set = format!("solver.method={method}");
        let text = succeeded(&case.run("solve", &["--output", "u.npy", "--set", &set]));
        let says = text.contains("x is periodic with 7 cells") && text.contains("84 cells");
        assert_eq!(says, is_on_copies, "{text}");
        let u = values(&case.path("u.npy"));
        assert!(u.len() == 42 && u.iter().all(|u| (u - 1.0).abs() < 1e-9), "{u:?}");
    }
}

#[test]
fn norne_is_solved() {
    let folder = tempdir().unwrap();
    let report = folder.path().join("report.json");
    let text = succeeds(["solve", &case("norne.toml"), "--device", "cpu", "--report", report.to_str().unwrap()]);
    assert!(text.contains("2 connected components"), "{text}");
    let report = json(&report);
    assert!(number(&report["outcome"]["iterations"]) <= 40.0);
    // Injector and producer balance, so nothing was removed; the mean is 0 in both components.
    assert!(number(&report["outcome"]["projected"]) < 1e-12);
    assert!(number(&report["checks"]["sum"]).abs() < 1e-6 * number(&report["checks"]["norm2"]));
}

#[test]
fn bench_and_export_know_them() {
    let case = Case::new(LINEAR);
    for (sets, step) in [
        (["solver.method=multigrid", "solver.multigrid.smoother=point-red-black"], "smooth_residual_restrict"),
        (["solver.method=jacobi", "solver.jacobi.sub_iterations=1"], "relax_points"),
        (["solver.method=jacobi", "solver.jacobi={ sub_iterations = 4, tile = [4, 4], overlap = 2 }"], "relax_tiles"),
        (["solver.method=direct", "solver.tolerance=1e-9"], "direct_solve"),
    ] {
        let text = succeeded(&case.run("bench", &overrides(&sets)));
        assert!(text.contains(step), "{text}");
        assert!(!text.contains("NaN"), "each step is compared with a copy: {text}");
    }
    let (path, matrix) = (case.path("case.toml"), case.path("A.mtx"));
    let text = succeeds(["export".as_ref(), path.as_os_str(), "--matrix".as_ref(), matrix.as_os_str()]);
    assert!(
        text.contains("48 rows, 212 entries, of which the 130 of the lower triangle are in the file; unknown"),
        "{text}"
    );
    // The lower triangle: the diagonal and a number for each face.
    assert_eq!(matrix_size(&fs::read_to_string(&matrix).unwrap()), [48, 48, 48 + 7 * 6 + 8 * 5]);
}

#[test]
fn bench_times_cycles_of_every_smoother() {
    let case = with_diffusion("coefficient = { noise = { sigma = 0.5, seed = 1 } }");
    for smoother in ["line-red-black", "line-jacobi", "point-red-black", "point-line"] {
        for precision in ["f64", "f32"] {
            // Large enough not to be solved exactly.
            let grid = ["grid.nx=24", "grid.ny=20", "grid.nz=16"];
            let multigrid = format!("solver.multigrid={{ smoother = \"{smoother}\", precision = \"{precision}\" }}");
            let method = ["solver.method=cg", "solver.preconditioner=multigrid", &multigrid];
            let text = succeeded(&case.run("bench", &overrides(&[grid, method].concat())));
            assert!(text.contains("smooth"), "{smoother}, {precision}: {text}");
        }
    }
}

/// Makes a case on 8 × 6 × 4 cells with these lines of `[diffusion]`.
fn with_diffusion(lines: &str) -> Case {
    Case::new(&format!(
        "[problem]\nkind = \"diffusion\"\n[grid]\nnx = 8\nny = 6\nnz = 4\n[diffusion]\nboundary.west = \"dirichlet\"\n{lines}\n"
    ))
}

#[test]
fn values_that_make_no_sense() {
    let file = "coefficient = { file = \"k.npy\" }";
    let with = |n: usize, value: f64| {
        let mut values = [1.0; 192];
        values[n] = value;
        with_diffusion(file).with("k.npy", npy("(4, 6, 8)", &values))
    };
    with(1 + 8 * (2 + 6 * 3), -2.5).fails(&["diffusion.coefficient", "k.npy", "-2.5", "(1, 2, 3)", "a[3, 2, 1]"]);
    with(8, f64::NAN).fails(&["diffusion.coefficient", "k.npy", "a[0, 1, 0] is NaN"]);
    with_diffusion(file).fails(&["diffusion.coefficient", "k.npy: no such file"]);
    with_diffusion(file).with("k.npy", npy("(8, 6, 4)", &[1.0; 192])).fails(&["k.npy", "(8, 6, 4)", "(4, 6, 8)"]);
    with_diffusion(file).with("k.npy", npy("(6, 8)", &[1.0; 48])).fails(&["k.npy", "(6, 8)", "(4, 6, 8)"]);
    with_diffusion("coefficient = 0.0").fails(&["diffusion.active", "none of the 192 cells"]);
    with_diffusion("coefficient_z = { ratio = -0.1 }").fails(&["case.toml:9:17", "diffusion.coefficient_z", "-0.1"]);
    with_diffusion("coefficient = { ratio = 0.1 }").fails(&["diffusion.coefficient_z only"]);
    with_diffusion("coefficient_z = { ratio_file = \"r.npy\" }").with("r.npy", npy("(5,)", &[1.0; 5])).fails(&[
        "diffusion.coefficient_z",
        "r.npy",
        "(5,)",
        "(4,) = (nz,)",
    ]);
    with_diffusion("coefficient_z = { ratio_file = \"r.npy\" }")
        .with("r.npy", npy("(4,)", &[1.0, 1.0, -1.0, 1.0]))
        .fails(&["r.npy", "-1 at layer 2"]);
    with_diffusion("coefficient = { bubbles = { count = 100, radius = 0.3, contrast = 1e3 } }")
        .fails(&["diffusion.coefficient.bubbles", "of 100 bubbles"]);
    with_diffusion("coefficient = { layers = { contrast = 0.0 } }").fails(&["contrast 0"]);
    with_diffusion("active = { file = \"a.npy\" }").with("a.npy", npy("(4, 6, 8)", &[0.0; 192])).fails(&[
        "diffusion.active",
        "none of the 192 cells",
        "check the mask",
    ]);
}

#[test]
fn sources_and_wells_that_are_nowhere() {
    let mut mask = [1.0; 192];
    mask[..48].fill(0.0);
    let masked = |lines: &str| {
        with_diffusion(&format!("active = {{ file = \"a.npy\" }}\n{lines}")).with("a.npy", npy("(4, 6, 8)", &mask))
    };
    masked("wells = [ { i = 1, j = 2, k = 0, value = 1.0, radius = 1e-3 } ]").fails(&[
        "diffusion.wells",
        "(1, 2), layers 0 to 0",
        "inactive cells only",
    ]);
    masked("sources = [ { i = 1, j = 2, k = 0, rate = 1.0 } ]").fails(&["diffusion.sources", "inactive cells only"]);
    masked("sources = [ { i = 1, j = 2, k = [0, 1], rate = 1.0 } ]").solve(&[]);
    with_diffusion("sources = [ { i = 8, j = 2, rate = 1.0 } ]").fails(&["diffusion.sources", "(8, 2)", "outside"]);
    with_diffusion("sources = [ { i = 1, j = 2, k = [2, 1], rate = 1.0 } ]")
        .fails(&["diffusion.sources[0].k", "[2, 1] is reversed"]);
    with_diffusion("wells = [ { i = 1, j = 1, value = 1.0, radius = 100.0 } ]")
        .fails(&["diffusion.wells", "radius 100"]);
    with_diffusion("boundary.west = \"dirichlet\"").fails(&["duplicate"]);
    let closed = "[problem]\nkind = \"diffusion\"\n[grid]\nnx = 8\nny = 6\n[diffusion]\n\
                  sources = [ { i = 1, j = 1, rate = 1.0 }, { i = 5, j = 5, rate = -0.5 } ]\n";
    Case::new(closed).fails(&["has no solution", "5.000e-1", "compatibility"]);
}

#[test]
fn keys_that_do_not_fit() {
    let grid = |line: &str| Case::new(&LINEAR.replace("ny = 6", &format!("ny = 6\n{line}")));
    grid("geometry = \"box\"").fails(&["case.toml:6:12", "grid.geometry", "grid.size", "grid.spacing"]);
    grid("depth = 1.0").fails(&["case.toml:6:9", "grid.depth", "poisson"]);
    grid("size = [1.0, 1.0]\nspacing = [1.0, 1.0]").fails(&["grid.size", "remove one of them"]);
    grid("nz = 2\nsize = [1.0, 1.0]").fails(&["grid.size", "2 entries"]);
    grid("spacing = [1.0, \"wide\"]").fails(&["case.toml:6", "grid.spacing[1] must be a width, or a list"]);
    with_diffusion("coefficient = { fil = \"k.npy\" }").fails(&["case.toml:9:17", "did you mean \"file\"?"]);
    with_diffusion("coefficient = { file = \"k.npy\", noise = { sigma = 1.0 } }")
        .fails(&["2 keys, but exactly one is needed"]);
    with_diffusion("coefficient = { bubbles = { count = 3, radius = 0.1 } }").fails(&["needs the key \"contrast\""]);
    with_diffusion("boundary.up = \"neumann\"").fails(&["unknown key \"up\"", "top"]);
    with_diffusion("boundary.north = \"periodic\"").fails(&["diffusion.boundary.north", "south is not"]);
    Case::new(&LINEAR.replace("poisson", "helmholtz")).fails(&["[diffusion] is for problem.kind"]);
    Case::new("[problem]\nkind = \"helmholtz\"\n[grid]\nspacing = [1.0]\n").fails(&["grid.spacing", "grid.depth"]);
    Case::new(&LINEAR.replace("tolerance = 1e-12", "guess = \"twos\"")).fails(&["solver.guess = \"twos\"", "random"]);
    let blocks = "method = \"deflated-cg\"\ndeflation.stripes = { blocks = [9, 1, 1] }";
    Case::new(&LINEAR.replace("tolerance = 1e-12", blocks)).fails(&["solver.deflation.stripes", "9 blocks in x", "8"]);
    let order = "preconditioner = { kind = \"neumann\", order = 1000 }";
    Case::new(&LINEAR.replace("tolerance = 1e-12", order)).fails(&["solver.preconditioner.order", "1000"]);
    let set = ["solve", &case("panel-tiny.toml"), "--quiet", "--set", "solver.method=deflated-cg"];
    assert_fails(&isobar(set).output().unwrap(), &["solver.method", "diffusion"]);
}

#[test]
fn extreme_contrasts_end_honestly() {
    let text = "[problem]\nkind = \"diffusion\"\n[problem.rhs]\nkind = \"manufactured\"\n[grid]\nnx = 32\nny = 32\n\
                [diffusion]\ncoefficient = { two_phase = { contrast = 1e12 } }\nboundary.south = \"dirichlet\"\n";
    for method in ["cg", "deflated-cg", "multigrid"] {
        let case = Case::new(text);
        let set = format!("solver.method={method}");
        let output = case.run("solve", &["--quiet", "--set", &set, "--report", "report.json"]);
        assert!(matches!(output.status.code(), Some(0 | 2)), "{method}: {}", stderr(&output));
        let report = json(&case.path("report.json"));
        let converged = report["outcome"]["stop"] == "converged";
        assert_eq!(converged, output.status.code() == Some(0));
    }
}

/// Checks that the solve ends without a solution, for this reason, and reports it; only the report is written.
#[track_caller]
fn leaves_nothing(case: &Case, sets: &[&str], stop: &str) {
    let files = ["--report", "r.json", "--output", "u.npy", "--plot", "u.png"];
    let run = case.run("solve", &[&files[..], &overrides(sets)].concat());
    let text = stdout(&run);
    assert_eq!((run.status.code(), stderr(&run)), (Some(2), String::new()), "{text}");
    for part in [&format!("NOT converged: {stop}"), "solution   none", "u.npy: there is no solution", "try "] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    assert!(!case.path("u.npy").exists() && !case.path("u.png").exists());
    let report = json(&case.path("r.json"));
    assert_eq!((&report["outcome"]["stop"], &report["checks"]["norm2"]), (&stop.into(), &Value::Null));
}

#[test]
fn what_is_no_solution_is_not_written() {
    let case = with_diffusion("sources = [ { i = 1, j = 2, rate = 1.0 } ]");
    // 1e60 is infinite in single precision.
    leaves_nothing(&case, &["solver.precision=f32", "diffusion.coefficient=1e60"], "breakdown");
    // Such strong relaxation amplifies the error.
    let jacobi = ["solver.multigrid.smoother=line-jacobi", "solver.multigrid.relaxation=1.99"];
    let large = ["grid.nx=24", "grid.ny=20", "solver.method=multigrid"];
    leaves_nothing(&case, &[&large, &jacobi[..]].concat(), "diverged");
    // A recurrence that ends with the exact solution returns the last good state.
    let sets = ["solver.method=bicgstab", "solver.preconditioner.kind=none", "solver.tolerance=1e-300"];
    let run = case.run("solve", &[&overrides(&sets)[..], &["--output", "u.npy"]].concat());
    assert_eq!(run.status.code(), Some(2));
    assert!(values(&case.path("u.npy")).iter().all(|value| value.is_finite()));
}
