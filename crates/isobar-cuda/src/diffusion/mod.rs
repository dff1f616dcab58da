//! The diffusion operator on a card.
//!
//! * [`kind`] what kernels are specialised by,
//! * `launches` one method a kernel,
//! * `steps` the fused steps, made of those.
//!
//! Few solves use all kernels: those of the passes along y are compiled with every operator, those of smoothers with
//! levels of multigrid, the rest when they are first needed.

pub mod kind;
mod launches;
mod steps;

use std::sync::{Mutex, OnceLock};

use isobar_core::backend::{Backend, DiffusionBackend};
use isobar_core::error::Result;
use isobar_core::layout::{ArrayView, Layout, Shape};
use isobar_core::real::Real;
use isobar_core::stencil::{self, Axis, Coefficients};

use crate::cuda::{Cuda, Reduction, check_size};
use crate::driver::Pointer;
use crate::launch::{Argument, Kernel};
use crate::memory::require;
use crate::vector::Vector;
use kind::{Cut, Kind, ROWS};

/// The operator with its coefficients on the card.
#[derive(Debug)]
pub struct Diffusion<T> {
    cuda: Cuda,
    layout: Layout,
    kind: Kind,
    cut: Cut,
    coefficient_vectors: f64,
    operands: Operands,
    passes: Passes,
    lines: OnceLock<Lines>,
    /// Above-diagonal entries over pivots, where line solves store them.
    ratios: OnceLock<Vector<T>>,
    substitute: OnceLock<Kernel>,
    /// Restriction and prolongation.
    transfer: OnceLock<[Kernel; 2]>,
    /// Of interpolation from the next coarser grid, for the directions that are halved.
    weights: [Option<Vector<T>>; 2],
    /// Rows that a warp runs through.
    length: usize,
    reduction: Reduction,
    /// The other p of [`advance_direction`](isobar_core::operator::Operator::advance_direction), which
    /// reads the old p where neighbours need it and so cannot overwrite it.
    spare: Mutex<Option<Vector<T>>>,
    _coefficients: Vec<Vector<T>>,
}

/// `Diffusion` of diffusion.cuh.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Operands {
    fields: [Pointer; 3],
    shift: Pointer,
    factors: [f64; 3],
    nx: i32,
    ny: i32,
    nz: i32,
    pitch: i32,
}

// SAFETY: laid out as `Diffusion` in diffusion.cuh: four pointers, three doubles, four 32-bit integers.
unsafe impl Argument for Operands {}

#[derive(Clone, Copy, Debug)]
struct Passes {
    apply: Kernel,
    residual_field: Kernel,
    residual: Kernel,
    residual_norm: Kernel,
    divide_by_diagonal: Kernel,
    scale_residual: Kernel,
    advance_direction: Kernel,
    relax_lower: Kernel,
    relax_lower_sum: Kernel,
    relax_upper: Kernel,
    incomplete_poisson: Kernel,
    incomplete_poisson_scaled: Kernel,
    subtract_regional: Kernel,
}

#[derive(Clone, Copy, Debug)]
struct Lines {
    solve: Kernel,
    precondition_residual: Kernel,
    relax: Kernel,
    relax_zero: Kernel,
}

/// What is there already, or what `make` makes.
fn get_or_make<K>(cell: &OnceLock<K>, make: impl FnOnce() -> Result<K>) -> Result<&K> {
    match cell.get() {
        Some(value) => Ok(value),
        None => {
            let value = make()?;
            Ok(cell.get_or_init(|| value))
        }
    }
}

impl<T: Real> Diffusion<T> {
    pub(crate) fn new(cuda: &Cuda, stencil: &stencil::Diffusion, with_transfers: bool) -> Result<Self> {
        let context = cuda.context();
        let shape = stencil.shape();
        let layout = Layout::new(shape)?;
        check_size(shape)?;
        let kind = Kind::of(stencil);
        let halved = if with_transfers { stencil.coarsened_axes().unwrap_or_default() } else { [false; 2] };
        let coefficients = used_coefficients(stencil, kind);
        let cut = Cut::new::<T>(shape.nz);
        let lines = usize::from(with_transfers && cut.needs_ratios(shape.nz));
        let vectors = coefficients.len()
            + usize::from(stencil.stored_shift().is_some())
            + halved.into_iter().filter(|&halved| halved).count()
            + lines;
        let what = format!("the {vectors} vectors of a diffusion operator on {shape} cells");
        require(context, vectors * layout.len() * size_of::<T>(), &what)?;

        let upload = |values: &[f64]| -> Result<Vector<T>> {
            let mut vector = Vector::zeros(context, &layout)?;
            cuda.upload(ArrayView::c_order(values, shape)?, &mut vector)?;
            Ok(vector)
        };
        let mut stored = Vec::new();
        let mut fields = [0; 3];
        for &field in &coefficients {
            let vector = match stencil.coefficients() {
                Coefficients::Cells { fields, .. } => upload(&fields[field])?,
                Coefficients::Faces(_) => {
                    let axis = Axis::ALL[field];
                    upload(&stencil.cells().map(|at| stencil.face(axis, at)).collect::<Vec<f64>>())?
                }
            };
            fields[field] = vector.pointer();
            stored.push(vector);
        }
        // Those that no kernel looks at point to something that may be read all the same.
        let any = stored.first().map_or(0, Vector::pointer);
        for field in fields.iter_mut().filter(|field| **field == 0) {
            *field = any;
        }
        let mut shift = any;
        if let Some(values) = stencil.stored_shift() {
            let vector = upload(values)?;
            shift = vector.pointer();
            stored.push(vector);
        }
        let [x, y] = if with_transfers { stencil.transfer_weights() } else { [None, None] };
        let weights = [x.map(|w| upload(&w)).transpose()?, y.map(|w| upload(&w)).transpose()?];

        let factors = match stencil.coefficients() {
            Coefficients::Cells { axes, .. } => axes.map(|(_, factor)| factor),
            Coefficients::Faces(_) => [1.0; 3],
        };
        let mut wanted = vec![kind.passes::<T>()];
        if with_transfers {
            // A level of multigrid needs these as well; they compile at the same time.
            wanted.extend([kind.lines::<T>(shape.nz), kind::transfer::<T>()]);
        }
        let module = &cuda.modules(&wanted)?[0];
        let passes = Passes {
            apply: module.kernel("apply")?,
            residual_field: module.kernel("residual_field")?,
            residual: module.kernel("residual")?,
            residual_norm: module.kernel("residual_norm")?,
            divide_by_diagonal: module.kernel("divide_by_diagonal")?,
            scale_residual: module.kernel("scale_residual")?,
            advance_direction: module.kernel("advance_direction")?,
            relax_lower: module.kernel("relax_lower")?,
            relax_lower_sum: module.kernel("relax_lower_sum")?,
            relax_upper: module.kernel("relax_upper")?,
            incomplete_poisson: module.kernel("incomplete_poisson")?,
            incomplete_poisson_scaled: module.kernel("incomplete_poisson_scaled")?,
            subtract_regional: module.kernel("subtract_regional")?,
        };
        let resident = context.multiprocessors * passes.advance_direction.occupancy(32 * ROWS, 0)?;
        let Shape { nx, ny, nz } = shape;
        let mut this = Self {
            cuda: cuda.clone(),
            layout,
            kind,
            cut,
            coefficient_vectors: stencil.coefficient_vectors(),
            operands: Operands {
                fields,
                shift,
                factors,
                nx: nx as i32,
                ny: ny as i32,
                nz: nz as i32,
                pitch: layout.pitch() as i32,
            },
            passes,
            lines: OnceLock::new(),
            ratios: OnceLock::new(),
            substitute: OnceLock::new(),
            transfer: OnceLock::new(),
            weights,
            length: rows_a_warp(shape, resident),
            reduction: Reduction::new(context, 1)?,
            spare: Mutex::new(None),
            _coefficients: stored,
        };
        let blocks = |grid: [u32; 3]| grid.into_iter().map(|n| n as usize).product::<usize>();
        this.reduction =
            Reduction::new(context, blocks(this.pass_grid()).max(if nz == 1 { 1 } else { blocks(this.line_grid(2)) }))?;
        if with_transfers {
            this.lines()?;
            this.ratios()?;
        }
        Ok(this)
    }

    fn lines(&self) -> Result<&Lines> {
        get_or_make(&self.lines, || {
            let module = &self.cuda.modules(&[self.kind.lines::<T>(self.layout.shape().nz)])?[0];
            Ok(Lines {
                solve: module.kernel("solve_lines")?,
                precondition_residual: module.kernel("precondition_residual")?,
                relax: module.kernel("relax_lines")?,
                relax_zero: module.kernel("relax_lines_zero")?,
            })
        })
    }

    /// Where line solves store ratios; nowhere, where they need not.
    fn ratios(&self) -> Result<Pointer> {
        if !self.cut.needs_ratios(self.layout.shape().nz) {
            return Ok(0);
        }
        Ok(get_or_make(&self.ratios, || Vector::zeros(self.cuda.context(), &self.layout))?.pointer())
    }

    /// Whether a sweep needs a column's old values: those of a periodic top lag behind.
    fn looks_at_itself(&self) -> bool {
        !self.is_flat() && self.kind.is_periodic(Axis::Z)
    }

    /// Whether there is one level only.
    fn is_flat(&self) -> bool {
        self.layout.shape().nz == 1
    }

    fn pairs(&self) -> usize {
        self.layout.shape().nx.div_ceil(2)
    }

    /// Of the passes along y; see diffusion_march.cuh.
    fn pass_grid(&self) -> [u32; 3] {
        let Shape { ny, nz, .. } = self.layout.shape();
        let (x, segments) = (self.pairs().div_ceil(32) as u32, ny.div_ceil(self.length));
        if nz == 1 { [x, 1, segments.div_ceil(ROWS) as u32] } else { [x, nz.div_ceil(ROWS) as u32, segments as u32] }
    }

    /// Of line solves.
    fn line_grid(&self, colours: u32) -> [u32; 3] {
        self.cut.grid(self.pairs(), self.layout.shape().ny, colours)
    }
}

/// How many rows a warp runs through: so many that the blocks that the card holds at once are just enough two or four
/// times over, with none left for one time more; at least a few, so that the row before the first, which is read in vain, does not matter.
fn rows_a_warp(shape: Shape, resident_blocks: usize) -> usize {
    const FEWEST: usize = 4;
    let strips = shape.nx.div_ceil(64);
    // Measured: docs/notes/cuda-kernels.md.
    let waves = if shape.nz == 1 { 2 } else { 4 };
    let blocks = waves * resident_blocks;
    let segments = if shape.nz == 1 { blocks / strips * ROWS } else { blocks / (strips * shape.nz.div_ceil(ROWS)) };
    shape.ny.div_ceil(segments.max(1)).max(FEWEST.min(shape.ny))
}

/// The fields, or directions whose faces, that kernels look at.
fn used_coefficients(stencil: &stencil::Diffusion, kind: Kind) -> Vec<usize> {
    let Shape { nx, ny, nz } = stencil.shape();
    let extents = [nx, ny, nz];
    let mut used: Vec<usize> = match stencil.coefficients() {
        Coefficients::Cells { .. } => Axis::ALL
            .into_iter()
            .filter(|&axis| extents[axis as usize] > 1 || kind.is_fixed(axis))
            .map(|axis| kind.field(axis))
            .collect(),
        // A missing face must be there as a zero, but for those above the only level.
        Coefficients::Faces(_) => (0..if nz > 1 { 3 } else { 2 }).collect(),
    };
    used.sort_unstable();
    used.dedup();
    if used.is_empty() { vec![0] } else { used }
}

impl DiffusionBackend for Cuda {
    type Diffusion<T: Real> = Diffusion<T>;

    fn diffusion<T: Real>(&self, stencil: &stencil::Diffusion, with_transfers: bool) -> Result<Diffusion<T>> {
        Diffusion::new(self, stencil, with_transfers)
    }
}
