//! The diffusion operator on CUDA beyond the conformance suite: grids of many tiles, and replayed iterations.

use isobar_core::conformance::arrays::{fetch, noise, solve_by, vector};
use isobar_core::operator::Direction;
use isobar_core::prelude::*;
use isobar_core::problem::materials::{bubbles, two_phase};
use isobar_cuda::Cuda;

use crate::common::OnCard;
use crate::problem::OnGpu;

/// Adds the checks of this module.
pub(crate) fn add_to(all: &mut OnCard) {
    all.add("many_tiles", many_tiles);
    all.add("repeated_solves", repeated_solves);
    all.add("coefficients_on_the_card", coefficients_on_the_card);
    all.add("small_levels_at_once", small_levels_at_once);
}

/// Levels of up to a thousand cells are one solver, but of cycles that begin with a sweep; the suite has its results.
fn small_levels_at_once(cuda: &Cuda) {
    let stencil = cells(Shape::new(64, 32, 32), vec![1.0; 1 << 16], [[Side::Fixed; 2]; 3], None);
    let operator = Supports::operator::<f64>(cuda, &stencil).unwrap();
    let options = MultigridOptions { smoother: Smoother::PointRedBlack, ..MultigridOptions::default() };
    for (pre, levels) in [(1, 4), (0, 8)] {
        let made = cuda.hierarchy(&stencil, &operator, Smoother::PointRedBlack, None).unwrap().unwrap();
        let shapes = made.shapes();
        let made = made.at_once(&MultigridOptions { pre, ..options.clone() }).unwrap();
        assert_eq!((made.levels.len(), made.coarsest.is_some()), (levels, levels < 8), "{shapes:?}");
        assert_eq!((shapes.len(), made.shapes()), (8, shapes));
    }
}

fn cells(shape: Shape, field: Vec<f64>, sides: [[Side; 2]; 3], shift: Option<Vec<f64>>) -> Diffusion {
    assert_eq!(field.len(), shape.cells());
    let coefficients = Coefficients::Cells { fields: vec![field.into()], axes: [(0, 1.0), (0, 0.7), (0, 2.5)] };
    Diffusion::new(shape, coefficients, shift, sides).unwrap()
}

fn send<B: Backend>(backend: &B, layout: &Layout, seed: u64) -> B::Vector<f64> {
    vector(backend, layout, &noise(layout.shape().cells(), seed))
}

/// Returns the vectors after a few steps.
fn steps<B: Supports<Diffusion>>(backend: &B, stencil: &Diffusion) -> Vec<Vec<f64>> {
    let shape = stencil.shape();
    let layout = backend.layout(stencil).unwrap();
    let operator = backend.operator::<f64>(stencil).unwrap();
    let capabilities = backend.capabilities(&operator);
    let triangular = capabilities.triangular.unwrap();
    let mut scalars = backend.scalars().unwrap();
    let [mut u, mut p, mut z, mut q, mut next] = [1, 2, 3, 4, 5].map(|seed| send(backend, &layout, seed));
    let (first, sigma) = (Scalar::new(0), Scalar::new(1));
    backend.set(&mut scalars, first, 0.7).unwrap();
    let (alpha, beta) = (Ratio::new(first, Scalar::ONE), Ratio::new(Scalar::ONE, first));
    let direction = Direction { u: &mut u, p: &mut p, next: Some(&mut next), z: &mut z, q: &mut q, alpha, beta, sigma };
    capabilities.operator.advance_direction(direction, &mut scalars).unwrap();
    let mut all: Vec<Vec<f64>> = [&u, &next, &q].map(|v| fetch(backend, v, shape)).into();
    triangular.relax_lower(&z, [&mut p, &mut q], None).unwrap();
    all.push(fetch(backend, &q, shape));
    triangular.relax_upper(&mut z, Some(&mut p), &mut q).unwrap();
    all.push(fetch(backend, &q, shape));
    let hierarchy = backend.hierarchy(stencil, &operator, Smoother::LineRedBlack, Some(2)).unwrap().unwrap();
    for smoother in [Smoother::LineRedBlack, Smoother::LineJacobi] {
        let relaxation = Relaxation { smoother, rho: 0.9, first: Colour::Red, returns: false };
        hierarchy.levels[0].smooth(Sweep::new(relaxation, Guess::Given, &z, &mut p, &mut u)).unwrap();
        all.push(fetch(backend, &p, shape));
    }
    if let Some(transfer) = hierarchy.transfers.first() {
        let (layout, mut u) = (*transfer.coarse_layout(), send(backend, &layout, 1));
        let mut coarse_f = send(backend, &layout, 6);
        transfer.residual_restrict(&z, [&mut p, &mut coarse_f, &mut u]).unwrap();
        all.push(fetch(backend, &coarse_f, layout.shape()));
        transfer.prolong(&mut coarse_f, &mut p).unwrap();
        all.push(fetch(backend, &p, shape));
    }
    for block in [3 * shape.nx, 700 * shape.nx] {
        let mut inverse = send(backend, &layout, 5);
        triangular.substitute(block, &inverse, &z, &mut q).unwrap();
        all.push(fetch(backend, &q, shape));
        triangular.factorise(block, 0.0, &mut inverse).unwrap();
        all.push(fetch(backend, &inverse, shape));
        triangular.substitute(block, &inverse, &z, &mut q).unwrap();
        all.push(fetch(backend, &q, shape));
    }
    all
}

/// Checks grids of several tiles in each direction, one layer among them.
fn many_tiles(cuda: &Cuda) {
    let [closed, fixed, periodic] = [Side::Closed, Side::Fixed, Side::Periodic];
    for (nx, ny, nz) in [(201, 97, 1), (130, 64, 1), (64, 1, 1), (2, 70, 1), (134, 38, 19), (6, 4, 300), (5, 2, 600)] {
        let shape = Shape::new(nx, ny, nz);
        for sides in [[[closed; 2]; 3], [[fixed, closed], [closed, fixed], [fixed; 2]], [[periodic; 2]; 3]] {
            if sides[0][0] == periodic && nx % 2 == 1 {
                continue;
            }
            let field = (0..shape.cells()).map(|n| 1.5 + random(7, n)).collect();
            // Blocks of substitution have arbitrary pivots here, and a small field keeps them well-conditioned.
            let stencil = cells(shape, field, sides, Some(vec![0.5; shape.cells()]));
            let expected = steps(&Reference, &stencil);
            let found = steps(cuda, &stencil);
            assert_eq!(found.len(), expected.len());
            for (n, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let largest = expected.iter().fold(1f64, |m, v| m.max(v.abs()));
                if !largest.is_finite() || largest > 1e6 {
                    continue;
                }
                for (cell, (a, b)) in found.iter().zip(expected).enumerate() {
                    assert!((a - b).abs() <= 1e-12 * largest, "{shape} {sides:?} vector {n}, cell {cell}: {a} {b}");
                }
            }
        }
    }
}

fn options(method: Method, preconditioner: Preconditioner) -> SolverOptions {
    SolverOptions {
        method,
        preconditioner,
        tolerance: 1e-8,
        max_iterations: 5000,
        compatibility: Compatibility::Project,
        norm: Norm::Rhs,
        ..SolverOptions::default()
    }
}

/// Returns two phases, and bubbles in a closed tank.
fn square_and_tank() -> [Diffusion; 2] {
    let flat = Shape::new(96, 96, 1);
    let mut sides = [[Side::Closed; 2]; 3];
    sides[1][0] = Side::Fixed;
    let square = cells(flat, two_phase(flat, 1e3).unwrap(), sides, None);
    let deep = Shape::new(48, 40, 32);
    let spheres = Bubbles { count: 4, radius: 0.12, contrast: 1e3, seed: 1 };
    let tank = cells(deep, bubbles(deep, [48.0, 40.0, 32.0], &spheres).unwrap(), [[Side::Closed; 2]; 3], None);
    [square, tank]
}

/// Recorded and replayed iterations, including deflation with E⁻¹, and iterations with work on the host give the
/// same result every time, bit for bit, with the reference's number of iterations.
fn repeated_solves(cuda: &Cuda) {
    let [square, tank] = square_and_tank();
    use Preconditioner::{BlockIc, IncompletePoisson, Jacobi, Line, Multigrid, Neumann};
    let (neumann, block_ic) = (Neumann { order: 2 }, BlockIc { block: None });
    let deflated = |stripes, coarse| Some(Deflation { stripes, coarse });
    for (stencil, preconditioner, deflation) in [
        (&square, neumann, deflated(Stripes::HalfRows, CoarseSolve::Inverse)),
        (&square, neumann, deflated(Stripes::HalfRows, CoarseSolve::Triangular)),
        (&square, block_ic, None),
        (&square, IncompletePoisson { scaling: true }, None),
        (&square, Multigrid, None),
        (&tank, Jacobi, deflated(Stripes::Bodies, CoarseSolve::Inverse)),
        (&tank, Multigrid, deflated(Stripes::LargeBodies, CoarseSolve::Auto)),
        (&tank, Line, None),
        (&tank, Multigrid, None),
    ] {
        let shape = stencil.shape();
        let rhs = noise(shape.cells(), 9);
        let options = SolverOptions { deflation, ..options(Method::Cg, preconditioner) };
        let mut system = System::new(cuda, stencil, &options).unwrap();
        let (first, u) = solve_by(&mut system, shape, &rhs);
        assert!(first.converged(), "{options:?} {first:?}");
        for _ in 0..3 {
            let (again, v) = solve_by(&mut system, shape, &rhs);
            assert_eq!((&again.history, again.relative_residual), (&first.history, first.relative_residual));
            assert!(u == v);
        }
        let (expected, _) = solve_by(&mut System::new(&Reference, stencil, &options).unwrap(), shape, &rhs);
        assert!(
            first.iterations.abs_diff(expected.iterations) <= 2 + expected.iterations / 20,
            "{first:?} {expected:?}"
        );
    }
}

/// Compares residuals and solutions, bit by bit.
fn assert_same(found: (Vec<f64>, Vec<f64>), expected: (Vec<f64>, Vec<f64>), preconditioner: Preconditioner) {
    let counts = [found.0.len(), expected.0.len()];
    let first = found.0.iter().zip(&expected.0).position(|(a, b)| a != b);
    let off = first.map(|n| (n, found.0[n], expected.0[n]));
    assert!(found == expected, "{preconditioner:?}: residuals {counts:?}, the first that differs {off:?}");
}

/// Coefficients on the GPU, in either precision and any order, give the same solver as coefficients
/// on the host; invalid ones are detected.
fn coefficients_on_the_card(cuda: &Cuda) {
    let shape @ Shape { nx, ny, nz } = Shape::new(37, 22, 13);
    let sides = [[Side::Fixed, Side::Closed], [Side::Closed; 2], [Side::Closed; 2]];
    let axes = [(0, 1.0), (0, 0.7), (0, 2.5)];
    // Numbers of single precision.
    let field =
        |seed: u64| -> Vec<f64> { (0..shape.cells()).map(|n| f64::from((2.0 + random(seed, n)) as f32)).collect() };
    let ties: Vec<f64> = (0..shape.cells()).map(|n| 1.0 + random(3, n)).collect();
    // Columns contiguous.
    let on_gpu = OnGpu::<f32>::new(cuda, shape, [ny * nz, nz, 1], &field(1));
    let shift = OnGpu::<f64>::new(cuda, shape, [1, nx, nx * ny], &ties);
    let scaled_on_card = |axes| {
        let cells = Coefficients::DeviceCells { fields: vec![on_gpu.array], axes, shift: Some(shift.array) };
        Diffusion::new(shape, cells, None, sides).unwrap()
    };
    let on_card = || scaled_on_card(axes);
    let scaled_on_host = |values: &[f64], axes| {
        let cells = Coefficients::Cells { fields: vec![values.into()], axes };
        Diffusion::new(shape, cells, Some(ties.clone()), sides).unwrap()
    };
    let on_host = |values: &[f64]| scaled_on_host(values, axes);
    // Numbers that stay, a factor that changes, one cell that does.
    let stretched = [(0, 1.0), (0, 0.7), (0, 5.0)];
    let mut nearly = field(2);
    nearly[shape.cells() - 1] = 4.0;
    let changes = [(field(2), axes), (field(2), axes), (field(2), stretched), (nearly, stretched), (field(1), axes)];
    let rhs = noise(shape.cells(), 5);
    let solve = |system: &mut dyn Solve<Diffusion>| {
        let (outcome, u) = solve_by(system, shape, &rhs);
        assert!(outcome.converged(), "{outcome:?}");
        (outcome.history, u)
    };
    for preconditioner in [
        Preconditioner::Line,
        Preconditioner::Jacobi,
        Preconditioner::Neumann { order: 2 },
        Preconditioner::BlockIc { block: None },
        Preconditioner::Multigrid,
    ] {
        let options = SolverOptions { method: Method::Cg, preconditioner, tolerance: 1e-9, ..SolverOptions::default() };
        on_gpu.fill(&field(1));
        let mut found = System::new(cuda, &on_card(), &options).unwrap();
        let mut expected = System::new(cuda, &on_host(&field(1)), &options).unwrap();
        assert_same(solve(&mut found), solve(&mut expected), preconditioner);
        for (values, axes) in &changes {
            on_gpu.fill(values);
            found.update(&scaled_on_card(*axes)).unwrap();
            expected.update(&scaled_on_host(values, *axes)).unwrap();
            assert_same(solve(&mut found), solve(&mut expected), preconditioner);
        }
        // An update that failed half-way is made good by the next one.
        on_gpu.fill(&[f64::NAN].repeat(shape.cells()));
        assert!(found.update(&on_card()).is_err());
        on_gpu.fill(&field(1));
        found.update(&on_card()).unwrap();
        assert_same(solve(&mut found), solve(&mut expected), preconditioner);
    }
    // Closed faces: components are found on the host.
    let mut holes = field(4);
    (0..shape.cells()).filter(|n| n % 5 == 0).for_each(|n| holes[n] = 0.0);
    on_gpu.fill(&holes);
    let options = SolverOptions { method: Method::Cg, tolerance: 1e-9, ..SolverOptions::default() };
    let found = solve(&mut System::new(cuda, &on_card(), &options).unwrap());
    assert!(found == solve(&mut System::new(cuda, &on_host(&holes), &options).unwrap()));

    for wrong in [f64::NAN, f64::INFINITY, -1.0] {
        let mut values = field(1);
        values[11 + nx * (7 + ny * 5)] = wrong;
        on_gpu.fill(&values);
        match System::new(cuda, &on_card(), &options).err() {
            Some(Error::Invalid { message, .. }) => assert!(message.contains("(11, 7, 5)"), "{message}"),
            other => panic!("{wrong}: {other:?}"),
        }
    }
    assert!(matches!(System::new(&Reference, &on_card(), &options), Err(Error::Unsupported(_))));
}
