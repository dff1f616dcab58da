//! A direct solve of a box as a preconditioner.

use super::Preconditioner;
use crate::backend::Backend;
use crate::error::Result;
use crate::layout::Layout;
use crate::operator::SharedDirect;
use crate::operator::direct::locked;
use crate::real::Real;
use crate::traffic::{self, StepTraffic};

/// z = M⁻¹ r with M the separable matrix that is nearest to A, in double precision.
///
/// Few iterations where cells are thin and most are open, as in ocean basins; none of its business are pores and coefficients that vary much
/// (`docs/notes/direct.md`).
///
/// Storage: a vector in double precision, and that of the [`DirectSolver`](crate::operator::DirectSolver).
pub struct NearestBox<B: Backend> {
    backend: B,
    layout: Layout,
    solver: SharedDirect<B>,
    x: B::Vector<f64>,
}

impl<B: Backend> NearestBox<B> {
    /// Takes what solves the box.
    ///
    /// # Errors
    /// Where its vector does not fit in memory.
    pub fn new(backend: &B, layout: Layout, solver: SharedDirect<B>) -> Result<Self> {
        Ok(Self { backend: backend.clone(), layout, solver, x: backend.zeros(&layout)? })
    }
}

impl<B: Backend, T: Real> Preconditioner<B, T> for NearestBox<B> {
    fn backend(&self) -> &B {
        &self.backend
    }

    fn apply(&mut self, r: &B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        self.backend.convert(r, &mut self.x)?;
        locked(&self.solver).solve_in_place(&mut self.x)?;
        self.backend.convert(&self.x, z)
    }

    fn apply_traffic(&self, cells: usize) -> Vec<StepTraffic> {
        vec![
            StepTraffic::once::<f64>(traffic::DIRECT_SOLVE, cells),
            StepTraffic::once::<f64>(traffic::COPY, cells).times(2.0),
        ]
    }

    fn workspace_bytes(&self) -> usize {
        self.layout.len() * size_of::<f64>() + locked(&self.solver).bytes()
    }
}
