//! The facts by which ranks choose the solver of diffusion.

use isobar_core::policy::ranks::{Division, of_diffusion};
use isobar_core::prelude::{Choice, Diffusion, Result, Shape, SolverOptions, Stencil};
use isobar_core::stencil::point_levels::{step_above_lines, steps};

use crate::part::PartBackend;
use crate::ranks::Ranks;
use crate::slabs::Slabs;

/// Chooses a solver on ranks by [`of_diffusion`]. `has_points_above_lines` states whether these devices divide the levels of the
/// hybrid smoother, `makes_levels_fast` whether they make levels in the time of a few iterations.
pub fn choice<B: PartBackend>(
    backend: &B,
    ranks: &Ranks,
    stencil: &Diffusion,
    options: &SolverOptions,
    [has_points_above_lines, makes_levels_fast]: [bool; 2],
) -> Result<Choice> {
    let slabs = ranks.slabs(stencil.shape())?;
    let below = |[fine, coarse]: [Shape; 2]| if coarse.ny < fine.ny { slabs.halved() } else { Some(slabs.clone()) };
    let has_pairs = |slabs: &Slabs| slabs.halved().is_some();
    let has_above = || {
        let by = step_above_lines(stencil).ok()?;
        below([by.fine, by.coarse]).filter(has_pairs)
    };
    let alone = match has_points_above_lines && has_above().is_some() {
        true => backend.alone().enter(|| stencil.choice_on_host(options))?,
        false => backend.alone().enter(|| stencil.choice_without_hybrid(options, makes_levels_fast))?,
    };
    let has_points = || {
        let steps = steps(stencil, None);
        steps.is_ok_and(|steps| steps.first().is_none_or(|by| below([by.fine, by.coarse]).is_some()))
    };
    let division = Division { rows: stencil.shape().ny, ranks: ranks.size(), has_pairs: has_pairs(&slabs) };
    Ok(of_diffusion(alone, options, division, has_points))
}
