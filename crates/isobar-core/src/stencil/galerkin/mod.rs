//! Galerkin coarse grids of the diffusion operator: A_c = PᵀAP, at most 27 points, nothing collapsed.
//!
//! Coarsening is vertex-centred: in each strong direction every other cell (0, 2, 4, …) stays, x, then y, then z on the result, with no smoothing in
//! between. Everything here is *setup*, in local passes over planes, in single precision if levels are and couplings fit. A back end may run these
//! on all its threads ([`Execute`]) or take them as the specification of its own kernels:
//!
//! * [`grid`] the cells,
//! * [`couplings`] a symmetric 27-point matrix as 13 couplings and a row sum per cell, and its properties,
//! * [`weights`] interpolation from the coefficients, relaxed across the line (an operator-induced P),
//! * [`product`] PᵀAP in one direction,
//! * [`bodies`] strongly coupled aggregates of cells, whose constants are corrected in addition to the smoothing,
//! * [`coarsest`] the inverse of the coarsest matrix,
//! * [`window`] the rows that one of several ranks computes,
//! * [`setup`] these steps as an interface of back ends,
//! * [`sizes`] the grids of the levels and their numbers of couplings, before the setup.
//!
//! `docs/notes/diffusion-multigrid.md` describes how the method was found and what each part is worth.

pub mod bodies;
pub mod coarsest;
pub mod couplings;
pub mod grid;
pub mod product;
mod relaxing;
pub mod setup;
mod shared;
pub mod sizes;
mod spare;
pub mod weights;
pub mod window;

pub use bodies::Bodies;
pub use couplings::{Couplings, Offset};
pub use grid::Grid;
pub use setup::{Directions, Matrix, Setup};
pub use shared::{Sums, merged};
pub use weights::Weights;
pub use window::{Ranked, Window};

use crate::Result;
pub use crate::execute::{Execute, Serial};
use crate::layout::Axis;
use crate::real::Real;

/// A coarser grid: the interpolation from it, and its matrix.
#[derive(Clone, Debug)]
pub struct Coarsening<N = f64> {
    /// Weights of one direction after the other, each acting on the result of the previous one.
    pub weights: Vec<Weights<N>>,
    /// PᵀAP
    pub coarse: Couplings<N>,
}

/// Computes PᵀAP with these directions halved, in their order. A matrix is dropped when the next one is ready, and its memory reused.
///
/// # Errors
/// The errors of the transport between ranks.
pub fn coarsen<N: Real>(on: &impl Ranked, fine: Couplings<N>, axes: &[Axis]) -> Result<Coarsening<N>> {
    let (mut weights, mut coarse) = (Vec::new(), fine);
    for &axis in axes {
        let w = Weights::new(on, &coarse, axis);
        let finer = coarse.window.clone();
        let window = finer.as_ref().and_then(|finer| finer.halved(axis));
        let next = product::product(on, &coarse, &w, window.as_ref());
        next.inherit(coarse);
        coarse = match (window, finer) {
            (Some(window), _) => next.renewed(on, window)?,
            (None, Some(finer)) => next.collected(on, &finer, axis)?,
            (None, None) => next,
        };
        weights.push(w);
    }
    Ok(Coarsening { weights, coarse })
}
