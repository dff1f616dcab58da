//! Boxes that are periodic in y, and some in x too, to be divided among ranks.

use isobar_core::conformance::arrays::cg;
use isobar_core::prelude::*;

use crate::jumps::bubbles;
use crate::rocks::{rough, uneven};
use crate::solves::{Devices, possible, solve_on};

pub(crate) const RING: [Boundary; 2] = [Boundary::Periodic; 2];

/// Odd and even sizes, x periodic too where possible, one layer, slabs of a row, two that are each other's neighbours on both
/// sides.
pub(crate) const GRIDS: [([usize; 3], &[usize]); 6] = [
    ([7, 14, 5], &[1, 2, 3, 4, 5]),
    ([8, 16, 4], &[2, 3, 4, 5, 16]),
    ([13, 22, 3], &[2, 3, 5]),
    ([12, 10, 1], &[2, 3, 5]),
    ([34, 6, 9], &[2, 3, 6]),
    ([5, 2, 3], &[2]),
];

/// Makes [`rough`] with y periodic.
pub(crate) fn rough_ring([nx, ny, nz]: [usize; 3]) -> DiffusionProblem {
    let mut problem = rough(Shape::new(nx, ny, nz));
    problem.boundary[1] = RING;
    problem
}

/// Makes a smooth κ in a box that is periodic in x and y, or in y alone, fixed at the bottom.
pub(crate) fn smooth_ring([nx, ny, nz]: [usize; 3], contrast: f64, is_ring_in_x: bool) -> DiffusionProblem {
    let shape = Shape::new(nx, ny, nz);
    let wave = |n: usize, of: usize| 0.5 * (std::f64::consts::TAU * (n as f64 + 0.3) / of as f64).sin();
    let kappa = shape.places().map(|at @ [i, j, _]| uneven(at) * contrast.powf(wave(i, nx) + wave(j, ny)));
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa.collect()));
    problem.spacing = [0, 1, 2].map(|_| Spacing::Uniform(0.5));
    problem.boundary[1] = RING;
    match is_ring_in_x {
        true => problem.boundary[0] = RING,
        false => problem.boundary[0] = [Boundary::Dirichlet(1.0), Boundary::default()],
    }
    if nz > 1 {
        problem.boundary[2] = [Boundary::Dirichlet(0.0), Boundary::default()];
    }
    problem
}

/// Makes constant and smooth κ; y is halved with the others, or waits for them; the coarsest grids have two periodic rows, or
/// six.
pub(crate) fn smooth_rings() -> Vec<(DiffusionProblem, &'static [usize])> {
    let mut wide = smooth_ring([16, 32, 8], 10.0, true);
    wide.spacing[1] = Spacing::Uniform(0.9);
    vec![
        (smooth_ring([16, 32, 8], 1.0, true), &[1, 2, 3, 4, 5]),
        (smooth_ring([16, 24, 6], 3.0, true), &[2, 3, 6]),
        (smooth_ring([9, 32, 5], 3.0, false), &[2, 3, 4]),
        (smooth_ring([13, 40, 1], 3.0, false), &[2, 3, 5]),
        (smooth_ring([8, 8, 8], 1.0, true), &[2, 3, 4]),
        (wide, &[2, 4]),
    ]
}

/// Frees all sides of a problem, so that its mean is free.
pub(crate) fn floating(mut problem: DiffusionProblem) -> DiffusionProblem {
    (problem.boundary[2], problem.reaction, problem.wells) = ([Boundary::default(); 2], None, Vec::new());
    problem.sources = Vec::new();
    problem
}

/// Makes bubbles, holes and noise around the ends of periodic directions; rows that become odd on a coarser grid, and grids that are solved exactly.
pub(crate) fn jumping() -> Vec<(&'static str, DiffusionProblem, &'static [usize])> {
    let of = |extents: [usize; 3], contrast: f64, rings: [bool; 3]| {
        let [nx, ny, nz] = extents;
        let mut problem = bubbles(Shape::new(nx, ny, nz), contrast);
        let fixed = [Boundary::Dirichlet(1.0), Boundary::default()];
        problem.boundary = rings.map(|is_ring| if is_ring { RING } else { fixed });
        problem
    };
    let mut wide = of([14, 32, 10], 1e4, [false, true, false]);
    wide.spacing[1] = Spacing::Uniform(12.0);
    vec![
        ("bubbles", of([14, 28, 12], 1e3, [false, true, false]), &[1, 2, 3, 4, 5]),
        ("rings", of([16, 26, 12], 1e6, [true, true, false]), &[2, 3, 4]),
        ("rings", of([16, 24, 12], 1e4, [false, true, true]), &[2, 3]),
        ("odd below", of([12, 36, 8], 1e4, [true, true, false]), &[2, 3, 4]),
        ("columns odd below", of([20, 48, 24], 1e4, [true, true, false]), &[2, 3]),
        ("y waits", wide, &[2, 3]),
        ("flat", of([24, 36, 1], 1e6, [false, true, false]), &[2, 3]),
        ("holes", rough_ring([10, 20, 8]), &[2, 3, 4]),
        ("long rows", rough_ring([32, 24, 5]), &[2, 3]),
        ("tiny", of([4, 12, 4], 1e6, [true, true, false]), &[1, 2, 3]),
    ]
}

/// Checks that substitution is refused for a periodic y.
pub(crate) fn check_refusals(backend: &impl Devices, ranks: &[usize]) {
    let stencil = rough_ring([8, 12, 4]).stencil().unwrap();
    let rhs = vec![1.0; stencil.shape().cells()];
    for preconditioner in [Preconditioner::Ic { block: None }, Preconditioner::Mic { relaxation: 1.0, block: None }] {
        for ranks in possible(backend, ranks) {
            let said = solve_on(ranks, backend, &stencil, &cg(preconditioner), &rhs, None).unwrap_err().to_string();
            for part in ["not divided among ranks", "a periodic y", "\"line\""] {
                assert!(said.contains(part), "{said}");
            }
        }
    }
}
