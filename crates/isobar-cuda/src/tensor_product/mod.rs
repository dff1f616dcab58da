//! The tensor-product operator on a card.
//!
//! * [`cut`] how blocks cut columns up, and what that specialises,
//! * `tables` the coefficients,
//! * `launches` one method a kernel,
//! * `steps` the fused steps, made of those.

pub mod cut;
mod launches;
mod steps;
mod tables;

use std::sync::{Arc, Mutex};

use isobar_core::error::Result;
use isobar_core::layout::{Layout, Shape};
use isobar_core::real::{Precision, Real};
use isobar_core::stencil;

use crate::cuda::{Cuda, Reduction, check_size};
use crate::driver::Pointer;
use crate::launch::{Argument, Arguments, Kernel, Launch};
use crate::memory::Buffer;
use crate::module::Module;
use crate::vector::{Vector, index};
use cut::{ADVANCE, Cut, Sources, marches, rows};

/// The operator with its coefficients on the card.
#[derive(Debug)]
pub struct TensorProduct<T> {
    cuda: Cuda,
    layout: Layout,
    cut: Cut,
    kernels: Kernels,
    coefficients: Coefficients,
    march: Option<March>,
    /// Blocks of the kernels that keep a card full by themselves.
    resident_blocks: usize,
    /// The same of the first pass of conjugate gradients.
    advance_resident: usize,
    reduction: Reduction,
    /// The other p of [`advance_direction`](isobar_core::operator::Operator::advance_direction), which
    /// reads the old p where neighbours need it and so cannot overwrite it.
    spare: Mutex<Option<Vector<T>>>,
    _tables: Buffer,
}

/// `Operator` of tensor_product.cuh.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Coefficients {
    tables: [Pointer; 9],
    nx: i32,
    ny: i32,
    nz: i32,
    pitch: i32,
}

// SAFETY: laid out as `Operator` in tensor_product.cuh: nine pointers, four 32-bit integers.
unsafe impl Argument for Coefficients {}

/// `Coarse` of layout.cuh.
#[derive(Clone, Copy)]
#[repr(C)]
struct Coarse {
    u: Pointer,
    nx: i32,
    ny: i32,
    pitch: i32,
    nz: i32,
}

// SAFETY: laid out as `Coarse` in layout.cuh: a pointer, four 32-bit integers.
unsafe impl Argument for Coarse {}

impl Coarse {
    fn of<T: Real>(u: &Vector<T>) -> Self {
        let Shape { nx, ny, nz } = u.layout().shape();
        Self { u: u.pointer(), nx: nx as i32, ny: ny as i32, pitch: u.layout().pitch() as i32, nz: nz as i32 }
    }
}

/// Rows that are worth the two more that a block of the first pass of conjugate gradients begins with.
const ADVANCE_ROWS: usize = 4;

/// How the marching kernels are launched.
#[derive(Clone, Copy, Debug)]
struct March {
    /// Runs of rows.
    segments: u32,
    shared_bytes: u32,
    sweep: Kernel,
    prolong_smooth: Kernel,
    /// With a correction in double and in single precision.
    correct_smooth: [Option<Kernel>; 2],
    mixed: Mixed,
}

/// What a mixed-precision cycle does on its finest grid: the first two in double precision, the others in single.
#[derive(Clone, Copy, Debug)]
struct Mixed {
    correct_sweep_red: Kernel,
    sweep_black_change: Kernel,
    sweep_red_from_change: Kernel,
    sweep_black_homogeneous: Kernel,
}

#[derive(Clone, Copy, Debug)]
struct Kernels {
    sweep: Kernel,
    sweep_zero: Kernel,
    relax: Kernel,
    prolong_smooth: Kernel,
    pivots: Kernel,
    advance_direction: Kernel,
    precondition_residual: Kernel,
    precondition: Kernel,
    residual_norm: Kernel,
    residual_norm_red: Kernel,
    residual_restrict: Kernel,
    residual_restrict_both: Kernel,
    coupling_restrict: Kernel,
    prolong: Kernel,
    /// Stored in double and in single precision.
    residual: [Option<Kernel>; 2],
    residual_red: [Option<Kernel>; 2],
    apply: Kernel,
    divide_by_diagonal: Kernel,
    restrict: Kernel,
}

/// A kernel of each of two modules, where they are in use.
fn pair(modules: &[Option<Arc<Module>>; 2], name: &'static str) -> Result<[Option<Kernel>; 2]> {
    let get = |n: usize| modules[n].as_ref().map(|module| module.kernel(name)).transpose();
    Ok([get(0)?, get(1)?])
}

impl<T: Real> TensorProduct<T> {
    pub(crate) fn new(cuda: &Cuda, stencil: &stencil::TensorProduct) -> Result<Self> {
        let context = cuda.context();
        let layout = Layout::new(stencil.shape())?;
        let shape = layout.shape();
        check_size(shape)?;
        let cut = Cut::new::<T>(shape.nz, shape.nx * shape.ny)?;
        let marching = marches::<T>(context, &layout, cut);

        // Corrections and residuals are in this precision, or a double-precision operator's in single.
        let own = index::<T>();
        let used = |n: usize| n == own || T::PRECISION == Precision::F64;
        let sources = Sources::new::<T>(cut, shape.nz);
        let mut wanted = vec![sources.smooth, sources.cg, sources.advance, sources.apply];
        wanted.extend((0..2).filter(|&n| used(n)).map(|n| sources.transfer[n].clone()));
        if marching {
            wanted.extend((0..2).filter(|&n| used(n)).map(|n| sources.march[n].clone()));
            wanted.push(sources.mixed);
        }
        let mut modules = cuda.modules(&wanted)?.into_iter();
        let mut next = || modules.next().ok_or_else(|| crate::driver::error("a module is missing"));
        let (smooth, cg, advance, apply) = (next()?, next()?, next()?, next()?);
        let mut both = |used: &dyn Fn(usize) -> bool| -> Result<[Option<Arc<Module>>; 2]> {
            let first = if used(0) { Some(next()?) } else { None };
            Ok([first, if used(1) { Some(next()?) } else { None }])
        };
        let transfers = both(&used)?;
        let marches = if marching { both(&used)? } else { [None, None] };
        let mixed = if marching { Some(next()?) } else { None };
        let plain = |modules: &[Option<Arc<Module>>; 2]| {
            modules[own].clone().ok_or_else(|| crate::driver::error("a module is missing"))
        };
        let transfer = plain(&transfers)?;
        let kernels = Kernels {
            sweep: smooth.kernel("line_sweep")?,
            sweep_zero: smooth.kernel("line_sweep_zero")?,
            relax: smooth.kernel("line_relax_to")?,
            prolong_smooth: smooth.kernel("prolong_smooth")?,
            pivots: smooth.kernel("line_pivots")?,
            advance_direction: advance.kernel("advance_direction")?,
            precondition_residual: cg.kernel("precondition_residual")?,
            precondition: cg.kernel("precondition")?,
            residual_norm: transfer.kernel("residual_norm")?,
            residual_norm_red: transfer.kernel("residual_norm_red")?,
            residual_restrict: transfer.kernel("residual_restrict")?,
            residual_restrict_both: transfer.kernel("residual_restrict_both")?,
            coupling_restrict: transfer.kernel("coupling_restrict")?,
            prolong: transfer.kernel("prolong_add")?,
            residual: pair(&transfers, "residual_field")?,
            residual_red: pair(&transfers, "residual_field_red")?,
            apply: apply.kernel("apply")?,
            divide_by_diagonal: apply.kernel("divide_by_diagonal")?,
            restrict: apply.kernel("restrict_field")?,
        };
        let strips = layout.pitch().div_ceil(cut.lanes);
        let march = if let Some(mixed) = mixed {
            let module = plain(&marches)?;
            let sweep = module.kernel("line_sweep_march")?;
            let prolong_smooth = module.kernel("prolong_smooth_march")?;
            let correct_smooth = pair(&marches, "correct_smooth_march")?;
            let shared_bytes = cut.march_bytes::<T>(shape.nz);
            let mixed = Mixed {
                correct_sweep_red: mixed.kernel("correct_sweep_red")?,
                sweep_black_change: mixed.kernel("sweep_black_change")?,
                sweep_red_from_change: mixed.kernel("sweep_red_from_change")?,
                sweep_black_homogeneous: mixed.kernel("sweep_black_homogeneous")?,
            };
            let Mixed { correct_sweep_red, sweep_black_change, sweep_red_from_change, sweep_black_homogeneous } = mixed;
            let kernels = [
                sweep,
                prolong_smooth,
                correct_sweep_red,
                sweep_black_change,
                sweep_red_from_change,
                sweep_black_homogeneous,
            ];
            for kernel in kernels.into_iter().chain(correct_smooth.into_iter().flatten()) {
                // Grids with other levels may share the module, up to as many as the cut has.
                kernel.allow_shared_bytes(cut.march_bytes::<T>(cut.levels()).min(context.shared_memory - 1024))?;
            }
            let resident = context.multiprocessors * sweep.occupancy(cut.threads(), shared_bytes)?;
            let rows = (shape.ny * strips).div_ceil(resident);
            let segments = shape.ny.div_ceil(rows) as u32;
            Some(March { segments, shared_bytes: shared_bytes as u32, sweep, prolong_smooth, correct_smooth, mixed })
        } else {
            None
        };
        let per_multiprocessor = kernels.precondition_residual.occupancy(cut.threads(), 0)?;

        let advance_resident = context.multiprocessors * kernels.advance_direction.occupancy(32 * ADVANCE[1], 0)?;

        let tables = tables::Tables::<T>::new(stencil, &layout, cut);
        let mut buffer = Buffer::zeros(context, tables.len * size_of::<T>(), "the operator")?;
        buffer.write(&tables.data)?;
        let coefficients = Coefficients {
            tables: tables.starts.map(|start| buffer.start() + (start * size_of::<T>()) as Pointer),
            nx: shape.nx as i32,
            ny: shape.ny as i32,
            nz: shape.nz as i32,
            pitch: layout.pitch() as i32,
        };
        let mut this = Self {
            cuda: cuda.clone(),
            layout,
            cut,
            kernels,
            coefficients,
            march,
            resident_blocks: (context.multiprocessors * per_multiprocessor).min(strips * 2 * shape.ny),
            advance_resident,
            reduction: Reduction::new(context, 1)?,
            spare: Mutex::new(None),
            _tables: buffer,
        };
        let blocks = |grid: [u32; 3]| grid.into_iter().map(|n| n as usize).product::<usize>();
        let marching = march.map_or(0, |march| strips * march.segments as usize);
        let most =
            blocks(this.residual_grid()).max(blocks(this.advance_grid())).max(this.resident_blocks).max(marching);
        this.reduction = Reduction::new(context, most)?;
        this.compute_pivots()?;
        Ok(this)
    }

    fn compute_pivots(&self) -> Result<()> {
        let arguments = Arguments::new().with(self.coefficients).with(self.coefficients.tables[6]);
        let grid = [self.layout.pitch().div_ceil(64) as u32, 2 * self.layout.shape().ny as u32, 1];
        self.cuda.submit(Launch { kernel: self.kernels.pivots, grid, block: [64, 1], shared_bytes: 0, arguments })
    }

    /// Runs of levels that a grid of so many blocks is cut into, so that every multiprocessor has some.
    fn runs(&self, blocks: usize, wanted: usize) -> usize {
        /// Blocks that a multiprocessor should have.
        const BLOCKS: usize = 4;
        let runs = (BLOCKS * self.cuda.context().multiprocessors).div_ceil(blocks).max(wanted);
        runs.clamp(1, 16).min(self.layout.shape().nz.div_ceil(4))
    }

    /// Two rows a thread.
    fn residual_grid(&self) -> [u32; 3] {
        let (x, y) = (self.layout.pitch().div_ceil(32), self.layout.shape().ny.div_ceil(2).div_ceil(rows::<T>()));
        [x as u32, y as u32, self.runs(x * y, 1) as u32]
    }

    /// A strip of both colours, along y, a warp.
    fn advance_grid(&self) -> [u32; 3] {
        let [depth, warps] = ADVANCE;
        let Shape { ny, nz, .. } = self.layout.shape();
        let (x, y) = (self.layout.pitch().div_ceil(32), nz.div_ceil(depth * warps));
        // No more blocks than run at once: the rest would take as long again.
        let segments = (self.advance_resident / (x * y)).clamp(1, ny.div_ceil(ADVANCE_ROWS));
        [x as u32, y as u32, segments as u32]
    }
}
