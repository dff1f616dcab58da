//! A preconditioner in a lower precision.

use super::{Preconditioner, vector_step};
use crate::backend::Backend;
use crate::error::Result;
use crate::layout::Layout;
use crate::real::Real;
use crate::solver::StepTraffic;
use crate::traffic;

/// A preconditioner in precision S inside an iteration in precision T: half the memory traffic where S is
/// single, and hardly an iteration more.
///
/// Storage: 2 n-vectors in S, beside the preconditioner's own.
pub struct Converted<B: Backend, M, S: Real> {
    backend: B,
    inner: M,
    r: B::Vector<S>,
    z: B::Vector<S>,
    layout: Layout,
}

impl<B: Backend + Clone, M: Preconditioner<B, S>, S: Real> Converted<B, M, S> {
    /// Takes the preconditioner.
    ///
    /// # Errors
    /// As [`Backend::zeros`].
    pub fn new(backend: &B, layout: Layout, inner: M) -> Result<Self> {
        Ok(Self { r: backend.zeros(&layout)?, z: backend.zeros(&layout)?, backend: backend.clone(), inner, layout })
    }
}

impl<B: Backend, M: Preconditioner<B, S>, S: Real, T: Real> Preconditioner<B, T> for Converted<B, M, S> {
    fn backend(&self) -> &B {
        &self.backend
    }

    fn apply(&mut self, r: &B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        self.backend.convert(r, &mut self.r)?;
        self.inner.apply(&self.r, &mut self.z)?;
        self.backend.convert(&self.z, z)
    }

    fn is_variable(&self) -> bool {
        self.inner.is_variable()
    }

    fn apply_traffic(&self, layout: &Layout) -> Vec<StepTraffic> {
        let mut steps = self.inner.apply_traffic(layout);
        steps.push(StepTraffic { count: 2.0, ..vector_step::<T>(traffic::COPY, layout) });
        steps
    }

    fn workspace_bytes(&self) -> usize {
        2 * self.layout.len() * size_of::<S>() + self.inner.workspace_bytes()
    }
}
