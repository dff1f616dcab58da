//! A cycle on all small levels in one launch, for operators without vertical couplings. The recurrences are above the kernel in `planes.cu`.

use std::sync::Arc;

use isobar_core::operator::CoarsestSolver;
use isobar_core::prelude::{Colour, MultigridOptions, Real, Result, Shape, Smoother};

use super::TensorProduct;
use super::planes::{is_odd, source};
use super::tables::Operator;
use crate::launch::refuse_while_recording;
use crate::seven_point::{Kernels, SevenPoint};
use crate::{Arguments, Buffer, Cuda, Launch, Module, Vector};

/// A cycle on all levels that fit into a block, one layer per block, in one launch.
#[derive(Debug)]
pub(super) struct SmallLevels<T> {
    operators: Vec<Arc<SevenPoint<TensorProduct<T>>>>,
    /// The tables of the levels in the kernel's format.
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
