//! Deflation on several ranks: aggregates that lie across slabs, and those of the neighbours' rows.

use std::sync::Arc;

use isobar_core::array::ArrayViewMut;
use isobar_core::backend::part::PartBackend;
use isobar_core::build::{Solve, System};
use isobar_core::layout::Shape;
use isobar_core::operator::Guess;
use isobar_core::options::{CoarseSolve, Deflation, Method, Preconditioner, SolverOptions, Stripes};
use isobar_core::problem::{Boundary, Coefficient, DiffusionProblem, RhsKind, Weighting};
use isobar_core::reference::Reference;
use isobar_core::solver::ignore;
use isobar_core::stencil::{Diffusion, Supports};
use isobar_cpu::Cpu;
use isobar_dist::threads::Threads;
use isobar_dist::{Communicator, Distributed, threads};

use crate::jumps::{bubbles, pieces};
use crate::rocks::rough;
use crate::solves::{distance, joined, rows_of, solve_alone, solve_on};

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
    ranks: &[usize],
    options: &SolverOptions,
) where
    Distributed<B>: Supports<Diffusion>,
{
    let stencil = problem.stencil().unwrap();
    let mut rhs = problem.rhs(Some(RhsKind::Random), 3, Weighting::None).unwrap();
    if let Some(components) = stencil.components() {
        // Sources that balance.
        let floating = components.floating();
        let mut means = vec![0.0; floating.count()];
        (0..rhs.len()).for_each(|n| floating.aggregate(n).into_iter().for_each(|component| means[component] += rhs[n]));
        means.iter_mut().zip(floating.sizes()).for_each(|(mean, size)| *mean /= size as f64);
        (0..rhs.len()).for_each(|n| floating.aggregate(n).into_iter().for_each(|component| rhs[n] -= means[component]));
    }
    let (alone, u) = solve_alone(&backend(None), &stencil, options, &rhs, None);
    assert!(alone.converged(), "{options:?}: {alone:?}");
    for &ranks in ranks {
        let what = format!("{} on {ranks} ranks, {options:?}", problem.shape);
        let (outcome, together) = solve_on(ranks, &backend, &stencil, options, &rhs, None).unwrap();
        assert!(outcome.converged(), "{what}: {outcome:?}");
        let few = 1 + alone.iterations / 50;
        assert!(outcome.iterations.abs_diff(alone.iterations) <= few, "{what}: {outcome:?} instead of {alone:?}");
        let error = distance(&together, &u);
        assert!(error < 1e-6, "{what}: {error:e}");
    }
}

#[test]
fn deflated_solves_are_those_of_one_rank() {
    let mut ring = bubbles(Shape::new(12, 15, 6), 1e4);
    ring.boundary[0] = [Boundary::Periodic; 2];
    let mut floating = bubbles(Shape::new(9, 14, 5), 1e3);
    floating.boundary = [[Boundary::default(); 2]; 3];
    let flat = bubbles(Shape::new(16, 17, 1), 1e4);
    let problems: [(DiffusionProblem, &[usize]); 5] = [
        (ring, &[1, 2, 3, 4, 6]),
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
            if is_flat && stripes == Some(Stripes::Blocks([2, 3, 2])) {
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
        let parts = threads::run(3, |world| {
            let rank = world.rank();
            let backend = Distributed::new(Cpu::new(1)?, Arc::new(world));
            let slab = backend.slabs(shape)?.of(rank);
            let mut system = System::new(&backend, &before, options)?;
            system.update(&after)?;
            let mut v = vec![0.0; slab.shape(shape).cells()];
            let target = ArrayViewMut::c_order(&mut v, slab.shape(shape))?;
            let outcome = system.solve(rows_of(&rhs, shape, slab).into(), target.into(), Guess::Zero, &mut ignore)?;
            assert!(outcome.iterations.abs_diff(alone.iterations) <= 1, "{outcome:?} instead of {alone:?}");
            Ok((slab, v))
        });
        assert!(distance(&joined(shape, &parts.unwrap()), &u) < 1e-6);
    }
}
