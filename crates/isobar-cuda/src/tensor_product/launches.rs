//! Launches, one method per kernel or two, with their grids and arguments. The recurrences are above the kernels in the `.cu` files.

use isobar_core::operator::update_residual_unfused;
use isobar_core::prelude::{
    Backend, Colour, Guess, Layout, Ratio, Real, ResidualUpdate, Result, Scalar, Shape, Slab, Stencil,
};
use isobar_core::stencil;
use isobar_dist::part::PartBackend;

use super::planes::Planes;
use super::tile::{ADVANCE, RESIDUAL, rows};
use super::{TensorProduct, blocks};
use crate::seven_point::{Kernels, Residual, Steps, direction_kernel};
use crate::vector::is_single;
use crate::{Arguments, Cuda, Module, Pointer, Scalars, Sum, Vector, argument};

argument! {
    /// `Coarse` of layout.cuh.
    pub(super) struct Coarse {
        u: Pointer,
        nx: i32,
        ny: i32,
        pitch: i32,
        nz: i32,
        rows: [i32; 2],
    }
}

impl Coarse {
    /// Describes a coarse level, or a subdomain of one with halo rows: kernels read nothing beyond them.
    pub(super) fn of<T: Real>(u: &Vector<T>) -> Self {
        let layout = u.layout();
        let (Shape { nx, ny, nz }, [before, after]) = (layout.shape(), layout.halo().map(|rows| rows as i32));
        let (pitch, rows) = (layout.pitch() as i32, [-before, ny as i32 + after]);
        Self { u: u.pointer(), nx: nx as i32, ny: ny as i32, pitch, nz: nz as i32, rows }
    }
}

impl<T: Real> TensorProduct<T> {
    /// Launches a kernel with one tile of columns per block.
    fn tiles(&self, name: &'static str, colours: usize, arguments: Arguments) -> Result<()> {
        let grid = [self.strips(), self.layout.shape().ny, colours];
        self.cuda.launch(self.modules.smooth.kernel(name)?, grid, [self.tile.threads(), 1], arguments)
    }

    /// Launches a sweep, streaming or by tiles; both kernels have the same names and arguments.
    pub(super) fn columns(&self, name: &'static str, arguments: Arguments) -> Result<()> {
        if self.streams {
            self.stream(&self.modules.stream, name, |_| arguments)
        } else {
            self.tiles(name, 1, arguments)
        }
    }

    /// Launches as many blocks as the GPU holds.
    fn resident(&self, name: &'static str, arguments: impl FnOnce(usize) -> Arguments) -> Result<()> {
        let blocks = self.resident_lines()?;
        let kernel = self.modules.cg.kernel(name)?;
        self.cuda.launch(kernel, [blocks, 1, 1], [self.tile.threads(), 1], arguments(blocks))
    }

    /// Launches a kernel with one thread per cell of `layout`.
    pub(super) fn cells(
        &self,
        module: &Module,
        name: &'static str,
        layout: &Layout,
        arguments: Arguments,
    ) -> Result<()> {
        let Shape { ny, nz, .. } = layout.shape();
        let grid = [layout.pitch().div_ceil(32), nz.div_ceil(8), 2 * ny];
        self.cuda.launch(module.kernel(name)?, grid, [32, 8], arguments)
    }

    /// Launches a kernel with two rows per thread.
    pub(super) fn residuals(&self, module: &Module, name: &'static str, arguments: Arguments) -> Result<()> {
        self.cuda.launch(module.kernel(name)?, self.residual_grid(), [32, rows::<T>()], arguments)
    }

    /// Launches a kernel with two rows per thread and a sum.
    pub(super) fn residual_sums(&self, name: &'static str, arguments: Arguments, sums: Pointer) -> Result<()> {
        let arguments = self.reduction.append(arguments, blocks(self.residual_grid()), sums);
        self.residuals(&self.modules.apply, name, arguments)
    }
}

impl<T: Real> Kernels for TensorProduct<T> {
    type Real = T;
    type Stencil = stencil::TensorProduct;

    fn new(cuda: &Cuda, stencil: &stencil::TensorProduct) -> Result<Self> {
        Self::with_room_for(cuda, stencil, Slab::whole(Stencil::shape(stencil)))
    }

    fn send(&self, stencil: &stencil::TensorProduct) -> Result<bool> {
        self.tables.send(&self.cuda, &self.modules.tables, stencil, &self.layout, self.tile)?;
        Ok(true)
    }

    fn prepare(&self, steps: Steps) -> Result<()> {
        match steps {
            Steps::Direction { is_single } => self.modules.advance.prepare(&[direction_kernel::<T>(is_single)], 0),
            Steps::Lines => self.modules.cg.prepare(&["precondition_residual"], 0),
            Steps::Sweeps if self.streams => {
                self.modules.cg.prepare(&["precondition_residual", "precondition"], 0)?;
                let shared_bytes = self.tile.stream_bytes::<T, T>(self.layout.shape().nz);
                self.modules.stream.prepare(&["line_sweep", "prolong_smooth"], shared_bytes)
            }
            Steps::Sweeps | Steps::Transfers if self.planes.is_some() => {
                self.planes.iter().try_for_each(Planes::prepare)
            }
            Steps::Sweeps => self.modules.smooth.prepare(&["line_sweep", "line_sweep_zero", "prolong_smooth"], 0),
            Steps::Transfers => {
                let module = if self.streams_residual() { &self.modules.residual } else { &self.modules.apply };
                module.prepare(&["residual_norm_red"], 0)?;
                self.modules.transfer.prepare(&["coupling_restrict", "residual_restrict"], 0)
            }
        }
    }

    fn cuda(&self) -> &Cuda {
        &self.cuda
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Rows are recomputed from a few numbers.
    fn coefficient_vectors(&self) -> f64 {
        0.0
    }

    fn coefficient_bytes(&self) -> usize {
        self.tables.bytes()
    }

    fn needs_scratch(&self) -> bool {
        self.planes.is_some()
    }

    fn apply(&self, x: &Vector<T>, y: &mut Vector<T>) -> Result<()> {
        let arguments = self.arguments().with(x.pointer()).with(y.pointer());
        self.cells(&self.modules.apply, "apply", &self.layout, arguments)
    }

    fn residual(&self, [f, u]: [&Vector<T>; 2], r: &mut Vector<T>, (norm, scalars): Sum<'_>) -> Result<()> {
        let arguments = self.arguments().with(f.pointer()).with(u.pointer()).with(r.pointer());
        self.residual_sums("residual_field", arguments, scalars.pointer(norm))
    }

    fn residual_norm(&self, which: Residual, [f, u]: [&Vector<T>; 2], (norm, scalars): Sum<'_>) -> Result<()> {
        let arguments = self.arguments().with(f.pointer()).with(u.pointer());
        if which == Residual::Any || !self.streams_residual() {
            let name = if which == Residual::Any { "residual_norm" } else { "residual_norm_red" };
            return self.residual_sums(name, arguments, scalars.pointer(norm));
        }
        let grid = self.residual_strips()?;
        let arguments = self.reduction.append(arguments, blocks(grid), scalars.pointer(norm));
        self.cuda.launch(self.modules.residual.kernel("residual_norm_red")?, grid, [32, RESIDUAL[1]], arguments)
    }

    fn divide_by_diagonal(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let arguments = self.arguments().with(r.pointer()).with(z.pointer());
        self.cells(&self.modules.apply, "divide_by_diagonal", &self.layout, arguments)
    }

    /// The step is not fused, because this operator uses lines.
    fn scale_residual(&self, v: ResidualUpdate<'_, Vector<T>>, scalars: &mut Scalars) -> Result<()> {
        // The sum is over this rank's rows, like those of kernels.
        update_residual_unfused::<_, T>(&self.cuda.alone(), v, scalars, |r, z| self.divide_by_diagonal(r, z))
    }

    fn advance_direction<R: Real>(
        &self,
        (z, q): (&Vector<R>, &mut Vector<R>),
        p: &Vector<T>,
        [u, next]: [&mut Vector<T>; 2],
        [alpha, beta]: [Ratio; 2],
        sigma: Scalar,
        scalars: &mut Scalars,
    ) -> Result<()> {
        let mut arguments = self.arguments().with(scalars.ratio(alpha)).with(scalars.ratio(beta));
        for vector in [z.pointer(), p.pointer(), u.pointer(), next.pointer(), q.pointer()] {
            arguments = arguments.with(vector);
        }
        let grid = self.advance_grid()?;
        let arguments = self.reduction.append(arguments, blocks(grid), scalars.pointer(sigma));
        self.cuda.launch(
            self.modules.advance.kernel(direction_kernel::<T>(is_single::<R>()))?,
            grid,
            [32, ADVANCE[1]],
            arguments,
        )
    }

    fn solve_lines(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let both = self.arguments().with(Colour::Red as i32).with(2).with(r.pointer()).with(z.pointer());
        self.resident("precondition", |_| both)
    }

    fn precondition_residual(&self, v: ResidualUpdate<'_, Vector<T>>, scalars: &mut Scalars) -> Result<()> {
        let ResidualUpdate { r, q, z, alpha, out } = v;
        let arguments = self.arguments().with(scalars.ratio(alpha));
        let arguments = arguments.with(q.pointer()).with(r.pointer()).with(z.pointer());
        self.resident("precondition_residual", |blocks| {
            self.reduction.parts(blocks, scalars.sums(out)).into_iter().fold(arguments, Arguments::with)
        })
    }

    fn sweep(
        &self,
        rho: f64,
        colour: Colour,
        guess: Guess,
        f: &Vector<T>,
        u: &mut Vector<T>,
        _scratch: &mut Vector<T>,
    ) -> Result<()> {
        let arguments = self.arguments().with(colour as i32);
        let vectors = |arguments: Arguments| arguments.with(f.pointer()).with(u.pointer());
        if rho != 1.0 {
            return self.tiles("line_relax_to", 1, vectors(arguments).with(u.pointer()).with_real::<T>(rho));
        }
        match guess {
            Guess::Given => self.columns("line_sweep", vectors(arguments)),
            // Neighbouring rows are not read, so streaming gains nothing.
            Guess::Zero if self.streams => self.resident("precondition", |_| vectors(arguments.with(1))),
            Guess::Zero => self.tiles("line_sweep_zero", 1, vectors(arguments)),
        }
    }

    fn sweep_to(&self, rho: f64, guess: Guess, f: &Vector<T>, u: &mut Vector<T>, to: &mut Vector<T>) -> Result<()> {
        if guess == Guess::Zero {
            self.cuda.clear(u)?;
        }
        let arguments = self.arguments().with(Colour::Red as i32).with(f.pointer()).with(u.pointer());
        self.tiles("line_relax_to", 2, arguments.with(to.pointer()).with_real::<T>(rho))
    }
}
