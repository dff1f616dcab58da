//! Preconditioners: approximations M of A that are cheap to invert.
//!
//! * [`Identity`] none,
//! * [`Diagonal`] Jacobi,
//! * [`Line`] a tridiagonal solve in every column,
//! * [`multigrid::Cycle`] one multigrid cycle,
//! * [`BlockIc`], [`IncompletePoisson`] and [`Neumann`] paper D's, made of triangular parts,
//! * [`Converted`] any of these in a lower precision.

mod block_ic;
mod converted;
mod incomplete_poisson;
pub mod multigrid;
mod neumann;

use std::sync::Arc;

use crate::backend::{Backend, Ratio, Slot};
use crate::error::Result;
use crate::layout::Layout;
use crate::operator::{LineSolver, Operator};
use crate::real::Real;
use crate::solver::StepTraffic;
use crate::traffic;

pub use block_ic::BlockIc;
pub use converted::Converted;
pub use incomplete_poisson::IncompletePoisson;
pub use neumann::Neumann;

/// Applies M⁻¹.
pub trait Preconditioner<B: Backend, T: Real>: Send {
    /// The device it lives on.
    fn backend(&self) -> &B;

    /// z = M⁻¹ r
    fn apply(&mut self, r: &B::Vector<T>, z: &mut B::Vector<T>) -> Result<()>;

    /// r −= αq;  z = M⁻¹ r;  ρ = ⟨r, z⟩;  ‖r‖²
    fn precondition_residual(
        &mut self,
        r: &mut B::Vector<T>,
        q: &B::Vector<T>,
        z: &mut B::Vector<T>,
        alpha: Ratio,
        [rho, norm]: [Slot; 2],
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.backend().axpy(alpha.negated(), q, r, scalars)?;
        self.apply(r, z)?;
        self.backend().dot(r, z, rho, scalars)?;
        self.backend().dot(r, r, norm, scalars)
    }

    /// Whether M differs from one application to the next or is not symmetric, so that CG must not
    /// rely on it.
    fn is_variable(&self) -> bool {
        false
    }

    /// What one `apply` declares to move.
    fn apply_traffic(&self, layout: &Layout) -> Vec<StepTraffic>;

    /// What one `precondition_residual` declares to move.
    fn traffic(&self, layout: &Layout) -> Vec<StepTraffic> {
        let mut steps = self.apply_traffic(layout);
        steps.push(vector_step::<T>(traffic::UPDATE_RESIDUAL, layout));
        steps
    }

    /// Bytes of vectors held.
    fn workspace_bytes(&self) -> usize {
        0
    }
}

/// A step that an operator takes once.
fn step<B: Backend, T: Real>(
    step: traffic::Traffic,
    layout: &Layout,
    operator: &(impl Operator<B, T> + ?Sized),
) -> StepTraffic {
    StepTraffic { coefficient_vectors: operator.coefficient_vectors(), ..vector_step::<T>(step, layout) }
}

/// A step on vectors alone, taken once.
fn vector_step<T: Real>(step: traffic::Traffic, layout: &Layout) -> StepTraffic {
    StepTraffic { step, cells: layout.shape().cells(), size: size_of::<T>(), coefficient_vectors: 0.0, count: 1.0 }
}

impl<B: Backend, T: Real> Preconditioner<B, T> for Box<dyn Preconditioner<B, T>> {
    fn backend(&self) -> &B {
        (**self).backend()
    }
    fn apply(&mut self, r: &B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        (**self).apply(r, z)
    }
    fn precondition_residual(
        &mut self,
        r: &mut B::Vector<T>,
        q: &B::Vector<T>,
        z: &mut B::Vector<T>,
        alpha: Ratio,
        out: [Slot; 2],
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        (**self).precondition_residual(r, q, z, alpha, out, scalars)
    }
    fn is_variable(&self) -> bool {
        (**self).is_variable()
    }
    fn apply_traffic(&self, layout: &Layout) -> Vec<StepTraffic> {
        (**self).apply_traffic(layout)
    }
    fn traffic(&self, layout: &Layout) -> Vec<StepTraffic> {
        (**self).traffic(layout)
    }
    fn workspace_bytes(&self) -> usize {
        (**self).workspace_bytes()
    }
}

/// M = 1
#[derive(Debug)]
pub struct Identity<B>(
    /// The device.
    pub B,
);

impl<B: Backend, T: Real> Preconditioner<B, T> for Identity<B> {
    fn backend(&self) -> &B {
        &self.0
    }

    fn apply(&mut self, r: &B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        self.0.convert(r, z)
    }

    fn apply_traffic(&self, layout: &Layout) -> Vec<StepTraffic> {
        vec![vector_step::<T>(traffic::COPY, layout)]
    }
}

/// M = the diagonal of A
#[derive(Debug)]
pub struct Diagonal<A>(
    /// The operator.
    pub Arc<A>,
);

impl<B: Backend, T: Real, A: Operator<B, T>> Preconditioner<B, T> for Diagonal<A> {
    fn backend(&self) -> &B {
        self.0.backend()
    }

    fn apply(&mut self, r: &B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        self.0.divide_by_diagonal(r, z)
    }

    fn precondition_residual(
        &mut self,
        r: &mut B::Vector<T>,
        q: &B::Vector<T>,
        z: &mut B::Vector<T>,
        alpha: Ratio,
        out: [Slot; 2],
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.0.scale_residual(r, q, z, alpha, out, scalars)
    }

    fn apply_traffic(&self, layout: &Layout) -> Vec<StepTraffic> {
        vec![step::<B, T>(traffic::DIVIDE_BY_DIAGONAL, layout, &*self.0)]
    }

    fn traffic(&self, layout: &Layout) -> Vec<StepTraffic> {
        vec![step::<B, T>(traffic::SCALE_RESIDUAL, layout, &*self.0)]
    }
}

/// M = the tridiagonal blocks of A, one a column (papers A and B)
#[derive(Debug)]
pub struct Line<A>(
    /// The operator.
    pub Arc<A>,
);

impl<B: Backend, T: Real, A: LineSolver<B, T>> Preconditioner<B, T> for Line<A> {
    fn backend(&self) -> &B {
        self.0.backend()
    }

    fn apply(&mut self, r: &B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        self.0.solve_lines(r, z)
    }

    fn precondition_residual(
        &mut self,
        r: &mut B::Vector<T>,
        q: &B::Vector<T>,
        z: &mut B::Vector<T>,
        alpha: Ratio,
        out: [Slot; 2],
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.0.precondition_residual(r, q, z, alpha, out, scalars)
    }

    fn apply_traffic(&self, layout: &Layout) -> Vec<StepTraffic> {
        vec![self.step::<B, T>(traffic::SOLVE_LINES, layout)]
    }

    fn traffic(&self, layout: &Layout) -> Vec<StepTraffic> {
        vec![self.step::<B, T>(traffic::PRECONDITION_RESIDUAL, layout)]
    }
}

impl<A> Line<A> {
    fn step<B: Backend, T: Real>(&self, step: traffic::Traffic, layout: &Layout) -> StepTraffic
    where
        A: LineSolver<B, T>,
    {
        StepTraffic { coefficient_vectors: self.0.line_coefficient_vectors(), ..vector_step::<T>(step, layout) }
    }
}
