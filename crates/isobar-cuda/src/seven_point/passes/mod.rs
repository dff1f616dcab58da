//! Kernels for any stencil with its own header: `kernels/seven_point/`.
//!
//! The kernels of triangular parts, which few solves use, are compiled on first use, all others in parallel
//! when an operator is made.
//!
//! * `prepare`: the kernels and measures before a solve; `launches`: the launches, one method each.

mod launches;
mod prepare;

use std::fmt::Debug;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, RwLock, RwLockReadGuard};

use isobar_core::large_pages::prefer_large_pages;
use isobar_core::prelude::{
    Axis, Colour, Diffusion, Layout, Precision, Ratio, Real, Result, Shape, Slab, Stencil, get_or_make, read, write,
};

use super::Residual;
use super::colours::kernels::Colours;
use super::form::{Form, ROWS};
use super::lines::{LineTile, SweepTile};
use super::look::{LOOK, Looks};
use super::points::tile::Cycles;
use super::whole_grid::{Sweep, WholeGrid};
use crate::diffusion::{Kind, Operands};
use crate::vector::check_size;
use crate::{Arguments, Buffer, Cuda, Module, Pointer, Reduction, Scalars, Vector};

/// The kernels of a stencil with its coefficients.
#[derive(Debug)]
pub struct Passes<T> {
    cuda: Cuda,
    layout: Layout,
    /// The shape of the whole grid.
    pub(super) whole: Shape,
    pub(super) form: Form,
    coefficient_vectors: f64,
    coefficients: Buffer,
    operands: Operands,
    passes: Arc<Module>,
    lines: Arc<Module>,
    triangular: Arc<Module>,
    whole_grid: WholeGrid,
    tile: LineTile,
    /// Sweeps with stored pivots, if used.
    sweeps: Option<(SweepTile, Arc<Module>)>,
    /// 1 over the pivots of columns, if sweeps store them.
    inverse_pivots: OnceLock<Vector<T>>,
    /// Upper entries divided by pivots, if line solves store them.
    ratios: OnceLock<Vector<T>>,
    /// Rows per warp of passes along y.
    length: OnceLock<usize>,
    reduction: Reduction,
    pub(super) cycles: Cycles,
    /// Red–black point relaxation, if prepared.
    pub(super) colours: OnceLock<Colours>,
    /// Measures of the coefficients, if prepared.
    pub(super) looks: OnceLock<Looks>,
    /// A right-hand side vector for triangular solves that pass rows to the next rank.
    pub(super) handed: Mutex<Option<Vector<T>>>,
    /// The two counts of the kernel `census`.
    census: Buffer,
    /// The stencil, for computations on the host.
    stencil: RwLock<Diffusion>,
    /// Whether everything that depends on the coefficients matches those sent last; false after an error.
    is_measured: AtomicBool,
}

impl<T: Real> Passes<T> {
    /// Returns the first arguments of passes along y.
    fn pass_arguments(&self) -> Result<Arguments> {
        Ok(Arguments::new().with(self.operands).with(self.length()? as i32))
    }

    /// Returns the rows per warp of passes along y, which depend on how many blocks the GPU holds.
    fn length(&self) -> Result<usize> {
        let length = get_or_make(&self.length, || {
            let kernel = self.passes.kernel("advance_direction")?;
            let resident = self.passes.resident_blocks(&kernel, 32 * ROWS, 0)?;
            Ok(rows_a_warp(self.layout.shape(), resident))
        });
        length.copied()
    }

    /// Returns the launch grid of passes along y; see stream.cuh.
    fn pass_grid(&self) -> Result<[usize; 3]> {
        self.length().map(|length| self.pass_grid_of(length))
    }

    fn pass_grid_of(&self, length: usize) -> [usize; 3] {
        let Shape { ny, nz, .. } = self.layout.shape();
        let (x, segments) = (self.pairs().div_ceil(32), ny.div_ceil(length));
        if nz == 1 { [x, 1, segments.div_ceil(ROWS)] } else { [x, nz.div_ceil(ROWS), segments] }
    }

    pub(super) fn pass(&self, name: &'static str, vectors: &[Pointer]) -> Result<()> {
        self.submit_pass(name, with_all(self.pass_arguments()?, vectors))
    }

    /// Updates everything that depends on the coefficients after they were written by other kernels.
    pub(crate) fn note_sent(&self, stencil: &Diffusion) -> Result<()> {
        *write(&self.stencil) = stencil.clone();
        self.measure_again()
    }

    /// Updates everything that depends on the coefficients.
    pub(super) fn measure_again(&self) -> Result<()> {
        if let Some(looks) = self.looks.get() {
            self.look(looks)?;
        }
        self.inverse_pivots.get().map_or(Ok(()), |pivots| self.factorise_columns(pivots.pointer()))
    }

    /// Makes an operator without coefficients and without kernels of lines, for coarser levels of points.
    pub(crate) fn without_lines(cuda: &Cuda, form: &Diffusion) -> Result<Self> {
        Self::make(cuda, form, Slab::whole(form.shape()))
    }

    /// Allocates the coefficients of some rows.
    pub(crate) fn make(cuda: &Cuda, stencil: &Diffusion, slab: Slab) -> Result<Self> {
        let context = cuda.context();
        let whole = stencil.shape();
        let kind = Kind::of(stencil);
        let layout = slab.layout(whole, kind.periodic() >> Axis::Y as u32 & 1 != 0)?;
        let shape = layout.shape();
        check_size(shape)?;
        let form = Form::new(kind, shape);
        let (coefficients, operands) = form.kind.allocate::<T>(cuda, &layout, whole.ny)?;
        // The first ones are compared with it, and padding is closed where kernels write to cells only.
        coefficients.clear(0, coefficients.bytes())?;
        let [passes, lines] = [form.passes::<T>(), form.lines::<T>(shape.nz)].map(|source| cuda.module(source));
        passes.prepare(&["residual_norm"], 0)?;
        passes.expect(&["census", "residual", "apply"]);
        if T::PRECISION == Precision::F64 {
            passes.expect(&["clear_inactive", "mark_cells"]);
        }
        cuda.expect(form.look::<T>(), LOOK);
        let mut this = Self {
            cuda: cuda.clone(),
            layout,
            whole,
            form,
            coefficient_vectors: stencil.coefficient_vectors(),
            coefficients,
            operands,
            passes,
            lines,
            triangular: cuda.module(form.triangular::<T>()),
            whole_grid: WholeGrid::new::<T>(cuda, &form, shape),
            tile: LineTile::new::<T>(shape.nz),
            sweeps: SweepTile::new::<T>(shape.nz).zip(form.sweeps::<T>(shape.nz).map(|source| cuda.module(source))),
            inverse_pivots: OnceLock::new(),
            ratios: OnceLock::new(),
            length: OnceLock::new(),
            reduction: Reduction::new(context, 0)?,
            cycles: Cycles::default(),
            colours: OnceLock::new(),
            looks: OnceLock::new(),
            handed: Mutex::new(None),
            census: Buffer::new(context, 2 * size_of::<f64>(), "counts")?,
            is_measured: AtomicBool::new(false),
            stencil: RwLock::new(stencil.clone()),
        };
        let blocks = |grid: [usize; 3]| grid.into_iter().product::<usize>();
        let most = blocks(this.pass_grid_of(fewest_rows(shape)));
        this.reduction = Reduction::new(context, most.max(blocks(this.line_grid(2))))?;
        Ok(this)
    }

    /// Returns the compile-time properties of the stencil.
    pub(crate) fn kind(&self) -> &Kind {
        &self.form.kind
    }

    /// Returns the addresses of the coefficients.
    pub(crate) fn operands(&self) -> &Operands {
        &self.operands
    }

    /// Computes r = f − A u.
    pub(crate) fn residual_field(&self, f: &Vector<T>, u: &Vector<T>, r: &mut Vector<T>) -> Result<()> {
        self.pass("residual_field", &[f.pointer(), u.pointer(), r.pointer()])
    }

    /// Launches a pass with sums.
    pub(super) fn pass_with_sums(&self, name: &'static str, vectors: &[Pointer], sums: Pointer) -> Result<()> {
        self.pass_with_ratios(name, &[], vectors, sums, None)
    }

    /// Launches a pass with sums and numbers in the precision of the vectors.
    pub(super) fn pass_with_numbers(
        &self,
        name: &'static str,
        numbers: &[f64],
        vectors: &[Pointer],
        sums: Pointer,
    ) -> Result<()> {
        let arguments = numbers.iter().fold(self.pass_arguments()?, |all, &number| all.with_real::<T>(number));
        let arguments = with_all(arguments, vectors);
        let blocks = self.pass_grid()?.into_iter().product();
        self.submit_pass(name, self.reduction.append(arguments, blocks, sums))
    }

    /// Loads the kernel of a pass.
    pub(super) fn prepare_pass(&self, name: &'static str) -> Result<()> {
        self.passes.prepare(&[name], 0)
    }

    /// Launches a pass with coefficients computed from scalars.
    fn pass_with_ratios(
        &self,
        name: &'static str,
        ratios: &[Ratio],
        vectors: &[Pointer],
        sums: Pointer,
        scalars: Option<&Scalars>,
    ) -> Result<()> {
        let arguments = ratios.iter().zip(scalars.into_iter().cycle());
        let arguments = arguments.fold(self.pass_arguments()?, |all, (&ratio, scalars)| all.with(scalars.ratio(ratio)));
        let arguments = with_all(arguments, vectors);
        let blocks = self.pass_grid()?.into_iter().product();
        self.submit_pass(name, self.reduction.append(arguments, blocks, sums))
    }

    fn submit_pass(&self, name: &'static str, arguments: Arguments) -> Result<()> {
        self.cuda.launch(self.passes.kernel(name)?, self.pass_grid()?, [32, ROWS], arguments)
    }

    fn line_grid(&self, colours: usize) -> [usize; 3] {
        self.tile.grid(self.pairs(), self.layout.shape().ny, colours)
    }

    /// Launches a kernel with a thread per column or per some of its layers.
    fn columns(&self, name: &'static str, colours: usize, arguments: Arguments) -> Result<()> {
        self.cuda.launch(self.lines.kernel(name)?, self.line_grid(colours), self.tile.block(), arguments)
    }

    /// Relaxes the columns of one colour, or of both, from `u` (zero if `None`) to `to`; `y` is a temporary vector.
    fn relax(
        &self,
        rho: f64,
        colour: Option<Colour>,
        f: &Vector<T>,
        u: Option<Pointer>,
        to: Pointer,
        y: Pointer,
    ) -> Result<()> {
        let (first, colours) = colour.map_or((0, 2), |colour| (colour as i32, 1));
        if let Some((tile, module)) = &self.sweeps {
            let arguments = Arguments::new().with(self.operands).with(first).with_real::<T>(rho);
            let arguments = arguments.with(self.inverse_pivots()?).with(f.pointer());
            let (name, arguments) = match u {
                Some(u) => ("sweep_lines", arguments.with(u)),
                None => ("sweep_lines_zero", arguments),
            };
            let grid = tile.grid(self.pairs(), self.layout.shape().ny, colours);
            return self.cuda.launch(module.kernel(name)?, grid, tile.block(), arguments.with(to));
        }
        let arguments = Arguments::new().with(self.operands).with(first).with_real::<T>(rho).with(f.pointer());
        let (name, arguments) = match u {
            Some(u) => ("relax_lines", arguments.with(u)),
            None => ("relax_lines_zero", arguments),
        };
        self.columns(name, colours, arguments.with(to).with(y).with(self.ratios()?))
    }

    /// Computes the stored pivots of columns from the current coefficients.
    fn factorise_columns(&self, to: Pointer) -> Result<()> {
        self.columns("factorise_lines", 2, Arguments::new().with(self.operands).with(to))
    }

    /// Returns the address of the stored pivots.
    fn inverse_pivots(&self) -> Result<Pointer> {
        if let Some(pivots) = self.inverse_pivots.get() {
            return Ok(pivots.pointer());
        }
        let made = Vector::zeros(self.cuda.context(), &self.layout)?;
        let pointer = self.inverse_pivots.get_or_init(|| made).pointer();
        self.factorise_columns(pointer)?;
        Ok(pointer)
    }

    /// Computes r = f − A u in the columns of one colour by a kernel of sweeps.cu, if there is one; returns whether it did.
    pub(crate) fn residual_of_colour(
        &self,
        colour: Colour,
        left: Residual,
        f: &Vector<T>,
        u: &Vector<T>,
        r: &mut Vector<T>,
    ) -> Result<bool> {
        /// Rows per thread, and threads per block, as in the kernels.
        const MARCH: usize = 8;
        let Some((_, module)) = &self.sweeps else { return Ok(false) };
        let arguments = Arguments::new().with(self.operands).with(colour as i32);
        let (name, vectors) = match left {
            Residual::Any => return Ok(false),
            Residual::Red => ("residual_of_colour", &[f.pointer(), u.pointer(), r.pointer()][..]),
            Residual::Coupled => ("residual_coupled", &[u.pointer(), r.pointer()][..]),
        };
        let Shape { ny, nz, .. } = self.layout.shape();
        let grid = [self.pairs().div_ceil(32), nz.div_ceil(8), ny.div_ceil(MARCH)];
        self.cuda.launch(module.kernel(name)?, grid, [32, 8], with_all(arguments, vectors))?;
        Ok(true)
    }

    /// Launches a recurrence in blocks of unknowns; see triangular.cu.
    pub(super) fn in_blocks(
        &self,
        name: &'static str,
        block: usize,
        more: impl FnOnce(Arguments) -> Arguments,
    ) -> Result<()> {
        /// The number in the kernels' launch bounds.
        const MOST_THREADS: usize = 512;
        let (nx, cells) = (self.whole.nx, self.whole.cells());
        let block = block.clamp(1, cells);
        let blocks = cells.div_ceil(block);
        // One row per thread; a block may begin and end within a row.
        let rows = if block.is_multiple_of(nx) { block / nx } else { (block - 1) / nx + 2 };
        let threads = rows.min(MOST_THREADS).next_multiple_of(32);
        let arguments = Arguments::new().with(self.operands).with(cells as i64).with(block as i64).with(blocks as i64);
        let kernel = self.triangular.kernel(name)?;
        self.cuda.launch(kernel, [blocks.min(1 << 30), 1, 1], [threads, 1], more(arguments))
    }

    /// Sweeps over the whole grid in the order of unknowns; see [`WholeGrid::sweep`].
    pub(super) fn sweep_whole(
        &self,
        sweep: Sweep,
        name: &'static str,
        more: impl FnOnce(Arguments) -> Arguments,
        sums: Option<Pointer>,
    ) -> Result<()> {
        self.whole_grid.sweep(&self.cuda, sweep, name, Arguments::new().with(self.operands), more, sums)
    }

    /// Returns whether one block contains the whole grid.
    pub(super) fn is_whole(&self, block: usize) -> bool {
        block >= self.whole.cells()
    }

    /// Adds the couplings of an end row to its halo row; see triangular.cu.
    pub(super) fn add_beside(&self, name: &'static str, vectors: &[Pointer]) -> Result<()> {
        let Shape { nx, nz, .. } = self.layout.shape();
        let arguments = with_all(Arguments::new().with(self.operands), vectors);
        let grid = [nx.div_ceil(32), nz.div_ceil(8), 1];
        self.cuda.launch(self.triangular.kernel(name)?, grid, [32, 8], arguments)
    }

    /// Returns the address of stored ratios, null if they are not needed.
    fn ratios(&self) -> Result<Pointer> {
        if !self.tile.needs_ratios(self.layout.shape().nz) {
            return Ok(0);
        }
        let ratios = get_or_make(&self.ratios, || Vector::zeros(self.cuda.context(), &self.layout))?;
        Ok(ratios.pointer())
    }

    /// Returns whether there is only one layer, so that lines are cells.
    fn is_flat(&self) -> bool {
        self.layout.shape().nz == 1
    }

    fn pairs(&self) -> usize {
        self.layout.shape().nx.div_ceil(2)
    }

    /// Returns the stencil, which is replaced as a whole, so that a panic elsewhere cannot leave it inconsistent.
    pub(crate) fn stencil(&self) -> RwLockReadGuard<'_, Diffusion> {
        read(&self.stencil)
    }

    /// Counts the closed faces between cells, and the cells with a shift.
    pub(super) fn census(&self) -> Result<[f64; 2]> {
        self.pass_with_sums("census", &[], self.census.start())?;
        let mut counts = [0f64; 2];
        self.census.read(&mut counts)?;
        Ok(counts)
    }

    /// Returns the marks of all cells, see [`stencil::Diffusion::components_by_marks`], but not on a subdomain.
    pub(super) fn marks(&self) -> Result<Option<Vec<u8>>> {
        if self.layout.is_part() {
            return Ok(None);
        }
        let mut marks = vec![0; self.layout.shape().cells()];
        prefer_large_pages(&marks);
        self.cuda.fetch(&mut marks, |to| self.pass("mark_cells", &[to]))?;
        Ok(Some(marks))
    }
}

/// Appends pointers.
fn with_all(arguments: Arguments, pointers: &[Pointer]) -> Arguments {
    pointers.iter().fold(arguments, |arguments, &pointer| arguments.with(pointer))
}

/// Returns the fewest rows of a warp, if there are as many: each has an extra row before the first, but small grids need many warps.
fn fewest_rows(shape: Shape) -> usize {
    if shape.nz == 1 { 1 } else { shape.ny.min(2) }
}

/// Chooses the number of rows per warp such that the GPU's resident blocks are filled two or four times without remainder.
fn rows_a_warp(shape: Shape, resident_blocks: usize) -> usize {
    let strips = shape.nx.div_ceil(64);
    // Measured: docs/notes/cuda-kernels.md.
    let waves = if shape.nz == 1 { 2 } else { 4 };
    let blocks = waves * resident_blocks;
    let segments = if shape.nz == 1 { blocks / strips * ROWS } else { blocks / (strips * shape.nz.div_ceil(ROWS)) };
    shape.ny.div_ceil(segments.max(1)).max(fewest_rows(shape))
}
