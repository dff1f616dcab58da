//! Problems for deflation, and forms of deflation.

use isobar_core::conformance::arrays::{cg, noise};
use isobar_core::prelude::*;

use crate::jumps::{bubbles, pieces};
use crate::rocks::rough;
use crate::solves::{Devices, Like, check_updated, compare_with_alone};

fn deflated(preconditioner: Preconditioner, stripes: Stripes, coarse: CoarseSolve) -> SolverOptions {
    SolverOptions { tolerance: 1e-8, deflation: Some(Deflation { stripes, coarse }), ..cg(preconditioner) }
}

/// Returns forms of deflation; the third has incomplete Cholesky.
pub(crate) fn forms() -> [SolverOptions; 6] {
    [
        deflated(Preconditioner::Jacobi, Stripes::HalfRows, CoarseSolve::Inverse),
        deflated(Preconditioner::Line, Stripes::HalfRows, CoarseSolve::Triangular),
        deflated(Preconditioner::Ic { block: None }, Stripes::Blocks([2, 3, 2]), CoarseSolve::Auto),
        deflated(Preconditioner::Neumann { order: 2 }, Stripes::Blocks([3, 5, 1]), CoarseSolve::Triangular),
        deflated(Preconditioner::Line, Stripes::Bodies, CoarseSolve::Auto),
        deflated(Preconditioner::Line, Stripes::LargeBodies, CoarseSolve::Auto),
    ]
}

/// Returns problems, and numbers of ranks.
pub(crate) fn problems() -> [(DiffusionProblem, &'static [usize]); 6] {
    let mut ring = bubbles(Shape::new(12, 15, 6), 1e4);
    ring.boundary[0] = [Boundary::Periodic; 2];
    let mut floating = bubbles(Shape::new(9, 14, 5), 1e3);
    floating.boundary = [[Boundary::default(); 2]; 3];
    let flat = bubbles(Shape::new(16, 17, 1), 1e4);
    let mut around = bubbles(Shape::new(12, 16, 6), 1e4);
    around.boundary =
        [[Boundary::Periodic; 2], [Boundary::Periodic; 2], [Boundary::Dirichlet(0.0), Boundary::default()]];
    [
        (ring, &[1, 2, 3, 4, 6]),
        (around, &[2, 3, 4]),
        (rough(Shape::new(9, 13, 5)), &[2, 3, 6]),
        (pieces(Shape::new(11, 16, 6)), &[2, 3, 4]),
        (floating, &[2, 3]),
        (flat, &[2, 3, 17]),
    ]
}

/// Checks for the iterations of one rank up to one, or two in a hundred, and its solution.
pub(crate) fn check(backend: &impl Devices, problem: &DiffusionProblem, ranks: &[usize], options: &SolverOptions) {
    compare_with_alone(backend, problem, ranks, options, |iterations| 1 + iterations / 50, 1e-6);
}

/// Checks all problems with all forms of deflation, and a large grid on other devices.
pub(crate) fn check_all(backend: &impl Devices, large: &impl Devices) {
    for (problem, ranks) in problems() {
        for options in forms() {
            // Incomplete Cholesky needs several layers, and elimination does not support a periodic y.
            let has_no_ic = problem.shape.nz == 1 || problem.boundary[1] == [Boundary::Periodic; 2];
            if !(has_no_ic && matches!(options.preconditioner, Preconditioner::Ic { .. })) {
                check(backend, &problem, ranks, &options);
            }
        }
    }
    check(large, &bubbles(Shape::new(40, 32, 24), 1e3), &[2, 3], &forms()[1]);
}

/// Checks that new coefficients reach E and the bodies on all ranks.
pub(crate) fn check_updates(backend: &impl Devices, ranks: &[usize]) {
    let after = bubbles(Shape::new(11, 16, 6), 1e4);
    let coefficient = Coefficient::Isotropic(vec![3.0; after.shape.cells()]);
    let stencils = [DiffusionProblem { coefficient, ..after.clone() }, after].map(|problem| problem.stencil().unwrap());
    let rhs = noise(stencils[0].shape().cells(), 6);
    for options in [&forms()[0], &forms()[4]] {
        check_updated(backend, stencils.each_ref(), ranks, options, &rhs, Like::up_to(1, 1e-6));
    }
}
