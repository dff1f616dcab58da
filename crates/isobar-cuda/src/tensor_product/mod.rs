//! The tensor-product operator on a GPU.
//!
//! * [`tile`]: tiles of columns and the specialisation of kernels,
//! * `tables`: the coefficients,
//! * `launches`: launches of its kernels for [`SevenPoint`](crate::seven_point::SevenPoint),
//! * [`transfer`]: transfers between two multigrid levels; [`mixed`]: the finest level of mixed-precision cycles; [`modes`]: transfers to vertical modes; [`planes`]: multigrid for
//!   operators without vertical couplings; [`single`]: sweeps in single precision between the modes and the last sweep.

pub mod expand;
mod launches;
pub mod mixed;
pub mod modes;
pub mod planes;
pub mod single;
mod small_levels;
mod supports;
mod tables;
pub mod tile;
pub mod transfer;

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use isobar_core::prelude::{Layout, Real, Result, Shape, Slab, Stencil, get_or_make};
use isobar_core::stencil;

use crate::vector::{check_size, is_single};
use crate::{Arguments, Cuda, Kernel, Launch, Module, Reduction};
use planes::Planes;
use tables::{Operator, Tables};
use tile::{ADVANCE, RESIDUAL, Sources, Tile, rows, streams};

/// The kernels of the operator with its tables.
#[derive(Debug)]
pub struct TensorProduct<T> {
    cuda: Cuda,
    layout: Layout,
    tile: Tile,
    modules: Sourced,
    tables: Tables,
    /// Whether sweeps stream along y.
    pub(super) streams: bool,
    streaming: OnceLock<Streaming>,
    /// The kernels for operators without vertical couplings.
    planes: Option<Planes>,
    /// Blocks of the line preconditioner that the GPU holds at once.
    resident_lines: OnceLock<usize>,
    /// Blocks of the first pass of conjugate gradients that the GPU holds at once.
    resident_directions: OnceLock<usize>,
    /// Blocks of the streaming residual that the GPU holds at once.
    resident_residuals: OnceLock<usize>,
    reduction: Reduction,
    precision: PhantomData<T>,
}

/// [`Sources`] on the GPU.
#[derive(Debug)]
struct Sourced {
    tables: Arc<Module>,
    apply: Arc<Module>,
    transfer: Arc<Module>,
    smooth: Arc<Module>,
    stream: Arc<Module>,
    mixed: Arc<Module>,
    cg: Arc<Module>,
    advance: Arc<Module>,
    residual: Arc<Module>,
}

/// Launch parameters of the streaming kernels.
#[derive(Clone, Copy, Debug)]
struct Streaming {
    /// Number of segments of rows.
    segments: usize,
    shared_bytes: usize,
}

/// Largest number of blocks per multiprocessor of any GPU.
const MOST_BLOCKS_A_MULTIPROCESSOR: usize = 32;

/// Rows that justify the two extra rows at the start of a strip.
const STRIP_ROWS: usize = 4;

impl<T: Real> TensorProduct<T> {
    /// Allocates the coefficients of some rows.
    fn with_room_for(cuda: &Cuda, stencil: &stencil::TensorProduct, slab: Slab) -> Result<Self> {
        let context = cuda.context();
        let whole = stencil.shape();
        let layout = slab.layout(whole, false)?;
        let shape = layout.shape();
        check_size(shape)?;
        let tile = Tile::new::<T>(shape.nz, shape.nx * shape.ny)?;
        let is_odd = [shape.nx, shape.ny, whole.ny].iter().any(|n| !n.is_multiple_of(2));
        let Sources { tables, apply, transfer, smooth, stream, mixed, cg, advance, residual } =
            Sources::new::<T>(tile, shape.nz, is_odd);
        let streams = streams::<T>(context, &layout, tile);
        // Grids that do not stream use neither module: the one of tiles replaces them.
        let [stream, mixed] = if streams { [stream, mixed] } else { [smooth.clone(), smooth.clone()] };
        // Used in double precision only, according to measurements.
        let residual = if streams && !is_single::<T>() { residual } else { apply.clone() };
        let is_part = slab != Slab::whole(whole);
        let planes = if stencil.has_layers_apart() && !is_part { Some(Planes::new::<T>(cuda, &layout)?) } else { None };
        let [tables, apply, transfer, smooth, stream, mixed, cg, advance, residual] =
            [tables, apply, transfer, smooth, stream, mixed, cg, advance, residual].map(|source| cuda.module(source));
        tables.prepare(&["horizontal", "vertical", "line_pivots"], 0)?;
        let mut this = Self {
            cuda: cuda.clone(),
            layout,
            tile,
            modules: Sourced { tables, apply, transfer, smooth, stream, mixed, cg, advance, residual },
            tables: Tables::new::<T>(cuda, &layout, whole.ny, tile)?,
            streams,
            streaming: OnceLock::new(),
            planes,
            resident_lines: OnceLock::new(),
            resident_directions: OnceLock::new(),
            resident_residuals: OnceLock::new(),
            reduction: Reduction::new(context, 0)?,
            precision: PhantomData,
        };
        // Grids with as many blocks as the GPU holds are determined once their kernels are loaded.
        let resident = MOST_BLOCKS_A_MULTIPROCESSOR * context.multiprocessors;
        let [advance, residual] = [ADVANCE, RESIDUAL].map(|tile| this.row_tiles(tile).iter().product());
        let most = blocks(this.residual_grid()).max(advance).max(residual).max(resident + this.strips());
        this.reduction = Reduction::new(context, most)?;
        this.modules.apply.kernel("residual_norm")?;
        Ok(this)
    }

    fn operator(&self) -> Operator {
        self.tables.operator
    }

    /// Returns the first argument of all kernels.
    fn arguments(&self) -> Arguments {
        Arguments::new().with(self.operator())
    }

    /// Returns the number of tiles side by side.
    fn strips(&self) -> usize {
        self.layout.pitch().div_ceil(self.tile.lanes)
    }

    /// Returns the number of segments for a grid with this many blocks, such that every multiprocessor has some.
    fn runs(&self, blocks: usize, wanted: usize) -> usize {
        /// Blocks that a multiprocessor should have.
        const BLOCKS: usize = 4;
        let runs = (BLOCKS * self.cuda.context().multiprocessors).div_ceil(blocks).max(wanted);
        runs.clamp(1, 16).min(self.layout.shape().nz.div_ceil(4))
    }

    /// Returns the launch grid with two rows per thread.
    fn residual_grid(&self) -> [usize; 3] {
        let (x, y) = (self.layout.pitch().div_ceil(32), self.layout.shape().ny.div_ceil(2).div_ceil(rows::<T>()));
        [x, y, self.runs(x * y, 1)]
    }

    /// Returns the tiles of a row for blocks with this many warps and layers per thread.
    fn row_tiles(&self, [depth, warps]: [usize; 2]) -> [usize; 2] {
        [self.layout.pitch().div_ceil(32), self.layout.shape().nz.div_ceil(depth * warps)]
    }

    /// Returns the launch grid of one strip along y per warp, with no more blocks than run at once: the remainder would take as long again.
    fn strip_grid(&self, tile: [usize; 2], resident: usize) -> [usize; 3] {
        let [x, y] = self.row_tiles(tile);
        [x, y, (resident / (x * y)).clamp(1, self.layout.shape().ny.div_ceil(STRIP_ROWS))]
    }

    /// Returns the launch grid of one strip of both colours per warp.
    fn advance_grid(&self) -> Result<[usize; 3]> {
        let resident = get_or_make(&self.resident_directions, || {
            let module = &self.modules.advance;
            module.resident_blocks(&module.kernel("advance_direction")?, 32 * ADVANCE[1], 0)
        })?;
        Ok(self.strip_grid(ADVANCE, *resident))
    }

    /// Returns whether the residual after a red–black sweep streams.
    fn streams_residual(&self) -> bool {
        self.streams && !is_single::<T>()
    }

    /// Returns the launch grid of one strip of red columns, with their black neighbours, per warp.
    fn residual_strips(&self) -> Result<[usize; 3]> {
        let resident = get_or_make(&self.resident_residuals, || {
            let module = &self.modules.residual;
            module.resident_blocks(&module.kernel("residual_norm_red")?, 32 * RESIDUAL[1], 0)
        })?;
        Ok(self.strip_grid(RESIDUAL, *resident))
    }

    fn streaming(&self) -> Result<Streaming> {
        let streaming = get_or_make(&self.streaming, || {
            let Shape { ny, nz, .. } = self.layout.shape();
            let (shared_bytes, module) = (self.tile.stream_bytes::<T, T>(nz), &self.modules.stream);
            let kernel = module.kernel_with("line_sweep", shared_bytes)?;
            let resident = module.resident_blocks(&kernel, self.tile.threads(), shared_bytes)?;
            Ok(Streaming { segments: segments(ny, self.strips(), resident), shared_bytes })
        });
        streaming.copied()
    }

    /// Returns as many blocks of the line preconditioner as the GPU holds.
    fn resident_lines(&self) -> Result<usize> {
        let resident = get_or_make(&self.resident_lines, || {
            let module = &self.modules.cg;
            module.resident_blocks(&module.kernel("precondition_residual")?, self.tile.threads(), 0)
        })?;
        Ok((*resident).min(self.strips() * 2 * self.layout.shape().ny))
    }

    /// Launches a kernel with one strip of columns along y per block.
    fn stream(&self, module: &Module, name: &'static str, arguments: impl FnOnce(usize) -> Arguments) -> Result<()> {
        let Streaming { segments, shared_bytes } = self.streaming()?;
        let kernel = module.kernel_with(name, shared_bytes)?;
        let grid = [self.strips(), segments, 1];
        self.submit_streaming(kernel, grid, shared_bytes, arguments(blocks(grid)))
    }

    fn submit_streaming(
        &self,
        kernel: Kernel,
        grid: [usize; 3],
        shared_bytes: usize,
        arguments: Arguments,
    ) -> Result<()> {
        let (grid, block) = (grid.map(|n| n as u32), [self.tile.threads() as u32, 1]);
        self.cuda.submit(Launch { kernel, grid, block, shared_bytes: shared_bytes as u32, arguments })
    }
}

/// Returns the number of segments of rows such that all blocks are resident at once.
fn segments(ny: usize, strips: usize, resident: usize) -> usize {
    ny.div_ceil((ny * strips).div_ceil(resident))
}

fn blocks(grid: [usize; 3]) -> usize {
    grid.into_iter().product()
}
