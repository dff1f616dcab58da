//! The sources that are compiled for a stencil on a grid.

use isobar_core::layout::ROW_ALIGNMENT;
use isobar_core::prelude::{Real, Shape};

use super::lines::{LINE_ROWS, LineTile, MOST_CHUNKS, SweepTile};
use crate::Source;
use crate::diffusion::Kind;
use crate::halving::THREADS;
use crate::kernels::seven_point as kernels;
use crate::vector::c_name;

/// Warps per block of passes along y.
pub(super) const ROWS: usize = 8;

/// The compile-time properties of a stencil on a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) kind: Kind,
    /// Whether there is one layer.
    pub(super) flat: bool,
    /// Whether positions in vectors exceed 32 bits.
    pub(super) wide: bool,
}

impl Form {
    pub(super) fn new(kind: Kind, shape: Shape) -> Self {
        let Shape { nx, ny, nz } = shape;
        // Padding may make vectors this much longer, and prefetches reach a few rows beyond.
        let wide = (nx + 2 * ROW_ALIGNMENT) * (ny + 8) * (nz + 8) > 1 << 31;
        Self { kind, flat: nz == 1, wide }
    }

    pub(super) fn source<T: Real>(&self, name: &'static str, text: &'static str) -> Source {
        let source = Source::new(name, text)
            .define("REAL", c_name::<T>())
            .define("STENCIL", "\"diffusion.cuh\"")
            .define("PERIODIC", self.kind.periodic())
            .define("FLAT", u32::from(self.flat))
            .define("WIDE", u32::from(self.wide));
        self.kind.define(source)
    }

    pub(super) fn passes<T: Real>(&self) -> Source {
        self.source::<T>("seven_point_passes", kernels::PASSES)
            .define("ROWS", ROWS)
            .define("MIN_BLOCKS", if size_of::<T>() == 8 { 3 } else { 4 })
    }

    pub(super) fn lines<T: Real>(&self, layers: usize) -> Source {
        let LineTile { lanes, depth, .. } = LineTile::new::<T>(layers);
        self.source::<T>("seven_point_lines", kernels::LINES)
            .define("LANES", lanes)
            .define("DEPTH", depth)
            .define("ROWS", LINE_ROWS)
            .define("MOST_CHUNKS", MOST_CHUNKS)
    }

    /// Returns the source of sweeps with stored pivots, if they are used.
    pub(super) fn sweeps<T: Real>(&self, layers: usize) -> Option<Source> {
        let SweepTile { lanes, depth, .. } = SweepTile::new::<T>(layers)?;
        let source = self.source::<T>("seven_point_sweeps", kernels::SWEEPS);
        let source = source.define("LANES", lanes).define("SWEEP_DEPTH", depth);
        Some(source.define("MOST_CHUNKS", MOST_CHUNKS))
    }

    pub(super) fn colours<T: Real>(&self) -> Source {
        self.source::<T>("seven_point_colours", kernels::COLOURS)
    }

    /// Returns the source of cycles on small levels, with one layer or more.
    pub(super) fn small_colours<T: Real>(&self) -> Source {
        self.source::<T>("seven_point_colours_small", kernels::COLOURS_SMALL).define("THREADS", THREADS)
    }

    pub(super) fn look<T: Real>(&self) -> Source {
        self.source::<T>("seven_point_look", kernels::LOOK)
    }

    pub(super) fn triangular<T: Real>(&self) -> Source {
        self.source::<T>("seven_point_triangular", kernels::TRIANGULAR)
    }
}
