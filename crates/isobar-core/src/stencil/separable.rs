//! Rows of matrices for the search for their factors.

use super::{Axis, Coefficients, Diffusion, Side, Stencil, TensorProduct};
use crate::direct::SeparableRows;
use crate::layout::Shape;

/// The rows of diffusion, if [`Diffusion::has_rows`].
pub(super) struct DiffusionRows<'a> {
    stencil: &'a Diffusion,
    shift: Option<Box<dyn Fn([usize; 3]) -> f64 + Sync + 'a>>,
}

impl<'a> DiffusionRows<'a> {
    pub(super) fn new(stencil: &'a Diffusion) -> Self {
        let shift = stencil
            .stored_shift()
            .map(|shift| Box::new(move |at| shift[stencil.cell(at)]) as Box<dyn Fn([usize; 3]) -> f64 + Sync>);
        Self { stencil, shift }
    }
}

impl SeparableRows for DiffusionRows<'_> {
    fn shape(&self) -> Shape {
        Stencil::shape(self.stencil)
    }

    fn is_periodic(&self, axis: usize) -> bool {
        self.stencil.is_periodic(Axis::ALL[axis])
    }

    fn is_by_cells(&self) -> bool {
        !matches!(self.stencil.coefficients(), Coefficients::Faces(_))
    }

    fn coupling(&self, axis: usize, at: [usize; 3]) -> f64 {
        let axis = Axis::ALL[axis];
        if self.is_by_cells() { self.stencil.half(axis, at) } else { self.stencil.face(axis, at) }
    }

    fn fill(&self, axis: usize, [j, k]: [usize; 2], row: &mut [f64]) {
        if let Coefficients::Cells { fields, axes } = self.stencil.coefficients() {
            let ((field, factor), first) = (axes[axis], self.stencil.cell([0, j, k]));
            row.iter_mut().zip(&fields[field][first..]).for_each(|(coupling, value)| *coupling = factor * value);
        } else {
            row.iter_mut().enumerate().for_each(|(i, coupling)| *coupling = self.coupling(axis, [i, j, k]));
        }
    }

    fn is_constant(&self, axis: usize) -> bool {
        match self.stencil.coefficients() {
            Coefficients::Cells { axes, .. } | Coefficients::DeviceCells { axes, .. } => {
                self.stencil.spreads()[axes[axis].0].contrast() == 1.0
            }
            Coefficients::Faces(_) => false,
        }
    }

    fn fixed_sides(&self, axis: usize) -> [bool; 2] {
        // With stored faces all Dirichlet sides are in the shift.
        self.stencil.sides()[axis].map(|side| side == Side::Fixed && self.is_by_cells())
    }

    fn shift(&self) -> Option<&(dyn Fn([usize; 3]) -> f64 + Sync)> {
        self.shift.as_deref()
    }
}

/// The rows of a tensor product, whose couplings are negative entries.
pub(super) struct TensorProductRows<'a> {
    stencil: &'a TensorProduct,
    shift: Box<dyn Fn([usize; 3]) -> f64 + Sync + 'a>,
}

impl<'a> TensorProductRows<'a> {
    pub(super) fn new(stencil: &'a TensorProduct) -> Self {
        let (vertical, horizontal, nx) = (stencil.vertical(), stencil.horizontal(), Stencil::shape(stencil).nx);
        let shift = move |[i, j, k]: [usize; 3]| {
            let n = i + nx * j;
            let beside = horizontal.west[n] + horizontal.east[n] + horizontal.south[n] + horizontal.north[n];
            let rest = horizontal.total[n] - beside;
            // A difference of equal numbers is 0.
            let rest = if rest.abs() <= 1e-14 * horizontal.total[n].abs() { 0.0 } else { rest };
            horizontal.area[n] * vertical.a[k] - vertical.d[k] * rest
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
