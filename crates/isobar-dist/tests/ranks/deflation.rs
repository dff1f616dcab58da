//! Deflation on several ranks: aggregates across slabs, and those of the neighbours' rows.

use isobar_core::layout::Shape;
use isobar_core::options::Stripes;
use isobar_core::problem::{Boundary, Coefficient, DiffusionProblem};
use isobar_cpu::Cpu;

use crate::cpu;
use crate::deflated::{check, forms, problems};
use crate::jumps::bubbles;
use crate::solves::{distance, solve_alone, solve_updated};

#[test]
fn deflated_solves_are_those_of_one_rank() {
    for (problem, ranks) in problems() {
        for options in forms() {
            // One layer is not divided.
            let is_flat = problem.shape.nz == 1;
            let stripes = options.deflation.as_ref().map(|deflation| deflation.stripes);
            // Elimination does not support a periodic y.
            let is_around = problem.boundary[1] == [Boundary::Periodic; 2];
            if (is_flat || is_around) && stripes == Some(Stripes::Blocks([2, 3, 2])) {
                continue;
            }
            check(cpu, &problem, ranks, &options);
        }
    }
    check(|_| Cpu::new(2).unwrap(), &bubbles(Shape::new(40, 32, 24), 1e3), &[2, 3], &forms()[1]);
}

/// Checks that new coefficients reach E and the bodies on all ranks.
#[test]
fn updates() {
    let shape = Shape::new(11, 16, 6);
    let after = bubbles(shape, 1e4);
    let before = DiffusionProblem { coefficient: Coefficient::Isotropic(vec![3.0; shape.cells()]), ..after.clone() };
    let (before, after) = (before.stencil().unwrap(), after.stencil().unwrap());
    let rhs: Vec<f64> = (0..shape.cells()).map(|n| isobar_core::problem::random(6, n)).collect();
    for options in [&forms()[0], &forms()[4]] {
        let (alone, u) = solve_alone(&cpu(None), &after, options, &rhs, None);
        let (outcome, _, v) = solve_updated(3, cpu, [&before, &after], options, &rhs).unwrap();
        assert!(outcome.iterations.abs_diff(alone.iterations) <= 1, "{outcome:?} instead of {alone:?}");
        assert!(distance(&v, &u) < 1e-6);
    }
}
