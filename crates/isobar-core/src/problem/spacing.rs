//! Widths of cells.

use crate::layout::Shape;
use crate::stencil::Crossing;

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

    /// Returns the directions that cross, by widths in x, y and z alone: if κ is the same in all directions.
    pub fn crossing(widths: &[Self; 3], shape: Shape) -> Crossing {
        let extents = shape.extents();
        let [x, y, z] = [0, 1, 2].map(|d| {
            let widths = (0..extents[d]).map(|n| widths[d].width(n));
            widths.fold([f64::INFINITY, 0.0_f64], |[least, most], width| [least.min(width), most.max(width)])
        });
        // A coupling is κ over the square of a width. All couplings of a single cell are equal.
        let of_pair =
            |[one, other]: [[f64; 2]; 2]| Crossing::factor((other[0] / one[1]).powi(2), (other[1] / one[0]).powi(2));
        Crossing::of([[x, y], [x, z], [y, z]].map(of_pair), shape)
    }

    /// Returns the mean couplings 2A/d of each direction for κ = 1, by widths in x, y and z.
    pub fn strengths(widths: &[Self; 3], shape: Shape) -> [f64; 3] {
        let mean = |d: usize, of: fn(f64) -> f64| {
            let n = shape.extents()[d];
            (0..n).map(|n| of(widths[d].width(n))).sum::<f64>() / n as f64
        };
        let of = |d: usize| move |e: usize| if e == d { mean(e, f64::recip) } else { mean(e, |width| width) };
        [0, 1, 2].map(|d| 2.0 * (0..3).map(of(d)).product::<f64>())
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
