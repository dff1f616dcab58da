//! The incomplete Poisson preconditioner.

use std::sync::Arc;

use super::Preconditioner;
use crate::operator::Triangular;
use crate::traffic::{self, StepTraffic};
use crate::{Backend, Real, Result};

/// The preconditioner M⁻¹ = (I − L D⁻¹)(I − D⁻¹ Lᵀ) without the entries outside A's pattern (Ament and others, 2010; paper D,
/// equation 7), of A itself or of the scaled matrix D^−½ A D^−½. Without scaling it suits matrices whose diagonal hardly varies.
///
/// Storage: an n-vector, D⁻¹.
pub struct IncompletePoisson<B: Backend, T: Real> {
    operator: Arc<dyn Triangular<B, T>>,
    scaled: bool,
    inverse_diagonal: B::Vector<T>,
}

impl<B: Backend, T: Real> IncompletePoisson<B, T> {
    /// Computes D⁻¹.
    pub fn new(operator: Arc<dyn Triangular<B, T>>, scaled: bool) -> Result<Self> {
        let inverse_diagonal = operator.backend().zeros(operator.layout())?;
        let mut this = Self { operator, scaled, inverse_diagonal };
        this.update()?;
        Ok(this)
    }
}

impl<B: Backend, T: Real> Preconditioner<B, T> for IncompletePoisson<B, T> {
    fn backend(&self) -> &B {
        self.operator.backend()
    }

    fn apply(&mut self, r: &mut B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        self.operator.incomplete_poisson(self.scaled, &self.inverse_diagonal, [r, z])
    }

    /// Updates the diagonal, which equals the pivots of blocks of one unknown.
    fn update(&mut self) -> Result<()> {
        self.operator.factorise(1, 0.0, &mut self.inverse_diagonal)
    }

    fn apply_traffic(&self, cells: usize) -> Vec<StepTraffic> {
        let vectors = self.operator.coefficient_vectors();
        vec![StepTraffic::once::<T>(traffic::INCOMPLETE_POISSON, cells).with_coefficients(vectors)]
    }

    fn workspace_bytes(&self) -> usize {
        self.operator.layout().len() * size_of::<T>()
    }
}
