//! Transfers between grids of which one is coarsened by two, cell by cell.

use std::sync::Arc;

use super::seven_point::{At, Plain, fill, get};
use super::{Reference, Vector};
use crate::operator::{LineSmoother, Transfer};
use crate::stencil::Diffusion;
use crate::stencil::halving::Halving;
use crate::stencil::point_levels::SupportsPoints;
use crate::{Layout, Real, Result};

/// The transfer between two levels of point relaxation.
#[derive(Debug)]
pub struct PointTransfer<T: Real> {
    fine: Arc<Plain<Diffusion, T>>,
    coarse: Layout,
    by: Halving,
}

impl<T: Real> Transfer<Reference, T> for PointTransfer<T> {
    fn fine(&self) -> &dyn LineSmoother<Reference, T> {
        &*self.fine
    }

    fn coarse_layout(&self) -> &Layout {
        &self.coarse
    }

    fn restrict(&self, f: &mut Vector<T>, coarse_f: &mut Vector<T>) -> Result<()> {
        fill(coarse_f, |at| self.by.parts(at).fold(T::ZERO, |sum, at| sum + get(f)(at)));
        Ok(())
    }

    fn prolong(&self, coarse_u: &mut Vector<T>, u: &mut Vector<T>) -> Result<()> {
        let along = &self.by.along;
        let from =
            |d: usize, n: usize| [(along[d].part_of(n), along[d].near[n]), (along[d].beside(n), along[d].far[n])];
        let before = u.clone();
        fill(u, |at: At| {
            let mut sum = get(&before)(at);
            for (k, z) in from(2, at[2]) {
                for (j, y) in from(1, at[1]) {
                    for (i, x) in from(0, at[0]) {
                        sum += T::from_f64(x * y * z) * coarse_u.get(i, j, k);
                    }
                }
            }
            sum
        });
        Ok(())
    }
}

impl SupportsPoints for Reference {
    fn point_transfer<T: Real>(
        &self,
        fine: &Arc<Plain<Diffusion, T>>,
        coarse: &Layout,
        by: &Halving,
    ) -> Result<Arc<dyn Transfer<Self, T>>> {
        Ok(Arc::new(PointTransfer { fine: Arc::clone(fine), coarse: *coarse, by: by.clone() }))
    }
}
