//! Red–black relaxation in one pass over memory, fused with the steps of multigrid before and after it: see
//! `kernels/seven_point/colours_streamed.cu`.

use isobar_core::backend::Scalar;
use isobar_core::error::{Error, Result};
use isobar_core::layout::{Colour, Shape};
use isobar_core::operator::Guess;
use isobar_core::real::Real;

use crate::compile::Source;
use crate::driver::Pointer;
use crate::kernels::seven_point as kernels;
use crate::launch::{Arguments, Kernel, Launch};
use crate::reduction::Reduction;
use crate::scalars::Scalars;
use crate::seven_point::Kernels;
use crate::seven_point::kind::{Form, Kind};
use crate::seven_point::passes::Passes;
use crate::vector::Vector;

/// Half sweeps per pass.
const STAGES: usize = 2;
/// Cells at a tile's ends in x and y, and layers, that are invalid after all half sweeps.
const HALO: usize = STAGES + 2;
const HALO_LAYERS: usize = STAGES + 1;
/// Smallest flat grid, and smallest grid with layers, for which a pass is faster than separate launches. In cells.
const FEWEST_CELLS: [usize; 2] = [1 << 21, 1 << 24];
/// Smallest extent in each direction, so that tiles do not consist mostly of overlap.
const FEWEST: usize = 64;
/// Static shared memory of the kernels. B
const STATIC_BYTES: usize = 1024;

/// The shape of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    /// Pairs of cells in x, and layers.
    tile: [usize; 2],
    min_blocks: usize,
    /// Dynamic shared memory. B
    shared_bytes: usize,
}

impl Block {
    /// Chooses the block for numbers of `size` bytes and this much shared memory. The parameters were measured: docs/notes/diffusion-multigrid.md.
    fn new(is_flat: bool, has_shift: bool, size: usize, shared_memory: usize) -> Option<Self> {
        let tiles: &[[usize; 2]] =
            if is_flat { &[[256, 1]] } else { &[[32, 32], [32, 24], [32, 20], [32, 16], [32, 12]] };
        let min_blocks = if is_flat { 3 } else { 1 };
        let with = |&tile: &[usize; 2]| Self { tile, min_blocks, shared_bytes: shared_numbers(tile, has_shift) * size };
        tiles.iter().map(with).find(|block| block.shared_bytes + STATIC_BYTES <= shared_memory)
    }

    fn threads(&self) -> usize {
        self.tile[0] * self.tile[1]
    }

    /// Returns the number of tiles of a grid.
    fn tiles(&self, Shape { nx, nz, .. }: Shape) -> usize {
        let x = nx.div_ceil(2).saturating_sub(HALO).div_ceil(self.tile[0] - HALO).max(1);
        // The first tile has two more valid layers.
        if nz == 1 { x } else { x * (nz - 2).div_ceil(self.tile[1] - 2 * HALO_LAYERS).max(1) }
    }

    /// Returns the rows of a segment, an even number: such that the blocks resident at once process as few rows in sequence as possible.
    fn length(tiles: usize, rows: usize, resident: usize) -> usize {
        /// Shorter segments do not pay, because of the rows computed twice.
        const MOST_SEGMENTS: usize = 64;
        let length = |segments: usize| rows.div_ceil(segments).next_multiple_of(2);
        let cost = |segments: usize| (tiles * segments).div_ceil(resident.max(1)) * (length(segments) + 2 * HALO);
        let segments = (1..=MOST_SEGMENTS.min(rows)).min_by_key(|&segments| cost(segments));
        length(segments.unwrap_or(1))
    }
}

/// Returns the numbers in the kernels' `Shared`.
fn shared_numbers([lanes, depth]: [usize; 2], has_shift: bool) -> usize {
    /// Rows of u being loaded, and rows of f and the shift, which are kept.
    const U_ROWS: usize = 3;
    const F_ROWS: usize = 6;
    let left = 2 * (STAGES + 1) + 1;
    let rows = left + 3 + 2 * (U_ROWS + F_ROWS) + if has_shift { 2 * F_ROWS } else { 0 };
    // Weights in x, and an unused shift.
    rows * lanes * depth + 4 * lanes + 2
}

/// The kernels of streamed passes.
pub(in crate::seven_point) const STREAMED: &[&str] =
    &["relax_restrict", "relax_zero_restrict", "prolong_relax", "prolong_relax_norm"];

/// A kernel with suitable segments.
#[derive(Clone, Debug)]
struct Pass {
    kernel: Kernel,
    length: usize,
    segments: usize,
}

/// Streamed passes of red–black relaxation, ready to be launched.
#[derive(Debug)]
pub(super) struct Streamed {
    block: Block,
    tiles: usize,
    /// From u, and from zero.
    down: [Pass; 2],
    /// Without the norm, and with it.
    up: [Pass; 2],
    reduction: Reduction,
}

impl<K: Kind> Form<K> {
    fn block_of_colours<T: Real>(&self, shared_memory: usize) -> Option<Block> {
        Block::new(self.flat, self.kind.has_shift(), size_of::<T>(), shared_memory)
    }

    fn colours_streamed<T: Real>(&self, block: Block) -> Source {
        self.source::<T>("seven_point_colours_streamed", kernels::COLOURS_STREAMED)
            .define("LANES", block.tile[0])
            .define("DEPTH", block.tile[1])
            .define("MIN_BLOCKS", block.min_blocks)
    }

    /// Returns the source for compile tests, if there is such a pass.
    pub(in crate::seven_point) fn colours_streamed_source<T: Real>(&self) -> Option<Source> {
        let block = self.block_of_colours::<T>(usize::MAX)?;
        (self.kind.periodic() == 0).then(|| self.colours_streamed::<T>(block))
    }
}

/// A level to be relaxed.
pub(crate) struct Level<'a, T: Real> {
    /// `Halving` of halving.cuh.
    pub(crate) halving: Arguments,
    pub(crate) rho: f64,
    pub(crate) first: Colour,
    pub(crate) f: &'a Vector<T>,
    /// Swapped with `scratch`.
    pub(crate) u: &'a mut Vector<T>,
    pub(crate) scratch: &'a mut Vector<T>,
}

impl<K: Kind, T: Real> Passes<K, T> {
    /// Returns the block of streamed passes; `None` if the grid is not suitable, for any coefficients.
    fn block_of_colours(&self) -> Option<Block> {
        self.block_of_colours_in::<T>()
    }

    /// Returns the block for another number type.
    fn block_of_colours_in<C: Real>(&self) -> Option<Block> {
        let Shape { nx, ny, nz } = self.layout().shape();
        let is_large = nx * ny * nz >= FEWEST_CELLS[usize::from(nz > 1)]
            && nx >= FEWEST
            && ny >= FEWEST
            && (nz == 1 || nz >= FEWEST);
        let is_whole = self.layout().halo() == [0, 0];
        if !is_large || !is_whole || self.form.kind.periodic() != 0 {
            return None;
        }
        self.form.block_of_colours::<C>(self.cuda().context().shared_memory)
    }

    /// Returns the source of streamed passes in a number type, if they may be used.
    pub(in crate::seven_point) fn streamed_source<C: Real>(&self) -> Option<Source> {
        self.block_of_colours_in::<C>().map(|block| self.form.colours_streamed::<C>(block))
    }

    /// Returns whether relaxation may be streamed, which needs one more vector.
    pub(crate) fn may_stream_colours(&self) -> bool {
        self.block_of_colours().is_some()
    }

    /// Prepares streamed passes; returns whether they may be used.
    pub(crate) fn prepare_streamed_colours(&self) -> Result<bool> {
        let Some(block) = self.block_of_colours() else { return Ok(false) };
        let streamed = &self.prepare_colours()?.streamed;
        if streamed.get().is_some() {
            return Ok(true);
        }
        let shape = self.layout().shape();
        let module = self.cuda().module(self.form.colours_streamed::<T>(block));
        let tiles = block.tiles(shape);
        module.prepare(STREAMED, block.shared_bytes)?;
        let pass = |name| {
            let kernel = module.kernel_with(name, block.shared_bytes)?;
            let resident = module.resident_blocks(&kernel, block.threads(), block.shared_bytes)?;
            let length = Block::length(tiles, shape.ny, resident);
            Ok::<_, Error>(Pass { kernel, length, segments: shape.ny.div_ceil(length) })
        };
        let down = [pass("relax_restrict")?, pass("relax_zero_restrict")?];
        let up = [pass("prolong_relax")?, pass("prolong_relax_norm")?];
        let reduction = Reduction::new(self.cuda().context(), tiles * up[1].segments)?;
        streamed.get_or_init(|| Streamed { block, tiles, down, up, reduction });
        Ok(true)
    }

    /// Returns the passes if all cells have equal coefficients.
    fn streamed_colours(&self) -> Result<Option<&Streamed>> {
        Ok(self.colours()?.streamed.get().filter(|_| self.is_even()))
    }

    fn launch_streamed_colours(
        &self,
        streamed: &Streamed,
        pass: &Pass,
        level: &Level<'_, T>,
        vectors: &[Pointer],
        norm: Option<Pointer>,
    ) -> Result<()> {
        let Streamed { block, tiles, ref reduction, .. } = *streamed;
        let arguments = self.cell_arguments(level.halving.clone())?.with(pass.length as i32).with(level.first as i32);
        let arguments = arguments.with_real::<T>(level.rho).with(level.f.pointer());
        let arguments = vectors.iter().fold(arguments, |all, &vector| all.with(vector));
        let arguments = match norm {
            Some(norm) => reduction.append(arguments, tiles * pass.segments, norm),
            None => arguments,
        };
        self.cuda().submit(Launch {
            kernel: pass.kernel.clone(),
            grid: [tiles as u32, pass.segments as u32, 1],
            block: [block.threads() as u32, 1],
            shared_bytes: block.shared_bytes as u32,
            arguments,
        })
    }

    /// Does a sweep of both colours and then f_c = R (f − A u) in one pass; returns whether it was possible.
    pub(crate) fn relax_restrict(&self, guess: Guess, level: Level<'_, T>, coarse_f: &mut Vector<T>) -> Result<bool> {
        let Some(streamed) = self.streamed_colours()? else { return Ok(false) };
        let [given, zero] = &streamed.down;
        let [u, v, to] = [level.u.pointer(), level.scratch.pointer(), coarse_f.pointer()];
        match guess {
            Guess::Given => self.launch_streamed_colours(streamed, given, &level, &[u, v, to], None)?,
            Guess::Zero => self.launch_streamed_colours(streamed, zero, &level, &[v, to], None)?,
        }
        let Level { u, scratch, .. } = level;
        u.swap(scratch);
        Ok(true)
    }

    /// Does u += P u_c, then a sweep of both colours, then, if requested, ‖f − A u‖², in one pass; returns whether it was possible.
    pub(crate) fn prolong_relax(
        &self,
        level: Level<'_, T>,
        coarse_u: &Vector<T>,
        norm: Option<(Scalar, &Scalars)>,
    ) -> Result<bool> {
        let Some(streamed) = self.streamed_colours()? else { return Ok(false) };
        let [plain, with_norm] = &streamed.up;
        let vectors = [coarse_u.pointer(), level.u.pointer(), level.scratch.pointer()];
        let (pass, norm) = match norm {
            Some((norm, scalars)) => (with_norm, Some(scalars.pointer(norm))),
            None => (plain, None),
        };
        self.launch_streamed_colours(streamed, pass, &level, &vectors, norm)?;
        let Level { u, scratch, .. } = level;
        u.swap(scratch);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_leave_every_cell_once() {
        for shape in
            [Shape::new(8192, 8192, 1), Shape::new(497, 40, 1), Shape::new(512, 512, 512), Shape::new(65, 64, 61)]
        {
            let block = Block::new(shape.nz == 1, false, 8, 227 << 10).unwrap();
            let z = if shape.nz == 1 { 1 } else { (shape.nz - 2).div_ceil(block.tile[1] - 6) };
            let x = block.tiles(shape) / z;
            // The last tile's valid cells end with the grid or beyond it, and those of the previous tile do not.
            let pairs = shape.nx.div_ceil(2);
            assert!(
                x * (block.tile[0] - HALO) + HALO >= pairs
                    && (x == 1 || (x - 1) * (block.tile[0] - HALO) + HALO < pairs)
            );
            if shape.nz > 1 {
                let end = |tiles: usize| (tiles - 1) * (block.tile[1] - 6) + block.tile[1] - 4;
                assert!(end(z) >= shape.nz && (z == 1 || end(z - 1) < shape.nz));
            }
        }
    }

    #[test]
    fn blocks_fit() {
        // 29 rows of 1024 numbers do not fit on an Ampere GPU.
        let tile = |has_shift, shared_memory| Block::new(false, has_shift, 8, shared_memory).map(|block| block.tile);
        assert_eq!(tile(false, 227 << 10), Some([32, 32]));
        assert_eq!(tile(true, 227 << 10), Some([32, 20]));
        assert_eq!((tile(false, 163 << 10), tile(false, 48 << 10)), (Some([32, 20]), None));
    }

    #[test]
    fn segments_are_even() {
        assert!((1..300).all(|rows| Block::length(17, rows, 264).is_multiple_of(2)));
        // 527 blocks in two waves of 264.
        assert_eq!(Block::length(17, 8192, 264), 266);
    }
}
