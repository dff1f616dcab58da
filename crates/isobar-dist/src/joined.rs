//! Back ends that are one of several ranks.

use std::sync::Arc;

use isobar_core::backend::DeviceInfo;
use isobar_core::error::{Error, Result};
use isobar_core::layout::{Layout, Patch, Shape, needs_whole_rows};

use crate::communicator::Communicator;
use crate::part::PartBackend;
use crate::patches::collect_layers;
use crate::ranks::Ranks;

/// Makes a device one of the ranks of a job, which divide x and y of a grid into this many parts; [1, ranks] are slabs of whole rows.
/// A job of one rank leaves it alone.
///
/// Ranks that are threads must not share the threads of a back end: one that waits for another would keep it from running.
///
/// # Errors
/// [`Error::Invalid`] where there are not as many ranks, [`Error::Unsupported`] where subdomains of this back end have whole rows.
pub fn join<B: PartBackend>(backend: B, world: Arc<dyn Communicator>, parts: [usize; 2]) -> Result<B> {
    let ([in_x, in_y], size) = (parts, world.size());
    if in_x.checked_mul(in_y) != Some(size) {
        return Err(other_number_of_parts(parts, size));
    }
    if in_x > 1 && !B::DIVIDES_ROWS {
        let kind = backend.device().kind;
        return Err(Error::Unsupported(format!(
            "{in_x}x{in_y} parts on devices of kind {kind}, whose parts have whole rows; use 1x{size}, or the device \"cpu\""
        )));
    }
    Ok(backend.with_ranks((size > 1).then(|| Arc::new(Ranks::new(world, parts)))))
}

/// The error where parts are not as many as ranks.
pub fn other_number_of_parts([in_x, in_y]: [usize; 2], ranks: usize) -> Error {
    let message = format!(
        "{in_x}x{in_y} are not as many parts as there are ranks, {ranks}; use two numbers with that product, as 1x{ranks}"
    );
    Error::invalid("parts", message)
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
    collect_layers(&**ranks.world(), &own, grid, ranks.parts, &vec![0..grid.nz; ranks.size()])
}

/// [`Backend::own_columns`](isobar_core::backend::Backend::own_columns) of a device that may be one of several ranks.
pub fn own_columns<B: PartBackend>(backend: &B, grid: Shape) -> Result<Patch> {
    backend.ranks().map_or(Ok(Patch::whole(grid)), |ranks| ranks.patch(grid))
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
/// [`Error::Unsupported`] where x is divided, or a periodic y.
pub fn require_order(of: &Layout) -> Result<()> {
    if of.has_halo_columns() {
        return Err(needs_whole_rows("incomplete Poisson and incomplete Cholesky"));
    }
    if of.divides_ring() {
        // The order of unknowns does not go around.
        return Err(Error::Unsupported("incomplete Cholesky on ranks that divide a periodic y; run on one".into()));
    }
    Ok(())
}
