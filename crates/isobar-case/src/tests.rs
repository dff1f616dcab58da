//! What the case file accepts, and what its messages say.

use std::path::Path;

use isobar::grid::Geometry;
use isobar::layout::Shape;
use isobar::options::{Method, Norm, PreconditionerKind, Smoother, SolverOptions, Stripes};
use isobar::problem::{Boundary, Spacing, Weighting};
use isobar::real::Precision;
use proptest::prelude::*;

use crate::case::keys;
use crate::diffusion::{self, DiffusionCase};
use crate::helmholtz::{HelmholtzCase, RhsKind};
use crate::{Case, FirstGuess, Override, Problem, Result};

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
    let overrides: Vec<Override> = overrides.iter().map(|&set| Override::new(set, format!("--set {set}"))).collect();
    Case::parse(Path::new("cases/x.toml"), text, &overrides)
}

fn message(text: &str, overrides: &[&str]) -> String {
    match parse(text, overrides) {
        Ok(case) => panic!("accepted: {case:?}"),
        Err(failure) => failure.to_string(),
    }
}

fn helmholtz(text: &str, overrides: &[&str]) -> HelmholtzCase {
    match parse(text, overrides).unwrap().problem {
        Problem::Helmholtz(case) => case,
        other => panic!("{other:?}"),
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
    let HelmholtzCase { section: problem, grid } = helmholtz(FULL, &[]);
    assert_eq!((problem.courant, problem.lambda, problem.omega), (8.4, 1.0, None));
    assert_eq!((problem.rhs.kind, problem.rhs.seed, problem.rhs.weighting), (RhsKind::Random, 7, Weighting::None));
    assert_eq!((grid.nx, grid.ny, grid.nz, grid.depth), (16, 8, 4, 50e3));
    assert_eq!(case.solver.method, Method::Multigrid);
    assert_eq!(case.solver.multigrid.smoother, Smoother::LineJacobi);
    assert_eq!(case.name(), "cases/x.toml");
}

#[test]
fn a_minimal_case_takes_the_defaults() {
    let case = parse(MINIMAL, &[]).unwrap();
    let HelmholtzCase { section: problem, grid } = helmholtz(MINIMAL, &[]);
    assert_eq!(problem.courant, 8.4);
    assert_eq!(problem.rhs.weighting, Weighting::Volume);
    assert_eq!(case.solver, SolverOptions::default());
    assert_eq!(grid.geometry, Geometry::Panel);
}

#[test]
fn whole_numbers_do_for_reals() {
    assert_eq!(helmholtz(MINIMAL, &["grid.depth=50000"]).grid.depth, 5e4);
}

#[test]
fn overrides_apply_in_order() {
    let sets = [
        "grid.geometry=box",
        "grid.nx=32",
        "grid.nx = 64",
        "solver.tolerance=1e-8",
        "solver.multigrid.levels=2",
        "solver.precision=\"f32\"",
        "problem.rhs={ kind = \"smooth\", weighting = \"none\" }",
    ];
    let case = parse(MINIMAL, &sets).unwrap();
    let HelmholtzCase { section: problem, grid } = helmholtz(MINIMAL, &sets);
    assert_eq!(grid.geometry, Geometry::Box);
    assert_eq!(grid.nx, 64);
    assert_eq!(case.solver.tolerance, 1e-8);
    assert_eq!(case.solver.multigrid.levels, Some(2));
    assert_eq!(case.solver.precision, Precision::F32);
    assert_eq!((problem.rhs.kind, problem.rhs.weighting), (RhsKind::Smooth, Weighting::None));
}

#[test]
fn overrides_can_be_the_whole_case() {
    assert!(parse("", &["problem.kind=helmholtz", "grid.nx=4", "grid.ny=4", "grid.nz=4"]).is_ok());
}

#[test]
fn a_path_is_relative_to_the_case_file() {
    let problem = helmholtz(MINIMAL, &["problem.rhs.kind=file", "problem.rhs.path=rhs.npy"]).section;
    assert_eq!(problem.rhs.path.as_deref(), Some(Path::new("cases/rhs.npy")));
    let problem = helmholtz(MINIMAL, &["problem.rhs.kind=file", "problem.rhs.path=/data/rhs.npy"]).section;
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
        ("problem.kind=heat", "problem.kind = \"heat\""),
        ("solver.method=jacobi", "solver.method = \"jacobi\""),
        ("solver.preconditioner.kind=mic", "solver.preconditioner.kind = \"mic\""),
        ("heat.dt=1e-3", "[heat]"),
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

/// Every key of a diffusion problem.
const DIFFUSION: &str = r#"
[problem]
kind = "diffusion"
[problem.rhs]
kind = "random"
seed = 7
weighting = "none"

[grid]
nx = 16
ny = 8
nz = 4
spacing = [10.0, 20, [1.0, 2.0, 3.0, 4.0]]

[diffusion]
coefficient = { file = "k.npy" }
coefficient_y = { noise = { sigma = 1.0, seed = 3 } }
coefficient_z = { ratio_file = "r.npy" }
multiplier = { file = "ntg.npy" }
reaction = 0.5
active = { file = "actnum.npy" }
boundary = { west = "periodic", east = "periodic", south = { neumann = 1.0 }, north = "neumann", top = { dirichlet = 2 } }
sources = [ { i = 1, j = 2, k = 3, rate = 5.0 }, { i = 1, j = 2, k = [0, 1], rate = -5.0 } ]
wells = [ { i = 3, j = 4, value = 1.0, radius = 0.1 } ]

[solver]
guess = "random"
norm = "scaled"
compatibility = "project"
[solver.preconditioner]
kind = "block-ic"
block = 64
[solver.deflation]
stripes = { blocks = [4, 4, 1] }
coarse = "inverse"
"#;

fn diffusion(text: &str, overrides: &[&str]) -> DiffusionCase {
    match parse(text, overrides).unwrap().problem {
        Problem::Diffusion(case) => *case,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_key_of_a_diffusion_problem_is_read() {
    let case = parse(DIFFUSION, &[]).unwrap();
    assert_eq!((case.guess, case.solver.norm), (FirstGuess::Random, Norm::Scaled));
    assert_eq!((case.solver.method, case.solver.preconditioner.kind), (Method::Cg, PreconditionerKind::BlockIc));
    assert_eq!(case.solver.deflation.stripes, Stripes::Blocks([4, 4, 1]));
    let inputs: Vec<_> = case.problem.inputs().into_iter().map(|path| path.display().to_string()).collect();
    assert_eq!(inputs, ["cases/k.npy", "cases/r.npy", "cases/ntg.npy", "cases/actnum.npy"]);
    let case = diffusion(DIFFUSION, &[]);
    assert_eq!((case.shape, case.rhs.seed), (Shape::new(16, 8, 4), 7));
    assert_eq!(case.spacing[1..], [Spacing::Uniform(20.0), Spacing::Given(vec![1.0, 2.0, 3.0, 4.0])]);
    let [x, y, z] = case.section.boundary();
    assert_eq!(x, [Boundary::Periodic; 2]);
    assert_eq!(y, [Boundary::Neumann(1.0), Boundary::Neumann(0.0)]);
    assert_eq!(z, [Boundary::Neumann(0.0), Boundary::Dirichlet(2.0)]);
    let sources = case.section.sources(4);
    assert_eq!((sources[0].k, sources[1].k, sources[1].rate), ([3, 3], [0, 1], -5.0));
    assert_eq!(case.section.wells(4)[0].k, [0, 3]);
}

#[test]
fn a_minimal_diffusion_problem_takes_the_defaults() {
    let text = "[problem]\nkind = \"poisson\"\n[grid]\nnx = 4\nny = 8\n";
    let case = parse(text, &[]).unwrap();
    assert_eq!((case.solver.method, case.solver.preconditioner.kind), (Method::Cg, PreconditionerKind::Multigrid));
    assert_eq!(case.guess, FirstGuess::Zero);
    let case = diffusion(text, &[]);
    assert_eq!((case.kind, case.shape), ("poisson", Shape::new(4, 8, 1)));
    assert_eq!(case.spacing, [0.25, 0.125, 1.0].map(Spacing::Uniform));
    assert_eq!(case.rhs_kind(), diffusion::RhsKind::Constant);
    for set in [
        "diffusion.sources=[ { i = 0, j = 0, rate = 1.0 } ]",
        "diffusion.boundary.west={ dirichlet = 1.0 }",
        "diffusion.boundary.west={ neumann = -1.0 }",
        "diffusion.wells=[ { i = 0, j = 0, value = 0.0, radius = 1e-3 } ]",
    ] {
        assert_eq!(diffusion(text, &[set]).rhs_kind(), diffusion::RhsKind::None, "{set}");
    }
    assert_eq!(diffusion(text, &["diffusion.boundary.west=dirichlet"]).rhs_kind(), diffusion::RhsKind::Constant);
    let stretched = diffusion(text, &["grid.size=[8, 4]"]);
    assert_eq!(stretched.spacing, [2.0, 0.5, 1.0].map(Spacing::Uniform));
}

#[test]
fn every_key_that_is_suggested_is_known() {
    for key in diffusion::KEYS {
        let text = "[problem]\nkind = \"poisson\"\n[grid]\nnx = 4\nny = 8\n";
        let set = format!("{key}=[[[]]]");
        if let Err(failure) = parse(text, &[&set]) {
            assert!(!failure.to_string().contains("unknown key"), "{failure}");
        }
    }
}

/// The case that random changes start from, cut into words.
fn words(text: &str) -> Vec<String> {
    text.split_inclusive([' ', '\n', '=', '"', '.', '[', ']']).map(str::to_owned).collect()
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
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..4_u8, "\\PC{0,6}"), 1..8),
        of_diffusion: bool,
    ) {
        let mut words = words(if of_diffusion { DIFFUSION } else { FULL });
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
        ],
        of_diffusion: bool,
    ) {
        let set = format!("{key}={value}");
        if let Err(failure) = parse(if of_diffusion { DIFFUSION } else { FULL }, &[&set]) {
            let failure = failure.to_string();
            prop_assert!(failure.contains("--set") || failure.contains(&key) || failure.contains("grid"), "{failure}");
        }
    }
}
