//! The levels of multigrid on several ranks.
//!
//! A level is divided in the same places as the finer one, as long as these are between pairs of rows and slabs are thick
//! enough. From there on every rank has the whole grid, and all do the same work on it: right-hand sides are gathered on the
//! way down, and nothing needs to be sent on the way up.

use std::sync::{Arc, Mutex, MutexGuard};

use isobar_core::operator::Coarser;
use isobar_core::prelude::{Layout, LineSmoother, Real, Result, Shape, Slab, Sum, Sweep, Transfer, lock};
use isobar_core::real::{bytes_of, bytes_of_mut};

use crate::part::{Link, PartBackend};
use crate::patches::{Patches, too_thin};
use crate::ranks::Ranks;

/// From a level that is divided to one that every rank has whole.
struct Gathering<B: PartBackend, T: Real> {
    backend: B,
    /// Between this rank's subdomains.
    part: Arc<dyn Transfer<B, T>>,
    coarse: Layout,
    gathered: Mutex<Gathered<B, T>>,
}

/// This rank's subdomain of a coarse level that is otherwise whole.
struct Gathered<B: PartBackend, T: Real> {
    f: B::Vector<T>,
    u: B::Vector<T>,
    patches: Patches,
    /// This rank's rows and those of the halo, where they follow each other.
    with_halo: Option<Slab>,
    /// Where subdomains pass through the host: this rank's, and all.
    staging: [Vec<T>; 2],
    /// Where x is divided: the subdomains of all ranks.
    parts: Vec<Layout>,
}

impl<B: PartBackend, T: Real> Gathered<B, T> {
    fn new(backend: &B, ranks: &Ranks, part: &Layout, whole: &Layout, patches: Patches) -> Result<Self> {
        let slab = patches.of(ranks.rank()).y;
        let [before, after] = part.halo();
        let with_halo = (ranks.has_whole_rows() && !part.divides_ring())
            .then(|| Slab { first: slab.first - before, beyond: slab.beyond + after });
        let parts: Vec<Layout> = match ranks.has_whole_rows() {
            true => Vec::new(),
            false => (0..patches.ranks())
                .map(|rank| patches.of(rank).layout(whole.shape(), [false; 2]))
                .collect::<Result<_>>()?,
        };
        let all = if parts.is_empty() { whole.len() } else { parts.iter().map(Layout::len).sum() };
        let staged = if backend.exchanges_on_host() { [part.len(), all] } else { [0; 2] };
        // The halo of u is taken out of the whole too.
        let (f, u) = (backend.zeros(part)?, backend.zeros(&part.with_own_halo())?);
        let staging = staged.map(|len| vec![T::ZERO; len]);
        Ok(Self { f, u, patches, with_halo, staging, parts })
    }

    /// Collects the subdomains f on every rank.
    fn gather(&mut self, backend: &B, to: &mut B::Vector<T>) -> Result<()> {
        let Self { f, patches, staging: [mine, all], parts, .. } = self;
        let slabs = patches.rows();
        let [first, .., beyond] = slabs.starts() else { return Ok(()) };
        if let Some(link) = backend.link() {
            return link.gather(backend, f, slabs.starts(), to);
        }
        let Some(ranks) = backend.ranks() else { return Ok(()) };
        let (world, rank) = (ranks.world(), ranks.rank());
        if !parts.is_empty() {
            let counts: Vec<usize> = parts.iter().map(|part| part.len() * size_of::<T>()).collect();
            backend.read_rows(f, patches.of(rank).y, mine)?;
            world.all_gather(bytes_of(mine), &counts, bytes_of_mut(all))?;
            let mut rest = &all[..];
            for part in parts {
                let (own, others) = rest.split_at(part.len());
                backend.write_part(own, part, to)?;
                rest = others;
            }
            return Ok(());
        }
        let row = all.len() / (beyond - first);
        let counts: Vec<usize> = (0..slabs.ranks()).map(|rank| slabs.of(rank).rows() * row * size_of::<T>()).collect();
        backend.read_rows(f, slabs.of(rank), mine)?;
        world.all_gather(bytes_of(mine), &counts, bytes_of_mut(all))?;
        backend.write_rows(all, Slab { first: *first, beyond: *beyond }, to)
    }

    /// Takes this rank's subdomain u, halo rows included, out of the whole.
    fn take(&mut self, backend: &B, from: &B::Vector<T>) -> Result<()> {
        match self.with_halo {
            Some(rows) => backend.copy_rows(from, rows, &mut self.u),
            None => backend.copy_part(from, &mut self.u),
        }
    }
}

/// [`LevelBackend::coarser`](isobar_core::operator::LevelBackend::coarser) of a device that may be one of several ranks.
pub fn coarser<B: PartBackend>(backend: &B, fine: Shape, coarse: Shape, is_small: bool) -> Result<Coarser<B>> {
    let Some(ranks) = backend.ranks() else { return Ok(Coarser { own: backend.clone(), alone: None }) };
    let patches = ranks.patches(fine)?;
    let halved = patches.halved([coarse.nx < fine.nx, coarse.ny < fine.ny]).ok_or_else(|| too_thin(fine, &patches))?;
    let alone = (is_small || !halved.stay_divided()).then(|| backend.alone());
    Ok(Coarser { own: backend.clone().with_ranks(Some(Arc::new(ranks.dividing(coarse, halved)))), alone })
}

/// [`LevelBackend::gathering`](isobar_core::operator::LevelBackend::gathering) of such a device.
pub fn gathering<B: PartBackend, T: Real>(
    backend: &B,
    to_own: Arc<dyn Transfer<B, T>>,
    own: &Layout,
    whole: &Layout,
) -> Result<Arc<dyn Transfer<B, T>>> {
    let Some(ranks) = backend.ranks() else { return Ok(to_own) };
    let gathered = Gathered::new(backend, ranks, own, whole, ranks.patches(whole.shape())?)?;
    Ok(Arc::new(Gathering { backend: backend.clone(), part: to_own, coarse: *whole, gathered: Mutex::new(gathered) }))
}

impl<B: PartBackend, T: Real> Gathering<B, T> {
    fn gathered(&self) -> MutexGuard<'_, Gathered<B, T>> {
        // Written as a whole before it is read.
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
        gathered.take(&self.backend, coarse_u)?;
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

    fn residual_restrict(
        &self,
        f: &B::Vector<T>,
        u: &mut B::Vector<T>,
        coarse_f: &mut B::Vector<T>,
        scratch: &mut B::Vector<T>,
    ) -> Result<()> {
        self.restrict_to(coarse_f, |coarse_f| self.part.residual_restrict(f, u, coarse_f, scratch))
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
