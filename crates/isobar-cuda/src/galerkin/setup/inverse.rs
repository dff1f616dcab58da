//! The dense inverse of the coarsest matrix.

use isobar_core::prelude::{Precision, Result};
use isobar_core::stencil::galerkin::coarsest::singular_pivot;

use super::matrix::Matrix;
use super::sources::inverse_source;
use crate::aggregate::AggregateMatrix;
use crate::{Arguments, Buffer, Pointer, argument};

/// Cells that are eliminated at a time, and rows of a tile, as in inverse.cu.
const WIDTH: usize = 32;
const TILE: usize = 32;

argument! {
    /// `Dense` of inverse.cu.
    struct Operands {
        entries: Pointer,
        sums: Pointer,
        diagonals: Pointer,
        panels: [Pointer; 2],
        pivot: Pointer,
        /// The fraction of its diagonal below which a pivot is zero.
        singular: f64,
        n: i32,
        first: i32,
    }
}

impl Matrix {
    /// Computes G with A G A = A, see [`coarsest::inverse`](isobar_core::stencil::galerkin::coarsest::inverse).
    pub(crate) fn inverse(&self, levels: Precision) -> Result<AggregateMatrix> {
        let (n, cuda) = (self.cells(), &self.cuda);
        let what = format!("the inverse of a matrix of {n} cells");
        let entries = Buffer::new(cuda.context(), size_of::<f64>() * n * n, &what)?;
        let (panel, block) = (WIDTH * n, WIDTH * WIDTH);
        let piece = self.workspace.take(size_of::<f64>() * (2 * n + 2 * panel + block))?;
        let [sums, diagonals, even, odd, pivot] =
            [0, n, 2 * n, 2 * n + panel, 2 * (n + panel)].map(|at| piece.at(at, size_of::<f64>()));
        let mut operands = Operands {
            entries: entries.start(),
            sums,
            diagonals,
            panels: [even, odd],
            pivot,
            singular: singular_pivot(levels),
            n: n as i32,
            first: 0,
        };
        let module = cuda.module(inverse_source(self.number));
        let arguments = Arguments::new().with(self.operands()).with(operands);
        cuda.launch(module.kernel("begin_inverse")?, [n, 1, 1], [128, 1], arguments)?;
        let tiles = n.div_ceil(TILE);
        for first in (0..n).step_by(WIDTH) {
            operands.first = first as i32;
            let arguments = || Arguments::new().with(operands);
            cuda.launch(module.kernel("invert_block")?, [1, 1, 1], [WIDTH, WIDTH], arguments())?;
            cuda.launch(module.kernel("eliminate_block")?, [tiles, tiles, 1], [16, 16], arguments())?;
            operands.panels.swap(0, 1);
        }
        Ok(AggregateMatrix::new(cuda, n, entries))
    }
}
