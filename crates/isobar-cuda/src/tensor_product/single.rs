//! Expansion in vertical modes and line sweeps in single precision, before the last sweep of a grid in double precision. The recurrences
//! are above the kernels in `single.cu`.
//!
//! Both the rounded right-hand side and the rounded u are stored in the memory of u: in each half plane, u takes the first half of the
//! bytes, and the right-hand side the second.

use std::sync::Arc;

use isobar_core::prelude::{Colour, Real, Result, VerticalModes};

use super::expand::{ExpandSweep, Modes, numbers, sweep_source};
use super::tables::Tables;
use super::tile::Tile;
use super::{Streaming, TensorProduct, segments};
use crate::kernels::tensor_product as kernels;
use crate::{Arguments, Buffer, Launch, Module, Pointer, Source, Vector};

/// Returns the sources for columns with this tile in double precision: sweeps in single precision, the last half sweep,
/// and expansion with a half sweep.
pub fn sources(tile: Tile, layers: usize, count: usize) -> [Source; 3] {
    let single = tile.in_single();
    [
        single.of_lines::<f32>(layers, "tensor_product_single", kernels::SINGLE, 256).define("SINGLE", 1),
        tile.of_lines::<f64>(layers, "tensor_product_single", kernels::SINGLE, 384).define("SINGLE", 0),
        sweep_source::<f32, f32>(single, layers, count).define("ROOM", 2),
    ]
}

/// The streaming kernels.
#[derive(Debug)]
struct Sweep {
    module: Arc<Module>,
    name: &'static str,
    tile: Tile,
    streaming: Streaming,
}

impl Sweep {
    fn new<K: Real, T: Real>(
        kernels: &TensorProduct<K>,
        module: Arc<Module>,
        name: &'static str,
        tile: Tile,
    ) -> Result<Self> {
        let shape = kernels.layout.shape();
        let shared_bytes = tile.stream_bytes::<T, f32>(shape.nz);
        let kernel = module.kernel_with(name, shared_bytes)?;
        let resident = module.resident_blocks(&kernel, tile.threads(), shared_bytes)?;
        let strips = kernels.layout.pitch().div_ceil(tile.lanes);
        let streaming = Streaming { segments: segments(shape.ny, strips, resident), shared_bytes };
        Ok(Self { module, name, tile, streaming })
    }

    fn launch<T: Real>(&self, kernels: &TensorProduct<T>, arguments: Arguments) -> Result<()> {
        let Streaming { segments, shared_bytes } = self.streaming;
        let strips = kernels.layout.pitch().div_ceil(self.tile.lanes);
        kernels.cuda.submit(Launch {
            kernel: self.module.kernel_with(self.name, shared_bytes)?,
            grid: [strips as u32, segments as u32, 1],
            block: [self.tile.threads() as u32, 1],
            shared_bytes: shared_bytes as u32,
            arguments,
        })
    }
}

/// The sweeps before the last.
#[derive(Debug)]
pub(super) struct SingleSweeps {
    /// The operator's tables, rounded.
    tables: Tables,
    /// s_m(k) at m + count · k.
    modes: Buffer,
    count: usize,
    expand: ExpandSweep,
    sweep: Sweep,
    last: Sweep,
}

impl SingleSweeps {
    /// Returns `None` unless sweeps stream and rows and modes fit into a block. Tables are set by [`SingleSweeps::update`].
    pub(super) fn new<T: Real>(kernels: &TensorProduct<T>, count: usize) -> Result<Option<Self>> {
        let (cuda, layout, tile) = (&kernels.cuda, &kernels.layout, kernels.tile);
        let (layers, single) = (layout.shape().nz, tile.in_single());
        // Upper bound of the kernel's static shared memory.
        const STATIC: usize = 1024;
        if !kernels.streams || single.stream_bytes::<f32, f32>(layers) + STATIC > cuda.context().shared_memory {
            return Ok(None);
        }
        let [sweep, last, expand] = sources(tile, layers, count);
        let Some(expand) = ExpandSweep::new::<f32>(cuda, layout, single, expand, count)? else { return Ok(None) };
        let [sweep, last] = [sweep, last].map(|source| cuda.module(source));
        Ok(Some(Self {
            tables: kernels.tables.in_single(cuda)?,
            modes: Buffer::new(cuda.context(), count * layers * size_of::<f32>(), "vertical modes")?,
            count,
            expand,
            sweep: Sweep::new::<_, f32>(kernels, sweep, "line_sweep", single)?,
            last: Sweep::new::<_, f64>(kernels, last, "line_sweep_rounded", tile)?,
        }))
    }

    /// Copies the operator's coefficients, and other modes.
    pub(super) fn update<T: Real>(&self, kernels: &TensorProduct<T>, modes: &VerticalModes) -> Result<()> {
        self.tables.round(&kernels.cuda, &kernels.tables)?;
        self.modes.write(&numbers::<f32>(modes, self.count))
    }

    /// Computes u = Σ s_m x_m, then sweeps with the rounded right-hand side stored in the memory of u.
    pub(super) fn expand_and_sweep<T: Real, C: Real>(
        &self,
        kernels: &TensorProduct<T>,
        first: Colour,
        sweeps: usize,
        x: &Vector<C>,
        u: &Vector<T>,
    ) -> Result<()> {
        let count = self.count as i32;
        let modes = Modes { values: self.modes.start(), first: 0, all: count, stride: count, unused: 0 };
        let half_plane = (kernels.layout.half_plane() * size_of::<f32>()) as Pointer;
        let f_u = [u.pointer() + half_plane, u.pointer()];
        self.expand.launch(&kernels.cuda, self.tables.operator, modes, first, x, f_u)?;
        let half = |colour: Colour| {
            let arguments = Arguments::new().with(self.tables.operator).with(colour as i32).with(u.pointer());
            self.sweep.launch(kernels, arguments)
        };
        half(first.other())?;
        (1..sweeps).try_for_each(|_| {
            half(first)?;
            half(first.other())
        })
    }

    /// Does the first half of the last sweep, with one colour in double precision; the other colour follows from it.
    pub(super) fn last_half<T: Real>(
        &self,
        kernels: &TensorProduct<T>,
        colour: Colour,
        f: &Vector<T>,
        u: &Vector<T>,
    ) -> Result<()> {
        let arguments = kernels.arguments().with(colour as i32).with(f.pointer()).with(u.pointer());
        self.last.launch(kernels, arguments)
    }
}
