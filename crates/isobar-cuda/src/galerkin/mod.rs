//! Galerkin coarse grids of the diffusion operator on a card.
//!
//! * [`twenty_seven`] their matrices, relaxed in four colours, [`interpolation`] what goes between two of them,
//!   [`bodies`] corrections of strongly coupled bodies.
//!
//! All of a cycle runs on the card. The coarse matrices themselves, weights and bodies are computed on all threads of the
//! host, by [`isobar_core::stencil::galerkin`].

pub mod bodies;
pub mod interpolation;
pub mod twenty_seven;

use std::sync::Arc;

use isobar_core::error::Result;
use isobar_core::layout::Layout;
use isobar_core::real::Real;
use isobar_core::stencil::galerkin::{Bodies, Couplings, Execute, Weights};
use isobar_core::stencil::galerkin_levels::{Finer, SupportsGalerkin};
use rayon::prelude::*;

pub use bodies::BodyCorrection;
pub use interpolation::Interpolation;
pub use twenty_seven::TwentySeven;

use crate::compile::Source;
use crate::cuda::Cuda;
use crate::kernels::galerkin as kernels;
use crate::vector::c_name;

/// The kernels, in one precision.
pub fn sources<T: Real>() -> [Source; 4] {
    [
        ("galerkin_apply", kernels::APPLY),
        ("galerkin_lines", kernels::LINES),
        ("galerkin_interpolate", kernels::INTERPOLATE),
        ("galerkin_bodies", kernels::BODIES),
    ]
    .map(|(name, text)| Source::new(name, text).define("REAL", c_name::<T>()))
}

/// Threads in m and in k of a block with a cell a thread, where there are so many layers.
fn cell_block(layers: usize) -> [usize; 2] {
    if layers == 1 { [256, 1] } else { [32, 8] }
}

impl Execute for Cuda {
    fn for_each<X: Send>(&self, items: &mut [X], f: impl Fn(usize, &mut X) + Sync) {
        items.par_iter_mut().enumerate().for_each(|(n, item)| f(n, item));
    }
}

impl SupportsGalerkin for Cuda {
    type Coarse<T: Real> = TwentySeven<T>;
    type Interpolation<T: Real> = Interpolation<T>;
    type BodyCorrection<T: Real> = BodyCorrection<T>;

    fn coarse<T: Real>(&self, matrix: &Couplings) -> Result<Arc<TwentySeven<T>>> {
        TwentySeven::new(self, matrix).map(Arc::new)
    }

    fn update_coarse<T: Real>(&self, coarse: &TwentySeven<T>, matrix: &Couplings) -> Result<()> {
        coarse.update(matrix)
    }

    fn interpolation<T: Real>(
        &self,
        finer: Finer<'_, Self, T>,
        coarse: &Layout,
        weights: Vec<Weights>,
    ) -> Result<Arc<Interpolation<T>>> {
        Interpolation::new(self, finer, coarse, &weights).map(Arc::new)
    }

    fn update_interpolation<T: Real>(&self, between: &Interpolation<T>, weights: Vec<Weights>) -> Result<()> {
        between.update(&weights)
    }

    fn body_correction<T: Real>(&self, _: &Layout, bodies: Vec<Bodies>) -> Result<Arc<BodyCorrection<T>>> {
        BodyCorrection::new(self, &bodies).map(Arc::new)
    }

    fn update_bodies<T: Real>(&self, correction: &BodyCorrection<T>, bodies: Vec<Bodies>) -> Result<()> {
        correction.update(&bodies)
    }
}
