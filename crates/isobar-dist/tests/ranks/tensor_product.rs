//! The tensor-product operator.

use std::sync::Arc;

use isobar_core::array::ArrayViewMut;
use isobar_core::backend::Backend;
use isobar_core::backend::part::PartBackend;
use isobar_core::build::{Solve, System};
use isobar_core::grid::GridOptions;
use isobar_core::options::{Form, Method, Norm, Preconditioner, Smoother, SolverOptions, Start};
use isobar_core::problem::{Helmholtz, RhsKind, Weighting};
use isobar_core::real::Precision;
use isobar_core::reference::Reference;
use isobar_core::stencil::{Stencil, Supports, TensorProduct};
use isobar_cpu::Cpu;
use isobar_dist::{Communicator, Distributed, threads};

use super::{distance, rows_of, solve_alone, solve_on};

fn problem(nx: usize, ny: usize, nz: usize) -> Helmholtz {
    Helmholtz { grid: GridOptions { nx, ny, nz, ..GridOptions::default() }, ..Helmholtz::default() }
}

fn rhs(problem: &Helmholtz) -> Vec<f64> {
    problem.rhs(RhsKind::Random, 7, Weighting::None).unwrap()
}

/// Grids with odd and even sizes, and all numbers of ranks that are tried on them.
const GRIDS: [([usize; 3], &[usize]); 4] =
    [([7, 13, 5], &[1, 2, 3, 4, 6]), ([16, 32, 8], &[1, 2, 3, 4, 6]), ([33, 21, 4], &[2, 3, 6]), ([3, 6, 2], &[2, 3])];

/// A u is the same number by number: rows do not know of ranks.
fn check_apply<B: PartBackend + Supports<TensorProduct>>(backend: impl Fn() -> B + Sync)
where
    Distributed<B>: Supports<TensorProduct>,
{
    for ([nx, ny, nz], ranks) in GRIDS {
        let problem = problem(nx, ny, nz);
        let (stencil, u) = (problem.stencil().unwrap(), rhs(&problem));
        let shape = stencil.shape();
        let mut expected = vec![0.0; u.len()];
        let mut alone = System::new(&backend(), &stencil, &SolverOptions::default()).unwrap();
        let whole = isobar_core::layout::Slab::whole(shape);
        let target = ArrayViewMut::c_order(&mut expected, shape).unwrap();
        alone.apply(rows_of(&u, shape, whole).into(), target.into()).unwrap();
        // One row a rank can be applied, if not solved for by multigrid.
        let options = SolverOptions { method: Method::Cg, ..SolverOptions::default() };
        for &ranks in ranks.iter().chain([&ny]) {
            let parts = threads::run(ranks, |world| {
                let rank = world.rank();
                let backend = Distributed::new(backend(), Arc::new(world));
                let slab = backend.slabs(shape)?.of(rank);
                let mut system = System::new(&backend, &stencil, &options)?;
                let mut v = vec![0.0; slab.shape(shape).cells()];
                let target = ArrayViewMut::c_order(&mut v, slab.shape(shape))?;
                system.apply(rows_of(&u, shape, slab).into(), target.into())?;
                Ok((slab, v))
            });
            assert_eq!(super::joined(shape, &parts.unwrap()), expected, "{shape} on {ranks} ranks");
        }
    }
}

#[test]
fn apply() {
    check_apply(|| Reference);
    check_apply(|| Cpu::new(1).unwrap());
}

/// The same iterations as on one device, and the same solution to rounding.
fn check_solves<B: PartBackend + Supports<TensorProduct>>(
    backend: impl Fn() -> B + Sync,
    problem: &Helmholtz,
    ranks: &[usize],
    options: &SolverOptions,
) where
    Distributed<B>: Supports<TensorProduct>,
{
    let (stencil, rhs) = (problem.stencil().unwrap(), rhs(problem));
    let (alone, u) = solve_alone(&backend(), &stencil, options, &rhs, None);
    assert!(alone.converged() || alone.iterations == options.max_iterations, "{options:?}: {alone:?}");
    // Single precision rounds more.
    let tolerance = if options.precision == Precision::F64 { 1e-9 } else { 1e-5 };
    for &ranks in ranks {
        let what = format!("{} on {ranks} ranks, {options:?}", stencil.shape());
        let (outcome, together) = solve_on(ranks, &backend, &stencil, options, &rhs, None).unwrap();
        assert_eq!((outcome.stop, outcome.iterations), (alone.stop, alone.iterations), "{what}");
        let error = distance(&together, &u);
        assert!(error <= tolerance, "{what}: {error:e}");
        for (a, b) in outcome.history.iter().zip(&alone.history) {
            // Krylov methods amplify rounding, single precision rounds more.
            let slack = match (options.precision, options.method) {
                (Precision::F64, Method::Multigrid) => 1e-6,
                (Precision::F64, _) => 1e-3,
                _ => 5e-2,
            };
            assert!((a - b).abs() <= slack * b, "{what}: residual {a:e} instead of {b:e}");
        }
    }
}

fn krylov() -> Vec<SolverOptions> {
    let base = SolverOptions { method: Method::Cg, tolerance: 1e-7, ..SolverOptions::default() };
    let with = |preconditioner| SolverOptions { preconditioner, ..base.clone() };
    vec![
        with(Preconditioner::Line),
        // Thin layers are not for it.
        SolverOptions { max_iterations: 25, ..with(Preconditioner::Jacobi) },
        SolverOptions { form: Form::Textbook, ..with(Preconditioner::Line) },
        SolverOptions { norm: Norm::Scaled, ..with(Preconditioner::Line) },
        // Rounding moves its count by one or two: so many iterations, then.
        SolverOptions { method: Method::Bicgstab, max_iterations: 8, ..with(Preconditioner::Line) },
        SolverOptions { precision: Precision::F32, tolerance: 1e-2, ..with(Preconditioner::Line) },
    ]
}

#[test]
fn krylov_methods() {
    for ([nx, ny, nz], ranks) in GRIDS {
        let problem = problem(nx, ny, nz);
        for options in krylov() {
            check_solves(|| Reference, &problem, ranks, &options);
            check_solves(|| Cpu::new(1).unwrap(), &problem, ranks, &options);
        }
    }
}

#[test]
fn a_rank_for_every_row() {
    let problem = problem(6, 5, 4);
    for options in krylov() {
        check_solves(|| Reference, &problem, &[5], &options);
        check_solves(|| Cpu::new(1).unwrap(), &problem, &[5], &options);
    }
    // Sweeps begin with the red columns of the whole grid, wherever a rank begins.
    let mut options = SolverOptions { method: Method::Multigrid, tolerance: 1e-6, ..SolverOptions::default() };
    options.multigrid.levels = Some(1);
    for smoother in [Smoother::LineRedBlack, Smoother::LineJacobi] {
        options.multigrid.smoother = smoother;
        check_solves(|| Reference, &problem, &[5], &options);
        check_solves(|| Cpu::new(1).unwrap(), &problem, &[5], &options);
    }
}

fn multigrid() -> Vec<SolverOptions> {
    let base = SolverOptions { method: Method::Multigrid, tolerance: 1e-8, ..SolverOptions::default() };
    let mut all = vec![base.clone()];
    let mut with = |change: &dyn Fn(&mut SolverOptions)| {
        let mut options = base.clone();
        change(&mut options);
        all.push(options);
    };
    with(&|options| options.multigrid.start = Start::Full);
    with(&|options| {
        options.multigrid.smoother = Smoother::LineJacobi;
        options.tolerance = 1e-6;
    });
    with(&|options| (options.multigrid.pre, options.multigrid.post) = (2, 2));
    with(&|options| (options.multigrid.pre, options.multigrid.post) = (0, 1));
    with(&|options| options.multigrid.relaxation = Some(1.15));
    with(&|options| options.multigrid.levels = Some(1));
    with(&|options| options.multigrid.levels = Some(2));
    with(&|options| (options.method, options.preconditioner) = (Method::Cg, Preconditioner::Multigrid));
    with(&|options| (options.precision, options.tolerance) = (Precision::F32, 1e-2));
    with(&|options| options.precision = Precision::Mixed);
    all
}

#[test]
fn multigrid_methods() {
    for ([nx, ny, nz], ranks) in GRIDS {
        let problem = problem(nx, ny, nz);
        for options in multigrid() {
            check_solves(|| Reference, &problem, ranks, &options);
            check_solves(|| Cpu::new(1).unwrap(), &problem, ranks, &options);
        }
    }
}

/// Large enough for several threads a rank, whose chunks of planes have boundaries of their own.
#[test]
fn several_threads_a_rank() {
    let problem = problem(64, 64, 16);
    for options in [&krylov()[0], &multigrid()[0]] {
        check_solves(|| Cpu::new(3).unwrap(), &problem, &[1, 2, 3], options);
    }
}

#[test]
fn a_first_guess() {
    let problem = problem(16, 24, 6);
    let (stencil, rhs) = (problem.stencil().unwrap(), rhs(&problem));
    for options in [&krylov()[0], &multigrid()[0]] {
        let cpu = || Cpu::new(1).unwrap();
        let rough = SolverOptions { tolerance: 1e-2, ..options.clone() };
        let (_, guess) = solve_alone(&cpu(), &stencil, &rough, &rhs, None);
        let (alone, u) = solve_alone(&cpu(), &stencil, options, &rhs, Some(&guess));
        let (outcome, together) = solve_on(3, cpu, &stencil, options, &rhs, Some(&guess)).unwrap();
        assert_eq!(outcome.iterations, alone.iterations);
        assert!(distance(&together, &u) < 1e-9);
    }
}

/// New coefficients reach all levels on all ranks.
#[test]
fn updates() {
    let problem = problem(16, 24, 6);
    let other = Helmholtz { courant: 20.0, ..problem.clone() };
    let (before, after, rhs) = (problem.stencil().unwrap(), other.stencil().unwrap(), rhs(&problem));
    let options = &multigrid()[0];
    let (alone, u) = solve_alone(&Reference, &after, options, &rhs, None);
    let shape = before.shape();
    let parts = threads::run(3, |world| {
        let rank = world.rank();
        let backend = Distributed::new(Cpu::new(1)?, Arc::new(world));
        assert_eq!(backend.device().threads, 1);
        let slab = backend.slabs(shape)?.of(rank);
        let mut system = System::new(&backend, &before, options)?;
        system.update(&after)?;
        let mut v = vec![0.0; slab.shape(shape).cells()];
        let target = ArrayViewMut::c_order(&mut v, slab.shape(shape))?;
        let guess = isobar_core::operator::Guess::Zero;
        let outcome =
            system.solve(rows_of(&rhs, shape, slab).into(), target.into(), guess, &mut isobar_core::solver::ignore)?;
        assert_eq!(outcome.iterations, alone.iterations);
        Ok((slab, v))
    });
    assert!(distance(&super::joined(shape, &parts.unwrap()), &u) < 1e-9);
}
