//! Red–black relaxation in one pass over memory, fused with the steps of multigrid before and after it: see
//! `kernels/seven_point/colours_streamed.cu`.

use isobar_core::prelude::{Colour, Error, Guess, Real, Result, Scalar, Shape};

use super::kernels::{Block, Pass, STREAMED, Streamed};
use crate::seven_point::Kernels;
use crate::seven_point::passes::Passes;
use crate::{Arguments, Launch, Pointer, Reduction, Scalars, Source, Vector};

/// Smallest flat grid, and smallest grid with layers, for which a pass is faster than separate launches. In cells.
const FEWEST_CELLS: [usize; 2] = [1 << 21, 1 << 24];
/// Smallest extent in each direction, so that tiles do not consist mostly of overlap.
const FEWEST: usize = 64;
/// A level to be relaxed.
pub(crate) struct Level<'a, T: Real> {
    /// `Halving` of halving.cuh.
    pub(crate) halving: Arguments,
    pub(crate) rho: f64,
    pub(crate) first: Colour,
    pub(crate) f: &'a Vector<T>,
    /// The solution, which is swapped with `scratch`.
    pub(crate) u: &'a mut Vector<T>,
    pub(crate) scratch: &'a mut Vector<T>,
}

impl<T: Real> Passes<T> {
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
    pub(crate) fn streamed_source<C: Real>(&self) -> Option<Source> {
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
