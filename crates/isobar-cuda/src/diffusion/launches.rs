//! One method a kernel: its grid and its arguments. What each computes is said above it in the `.cu` file.

use isobar_core::backend::{Ratio, Slot};
use isobar_core::error::{Error, Result};
use isobar_core::layout::{Colour, Layout, Shape};
use isobar_core::real::Real;

use super::kind::{ROWS, transfer};
use super::{Diffusion, get_or_make};
use crate::driver::Pointer;
use crate::launch::{Argument, Arguments, Kernel, Launch};
use crate::region::{RegionVector, Regions};
use crate::scalars::Scalars;
use crate::vector::Vector;

/// `Transfer` of diffusion_transfer.cu.
#[derive(Clone, Copy)]
#[repr(C)]
struct Transfer {
    weights: [Pointer; 2],
    fine: [i32; 4],
    coarse: [i32; 3],
    periodic: i32,
}

// SAFETY: laid out as `Transfer` in diffusion_transfer.cu: two pointers, eight 32-bit integers.
unsafe impl Argument for Transfer {}

impl<T: Real> Diffusion<T> {
    fn pass_arguments(&self) -> Arguments {
        Arguments::new().with(self.operands).with(self.length as i32)
    }

    /// Along y.
    fn pass(&self, kernel: Kernel, arguments: Arguments) -> Result<()> {
        let (grid, block) = (self.pass_grid(), [32, ROWS as u32]);
        self.cuda.submit(Launch { kernel, grid, block, shared_bytes: 0, arguments })
    }

    /// A column a thread, or some of its levels.
    fn columns(&self, kernel: Kernel, colours: u32, arguments: Arguments) -> Result<()> {
        let (grid, block) = (self.line_grid(colours), self.cut.block());
        self.cuda.submit(Launch { kernel, grid, block, shared_bytes: 0, arguments })
    }

    pub(super) fn apply_to(&self, x: &Vector<T>, y: &mut Vector<T>) -> Result<()> {
        self.pass(self.passes.apply, self.pass_arguments().with(x.pointer()).with(y.pointer()))
    }

    pub(super) fn residual_field(&self, f: &Vector<T>, u: &Vector<T>, r: &mut Vector<T>) -> Result<()> {
        let arguments = self.pass_arguments().with(f.pointer()).with(u.pointer()).with(r.pointer());
        self.pass(self.passes.residual_field, arguments)
    }

    pub(super) fn residual_of(
        &self,
        f: &Vector<T>,
        u: &Vector<T>,
        r: &mut Vector<T>,
        norm: Slot,
        scalars: &mut Scalars,
    ) -> Result<()> {
        let arguments = self.pass_arguments().with(f.pointer()).with(u.pointer()).with(r.pointer());
        self.pass(self.passes.residual, self.reduction.append(arguments).with(scalars.slot(norm)))
    }

    pub(super) fn residual_norm_of(
        &self,
        f: &Vector<T>,
        u: &Vector<T>,
        norm: Slot,
        scalars: &mut Scalars,
    ) -> Result<()> {
        let arguments = self.pass_arguments().with(f.pointer()).with(u.pointer());
        self.pass(self.passes.residual_norm, self.reduction.append(arguments).with(scalars.slot(norm)))
    }

    pub(super) fn divide(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        self.pass(self.passes.divide_by_diagonal, self.pass_arguments().with(r.pointer()).with(z.pointer()))
    }

    pub(super) fn scale(
        &self,
        r: &mut Vector<T>,
        q: &Vector<T>,
        z: &mut Vector<T>,
        alpha: Ratio,
        [rho, norm]: [Slot; 2],
        scalars: &mut Scalars,
    ) -> Result<()> {
        let arguments = self.pass_arguments().with(scalars.ratio(alpha));
        let arguments = arguments.with(q.pointer()).with(r.pointer()).with(z.pointer());
        let arguments = self.reduction.append(arguments).with(scalars.slot(rho)).with(scalars.slot(norm));
        self.pass(self.passes.scale_residual, arguments)
    }

    pub(super) fn advance(
        &self,
        [z, p_before]: [&Vector<T>; 2],
        [u, p, q]: [&mut Vector<T>; 3],
        [alpha, beta]: [Ratio; 2],
        sigma: Slot,
        scalars: &mut Scalars,
    ) -> Result<()> {
        let mut arguments = self.pass_arguments().with(scalars.ratio(alpha)).with(scalars.ratio(beta));
        for vector in [z, p_before, u, p, q] {
            arguments = arguments.with(vector.pointer());
        }
        self.pass(self.passes.advance_direction, self.reduction.append(arguments).with(scalars.slot(sigma)))
    }

    pub(super) fn lower(
        &self,
        r: &Vector<T>,
        w: &Vector<T>,
        v: &mut Vector<T>,
        rho: Option<(Slot, &mut Scalars)>,
    ) -> Result<()> {
        let arguments = self.pass_arguments().with(r.pointer()).with(w.pointer()).with(v.pointer());
        match rho {
            Some((slot, scalars)) => {
                self.pass(self.passes.relax_lower_sum, self.reduction.append(arguments).with(scalars.slot(slot)))
            }
            None => self.pass(self.passes.relax_lower, arguments),
        }
    }

    pub(super) fn upper(&self, v: &Vector<T>, w: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let arguments = self.pass_arguments().with(v.pointer()).with(w.pointer()).with(z.pointer());
        self.pass(self.passes.relax_upper, arguments)
    }

    pub(super) fn poisson(&self, scaled: bool, inverse: &Vector<T>, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let kernel = if scaled { self.passes.incomplete_poisson_scaled } else { self.passes.incomplete_poisson };
        self.pass(kernel, self.pass_arguments().with(inverse.pointer()).with(r.pointer()).with(z.pointer()))
    }

    pub(super) fn subtract(
        &self,
        regions: &Regions,
        a: &RegionVector,
        p: &Vector<T>,
        q: &mut Vector<T>,
        sigma: Slot,
        scalars: &mut Scalars,
    ) -> Result<()> {
        let arguments = self.pass_arguments().with(regions.ids()).with(a.pointer()).with(p.pointer()).with(q.pointer());
        self.pass(self.passes.subtract_regional, self.reduction.append(arguments).with(scalars.slot(sigma)))
    }

    pub(super) fn solve(&self, r: &Vector<T>, z: &mut Vector<T>) -> Result<()> {
        let arguments = Arguments::new().with(self.operands).with(r.pointer()).with(z.pointer());
        self.columns(self.lines()?.solve, 2, arguments.with(self.ratios()?))
    }

    pub(super) fn precondition(
        &self,
        r: &mut Vector<T>,
        q: &Vector<T>,
        z: &mut Vector<T>,
        alpha: Ratio,
        [rho, norm]: [Slot; 2],
        scalars: &mut Scalars,
    ) -> Result<()> {
        let arguments = Arguments::new().with(self.operands).with(scalars.ratio(alpha));
        let arguments = arguments.with(q.pointer()).with(r.pointer()).with(z.pointer()).with(self.ratios()?);
        let arguments = self.reduction.append(arguments).with(scalars.slot(rho)).with(scalars.slot(norm));
        self.columns(self.lines()?.precondition_residual, 2, arguments)
    }

    /// The columns of one colour, or of both where none is given, from `u`, which is zero where there is none, to `to`;
    /// `y` is room for a vector.
    pub(super) fn relax(
        &self,
        rho: f64,
        colour: Option<Colour>,
        f: &Vector<T>,
        u: Option<Pointer>,
        to: Pointer,
        y: Pointer,
    ) -> Result<()> {
        let (first, colours) = colour.map_or((0, 2), |colour| (colour as i32, 1));
        let arguments = Arguments::new().with(self.operands).with(first).with_real::<T>(rho).with(f.pointer());
        let lines = self.lines()?;
        let (kernel, arguments) = match u {
            Some(u) => (lines.relax, arguments.with(u)),
            None => (lines.relax_zero, arguments),
        };
        self.columns(kernel, colours, arguments.with(to).with(y).with(self.ratios()?))
    }

    pub(super) fn substitute_blocks(
        &self,
        block: usize,
        inverse_pivots: &Vector<T>,
        r: &Vector<T>,
        z: &mut Vector<T>,
    ) -> Result<()> {
        /// As the kernel's launch bounds say.
        const MOST_THREADS: usize = 512;
        let kernel = *get_or_make(&self.substitute, || {
            self.cuda.modules(&[self.kind.substitute::<T>()])?[0].kernel("substitute")
        })?;
        let Shape { nx, ny, nz } = self.layout.shape();
        let cells = nx * ny * nz;
        let block = block.clamp(1, cells);
        let blocks = cells.div_ceil(block);
        // A row a thread; a block may begin and end within a row.
        let rows = if block.is_multiple_of(nx) { block / nx } else { (block - 1) / nx + 2 };
        let threads = rows.min(MOST_THREADS).next_multiple_of(32);
        let arguments = Arguments::new()
            .with(self.operands)
            .with(cells as i64)
            .with(block as i64)
            .with(blocks as i64)
            .with(inverse_pivots.pointer())
            .with(r.pointer())
            .with(z.pointer());
        let grid = [blocks.min(1 << 30) as u32, 1, 1];
        self.cuda.submit(Launch { kernel, grid, block: [threads as u32, 1], shared_bytes: 0, arguments })
    }

    fn transfer_arguments(&self, coarse: &Layout) -> Result<Arguments> {
        let (fine, shape) = (self.layout.shape(), coarse.shape());
        let halved = [shape.nx < fine.nx, shape.ny < fine.ny];
        if shape.nz != fine.nz || halved != [self.weights[0].is_some(), self.weights[1].is_some()] {
            return Err(Error::Unsupported(format!(
                "transfers between grids of {fine} and {shape} cells; make the finer operator with its transfers, and the \
                 coarser one from `Diffusion::coarsened`"
            )));
        }
        let transfer = Transfer {
            weights: [0, 1].map(|d| self.weights[d].as_ref().map_or(0, Vector::pointer)),
            fine: [fine.nx, fine.ny, self.layout.pitch(), fine.nz].map(|n| n as i32),
            coarse: [shape.nx, shape.ny, coarse.pitch()].map(|n| n as i32),
            periodic: self.kind.periodic() as i32,
        };
        Ok(Arguments::new().with(transfer))
    }

    fn transfer_kernels(&self) -> Result<[Kernel; 2]> {
        get_or_make(&self.transfer, || {
            let module = &self.cuda.modules(&[transfer::<T>()])?[0];
            Ok([module.kernel("restrict_field")?, module.kernel("prolong")?])
        })
        .copied()
    }

    /// A cell of `layout` a thread.
    fn cells(&self, kernel: Kernel, layout: &Layout, arguments: Arguments) -> Result<()> {
        let Shape { ny, nz, .. } = layout.shape();
        let (x, y) = if nz == 1 { (256, 1) } else { (32, 8) };
        let grid = [layout.pitch().div_ceil(x) as u32, nz.div_ceil(y) as u32, 2 * ny as u32];
        self.cuda.submit(Launch { kernel, grid, block: [x as u32, y as u32], shared_bytes: 0, arguments })
    }

    pub(super) fn restrict_field(&self, f: &Vector<T>, coarse_f: &mut Vector<T>) -> Result<()> {
        let layout = *coarse_f.layout();
        let arguments = self.transfer_arguments(&layout)?.with(f.pointer()).with(coarse_f.pointer());
        self.cells(self.transfer_kernels()?[0], &layout, arguments)
    }

    pub(super) fn prolong_field(&self, coarse_u: &Vector<T>, u: &mut Vector<T>) -> Result<()> {
        let arguments = self.transfer_arguments(coarse_u.layout())?.with(coarse_u.pointer()).with(u.pointer());
        self.cells(self.transfer_kernels()?[1], &self.layout, arguments)
    }
}
