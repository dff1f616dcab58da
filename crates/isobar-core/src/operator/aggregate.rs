//! Steps that deflation and singular systems need of a matrix.

use super::Operator;
use crate::backend::{AggregateBackend, AggregateMap, Scalar};
use crate::error::Result;
use crate::real::Real;

/// The connected components of a matrix's active cells: those joined by couplings.
#[derive(Clone, Debug)]
pub struct Components {
    /// All components; inactive cells, whose rows are zero, belong to none.
    pub all: AggregateMap,
    /// Whether each is tied to something fixed, so that its block of the matrix is not singular.
    pub anchored: Vec<bool>,
}

impl Components {
    /// The components tied to nothing: their indicator vectors span the null space.
    pub fn floating(&self) -> AggregateMap {
        self.all.clone().filtered(|component| !self.anchored[component])
    }

    /// Whether all cells are one component that is tied to nothing, so that what depends on components depends on the grid alone.
    pub fn is_one_floating(&self) -> bool {
        self.all.is_whole() && self.anchored == [false]
    }

    /// Whether what was [one floating component](Self::is_one_floating) still is, as most matrices do: nothing of it need be found
    /// anew.
    pub fn stay_one_floating(was: bool, now: Option<&Self>) -> bool {
        was && now.is_some_and(Self::is_one_floating)
    }

    /// Cells that take part.
    pub fn active_cells(&self) -> usize {
        self.all.sizes().iter().sum()
    }
}

/// One number of a small sparse matrix that is made of couplings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// From 0.
    pub row: usize,
    /// From 0, not above `row`.
    pub column: usize,
    /// The entry, which is not above 0; where `row` = `column` the sum of the row, which is not below.
    pub value: f64,
}

/// A symmetric matrix whose rows sum to s ≥ 0, and what can be said of it in terms of aggregates. Z is the matrix of
/// their indicator vectors.
pub trait AggregateOperator<B: AggregateBackend, T: Real>: Operator<B, T> {
    /// q −= A Z a;  σ = ⟨p, q⟩
    fn subtract_aggregated(
        &self,
        aggregates: &B::Aggregates,
        a: &B::AggregateVector,
        p: &B::Vector<T>,
        q: &mut B::Vector<T>,
        sigma: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()>;

    /// Whether [`AggregateOperator::subtract_aggregated`] can be had: aggregates know those of halo rows, not of halo columns.
    fn subtracts_aggregated(&self) -> bool {
        !self.layout().has_halo_columns()
    }

    /// E = Zᵀ A Z: its entries below the diagonal, each once, and the sums of its rows in the place of the diagonal. A
    /// diagonal entry is that sum less the others of its row. Stored as such it would lose what ties an aggregate to
    /// something fixed, where its couplings to others are many orders of magnitude larger.
    fn galerkin(&self, map: &AggregateMap) -> Result<Vec<Entry>>;

    /// The connected components, of the whole grid; nothing where all cells are active, joined, and tied to something fixed.
    fn components(&self) -> Result<Option<Components>>;

    /// Returns how strongly each connected component of the whole grid is tied to something fixed: E, which is diagonal then.
    ///
    /// # Errors
    /// See [`AggregateOperator::galerkin`].
    fn ties(&self, components: &Components) -> Result<Vec<f64>>;

    /// Restricts aggregates of the whole grid to the cells of this operator's vectors; they keep their numbers.
    ///
    /// # Errors
    /// See [`AggregateMap::new`].
    fn own_cells(&self, of_whole: AggregateMap) -> Result<AggregateMap> {
        if self.layout().is_part() { of_whole.of_part(self.layout()) } else { Ok(of_whole) }
    }

    /// Connected bodies of one material: neighbours belong together where their coefficients differ by less than a
    /// factor of ten, so that a bubble is one body and the liquid around it another.
    fn bodies(&self) -> Result<AggregateMap>;
}
