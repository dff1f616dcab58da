//! Iteration counts of an independent implementation, 32×32×128 cells, tolerance 1e-5, to ±1.

use isobar_core::conformance::arrays;
use isobar_core::prelude::*;

fn solve(geometry: Geometry, rhs: RhsKind, options: &SolverOptions) -> Outcome {
    let grid = GridOptions { geometry, nx: 32, ny: 32, ..GridOptions::default() };
    let problem = Helmholtz { grid, ..Helmholtz::default() };
    let stencil = problem.stencil().unwrap();
    let b = problem.rhs(rhs, 0, Weighting::None).unwrap();
    arrays::solve(&Reference, &stencil, options, &b).0
}

fn methods() -> [SolverOptions; 3] {
    let multigrid = |smoother| SolverOptions {
        method: Method::Multigrid,
        multigrid: MultigridOptions { smoother, ..MultigridOptions::default() },
        ..SolverOptions::default()
    };
    [
        SolverOptions { method: Method::Cg, ..SolverOptions::default() },
        multigrid(Smoother::LineJacobi),
        multigrid(Smoother::LineRedBlack),
    ]
}

#[test]
fn counts_of_the_table() {
    check_counts(Geometry::Panel, RhsKind::Random, [43, 10, 4]);
}

#[test]
#[ignore = "large; .ci/run has it"]
fn counts_of_the_rest_of_the_table() {
    check_counts(Geometry::Panel, RhsKind::Constant, [37, 10, 5]);
    check_counts(Geometry::Box, RhsKind::Random, [43, 9, 4]);
    check_counts(Geometry::Box, RhsKind::Constant, [40, 10, 4]);
}

fn check_counts(geometry: Geometry, rhs: RhsKind, expected: [usize; 3]) {
    for (options, expected) in methods().iter().zip(expected) {
        let outcome = solve(geometry, rhs, options);
        assert!(outcome.converged() && outcome.relative_residual <= 1e-5, "{outcome:?}");
        assert!(outcome.iterations.abs_diff(expected) <= 1, "{geometry:?} {rhs:?} {options:?}: {outcome:?}");
    }
}

#[test]
fn other_methods_converge() {
    let cg = methods()[0].clone();
    let mut variants: Vec<(&str, SolverOptions, usize)> = Vec::new();
    let mut o = SolverOptions { method: Method::Cg, ..cg.clone() };
    o.preconditioner = Preconditioner::Multigrid;
    variants.push(("mg-cg", o.clone(), 4));
    o.method = Method::Bicgstab;
    variants.push(("mg-bicgstab", o, 3));
    variants.push(("bicgstab", SolverOptions { method: Method::Bicgstab, ..cg.clone() }, 30));
    variants.push(("mixed", SolverOptions { precision: Precision::Mixed, ..methods()[2].clone() }, 4));
    variants.push(("single", SolverOptions { precision: Precision::F32, tolerance: 2e-2, ..methods()[2].clone() }, 1));
    let mut o = methods()[2].clone();
    o.multigrid.start = Start::Full;
    variants.push(("fmg", o, 3));
    for (name, options, expected) in variants {
        let outcome = solve(Geometry::Panel, RhsKind::Random, &options);
        println!("{name}: {} {:e} {:?}", outcome.iterations, outcome.relative_residual, outcome.stop);
        assert!(outcome.iterations.abs_diff(expected) <= 4, "{name}: {outcome:?}");
    }
}
