//! What a case file may say, and what it then means.

use isobar::grid::Geometry;
use isobar::options::{Method, Norm, Preconditioner, Smoother, SolverOptions, Stripes};
use isobar::problem::{Boundary, Spacing, Weighting};
use isobar::{Precision, Shape};

use super::*;
use crate::FirstGuess;
use crate::diffusion;
use crate::helmholtz::RhsKind;

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
fn every_key_of_a_diffusion_problem_is_read() {
    let case = parse(DIFFUSION, &[]).unwrap();
    assert_eq!((case.guess, case.solver.norm), (FirstGuess::Random, Norm::Scaled));
    assert_eq!(case.solver.preconditioner, Preconditioner::BlockIc { block: Some(64) });
    let stripes = case.solver.deflation.as_ref().map(|deflation| deflation.stripes);
    assert_eq!(stripes, Some(Stripes::Blocks([4, 4, 1])));
    // Deflation belongs to conjugate gradients, whoever chose them.
    let resolved = case.solver.resolved(&case.problem.matrix_size().choice()).unwrap();
    assert_eq!((resolved.method, resolved.method_name()), (Method::Cg, "deflated-cg"));
    let plain = parse(DIFFUSION, &["solver.method=cg"]).unwrap();
    assert_eq!((plain.solver.deflation.is_none(), plain.solver.method_name()), (true, "cg"));
    let inputs: Vec<_> = case.problem.inputs().into_iter().map(|path| path.display().to_string()).collect();
    assert_eq!(inputs, ["cases/k.npy", "cases/r.npy", "cases/ntg.npy", "cases/actnum.npy"]);
    let case = super::diffusion(DIFFUSION, &[]);
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
    let solver = case.solver.resolved(&case.problem.matrix_size().choice()).unwrap();
    assert_eq!((solver.method, solver.preconditioner), (Method::Cg, Preconditioner::Multigrid));
    assert_eq!(case.guess, FirstGuess::Zero);
    let case = super::diffusion(text, &[]);
    assert_eq!((case.kind, case.shape), ("poisson", Shape::new(4, 8, 1)));
    assert_eq!(case.spacing, [0.25, 0.125, 1.0].map(Spacing::Uniform));
    assert_eq!(case.rhs_kind(), diffusion::RhsKind::Constant);
    for set in [
        "diffusion.sources=[ { i = 0, j = 0, rate = 1.0 } ]",
        "diffusion.boundary.west={ dirichlet = 1.0 }",
        "diffusion.boundary.west={ neumann = -1.0 }",
        "diffusion.wells=[ { i = 0, j = 0, value = 0.0, radius = 1e-3 } ]",
    ] {
        assert_eq!(super::diffusion(text, &[set]).rhs_kind(), diffusion::RhsKind::None, "{set}");
    }
    assert_eq!(super::diffusion(text, &["diffusion.boundary.west=dirichlet"]).rhs_kind(), diffusion::RhsKind::Constant);
    let stretched = super::diffusion(text, &["grid.size=[8, 4]"]);
    assert_eq!(stretched.spacing, [2.0, 0.5, 1.0].map(Spacing::Uniform));
}

#[test]
fn unknowns_are_in_cells_or_at_points() {
    let text = "[problem]\nkind = \"poisson\"\n[grid]\nnx = 4\nny = 1\n[diffusion]\nunknowns = \"points\"\n";
    let case = parse(text, &["solver.guess=ones"]).unwrap();
    let system = case.assemble().unwrap();
    // u = 0 on the sides, the first points being a whole distance of 1/5 from them.
    assert!(system.rhs.iter().all(|b| (b - 0.2).abs() < 1e-15), "{:?}", system.rhs);
    assert!((system.mesh.centres[0][0] - 0.2).abs() < 1e-15 && (system.mesh.faces[0][0] - 0.1).abs() < 1e-15);
    assert_eq!(case.first_guess().unwrap(), [1.0; 4]);
    let spacing = message(text, &["grid.spacing=[0.25]"]);
    assert!(spacing.contains("grid.spacing") && spacing.contains("diffusion.unknowns"), "{spacing}");
    let heat = "[problem]\nkind = \"heat\"\n[heat]\ndt = 0.1\nend_time = 1.0\n[diffusion]\nunknowns = \"points\"\n";
    assert!(message(heat, &[]).contains("heat.unknowns"));
    let flux = text.to_owned() + "boundary = { west = \"neumann\", east = \"dirichlet\" }\n";
    assert!(parse(&flux, &[]).unwrap().assemble().unwrap_err().to_string().contains("unknowns = \"cells\""));
}
