//! Conjugate gradients apply A once an iteration, and M⁻¹ once.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use isobar_core::conformance::arrays::{cg, distance, fetch, norm, solve, vector};
use isobar_core::precond::Line;
use isobar_core::prelude::*;
use isobar_core::reference::{Plain, Vector};
use isobar_core::solver::cg::Cg;
use isobar_core::solver::monitor::Patience;
use isobar_core::solver::{Iteration, Monitor, Run};

struct Counting {
    inner: Plain<TensorProduct, f64>,
    applications: AtomicUsize,
    line_solves: AtomicUsize,
}

impl Operator<Reference, f64> for Counting {
    fn backend(&self) -> &Reference {
        &Reference
    }
    fn layout(&self) -> &Layout {
        self.inner.layout()
    }
    fn apply(&self, x: &mut Vector<f64>, y: &mut Vector<f64>) -> Result<()> {
        self.applications.fetch_add(1, Relaxed);
        self.inner.apply(x, y)
    }
}

impl LineSolver<Reference, f64> for Counting {
    fn backend(&self) -> &Reference {
        &Reference
    }
    fn solve_lines(&self, r: &Vector<f64>, z: &mut Vector<f64>) -> Result<()> {
        self.line_solves.fetch_add(1, Relaxed);
        self.inner.solve_lines(r, z)
    }
}

#[test]
fn once_an_iteration() {
    let problem =
        Helmholtz { grid: GridOptions { nx: 16, ny: 12, nz: 10, ..GridOptions::default() }, ..Helmholtz::default() };
    let stencil = problem.stencil().unwrap();
    let layout = Layout::new(stencil.shape()).unwrap();
    let rhs = problem.rhs(RhsKind::Random, 0, Weighting::None).unwrap();
    let (mut b, mut u) = (vector(&Reference, &layout, &rhs), Reference.zeros::<f64>(&layout).unwrap());
    let norm = norm(&rhs);
    {
        let counting = std::sync::Arc::new(Counting {
            inner: Plain::new(&stencil).unwrap(),
            applications: AtomicUsize::new(0),
            line_solves: AtomicUsize::new(0),
        });
        let lines = Box::new(Line(counting.clone() as _));
        let mut cg = Cg::new(counting.clone() as _, lines).unwrap();
        let mut ignore = ignore;
        let mut monitor = Monitor::new(norm, 1e-8, 200, Patience::Krylov, &mut ignore);
        let _ = monitor.begin(norm);
        cg.begin(&b, &mut u, Guess::Zero).unwrap();
        let guess = Guess::Zero;
        cg.run(Run { b: &mut b, u: &mut u, guess, best: None, monitor: &mut monitor }).unwrap();
        let iterations = monitor.iterations();
        assert!(iterations > 10);
        assert_eq!(counting.applications.load(Relaxed), iterations);
        assert_eq!(counting.line_solves.load(Relaxed), iterations + 1);
    }
}

/// Conjugate gradients in separate operations on arrays, as Hestenes and Stiefel (1952) have them; returns ‖r‖ after each iteration.
fn textbook(matrix: &Plain<TensorProduct, f64>, b: &[f64], iterations: usize) -> (Vec<f64>, Vec<f64>) {
    let shape = matrix.layout().shape();
    let on_vectors = |x: &[f64], f: &dyn Fn(&mut Vector<f64>, &mut Vector<f64>)| {
        let (mut x, mut y) = (vector(&Reference, matrix.layout(), x), Reference.zeros(matrix.layout()).unwrap());
        f(&mut x, &mut y);
        fetch(&Reference, &y, shape)
    };
    let times = |x: &[f64]| on_vectors(x, &|x, y| matrix.apply(x, y).unwrap());
    let precondition = |r: &[f64]| on_vectors(r, &|r, z| matrix.solve_lines(r, z).unwrap());
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let add = |x: &mut [f64], a: f64, y: &[f64]| x.iter_mut().zip(y).for_each(|(x, y)| *x += a * y);
    let (mut u, mut r) = (vec![0.0; b.len()], b.to_vec());
    let mut p = precondition(&r);
    let mut rho = dot(&r, &p);
    let mut history = Vec::new();
    for _ in 0..iterations {
        let q = times(&p);
        let alpha = rho / dot(&p, &q);
        add(&mut u, alpha, &p);
        add(&mut r, -alpha, &q);
        history.push(norm(&r));
        let z = precondition(&r);
        let before = std::mem::replace(&mut rho, dot(&r, &z));
        p.iter_mut().zip(&z).for_each(|(p, z)| *p = z + rho / before * *p);
    }
    (u, history)
}

#[test]
fn fused_steps_are_those_of_a_textbook() {
    const ITERATIONS: usize = 12;
    let grid = GridOptions { nx: 16, ny: 12, nz: 10, ..GridOptions::default() };
    let problem = Helmholtz { grid, ..Helmholtz::default() };
    let stencil = problem.stencil().unwrap();
    let rhs = problem.rhs(RhsKind::Random, 0, Weighting::None).unwrap();
    let (expected, history) = textbook(&Plain::new(&stencil).unwrap(), &rhs, ITERATIONS);
    let options = SolverOptions { max_iterations: ITERATIONS, tolerance: 1e-12, ..cg(Preconditioner::Line) };
    let (outcome, u) = solve(&Reference, &stencil, &options, &rhs);
    assert_eq!(outcome.iterations, ITERATIONS);
    for (n, norm_of_r) in history.iter().enumerate() {
        let (found, expected) = (outcome.history[n + 1], norm_of_r / norm(&rhs));
        assert!((found - expected).abs() <= 1e-10 * expected, "iteration {n}: {found}, not {expected}");
    }
    assert!(distance(&u, &expected) <= 1e-10);
}
