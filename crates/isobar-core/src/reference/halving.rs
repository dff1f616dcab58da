//! Between grids of which one has half as many cells in some directions, cell by cell.

use std::sync::Arc;

use super::seven_point::{At, Plain, fill, get};
use super::{Reference, Vector};
use crate::error::Result;
use crate::layout::Layout;
use crate::operator::{LineSmoother, Operator, Transfer};
use crate::real::Real;
use crate::stencil::Diffusion;
use crate::stencil::halving::Halving;
use crate::stencil::point_levels::SupportsPoints;

/// Between two levels of point relaxation.
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

    fn restrict(&self, f: &Vector<T>, coarse_f: &mut Vector<T>) -> Result<()> {
        let [[x, y], [coarse_x, coarse_y]] = [f.layout(), coarse_f.layout()].map(Layout::origin);
        fill(coarse_f, |[i, j, k]| {
            let parts = self.by.parts([i + coarse_x, j + coarse_y, k]);
            parts.fold(T::ZERO, |sum, [i, j, k]| sum + f.get(i.wrapping_sub(x), j.wrapping_sub(y), k))
        });
        Ok(())
    }

    fn prolong(&self, coarse_u: &Vector<T>, u: &mut Vector<T>) -> Result<()> {
        let along = &self.by.along;
        let from =
            |d: usize, n: usize| [(along[d].part_of(n), along[d].near[n]), (along[d].beside(n), along[d].far[n])];
        let [first, coarse_first] = [u.layout(), coarse_u.layout()].map(Layout::origin);
        // Around a ring through several parts the column before the first is the last one, and the one after the last the first.
        let (own, goes_on) = (coarse_u.layout().shape().nx, coarse_u.layout().goes_on_in_x());
        let column = |i: usize| match i.wrapping_sub(coarse_first[0]) {
            i if i < own => i,
            _ if goes_on[0] && (i + 1) % self.by.coarse.nx == coarse_first[0] => usize::MAX,
            _ => own,
        };
        let row = |j: usize| coarse_u.layout().row_here(j).cast_unsigned();
        let before = u.clone();
        fill(u, |at: At| {
            let mut sum = get(&before)(at);
            for (k, z) in from(2, at[2]) {
                for (j, y) in from(1, at[1] + first[1]) {
                    for (i, x) in from(0, at[0] + first[0]) {
                        sum += T::from_f64(x * y * z) * coarse_u.get(column(i), row(j), k);
                    }
                }
            }
            sum
        });
        Ok(())
    }
}

impl SupportsPoints for Reference {
    type PointTransfer<T: Real> = PointTransfer<T>;

    fn point_transfer<T: Real>(
        &self,
        fine: &Arc<Plain<Diffusion, T>>,
        coarse: &Arc<Plain<Diffusion, T>>,
        by: &Halving,
    ) -> Result<Arc<PointTransfer<T>>> {
        Ok(Arc::new(PointTransfer { fine: Arc::clone(fine), coarse: *coarse.layout(), by: by.clone() }))
    }
}
