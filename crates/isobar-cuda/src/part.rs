//! Vectors that are parts of larger ones.

use isobar_core::backend::part::{self, Edge, PartBackend};
use isobar_core::error::{Error, Result};
use isobar_core::layout::{Colour, Layout, Shape, Slab};
use isobar_core::real::Real;

use crate::cuda::Cuda;
use crate::driver::Pointer;
use crate::launch::{Arguments, refuse_while_recording};
use crate::link::CardLink;
use crate::peers;
use crate::vector::Vector;

/// Half planes of some rows, halo rows included, by way of the host.
impl Cuda {
    /// Where a row of the larger grid begins in a vector that has it.
    fn row<T: Real>(x: &Vector<T>, row: usize) -> Pointer {
        let layout = x.layout();
        let halves = 2 * (row + layout.halo()[0] - layout.origin()[1]);
        x.all().0 + (halves * layout.half_plane() * size_of::<T>()) as Pointer
    }

    /// Whether colours are stored in the other order than the larger grid has them.
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

/// Red half planes before black ones, or as they are stored where that is the other way round, and back.
fn exchange_colours<T: Copy>(entries: &mut [T], half_plane: usize) {
    for row in entries.chunks_exact_mut(2 * half_plane) {
        let (first, second) = row.split_at_mut(half_plane);
        first.swap_with_slice(second);
    }
}

impl PartBackend for Cuda {
    type Link = CardLink;

    fn link(&self) -> Option<&CardLink> {
        self.card_link()
    }

    /// The rows at both ends, fetched and sent back.
    fn edges<T: Real>(
        &self,
        x: &mut Vector<T>,
        colours: &[Colour],
        exchange: &mut dyn FnMut(&mut [Edge<'_, T>]) -> Result<()>,
    ) -> Result<()> {
        refuse_while_recording("an exchange by way of the host")?;
        let layout = *x.layout();
        let (first, rows, [before, after]) = (layout.origin()[1], layout.shape().ny, layout.halo());
        let row_len = 2 * layout.half_plane();
        // A vector of its edges alone, as the host's helper wants it: halo row, first row, last row, halo row.
        let edge_rows = [first, first + rows - 1];
        let edges = Layout::new(Shape { ny: 2, ..layout.shape() })?.part_of(layout.origin(), layout.halo());
        let mut entries = vec![T::ZERO; edges.len_with_halo()];
        let own = before * row_len..(before + 2) * row_len;
        let places = entries[own].chunks_exact_mut(row_len);
        for (place, row) in places.zip(edge_rows) {
            self.fetch_rows(x, Slab { first: row, beyond: row + 1 }, place)?;
        }
        part::edges(&edges, &mut entries, colours, &mut *exchange)?;
        let is_wanted = |local: Colour| colours.contains(&layout.local(local));
        for (is_there, start, row) in
            [(before, 0, first.wrapping_sub(1)), (after, (before + 2) * row_len, first + rows)]
        {
            if is_there == 0 {
                continue;
            }
            for local in Colour::BOTH.into_iter().filter(|&local| is_wanted(local)) {
                let half = local as usize;
                let at = Self::row(x, row) + (half * layout.half_plane() * size_of::<T>()) as Pointer;
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

    fn copy_rows<T: Real>(&self, from: &Vector<T>, rows: Slab, to: &mut Vector<T>) -> Result<()> {
        let words = from.layout().half_plane() * size_of::<T>() / 16;
        let is_exchanged = Self::is_exchanged(from) != Self::is_exchanged(to);
        let arguments = Arguments::new()
            .with(Self::row(from, rows.first))
            .with(Self::row(to, rows.first))
            .with(words as i64)
            .with(2 * rows.rows() as i64)
            .with(i32::from(is_exchanged));
        let kernel = self.module(peers::source()).kernel("copy_rows")?;
        self.elementwise(kernel, 2 * rows.rows() * words, arguments)
    }
}
