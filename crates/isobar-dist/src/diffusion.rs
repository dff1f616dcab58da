//! The default solver of diffusion on ranks.

use isobar_core::error::Result;
use isobar_core::options::{Choice, Method, Preconditioner, Smoother, SolverOptions};
use isobar_core::stencil::{Diffusion, Stencil};

use crate::galerkin::{SupportsGalerkinParts, has_galerkin};
use crate::points::{has_points, has_points_above_lines};
use crate::ranks::Ranks;

/// The solver that suits a stencil on ranks: one device's, where slabs have pairs of rows; else conjugate gradients with lines.
///
/// # Errors
/// As [`Ranks::patches`]; the errors of the device.
pub fn choice<B: SupportsGalerkinParts>(
    backend: &B,
    ranks: &Ranks,
    stencil: &Diffusion,
    options: &SolverOptions,
) -> Result<Choice> {
    let alone = match has_points_above_lines::<B>(ranks, stencil)? {
        true => backend.alone().enter(|| stencil.choice_on_host(options))?,
        false => backend.alone().enter(|| stencil.choice_by(options, || Ok(stencil.measures())))?,
    };
    let has_galerkin = has_galerkin(ranks, stencil)?;
    if alone.smoother == Smoother::PointRedBlack {
        if options.multigrid.smoother == Smoother::PointRedBlack || has_points(ranks, stencil)? {
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
