//! The Galerkin levels of diffusion on several ranks: divided as those of [`levels`](crate::levels), then whole on every rank.
//!
//! Every rank makes the matrices of the whole grid, and takes its rows of them. Bodies that several ranks have cells of are
//! corrected by sums over ranks.

use std::sync::Arc;

use isobar_core::backend::part::PartBackend;
use isobar_core::error::Result;
use isobar_core::layout::Layout;
use isobar_core::operator::part::PartSmoother;
use isobar_core::operator::{CoarsestSolver, Correction, LineSmoother, Operator, Transfer};
use isobar_core::real::Real;
use isobar_core::stencil::galerkin_levels::{DenseSolver, every_cell};
use isobar_core::stencil::galerkin_parts::{Division, GalerkinParts};
use isobar_core::stencil::parts::SupportsPointParts;
use isobar_core::stencil::{Diffusion, Hierarchy, Stencil};

use crate::distributed::Distributed;
use crate::levels::{DistributedTransfer, too_thin};
use crate::operator::DistributedOperator;
use crate::own::own_levels;
use crate::patches::Patches;
use crate::slabs::Slabs;
use crate::vector::Vector;

/// Whether such ranks share such levels.
pub(crate) fn divides_galerkin<B: SupportsPointParts>(backend: &Distributed<B>) -> bool {
    B::DIVIDES_GALERKIN && backend.has_whole_rows()
}

/// Whether a grid has such levels on these ranks.
pub(crate) fn has_galerkin<B: SupportsPointParts>(backend: &Distributed<B>, stencil: &Diffusion) -> Result<bool> {
    if !backend.has_others() {
        return Ok(true);
    }
    let patches = backend.patches(stencil.shape())?;
    Ok(divides_galerkin(backend) && patches.rows().halved().is_some())
}

/// The hierarchy of a stencil, as [`by_galerkin_on`] of slabs that this back end has of its grid.
///
/// # Errors
/// As there; [`isobar_core::error::Error::Unsupported`] where x is divided.
pub(crate) fn by_galerkin<B: SupportsPointParts, T: Real>(
    backend: &Distributed<B>,
    stencil: &Diffusion,
    finest: &Arc<DistributedOperator<B, B::Part<T>>>,
    wanted: Option<usize>,
) -> Result<Option<Hierarchy<Distributed<B>, Diffusion, T>>> {
    let slabs = backend.slabs(stencil.shape(), "multigrid on Galerkin grids")?;
    by_galerkin_on(backend, stencil, finest, &slabs, wanted)
}

/// The hierarchy of a stencil whose rows are divided like this; none where the back end divides no such levels.
///
/// # Errors
/// As [`isobar_core::stencil::galerkin_parts::galerkin_parts`]; [`isobar_core::error::Error::Unsupported`] where a slab has no pair of
/// rows.
pub(crate) fn by_galerkin_on<B: SupportsPointParts, T: Real>(
    backend: &Distributed<B>,
    stencil: &Diffusion,
    finest: &Arc<DistributedOperator<B, B::Part<T>>>,
    slabs: &Slabs,
    wanted: Option<usize>,
) -> Result<Option<Hierarchy<Distributed<B>, Diffusion, T>>> {
    let (world, inner) = (backend.world(), backend.inner());
    if backend.has_others() && slabs.halved().is_none() {
        return Err(too_thin(stencil.shape(), &Patches::of_rows(stencil.shape(), slabs.clone())));
    }
    // One part is the whole grid.
    let stays = |starts: &[usize]| backend.has_others() && Slabs::from_starts(starts).stay_divided();
    let division = Division { starts: slabs.starts(), rank: world.rank(), stays: &stays };
    let Some(parts) = inner.galerkin_levels(stencil, finest.part(), division, wanted)? else { return Ok(None) };
    let GalerkinParts { divided, transfers, gathered, corrections, whole, visits, inverse } = parts;
    let whole = own_levels(backend, whole);
    let mut notes = whole.notes;
    if let Some(first) = whole.levels.first().filter(|_| backend.has_others()) {
        notes.insert(0, format!("multigrid: every rank does all the work from {} on", first.layout().shape()));
    }
    let divided: Vec<_> =
        divided.into_iter().map(|part| Arc::new(DistributedOperator::of_part(backend, part))).collect();
    let mut all_transfers: Vec<Arc<dyn Transfer<Distributed<B>, T>>> = Vec::new();
    for (n, part) in transfers.into_iter().enumerate() {
        let (layout, gathered) = match divided.get(n) {
            Some(coarse) => (*Operator::<_, T>::layout(&**coarse), None),
            None => {
                let slabs = gathered.as_ref().filter(|_| backend.has_others());
                let patches = slabs
                    .map(|(layout, starts)| (*layout, Patches::of_rows(layout.shape(), Slabs::from_starts(starts))));
                (*whole.levels[0].layout(), patches)
            }
        };
        let gathered = gathered.as_ref().map(|(layout, patches)| (*layout, patches));
        all_transfers.push(match n {
            0 => transfer_from(finest, part, layout, gathered)?,
            n => transfer_from(&divided[n - 1], part, layout, gathered)?,
        });
    }
    all_transfers.extend(whole.transfers);
    let mut levels = vec![Arc::clone(finest) as Arc<dyn LineSmoother<Distributed<B>, T>>];
    levels.extend(divided.into_iter().map(|level| level as _));
    levels.extend(whole.levels);
    let shared = |part| Some(Arc::new(Shared { part }) as Arc<dyn Correction<_, T>>);
    let mut all_corrections: Vec<_> = corrections.into_iter().map(shared).collect();
    all_corrections.extend(whole.corrections);
    let update = whole.update;
    let (coarsest, update) = match inverse {
        None => (whole.coarsest, update),
        Some(inverse) => {
            let operator = Arc::clone(finest);
            let cells = every_cell(stencil.shape())?.of_part(Operator::<_, T>::layout(&*operator))?;
            let solver = Arc::new(DenseSolver::new(backend, &cells, &inverse(stencil)?)?);
            let solves = Arc::clone(&solver) as Arc<dyn CoarsestSolver<Distributed<B>, T>>;
            let both = move |stencil: &Diffusion| update(stencil).and_then(|()| solver.update(&inverse(stencil)?));
            (Some(solves), Box::new(both) as _)
        }
    };
    Ok(Some(Hierarchy {
        by_points: 0,
        levels,
        transfers: all_transfers,
        corrections: all_corrections,
        coarsest,
        visits,
        notes,
        update,
    }))
}

fn transfer_from<B, O, T>(
    fine: &Arc<DistributedOperator<B, O>>,
    part: Arc<dyn Transfer<B, T>>,
    coarse: Layout,
    gathered: Option<(Layout, &Patches)>,
) -> Result<Arc<dyn Transfer<Distributed<B>, T>>>
where
    B: PartBackend,
    O: PartSmoother<B, T> + ?Sized + 'static,
    T: Real,
{
    let transfer: Arc<DistributedTransfer<B, O, dyn Transfer<B, T>, T>> =
        DistributedTransfer::new(fine, part, coarse, gathered)?;
    Ok(transfer)
}

/// A correction of bodies of which several ranks may have cells.
struct Shared<C: ?Sized> {
    part: Arc<C>,
}

impl<B: PartBackend, T: Real> Correction<Distributed<B>, T> for Shared<dyn Correction<B, T>> {
    fn is_active(&self) -> bool {
        self.part.is_active()
    }

    fn needs_host(&self) -> bool {
        self.part.needs_host()
    }

    fn correct(&self, r: &Vector<B::Vector<T>>, u: &mut Vector<B::Vector<T>>) -> Result<()> {
        self.part.correct(&*r.part()?, u.part_mut())
    }

    fn bytes(&self) -> usize {
        self.part.bytes()
    }
}
