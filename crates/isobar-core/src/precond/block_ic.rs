//! Incomplete Cholesky factorisation without fill-in, in blocks of consecutive unknowns.

use std::sync::Arc;

use super::Preconditioner;
use crate::backend::Backend;
use crate::error::Result;
use crate::operator::Triangular;
use crate::real::Real;
use crate::traffic::{self, StepTraffic};

/// M = (Δ + L_b) Δ⁻¹ (Δ + L_bᵀ), L_b the strict lower triangle of A without the couplings between blocks of
/// m consecutive unknowns (paper D, section 3.1; Meijerink and van der Vorst, 1977). Blocks are independent
/// of each other; within one the substitution is sequential.
///
/// Storage: an n-vector, Δ⁻¹.
pub struct BlockIc<B: Backend, T: Real> {
    operator: Arc<dyn Triangular<B, T>>,
    block: usize,
    inverse_pivots: B::Vector<T>,
}

impl<B: Backend, T: Real> BlockIc<B, T> {
    /// Factorises in blocks of `block` unknowns, 1 or more.
    ///
    /// # Errors
    /// As [`Backend::zeros`].
    pub fn new(operator: Arc<dyn Triangular<B, T>>, block: usize) -> Result<Self> {
        let inverse_pivots = operator.backend().zeros(operator.layout())?;
        let mut this = Self { operator, block, inverse_pivots };
        this.update()?;
        Ok(this)
    }
}

impl<B: Backend, T: Real> Preconditioner<B, T> for BlockIc<B, T> {
    fn backend(&self) -> &B {
        self.operator.backend()
    }

    fn apply(&mut self, r: &B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        self.operator.substitute(self.block, &self.inverse_pivots, r, z)
    }

    fn update(&mut self) -> Result<()> {
        self.operator.factorise(self.block, &mut self.inverse_pivots)
    }

    fn apply_traffic(&self, cells: usize) -> Vec<StepTraffic> {
        let vectors = self.operator.coefficient_vectors();
        vec![StepTraffic::once::<T>(traffic::SUBSTITUTE, cells).with_coefficients(vectors)]
    }

    fn workspace_bytes(&self) -> usize {
        self.operator.layout().len() * size_of::<T>()
    }
}
