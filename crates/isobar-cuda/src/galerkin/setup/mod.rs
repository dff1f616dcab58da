//! Matrices of levels, made on the card: [`isobar_core::stencil::galerkin`] by kernels, always in double precision.
//!
//! * `matrix` from the coefficients of a diffusion operator to a matrix, its strong directions, what becomes of it,
//! * `weights` interpolation and product in one direction, `bodies` strongly coupled bodies,
//! * `workspace` the memory for all of it, which is there as long as levels are made: at most 9.6 vectors of the finest
//!   grid in double precision.
//!
//! The host is told the means of couplings, from which it chooses directions, and how many bodies there are. The coarsest
//! matrix is inverted there.

mod bodies;
mod matrix;
mod weights;
mod workspace;

pub use bodies::Lists;
pub use matrix::Matrix;
pub use weights::DirectionWeights;

use isobar_core::error::Result;
use isobar_core::layout::Layout;
use isobar_core::real::Real;
use isobar_core::stencil::Axis;
use isobar_core::stencil::galerkin::bodies::{CANCELLED, CONTRAST, DAMPING, LARGEST, LOOSE, NEGLIGIBLE};
use isobar_core::stencil::galerkin::weights::NEARLY_ONE;
use isobar_core::stencil::galerkin::{Grid, Serial, Setup, coarsest};

use crate::compile::Source;
use crate::cuda::Cuda;
use crate::kernels::galerkin::setup as kernels;
use crate::vector::c_name;

/// The kernels that know of the operator's precision.
pub fn source<T: Real>() -> Source {
    Source::new("galerkin_finest", kernels::FINEST).define("REAL", c_name::<T>())
}

/// All others.
pub fn sources() -> [Source; 4] {
    [measures(), weights_source(), product(), bodies_source()]
}

fn measures() -> Source {
    Source::new("galerkin_measures", kernels::MEASURES).define("CONTRAST", literal(CONTRAST))
}

fn weights_source() -> Source {
    Source::new("galerkin_weights", kernels::WEIGHTS).define("NEARLY_ONE", literal(NEARLY_ONE))
}

fn product() -> Source {
    Source::new("galerkin_product", kernels::PRODUCT)
}

fn bodies_source() -> Source {
    Source::new("galerkin_setup_bodies", kernels::BODIES)
        .define("LARGEST", LARGEST)
        .define("LOOSE", literal(LOOSE))
        .define("CANCELLED", literal(CANCELLED))
        .define("NEGLIGIBLE", literal(NEGLIGIBLE))
        .define("DAMPING", literal(DAMPING))
}

/// A number as C++ has it.
fn literal(value: f64) -> String {
    format!("{value:e}")
}

impl Setup for Cuda {
    type Matrix = Matrix;
    type Weights = Vec<DirectionWeights>;
    type Bodies = Vec<Lists>;

    fn grid(&self, matrix: &Matrix) -> Grid {
        matrix.grid()
    }

    fn strong_axes(&self, matrix: &Matrix) -> Result<Vec<Axis>> {
        matrix.strong_axes()
    }

    fn coarsen(&self, matrix: Matrix, axes: &[Axis]) -> Result<(Vec<DirectionWeights>, Matrix)> {
        let mut matrix = matrix;
        let mut all = Vec::with_capacity(axes.len());
        for &axis in axes {
            let weights = DirectionWeights::new(&matrix, axis)?;
            matrix = weights.product(&matrix)?;
            all.push(weights);
        }
        Ok((all, matrix))
    }

    fn may_have_bodies(&self, finest: &Matrix) -> Result<bool> {
        finest.has_contrast()
    }

    fn bodies(&self, matrix: &Matrix, layout: &Layout) -> Result<Vec<Lists>> {
        bodies::find(matrix, layout)
    }

    fn inverse(&self, matrix: &Matrix) -> Result<Vec<f64>> {
        Ok(coarsest::inverse(&matrix.on_host(&Serial)?))
    }
}
