//! Back ends that are one of several ranks.

use std::sync::Arc;

use isobar_core::backend::DeviceInfo;
use isobar_core::error::{Error, Result};
use isobar_core::layout::{Layout, Shape, Slab};

use crate::collect::collect_layers;
use crate::communicator::Communicator;
use crate::part::PartBackend;
use crate::ranks::Ranks;

/// Makes a device one of the ranks of a job, each of which has consecutive rows of a grid. A job of one rank leaves it alone.
///
/// Ranks that are threads must not share the threads of a back end: one that waits for another would keep it from running.
pub fn join<B: PartBackend>(backend: B, world: Arc<dyn Communicator>) -> B {
    let is_shared = world.size() > 1;
    backend.with_ranks(is_shared.then(|| Arc::new(Ranks::new(world))))
}

/// [`Backend::device`](isobar_core::backend::Backend::device) of a device that may be one of several ranks, each of which has one such.
pub fn device<B: PartBackend>(backend: &B, one: DeviceInfo) -> DeviceInfo {
    let Some(ranks) = backend.ranks() else { return one };
    // Ranks may share a processor, and have a GPU each.
    let count = if one.kind == "cuda" { one.count * ranks.size() } else { one.count };
    DeviceInfo { count, ranks: ranks.size(), ..one }
}

/// [`Backend::collect`](isobar_core::backend::Backend::collect) of a device that may be one of several ranks.
pub fn collect<B: PartBackend>(backend: &B, own: Vec<f64>, grid: Shape) -> Result<Vec<f64>> {
    let Some(ranks) = backend.ranks() else { return Ok(own) };
    collect_layers(&**ranks.world(), &own, grid, &vec![0..grid.nz; ranks.size()])
}

/// [`Backend::own_rows`](isobar_core::backend::Backend::own_rows) of a device that may be one of several ranks.
pub fn own_rows<B: PartBackend>(backend: &B, grid: Shape) -> Result<Slab> {
    backend.ranks().map_or(Ok(Slab::whole(grid)), |ranks| Ok(ranks.slabs(grid)?.of(ranks.rank())))
}

/// Fails where relaxation of points by tiles would go on in other ranks' rows.
///
/// # Errors
/// [`Error::Unsupported`], naming sweeps.
pub fn require_sweeps(cycle: &isobar_core::options::PointCycle, of: &Layout) -> Result<()> {
    if cycle.is_sweep() || !of.is_part() {
        return Ok(());
    }
    let [x, y, z] = cycle.tile;
    Err(Error::Unsupported(format!(
        "tiles of {x} × {y} × {z} cells on several ranks, whose rows they would share; use \
         solver.jacobi.sub_iterations = 1 (plain sweeps), which acceleration = \"chebyshev\" makes faster, or run on one"
    )))
}

/// Fails where subdomains do not go through unknowns in order.
///
/// # Errors
/// [`Error::Unsupported`] where a periodic y is divided.
pub fn require_order(of: &Layout) -> Result<()> {
    if of.divides_ring() {
        // The order of unknowns does not go around.
        return Err(Error::Unsupported("incomplete Cholesky on ranks that divide a periodic y; run on one".into()));
    }
    Ok(())
}
