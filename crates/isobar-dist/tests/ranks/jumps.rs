//! Diffusion with jumping coefficients: checks of Galerkin levels on several ranks of any back end.

use isobar_core::prelude::*;

use crate::rocks::{check_floating, rough, uneven};
use crate::solves::{Devices, Like, check_like, check_updated, solve_alone, variants};

/// Makes bubbles of another κ across the borders of slabs, in a box that is fixed at one side.
pub(crate) fn bubbles(shape: Shape, contrast: f64) -> DiffusionProblem {
    let period = |n: usize, of: usize| ((n % of) as f64 / of as f64 - 0.5).powi(2);
    let kappa = shape
        .places()
        .map(|[i, j, k]| if period(i + 2, 7) + period(j, 9) + period(k + 1, 6) < 0.12 { contrast } else { 1.0 });
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa.collect()));
    problem.boundary[1] = [Boundary::Dirichlet(1.0), Boundary::default()];
    problem
}

/// Makes random κ over many orders of magnitude.
fn noise(shape: Shape, contrast: f64) -> DiffusionProblem {
    let kappa = (0..shape.cells()).map(|n| contrast.powf(0.5 * random(1, n))).collect();
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
    problem.boundary[2] = [Boundary::Dirichlet(0.0); 2];
    problem
}

/// Makes two components: a floating one across slabs, beside one that is fixed.
pub(crate) fn pieces(shape: Shape) -> DiffusionProblem {
    let mut problem = bubbles(shape, 1e4);
    let wall = shape.nx / 2;
    problem.active = Some((0..shape.cells()).map(|n| n % shape.nx != wall && random(8, n) > -0.8).collect());
    problem.boundary =
        [[Boundary::Dirichlet(0.0), Boundary::default()], [Boundary::default(); 2], [Boundary::default(); 2]];
    problem
}

/// Makes contrasts, holes, periodic x and z, directions that wait, odd sizes; slabs of three rows and more.
pub(crate) fn problems() -> Vec<(&'static str, DiffusionProblem, &'static [usize])> {
    let mut ring = bubbles(Shape::new(16, 26, 12), 1e9);
    ring.boundary[0] = [Boundary::Periodic; 2];
    ring.boundary[2] = [Boundary::Periodic; 2];
    let mut wide = bubbles(Shape::new(14, 33, 10), 1e4);
    wide.spacing[1] = Spacing::Uniform(12.0);
    vec![
        ("bubbles", bubbles(Shape::new(14, 27, 12), 1e3), &[1, 2, 3, 4, 6]),
        ("light bubbles", bubbles(Shape::new(14, 32, 12), 1e-12), &[2, 3, 4, 6]),
        ("heavy bubbles", bubbles(Shape::new(13, 40, 9), 1e12), &[1, 2, 3, 6]),
        ("the same, lighter", bubbles(Shape::new(13, 40, 9), 1e4), &[2, 3, 6]),
        ("noise", noise(Shape::new(12, 24, 10), 1e12), &[2, 3, 4]),
        ("rings", ring, &[2, 3, 4, 6]),
        ("y waits", wide, &[2, 3, 6]),
        ("flat", bubbles(Shape::new(24, 36, 1), 1e6), &[2, 3, 4]),
        ("holes", rough(Shape::new(10, 21, 8)), &[1, 2, 3, 4, 6]),
        ("long rows", rough(Shape::new(32, 24, 5)), &[2, 3]),
        ("tiny", bubbles(Shape::new(4, 12, 4), 1e6), &[1, 2, 3, 6]),
    ]
}

pub(crate) fn multigrid() -> SolverOptions {
    let (method, preconditioner) = (Method::Cg, Preconditioner::Multigrid);
    SolverOptions { method, preconditioner, tolerance: 1e-7, ..SolverOptions::default() }
}

/// Returns cycles in different forms.
pub(crate) fn forms() -> Vec<SolverOptions> {
    variants(
        &multigrid(),
        &[
            &|options| (options.multigrid.pre, options.multigrid.post) = (2, 2),
            &|options| options.multigrid.smoother = Smoother::LineJacobi,
            &|options| (options.multigrid.levels, options.max_iterations) = (Some(1), 7),
            &|options| options.multigrid.levels = Some(2),
            &|options| options.multigrid.levels = Some(3),
            &|options| options.multigrid.relaxation = Some(1.1),
            &|options| {
                (options.method, options.multigrid.start, options.max_iterations) = (Method::Multigrid, Start::Full, 6);
            },
            &|options| (options.method, options.max_iterations) = (Method::Multigrid, 6),
            &|options| (options.precision, options.tolerance) = (Precision::Mixed, 1e-7),
        ],
    )
}

/// Checks for the iterations of one rank up to one, its solution, and its residuals.
pub(crate) fn check(backend: &impl Devices, case: (&str, &DiffusionProblem, &[usize]), options: &SolverOptions) {
    check_against(backend, case, [options, options]);
}

/// The same, with the options of one rank and those of several.
pub(crate) fn check_against(
    backend: &impl Devices,
    (name, problem, ranks): (&str, &DiffusionProblem, &[usize]),
    [options_alone, options]: [&SolverOptions; 2],
) {
    let stencil = problem.stencil().unwrap();
    let rhs = problem.rhs(Some(RhsKind::Random), 3, Weighting::None).unwrap();
    let (alone, u) = solve_alone(&backend.of(None), &stencil, options_alone, &rhs, None);
    // The rounding of u times a coupling of 10¹², and that of single precision, in which a matrix may choose cycles.
    let is_single = options.precision != Precision::F64 || options.multigrid.precision == CyclePrecision::F32;
    let chooses_single = stencil.measures().is_some_and(|measures| measures.cycles().0 == CyclePrecision::F32);
    let residuals = match (is_single || ["heavy bubbles", "noise"].contains(&name), chooses_single) {
        (true, _) => 2e-2,
        // Residuals of these cycles differ from those of cycles in double precision by 10⁻⁴.
        (false, true) => 1e-3,
        (false, false) => 1e-5,
    };
    let u_slack = if alone.converged() { 1e-5 } else { f64::INFINITY };
    let like = Like { iterations: alone.iterations.div_ceil(20), residuals, compared: 4, u: u_slack };
    check_like(backend, (name, &stencil, &rhs), ranks, options, (&alone, &u), like);
}

/// Checks cycles of all problems.
pub(crate) fn check_all(backend: &impl Devices, problems: Vec<(&str, DiffusionProblem, &[usize])>) {
    for (name, problem, ranks) in problems {
        check(backend, (name, &problem, ranks), &multigrid());
    }
}

/// Checks cycles in different forms, and with more options, of the problems with these numbers; devices of several kinds take turns.
pub(crate) fn check_forms(
    backends: &[impl Devices],
    problems: Vec<(&str, DiffusionProblem, &[usize])>,
    numbers: &[usize],
    more: &[SolverOptions],
) {
    for (n, (name, problem, ranks)) in problems.into_iter().enumerate().filter(|(n, _)| numbers.contains(n)) {
        for options in forms()[1..].iter().chain(more) {
            check(&backends[n % backends.len()], (name, &problem, &ranks[..2]), options);
        }
    }
}

/// Checks a floating component across slabs, beside one that does not float.
pub(crate) fn check_pieces(backend: &impl Devices) {
    let options = SolverOptions { tolerance: 1e-10, ..multigrid() };
    check_floating(backend, &pieces(Shape::new(12, 24, 8)), &[1, 2, 3, 4, 6], &options);
}

/// Makes κ over decades, smooth and large enough for the hybrid smoother to be chosen; some with a periodic direction, or one that
/// waits.
pub(crate) fn rolling() -> Vec<(&'static str, DiffusionProblem, &'static [usize])> {
    let of = |[nx, ny, nz]: [usize; 3]| {
        let shape = Shape::new(nx, ny, nz);
        let wave = |n: usize, of: usize, times: f64| (std::f64::consts::TAU * times * n as f64 / of as f64).sin();
        let kappa = shape.places().map(|[i, j, k]| {
            uneven([i, j, k]) * 10f64.powf(wave(i, nx, 2.0) + wave(j, ny, 1.0) + wave(k, nz.max(8), 1.0))
        });
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa.collect()));
        problem.boundary[1] = [Boundary::Dirichlet(1.0), Boundary::default()];
        problem
    };
    let (mut ring, mut wide) = (of([24, 36, 20]), of([16, 30, 12]));
    ring.boundary[0] = [Boundary::Periodic; 2];
    ring.boundary[2] = [Boundary::Periodic; 2];
    wide.spacing[1] = Spacing::Uniform(4.0);
    vec![
        ("rolling", of([40, 32, 36]), &[1, 2, 3, 4]),
        ("odd", of([17, 37, 9]), &[2, 3, 4]),
        ("ring", ring, &[2, 3]),
        ("y waits", wide, &[2, 3]),
        ("flat", of([32, 48, 1]), &[2, 4]),
    ]
}

pub(crate) fn points_above() -> SolverOptions {
    let mut by_name = multigrid();
    by_name.multigrid.smoother = Smoother::PointLine;
    by_name
}

/// Checks that new coefficients reach all levels on all ranks, also where strongly coupled aggregates appear and vanish.
pub(crate) fn check_updates(backend: &impl Devices, ranks: &[usize]) {
    for shape in [Shape::new(12, 26, 10), Shape::new(4, 12, 4)] {
        let rhs = bubbles(shape, 1.0).rhs(Some(RhsKind::Random), 3, Weighting::None).unwrap();
        for contrasts in [[1.0, 1e6], [1e6, 10.0]] {
            let stencils = contrasts.map(|contrast| bubbles(shape, contrast).stencil().unwrap());
            check_updated(backend, stencils.each_ref(), ranks, &multigrid(), &rhs, Like::up_to(1, 1e-6));
        }
    }
}
