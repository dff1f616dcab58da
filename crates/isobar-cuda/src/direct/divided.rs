//! Lines whose cells are divided among ranks, see [`isobar_dist::divided::Pieces`].

use std::sync::Arc;

use isobar_core::direct::Piece;
use isobar_core::prelude::{Layout, Result, Separable};
use isobar_dist::Ranks;
use isobar_dist::divided::{Ends, Part, Pieces, row};

use super::axis::Axis;
use crate::launch::argument;
use crate::{Arguments, Buffer, Cuda, Module, Pointer, Source, Vector, kernels};

/// Lines per block.
const THREADS: usize = 128;

/// Returns the source of the kernels.
pub fn source() -> Source {
    Source::new("direct_ends", kernels::DIRECT_ENDS)
}

/// This rank's pieces of lines, and the systems of last cells.
pub(super) struct Divided {
    module: Arc<Module>,
    /// The matrix on all ranks' rows.
    pub(super) whole: Separable,
    piece: Piece,
    ranks: usize,
    /// The systems of cells before the last, the smallest pivot, the last cell and the coupling to the previous rank.
    table: Buffer,
    ends: Ends<Cuda>,
}

/// The lines of a rank, transformed to modes.
pub(super) struct Lines<'a> {
    pub(super) cuda: &'a Cuda,
    /// The factors of this rank's rows.
    pub(super) factors: &'a Separable,
    pub(super) axes: &'a [Axis; 2],
    pub(super) x: Pointer,
}

/// Lines, and their division.
struct OfRank<'a> {
    lines: &'a Lines<'a>,
    module: &'a Module,
    piece: &'a Piece,
    table: &'a Buffer,
    ranks: usize,
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
            ends: Ends::new(cuda, ranks, whole.shape.cells() / whole.shape.ny)?,
        })
    }

    /// Takes other systems of lines with the same modes.
    pub(super) fn change_lines(&mut self, whole: &Separable, piece: Piece) -> Result<()> {
        self.table.write(&table(&piece))?;
        (self.whole, self.piece) = (whole.clone(), piece);
        self.ends.forget();
        Ok(())
    }

    /// Returns the bytes of its numbers.
    pub(super) fn bytes(&self) -> usize {
        self.ends.bytes() + self.table.bytes()
    }

    /// Solves for the last cells of lines, and adds them to the right-hand sides of their neighbours.
    pub(super) fn meet(&mut self, lines: &Lines<'_>) -> Result<()> {
        let Self { module, piece, ranks, table, ends, .. } = self;
        ends.meet(lines.cuda, &OfRank { lines, module, piece, table, ranks: *ranks })
    }
}

impl OfRank<'_> {
    /// Returns the number of lines.
    fn count(&self) -> usize {
        let factors = self.lines.factors;
        factors.shape.cells() / factors.extent(factors.line)
    }

    /// Returns the leading arguments of kernels for lines.
    fn of_lines(&self) -> Arguments {
        let stride = self.lines.factors.stride(self.lines.factors.line);
        Arguments::new().with(self.piece.inner.len() as i32).with(stride as i32).with(self.count() as i32)
    }

    /// Returns the leading arguments of kernels for systems of last cells, given a vector of them.
    fn systems(&self, of: &Vector<f64>) -> Arguments {
        Arguments::new().with(row(of.layout()) as i32).with(self.ranks as i32)
    }

    fn launch(&self, kernel: &'static str, count: usize, arguments: Arguments) -> Result<()> {
        let kernel = self.module.kernel(kernel)?;
        self.lines.cuda.launch(kernel, [count.div_ceil(THREADS), 1, 1], [THREADS, 1], arguments)
    }
}

impl Pieces<Cuda> for OfRank<'_> {
    fn condense(&self, part: Part, to: &mut Vector<f64>) -> Result<()> {
        let Lines { factors, axes, x, .. } = self.lines;
        let arguments = self.of_lines().with(factors.extent(factors.across[0]) as i32).with(self.table.start());
        let arguments = arguments.with(axes[0].values.start()).with(axes[1].values.start()).with(*x);
        // `Part` of direct_ends.cu.
        let arguments = arguments.with(part as i32).with(Places::of(to.layout())).with(to.pointer());
        self.launch("condense_lines", self.count(), arguments)
    }

    fn factorise(&self, parts: &mut [Vector<f64>; 2]) -> Result<()> {
        let arguments = self.systems(&parts[0]).with(self.piece.inner.least_pivot);
        let arguments = arguments.with(parts[0].pointer()).with(parts[1].pointer());
        self.launch("factorise_ends", row(parts[0].layout()), arguments)
    }

    fn solve(&self, pivots: &[Vector<f64>; 2], sums: &mut Vector<f64>) -> Result<()> {
        let arguments = self.systems(sums).with(pivots[0].pointer()).with(pivots[1].pointer()).with(sums.pointer());
        self.launch("solve_ends", row(sums.layout()), arguments)
    }

    fn expand(&self, solutions: &Vector<f64>) -> Result<()> {
        let beside = self.piece.inner.couplings.last().copied().unwrap_or_default();
        let arguments = self.of_lines().with(self.piece.before).with(beside).with(solutions.pointer());
        let arguments = arguments.with(Places::of(solutions.layout())).with(self.lines.x);
        self.launch("expand_ends", self.count(), arguments)
    }
}
