//! This module makes a back end one of several ranks.

use std::sync::Arc;

use isobar_core::backend::DeviceInfo;
use isobar_core::error::{Error, Result};
use isobar_core::layout::{Layout, Shape, Slab};

use crate::collect::collect_layers;
use crate::communicator::Communicator;
use crate::part::PartBackend;
use crate::ranks::Ranks;

/// Makes a device one of the ranks of a job, each of which has consecutive rows of a grid; with a single rank it returns the device
/// unchanged.
///
/// Ranks that are threads must not share the threads of a back end: a waiting rank would keep the one that it waits for from running.
pub fn join<B: PartBackend>(backend: B, world: Arc<dyn Communicator>) -> B {
    let is_shared = world.size() > 1;
    backend.with_ranks(is_shared.then(|| Arc::new(Ranks::new(world))))
}

/// Implements [`Backend::device`](isobar_core::backend::Backend::device) for a device that may be one of several ranks with such a
/// device each.
pub fn device<B: PartBackend>(backend: &B, one: DeviceInfo) -> DeviceInfo {
    let Some(ranks) = backend.ranks() else { return one };
    // Ranks may share a processor, and have a GPU each.
    let count = if one.kind == "cuda" { one.count * ranks.size() } else { one.count };
    DeviceInfo { count, ranks: ranks.size(), ..one }
}

/// Implements [`Backend::collect`](isobar_core::backend::Backend::collect) for a device that may be one of several ranks.
pub fn collect<B: PartBackend>(backend: &B, own: Vec<f64>, grid: Shape) -> Result<Vec<f64>> {
    let Some(ranks) = backend.ranks() else { return Ok(own) };
    collect_layers(&**ranks.world(), &own, grid, &vec![0..grid.nz; ranks.size()])
}

/// Implements [`Backend::own_rows`](isobar_core::backend::Backend::own_rows) for a device that may be one of several ranks.
pub fn own_rows<B: PartBackend>(backend: &B, grid: Shape) -> Result<Slab> {
    backend.ranks().map_or(Ok(Slab::whole(grid)), |ranks| Ok(ranks.slabs(grid)?.of(ranks.rank())))
}

/// Fails if relaxation of points by tiles would continue in other ranks' rows.
///
/// # Errors
/// [`Error::Unsupported`], which recommends plain sweeps.
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

/// Fails if the unknowns of all subdomains have no common order for substitution.
///
/// # Errors
/// [`Error::Unsupported`] if a periodic y is divided.
pub fn require_order(of: &Layout) -> Result<()> {
    if of.divides_ring() {
        // Substitution has a first and a last row, a periodic direction has neither.
        return Err(Error::Unsupported("incomplete Cholesky on ranks that divide a periodic y; run on one".into()));
    }
    Ok(())
}
