//! Vectors on subdomains.

use std::sync::Arc;

use isobar_core::operator::{Coarser, LevelBackend, OwnModes};
use isobar_core::prelude::{Colour, Error, Layout, ModalTransfer, Real, Result, Scalar, Shape, Slab, Transfer};
use isobar_dist::part::{self, Division, Edge, Link, PartBackend, Redivision};
use isobar_dist::{Ranks, levels, modes};

use crate::launch::refuse_while_recording;
use crate::link::CardLink;
use crate::{Arguments, Cuda, Pointer, Scalars, Vector, peers};

/// Returns `start` and `end` of kernels (`kernels/seven_point/seven_point.cuh`): the range of the whole grid's rows, counted from this
/// subdomain's first row. In a divided periodic direction it includes one more row at either end.
pub(crate) fn rows_around(layout: &Layout, all_rows: usize) -> [i32; 2] {
    let (first, around) = (layout.first_row() as i32, i32::from(layout.divides_ring()));
    [-first - around, all_rows as i32 - first + around]
}

/// Half planes of some rows, halo rows included, copied through the host.
impl Cuda {
    /// Returns the address of row j of a vector; halo rows are negative or lie beyond the last row.
    fn row_at<T: Real>(x: &Vector<T>, j: isize) -> Pointer {
        let row = 2 * x.layout().half_plane() * size_of::<T>();
        x.pointer().wrapping_add_signed(j as i64 * row as i64)
    }

    /// Returns the address of a row of the whole grid in a vector that contains it.
    fn row<T: Real>(x: &Vector<T>, row: usize) -> Pointer {
        Self::row_at(x, x.layout().row_here(row))
    }

    /// Copies consecutive rows, from `row` of the whole grid to row j of a subdomain.
    pub(crate) fn copy_rows<T: Real>(
        &self,
        from: &Vector<T>,
        row: usize,
        rows: usize,
        to: &mut Vector<T>,
        j: isize,
    ) -> Result<()> {
        let words = from.layout().half_plane() * size_of::<T>() / 16;
        let is_exchanged = exchanges_colours(from.layout(), row, j);
        let arguments = Arguments::new()
            .with(Self::row(from, row))
            .with(Self::row_at(to, j))
            .with(words as i64)
            .with(2 * rows as i64)
            .with(i32::from(is_exchanged));
        let kernel = self.module(peers::source()).kernel("copy_rows")?;
        self.elementwise(kernel, 2 * rows * words, arguments)
    }

    /// Returns whether colours are stored in the opposite order to that of the whole grid.
    fn is_exchanged<T: Real>(x: &Vector<T>) -> bool {
        x.layout().local(Colour::Red) != Colour::Red
    }

    /// Copies rows to the host as they are stored.
    fn fetch_rows<T: Real>(&self, x: &Vector<T>, rows: Slab, to: &mut [T]) -> Result<()> {
        let len = rows.rows() * 2 * x.layout().half_plane();
        let room = to.len();
        let to = to.get_mut(..len).ok_or_else(|| Error::shape("rows", room.to_string(), len.to_string()))?;
        self.context().receive(Self::row(x, rows.first), to)
    }
}

/// Reorders half planes to red before black from the stored order, or back.
fn exchange_colours<T: Copy>(entries: &mut [T], half_plane: usize) {
    for row in entries.chunks_exact_mut(2 * half_plane) {
        let (first, second) = row.split_at_mut(half_plane);
        first.swap_with_slice(second);
    }
}

impl LevelBackend for Cuda {
    fn coarser(&self, fine: Shape, coarse: Shape, is_small: bool) -> Result<Coarser<Self>> {
        levels::coarser(self, fine, coarse, is_small || coarse.cells() < self.whole_below)
    }

    fn gathering<T: Real>(
        &self,
        to_own: Arc<dyn Transfer<Self, T>>,
        own: &Layout,
        whole: &Layout,
    ) -> Result<Arc<dyn Transfer<Self, T>>> {
        levels::gathering(self, to_own, own, whole)
    }

    fn own_modes<T: Real, C: Real>(
        &self,
        grid: Shape,
        to_all: Arc<dyn ModalTransfer<Self, T, C>>,
    ) -> Result<OwnModes<Self, T, C>> {
        modes::own_modes(self, grid, to_all)
    }
}

impl Cuda {
    /// Returns whether sums over ranks pass through the host.
    pub(crate) fn sums_by_host(&self) -> bool {
        self.ranks.is_some() && self.link.is_none()
    }

    /// Replaces numbers on this GPU by their sums over all ranks, added in the order of ranks. All ranks have equally many.
    pub(crate) fn sum_over_ranks(&self, start: Pointer, count: usize) -> Result<()> {
        let Some(ranks) = &self.ranks else { return Ok(()) };
        match self.card_link() {
            Some(CardLink::Stores(peers)) => peers.sum_numbers(self, start, count),
            Some(CardLink::Nccl(nccl)) => nccl.sum_numbers(self, start, count),
            None => {
                refuse_while_recording("sums over ranks by way of the host")?;
                let mut numbers = vec![0.0; count];
                self.context().receive(start, &mut numbers)?;
                ranks.world().sum(&mut numbers)?;
                self.context().send(&numbers, start)
            }
        }
    }
}

impl PartBackend for Cuda {
    type Link = CardLink;

    fn ranks(&self) -> Option<&Arc<Ranks>> {
        self.ranks.as_ref()
    }

    fn with_ranks(mut self, ranks: Option<Arc<Ranks>>) -> Self {
        self.ranks = ranks;
        self
    }

    fn link(&self) -> Option<&CardLink> {
        self.card_link()
    }

    /// Copies the rows at both ends to the host, and halo rows back.
    fn edges<T: Real>(
        &self,
        x: &mut Vector<T>,
        colours: &[Colour],
        exchange: &mut dyn FnMut(&mut [Edge<'_, T>]) -> Result<()>,
    ) -> Result<()> {
        refuse_while_recording("an exchange by way of the host")?;
        let layout = *x.layout();
        let (first, rows, [before, after]) = (layout.first_row(), layout.shape().ny, layout.halo());
        let row_len = 2 * layout.half_plane();
        // A vector of the edges only, for the host's exchange: halo row, first row, last row, halo row.
        let edge_rows = [first, first + rows - 1];
        let edges = Layout::new(Shape { ny: 2, ..layout.shape() })?.part_of(layout.first_row(), layout.halo());
        let mut entries = vec![T::ZERO; edges.len_with_halo()];
        let own = before * row_len..(before + 2) * row_len;
        let places = entries[own].chunks_exact_mut(row_len);
        for (place, row) in places.zip(edge_rows) {
            self.fetch_rows(x, Slab { first: row, beyond: row + 1 }, place)?;
        }
        part::edges(&edges, &mut entries, colours, &mut *exchange)?;
        let is_wanted = |local: Colour| colours.contains(&layout.local(local));
        for (is_there, start, row) in [(before, 0, -1), (after, (before + 2) * row_len, rows.cast_signed())] {
            if is_there == 0 {
                continue;
            }
            for local in Colour::BOTH.into_iter().filter(|&local| is_wanted(local)) {
                let half = local as usize;
                let at = Self::row_at(x, row) + (half * layout.half_plane() * size_of::<T>()) as Pointer;
                let from = &entries[start + half * layout.half_plane()..][..layout.half_plane()];
                self.context().send(from, at)?;
            }
        }
        Ok(())
    }

    fn read_rows<T: Real>(&self, x: &Vector<T>, rows: Slab, to: &mut [T]) -> Result<()> {
        refuse_while_recording("copying rows to the host")?;
        self.fetch_rows(x, rows, to)?;
        if Self::is_exchanged(x) {
            exchange_colours(to, x.layout().half_plane());
        }
        Ok(())
    }

    fn write_rows<T: Real>(&self, from: &[T], rows: Slab, x: &mut Vector<T>) -> Result<()> {
        refuse_while_recording("copying rows from the host")?;
        if !Self::is_exchanged(x) {
            return self.context().send(from, Self::row(x, rows.first));
        }
        let mut exchanged = from.to_vec();
        exchange_colours(&mut exchanged, x.layout().half_plane());
        self.context().send(&exchanged, Self::row(x, rows.first))
    }

    fn copy_part<T: Real>(&self, from: &Vector<T>, to: &mut Vector<T>) -> Result<()> {
        for Run { row, rows, j } in runs(to.layout()) {
            self.copy_rows(from, row, rows, to, j)?;
        }
        Ok(())
    }
}

/// Calls a method of either link.
macro_rules! of_either {
    ($self:ident, $link:ident => $call:expr) => {
        match $self {
            Self::Stores($link) => $call,
            Self::Nccl($link) => $call,
        }
    };
}

impl Link<Cuda> for CardLink {
    fn fill<T: Real>(&self, cuda: &Cuda, x: &mut Vector<T>, colours: &[Colour]) -> Result<()> {
        of_either!(self, link => link.fill(cuda, x, colours))
    }

    fn sum(&self, cuda: &Cuda, sums: &[Scalar], scalars: &mut Scalars) -> Result<()> {
        of_either!(self, link => link.sum(cuda, sums, scalars))
    }

    fn gather<T: Real>(&self, cuda: &Cuda, part: &Vector<T>, rows: &[usize], whole: &mut Vector<T>) -> Result<()> {
        of_either!(self, link => link.gather(cuda, part, rows, whole))
    }

    fn redivide<T: Real>(&self, cuda: &Cuda, division: &Division, change: Redivision<'_, Vector<T>>) -> Result<()> {
        of_either!(self, link => link.redivide(cuda, division, change))
    }
}

/// Returns whether the columns of a row of the whole grid have the other colour in row j of a subdomain. This is so between the ends of a
/// periodic direction with an odd number of rows, wherever the subdomain begins.
fn exchanges_colours(from: &Layout, row: usize, j: isize) -> bool {
    (from.row_here(row) - j) % 2 != 0
}

/// Rows of the whole grid from `row` on, stored from row j of a subdomain on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    row: usize,
    rows: usize,
    j: isize,
}

/// Returns all rows of the whole grid that a subdomain stores, halo rows included; rows from the other end of a periodic direction are separate.
fn runs(layout: &Layout) -> Vec<Run> {
    let (rows, [around_before, around_after]) = (layout.shape().ny, layout.goes_around_in_y());
    let apart = [around_before, around_after].map(usize::from);
    let [before, after] = [0, 1].map(|end: usize| layout.halo()[end] - apart[end]);
    let runs = [(-1, apart[0]), (-before.cast_signed(), before + rows + after), (rows.cast_signed(), apart[1])];
    runs.into_iter().filter(|run| run.1 > 0).map(|(j, rows)| Run { row: layout.row_there(j), rows, j }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_bring_every_row_of_a_part_once() {
        for (rows, starts) in
            [(8, vec![0, 3, 8]), (6, vec![0, 1, 2, 6]), (2, vec![0, 1, 2]), (9, vec![0, 9]), (9, vec![0, 5, 9])]
        {
            for (slab, is_ring) in starts.windows(2).flat_map(|slab| [(slab, false), (slab, true)]) {
                let slab = Slab { first: slab[0], beyond: slab[1] };
                let layout = slab.layout(Shape::new(5, rows, 2), is_ring).unwrap();
                let [before, after] = layout.halo().map(usize::cast_signed);
                let all: Vec<_> = runs(&layout)
                    .into_iter()
                    .flat_map(|run| (0..run.rows).map(move |n| (run.j + n.cast_signed(), run.row + n)))
                    .collect();
                let expected: Vec<_> = (-before..slab.rows().cast_signed() + after)
                    .map(|j| (j, (slab.first + rows).wrapping_add_signed(j) % rows))
                    .collect();
                assert_eq!(all, expected, "{slab:?} of {rows}, {is_ring}");
                let whole = Layout::new(Shape::new(5, rows, 2)).unwrap();
                for (run, n) in runs(&layout).into_iter().flat_map(|run| (0..run.rows).map(move |n| (run, n))) {
                    // An even number of rows further on, where there is no halo.
                    let (there, here) = (Colour::of(0, run.row + n), Colour::of(0, (run.j + 2).cast_unsigned() + n));
                    assert_eq!(exchanges_colours(&whole, run.row, run.j), there != here, "{slab:?} of {rows}, {run:?}");
                }
            }
        }
    }

    /// Kernels test for the first and the last row of a periodic direction; other subdomains have neighbours.
    #[test]
    fn rings_go_on_beyond_their_ends() {
        let shape = Shape::new(5, 8, 2);
        let of = |first: usize, beyond: usize, is_ring: bool| {
            rows_around(&Slab { first, beyond }.layout(shape, is_ring).unwrap(), 8)
        };
        assert_eq!([of(0, 8, true), of(0, 8, false)], [[0, 8]; 2]);
        assert_eq!([of(0, 3, false), of(3, 8, false)], [[0, 8], [-3, 5]]);
        assert_eq!([of(0, 3, true), of(3, 6, true), of(6, 8, true)], [[-1, 9], [-4, 6], [-7, 3]]);
    }
}
