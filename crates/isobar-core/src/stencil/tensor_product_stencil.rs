//! This module implements the stencil's interface for tensor products.

use super::{Stencil, TensorProduct};
use crate::direct::{Samples, Separable, SeparableRows, looks_separable, nearest, separate};
use crate::grid::HorizontalField;
use crate::options::SolverOptions;
use crate::policy::Choice;
use crate::policy::modes::{choose, may_use_modes};
use crate::stencil::Axis;
use crate::{Error, Result, Shape};

impl TensorProduct {
    /// Returns whether a column at a side has no coupling to it.
    fn has_closed_side(&self) -> bool {
        let Shape { nx, ny, .. } = self.shape;
        let is_closed = |n: usize| rest(self.horizontal(), n) == 0.0;
        (0..ny).any(|j| is_closed(nx * j) || is_closed(nx * (j + 1) - 1))
            || (0..nx).any(|i| is_closed(i) || is_closed(nx * (ny - 1) + i))
    }

    /// Returns whether no column is coupled to one beyond the edges of the grid.
    fn has_closed_edges(&self) -> bool {
        let (Shape { nx, ny, .. }, field) = (self.shape, self.horizontal());
        let is_closed = |coupling: f64| coupling == 0.0;
        (0..ny).all(|j| is_closed(field.west[nx * j]) && is_closed(field.east[nx * (j + 1) - 1]))
            && (0..nx).all(|i| is_closed(field.south[i]) && is_closed(field.north[nx * (ny - 1) + i]))
    }
}

impl Stencil for TensorProduct {
    fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns whether couplings are equal both ways, which conjugate gradients need.
    fn is_symmetric(&self) -> bool {
        // Threads work on it, so that it must not be locked meanwhile.
        let examine = || self.vertical().is_symmetric() && self.horizontal().is_symmetric();
        let is_symmetric = self.symmetric.0.get().copied().unwrap_or_else(examine);
        *self.symmetric.0.get_or_init(|| is_symmetric)
    }

    /// Returns whether A is symmetric with a ≥ 0 ≥ b, d: no row's sum is then negative, since a field's couplings are
    /// at most their total.
    fn is_definite(&self) -> bool {
        let (vertical, horizontal) = (self.vertical(), self.horizontal());
        let is_vertical =
            vertical.a.iter().all(|&a| a >= 0.0) && vertical.b.iter().chain(&vertical.d).all(|&b| b <= 0.0);
        self.is_symmetric() && is_vertical && horizontal.all_columns(|n| rest(horizontal, n) >= 0.0)
    }

    fn check_modes(&self) -> Result<()> {
        self.modes().map(drop)
    }

    fn has_constants(&self) -> bool {
        let (vertical, horizontal) = (self.vertical(), self.horizontal());
        vertical.a.iter().all(|&a| a == 0.0) && horizontal.all_columns(|n| rest(horizontal, n) == 0.0)
    }

    /// Chooses vertical modes where these are predicted to be faster, else multigrid.
    fn choice(&self, options: &SolverOptions) -> Choice {
        let is_possible = may_use_modes(options, self.shape.nz) && !self.has_layers_apart() && self.is_symmetric();
        match is_possible.then(|| self.modes().ok()).flatten() {
            Some(modes) => choose(options, self.largest_ratio(), modes.values(), self.has_closed_side()),
            None => Choice::cycles(),
        }
    }

    fn separable(&self) -> Result<Separable> {
        if !self.is_symmetric() {
            return Err(Error::invalid(
                "solver.method",
                "\"direct\" needs a symmetric operator, and advection makes this one non-symmetric; use \"multigrid\" or \
                 \"bicgstab\"",
            ));
        }
        separate(&TensorProductRows::new(self))
    }

    fn chooses_direct(&self) -> Option<Separable> {
        let may_be = self.is_symmetric() && self.has_closed_edges() && looks_separable(&TensorProductRows::new(self));
        may_be.then(|| self.separable().ok()).flatten().filter(Separable::pays)
    }

    fn nearest_box(&self, line: Option<Axis>) -> Result<Separable> {
        Ok(nearest(&TensorProductRows::new(self), line, Samples::Many)?.factors)
    }

    fn check_update(&self, new: &Self) -> Result<()> {
        Error::unless_equal("the new operator", new.shape, self.shape)?;
        if self.has_layers_apart() && !new.has_layers_apart() {
            return Err(Error::invalid("the new operator", "its layers are coupled, and those of this one are not"));
        }
        Ok(())
    }
}

/// Returns a column's coupling to sides, the total minus the other couplings.
fn rest(horizontal: &HorizontalField, n: usize) -> f64 {
    let beside = horizontal.west[n] + horizontal.east[n] + horizontal.south[n] + horizontal.north[n];
    let rest = horizontal.total[n] - beside;
    // A difference of equal numbers is 0.
    if rest.abs() <= 1e-14 * horizontal.total[n].abs() { 0.0 } else { rest }
}

/// The rows of a tensor product, whose couplings are negative entries.
struct TensorProductRows<'a> {
    stencil: &'a TensorProduct,
    shift: Box<dyn Fn([usize; 3]) -> f64 + Sync + 'a>,
}

impl<'a> TensorProductRows<'a> {
    fn new(stencil: &'a TensorProduct) -> Self {
        let (vertical, horizontal, nx) = (stencil.vertical(), stencil.horizontal(), Stencil::shape(stencil).nx);
        let shift = move |[i, j, k]: [usize; 3]| {
            let n = i + nx * j;
            horizontal.area[n] * vertical.a[k] - vertical.d[k] * rest(horizontal, n)
        };
        Self { stencil, shift: Box::new(shift) }
    }
}

impl SeparableRows for TensorProductRows<'_> {
    fn shape(&self) -> Shape {
        Stencil::shape(self.stencil)
    }

    fn is_periodic(&self, _: usize) -> bool {
        false
    }

    fn is_by_cells(&self) -> bool {
        false
    }

    fn coupling(&self, axis: usize, [i, j, k]: [usize; 3]) -> f64 {
        let (vertical, horizontal) = (self.stencil.vertical(), self.stencil.horizontal());
        let n = i + Stencil::shape(self.stencil).nx * j;
        match axis {
            0 => -vertical.d[k] * horizontal.east[n],
            1 => -vertical.d[k] * horizontal.north[n],
            _ => -horizontal.area[n] * vertical.b[k],
        }
    }

    fn shift(&self) -> Option<&(dyn Fn([usize; 3]) -> f64 + Sync)> {
        Some(&*self.shift)
    }
}
