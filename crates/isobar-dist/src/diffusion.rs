//! The default solver of diffusion on ranks.

use isobar_core::error::Result;
use isobar_core::layout::Shape;
use isobar_core::options::{Choice, Method, Preconditioner, Smoother, SolverOptions};
use isobar_core::stencil::point_levels::{step_above_lines, steps};
use isobar_core::stencil::{Diffusion, Stencil};

use crate::part::PartBackend;
use crate::patches::Patches;
use crate::ranks::Ranks;

/// The solver that suits a stencil on ranks: one device's, where slabs have pairs of rows; else conjugate gradients with lines.
/// `has_points_above_lines` where these devices divide such levels.
///
/// # Errors
/// As [`Ranks::patches`]; the errors of the device.
pub fn choice<B: PartBackend>(
    backend: &B,
    ranks: &Ranks,
    stencil: &Diffusion,
    options: &SolverOptions,
    has_points_above_lines: bool,
) -> Result<Choice> {
    let patches = ranks.patches(stencil.shape())?;
    let below = |[fine, coarse]: [Shape; 2]| patches.halved([coarse.nx < fine.nx, coarse.ny < fine.ny]);
    let has_pairs = |patches: &Patches| ranks.has_whole_rows() && patches.halved([false, true]).is_some();
    let has_above = || {
        let by = step_above_lines(stencil).ok()?;
        below([by.fine, by.coarse]).filter(has_pairs)
    };
    let alone = match has_points_above_lines && has_above().is_some() {
        true => backend.alone().enter(|| stencil.choice_on_host(options))?,
        false => backend.alone().enter(|| stencil.choice_by(options, || Ok(stencil.measures())))?,
    };
    let has_galerkin = has_pairs(&patches);
    let has_points = || {
        let steps = steps(stencil, None);
        steps.is_ok_and(|steps| steps.first().is_none_or(|by| below([by.fine, by.coarse]).is_some()))
    };
    if alone.smoother == Smoother::PointRedBlack {
        if options.multigrid.smoother == Smoother::PointRedBlack || has_points() {
            let reserve = if has_galerkin { alone.preconditioner } else { Preconditioner::Line };
            return Ok(Choice { preconditioner: reserve, ..alone });
        }
    } else if has_galerkin {
        return Ok(alone);
    }
    let (rows, size) = (stencil.shape().ny, ranks.size());
    let reason = if ranks.has_whole_rows() {
        format!("{rows} rows are too few for {size} ranks to share coarser grids")
    } else {
        "ranks that divide x share no Galerkin grids".to_owned()
    };
    // Coarser grids are shared by ranks that have a pair of rows each.
    let remedy = match rows / 2 {
        0 | 1 => "use one process".to_owned(),
        most if most < size => format!("use {most} processes or fewer"),
        _ if ranks.has_whole_rows() => "use one process".to_owned(),
        _ => format!("use --parts 1x{size}"),
    };
    let why = format!(
        "conjugate gradients with lines, which take many times the iterations of multigrid: {reason}; {remedy}"
    );
    Ok(Choice { why: Some(why), ..Choice::new(Method::Cg, Preconditioner::Line) })
}
