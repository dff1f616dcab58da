//! The fused steps of a mixed-precision cycle, cell by cell.

use std::sync::Arc;

use super::seven_point::{At, Plain, cells, get};
use super::tensor_product::interpolated;
use super::{Reference, Vector};
use crate::backend::{HostScalars, Scalar};
use crate::error::Result;
use crate::layout::Colour;
use crate::operator::mixed::ChangeSteps;
use crate::stencil::TensorProduct;

/// [`ChangeSteps`] of a part that begins with an even row.
pub(super) struct PlainSteps {
    pub(super) double: Arc<Plain<TensorProduct, f64>>,
    pub(super) single: Arc<Plain<TensorProduct, f32>>,
}

impl PlainSteps {
    /// −N v of a cell
    fn coupled(&self, at: At, v: &Vector<f32>) -> f32 {
        self.single.couplings_beside(at, get(v))
    }
}

impl ChangeSteps<Reference> for PlainSteps {
    fn correct_red(
        &self,
        f: &Vector<f64>,
        e: &Vector<f32>,
        coarse_u: &Vector<f32>,
        u: &mut Vector<f64>,
        w: &mut Vector<f32>,
    ) -> Result<()> {
        let layout = *u.layout();
        let added = |at: At| get(e)(at) + interpolated(&layout, coarse_u, at);
        let before = u.clone();
        let corrected = |at| get(&before)(at) + f64::from(added(at));
        self.double.solve_colour(Colour::Red, get(f), corrected, |[i, j, k], value| u.set(i, j, k, value));
        for [i, j, k] in cells(&layout).filter(|&[i, j, _]| Colour::of(i, j) == Colour::Black) {
            w.set(i, j, k, added([i, j, k]));
        }
        Ok(())
    }

    fn change_black(&self, f: &Vector<f64>, u: &mut Vector<f64>, w: &mut Vector<f32>) -> Result<()> {
        let before = u.clone();
        self.double.solve_colour(Colour::Black, get(f), get(&before), |[i, j, k], value| {
            let corrected = u.get(i, j, k) + f64::from(w.get(i, j, k));
            w.set(i, j, k, (value - corrected) as f32);
            u.set(i, j, k, value);
        });
        Ok(())
    }

    fn begin_red(&self, w: &Vector<f32>, e: &mut Vector<f32>, norm: Scalar, scalars: &mut HostScalars) -> Result<()> {
        let red = cells(w.layout()).filter(|&[i, j, _]| Colour::of(i, j) == Colour::Red);
        let square: f64 = red.map(|at| f64::from(self.coupled(at, w)).powi(2)).sum();
        self.single.solve_colour(Colour::Red, |_| 0.0, get(w), |[i, j, k], value| e.set(i, j, k, value));
        scalars.reduce(norm, [square]);
        Ok(())
    }

    fn end_black(&self, e: &mut Vector<f32>) -> Result<()> {
        let before = e.clone();
        self.single.solve_colour(Colour::Black, |_| 0.0, get(&before), |[i, j, k], value| e.set(i, j, k, value));
        Ok(())
    }

    fn restrict(&self, e: &Vector<f32>, coarse_f: &mut Vector<f32>) -> Result<()> {
        let mut r = Vector::zeros(e.layout())?;
        for [i, j, k] in cells(e.layout()).filter(|&[i, j, _]| Colour::of(i, j) == Colour::Red) {
            r.set(i, j, k, self.coupled([i, j, k], e));
        }
        super::tensor_product::restrict(&r, coarse_f);
        Ok(())
    }
}
