//! Numbers of an independent implementation at the papers' sizes: norms to ten digits, iteration counts to ±1.

use isobar_core::conformance::arrays::{self, vector};
use isobar_core::prelude::*;
use isobar_cpu::{Cpu, Vector};

fn problem(geometry: Geometry, n: usize, nz: usize) -> Helmholtz {
    Helmholtz { grid: GridOptions { geometry, nx: n, ny: n, nz, ..GridOptions::default() }, ..Helmholtz::default() }
}

fn solve(problem: &Helmholtz, rhs: RhsKind, options: &SolverOptions) -> Outcome {
    let stencil = problem.stencil().unwrap();
    let b = problem.rhs(rhs, 0, Weighting::None).unwrap();
    arrays::solve(&Cpu::with_all_threads().unwrap(), &stencil, options, &b).0
}

fn multigrid(smoother: Smoother) -> SolverOptions {
    SolverOptions {
        method: Method::Multigrid,
        multigrid: MultigridOptions { smoother, ..MultigridOptions::default() },
        ..SolverOptions::default()
    }
}

fn assert_count(outcome: &Outcome, expected: usize, what: &str) {
    assert!(outcome.converged() && outcome.relative_residual <= 1e-5, "{what}: {outcome:?}");
    assert!(outcome.iterations.abs_diff(expected) <= 1, "{what}: {} instead of {expected}", outcome.iterations);
}

#[test]
fn norms_on_the_panel() {
    let problem = problem(Geometry::Panel, 128, 128);
    let stencil = problem.stencil().unwrap();
    let cpu = Cpu::with_all_threads().unwrap();
    let layout = Supports::<TensorProduct>::layout(&cpu, &stencil).unwrap();
    let a = Supports::operator::<f64>(&cpu, &stencil).unwrap();
    let field = problem.rhs(RhsKind::Random, 0, Weighting::None).unwrap();
    let (mut u, mut v) = (vector::<_, f64>(&cpu, &layout, &field), cpu.zeros::<f64>(&layout).unwrap());
    let mut scalars = cpu.scalars().unwrap();
    let mut products = |u: &Vector<f64>, v: &Vector<f64>| {
        cpu.dot(v, v, Scalar::new(0).of(&mut scalars)).unwrap();
        cpu.dot(u, v, Scalar::new(1).of(&mut scalars)).unwrap();
        let bank = cpu.read(&scalars).unwrap();
        [bank[Scalar::new(0).index()].sqrt(), bank[Scalar::new(1).index()]]
    };
    a.apply(&mut u, &mut v).unwrap();
    let [norm, product] = products(&u, &v);
    assert!((norm / 8.189_828_949_2e1 - 1.0).abs() < 1e-9, "‖Au‖ = {norm}");
    assert!((product / 2.105_361_546_0e4 - 1.0).abs() < 1e-9, "u·Au = {product}");
    a.solve_lines(&u, &mut v).unwrap();
    let [norm, product] = products(&u, &v);
    assert!((norm / 1.215_492_985_1e8 - 1.0).abs() < 1e-8, "‖M⁻¹u‖ = {norm}");
    assert!((product / 1.145_325_040_2e10 - 1.0).abs() < 1e-8, "u·M⁻¹u = {product}");
}

#[test]
fn iteration_counts() {
    check_counts(64, [[49, 11, 4], [62, 10, 5], [49, 9, 4], [62, 9, 5]]);
}

#[test]
#[ignore = "large; .ci/run has it"]
fn iteration_counts_of_a_larger_grid() {
    check_counts(128, [[61, 11, 4], [79, 9, 5], [53, 9, 4], [72, 9, 5]]);
}

/// Checks the table's rows for n × n × 128 cells: the panel and the box, each with a random and a constant right-hand side.
fn check_counts(n: usize, table: [[usize; 3]; 4]) {
    let cg = SolverOptions { method: Method::Cg, ..SolverOptions::default() };
    let rows =
        [Geometry::Panel, Geometry::Box].into_iter().flat_map(|g| [(g, RhsKind::Random), (g, RhsKind::Constant)]);
    for ((geometry, rhs), expected) in rows.zip(table) {
        let problem = problem(geometry, n, 128);
        let options = [cg.clone(), multigrid(Smoother::LineJacobi), multigrid(Smoother::LineRedBlack)];
        for (options, expected) in options.iter().zip(expected) {
            assert_count(&solve(&problem, rhs, options), expected, &format!("{geometry:?} {rhs:?} {n} {options:?}"));
        }
    }
}

#[test]
fn full_multigrid_and_mixed_precision_take_no_more() {
    let problem = problem(Geometry::Panel, 128, 128);
    for (rhs, full, mixed) in [(RhsKind::Random, 3, 4), (RhsKind::Constant, 2, 5)] {
        let mut options = multigrid(Smoother::LineRedBlack);
        options.multigrid.start = Start::Full;
        assert_count(&solve(&problem, rhs, &options), full, "full multigrid");
        let options = SolverOptions { precision: Precision::Mixed, ..multigrid(Smoother::LineRedBlack) };
        assert_count(&solve(&problem, rhs, &options), mixed, "mixed");
    }
}

#[test]
fn robustness_in_the_courant_number() {
    for (courant, sweeps, expected) in
        [(2.1, 2, 7), (4.2, 2, 8), (8.4, 2, 9), (16.8, 2, 10), (84.0, 2, 60), (84.0, 15, 11), (84.0, 30, 9)]
    {
        let problem = Helmholtz { courant, ..problem(Geometry::Box, 128, 64) };
        let mut options = multigrid(Smoother::LineJacobi);
        options.multigrid.coarse_sweeps = sweeps;
        let outcome = solve(&problem, RhsKind::Constant, &options);
        assert_count(&outcome, expected, &format!("ν = {courant}, {sweeps} sweeps"));
    }
}

/// Single precision cannot represent the solution of this problem, and the outcome must report that.
#[test]
fn single_precision_is_judged_in_double() {
    let options = SolverOptions { precision: Precision::F32, ..multigrid(Smoother::LineRedBlack) };
    let outcome = solve(&problem(Geometry::Panel, 64, 128), RhsKind::Random, &options);
    assert_eq!(outcome.stop, Stop::Stagnated);
    assert!(outcome.relative_residual > 1e-5);
}
