//! One method a kernel: its grid and its arguments. What each computes is said above it in the `.cu` file.

use isobar_core::backend::{Ratio, Slot};
use isobar_core::error::{Error, Result};
use isobar_core::layout::{Colour, Layout, Shape};
use isobar_core::real::Real;

use super::cut::{ADVANCE, rows};
use super::{Coarse, TensorProduct};
use crate::launch::{Arguments, Kernel, Launch};
use crate::scalars::Scalars;
use crate::vector::{Vector, index};

/// Which residuals a kernel computes: those after a sweep that ended with the black columns are zero there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Residuals {
    All,
    Red,
}

impl<T: Real> TensorProduct<T> {
    fn arguments(&self) -> Arguments {
        Arguments::new().with(self.coefficients)
    }

    /// A tile of columns a block.
    fn tiles(&self, kernel: Kernel, colours: u32, arguments: Arguments) -> Result<()> {
        let strips = self.layout.pitch().div_ceil(self.cut.lanes) as u32;
        let grid = [strips, self.layout.shape().ny as u32, colours];
        let block = [self.cut.threads() as u32, 1];
        self.cuda.submit(Launch { kernel, grid, block, shared_bytes: 0, arguments })
    }

    /// A strip of columns, along y, a block.
    fn strips(&self, march: &super::March, kernel: Kernel, arguments: Arguments) -> Result<()> {
        let strips = self.layout.pitch().div_ceil(self.cut.lanes) as u32;
        let grid = [strips, march.segments, 1];
        let block = [self.cut.threads() as u32, 1];
        self.cuda.submit(Launch { kernel, grid, block, shared_bytes: march.shared_bytes, arguments })
    }

    /// As many blocks as the card holds.
    fn resident(&self, kernel: Kernel, arguments: Arguments) -> Result<()> {
        let (grid, block) = ([self.resident_blocks as u32, 1, 1], [self.cut.threads() as u32, 1]);
        self.cuda.submit(Launch { kernel, grid, block, shared_bytes: 0, arguments })
    }

    /// A cell of `layout` a thread.
    fn cells(&self, kernel: Kernel, layout: &Layout, arguments: Arguments) -> Result<()> {
        let Shape { ny, nz, .. } = layout.shape();
        let grid = [layout.pitch().div_ceil(32) as u32, nz.div_ceil(8) as u32, 2 * ny as u32];
        self.cuda.submit(Launch { kernel, grid, block: [32, 8], shared_bytes: 0, arguments })
    }

    fn residuals(&self, kernel: Kernel, arguments: Arguments) -> Result<()> {
        let (grid, block) = (self.residual_grid(), [32, rows::<T>() as u32]);
        self.cuda.submit(Launch { kernel, grid, block, shared_bytes: 0, arguments })
    }

    pub(super) fn sweep(&self, colour: Colour, f: &Vector<T>, u: &mut Vector<T>) -> Result<()> {
        let arguments = self.arguments().with(colour as i32).with(f.pointer()).with(u.pointer());
        match &self.march {
            Some(march) => self.strips(march, march.sweep, arguments),
            None => self.tiles(self.kernels.sweep, 1, arguments),
        }
    }

    pub(super) fn sweep_from_zero(&self, colour: Colour, f: &Vector<T>, u: &mut Vector<T>) -> Result<()> {
        let arguments = self.arguments().with(colour as i32);
        match &self.march {
            Some(_) => {
                let arguments = arguments.with(1).with(f.pointer()).with(u.pointer());
                self.resident(self.kernels.precondition, arguments)
            }
            None => self.tiles(self.kernels.sweep_zero, 1, arguments.with(f.pointer()).with(u.pointer())),
        }
    }

    /// From `u` to `out`, both colours at once.
    pub(super) fn relax_all(&self, rho: f64, f: &Vector<T>, u: &Vector<T>, out: &mut Vector<T>) -> Result<()> {
        let arguments = self.arguments().with(Colour::Red as i32).with(f.pointer()).with(u.pointer());
        self.tiles(self.kernels.relax, 2, with_real::<T>(arguments.with(out.pointer()), rho))
    }

    /// In place, one colour.
    pub(super) fn relax(&self, rho: f64, colour: Colour, f: &Vector<T>, u: &mut Vector<T>) -> Result<()> {
        let arguments = self.arguments().with(colour as i32).with(f.pointer()).with(u.pointer());
        self.tiles(self.kernels.relax, 1, with_real::<T>(arguments.with(u.pointer()), rho))
    }

    pub(super) fn prolong_sweep(
        &self,
        colour: Colour,
        f: &Vector<T>,
        coarse: &Vector<T>,
        u: &mut Vector<T>,
    ) -> Result<()> {
        let arguments =
            self.arguments().with(colour as i32).with(f.pointer()).with(u.pointer()).with(Coarse::of(coarse));
        match &self.march {
            Some(march) => self.strips(march, march.prolong_smooth, arguments),
            None => self.tiles(self.kernels.prolong_smooth, 1, arguments),
        }
    }

    /// Whether [`Self::correct_sweep`] can take a correction in precision S.
    pub(super) fn can_correct<S: Real>(&self) -> bool {
        self.march.is_some_and(|march| march.correct_smooth[index::<S>()].is_some())
    }

    pub(super) fn correct_sweep<S: Real>(
        &self,
        colour: Colour,
        f: &Vector<T>,
        e: &Vector<S>,
        u: &mut Vector<T>,
    ) -> Result<()> {
        let arguments = self.arguments().with(colour as i32).with(f.pointer()).with(u.pointer()).with(e.pointer());
        match &self.march {
            Some(march) => self.strips(march, available::<T, S>(march.correct_smooth)?, arguments),
            None => Err(unavailable::<T, S>()),
        }
    }

    /// In double precision: the sweep that takes a correction e + P `coarse`, and stores in `w` what its black half
    /// changed.
    pub(super) fn correct_sweep_change<S: Real>(
        &self,
        f: &Vector<T>,
        [e, coarse]: [&Vector<S>; 2],
        u: &mut Vector<T>,
        w: &mut Vector<S>,
    ) -> Result<()> {
        let march = self.marching()?;
        let arguments = self.arguments().with(f.pointer()).with(u.pointer());
        let red = arguments.clone().with(e.pointer()).with(Coarse::of(coarse)).with(w.pointer());
        self.strips(march, march.mixed.correct_sweep_red, red)?;
        self.strips(march, march.mixed.sweep_black_change, arguments.with(w.pointer()))
    }

    /// In single precision: the first half of a sweep from zero on the residual that goes with a change `w`, and that
    /// residual's norm.
    pub(super) fn sweep_red_from_change(
        &self,
        w: &Vector<T>,
        e: &mut Vector<T>,
        norm: Slot,
        scalars: &mut Scalars,
    ) -> Result<()> {
        let march = self.marching()?;
        let arguments = self.reduction.append(self.arguments().with(w.pointer()).with(e.pointer()));
        self.strips(march, march.mixed.sweep_red_from_change, arguments.with(scalars.slot(norm)))
    }

    /// In single precision: its second half, the residual being zero where it sweeps.
    pub(super) fn sweep_black_homogeneous(&self, e: &mut Vector<T>) -> Result<()> {
        let march = self.marching()?;
        self.strips(march, march.mixed.sweep_black_homogeneous, self.arguments().with(e.pointer()))
    }

    fn marching(&self) -> Result<&super::March> {
        self.march.as_ref().ok_or_else(|| crate::driver::error("this grid is too small to be swept by marching"))
    }

    pub(super) fn residual_norm_of(
        &self,
        which: Residuals,
        f: &Vector<T>,
        u: &Vector<T>,
        norm: Slot,
        scalars: &mut Scalars,
    ) -> Result<()> {
        let kernel = match which {
            Residuals::All => self.kernels.residual_norm,
            Residuals::Red => self.kernels.residual_norm_red,
        };
        let arguments = self.arguments().with(f.pointer()).with(u.pointer());
        self.residuals(kernel, self.reduction.append(arguments).with(scalars.slot(norm)))
    }

    pub(super) fn residual_of<S: Real>(
        &self,
        which: Residuals,
        f: &Vector<T>,
        u: &Vector<T>,
        r: &mut Vector<S>,
        norm: Slot,
        scalars: &mut Scalars,
    ) -> Result<()> {
        let kernel = available::<T, S>(match which {
            Residuals::All => self.kernels.residual,
            Residuals::Red => self.kernels.residual_red,
        })?;
        let arguments = self.arguments().with(f.pointer()).with(u.pointer()).with(r.pointer());
        self.residuals(kernel, self.reduction.append(arguments).with(scalars.slot(norm)))
    }

    pub(super) fn restrict_residual(
        &self,
        which: Residuals,
        f: &Vector<T>,
        u: &Vector<T>,
        coarse_f: &mut Vector<T>,
    ) -> Result<()> {
        let kernel = match which {
            Residuals::All => self.kernels.residual_restrict_both,
            Residuals::Red => self.kernels.residual_restrict,
        };
        let pitch = coarse_f.layout().pitch() as i32;
        self.residuals(
            kernel,
            self.arguments().with(f.pointer()).with(u.pointer()).with(coarse_f.pointer()).with(pitch),
        )
    }

    /// [`Self::restrict_residual`] after one red–black sweep from u = 0.
    pub(super) fn restrict_coupling(&self, u: &Vector<T>, coarse_f: &mut Vector<T>) -> Result<()> {
        let pitch = coarse_f.layout().pitch() as i32;
        let arguments = self.arguments().with(u.pointer()).with(coarse_f.pointer()).with(pitch);
        self.residuals(self.kernels.coupling_restrict, arguments)
    }

    pub(super) fn restrict_field(&self, f: &Vector<T>, coarse_f: &mut Vector<T>) -> Result<()> {
        let layout = *coarse_f.layout();
        let Shape { nx, nz, .. } = layout.shape();
        let arguments = Arguments::new()
            .with(self.layout.pitch() as i32)
            .with(f.pointer())
            .with(nx as i32)
            .with(nz as i32)
            .with(layout.pitch() as i32)
            .with(coarse_f.pointer());
        self.cells(self.kernels.restrict, &layout, arguments)
    }

    pub(super) fn prolong_field(&self, coarse: &Vector<T>, u: &mut Vector<T>) -> Result<()> {
        let (x, y) = (self.layout.pitch().div_ceil(32), self.layout.shape().ny.div_ceil(rows::<T>()));
        let grid = [x as u32, y as u32, 2 * self.runs(x * y, 2) as u32];
        let arguments = self.arguments().with(Colour::Red as i32).with(2).with(u.pointer()).with(Coarse::of(coarse));
        let block = [32, rows::<T>() as u32];
        self.cuda.submit(Launch { kernel: self.kernels.prolong, grid, block, shared_bytes: 0, arguments })
    }

    pub(super) fn apply_to(&self, x: &Vector<T>, y: &mut Vector<T>) -> Result<()> {
        self.cells(self.kernels.apply, &self.layout, self.arguments().with(x.pointer()).with(y.pointer()))
    }

    pub(super) fn divide(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        self.cells(self.kernels.divide_by_diagonal, &self.layout, self.arguments().with(r.pointer()).with(z.pointer()))
    }

    pub(super) fn precondition(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let arguments = self.arguments().with(Colour::Red as i32).with(2).with(r.pointer()).with(z.pointer());
        self.resident(self.kernels.precondition, arguments)
    }

    pub(super) fn precondition_update(
        &self,
        r: &mut Vector<T>,
        q: &Vector<T>,
        z: &mut Vector<T>,
        alpha: Ratio,
        [rho, norm]: [Slot; 2],
        scalars: &mut Scalars,
    ) -> Result<()> {
        let arguments =
            self.arguments().with(scalars.ratio(alpha)).with(q.pointer()).with(r.pointer()).with(z.pointer());
        let arguments = self.reduction.append(arguments).with(scalars.slot(rho)).with(scalars.slot(norm));
        self.resident(self.kernels.precondition_residual, arguments)
    }

    pub(super) fn advance(
        &self,
        [z, p_before]: [&Vector<T>; 2],
        [u, p, q]: [&mut Vector<T>; 3],
        [alpha, beta]: [Ratio; 2],
        sigma: Slot,
        scalars: &mut Scalars,
    ) -> Result<()> {
        let mut arguments = self.arguments().with(scalars.ratio(alpha)).with(scalars.ratio(beta));
        for vector in [z, p_before, u, p, q] {
            arguments = arguments.with(vector.pointer());
        }
        let arguments = self.reduction.append(arguments).with(scalars.slot(sigma));
        let (grid, block) = (self.advance_grid(), [32, ADVANCE[1] as u32]);
        let kernel = self.kernels.advance_direction;
        self.cuda.submit(Launch { kernel, grid, block, shared_bytes: 0, arguments })
    }
}

fn with_real<T: Real>(arguments: Arguments, value: f64) -> Arguments {
    match size_of::<T>() {
        4 => arguments.with(value as f32),
        _ => arguments.with(value),
    }
}

/// The kernel for vectors in precision S beside an operator in T.
fn available<T: Real, S: Real>(kernels: [Option<Kernel>; 2]) -> Result<Kernel> {
    kernels[index::<S>()].ok_or_else(unavailable::<T, S>)
}

fn unavailable<T: Real, S: Real>() -> Error {
    Error::Unsupported(format!("corrections in {} to a solution in {} on CUDA", S::PRECISION, T::PRECISION))
}
