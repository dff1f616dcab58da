//! The matrix of one axis.

/// The matrix of one axis: (K v)_i = σ_i v_i + Σ t (v_i − v_neighbour), and the masses that weigh its cells.
#[derive(Clone, Debug, PartialEq)]
pub struct AxisMatrix {
    /// The masses m, one per cell.
    pub mass: Vec<f64>,
    /// The shifts σ, one per cell.
    pub shift: Vec<f64>,
    /// The couplings t between a cell and the next; the last one is across the periodic end, else 0.
    pub couplings: Vec<f64>,
}

impl AxisMatrix {
    /// Returns the number of cells.
    pub fn len(&self) -> usize {
        self.mass.len()
    }

    /// Returns whether there is no cell, which no grid has.
    pub fn is_empty(&self) -> bool {
        self.mass.is_empty()
    }
}
