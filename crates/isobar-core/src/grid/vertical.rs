//! The four vertical vectors of the tensor-product operator (paper B, equation 14).

use super::{Geometry, GridOptions, HorizontalField};
use crate::error::{Error, Result};

/// A diagonal below this fraction of its terms is rounding.
const ROUNDING: f64 = 1e-13;

/// The vertical factors a, b, c, d of a tensor-product operator, one entry per layer.
///
/// In one column with horizontal factors |T| and α, row k reads
/// |T| [(a_k − b_k − c_k) u_k + b_k u_{k+1} + c_k u_{k−1}] + d_k (Σ α_{TT'} u_{T',k} − α_T u_k).
#[derive(Clone, Debug, PartialEq)]
pub struct VerticalProfile {
    /// Mass (zeroth-order term).
    pub a: Vec<f64>,
    /// Coupling to the layer above; the last entry is 0.
    pub b: Vec<f64>,
    /// Coupling to the layer below; the first entry is 0.
    pub c: Vec<f64>,
    /// Factor of the horizontal couplings.
    pub d: Vec<f64>,
}

impl VerticalProfile {
    /// Checks and takes a profile.
    ///
    /// # Errors
    /// [`Error::Invalid`] or [`Error::Shape`] if lengths differ, an entry is not finite, or a
    /// coupling leads out of the column.
    pub fn new(a: Vec<f64>, b: Vec<f64>, c: Vec<f64>, d: Vec<f64>) -> Result<Self> {
        let nz = a.len();
        if nz == 0 {
            return Err(Error::invalid("a", "an empty profile; a column has at least one layer"));
        }
        for (name, v) in [("a", &a), ("b", &b), ("c", &c), ("d", &d)] {
            if v.len() != nz {
                return Err(Error::shape(format!("vertical vector {name}"), v.len(), format!("{nz} (as a)")));
            }
            if let Some(k) = v.iter().position(|x| !x.is_finite()) {
                return Err(Error::invalid(name, format!("entry {k} is {}; every entry must be finite", v[k])));
            }
        }
        if c[0] != 0.0 || b[nz - 1] != 0.0 {
            return Err(Error::invalid(
                "b, c",
                format!(
                    "c[0] = {} and b[{}] = {} must be 0: they couple to layers outside the column",
                    c[0],
                    nz - 1,
                    b[nz - 1]
                ),
            ));
        }
        Ok(Self { a, b, c, d })
    }

    /// Returns whether the matrix of one column is singular to rounding, relative to the diagonal of the finer columns in it: all sums of rows are 0,
    /// or the diagonal of a layer that is not coupled to others.
    pub(crate) fn is_singular(&self, column: &HorizontalField, finer: &HorizontalField) -> bool {
        let diagonal = |k: usize, area: f64, total: f64| area * self.a[k] - self.d[k] * total;
        let finest = |k: usize| {
            finer
                .area
                .iter()
                .zip(&finer.total)
                .map(|(&area, &total)| diagonal(k, area, total).abs())
                .fold(0.0, f64::max)
        };
        // Couplings to other layers cancel in the sum of a row.
        let is_empty = |k: usize| diagonal(k, column.area[0], column.total[0]).abs() <= ROUNDING * finest(k);
        let is_apart = |k: usize| (self.b[k], self.c[k]) == (0.0, 0.0);
        (0..self.a.len()).all(is_empty) || (0..self.a.len()).any(|k| is_apart(k) && is_empty(k))
    }

    /// Computes the profile of −ω²(∇² u + λ² r⁻² ∂_r(r² ∂_r u)) + u on a grid's layers, homogeneous Neumann at bottom and top; on
    /// the box r² → 1.
    pub fn helmholtz(grid: &GridOptions, omega: f64, lambda: f64) -> Self {
        let (r, height, nz) = (grid.interfaces(), grid.heights(), grid.nz);
        let square = |r: f64| if grid.geometry == Geometry::Box { 1.0 } else { r * r };
        let stiffness = |face: usize| {
            // Interface `face` lies between the layers face − 1 and face.
            if face == 0 || face == nz {
                0.0
            } else {
                -2.0 * omega * omega * lambda * lambda * square(r[face]) / (height[face + 1] - height[face - 1])
            }
        };
        let thickness = |k: usize| height[k + 1] - height[k];
        Self {
            a: (0..nz)
                .map(|k| match grid.geometry {
                    Geometry::Box => thickness(k),
                    _ => thickness(k) * (r[k + 1] * r[k + 1] + r[k + 1] * r[k] + r[k] * r[k]) / 3.0,
                })
                .collect(),
            b: (0..nz).map(|k| stiffness(k + 1)).collect(),
            c: (0..nz).map(stiffness).collect(),
            d: (0..nz).map(|k| -omega * omega * thickness(k)).collect(),
        }
    }

    /// Returns the number of layers.
    pub fn len(&self) -> usize {
        self.a.len()
    }

    /// Returns whether there are no layers; never true for a checked profile.
    pub fn is_empty(&self) -> bool {
        self.a.is_empty()
    }

    /// Returns whether the vertical couplings are symmetric, b_k = c_{k+1}.
    pub fn is_symmetric(&self) -> bool {
        self.b.iter().zip(&self.c[1..]).all(|(b, c)| (b - c).abs() <= 1e-14 * b.abs().max(c.abs()))
    }
}
