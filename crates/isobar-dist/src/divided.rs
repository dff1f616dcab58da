//! This module redistributes grids between a division into rows and one into layers.

use isobar_core::prelude::{Layout, Real, Result, Shape, Slab};
use isobar_core::real::{bytes_of, bytes_of_mut};

use crate::communicator::Message;
use crate::part::{Division, Link, PartBackend, Redivision};
use crate::ranks::Ranks;

/// The vectors of all layers of a rank's rows.
pub(crate) struct Divided<B: PartBackend, C: Real> {
    /// The numbers to redistribute to layers.
    pub(crate) g: B::Vector<C>,
    /// The numbers that were redistributed to rows.
    pub(crate) x: B::Vector<C>,
    division: Division,
    staging: Staging<C>,
}

/// The host buffers, if numbers pass through the host: half plane by half plane, the larger grid's red columns of a row before its
/// black ones.
struct Staging<C> {
    /// All layers of this rank's rows.
    rows: Vec<C>,
    /// These numbers, sorted by the rank that has the layer.
    packed: Vec<C>,
    /// All rows of this rank's layers.
    layers: Vec<C>,
}

impl<B: PartBackend, C: Real> Divided<B, C> {
    pub(crate) fn new(backend: &B, division: Division, part: &Layout, layers: &Layout) -> Result<Self> {
        let [part_len, layers_len] = if backend.exchanges_on_host() { [part.len(), layers.len()] } else { [0; 2] };
        let zeros = |len| vec![C::ZERO; len];
        Ok(Self {
            g: backend.zeros(part)?,
            x: backend.zeros(part)?,
            division,
            staging: Staging { rows: zeros(part_len), packed: zeros(part_len), layers: zeros(layers_len) },
        })
    }

    /// Redistributes g, all layers of each rank's rows, to `to`: all rows of this rank's layers.
    pub(crate) fn collect(&mut self, backend: &B, to: &mut B::Vector<C>) -> Result<()> {
        if let Some(link) = backend.link() {
            return link.redivide(backend, &self.division, Redivision::ToLayers { rows: &self.g, layers: to });
        }
        let Some(ranks) = backend.ranks() else { return Ok(()) };
        let rank = ranks.rank();
        let Self { g, division, staging: Staging { rows, packed, layers }, .. } = self;
        backend.read_rows(g, rows_of(division, rank), rows)?;
        each_run(division, rank, rows.len(), |at, there| packed[there].copy_from_slice(&rows[at]));
        let [sent, received] = pieces(division, rank, packed.len(), layers.len());
        layers[received[rank].clone()].copy_from_slice(&packed[sent[rank].clone()]);
        exchange(ranks, packed, &sent, layers, &received)?;
        if layers_of(division, rank) == 0 {
            return Ok(());
        }
        backend.write_rows(layers, Slab { first: 0, beyond: all_rows(division) }, to)
    }

    /// Redistributes `from`, each rank's layers, to x: all layers of this rank's rows.
    pub(crate) fn take(&mut self, backend: &B, from: &B::Vector<C>) -> Result<()> {
        if let Some(link) = backend.link() {
            return link.redivide(backend, &self.division, Redivision::ToRows { layers: from, rows: &mut self.x });
        }
        let Some(ranks) = backend.ranks() else { return Ok(()) };
        let rank = ranks.rank();
        let Self { x, division, staging: Staging { rows, packed, layers }, .. } = self;
        if layers_of(division, rank) > 0 {
            backend.read_rows(from, Slab { first: 0, beyond: all_rows(division) }, layers)?;
        }
        let [received, sent] = pieces(division, rank, packed.len(), layers.len());
        packed[received[rank].clone()].copy_from_slice(&layers[sent[rank].clone()]);
        exchange(ranks, layers, &sent, packed, &received)?;
        each_run(division, rank, rows.len(), |at, there| rows[at].copy_from_slice(&packed[there]));
        backend.write_rows(rows, rows_of(division, rank), x)
    }
}

type Range = std::ops::Range<usize>;

fn rows_of(division: &Division, rank: usize) -> Slab {
    Slab { first: division.rows[rank], beyond: division.rows[rank + 1] }
}

fn layers_of(division: &Division, rank: usize) -> usize {
    division.layers[rank + 1] - division.layers[rank]
}

fn all_rows(division: &Division) -> usize {
    division.rows[division.rows.len() - 1]
}

fn all_layers(division: &Division) -> usize {
    division.layers[division.layers.len() - 1]
}

/// Returns the ranges of a rank's packed rows that hold the layers of each rank, and of its layers that hold the rows of each.
fn pieces(division: &Division, rank: usize, packed: usize, layers: usize) -> [Vec<Range>; 2] {
    let ranks = 0..division.rows.len() - 1;
    let (a_layer, a_row) = (packed / all_layers(division), layers / all_rows(division));
    // A rank without layers has one as a placeholder.
    let a_row = if layers_of(division, rank) == 0 { 0 } else { a_row };
    let piece = |starts: &[usize], other: usize, size: usize| starts[other] * size..starts[other + 1] * size;
    [
        ranks.clone().map(|other| piece(&division.layers, other, a_layer)).collect(),
        ranks.map(|other| piece(&division.rows, other, a_row)).collect(),
    ]
}

/// Calls `run` for the layers of each rank in each half plane: where they are in order, and packed.
fn each_run(division: &Division, rank: usize, len: usize, mut run: impl FnMut(Range, Range)) {
    let half_planes = 2 * rows_of(division, rank).rows();
    let half_plane = len / half_planes;
    let a_layer = half_plane / all_layers(division);
    for layers in division.layers.windows(2) {
        let (first, size) = (layers[0] * a_layer, (layers[1] - layers[0]) * a_layer);
        for n in 0..half_planes {
            let (at, there) = (n * half_plane + first, half_planes * first + n * size);
            run(at..at + size, there..there + size);
        }
    }
}

/// Sends each other rank its piece of one array, and receives one of another.
fn exchange<C: Real>(ranks: &Ranks, from: &[C], sent: &[Range], to: &mut [C], received: &[Range]) -> Result<()> {
    let (mut rest, mut messages) = (to, Vec::with_capacity(sent.len()));
    for (peer, (sent, received)) in sent.iter().zip(received).enumerate() {
        let (receive, others) = rest.split_at_mut(received.len());
        rest = others;
        if peer != ranks.rank() {
            let (send, receive) = (bytes_of(&from[sent.clone()]), bytes_of_mut(receive));
            messages.push(Message { peer, tag: 0, send, receive });
        }
    }
    ranks.world().exchange(&mut messages)
}

/// The contributions of a rank's piece of a line to the system of all ranks' last cells: to the previous rank's last cell, and to its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// To both row sums.
    RowSums,
    /// The coupling between them, and nothing.
    Couplings,
    /// To both right-hand sides.
    Sums,
}

/// Lines that ranks divide: each eliminates the cells before its last one, so that a cyclic tridiagonal system of all ranks' last cells remains for each line
/// (Wang, ACM Trans. Math. Softw. 7, 170, 1981).
///
/// Vectors have two numbers for each line in two rows a rank, as [`Part`] says: those of this rank's pieces of all lines, or those of all ranks' pieces of
/// some lines. [`place`] is that of a line in the first row, and rows are [`row`] numbers apart.
pub trait Pieces<B: PartBackend> {
    /// Eliminates the cells before the last of all lines, and writes their contributions.
    ///
    /// # Errors
    /// The errors of the device.
    fn condense(&self, part: Part, to: &mut B::Vector<f64>) -> Result<()>;

    /// Factorises the systems of some lines: all ranks' contributions to row sums become 1/p, and nothing; those to couplings t/p and w/p (see
    /// [`isobar_core::direct::Pivot`]).
    ///
    /// # Errors
    /// The errors of the device.
    fn factorise(&self, parts: &mut [B::Vector<f64>; 2]) -> Result<()>;

    /// Solves the systems of some lines: all ranks' contributions to right-hand sides become the solutions in the previous rank's last cell and in its own.
    ///
    /// # Errors
    /// The errors of the device.
    fn solve(&self, pivots: &[B::Vector<f64>; 2], sums: &mut B::Vector<f64>) -> Result<()>;

    /// Writes the solutions to last cells, and adds them to the right-hand sides of their neighbours.
    ///
    /// # Errors
    /// The errors of the device.
    fn expand(&self, solutions: &B::Vector<f64>) -> Result<()>;
}

/// The systems of all ranks' last cells, each of which about as many are solved by every rank.
pub struct Ends<B: PartBackend> {
    divided: Divided<B, f64>,
    /// The layout of numbers of this rank's lines.
    lines: Layout,
    sums: B::Vector<f64>,
    /// The factors of this rank's lines, once they are known.
    pivots: Option<[B::Vector<f64>; 2]>,
}

impl<B: PartBackend> Ends<B> {
    /// Makes the systems of so many lines.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn new(backend: &B, ranks: &Ranks, lines: usize) -> Result<Self> {
        let (rank, size) = (ranks.rank(), ranks.size());
        let shape = Shape::new(lines.div_ceil(size), 2 * size, size);
        let rows = Slab { first: 2 * rank, beyond: 2 * rank + 2 };
        let all = Layout::new(Shape { nz: 1, ..shape })?;
        let division = Division { rows: (0..=size).map(|rank| 2 * rank).collect(), layers: (0..=size).collect() };
        let divided = Divided::new(backend, division, &rows.layout(shape, false)?, &all)?;
        Ok(Self { divided, lines: all, sums: backend.zeros(&all)?, pivots: None })
    }

    /// Forgets the factors, as lines have changed.
    pub fn forget(&mut self) {
        self.pivots = None;
    }

    /// Returns the bytes of its vectors, factors included.
    pub fn bytes(&self) -> usize {
        // As many numbers of all lines are sent and received.
        (3 + 2) * self.lines.len() * size_of::<f64>()
    }

    /// Solves for the last cells of all lines. The first solve after a change factorises their systems.
    ///
    /// # Errors
    /// The errors of the exchange and of the device.
    pub fn meet(&mut self, backend: &B, pieces: &impl Pieces<B>) -> Result<()> {
        let Self { divided, lines, sums, pivots } = self;
        if pivots.is_none() {
            let mut parts = [backend.zeros(lines)?, backend.zeros(lines)?];
            for (part, to) in [Part::RowSums, Part::Couplings].into_iter().zip(&mut parts) {
                pieces.condense(part, &mut divided.g)?;
                divided.collect(backend, to)?;
            }
            pieces.factorise(&mut parts)?;
            *pivots = Some(parts);
        }
        pieces.condense(Part::Sums, &mut divided.g)?;
        divided.collect(backend, sums)?;
        if let Some(pivots) = pivots {
            pieces.solve(pivots, sums)?;
        }
        divided.take(backend, sums)?;
        pieces.expand(&divided.x)
    }
}

/// Returns the last row of the previous rank and the first one of the next, given this rank's first and last. The last rank is before the first one.
///
/// # Errors
/// The errors of the exchange.
pub fn rows_beside(ranks: &Ranks, [first, last]: [&[f64]; 2]) -> Result<[Vec<f64>; 2]> {
    let (rank, size) = (ranks.rank(), ranks.size());
    let mut beside = [vec![0.0; last.len()], vec![0.0; first.len()]];
    let [previous, next] = [(rank + size - 1) % size, (rank + 1) % size];
    let [before, after] = &mut beside;
    let mut messages = [
        Message { peer: previous, tag: 0, send: bytes_of(first), receive: &mut [] },
        Message { peer: next, tag: 0, send: &[], receive: bytes_of_mut(after) },
        Message { peer: next, tag: 1, send: bytes_of(last), receive: &mut [] },
        Message { peer: previous, tag: 1, send: &[], receive: bytes_of_mut(before) },
    ];
    ranks.world().exchange(&mut messages)?;
    Ok(beside)
}

/// Returns the place of a line's first number in a vector of [`Ends`].
pub fn place(layout: &Layout, line: usize) -> usize {
    let (pitch, layers) = (layout.pitch(), layout.shape().nz);
    let (layer, within) = (line / (2 * pitch), line % (2 * pitch));
    (within / pitch * layers + layer) * pitch + within % pitch
}

/// Returns the distance between the two numbers of a line in a vector of [`Ends`].
pub fn row(layout: &Layout) -> usize {
    2 * layout.half_plane()
}
