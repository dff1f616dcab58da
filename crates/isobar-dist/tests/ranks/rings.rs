//! Grids that are periodic in y, and some in x too, whose rows are divided: the last rank is the first one's neighbour.

use isobar_core::conformance::arrays::{cg, noise};
use isobar_core::prelude::*;

use crate::boxes::{GRIDS, RING, check_refusals, floating, jumping, rough_ring, smooth_ring, smooth_rings};
use crate::jumps::{self, bubbles, check, multigrid};
use crate::rocks::{check_floating, check_points, check_rough, point_cycles};
use crate::solves::{Like, check_as_alone, check_products, check_updated, distance, solve_alone, solve_on};
use crate::steps::check_steps;
use crate::sweeps::check_sweeps;
use crate::{cpu, cpus, described};

#[test]
fn apply() {
    for (extents, ranks) in GRIDS {
        let problem = rough_ring(extents);
        check_products(&cpu, &problem.stencil().unwrap(), &noise(problem.shape.cells(), 6), ranks);
    }
}

#[test]
fn conjugate_gradients() {
    for (extents, ranks) in GRIDS {
        let problem = rough_ring(extents);
        check_rough(&cpu, &problem, ranks);
    }
    check_rough(&cpus(3), &rough_ring([40, 40, 24]), &[2, 3]);
}

/// Checks polynomials in L and Lᵀ, which support a periodic y, incomplete Poisson, and BiCGStab.
#[test]
fn other_preconditioners() {
    let kinds = [
        Preconditioner::Neumann { order: 1 },
        Preconditioner::Neumann { order: 2 },
        Preconditioner::SsorAi,
        Preconditioner::IncompletePoisson { scaling: true },
    ];
    for (extents, ranks) in &GRIDS[..4] {
        let problem = rough_ring(*extents);
        check_steps::<f64>(&cpu, &problem.stencil().unwrap(), ranks);
        check_steps::<f32>(&cpus(2), &problem.stencil().unwrap(), ranks);
        for preconditioner in kinds {
            let options = SolverOptions { tolerance: 1e-9, ..cg(preconditioner) };
            check_as_alone(&cpu, &problem, ranks, &options);
        }
    }
    let problem = smooth_ring([16, 24, 6], 3.0, true);
    let preconditioner = Preconditioner::Line;
    let options =
        SolverOptions { method: Method::Bicgstab, preconditioner, tolerance: 1e-6, ..SolverOptions::default() };
    let (stencil, rhs) = (problem.stencil().unwrap(), problem.rhs(Some(RhsKind::Random), 3, Weighting::None).unwrap());
    let (alone, u) = solve_alone(&cpu(None), &stencil, &options, &rhs, None);
    for ranks in [2, 3, 5] {
        let (outcome, v) = solve_on(ranks, &cpu, &stencil, &options, &rhs, None).unwrap();
        // Rounding errors are amplified.
        assert!(outcome.converged() && outcome.iterations.abs_diff(alone.iterations) <= 2, "{outcome:?} {alone:?}");
        assert!(distance(&v, &u) < 1e-4);
    }
}

#[test]
fn sweeps_of_jacobi() {
    for (extents, ranks) in &GRIDS[..3] {
        let problem = rough_ring(*extents);
        let rhs = problem.rhs(Some(RhsKind::Random), 3, Weighting::None).unwrap();
        check_sweeps(&cpu, &problem.stencil().unwrap(), &rhs, ranks, false);
    }
}

#[test]
fn cycles_that_relax_points() {
    for (problem, ranks) in smooth_rings() {
        for options in point_cycles() {
            check_points(&cpu, &problem, ranks, &options);
        }
    }
    let large = smooth_ring([48, 64, 24], 1.0, true);
    check_points(&cpus(3), &large, &[2, 3], &point_cycles()[0]);
}

/// Checks the most common box: periodic in x and y, closed at the bottom and the top, so that the mean is free.
#[test]
fn boxes_that_float() {
    let base = SolverOptions { tolerance: 1e-9, ..SolverOptions::default() };
    for problem in [smooth_ring([16, 32, 8], 1.0, true), smooth_ring([8, 24, 8], 3.0, true)].map(floating) {
        check_floating(&cpu, &problem, &[2, 3, 4, 5], &base);
    }
    for preconditioner in [Preconditioner::Line, Preconditioner::Jacobi, Preconditioner::Multigrid] {
        let options = SolverOptions { method: Method::Cg, preconditioner, ..base.clone() };
        check_floating(&cpu, &floating(rough_ring([10, 16, 6])), &[2, 3, 4], &options);
    }
}

#[test]
fn galerkin_levels() {
    jumps::check_all(&cpu, jumping());
    jumps::check_forms(&[cpus(1), cpus(2)], jumping(), &[1, 3, 7], &[]);
    for extents in [[8, 16, 5], [9, 20, 6]] {
        for options in &jumps::forms()[..5] {
            check(&cpu, ("holes", &rough_ring(extents), &[1, 2, 3]), options);
        }
    }
    let mut large = bubbles(Shape::new(40, 64, 24), 1e4);
    large.boundary = [RING, RING, [Boundary::Dirichlet(0.0), Boundary::default()]];
    check(&cpus(3), ("bubbles", &large, &[2, 3]), &multigrid());
}

#[test]
fn points_above_lines() {
    let options = jumps::points_above();
    for (name, mut problem, ranks) in jumps::rolling() {
        let is_odd = !problem.shape.ny.is_multiple_of(4);
        if is_odd {
            continue;
        }
        problem.boundary[1] = RING;
        problem.boundary[0] = [Boundary::Dirichlet(1.0), Boundary::default()];
        check(&cpu, (name, &problem, ranks), &options);
    }
}

/// Checks that new coefficients reach the halo rows on all levels.
#[test]
fn updates() {
    let shape = Shape::new(16, 32, 8);
    let after = smooth_ring([16, 32, 8], 3.0, true);
    let coefficient = Coefficient::Isotropic(vec![0.1; shape.cells()]);
    let stencils = [DiffusionProblem { coefficient, ..after.clone() }, after].map(|problem| problem.stencil().unwrap());
    let rhs = noise(shape.cells(), 6);
    for options in [point_cycles().swap_remove(0), multigrid()] {
        check_updated(&cpu, stencils.each_ref(), &[3], &options, &rhs, Like::up_to(1, 1e-6));
    }
}

/// Ranks choose what one would.
#[test]
fn what_is_chosen() {
    let (smooth, jumps) = (smooth_ring([16, 32, 8], 1.0, true), jumping().swap_remove(1).1);
    for problem in [smooth, jumps] {
        let stencil = problem.stencil().unwrap();
        let [alone, together] =
            [1, 3].map(|ranks| described(ranks, &stencil, &SolverOptions::default()).swap_remove(ranks - 1));
        assert_eq!((&alone.method, &alone.preconditioner), (&together.method, &together.preconditioner));
        assert_eq!(alone.smoother, together.smoother);
    }
}

/// Checks two copies, of which a rank has other rows than of the caller's arrays; x may have copies too.
#[test]
fn rings_of_an_odd_number_of_rows() {
    let both = |mut problem: DiffusionProblem| {
        problem.boundary[0] = RING;
        problem
    };
    let all =
        [rough_ring([8, 9, 4]), rough_ring([7, 13, 5]), both(rough_ring([9, 11, 4])), both(rough_ring([15, 6, 1]))];
    for problem in all {
        check_rough(&cpu, &problem, &[2, 3, 5]);
    }
    for problem in [both(rough_ring([9, 15, 6])), rough_ring([12, 27, 5])] {
        check(&cpu, ("holes", &problem, &[2, 3, 4]), &multigrid());
        let options = SolverOptions { precision: Precision::F32, tolerance: 1e-3, ..multigrid() };
        check_as_alone(&cpu, &problem, &[2, 3], &options);
    }
    // A first guess is repeated too, and a floating problem loses its mean.
    let mut floating = smooth_ring([9, 15, 6], 3.0, true);
    floating.boundary[2] = [Boundary::default(); 2];
    check_floating(&cpu, &floating, &[2, 3, 4], &multigrid());
    let stencil = both(rough_ring([9, 11, 4])).stencil().unwrap();
    let rhs = noise(9 * 11 * 4, 6);
    let (alone, u) = solve_alone(&cpu(None), &stencil, &multigrid(), &rhs, None);
    let from_there = SolverOptions { norm: Norm::Rhs, tolerance: 1e-5, ..cg(Preconditioner::Line) };
    let (again, v) = solve_on(4, &cpu, &stencil, &from_there, &rhs, Some(&u)).unwrap();
    assert!(alone.iterations > 1 && again.iterations == 0 && distance(&v, &u) < 1e-12, "{again:?}");
}

#[test]
fn what_is_not_there_is_said() {
    check_refusals(&cpu, &[3]);
}
