//! Incomplete Cholesky factorisation without fill-in, in blocks of consecutive unknowns.

use std::sync::Arc;

use super::{Preconditioner, step};
use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::layout::{ArrayView, Layout};
use crate::real::Real;
use crate::solver::StepTraffic;
use crate::stencil::Diffusion;
use crate::traffic;
use crate::triangular::TriangularOperator;

/// M = (Δ + L_b) Δ⁻¹ (Δ + L_bᵀ), L_b the strict lower triangle of A without the couplings between blocks of
/// m consecutive unknowns (paper D, section 3.1; Meijerink and van der Vorst, 1977). Blocks are independent
/// of each other; within one the substitution is sequential.
///
/// Storage: an n-vector, Δ⁻¹.
#[derive(Debug)]
pub struct BlockIc<B: Backend, A, T: Real> {
    operator: Arc<A>,
    block: usize,
    inverse_pivots: B::Vector<T>,
    layout: Layout,
}

/// A pivot smaller than this part of its diagonal entry is a singular block's last, and rounding.
const SINGULAR: f64 = 1e-12;

impl<B: Backend, A: TriangularOperator<B, T>, T: Real> BlockIc<B, A, T> {
    /// Factorises `stencil`, whose `operator` that is, in blocks of `block` unknowns.
    ///
    /// # Errors
    /// [`Error::Invalid`] for blocks of no unknowns; as [`Backend::zeros`].
    pub fn new(stencil: &Diffusion, operator: Arc<A>, block: usize) -> Result<Self> {
        if block == 0 {
            return Err(Error::invalid("solver.preconditioner.block", "0 unknowns; use 1 or more, such as 8 nx"));
        }
        let layout = *operator.layout();
        let backend = operator.backend();
        let mut inverse_pivots = backend.zeros::<T>(&layout)?;
        let host = inverse_pivots_of(stencil, block);
        backend.upload(ArrayView::c_order(&host, layout.shape())?, &mut inverse_pivots)?;
        Ok(Self { operator, block, inverse_pivots, layout })
    }
}

/// 1/d_n with d_n = a_nn − Σ_m T_nm²/d_m over the lower neighbours m in the same block; 0 where a_nn is.
fn inverse_pivots_of(stencil: &Diffusion, block: usize) -> Vec<f64> {
    let mut inverse = vec![0.0; stencil.shape().cells()];
    for at in stencil.cells() {
        let n = stencil.cell(at);
        let (mut pivot, mut diagonal) = (stencil.shift(at), stencil.shift(at));
        for (other, t) in stencil.neighbours(at) {
            let m = stencil.cell(other);
            diagonal += t;
            pivot += if m < n && m / block == n / block { t * (1.0 - t * inverse[m]) } else { t };
        }
        inverse[n] = match pivot {
            _ if diagonal == 0.0 => 0.0,
            pivot if pivot > SINGULAR * diagonal => 1.0 / pivot,
            _ => 1.0 / diagonal,
        };
    }
    inverse
}

impl<B: Backend, A: TriangularOperator<B, T>, T: Real> Preconditioner<B, T> for BlockIc<B, A, T> {
    fn backend(&self) -> &B {
        self.operator.backend()
    }

    fn apply(&mut self, r: &B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        self.operator.substitute(self.block, &self.inverse_pivots, r, z)
    }

    fn apply_traffic(&self, layout: &Layout) -> Vec<StepTraffic> {
        vec![step::<B, T>(traffic::SUBSTITUTE, layout, &*self.operator)]
    }

    fn workspace_bytes(&self) -> usize {
        self.layout.len() * size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::inverse_pivots_of;
    use crate::layout::Shape;
    use crate::stencil::{Coefficients, Diffusion, Side};

    #[test]
    fn a_tridiagonal_matrix_is_factorised_exactly() {
        // Dirichlet at the left, T = 1 and h = 2: a = (3, 2, 2, 1), and the pivots of LDLᵀ by hand.
        let one = Coefficients::Cells { fields: vec![Arc::from(vec![1.0; 4])], axes: [(0, 2.0); 3] };
        let sides = [[Side::Fixed, Side::Closed], [Side::Closed; 2], [Side::Closed; 2]];
        let stencil = Diffusion::new(Shape::new(4, 1, 1), one, None, sides).unwrap();
        let pivots: Vec<f64> = inverse_pivots_of(&stencil, 4).iter().map(|d| 1.0 / d).collect();
        let expected = [3.0, 2.0 - 1.0 / 3.0, 2.0 - 3.0 / 5.0, 1.0 - 5.0 / 7.0];
        assert!(pivots.iter().zip(expected).all(|(d, e)| (d - e).abs() < 1e-14), "{pivots:?}");
        // In blocks of two, the third unknown starts anew.
        let pivots: Vec<f64> = inverse_pivots_of(&stencil, 2).iter().map(|d| 1.0 / d).collect();
        assert!((pivots[2] - 2.0).abs() < 1e-14 && (pivots[3] - 0.5).abs() < 1e-14, "{pivots:?}");
    }
}
