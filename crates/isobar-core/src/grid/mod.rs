//! Grids for the tensor-product operator.
//!
//! * [`vertical`]: the layers r_k and the four vertical vectors,
//! * [`horizontal`]: cell areas and face couplings of the panels and the box.

pub mod horizontal;
pub mod vertical;

use serde::{Deserialize, Serialize};

use crate::{Error, Result, Shape};

pub use horizontal::HorizontalField;
pub use vertical::VerticalProfile;

/// The Earth's radius in the papers.
pub const EARTH_RADIUS: f64 = 6_371_220.0; // m

/// The shape of the horizontal domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Geometry {
    /// One panel of the cubed sphere, gnomonic, vertices equidistant on the cube's face (papers A and B).
    #[default]
    Panel,
    /// One panel of the cubed sphere, gnomonic, vertices at equal angles.
    EquiangularPanel,
    /// The unit square, flat.
    Box,
}

/// The spacing of the layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grading {
    /// r_k = 1 + H (k/nz)²: thin layers at the ground.
    #[default]
    Quadratic,
    /// r_k = 1 + H k/nz.
    Uniform,
}

/// `[grid]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GridOptions {
    /// The horizontal domain.
    pub geometry: Geometry,
    /// Cells in x.
    pub nx: usize,
    /// Cells in y.
    pub ny: usize,
    /// Levels.
    pub nz: usize,
    /// Height of the domain.
    pub depth: f64, // m
    /// Spacing of the layers.
    pub grading: Grading,
}

impl Default for GridOptions {
    fn default() -> Self {
        Self { geometry: Geometry::Panel, nx: 128, ny: 128, nz: 128, depth: 50e3, grading: Grading::Quadratic }
    }
}

impl GridOptions {
    /// Returns the number of cells in each direction.
    pub fn shape(&self) -> Shape {
        Shape::new(self.nx, self.ny, self.nz)
    }

    /// Returns H, the depth in Earth radii.
    pub fn relative_depth(&self) -> f64 {
        self.depth / EARTH_RADIUS
    }

    /// Returns the horizontal spacing h: (π/2)/nx on a panel, 1/nx on the box.
    pub fn spacing(&self) -> f64 {
        let width = if self.geometry == Geometry::Box { 1.0 } else { std::f64::consts::FRAC_PI_2 };
        width / self.nx as f64
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the key and the range.
    pub fn validate(&self) -> Result<()> {
        crate::layout::Layout::new(self.shape())?;
        if !(1e-3..=1e9).contains(&self.depth) {
            return Err(Error::invalid(
                "grid.depth",
                format!("{} m; use a height from 1e-3 to 1e9 m, such as 50e3", self.depth),
            ));
        }
        Ok(())
    }

    /// Returns the heights of the nz + 1 layer interfaces above the ground, r_k − 1, in Earth radii.
    pub fn heights(&self) -> Vec<f64> {
        let depth = self.relative_depth();
        (0..=self.nz)
            .map(|k| {
                let s = k as f64 / self.nz as f64;
                depth * if self.grading == Grading::Quadratic { s * s } else { s }
            })
            .collect()
    }

    /// Returns the radii r_k of the nz + 1 layer interfaces, in Earth radii. Subtract
    /// [`GridOptions::heights`], not these: two radii near 1 leave few digits of a thin layer.
    pub fn interfaces(&self) -> Vec<f64> {
        self.heights().into_iter().map(|height| 1.0 + height).collect()
    }
}
