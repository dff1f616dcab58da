//! Several sweeps in one pass over memory, the sweeps a row behind each other: cycles that are exact, and sweeps of grids with layers.

use std::sync::Arc;

use isobar_core::backend::Scalar;
use isobar_core::error::Result;
use isobar_core::layout::Shape;
use isobar_core::operator::PointSmoother;
use isobar_core::options::PointCycle;
use isobar_core::real::Real;

use crate::compile::Source;
use crate::cuda::Cuda;
use crate::driver::{Pointer, lock};
use crate::kernels::seven_point as kernels;
use crate::launch::{Arguments, Kernel, Launch, refuse_while_recording};
use crate::reduction::Reduction;
use crate::scalars::Scalars;
use crate::seven_point::kind::{Form, Kind};
use crate::seven_point::passes::Passes;
use crate::seven_point::{Kernels, SevenPoint};

/// How a block is made: see streamed.cu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    sweeps: usize,
    moves: bool,
    /// Cells in x and z.
    tile: [usize; 2],
    min_blocks: usize,
    /// Weights of a cell in shared memory.
    stored: usize,
}

/// Sweeps of a pass, at most: more need more registers than there are.
const MOST_FLAT: usize = 12;
const MOST: usize = 4;
/// Grids of fewer cells in x or z would leave most of a block idle.
const FEWEST: usize = 32;

impl Block {
    /// For so many sweeps in numbers of `size` bytes; nothing, where these are too many. The numbers are measured: docs/notes/jacobi.md.
    fn new(sweeps: usize, moves: bool, shape: Shape, size: usize) -> Option<Self> {
        let is_double = size == 8;
        let (tile, min_blocks, stored) = if shape.nz == 1 {
            match sweeps {
                ..=5 if is_double => ([256, 1], 2, 0),
                6..=8 if is_double && !moves => ([128, 1], 3, 2),
                6..=MOST_FLAT if is_double => ([128, 1], 2, 2),
                ..=MOST_FLAT => ([128, 1], 3, 0),
                _ => return None,
            }
        } else {
            match sweeps {
                1 if is_double => ([32, 32], 1, 0),
                1 => ([32, 16], 2, 0),
                2 => ([32, 24], 1, 0),
                3 => ([32, 20], 1, 0),
                MOST => ([32, 16], 1, 0),
                _ => return None,
            }
        };
        Some(Self { sweeps, moves, tile, min_blocks, stored })
    }

    fn threads(&self) -> usize {
        self.tile[0] * self.tile[1]
    }

    /// Of n cells in x or z.
    fn tiles(&self, d: usize, n: usize) -> usize {
        let (tile, overlap) = (self.tile[d], 2 * self.sweeps);
        if tile >= n { 1 } else { (n - overlap).div_ceil(tile - overlap) }
    }

    /// Of shared memory: two rows of each stage and of each field of coefficients, and weights.
    fn shared_bytes(&self, size: usize) -> usize {
        /// At most.
        const FIELDS: usize = 3;
        (2 * (self.sweeps + FIELDS) + self.stored * self.sweeps) * self.threads() * size
    }

    /// Rows of a segment, so that the blocks that a card holds at once take as few rows as can be one after another.
    fn length(&self, tiles: usize, rows: usize, resident: usize) -> usize {
        /// Shorter segments do not pay for the rows that they compute twice.
        const MOST_SEGMENTS: usize = 64;
        let cost = |segments: usize| {
            let times = (tiles * segments).div_ceil(resident.max(1));
            times * (rows.div_ceil(segments) + 2 * self.sweeps - 1)
        };
        let segments = (1..=MOST_SEGMENTS.min(rows)).min_by_key(|&segments| cost(segments)).unwrap_or(1);
        rows.div_ceil(segments)
    }
}

/// A kind of pass, ready to be launched.
#[derive(Clone, Debug)]
pub(super) struct Streamed {
    block: Block,
    kernel: Kernel,
    shared_bytes: usize,
    length: usize,
    /// Tiles, and segments of rows.
    grid: [usize; 2],
    reduction: Arc<Reduction>,
}

impl<K: Kind> Form<K> {
    fn streamed<T: Real>(&self, block: Block) -> Source {
        self.source::<T>("seven_point_streamed", kernels::STREAMED)
            .define("SWEEPS", block.sweeps)
            .define("MOVES", u32::from(block.moves))
            .define("LANES", block.tile[0])
            .define("DEPTH", block.tile[1])
            .define("MIN_BLOCKS", block.min_blocks)
            .define("STORED", block.stored)
    }
}

/// Sources for stencils of this form, with momentum and without; for checks that they compile.
pub(super) fn sources<K: Kind, T: Real>(form: &Form<K>, shape: Shape) -> Vec<Source> {
    let kinds = [(if shape.nz == 1 { 8 } else { 1 }, false), (3, true)];
    let blocks = kinds.into_iter().filter_map(|(sweeps, moves)| Block::new(sweeps, moves, shape, size_of::<T>()));
    blocks.map(|block| form.streamed::<T>(block)).collect()
}

impl<K: Kind, T: Real> SevenPoint<Passes<K, T>> {
    /// The pass that a cycle is, where there is one: tiles and overlap of one that is exact are nobody's concern.
    pub(super) fn streamed(&self, cycle: &PointCycle) -> Result<Option<Streamed>> {
        let passes = self.kernels();
        let layout = passes.layout();
        let (shape, periodic) = (layout.shape(), PointSmoother::<Cuda, T>::periodic(self));
        let is_for_streams = match cycle.is_sweep() {
            true => shape.nz >= FEWEST && shape.nx >= FEWEST,
            false => cycle.is_exact(shape, periodic),
        };
        if !is_for_streams || periodic.contains(&true) || layout.halo() != [0, 0] {
            return Ok(None);
        }
        let Some(block) = Block::new(cycle.sub_iterations, cycle.momentum > 0.0, shape, size_of::<T>()) else {
            return Ok(None);
        };
        let mut known = lock(&passes.cycles.streamed);
        if let Some(ready) = known.iter().find(|ready| ready.block == block) {
            return Ok(Some(ready.clone()));
        }
        let context = passes.cuda().context();
        let shared_bytes = block.shared_bytes(size_of::<T>());
        if shared_bytes + super::STATIC_BYTES > context.shared_memory {
            return Ok(None);
        }
        refuse_while_recording("preparing cycles of another kind")?;
        let module = passes.cuda().module(passes.form.streamed::<T>(block));
        let kernel = module.kernel_with("relax_streamed", shared_bytes)?;
        let resident = module.resident_blocks(kernel, block.threads(), shared_bytes)?;
        let tiles = block.tiles(0, shape.nx) * block.tiles(1, shape.nz);
        let length = block.length(tiles, shape.ny, resident);
        let grid = [tiles, shape.ny.div_ceil(length)];
        let reduction = Arc::new(Reduction::new(context, grid[0] * grid[1])?);
        let ready = Streamed { block, kernel, shared_bytes, length, grid, reduction };
        known.push(ready.clone());
        Ok(Some(ready))
    }

    /// v = u after the sweeps of a cycle, and w = u after one less, with `before` the u before;  ‖f − A u‖²
    pub(super) fn launch_streamed(
        &self,
        streamed: &Streamed,
        cycle: &PointCycle,
        [f, u, before, v, w]: [Pointer; 5],
        norm: Scalar,
        scalars: &Scalars,
    ) -> Result<()> {
        let passes = self.kernels();
        let arguments = Arguments::new().with(*passes.operands()).with(streamed.length as i32);
        let arguments = arguments.with_real::<T>(cycle.relaxation).with_real::<T>(cycle.momentum);
        let arguments = [f, u, before, v, w].into_iter().fold(arguments, Arguments::with);
        let [tiles, segments] = streamed.grid;
        passes.cuda().submit(Launch {
            kernel: streamed.kernel,
            grid: [tiles as u32, segments as u32, 1],
            block: [streamed.block.threads() as u32, 1],
            shared_bytes: streamed.shared_bytes as u32,
            arguments: streamed.reduction.append(arguments, tiles * segments, scalars.pointer(norm)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_leave_every_cell_once() {
        for (shape, sweeps) in
            [(Shape::new(8192, 8192, 1), 8), (Shape::new(129, 7, 1), 12), (Shape::new(512, 512, 512), 3)]
        {
            let block = Block::new(sweeps, false, shape, 8).unwrap();
            for (d, n) in [(0, shape.nx), (1, shape.nz)] {
                let count = block.tiles(d, n);
                let left = block.tile[d] - 2 * sweeps.min(block.tile[d] / 2);
                // Those between the first and the last leave so many, and these two `sweeps` more.
                assert!(count == 1 || (count * left + 2 * sweeps >= n && (count - 1) * left + 2 * sweeps < n), "{n}");
            }
        }
        assert!(Block::new(5, false, Shape::new(64, 64, 64), 8).is_none());
        assert!(Block::new(13, true, Shape::new(64, 64, 1), 4).is_none());
    }

    #[test]
    fn segments_fill_a_card() {
        let block = Block::new(1, false, Shape::new(512, 512, 512), 8).unwrap();
        // 289 tiles where 132 blocks run at once: five segments are eleven times as many.
        assert_eq!((block.tiles(0, 512) * block.tiles(1, 512), block.length(289, 512, 132)), (289, 103));
        assert_eq!(block.length(1, 3, 132), 1);
    }
}
