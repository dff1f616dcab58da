//! The tensor-product operator and its transfers, row by row.

use std::sync::{Arc, RwLock, RwLockReadGuard};

use super::seven_point::{At, Coupling, Plain, Rows, SevenPoint};
use super::{Reference, Vector};
use crate::operator::{self, Capabilities, Guess, LineSmoother, MixedSmoother, Operator as _, Transfer};
use crate::options::{Smoother, SolverOptions};
use crate::stencil::tensor_levels::{SupportsTransfers, by_coarsening, by_modes};
use crate::stencil::{Hierarchy, Modes, Stencil, Supports, TensorProduct, VerticalModes};
use crate::{Layout, Real, Result, Shape, read, write};

/// The rows of a [`TensorProduct`]: t = −|T| b, −|T| c, −d α, and s = |T| a − d (α_T − Σ α). Factors are rounded to T
/// once; s is summed in double precision, where α_T − Σ α is exactly zero except at the sides.
#[derive(Clone, Debug)]
pub struct TensorProductRows<T> {
    shape: Shape,
    a: Vec<T>,
    above: Vec<T>,
    below: Vec<T>,
    d: Vec<T>,
    area: Vec<T>,
    /// The couplings to the west, east, south and north.
    horizontal: [Vec<T>; 4],
    /// α_T − Σ α
    outside: Vec<T>,
}

impl<T: Real> Rows<T> for TensorProductRows<T> {
    fn couplings(&self, [i, j, k]: At) -> [Option<Coupling<T>>; 6] {
        let Shape { nx, ny, nz } = self.shape;
        let n = i + nx * j;
        let horizontal = |inside: bool, to: At, side: usize, higher: bool| {
            inside.then(|| Coupling { to, t: self.d[k] * self.horizontal[side][n], in_line: false, higher })
        };
        let vertical = |inside: bool, to: At, factor: T, higher: bool| {
            inside.then(|| Coupling { to, t: self.area[n] * factor, in_line: true, higher })
        };
        [
            horizontal(i > 0, [i.wrapping_sub(1), j, k], 0, false),
            horizontal(i + 1 < nx, [i + 1, j, k], 1, true),
            horizontal(j > 0, [i, j.wrapping_sub(1), k], 2, false),
            horizontal(j + 1 < ny, [i, j + 1, k], 3, true),
            vertical(k > 0, [i, j, k.wrapping_sub(1)], self.below[k], false),
            vertical(k + 1 < nz, [i, j, k + 1], self.above[k], true),
        ]
    }

    fn shift(&self, [i, j, k]: At) -> T {
        let n = i + self.shape.nx * j;
        self.area[n] * self.a[k] + self.d[k] * self.outside[n]
    }

    fn coefficient_vectors(&self) -> f64 {
        0.0
    }
}

impl SevenPoint for TensorProduct {
    type Rows<T: Real> = TensorProductRows<T>;

    fn rows<T: Real>(&self, _: &Layout) -> Result<TensorProductRows<T>> {
        let (v, h) = (self.vertical(), self.horizontal());
        let round = |values: &[f64], sign: f64| values.iter().map(|&v| T::from_f64(sign * v)).collect::<Vec<T>>();
        let sides = [&h.west, &h.east, &h.south, &h.north];
        Ok(TensorProductRows {
            shape: Stencil::shape(self),
            a: round(&v.a, 1.0),
            above: round(&v.b, -1.0),
            below: round(&v.c, -1.0),
            d: round(&v.d, -1.0),
            area: round(&h.area, 1.0),
            horizontal: sides.map(|side| round(side, 1.0)),
            outside: (0..h.total.len()).map(|n| T::from_f64(h.outside(n))).collect(),
        })
    }
}

/// The transfer between two levels of the tensor-product operator.
#[derive(Debug)]
pub struct BilinearTransfer<T: Real> {
    fine: Arc<Plain<TensorProduct, T>>,
    coarse: Layout,
}

/// Returns the coarse columns from which fine column n of `count` is interpolated, with their weights: its own and the
/// one on its side, where the value is mirrored outside with the opposite sign; the last, if alone in its coarse column,
/// has the value of that.
fn interpolation(n: usize, count: usize) -> [(usize, f64); 2] {
    let (own, coarse_count) = (n / 2, count.div_ceil(2));
    if n + 1 == count && n.is_multiple_of(2) {
        return [(own, 1.0), (own, 0.0)];
    }
    let far = if n.is_multiple_of(2) { own.checked_sub(1) } else { Some(own + 1).filter(|&far| far < coarse_count) };
    match far {
        Some(far) => [(own, 0.75), (far, 0.25)],
        None => [(own, 0.75), (own, -0.25)],
    }
}

impl<T: Real> Transfer<Reference, T> for BilinearTransfer<T> {
    fn fine(&self) -> &dyn LineSmoother<Reference, T> {
        &*self.fine
    }

    fn coarse_layout(&self) -> &Layout {
        &self.coarse
    }

    fn restrict(&self, f: &mut Vector<T>, coarse_f: &mut Vector<T>) -> Result<()> {
        restrict(f, coarse_f);
        Ok(())
    }

    fn prolong(&self, coarse_u: &mut Vector<T>, u: &mut Vector<T>) -> Result<()> {
        for [i, j, k] in u.layout().shape().places() {
            let correction = interpolated(u.layout(), coarse_u, [i, j, k]);
            u.set(i, j, k, u.get(i, j, k) + correction);
        }
        Ok(())
    }
}

/// Computes f_c = R f.
pub(super) fn restrict<T: Real>(f: &Vector<T>, coarse_f: &mut Vector<T>) {
    let Shape { nx, ny, .. } = f.layout().shape();
    let at = |i: usize, j: usize, k: usize| if i < nx && j < ny { f.get(i, j, k) } else { T::ZERO };
    coarse_f.fill_with(|i, j, k| {
        let (i, j) = (2 * i, 2 * j);
        (at(i, j, k) + at(i + 1, j, k)) + (at(i, j + 1, k) + at(i + 1, j + 1, k))
    });
}

/// Returns P u_c in a cell of a grid with this layout.
pub(super) fn interpolated<T: Real>(layout: &Layout, coarse_u: &Vector<T>, [i, j, k]: At) -> T {
    let Shape { nx, ny, .. } = layout.shape();
    let mut correction = T::ZERO;
    for (from_j, y) in interpolation(j, ny) {
        for (from_i, x) in interpolation(i, nx) {
            correction += T::from_f64(x * y) * coarse_u.get(from_i, from_j, k);
        }
    }
    correction
}

impl Supports<TensorProduct> for Reference {
    type Operator<T: Real> = Plain<TensorProduct, T>;

    fn operator<T: Real>(&self, stencil: &TensorProduct) -> Result<Arc<Plain<TensorProduct, T>>> {
        Ok(Arc::new(Plain::new(stencil)?))
    }

    fn update<T: Real>(&self, operator: &Plain<TensorProduct, T>, stencil: &TensorProduct) -> Result<bool> {
        operator.update(stencil)?;
        Ok(true)
    }

    fn capabilities<T: Real>(&self, operator: &Arc<Plain<TensorProduct, T>>) -> Capabilities<Self, T> {
        let (points, triangular) = (Some(Arc::clone(operator) as _), Some(Arc::clone(operator) as _));
        Capabilities { points, triangular, ..Capabilities::of_columns(operator) }
    }

    fn hierarchy<T: Real>(
        &self,
        stencil: &TensorProduct,
        finest: &Arc<Plain<TensorProduct, T>>,
        smoother: Smoother,
        wanted: Option<usize>,
    ) -> Result<Option<Hierarchy<Self, TensorProduct, T>>> {
        if smoother.begins_with_points() {
            return Ok(None);
        }
        Ok(Some(by_coarsening(self, stencil, finest, wanted)?.0))
    }

    fn modes<T: Real, C: Real>(
        &self,
        stencil: &TensorProduct,
        operator: &Arc<Plain<TensorProduct, T>>,
        options: &SolverOptions,
        tolerance: f64,
    ) -> Result<Option<Modes<Self, TensorProduct, T, C>>> {
        by_modes(self, stencil, operator, options, tolerance).map(Some)
    }

    fn mixed_smoother(&self, double: &Arc<Plain<TensorProduct, f64>>) -> Option<Arc<dyn MixedSmoother<Self>>> {
        Some(Arc::clone(double) as _)
    }
}

/// The transfer between a grid and some of its vertical modes.
struct ModalTransfer<T: Real> {
    fine: Arc<Plain<TensorProduct, T>>,
    layout: Layout,
    modes: RwLock<VerticalModes>,
}

impl<T: Real> ModalTransfer<T> {
    fn new(fine: &Arc<Plain<TensorProduct, T>>, modes: &VerticalModes) -> Result<Self> {
        let layout = fine.layout().own_rows(modes.count())?;
        Ok(Self { fine: Arc::clone(fine), layout, modes: RwLock::new(modes.clone()) })
    }

    fn modes(&self) -> RwLockReadGuard<'_, VerticalModes> {
        read(&self.modes)
    }
}

impl<T: Real, C: Real> operator::ModalTransfer<Reference, T, C> for ModalTransfer<T> {
    fn fine(&self) -> &dyn LineSmoother<Reference, T> {
        &*self.fine
    }

    fn modal_layout(&self) -> &Layout {
        &self.layout
    }

    fn update(&self, modes: &VerticalModes) -> Result<()> {
        *write(&self.modes) = modes.clone();
        Ok(())
    }

    fn project(&self, r: &Vector<T>, g: &mut Vector<C>) -> Result<()> {
        let modes = self.modes();
        g.fill_with(|i, j, m| {
            let layers = modes.vector(m).iter().enumerate();
            C::from_f64(layers.map(|(k, s)| s * r.get(i, j, k).to_f64()).sum())
        });
        Ok(())
    }

    fn expand(&self, x: &Vector<C>, guess: Guess, u: &mut Vector<T>) -> Result<()> {
        let modes = self.modes();
        let before = if guess == Guess::Zero { None } else { Some(u.clone()) };
        u.fill_with(|i, j, k| {
            let sum: f64 = (0..modes.count()).map(|m| modes.vector(m)[k] * x.get(i, j, m).to_f64()).sum();
            T::from_f64(before.as_ref().map_or(0.0, |u| u.get(i, j, k).to_f64()) + sum)
        });
        Ok(())
    }
}

impl SupportsTransfers for Reference {
    fn transfer<T: Real>(
        &self,
        fine: &Arc<Plain<TensorProduct, T>>,
        _: &Arc<Plain<TensorProduct, T>>,
        own: &Layout,
    ) -> Result<Arc<dyn Transfer<Self, T>>> {
        Ok(Arc::new(BilinearTransfer { fine: Arc::clone(fine), coarse: *own }))
    }

    fn modal_transfer<T: Real, C: Real>(
        &self,
        operator: &Arc<Plain<TensorProduct, T>>,
        modes: &VerticalModes,
    ) -> Result<Arc<dyn operator::ModalTransfer<Self, T, C>>> {
        Ok(Arc::new(ModalTransfer::new(operator, modes)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpolation_weights() {
        assert_eq!(interpolation(0, 6), [(0, 0.75), (0, -0.25)]);
        assert_eq!(interpolation(1, 6), [(0, 0.75), (1, 0.25)]);
        assert_eq!(interpolation(4, 6), [(2, 0.75), (1, 0.25)]);
        assert_eq!(interpolation(5, 6), [(2, 0.75), (2, -0.25)]);
        assert_eq!(interpolation(4, 5), [(2, 1.0), (2, 0.0)]);
        assert_eq!(interpolation(0, 1), [(0, 1.0), (0, 0.0)]);
    }
}
