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
const STEPS: usize = 2;
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
        cuda.launch(self.module.kernel(name)?, [self.tiles, 1, 1], [32 * (WARPS + 2), 1], arguments)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{STEPS, WARPS};

    /// Rows that are loaded in advance.
    const AHEAD: usize = 2;

    /// The rules of waves.cuh: tiles of `chunks` in x and of WARPS of `layers`, of which so many are at work at once, in an order
    /// that `seed` decides. A row is its chunk, its position in the direction of the chain, and in that of the march.
    struct Waves {
        chunks: usize,
        layers: usize,
        rows: usize,
        seed: u64,
    }

    impl Waves {
        fn random(&mut self, below: usize) -> usize {
            self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.seed >> 33) as usize % below
        }

        /// Takes a tile's steps up to the next report. Fails where a row is used that is not there.
        fn advance(&self, tile: usize, from: usize, to: usize, there: &mut HashSet<[usize; 3]>) {
            let Self { chunks, layers, rows, .. } = *self;
            let (chunk, group) = (tile % chunks, tile / chunks);
            let first = if from == 0 { -(AHEAD as isize) } else { from as isize };
            for step in first..to as isize {
                let mut done = Vec::new();
                for warp in (0..WARPS).filter(|warp| group * WARPS + warp < layers) {
                    let chain = group * WARPS + warp;
                    let row_of = |step: isize| usize::try_from(step - warp as isize).ok().filter(|row| *row < rows);
                    let uses =
                        |chunk, chain, row| assert!(there.contains(&[chunk, chain, row]), "{tile} {step} {warp}");
                    if let Some(next) = row_of(step + AHEAD as isize) {
                        if chunk > 0 {
                            uses(chunk - 1, chain, next);
                            uses(0, chain, next);
                        }
                        if warp == 0 && group > 0 {
                            uses(chunk, chain - 1, next);
                        }
                    }
                    if let Some(now) = row_of(step) {
                        if chain > 0 {
                            uses(chunk, chain - 1, now);
                            uses(chunk, 0, now);
                        }
                        if now > 0 {
                            uses(chunk, chain, now - 1);
                            uses(chunk, chain, 0);
                        }
                        done.push([chunk, chain, now]);
                    }
                }
                there.extend(done);
            }
        }

        fn run(&mut self, resident: usize) {
            let (tiles, total) = (self.chunks * self.layers.div_ceil(WARPS), self.rows + WARPS - 1);
            let (mut taken, mut at_work, mut next) = (vec![0; tiles], Vec::new(), 0);
            let mut there = HashSet::new();
            loop {
                while at_work.len() < resident && next < tiles {
                    at_work.push(next);
                    next += 1;
                }
                let may_go_on = |tile: &usize| {
                    let to = (taken[*tile] + STEPS).min(total);
                    let (before_in_x, before_in_chain) = ((to + AHEAD).min(total), (to + AHEAD + WARPS - 1).min(total));
                    (tile.is_multiple_of(self.chunks) || taken[tile - 1] >= before_in_x)
                        && (*tile < self.chunks || taken[tile - self.chunks] >= before_in_chain)
                };
                let ready: Vec<usize> = at_work.iter().copied().filter(may_go_on).collect();
                if at_work.is_empty() {
                    break;
                }
                assert!(!ready.is_empty(), "all wait");
                let tile = ready[self.random(ready.len())];
                let to = (taken[tile] + STEPS).min(total);
                self.advance(tile, taken[tile], to, &mut there);
                taken[tile] = to;
                at_work.retain(|&tile| taken[tile] < total);
            }
            assert_eq!(there.len(), self.chunks * self.layers * self.rows);
        }
    }

    #[test]
    fn tiles_wait_for_those_before_them_and_for_no_others() {
        for chunks in [1, 2, 5] {
            for layers in [1, 2, 7, 8, 9, 17, 40] {
                for rows in [1, 2, 3, 4, 5, 9, 31] {
                    for resident in [1, 2, 3, 1000] {
                        Waves { chunks, layers, rows, seed: (layers * rows + resident) as u64 }.run(resident);
                    }
                }
            }
        }
    }
}
