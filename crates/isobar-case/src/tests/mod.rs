//! Tests of case files and of their error messages.

mod format;
mod messages;
mod random;
mod threads;

use std::path::Path;

use crate::helmholtz::HelmholtzCase;
use crate::{Case, DiffusionCase, Override, Problem, Result};

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

/// Checks that the message about a wrong case has all parts.
#[track_caller]
fn says(text: &str, overrides: &[&str], parts: &[&str]) {
    assert_all_in(&message(text, overrides), parts);
}

#[track_caller]
fn assert_all_in(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in:\n{message}");
    }
}

/// A case with every key of a diffusion problem.
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
