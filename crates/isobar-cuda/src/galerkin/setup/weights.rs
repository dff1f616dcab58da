//! Interpolation and the Galerkin product in one direction.

use isobar_core::prelude::{Axis, Layout, Real, Result};
use isobar_core::stencil::galerkin::Grid;
use isobar_core::stencil::galerkin::couplings::upper_offset;
use isobar_core::stencil::galerkin::product::coarse_offsets;
use isobar_core::stencil::galerkin::weights::{HALF_SWEEPS, halves};
use isobar_core::stencil::galerkin::window::divisor;

use super::matrix::{BLOCK, Divisor, Matrix, Planes, store};
use super::sources::{COMPUTE, HOLD, Number, PRODUCT, collapsed_source, product, weights_source};
use super::workspace::Piece;
use crate::{Arguments, Cuda, Pointer, argument};

/// Threads of a block with one line per thread.
const LINES: usize = 64;
/// Cells of a line that a thread holds if threads share lines, the most threads per line, and the most per block, see `relax` of
/// weights.cu.
const CELLS: usize = 8;
const MOST_CHUNKS: usize = 32;
const RELAXING: usize = 256;
/// Cells of a thread of the kernels that begin, as in weights.cu.
const STARTED: usize = 2;
/// Threads per block of products, two for each coarse cell.
const PRODUCT_BLOCK: usize = 128;

argument! {
    /// `Weights` of setup.cuh.
    struct Operands {
        below: Pointer,
        above: Pointer,
        extents: [i32; 3],
        ring: i32,
        by: [Divisor; 2],
    }
}

/// P in one direction: weights of odd cells to the coarse cells below, then to those above.
#[derive(Debug)]
pub struct DirectionWeights {
    pub(crate) axis: Axis,
    coarse: Grid,
    /// The grid of odd cells, numbered like the coarse cells below them.
    pub(crate) odd: Grid,
    /// The first own row of a window, numbered like these cells.
    own: Option<usize>,
    number: Number,
    values: Piece,
}

impl DirectionWeights {
    pub(super) fn new(matrix: &Matrix, axis: Axis) -> Result<Self> {
        let [coarse, odd] = halves(&matrix.grid, axis);
        let (cells, number) = (odd.shape.cells(), matrix.number);
        let bytes = number.bytes() * cells;
        let own = matrix.window.as_ref().map(|window| window.own().start / divisor(axis));
        let this = Self { axis, coarse, odd, own, number, values: matrix.workspace.take(2 * bytes)? };
        let room = matrix.workspace.take(6 * bytes)?;
        let scratch = std::array::from_fn(|n| room.at(n * cells, number.bytes()));
        this.compute(matrix, scratch)?;
        Ok(this)
    }

    /// Computes the weights, with `Scratch` of weights.cu.
    fn compute(&self, matrix: &Matrix, scratch: [Pointer; 6]) -> Result<()> {
        let module = matrix.cuda.module(weights_source(matrix.number));
        let d = self.axis as usize;
        let [start, factorise, relax, finish] = COMPUTE[d];
        let (cells, [nx, ny, nz]) = (self.odd.shape.cells(), self.odd.extents());
        let weights = || Arguments::new().with(self.operands());
        let all = || Arguments::new().with(matrix.operands()).with(self.operands());
        matrix.launch(module.kernel(start)?, nx * ny * nz.div_ceil(STARTED), BLOCK, all().with(scratch))?;
        let is_coupled = (0..matrix.present.len()).any(|n| matrix.present[n] && upper_offset(n)[d] == 0);
        if is_coupled {
            let lines = if self.axis == Axis::Z { nz * ny } else { nx * ny };
            matrix.launch(module.kernel(factorise)?, lines, LINES, weights().with(scratch))?;
            for parity in (0..HALF_SWEEPS).map(|half| half % 2) {
                let some = |n: usize| (n + 1 - parity) / 2;
                let (lines, length) = match self.axis {
                    Axis::X => (nx * some(ny), nz),
                    Axis::Y => (some(nx) * ny, nz),
                    Axis::Z => (nz * some(ny), nx),
                };
                let chunks = length.div_ceil(CELLS).min(MOST_CHUNKS);
                let block = [(RELAXING / chunks.next_power_of_two()).min(32), chunks];
                let arguments = all().with(scratch).with(parity as i32);
                let grid = [lines.div_ceil(block[0]), 1, 1];
                matrix.cuda.launch(module.kernel(relax)?, grid, block, arguments)?;
            }
        }
        matrix.launch(module.kernel(finish)?, cells, BLOCK, all().with(scratch).with(matrix.any_collapsed()))
    }

    /// Computes PᵀAP, without the treatment of collapsed cells.
    pub(super) fn product(&self, matrix: &Matrix) -> Result<Matrix> {
        let present = coarse_offsets(&matrix.present, self.axis, &self.coarse);
        let coarse = matrix.next(self.coarse, present)?;
        let d = self.axis as usize;
        let matrices = Arguments::new().with(matrix.operands()).with(self.operands()).with(coarse.operands());
        let arguments = || matrices.clone().with(matrix.any_collapsed());
        let kernel =
            matrix.cuda.module(product(matrix.number, &matrix.grid, &matrix.present, &present)).kernel(PRODUCT[d])?;
        matrix.launch(kernel, 2 * coarse.cells(), PRODUCT_BLOCK, arguments())?;
        let kernel = matrix.cuda.module(collapsed_source(matrix.number)).kernel(HOLD[d])?;
        matrix.launch_loop(kernel, coarse.cells(), 1, arguments())?;
        Ok(coarse)
    }

    fn operands(&self) -> Operands {
        let [nx, ny, _] = self.odd.extents();
        Operands {
            below: self.values.start(),
            above: self.values.at(self.odd.shape.cells(), self.number.bytes()),
            extents: self.odd.extents().map(|n| n as i32),
            ring: i32::from(self.odd.periodic[self.axis as usize]),
            by: [nx, ny].map(Divisor::new),
        }
    }

    /// Returns the planes that a direction needs between two subdomains: odd cells in the subdomain's rows and in halo rows.
    fn planes(&self, fine: &Layout, coarse: &Layout) -> Planes {
        // Odd rows are numbered like the coarse rows before them.
        let (rows, count) = match self.axis {
            Axis::X => (fine, fine.shape().ny),
            Axis::Y => (coarse, fine.shape().ny / 2),
            Axis::Z => (coarse, coarse.shape().ny),
        };
        Planes::new((rows, self.own), count, rows.halo(), self.odd.shape.ny)
    }

    /// Returns the number of either weight, and how many of them lie before the subdomain's first row.
    pub(crate) fn counts(&self, fine: &Layout, coarse: &Layout) -> [usize; 2] {
        let (planes, row) = (self.planes(fine, coarse), self.odd.shape.nx * self.odd.shape.nz);
        [planes.rows() * row, planes.before() * row]
    }

    /// Copies the weights to the cells below and above to arrays in the order (i, k, j), aligned to the subdomain's first row.
    pub(crate) fn store_in<T: Real>(&self, cuda: &Cuda, [fine, coarse]: [&Layout; 2], to: [Pointer; 2]) -> Result<()> {
        let of = (self.odd.shape, self.planes(fine, coarse));
        store::<T>(cuda, (self.number, self.values.start()), of, 0, &to)
    }
}
