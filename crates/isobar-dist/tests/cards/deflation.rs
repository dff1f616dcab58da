//! Deflation on several GPUs: aggregates across slabs, and those of the neighbours' rows.

use isobar_core::layout::Shape;
use isobar_core::options::Preconditioner;
use isobar_core::problem::{Boundary, Coefficient, DiffusionProblem, random};

use crate::deflated::{check, forms, problems};
use crate::jumps::bubbles;
use crate::solves::{distance, solve_alone, solve_updated};
use crate::{Way, backend, card, some};

pub(crate) fn solves(way: Way) {
    for (problem, ranks) in problems() {
        for options in forms() {
            // Incomplete Cholesky needs several layers, and elimination does not support a periodic y.
            let has_no_ic = problem.shape.nz == 1 || problem.boundary[1] == [Boundary::Periodic; 2];
            if !(has_no_ic && matches!(options.preconditioner, Preconditioner::Ic { .. })) {
                check(backend(way), &problem, &some(ranks, way), &options);
            }
        }
    }
    check(backend(way), &bubbles(Shape::new(40, 32, 24), 1e3), &some(&[2, 3], way), &forms()[1]);
}

/// Checks that new coefficients reach E and the bodies on all GPUs.
pub(crate) fn updates(way: Way) {
    let shape = Shape::new(11, 16, 6);
    let after = bubbles(shape, 1e4);
    let before = DiffusionProblem { coefficient: Coefficient::Isotropic(vec![3.0; shape.cells()]), ..after.clone() };
    let (before, after) = (before.stencil().unwrap(), after.stencil().unwrap());
    let rhs: Vec<f64> = (0..shape.cells()).map(|n| random(6, n)).collect();
    for options in [&forms()[0], &forms()[4]] {
        let (alone, u) = solve_alone(&card(way, None).unwrap(), &after, options, &rhs, None);
        for ranks in some(&[2, 3], way) {
            let (outcome, _, v) = solve_updated(ranks, backend(way), [&before, &after], options, &rhs).unwrap();
            assert!(outcome.iterations.abs_diff(alone.iterations) <= 1, "{outcome:?} instead of {alone:?}");
            assert!(distance(&v, &u) < 1e-6);
        }
    }
}
