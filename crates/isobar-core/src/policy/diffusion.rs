//! Points, the hybrid smoother or lines for diffusion, and the precision of its cycles, by measures of its coefficients.

use super::Choice;
use crate::error::{Number, Result};
use crate::options::{CyclePrecision, Method, Norm, Preconditioner, Smoother, SolverOptions};

/// The largest ratio of the couplings of two directions for relaxation of points.
const MOST_STIFF: f64 = 4.0;
/// The largest ratio of the largest to the smallest coefficient…
const MOST_CONTRAST: f64 = 100.0;
/// …and of a coefficient to its neighbour's.
const MOST_JUMP: f64 = 1.5;

/// The largest jump between neighbouring coefficients for the hybrid smoother. With inclusions a thousand times more conductive
/// than their surroundings it takes as long as lines alone, or longer.
const MOST_JUMP_ABOVE_LINES: f64 = 300.0;
/// Grids of fewer cells get Galerkin levels, whose setup is cheap there.
const FEWEST_ABOVE_LINES: usize = 30_000;

/// The largest ratio of couplings for cycles in single precision. Row sums of coarse grids are differences, and do not fit into 24 bits if two
/// materials with a larger ratio meet.
pub const MOST_CONTRAST_SINGLE: f64 = 1e5;
/// The largest ratio of couplings that meet in a cell for single precision, whatever the ratio elsewhere: the coarse grids of rough coefficients
/// without regions of one material have rows of similar couplings.
const MOST_MEETING_SINGLE: f64 = 1e3;
/// Couplings between the inverse of this and this, and their products with residuals, are well within the range of single
/// precision.
pub const MOST_SINGLE: f64 = 1e12;

/// The smallest energy of a constant (see [`Measures::hold`]) for single precision. A right-hand side that does not sum to zero moves a solution by
/// its mean over that energy, and rounding of such a constant, times the couplings, is a residual that cycles cannot reduce.
const WEAKEST_SINGLE: f64 = 3e-9;

/// Measures of coefficients that decide on relaxation of points and on precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measures {
    /// The mean couplings of the strongest direction over those of the weakest, among directions with more than one cell.
    pub stiffness: f64,
    /// The largest coefficient over the smallest of open cells.
    pub contrast: f64,
    /// The largest ratio between coefficients of neighbours that are open, or the contrast where that suffices.
    pub jump: f64,
    /// Whether any coefficient is 0.
    pub has_closed: bool,
    /// The largest stored coefficient.
    pub most: f64,
    /// The number of coefficient arrays; the ratios of their couplings in a cell are not measured.
    pub fields: usize,
    /// Whether the direction of the strongest couplings changes over the grid.
    pub crosses: bool,
    /// The energy of a constant, 1ᵀA1 per cell, over the largest coefficient, if the shift alone contributes to it; infinite if a side is fixed, or
    /// if it is zero, since residuals then have no mean.
    pub hold: f64,
}

impl Measures {
    /// Returns whether relaxation of points suffices, and why or why not.
    pub fn verdict(&self) -> (bool, String) {
        let Self { stiffness, contrast, jump, has_closed, crosses, .. } = *self;
        let no = |what: String| (false, format!("lines on Galerkin grids, not points: {what}"));
        if has_closed {
            no("cells are closed".into())
        } else if crosses {
            no(super::direct::CROSSES.into())
        } else if stiffness == f64::INFINITY {
            no("some direction does not couple cells".into())
        } else if stiffness > MOST_STIFF {
            let times = Number(stiffness);
            no(format!("couplings of one direction are {times:.1} times another's, more than {MOST_STIFF}"))
        } else if contrast > MOST_CONTRAST {
            no(format!("coefficients differ by a factor of {contrast:.1e}, more than {MOST_CONTRAST}"))
        } else if jump > MOST_JUMP {
            no(format!("coefficients of neighbours differ by a factor of {jump:.2}, more than {MOST_JUMP}"))
        } else {
            let smooth = if contrast == 1.0 {
                "coefficients are constant".to_owned()
            } else {
                format!("coefficients are smooth (contrast {contrast:.2}, neighbours {jump:.3})")
            };
            (true, format!("points: no direction is stiff (couplings {stiffness:.1} : 1), {smooth}"))
        }
    }

    /// Returns in which precision cycles may precondition conjugate gradients in double precision, and why.
    pub fn cycles(&self) -> (CyclePrecision, String) {
        let Self { stiffness, contrast, jump, most, fields, hold, .. } = *self;
        let double = |what: String| (CyclePrecision::F64, format!("cycles in double precision: {what}"));
        let single = |what: String| (CyclePrecision::F32, format!("cycles in single precision: {what}"));
        let (apart, meeting) = (contrast * stiffness, jump * stiffness);
        if !(1.0 / MOST_SINGLE..=MOST_SINGLE).contains(&most) {
            double(format!("couplings of {most:.1e} are near the ends of single precision"))
        } else if hold < WEAKEST_SINGLE {
            double(format!(
                "a constant is held by {hold:.1e} of the largest coupling, less than {WEAKEST_SINGLE:.0e}, so that it can be large beside the rest of \
                 the solution"
            ))
        } else if apart == f64::INFINITY {
            double("some direction does not couple cells".into())
        } else if apart <= MOST_CONTRAST_SINGLE {
            single(format!("couplings differ by a factor of about {apart:.1e}, at most {MOST_CONTRAST_SINGLE:.0e}"))
        } else if fields == 1 && meeting <= MOST_MEETING_SINGLE && apart <= MOST_SINGLE {
            single(format!(
                "couplings that meet differ by a factor of about {meeting:.1e}, at most {MOST_MEETING_SINGLE:.0e} (all of them \
                 by {apart:.1e})"
            ))
        } else if fields == 1 && apart <= MOST_SINGLE {
            double(format!(
                "couplings differ by a factor of about {apart:.1e}, more than {MOST_CONTRAST_SINGLE:.0e}, and those that meet by \
                 {meeting:.1e}, more than {MOST_MEETING_SINGLE:.0e}"
            ))
        } else {
            double(format!("couplings differ by a factor of about {apart:.1e}, more than {MOST_CONTRAST_SINGLE:.0e}"))
        }
    }
}

/// Returns the largest strength over the smallest; 1 if there is none.
pub fn stiffness_of(strengths: impl Iterator<Item = f64>) -> f64 {
    let (least, most) =
        strengths.fold((f64::INFINITY, 0.0f64), |(least, most), strength| (least.min(strength), most.max(strength)));
    if most > 0.0 { most / least } else { 1.0 }
}

/// Returns whether a choice needs the jump between neighbours: it decides on points where no direction is stiff, and on precision
/// where the contrast is too large; and on the hybrid smoother, where there `is_hybrid` to choose.
pub(crate) fn needs_jump(stiffness: f64, contrast: f64, has_closed: bool, fields: usize, is_hybrid: bool) -> bool {
    let apart = contrast * stiffness;
    let may_meet =
        fields == 1 && apart > MOST_CONTRAST_SINGLE && apart <= MOST_SINGLE && stiffness <= MOST_MEETING_SINGLE;
    let may_be_points = stiffness <= MOST_STIFF && !has_closed && (is_hybrid || contrast <= MOST_CONTRAST);
    contrast > MOST_JUMP && (may_be_points || may_meet)
}

/// Chooses a solver if these options leave that open, and the smoother of multigrid that is named: cycles that relax points if these suffice, else
/// conjugate gradients with cycles that relax lines, in single precision if that suffices. `measure` is called at most once, and only if the choice
/// depends on it; `ends_small` returns whether halving ends at a grid that is small enough for points.
pub(crate) fn choose(
    options: &SolverOptions,
    measure: impl FnOnce() -> Result<Option<Measures>>,
    ends_small: impl FnOnce() -> bool,
) -> Result<Choice> {
    let mut measure = Some(measure);
    let mut found = None;
    let mut look = || {
        if let Some(measure) = measure.take() {
            found = measure()?;
        }
        Ok(found)
    };
    let mut choice = choose_method(options, &mut look, ends_small)?;
    if options.leaves_cycles_open(choice.method, choice.preconditioner)
        && let Some(measures) = look()?
    {
        let (cycles, why) = measures.cycles();
        (choice.cycles, choice.why_cycles) = (cycles, Some(why));
    }
    Ok(choice)
}

/// Returns the method, preconditioner and smoother of [`choose`].
fn choose_method(
    options: &SolverOptions,
    measure: &mut dyn FnMut() -> Result<Option<Measures>>,
    ends_small: impl FnOnce() -> bool,
) -> Result<Choice> {
    let lines = Choice::galerkin();
    let has_cycles = match options.method {
        Method::Auto => options.preconditioner == Preconditioner::Auto && options.deflation.is_none(),
        method => method == Method::Multigrid,
    };
    let is_open =
        options.norm != Norm::Scaled && matches!(options.multigrid.smoother, Smoother::Auto | Smoother::PointRedBlack);
    if !has_cycles || !is_open {
        return Ok(lines);
    }
    let points = Choice { method: Method::Multigrid, smoother: Smoother::PointRedBlack, ..lines.clone() };
    if options.multigrid.smoother == Smoother::PointRedBlack {
        return Ok(points);
    }
    let Some(measures) = measure()? else { return Ok(lines) };
    let (suffices, why) = measures.verdict();
    if suffices && !ends_small() {
        let why = Some("lines on Galerkin grids, not points: a periodic direction has an odd number of cells".into());
        return Ok(Choice { why, ..lines });
    }
    Ok(Choice { why: Some(why), ..if suffices { points } else { lines } })
}

/// Returns a choice with the hybrid smoother if points alone do not suffice and it takes less time than lines alone, on a grid of this number of
/// cells; `has_coarser` returns whether the finest grid can be halved.
pub(crate) fn with_hybrid(
    choice: Choice,
    options: &SolverOptions,
    measures: Option<Measures>,
    cells: usize,
    has_coarser: impl FnOnce() -> bool,
) -> Choice {
    let is_open = choice.smoother == Smoother::LineRedBlack
        && options.multigrid.smoother == Smoother::Auto
        && (options.method, options.preconditioner) == (Method::Auto, Preconditioner::Auto);
    let Some(Measures { stiffness, contrast, jump, has_closed, crosses, .. }) =
        measures.filter(|_| is_open && cells >= FEWEST_ABOVE_LINES)
    else {
        return choice;
    };
    if has_closed || crosses || stiffness > MOST_STIFF || !has_coarser() {
        return choice;
    }
    if jump > MOST_JUMP_ABOVE_LINES {
        let why = choice.why.map(|why| {
            format!("{why}; nor the hybrid smoother: coefficients of neighbours differ by a factor of {jump:.1e}")
        });
        return Choice { why, ..choice };
    }
    let why = format!(
        "points on the finest grid, lines on Galerkin grids below: no direction is stiff (couplings {stiffness:.1} : 1), \
         coefficients are rough (contrast {contrast:.1e}, neighbours {jump:.1}, at most {MOST_JUMP_ABOVE_LINES})"
    );
    Choice { smoother: Smoother::PointLine, why: Some(why), ..choice }
}

/// Returns a choice with algebraic multigrid where cells are closed and others have few open neighbours, the mean number of which `neighbours` returns: paths are
/// then narrow and wind, as at the percolation threshold, which coarse cells of two or more do not see.
pub(crate) fn with_algebraic(
    choice: Choice,
    options: &SolverOptions,
    neighbours: impl FnOnce() -> Option<f64>,
) -> Choice {
    /// The fewest neighbours, on average, for the grid's own coarse cells. A tree has two; white noise at the percolation threshold has 1.9 in space and
    /// 2.4 in a plane, and what connects two sides 2.3 and 2.5.
    const FEWEST_NEIGHBOURS: f64 = 2.55;
    let otherwise = SolverOptions { method: Method::Auto, ..options.clone() };
    let is_open =
        matches!(options.method, Method::Auto | Method::Cg) && otherwise.leaves_all_open() && choice.tried.is_none();
    let has_multigrid = (choice.method, choice.preconditioner) == (Method::Cg, Preconditioner::Multigrid);
    let few = (is_open && has_multigrid).then(neighbours).flatten().filter(|&mean| mean < FEWEST_NEIGHBOURS);
    match few {
        Some(mean) => Choice::algebraic(format!(
            "algebraic multigrid: open cells have {mean:.1} open neighbours on average, fewer than {FEWEST_NEIGHBOURS}"
        )),
        None => choice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_in_single_precision_where_couplings_fit() {
        let held = |hold: f64, most: f64, contrast: f64, jump: f64, stiffness: f64, fields: usize| {
            let (precision, why) =
                Measures { stiffness, contrast, jump, has_closed: true, most, fields, crosses: false, hold }.cycles();
            assert_eq!(precision == CyclePrecision::F32, why.contains("cycles in single precision"), "{why}");
            precision
        };
        let of = |most, contrast, jump, stiffness, fields| held(1.0, most, contrast, jump, stiffness, fields);
        assert_eq!(of(1.0, 1.0, 1.0, f64::INFINITY, 2), CyclePrecision::F64);
        assert_eq!(held(1e-9, 1.0, 10.0, 10.0, 1.0, 1), CyclePrecision::F64);
        for [contrast, jump, stiffness] in [[1e3, 1e3, 10.0], [1e4, 1e4, 1.0], [1e9, 100.0, 10.0], [1e12, 30.0, 1.0]] {
            assert_eq!(of(1.0, contrast, jump, stiffness, 1), CyclePrecision::F32);
        }
        for [most, contrast, jump, stiffness] in [
            [1.0, 1e6, 1e6, 1.0],
            [1.0, 1e6, 1e2, 100.0],
            [1.0, 1e13, 10.0, 1.0],
            [1.0, 1e3, 1e3, 1e3],
            [1e20, 1.0, 1.0, 1.0],
            [1e-20, 1.0, 1.0, 1.0],
        ] {
            assert_eq!(of(most, contrast, jump, stiffness, 1), CyclePrecision::F64);
        }
        assert_eq!(of(1.0, 1e6, 10.0, 1.0, 2), CyclePrecision::F64, "how fields meet is not known");
    }
}
