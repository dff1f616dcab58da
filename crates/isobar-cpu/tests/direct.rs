//! Direct solves on several threads, and on subdomains. All kinds of boxes are those of the conformance suite.

use isobar_core::backend::direct::locked;
use isobar_core::conformance::arrays::{fetch, residual, solve_by, vector};
use isobar_core::direct::Separable;
use isobar_core::layout::Slab;
use isobar_core::prelude::*;
use isobar_cpu::Cpu;

/// Makes a box of equal cells.
fn factors(shape: Shape, sides: [[Side; 2]; 3]) -> Separable {
    let one = vec![vec![1.0; shape.cells()].into()];
    let cells = Coefficients::Cells { fields: one, axes: [(0, 1.0), (0, 2.0), (0, 3.0)] };
    Diffusion::new(shape, cells, None, sides).unwrap().separable().unwrap()
}

/// Results do not depend on threads, with fewer planes than batches and with more, nor on whether the solution replaces the right-hand side.
#[test]
fn threads_do_not_matter() {
    let sides = [[Side::Closed; 2], [Side::Fixed; 2], [Side::Periodic; 2]];
    for [nx, ny, nz] in [[40, 30, 45], [40, 60, 25], [36, 40, 40], [300, 200, 1], [260, 1, 250]] {
        let factors = factors(Shape::new(nx, ny, nz), sides);
        let layout = Layout::new(factors.shape).unwrap();
        let b: Vec<f64> = (0..factors.shape.cells()).map(|n| random(7, n) - 0.5).collect();
        let solve = |threads| {
            let cpu = Cpu::new(threads).unwrap();
            let solver = cpu.direct(&layout, &factors).unwrap().unwrap();
            let (mut rhs, mut u) = (vector(&cpu, &layout, &b), vector(&cpu, &layout, &vec![f64::NAN; b.len()]));
            locked(&solver).solve(&rhs, &mut u).unwrap();
            locked(&solver).solve_in_place(&mut rhs).unwrap();
            [u, rhs].map(|x| fetch(&cpu, &x, factors.shape))
        };
        let [one, three] = [1, 3].map(solve);
        assert!(one == three && one[0] == one[1], "{}", factors.shape);
        assert!(one[0].iter().all(|x| x.is_finite()));
    }
}

/// A matrix that is separable up to 10⁻¹¹ has residuals of its own, not those of its factors.
#[test]
fn residuals_are_those_of_the_matrix() {
    let shape = Shape::new(24, 20, 1);
    for (rough, tolerance) in [(0.0, 1e-9), (2e-12, 1e-9), (2e-12, 1e-13)] {
        let kappa = shape.places().map(|[i, j, _]| (0.3 * j as f64).exp() * (1.0 + rough * random(3, i + 100 * j)));
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa.collect()));
        problem.spacing = [1.0, 1e-4, 1.0].map(Spacing::Uniform);
        problem.boundary[0] = [Boundary::Dirichlet(0.0); 2];
        let stencil = problem.stencil().unwrap();
        let options = SolverOptions { method: Method::Direct, tolerance, norm: Norm::Rhs, ..SolverOptions::default() };
        let mut system = System::new(&Cpu::new(2).unwrap(), &stencil, &options).unwrap();
        let b: Vec<f64> = (0..shape.cells()).map(|n| random(9, n)).collect();
        let (outcome, u) = solve_by(&mut system, shape, &b);
        let found = residual(&stencil, &b, &u);
        assert!(
            found <= 2.0 * outcome.relative_residual + 1e-15 * stencil.times(&u).len() as f64,
            "{found} {outcome:?}"
        );
        assert_eq!(outcome.converged(), outcome.relative_residual <= tolerance);
    }
}

#[test]
fn subdomains_have_no_direct_solver() {
    let factors = factors(Shape::new(6, 5, 4), [[Side::Fixed; 2]; 3]);
    let part = Slab { first: 0, beyond: 5 }.layout(Shape::new(6, 9, 4), false).unwrap();
    assert!(Cpu::new(1).unwrap().direct(&part, &factors).unwrap().is_none());
}
