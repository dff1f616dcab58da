//! This module distributes the levels of multigrid over several ranks.
//!
//! A level is divided at the same rows as the finer one, as long as these lie between pairs of rows and slabs are thick
//! enough. On coarser levels every rank has the whole grid and does the same work as the others: right-hand sides are
//! gathered on the way down, and nothing is sent on the way up.

use std::sync::{Arc, Mutex, MutexGuard};

use isobar_core::operator::Coarser;
use isobar_core::prelude::{Layout, LineSmoother, Real, Result, Shape, Slab, Sum, Sweep, Transfer, lock};
use isobar_core::real::{bytes_of, bytes_of_mut};

use crate::part::{Link, PartBackend};
use crate::slabs::{Slabs, too_thin};

/// The transfer from the last divided level to the first one that every rank holds completely.
struct Gathering<B: PartBackend, T: Real> {
    backend: B,
    /// The transfer between this rank's subdomains of both levels.
    part: Arc<dyn Transfer<B, T>>,
    coarse: Layout,
    gathered: Mutex<Gathered<B, T>>,
}

/// This rank's subdomain of a coarse level that every rank holds completely.
struct Gathered<B: PartBackend, T: Real> {
    f: B::Vector<T>,
    u: B::Vector<T>,
    slabs: Slabs,
    /// The host buffers, if subdomains pass through the host: this rank's rows, and all rows.
    staging: [Vec<T>; 2],
}

impl<B: PartBackend, T: Real> Gathered<B, T> {
    fn new(backend: &B, part: &Layout, whole: &Layout, slabs: Slabs) -> Result<Self> {
        let staged = if backend.exchanges_on_host() { [part.len(), whole.len()] } else { [0; 2] };
        // The halo of u is copied from the whole grid too.
        let (f, u) = (backend.zeros(part)?, backend.zeros(&part.with_own_halo())?);
        Ok(Self { f, u, slabs, staging: staged.map(|len| vec![T::ZERO; len]) })
    }

    /// Collects the subdomains f on every rank.
    fn gather(&mut self, backend: &B, to: &mut B::Vector<T>) -> Result<()> {
        let Self { f, slabs, staging: [mine, all], .. } = self;
        let [first, .., beyond] = slabs.starts() else { return Ok(()) };
        if let Some(link) = backend.link() {
            return link.gather(backend, f, slabs.starts(), to);
        }
        let Some(ranks) = backend.ranks() else { return Ok(()) };
        let (world, rank) = (ranks.world(), ranks.rank());
        let row = all.len() / (beyond - first);
        let counts: Vec<usize> = (0..slabs.ranks()).map(|rank| slabs.of(rank).rows() * row * size_of::<T>()).collect();
        backend.read_rows(f, slabs.of(rank), mine)?;
        world.all_gather(bytes_of(mine), &counts, bytes_of_mut(all))?;
        backend.write_rows(all, Slab { first: *first, beyond: *beyond }, to)
    }
}

/// Implements [`LevelBackend::coarser`](isobar_core::operator::LevelBackend::coarser) for a device that may be one of
/// several ranks.
pub fn coarser<B: PartBackend>(backend: &B, fine: Shape, coarse: Shape, is_small: bool) -> Result<Coarser<B>> {
    let Some(ranks) = backend.ranks() else { return Ok(Coarser { own: backend.clone(), alone: None }) };
    let slabs = ranks.slabs(fine)?;
    let halved = if coarse.ny < fine.ny { slabs.halved() } else { Some(slabs) };
    let halved = halved.ok_or_else(|| too_thin(fine.ny, ranks.size()))?;
    let alone = (is_small || !halved.stay_divided()).then(|| backend.alone());
    Ok(Coarser { own: backend.clone().with_ranks(Some(Arc::new(ranks.dividing(coarse, halved)))), alone })
}

/// Implements [`LevelBackend::gathering`](isobar_core::operator::LevelBackend::gathering) for a device that may be one of
/// several ranks.
pub fn gathering<B: PartBackend, T: Real>(
    backend: &B,
    to_own: Arc<dyn Transfer<B, T>>,
    own: &Layout,
    whole: &Layout,
) -> Result<Arc<dyn Transfer<B, T>>> {
    let Some(ranks) = backend.ranks() else { return Ok(to_own) };
    let gathered = Gathered::new(backend, own, whole, ranks.slabs(whole.shape())?)?;
    Ok(Arc::new(Gathering { backend: backend.clone(), part: to_own, coarse: *whole, gathered: Mutex::new(gathered) }))
}

impl<B: PartBackend, T: Real> Gathering<B, T> {
    fn gathered(&self) -> MutexGuard<'_, Gathered<B, T>> {
        // A poisoned lock does no harm: the vectors are overwritten completely before they are read.
        lock(&self.gathered)
    }

    /// Runs a step that restricts to a vector of the subdomain.
    fn restrict_to(
        &self,
        coarse_f: &mut B::Vector<T>,
        step: impl FnOnce(&mut B::Vector<T>) -> Result<()>,
    ) -> Result<()> {
        let mut gathered = self.gathered();
        step(&mut gathered.f)?;
        gathered.gather(&self.backend, coarse_f)
    }

    /// Runs a step that prolongs from a vector of the subdomain.
    fn prolong_from(&self, coarse_u: &B::Vector<T>, step: impl FnOnce(&mut B::Vector<T>) -> Result<()>) -> Result<()> {
        let mut gathered = self.gathered();
        self.backend.copy_part(coarse_u, &mut gathered.u)?;
        step(&mut gathered.u)
    }
}

impl<B: PartBackend, T: Real> Transfer<B, T> for Gathering<B, T> {
    fn fine(&self) -> &dyn LineSmoother<B, T> {
        self.part.fine()
    }

    fn coarse_layout(&self) -> &Layout {
        &self.coarse
    }

    fn is_adjoint(&self) -> bool {
        self.part.is_adjoint()
    }

    fn restrict(&self, f: &mut B::Vector<T>, coarse_f: &mut B::Vector<T>) -> Result<()> {
        self.restrict_to(coarse_f, |coarse_f| self.part.restrict(f, coarse_f))
    }

    fn prolong(&self, coarse_u: &mut B::Vector<T>, u: &mut B::Vector<T>) -> Result<()> {
        self.prolong_from(coarse_u, |coarse_u| self.part.prolong(coarse_u, u))
    }

    fn residual_restrict(&self, f: &B::Vector<T>, [u, coarse_f, scratch]: [&mut B::Vector<T>; 3]) -> Result<()> {
        self.restrict_to(coarse_f, |coarse_f| self.part.residual_restrict(f, [u, coarse_f, scratch]))
    }

    fn smooth_residual_restrict(&self, sweep: Sweep<'_, B::Vector<T>>, coarse_f: &mut B::Vector<T>) -> Result<()> {
        self.restrict_to(coarse_f, |coarse_f| self.part.smooth_residual_restrict(sweep, coarse_f))
    }

    fn prolong_smooth(
        &self,
        coarse_u: &mut B::Vector<T>,
        sweep: Sweep<'_, B::Vector<T>>,
        norm: Option<Sum<'_, B>>,
    ) -> Result<()> {
        self.prolong_from(coarse_u, |coarse_u| self.part.prolong_smooth(coarse_u, sweep, norm))
    }
}
