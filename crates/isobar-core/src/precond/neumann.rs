//! Truncated Neumann series.

use std::sync::Arc;

use super::Preconditioner;
use crate::operator::{ResidualUpdate, Triangular};
use crate::traffic::{self, StepTraffic, Traffic};
use crate::{Backend, Real, Result, Sum};

/// The preconditioner M⁻¹ = Kᵀ D⁻¹ K with K the series of (I + L D⁻¹)⁻¹ truncated after `order` terms:
///
/// K = I − L D⁻¹ + (L D⁻¹)² − … ± (L D⁻¹)^order.
///
/// This is paper D's preconditioner of D^−½ A D^−½ (equations 14 to 16), written for A itself. Order 1 is
/// also the approximate inverse of SSOR (ω = 1) of paper E, order 0 the diagonal. Evaluated as Horner's
/// rule: `order` relaxations with L, then as many with Lᵀ, each a matrix-free pass.
///
/// Storage: an n-vector, two from order 2.
pub struct Neumann<B: Backend, T: Real> {
    operator: Arc<dyn Triangular<B, T>>,
    order: usize,
    v: B::Vector<T>,
    w: Option<B::Vector<T>>,
}

/// Returns how many vectors a [`Neumann`] series of this order keeps.
pub(crate) fn vectors(order: usize) -> usize {
    if order > 1 { 2 } else { 1 }
}

impl<B: Backend, T: Real> Neumann<B, T> {
    /// Truncates the series after `order` terms.
    pub fn new(operator: Arc<dyn Triangular<B, T>>, order: usize) -> Result<Self> {
        let zeros = || operator.backend().zeros(operator.layout());
        let v = zeros()?;
        let w = (vectors(order) > 1).then(zeros).transpose()?;
        Ok(Self { operator, order, v, w })
    }

    /// Computes the series of relaxations, given D⁻¹ r in z (odd order) or in `self.v` (even order).
    fn relax(&mut self, r: &B::Vector<T>, z: &mut B::Vector<T>, mut rho: Option<Sum<'_, B>>) -> Result<()> {
        let Self { operator, order, v, w, .. } = self;
        let order = *order;
        // Buffers alternate so that the last is v…
        for n in 1..=order {
            let rho = if n == order { rho.take() } else { None };
            let [from, to] = if (order - n).is_multiple_of(2) { [&mut *z, &mut *v] } else { [&mut *v, &mut *z] };
            operator.relax_lower(r, [from, to], rho)?;
        }
        // … and then so that the last is z.
        for n in 1..=order {
            match w {
                _ if n == 1 && order == 1 => operator.relax_upper(v, None, z)?,
                Some(w) if (order - n).is_multiple_of(2) => operator.relax_upper(v, (n > 1).then_some(w), z)?,
                Some(w) => operator.relax_upper(v, (n > 1).then_some(z), w)?,
                None => {}
            }
        }
        Ok(())
    }
}

impl<B: Backend, T: Real> Preconditioner<B, T> for Neumann<B, T> {
    fn backend(&self) -> &B {
        self.operator.backend()
    }

    fn apply(&mut self, r: &mut B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        let even = self.order.is_multiple_of(2) && self.order > 0;
        self.operator.divide_by_diagonal(r, if even { &mut self.v } else { z })?;
        self.relax(r, z, None)
    }

    /// Computes ρ without reading r again: the last relaxation by L returns ρ = ⟨K r, D⁻¹ K r⟩.
    fn precondition_residual(&mut self, v: ResidualUpdate<'_, B::Vector<T>>, scalars: &mut B::Scalars) -> Result<()> {
        let ResidualUpdate { r, q, z, alpha, out } = v;
        let even = self.order.is_multiple_of(2) && self.order > 0;
        let first = if even { &mut self.v } else { &mut *z };
        self.operator.scale_residual(ResidualUpdate { r: &mut *r, q, z: first, alpha, out }, scalars)?;
        self.relax(r, z, Some((out.get(0), scalars)))
    }

    fn apply_traffic(&self, cells: usize) -> Vec<StepTraffic> {
        self.with_first(cells, traffic::DIVIDE_BY_DIAGONAL)
    }

    fn traffic(&self, cells: usize) -> Vec<StepTraffic> {
        self.with_first(cells, traffic::SCALE_RESIDUAL)
    }

    fn workspace_bytes(&self) -> usize {
        vectors(self.order) * self.operator.layout().len() * size_of::<T>()
    }
}

impl<B: Backend, T: Real> Neumann<B, T> {
    fn with_first(&self, cells: usize, first: Traffic) -> Vec<StepTraffic> {
        let vectors = self.operator.coefficient_vectors();
        let of = |step, count| StepTraffic::once::<T>(step, cells).with_coefficients(vectors).times(count);
        let order = self.order as f64;
        let mut steps = vec![of(first, 1.0)];
        if self.order > 0 {
            steps.extend([of(traffic::RELAX_LOWER, order), of(traffic::RELAX_UPPER, order)]);
        }
        steps
    }
}
