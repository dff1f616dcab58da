//! Point relaxation: sweeps by a pass along y, and cycles with one tile per block.
//!
//! * `streamed`: several sweeps in one pass along y,
//! * `lines`: independent lines of cells along x.

mod lines;
mod streamed;

use std::sync::{Arc, Mutex};

use isobar_core::backend::Scalar;
use isobar_core::error::{Error, Result};
use isobar_core::layout::Shape;
use isobar_core::operator::points::move_by_sweeps;
use isobar_core::operator::{Operator, PointSmoother};
use isobar_core::options::PointCycle;
use isobar_core::real::Real;
use isobar_core::stencil::Stencil;
use isobar_dist::require_sweeps;

use self::streamed::Streamed;
use super::kind::{Form, Kind};
use super::passes::Passes;
use super::{Kernels, SevenPoint};
use crate::compile::Source;
use crate::cuda::Cuda;
use crate::driver::lock;
use crate::kernels::seven_point as kernels;
use crate::launch::{Arguments, Kernel, Launch, refuse_while_recording};
use crate::reduction::Reduction;
use crate::scalars::Scalars;
use crate::vector::Vector;

/// Largest number of threads per block.
const MOST_THREADS: usize = 1024;
/// More threads use a multiprocessor no better than these with more cells each.
const ENOUGH_THREADS: usize = 256;
/// Largest number of cells per thread, a power of two.
const LONGEST_STRIP: usize = 8;
/// Static shared memory of the kernel. B
const STATIC_BYTES: usize = 1024;

/// The division of a tile within a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    /// Cells per thread, consecutive in y.
    strip: usize,
    /// Threads, in whole warps.
    threads: usize,
    /// Shared memory for the tile and its surroundings, before and after a sub-iteration. B
    shared_bytes: usize,
}

impl Block {
    /// Chooses the block for a tile of numbers of `size` bytes; `None` if no block can hold it.
    fn new([x, y, z]: [usize; 3], is_flat: bool, size: usize, shared_memory: usize) -> Option<Self> {
        let threads = |strip: usize| x.saturating_mul(y.div_ceil(strip)).saturating_mul(z);
        let strips =
            || std::iter::successors(Some(1), |strip| Some(2 * strip)).take_while(|&strip| strip <= LONGEST_STRIP);
        let fits = |most: usize| strips().find(|&strip| threads(strip) <= most);
        let strip = fits(ENOUGH_THREADS).or_else(|| fits(MOST_THREADS))?;
        let rows = (y + 2) * if is_flat { 1 } else { z + 2 };
        let shared_bytes = 2 * size * (x + 2) * rows;
        let threads = threads(strip).next_multiple_of(32);
        (shared_bytes + STATIC_BYTES <= shared_memory).then_some(Self { strip, threads, shared_bytes })
    }
}

/// A kind of cycle, ready to be launched.
#[derive(Clone, Debug)]
struct Ready {
    cycle: PointCycle,
    kernel: Kernel,
    /// The stopping test of a cycle of lines.
    judge: Option<Kernel>,
    block: Block,
    reduction: Arc<Reduction>,
}

/// The prepared kinds of cycles.
#[derive(Debug, Default)]
pub(super) struct Cycles {
    tiles: Mutex<Vec<Ready>>,
    streamed: Mutex<Vec<Streamed>>,
}

impl<K: Kind> Form<K> {
    fn points<T: Real>(&self, cycle: &PointCycle, block: Block, by_line: bool) -> Source {
        let ([x, y, z], [overlap_x, overlap_y, overlap_z]) = (cycle.tile, cycle.overlap);
        self.source::<T>("seven_point_points", kernels::POINTS)
            .define("TILE_X", x)
            .define("TILE_Y", y)
            .define("TILE_Z", z)
            .define("OVERLAP_X", overlap_x)
            .define("OVERLAP_Y", overlap_y)
            .define("OVERLAP_Z", overlap_z)
            .define("STRIP", block.strip)
            .define("THREADS", block.threads)
            .define("LINES", u32::from(by_line))
    }
}

/// Returns the sources for cycles and for stencils of this form, for compile tests.
pub(crate) fn sources<K: Kind, T: Real>(stencil: &K::Stencil, wide: bool) -> Vec<Source> {
    let shape = stencil.shape();
    let is_flat = shape.nz == 1;
    let tile = if is_flat { [32, 32, 1] } else { [16, 8, 6] };
    let cycle = PointCycle { tile, overlap: tile.map(|n| if n > 1 { 2 } else { 0 }), ..PointCycle::sweep(1.0) };
    let form = Form { wide, ..Form::new(K::of(stencil), shape) };
    let mut all = streamed::sources::<K, T>(&form, shape);
    if let Some(block) = Block::new(tile, is_flat, size_of::<T>(), 48 << 10) {
        all.extend(
            [false, true][..1 + usize::from(is_flat)].iter().map(|&by_line| form.points::<T>(&cycle, block, by_line)),
        );
    }
    all
}

impl<K: Kind, T: Real> SevenPoint<Passes<K, T>> {
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

/// Makes the error for a tile that no block of this GPU can hold.
fn too_large(cycle: &PointCycle, shape: Shape, shared_memory: usize) -> Error {
    let [x, y, z] = cycle.tile;
    Error::invalid(
        "solver.jacobi.tile",
        format!(
            "{x} × {y} × {z} cells are too many for a block of this GPU, which can have {MOST_THREADS} threads of {LONGEST_STRIP} cells, \
             consecutive in y, and {} KiB of shared memory; use a smaller tile, such as {:?}",
            shared_memory >> 10,
            suggested(shape),
        ),
    )
}

/// Returns a tile that uses a multiprocessor well.
fn suggested(Shape { ny, nz, .. }: Shape) -> [usize; 3] {
    match (ny, nz) {
        (_, 2..) => [32, 8, 8],
        (2.., _) => [32, 32, 1],
        _ => [256, 1, 1],
    }
}

/// Returns the kernel of a sweep.
fn sweep_of(cycle: &PointCycle) -> &'static str {
    if cycle.momentum > 0.0 { "relax_points_on" } else { "relax_points" }
}

impl<K: Kind, T: Real> PointSmoother<Cuda, T> for SevenPoint<Passes<K, T>> {
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
        norm: Scalar,
        scalars: &mut Scalars,
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
        norm: Scalar,
        scalars: &mut Scalars,
    ) -> Result<()> {
        match self.streamed(cycle)? {
            Some(streamed) => {
                let vectors = [f.pointer(), u.pointer(), before.pointer(), v.pointer(), w.pointer()];
                self.launch_streamed(&streamed, cycle, vectors, norm, scalars)
            }
            None => move_by_sweeps(self, cycle, [f, before], u, [v, w], norm, scalars),
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
        worst: Scalar,
        scalars: &mut Scalars,
    ) -> Result<()> {
        self.launch_judge(vectors, n, allowed, worst, scalars)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_hold_their_tiles() {
        let block = |tile, is_flat| Block::new(tile, is_flat, 8, 227 << 10);
        assert_eq!(block([32, 32, 1], true), Some(Block { strip: 4, threads: 256, shared_bytes: 2 * 8 * 34 * 34 }));
        assert_eq!(block([5, 1, 1], true).map(|block| (block.strip, block.threads)), Some((1, 32)));
        assert_eq!(block([64, 64, 1], true).map(|block| (block.strip, block.threads)), Some((4, 1024)));
        assert_eq!(block([32, 8, 8], false).map(|block| (block.strip, block.threads)), Some((8, 256)));
        // Too many cells, and too many bytes.
        assert_eq!((block([1025, 1, 1], true), block([32, 16, 32], false)), (None, None));
        assert_eq!(Block::new([64, 64, 1], true, 8, 48 << 10), None);
    }
}
