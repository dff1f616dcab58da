//! Ranks that divide x as well as y, compared with one.

use isobar_core::conformance::arrays::cg;
use isobar_core::prelude::*;
use isobar_cpu::Cpu;
use isobar_dist::{join, threads};

use crate::checks::{check_grids, check_solves, krylov, multigrid, problem, rhs};
use crate::rocks::{check_floating, check_points, check_rough, floating, point_cycles, rough, smooth, uneven};
use crate::solves::{check_as_alone, check_products};
use crate::sweeps::check_sweeps;
use crate::tensor_product::{check_a_first_guess, check_updates};
use crate::{cpu, cpus, described, refusal};

/// Divisions of x alone, of both, uneven ones, and of y alone.
const PARTS: [[usize; 2]; 5] = [[2, 1], [2, 2], [3, 2], [1, 3], [4, 1]];

/// Odd and even sizes, one layer, rectangles of a single row; columns divided down to pairs.
const GRIDS: [([usize; 3], &[[usize; 2]]); 5] = [
    ([7, 13, 5], &PARTS),
    ([32, 16, 8], &PARTS),
    ([33, 21, 4], &[[2, 3], [4, 2], [16, 1]]),
    ([12, 9, 1], &PARTS),
    ([6, 2, 3], &[[3, 1], [3, 2]]),
];

#[test]
fn apply() {
    for ([nx, ny, nz], parts) in GRIDS {
        let problem = problem(nx, ny, nz);
        let u = rhs(&problem);
        check_products(&cpu, &problem.stencil().unwrap(), &u, parts);
        // An even x is periodic.
        check_products(&cpu, &rough(Shape::new(nx, ny, nz)).stencil().unwrap(), &u, parts);
    }
}

#[test]
fn krylov_methods() {
    check_grids(&cpu, &GRIDS, &krylov());
}

#[test]
fn multigrid_methods() {
    check_grids(&cpu, &GRIDS[..4], &multigrid());
}

/// Checks grids large enough for several threads a rank.
#[test]
fn several_threads_a_rank() {
    let problem = problem(64, 64, 16);
    for options in [&krylov()[0], &multigrid()[0]] {
        check_solves(&cpus(3), &problem, &[[2, 1], [2, 2]], options);
    }
}

/// Checks different coefficients in every direction, inactive cells, and periodic x.
#[test]
fn rough_diffusion() {
    for (nx, ny, nz) in [(7, 13, 5), (16, 8, 4), (12, 9, 1)] {
        let problem = rough(Shape::new(nx, ny, nz));
        check_rough(&cpu, &problem, &PARTS);
    }
}

#[test]
fn approximate_inverses() {
    for preconditioner in [Preconditioner::Neumann { order: 2 }, Preconditioner::SsorAi] {
        let options = SolverOptions { tolerance: 1e-9, ..cg(preconditioner) };
        for problem in [rough(Shape::new(7, 13, 5)), rough(Shape::new(16, 8, 4))] {
            check_as_alone(&cpu, &problem, &PARTS, &options);
        }
    }
}

#[test]
fn cycles_that_relax_points() {
    let mut problems: Vec<_> = smooth().into_iter().map(|(problem, _)| problem).collect();
    // A periodic x that is halved with y, and one with enough subdomains for coarse grids to be gathered early.
    let kappa = (0..1024).map(|n| uneven([n % 16, n / 16 % 16, n / 256]));
    let mut ring = DiffusionProblem::new(Shape::new(16, 16, 4), Coefficient::Isotropic(kappa.collect()));
    ring.boundary[0] = [Boundary::Periodic; 2];
    ring.boundary[1] = [Boundary::Dirichlet(0.0); 2];
    ring.spacing = [0, 1, 2].map(|_| Spacing::Uniform(0.5));
    problems.push(ring);
    for problem in problems {
        for options in point_cycles() {
            check_points(&cpu, &problem, &[[2, 1], [2, 2], [3, 2]], &options);
        }
    }
}

#[test]
fn sweeps_of_jacobi() {
    let problem = rough(Shape::new(16, 10, 4));
    let (stencil, rhs) = (problem.stencil().unwrap(), problem.rhs(Some(RhsKind::Random), 3, Weighting::None).unwrap());
    check_sweeps(&cpu, &stencil, &rhs, &PARTS, false);
}

/// Checks means and balances over the cells of all ranks.
#[test]
fn what_floats() {
    for (problem, _, options) in floating() {
        check_floating(&cpu, &problem, &[[2, 1], [2, 2]], &options);
    }
}

#[test]
fn a_first_guess_and_an_update() {
    check_a_first_guess([2, 2], &multigrid()[0]);
    check_updates([2, 2], &multigrid()[0]);
}

/// Ranks that divide x do not support vertical modes and Galerkin grids, and choose other methods.
#[test]
fn what_is_chosen() {
    let problem = problem(24, 24, 16);
    let (stencil, rock) = (problem.stencil().unwrap(), rough(Shape::new(8, 16, 8)).stencil().unwrap());
    let of_rock = described([2, 2], &rock, &SolverOptions::default());
    for (of, of_rock) in described([2, 2], &stencil, &SolverOptions::default()).into_iter().zip(of_rock) {
        assert_eq!(&*of.method, "multigrid");
        assert!(
            of.notes.iter().any(|note| note.contains("ranks that divide x share no vertical modes")),
            "{:?}",
            of.notes
        );
        assert_eq!((&*of_rock.method, &*of_rock.preconditioner), ("cg", "line"));
    }
}

#[test]
fn what_is_not_there_is_said() {
    let rock = rough(Shape::new(6, 8, 4)).stencil().unwrap();
    let line = cg(Preconditioner::Line);
    let error = refusal([4, 1], &rock, &line);
    assert!(error.contains("6 columns for 4 parts in x") && error.contains("at most 3 parts"), "{error}");
    let error = refusal([2, 2], &rock, &cg(Preconditioner::Multigrid));
    assert!(error.contains("Galerkin grids on ranks that divide x") && error.contains("--parts 1xN"), "{error}");
    let error = refusal([2, 2], &rock, &cg(Preconditioner::Ic { block: None }));
    assert!(error.contains("where x or a periodic y is divided; use"), "{error}");
    let error = refusal([2, 2], &rock, &cg(Preconditioner::IncompletePoisson { scaling: true }));
    assert!(error.contains("incomplete Poisson and incomplete Cholesky on ranks that divide x"), "{error}");
    let deflated = SolverOptions {
        deflation: Some(Deflation { stripes: Stripes::Bodies, coarse: CoarseSolve::Inverse }),
        ..line.clone()
    };
    assert!(refusal([2, 2], &rock, &deflated).contains("where x or a periodic y is divided; use"));
    let mut ring = rough(Shape::new(7, 8, 4));
    ring.boundary[0] = [Boundary::Periodic; 2];
    check_as_alone(&cpu, &ring, &[[2, 1], [2, 3]], &line);
    let modes = SolverOptions { method: Method::Modes, ..SolverOptions::default() };
    let error = refusal([2, 1], &problem(6, 8, 4).stencil().unwrap(), &modes);
    assert!(error.contains("vertical modes on ranks that divide x"), "{error}");
    let mut points = SolverOptions { method: Method::Multigrid, ..SolverOptions::default() };
    points.multigrid.smoother = Smoother::PointRedBlack;
    let error = refusal([1, 5], &rock, &points);
    assert!(error.contains("8 rows on 5 ranks, which need 9 at least"), "{error}");
    let wrong = threads::run(3, |world| {
        let error = join(Cpu::new(1)?, std::sync::Arc::new(world), [2, 2]).err();
        Ok(error.map(|error| error.to_string()))
    });
    for error in wrong.unwrap() {
        assert!(error.is_some_and(|error| error.contains("2x2 are not as many parts as there are ranks, 3")));
    }
}
