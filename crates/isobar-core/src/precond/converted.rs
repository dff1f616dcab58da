//! A preconditioner in a lower precision.

use super::Preconditioner;
use crate::operator::ResidualUpdate;
use crate::traffic::{self, StepTraffic};
use crate::{Backend, Layout, Real, Result};

/// A preconditioner in precision S inside an iteration in precision T: where S is single it has half the
/// memory traffic, and hardly costs an iteration more.
///
/// Storage: 2 n-vectors in S, besides the preconditioner's own.
pub struct Converted<B: Backend, S: Real> {
    inner: Box<dyn Preconditioner<B, S>>,
    r: B::Vector<S>,
    z: B::Vector<S>,
    layout: Layout,
}

impl<B: Backend, S: Real> Converted<B, S> {
    /// Takes the preconditioner, and the layout of its vectors.
    pub fn new(layout: Layout, inner: Box<dyn Preconditioner<B, S>>) -> Result<Self> {
        let backend = inner.backend();
        Ok(Self { r: backend.zeros(&layout)?, z: backend.zeros(&layout)?, inner, layout })
    }
}

impl<B: Backend, S: Real, T: Real> Preconditioner<B, T> for Converted<B, S> {
    fn backend(&self) -> &B {
        self.inner.backend()
    }

    fn apply(&mut self, r: &mut B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        self.inner.backend().convert(r, &mut self.r)?;
        self.inner.apply(&mut self.r, &mut self.z)?;
        self.inner.backend().convert(&self.z, z)
    }

    fn precondition_residual(&mut self, v: ResidualUpdate<'_, B::Vector<T>>, scalars: &mut B::Scalars) -> Result<()> {
        let ResidualUpdate { r, q, z, alpha, out } = v;
        let backend = self.inner.backend().clone();
        backend.axpy_norm_convert(alpha.negated(), q, r, &mut self.r, out.get(1).of(scalars))?;
        self.inner.apply(&mut self.r, &mut self.z)?;
        backend.convert_dot(&self.z, z, r, out.get(0).of(scalars))
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
        2 * self.layout.len() * size_of::<S>() + self.inner.workspace_bytes()
    }
}
