//! Deflation on several ranks: aggregates across slabs, and those of the neighbours' rows.

use isobar_core::prelude::*;

use crate::deflated::{check, check_updates, forms, problems};
use crate::jumps::bubbles;
use crate::{cpu, cpus};

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
            check(&cpu, &problem, ranks, &options);
        }
    }
    check(&cpus(2), &bubbles(Shape::new(40, 32, 24), 1e3), &[2, 3], &forms()[1]);
}

#[test]
fn updates() {
    check_updates(&cpu, &[3]);
}
