//! Kernels that are compiled, and coefficients that are measured, before a solve.

use isobar_core::prelude::{Preconditioner, Real, Result};

use super::Passes;
use crate::launch::refuse_while_recording;
use crate::seven_point::colours::kernels::{COLOURS, STREAMED};
use crate::seven_point::direction_kernel;
use crate::seven_point::look::{LOOK, Looks};
use crate::vector::is_single;

impl<T: Real> Passes<T> {
    /// Measures the coefficients now and after every update.
    pub(crate) fn prepare_looks(&self) -> Result<&Looks> {
        if let Some(looks) = self.looks.get() {
            return Ok(looks);
        }
        refuse_while_recording("looking at coefficients")?;
        let module = self.cuda.module(self.form.look::<T>());
        module.prepare(LOOK, 0)?;
        let made = Looks::new::<T>(self.cuda.context(), module)?;
        let made = self.looks.get_or_init(|| made);
        self.look(made)?;
        Ok(made)
    }

    /// Returns whether all cells are known to have equal coefficients.
    pub(crate) fn is_even(&self) -> bool {
        self.looks.get().is_some_and(|looks| looks.found().is_even)
    }

    /// Measures the current coefficients.
    pub(crate) fn look(&self, looks: &Looks) -> Result<()> {
        looks.look::<T>(&self.cuda, self.layout.len(), self.operands)
    }

    /// Requests the compilation of kernels of preconditioners that use an operator's own passes.
    pub(crate) fn expect_preconditioner(&self, preconditioner: &Preconditioner) {
        match preconditioner {
            Preconditioner::Line => self.lines.expect(&["solve_lines", "precondition_residual"]),
            Preconditioner::Ic { .. } | Preconditioner::Mic { .. } => {
                self.whole_grid.expect(&["factorise_whole", "substitute_up_residual", "substitute_down"]);
            }
            Preconditioner::Neumann { .. } | Preconditioner::SsorAi => {
                let names = &["divide_by_diagonal", "scale_residual", "relax_lower", "relax_lower_sum", "relax_upper"];
                self.passes.expect(names);
            }
            Preconditioner::Jacobi => self.passes.expect(&["divide_by_diagonal", "scale_residual"]),
            _ => {}
        }
    }

    /// Requests the compilation of the kernels of an operator of the same form in another number type, for multigrid by
    /// points or by lines.
    pub(crate) fn expect_cycles<C: Real>(&self, by_points: bool) {
        let (cuda, layers) = (&self.cuda, self.layout.shape().nz);
        self.passes.expect(&[direction_kernel::<T>(is_single::<C>())]);
        cuda.expect(self.form.passes::<C>(), &["residual_norm", "census"]);
        if by_points {
            cuda.expect(self.form.look::<C>(), LOOK);
            if let Some(source) = self.streamed_source::<C>() {
                cuda.expect(source, STREAMED);
            }
            return cuda.expect(self.form.colours::<C>(), COLOURS);
        }
        cuda.expect(self.form.passes::<C>(), &["residual_field"]);
        match self.form.sweeps::<C>(layers) {
            Some(source) => {
                cuda.expect(self.form.lines::<C>(layers), &["factorise_lines"]);
                cuda.expect(source, &["sweep_lines", "sweep_lines_zero", "residual_coupled", "residual_of_colour"]);
            }
            None => cuda.expect(self.form.lines::<C>(layers), &["relax_lines", "relax_lines_zero"]),
        }
    }
}
