//! Setup of levels on the GPU: the kernels of [`isobar_core::stencil::galerkin`]. Numbers are computed in double precision, and stored in
//! single precision if the levels are, and if couplings vary so little that this is accurate enough.
//!
//! * `matrix`: the matrix from a diffusion operator's coefficients, its strong directions, its levels; `rows`: of several GPUs,
//! * `weights`: interpolation and product in one direction; `bodies`: strongly coupled aggregates, `shared` by several GPUs; `inverse`: of the coarsest matrix,
//! * `sources`: their kernels; `workspace`: the memory for all of these during setup, at most 9.6 vectors of the finest
//!   level in double precision.
//!
//! The host receives the means of couplings, from which it chooses the directions, and the number of aggregates.

mod bodies;
mod inverse;
mod matrix;
mod rows;
mod shared;
mod sources;
mod weights;
mod workspace;

pub use bodies::Lists;
pub use matrix::Matrix;
pub(crate) use sources::expect_levels;
pub use sources::{Number, source, sources};
pub use weights::DirectionWeights;

use isobar_core::prelude::{Axis, Layout, Precision, Result};
use isobar_core::stencil::galerkin::{Grid, Setup};
use isobar_dist::PartBackend;
use isobar_dist::communicator::agree;

use crate::cuda::Cuda;

impl Setup for Cuda {
    type Matrix = Matrix;
    type Weights = Vec<DirectionWeights>;
    type Bodies = Vec<Lists>;

    fn grid(&self, matrix: &Matrix) -> Grid {
        matrix.whole_grid()
    }

    fn strong_axes(&self, matrix: &Matrix, halves_lines: bool) -> Result<Vec<Axis>> {
        matrix.strong_axes(halves_lines)
    }

    fn coarsen(&self, matrix: Matrix, axes: &[Axis]) -> Result<(Vec<DirectionWeights>, Matrix)> {
        let mut matrix = matrix;
        let mut all = Vec::with_capacity(axes.len());
        for &axis in axes {
            let make = || {
                let weights = DirectionWeights::new(&matrix, axis)?;
                Ok((weights.product(&matrix)?, weights))
            };
            let (mut made, cuda, window) = (make(), matrix.cuda.clone(), matrix.window.clone());
            // Its memory is used again.
            drop(matrix);
            let divided = cuda.ranks().zip(window.as_ref());
            if let Some((ranks, _)) = divided {
                made = agree(&**ranks.world(), made);
            }
            let (product, weights) = made?;
            matrix = match divided {
                Some((ranks, finer)) => product.of_window(ranks, finer, axis)?,
                None => product,
            };
            all.push(weights);
        }
        Ok((all, matrix))
    }

    fn may_have_bodies(&self, finest: &Matrix) -> Result<bool> {
        Ok(finest.has_contrast)
    }

    fn whole(&self, matrix: Matrix) -> Result<Matrix> {
        match matrix.divided() {
            Some((ranks, window)) => matrix.on_all(ranks, window),
            None => Ok(matrix),
        }
    }

    /// Keeps this rank's part of the lists of a whole matrix, on the host.
    fn bodies(&self, matrix: &Matrix, levels: Precision) -> Result<Vec<Lists>> {
        let all = bodies::find(matrix, levels)?;
        let Some(ranks) = self.ranks().filter(|_| matrix.window.is_none()) else { return Ok(all) };
        let whole = Layout::new(matrix.grid.shape)?;
        let rows = ranks.pairs_of_rows(matrix.grid.shape)?;
        all.iter().map(|lists| Lists::new(self, &lists.on_host()?.part(&whole, rows.starts(), ranks.rank()))).collect()
    }
}
