//! Red–black point relaxation: see `kernels/seven_point/colours.cu`.
//!
//! * `kernels`: their names, blocks and sources,
//! * `streamed`: a sweep fused with the steps before and after it in one pass, if all cells have equal coefficients.

pub(super) mod kernels;
mod streamed;

use std::sync::OnceLock;

use isobar_core::prelude::{Backend, Colour, Error, Guess, Real, Result, Shape, get_or_make};

use self::kernels::{COLOURS, Colours};
pub(crate) use self::streamed::Level;
use super::Kernels;
use super::passes::Passes;
use crate::launch::refuse_while_recording;
use crate::{Arguments, Pointer, Reduction, Source, Sum, Vector};

/// Largest number of rows per thread.
const LONGEST_MARCH: usize = 8;

/// Returns the blocks for a grid of cells per row, rows and layers, with `march` rows per thread.
pub(crate) fn cell_blocks(columns: usize, ny: usize, nz: usize, march: usize) -> [usize; 3] {
    let x = columns.div_ceil(32);
    if nz == 1 { [x, ny.div_ceil(8 * march), 1] } else { [x, nz.div_ceil(8), ny.div_ceil(march)] }
}

/// Returns the longest march that gives the GPU enough blocks.
pub(crate) fn march(Shape { nx, ny, nz }: Shape, multiprocessors: usize) -> usize {
    let is_enough = |march: &usize| {
        cell_blocks(nx.div_ceil(2), ny, nz, *march).into_iter().product::<usize>() >= 8 * multiprocessors
    };
    std::iter::successors(Some(LONGEST_MARCH), |march| (*march > 1).then_some(march / 2)).find(is_enough).unwrap_or(1)
}

impl<T: Real> Passes<T> {
    /// Prepares red–black relaxation.
    pub(crate) fn prepare_colours(&self) -> Result<&Colours> {
        get_or_make(&self.colours, || {
            refuse_while_recording("preparing relaxation by colour")?;
            let (cuda, shape) = (self.cuda(), self.layout().shape());
            let context = cuda.context();
            let module = cuda.module(self.form.colours::<T>());
            module.prepare(COLOURS, 0)?;
            let march = march(shape, context.multiprocessors);
            let blocks = cell_blocks(shape.nx.div_ceil(2), shape.ny, shape.nz, march).into_iter().product();
            let reduction = Reduction::new(context, blocks)?;
            self.prepare_looks()?;
            Ok(Colours { module, reduction, march, streamed: OnceLock::new() })
        })
    }

    /// Returns the source of cycles on levels like this, and smaller ones.
    pub(crate) fn small_colours(&self) -> Source {
        self.form.small_colours::<T>()
    }

    /// Returns whether it was prepared.
    pub(crate) fn has_colours(&self) -> bool {
        self.colours.get().is_some()
    }

    fn colours(&self) -> Result<&Colours> {
        self.colours.get().ok_or_else(|| Error::Unsupported("relaxation by colour was not prepared".into()))
    }

    fn launch_cells(&self, name: &'static str, arguments: Arguments) -> Result<()> {
        let Colours { module, march, .. } = self.colours()?;
        let Shape { nx, ny, nz } = self.layout().shape();
        self.cuda().launch(module.kernel(name)?, cell_blocks(nx.div_ceil(2), ny, nz, *march), [32, 8], arguments)
    }

    /// Returns the first arguments of kernels that use the matrix.
    fn cell_arguments(&self, before: Arguments) -> Result<Arguments> {
        Ok(before.with(*self.operands()).with(self.prepare_looks()?.even()))
    }

    /// Relaxes both colours, one after the other.
    pub(super) fn sweep_colours(
        &self,
        rho: f64,
        first: Colour,
        guess: Guess,
        f: &Vector<T>,
        u: &mut Vector<T>,
    ) -> Result<()> {
        let march = self.colours()?.march as i32;
        let names = match guess {
            Guess::Given => ["sweep_cells"; 2],
            Guess::Zero => ["sweep_cells_zero", "sweep_cells_own_zero"],
        };
        for (name, colour) in names.into_iter().zip([first, first.other()]) {
            if guess == Guess::Given || colour != first {
                // Cells of one colour are in columns of both colours, alternating by layer.
                self.cuda().fill(u, &Colour::BOTH)?;
            }
            let arguments = self.cell_arguments(Arguments::new())?.with(march).with(colour as i32).with_real::<T>(rho);
            self.launch_cells(name, arguments.with(f.pointer()).with(u.pointer()))?;
        }
        Ok(())
    }

    /// Computes r = f − A u in single precision, if requested, and ‖f − A u‖².
    pub(crate) fn norm_of_cells(
        &self,
        f: &Vector<T>,
        u: &Vector<T>,
        r: Option<&mut Vector<f32>>,
        (norm, scalars): Sum<'_>,
    ) -> Result<()> {
        let Colours { march, reduction, .. } = self.colours()?;
        let Shape { nx, ny, nz } = self.layout().shape();
        let blocks = cell_blocks(nx.div_ceil(2), ny, nz, *march).into_iter().product();
        let arguments = self.cell_arguments(Arguments::new())?.with(*march as i32).with(f.pointer()).with(u.pointer());
        let arguments = arguments.with(r.map_or(0, |r| r.pointer()));
        self.launch_cells("norm_cells", reduction.append(arguments, blocks, scalars.pointer(norm)))
    }

    /// Launches a kernel on a grid of cells per row, rows and layers; its first argument is a coarsening.
    pub(crate) fn launch_halving(&self, name: &'static str, grid: [usize; 3], arguments: Arguments) -> Result<()> {
        self.cuda().launch(self.colours()?.module.kernel(name)?, grid, [32, 8], arguments)
    }

    /// Launches a restriction of this matrix's residual: a coarsening, the matrix, f and u, and the result.
    pub(crate) fn launch_restriction(&self, grid: [usize; 3], halving: Arguments, vectors: [Pointer; 3]) -> Result<()> {
        let arguments = vectors.iter().fold(self.cell_arguments(halving)?, |all, &vector| all.with(vector));
        self.launch_halving("restrict_cells", grid, arguments)
    }

    /// Returns the rows per thread.
    pub(crate) fn march(&self) -> Result<usize> {
        Ok(self.colours()?.march)
    }
}
