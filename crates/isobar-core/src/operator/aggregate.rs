//! Steps of a matrix for deflation and singular systems.

use super::Operator;
use crate::backend::AggregateBackend;
use crate::{AggregateMap, Host, Real, Result, Sum};

/// The connected components of a matrix's active cells, which are joined by couplings.
#[derive(Clone, Debug, PartialEq)]
pub struct Components {
    /// All components; inactive cells, whose rows are zero, belong to none.
    pub all: AggregateMap,
    /// Whether each component has a shift somewhere, so that its block of the matrix is not singular.
    pub anchored: Vec<bool>,
}

impl Components {
    /// Returns the floating components, without any shift: their indicator vectors span the null space.
    pub fn floating(&self) -> AggregateMap {
        self.all.of_kept(&self.anchored.iter().map(|&anchored| !anchored).collect::<Vec<_>>(), &Host)
    }

    /// Returns whether all cells are one floating component, so that everything about components depends on the grid alone.
    pub fn is_one_floating(&self) -> bool {
        self.all.is_whole() && self.anchored == [false]
    }

    /// Returns whether [one floating component](Self::is_one_floating) still is one, as for most matrices: nothing of it need be
    /// computed again.
    pub fn stay_one_floating(was: bool, now: Option<&Self>) -> bool {
        was && now.is_some_and(Self::is_one_floating)
    }

    /// Returns the number of active cells, counted by all threads.
    pub fn active_cells(&self) -> usize {
        self.all.cells()
    }
}

/// An entry of a small sparse matrix of couplings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// The row, counted from 0.
    pub row: usize,
    /// The column, counted from 0, at most `row`.
    pub column: usize,
    /// The entry, at most 0; where `row` = `column` the sum of the row, at least 0.
    pub value: f64,
}

/// A symmetric matrix whose rows sum to s ≥ 0, with its products with aggregates. Z is the matrix of their indicator vectors.
pub trait AggregateOperator<B: AggregateBackend, T: Real>: Operator<B, T> {
    /// q −= A Z a;  σ = ⟨p, q⟩
    fn subtract_aggregated(
        &self,
        aggregates: &B::Aggregates,
        a: &B::AggregateVector,
        p: &B::Vector<T>,
        q: &mut B::Vector<T>,
        sigma: Sum<'_, B>,
    ) -> Result<()>;

    /// Computes E = Zᵀ A Z: its entries below the diagonal, each once, and the sums of its rows in place of the diagonal. A
    /// diagonal entry is that sum less the others of its row. Stored as such it would lose the aggregate's shift where its
    /// couplings to others are many orders of magnitude larger.
    fn galerkin(&self, map: &AggregateMap) -> Result<Vec<Entry>>;

    /// Sets x to 0 in inactive cells, those of no component.
    fn clear_inactive(&self, x: &mut B::Vector<T>) -> Result<()>;

    /// Returns the connected components of the whole grid; nothing if all cells form one component with a shift.
    fn components(&self) -> Result<Option<Components>>;

    /// Returns the connected bodies of one material: neighbours belong to one body if their coefficients differ by less than a
    /// factor of ten, so that a bubble is one body and the liquid around it another.
    fn bodies(&self) -> Result<AggregateMap>;
}
