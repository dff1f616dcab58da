//! A direct solve of a box as a preconditioner.

use std::any::Any;

use super::Preconditioner;
use crate::backend::SharedDirect;
use crate::backend::direct::locked;
use crate::traffic::{self, StepTraffic};
use crate::{Backend, Layout, Precision, Real, Result};

/// The preconditioner z = M⁻¹ r with M the separable matrix nearest to A, in double precision.
///
/// It needs few iterations where cells are thin and most are open, as in ocean basins; it does not suit pores and strongly varying
/// coefficients (`docs/notes/direct.md`).
///
/// Storage: that of the [`DirectSolver`](crate::backend::DirectSolver), and a vector in double precision where others are not.
pub struct NearestBox<B: Backend> {
    backend: B,
    layout: Layout,
    solver: SharedDirect<B>,
    /// A buffer for vectors of another precision.
    x: Option<B::Vector<f64>>,
}

impl<B: Backend> NearestBox<B> {
    /// Takes the solver of the box, for vectors of this precision.
    ///
    /// # Errors
    /// Fails if its vector does not fit in memory.
    pub fn new<T: Real>(backend: &B, layout: Layout, solver: SharedDirect<B>) -> Result<Self> {
        let is_double = T::PRECISION == Precision::F64;
        let x = if is_double { None } else { Some(backend.zeros(&layout)?) };
        Ok(Self { backend: backend.clone(), layout, solver, x })
    }
}

impl<B: Backend, T: Real> Preconditioner<B, T> for NearestBox<B> {
    fn backend(&self) -> &B {
        &self.backend
    }

    fn apply(&mut self, r: &mut B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        let Self { backend, layout, solver, x } = self;
        let (from, to): (&dyn Any, &mut dyn Any) = (r, z);
        if let (Some(r), Some(z)) = (from.downcast_ref(), to.downcast_mut()) {
            return locked(solver).solve(r, z);
        }
        let x = match x {
            Some(x) => x,
            None => x.insert(backend.zeros(layout)?),
        };
        backend.convert(r, x)?;
        locked(solver).solve_in_place(x)?;
        backend.convert(x, z)
    }

    fn apply_traffic(&self, cells: usize) -> Vec<StepTraffic> {
        let conversions = self.x.as_ref().map(|_| StepTraffic::once::<f64>(traffic::COPY, cells).times(2.0));
        [StepTraffic::once::<f64>(traffic::DIRECT_SOLVE, cells)].into_iter().chain(conversions).collect()
    }

    fn workspace_bytes(&self) -> usize {
        let converted = if self.x.is_some() { self.layout.len() * size_of::<f64>() } else { 0 };
        converted + locked(&self.solver).bytes()
    }
}
