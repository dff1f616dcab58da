//! A preconditioner in single precision.

use super::Preconditioner;
use crate::traffic::{self, StepTraffic};
use crate::{Backend, Layout, Real, Result};

/// A preconditioner in single precision inside an iteration whose residuals are in precision T: r and z are converted. If cycles in
/// single precision suffice, residuals are in it too instead, see [`Cg::rounded`](crate::solver::cg::Cg::rounded).
///
/// Storage: 2 n-vectors in single precision, besides the preconditioner's own.
pub struct Single<B: Backend> {
    inner: Box<dyn Preconditioner<B, f32>>,
    r: B::Vector<f32>,
    z: B::Vector<f32>,
    layout: Layout,
}

impl<B: Backend> Single<B> {
    /// Takes the preconditioner, and the layout of its vectors.
    pub fn new(layout: Layout, inner: Box<dyn Preconditioner<B, f32>>) -> Result<Self> {
        let backend = inner.backend();
        Ok(Self { r: backend.zeros(&layout)?, z: backend.zeros(&layout)?, inner, layout })
    }
}

impl<B: Backend, T: Real> Preconditioner<B, T> for Single<B> {
    fn backend(&self) -> &B {
        self.inner.backend()
    }

    fn apply(&mut self, r: &mut B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        self.inner.backend().convert(r, &mut self.r)?;
        self.inner.apply(&mut self.r, &mut self.z)?;
        self.inner.backend().convert(&self.z, z)
    }

    fn project_out(&mut self, z: &mut B::Vector<T>) -> Result<()> {
        self.inner.backend().convert(z, &mut self.z)?;
        self.inner.project_out(&mut self.z)?;
        self.inner.backend().convert(&self.z, z)
    }

    fn is_strong(&self) -> bool {
        self.inner.is_strong()
    }

    fn update(&mut self) -> Result<()> {
        self.inner.update()
    }

    fn another(&self) -> Result<Option<Box<dyn Preconditioner<B, T>>>> {
        let Some(inner) = self.inner.another()? else { return Ok(None) };
        Ok(Some(Box::new(Self::new(self.layout, inner)?)))
    }

    fn is_variable(&self) -> bool {
        self.inner.is_variable()
    }

    fn needs_host(&self) -> bool {
        self.inner.needs_host()
    }

    fn apply_traffic(&self, cells: usize) -> Vec<StepTraffic> {
        let mut steps = self.inner.apply_traffic(cells);
        steps.push(StepTraffic::once::<T>(traffic::COPY, cells).times(2.0));
        steps
    }

    fn workspace_bytes(&self) -> usize {
        2 * self.layout.len() * size_of::<f32>() + self.inner.workspace_bytes()
    }
}
