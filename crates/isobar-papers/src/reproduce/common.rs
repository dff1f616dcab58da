//! Preparations that the tables of several papers share.

use isobar::Device;
use isobar::grid::GridOptions;
use isobar::internals::backend::Backend;
use isobar::problem::{Helmholtz, RhsKind, Weighting};
use isobar_case::memory;
use isobar_cli::failure::Result;

/// Waits for the device to finish.
pub(super) fn synchronize(device: &Device) -> Result<()> {
    on_device!(device, backend => backend.synchronize()?);
    Ok(())
}

/// Makes a problem with its right-hand side, or returns why it is left out: it may not fit in memory.
pub(super) fn prepare(grid: GridOptions, courant: f64, vectors: f64) -> Result<(Helmholtz, Vec<f64>)> {
    memory::require(&format!("a grid of {} cells", grid.shape()), 8.0 * vectors * grid.shape().cells() as f64)?;
    let problem = Helmholtz { grid, courant, ..Helmholtz::default() };
    let rhs = problem.rhs(RhsKind::Constant, 0, Weighting::None)?;
    Ok((problem, rhs))
}
