//! Point relaxation: sweeps by a pass along y, and cycles with one tile per block.
//!
//! * `tile`: blocks and sources of cycles,
//! * `streamed`: several sweeps in one pass along y,
//! * `lines`: independent lines of cells along x.

mod lines;
mod streamed;
pub(super) mod tile;

use std::sync::Arc;

use isobar_core::operator::points::move_by_sweeps;
use isobar_core::prelude::{Operator, PointCycle, PointSmoother, Real, Result, Shape};
use isobar_dist::require_sweeps;

use self::tile::{Block, Ready, suggested, too_large};
use super::passes::Passes;
use super::{Kernels, SevenPoint};
use crate::driver::lock;
use crate::launch::refuse_while_recording;
use crate::{Arguments, Cuda, Launch, Reduction, Sum, Vector};

impl<T: Real> SevenPoint<Passes<T>> {
    fn ready(&self, cycle: &PointCycle) -> Result<Ready> {
        let passes = self.kernels();
        let mut known = lock(&passes.cycles.tiles);
        if let Some(ready) = known.iter().find(|ready| ready.cycle == *cycle && ready.judge.is_none()) {
            return Ok(ready.clone());
        }
        refuse_while_recording("preparing cycles of another kind")?;
        let shape = passes.layout().shape();
        let context = passes.cuda().context();
        let block = Block::new(cycle.tile, shape.nz == 1, size_of::<T>(), context.shared_memory);
        let block = block.ok_or_else(|| too_large(cycle, shape, context.shared_memory))?;
        let module = passes.cuda().module(passes.form.points::<T>(cycle, block, false));
        let kernel = module.kernel_with("relax_tiles", block.shared_bytes)?;
        let reduction = Arc::new(Reduction::new(context, cycle.tiles(shape))?);
        let ready = Ready { cycle: *cycle, kernel, judge: None, block, reduction };
        known.push(ready.clone());
        Ok(ready)
    }
}

/// Returns the kernel of a sweep.
fn sweep_of(cycle: &PointCycle) -> &'static str {
    if cycle.momentum > 0.0 { "relax_points_on" } else { "relax_points" }
}

impl<T: Real> PointSmoother<Cuda, T> for SevenPoint<Passes<T>> {
    fn periodic(&self) -> [bool; 3] {
        let Shape { nx, ny, nz } = self.layout_of().shape();
        let (bits, n) = (self.kernels().kind().periodic(), [nx, ny, nz]);
        [0, 1, 2].map(|d| bits >> d & 1 != 0 && n[d] > 1)
    }

    fn suggested_tile(&self) -> [usize; 3] {
        suggested(self.layout_of().shape())
    }

    fn prepare(&self, cycle: &PointCycle) -> Result<()> {
        require_sweeps(cycle, self.layout_of())?;
        if self.prepare_streamed(cycle)? {
            Ok(())
        } else if cycle.is_sweep() || cycle.momentum > 0.0 {
            self.kernels().prepare_pass(sweep_of(cycle))
        } else {
            self.ready(cycle).map(drop)
        }
    }

    fn relax_points(
        &self,
        cycle: &PointCycle,
        f: &Vector<T>,
        u: &mut Vector<T>,
        v: &mut Vector<T>,
        (norm, scalars): Sum<'_>,
    ) -> Result<()> {
        self.fill(u)?;
        let passes = self.kernels();
        let vectors = [f.pointer(), u.pointer(), v.pointer()];
        if let Some(streamed) = self.streamed(cycle)? {
            let [f, u, v] = vectors;
            return self.launch_streamed(&streamed, cycle, [f, u, v, v, v], norm, scalars);
        }
        if cycle.is_sweep() {
            let numbers = [cycle.relaxation, cycle.momentum];
            let count = if cycle.momentum > 0.0 { 2 } else { 1 };
            passes.pass_with_numbers(sweep_of(cycle), &numbers[..count], &vectors, scalars.pointer(norm))?;
            return self.sum([norm], scalars);
        }
        let norm = scalars.pointer(norm);
        let Ready { kernel, block, reduction, .. } = self.ready(cycle)?;
        let tiles = cycle.tiles(Operator::layout(self).shape());
        let arguments = Arguments::new()
            .with(*passes.operands())
            .with(cycle.sub_iterations as i32)
            .with_real::<T>(cycle.relaxation);
        let arguments = vectors.iter().fold(arguments, |arguments, &pointer| arguments.with(pointer));
        passes.cuda().submit(Launch {
            kernel,
            grid: [tiles as u32, 1, 1],
            block: [block.threads as u32, 1],
            shared_bytes: block.shared_bytes as u32,
            arguments: reduction.append(arguments, tiles, norm),
        })
    }

    fn relax_moving(
        &self,
        cycle: &PointCycle,
        [f, before]: [&Vector<T>; 2],
        u: &mut Vector<T>,
        [v, w]: [&mut Vector<T>; 2],
        (norm, scalars): Sum<'_>,
    ) -> Result<()> {
        match self.streamed(cycle)? {
            Some(streamed) => {
                let vectors = [f.pointer(), u.pointer(), before.pointer(), v.pointer(), w.pointer()];
                self.launch_streamed(&streamed, cycle, vectors, norm, scalars)
            }
            None => move_by_sweeps(self, cycle, [f, before], u, [v, w], norm.of(scalars)),
        }
    }

    fn suggested_line_tile(&self) -> [usize; 3] {
        lines::suggested(self.layout_of().shape())
    }

    fn prepare_lines(&self, cycle: &PointCycle) -> Result<()> {
        self.ready_for_lines(cycle).map(drop)
    }

    fn relax_lines(
        &self,
        cycle: &PointCycle,
        f: &Vector<T>,
        u: &Vector<T>,
        v: &mut Vector<T>,
        norms: &mut Vector<f64>,
    ) -> Result<()> {
        self.launch_lines(cycle, [f.pointer(), u.pointer(), v.pointer()], norms)
    }

    fn judge_lines(
        &self,
        vectors: [&Vector<f64>; 2],
        n: &mut Vector<f64>,
        allowed: f64,
        (worst, scalars): Sum<'_>,
    ) -> Result<()> {
        self.launch_judge(vectors, n, allowed, worst, scalars)
    }
}
