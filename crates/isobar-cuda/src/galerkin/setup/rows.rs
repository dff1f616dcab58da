//! Rows of a matrix that several GPUs make together: each makes those of its [`Window`].

use std::sync::Arc;

use isobar_core::prelude::{Axis, Result, Shape};
use isobar_core::real::{bytes_of, bytes_of_mut};
use isobar_core::stencil::galerkin::window::{MARGIN, divisor};
use isobar_core::stencil::galerkin::{Grid, Window};
use isobar_dist::communicator::agree;
use isobar_dist::{PartBackend, Ranks};

use super::matrix::{Divisor, Matrix};
use super::sources::rows_source;
use super::workspace::{Piece, Workspace};
use crate::link::CardLink;
use crate::{Arguments, Cuda, Pointer, argument};

argument! {
    /// `Rows` of rows.cu.
    struct Rows {
        fields: Pointer,
        cells: i64,
        ny: i32,
        first: i32,
    }
}

/// Blocks of bytes that all ranks send to all, one after another in the order of ranks: a number of units from each.
struct Blocks {
    room: Piece,
    /// The bytes of a unit, rounded up.
    unit: usize,
    /// The first unit of each rank, and one past the last.
    starts: Vec<usize>,
}

impl Blocks {
    /// Makes room for this many units of `bytes` from each rank.
    fn new(workspace: &Arc<Workspace>, units: impl Iterator<Item = usize>, bytes: usize) -> Result<Self> {
        let (mut starts, unit) = (vec![0], bytes.next_multiple_of(CardLink::UNIT));
        starts.extend(units.scan(0, |end, units| {
            *end += units;
            Some(*end)
        }));
        Ok(Self { room: workspace.take(starts[starts.len() - 1] * unit)?, unit, starts })
    }

    /// Returns the address of a rank's block.
    fn of(&self, rank: usize) -> Pointer {
        self.room.at(self.starts[rank], self.unit)
    }

    /// Sends this rank's block to all, and receives theirs.
    fn collect(&self, cuda: &Cuda, ranks: &Ranks) -> Result<()> {
        let Self { room, unit, starts } = self;
        if let Some(link) = cuda.link() {
            return link.collect(cuda, room.start(), *unit, starts);
        }
        let counts: Vec<usize> = starts.windows(2).map(|ends| (ends[1] - ends[0]) * unit).collect();
        let (mut own, mut all) = (vec![0u8; counts[ranks.rank()]], vec![0u8; counts.iter().sum()]);
        cuda.context().receive(self.of(ranks.rank()), &mut own)?;
        ranks.world().all_gather(&own, &counts, &mut all)?;
        cuda.context().send(&all, room.start())
    }
}

impl Matrix {
    /// Returns the rows from one on.
    fn rows_from(&self, first: usize) -> Rows {
        Rows {
            fields: self.operands().fields(),
            cells: self.cells() as i64,
            ny: self.grid.shape.ny as i32,
            first: first as i32,
        }
    }

    /// Returns the bytes of a row of all fields.
    fn row_bytes(&self) -> usize {
        self.columns() * self.fields() * self.number.bytes()
    }

    /// Returns the rows of a block, which has no others.
    fn packed(&self, fields: Pointer, rows: usize) -> Rows {
        Rows { fields, cells: (rows * self.columns()) as i64, ny: rows as i32, first: 0 }
    }

    fn copy_rows(&self, from: Rows, to: Rows, rows: usize) -> Result<()> {
        let (columns, kernel) = (self.columns(), self.cuda.module(rows_source(self.number)).kernel("copy_rows")?);
        let arguments = Arguments::new().with(from).with(to).with(self.fields() as i32).with(rows as i32);
        self.launch_loop(kernel, rows * columns, 1, arguments.with(columns as i32).with(Divisor::new(rows)))
    }

    /// Makes a matrix of a window's rows from one that has its own rows from `own` on, and receives the others.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](isobar_core::Error::OutOfMemory), which all ranks return; the errors of the transport.
    pub(super) fn renewed(self, ranks: &Ranks, window: Window, own: usize) -> Result<Self> {
        let (rows, rank) = (window.own(), ranks.rank());
        let make = || {
            let blocks = Blocks::new(&self.workspace, (0..window.ranks()).map(|_| 1), 2 * MARGIN * self.row_bytes())?;
            if self.grid.shape.ny == window.rows() && own == rows.start {
                return Ok((blocks, self));
            }
            let grid = Grid { shape: Shape { ny: window.rows(), ..self.grid.shape }, ..self.grid };
            let wide = self.next(grid, self.present)?;
            self.copy_rows(self.rows_from(own), wide.rows_from(rows.start), rows.len())?;
            Ok((blocks, wide))
        };
        let (blocks, mut this) = agree(&**ranks.world(), make())?;
        let edge = (MARGIN * this.row_bytes()) as Pointer;
        for (place, first) in [(0, rows.start), (edge, rows.end - MARGIN)] {
            this.copy_rows(this.rows_from(first), this.packed(blocks.of(rank) + place, MARGIN), MARGIN)?;
        }
        blocks.collect(&this.cuda, ranks)?;
        let [before, after] = [ranks.size() - 1, 1].map(|step| blocks.of((rank + step) % ranks.size()));
        for (is_there, from, first) in [(rows.start > 0, before + edge, 0), (rows.end < window.rows(), after, rows.end)]
        {
            if is_there {
                this.copy_rows(this.packed(from, MARGIN), this.rows_from(first), MARGIN)?;
            }
        }
        this.window = Some(Arc::new(window));
        Ok(this)
    }

    /// Makes a matrix whole on every rank: rank r has rows `starts[r]` to `starts[r + 1]`, this one from row `own` of its matrix on.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`](isobar_core::Error::OutOfMemory), which all ranks return; the errors of the transport.
    pub(super) fn collected(&self, ranks: &Ranks, starts: &[usize], own: usize, is_periodic: bool) -> Result<Self> {
        let counts = || starts.windows(2).map(|ends| ends[1] - ends[0]);
        let Grid { shape, periodic: [x, _, z] } = self.grid;
        let rows = starts[starts.len() - 1];
        let grid = Grid { shape: Shape { ny: rows, ..shape }, periodic: [x, is_periodic && rows > 1, z] };
        let make = || {
            let blocks = Blocks::new(&self.workspace, counts(), self.row_bytes())?;
            Ok((blocks, self.next(grid, self.present)?))
        };
        let (blocks, mut whole) = agree(&**ranks.world(), make())?;
        let own_rows = starts[ranks.rank() + 1] - starts[ranks.rank()];
        self.copy_rows(self.rows_from(own), self.packed(blocks.of(ranks.rank()), own_rows), own_rows)?;
        blocks.collect(&self.cuda, ranks)?;
        for (rank, rows) in counts().enumerate() {
            self.copy_rows(self.packed(blocks.of(rank), rows), whole.rows_from(starts[rank]), rows)?;
        }
        whole.cuda = self.cuda.alone();
        Ok(whole)
    }

    /// Makes a product, of a window of the finer matrix halved along an axis, the matrix of a window, or whole on every rank if these have too few rows.
    ///
    /// # Errors
    /// As [`Matrix::renewed`].
    pub(super) fn of_window(self, ranks: &Ranks, finer: &Window, axis: Axis) -> Result<Self> {
        let own = finer.own().start / divisor(axis);
        if let Some(window) = finer.halved(axis) {
            return self.renewed(ranks, window, own);
        }
        let starts: Vec<usize> = finer.starts().iter().map(|start| start.div_ceil(divisor(axis))).collect();
        let [_, is_periodic, _] = finer.whole_grid(self.grid).periodic;
        self.collected(ranks, &starts, own, is_periodic)
    }

    /// Makes the matrix of a window whole on every rank.
    ///
    /// # Errors
    /// As [`Matrix::collected`].
    pub(super) fn on_all(&self, ranks: &Ranks, window: &Window) -> Result<Self> {
        let [_, is_periodic, _] = window.whole_grid(self.grid).periodic;
        self.collected(ranks, window.starts(), window.own().start, is_periodic)
    }
}

/// Collects the numbers of all ranks, in their order.
///
/// # Errors
/// The errors of the transport.
pub(super) fn collected_numbers(ranks: &Ranks, own: &[f64]) -> Result<Vec<f64>> {
    let mut counts = vec![0.0; ranks.size()];
    let bytes = vec![size_of::<f64>(); ranks.size()];
    ranks.world().all_gather(bytes_of(&[own.len() as f64]), &bytes, bytes_of_mut(&mut counts))?;
    let mut all = vec![0.0; counts.iter().sum::<f64>() as usize];
    let bytes: Vec<usize> = counts.into_iter().map(|count| count as usize * size_of::<f64>()).collect();
    ranks.world().all_gather(bytes_of(own), &bytes, bytes_of_mut(&mut all))?;
    Ok(all)
}

/// Adds up the first `sums` numbers of all ranks, and takes the largest of the others.
///
/// # Errors
/// The errors of the transport.
pub(super) fn combined<const N: usize>(ranks: &Ranks, own: [f64; N], sums: usize) -> Result<[f64; N]> {
    let mut all = vec![[0.0; N]; ranks.size()];
    let counts = vec![size_of_val(&own); ranks.size()];
    ranks.world().all_gather(bytes_of(&own), &counts, bytes_of_mut(all.as_flattened_mut()))?;
    let combine = |n: usize| {
        let of_ranks = all.iter().map(|of_rank| of_rank[n]);
        if n < sums { of_ranks.sum() } else { of_ranks.fold(0.0, f64::max) }
    };
    Ok(std::array::from_fn(combine))
}
