//! A cycle of algebraic multigrid as a preconditioner.

use std::sync::{Arc, Mutex};

use super::Preconditioner;
use crate::algebraic::Levels;
use crate::execute::Host;
use crate::stencil::Unknowns;
use crate::traffic::{self, StepTraffic};
use crate::{ArrayView, ArrayViewMut, Backend, Layout, Real, Result, lock};

/// The preconditioner z = M⁻¹ r by a K-cycle of algebraic multigrid (Notay, 2010; Napov and Notay, 2012) on the active cells, in double precision on the host. On a GPU every
/// application copies two vectors across the bus.
///
/// Storage: about 180 bytes for each active cell, and two arrays.
pub struct Algebraic<B> {
    backend: B,
    layout: Layout,
    system: SharedSystem,
    /// The arrays r and z in C order.
    arrays: [Vec<f64>; 2],
}

/// A system of levels that a preconditioner shares with the function that updates it.
#[derive(Clone)]
pub struct SharedSystem(Arc<Mutex<System>>);

struct System {
    cells: Vec<u32>,
    /// The factor of the matrix whose levels these are.
    factor: f64,
    levels: Levels,
    /// The residual and the correction of the unknowns.
    vectors: [Vec<f64>; 2],
}

impl SharedSystem {
    /// Makes the levels, on all threads of the host.
    #[must_use]
    pub fn new(unknowns: Unknowns) -> Self {
        Self(Arc::new(Mutex::new(System::new(unknowns))))
    }

    /// Replaces them by those of another matrix on the same grid.
    pub fn update(&self, unknowns: Unknowns) {
        let made = System::new(unknowns);
        *lock(&self.0) = made;
    }

    /// Returns the number of unknowns of each level.
    #[must_use]
    pub fn sizes(&self) -> Vec<usize> {
        lock(&self.0).levels.sizes().collect()
    }

    /// Returns the bytes of all levels.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let system = lock(&self.0);
        system.levels.bytes() + system.cells.len() * (size_of::<u32>() + 2 * size_of::<f64>())
    }
}

impl System {
    fn new(Unknowns { cells, matrix, factor }: Unknowns) -> Self {
        let vectors = [vec![0.0; cells.len()], vec![0.0; cells.len()]];
        Self { cells, factor, levels: Levels::new(&Host, matrix), vectors }
    }
}

impl<B: Backend> Algebraic<B> {
    /// Takes a system for vectors of this layout.
    pub fn new(backend: &B, layout: Layout, system: SharedSystem) -> Self {
        let cells = layout.shape().cells();
        Self { backend: backend.clone(), layout, system, arrays: [vec![0.0; cells], vec![0.0; cells]] }
    }
}

impl<B: Backend, T: Real> Preconditioner<B, T> for Algebraic<B> {
    fn backend(&self) -> &B {
        &self.backend
    }

    fn apply(&mut self, r: &mut B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        let Self { backend, layout, system, arrays: [of_r, of_z] } = self;
        backend.download(r, &mut ArrayViewMut::c_order(of_r, layout.shape())?)?;
        let System { cells, factor, levels, vectors: [residual, correction] } = &mut *lock(&system.0);
        let factor = *factor;
        residual.iter_mut().zip(&*cells).for_each(|(residual, &cell)| *residual = factor * of_r[cell as usize]);
        backend.enter(|| levels.cycle(&Host, residual, correction));
        // Cells that are not active keep their zeros.
        correction.iter().zip(&*cells).for_each(|(correction, &cell)| of_z[cell as usize] = *correction);
        backend.upload(ArrayView::c_order(of_z, layout.shape())?, z)
    }

    fn is_variable(&self) -> bool {
        true
    }

    fn tells_spectrum(&self) -> bool {
        true
    }

    fn is_strong(&self) -> bool {
        true
    }

    fn needs_host(&self) -> bool {
        true
    }

    fn apply_traffic(&self, cells: usize) -> Vec<StepTraffic> {
        vec![StepTraffic::once::<T>(traffic::COPY, cells).times(2.0)]
    }

    fn workspace_bytes(&self) -> usize {
        self.system.bytes() + 2 * self.layout.shape().cells() * size_of::<f64>()
    }
}
