//! Sweeps over the whole grid in the order of unknowns, each one launch of a wave of tiles: `kernels/seven_point/waves.cuh`.

use std::sync::{Arc, OnceLock};

use isobar_core::error::Result;
use isobar_core::layout::Shape;
use isobar_core::real::Real;

use super::kind::{Form, Kind};
use crate::compile::Source;
use crate::cuda::Cuda;
use crate::driver::Pointer;
use crate::kernels::seven_point::WHOLE_GRID;
use crate::launch::Arguments;
use crate::memory::Buffer;
use crate::module::Module;
use crate::reduction::Reduction;

/// Rows of a tile that follow each other, a warp each.
const WARPS: usize = 8;
/// Steps after which a tile says how far it is.
const STEPS: usize = 4;
/// Pairs of cells along x that a lane has.
const PAIRS: usize = 1;

/// Sweeps over one grid.
#[derive(Debug)]
pub(super) struct WholeGrid {
    module: Arc<Module>,
    tiles: usize,
    /// What the tiles say of how far they are; zero between launches.
    progress: OnceLock<Buffer>,
    reduction: OnceLock<Reduction>,
}

/// The direction in which warps march, y or z: the longer one, as each has to wait for its turn in the other.
fn march(shape: Shape) -> u32 {
    if shape.nz > shape.ny { 2 } else { 1 }
}

impl<K: Kind> Form<K> {
    /// For a grid of this shape.
    pub(super) fn whole_grid<T: Real>(&self, shape: Shape) -> Source {
        self.source::<T>("seven_point_whole_grid", WHOLE_GRID)
            .define("MARCH", march(shape))
            .define("PAIRS", PAIRS)
            .define("WARPS", WARPS)
            .define("STEPS", STEPS)
    }
}

impl WholeGrid {
    /// Nothing is compiled or allocated before the first sweep.
    pub(super) fn new<K: Kind, T: Real>(cuda: &Cuda, form: &Form<K>, shape: Shape) -> Self {
        let chain = if march(shape) == 2 { shape.ny } else { shape.nz };
        Self {
            module: cuda.module(form.whole_grid::<T>(shape)),
            tiles: shape.nx.div_ceil(64 * PAIRS) * chain.div_ceil(WARPS),
            progress: OnceLock::new(),
            reduction: OnceLock::new(),
        }
    }

    /// A sweep of a kernel whose first arguments are a stencil's operands and `progress`; `sums` is where those go that it adds up.
    pub(super) fn sweep(
        &self,
        cuda: &Cuda,
        name: &'static str,
        operands: Arguments,
        more: impl FnOnce(Arguments) -> Arguments,
        sums: Option<Pointer>,
    ) -> Result<()> {
        let progress = match self.progress.get() {
            Some(progress) => progress,
            None => {
                let bytes = (self.tiles + 2) * size_of::<i32>();
                let made = Buffer::zeros(cuda.context(), bytes, "the progress of tiles")?;
                self.progress.get_or_init(|| made)
            }
        };
        let mut arguments = more(operands.with(progress.start()));
        if let Some(sums) = sums {
            let reduction = match self.reduction.get() {
                Some(reduction) => reduction,
                None => {
                    let made = Reduction::new(cuda.context(), self.tiles)?;
                    self.reduction.get_or_init(|| made)
                }
            };
            arguments = reduction.append(arguments, self.tiles, sums);
        }
        cuda.launch(self.module.kernel(name)?, [self.tiles, 1, 1], [32 * (WARPS + 1), 1], arguments)
    }
}
