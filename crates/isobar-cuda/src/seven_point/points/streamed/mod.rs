//! Several sweeps in one pass over memory, each a row behind the previous one: exact cycles, and sweeps of grids with layers.
//!
//! * `block`: blocks and sources.

pub(super) mod block;

use std::sync::Arc;

use isobar_core::prelude::{PointCycle, PointSmoother, Real, Result, Scalar, Shape};

use self::block::{Block, STATIC_BYTES, Streamed, Weights};
use crate::driver::lock;
use crate::launch::{is_recording, refuse_while_recording};
use crate::seven_point::passes::Passes;
use crate::seven_point::{Kernels, SevenPoint};
use crate::{Arguments, Cuda, Launch, Pointer, Reduction, Scalars};

/// Smallest extent in x or z: smaller grids would leave most of a block idle.
const FEWEST: usize = 32;

impl<T: Real> SevenPoint<Passes<T>> {
    /// Returns the pass for a cycle, if there is one: an exact cycle does not depend on tiles and overlap.
    pub(super) fn streamed(&self, cycle: &PointCycle) -> Result<Option<Streamed>> {
        let even = if self.kernels().is_even() { self.streamed_even(cycle)? } else { None };
        even.map_or_else(|| self.streamed_rows(cycle), |even| Ok(Some(even)))
    }

    /// Returns whether passes along y are possible for any coefficients.
    fn may_stream(&self) -> bool {
        let periodic = PointSmoother::<Cuda, T>::periodic(self);
        !periodic.contains(&true) && self.kernels().layout().halo() == [0, 0]
    }

    /// Prepares the passes that a cycle may use, with current and future coefficients; returns whether the last one may be used.
    pub(super) fn prepare_streamed(&self, cycle: &PointCycle) -> Result<bool> {
        let Shape { nx, ny, nz } = self.kernels().layout().shape();
        if self.may_stream() && nx >= FEWEST && ny >= FEWEST && (nz == 1 || nz >= FEWEST) {
            self.kernels().prepare_looks()?;
            self.streamed(cycle)?;
        }
        Ok(self.streamed_rows(cycle)?.is_some())
    }

    fn streamed_even(&self, cycle: &PointCycle) -> Result<Option<Streamed>> {
        let passes = self.kernels();
        let (shape, context) = (passes.layout().shape(), passes.cuda().context());
        if !cycle.is_exact(shape, [false; 3]) || !self.may_stream() {
            return Ok(None);
        }
        let (moves, has_shift) = (cycle.momentum > 0.0, passes.form.kind.has_shift());
        let block = Block::even(cycle.sub_iterations, moves, has_shift, shape, size_of::<T>(), context.shared_memory);
        block.map_or(Ok(None), |block| self.ready_to_stream(block))
    }

    fn streamed_rows(&self, cycle: &PointCycle) -> Result<Option<Streamed>> {
        let passes = self.kernels();
        let shape = passes.layout().shape();
        let is_for_streams = match cycle.is_sweep() {
            true => shape.nz >= FEWEST && shape.nx >= FEWEST,
            false => cycle.is_exact(shape, [false; 3]),
        };
        if !is_for_streams || !self.may_stream() {
            return Ok(None);
        }
        let block = Block::new(cycle.sub_iterations, cycle.momentum > 0.0, shape, size_of::<T>());
        let fits =
            |block: &Block| block.shared_bytes(size_of::<T>()) + STATIC_BYTES <= passes.cuda().context().shared_memory;
        block.filter(fits).map_or(Ok(None), |block| self.ready_to_stream(block))
    }

    fn ready_to_stream(&self, block: Block) -> Result<Option<Streamed>> {
        let passes = self.kernels();
        let mut known = lock(&passes.cycles.streamed);
        if let Some(ready) = known.iter().find(|ready| ready.block == block) {
            return Ok(Some(ready.clone()));
        }
        if is_recording() && matches!(block.weights, Weights::Even { .. }) {
            // Cells have become equal since the cycles were prepared.
            return Ok(None);
        }
        let (context, shape) = (passes.cuda().context(), passes.layout().shape());
        refuse_while_recording("preparing cycles of another kind")?;
        let shared_bytes = block.shared_bytes(size_of::<T>());
        let module = passes.cuda().module(passes.form.streamed::<T>(block));
        let (name, even) = match block.weights {
            Weights::Rows { .. } => ("relax_streamed", None),
            Weights::Even { .. } => ("relax_even", Some(passes.prepare_looks()?.even())),
        };
        let kernel = module.kernel_with(name, shared_bytes)?;
        let resident = module.resident_blocks(&kernel, block.threads(), shared_bytes)?;
        let tiles = block.tiles(shape);
        let length = block.length(tiles, shape.ny, resident);
        let grid = [tiles, shape.ny.div_ceil(length)];
        let reduction = Arc::new(Reduction::new(context, grid[0] * grid[1])?);
        let ready = Streamed { block, kernel, shared_bytes, length, grid, even, reduction };
        known.push(ready.clone());
        Ok(Some(ready))
    }

    /// Computes v = u after the sweeps of a cycle, w = u after one sweep fewer, with `before` the previous u, and ‖f − A u‖².
    pub(super) fn launch_streamed(
        &self,
        streamed: &Streamed,
        cycle: &PointCycle,
        [f, u, before, v, w]: [Pointer; 5],
        norm: Scalar,
        scalars: &Scalars,
    ) -> Result<()> {
        let passes = self.kernels();
        let arguments = Arguments::new().with(*passes.operands());
        let arguments = streamed.even.into_iter().fold(arguments, Arguments::with).with(streamed.length as i32);
        let arguments = arguments.with_real::<T>(cycle.relaxation).with_real::<T>(cycle.momentum);
        let arguments = [f, u, before, v, w].into_iter().fold(arguments, Arguments::with);
        let [tiles, segments] = streamed.grid;
        passes.cuda().submit(Launch {
            kernel: streamed.kernel.clone(),
            grid: [tiles as u32, segments as u32, 1],
            block: [streamed.block.threads() as u32, 1],
            shared_bytes: streamed.shared_bytes as u32,
            arguments: streamed.reduction.append(arguments, tiles * segments, scalars.pointer(norm)),
        })
    }
}
