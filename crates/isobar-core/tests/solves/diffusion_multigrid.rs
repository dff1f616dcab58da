//! Multigrid as a preconditioner of the diffusion operator, on the reference back end.

use isobar_core::conformance::arrays::{self, residual, solve_by, without_mean};
use isobar_core::prelude::*;
use isobar_core::problem::materials;

/// Returns default options: conjugate gradients with one multigrid cycle, where coefficients are not smooth.
fn options() -> SolverOptions {
    SolverOptions { tolerance: 1e-8, compatibility: Compatibility::Project, ..SolverOptions::default() }
}

/// Returns them with conjugate gradients and cycles asked for.
fn cycles() -> SolverOptions {
    SolverOptions { method: Method::Cg, preconditioner: Preconditioner::Multigrid, ..options() }
}

fn solve(problem: &DiffusionProblem, options: &SolverOptions) -> (Outcome, Vec<f64>) {
    let rhs = problem.rhs(Some(RhsKind::Random), 7, Weighting::None).unwrap();
    arrays::solve(&Reference, &problem.stencil().unwrap(), options, &rhs)
}

fn iterations(problem: &DiffusionProblem, options: &SolverOptions) -> usize {
    let (outcome, _) = solve(problem, options);
    assert!(outcome.converged(), "{:?} after {}", outcome.stop, outcome.iterations);
    outcome.iterations
}

fn bubbly(shape: Shape, contrast: f64) -> DiffusionProblem {
    let bubbles = Bubbles { count: 10, radius: 0.12, contrast, seed: 1 };
    let field = materials::bubbles(shape, [1.0; 3], &bubbles).unwrap();
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(field));
    problem.boundary[0][0] = Boundary::Dirichlet(0.0);
    problem
}

#[test]
fn bubbles_do_not_care_about_the_grid() {
    check_bubbles([48, 96], [16, 32]);
}

#[test]
#[ignore = "large; .ci/run has it"]
fn bubbles_do_not_care_about_a_large_grid() {
    check_bubbles([64, 256], [16, 48]);
}

fn check_bubbles(squares: [usize; 2], cubes: [usize; 2]) {
    for contrast in [1e-3, 1e3] {
        let [coarse, fine] = squares.map(|n| iterations(&bubbly(Shape::new(n, n, 1), contrast), &options()));
        assert!(fine <= 40 && fine as f64 <= 1.3 * coarse as f64, "2D, contrast {contrast}: {coarse}, {fine}");
        let [coarse, fine] = cubes.map(|n| iterations(&bubbly(Shape::new(n, n, n), contrast), &options()));
        assert!(fine <= 30 && fine as f64 <= 1.3 * coarse as f64, "3D, contrast {contrast}: {coarse}, {fine}");
    }
}

fn layers(shape: Shape, contrast: f64) -> DiffusionProblem {
    DiffusionProblem::new(shape, Coefficient::Isotropic(materials::layers(shape, contrast, 1).unwrap()))
}

#[test]
fn layers_of_sand_and_clay() {
    check_layers(Shape::new(20, 14, 24));
}

#[test]
#[ignore = "large; .ci/run has it"]
fn more_layers_of_sand_and_clay() {
    check_layers(Shape::new(40, 30, 50));
}

fn check_layers(shape: Shape) {
    let mut problem = layers(shape, 1e6);
    let count = iterations(&problem, &options());
    assert!(count <= 12, "floating: {count}");
    problem.boundary[0][0] = Boundary::Dirichlet(0.0);
    assert!(iterations(&problem, &options()) <= 12, "anchored");
    let mixed = SolverOptions { precision: Precision::Mixed, ..options() };
    assert!(iterations(&problem, &mixed) <= 13, "mixed");
    let mut jacobi = options();
    jacobi.multigrid.smoother = Smoother::LineJacobi;
    assert!(iterations(&problem, &jacobi) <= 16, "line-jacobi");
}

/// Returns whether the automatic choice has cycles in single precision, and its iterations and those in double precision.
fn choice(problem: &DiffusionProblem, options: &SolverOptions) -> (bool, usize, usize) {
    let stencil = problem.stencil().unwrap();
    let rhs = problem.rhs(Some(RhsKind::Random), 7, Weighting::None).unwrap();
    let mut system = System::new(&Reference, &stencil, options).unwrap();
    let has = |what: &str| system.description().notes.iter().any(|note| note.contains(what));
    let is_single = has("cycles in single precision");
    assert!(is_single != has("cycles in double precision"), "{:?}", system.description().notes);
    assert_eq!(system.description().precision, Precision::F64);
    let (outcome, _) = solve_by(&mut system, stencil.shape(), &rhs);
    assert!(outcome.converged(), "{outcome:?}");
    let mut double = options.clone();
    double.multigrid.precision = CyclePrecision::F64;
    (is_single, outcome.iterations, iterations(problem, &double))
}

#[test]
fn cycles_are_in_single_precision_where_that_is_enough() {
    let shape = Shape::new(37, 22, 15);
    let mut periodic = bubbly(Shape::new(33, 20, 9), 1e3);
    periodic.boundary[1] = [Boundary::Periodic; 2];
    let masked = |contrast: f64| {
        let mut problem = bubbly(shape, contrast);
        problem.active = Some((0..shape.cells()).map(|n| n % 5 > 0).collect());
        problem
    };
    let layers = layers(Shape::new(20, 16, 24), 1e4);
    let all = [bubbly(shape, 1e3), bubbly(shape, 1e-3), periodic, layers, masked(1e3)];
    for (n, problem) in all.into_iter().enumerate() {
        // Layers are solved directly unless the options ask for cycles.
        for options in [options(), cycles()].into_iter().skip(usize::from(n == 3)) {
            let (is_single, count, double) = choice(&problem, &options);
            assert!(is_single && count <= double + 1, "{count} instead of {double}");
        }
    }
    for problem in [bubbly(shape, 1e6), masked(1e6)] {
        let (is_single, count, double) = choice(&problem, &options());
        assert!(!is_single && count == double, "{count} instead of {double}");
    }
}

/// Residuals in single precision reach what those in double precision do, in as many iterations, because they are computed again
/// on the way; without that, true residuals end between 10⁻⁸ and 10⁻⁶.
#[test]
fn rounded_residuals_reach_small_tolerances() {
    let shape = Shape::new(26, 22, 15);
    let mut periodic = bubbly(Shape::new(24, 20, 9), 1e-3);
    periodic.boundary[1] = [Boundary::Periodic; 2];
    for problem in [bubbly(shape, 1e3), periodic] {
        for tolerance in [1e-4, 1e-9, 1e-12] {
            let (is_single, count, double) = choice(&problem, &SolverOptions { tolerance, ..cycles() });
            assert!(is_single && count <= double + 1, "{tolerance:.0e}: {count} instead of {double}");
        }
    }
}

/// The coarsest grid of a small problem is the finest, and one iteration leaves nothing but rounding of the residual, of whose mean
/// a floating matrix does not know.
#[test]
fn rounded_residuals_of_exact_cycles_take_few_iterations() {
    let mut options = SolverOptions { tolerance: 1e-12, ..cycles() };
    options.multigrid.precision = CyclePrecision::F32;
    for n in 0..24 {
        let shape = Shape::new(2 + n % 5, 3 + n % 4, 2 + n % 3);
        let mut problem = bubbly(shape, [1.0, 100.0, 0.01][n % 3]);
        if n % 2 == 0 {
            problem.boundary[0][0] = Boundary::Neumann(0.0);
        }
        let count = iterations(&problem, &options);
        assert!(count <= 3, "{shape}: {count}");
    }
}

/// Makes coefficients too large for single precision.
fn beyond_single(mut problem: DiffusionProblem) -> DiffusionProblem {
    if let Coefficient::Isotropic(field) = &mut problem.coefficient {
        field.iter_mut().for_each(|kappa| *kappa *= 1e38);
    }
    problem
}

#[test]
fn an_update_beyond_single_precision_is_solved_for_in_double() {
    let shape = Shape::new(24, 20, 16);
    let problem = bubbly(shape, 1e3);
    let far = beyond_single(problem.clone());
    let rhs = problem.rhs(Some(RhsKind::Random), 7, Weighting::None).unwrap();
    let stencils = [&problem, &far].map(|problem| problem.stencil().unwrap());
    let mut system = System::new(&Reference, &stencils[0], &options()).unwrap();
    let mut solve = |stencil: usize| {
        system.update(&stencils[stencil]).unwrap();
        let (outcome, _) = solve_by(&mut system, shape, &rhs);
        assert!(outcome.converged(), "{outcome:?}");
        (outcome.iterations, outcome.notes.iter().any(|note| note.contains("continued in double precision")))
    };
    let (first, went_on) = solve(0);
    assert!(!went_on && solve(0) == (first, false));
    assert!(solve(1).1);
    // The second solve stays in double precision.
    let (count, went_on) = solve(1);
    assert!(!went_on && count <= first + 1, "{count} instead of {first}");
    assert!(solve(0).0 <= first + 1);
}

#[test]
fn precisions_that_contradict_each_other_are_refused() {
    let mut options = SolverOptions { precision: Precision::Mixed, ..options() };
    options.multigrid.precision = CyclePrecision::F64;
    let stencil = bubbly(Shape::new(8, 6, 4), 1e3).stencil().unwrap();
    let error = System::new(&Reference, &stencil, &options).err().unwrap().to_string();
    assert!(error.contains("solver.multigrid.precision") && error.contains("mixed"), "{error}");
}

#[test]
fn what_single_precision_cannot_hold_goes_on_in_double() {
    let problem = beyond_single(bubbly(Shape::new(24, 20, 16), 1e3));
    let double = iterations(&problem, &options());
    let (outcome, _) = solve(&problem, &SolverOptions { precision: Precision::Mixed, ..options() });
    assert!(outcome.converged() && outcome.iterations <= double + 3, "{:?}, {}", outcome.stop, outcome.iterations);
    assert!(outcome.notes.iter().any(|note| note.contains("continued in double precision")), "{:?}", outcome.notes);
}

#[test]
fn a_hopeless_contrast_is_not_called_converged() {
    check_contrasts(Shape::new(20, 14, 24));
}

#[test]
#[ignore = "large; .ci/run has it"]
fn a_hopeless_contrast_of_many_layers_is_not_called_converged() {
    check_contrasts(Shape::new(40, 30, 50));
}

/// With a contrast of 10¹² the solution may be out of reach of double precision: u is as large as the resistance
/// of the clay, and A u cannot be as small as b. The outcome must report that.
fn check_contrasts(shape: Shape) {
    for (contrast, fixed) in [(1e12, false), (1e12, true), (1e8, true)] {
        let mut problem = layers(shape, contrast);
        if fixed {
            problem.boundary[0][0] = Boundary::Dirichlet(0.0);
        }
        let (outcome, u) = solve(&problem, &options());
        let mut rhs = problem.rhs(Some(RhsKind::Random), 7, Weighting::None).unwrap();
        if !fixed {
            rhs = without_mean(rhs);
        }
        let residual = residual(&problem.stencil().unwrap(), &rhs, &u);
        if outcome.converged() {
            assert!(residual <= 1.01e-8, "{contrast:e}: {residual:e} {outcome:?}");
        } else {
            assert_eq!(outcome.stop, Stop::Stagnated, "{contrast:e}: {outcome:?}");
            assert!((residual / outcome.relative_residual).ln().abs() < 1.0, "{residual:e} {outcome:?}");
        }
        assert!(contrast > 1e8 || outcome.converged(), "{outcome:?}");
    }
}

#[test]
fn odd_sizes_and_directions() {
    let shape = Shape::new(100, 37, 13);
    let rock = Coefficient::Isotropic(materials::noise(shape, 1.0, 1).unwrap());
    assert!(iterations(&DiffusionProblem::new(shape, rock), &options()) <= 15);
    for strong in 0..3 {
        let shape = Shape::new(64, 48, 8);
        let fields = [0, 1, 2].map(|d| vec![if d == strong { 100.0 } else { 1.0 }; shape.cells()]);
        let count = iterations(&DiffusionProblem::new(shape, Coefficient::Diagonal(fields)), &options());
        assert!(count <= 14, "{count} with strong couplings in direction {strong}");
    }
    let mut periodic = bubbly(Shape::new(48, 48, 6), 1e3);
    periodic.boundary = [[Boundary::Periodic; 2]; 3];
    assert!(iterations(&periodic, &options()) <= 45);
}

#[test]
fn a_symmetric_cycle_gives_the_spectrum() {
    let options = SolverOptions { method: Method::Cg, ..options() };
    let (outcome, _) = solve(&bubbly(Shape::new(64, 64, 1), 1.0), &options);
    let spectrum = outcome.spectrum.unwrap();
    assert!(spectrum.condition() < 3.0, "{spectrum:?}");
}

/// A constant that almost nothing holds is large beside the rest of the solution, where single precision has no room for the rest: on
/// its own it took 45 iterations.
#[test]
fn constants_that_little_holds_are_in_double_precision() {
    for (reaction, is_double) in [(0.1, false), (1e-4, true), (1e-6, true)] {
        let mut problem = bubbly(Shape::new(24, 20, 16), 1e3);
        problem.boundary = [[Boundary::default(); 2]; 3];
        problem.reaction = Some(vec![reaction; problem.shape.cells()]);
        let stencil = problem.stencil().unwrap();
        let system = System::new(&Reference, &stencil, &cycles()).unwrap();
        let why = system.description().notes.join("; ");
        assert_eq!(why.contains("cycles in double precision"), is_double, "{reaction}: {why}");
        let count = iterations(&problem, &SolverOptions { tolerance: 1e-6, ..cycles() });
        assert!(count <= 12, "{reaction}: {count}");
    }
}

/// Returns an ocean with thin layers at the surface, over hills, where nothing is fixed.
fn ocean(shape: Shape, seed: u64) -> DiffusionProblem {
    let nz = shape.nz;
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
    let heights: Vec<f64> = (0..nz).map(|k| 10.0 * 30f64.powf((nz - 1 - k) as f64 / (nz - 1) as f64)).collect();
    let below = |k: usize| heights[..k].iter().sum::<f64>() + 0.5 * heights[k];
    let whole: f64 = heights.iter().sum();
    // Noise, smoothed over a few cells.
    let hill = |i: usize, j: usize| {
        let near = (0..13).flat_map(|m| (0..13).map(move |n| [m, n]));
        let of = |[m, n]: [usize; 2]| {
            let square = (m as f64 - 6.0).powi(2) + (n as f64 - 6.0).powi(2);
            (-square / 18.0).exp() * random(seed, i + m + 1000 * (j + n))
        };
        near.map(of).sum::<f64>() / 3.1
    };
    let floor = |i: usize, j: usize| whole * (0.4 - 0.4 * hill(i, j)).clamp(0.0, 1.0);
    problem.active = Some(shape.places().map(|[i, j, k]| below(k) > floor(i, j)).collect());
    problem.spacing = [Spacing::Uniform(5.0), Spacing::Uniform(5.0), Spacing::Given(heights.clone())];
    if seed.is_multiple_of(2) {
        problem.boundary[0] = [Boundary::Periodic; 2];
    }
    problem
}

/// Components of coarse grids that hardly anything holds are beyond residuals in single precision, and are left alone.
#[test]
fn oceans_take_no_more_iterations_in_single_precision() {
    for seed in [5, 17, 22, 28] {
        let problem = ocean(Shape::new(48, 32, 12), seed);
        let [single, double] = [CyclePrecision::F32, CyclePrecision::F64].map(|precision| {
            let multigrid = MultigridOptions { precision, ..MultigridOptions::default() };
            solve(&problem, &SolverOptions { multigrid, ..cycles() }).0
        });
        assert!(double.converged() && single.converged(), "{seed}: {:?} {:?}", single.stop, double.stop);
        let (single, double) = (single.iterations, double.iterations);
        assert!(single <= double + 2, "{seed}: {single} instead of {double}");
    }
}
