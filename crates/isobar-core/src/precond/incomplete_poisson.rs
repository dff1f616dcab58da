//! The incomplete Poisson preconditioner.

use std::sync::Arc;

use super::{Preconditioner, step};
use crate::backend::Backend;
use crate::error::Result;
use crate::layout::{ArrayView, Layout};
use crate::real::Real;
use crate::solver::StepTraffic;
use crate::traffic;
use crate::triangular::TriangularOperator;

/// M⁻¹ = (I − L D⁻¹)(I − D⁻¹ Lᵀ) without the entries outside A's pattern (Ament and others, 2010; paper D,
/// equation 7), of A itself or of the scaled matrix D^−½ A D^−½. Without scaling it suits matrices whose
/// diagonal hardly varies.
///
/// Storage: an n-vector, D⁻¹.
#[derive(Debug)]
pub struct IncompletePoisson<B: Backend, A, T: Real> {
    operator: Arc<A>,
    scaled: bool,
    inverse_diagonal: B::Vector<T>,
    layout: Layout,
}

impl<B: Backend, A: TriangularOperator<B, T>, T: Real> IncompletePoisson<B, A, T> {
    /// Computes D⁻¹.
    ///
    /// # Errors
    /// As [`Backend::zeros`].
    pub fn new(operator: Arc<A>, scaled: bool) -> Result<Self> {
        let layout = *operator.layout();
        let backend = operator.backend();
        let (mut ones, mut inverse_diagonal) = (backend.zeros::<T>(&layout)?, backend.zeros::<T>(&layout)?);
        backend.upload(ArrayView::constant(&1.0f64, layout.shape()), &mut ones)?;
        operator.divide_by_diagonal(&ones, &mut inverse_diagonal)?;
        Ok(Self { operator, scaled, inverse_diagonal, layout })
    }
}

impl<B: Backend, A: TriangularOperator<B, T>, T: Real> Preconditioner<B, T> for IncompletePoisson<B, A, T> {
    fn backend(&self) -> &B {
        self.operator.backend()
    }

    fn apply(&mut self, r: &B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        self.operator.incomplete_poisson(self.scaled, &self.inverse_diagonal, r, z)
    }

    fn apply_traffic(&self, layout: &Layout) -> Vec<StepTraffic> {
        vec![step::<B, T>(traffic::INCOMPLETE_POISSON, layout, &*self.operator)]
    }

    fn workspace_bytes(&self) -> usize {
        self.layout.len() * size_of::<T>()
    }
}
