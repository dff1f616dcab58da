//! Tests of the keys and values of case files.

use isobar::grid::Geometry;
use isobar::options::{Method, Norm, Preconditioner, Smoother, SolverOptions, Stripes};
use isobar::problem::{Boundary, Coefficient, DiffusionProblem, Spacing, Weighting};
use isobar::{Precision, Shape};

use super::*;
use crate::{FirstGuess, Matrix, RhsKind, diffusion};

#[test]
fn every_key_of_the_format_is_read() {
    let case = parse(FULL, &[]).unwrap();
    let HelmholtzCase { section: problem, grid } = helmholtz(FULL, &[]);
    assert_eq!((problem.courant, problem.lambda, problem.omega), (8.4, 1.0, None));
    assert_eq!(
        (problem.rhs.kind, problem.rhs.seed, problem.rhs.weighting),
        (Some(RhsKind::Random), 7, Weighting::None)
    );
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
    assert_eq!((problem.rhs.kind, problem.rhs.weighting), (Some(RhsKind::Smooth), Weighting::None));
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
    let [x, y, z] = sides_of(&case);
    assert_eq!(x, [Boundary::Periodic; 2]);
    assert_eq!(y, [Boundary::Neumann(1.0), Boundary::Neumann(0.0)]);
    assert_eq!(z, [Boundary::Neumann(0.0), Boundary::Dirichlet(2.0)]);
    let sources = case.section.sources(4);
    assert_eq!((sources[0].k, sources[1].k, sources[1].rate), ([3, 3], [0, 1], -5.0));
    assert_eq!(case.section.wells(4)[0].k, [0, 3]);
}

/// Returns the boundary conditions of a case, as numbers.
fn sides_of(case: &diffusion::DiffusionCase) -> [[Boundary; 2]; 3] {
    let mut problem = DiffusionProblem::new(case.shape, Coefficient::Isotropic(Vec::new()));
    case.section.boundary.put_on(&mut problem).unwrap();
    problem.boundary
}

#[test]
fn sides_have_short_forms() {
    let text = "[problem]\nkind = \"poisson\"\n[grid]\nnx = 4\nny = 8\n[diffusion.boundary]\nall = 1\nx = \"periodic\"\nnorth = 3.0\n";
    let [fixed, closed] = [Boundary::Dirichlet(1.0), Boundary::default()];
    let case = super::diffusion(text, &[]);
    // A grid of one layer has four sides.
    assert_eq!(sides_of(&case), [[Boundary::Periodic; 2], [fixed, Boundary::Dirichlet(3.0)], [closed; 2]]);
    assert_eq!(case.rhs_kind(), RhsKind::None);
    assert_eq!(sides_of(&super::diffusion(text, &["grid.nz=2"]))[2], [fixed; 2]);
    assert_eq!(sides_of(&super::diffusion(text, &["diffusion.boundary.z=2"]))[2], [Boundary::Dirichlet(2.0); 2]);
    let plain = "[problem]\nkind = \"poisson\"\n[grid]\nnx = 4\nny = 8\n";
    for (set, sides) in [("0", [[Boundary::Dirichlet(0.0); 2]; 2]), ("periodic", [[Boundary::Periodic; 2]; 2])] {
        let case = super::diffusion(plain, &[&format!("diffusion.boundary={set}")]);
        assert_eq!(sides_of(&case), [sides[0], sides[1], [closed; 2]]);
        assert_eq!(case.rhs_kind(), RhsKind::Constant);
    }
    // One value for all sides, and another for one of them.
    let short = format!("{plain}nz = 2\n[diffusion]\nboundary = 1.0\n");
    let case = super::diffusion(&short, &["diffusion.boundary.top=7.0", "diffusion.boundary.y=\"periodic\""]);
    let [x, y, z] = sides_of(&case);
    assert_eq!((x, y), ([Boundary::Dirichlet(1.0); 2], [Boundary::Periodic; 2]));
    assert_eq!(z, [Boundary::Dirichlet(1.0), Boundary::Dirichlet(7.0)]);
    let robin = "diffusion.boundary.west={ robin = { coefficient = 3, value = 2.0 } }";
    let case = super::diffusion(plain, &[robin]);
    assert_eq!(sides_of(&case)[0], [Boundary::Robin { coefficient: 3.0, value: 2.0 }, closed]);
    assert_eq!(case.rhs_kind(), RhsKind::None);
    assert!(parse(plain, &[robin]).unwrap().problem.matrix_size() != parse(plain, &[]).unwrap().problem.matrix_size());
}

/// Makes a folder with these .npy files: names, shapes, values.
fn files(all: &[(&str, &[usize], &[f64])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, shape, values) in all {
        isobar_io::npy::write(std::fs::File::create(folder.path().join(name)).unwrap(), shape, values).unwrap();
    }
    folder
}

fn parse_in(folder: &Path, text: &str, sets: &[&str]) -> Result<Case> {
    let sets: Vec<Override> = sets.iter().map(|set| Override::from(*set)).collect();
    Case::parse(&folder.join("x.toml"), text, &sets)
}

#[test]
fn sides_are_read_from_files() {
    let folder = files(&[
        ("h.npy", &[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
        ("v.npy", &[3], &[7.0, 8.0, 9.0]),
        ("nan.npy", &[2, 3], &[0.0, 1.0, 2.0, f64::NAN, 4.0, 5.0]),
        ("negative.npy", &[2, 3], &[0.0, 1.0, 2.0, 3.0, -4.0, 5.0]),
    ]);
    let text = "[problem]\nkind = \"poisson\"\n[grid]\nnx = 4\nny = 3\nnz = 2\n";
    let read = |sets: &[&str]| parse_in(folder.path(), text, sets).unwrap();
    let west = "diffusion.boundary.west={ robin = { coefficient = { file = \"h.npy\" }, value = 2.0 } }";
    let case = read(&[west]);
    assert!(case.inputs().contains(&folder.path().join("h.npy").as_path()));
    let system = case.assemble().unwrap();
    // A / (Δ/(2κ) + 1/h) with A = 1/6, Δ = 1/4.
    let tie = |h: f64| if h == 0.0 { 0.0 } else { 1.0 / 6.0 / (1.0 / 8.0 + 1.0 / h) };
    let expected: Vec<f64> = (0..24).map(|n| if n % 4 == 0 { 2.0 * tie((n / 4) as f64) } else { 0.0 }).collect();
    assert!(system.rhs.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-14), "{:?}", system.rhs);
    // A grid of one layer has one row of faces on a side; a file without other keys has the values of u.
    let flat = read(&["grid.nz=1", "diffusion.boundary.east={ file = \"v.npy\" }"]).assemble().unwrap();
    assert_eq!(flat.rhs.iter().filter(|b| **b != 0.0).count(), 3);
    let fails = |set: &str| read(&[set]).assemble().unwrap_err().to_string();
    let message = fails("diffusion.boundary.south={ dirichlet = { file = \"h.npy\" } }");
    assert!(
        message.contains("diffusion.boundary.south.dirichlet") && message.contains("(2, 4) = (nz, nx)"),
        "{message}"
    );
    let message = fails("diffusion.boundary.west={ neumann = { file = \"nan.npy\" } }");
    assert!(message.contains("diffusion.boundary.west.neumann") && message.contains("[1, 0]"), "{message}");
    let message = fails(&west.replace("h.npy", "negative.npy"));
    assert!(
        message.contains("diffusion.boundary.west: the coefficient is -4 on the face of cell 1 in y and 1 in z"),
        "{message}"
    );
    assert!(fails(&west.replace("h.npy", "none.npy")).contains("none.npy"));
}

#[test]
fn a_preconditioner_by_name_takes_parameters() {
    let text = format!("{MINIMAL}[solver]\npreconditioner = \"mic\"\n");
    let case = super::parse(&text, &["solver.preconditioner.relaxation=0.5"]).unwrap();
    assert_eq!(case.solver.preconditioner, Preconditioner::Mic { relaxation: 0.5, block: None });
}

#[test]
fn conductances_are_read_from_files() {
    let folder = files(&[
        ("tx.npy", &[2, 2], &[1.0, 2.0, 3.0, 4.0]),
        ("ty.npy", &[1, 3], &[5.0, 6.0, 7.0]),
        ("s.npy", &[2, 3], &[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
        ("mask.npy", &[2, 3], &[1.0, 1.0, 1.0, 1.0, 1.0, 0.0]),
        ("wrong.npy", &[1, 3], &[5.0, -6.0, 7.0]),
        ("large.npy", &[1, 3], &[5.0, 0.0, 1e200]),
        ("tiny.npy", &[2, 3], &[0.0, 0.0, 0.0, 1e-90, 0.0, 0.0]),
        ("ring.npy", &[2, 3], &[1.0, 2.0, 8.0, 3.0, 4.0, 9.0]),
    ]);
    let text = "[problem]\nkind = \"diffusion\"\n[grid]\nnx = 3\nny = 2\n";
    let read = |sets: &[&str]| parse_in(folder.path(), text, sets);
    let all = ["faces.x=tx.npy", "faces.y=ty.npy", "faces.shift=s.npy", "faces.active=mask.npy"];
    let case = read(&all).unwrap();
    assert_eq!(case.inputs().len(), 5);
    assert!(case.problem.describe().contains("conductances from 2 files"));
    let system = case.assemble().unwrap();
    assert_eq!(system.rhs, [1.0, 1.0, 1.0, 1.0, 1.0, 0.0]);
    assert_eq!(system.active, Some(vec![true, true, true, true, true, false]));
    let Matrix::Diffusion(matrix) = &system.matrix else { panic!("{:?}", system.matrix) };
    let x: Vec<f64> = (0..6).map(f64::from).collect();
    assert_eq!(matrix.times(&x), [-1.0 - 15.0, 1.0 - 2.0 - 18.0, 2.0, 15.0 - 3.0, 18.0 + 3.0, 0.0]);
    let exact = read(&[&all[..], &["problem.rhs.kind=manufactured"]].concat()).unwrap().assemble().unwrap().exact;
    assert_eq!(exact.unwrap()[4], 4f64.cos());
    let ring = read(&["faces.x=ring.npy", "faces.y=ty.npy", "faces.periodic=[\"x\"]", "output.flux=q.zarr"]).unwrap();
    assert!(ring.problem.describe().contains("conductances from 2 files, periodic in x"));
    let system = ring.assemble().unwrap();
    let [across_x, across_y, _] = system.flow().unwrap().faces(&x).unwrap();
    assert_eq!(across_x, [16.0, -1.0, -2.0, 16.0, 18.0, -3.0, -4.0, 18.0]);
    assert_eq!(across_y, [0.0, 0.0, 0.0, -15.0, -18.0, -21.0, 0.0, 0.0, 0.0]);
    let fails = |sets: &[&str]| match read(sets) {
        Err(error) => error.to_string(),
        Ok(case) => case.assemble().unwrap_err().to_string(),
    };
    for (sets, parts) in [
        (&["faces.x=ring.npy", "faces.y=ty.npy"][..], &["faces.x", "(1, 2, 2) = (nz, ny, nx − 1)"][..]),
        (&["faces.x=tx.npy", "faces.y=ty.npy", "faces.periodic=[\"x\"]"], &["faces.x", "(1, 2, 3) = (nz, ny, nx)"]),
        (&["faces.x=tx.npy"][..], &["faces.y: missing, but the grid has 2 cells in y"][..]),
        (&["faces.x=tx.npy", "faces.y=tx.npy"], &["faces.y", "(1, 1, 3) = (nz, ny − 1, nx)"]),
        (&["faces.x=tx.npy", "faces.y=ty.npy", "faces.z=ty.npy"], &["faces.z: the grid has 1 cell in z"]),
        (&["faces.x=tx.npy", "faces.y=wrong.npy"], &["conductances in y: -6", "(1, 0, 0) and (1, 1, 0)"]),
        (
            &["faces.x=tx.npy", "faces.y=large.npy"],
            &["conductances in y: 1e200", "(2, 0, 0) and (2, 1, 0) is out of range; use 0 or 1e-60 to 1e60"],
        ),
        (
            &["faces.x=tx.npy", "faces.y=ty.npy", "faces.shift=tiny.npy"],
            &["shift: 1e-90 in cell (i, j, k) = (0, 1, 0)"],
        ),
        (&["faces.x=tx.npy", "faces.y=ty.npy", "diffusion.reaction=1"], &["give one of the two sections"]),
        (&["faces.w=tx.npy"], &["unknown key \"w\" in [faces]"]),
        (&["faces.periodic=[\"w\"]"], &["faces.periodic[0] = \"w\"", "available: x, y, z"]),
        (&["problem.kind=heat", "faces.x=tx.npy", "heat.dt=0.1", "heat.end_time=1"], &["[faces] needs problem.kind"]),
        (&["problem.kind=helmholtz", "faces.x=tx.npy"], &["[faces] is for problem.kind = \"diffusion\""]),
    ] {
        assert_all_in(&fails(sets), parts);
    }
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
    assert_eq!(case.rhs_kind(), RhsKind::Constant);
    for set in [
        "diffusion.sources=[ { i = 0, j = 0, rate = 1.0 } ]",
        "diffusion.boundary.west={ dirichlet = 1.0 }",
        "diffusion.boundary.west={ neumann = -1.0 }",
        "diffusion.wells=[ { i = 0, j = 0, value = 0.0, radius = 1e-3 } ]",
    ] {
        assert_eq!(super::diffusion(text, &[set]).rhs_kind(), RhsKind::None, "{set}");
    }
    assert_eq!(super::diffusion(text, &["diffusion.boundary.west=dirichlet"]).rhs_kind(), RhsKind::Constant);
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
    let alone = parse(text, &["diffusion.boundary.west=dirichlet"]).unwrap().assemble().unwrap_err().to_string();
    assert!(alone.contains("east is closed") && alone.contains("east = { dirichlet = 0.0 }"), "{alone}");
    let heat = "[problem]\nkind = \"heat\"\n[heat]\ndt = 0.1\nend_time = 1.0\n[diffusion]\nunknowns = \"points\"\n";
    assert!(message(heat, &[]).contains("heat.unknowns"));
    let flux = text.to_owned() + "boundary = { west = \"neumann\", east = \"dirichlet\" }\n";
    assert!(parse(&flux, &[]).unwrap().assemble().unwrap_err().to_string().contains("unknowns = \"cells\""));
}
