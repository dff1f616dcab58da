//! The memory that the CPU takes besides vectors and coefficients.

use isobar_core::build::Overhead;
use isobar_core::stencil::galerkin_levels::SupportsGalerkin;
use isobar_core::stencil::{Diffusion, Supports};

use crate::cpu::{CELLS_WORTH_A_THREAD, Cpu};
use crate::seven_point::PLANES;

impl Cpu {
    /// Returns the memory of threads: two tiles of elimination factors, each at most a half plane, besides their planes, and in Jacobi's
    /// method a tile of all its operands.
    pub fn overhead(&self) -> Overhead {
        Overhead {
            threads: [self.threads(), CELLS_WORTH_A_THREAD],
            half_planes: 2.0 * PLANES as f64 + 2.0,
            tile: (2 << 20) as f64,
            coarsest: Self::COARSEST_CELLS,
            orientation: <Self as Supports<Diffusion>>::ORIENTATION,
            ..Overhead::default()
        }
    }
}
