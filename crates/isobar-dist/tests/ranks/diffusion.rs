//! The diffusion operator.

use isobar_core::backend::part::PartBackend;
use isobar_core::layout::Shape;
use isobar_core::options::{Method, Preconditioner, SolverOptions};
use isobar_core::problem::{Boundary, Coefficient, DiffusionProblem, RhsKind, Weighting, random};
use isobar_core::reference::Reference;
use isobar_core::stencil::{Diffusion, Supports};
use isobar_cpu::Cpu;
use isobar_dist::Distributed;
use isobar_dist::threads::Threads;

use crate::solves::{distance, solve_alone, solve_on};

/// Coefficients over three orders of magnitude, other ones in every direction, inactive cells, reaction in some, Dirichlet and
/// Neumann sides, x periodic where it can be.
fn problem(shape: Shape) -> DiffusionProblem {
    let field = |seed: u64| (0..shape.cells()).map(|n| 10f64.powf(1.5 * random(seed, n))).collect();
    let mut problem = DiffusionProblem::new(shape, Coefficient::Diagonal([field(1), field(2), field(3)]));
    problem.active = Some((0..shape.cells()).map(|n| random(4, n) > -0.8).collect());
    problem.reaction = Some((0..shape.cells()).map(|n| random(5, n).max(0.01)).collect());
    if shape.nx.is_multiple_of(2) {
        problem.boundary[0] = [Boundary::Periodic; 2];
    }
    problem.boundary[1] = [Boundary::Dirichlet(1.0), Boundary::Dirichlet(0.0)];
    problem
}

fn check<B: PartBackend + Supports<Diffusion>>(
    backend: impl Fn(Option<&Threads>) -> B + Sync,
    problem: &DiffusionProblem,
    ranks: &[usize],
) where
    Distributed<B>: Supports<Diffusion>,
{
    let stencil = problem.stencil().unwrap();
    let rhs = problem.rhs(Some(RhsKind::Random), 3, Weighting::None).unwrap();
    for preconditioner in [Preconditioner::Jacobi, Preconditioner::Line] {
        let options = SolverOptions { method: Method::Cg, preconditioner, tolerance: 1e-9, ..SolverOptions::default() };
        let (alone, u) = solve_alone(&backend(None), &stencil, &options, &rhs, None);
        assert!(alone.converged(), "{alone:?}");
        for &ranks in ranks {
            let (outcome, together) = solve_on(ranks, &backend, &stencil, &options, &rhs, None).unwrap();
            assert!(outcome.converged());
            // Rounding may move the count of a long iteration by one.
            assert!(outcome.iterations.abs_diff(alone.iterations) <= 1, "{ranks} ranks: {outcome:?}");
            let error = distance(&together, &u);
            assert!(error < 1e-7, "{} on {ranks} ranks: {error:e}", problem.shape);
        }
    }
}

#[test]
fn conjugate_gradients() {
    for (nx, ny, nz) in [(7, 13, 5), (8, 16, 4), (12, 9, 1)] {
        let problem = problem(Shape::new(nx, ny, nz));
        check(|_| Reference, &problem, &[1, 2, 3, 6]);
        check(|_| Cpu::new(1).unwrap(), &problem, &[1, 2, 3, 6]);
    }
    check(|_| Cpu::new(2).unwrap(), &problem(Shape::new(40, 40, 24)), &[2, 3]);
}

#[test]
fn what_is_not_there_is_said() {
    let shape = Shape::new(6, 8, 4);
    let rhs = vec![0.0; shape.cells()];
    let why = |problem: &DiffusionProblem, options: &SolverOptions| {
        solve_on(2, |_| Cpu::new(1).unwrap(), &problem.stencil().unwrap(), options, &rhs, None).unwrap_err().to_string()
    };
    let cg = SolverOptions { method: Method::Cg, preconditioner: Preconditioner::Line, ..SolverOptions::default() };
    let mut closed = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
    assert!(why(&closed, &cg).contains("nothing fixes u"));
    closed.boundary[0] = [Boundary::Dirichlet(0.0); 2];
    assert!(why(&closed, &SolverOptions::default()).contains("multigrid for diffusion on several ranks"));
    closed.boundary[1] = [Boundary::Periodic; 2];
    assert!(why(&closed, &cg).contains("periodic in y"));
}
