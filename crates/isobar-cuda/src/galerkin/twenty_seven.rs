//! A 27-point matrix on a GPU.

use std::marker::PhantomData;
use std::sync::Arc;

use isobar_core::prelude::{
    Axis, Backend, Colour, Error, Guess, Layout, LineSmoother, Operator, Real, Relaxation, Result, Shape, Slab,
    Smoother,
};
use isobar_core::stencil::galerkin::couplings::{COLOURS, Grid, UPPER};

use super::interpolation::Weights;
use super::setup::Matrix;
use super::small::{Small, turn};
use super::sources::{apply_source, bits, cell_block, columns_source, sources};
use crate::launch::refuse_while_recording;
use crate::vector::check_size;
use crate::{Arguments, Buffer, Cuda, Launch, Module, Pointer, Reduction, Sum, Sweep, Vector, argument};

/// Alignment of vectors in bytes.
const LINE: usize = 256;
/// Offset between two vectors in bytes.
const APART: usize = 17 * LINE;

argument! {
    /// `Matrix` of twenty_seven.cuh.
    pub(super) struct Operands {
        couplings: [Pointer; UPPER],
        sums: Pointer,
        inverse: Pointer,
        ratio: Pointer,
        nx: i32,
        ny: i32,
        nz: i32,
        pitch: i32,
        present: u32,
        periodic: u32,
        rows: [i32; 2],
    }
}

/// Division of columns among threads, see `relax` of lines.cu.
#[derive(Clone, Copy, Debug)]
struct Chunks {
    /// Columns per block.
    lanes: usize,
    count: usize,
    length: usize,
    shared_bytes: usize,
}

argument! {
    /// `Columns` of lines.cu.
    struct Columns {
        p: i32,
        q: i32,
        length: i32,
        from_zero: i32,
    }
}

/// Kernels that relax columns of one colour, by the number of colours relaxed before it.
const RELAX_AFTER: [&str; 4] = ["relax_alone", "relax_beside", "relax_between_planes", "relax_columns"];

impl Chunks {
    /// Returns `None` if columns of one colour are coupled across the end of a periodic direction of odd length, or too long.
    fn new<T: Real>(layout: &Layout, periodic: [bool; 3], limits: (usize, usize)) -> Option<Self> {
        /// The number in the kernels' launch bounds.
        const MOST_THREADS: usize = 512;
        let (multiprocessors, shared_memory) = limits;
        let Shape { nx, ny, nz } = layout.shape();
        let is_odd_ring = |d: usize, n: usize| periodic[d] && n % 2 == 1;
        let columns = nx.div_ceil(2);
        // Wide blocks read longer pieces; narrow ones make more blocks for small grids.
        let blocks = |lanes: usize| columns.div_ceil(lanes) * ny.div_ceil(2);
        let lanes = [32, 16].into_iter().find(|&lanes| 2 * blocks(lanes) >= 3 * multiprocessors).unwrap_or(8);
        let length = nz.div_ceil((MOST_THREADS / lanes).min(32));
        let count = nz.div_ceil(length);
        let shared_bytes = lanes * (nz + 4 * count) * size_of::<T>();
        let is_possible = !is_odd_ring(0, nx) && !is_odd_ring(1, ny) && shared_bytes <= shared_memory;
        is_possible.then_some(Self { lanes, count, length, shared_bytes })
    }
}

/// Couplings and row sums of a level, or of some of its rows, in one precision, and the pivots of columns.
#[derive(Debug)]
pub struct TwentySeven<T> {
    cuda: Cuda,
    layout: Layout,
    /// The shape of the whole level.
    whole: Shape,
    present: [bool; UPPER],
    /// Couplings, row sums, pivots and related vectors.
    coefficients: Buffer,
    vectors: usize,
    operands: Operands,
    /// The division of columns among threads, if columns are relaxed by one kernel.
    chunks: Option<Chunks>,
    apply: Arc<Module>,
    lines: Arc<Module>,
    /// Kernels that relax columns.
    columns: Arc<Module>,
    /// Fused steps, if the level does not fill the GPU.
    small: Option<Small>,
    reduction: Reduction,
    precision: PhantomData<T>,
}

impl<T: Real> TwentySeven<T> {
    /// Makes the operator on some rows of a matrix, the first of which is even.
    pub(super) fn new(cuda: &Cuda, matrix: &Matrix, slab: Slab) -> Result<Self> {
        refuse_while_recording("making an operator")?;
        let Grid { shape: whole, periodic } = matrix.whole_grid();
        let layout = slab.layout(whole, periodic[1])?;
        let (shape @ Shape { nx, ny, nz }, periodic) = (layout.shape(), layout.periodic_within(periodic));
        check_size(shape)?;
        let [_, lines, ..] = sources::<T>();
        let blocks: usize = Self::cell_grid(&layout).into_iter().product();
        let limits = (cuda.context().multiprocessors, cuda.context().shared_memory);
        let [apply, lines] = [apply_source::<T>(blocks <= 2 * limits.0), lines].map(|source| cuda.module(source));
        apply.prepare(&["residual_field", "residual_later"], 0)?;
        let chunks = Chunks::new::<T>(&layout, periodic, limits);
        lines.prepare(&["begin_factorise", "factorise"], 0)?;
        let is_small = chunks.is_some_and(|chunks| chunks.lanes * chunks.count <= 256);
        let columns = cuda.module(columns_source::<T>(if is_small { 256 } else { 512 }));
        match &chunks {
            Some(chunks) => columns.prepare(&RELAX_AFTER, chunks.shared_bytes)?,
            None => lines.prepare(&["gather", "solve_columns"], 0)?,
        }
        let present = matrix.present;
        let small = match &chunks {
            Some(chunks) if chunks.length == 1 => Small::new::<T>(cuda, &layout, periodic)?,
            _ => None,
        };
        let vectors = present.iter().filter(|present| **present).count() + 3;
        // A gap separates vectors: fields of 2ⁿ bytes would all map to the same cache sets.
        let [before, after] = layout.halo();
        let row = 2 * layout.half_plane() * size_of::<T>();
        let bytes = ((before + ny) * row).next_multiple_of(LINE) + APART;
        // Padding stays zero.
        let coefficients = Buffer::zeros(cuda.context(), vectors * bytes, &format!("a matrix of {shape} cells"))?;
        let mut places = (0..vectors).map(|n| coefficients.start() + (n * bytes + before * row) as Pointer);
        let mut next = || places.next().unwrap_or_default();
        let couplings = present.map(|present| if present { next() } else { 0 });
        let operands = Operands {
            couplings,
            sums: next(),
            inverse: next(),
            ratio: next(),
            nx: nx as i32,
            ny: ny as i32,
            nz: nz as i32,
            pitch: layout.pitch() as i32,
            present: bits(present),
            periodic: bits(periodic),
            rows: [-(before as i32), (ny + after) as i32],
        };
        let reduction = Reduction::new(cuda.context(), blocks)?;
        let precision = PhantomData;
        let this = Self {
            cuda: cuda.clone(),
            layout,
            whole,
            present,
            coefficients,
            vectors,
            operands,
            chunks,
            apply,
            lines,
            columns,
            small,
            reduction,
            precision,
        };
        this.update(matrix)?;
        Ok(this)
    }

    /// Replaces the numbers by those of another matrix.
    pub(super) fn update(&self, matrix: &Matrix) -> Result<()> {
        refuse_while_recording("updating an operator")?;
        let Shape { ny, nz, .. } = self.layout.shape();
        let has_same = matrix.whole_grid().shape == self.whole && matrix.present == self.present;
        Error::unless(
            has_same,
            "the new coefficients",
            || "a coarse level would have other couplings than before; make a new solver",
        )?;
        let Operands { couplings, sums, .. } = self.operands;
        let to: Vec<Pointer> = couplings.into_iter().filter(|&to| to != 0).chain([sums]).collect();
        matrix.store_in::<T>(&self.layout, &to)?;
        let (cells, block) = (Self::cell_grid(&self.layout), cell_block(nz));
        let arguments = Arguments::new().with(self.operands);
        self.cuda.launch(self.lines.kernel("begin_factorise")?, cells, block, arguments)?;
        let grid = [self.pairs().div_ceil(64), 2 * ny, 1];
        self.cuda.launch(self.lines.kernel("factorise")?, grid, [64, 1], Arguments::new().with(self.operands))?;
        self.small.as_ref().map_or(Ok(()), |small| small.update(self.operands))
    }

    fn pairs(&self) -> usize {
        self.layout.shape().nx.div_ceil(2)
    }

    fn cell_grid(layout: &Layout) -> [usize; 3] {
        let (Shape { nx, ny, nz }, [x, y]) = (layout.shape(), cell_block(layout.shape().nz));
        [nx.div_ceil(2).div_ceil(x), nz.div_ceil(y), 2 * ny]
    }

    fn pass(&self, name: &'static str, vectors: &[Pointer], sum: Option<Pointer>) -> Result<()> {
        let grid = Self::cell_grid(&self.layout);
        let arguments = vectors.iter().fold(Arguments::new().with(self.operands), |all, &vector| all.with(vector));
        let arguments = match sum {
            Some(sum) => self.reduction.append(arguments, grid.into_iter().product(), sum),
            None => arguments,
        };
        self.cuda.launch(self.apply.kernel(name)?, grid, cell_block(self.layout.shape().nz), arguments)
    }

    /// Computes r = f − A u after a sweep from zero, if there is a fast way; returns whether it did.
    pub(super) fn residual_after(&self, relaxation: Relaxation, u: &Vector<T>, r: &mut Vector<T>) -> Result<bool> {
        if !relaxation.overwrites() || self.chunks.is_none() || self.operands.periodic & 1 << Axis::Z as u32 != 0 {
            return Ok(false);
        }
        let (grid, block) = (Self::cell_grid(&self.layout), cell_block(self.layout.shape().nz));
        let arguments =
            Arguments::new().with(self.operands).with(turn(relaxation.first)).with(u.pointer()).with(r.pointer());
        self.cuda.launch(self.apply.kernel("residual_later")?, grid, block, arguments)?;
        Ok(true)
    }

    /// Computes r = f − A u.
    pub(super) fn residual_field(&self, f: &Vector<T>, u: &Vector<T>, r: &mut Vector<T>) -> Result<()> {
        let vectors = [f.pointer(), u.pointer(), r.pointer()];
        match &self.small {
            Some(small) => small.residual(self.operands, vectors),
            None => self.pass("residual_field", &vectors, None),
        }
    }

    /// Computes f_c = R (f − A u) for [f, u, f_c], if there is a fused step; returns whether it did. `from_zero` is the first colour of a
    /// sweep from zero that u comes from.
    pub(super) fn restrict_residual(
        &self,
        weights: Weights,
        from_zero: Option<Colour>,
        vectors: [&Vector<T>; 3],
    ) -> Result<bool> {
        let Some(small) = &self.small else { return Ok(false) };
        small.restrict((self.operands, weights), from_zero, vectors.map(Vector::pointer))?;
        Ok(true)
    }
}

impl<T: Real> TwentySeven<T> {
    /// Returns the columns and rows of one of four colours and its numbers (p, q); `None` if the level has none.
    fn of_colour(&self, colour: usize) -> Option<([usize; 2], [usize; 2])> {
        let (Shape { nx, ny, .. }, [p, q]) = (self.layout.shape(), [colour % 2, colour / 2]);
        let counts = [(nx + 1 - p) / 2, (ny + 1 - q) / 2];
        (!counts.contains(&0)).then_some((counts, [p, q]))
    }

    /// Relaxes u += ρ(M⁻¹(f − (A − M) u) − u) in columns of one colour.
    fn relax(
        &self,
        kernel: &'static str,
        (colour, Chunks { lanes, count, length, shared_bytes }): (usize, Chunks),
        (rho, from_zero): (f64, bool),
        f: &Vector<T>,
        u: &Vector<T>,
    ) -> Result<()> {
        let Some(([columns, planes], [p, q])) = self.of_colour(colour) else { return Ok(()) };
        let kernel = self.columns.kernel_with(kernel, shared_bytes)?;
        let columns_of = Columns { p: p as i32, q: q as i32, length: length as i32, from_zero: i32::from(from_zero) };
        let arguments = Arguments::new().with(self.operands).with(columns_of);
        let arguments = arguments.with_real::<T>(rho).with(f.pointer()).with(u.pointer());
        let grid = [columns.div_ceil(lanes) as u32, planes as u32, 1];
        let (block, shared_bytes) = ([lanes as u32, count as u32], shared_bytes as u32);
        self.cuda.submit(Launch { kernel, grid, block, shared_bytes, arguments })
    }

    /// Computes y = f − (A − M) u in columns of one colour.
    fn gather(&self, colour: usize, f: &Vector<T>, u: &Vector<T>, y: &Vector<T>) -> Result<()> {
        let Some(([columns, planes], [p, q])) = self.of_colour(colour) else { return Ok(()) };
        let (nz, [across, up]) = (self.layout.shape().nz, cell_block(self.layout.shape().nz));
        let arguments = Arguments::new().with(self.operands).with(p as i32).with(q as i32);
        let arguments = arguments.with(f.pointer()).with(u.pointer()).with(y.pointer());
        let grid = [columns.div_ceil(across), nz.div_ceil(up), planes];
        self.cuda.launch(self.lines.kernel("gather")?, grid, [across, up], arguments)
    }

    /// Relaxes u += ρ(M⁻¹ y − u) in columns of one colour; y is overwritten.
    fn solve_columns(&self, colour: usize, rho: f64, y: &Vector<T>, u: &Vector<T>) -> Result<()> {
        let Some(([columns, planes], [p, q])) = self.of_colour(colour) else { return Ok(()) };
        let arguments = Arguments::new().with(self.operands).with(p as i32).with(q as i32);
        let arguments = arguments.with_real::<T>(rho).with(y.pointer()).with(u.pointer());
        let grid = [columns.div_ceil(32), planes, 1];
        self.cuda.launch(self.lines.kernel("solve_columns")?, grid, [32, 1], arguments)
    }
}

impl<T: Real> Operator<Cuda, T> for TwentySeven<T> {
    fn backend(&self) -> &Cuda {
        &self.cuda
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn apply(&self, x: &mut Vector<T>, y: &mut Vector<T>) -> Result<()> {
        self.cuda.fill(x, &Colour::BOTH)?;
        self.pass("apply", &[x.pointer(), y.pointer()], None)
    }

    fn residual(&self, f: &Vector<T>, [u, r]: [&mut Vector<T>; 2], (norm, scalars): Sum<'_>) -> Result<()> {
        self.cuda.fill(u, &Colour::BOTH)?;
        self.pass("residual", &[f.pointer(), u.pointer(), r.pointer()], Some(scalars.pointer(norm)))?;
        self.cuda.sum(&self.layout, &[norm], scalars)
    }

    fn residual_alone(&self, f: &Vector<T>, [u, r]: [&mut Vector<T>; 2], _: Sum<'_>) -> Result<()> {
        self.cuda.fill(u, &Colour::BOTH)?;
        self.residual_field(f, u, r)
    }

    fn residual_norm(&self, f: &Vector<T>, [u, _]: [&mut Vector<T>; 2], (norm, scalars): Sum<'_>) -> Result<()> {
        self.cuda.fill(u, &Colour::BOTH)?;
        self.pass("residual_norm", &[f.pointer(), u.pointer()], Some(scalars.pointer(norm)))?;
        self.cuda.sum(&self.layout, &[norm], scalars)
    }

    fn norm_needs_scratch(&self) -> bool {
        false
    }

    fn coefficient_vectors(&self) -> f64 {
        (self.vectors - 1) as f64
    }

    fn coefficient_bytes(&self) -> usize {
        self.coefficients.bytes() + self.small.as_ref().map_or(0, Small::bytes)
    }
}

impl<T: Real> LineSmoother<Cuda, T> for TwentySeven<T> {
    fn smooth(&self, sweep: Sweep<'_, T>) -> Result<()> {
        let Sweep { relaxation, guess, f, u, scratch } = sweep;
        let is_jacobi = relaxation.smoother == Smoother::LineJacobi;
        match guess {
            Guess::Given => self.cuda.fill(u, &Colour::BOTH)?,
            Guess::Zero if self.chunks.is_none() || is_jacobi => self.cuda.clear(u)?,
            Guess::Zero => {}
        }
        let colour = |n: usize| if relaxation.first == Colour::Red { n } else { 3 - n };
        if let (Some(small), true) = (&self.small, relaxation.overwrites()) {
            if guess == Guess::Zero {
                return small.sweep(self.operands, relaxation.first, [0, f.pointer(), u.pointer()]);
            }
            small.sweep(self.operands, relaxation.first, [&*u, f, &*scratch].map(Vector::pointer))?;
            u.swap(scratch);
            return Ok(());
        }
        if is_jacobi {
            (0..4).try_for_each(|n| self.gather(n, f, u, scratch))?;
            return (0..4).try_for_each(|n| self.solve_columns(n, relaxation.rho, scratch, u));
        }
        for (n, relax) in RELAX_AFTER.into_iter().enumerate() {
            if n == 2 {
                self.cuda.fill(u, &Colour::BOTH)?;
            }
            let Some(chunks) = self.chunks else {
                self.gather(colour(n), f, u, scratch)?;
                self.solve_columns(colour(n), relaxation.rho, scratch, u)?;
                continue;
            };
            let from_zero = guess == Guess::Zero;
            let kernel = if from_zero { relax } else { RELAX_AFTER[3] };
            self.relax(kernel, (colour(n), chunks), (relaxation.rho, from_zero), f, u)?;
        }
        Ok(())
    }

    fn colours(&self) -> usize {
        COLOURS
    }

    /// Returns both colours, because rows of one parity read those of the other in the neighbouring subdomains.
    fn stale_after(&self, _: Relaxation) -> &'static [Colour] {
        &Colour::BOTH
    }
}
