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
use isobar_core::stencil::galerkin::couplings::{UPPER, along};
use isobar_core::stencil::galerkin::product::{COLLAPSED, coarse_offsets};
use isobar_core::stencil::galerkin::weights::NEARLY_ONE;
use isobar_core::stencil::galerkin::{Grid, Serial, Setup, coarsest};

use crate::compile::Source;
use crate::cuda::Cuda;
use crate::galerkin::twenty_seven::bits;
use crate::kernels::galerkin::setup as kernels;
use crate::vector::c_name;

/// The kernels that know of the operator's precision.
pub fn source<T: Real>() -> Source {
    Source::new("galerkin_finest", kernels::FINEST).define("REAL", c_name::<T>())
}

/// All others; products both of any matrix and of one with couplings in these directions.
pub fn sources(present: &[bool; UPPER], coarse: &[bool; UPPER]) -> [Source; 6] {
    [measures(), weights_source(), any_product(), product_of(present, coarse), collapsed_source(), bodies_source()]
}

fn measures() -> Source {
    Source::new("galerkin_measures", kernels::MEASURES).define("CONTRAST", literal(CONTRAST))
}

fn weights_source() -> Source {
    Source::new("galerkin_weights", kernels::WEIGHTS).define("NEARLY_ONE", literal(NEARLY_ONE))
}

fn any_product() -> Source {
    Source::new("galerkin_product", kernels::PRODUCT)
}

fn product_of(present: &[bool; UPPER], coarse: &[bool; UPPER]) -> Source {
    any_product().define("PRESENT", bits(*present)).define("COARSE_PRESENT", bits(*coarse))
}

fn collapsed_source() -> Source {
    Source::new("galerkin_collapsed", kernels::COLLAPSED).define("COLLAPSED", literal(COLLAPSED))
}

fn bodies_source() -> Source {
    Source::new("galerkin_setup_bodies", kernels::BODIES)
        .define("LARGEST", LARGEST)
        .define("LOOSE", literal(LOOSE))
        .define("CANCELLED", literal(CANCELLED))
        .define("NEGLIGIBLE", literal(NEGLIGIBLE))
        .define("DAMPING", literal(DAMPING))
}

/// Directions of couplings on the way from a matrix of seven points to one that all directions have been halved in.
fn on_the_way(grid: &Grid) -> [[bool; UPPER]; 4] {
    let first = std::array::from_fn(|n| Axis::ALL.into_iter().any(|axis| n == along(axis)));
    let mut all = [first; 4];
    for (n, axis) in Axis::ALL.into_iter().enumerate() {
        all[n + 1] = coarse_offsets(&all[n], axis, grid);
    }
    all
}

/// Products of the finest grids know at compile time which couplings there are; those of others ask.
fn product(matrix: &Matrix, coarse: &[bool; UPPER]) -> Source {
    let (present, way) = (matrix.present(), on_the_way(&matrix.grid()));
    let is_on_the_way = way.windows(2).any(|pair| pair == [*present, *coarse]);
    if is_on_the_way { product_of(present, coarse) } else { any_product() }
}

/// Compiles at the same time what the levels below a matrix are made with.
fn compile_ahead(cuda: &Cuda, finest: &Matrix) -> Result<()> {
    let [first, second, third, last] = on_the_way(&finest.grid());
    cuda.prepare([measures(), weights_source(), any_product(), collapsed_source(), bodies_source()])?;
    if *finest.present() == first {
        cuda.prepare([product_of(&first, &second), product_of(&second, &third), product_of(&third, &last)])?;
    }
    Ok(())
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
