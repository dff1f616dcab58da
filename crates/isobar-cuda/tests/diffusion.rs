//! The diffusion operator on CUDA beyond the conformance suite: grids of many tiles, and iterations that are replayed.
//! Without a card every test says so and passes, unless `ISOBAR_REQUIRE_CUDA=1`.

use std::sync::OnceLock;

use isobar_core::backend::{Backend, DiffusionBackend, HostScalars, Ratio, Slot};
use isobar_core::layout::{ArrayView, ArrayViewMut, Layout, Shape};
use isobar_core::operator::{Direction, Guess, LineOperator, Operator, Relaxation};
use isobar_core::options::{
    CoarseSolve, Compatibility, Method, Norm, PreconditionerKind, Smoother, SolverOptions, Stripes,
};
use isobar_core::outcome::Outcome;
use isobar_core::problem::materials::{Bubbles, bubbles, two_phase};
use isobar_core::problem::random;
use isobar_core::reference::Reference;
use isobar_core::solver::{Solve, System};
use isobar_core::stencil::{Coefficients, Diffusion, Side};
use isobar_core::triangular::TriangularOperator;
use isobar_cuda::Cuda;

/// The first card, if there is one. Opened once: tests share its stream.
fn card() -> Option<Cuda> {
    static CARD: OnceLock<Option<Cuda>> = OnceLock::new();
    CARD.get_or_init(|| match Cuda::new(0) {
        Ok(cuda) => Some(cuda),
        Err(error) if std::env::var_os("ISOBAR_REQUIRE_CUDA").is_some_and(|v| v == "1") => panic!("{error}"),
        Err(error) => {
            eprintln!("{error}");
            None
        }
    })
    .clone()
}

macro_rules! card_or_skip {
    () => {
        match card() {
            Some(cuda) => cuda,
            None => {
                println!("skipped: no CUDA device");
                return;
            }
        }
    };
}

fn cells(shape: Shape, field: Vec<f64>, sides: [[Side; 2]; 3], shift: Option<Vec<f64>>) -> Diffusion {
    assert_eq!(field.len(), shape.cells());
    let coefficients = Coefficients::Cells { fields: vec![field.into()], axes: [(0, 1.0), (0, 0.7), (0, 2.5)] };
    Diffusion::new(shape, coefficients, shift, sides).unwrap()
}

fn send<B: Backend>(backend: &B, layout: &Layout, seed: u64) -> B::Vector<f64> {
    let shape = layout.shape();
    let host: Vec<f64> = (0..shape.cells()).map(|n| random(seed, n)).collect();
    let mut v = backend.zeros(layout).unwrap();
    backend.upload(ArrayView::c_order(&host, shape).unwrap(), &mut v).unwrap();
    v
}

fn fetch<B: Backend>(backend: &B, v: &B::Vector<f64>, shape: Shape) -> Vec<f64> {
    let mut host = vec![0.0; shape.cells()];
    backend.download(v, &mut ArrayViewMut::c_order(&mut host, shape).unwrap()).unwrap();
    host
}

/// What a few steps leave in their vectors.
fn steps<B: DiffusionBackend>(backend: &B, stencil: &Diffusion, scalars: &mut B::Scalars) -> Vec<Vec<f64>> {
    let shape = stencil.shape();
    let layout = Layout::new(shape).unwrap();
    let operator = backend.diffusion::<f64>(stencil, false).unwrap();
    let [mut u, mut p, z, mut q] = [1, 2, 3, 4].map(|seed| send(backend, &layout, seed));
    let (first, sigma) = (Slot::new(0), Slot::new(1));
    backend.set(scalars, first, 0.7).unwrap();
    let (alpha, beta) = (Ratio::new(first, Slot::ONE), Ratio::new(Slot::ONE, first));
    operator.reserve_direction().unwrap();
    let direction = Direction { u: &mut u, p: &mut p, z: &z, q: &mut q };
    operator.advance_direction(direction, alpha, beta, sigma, scalars).unwrap();
    let mut all = vec![fetch(backend, &u, shape), fetch(backend, &p, shape), fetch(backend, &q, shape)];
    operator.relax_lower(&z, &p, &mut q, None).unwrap();
    all.push(fetch(backend, &q, shape));
    operator.relax_upper(&z, &p, &mut q).unwrap();
    all.push(fetch(backend, &q, shape));
    for smoother in [Smoother::LineRedBlack, Smoother::LineJacobi] {
        let relaxation = Relaxation { smoother, rho: 0.9, first: isobar_core::layout::Colour::Red };
        operator.smooth(relaxation, Guess::Given, &z, &mut p, &mut u).unwrap();
        all.push(fetch(backend, &p, shape));
    }
    for block in [3 * shape.nx, 700 * shape.nx] {
        let inverse = send(backend, &layout, 5);
        operator.substitute(block, &inverse, &z, &mut q).unwrap();
        all.push(fetch(backend, &q, shape));
    }
    all
}

/// Grids of several tiles in each direction, one level among them.
#[test]
fn many_tiles() {
    let cuda = card_or_skip!();
    let [closed, fixed, periodic] = [Side::Closed, Side::Fixed, Side::Periodic];
    for (nx, ny, nz) in [(201, 97, 1), (130, 64, 1), (64, 1, 1), (2, 70, 1), (134, 38, 19), (6, 4, 300), (5, 2, 600)] {
        let shape = Shape::new(nx, ny, nz);
        for sides in [[[closed; 2]; 3], [[fixed, closed], [closed, fixed], [fixed; 2]], [[periodic; 2]; 3]] {
            if sides[0][0] == periodic && nx % 2 == 1 {
                continue;
            }
            let field = (0..shape.cells()).map(|n| 1.5 + random(7, n)).collect();
            // Blocks of substitution have pivots of no matrix here: kept tame by a small field.
            let stencil = cells(shape, field, sides, Some(vec![0.5; shape.cells()]));
            let expected = steps(&Reference, &stencil, &mut HostScalars::default());
            let found = steps(&cuda, &stencil, &mut cuda.scalars().unwrap());
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

fn solve(system: &mut dyn Solve, rhs: &[f64], shape: Shape) -> (Outcome, Vec<f64>) {
    let mut u = vec![0.0; rhs.len()];
    let mut out = ArrayViewMut::c_order(&mut u, shape).unwrap();
    let outcome = system.solve(ArrayView::c_order(rhs, shape).unwrap(), &mut out, Guess::Zero, &mut |_| {}).unwrap();
    (outcome, u)
}

/// Iterations recorded and replayed, deflation with E⁻¹ among them, and iterations that the host takes part in: the
/// same answer every time, to the bit, in as many iterations as the reference.
#[test]
fn repeated_solves() {
    let cuda = card_or_skip!();
    let flat = Shape::new(96, 96, 1);
    let mut sides = [[Side::Closed; 2]; 3];
    sides[1][0] = Side::Fixed;
    let square = cells(flat, two_phase(flat, 1e3).unwrap(), sides, None);
    let deep = Shape::new(48, 40, 32);
    let spheres = Bubbles { count: 4, radius: 0.12, contrast: 1e3, seed: 1 };
    let tank = cells(deep, bubbles(deep, [48.0, 40.0, 32.0], &spheres).unwrap(), [[Side::Closed; 2]; 3], None);
    use PreconditionerKind::{BlockIc, IncompletePoisson, Jacobi, Line, Multigrid, Neumann};
    for (stencil, method, kind, stripes, coarse) in [
        (&square, Method::DeflatedCg, Neumann, Stripes::HalfRows, CoarseSolve::Inverse),
        (&square, Method::DeflatedCg, Neumann, Stripes::HalfRows, CoarseSolve::Triangular),
        (&square, Method::Cg, BlockIc, Stripes::HalfRows, CoarseSolve::Auto),
        (&square, Method::Cg, IncompletePoisson, Stripes::HalfRows, CoarseSolve::Auto),
        (&square, Method::Cg, Multigrid, Stripes::HalfRows, CoarseSolve::Auto),
        (&tank, Method::DeflatedCg, Jacobi, Stripes::Bodies, CoarseSolve::Inverse),
        (&tank, Method::Cg, Line, Stripes::Bodies, CoarseSolve::Auto),
        (&tank, Method::Cg, Multigrid, Stripes::Bodies, CoarseSolve::Auto),
    ] {
        let shape = stencil.shape();
        let rhs: Vec<f64> = (0..shape.cells()).map(|n| random(9, n)).collect();
        let mut options = SolverOptions {
            method,
            tolerance: 1e-8,
            max_iterations: 5000,
            compatibility: Compatibility::Project,
            norm: Norm::Rhs,
            ..SolverOptions::default()
        };
        options.preconditioner.kind = kind;
        options.preconditioner.order = 2;
        options.deflation.stripes = stripes;
        options.deflation.coarse = coarse;
        let mut system = System::new(&cuda, stencil, &options).unwrap();
        let (first, u) = solve(&mut system, &rhs, shape);
        assert!(first.converged(), "{options:?} {first:?}");
        for _ in 0..3 {
            let (again, v) = solve(&mut system, &rhs, shape);
            assert_eq!((&again.history, again.relative_residual), (&first.history, first.relative_residual));
            assert!(u == v);
        }
        let (expected, _) = solve(&mut System::new(&Reference, stencil, &options).unwrap(), &rhs, shape);
        assert!(
            first.iterations.abs_diff(expected.iterations) <= 2 + expected.iterations / 20,
            "{first:?} {expected:?}"
        );
    }
}
