//! What the case file accepts, and what its messages say.

use std::path::Path;

use isobar::grid::Geometry;
use isobar::options::{Method, Smoother};
use isobar::problem::Weighting;
use isobar::real::Precision;
use proptest::prelude::*;

use super::problem::RhsKind;
use super::*;

/// The example of the format's description.
const FULL: &str = r#"
[problem]
kind = "helmholtz"
courant = 8.4
lambda = 1.0
[problem.rhs]
kind = "random"
seed = 7
weighting = "none"

[grid]
geometry = "panel"
nx = 16
ny = 8
nz = 4
depth = 50e3
grading = "quadratic"

[solver]
method = "multigrid"
tolerance = 1e-5
max_iterations = 500
precision = "f64"
[solver.multigrid]
levels = 5
smoother = "line-jacobi"
relaxation = 0.6666666666666667
pre = 1
post = 1
coarse_sweeps = 2
[solver.preconditioner]
kind = "line"
"#;

const MINIMAL: &str = "[problem]\nkind = \"helmholtz\"\n[grid]\nnx = 4\nny = 4\nnz = 4\n";

fn parse(text: &str, overrides: &[&str]) -> Result<Case> {
    let overrides: Vec<String> = overrides.iter().map(|&o| o.to_owned()).collect();
    Case::parse(Path::new("cases/x.toml"), text, &overrides)
}

fn message(text: &str, overrides: &[&str]) -> String {
    match parse(text, overrides) {
        Ok(case) => panic!("accepted: {case:?}"),
        Err(failure) => failure.to_string(),
    }
}

#[track_caller]
fn assert_all_in(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in:\n{message}");
    }
}

#[test]
fn every_key_of_the_format_is_read() {
    let case = parse(FULL, &[]).unwrap();
    let Problem::Helmholtz(problem) = &case.problem;
    assert_eq!((problem.courant, problem.lambda, problem.omega), (8.4, 1.0, None));
    assert_eq!((problem.rhs.kind, problem.rhs.seed, problem.rhs.weighting), (RhsKind::Random, 7, Weighting::None));
    assert_eq!((case.grid.nx, case.grid.ny, case.grid.nz, case.grid.depth), (16, 8, 4, 50e3));
    assert_eq!(case.solver.method, Method::Multigrid);
    assert_eq!(case.solver.multigrid.smoother, Smoother::LineJacobi);
    assert_eq!(case.name, "cases/x.toml");
}

#[test]
fn a_minimal_case_takes_the_defaults() {
    let case = parse(MINIMAL, &[]).unwrap();
    let Problem::Helmholtz(problem) = &case.problem;
    assert_eq!(problem.courant, 8.4);
    assert_eq!(problem.rhs.weighting, Weighting::Volume);
    assert_eq!(case.solver, SolverOptions::default());
    assert_eq!(case.grid.geometry, Geometry::Panel);
}

#[test]
fn whole_numbers_do_for_reals() {
    assert_eq!(parse(MINIMAL, &["grid.depth=50000"]).unwrap().grid.depth, 5e4);
}

#[test]
fn overrides_apply_in_order() {
    let case = parse(
        MINIMAL,
        &[
            "grid.geometry=box",
            "grid.nx=32",
            "grid.nx = 64",
            "solver.tolerance=1e-8",
            "solver.multigrid.levels=2",
            "solver.precision=\"f32\"",
            "problem.rhs={ kind = \"smooth\", weighting = \"none\" }",
        ],
    )
    .unwrap();
    assert_eq!(case.grid.geometry, Geometry::Box);
    assert_eq!(case.grid.nx, 64);
    assert_eq!(case.solver.tolerance, 1e-8);
    assert_eq!(case.solver.multigrid.levels, Some(2));
    assert_eq!(case.solver.precision, Precision::F32);
    let Problem::Helmholtz(problem) = &case.problem;
    assert_eq!((problem.rhs.kind, problem.rhs.weighting), (RhsKind::Smooth, Weighting::None));
}

#[test]
fn overrides_can_be_the_whole_case() {
    assert!(parse("", &["problem.kind=helmholtz", "grid.nx=4", "grid.ny=4", "grid.nz=4"]).is_ok());
}

#[test]
fn a_path_is_relative_to_the_case_file() {
    let case = parse(MINIMAL, &["problem.rhs.kind=file", "problem.rhs.path=rhs.npy"]).unwrap();
    let Problem::Helmholtz(problem) = case.problem;
    assert_eq!(problem.rhs.path.as_deref(), Some(Path::new("cases/rhs.npy")));
    let case = parse(MINIMAL, &["problem.rhs.kind=file", "problem.rhs.path=/data/rhs.npy"]).unwrap();
    let Problem::Helmholtz(problem) = case.problem;
    assert_eq!(problem.rhs.path.as_deref(), Some(Path::new("/data/rhs.npy")));
}

#[test]
fn an_unknown_key_is_shown_with_its_line_and_the_nearest_one() {
    let text = format!("{MINIMAL}[solver]\ntolerence = 1e-5\n");
    assert_all_in(
        &message(&text, &[]),
        &[
            "cases/x.toml:8:1",
            "unknown key \"tolerence\" in [solver]",
            "did you mean \"tolerance\"?",
            "8 | tolerence = 1e-5",
            "^^^^^^^^^",
        ],
    );
    assert_all_in(
        &message(MINIMAL, &["solver.multigrid.smother=line-jacobi"]),
        &[
            "--set solver.multigrid.smother=line-jacobi",
            "unknown key \"smother\" in [solver.multigrid]",
            "\"smoother\"",
        ],
    );
    assert_all_in(&message("[problm]\n", &[]), &["x.toml:1:2", "unknown key \"problm\"", "\"problem\""]);
    assert_all_in(
        &message(MINIMAL, &["tolerance=1e-5"]),
        &["--set tolerance=1e-5", "unknown key \"tolerance\"", "did you mean solver.tolerance?"],
    );
    assert_all_in(&message(MINIMAL, &["problem.knd=1"]), &["did you mean \"kind\"?"]);
    assert_all_in(&message(MINIMAL, &["problem.rhs.sead=1"]), &["[problem.rhs]", "did you mean \"seed\"?"]);
}

#[test]
fn an_unknown_choice_lists_what_there_is() {
    assert_all_in(
        &message(MINIMAL, &["grid.geometry=boxx"]),
        &["grid.geometry = \"boxx\"", "did you mean \"box\"?", "available: panel, equiangular-panel, box"],
    );
    assert_all_in(&message(MINIMAL, &["solver.method=sor"]), &["solver.method", "available: cg"]);
    assert_all_in(&message("[problem]\nkind = \"helmholz\"", &[]), &["x.toml:2:8", "did you mean \"helmholtz\"?"]);
}

#[test]
fn what_is_planned_says_so() {
    let later = "not available in this version";
    for (set, name) in [
        ("problem.kind=poisson", "problem.kind = \"poisson\""),
        ("problem.kind=heat", "problem.kind = \"heat\""),
        ("solver.method=jacobi", "solver.method = \"jacobi\""),
        ("solver.method=deflated-cg", "solver.method = \"deflated-cg\""),
        ("solver.preconditioner.kind=mic", "solver.preconditioner.kind = \"mic\""),
        ("diffusion.coefficient=1.0", "[diffusion]"),
        ("heat.dt=1e-3", "[heat]"),
        ("solver.deflation.stripes=half-rows", "[solver.deflation]"),
        ("solver.jacobi.overlap=4", "[solver.jacobi]"),
    ] {
        assert_all_in(&message(MINIMAL, &[set]), &[name, later, "available"]);
    }
}

#[test]
fn wrong_types_are_named() {
    for (set, parts) in [
        ("grid.nx=12.5", &["grid.nx must be a whole number, 0 or more, not the number 12.5"][..]),
        ("grid.nx=-5", &["grid.nx must be a whole number, 0 or more, not the whole number -5"]),
        ("grid.nx=\"12\"", &["grid.nx must be a whole number, 0 or more, not the string \"12\""]),
        ("grid.nx=12 34", &["not the string \"12 34\""]),
        ("grid.nx=true", &["not the boolean true"]),
        ("grid.nx=[1, 2]", &["grid.nx must be a whole number, 0 or more, not a list"]),
        ("grid.nx={}", &["grid.nx must be a whole number, 0 or more, not a section"]),
        ("grid.nx=99999999999999999999999", &["grid.nx", "99999999999999999999999"]),
        ("grid.depth=deep", &["grid.depth must be a number, not the string \"deep\""]),
        ("grid.geometry=3", &["grid.geometry must be"]),
        ("solver.multigrid=5", &["solver.multigrid must be a section, not the whole number 5"]),
        ("grid=5", &["grid must be a section"]),
        ("problem.kind=3", &["problem.kind must be a string"]),
        ("problem.rhs=random", &["problem.rhs must be a section, not the string \"random\""]),
    ] {
        let message = message(MINIMAL, &[set]);
        assert_all_in(&message, parts);
        assert_all_in(&message, &[&format!("--set {set}: ")]);
    }
}

#[test]
fn values_out_of_range_name_the_key_and_the_range() {
    for (set, parts) in [
        ("grid.nx=0", &["grid.nx", "1 or more"][..]),
        ("grid.depth=-1", &["grid.depth", "-1"]),
        ("grid.depth=0", &["grid.depth"]),
        ("solver.tolerance=0", &["solver.tolerance", "between 0 and 1"]),
        ("solver.tolerance=-1e-5", &["solver.tolerance"]),
        ("solver.multigrid.levels=0", &["solver.multigrid.levels"]),
        ("solver.multigrid.relaxation=7", &["solver.multigrid.relaxation", "between 0 and 2"]),
        ("problem.courant=-1", &["problem.courant", "0 to 1e12"]),
        ("problem.lambda=1e300", &["problem.lambda"]),
        ("solver.tolerance=nan", &["solver.tolerance", "not a finite number"]),
        ("grid.depth=inf", &["grid.depth", "not a finite number"]),
        ("grid.depth=-inf", &["grid.depth", "not a finite number"]),
        ("grid.depth=1e999", &["grid.depth", "not a finite number"]),
        ("problem.rhs.path=", &["no value"]),
        ("problem.rhs.kind=file", &["problem.rhs.path"]),
    ] {
        let message = message(MINIMAL, &[set]);
        assert_all_in(&message, parts);
        assert_all_in(&message, &[&format!("--set {set}: ")]);
    }
    assert_all_in(
        &message(MINIMAL, &["grid.nx=1000000000", "grid.ny=1000000000", "grid.nz=1000000000"]),
        &["grid", "cells"],
    );
}

#[test]
fn the_line_of_a_value_out_of_range_is_shown() {
    let text = format!("{MINIMAL}[solver]\ntolerance = 0.0 # too small\n");
    assert_all_in(&message(&text, &[]), &["cases/x.toml:8:13: solver.tolerance:", "8 | tolerance = 0.0"]);
}

#[test]
fn overrides_that_are_none_say_how_to_write_one() {
    for (set, part) in [
        ("grid.nx", "no \"=\""),
        ("=5", "dotted names"),
        ("grid..nx=5", "dotted names"),
        (".=5", "dotted names"),
        ("grid.nx=", "no value"),
        ("grid.nx.deep=3", "nx is a value, not a section"),
    ] {
        assert_all_in(&message(MINIMAL, &[set]), &[&format!("--set {set}: "), part]);
    }
}

#[test]
fn broken_toml_is_shown_with_its_line() {
    assert_all_in(&message("[problem]\nkind = \n", &[]), &["x.toml:2:"]);
    assert_all_in(&message("[problem]\nkind = \"a\"\nkind = \"b\"\n", &[]), &["x.toml:3:", "duplicate"]);
    assert_all_in(&message("[problem", &[]), &["x.toml:1:"]);
    assert_all_in(&message("", &[]), &["x.toml", "problem.kind"]);
}

#[test]
fn bottomless_cases_are_refused() {
    for text in ["a = [", "a = {a=", "a."].map(|part| part.repeat(100_000)) {
        assert_all_in(&message(&text, &[]), &["x.toml"]);
    }
    assert_all_in(&message(&format!("{}a = 1", "a.".repeat(100_000)), &[]), &["nested too deeply"]);
    let set = format!("{}a=1", "a.".repeat(100_000));
    assert_all_in(&message(MINIMAL, &[&set]), &["so many parts"]);
    let set = format!("grid.nx={}", "[".repeat(100_000));
    assert_all_in(&message(MINIMAL, &[&set]), &["grid.nx must be"]);
}

/// The case that random changes start from, cut into words.
fn words() -> Vec<String> {
    FULL.split_inclusive([' ', '\n', '=', '"', '.', '[', ']']).map(str::to_owned).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 2000 } else { 20_000 }))]

    #[test]
    fn random_text_never_panics(text in "\\PC*", set in "\\PC*") {
        let _ = parse(&text, &[]);
        let _ = parse(MINIMAL, &[&set]);
    }

    #[test]
    fn random_toml_like_text_never_panics(text in "[\\[\\]a-c.=\"'0-9e_\\-+#{},\\n\\t é\u{0}]*") {
        let _ = parse(&text, &[]);
        let _ = parse(MINIMAL, &[&format!("grid.nx={text}"), &text]);
    }

    #[test]
    fn changed_cases_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..4_u8, "\\PC{0,6}"), 1..8)
    ) {
        let mut words = words();
        for (at, from, how, text) in changes {
            let (at, from) = (at.index(words.len()), from.index(words.len()));
            match how {
                0 => words[at] = text,
                1 => words[at] = words[from].clone(),
                2 => words.swap(at, from),
                _ => words[at].clear(),
            }
        }
        let _ = parse(&words.concat(), &[]);
    }

    #[test]
    fn changed_values_are_read_or_refused(
        key in prop::sample::select(keys()),
        value in prop_oneof![
            any::<f64>().prop_map(|x| format!("{x:e}")),
            any::<i64>().prop_map(|x| x.to_string()),
            "[a-z-]{1,12}",
            "\\PC{1,8}",
        ]
    ) {
        let set = format!("{key}={value}");
        if let Err(failure) = parse(FULL, &[&set]) {
            let failure = failure.to_string();
            prop_assert!(failure.contains("--set") || failure.contains(&key) || failure.contains("grid"), "{failure}");
        }
    }
}
