//! Galerkin coarse grids of the diffusion operator: A_c = PᵀAP, at most 27 points, nothing collapsed.
//!
//! Coarsening is vertex-centred: in each strong direction every other cell (0, 2, 4, …) stays, x, then y, then z on the
//! result, with nothing smoothed in between. Everything here is *setup*, made of local passes over planes, in single
//! precision where levels are and couplings fit, which a back end may run on as many threads as it has ([`Execute`]) or take as the specification of
//! kernels of its own:
//!
//! * [`couplings`] a symmetric 27-point matrix as 13 couplings and a row sum a cell, and what is read off it,
//! * [`weights`] interpolation from the coefficients, relaxed across the line (an operator-induced P),
//! * [`product`] PᵀAP in one direction,
//! * [`bodies`] strongly coupled bodies of cells, whose constants are corrected beside the smoothing,
//! * [`coarsest`] the inverse of the coarsest matrix,
//! * [`setup`] all of this, as a back end supplies it,
//! * [`sizes`] the grids of the levels and their numbers of couplings, before any of this.
//!
//! `docs/notes/diffusion-multigrid.md` says how the recipe was found and what each part is worth.

pub mod bodies;
pub mod coarsest;
pub mod couplings;
pub mod product;
mod relaxing;
pub mod setup;
pub mod sizes;
mod spare;
pub mod weights;

pub use bodies::Bodies;
pub use couplings::{Couplings, Grid, Offset};
pub use setup::{Directions, Matrix, Setup};
pub use weights::Weights;

use super::Axis;
pub use crate::execute::{Execute, Serial};
use crate::real::Real;

/// Zeros that are first touched by whoever works on them.
fn zeros<N: Real>(execute: &impl Execute, count: usize) -> Vec<N> {
    let all = vec![N::ZERO; count];
    execute.prefer_large_pages(&all);
    all
}

/// A coarser grid: how to interpolate from it, and its matrix.
#[derive(Clone, Debug)]
pub struct Coarsening<N = f64> {
    /// One direction after the other, each acting on what the one before left.
    pub weights: Vec<Weights<N>>,
    /// PᵀAP
    pub coarse: Couplings<N>,
}

/// PᵀAP with these directions halved, in their order. A matrix is dropped as soon as the next one is there, its memory kept for
/// those that follow.
pub fn coarsen<N: Real>(execute: &impl Execute, fine: Couplings<N>, axes: &[Axis]) -> Coarsening<N> {
    let (mut weights, mut coarse) = (Vec::new(), fine);
    for &axis in axes {
        let w = Weights::new(execute, &coarse, axis);
        let next = product::product(execute, &coarse, &w);
        next.inherit(coarse);
        coarse = next;
        weights.push(w);
    }
    Coarsening { weights, coarse }
}
