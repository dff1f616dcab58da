//! A cycle by point relaxation on all small levels in one launch: see `kernels/seven_point/colours_small.cu`.

use std::sync::Arc;

use isobar_core::operator::CoarsestSolver;
use isobar_core::prelude::{Layout, MultigridOptions, Real, Result, Shape, Smoother};
use isobar_core::stencil::halving::Halving;
use isobar_core::stencil::{Small, ends_of};

use super::{DiffusionOperator, Operands, Tables};
use crate::diffusion::Operands as Stencil;
use crate::launch::refuse_while_recording;
use crate::seven_point::Kernels;
use crate::{Arguments, Buffer, Cuda, Launch, Module, Vector, argument};

argument! {
    /// `Level` of colours_small.cu.
    struct Level {
        operator: Stencil,
        down: Operands,
    }
}

/// The threads of the block.
pub(crate) const THREADS: usize = 512;
/// The most cells of a level: two for each thread. One multiprocessor takes longer for 4096 than a launch takes for each of their steps.
const MOST_CELLS: usize = 1024;
/// `MOST_LEVELS` of colours_small.cu.
const MOST_LEVELS: usize = 16;
/// An upper bound of the kernel's static shared memory. B
const STATIC_BYTES: usize = 4096;

/// A cycle on the levels that fit into a block, in one launch.
#[derive(Debug)]
struct SmallLevels<T: Real> {
    operators: Vec<Arc<DiffusionOperator<T>>>,
    /// The weights of the transfers between them.
    _transfers: Vec<Tables>,
    /// The levels in the kernel's format.
    table: Buffer,
    module: Arc<Module>,
    shared_bytes: usize,
    sweeps: [usize; 3],
    rho: f64,
}

/// Returns the dynamic shared memory for levels with these vectors, the first of which is elsewhere. B
fn shared_bytes<T: Real>(layouts: &[&Layout]) -> usize {
    let below: usize = layouts[1..].iter().map(|layout| 2 * layout.len()).sum();
    (below + layouts[0].shape().cells()) * size_of::<T>()
}

/// Makes the cycle on small levels of a hierarchy, if there are any below the finest.
pub(super) fn small_levels<T: Real>(
    cuda: &Cuda,
    operators: &[Arc<DiffusionOperator<T>>],
    steps: &[Halving],
    options: &MultigridOptions,
) -> Result<Option<Small<Cuda, T>>> {
    // The first sweep makes u from nothing.
    let has_sweeps = options.pre > 0 && options.coarse_sweeps > 0;
    if options.smoother != Smoother::PointRedBlack || !has_sweeps {
        return Ok(None);
    }
    let most_bytes = cuda.context().shared_memory.saturating_sub(STATIC_BYTES);
    let last = operators.len() - 1;
    let fits = |&first: &usize| {
        let own = &operators[first..];
        let layouts: Vec<&Layout> = own.iter().map(|operator| operator.layout_of()).collect();
        // Kernels are for one kind of coefficients.
        let is_alike = own.iter().all(|operator| operator.kernels().kind() == own[0].kernels().kind());
        let is_small = layouts[0].shape().cells() <= MOST_CELLS && own.len() <= MOST_LEVELS;
        is_small && is_alike && shared_bytes::<T>(&layouts) <= most_bytes
    };
    let Some(first) = (1..last).find(fits) else { return Ok(None) };
    refuse_while_recording("making levels")?;
    let operators = &operators[first..];
    let kernels = operators[0].kernels();
    let layouts: Vec<&Layout> = operators.iter().map(|operator| operator.layout_of()).collect();
    let ends = ends_of(kernels.kind().sides());
    let transfers = steps[first..].iter().zip(layouts.windows(2));
    let transfers =
        transfers.map(|(by, pair)| Tables::new::<T>(cuda, by, ends, [pair[0], pair[1]])).collect::<Result<Vec<_>>>()?;
    let down = transfers.iter().map(|tables| tables.operands).chain(transfers.last().map(|tables| tables.operands));
    let levels =
        operators.iter().zip(down).map(|(operator, down)| Level { operator: *operator.kernels().operands(), down });
    let table = Buffer::from_slice(cuda.context(), &levels.collect::<Vec<_>>(), "tables of small levels")?;
    let module = cuda.module(kernels.small_colours());
    let shared_bytes = shared_bytes::<T>(&layouts);
    module.prepare(&["cycle"], shared_bytes)?;
    let made = SmallLevels {
        operators: operators.to_vec(),
        _transfers: transfers,
        table,
        module,
        shared_bytes,
        sweeps: [options.pre, options.post, options.coarse_sweeps],
        rho: options.relaxation(),
    };
    Ok(Some(Small { first, solver: Arc::new(made) }))
}

impl<T: Real> CoarsestSolver<Cuda, T> for SmallLevels<T> {
    fn solve(&self, f: &Vector<T>, u: &mut Vector<T>) -> Result<()> {
        let arguments = Arguments::new().with(self.table.start()).with(self.operators.len() as i32);
        let arguments = self.sweeps.iter().fold(arguments, |all, &sweeps| all.with(sweeps as i32));
        self.operators[0].kernels().cuda().submit(Launch {
            kernel: self.module.kernel_with("cycle", self.shared_bytes)?,
            grid: [1; 3],
            block: [THREADS as u32, 1],
            shared_bytes: self.shared_bytes as u32,
            arguments: arguments.with_real::<T>(self.rho).with(f.pointer()).with(u.pointer()),
        })
    }

    fn bytes(&self) -> usize {
        self.table.bytes()
    }

    fn shapes(&self) -> Vec<Shape> {
        self.operators[1..].iter().map(|operator| operator.layout_of().shape()).collect()
    }
}
