//! The interface of a stencil on a GPU, and the sources compiled for it.

use std::fmt::Debug;

use isobar_core::layout::ROW_ALIGNMENT;
use isobar_core::operator::aggregate::{Components, Entry};
use isobar_core::prelude::{AggregateMap, Layout, Real, Result, Shape, Stencil};

use super::lines::{LINE_ROWS, LineTile, MOST_CHUNKS, SweepTile};
use crate::kernels::seven_point as kernels;
use crate::vector::c_name;
use crate::{Argument, Buffer, Cuda, Source};

/// Warps per block of passes along y.
pub(super) const ROWS: usize = 8;

/// The interface of a stencil in addition to its header, `kernels/NAME.cuh`: the header's specialisation, and the coefficients. A value
/// contains all compile-time properties of a stencil; an update must not change it.
pub(crate) trait Kind: Copy + Debug + Eq + Send + Sync + 'static {
    /// The stencil type.
    type Stencil: Stencil + Debug;
    /// `Stencil` of the header.
    type Operands: Argument + Debug + Send + Sync;
    /// The header's file name.
    const HEADER: &'static str;

    /// Returns the properties of a stencil.
    fn of(stencil: &Self::Stencil) -> Self;

    /// Defines the macros that specialise the header.
    fn define(&self, source: Source) -> Source;

    /// Returns the bits of the periodic directions.
    fn periodic(&self) -> u32;

    /// Returns whether there is a field of shifts s.
    fn has_shift(&self) -> bool;

    /// Implements [`isobar_core::operator::Operator::coefficient_vectors`].
    fn coefficient_vectors(stencil: &Self::Stencil) -> f64;

    /// Allocates the coefficients and returns their addresses for kernels; `rows` are the rows of the whole grid.
    fn allocate<T: Real>(&self, cuda: &Cuda, layout: &Layout, rows: usize) -> Result<(Buffer, Self::Operands)>;

    /// Copies coefficients to the GPU. Returns whether a number differs from those of the stencil before.
    fn send<T: Real>(
        &self,
        cuda: &Cuda,
        layout: &Layout,
        operands: &Self::Operands,
        before: &Self::Stencil,
        stencil: &Self::Stencil,
    ) -> Result<bool>;

    /// Implements [`isobar_core::operator::AggregateOperator::galerkin`].
    fn galerkin(cuda: &Cuda, stencil: &Self::Stencil, map: &AggregateMap) -> Result<Vec<Entry>>;

    /// Implements [`isobar_core::operator::AggregateOperator::components`]; `marks` finds the marks of the cells, if they all are on this GPU.
    fn components(
        cuda: &Cuda,
        stencil: &Self::Stencil,
        marks: impl FnOnce() -> Result<Option<Vec<u8>>>,
    ) -> Result<Option<Components>>;

    /// Implements [`isobar_core::operator::AggregateOperator::bodies`].
    fn bodies(cuda: &Cuda, stencil: &Self::Stencil) -> Result<AggregateMap>;
}

/// The compile-time properties of a stencil on a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form<K> {
    pub(super) kind: K,
    /// Whether there is one layer.
    pub(super) flat: bool,
    /// Whether positions in vectors exceed 32 bits.
    pub(super) wide: bool,
}

impl<K: Kind> Form<K> {
    pub(super) fn new(kind: K, shape: Shape) -> Self {
        let Shape { nx, ny, nz } = shape;
        // Padding may make vectors this much longer, and prefetches reach a few rows beyond.
        let wide = (nx + 2 * ROW_ALIGNMENT) * (ny + 8) * (nz + 8) > 1 << 31;
        Self { kind, flat: nz == 1, wide }
    }

    pub(super) fn source<T: Real>(&self, name: &'static str, text: &'static str) -> Source {
        let source = Source::new(name, text)
            .define("REAL", c_name::<T>())
            .define("STENCIL", format!("\"{}\"", K::HEADER))
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

    pub(super) fn look<T: Real>(&self) -> Source {
        self.source::<T>("seven_point_look", kernels::LOOK)
    }

    pub(super) fn triangular<T: Real>(&self) -> Source {
        self.source::<T>("seven_point_triangular", kernels::TRIANGULAR)
    }
}
