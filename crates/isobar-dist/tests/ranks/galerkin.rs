//! Diffusion with jumping coefficients: Galerkin levels on several ranks of cores.

use isobar_core::prelude::*;
use isobar_core::stencil::galerkin::{Couplings, Serial, bodies};

use crate::jumps::{
    bubbles, check, check_all, check_forms, check_pieces, check_updates, forms, multigrid, pieces, points_above,
    problems, rolling,
};
use crate::levels;
use crate::rocks::rough;
use crate::solves::{Like, check_updated, distance, solve_alone, solve_updated};
use crate::{cpu, cpus, described};

#[test]
fn jumps_are_solved_for_as_on_one_rank() {
    check_all(&cpu, problems());
}

#[test]
fn levels_are_those_of_one_rank() {
    levels::check_all(&cpu, &[2, 3, 4]);
}

#[test]
fn every_form_of_cycles() {
    check_forms(&[cpus(1), cpus(2)], problems(), &[0, 5, 6, 8, 10], &[]);
}

#[test]
fn small_grids() {
    for (name, problem) in [("bubbles", bubbles(Shape::new(9, 21, 6), 1e6)), ("holes", rough(Shape::new(8, 16, 5)))] {
        for options in &forms()[..5] {
            check(&cpu, (name, &problem, &[1, 2, 3]), options);
        }
    }
}

/// Checks the hybrid smoother: asked for, chosen, in mixed precision, and with other coefficients.
#[test]
fn points_above_lines() {
    let by_name = points_above();
    let forms = [
        by_name.clone(),
        SolverOptions { method: Method::Multigrid, max_iterations: 6, ..by_name.clone() },
        SolverOptions { precision: Precision::Mixed, ..by_name.clone() },
    ];
    for (name, problem, ranks) in rolling() {
        for options in &forms {
            check(&cpu, (name, &problem, ranks), options);
        }
    }
    let (name, problem, ranks) = &rolling()[0];
    check(&cpu, (name, problem, ranks), &SolverOptions { tolerance: 1e-7, ..SolverOptions::default() });
    let stencils = [problem.clone(), bubbles(problem.shape, 3.0)].map(|problem| problem.stencil().unwrap());
    let rhs = problem.rhs(Some(RhsKind::Random), 3, Weighting::None).unwrap();
    check_updated(&cpu, stencils.each_ref(), &[3], &by_name, &rhs, Like::up_to(1, 1e-6));
}

/// Two ranks choose the hybrid smoother like one.
#[test]
fn points_above_lines_are_chosen() {
    let stencil = rolling()[0].1.stencil().unwrap();
    let options = SolverOptions::default();
    let smoother = |ranks: usize| {
        let of = described(ranks, &stencil, &options).swap_remove(0);
        (of.smoother, of.method, of.shares.map(|shares| shares.slabs))
    };
    assert_eq!(smoother(1), (Smoother::PointLine, "cg".into(), None));
    assert_eq!(smoother(2), (Smoother::PointLine, "cg".into(), Some(2)));
}

/// Checks grids large enough for several threads a rank, whose chunks of planes have boundaries of their own.
#[test]
fn several_threads_a_rank() {
    let problem = bubbles(Shape::new(40, 64, 24), 1e6);
    check(&cpus(3), ("bubbles", &problem, &[2, 3]), &multigrid());
}

/// Every rank has its own cells of strongly coupled aggregates, and all have the same data of shared ones.
#[test]
fn bodies_are_shared_out() {
    let shape = Shape::new(14, 32, 12);
    let layout = Layout::new(shape).unwrap();
    let matrix: Couplings = Couplings::of(&Serial, &bubbles(shape, 1e6).stencil().unwrap());
    let (all, starts) = (bodies::find(&Serial, &matrix, Precision::F64).unwrap(), [0, 8, 14, 32]);
    for bodies in &all {
        let parts = [0, 1, 2].map(|rank| bodies.part(&layout, &starts, rank));
        let shared = parts[0].shared;
        let mut cells = Vec::new();
        let mut count = shared;
        for (part, start) in parts.iter().zip(starts) {
            assert_eq!((part.shared, &part.factors[..shared]), (shared, &parts[0].factors[..shared]));
            let plane = 2 * layout.half_plane() as u32;
            cells.extend(part.cells.iter().map(|cell| cell + start as u32 * plane));
            count += part.factors.len() - shared;
        }
        let mut expected = bodies.cells.clone();
        [&mut cells, &mut expected].into_iter().for_each(|cells| cells.sort_unstable());
        assert_eq!((cells, count), (expected, bodies.factors.len()));
    }
    let shared: usize = all.iter().map(|bodies| bodies.part(&layout, &starts, 0).shared).sum();
    assert!(shared > 0 && shared < all.iter().map(|bodies| bodies.factors.len()).sum());
}

#[test]
fn disconnected_pieces() {
    let problem = pieces(Shape::new(12, 24, 8));
    assert!(problem.stencil().unwrap().components(&Serial).unwrap().anchored.contains(&true));
    check_pieces(&cpu);
}

#[test]
fn updates() {
    check_updates(&cpu, &[2, 3]);
}

/// Cycles that relax points, chosen for smooth coefficients, are replaced by Galerkin levels, on all ranks at once.
#[test]
fn slow_cycles_are_replaced() {
    let shape = Shape::new(12, 24, 12);
    let open = SolverOptions { tolerance: 1e-9, ..SolverOptions::default() };
    let by_name = SolverOptions { method: Method::Multigrid, ..open.clone() };
    let rhs = bubbles(shape, 1.0).rhs(Some(RhsKind::Random), 3, Weighting::None).unwrap();
    for (options, contrast, used, said) in [
        (open, 1e6, "multigrid", "continued with cg, preconditioner multigrid, lines on Galerkin"),
        (by_name, 50.0, "none", "continued with multigrid, lines on Galerkin"),
    ] {
        let [before, after] = [1.2, contrast].map(|contrast| bubbles(shape, contrast).stencil().unwrap());
        let (_, u) = solve_alone(&cpu(None), &after, &multigrid(), &rhs, None);
        let (outcome, preconditioner, v) = solve_updated(3, &cpu, [&before, &after], &options, &rhs).unwrap();
        let is_said = |note: &String| note.contains(said);
        assert!(outcome.converged() && outcome.notes.iter().any(is_said), "{outcome:?}");
        assert_eq!(preconditioner, used);
        assert!(distance(&v, &u) < 1e-6);
    }
}
