//! This module defines back ends whose vectors may be subdomains of a larger grid, and fills their halo rows.

use std::sync::Arc;

use isobar_core::prelude::{Backend, Colour, Layout, Meanwhile, Real, Result, Scalar, Slab};
use isobar_core::real::{bytes_of, bytes_of_mut};

use crate::edge::edges_of;
pub use crate::edge::{Edge, Handed};
use crate::ranks::Ranks;

/// A back end whose vectors may be subdomains of larger ones, with halo rows. Elementwise operations ([`clear`](Backend::clear),
/// [`convert`](Backend::convert), [`scale`](Backend::scale), [`axpy`](Backend::axpy), [`xpay`](Backend::xpay)) act on halo rows too;
/// sums are those of all subdomains.
pub trait PartBackend: Backend {
    /// The type of direct links between such devices; [`NoLink`] if they have none.
    type Link: Link<Self>;

    /// Returns the ranks that this device is one of; nothing if it is alone. On ranks, operators are made of stencils of the whole
    /// grid and act on this rank's rows.
    fn ranks(&self) -> Option<&Arc<Ranks>>;

    /// Makes the device one of several ranks, or none of them. See [`join`](crate::join).
    #[must_use]
    fn with_ranks(self, ranks: Option<Arc<Ranks>>) -> Self;

    /// Returns the device without its ranks, for grids that every rank holds completely.
    #[must_use]
    fn alone(&self) -> Self {
        self.clone().with_ranks(None)
    }

    /// Returns the direct link to the devices of other ranks, if there is one: halo rows and sums then do not pass through the host.
    fn link(&self) -> Option<&Self::Link> {
        None
    }

    /// Returns whether data pass through the host on their way between ranks.
    fn exchanges_on_host(&self) -> bool {
        self.ranks().is_some() && self.link().is_none()
    }

    /// Receives what the previous rank has sent, and sends to the next one; does nothing without other ranks.
    fn hand_on<T: Real>(&self, Handed { upwards, send, receive }: Handed<'_, T>) -> Result<()> {
        let Some(ranks) = self.ranks() else { return Ok(()) };
        ranks.hand_on(Handed { upwards, send: bytes_of(send), receive: bytes_of_mut(receive) })
    }

    /// Calls `exchange` with the edges of a vector that border on other subdomains, for the given colours of the larger grid.
    ///
    /// # Errors
    /// The errors of `exchange`; the errors of the device.
    fn edges<T: Real>(
        &self,
        x: &mut Self::Vector<T>,
        colours: &[Colour],
        exchange: &mut dyn FnMut(&mut [Edge<'_, T>]) -> Result<()>,
    ) -> Result<()>;

    /// Copies rows of the larger grid, which this vector holds, to the host: half plane by half plane with their padding, the
    /// larger grid's red columns of a row before its black ones.
    fn read_rows<T: Real>(&self, x: &Self::Vector<T>, rows: Slab, to: &mut [T]) -> Result<()>;

    /// Copies rows, halo rows included, from the host to a vector that has them; the reverse of `read_rows`.
    fn write_rows<T: Real>(&self, from: &[T], rows: Slab, x: &mut Self::Vector<T>) -> Result<()>;

    /// Copies the rows of a subdomain, its halo included, from a vector of the whole grid.
    fn copy_part<T: Real>(&self, from: &Self::Vector<T>, to: &mut Self::Vector<T>) -> Result<()>;
}

/// Implements [`Backend::fill_while`] for a device that may be one of several ranks, for a vector with this layout.
pub fn fill<B: PartBackend, T: Real>(
    backend: &B,
    of: &Layout,
    x: &mut B::Vector<T>,
    colours: &[Colour],
    meanwhile: Meanwhile<'_>,
) -> Result<()> {
    let Some(ranks) = backend.ranks().filter(|_| of.is_filled()) else { return Ok(()) };
    if let Some(link) = backend.link() {
        return link.fill(backend, x, colours);
    }
    backend.edges(x, colours, &mut |edges| {
        let mut edges: Vec<Edge<'_, u8>> = edges
            .iter_mut()
            .map(|Edge { is_after, colour, send, receive }| Edge {
                is_after: *is_after,
                colour: *colour,
                send: bytes_of(send),
                receive: bytes_of_mut(receive),
            })
            .collect();
        ranks.exchange(&mut edges, &mut *meanwhile)
    })
}

/// Implements [`Backend::sum`] for a device that may be one of several ranks.
pub fn sum<B: PartBackend>(backend: &B, of: &Layout, sums: &[Scalar], scalars: &mut B::Scalars) -> Result<()> {
    let Some(ranks) = backend.ranks().filter(|_| of.is_part()) else { return Ok(()) };
    if let Some(link) = backend.link() {
        return link.sum(backend, sums, scalars);
    }
    let (bank, mut values) = (backend.read(scalars)?, [0.0; Scalar::COUNT]);
    let values = &mut values[..sums.len()];
    values.iter_mut().zip(sums).for_each(|(value, scalar)| *value = bank[scalar.index()]);
    ranks.world().sum(values)?;
    sums.iter().zip(values).try_for_each(|(&scalar, value)| backend.set(scalars, scalar, *value))
}

/// The two ways in which a grid is divided among ranks: rank r has rows `rows[r]` to `rows[r + 1]`, or layers `layers[r]` to `layers[r
/// + 1]`, which may be none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Division {
    /// The first row of each rank, and the end of the last one's.
    pub rows: Vec<usize>,
    /// The first layer of each rank, and the end of the last one's.
    pub layers: Vec<usize>,
}

/// A redistribution from rows to layers, or back, with the vectors of this rank.
#[derive(Debug)]
pub enum Redivision<'v, V> {
    /// The redistribution from all layers of a rank's rows to all rows of its layers.
    ToLayers {
        /// The source.
        rows: &'v V,
        /// The target.
        layers: &'v mut V,
    },
    /// The redistribution in the other direction.
    ToRows {
        /// The source.
        layers: &'v V,
        /// The target.
        rows: &'v mut V,
    },
}

impl<V> Redivision<'_, V> {
    /// Returns the vector of the rank's rows, that of its layers, and whether the second is written.
    pub fn vectors(&self) -> ([&V; 2], bool) {
        match self {
            Self::ToLayers { rows, layers } => ([rows, layers], true),
            Self::ToRows { layers, rows } => ([rows, layers], false),
        }
    }
}

/// A direct link between the devices of several ranks. All ranks make the same calls in the same order.
pub trait Link<B: PartBackend>: Send + Sync + 'static {
    /// Fills the halo of a vector, for the given colours of the larger grid, with the neighbours' values.
    fn fill<T: Real>(&self, backend: &B, x: &mut B::Vector<T>, colours: &[Colour]) -> Result<()>;

    /// Replaces scalars by their sums over all ranks, added in the order of ranks.
    fn sum(&self, backend: &B, sums: &[Scalar], scalars: &mut B::Scalars) -> Result<()>;

    /// Gathers the subdomains of all ranks in `whole`; rank r has rows `starts[r]` to `starts[r + 1]`.
    fn gather<T: Real>(
        &self,
        backend: &B,
        part: &B::Vector<T>,
        starts: &[usize],
        whole: &mut B::Vector<T>,
    ) -> Result<()>;

    /// Redistributes a grid between a division into rows and one into layers.
    fn redivide<T: Real>(&self, backend: &B, division: &Division, change: Redivision<'_, B::Vector<T>>) -> Result<()>;
}

/// The link of devices that exchange through the host only.
#[derive(Debug)]
pub enum NoLink {}

impl<B: PartBackend> Link<B> for NoLink {
    fn fill<T: Real>(&self, _: &B, _: &mut B::Vector<T>, _: &[Colour]) -> Result<()> {
        match *self {}
    }

    fn sum(&self, _: &B, _: &[Scalar], _: &mut B::Scalars) -> Result<()> {
        match *self {}
    }

    fn gather<T: Real>(&self, _: &B, _: &B::Vector<T>, _: &[usize], _: &mut B::Vector<T>) -> Result<()> {
        match *self {}
    }

    fn redivide<T: Real>(&self, _: &B, _: &Division, _: Redivision<'_, B::Vector<T>>) -> Result<()> {
        match *self {}
    }
}

/// Implements [`PartBackend::edges`] for a vector in host memory: all its entries, halo rows included.
///
/// # Errors
/// The errors of `exchange`.
pub fn edges<T: Real>(
    layout: &Layout,
    entries: &mut [T],
    colours: &[Colour],
    exchange: &mut dyn FnMut(&mut [Edge<'_, T>]) -> Result<()>,
) -> Result<()> {
    match edges_of(layout, entries, colours) {
        [Some(a), Some(b), Some(c), Some(d)] => exchange(&mut [a, b, c, d]),
        [Some(a), Some(b), None, None] => exchange(&mut [a, b]),
        [Some(a), None, None, None] => exchange(&mut [a]),
        _ => Ok(()),
    }
}

/// Implements [`PartBackend::copy_part`] for vectors in host memory: all their entries, halo rows included.
pub fn copy_part<T: Real>(from: &[T], part: &Layout, to: &mut [T]) {
    let half_plane = part.half_plane();
    for (n, to) in to.chunks_exact_mut(half_plane).enumerate() {
        let j = (n / 2).cast_signed() - part.halo()[0].cast_signed();
        let row = part.row_there(j);
        // A column has the same number in both, and its colour is the parity of that and of the row.
        let colour = (n + row).wrapping_add_signed(j) % 2;
        to.copy_from_slice(&from[(2 * row + colour) * half_plane..][..half_plane]);
    }
}

/// Returns where each half plane of some rows of the larger grid begins in a vector, in their order.
fn half_planes(layout: &Layout, rows: Slab) -> impl Iterator<Item = usize> + use<> {
    let layout = *layout;
    (rows.first..rows.beyond).flat_map(move |row| {
        Colour::BOTH.map(|colour| {
            let halves = 2 * (row + layout.halo()[0] - layout.first_row()) + layout.local(colour) as usize;
            halves * layout.half_plane()
        })
    })
}

/// Implements [`PartBackend::read_rows`] for a vector in host memory: all its entries, halo rows included.
pub fn read_rows<T: Real>(layout: &Layout, entries: &[T], rows: Slab, to: &mut [T]) {
    let half_plane = layout.half_plane();
    for (to, start) in to.chunks_exact_mut(half_plane).zip(half_planes(layout, rows)) {
        to.copy_from_slice(&entries[start..start + half_plane]);
    }
}

/// Implements [`PartBackend::write_rows`] for a vector in host memory: all its entries, halo rows included.
pub fn write_rows<T: Real>(layout: &Layout, from: &[T], rows: Slab, entries: &mut [T]) {
    let half_plane = layout.half_plane();
    for (from, start) in from.chunks_exact(half_plane).zip(half_planes(layout, rows)) {
        entries[start..start + half_plane].copy_from_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isobar_core::layout::Shape;
    use isobar_core::reference::Vector;

    #[test]
    fn rows_of_a_ring_come_from_its_other_end() {
        let shape = Shape::new(6, 8, 2);
        let value = |i: usize, j: usize, k: usize| (1 + i + 10 * j + 100 * k) as f64;
        let mut whole = Vector::<f64>::zeros(&Layout::new(shape).unwrap()).unwrap();
        whole.fill_with(value);
        for (first, beyond) in [(0, 3), (3, 8), (5, 8), (3, 4)] {
            let layout = Slab { first, beyond }.layout(shape, true).unwrap();
            let mut part = Vector::<f64>::zeros(&layout).unwrap();
            copy_part(whole.all_entries(), &layout, part.all_entries_mut());
            for (j, k) in (-1..=layout.shape().ny.cast_signed()).flat_map(|j| (0..2).map(move |k| (j, k))) {
                let row = (first + 8).wrapping_add_signed(j) % 8;
                for i in 0..6 {
                    assert_eq!(part.get(i, j.cast_unsigned(), k), value(i, row, k), "{first} {i} {j}");
                }
            }
        }
    }

    /// Checks that subdomains of a grid, wherever they begin, send the right cells and store received ones in the right places.
    #[test]
    fn rows_and_edges_are_those_of_the_larger_grid() {
        let whole = Shape::new(9, 7, 3);
        let value = |i: usize, j: usize, k: usize| (1 + i + 10 * j + 100 * k) as f64;
        let mut all = Vector::<f64>::zeros(&Layout::new(whole).unwrap()).unwrap();
        all.fill_with(value);
        for slab in [Slab { first: 0, beyond: 3 }, Slab { first: 3, beyond: 5 }, Slab { first: 4, beyond: 7 }] {
            let layout = slab.layout(whole, false).unwrap();
            let mut part = Vector::<f64>::zeros(&layout).unwrap();
            part.fill_with(|i, j, k| value(i, j + slab.first, k));
            let with_halo = Slab { first: slab.first - layout.halo()[0], beyond: slab.beyond + layout.halo()[1] };
            let mut rows = vec![0.0; with_halo.rows() * 2 * layout.half_plane()];
            read_rows(all.layout(), all.all_entries(), with_halo, &mut rows);

            let mut taken = Vector::<f64>::zeros(&layout).unwrap();
            write_rows(&layout, &rows, with_halo, taken.all_entries_mut());
            assert_eq!(taken.entries(), part.entries());
            let mut copied = Vector::<f64>::zeros(&layout).unwrap();
            copy_part(all.all_entries(), &layout, copied.all_entries_mut());
            assert_eq!(copied.all_entries(), taken.all_entries());
            let at = |v: &Vector<f64>, row: usize| -> Vec<f64> {
                let cells = (0..whole.nz).flat_map(|k| (0..whole.nx).map(move |i| (i, k)));
                cells.map(|(i, k)| v.get(i, row.wrapping_sub(slab.first), k)).collect()
            };
            for row in with_halo.first..with_halo.beyond {
                let expected: Vec<f64> =
                    (0..whole.nz).flat_map(|k| (0..whole.nx).map(move |i| value(i, row, k))).collect();
                assert_eq!(at(&taken, row), expected, "row {row} of {slab:?}");
            }

            let mut seen = 0;
            edges(&layout, part.all_entries_mut(), &Colour::BOTH, &mut |edges| {
                for edge in edges {
                    let row = if edge.is_after { slab.beyond - 1 } else { slab.first };
                    let one = Slab { first: row, beyond: row + 1 };
                    let mut expected = vec![0.0; 2 * layout.half_plane()];
                    read_rows(all.layout(), all.all_entries(), one, &mut expected);
                    assert_eq!(edge.send, &expected[edge.colour as usize * layout.half_plane()..][..edge.send.len()]);
                    let beyond = if edge.is_after { row + 1 } else { row - 1 };
                    read_rows(
                        all.layout(),
                        all.all_entries(),
                        Slab { first: beyond, beyond: beyond + 1 },
                        &mut expected,
                    );
                    let half = edge.receive.len();
                    edge.receive.copy_from_slice(&expected[edge.colour as usize * half..][..half]);
                    seen += 1;
                }
                Ok(())
            })
            .unwrap();
            assert_eq!(seen, 2 * (layout.halo()[0] + layout.halo()[1]));
            assert_eq!(part.all_entries(), taken.all_entries());
        }
    }
}
