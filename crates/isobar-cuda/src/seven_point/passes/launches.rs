//! Launches of the kernels, one method each.

use std::sync::atomic::Ordering;

use isobar_core::prelude::{
    Axis, Colour, Diffusion, Error, Guess, Layout, Ratio, Real, ResidualUpdate, Result, Scalar, Slab, Stencil, read,
    write,
};

use super::super::{Kernels, Residual, Steps, direction_kernel};
use super::{Passes, with_all};
use crate::diffusion::Kind;
use crate::vector::is_single;
use crate::{Arguments, Cuda, Scalars, Sum, Vector};

impl<T: Real> Kernels for Passes<T> {
    type Real = T;
    type Stencil = Diffusion;

    fn new(cuda: &Cuda, stencil: &Diffusion) -> Result<Self> {
        Self::make(cuda, stencil, Slab::whole(stencil.shape()))
    }

    fn send(&self, stencil: &Diffusion) -> Result<bool> {
        if stencil.shape() != self.whole || Kind::of(stencil) != self.form.kind {
            return Err(Error::invalid("the new coefficients", "their form has changed; make a new solver"));
        }
        let before = read(&self.stencil).clone();
        let was_measured = self.is_measured.swap(false, Ordering::Relaxed);
        let has_changed = self.form.kind.send::<T>(&self.cuda, &self.layout, &self.operands, &before, stencil)?;
        let has_changed = has_changed || !was_measured;
        // Keep the new stencil even if its values are unchanged, because it may own other arrays.
        *write(&self.stencil) = stencil.clone();
        if has_changed {
            self.measure_again()?;
        }
        self.is_measured.store(true, Ordering::Relaxed);
        Ok(has_changed)
    }

    fn sweep_cells(&self, rho: f64, first: Colour, guess: Guess, f: &Vector<T>, u: &mut Vector<T>) -> Result<()> {
        self.sweep_colours(rho, first, guess, f, u)
    }

    fn prepare(&self, steps: Steps) -> Result<()> {
        match steps {
            Steps::Direction { is_single } => self.passes.prepare(&[direction_kernel::<T>(is_single)], 0),
            Steps::Lines if self.is_flat() => self.passes.prepare(&["divide_by_diagonal", "scale_residual"], 0),
            Steps::Lines => {
                self.ratios()?;
                self.lines.prepare(&["solve_lines", "precondition_residual"], 0)
            }
            Steps::Sweeps => match &self.sweeps {
                Some((_, module)) => {
                    self.inverse_pivots()?;
                    module.prepare(&["sweep_lines", "sweep_lines_zero"], 0)
                }
                None => {
                    self.ratios()?;
                    self.lines.prepare(&["relax_lines", "relax_lines_zero"], 0)
                }
            },
            Steps::Transfers => {
                if let Some((_, module)) = &self.sweeps {
                    module.prepare(&["residual_coupled", "residual_of_colour"], 0)?;
                }
                self.passes.prepare(&["residual_field"], 0)
            }
        }
    }

    fn cuda(&self) -> &Cuda {
        &self.cuda
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn coefficient_vectors(&self) -> f64 {
        self.coefficient_vectors
    }

    fn coefficient_bytes(&self) -> usize {
        self.coefficients.bytes()
    }

    /// Returns whether columns are periodic: they use the old values at their other end.
    fn looks_at_itself(&self) -> bool {
        !self.is_flat() && self.form.kind.periodic() >> Axis::Z as u32 & 1 != 0
    }

    fn needs_scratch(&self) -> bool {
        true
    }

    fn exchanges_cells(&self) -> bool {
        self.may_stream_colours()
    }

    fn apply(&self, x: &Vector<T>, y: &mut Vector<T>) -> Result<()> {
        self.pass("apply", &[x.pointer(), y.pointer()])
    }

    fn residual(&self, [f, u]: [&Vector<T>; 2], r: &mut Vector<T>, (norm, scalars): Sum<'_>) -> Result<()> {
        self.pass_with_sums("residual", &[f.pointer(), u.pointer(), r.pointer()], scalars.pointer(norm))
    }

    fn residual_norm(&self, _: Residual, [f, u]: [&Vector<T>; 2], (norm, scalars): Sum<'_>) -> Result<()> {
        self.pass_with_sums("residual_norm", &[f.pointer(), u.pointer()], scalars.pointer(norm))
    }

    fn divide_by_diagonal(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        self.pass("divide_by_diagonal", &[r.pointer(), z.pointer()])
    }

    fn scale_residual(&self, v: ResidualUpdate<'_, Vector<T>>, scalars: &mut Scalars) -> Result<()> {
        let ResidualUpdate { r, q, z, alpha, out } = v;
        let vectors = [q.pointer(), r.pointer(), z.pointer()];
        self.pass_with_ratios("scale_residual", &[alpha], &vectors, scalars.sums(out), Some(scalars))
    }

    fn advance_direction<R: Real>(
        &self,
        (z, q): (&Vector<R>, &mut Vector<R>),
        p: &Vector<T>,
        [u, next]: [&mut Vector<T>; 2],
        ratios: [Ratio; 2],
        sigma: Scalar,
        scalars: &mut Scalars,
    ) -> Result<()> {
        let vectors = [z.pointer(), p.pointer(), u.pointer(), next.pointer(), q.pointer()];
        self.pass_with_ratios(
            direction_kernel::<T>(is_single::<R>()),
            &ratios,
            &vectors,
            scalars.pointer(sigma),
            Some(scalars),
        )
    }

    fn solve_lines(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        if self.is_flat() {
            return self.divide_by_diagonal(r, z);
        }
        let arguments = Arguments::new().with(self.operands).with(r.pointer()).with(z.pointer());
        self.columns("solve_lines", 2, arguments.with(self.ratios()?))
    }

    fn precondition_residual(&self, v: ResidualUpdate<'_, Vector<T>>, scalars: &mut Scalars) -> Result<()> {
        if self.is_flat() {
            return self.scale_residual(v, scalars);
        }
        let ResidualUpdate { r, q, z, alpha, out } = v;
        let arguments = Arguments::new().with(self.operands).with(scalars.ratio(alpha));
        let arguments = with_all(arguments, &[q.pointer(), r.pointer(), z.pointer(), self.ratios()?]);
        let blocks = self.line_grid(2).into_iter().product();
        self.columns("precondition_residual", 2, self.reduction.append(arguments, blocks, scalars.sums(out)))
    }

    /// If a thread has a whole column, its upward elimination goes to `scratch`, because the column's old values are still needed
    /// if ρ ≠ 1 or if it is periodic.
    fn sweep(
        &self,
        rho: f64,
        colour: Colour,
        guess: Guess,
        f: &Vector<T>,
        u: &mut Vector<T>,
        scratch: &mut Vector<T>,
    ) -> Result<()> {
        let own = u.pointer();
        self.relax(rho, Some(colour), f, (guess == Guess::Given).then_some(own), own, scratch.pointer())
    }

    fn sweep_to(&self, rho: f64, guess: Guess, f: &Vector<T>, u: &mut Vector<T>, to: &mut Vector<T>) -> Result<()> {
        let given = (guess == Guess::Given).then_some(u.pointer());
        self.relax(rho, None, f, given, to.pointer(), to.pointer())
    }
}
