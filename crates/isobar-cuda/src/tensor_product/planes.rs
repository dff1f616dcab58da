//! Multigrid in few launches for operators without vertical couplings, such as those of vertical modes. The recurrences
//! are above the kernels in `planes.cu`.

use std::sync::Arc;

use isobar_core::error::Result;
use isobar_core::layout::{Colour, Layout, Shape};
use isobar_core::operator::{CoarsestSolver, Guess};
use isobar_core::options::{MultigridOptions, Smoother};
use isobar_core::real::Real;

use super::TensorProduct;
use super::launches::Coarse;
use super::tables::Operator;
use crate::compile::Source;
use crate::cuda::Cuda;
use crate::kernels::tensor_product as kernels;
use crate::launch::{Arguments, Launch, refuse_while_recording};
use crate::memory::Buffer;
use crate::module::Module;
use crate::seven_point::{Kernels, SevenPoint};
use crate::vector::{Vector, c_name};

/// `MX` of planes.cu.
const COLUMNS: usize = 32;
/// `TY` of planes.cu.
const ROWS: usize = 16;
/// `Around::THREADS` of a sweep with restriction, and of one with prolongation.
const THREADS: [usize; 2] = [800, 704];

/// `MOST_LAYERS` of planes.cu.
const MOST_LAYERS: usize = 64;

/// Returns the specialised source.
pub fn source<T: Real>(is_odd: bool) -> Source {
    Source::new("tensor_product_planes", kernels::PLANES).define("REAL", c_name::<T>()).define("ODD", u32::from(is_odd))
}

fn is_odd(shape: Shape) -> bool {
    !shape.nx.is_multiple_of(2) || !shape.ny.is_multiple_of(2)
}

/// The kernels for one grid.
#[derive(Debug)]
pub(super) struct Planes {
    module: Arc<Module>,
    grid: [usize; 3],
    /// Layers per block.
    layers: usize,
}

impl Planes {
    pub(super) fn new<T: Real>(cuda: &Cuda, layout: &Layout) -> Result<Self> {
        let Shape { ny, nz, .. } = layout.shape();
        let [x, y] = [layout.pitch().div_ceil(COLUMNS), ny.div_ceil(ROWS)];
        // A block fills a multiprocessor.
        let runs = (cuda.context().multiprocessors / (x * y)).clamp(1, nz);
        let layers = nz.div_ceil(runs).min(MOST_LAYERS);
        let module = cuda.module(source::<T>(is_odd(layout.shape())));
        Ok(Self { module, grid: [x, y, nz.div_ceil(layers)], layers })
    }

    pub(super) fn prepare(&self) -> Result<()> {
        self.module.prepare(&["sweep_restrict_zero", "sweep_restrict_given", "prolong_sweep"], 0)
    }
}

impl<T: Real> TensorProduct<T> {
    /// Does one sweep into `scratch`, which is swapped with u, and f_c = R (f − A u).
    pub(super) fn sweep_restrict_planes(
        &self,
        planes: &Planes,
        first: Colour,
        guess: Guess,
        [f, coarse_f]: [&Vector<T>; 2],
        u: &mut Vector<T>,
        scratch: &mut Vector<T>,
    ) -> Result<()> {
        let arguments = self.arguments().with(first as i32).with(planes.layers as i32).with(f.pointer());
        let (name, arguments) = match guess {
            Guess::Zero => ("sweep_restrict_zero", arguments),
            Guess::Given => ("sweep_restrict_given", arguments.with(u.pointer())),
        };
        let arguments = arguments.with(scratch.pointer()).with(coarse_f.pointer());
        let arguments = arguments.with(coarse_f.layout().pitch() as i32);
        let kernel = planes.module.kernel(name)?;
        self.cuda.launch(kernel, planes.grid, [THREADS[0], 1], arguments)?;
        u.swap(scratch);
        Ok(())
    }

    /// Does one sweep from u + P u_c, times τ, plus 1 − τ times `scratch`, into `scratch`, which is swapped with u. If τ is
    /// 1, the old `scratch` is not read.
    pub(super) fn prolong_sweep_planes(
        &self,
        planes: &Planes,
        first: Colour,
        [f, coarse_u]: [&Vector<T>; 2],
        u: &mut Vector<T>,
        (scratch, tau): (&mut Vector<T>, f64),
    ) -> Result<()> {
        let arguments = self.arguments().with(first as i32).with(planes.layers as i32).with_real::<T>(tau);
        let arguments = arguments.with(f.pointer()).with(u.pointer());
        let arguments = arguments.with(scratch.pointer()).with(Coarse::of(coarse_u));
        let kernel = planes.module.kernel("prolong_sweep")?;
        self.cuda.launch(kernel, planes.grid, [THREADS[1], 1], arguments)?;
        u.swap(scratch);
        Ok(())
    }
}

/// A cycle on all levels that fit into a block, one layer per block, in one launch.
#[derive(Debug)]
pub(super) struct SmallLevels<T> {
    operators: Vec<Arc<SevenPoint<TensorProduct<T>>>>,
    /// Their tables in the kernel's format.
    table: Buffer,
    module: Arc<Module>,
    shared_bytes: usize,
    coarse_sweeps: usize,
}

/// `MOST_LEVELS` of planes.cu.
const MOST_LEVELS: usize = 12;
/// `MOST_THREADS` of planes.cu.
const MOST_THREADS: usize = 512;

/// Returns the cells of one colour, including those missing in odd rows: one thread each.
fn half(shape: &Shape) -> usize {
    shape.nx.div_ceil(2) * shape.ny
}

/// Returns the first level that fits into a block, if any: below the finest, for cycles with one red–black sweep before and after the correction.
pub(super) fn first_small_level(shapes: &[Shape], options: &MultigridOptions) -> Option<usize> {
    let is_plain = options.smoother.or_lines() == Smoother::LineRedBlack && options.relaxation() == 1.0;
    if !is_plain || (options.pre, options.post) != (1, 1) {
        return None;
    }
    let first = shapes.iter().skip(1).position(|shape| half(shape) <= MOST_THREADS)? + 1;
    (shapes.len() - first <= MOST_LEVELS).then_some(first)
}

impl<T: Real> SmallLevels<T> {
    pub(super) fn new(operators: &[Arc<SevenPoint<TensorProduct<T>>>], coarse_sweeps: usize) -> Result<Option<Self>> {
        refuse_while_recording("making levels")?;
        let Some(top) = operators.first().filter(|operator| operator.kernels().planes.is_some()) else {
            return Ok(None);
        };
        let cuda = top.kernels().cuda();
        let shapes = operators.iter().map(|operator| operator.layout_of().shape());
        let module = cuda.module(source::<T>(shapes.into_iter().any(is_odd)));
        let numbers = |(n, operator): (usize, &Arc<SevenPoint<TensorProduct<T>>>)| {
            let shape = operator.layout_of().shape();
            2 * shape.nx * shape.ny + if n > 0 { 12 * half(&shape) } else { 0 }
        };
        let shared_bytes = operators.iter().enumerate().map(numbers).sum::<usize>() * size_of::<T>();
        let tables: Vec<Operator> = operators.iter().map(|operator| operator.kernels().operator()).collect();
        let context = cuda.context();
        // Upper bound of the kernel's static shared memory.
        const STATIC: usize = 2048;
        if shared_bytes + STATIC > context.shared_memory {
            return Ok(None);
        }
        module.prepare(&["cycle"], shared_bytes)?;
        Ok(Some(Self {
            table: Buffer::from_slice(context, &tables, "tables of small levels")?,
            operators: operators.to_vec(),
            module,
            shared_bytes,
            coarse_sweeps,
        }))
    }
}

impl<T: Real> CoarsestSolver<Cuda, T> for SmallLevels<T> {
    fn solve(&self, f: &Vector<T>, u: &mut Vector<T>) -> Result<()> {
        let kernels = self.operators[0].kernels();
        let shape = kernels.layout().shape();
        let threads = half(&shape).next_multiple_of(32);
        // Restriction is not the transpose of prolongation: sweeps always begin with the same colour.
        let first = kernels.layout().local(Colour::Red) as i32;
        let arguments = Arguments::new().with(self.table.start()).with(self.operators.len() as i32);
        let arguments = arguments.with(self.coarse_sweeps as i32).with(first);
        let arguments = arguments.with(f.pointer()).with(u.pointer());
        kernels.cuda().submit(Launch {
            kernel: self.module.kernel_with("cycle", self.shared_bytes)?,
            grid: [shape.nz as u32, 1, 1],
            block: [threads as u32, 1],
            shared_bytes: self.shared_bytes as u32,
            arguments,
        })
    }

    fn bytes(&self) -> usize {
        self.table.bytes()
    }

    fn shapes(&self) -> Vec<Shape> {
        self.operators[1..].iter().map(|operator| operator.layout_of().shape()).collect()
    }
}
