//! Checks of ranks on any back end for the tensor-product operator.

use isobar_core::prelude::*;

use crate::solves::{Devices, Like, check_like, check_products, solve_alone, variants};

pub(crate) fn problem(nx: usize, ny: usize, nz: usize) -> Helmholtz {
    Helmholtz { grid: GridOptions { nx, ny, nz, ..GridOptions::default() }, ..Helmholtz::default() }
}

pub(crate) fn rhs(problem: &Helmholtz) -> Vec<f64> {
    problem.rhs(RhsKind::Random, 7, Weighting::None).unwrap()
}

/// Grids with odd and even sizes, and the numbers of ranks to test on them.
pub(crate) const GRIDS: [([usize; 3], &[usize]); 4] =
    [([7, 13, 5], &[1, 2, 3, 4, 6]), ([16, 32, 8], &[1, 2, 3, 4, 6]), ([33, 21, 4], &[2, 3, 6]), ([3, 6, 2], &[2, 3])];

/// Checks products, also with a rank for every row.
pub(crate) fn check_apply(backend: &impl Devices) {
    for ([nx, ny, nz], ranks) in GRIDS {
        let problem = problem(nx, ny, nz);
        check_products(backend, &problem.stencil().unwrap(), &rhs(&problem), &[ranks, &[ny]].concat());
    }
}

/// Checks for the iterations of one device, and its solution up to rounding.
pub(crate) fn check_solves(backend: &impl Devices, problem: &Helmholtz, ranks: &[usize], options: &SolverOptions) {
    let (stencil, rhs) = (problem.stencil().unwrap(), rhs(problem));
    let (alone, u) = solve_alone(&backend.of(None), &stencil, options, &rhs, None);
    assert!(alone.converged() || alone.iterations == options.max_iterations, "{options:?}: {alone:?}");
    // Single precision rounds more; by modes, one GPU sweeps in it where several do not, so that errors differ within the tolerance.
    let tolerance = match (options.precision, options.method) {
        (Precision::F64, Method::Modes) => 1e-9_f64.max(0.1 * options.tolerance),
        (Precision::F64, _) => 1e-9,
        _ => 1e-5,
    };
    // Krylov methods amplify rounding, single precision rounds more, and on one GPU is that of modes' sweeps.
    let residuals = match (options.precision, options.method) {
        (Precision::F64, Method::Multigrid) => 1e-6,
        (Precision::F64, Method::Modes) => 5e-2,
        (Precision::F64, _) => 1e-3,
        _ => 5e-2,
    };
    let like = Like { iterations: 0, residuals, compared: usize::MAX, u: tolerance };
    check_like(backend, ("", &stencil, &rhs), ranks, options, (&alone, &u), like);
}

/// Checks solves of several grids with several options.
pub(crate) fn check_grids(backend: &impl Devices, grids: &[([usize; 3], &[usize])], options: &[SolverOptions]) {
    for &([nx, ny, nz], ranks) in grids {
        for options in options {
            check_solves(backend, &problem(nx, ny, nz), ranks, options);
        }
    }
}

/// Grids for vertical modes: the others, one layer, and layers of which some are left to sweeps.
pub(crate) const GRIDS_OF_MODES: [([usize; 3], &[usize]); 4] = [
    ([7, 13, 5], &[1, 2, 3, 4, 6]),
    ([20, 32, 16], &[1, 2, 3, 4, 6]),
    ([33, 21, 9], &[2, 3, 6]),
    ([12, 15, 1], &[2, 3]),
];

pub(crate) fn modes() -> Vec<SolverOptions> {
    let base = SolverOptions { method: Method::Modes, tolerance: 1e-8, ..SolverOptions::default() };
    variants(
        &base,
        &[
            // One iteration, after which nothing is projected.
            &|options| options.tolerance = 1e-5,
            // Most ranks have no mode.
            &|options| (options.modes.count, options.tolerance) = (Count::Given(1), 1e-4),
            // More sweeps than one pass over a grid has.
            &|options| (options.modes.sweeps, options.modes.cycles) = (Count::Given(7), Count::Given(2)),
            &|options| options.multigrid.start = Start::Full,
            &|options| options.precision = Precision::Mixed,
            &|options| (options.precision, options.tolerance) = (Precision::Mixed, 1e-5),
            &|options| (options.precision, options.tolerance) = (Precision::F32, 1e-3),
            &|options| (options.method, options.preconditioner) = (Method::Cg, Preconditioner::Modes),
            &|options| {
                (options.method, options.preconditioner) = (Method::Bicgstab, Preconditioner::Modes);
                options.tolerance = 1e-6;
            },
        ],
    )
}

pub(crate) fn krylov() -> Vec<SolverOptions> {
    let base = SolverOptions { method: Method::Cg, tolerance: 1e-7, ..SolverOptions::default() };
    let with = |preconditioner| SolverOptions { preconditioner, ..base.clone() };
    vec![
        with(Preconditioner::Line),
        // Thin layers do not suit it.
        SolverOptions { max_iterations: 25, ..with(Preconditioner::Jacobi) },
        SolverOptions { norm: Norm::Scaled, ..with(Preconditioner::Line) },
        // Rounding changes its count by one or two: a fixed number of iterations.
        SolverOptions { method: Method::Bicgstab, max_iterations: 8, ..with(Preconditioner::Line) },
        SolverOptions { precision: Precision::F32, tolerance: 1e-2, ..with(Preconditioner::Line) },
    ]
}

pub(crate) fn multigrid() -> Vec<SolverOptions> {
    let base = SolverOptions { method: Method::Multigrid, tolerance: 1e-8, ..SolverOptions::default() };
    variants(
        &base,
        &[
            &|options| options.multigrid.start = Start::Full,
            &|options| {
                options.multigrid.smoother = Smoother::LineJacobi;
                options.tolerance = 1e-6;
            },
            &|options| (options.multigrid.pre, options.multigrid.post) = (2, 2),
            &|options| (options.multigrid.pre, options.multigrid.post) = (0, 1),
            &|options| options.multigrid.relaxation = Some(1.15),
            &|options| options.multigrid.levels = Some(1),
            &|options| options.multigrid.levels = Some(2),
            &|options| (options.method, options.preconditioner) = (Method::Cg, Preconditioner::Multigrid),
            &|options| (options.precision, options.tolerance) = (Precision::F32, 1e-2),
            &|options| options.precision = Precision::Mixed,
        ],
    )
}

/// Checks as many ranks as rows.
pub(crate) fn check_a_rank_for_every_row(backend: &impl Devices) {
    let problem = problem(6, 5, 4);
    // Sweeps begin with the red columns of the whole grid, wherever a rank begins.
    let sweeps = [Smoother::LineRedBlack, Smoother::LineJacobi].map(|smoother| {
        let multigrid = MultigridOptions { smoother, levels: Some(1), ..MultigridOptions::default() };
        SolverOptions { method: Method::Multigrid, tolerance: 1e-6, multigrid, ..SolverOptions::default() }
    });
    for options in krylov().into_iter().chain(modes()).chain(sweeps) {
        check_solves(backend, &problem, &[5.min(backend.most())], &options);
    }
}
