//! The tables of coefficients: their addresses and their computation.

use isobar_core::prelude::{Error, Layout, Real, Result, Shape, Stencil};
use isobar_core::stencil;

use super::tile::Tile;
use crate::part::rows_around;
use crate::{Arguments, Buffer, Cuda, Module, Pointer, argument};

/// Alignment of tables in elements.
const ALIGNMENT: usize = 64;

argument! {
    /// `Operator` of tensor_product.cuh: `area`, `west`, `east`, `south`, `north`, `total`, `pivot`, `line`, `row`.
    pub(super) struct Operator {
        tables: [Pointer; 9],
        nx: i32,
        ny: i32,
        nz: i32,
        pitch: i32,
        /// The rows of the whole grid, relative to the first row here.
        rows: [i32; 2],
    }
}

/// The tables of an operator, one after another, and the largest of its totals.
#[derive(Debug)]
pub(super) struct Tables {
    buffer: Buffer,
    largest: usize,
    pub(super) operator: Operator,
}

impl Tables {
    /// Allocates the tables of a grid, or of some rows of a grid with `all_rows`.
    pub(super) fn new<T: Real>(cuda: &Cuda, layout: &Layout, all_rows: usize, tile: Tile) -> Result<Self> {
        let Shape { nx, ny, nz } = layout.shape();
        let columns = layout.columns_len();
        let lengths =
            [columns, columns, columns, columns, columns, columns, columns * tile.chunks, 6 * tile.layers(), 4 * nz];
        let mut bytes = 0;
        let offsets = lengths.map(|length| {
            let offset = bytes;
            bytes += length.next_multiple_of(ALIGNMENT) * size_of::<T>();
            offset
        });
        let what = format!("the tables of a tensor-product operator on {} cells", layout.shape());
        let buffer = Buffer::new(cuda.context(), bytes + size_of::<u64>(), &what)?;
        let operator = Operator {
            tables: offsets.map(|offset| buffer.start() + offset as Pointer),
            nx: nx as i32,
            ny: ny as i32,
            nz: nz as i32,
            pitch: layout.pitch() as i32,
            rows: rows_around(layout, all_rows),
        };
        Ok(Self { buffer, largest: bytes, operator })
    }

    /// Allocates the tables in single precision, for [`Tables::round`].
    pub(super) fn in_single(&self, cuda: &Cuda) -> Result<Self> {
        let bytes = self.largest / size_of::<f64>() * size_of::<f32>();
        let buffer = Buffer::new(cuda.context(), bytes, "the tables of a tensor-product operator in single precision")?;
        let rounded = |table: Pointer| {
            buffer.start() + (table - self.buffer.start()) / size_of::<f64>() as Pointer * size_of::<f32>() as Pointer
        };
        let operator = Operator { tables: self.operator.tables.map(rounded), ..self.operator };
        Ok(Self { buffer, largest: bytes, operator })
    }

    /// Rounds tables in double precision, made for the same number of layers per thread.
    pub(super) fn round(&self, cuda: &Cuda, from: &Self) -> Result<()> {
        cuda.convert_entries::<f64, f32>(from.largest / size_of::<f64>(), from.buffer.start(), self.buffer.start())
    }

    pub(super) fn bytes(&self) -> usize {
        self.buffer.bytes()
    }

    /// Computes the tables by the kernels of tables.cu.
    pub(super) fn send(
        &self,
        cuda: &Cuda,
        module: &Module,
        stencil: &stencil::TensorProduct,
        layout: &Layout,
        tile: Tile,
    ) -> Result<()> {
        let Shape { nx, ny, nz } = layout.shape();
        let [start, end] = self.operator.rows;
        let whole = Shape::new(nx, (end - start) as usize, nz);
        if stencil.shape() != whole {
            return Err(Error::shape("the new operator", stencil.shape().to_string(), whole.to_string()));
        }
        let (v, h) = (stencil.vertical(), stencil.horizontal());
        let own = nx * layout.first_row()..nx * (layout.first_row() + ny);
        // Lines are scaled equally on all ranks.
        let is_part = own.len() < h.area.len();
        let least =
            if is_part { h.total.iter().zip(&h.area).map(|(s, area)| s / area).fold(0.0, f64::max) } else { 0.0 };
        let (operator, pitch, lines) = (self.operator, layout.pitch(), 2 * ny);
        let largest = self.buffer.start() + self.largest as Pointer;
        let [area, west, east, south, north, total] =
            [&h.area, &h.west, &h.east, &h.south, &h.north, &h.total].map(|all| &all[own.clone()]);
        let arrays: [&[f64]; 10] = [area, west, east, south, north, total, &v.a, &v.b, &v.c, &v.d];
        self.buffer.clear(self.largest, size_of::<u64>())?;
        cuda.staged(&arrays, |mut next| {
            let places = arrays.map(|array| {
                let place = next;
                next += size_of_val(array) as Pointer;
                place
            });
            let with = |places: &[Pointer]| {
                let operator = Arguments::new().with(operator);
                places.iter().fold(operator, |arguments, &place| arguments.with(place)).with(largest)
            };
            let grid = [pitch.div_ceil(32), lines.div_ceil(8), 1];
            cuda.launch(module.kernel("horizontal")?, grid, [32, 8], with(&places[..6]).with(least))?;
            cuda.launch(module.kernel("vertical")?, [1, 1, 1], [tile.chunks, 1], with(&places[6..]))
        })?;
        let grid = [pitch.div_ceil(64), lines, 1];
        cuda.launch(module.kernel("line_pivots")?, grid, [64, 1], Arguments::new().with(operator))
    }
}
