//! A caller's own preconditioner.

use super::Preconditioner;
use crate::traffic::{self, StepTraffic};
use crate::{ArrayView, ArrayViewMut, Backend, Layout, Real, Result};

/// A caller's own approximation M of A. Arrays are in host memory, in C order of shape (nz, ny, nx).
pub trait OwnPreconditioner: Send {
    /// Computes z = M⁻¹ r.
    ///
    /// # Errors
    /// Any error ends the solve.
    fn apply(&mut self, r: &[f64], z: &mut [f64]) -> Result<()>;

    /// Computes again all that depends on the matrix, whose coefficients have changed.
    ///
    /// # Errors
    /// Any error makes the solver unusable.
    fn update(&mut self) -> Result<()> {
        Ok(())
    }

    /// Returns whether M differs from one application to the next or is not symmetric, so that conjugate gradients must
    /// not rely on it.
    fn is_variable(&self) -> bool {
        false
    }

    /// Returns whether the eigenvalues of M⁻¹A are near 1 on any grid, so that errors may be estimated by them.
    fn is_strong(&self) -> bool {
        false
    }

    /// Returns the bytes that it keeps.
    fn bytes(&self) -> usize {
        0
    }
}

/// An [`OwnPreconditioner`] on vectors of a device. On a GPU every application copies two vectors across the bus; one
/// that runs there implements [`Preconditioner`].
pub struct Own<B> {
    backend: B,
    layout: Layout,
    inner: Box<dyn OwnPreconditioner>,
    /// The arrays r and z in C order.
    arrays: [Vec<f64>; 2],
}

impl<B: Backend> Own<B> {
    /// Takes a preconditioner for vectors of this layout.
    pub fn new(backend: &B, layout: Layout, inner: Box<dyn OwnPreconditioner>) -> Self {
        let cells = layout.shape().cells();
        Self { backend: backend.clone(), layout, inner, arrays: [vec![0.0; cells], vec![0.0; cells]] }
    }
}

impl<B: Backend, T: Real> Preconditioner<B, T> for Own<B> {
    fn backend(&self) -> &B {
        &self.backend
    }

    fn apply(&mut self, r: &mut B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        let Self { backend, layout, inner, arrays: [host_r, host_z] } = self;
        backend.download(r, &mut ArrayViewMut::c_order(host_r, layout.shape())?)?;
        backend.enter(|| inner.apply(host_r, host_z))?;
        backend.upload(ArrayView::c_order(host_z, layout.shape())?, z)
    }

    fn update(&mut self) -> Result<()> {
        self.inner.update()
    }

    fn is_variable(&self) -> bool {
        self.inner.is_variable()
    }

    fn tells_spectrum(&self) -> bool {
        self.inner.is_strong() || !self.inner.is_variable()
    }

    fn is_strong(&self) -> bool {
        self.inner.is_strong()
    }

    fn needs_host(&self) -> bool {
        true
    }

    fn apply_traffic(&self, cells: usize) -> Vec<StepTraffic> {
        vec![StepTraffic::once::<T>(traffic::COPY, cells)]
    }

    fn workspace_bytes(&self) -> usize {
        self.inner.bytes() + 2 * self.layout.shape().cells() * size_of::<f64>()
    }
}
