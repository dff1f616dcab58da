//! Deflation on several ranks: aggregates that lie across slabs, and those of the neighbours' rows.

use isobar_core::backend::part::PartBackend;
use isobar_core::layout::Shape;
use isobar_core::options::{CoarseSolve, Deflation, Method, Preconditioner, SolverOptions, Stripes};
use isobar_core::problem::{Boundary, Coefficient, DiffusionProblem};
use isobar_core::reference::Reference;
use isobar_core::stencil::{Diffusion, Supports};
use isobar_cpu::Cpu;
use isobar_dist::Distributed;
use isobar_dist::threads::Threads;

use crate::jumps::{bubbles, pieces};
use crate::rocks::rough;
use crate::solves::{Parts, compare_with_alone, distance, solve_alone, solve_updated};

fn deflated(preconditioner: Preconditioner, stripes: Stripes, coarse: CoarseSolve) -> SolverOptions {
    SolverOptions {
        method: Method::Cg,
        preconditioner,
        tolerance: 1e-8,
        deflation: Some(Deflation { stripes, coarse }),
        ..SolverOptions::default()
    }
}

fn forms() -> [SolverOptions; 5] {
    [
        deflated(Preconditioner::Jacobi, Stripes::HalfRows, CoarseSolve::Inverse),
        deflated(Preconditioner::Line, Stripes::HalfRows, CoarseSolve::Triangular),
        deflated(Preconditioner::Ic { block: None }, Stripes::Blocks([2, 3, 2]), CoarseSolve::Auto),
        deflated(Preconditioner::Neumann { order: 2 }, Stripes::Blocks([3, 5, 1]), CoarseSolve::Triangular),
        deflated(Preconditioner::Line, Stripes::Bodies, CoarseSolve::Auto),
    ]
}

/// The iterations of one rank but for one, or two of a hundred, and its solution.
fn check<B: PartBackend + Supports<Diffusion>>(
    backend: impl Fn(Option<&Threads>) -> B + Sync,
    problem: &DiffusionProblem,
    ranks: &[impl Parts],
    options: &SolverOptions,
) where
    Distributed<B>: Supports<Diffusion>,
{
    compare_with_alone(backend, problem, ranks, options, |iterations| 1 + iterations / 50, 1e-6);
}

#[test]
fn deflated_solves_are_those_of_one_rank() {
    let mut ring = bubbles(Shape::new(12, 15, 6), 1e4);
    ring.boundary[0] = [Boundary::Periodic; 2];
    let mut floating = bubbles(Shape::new(9, 14, 5), 1e3);
    floating.boundary = [[Boundary::default(); 2]; 3];
    let flat = bubbles(Shape::new(16, 17, 1), 1e4);
    let mut around = bubbles(Shape::new(12, 16, 6), 1e4);
    around.boundary =
        [[Boundary::Periodic; 2], [Boundary::Periodic; 2], [Boundary::Dirichlet(0.0), Boundary::default()]];
    let problems: [(DiffusionProblem, &[usize]); 6] = [
        (ring, &[1, 2, 3, 4, 6]),
        (around, &[2, 3, 4]),
        (rough(Shape::new(9, 13, 5)), &[2, 3, 6]),
        (pieces(Shape::new(11, 16, 6)), &[2, 3, 4]),
        (floating, &[2, 3]),
        (flat, &[2, 3, 17]),
    ];
    for (problem, ranks) in problems {
        for options in forms() {
            // One layer is not divided.
            let is_flat = problem.shape.nz == 1;
            let stripes = options.deflation.as_ref().map(|deflation| deflation.stripes);
            // Nor does elimination go around rings of rows.
            let is_around = problem.boundary[1] == [Boundary::Periodic; 2];
            if (is_flat || is_around) && stripes == Some(Stripes::Blocks([2, 3, 2])) {
                continue;
            }
            check(|_| Reference, &problem, &ranks[..2], &options);
            check(|_| Cpu::new(1).unwrap(), &problem, ranks, &options);
        }
    }
    check(|_| Cpu::new(2).unwrap(), &bubbles(Shape::new(40, 32, 24), 1e3), &[2, 3], &forms()[1]);
}

/// New coefficients reach E and the bodies on all ranks.
#[test]
fn updates() {
    let shape = Shape::new(11, 16, 6);
    let after = bubbles(shape, 1e4);
    let before = DiffusionProblem { coefficient: Coefficient::Isotropic(vec![3.0; shape.cells()]), ..after.clone() };
    let (before, after) = (before.stencil().unwrap(), after.stencil().unwrap());
    let rhs: Vec<f64> = (0..shape.cells()).map(|n| isobar_core::problem::random(6, n)).collect();
    for options in [&forms()[0], &forms()[4]] {
        let (alone, u) = solve_alone(&Cpu::new(1).unwrap(), &after, options, &rhs, None);
        let (outcome, _, v) = solve_updated(3, |_| Cpu::new(1).unwrap(), [&before, &after], options, &rhs).unwrap();
        assert!(outcome.iterations.abs_diff(alone.iterations) <= 1, "{outcome:?} instead of {alone:?}");
        assert!(distance(&v, &u) < 1e-6);
    }
}
