//! Boxes that are periodic in y, whose rows are divided among GPUs.

use isobar_core::conformance::arrays::noise;
use isobar_core::prelude::*;

use crate::boxes::{self, RING, jumping, rough_ring, smooth_ring, smooth_rings};
use crate::jumps::{bubbles, check, check_all, check_forms, multigrid};
use crate::rocks::{check_floating, check_points, check_rough, point_cycles};
use crate::solves::{check_products, distance, possible, solve_alone, solve_on, solve_updated};
use crate::steps::check_steps;
use crate::{Way, backend, card, check_halo_rows, in_single};

/// Checks that rows of boxes periodic in y do not depend on ranks, number by number.
pub(crate) fn step_by_step(way: Way) {
    for (extents, ranks) in boxes::GRIDS {
        let problem = rough_ring(extents);
        check_products(&backend(way), &problem.stencil().unwrap(), &noise(problem.shape.cells(), 6), ranks);
        check_steps::<f64>(&backend(way), &problem.stencil().unwrap(), ranks);
        check_steps::<f32>(&backend(way), &problem.stencil().unwrap(), ranks);
    }
}

pub(crate) fn krylov_methods(way: Way) {
    for (extents, ranks) in boxes::GRIDS {
        check_rough(&backend(way), &rough_ring(extents), ranks);
    }
    check_rough(&backend(way), &rough_ring([40, 22, 40]), &[2, 3, 4]);
    for (extents, ranks) in &boxes::GRIDS[..4] {
        check_halo_rows(way, &rough_ring(*extents), ranks);
    }
    // Two copies of an odd number of rows.
    for extents in [[8, 9, 4], [7, 13, 5]] {
        check_rough(&backend(way), &rough_ring(extents), &[2, 3, 5]);
    }
}

pub(crate) fn points(way: Way) {
    for (problem, ranks) in smooth_rings() {
        for options in point_cycles() {
            let system = System::new(&card(way, None).unwrap(), &problem.stencil().unwrap(), &options).unwrap();
            // By default GPUs may use Galerkin grids.
            match system.description().smoother {
                Smoother::PointRedBlack => check_points(&backend(way), &problem, ranks, &options),
                _ => check(&backend(way), ("smooth", &problem, ranks), &options),
            }
        }
    }
    for options in &point_cycles()[..2] {
        check_points(&backend(way), &smooth_ring([64, 128, 64], 1.0, true), &[2, 3, 4], options);
    }
}

pub(crate) fn floating(way: Way) {
    let base = SolverOptions { tolerance: 1e-9, ..SolverOptions::default() };
    let by_points = point_cycles().swap_remove(1);
    for (problem, options) in
        [(smooth_ring([16, 32, 8], 1.0, true), &base), (smooth_ring([8, 24, 8], 3.0, true), &by_points)]
    {
        check_floating(&backend(way), &boxes::floating(problem), &[2, 3, 4, 5], options);
    }
    for preconditioner in [Preconditioner::Line, Preconditioner::Jacobi, Preconditioner::SsorAi] {
        let options = SolverOptions { method: Method::Cg, preconditioner, ..base.clone() };
        let problem = boxes::floating(rough_ring([10, 16, 6]));
        check_floating(&backend(way), &problem, &[2, 3, 4], &options);
    }
}

/// Checks Galerkin levels for jumping coefficients.
pub(crate) fn jumps(way: Way) {
    check_all(&backend(way), jumping());
    check_forms(&[backend(way)], jumping(), &[1, 3, 7], &[in_single()]);
    // Two copies of an odd number of rows.
    let mut in_both = rough_ring([9, 15, 6]);
    in_both.boundary[0] = RING;
    for problem in [in_both, rough_ring([12, 27, 5])] {
        check(&backend(way), ("holes", &problem, &[2, 3, 4]), &multigrid());
    }
}

/// Checks columns that several threads share, and the most common box, whose mean is free.
pub(crate) fn large_jumps(way: Way) {
    for shape in [Shape::new(64, 96, 48), Shape::new(40, 64, 100), Shape::new(130, 50, 33)] {
        let of = |contrast: f64| {
            let mut problem = bubbles(shape, contrast);
            problem.boundary = [RING, RING, [Boundary::Dirichlet(0.0), Boundary::default()]];
            problem
        };
        for options in [multigrid(), in_single()] {
            check(&backend(way), ("bubbles", &of(1e6), &[2, 3]), &options);
        }
        let options = SolverOptions { tolerance: 1e-9, ..multigrid() };
        check_floating(&backend(way), &boxes::floating(of(1e4)), &[2, 3], &options);
    }
}

/// Several GPUs choose what one would by default; new coefficients reach the halo rows on all levels.
pub(crate) fn updated_jumps(way: Way) {
    let open = SolverOptions { tolerance: 1e-7, ..SolverOptions::default() };
    let shape = Shape::new(16, 32, 8);
    let of = |kappa: f64| {
        let coefficient = Coefficient::Isotropic(vec![kappa; shape.cells()]);
        DiffusionProblem { coefficient, ..smooth_ring([16, 32, 8], 3.0, true) }
    };
    let after = DiffusionProblem { coefficient: bubbles(shape, 1e6).coefficient, ..of(1.0) }.stencil().unwrap();
    let rhs = noise(shape.cells(), 6);
    let (alone, u) = solve_alone(&card(way, None).unwrap(), &after, &multigrid(), &rhs, None);
    for ranks in possible(&backend(way), &[2, 3]) {
        for options in [&open, &multigrid()] {
            let before = of(0.1).stencil().unwrap();
            let (outcome, preconditioner, v) =
                solve_updated(ranks, &backend(way), [&before, &after], options, &rhs).unwrap();
            assert_eq!((preconditioner.as_str(), outcome.converged()), ("multigrid", true), "{outcome:?}");
            assert!(distance(&v, &u) < 1e-5);
        }
        let (outcome, v) = solve_on(ranks, &backend(way), &after, &open, &rhs, None).unwrap();
        assert!(outcome.iterations.abs_diff(alone.iterations) <= 1, "{outcome:?} instead of {alone:?}");
        assert!(distance(&v, &u) < 1e-5);
    }
}
