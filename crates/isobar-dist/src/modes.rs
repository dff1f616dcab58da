//! This module distributes vertical modes over several ranks.
//!
//! Steps on the grid stay with a rank's rows. The modes' two-dimensional problems are independent: every rank solves those of some
//! modes, on the whole grid and without communication. Before and after, the ranks exchange the projections of their rows and the
//! solutions of their modes.

use std::sync::{Arc, Mutex, MutexGuard};

use isobar_core::operator::OwnModes;
use isobar_core::prelude::{
    Expansion, Guess, Layout, LineSmoother, ModalTransfer, Real, Result, Shape, Slab, Sum, VerticalModes, lock,
};
use isobar_core::real::{bytes_of, bytes_of_mut};

use crate::communicator::Message;
use crate::part::{Division, Link, PartBackend, Redivision};
use crate::ranks::Ranks;

/// The transfer between a rank's rows and the modes that it solves.
struct Redividing<B: PartBackend, T: Real, C: Real> {
    backend: B,
    /// The transfer between the grid and all modes, on this rank's rows.
    part: Arc<dyn ModalTransfer<B, T, C>>,
    /// The layout of this rank's modes.
    layout: Layout,
    divided: Mutex<Divided<B, C>>,
}

/// The vectors of all modes on a rank's rows.
struct Divided<B: PartBackend, C: Real> {
    g: B::Vector<C>,
    x: B::Vector<C>,
    division: Division,
    staging: Staging<C>,
}

/// The host buffers, if modes pass through the host: half plane by half plane, the larger grid's red columns of a row before its
/// black ones.
struct Staging<C> {
    /// All modes of this rank's rows.
    rows: Vec<C>,
    /// The same numbers, sorted by the rank that solves the mode.
    packed: Vec<C>,
    /// All rows of this rank's modes.
    layers: Vec<C>,
}

impl<B: PartBackend, C: Real> Divided<B, C> {
    fn new(backend: &B, division: Division, part: &Layout, layers: &Layout) -> Result<Self> {
        let [part_len, layers_len] = if backend.exchanges_on_host() { [part.len(), layers.len()] } else { [0; 2] };
        let zeros = |len| vec![C::ZERO; len];
        Ok(Self {
            g: backend.zeros(part)?,
            x: backend.zeros(part)?,
            division,
            staging: Staging { rows: zeros(part_len), packed: zeros(part_len), layers: zeros(layers_len) },
        })
    }

    /// Redistributes g, all modes on the rows of each rank, to `to`: all rows of this rank's modes.
    fn collect(&mut self, backend: &B, to: &mut B::Vector<C>) -> Result<()> {
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

    /// Redistributes `from`, the modes of each rank, to x: all modes on this rank's rows.
    fn take(&mut self, backend: &B, from: &B::Vector<C>) -> Result<()> {
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
    // A rank without modes has one layer as a placeholder.
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

impl<B: PartBackend, T: Real, C: Real> Redividing<B, T, C> {
    fn divided(&self) -> MutexGuard<'_, Divided<B, C>> {
        // A poisoned lock does no harm: the vectors are overwritten completely before they are read.
        lock(&self.divided)
    }

    /// Runs a step that projects rows.
    fn project_by(&self, g: &mut B::Vector<C>, step: impl FnOnce(&mut B::Vector<C>) -> Result<()>) -> Result<()> {
        let mut divided = self.divided();
        step(&mut divided.g)?;
        divided.collect(&self.backend, g)
    }

    /// Runs a step that expands rows.
    fn expand_by(&self, x: &B::Vector<C>, step: impl FnOnce(&B::Vector<C>) -> Result<()>) -> Result<()> {
        let mut divided = self.divided();
        divided.take(&self.backend, x)?;
        step(&divided.x)
    }
}

impl<B: PartBackend, T: Real, C: Real> ModalTransfer<B, T, C> for Redividing<B, T, C> {
    fn fine(&self) -> &dyn LineSmoother<B, T> {
        self.part.fine()
    }

    fn modal_layout(&self) -> &Layout {
        &self.layout
    }

    fn update(&self, modes: &VerticalModes) -> Result<()> {
        self.part.update(modes)
    }

    fn project(&self, r: &B::Vector<T>, g: &mut B::Vector<C>) -> Result<()> {
        self.project_by(g, |g| self.part.project(r, g))
    }

    fn project_rhs(
        &self,
        f: &B::Vector<T>,
        g: &mut B::Vector<C>,
        u: &mut B::Vector<T>,
        norm: Sum<'_, B>,
    ) -> Result<()> {
        self.project_by(g, |g| self.part.project_rhs(f, g, u, norm))
    }

    fn expand(&self, x: &B::Vector<C>, guess: Guess, u: &mut B::Vector<T>) -> Result<()> {
        self.expand_by(x, |x| self.part.expand(x, guess, u))
    }

    fn project_residual(
        &self,
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        g: &mut B::Vector<C>,
        scratch: &mut B::Vector<T>,
        norm: Sum<'_, B>,
    ) -> Result<()> {
        self.project_by(g, |g| self.part.project_residual(f, u, g, scratch, norm))
    }

    fn expand_smooth_project(
        &self,
        expansion: &Expansion<'_, B::Vector<C>>,
        f: &B::Vector<T>,
        vectors: [&mut B::Vector<T>; 2],
        g: &mut B::Vector<C>,
        norm: Sum<'_, B>,
    ) -> Result<()> {
        let mut divided = self.divided();
        divided.take(&self.backend, expansion.x)?;
        let Divided { g: own, x, .. } = &mut *divided;
        self.part.expand_smooth_project(&Expansion { x, ..*expansion }, f, vectors, own, norm)?;
        divided.collect(&self.backend, g)
    }

    fn expand_smooth_norm(
        &self,
        expansion: &Expansion<'_, B::Vector<C>>,
        f: &B::Vector<T>,
        vectors: [&mut B::Vector<T>; 2],
        norm: Sum<'_, B>,
    ) -> Result<()> {
        self.expand_by(expansion.x, |x| self.part.expand_smooth_norm(&Expansion { x, ..*expansion }, f, vectors, norm))
    }

    fn needs_scratch(&self) -> bool {
        self.part.needs_scratch()
    }
}

/// Implements [`LevelBackend::own_modes`](isobar_core::operator::LevelBackend::own_modes) for a device that may be one of several
/// ranks.
pub fn own_modes<B: PartBackend, T: Real, C: Real>(
    backend: &B,
    grid: Shape,
    to_all: Arc<dyn ModalTransfer<B, T, C>>,
) -> Result<OwnModes<B, T, C>> {
    let (alone, count) = (backend.alone(), to_all.modal_layout().shape().nz);
    let Some(ranks) = backend.ranks() else { return Ok(OwnModes { alone, which: 0..count, transfer: to_all }) };
    let slabs = ranks.slabs(grid)?;
    let (rank, size) = (ranks.rank(), ranks.size());
    let starts: Vec<usize> = (0..=size).map(|rank| count * rank / size).collect();
    let which = match starts[rank]..starts[rank + 1] {
        // No grid has zero layers: a rank without modes gets one problem that nobody uses, with the solution zero.
        none if none.is_empty() => count - 1..count,
        own => own,
    };
    let layout = Layout::new(Shape { nz: which.len(), ..grid })?;
    let division = Division { rows: slabs.starts().to_vec(), layers: starts };
    let divided = Mutex::new(Divided::new(backend, division, to_all.modal_layout(), &layout)?);
    let transfer = Arc::new(Redividing { backend: backend.clone(), part: to_all, layout, divided });
    Ok(OwnModes { alone, which, transfer })
}
