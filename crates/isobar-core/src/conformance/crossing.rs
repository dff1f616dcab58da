//! Grids whose directions a solver has in another order, and lines that are kept whole where widths grow in several directions.

use super::arrays::{cg, noise, norm, ok, residual, solve_again, solve_by, without_mean};
use crate::prelude::*;

/// Widths that grow from both ends to the middle, by this factor.
fn growing(n: usize, by: f64) -> Spacing {
    Spacing::Given((0..n).map(|m| by.powf(1.0 - (2.0 * (m as f64 + 0.5) / n as f64 - 1.0).abs())).collect())
}

/// Makes a problem with one κ, rough, and 0 in the fraction `closed` of the cells.
fn problem(shape: Shape, by: [f64; 3], closed: f64, seed: u64) -> DiffusionProblem {
    let of_cell = |n: usize| if 0.5 + 0.5 * random(seed + 1, n) < closed { 0.0 } else { 10f64.powf(random(seed, n)) };
    let kappa = Coefficient::Isotropic((0..shape.cells()).map(of_cell).collect());
    let mut problem = DiffusionProblem::new(shape, kappa);
    let extents = shape.extents();
    problem.spacing = [0, 1, 2].map(|d| growing(extents[d], by[d]));
    problem
}

/// Checks that planes whose directions cross by far take a dozen iterations, whatever their sides and the direction with one cell, from any
/// arrays, after an update too. The residual is that of the matrix in the caller's order.
pub(super) fn planes<B: Supports<Diffusion>>(backend: &B) {
    let (fixed, open) = ([Boundary::Dirichlet(0.0); 2], [Boundary::Neumann(0.0); 2]);
    let ring = [Boundary::Periodic; 2];
    for (seed, (shape, sides, closed)) in [
        (Shape::new(80, 67, 1), [fixed, fixed, open], 0.0),
        (Shape::new(67, 80, 1), [open, fixed, open], 0.0),
        (Shape::new(72, 61, 1), [ring, open, open], 0.0),
        (Shape::new(59, 128, 1), [fixed, open, open], 0.0),
        (Shape::new(75, 88, 1), [fixed, open, open], 0.3),
        (Shape::new(70, 1, 81), [open, open, fixed], 0.0),
        (Shape::new(1, 90, 71), [open, fixed, open], 0.2),
    ]
    .into_iter()
    .enumerate()
    {
        let notes = plane(backend, (shape, sides), [3e3, 5e3, 2e3], (closed, 10 * seed as u64), 30);
        assert!(notes.contains("lines along y") == (shape.nz == 1), "{notes}");
    }
}

/// Checks planes of equal cells, whichever direction has one cell, and which is periodic.
pub(super) fn slices<B: Supports<Diffusion>>(backend: &B) {
    let (fixed, open) = ([Boundary::Dirichlet(0.0); 2], [Boundary::Neumann(0.0); 2]);
    let ring = [Boundary::Periodic; 2];
    for (seed, (shape, sides)) in [
        // Large enough for several threads.
        (Shape::new(150, 1, 127), [fixed, open, open]),
        (Shape::new(1, 173, 140), [open, open, fixed]),
        (Shape::new(1, 158, 117), [fixed, ring, open]),
        (Shape::new(126, 1, 155), [fixed, open, ring]),
        (Shape::new(1, 141, 160), [open, fixed, ring]),
        (Shape::new(1, 51, 64), [open, ring, ring]),
    ]
    .into_iter()
    .enumerate()
    {
        plane(backend, (shape, sides), [1.0; 3], (0.1, 10 * seed as u64), 40);
    }
}

/// Grids of short rows or long lines are solved with their directions in another order, with all kinds of coefficients.
pub(super) fn oblong<B: Supports<Diffusion>>(backend: &B) {
    let (fixed, open, ring) = ([Boundary::Dirichlet(0.0); 2], [Boundary::Neumann(0.0); 2], [Boundary::Periodic; 2]);
    let solved = |make: &dyn Fn(u64) -> Diffusion, is_floating, wanted: &str| {
        let notes = solve_on(backend, make, is_floating, 40);
        assert!(backend.device().ranks > 1 || notes.contains(wanted), "{notes}");
    };
    let isotropic = |shape, sides, closed, seed| {
        let mut case = problem(shape, [1.0; 3], closed, seed);
        (case.spacing, case.boundary) = ([0; 3].map(|_| Spacing::Uniform(1.0)), sides);
        case
    };
    let pair = |seed| ok(isotropic(Shape::new(2, 130, 120), [fixed, open, open], 0.1, seed).stencil());
    solved(&pair, false, "130×120×2 cells, with y, z, x of the grid");
    let strip = |seed| ok(isotropic(Shape::new(6, 6000, 1), [fixed, open, open], 0.0, 50 + seed).stencil());
    solved(&strip, false, "6000×6×1 cells, with y, x, z of the grid");
    // A periodic direction of an odd number of cells becomes z, without copies.
    let odd = |seed| ok(isotropic(Shape::new(40, 27, 30), [open, ring, fixed], 0.0, 10 + seed).stencil());
    solved(&odd, false, "40×30×27 cells, with x, z, y of the grid");
    let fields = |seed| {
        let mut case = isotropic(Shape::new(7, 45, 110), [open, fixed, open], 0.0, 20 + seed);
        let field = |d: u64| (0..case.shape.cells()).map(|n| 10f64.powf(random(seed + d, n))).collect();
        case.coefficient = Coefficient::Diagonal([field(30), field(31), field(32)]);
        case.reaction = Some(field(33));
        ok(case.stencil())
    };
    solved(&fields, false, "110×45×7 cells, with z, y, x of the grid");
    let faces = |seed| {
        let cells = isotropic(Shape::new(5, 60, 110), [open; 3], 0.2, 40 + seed);
        let cells = ok(cells.stencil());
        let shape = cells.shape();
        let faces = Axis::ALL.map(|axis| shape.places().map(|at| cells.face(axis, at)).collect());
        ok(Diffusion::new(shape, Coefficients::Faces(faces), None, [[Side::Closed; 2]; 3]))
    };
    solved(&faces, true, "110×60×5 cells, with z, y, x of the grid");
}

/// Solves on a plane whose widths grow by factors, with `closed` of the cells closed, in at most this many iterations; returns the notes.
fn plane<B: Supports<Diffusion>>(
    backend: &B,
    (shape, sides): (Shape, [[Boundary; 2]; 3]),
    by: [f64; 3],
    (closed, seed): (f64, u64),
    most: usize,
) -> String {
    let make = |step| {
        let mut case = problem(shape, by, closed, seed + step);
        case.boundary = sides;
        ok(case.stencil())
    };
    let is_floating = sides.iter().flatten().all(|side| !matches!(side, Boundary::Dirichlet(_)));
    solve_on(backend, make, is_floating, most)
}

/// Solves with the matrix `make(0)`, then with `make(5)` from several kinds of arrays, in at most this many iterations; returns the notes.
fn solve_on<B: Supports<Diffusion>>(
    backend: &B,
    make: impl Fn(u64) -> Diffusion,
    is_floating: bool,
    most: usize,
) -> String {
    let options = SolverOptions {
        tolerance: 1e-9,
        compatibility: Compatibility::Project,
        norm: Norm::Rhs,
        ..cg(Preconditioner::Multigrid)
    };
    let stencil = make(0);
    let shape = stencil.shape();
    let mut system = ok(System::new(backend, &stencil, &options));
    // A product with A has a solution, whatever components float.
    let rhs = |stencil: &Diffusion| stencil.times(&noise(shape.cells(), 3));
    let b = rhs(&stencil);
    let (outcome, u) = solve_by(&mut system, shape, &b);
    assert!(outcome.converged() && outcome.iterations <= most, "{shape}: {outcome:?}");
    assert!(residual(&stencil, &b, &u) <= 1.1 * options.tolerance, "{shape}");
    assert!(!is_floating || norm(&u) <= 1.0001 * norm(&without_mean(u.clone())), "{shape}: the mean is not 0");
    // Another κ, in place, and a first guess.
    let other = make(5);
    ok(system.update(&other));
    let (b, mut u) = (rhs(&other), noise(shape.cells(), 2));
    let outcome = ok(solve_again(&mut system, shape, &b, &mut u, Guess::Given));
    assert!(outcome.converged() && residual(&other, &b, &u) <= 1.1 * options.tolerance, "{shape}: {outcome:?}");
    // Cells far apart in memory, and b in single precision.
    let (single, mut strided) = (b.iter().map(|&b| b as f32).collect::<Vec<_>>(), vec![f64::NAN; 3 * shape.cells()]);
    let strides = [3, 3 * shape.nx, 3 * shape.nx * shape.ny];
    let target = ok(ArrayViewMut::new(&mut strided, shape, strides));
    let source = ok(ArrayView::c_order(&single, shape));
    let _ = ok(system.solve(source.into(), target.into(), Guess::Zero, &mut ignore));
    let u: Vec<f64> = strided.into_iter().step_by(3).collect();
    let b: Vec<f64> = single.into_iter().map(f64::from).collect();
    // Rounding b to single precision adds a component in the kernel of A, which no u can reproduce.
    assert!(residual(&other, &b, &u) <= 1e-6 + options.tolerance, "{shape}: strided");
    // A x from the same arrays.
    let mut product = vec![f64::NAN; shape.cells()];
    let (x, v) = (ok(ArrayView::c_order(&u, shape)), ok(ArrayViewMut::c_order(&mut product, shape)));
    ok(system.apply(x.into(), v.into()));
    let wanted = other.times(&u);
    let difference: Vec<f64> = product.iter().zip(&wanted).map(|(a, b)| a - b).collect();
    assert!(norm(&difference) <= 1e-12 * norm(&wanted), "{shape}: A x");
    system.description().notes.join("; ")
}

/// Checks that lines are solved on all grids if z crosses another direction: iterations grow little with the factor.
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
