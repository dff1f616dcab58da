//! Galerkin levels of the diffusion operator on a GPU.
//!
//! * [`twenty_seven`]: their matrices, relaxed in four colours; [`interpolation`]: transfers between two levels;
//!   [`bodies`]: corrections of strongly coupled aggregates,
//! * [`setup`]: their computation.
//!
//! The whole cycle runs on the GPU, and so does its setup. If several GPUs share a grid, each makes the matrices of its own rows and of some
//! around them.

pub mod bodies;
pub mod interpolation;
pub mod setup;
mod small;
mod sources;
pub mod twenty_seven;

use std::sync::Arc;

use isobar_core::prelude::{Backend, Diffusion, Layout, Precision, Real, Result};
use isobar_core::stencil::galerkin::Grid;
use isobar_core::stencil::galerkin_levels::{Finer, SupportsGalerkin};

pub use bodies::BodyCorrection;
pub use interpolation::Interpolation;
pub use setup::{DirectionWeights, Lists, Matrix};
pub use sources::{apply_source, columns_source, small_source, sources};
pub use twenty_seven::TwentySeven;

use crate::aggregate::AggregateMatrix;
use crate::cuda::Cuda;
use crate::overhead::OVERHEAD;

impl SupportsGalerkin for Cuda {
    /// Returns W-cycle visits (1, 2) for 2²⁴ cells and more, which save up to a third of the iterations; on smaller grids the launches of
    /// second visits cost more than they save.
    fn visits(cells: usize) -> &'static [usize] {
        if cells < 1 << 24 { &[] } else { &[1, 2] }
    }
    /// A level is 6 to 15 launches, of 4 to 12 µs; a product with the inverse of 2048 cells reads 34 MB, most of it from the cache, in one.
    const COARSEST_CELLS: usize = OVERHEAD.coarsest;

    type Coarse<T: Real> = TwentySeven<T>;
    type Interpolation<T: Real> = Interpolation<T>;
    type BodyCorrection<T: Real> = BodyCorrection<T>;

    fn finest<T: Real>(&self, stencil: &Diffusion, operator: &Arc<Self::Operator<T>>) -> Result<Matrix> {
        Matrix::of(operator.kernels(), Grid::of(stencil))
    }

    fn coarse<T: Real>(&self, matrix: &Matrix) -> Result<Arc<TwentySeven<T>>> {
        TwentySeven::new(self, matrix, self.own_rows(matrix.whole_grid().shape)?).map(Arc::new)
    }

    fn update_coarse<T: Real>(&self, coarse: &TwentySeven<T>, matrix: &Matrix) -> Result<()> {
        coarse.update(matrix)
    }

    fn interpolation<T: Real>(
        &self,
        finer: Finer<'_, Self, T>,
        coarse: &Layout,
        weights: Vec<DirectionWeights>,
    ) -> Result<Arc<Interpolation<T>>> {
        Interpolation::new(self, finer, coarse, &weights).map(Arc::new)
    }

    fn update_interpolation<T: Real>(&self, between: &Interpolation<T>, weights: Vec<DirectionWeights>) -> Result<()> {
        between.update(&weights)
    }

    fn body_correction<T: Real>(&self, _: &Layout, bodies: Vec<Lists>) -> Result<Arc<BodyCorrection<T>>> {
        BodyCorrection::new(self, bodies).map(Arc::new)
    }

    fn update_bodies<T: Real>(&self, correction: &BodyCorrection<T>, bodies: Vec<Lists>) -> Result<()> {
        correction.update(bodies)
    }

    fn inverse(&self, matrix: &Matrix, levels: Precision) -> Result<AggregateMatrix> {
        matrix.inverse(levels)
    }
}
