//! Multigrid in few launches for operators without vertical couplings, such as those of vertical modes. The recurrences
//! are above the kernels in `planes.cu`.

use std::sync::Arc;

use isobar_core::prelude::{Layout, Real, Result, Shape};

use crate::kernels::tensor_product as kernels;
use crate::vector::c_name;
use crate::{Cuda, Module, Source};

/// `MX` of planes.cu.
const COLUMNS: usize = 32;
/// `TY` of planes.cu.
const ROWS: usize = 16;
/// `Around::THREADS` of a sweep with restriction, and of one with prolongation.
pub(super) const THREADS: [usize; 2] = [800, 704];
/// `MOST_LAYERS` of planes.cu.
const MOST_LAYERS: usize = 64;

/// Returns the specialised source.
pub fn source<T: Real>(is_odd: bool) -> Source {
    Source::new("tensor_product_planes", kernels::PLANES).define("REAL", c_name::<T>()).define("ODD", u32::from(is_odd))
}

pub(super) fn is_odd(shape: Shape) -> bool {
    !shape.nx.is_multiple_of(2) || !shape.ny.is_multiple_of(2)
}

/// The kernels for one grid.
#[derive(Debug)]
pub(super) struct Planes {
    pub(super) module: Arc<Module>,
    pub(super) grid: [usize; 3],
    /// Layers per block.
    pub(super) layers: usize,
}

impl Planes {
    pub(super) fn new<T: Real>(cuda: &Cuda, layout: &Layout) -> Result<Self> {
        let Shape { ny, nz, .. } = layout.shape();
        let [x, y] = [layout.pitch().div_ceil(COLUMNS), ny.div_ceil(ROWS)];
        // A block fills a multiprocessor.
        let runs = (cuda.context().multiprocessors / (x * y)).clamp(1, nz);
        let layers = nz.div_ceil(runs).min(MOST_LAYERS);
        let module = cuda.module(source::<T>(is_odd(layout.shape())));
        Ok(Self { module, grid: [x, y, nz.div_ceil(layers)], layers })
    }

    pub(super) fn prepare(&self) -> Result<()> {
        self.module.prepare(&["sweep_restrict_zero", "sweep_restrict_given", "prolong_sweep"], 0)
    }
}
