//! Grids whose widths grow in several directions: planes that are solved upright, and lines that are kept whole.

use super::arrays::{cg, noise, norm, ok, residual, solve_again, solve_by, without_mean};
use crate::prelude::*;

/// Widths that grow from both ends to the middle, by this factor.
fn growing(n: usize, by: f64) -> Spacing {
    Spacing::Given((0..n).map(|m| by.powf(1.0 - (2.0 * (m as f64 + 0.5) / n as f64 - 1.0).abs())).collect())
}

/// A problem with one κ, rough, and 0 in a part `closed` of the cells.
fn problem(shape: Shape, by: [f64; 3], closed: f64, seed: u64) -> DiffusionProblem {
    let of_cell = |n: usize| if 0.5 + 0.5 * random(seed + 1, n) < closed { 0.0 } else { 10f64.powf(random(seed, n)) };
    let kappa = Coefficient::Isotropic((0..shape.cells()).map(of_cell).collect());
    let mut problem = DiffusionProblem::new(shape, kappa);
    let extents = shape.extents();
    problem.spacing = [0, 1, 2].map(|d| growing(extents[d], by[d]));
    problem
}

/// Planes whose directions cross by far take a dozen iterations, whatever their sides, from any arrays, after an update too. The residual
/// is that of the matrix of the plane as it lies.
pub(super) fn planes<B: Supports<Diffusion>>(backend: &B) {
    let (fixed, open) = ([Boundary::Dirichlet(0.0); 2], [Boundary::Neumann(0.0); 2]);
    let ring = [Boundary::Periodic; 2];
    let options = SolverOptions {
        tolerance: 1e-9,
        compatibility: Compatibility::Project,
        norm: Norm::Rhs,
        ..cg(Preconditioner::Multigrid)
    };
    for (number, (shape, sides, closed)) in [
        (Shape::new(80, 67, 1), [fixed, fixed], 0.0),
        (Shape::new(67, 80, 1), [open, fixed], 0.0),
        (Shape::new(72, 61, 1), [ring, open], 0.0),
        (Shape::new(59, 128, 1), [fixed, open], 0.0),
        (Shape::new(75, 88, 1), [fixed, open], 0.3),
    ]
    .into_iter()
    .enumerate()
    {
        let seed = 10 * number as u64;
        let mut case = problem(shape, [3e3, 5e3, 1.0], closed, seed);
        case.boundary = [sides[0], sides[1], open];
        let stencil = ok(case.stencil());
        let is_floating = sides.iter().flatten().all(|side| !matches!(side, Boundary::Dirichlet(_)));
        let mut system = ok(System::new(backend, &stencil, &options));
        let notes = system.description().notes.join("; ");
        assert!(notes.contains("lines along y"), "{notes}");
        let rhs = |stencil: &Diffusion| {
            // A product with A has a solution, whatever floats.
            stencil.times(&noise(shape.cells(), seed + 3))
        };
        let b = rhs(&stencil);
        let (outcome, u) = solve_by(&mut system, shape, &b);
        assert!(outcome.converged() && outcome.iterations <= 30, "{shape}, {sides:?}: {outcome:?}");
        assert!(residual(&stencil, &b, &u) <= 1.1 * options.tolerance, "{shape}, {sides:?}");
        assert!(!is_floating || norm(&u) <= 1.0001 * norm(&without_mean(u.clone())), "{shape}: the mean is not 0");
        // Another κ, in place, and a first guess.
        let mut other = problem(shape, [3e3, 5e3, 1.0], closed, seed + 5);
        other.boundary = case.boundary;
        let other = ok(other.stencil());
        ok(system.update(&other));
        let (b, mut u) = (rhs(&other), noise(shape.cells(), 2));
        let outcome = ok(solve_again(&mut system, shape, &b, &mut u, Guess::Given));
        assert!(outcome.converged() && residual(&other, &b, &u) <= 1.1 * options.tolerance, "{shape}: {outcome:?}");
        // Rows far apart in memory, and b in single precision.
        let far = 3 * shape.nx;
        let (single, mut strided) = (b.iter().map(|&b| b as f32).collect::<Vec<_>>(), vec![f64::NAN; far * shape.ny]);
        let target = ok(ArrayViewMut::new(&mut strided, shape, [3, far, 0]));
        let source = ok(ArrayView::c_order(&single, shape));
        ok(system.solve(source.into(), target.into(), Guess::Zero, &mut ignore));
        let u: Vec<f64> = (0..shape.cells()).map(|n| strided[3 * (n % shape.nx) + far * (n / shape.nx)]).collect();
        let b: Vec<f64> = single.into_iter().map(f64::from).collect();
        assert!(residual(&other, &b, &u) <= 1e-6 + options.tolerance, "{shape}: strided");
        // A x from the same arrays.
        let mut product = vec![f64::NAN; shape.cells()];
        let (x, v) = (ok(ArrayView::c_order(&u, shape)), ok(ArrayViewMut::c_order(&mut product, shape)));
        ok(system.apply(x.into(), v.into()));
        let wanted = other.times(&u);
        let difference: Vec<f64> = product.iter().zip(&wanted).map(|(a, b)| a - b).collect();
        assert!(norm(&difference) <= 1e-12 * norm(&wanted), "{shape}: A x");
    }
}

/// Where z crosses another direction, lines are solved on all grids: iterations grow little with the factor.
pub(super) fn lines<B: Supports<Diffusion>>(backend: &B) {
    let shape = Shape::new(20, 18, 22);
    let iterations = |by: [f64; 3]| {
        let mut case = problem(shape, by, 0.0, 4);
        case.boundary = [[Boundary::Dirichlet(0.0); 2]; 3];
        let stencil = ok(case.stencil());
        let options = SolverOptions { tolerance: 1e-5, ..cg(Preconditioner::Multigrid) };
        let mut system = ok(System::new(backend, &stencil, &options));
        let b = noise(shape.cells(), 7);
        let (outcome, u) = solve_by(&mut system, shape, &b);
        assert!(outcome.converged() && residual(&stencil, &b, &u) <= 1.1e-5, "{by:?}: {outcome:?}");
        outcome.iterations
    };
    assert!(iterations([1e3, 1.0, 1e3]) <= 20 && iterations([1.0, 1e3, 1e3]) <= 20);
}
