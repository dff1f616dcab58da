//! Expansion in vertical modes, fused with the next half sweep. The recurrence is above the kernel in `expand_sweep.cu`.

use std::sync::Arc;

use isobar_core::prelude::{Colour, Layout, Real, Result, VerticalModes};

use super::tables::Operator;
use super::tile::Tile;
use crate::kernels::tensor_product as kernels;
use crate::vector::c_name;
use crate::{Arguments, Cuda, Launch, Module, Pointer, Source, Vector, argument};

argument! {
    /// `Modes` of modes.cu.
    pub(super) struct Modes {
        pub(super) values: Pointer,
        pub(super) first: i32,
        pub(super) all: i32,
        pub(super) stride: i32,
        pub(super) unused: i32,
    }
}

/// Largest number of modes per launch: a thread has registers for this many sums.
pub(super) const MOST_TOGETHER: usize = 32;

/// Returns the specialised source of expansion with a half sweep.
pub fn sweep_source<T: Real, C: Real>(tile: Tile, layers: usize, count: usize) -> Source {
    tile.of_lines::<T>(layers, "tensor_product_expand_sweep", kernels::EXPAND_SWEEP, 256)
        .define("MODE_REAL", c_name::<C>())
        .define("COUNT", count)
}

/// Expansion fused with the next half sweep.
#[derive(Debug)]
pub(super) struct ExpandSweep {
    module: Arc<Module>,
    tile: Tile,
    blocks: usize,
    shared_bytes: usize,
}

impl ExpandSweep {
    /// Returns `None` unless one launch handles all modes, the grid is not divided, and the modes fit into shared memory.
    pub(super) fn new<T: Real>(
        cuda: &Cuda,
        layout: &Layout,
        tile: Tile,
        source: Source,
        count: usize,
    ) -> Result<Option<Self>> {
        let shared_bytes = count.next_multiple_of(2) * (tile.layers() + tile.lanes) * size_of::<T>();
        // The kernel's static shared memory.
        let scratch = 4 * tile.threads() * size_of::<T>();
        let fits = shared_bytes + scratch <= cuda.context().shared_memory;
        if !fits || count > MOST_TOGETHER || layout.halo() != [0, 0] {
            return Ok(None);
        }
        let module = cuda.module(source);
        let kernel = module.kernel_with("expand_sweep", shared_bytes)?;
        let resident = module.resident_blocks(&kernel, tile.threads(), shared_bytes)?;
        let blocks = resident.min(layout.pitch().div_ceil(tile.lanes) * layout.shape().ny);
        Ok(Some(Self { module, tile, blocks, shared_bytes }))
    }

    /// Sweeps one colour of u = Σ s_m x_m. The other colour is old until it is swept.
    pub(super) fn launch<C: Real>(
        &self,
        cuda: &Cuda,
        operator: Operator,
        modes: Modes,
        colour: Colour,
        x: &Vector<C>,
        f_u: [Pointer; 2],
    ) -> Result<()> {
        let arguments = Arguments::new().with(operator).with(modes).with(colour as i32).with(x.pointer());
        cuda.submit(Launch {
            kernel: self.module.kernel_with("expand_sweep", self.shared_bytes)?,
            grid: [self.blocks as u32, 1, 1],
            block: [self.tile.threads() as u32, 1],
            shared_bytes: self.shared_bytes as u32,
            arguments: arguments.with(f_u[0]).with(f_u[1]),
        })
    }
}

/// Returns s_m(k) at m + stride · k, padded with zeros.
pub(super) fn numbers<T: Real>(modes: &VerticalModes, stride: usize) -> Vec<T> {
    let mut numbers = vec![T::ZERO; stride * modes.layers()];
    for m in 0..modes.count() {
        for (k, &s) in modes.vector(m).iter().enumerate() {
            numbers[m + stride * k] = T::from_f64(s);
        }
    }
    numbers
}
