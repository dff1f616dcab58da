//! The tensor-product operator of papers A and B.

use std::sync::Arc;

use super::modes::{Kept, VerticalModes};
use super::{Csr, Stencil, StoredMatrix};
use crate::grid::horizontal::Metric;
use crate::grid::{Geometry, GridOptions, HorizontalField, VerticalProfile};
use crate::{Error, Result, Shape, get_or_make};

/// A matrix whose rows are products of vertical and horizontal factors (paper B, equations 6 and 14):
///
/// (A u)_{T,k} = |T| [(a_k − b_k − c_k) u_k + b_k u_{k+1} + c_k u_{k−1}] − α_T d_k u_k + d_k Σ α_{TT'} u_{T',k}.
///
/// Only nz vertical and nx × ny horizontal numbers are stored; rows are recomputed wherever they are needed. Any equation −ω²
/// ∇·(α∇u) − ω² ξ·∇u + βu = f whose profiles factorise has this form (paper B, equation 5).
#[derive(Clone, Debug, PartialEq)]
pub struct TensorProduct {
    pub(super) shape: Shape,
    // Shared by the copies that a solver makes.
    vertical: Arc<VerticalProfile>,
    horizontal: Arc<HorizontalField>,
    /// The grid from which `horizontal` can be computed again on coarser levels.
    grid: Option<GridOptions>,
    /// Whether no layer is coupled to another, for any coefficients.
    layers_apart: bool,
    /// The vertical modes, once computed.
    pub(super) modes: Kept<Arc<VerticalModes>>,
    /// Whether couplings are equal both ways, once examined.
    pub(super) symmetric: Kept<bool>,
}

/// One entry of a row: the neighbour's offset and the coefficient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coupling {
    /// Column index in x of the unknown.
    pub i: usize,
    /// Column index in y.
    pub j: usize,
    /// Layer.
    pub k: usize,
    /// The matrix entry.
    pub value: f64,
}

impl TensorProduct {
    /// Default number of multigrid levels: paper B's.
    pub const DEFAULT_LEVELS: usize = 5;

    /// Makes an operator of its factors.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a diagonal block cannot be factorised (a column's tridiagonal matrix
    /// must keep positive pivots for line relaxation), or if the largest entry is not between 10⁻¹⁰⁰ and 10¹⁰⁰.
    pub fn new(vertical: VerticalProfile, horizontal: HorizontalField) -> Result<Self> {
        /// Squares of entries and of vectors of this size neither overflow nor vanish.
        const MODERATE: std::ops::Range<f64> = 1e-100..1e100;
        let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, |most: f64, value| most.max(value.abs()));
        let VerticalProfile { a, b, c, d } = &vertical;
        let along = most(&mut (0..a.len()).map(|k| a[k] - b[k] - c[k])) * most(&mut horizontal.area.iter().copied());
        let across = most(&mut d.iter().copied()) * most(&mut horizontal.total.iter().copied());
        let largest = along.max(across);
        if largest > 0.0 && !MODERATE.contains(&largest) {
            let message =
                format!("its largest entry is about {largest:.1e}; use units in which it is between 1e-100 and 1e100");
            return Err(Error::invalid("problem", message));
        }
        Self::with_grid(vertical, horizontal, None)
    }

    /// Makes −ω²(∇² u + λ² r⁻² ∂_r(r² ∂_r u)) + u on a panel or the box: homogeneous Neumann at bottom and top, homogeneous
    /// Dirichlet around (paper B, equation 2).
    ///
    /// # Errors
    /// See [`GridOptions::validate`]; [`Error::Invalid`] for an ω or λ that is negative or not finite.
    pub fn helmholtz(grid: &GridOptions, omega: f64, lambda: f64) -> Result<Self> {
        for (key, value) in [("problem.omega", omega), ("problem.lambda", lambda)] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(Error::invalid(key, format!("{value}; use a finite number, 0 or more")));
            }
        }
        grid.validate()?;
        let vertical = VerticalProfile::helmholtz(grid, omega, lambda);
        Self::with_grid(vertical, HorizontalField::laplacian(grid)?, Some(grid.clone()))
    }

    fn with_grid(vertical: VerticalProfile, horizontal: HorizontalField, grid: Option<GridOptions>) -> Result<Self> {
        let shape = Shape::new(horizontal.nx, horizontal.ny, vertical.len());
        let layers_apart = shape.nz == 1;
        let (vertical, horizontal) = (Arc::new(vertical), Arc::new(horizontal));
        let (modes, symmetric) = (Kept::default(), Kept::default());
        let stencil = Self { shape, vertical, horizontal, grid, layers_apart, modes, symmetric };
        stencil.check_pivots()?;
        Ok(stencil)
    }

    /// Keeps the horizontal factors in decoupled layers: a_k |T| + d_k L_h with the given a and d.
    pub(super) fn with_layers_apart(&self, a: Vec<f64>, d: Vec<f64>) -> Result<Self> {
        let layers = a.len();
        let shape = Shape { nz: layers, ..self.shape };
        let stencil = Self {
            shape,
            vertical: Arc::new(VerticalProfile::new(a, vec![0.0; layers], vec![0.0; layers], d)?),
            horizontal: Arc::clone(&self.horizontal),
            grid: self.grid.clone(),
            layers_apart: true,
            modes: Kept::default(),
            symmetric: Kept::default(),
        };
        stencil.check_pivots()?;
        Ok(stencil)
    }

    /// Adds −ω² ξ·∇u by central differences: `xi(i, j)` gives (ξ_x, ξ_y) at the centre of a column in
    /// units of 1/length (its vertical profile is that of d), `xi_vertical` a constant ξ_r. The
    /// operator is then no longer symmetric: solve with BiCGStab or multigrid.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for operators that were not made from a grid; [`Error::Invalid`] if
    /// ξ is not finite or so large that a column's pivots turn negative.
    pub fn with_advection(
        mut self,
        omega: f64,
        xi: impl Fn(usize, usize) -> (f64, f64),
        xi_vertical: f64,
    ) -> Result<Self> {
        let Some(grid) = self.grid.take() else {
            return Err(Error::Unsupported(
                "advection needs the grid's cell widths: build the operator with TensorProduct::helmholtz, or add \
                 ξ to the couplings yourself"
                    .into(),
            ));
        };
        let metric = Metric::new(&grid);
        let Shape { nx, ny, nz } = self.shape;
        let field = Arc::make_mut(&mut self.horizontal);
        for j in 0..ny {
            for i in 0..nx {
                let (xi_x, xi_y) = xi(i, j);
                if !(xi_x.is_finite() && xi_y.is_finite() && xi_vertical.is_finite()) {
                    return Err(Error::invalid(
                        "problem.advection",
                        format!("({xi_x}, {xi_y}, {xi_vertical}) at column ({i}, {j}); every component must be finite"),
                    ));
                }
                let (width_x, width_y) = metric.widths(i, j);
                let (x, y) = (0.5 * xi_x * width_y, 0.5 * xi_y * width_x);
                let n = i + nx * j;
                // The value outside a Dirichlet boundary is −u, which moves a coupling to α_T.
                for (coupling, inside, amount) in [
                    (&mut field.west, i > 0, -x),
                    (&mut field.east, i + 1 < nx, x),
                    (&mut field.south, j > 0, -y),
                    (&mut field.north, j + 1 < ny, y),
                ] {
                    if inside {
                        coupling[n] += amount;
                    } else {
                        field.total[n] += amount;
                    }
                }
            }
        }
        let r = grid.interfaces();
        (self.modes, self.symmetric) = (Kept::default(), Kept::default());
        let vertical = Arc::make_mut(&mut self.vertical);
        for k in 0..nz {
            let centre = 0.5 * (r[k] + r[k + 1]);
            let square = if grid.geometry == Geometry::Box { 1.0 } else { centre * centre };
            let amount = 0.5 * omega * omega * xi_vertical * square;
            if k + 1 < nz {
                vertical.b[k] -= amount;
            }
            if k > 0 {
                vertical.c[k] += amount;
            }
        }
        self.check_pivots()?;
        Ok(self)
    }

    /// Checks the pivots of every column, by which line relaxation divides. They depend only on α_T/|T|, and grow with it
    /// where d < 0, so that its extremes suffice.
    fn check_pivots(&self) -> Result<()> {
        let v = &self.vertical;
        for (n, s) in self.horizontal.extreme_ratios().into_iter().flatten() {
            let mut excess_over_pivot = 0.0;
            for k in 0..v.len() {
                let excess = v.a[k] - s * v.d[k] - v.c[k] * excess_over_pivot;
                let pivot = excess - v.b[k];
                if !(pivot > 0.0 && pivot.is_finite()) {
                    let (i, j) = (n % self.shape.nx, n / self.shape.nx);
                    let why = if s == 0.0 && v.a.iter().all(|&a| a == 0.0) {
                        format!(
                            "column ({i}, {j}) has no horizontal couplings, and a is 0: nothing fixes x there. Give a a positive number, or make \
                             the problem of faces, which takes a mask"
                        )
                    } else if !self.is_symmetric() {
                        format!(
                            "the tridiagonal block of column ({i}, {j}) has pivot {pivot:.3e} in layer {k}, and must be positive: advection outweighs \
                             diffusion between cells; reduce it (problem.advection), or make cells smaller"
                        )
                    } else {
                        format!(
                            "the tridiagonal block of column ({i}, {j}) has pivot {pivot:.3e} in layer {k}; line relaxation needs positive \
                             pivots, as operators have with a ≥ 0, d ≤ 0, couplings of one sign, and a or horizontal couplings in each column"
                        )
                    };
                    return Err(Error::invalid("problem", why));
                }
                excess_over_pivot = excess / pivot;
            }
        }
        Ok(())
    }

    /// Returns whether layers are decoupled: a single layer, or vertical modes.
    pub fn has_layers_apart(&self) -> bool {
        self.layers_apart
    }

    /// Returns the vertical factors.
    pub fn vertical(&self) -> &VerticalProfile {
        &self.vertical
    }

    /// Returns the horizontal factors.
    pub fn horizontal(&self) -> &HorizontalField {
        &self.horizontal
    }

    /// Returns the entries of row (i, j, k): below, south, west, diagonal, east, north, above; those outside the grid are
    /// left out.
    pub fn row(&self, i: usize, j: usize, k: usize) -> impl Iterator<Item = Coupling> + use<> {
        let Shape { nx, ny, nz } = self.shape;
        let (v, h) = (&self.vertical, &self.horizontal);
        let n = i + nx * j;
        let (area, d) = (h.area[n], v.d[k]);
        let diagonal = area * (v.a[k] - v.b[k] - v.c[k]) - h.total[n] * d;
        let entry = |inside: bool, i, j, k, value| inside.then_some(Coupling { i, j, k, value });
        [
            entry(k > 0, i, j, k.wrapping_sub(1), area * v.c[k]),
            entry(j > 0, i, j.wrapping_sub(1), k, d * h.south[n]),
            entry(i > 0, i.wrapping_sub(1), j, k, d * h.west[n]),
            entry(true, i, j, k, diagonal),
            entry(i + 1 < nx, i + 1, j, k, d * h.east[n]),
            entry(j + 1 < ny, i, j + 1, k, d * h.north[n]),
            entry(k + 1 < nz, i, j, k + 1, area * v.b[k]),
        ]
        .into_iter()
        .flatten()
    }

    /// Stores every entry of the matrix.
    ///
    /// # Errors
    /// See [`Csr::new`]; more than 2³² rows are not supported.
    pub fn stored(&self) -> Result<StoredMatrix> {
        StoredMatrix::new(self.to_csr()?, self.shape)
    }

    /// Returns its entries; unknown (i, j, k) is row i + nx (k + nz j) (paper B, equation 13).
    ///
    /// # Errors
    /// See [`Csr::new`]; more than 2³² rows are not supported.
    pub fn to_csr(&self) -> Result<Csr> {
        let Shape { nx, ny, nz } = self.shape;
        Csr::from_rows(self.shape.cells(), |row, out| {
            let (i, rest) = (row % nx, row / nx);
            let (k, j) = (rest % nz, rest / nz);
            debug_assert!(j < ny);
            out.extend(self.row(i, j, k).map(|c| (c.i + nx * (c.k + nz * c.j), c.value)));
        })
    }
}

impl TensorProduct {
    /// Makes the operator on half as many columns each way, rounded up, with the same vertical factors: discretised again if the grid is
    /// known and both sizes are even, else from the fine factors. Returns `None` for one column, and if the remaining one would be singular:
    /// without mass and without couplings, its diagonal would be the rounding of a difference.
    pub fn coarsened(&self) -> Option<Self> {
        let shape = self.shape.halved()?;
        let is_even = self.shape.nx.is_multiple_of(2) && self.shape.ny.is_multiple_of(2);
        let (horizontal, grid) = match &self.grid {
            Some(grid) if is_even => {
                let grid = GridOptions { nx: shape.nx, ny: shape.ny, ..grid.clone() };
                (HorizontalField::laplacian(&grid).ok()?, Some(grid))
            }
            _ => (self.horizontal.coarsened()?, None),
        };
        if shape.nx * shape.ny == 1 && self.vertical.is_singular(&horizontal, &self.horizontal) {
            return None;
        }
        let (vertical, horizontal) = (Arc::clone(&self.vertical), Arc::new(horizontal));
        let (layers_apart, modes, symmetric) = (self.layers_apart, self.modes.clone(), Kept::default());
        Some(Self { shape, vertical, horizontal, grid, layers_apart, modes, symmetric })
    }
}

impl TensorProduct {
    /// Returns the vertical modes, or those of the symmetric part of the vertical operator. They are computed once.
    ///
    /// # Errors
    /// The errors of [`VerticalModes::new`].
    pub fn modes(&self) -> Result<Arc<VerticalModes>> {
        get_or_make(&self.modes.0, || self.compute_modes().map(Arc::new)).cloned()
    }

    fn compute_modes(&self) -> Result<VerticalModes> {
        let VerticalProfile { a, b, c, d } = self.vertical();
        if self.vertical().is_symmetric() {
            return VerticalModes::new(self.vertical());
        }
        let coupling: Vec<f64> = b.iter().zip(&c[1..]).map(|(b, c)| 0.5 * (b + c)).collect();
        let above = coupling.iter().copied().chain([0.0]).collect();
        let below = [0.0].into_iter().chain(coupling.iter().copied()).collect();
        VerticalModes::new(&VerticalProfile::new(a.clone(), above, below, d.clone())?)
    }

    /// Makes the two-dimensional problems of some modes, one per layer: μ_m |T| + L_h.
    ///
    /// # Errors
    /// The errors of [`TensorProduct::new`].
    pub fn of_modes(&self, modes: &VerticalModes) -> Result<Self> {
        self.with_layers_apart(modes.values().to_vec(), vec![-1.0; modes.count()])
    }

    /// Returns the number of levels of two-dimensional problems until horizontal couplings are no larger than μ |T|. Coarsening quarters
    /// them.
    pub(super) fn levels_of_modes(&self, mu: f64) -> usize {
        let largest = (self.largest_ratio() / mu).max(1.0);
        let columns = Stencil::shape(self).nx.max(Stencil::shape(self).ny) as f64;
        1 + largest.log(4.0).min(columns.log2()).ceil() as usize
    }

    /// Returns max α_T/|T| over the columns.
    pub fn largest_ratio(&self) -> f64 {
        self.horizontal().extreme_ratios().map_or(0.0, |[_, (_, most)]| most.max(0.0))
    }
}
