//! Incomplete Cholesky factorisation without fill-in, modified or not, over the whole grid or in blocks.

use std::sync::Arc;

use super::Preconditioner;
use crate::operator::{ResidualUpdate, Triangular};
use crate::traffic::{self, StepTraffic};
use crate::{Backend, Real, Result, options};

/// The preconditioner M = (Δ + L_b) Δ⁻¹ (Δ + L_bᵀ), L_b the strict lower triangle of A without the couplings between blocks of m
/// consecutive unknowns, Δ the pivots of [`Triangular::factorise`]:
///
/// * one block, ω = 0: IC(0) (Meijerink and van der Vorst, 1977); ω = 1: MIC(0) (Gustafsson, 1978; paper E, section 2.2);
/// * blocks of some rows: block-IC (paper D, section 3.1), blocks being independent of each other.
///
/// Substitution follows the order of the unknowns: cells of one hyperplane i + j + k are independent.
///
/// Storage: an n-vector, Δ⁻¹.
pub struct IncompleteCholesky<B: Backend, T: Real> {
    operator: Arc<dyn Triangular<B, T>>,
    block: usize,
    relaxation: f64,
    inverse_pivots: B::Vector<T>,
}

impl<B: Backend, T: Real> IncompleteCholesky<B, T> {
    /// Factorises in blocks of `block` unknowns, 1 or more, or over the whole grid; `relaxation` is ω, 0 to 1.
    pub fn new(operator: Arc<dyn Triangular<B, T>>, block: Option<usize>, relaxation: f64) -> Result<Self> {
        let inverse_pivots = operator.backend().zeros(operator.layout())?;
        // The operator may have only a subdomain of the grid.
        let block = block.unwrap_or(usize::MAX);
        let mut this = Self { operator, block, relaxation, inverse_pivots };
        this.update()?;
        Ok(this)
    }
}

impl<B: Backend, T: Real> Preconditioner<B, T> for IncompleteCholesky<B, T> {
    fn backend(&self) -> &B {
        self.operator.backend()
    }

    fn apply(&mut self, r: &mut B::Vector<T>, z: &mut B::Vector<T>) -> Result<()> {
        self.operator.substitute(self.block, &self.inverse_pivots, r, z)
    }

    fn precondition_residual(&mut self, v: ResidualUpdate<'_, B::Vector<T>>, scalars: &mut B::Scalars) -> Result<()> {
        self.operator.substitute_residual(self.block, &self.inverse_pivots, v, scalars)
    }

    fn needs_host(&self) -> bool {
        self.operator.substitutes_on_host()
    }

    fn update(&mut self) -> Result<()> {
        self.operator.factorise(self.block, self.relaxation, &mut self.inverse_pivots)
    }

    fn apply_traffic(&self, cells: usize) -> Vec<StepTraffic> {
        self.step(traffic::SUBSTITUTE, cells)
    }

    fn traffic(&self, cells: usize) -> Vec<StepTraffic> {
        self.step(traffic::SUBSTITUTE_RESIDUAL, cells)
    }

    fn workspace_bytes(&self) -> usize {
        self.operator.layout().len() * size_of::<T>()
    }
}

impl<B: Backend, T: Real> IncompleteCholesky<B, T> {
    /// Returns the unknowns of a block, none for the whole grid, and ω of a preconditioner of this kind on rows of `nx` cells; nothing
    /// for another kind.
    pub fn blocks(kind: options::Preconditioner, nx: usize) -> Option<(Option<usize>, f64)> {
        use options::Preconditioner as Kind;
        match kind {
            Kind::BlockIc { block } => Some((Some(block.unwrap_or(8 * nx)), 0.0)),
            Kind::Ic { block } => Some((block, 0.0)),
            Kind::Mic { relaxation, block } => Some((block, relaxation)),
            _ => None,
        }
    }

    fn step(&self, step: traffic::Traffic, cells: usize) -> Vec<StepTraffic> {
        vec![StepTraffic::once::<T>(step, cells).with_coefficients(self.operator.coefficient_vectors())]
    }
}
