//! Widths of cells.

/// Widths of cells along one direction.
#[derive(Clone, Debug, PartialEq)]
pub enum Spacing {
    /// One width for all cells.
    Uniform(f64),
    /// A width for each cell.
    Given(Vec<f64>),
}

impl Spacing {
    /// Returns the width of cell n.
    pub fn width(&self, n: usize) -> f64 {
        match self {
            Self::Uniform(d) => *d,
            Self::Given(widths) => widths[n],
        }
    }

    pub(super) fn uniform(&self) -> Option<f64> {
        match self {
            Self::Uniform(d) => Some(*d),
            Self::Given(widths) => widths.iter().all(|d| d == &widths[0]).then(|| widths[0]),
        }
    }

    /// Returns the sum of `n` widths.
    pub fn extent(&self, n: usize) -> f64 {
        match self {
            Self::Uniform(d) => d * n as f64,
            Self::Given(widths) => widths.iter().sum(),
        }
    }

    /// Returns the centres of `n` cells.
    pub fn centres(&self, n: usize) -> Vec<f64> {
        let mut edge = 0.0;
        (0..n)
            .map(|m| {
                let width = self.width(m);
                edge += width;
                edge - 0.5 * width
            })
            .collect()
    }
}
