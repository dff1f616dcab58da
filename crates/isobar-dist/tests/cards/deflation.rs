//! Deflation on several GPUs: aggregates across slabs, and those of the neighbours' rows.

use isobar_core::prelude::*;

use crate::deflated::{check, forms, problems};
use crate::jumps::bubbles;
use crate::{Way, backend, some};

pub(crate) fn solves(way: Way) {
    for (problem, ranks) in problems() {
        for options in forms() {
            // Incomplete Cholesky needs several layers, and elimination does not support a periodic y.
            let has_no_ic = problem.shape.nz == 1 || problem.boundary[1] == [Boundary::Periodic; 2];
            if !(has_no_ic && matches!(options.preconditioner, Preconditioner::Ic { .. })) {
                check(&backend(way), &problem, &some(ranks, way), &options);
            }
        }
    }
    check(&backend(way), &bubbles(Shape::new(40, 32, 24), 1e3), &some(&[2, 3], way), &forms()[1]);
}
