//! Vertical modes on several ranks.
//!
//! What couples columns only to those beside them stays with the rows that a rank has. The modes' two-dimensional problems know
//! nothing of each other: every rank solves those of some modes, on the whole grid and without any exchange. In between, all
//! ranks send each other what they have projected of their rows, and what they have solved for of their modes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use isobar_core::backend::Scalar;
use isobar_core::backend::part::{Division, Link, PartBackend, Redivision};
use isobar_core::error::Result;
use isobar_core::layout::{Layout, Slab};
use isobar_core::operator::part::PartOperator;
use isobar_core::operator::{Guess, LineSmoother, LineSolver, ModalTransfer, Relaxation};
use isobar_core::options::SolverOptions;
use isobar_core::real::{Real, bytes_of, bytes_of_mut};
use isobar_core::stencil::modes::Plan;
use isobar_core::stencil::parts::{SupportsPartModes, SupportsParts};
use isobar_core::stencil::{Modes, Stencil, TensorProduct, VerticalModes};

use crate::communicator::Message;
use crate::distributed::Distributed;
use crate::operator::DistributedOperator;
use crate::own::own_levels;
use crate::vector::Vector;

/// Between a part of a grid and the modes whose problems are this rank's.
struct DistributedModal<B: PartBackend, O, T: Real, C: Real> {
    fine: Arc<DistributedOperator<B, O>>,
    /// To all modes of this rank's rows.
    part: Arc<dyn ModalTransfer<B, T, C>>,
    /// Of this rank's modes.
    layout: Layout,
    /// Where there are other ranks.
    divided: Option<Mutex<Divided<B, C>>>,
}

/// All modes of a rank's rows.
struct Divided<B: PartBackend, C: Real> {
    g: B::Vector<C>,
    x: B::Vector<C>,
    division: Division,
    staging: Staging<C>,
}

/// Where modes pass through the host: half plane by half plane, the larger grid's red columns of a row before its black ones.
struct Staging<C> {
    /// All modes of this rank's rows.
    rows: Vec<C>,
    /// The same, the modes of one rank after those of the other.
    packed: Vec<C>,
    /// All rows of this rank's modes.
    layers: Vec<C>,
}

impl<B: PartBackend, C: Real> Divided<B, C> {
    fn new(backend: &Distributed<B>, division: Division, part: &Layout, layers: &Layout) -> Result<Self> {
        let [part_len, layers_len] = if backend.needs_host() { [part.len(), layers.len()] } else { [0; 2] };
        let zeros = |len| vec![C::ZERO; len];
        Ok(Self {
            g: backend.inner().zeros(part)?,
            x: backend.inner().zeros(part)?,
            division,
            staging: Staging { rows: zeros(part_len), packed: zeros(part_len), layers: zeros(layers_len) },
        })
    }

    /// `to` = all rows of this rank's modes, of what g holds of all modes on all ranks
    fn collect(&mut self, backend: &Distributed<B>, to: &mut B::Vector<C>) -> Result<()> {
        let (inner, rank) = (backend.inner(), backend.world().rank());
        if let Some(link) = inner.link() {
            return link.redivide(inner, &self.division, Redivision::ToLayers { rows: &self.g, layers: to });
        }
        let Self { g, division, staging: Staging { rows, packed, layers }, .. } = self;
        inner.read_rows(g, rows_of(division, rank), rows)?;
        each_run(division, rank, rows.len(), |at, there| packed[there].copy_from_slice(&rows[at]));
        let [sent, received] = pieces(division, rank, packed.len(), layers.len());
        layers[received[rank].clone()].copy_from_slice(&packed[sent[rank].clone()]);
        exchange(backend, packed, &sent, layers, &received)?;
        if layers_of(division, rank) == 0 {
            return Ok(());
        }
        inner.write_rows(layers, Slab { first: 0, beyond: all_rows(division) }, to)
    }

    /// x = all modes of this rank's rows, of what `from` holds of this rank's modes on all
    fn take(&mut self, backend: &Distributed<B>, from: &B::Vector<C>) -> Result<()> {
        let (inner, rank) = (backend.inner(), backend.world().rank());
        if let Some(link) = inner.link() {
            return link.redivide(inner, &self.division, Redivision::ToRows { layers: from, rows: &mut self.x });
        }
        let Self { x, division, staging: Staging { rows, packed, layers }, .. } = self;
        if layers_of(division, rank) > 0 {
            inner.read_rows(from, Slab { first: 0, beyond: all_rows(division) }, layers)?;
        }
        let [received, sent] = pieces(division, rank, packed.len(), layers.len());
        packed[received[rank].clone()].copy_from_slice(&layers[sent[rank].clone()]);
        exchange(backend, layers, &sent, packed, &received)?;
        each_run(division, rank, rows.len(), |at, there| rows[at].copy_from_slice(&packed[there]));
        inner.write_rows(rows, rows_of(division, rank), x)
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

/// Which part of a rank's packed rows has the layers of each rank, and which of its layers the rows of each; `lengths` of both.
fn pieces(division: &Division, rank: usize, packed: usize, layers: usize) -> [Vec<Range>; 2] {
    let ranks = 0..division.rows.len() - 1;
    let (a_layer, a_row) = (packed / all_layers(division), layers / all_rows(division));
    // A rank without modes has a layer that stands for one.
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
fn exchange<B: PartBackend, C: Real>(
    backend: &Distributed<B>,
    from: &[C],
    sent: &[Range],
    to: &mut [C],
    received: &[Range],
) -> Result<()> {
    let (world, mut rest, mut messages) = (backend.world(), to, Vec::with_capacity(sent.len()));
    for (peer, (sent, received)) in sent.iter().zip(received).enumerate() {
        let (receive, others) = rest.split_at_mut(received.len());
        rest = others;
        if peer != world.rank() {
            let (send, receive) = (bytes_of(&from[sent.clone()]), bytes_of_mut(receive));
            messages.push(Message { peer, tag: 0, send, receive });
        }
    }
    world.exchange(&mut messages)
}

impl<B, O, T, C> DistributedModal<B, O, T, C>
where
    B: PartBackend,
    O: PartOperator<B, T>,
    T: Real,
    C: Real,
{
    fn backend(&self) -> &Distributed<B> {
        LineSolver::<_, T>::backend(&*self.fine)
    }

    fn divided(&self) -> Option<MutexGuard<'_, Divided<B, C>>> {
        // Written as a whole before it is read.
        self.divided.as_ref().map(|divided| divided.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs a step that projects rows.
    fn project_by(
        &self,
        g: &mut Vector<B::Vector<C>>,
        step: impl FnOnce(&mut B::Vector<C>) -> Result<()>,
    ) -> Result<()> {
        match self.divided() {
            Some(mut divided) => {
                step(&mut divided.g)?;
                divided.collect(self.backend(), g.part_mut())
            }
            None => step(g.part_mut()),
        }
    }

    /// Runs a step that expands rows.
    fn expand_by(&self, x: &Vector<B::Vector<C>>, step: impl FnOnce(&B::Vector<C>) -> Result<()>) -> Result<()> {
        match self.divided() {
            Some(mut divided) => {
                divided.take(self.backend(), &*x.part()?)?;
                step(&divided.x)
            }
            None => step(&*x.part()?),
        }
    }
}

impl<B, O, T, C> ModalTransfer<Distributed<B>, T, C> for DistributedModal<B, O, T, C>
where
    B: PartBackend,
    O: PartOperator<B, T>,
    T: Real,
    C: Real,
{
    fn fine(&self) -> &dyn LineSmoother<Distributed<B>, T> {
        &*self.fine
    }

    fn modal_layout(&self) -> &Layout {
        &self.layout
    }

    fn update(&self, modes: &VerticalModes) -> Result<()> {
        self.part.update(modes)
    }

    fn project(&self, r: &Vector<B::Vector<T>>, g: &mut Vector<B::Vector<C>>) -> Result<()> {
        self.project_by(g, |g| self.part.project(&*r.part()?, g))
    }

    fn project_rhs(
        &self,
        f: &Vector<B::Vector<T>>,
        g: &mut Vector<B::Vector<C>>,
        u: &mut Vector<B::Vector<T>>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.project_by(g, |g| self.part.project_rhs(&*f.part()?, g, u.part_mut(), norm, &mut *scalars))?;
        self.fine.combine([norm], scalars)
    }

    fn expand(&self, x: &Vector<B::Vector<C>>, guess: Guess, u: &mut Vector<B::Vector<T>>) -> Result<()> {
        self.expand_by(x, |x| self.part.expand(x, guess, u.part_mut()))
    }

    fn project_residual(
        &self,
        f: &Vector<B::Vector<T>>,
        u: &Vector<B::Vector<T>>,
        g: &mut Vector<B::Vector<C>>,
        scratch: &mut Vector<B::Vector<T>>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.fine.fill_to_read(u)?;
        self.project_by(g, |g| {
            self.part.project_residual(&*f.part()?, &*u.part()?, g, scratch.part_mut(), norm, &mut *scalars)
        })?;
        self.fine.combine([norm], scalars)
    }

    fn expand_smooth_project(
        &self,
        x: &Vector<B::Vector<C>>,
        guess: Guess,
        smoother: (Relaxation, usize),
        f: &Vector<B::Vector<T>>,
        u: &mut Vector<B::Vector<T>>,
        g: &mut Vector<B::Vector<C>>,
        scratch: &mut Vector<B::Vector<T>>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        let (f, u, scratch) = (f.part()?, u.part_mut(), scratch.part_mut());
        let mut step = |x: &_, g: &mut _, scalars: &mut _| {
            self.part.expand_smooth_project(x, guess, smoother, &*f, u, g, scratch, norm, scalars)
        };
        match self.divided() {
            Some(mut divided) => {
                divided.take(self.backend(), &*x.part()?)?;
                let Divided { g: own, x, .. } = &mut *divided;
                step(x, own, &mut *scalars)?;
                divided.collect(self.backend(), g.part_mut())?;
            }
            None => step(&*x.part()?, g.part_mut(), &mut *scalars)?,
        }
        self.fine.combine([norm], scalars)
    }

    fn expand_smooth_norm(
        &self,
        x: &Vector<B::Vector<C>>,
        guess: Guess,
        smoother: (Relaxation, usize),
        f: &Vector<B::Vector<T>>,
        u: &mut Vector<B::Vector<T>>,
        scratch: &mut Vector<B::Vector<T>>,
        norm: Scalar,
        scalars: &mut B::Scalars,
    ) -> Result<()> {
        self.expand_by(x, |x| {
            let (f, u, scratch) = (f.part()?, u.part_mut(), scratch.part_mut());
            self.part.expand_smooth_norm(x, guess, smoother, &*f, u, scratch, norm, &mut *scalars)
        })?;
        self.fine.combine([norm], scalars)
    }

    fn needs_scratch(&self) -> bool {
        self.part.needs_scratch()
    }
}

/// So many modes of a matrix, as [`by_modes`](isobar_core::stencil::modes::by_modes) on one rank.
///
/// # Errors
/// As there.
pub(crate) fn by_modes<B, T, C>(
    backend: &Distributed<B>,
    stencil: &TensorProduct,
    operator: &Arc<DistributedOperator<B, <B as SupportsParts<TensorProduct>>::Part<T>>>,
    options: &SolverOptions,
    tolerance: f64,
) -> Result<Modes<Distributed<B>, TensorProduct, T, C>>
where
    B: SupportsPartModes,
    T: Real,
    C: Real,
{
    let (world, inner) = (backend.world(), backend.inner());
    let slabs = backend.slabs(stencil.shape(), "vertical modes")?;
    let modes = stencil.modes()?;
    let plan = Plan::new(stencil, &modes, &options.modes, tolerance)?;
    let part = inner.part_modes::<T, C>(operator.part(), &modes.only(0..plan.count))?;
    let (rank, ranks) = (world.rank(), world.size());
    let starts: Vec<usize> = (0..=ranks).map(|rank| plan.count * rank / ranks).collect();
    let own = match starts[rank]..starts[rank + 1] {
        // There is no grid without layers: a problem that nobody asks for, with the solution zero.
        none if none.is_empty() => plan.count - 1..plan.count,
        own => own,
    };
    let problems = own_levels(backend, inner.problems_of_modes(stencil, own, &options.multigrid)?);
    let layout = *problems.levels[0].layout();
    let divided = if backend.has_others() {
        let division = Division { rows: slabs.starts().to_vec(), layers: starts };
        Some(Mutex::new(Divided::new(backend, division, part.modal_layout(), &layout)?))
    } else {
        None
    };
    let transfer = DistributedModal { fine: Arc::clone(operator), part: Arc::clone(&part), layout, divided };
    Ok(Modes { transfer: Arc::new(transfer), problems, plan }.updating(move |modes| part.update(modes)))
}
