//! Checks of ranks on any back end for the diffusion operator.

use isobar_core::conformance::arrays::cg;
use isobar_core::execute::Serial;
use isobar_core::prelude::*;
use isobar_core::problem::{Source, Well};

use crate::solves::{Devices, Like, check_as_alone, check_like, compare_with_alone, possible, solve_alone, variants};

/// Makes coefficients over three orders of magnitude, different in every direction, with inactive cells, reaction in some,
/// Dirichlet and Neumann sides, x periodic where possible, a well and a source.
pub(crate) fn rough(shape: Shape) -> DiffusionProblem {
    let field = |seed: u64| (0..shape.cells()).map(|n| 10f64.powf(1.5 * random(seed, n))).collect();
    let mut problem = DiffusionProblem::new(shape, Coefficient::Diagonal([field(1), field(2), field(3)]));
    problem.active = Some((0..shape.cells()).map(|n| random(4, n) > -0.8).collect());
    problem.reaction = Some((0..shape.cells()).map(|n| random(5, n).max(0.01)).collect());
    if shape.nx.is_multiple_of(2) {
        problem.boundary[0] = [Boundary::Periodic; 2];
    }
    problem.boundary[1] = [Boundary::Dirichlet(1.0), Boundary::Dirichlet(0.0)];
    let k = [0, shape.nz - 1];
    problem.wells = vec![Well { i: 1, j: shape.ny / 2, k, value: 0.5, radius: 0.001 }];
    problem.sources = vec![Source { i: shape.nx - 1, j: shape.ny - 2, k, rate: 2.0 }];
    problem
}

/// Checks conjugate gradients with the diagonal and with lines: the solution of one rank, and its iterations up to one.
pub(crate) fn check_rough(backend: &impl Devices, problem: &DiffusionProblem, ranks: &[usize]) {
    for preconditioner in [Preconditioner::Jacobi, Preconditioner::Line] {
        let options = SolverOptions { tolerance: 1e-9, ..cg(preconditioner) };
        check_as_alone(backend, problem, ranks, &options);
    }
}

/// Returns coefficients that are not separable, which one rank would solve directly.
pub(crate) fn uneven([i, j, k]: [usize; 3]) -> f64 {
    1.0 + 1e-7 * (i * j + j * k + k * i) as f64
}

/// Makes cubes of κ = 1 or of κ that varies smoothly by a factor of ten, with varying sides, fixed somewhere.
pub(crate) fn smooth() -> Vec<(DiffusionProblem, &'static [usize])> {
    let of = |[nx, ny, nz]: [usize; 3], contrast: f64| {
        let shape = Shape::new(nx, ny, nz);
        let at = |n: usize, count: usize| n as f64 / count as f64;
        let kappa = shape
            .places()
            .map(|[i, j, k]| uneven([i, j, k]) * contrast.powf((at(i, nx) + at(j, ny) + at(k, nz)) / 3.0));
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa.collect()));
        problem.spacing = [0, 1, 2].map(|_| Spacing::Uniform(0.5));
        problem.boundary[1] = [Boundary::Dirichlet(1.0), Boundary::default()];
        problem
    };
    let fixed = [Boundary::Dirichlet(0.0); 2];
    let mut all: Vec<(DiffusionProblem, &[usize])> = vec![
        (of([16, 32, 8], 1.0), &[1, 2, 3, 4, 6]),
        (of([16, 32, 8], 10.0), &[1, 2, 3, 4, 6]),
        (of([7, 13, 5], 1.0), &[1, 2, 3, 4, 6]),
        (of([9, 27, 6], 10.0), &[2, 3, 4, 6]),
        (of([12, 40, 1], 10.0), &[2, 3, 5]),
        (of([33, 64, 4], 1.0), &[2, 3]),
        (of([8, 33, 8], 10.0), &[2, 3, 6]),
        (of([16, 24, 8], 1.0), &[2, 3, 6]),
    ];
    for (n, (problem, _)) in all.iter_mut().enumerate() {
        if n % 3 == 0 {
            problem.boundary = [fixed; 3];
        }
    }
    // Periodic x and z; y, which is divided, waits for the others, or is halved alone.
    all[6].0.boundary[0] = [Boundary::Periodic; 2];
    all[7].0.boundary[2] = [Boundary::Periodic; 2];
    all[1].0.spacing[1] = Spacing::Uniform(0.9);
    all[4].0.spacing[0] = Spacing::Uniform(0.9);
    all
}

/// Returns cycles that relax points, in different forms.
pub(crate) fn point_cycles() -> Vec<SolverOptions> {
    let base = SolverOptions { tolerance: 1e-9, ..SolverOptions::default() };
    let mut points = SolverOptions { method: Method::Multigrid, ..base.clone() };
    points.multigrid.smoother = Smoother::PointRedBlack;
    let mut all = variants(
        &points,
        &[
            &|options| options.multigrid.start = Start::Full,
            &|options| (options.multigrid.pre, options.multigrid.post) = (2, 2),
            &|options| (options.multigrid.pre, options.multigrid.post) = (0, 1),
            &|options| (options.multigrid.levels, options.max_iterations) = (Some(1), 7),
            &|options| (options.multigrid.levels, options.max_iterations) = (Some(2), 7),
            &|options| (options.precision, options.tolerance) = (Precision::F32, 1e-3),
            &|options| options.precision = Precision::Mixed,
            &|options| (options.method, options.preconditioner) = (Method::Bicgstab, Preconditioner::Multigrid),
        ],
    );
    all[0] = base;
    all
}

/// Checks for the iterations of one rank, its residuals, and its solution.
pub(crate) fn check_points(
    backend: &impl Devices,
    problem: &DiffusionProblem,
    ranks: &[usize],
    options: &SolverOptions,
) {
    let stencil = problem.stencil().unwrap();
    let rhs = problem.rhs(Some(RhsKind::Random), 3, Weighting::None).unwrap();
    let (alone, u) = solve_alone(&backend.of(None), &stencil, options, &rhs, None);
    assert!(alone.converged() || alone.iterations == options.max_iterations, "{options:?}: {alone:?}");
    let (u_slack, residuals) = match options.precision {
        Precision::F32 => (1e-5, 5e-2),
        Precision::Mixed => (1e-7, 5e-2),
        Precision::F64 => (1e-9, 1e-3),
    };
    let like = Like { iterations: 0, residuals, compared: usize::MAX, u: u_slack };
    check_like(backend, ("", &stencil, &rhs), ranks, options, (&alone, &u), like);
}

/// Checks all forms of cycles that relax points, for all cubes.
pub(crate) fn check_smooth(backend: &impl Devices) {
    for (problem, ranks) in smooth() {
        for options in point_cycles() {
            check_points(backend, &problem, ranks, &options);
        }
    }
}

/// Makes floating problems: all of the grid, relaxed by points; pockets in it, by lines, or by the diagonal.
pub(crate) fn floating() -> Vec<(DiffusionProblem, &'static [usize], SolverOptions)> {
    let base = SolverOptions { tolerance: 1e-9, ..SolverOptions::default() };
    let cg = |preconditioner| SolverOptions { method: Method::Cg, preconditioner, ..base.clone() };
    let mut all: Vec<(DiffusionProblem, &[usize], SolverOptions)> = Vec::new();
    for (n, (mut problem, ranks)) in smooth().into_iter().take(4).enumerate() {
        problem.boundary = [[Boundary::default(); 2]; 3];
        let options = if n == 2 { cg(Preconditioner::Line) } else { base.clone() };
        all.push((problem, ranks, options));
    }
    for preconditioner in [Preconditioner::Line, Preconditioner::Jacobi] {
        let mut problem = rough(Shape::new(9, 14, 6));
        (problem.reaction, problem.wells, problem.sources) = (None, Vec::new(), Vec::new());
        // Walls: the component beyond the second floats, and so do single cells.
        let [nx, ny] = [9, 14];
        let is_open = |n: usize| !matches!((n / nx % ny, n % nx), (4 | 9, _) | (6, 5)) && random(7, n) > -0.9;
        problem.active = Some((0..problem.shape.cells()).map(is_open).collect());
        problem.boundary[1] = [Boundary::Dirichlet(1.0), Boundary::default()];
        all.push((problem, &[2, 3, 4, 6], cg(preconditioner)));
    }
    all
}

/// Checks the solution of one rank for a balanced right-hand side.
pub(crate) fn check_floating(
    backend: &impl Devices,
    problem: &DiffusionProblem,
    ranks: &[usize],
    options: &SolverOptions,
) {
    let stencil = problem.stencil().unwrap();
    let floating = stencil.components(&Serial).unwrap().floating();
    assert!(floating.count() > 0);
    let all = compare_with_alone(backend, problem, ranks, options, |_| 1, 1e-7);
    let u = &all[0];
    for (together, ranks) in all[1..].iter().zip(possible(backend, ranks)) {
        let largest = u.iter().fold(0.0f64, |largest, u| largest.max(u.abs()));
        let mut sums = vec![0.0; floating.count()];
        let add = |n: usize, sums: &mut [f64]| floating.aggregate(n).into_iter().for_each(|of| sums[of] += together[n]);
        (0..u.len()).for_each(|n| add(n, &mut sums));
        assert!(sums.iter().all(|sum| sum.abs() <= 1e-12 * largest * u.len() as f64), "{ranks:?} ranks: {sums:?}");
    }
}

/// Checks the solutions of all floating problems.
pub(crate) fn check_all_floating(backend: &impl Devices) {
    for (problem, ranks, options) in floating() {
        check_floating(backend, &problem, ranks, &options);
    }
}
