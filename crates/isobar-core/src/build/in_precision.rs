//! Iterations in another precision than their vectors.

use crate::operator::Guess;
use crate::solver::{Iteration, Run};
use crate::traffic::StepTraffic;
use crate::{Backend, Layout, Real, Result};

/// An iteration in precision T, used on vectors in double precision.
///
/// Storage: b and u in T.
pub(super) struct InPrecision<B: Backend, T: Real> {
    backend: B,
    inner: Box<dyn Iteration<B, T>>,
    b: B::Vector<T>,
    u: B::Vector<T>,
    layout: Layout,
}

impl<B: Backend, T: Real> InPrecision<B, T> {
    pub(super) fn new(backend: &B, layout: Layout, inner: Box<dyn Iteration<B, T>>) -> Result<Self> {
        let (b, u) = (backend.zeros(&layout)?, backend.zeros(&layout)?);
        Ok(Self { backend: backend.clone(), inner, b, u, layout })
    }
}

impl<B: Backend, T: Real> Iteration<B, f64> for InPrecision<B, T> {
    fn begin(&mut self, b: &B::Vector<f64>, u: &mut B::Vector<f64>, guess: Guess) -> Result<Option<f64>> {
        self.backend.convert(b, &mut self.b)?;
        if guess == Guess::Given {
            self.backend.convert(u, &mut self.u)?;
        }
        // The caller judges the residual of a first guess in double precision.
        self.inner.begin(&self.b, &mut self.u, guess).map(|_| None)
    }

    fn run(&mut self, run: Run<'_, '_, B, f64>) -> Result<()> {
        let Run { u, guess, best, monitor, .. } = run;
        self.inner.run(Run { b: &mut self.b, u: &mut self.u, guess, best, monitor })?;
        self.backend.convert(&self.u, u)
    }

    fn precondition(&mut self, r: &mut B::Vector<f64>, z: &mut B::Vector<f64>) -> Result<()> {
        self.backend.convert(r, &mut self.b)?;
        self.inner.precondition(&mut self.b, &mut self.u)?;
        self.backend.convert(&self.u, z)
    }

    fn preconditions_symmetrically(&self) -> bool {
        self.inner.preconditions_symmetrically()
    }

    fn choose(&mut self, rank: usize) -> Option<&'static str> {
        self.inner.choose(rank)
    }

    fn update(&mut self) -> Result<()> {
        self.inner.update()
    }

    fn traffic(&self) -> Vec<StepTraffic> {
        self.inner.traffic()
    }

    fn workspace_bytes(&self) -> usize {
        2 * self.layout.len() * size_of::<T>() + self.inner.workspace_bytes()
    }
}
