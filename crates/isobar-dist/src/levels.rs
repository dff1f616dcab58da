//! The levels of multigrid on several ranks.
//!
//! A level is divided in the same places as the finer one, as long as these are between pairs of rows and slabs are thick
//! enough. From there on every rank has the whole grid, and all do the same work on it: right-hand sides are gathered on the
//! way down, and nothing needs to be sent on the way up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use isobar_core::backend::Scalar;
use isobar_core::backend::part::{Link, PartBackend};
use isobar_core::error::{Error, Result};
use isobar_core::layout::{Layout, Patch, Shape, Slab};
use isobar_core::operator::part::PartSmoother;
use isobar_core::operator::{Guess, LineSmoother, Operator, Relaxation, Transfer};
use isobar_core::real::{Real, bytes_of, bytes_of_mut};
use isobar_core::stencil::hierarchy::{coarser_versions, ends_early};
use isobar_core::stencil::parts::SupportsPartLevels;
use isobar_core::stencil::{Coarsen, Hierarchy};

use crate::distributed::Distributed;
use crate::operator::DistributedOperator;
use crate::patches::Patches;
use crate::vector::Vector;

/// Between two levels, the finer of which is divided, or none.
pub struct DistributedTransfer<B: PartBackend, O: ?Sized, P: ?Sized, T: Real> {
    fine: Arc<DistributedOperator<B, O>>,
    /// Between this rank's parts.
    part: Arc<P>,
    coarse: Layout,
    /// Where the coarser level is whole and the finer one is not.
    gathered: Option<Mutex<Gathered<B, T>>>,
}

/// This rank's part of a coarse level that is otherwise whole.
struct Gathered<B: PartBackend, T: Real> {
    f: B::Vector<T>,
    u: B::Vector<T>,
    patches: Patches,
    /// This rank's rows and those of the halo, where they follow each other.
    with_halo: Option<Slab>,
    /// Where parts pass through the host: this rank's, and all.
    staging: [Vec<T>; 2],
    /// Where x is divided: the parts of all ranks.
    parts: Vec<Layout>,
}

impl<B: PartBackend, T: Real> Gathered<B, T> {
    fn new(backend: &Distributed<B>, part: &Layout, whole: &Layout, patches: &Patches) -> Result<Self> {
        let slab = patches.of(backend.world().rank()).y;
        let [before, after] = part.halo();
        let with_halo = (backend.has_whole_rows() && !part.divides_ring())
            .then(|| Slab { first: slab.first - before, beyond: slab.beyond + after });
        let parts: Vec<Layout> = match backend.has_whole_rows() {
            true => Vec::new(),
            false => (0..patches.ranks())
                .map(|rank| patches.of(rank).layout(whole.shape(), [false; 2]))
                .collect::<Result<_>>()?,
        };
        let all = if parts.is_empty() { whole.len() } else { parts.iter().map(Layout::len).sum() };
        let staged = if backend.needs_host() { [part.len(), all] } else { [0; 2] };
        Ok(Self {
            f: backend.inner().zeros(part)?,
            u: backend.inner().zeros(part)?,
            patches: patches.clone(),
            with_halo,
            staging: staged.map(|len| vec![T::ZERO; len]),
            parts,
        })
    }

    /// Collects the parts f on every rank.
    fn gather(&mut self, backend: &Distributed<B>, to: &mut B::Vector<T>) -> Result<()> {
        let Self { f, patches, staging: [mine, all], parts, .. } = self;
        let slabs = patches.rows();
        let (inner, world) = (backend.inner(), backend.world());
        if let Some(link) = inner.link() {
            return link.gather(inner, f, slabs.starts(), to);
        }
        if !parts.is_empty() {
            let counts: Vec<usize> = parts.iter().map(|part| part.len() * size_of::<T>()).collect();
            inner.read_rows(f, patches.of(world.rank()).y, mine)?;
            world.all_gather(bytes_of(mine), &counts, bytes_of_mut(all))?;
            let mut rest = &all[..];
            for part in parts {
                let (own, others) = rest.split_at(part.len());
                inner.write_part(own, part, to)?;
                rest = others;
            }
            return Ok(());
        }
        let [first, .., beyond] = slabs.starts() else { return Ok(()) };
        let row = all.len() / (beyond - first);
        let counts: Vec<usize> = (0..slabs.ranks()).map(|rank| slabs.of(rank).rows() * row * size_of::<T>()).collect();
        inner.read_rows(f, slabs.of(world.rank()), mine)?;
        world.all_gather(bytes_of(mine), &counts, bytes_of_mut(all))?;
        inner.write_rows(all, Slab { first: *first, beyond: *beyond }, to)
    }

    /// Takes this rank's part u, halo rows included, out of the whole.
    fn take(&mut self, backend: &Distributed<B>, from: &B::Vector<T>) -> Result<()> {
        match self.with_halo {
            Some(rows) => backend.inner().copy_rows(from, rows, &mut self.u),
            None => backend.inner().copy_part(from, &mut self.u),
        }
    }
}

impl<B, O, P, T> DistributedTransfer<B, O, P, T>
where
    B: PartBackend,
    O: PartSmoother<B, T> + ?Sized,
    P: Transfer<B, T> + ?Sized,
    T: Real,
{
    /// From a level to the next coarser one. Where that is whole and this one is divided, `gathered` says how this rank's part of
    /// it is stored, and how it is divided.
    pub(crate) fn new(
        fine: &Arc<DistributedOperator<B, O>>,
        part: Arc<P>,
        coarse: Layout,
        gathered: Option<(Layout, &Patches)>,
    ) -> Result<Arc<Self>> {
        let backend = Operator::<_, T>::backend(&**fine);
        let gather =
            |(part, patches): (Layout, &Patches)| Gathered::new(backend, &part, &coarse, patches).map(Mutex::new);
        Ok(Arc::new(Self { fine: Arc::clone(fine), part, coarse, gathered: gathered.map(gather).transpose()? }))
    }

    fn backend(&self) -> &Distributed<B> {
        Operator::<_, T>::backend(&*self.fine)
    }

    /// What holds the parts of the coarser level, where they are not its vectors.
    fn gathered(&self) -> Option<MutexGuard<'_, Gathered<B, T>>> {
        // Written as a whole before it is read.
        self.gathered.as_ref().map(|gathered| gathered.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs a step that restricts to a vector of the part.
    fn restrict_to(
        &self,
        coarse_f: &mut Vector<B::Vector<T>>,
        step: impl FnOnce(&mut B::Vector<T>) -> Result<()>,
    ) -> Result<()> {
        match self.gathered() {
            Some(mut gathered) => {
                step(&mut gathered.f)?;
                gathered.gather(self.backend(), coarse_f.part_mut())
            }
            None => step(coarse_f.part_mut()),
        }
    }

    /// Runs a step that prolongs from a vector of the part, whose halo rows are filled.
    fn prolong_from(
        &self,
        coarse_u: &Vector<B::Vector<T>>,
        step: impl FnOnce(&B::Vector<T>) -> Result<()>,
    ) -> Result<()> {
        match self.gathered() {
            Some(mut gathered) => {
                gathered.take(self.backend(), &*coarse_u.part()?)?;
                step(&gathered.u)
            }
            None => {
                self.fine.fill_to_read(coarse_u)?;
                step(&*coarse_u.part()?)
            }
        }
    }
}

impl<B, O, P, T> Transfer<Distributed<B>, T> for DistributedTransfer<B, O, P, T>
where
    B: PartBackend,
    O: PartSmoother<B, T> + ?Sized,
    P: Transfer<B, T> + ?Sized,
    T: Real,
{
    fn fine(&self) -> &dyn LineSmoother<Distributed<B>, T> {
        &*self.fine
    }

    fn coarse_layout(&self) -> &Layout {
        &self.coarse
    }

    fn is_adjoint(&self) -> bool {
        self.part.is_adjoint()
    }

    fn restrict(&self, f: &Vector<B::Vector<T>>, coarse_f: &mut Vector<B::Vector<T>>) -> Result<()> {
        if self.part.restricts_halo() {
            self.fine.fill_to_read(f)?;
        }
        self.restrict_to(coarse_f, |coarse_f| self.part.restrict(&*f.part()?, coarse_f))
    }

    fn prolong(&self, coarse_u: &Vector<B::Vector<T>>, u: &mut Vector<B::Vector<T>>) -> Result<()> {
        self.prolong_from(coarse_u, |coarse_u| self.part.prolong(coarse_u, u.part_mut()))
    }

    fn residual_restrict(
        &self,
        f: &Vector<B::Vector<T>>,
        u: &Vector<B::Vector<T>>,
        coarse_f: &mut Vector<B::Vector<T>>,
        scratch: &mut Vector<B::Vector<T>>,
    ) -> Result<()> {
        self.fine.fill_to_read(u)?;
        self.restrict_to(coarse_f, |coarse_f| {
            self.part.residual_restrict(&*f.part()?, &*u.part()?, coarse_f, scratch.part_mut())
        })
    }

    fn smooth_residual_restrict(
        &self,
        relaxation: Relaxation,
        guess: Guess,
        f: &Vector<B::Vector<T>>,
        u: &mut Vector<B::Vector<T>>,
        coarse_f: &mut Vector<B::Vector<T>>,
        scratch: &mut Vector<B::Vector<T>>,
    ) -> Result<()> {
        self.restrict_to(coarse_f, |coarse_f| {
            let (f, u, scratch) = (f.part()?, u.part_mut(), scratch.part_mut());
            self.part.smooth_residual_restrict(relaxation, guess, &*f, u, coarse_f, scratch)
        })
    }

    fn prolong_smooth(
        &self,
        relaxation: Relaxation,
        f: &Vector<B::Vector<T>>,
        coarse_u: &Vector<B::Vector<T>>,
        u: &mut Vector<B::Vector<T>>,
        scratch: &mut Vector<B::Vector<T>>,
        norm: Option<(Scalar, &mut B::Scalars)>,
    ) -> Result<()> {
        self.prolong_from(coarse_u, |coarse_u| {
            let (f, u, scratch) = (f.part()?, u.part_mut(), scratch.part_mut());
            match norm {
                Some((scalar, scalars)) => {
                    let norm = Some((scalar, &mut *scalars));
                    self.part.prolong_smooth(relaxation, &*f, coarse_u, u, scratch, norm)?;
                    self.fine.combine([scalar], scalars)
                }
                None => self.part.prolong_smooth(relaxation, &*f, coarse_u, u, scratch, None),
            }
        })
    }
}

/// The hierarchy of a stencil that coarsens on the host.
///
/// # Errors
/// [`Error::Unsupported`] where a slab has no pair of rows; as [`Supports::operator`](isobar_core::stencil::Supports::operator).
pub(crate) fn by_coarsening<B, S, T>(
    backend: &Distributed<B>,
    stencil: &S,
    finest: &Arc<DistributedOperator<B, B::Part<T>>>,
    wanted: Option<usize>,
) -> Result<Hierarchy<Distributed<B>, S, T>>
where
    B: SupportsPartLevels<S>,
    S: Coarsen,
    T: Real,
{
    let (world, inner) = (backend.world(), backend.inner());
    let mut patches = Some(backend.patches(stencil.shape())?).filter(|_| backend.has_others());
    let (mut operators, mut transfers, mut notes) = (vec![Arc::clone(finest)], Vec::new(), Vec::new());
    let mut last = stencil.shape();
    for coarse in coarser_versions(stencil, wanted) {
        let operator_before = Arc::clone(&operators[operators.len() - 1]);
        let whole = Patch::whole(coarse.shape());
        let halve = |patches: &Patches| patches.halved([true; 2]).ok_or_else(|| too_thin(last, patches));
        let halved = patches.as_ref().map(halve).transpose()?;
        let part = inner.part::<T>(&coarse, halved.as_ref().map_or(whole, |patches| patches.of(world.rank())))?;
        let part_transfer = inner.part_transfer(operator_before.part(), &part)?;
        patches = halved.clone().filter(Patches::stay_divided);
        let (operator, gathered) = match (&halved, &patches) {
            (_, Some(_)) => (DistributedOperator::of_part(backend, part), None),
            (Some(halved), None) => {
                notes.push(format!("multigrid: every rank does all the work from {} on", coarse.shape()));
                let all = inner.part::<T>(&coarse, whole)?;
                let gathered = Gathered::new(backend, part.layout(), all.layout(), halved)?;
                (DistributedOperator::whole(backend, all), Some(Mutex::new(gathered)))
            }
            (None, None) => (DistributedOperator::whole(backend, part), None),
        };
        let operator = Arc::new(operator);
        let coarse_layout = *Operator::<_, T>::layout(&*operator);
        let transfer: Arc<dyn Transfer<Distributed<B>, T>> = Arc::new(DistributedTransfer {
            fine: operator_before,
            part: part_transfer,
            coarse: coarse_layout,
            gathered,
        });
        transfers.push(transfer);
        operators.push(operator);
        last = coarse.shape();
    }
    notes.extend(ends_early(stencil, wanted, operators.len(), last));
    let levels = operators.iter().map(|operator| Arc::clone(operator) as Arc<dyn LineSmoother<_, T>>).collect();
    let inner = inner.clone();
    let update = move |stencil: &S| {
        let update = |(operator, coarse): (&Arc<DistributedOperator<B, B::Part<T>>>, S)| {
            inner.update_part(operator.part(), &coarse)
        };
        operators[1..].iter().zip(coarser_versions(stencil, Some(operators.len()))).try_for_each(update)
    };
    Ok(Hierarchy::plain(levels, transfers, notes, Box::new(update)))
}

/// Where pairs of rows of a grid are divided; patches begin with even columns in any case.
pub(crate) fn too_thin(shape: Shape, patches: &Patches) -> Error {
    let (rows, ranks) = (shape.ny, patches.rows().ranks());
    Error::Unsupported(format!(
        "multigrid for {rows} rows on {ranks} ranks, which need {} at least; use fewer ranks, or solver.method = \"cg\" with the \
         preconditioner \"line\"",
        2 * ranks - 1
    ))
}
