//! Truncated Neumann series.

use std::sync::Arc;

use super::{Preconditioner, step};
use crate::backend::{Backend, Ratio, Slot};
use crate::error::Result;
use crate::layout::Layout;
use crate::real::Real;
use crate::solver::StepTraffic;
use crate::traffic;
use crate::triangular::TriangularOperator;

/// M⁻¹ = Kᵀ D⁻¹ K with K the series of (I + L D⁻¹)⁻¹ cut after `order` terms:
///
/// K = I − L D⁻¹ + (L D⁻¹)² − … ± (L D⁻¹)^order.
///
/// This is paper D's preconditioner of D^−½ A D^−½ (equations 14 to 16), written for A itself. Order 1 is
/// also the approximate inverse of SSOR (ω = 1) of paper E, order 0 the diagonal. Evaluated as Horner's
/// rule: `order` relaxations with L, then as many with Lᵀ, each a matrix-free pass.
///
/// Storage: an n-vector, two from order 2.
#[derive(Debug)]
pub struct Neumann<B: Backend, A, T: Real> {
    operator: Arc<A>,
    order: usize,
    v: B::Vector<T>,
    w: Option<B::Vector<T>>,
    layout: Layout,
}

impl<B: Backend, A: TriangularOperator<B, T>, T: Real> Neumann<B, A, T> {
    /// The series cut after so many terms.
    ///
    /// # Errors
    /// As [`Backend::zeros`].
    pub fn new(operator: Arc<A>, order: usize) -> Result<Self> {
        let layout = *operator.layout();
        let backend = operator.backend();
        let v = backend.zeros(&layout)?;
        let w = (order > 1).then(|| backend.zeros(&layout)).transpose()?;
        Ok(Self { operator, order, v, w, layout })
    }

    /// The series of relaxations, given D⁻¹ r in z (odd order) or in `self.v` (even order).
    fn relax(
        &mut self,
        r: &B::Vector<T>,
        z: &mut B::Vector<T>,
        mut rho: Option<(Slot, &mut B::Scalars)>,
    ) -> Result<()> {
        let Self { operator, order, v, w, .. } = self;
        let order = *order;
        // Buffers alternate such that the last is v…
        for n in 1..=order {
            let rho = if n == order { rho.take() } else { None };
            if (order - n).is_multiple_of(2) {
                operator.relax_lower(r, z, v, rho)?;
            } else {
                operator.relax_lower(r, v, z, rho)?;
            }
        }
        // … and then such that the last is z.
        for n in 1..=order {
            match w {
                _ if n == 1 && order == 1 => operator.relax_upper(v, v, z)?,
                Some(w) if (order - n).is_multiple_of(2) => operator.relax_upper(v, if n == 1 { v } else { w }, z)?,
                Some(w) => operator.relax_upper(v, if n == 1 { v } else { z }, w)?,
                None => {}
            }
        }
        Ok(())
    }
}

impl<B: Backend, A: TriangularOperator<B, T>, T: Real> Preconditioner<B, T> for Neumann<B, A, T> {
    fn backend(&self) -> &B {
        self.operator.backend()
    }

    fn apply(&mut self, r: &B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        let even = self.order.is_multiple_of(2) && self.order > 0;
        self.operator.divide_by_diagonal(r, if even { &mut self.v } else { z })?;
        self.relax(r, z, None)
    }

    /// ρ = ⟨K r, D⁻¹ K r⟩ comes with the last relaxation by L, which spares r another look.
    fn precondition_residual(
        &mut self,
        r: &mut B::Vector<T>,
        q: &B::Vector<T>,
        z: &mut B::Vector<T>,
        alpha: Ratio,
        [rho, norm]: [Slot; 2],
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        let even = self.order.is_multiple_of(2) && self.order > 0;
        let first = if even { &mut self.v } else { &mut *z };
        self.operator.scale_residual(r, q, first, alpha, [rho, norm], scalars)?;
        self.relax(r, z, Some((rho, scalars)))
    }

    fn apply_traffic(&self, layout: &Layout) -> Vec<StepTraffic> {
        self.with_first(layout, traffic::DIVIDE_BY_DIAGONAL)
    }

    fn traffic(&self, layout: &Layout) -> Vec<StepTraffic> {
        self.with_first(layout, traffic::SCALE_RESIDUAL)
    }

    fn workspace_bytes(&self) -> usize {
        self.layout.len() * size_of::<T>() * if self.w.is_some() { 2 } else { 1 }
    }
}

impl<B: Backend, A: TriangularOperator<B, T>, T: Real> Neumann<B, A, T> {
    fn with_first(&self, layout: &Layout, first: traffic::Traffic) -> Vec<StepTraffic> {
        let of = |traffic, count| StepTraffic { count, ..step::<B, T>(traffic, layout, &*self.operator) };
        let order = self.order as f64;
        let mut steps = vec![of(first, 1.0)];
        if self.order > 0 {
            steps.extend([of(traffic::RELAX_LOWER, order), of(traffic::RELAX_UPPER, order)]);
        }
        steps
    }
}
