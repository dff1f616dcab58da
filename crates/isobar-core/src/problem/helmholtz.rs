//! The pressure correction of an atmosphere model.

use std::f64::consts::PI;
use std::ops::Range;

use super::{RhsKind, Weighting, random, smooth};
use crate::execute;
use crate::grid::horizontal::Metric;
use crate::grid::{Geometry, GridOptions, VerticalProfile};
use crate::stencil::TensorProduct;
use crate::{Execute, Host, Result, Shape};

/// The equation −ω²(∇² u + ξ·∇u + λ² r⁻² ∂_r(r² ∂_r u)) + u = f on a panel or a box (paper B, equations 2
/// and 5), the pressure correction of a semi-implicit step of an atmosphere model.
#[derive(Clone, Debug, PartialEq)]
pub struct Helmholtz {
    /// The grid.
    pub grid: GridOptions,
    /// ν, the horizontal Courant number of sound; ω = ν h / 2.
    pub courant: f64,
    /// ω itself, where it does not follow the grid.
    pub omega: Option<f64>,
    /// Ratio of vertical to horizontal sound speed.
    pub lambda: f64,
    /// ξ, constant in x, y and the vertical.
    pub advection: [f64; 3],
}

impl Default for Helmholtz {
    fn default() -> Self {
        Self { grid: GridOptions::default(), courant: 8.4, omega: None, lambda: 1.0, advection: [0.0; 3] }
    }
}

impl Helmholtz {
    /// Returns ω.
    pub fn omega(&self) -> f64 {
        self.omega.unwrap_or(0.5 * self.courant * self.grid.spacing())
    }

    /// Makes the matrix.
    ///
    /// # Errors
    /// See [`TensorProduct::helmholtz`] and [`TensorProduct::with_advection`].
    pub fn stencil(&self) -> Result<TensorProduct> {
        let omega = self.omega();
        let stencil = TensorProduct::helmholtz(&self.grid, omega, self.lambda)?;
        let [x, y, z] = self.advection;
        if self.advection == [0.0; 3] { Ok(stencil) } else { stencil.with_advection(omega, |_, _| (x, y), z) }
    }

    /// Fails if no memory can be allocated for a vector of the whole grid.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid)
    pub fn require_room(&self) -> Result<()> {
        execute::require_room(self.grid.shape().cells())
    }

    /// Computes a right-hand side in C order, shape (nz, ny, nx).
    ///
    /// # Errors
    /// See [`GridOptions::validate`].
    pub fn rhs(&self, kind: RhsKind, seed: u64, weighting: Weighting) -> Result<Vec<f64>> {
        self.rhs_in(&self.all_rows(), kind, seed, weighting)
    }

    /// Computes a right-hand side in some rows of the grid, (nz, rows, nx).
    ///
    /// # Errors
    /// See [`Helmholtz::rhs`].
    pub fn rhs_in(&self, rows: &Range<usize>, kind: RhsKind, seed: u64, weighting: Weighting) -> Result<Vec<f64>> {
        let Shape { nx, ny, nz } = self.grid.shape();
        execute::require_room(nx * rows.len() * nz)?;
        let fraction = |i: usize, n: usize| (i as f64 + 0.5) / n as f64;
        let mut values = match kind {
            RhsKind::Constant => self.fill(rows, |_, _, _| 1.0),
            RhsKind::Random => self.fill(rows, |i, j, k| random(seed, i + nx * (k + nz * j))),
            RhsKind::Smooth => self.fill(rows, |i, j, k| smooth(fraction(i, nx), fraction(j, ny), fraction(k, nz))),
            RhsKind::Manufactured => self.manufactured_rhs(rows),
        };
        if weighting == Weighting::Volume {
            self.times_volume_in(rows, &mut values)?;
        }
        Ok(values)
    }

    fn all_rows(&self) -> Range<usize> {
        0..self.grid.ny
    }

    /// Multiplies point values, shape (nz, ny, nx) in C order, by the cell volumes |T| a_k.
    ///
    /// # Errors
    /// See [`GridOptions::validate`].
    pub fn times_volume(&self, values: &mut [f64]) -> Result<()> {
        self.times_volume_in(&self.all_rows(), values)
    }

    /// Multiplies point values in some rows of the grid, (nz, rows, nx), by the cell volumes.
    ///
    /// # Errors
    /// See [`Helmholtz::times_volume`].
    pub fn times_volume_in(&self, rows: &Range<usize>, values: &mut [f64]) -> Result<()> {
        self.grid.validate()?;
        let vertical = VerticalProfile::helmholtz(&self.grid, self.omega(), self.lambda);
        let areas = &Metric::new(&self.grid).areas()[self.grid.nx * rows.start..self.grid.nx * rows.end];
        let mut layers: Vec<_> = values.chunks_mut(areas.len().max(1)).zip(&vertical.a).collect();
        Host.for_each(&mut layers, |_, (layer, a)| {
            layer.iter_mut().zip(areas).for_each(|(value, &area)| *value *= area * **a);
        });
        Ok(())
    }

    fn fill(&self, rows: &Range<usize>, f: impl Fn(usize, usize, usize) -> f64 + Sync) -> Vec<f64> {
        let Shape { nx, nz, .. } = self.grid.shape();
        execute::rows(&Host, nx * rows.len() * nz, nx, |row, values| {
            let (j, k) = (rows.start + row % rows.len(), row / rows.len());
            values.iter_mut().enumerate().for_each(|(i, value)| *value = f(i, j, k));
        })
    }

    /// Computes the exact solution of [`RhsKind::Manufactured`] at cell centres: sin πx sin πy cos(πζ) on
    /// the box and cos(πρ/2) cos(πσ/2) cos(πζ) on the panels, ζ the relative height. It vanishes at the
    /// sides and has no vertical derivative at bottom and top.
    pub fn exact(&self) -> Vec<f64> {
        self.exact_in(&self.all_rows())
    }

    /// Computes the exact solution in some rows of the grid, (nz, rows, nx).
    pub fn exact_in(&self, rows: &Range<usize>) -> Vec<f64> {
        self.at_centres(rows, |x, y, zeta, _| horizontal_mode(self.grid.geometry, x, y).value * (PI * zeta).cos())
    }

    fn manufactured_rhs(&self, rows: &Range<usize>) -> Vec<f64> {
        let omega = self.omega();
        let depth = self.grid.relative_depth();
        let m = PI / depth;
        self.at_centres(rows, |x, y, zeta, r| {
            let mode = horizontal_mode(self.grid.geometry, x, y);
            let (sin, cos) = (PI * zeta).sin_cos();
            let flat = self.grid.geometry == Geometry::Box;
            // ∇² on the sphere of radius r is that of the unit sphere over r².
            let horizontal = mode.laplacian * cos / if flat { 1.0 } else { r * r };
            let vertical = mode.value * (-m * m * cos - if flat { 0.0 } else { 2.0 * m * sin / r });
            let [xi_x, xi_y, xi_z] = self.advection;
            let advection = if flat {
                (xi_x * mode.gradient.0 + xi_y * mode.gradient.1) * cos - xi_z * mode.value * m * sin
            } else {
                0.0
            };
            -omega * omega * (horizontal + advection + self.lambda * self.lambda * vertical) + mode.value * cos
        })
    }

    fn at_centres(&self, rows: &Range<usize>, f: impl Fn(f64, f64, f64, f64) -> f64 + Sync) -> Vec<f64> {
        let metric = Metric::new(&self.grid);
        let heights = self.grid.heights();
        let depth = self.grid.relative_depth();
        self.fill(rows, |i, j, k| {
            let height = 0.5 * (heights[k] + heights[k + 1]);
            f(metric.x(i as f64 + 0.5), metric.y(j as f64 + 0.5), height / depth, 1.0 + height)
        })
    }

    /// Returns cell-centre coordinates: x, y in the panel's or the box's own units, heights in metres.
    pub fn coordinates(&self) -> [Vec<f64>; 3] {
        let metric = Metric::new(&self.grid);
        let heights: Vec<f64> = self.grid.heights().iter().map(|h| h * crate::grid::EARTH_RADIUS).collect();
        [
            (0..self.grid.nx).map(|i| metric.x(i as f64 + 0.5)).collect(),
            (0..self.grid.ny).map(|j| metric.y(j as f64 + 0.5)).collect(),
            heights.windows(2).map(|h| 0.5 * (h[0] + h[1])).collect(),
        ]
    }
}

struct Mode {
    value: f64,
    gradient: (f64, f64),
    laplacian: f64,
}

/// Returns the horizontal factor of the exact solution, its gradient and its Laplacian on the unit sphere or in the plane. In
/// gnomonic coordinates ∇² u = δ [(1+ρ²) u_ρρ + 2ρσ u_ρσ + (1+σ²) u_σσ + 2ρ u_ρ + 2σ u_σ] with δ = 1 + ρ² + σ².
fn horizontal_mode(geometry: Geometry, x: f64, y: f64) -> Mode {
    if geometry == Geometry::Box {
        let ((sx, cx), (sy, cy)) = ((PI * x).sin_cos(), (PI * y).sin_cos());
        return Mode { value: sx * sy, gradient: (PI * cx * sy, PI * sx * cy), laplacian: -2.0 * PI * PI * sx * sy };
    }
    let w = PI / 2.0;
    let ((sx, cx), (sy, cy)) = ((w * x).sin_cos(), (w * y).sin_cos());
    let (ux, uy) = (-w * sx * cy, -w * cx * sy);
    let (uxx, uxy, uyy) = (-w * w * cx * cy, w * w * sx * sy, -w * w * cx * cy);
    let delta = 1.0 + x * x + y * y;
    Mode {
        value: cx * cy,
        gradient: (ux, uy),
        laplacian: delta
            * ((1.0 + x * x) * uxx + 2.0 * x * y * uxy + (1.0 + y * y) * uyy + 2.0 * x * ux + 2.0 * y * uy),
    }
}
