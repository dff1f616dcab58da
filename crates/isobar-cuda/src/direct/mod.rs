//! Direct solves of separable matrices: products with eigenvectors ([`axis`]), tridiagonal systems, which ranks may divide (`divided`), and norms of
//! residuals.

pub mod axis;
pub mod divided;

use std::sync::{Arc, Mutex};

use isobar_core::backend::{DirectSolver, Judged};
use isobar_core::prelude::{
    Backend, Basis, DeviceArray, Layout, Precision, Result, Scalar, Separable, SharedDirect, Source, Target,
};

use self::axis::Axis;
use self::divided::{Divided, Lines};
use crate::array::c_order;
use crate::launch::refuse_while_recording;
use crate::{Arguments, Buffer, Cuda, Launch, Module, Pointer, Scalars, Vector, compile, kernels};

/// Cells of a line's segment in registers, as in direct.cu: those eliminated, and the last.
const MOST_IN_SEGMENT: usize = 16 + 1;
/// Threads per block that solve lines.
const MOST_THREADS: usize = 512;
/// Threads per block that sum, and of the block that sums over all lines.
const SUMMING: usize = 256;
const SUMMING_LINES: usize = 1024;

/// The mean of b for a singular matrix; ‖b − A u‖² and ‖b‖², both without the mean of b.
const MEAN_OF_RHS: Scalar = Scalar::new(0);
const NORMS: Scalar = Scalar::new(2);

/// Returns the source of the kernels.
pub fn source() -> compile::Source {
    compile::Source::new("direct", kernels::DIRECT)
}

/// A separable matrix on a GPU.
struct Direct {
    backend: Cuda,
    module: Arc<Module>,
    layout: Layout,
    factors: Separable,
    bases: [Basis; 2],
    axes: [Axis; 2],
    /// The diagonals T, D_a and D_b.
    lines: Buffer,
    /// The couplings, shifts and weights of each axis, for residuals.
    tables: Buffer,
    scalars: Scalars,
    /// Pivots of lines whose segments do not fit into registers.
    kept: Option<Buffer>,
    /// The weight of each line in the sum over all cells, for a singular matrix with cells of different weights.
    totals: Option<Buffer>,
    /// Arrays in C order.
    work: [Buffer; 2],
    /// The ends of lines that ranks divide.
    divided: Option<Divided>,
}

/// Returns whether both transformed axes have fast transforms, or products that are worth while.
pub(crate) fn pays(backend: &Cuda, factors: &Separable) -> bool {
    factors.factors.iter().all(|factor| axis::pays(backend, factor))
}

/// Makes the solver of a separable matrix; on ranks, where its lines lie along y, which they divide.
pub(crate) fn direct(backend: &Cuda, layout: &Layout, factors: &Separable) -> Result<Option<SharedDirect<Cuda>>> {
    if backend.ranks.is_some() && factors.line != isobar_core::stencil::Axis::Y as usize {
        return Ok(None);
    }
    Ok(Some(Arc::new(Mutex::new(Direct::new(backend, layout, factors)?))))
}

/// The division of lines: threads per line, a power of two, and lines per block.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Segments {
    count: usize,
    width: usize,
    in_registers: bool,
}

impl Segments {
    /// Chooses the segments of lines of n cells. It is fastest to have about as many segments as cells per segment.
    fn of(n: usize) -> Self {
        let fits = |count: usize| 2 * count <= n && 2 * count <= MOST_THREADS;
        let mut count = 1;
        while fits(count) && (n.div_ceil(count) > MOST_IN_SEGMENT || count * count < n.min(256)) {
            count *= 2;
        }
        // Adjacent lines fill a cache line, and a block has a few warps.
        let mut width = 16;
        while width > 1 && width * count > MOST_THREADS {
            width /= 2;
        }
        while width < 128 && 2 * width * count <= 256 {
            width *= 2;
        }
        Self { count, width, in_registers: n.div_ceil(count) <= MOST_IN_SEGMENT }
    }

    fn kernel(self) -> &'static str {
        if self.in_registers { "solve_lines" } else { "solve_long_lines" }
    }

    fn threads(self) -> usize {
        self.count * self.width
    }

    /// Returns the shared memory: four numbers per thread.
    fn bytes(self) -> usize {
        4 * self.threads() * size_of::<f64>()
    }
}

/// Returns σ, t, D_a and D_b, one after another, the smallest pivot, and the shift of the last cell of the constant's line, 0 if singular.
fn table(factors: &Separable) -> Vec<f64> {
    let lines = &factors.lines;
    let all = [&lines.shift, &lines.couplings, &lines.weights[0], &lines.weights[1]].into_iter().flatten().copied();
    let coupling = if lines.len() > 1 { lines.couplings[lines.len() - 2] } else { 1.0 };
    let tie = if factors.is_singular() { coupling } else { 0.0 };
    all.chain([lines.least_pivot, tie]).collect()
}

/// Returns couplings, shifts and weights along the other two axes, for x, y and z.
fn tables(factors: &Separable) -> Vec<f64> {
    factors.terms().into_iter().flatten().flatten().copied().collect()
}

impl Direct {
    fn new(backend: &Cuda, layout: &Layout, factors: &Separable) -> Result<Self> {
        refuse_while_recording("allocating")?;
        let context = backend.context();
        let bases = factors.bases()?;
        let (factors, divided) = match &backend.ranks {
            None => (factors.clone(), None),
            Some(ranks) => {
                let (own, piece) = factors.rows(backend.own_rows(factors.shape)?);
                (own, Some(Divided::new(backend, ranks, factors, piece)?))
            }
        };
        let factors = &factors;
        let module = backend.module(source());
        let room = |count: usize, what: &str| Buffer::new(context, count * size_of::<f64>(), what);
        let [a, b] = [0, 1].map(|which| Axis::new(backend, &module, factors, which, &bases[which]));
        let axes = [a?, b?];
        let (cells, n) = (factors.shape.cells(), factors.extent(factors.line));
        let segments = Segments::of(factors.lines.len());
        let this = Self {
            lines: Buffer::from_slice(context, &table(factors), "tridiagonal systems")?,
            tables: Buffer::from_slice(context, &tables(factors), "factors of a separable matrix")?,
            scalars: backend.scalars()?,
            kept: (!segments.in_registers).then(|| room(cells, "pivots")).transpose()?,
            totals: factors.has_uneven_sums().then(|| room(cells / n, "sums of lines")).transpose()?,
            work: [room(cells, "the box in its own order")?, room(cells, "the box in its own order")?],
            backend: backend.clone(),
            module,
            layout: *layout,
            factors: factors.clone(),
            bases,
            axes,
            divided,
        };
        for kernel in [segments.kernel(), this.judging_kernel(), "sum_first_line", "center_first_line"] {
            this.module.kernel(kernel)?;
        }
        Ok(this)
    }

    /// Multiplies by the eigenvectors of an axis or their transpose, in ascending or descending order of lines.
    fn multiply(&self, (which, is_back): (usize, bool), is_descending: bool, arrays: [Pointer; 2]) -> Result<()> {
        self.axes[which].multiply(&self.backend, is_back, is_descending, arrays)
    }

    fn line_count(&self) -> usize {
        self.factors.shape.cells() / self.factors.extent(self.factors.line)
    }

    /// Solves the lines. With `is_floating`, the means of the right-hand side and of the solution are removed.
    fn solve_lines(&self, x: Pointer, is_floating: bool) -> Result<()> {
        let [a, b] = self.axes.each_ref().map(|axis| axis.of_constant.start());
        let totals = self.totals.as_ref().map_or(0, Buffer::start);
        // `Floating` of direct.cu.
        let floating = if is_floating { [self.scalars.pointer(MEAN_OF_RHS), a, b, totals] } else { [0; 4] };
        if is_floating {
            self.find_mean(x)?;
        }
        let Separable { line, across, lines, .. } = &self.factors;
        if lines.is_empty() {
            return Ok(());
        }
        let segments = Segments::of(lines.len());
        let arguments = Arguments::new()
            .with(lines.len() as i32)
            .with(self.factors.extent(*line) as i32)
            .with(self.factors.stride(*line) as i32)
            .with(self.line_count() as i32)
            .with(self.factors.extent(across[0]) as i32)
            .with(segments.width as i32)
            .with(self.lines.start())
            .with(self.axes[0].values.start())
            .with(self.axes[1].values.start())
            .with(self.kept.as_ref().map_or(0, Buffer::start))
            .with(x)
            .with(floating);
        self.backend.submit(Launch {
            kernel: self.module.kernel(segments.kernel())?,
            grid: [self.line_count().div_ceil(segments.width) as u32, 1, 1],
            block: [segments.threads() as u32, 1],
            shared_bytes: segments.bytes() as u32,
            arguments,
        })?;
        if is_floating && totals != 0 { self.center(x, totals) } else { Ok(()) }
    }

    /// Returns the leading arguments of kernels for the constant's line, which is the first.
    fn first_line(&self) -> Arguments {
        let lines = &self.factors;
        Arguments::new().with(lines.lines.len() as i32).with(lines.stride(lines.line) as i64)
    }

    /// Returns the product of the constant vectors' entries in both axes, times their cells.
    fn of_constant(&self) -> f64 {
        self.axes[0].first_of_constant * self.axes[1].first_of_constant
    }

    /// Computes the mean of an array from the modes of its lines.
    fn find_mean(&self, x: Pointer) -> Result<()> {
        let scale = 1.0 / (self.of_constant() * self.factors.lines.len() as f64);
        let arguments = self.first_line().with(scale).with(x).with(self.scalars.pointer(MEAN_OF_RHS));
        self.backend.launch(self.module.kernel("sum_first_line")?, [1, 1, 1], [SUMMING, 1], arguments)
    }

    /// Subtracts the mean from a solution.
    fn center(&self, x: Pointer, totals: Pointer) -> Result<()> {
        let scale = 1.0 / (self.of_constant() * self.factors.lines.len() as f64);
        let lines = self.line_count() as i32;
        let arguments = self.first_line().with(lines).with(scale).with(totals).with(x);
        self.backend.launch(self.module.kernel("center_first_line")?, [1, 1, 1], [SUMMING_LINES, 1], arguments)
    }

    /// Solves u = A⁻¹ b, both in C order.
    fn solve_c_order(&mut self, b: Pointer, u: Pointer, is_floating: bool) -> Result<()> {
        let [first, second] = self.work.each_ref().map(Buffer::start);
        // Each kernel begins with the lines that the previous one wrote last, which are still in the cache.
        self.multiply((0, false), false, [b, second])?;
        self.multiply((1, false), true, [second, first])?;
        if let Some(divided) = &mut self.divided {
            divided.meet(&Lines { cuda: &self.backend, factors: &self.factors, axes: &self.axes, x: first })?;
        }
        self.solve_lines(first, is_floating)?;
        self.multiply((1, true), false, [first, second])?;
        self.multiply((0, true), true, [second, u])
    }

    /// Returns the kernel of residuals; the one for pairs of cells needs rows aligned to two numbers.
    fn judging_kernel(&self) -> &'static str {
        if self.factors.shape.nx.is_multiple_of(2) { "judge_pairs" } else { "judge" }
    }

    fn judge(&self, b: Pointer, u: Pointer) -> Result<()> {
        let isobar_core::layout::Shape { nx, ny, nz } = self.factors.shape;
        // The number of blocks that run at once; adjacent tiles share two layers.
        let blocks = self.backend.summing_blocks().min(2 * self.backend.context().multiprocessors);
        let width = if self.judging_kernel() == "judge" { 1 } else { 2 };
        let columns = nx.div_ceil(width * SUMMING / 8) * ny.div_ceil(8);
        let layers = (nz * columns).div_ceil(blocks).clamp(4, 64);
        let mut at = self.tables.start();
        let mut place = |values: &[f64]| {
            let start = at;
            at += size_of_val(values) as Pointer;
            start
        };
        // `Tables` of direct.cu.
        let places = self.factors.terms().map(|axis| axis.map(&mut place));
        let mean = if self.factors.is_singular() { self.scalars.pointer(MEAN_OF_RHS) } else { 0 };
        let arguments =
            Arguments::new().with(nx as i32).with(ny as i32).with(nz as i32).with(layers as i32).with(places);
        let arguments = self.backend.summing(arguments.with(mean).with(b).with(u), self.scalars.pointer(NORMS));
        self.backend.launch(self.module.kernel(self.judging_kernel())?, [blocks, 1, 1], [SUMMING / 8, 8], arguments)
    }

    /// Solves, and computes the norms of the residual.
    fn solve_and_judge(&mut self, b: Pointer, u: Pointer) -> Result<()> {
        self.solve_c_order(b, u, self.factors.is_singular())?;
        self.judge(b, u)
    }

    /// Returns whether kernels can read an array in place.
    fn takes(&self, array: &DeviceArray) -> bool {
        let is_in_order = array.strides() == c_order(self.factors.shape) && array.shape() == self.factors.shape;
        is_in_order && array.precision() == Precision::F64 && array.device() == self.backend.ordinal()
    }
}

impl DirectSolver<Cuda> for Direct {
    fn solve(&mut self, b: &Vector<f64>, u: &mut Vector<f64>) -> Result<()> {
        let work = self.work[0].start();
        self.backend.take_c_order(&self.layout, self.factors.shape, [b.pointer(), work])?;
        self.solve_c_order(work, work, false)?;
        self.backend.place_c_order(&self.layout, self.factors.shape, [work, u.pointer()])
    }

    fn solve_in_place(&mut self, x: &mut Vector<f64>) -> Result<()> {
        let work = self.work[0].start();
        self.backend.take_c_order(&self.layout, self.factors.shape, [x.pointer(), work])?;
        self.solve_c_order(work, work, false)?;
        self.backend.place_c_order(&self.layout, self.factors.shape, [work, x.pointer()])
    }

    fn solve_arrays(&mut self, b: &Source<'_>, u: &mut Target<'_>) -> Result<Option<Judged>> {
        let (Source::Device(b), Target::Device(u), None) = (b, &*u, &self.divided) else { return Ok(None) };
        let cells = self.factors.shape.cells();
        let overlap = b.pointer().abs_diff(u.pointer()) < (cells * size_of::<f64>()) as u64;
        // Kernels write two numbers at once.
        if overlap || ![b, u].iter().all(|array| array.pointer().is_multiple_of(16)) || !self.takes(b) || !self.takes(u)
        {
            return Ok(None);
        }
        let backend = self.backend.clone();
        backend
            .with_device_arrays(&[b, u], &[], "a direct solve", || self.solve_and_judge(b.pointer(), u.pointer()))?;
        let bank = self.backend.read(&self.scalars)?;
        let of = |scalar: Scalar, n: usize| bank[scalar.index() + n];
        let square = of(NORMS, 1);
        let removed = self.factors.is_singular().then(|| {
            let of_mean = of(MEAN_OF_RHS, 0).powi(2) * cells as f64;
            (of_mean / (of_mean + square)).sqrt()
        });
        Ok(Some(Judged { rhs: square.sqrt(), residual: of(NORMS, 0).sqrt(), removed }))
    }

    fn update(&mut self, factors: &Separable) -> Result<()> {
        refuse_while_recording("new coefficients")?;
        let before = self.divided.as_ref().map_or(&self.factors, |divided| &divided.whole);
        if factors.has_transforms_of(before) {
            factors.check(self.bases.each_ref().map(Basis::values))?;
            let own = match &mut self.divided {
                None => factors.clone(),
                Some(divided) => {
                    let (own, piece) = factors.rows(self.backend.own_rows(factors.shape)?);
                    divided.change_lines(factors, piece)?;
                    own
                }
            };
            self.lines.write(&table(&own))?;
            self.tables.write(&tables(&own))?;
            self.factors = own;
            return Ok(());
        }
        *self = Self::new(&self.backend, &self.layout, factors)?;
        Ok(())
    }

    fn describe(&self) -> String {
        let whole = self.divided.as_ref().map_or(&self.factors, |divided| &divided.whole);
        whole.describe(&self.bases, |_| "products with its eigenvectors")
    }

    fn bytes(&self) -> usize {
        let Self { axes, lines, tables, kept, totals, work, .. } = self;
        let buffers = [lines, tables].into_iter().chain(kept).chain(totals).chain(work).map(Buffer::bytes);
        let ends = self.divided.as_ref().map_or(0, Divided::bytes);
        buffers.chain(axes.iter().map(Axis::bytes)).sum::<usize>() + ends
    }
}
