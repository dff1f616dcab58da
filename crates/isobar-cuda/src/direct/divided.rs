//! Lines whose cells are divided among ranks, as `isobar-cpu/src/direct/divided.rs` has them.

use std::sync::Arc;

use isobar_core::direct::Piece;
use isobar_core::prelude::{Backend, Layout, Result, Separable};
use isobar_dist::Ranks;
use isobar_dist::divided::{Ends, row};

use super::axis::Axis;
use crate::launch::argument;
use crate::{Arguments, Buffer, Cuda, Module, Pointer, Source, Vector, kernels};

/// Lines per block.
const THREADS: usize = 128;

/// Returns the source of the kernels.
pub fn source() -> Source {
    Source::new("direct_ends", kernels::DIRECT_ENDS)
}

/// The contributions of a piece to the systems of last cells, as in direct_ends.cu.
#[derive(Clone, Copy)]
enum Part {
    RowSums,
    Couplings,
    Sums,
}

/// The ends of this rank's pieces of lines, and the systems of last cells.
pub(super) struct Divided {
    module: Arc<Module>,
    /// The matrix on all ranks' rows.
    pub(super) whole: Separable,
    piece: Piece,
    ranks: usize,
    /// The systems of cells before the last, the smallest pivot, the last cell and the coupling to the previous rank.
    table: Buffer,
    ends: Ends<Cuda>,
    /// All ranks' numbers of this rank's lines.
    sums: Vector<f64>,
    /// The inverses of pivots, and the coefficients of the next and of the last rank, once they are known.
    pivots: Option<[Vector<f64>; 2]>,
}

/// The lines of a rank, transformed to modes.
pub(super) struct Lines<'a> {
    /// The factors of this rank's rows.
    pub(super) factors: &'a Separable,
    pub(super) axes: &'a [Axis; 2],
    pub(super) x: Pointer,
}

/// Returns the numbers of [`Divided`]'s table.
fn table(Piece { inner, before, last }: &Piece) -> Vec<f64> {
    let all = [&inner.shift, &inner.couplings, &inner.weights[0], &inner.weights[1]].into_iter().flatten().copied();
    all.chain([inner.least_pivot]).chain(*last).chain([*before]).collect()
}

argument! {
    /// `Ends` of direct_ends.cu.
    struct Places {
        pitch: i32,
        layers: i32,
        row: i64,
    }
}

impl Places {
    fn of(layout: &Layout) -> Self {
        Self { pitch: layout.pitch() as i32, layers: layout.shape().nz as i32, row: row(layout) as i64 }
    }
}

impl Divided {
    /// Takes this rank's piece of the lines of a matrix.
    pub(super) fn new(cuda: &Cuda, ranks: &Ranks, whole: &Separable, piece: Piece) -> Result<Self> {
        let lines = whole.shape.cells() / whole.shape.ny;
        let ends = Ends::new(cuda, ranks, lines)?;
        let module = cuda.module(source());
        for kernel in ["condense_lines", "factorise_ends", "solve_ends", "expand_ends"] {
            module.kernel(kernel)?;
        }
        Ok(Self {
            module,
            whole: whole.clone(),
            ranks: ranks.size(),
            table: Buffer::from_slice(cuda.context(), &table(&piece), "tridiagonal systems")?,
            piece,
            sums: cuda.zeros(&ends.lines)?,
            ends,
            pivots: None,
        })
    }

    /// Takes other systems of lines with the same modes.
    pub(super) fn change_lines(&mut self, whole: &Separable, piece: Piece) -> Result<()> {
        self.table.write(&table(&piece))?;
        (self.whole, self.piece, self.pivots) = (whole.clone(), piece, None);
        Ok(())
    }

    /// Returns the bytes of its numbers.
    pub(super) fn bytes(&self) -> usize {
        let all = 3 * self.sums.layout().len() + 2 * self.ends.received().layout().len();
        all * size_of::<f64>() + self.table.bytes()
    }

    /// Solves for the last cells of lines, and adds them to the right-hand sides of their neighbours.
    pub(super) fn meet(&mut self, cuda: &Cuda, lines: &Lines<'_>) -> Result<()> {
        let pivots = match self.pivots.take() {
            Some(pivots) => pivots,
            None => self.factorise(cuda, lines)?,
        };
        self.condense(cuda, lines, Part::Sums)?;
        self.ends.collect(cuda, &mut self.sums)?;
        let arguments = self.systems().with(pivots[0].pointer()).with(pivots[1].pointer()).with(self.sums.pointer());
        self.launch(cuda, "solve_ends", row(&self.ends.lines), arguments)?;
        self.pivots = Some(pivots);
        self.ends.take(cuda, &self.sums)?;
        let received = self.ends.received();
        let arguments = self.of_lines(lines).with(self.piece.before);
        let arguments = arguments.with(self.piece.inner.couplings.last().copied().unwrap_or_default());
        let arguments = arguments.with(received.pointer()).with(Places::of(received.layout())).with(lines.x);
        self.launch(cuda, "expand_ends", self.count(), arguments)
    }

    /// Computes the pivots of the systems of last cells.
    fn factorise(&mut self, cuda: &Cuda, lines: &Lines<'_>) -> Result<[Vector<f64>; 2]> {
        let mut parts = [cuda.zeros(&self.ends.lines)?, cuda.zeros(&self.ends.lines)?];
        for (part, to) in [Part::RowSums, Part::Couplings].into_iter().zip(&mut parts) {
            self.condense(cuda, lines, part)?;
            self.ends.collect(cuda, to)?;
        }
        let arguments = self.systems().with(self.whole.lines.least_pivot);
        let arguments = arguments.with(parts[0].pointer()).with(parts[1].pointer());
        self.launch(cuda, "factorise_ends", row(&self.ends.lines), arguments)?;
        Ok(parts)
    }

    /// Eliminates the cells before the last, for what they contribute to both ends.
    fn condense(&mut self, cuda: &Cuda, lines: &Lines<'_>, part: Part) -> Result<()> {
        let arguments = self.of_lines(lines).with(lines.factors.extent(lines.factors.across[0]) as i32);
        let arguments = arguments.with(self.table.start());
        let arguments = arguments.with(lines.axes[0].values.start()).with(lines.axes[1].values.start());
        let own = self.ends.own();
        let arguments = arguments.with(lines.x).with(part as i32).with(Places::of(own.layout())).with(own.pointer());
        self.launch(cuda, "condense_lines", self.count(), arguments)
    }

    /// Returns the number of lines.
    fn count(&self) -> usize {
        self.whole.shape.cells() / self.whole.shape.ny
    }

    /// Returns the leading arguments of kernels for lines.
    fn of_lines(&self, lines: &Lines<'_>) -> Arguments {
        let stride = lines.factors.stride(lines.factors.line);
        Arguments::new().with(self.piece.inner.len() as i32).with(stride as i32).with(self.count() as i32)
    }

    /// Returns the leading arguments of kernels for systems of last cells.
    fn systems(&self) -> Arguments {
        Arguments::new().with(row(&self.ends.lines) as i32).with(self.ranks as i32)
    }

    fn launch(&self, cuda: &Cuda, kernel: &'static str, count: usize, arguments: Arguments) -> Result<()> {
        cuda.launch(self.module.kernel(kernel)?, [count.div_ceil(THREADS), 1, 1], [THREADS, 1], arguments)
    }
}
