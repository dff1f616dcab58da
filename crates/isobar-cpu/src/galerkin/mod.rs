//! Galerkin levels of the diffusion operator on processor cores.
//!
//! * [`Level27`]: the 27-point operator and its lines in four colours,
//! * [`Interpolation`]: transfers between two levels, direction by direction,
//! * [`BodyCorrection`]: sums over strongly coupled aggregates.
//!
//! Setup runs core's passes over planes on all threads.

mod bodies;
mod interpolation;
mod lines;
mod middle;
mod operator;
mod rows;
mod streams;
mod transfer;
mod weights;

use std::sync::Arc;

use isobar_core::backend::AggregateBackend;
use isobar_core::prelude::{Backend, Diffusion, Layout, Precision, Real, Result, Serial, Shape};
use isobar_core::stencil::galerkin::{Bodies, Directions, Execute, Matrix, Ranked};
use isobar_core::stencil::galerkin_levels::{Finer, SupportsGalerkin};
use isobar_dist::PartBackend;

pub use bodies::BodyCorrection;
pub use interpolation::Interpolation;
pub use operator::Level27;

use self::interpolation::Fine;
use crate::cpu::Cpu;

impl Execute for Cpu {
    /// Runs `f` on all threads. A thread begins with neighbouring planes: it has them in its cache and, on NUMA
    /// machines, in near memory.
    fn for_each<X: Send>(&self, items: &mut [X], f: impl Fn(usize, &mut X) + Sync) {
        // A reference to a dynamic closure, so that this is compiled once.
        let f: &(dyn Fn(usize, &mut X) + Sync) = &f;
        match self.team() {
            Some(team) => team.for_each_of(items, f),
            None => Serial.for_each(items, f),
        }
    }
}

impl Ranked for Cpu {
    fn division(&self, grid: Shape) -> Result<Option<(Vec<usize>, usize)>> {
        let Some(ranks) = self.ranks() else { return Ok(None) };
        Ok(Some((ranks.pairs_of_rows(grid)?.starts().to_vec(), ranks.rank())))
    }

    fn exchange(&self, send: [&[u8]; 2], receive: [&mut [u8]; 2]) -> Result<()> {
        self.ranks().map_or(Ok(()), |ranks| ranks.exchange_sides(send, receive))
    }

    fn collect(&self, own: &[u8], counts: &[usize], all: &mut [u8]) -> Result<()> {
        match self.ranks() {
            Some(ranks) => ranks.world().all_gather(own, counts, all),
            None => {
                all.copy_from_slice(own);
                Ok(())
            }
        }
    }
}

impl SupportsGalerkin for Cpu {
    type Coarse<T: Real> = Level27<T>;
    type Interpolation<T: Real> = Interpolation<T>;
    type BodyCorrection<T: Real> = BodyCorrection;

    fn finest<T: Real>(&self, stencil: &Diffusion, _: &Arc<Self::Operator<T>>) -> Result<Matrix> {
        Matrix::of(self, stencil, T::PRECISION)
    }

    fn coarse<T: Real>(&self, matrix: &Matrix) -> Result<Arc<Level27<T>>> {
        Ok(Arc::new(Level27::new(self, matrix, self.own_rows(matrix.grid().shape)?)?))
    }

    fn update_coarse<T: Real>(&self, coarse: &Level27<T>, matrix: &Matrix) -> Result<()> {
        coarse.update(matrix);
        Ok(())
    }

    fn interpolation<T: Real>(
        &self,
        finer: Finer<'_, Self, T>,
        coarse: &Layout,
        weights: Directions,
    ) -> Result<Arc<Interpolation<T>>> {
        let fine = match finer {
            Finer::Finest(operator) => Fine::Finest(Arc::clone(operator)),
            Finer::Coarse(operator) => Fine::Coarse(Arc::clone(operator)),
        };
        Ok(Arc::new(Interpolation::new(fine, *coarse, &weights)?))
    }

    fn update_interpolation<T: Real>(&self, between: &Interpolation<T>, weights: Directions) -> Result<()> {
        between.update(&weights);
        Ok(())
    }

    fn body_correction<T: Real>(&self, layout: &Layout, bodies: Vec<Bodies>) -> Result<Arc<BodyCorrection>> {
        Ok(Arc::new(BodyCorrection::new(self, *layout, bodies)))
    }

    fn update_bodies<T: Real>(&self, correction: &BodyCorrection, bodies: Vec<Bodies>) -> Result<()> {
        correction.update(bodies);
        Ok(())
    }

    fn inverse(&self, matrix: &Matrix, levels: Precision) -> Result<Self::AggregateMatrix> {
        self.aggregate_matrix(matrix.grid().shape.cells(), &matrix.inverse(levels))
    }
}
