//! Conjugate gradients apply A once an iteration, and M⁻¹ once.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use isobar_core::conformance::arrays::{norm, vector};
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
    for form in [Form::Fused, Form::Textbook] {
        let counting = std::sync::Arc::new(Counting {
            inner: Plain::new(&stencil).unwrap(),
            applications: AtomicUsize::new(0),
            line_solves: AtomicUsize::new(0),
        });
        let lines = Box::new(Line(counting.clone() as _));
        let mut cg = Cg::new(form, counting.clone() as _, lines).unwrap();
        let mut ignore = ignore;
        let mut monitor = Monitor::new(norm, 1e-8, 200, Patience::Krylov, &mut ignore);
        let _ = monitor.begin(norm);
        cg.begin(&b, &mut u, Guess::Zero).unwrap();
        let guess = Guess::Zero;
        cg.run(Run { b: &mut b, u: &mut u, guess, best: None, monitor: &mut monitor }).unwrap();
        let iterations = monitor.iterations();
        assert!(iterations > 10);
        assert_eq!(counting.applications.load(Relaxed), iterations, "{form:?}");
        assert_eq!(counting.line_solves.load(Relaxed), iterations + 1, "{form:?}");
    }
}
