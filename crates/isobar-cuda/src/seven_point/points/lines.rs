//! Independent lines of cells along x: their norms and stopping tests.

use std::sync::Arc;

use isobar_core::prelude::{Error, Operator, PointCycle, Real, Result, Scalar, Shape};

use super::tile::{Block, Ready, too_large};
use crate::driver::lock;
use crate::launch::refuse_while_recording;
use crate::seven_point::passes::Passes;
use crate::seven_point::{Kernels, SevenPoint};
use crate::{Arguments, Launch, Pointer, Reduction, Scalars, Vector};

/// Threads of the block that tests lines, as in the kernel.
const JUDGES: u32 = 256;

/// Returns a tile of lines that uses a multiprocessor well.
pub(super) fn suggested(Shape { nx, ny, .. }: Shape) -> [usize; 3] {
    [nx.min(256), ny.min(4), 1]
}

impl<T: Real> SevenPoint<Passes<T>> {
    /// Returns the kernel of a cycle with sums per line. A sweep is a cycle of one sub-iteration, for which tiles need not overlap.
    pub(super) fn ready_for_lines(&self, cycle: &PointCycle) -> Result<Ready> {
        let passes = self.kernels();
        let shape = passes.layout().shape();
        let cycle = match cycle.is_sweep() {
            true => PointCycle { tile: suggested(shape), overlap: [0; 3], ..*cycle },
            false => *cycle,
        };
        let mut known = lock(&passes.cycles.tiles);
        if let Some(ready) = known.iter().find(|ready| ready.cycle == cycle && ready.judge.is_some()) {
            return Ok(ready.clone());
        }
        refuse_while_recording("preparing cycles of another kind")?;
        let context = passes.cuda().context();
        let [x, y, _] = cycle.tile;
        // A square of the residual for every cell.
        let squares = 8 * x * y;
        let block = Block::new(cycle.tile, true, size_of::<T>(), context.shared_memory.saturating_sub(squares));
        let block = block.ok_or_else(|| too_large(&cycle, shape, context.shared_memory))?;
        let block = Block { shared_bytes: block.shared_bytes + squares, ..block };
        let module = passes.cuda().module(passes.form.points::<T>(&cycle, block, true));
        let ready = Ready {
            cycle,
            kernel: module.kernel_with("relax_tiles", block.shared_bytes)?,
            judge: Some(module.kernel("judge_lines")?),
            block,
            reduction: Arc::new(Reduction::new(context, cycle.count(0, shape.nx) * shape.ny)?),
        };
        known.push(ready.clone());
        Ok(ready)
    }

    /// Computes v = u after a cycle, with ‖f − A u‖² of every line.
    pub(super) fn launch_lines(
        &self,
        cycle: &PointCycle,
        vectors: [Pointer; 3],
        norms: &mut Vector<f64>,
    ) -> Result<()> {
        let passes = self.kernels();
        let ready = self.ready_for_lines(cycle)?;
        let Ready { cycle, kernel, block, reduction, .. } = ready;
        let shape = Operator::layout(self).shape();
        let arguments = Arguments::new().with(*passes.operands()).with(cycle.sub_iterations as i32);
        let arguments = vectors.into_iter().fold(arguments.with_real::<T>(cycle.relaxation), Arguments::with);
        let arguments = arguments.with(norms.layout().pitch() as i32);
        let partial = cycle.count(0, shape.nx) * shape.ny;
        passes.cuda().submit(Launch {
            kernel,
            grid: [cycle.tiles(shape) as u32, 1, 1],
            block: [block.threads as u32, 1],
            shared_bytes: block.shared_bytes as u32,
            arguments: reduction.append(arguments, partial, norms.pointer()),
        })
    }

    /// Computes worst = max w ‖r‖², and n += 1 for lines with w ‖r‖² above the limit.
    pub(super) fn launch_judge(
        &self,
        [norms, weights]: [&Vector<f64>; 2],
        n: &mut Vector<f64>,
        allowed: f64,
        worst: Scalar,
        scalars: &Scalars,
    ) -> Result<()> {
        let passes = self.kernels();
        let kernel = lock(&passes.cycles.tiles).iter().find_map(|ready| ready.judge.clone());
        let kernel =
            kernel.ok_or_else(|| Error::invalid("lines of a batch", "prepare a cycle before they are judged"))?;
        let layout = norms.layout();
        let arguments = Arguments::new().with(layout.shape().nx as i32).with(layout.pitch() as i32);
        let arguments = arguments.with_real::<f64>(allowed);
        let vectors = [norms.pointer(), weights.pointer(), n.pointer(), scalars.pointer(worst)];
        passes.cuda().submit(Launch {
            kernel,
            grid: [1, 1, 1],
            block: [JUDGES, 1],
            shared_bytes: 0,
            arguments: vectors.into_iter().fold(arguments, Arguments::with),
        })
    }
}
