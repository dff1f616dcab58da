//! Measures of diffusion's coefficients, and the solver that suits them.

use std::ops::Range;

use super::point_levels::{ends_small, steps};
use super::{Coefficients, Diffusion, Stencil};
use crate::direct::{Nearest, Separable};
use crate::error::Result;
use crate::execute::{Host, map_pieces};
use crate::layout::Shape;
use crate::options::{Choice, CyclePrecision, Method, Norm, Preconditioner, Smoother, SolverOptions};

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

/// The largest ratio of couplings for cycles in single precision. Row sums of coarse grids are differences, and do not fit into 24
/// bits where bodies of two materials meet with a larger ratio.
pub const MOST_CONTRAST_SINGLE: f64 = 1e5;
/// The largest ratio of couplings that meet in a cell for single precision, whatever the ratio elsewhere: rough coefficients
/// without bodies give coarse grids with rows of similar couplings.
const MOST_MEETING_SINGLE: f64 = 1e3;
/// Couplings between the inverse of this and this, and their products with residuals, are well within the range of single
/// precision.
pub const MOST_SINGLE: f64 = 1e12;

/// Cycles with multigrid take longest where cells are inactive, and where couplings of one direction are this many times another's…
const THIN: f64 = 10.0;
/// …and the nearest box suffices where this part of the cells is open…
const MOSTLY_OPEN: f64 = 0.6;
/// …and factors leave at most this root mean square of the logarithms of couplings.
const MOST_SPREAD: f64 = 0.3;

/// Measures of coefficients that decide on relaxation of points and on precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measures {
    /// The mean couplings of the strongest direction over those of the weakest, among directions with more than one cell.
    pub stiffness: f64,
    /// The largest coefficient over the smallest; infinite where a cell is inactive.
    pub contrast: f64,
    /// The largest ratio between coefficients of neighbours, or the contrast where that suffices.
    pub jump: f64,
    /// The largest stored coefficient.
    pub most: f64,
    /// The number of coefficient arrays; the ratios of their couplings in a cell are not measured.
    pub fields: usize,
}

impl Measures {
    /// Returns whether relaxation of points suffices, and why or why not.
    pub fn verdict(&self) -> (bool, String) {
        let Self { stiffness, contrast, jump, .. } = *self;
        let no = |what: String| (false, format!("lines on Galerkin grids, not points: {what}"));
        if contrast.is_infinite() {
            no("cells are closed".into())
        } else if stiffness > MOST_STIFF {
            no(format!("couplings of one direction are {stiffness:.1} times another's, more than {MOST_STIFF}"))
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
        let Self { stiffness, contrast, jump, most, fields } = *self;
        let double = |what: String| (CyclePrecision::F64, format!("cycles in double precision: {what}"));
        let single =
            |what: String| (CyclePrecision::F32, format!("cycles in single precision: all cells are open, and {what}"));
        let (apart, meeting) = (contrast * stiffness, jump * stiffness);
        if contrast.is_infinite() {
            double("cells are closed".into())
        } else if !(1.0 / MOST_SINGLE..=MOST_SINGLE).contains(&most) {
            double(format!("couplings of {most:.1e} are near the ends of single precision"))
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

/// Returns the largest strength over the smallest; 1 where there is none.
pub fn stiffness_of(strengths: impl Iterator<Item = f64>) -> f64 {
    let (least, most) =
        strengths.fold((f64::INFINITY, 0.0f64), |(least, most), strength| (least.min(strength), most.max(strength)));
    if most > 0.0 { most / least } else { 1.0 }
}

impl Diffusion {
    /// Returns the mean couplings of each direction, or an estimate without the coefficients.
    pub fn strengths(&self) -> [f64; 3] {
        let sum =
            |field: &[f64]| map_pieces(&Host, field, |_, piece| piece.iter().sum::<f64>()).into_iter().sum::<f64>();
        let mean = |field: &[f64]| sum(field) / field.len().max(1) as f64;
        match self.coefficients() {
            Coefficients::Cells { fields, axes } if fields.len() > 1 => {
                let means: Vec<f64> = fields.iter().map(|field| mean(field)).collect();
                axes.map(|(field, factor)| factor * means[field])
            }
            Coefficients::Cells { axes, .. } | Coefficients::DeviceCells { axes, .. } => axes.map(|(_, factor)| factor),
            Coefficients::Faces(faces) => [0, 1, 2].map(|d: usize| mean(&faces[d])),
        }
    }

    /// Returns the strongest direction over the weakest, among those with more than one cell.
    pub fn stiffness(&self) -> f64 {
        let Shape { nx, ny, nz } = Stencil::shape(self);
        let strengths = self.strengths().into_iter().zip([nx, ny, nz]).filter(|&(_, n)| n > 1);
        stiffness_of(strengths.map(|(strength, _)| strength))
    }

    /// Returns the nearest box, which `find` finds, where conjugate gradients may be faster with it than with multigrid; and why.
    pub(super) fn box_to_try(&self, find: impl FnOnce() -> Option<Nearest>) -> Option<(Separable, String)> {
        self.require_host().ok()?;
        let Shape { nx, ny, nz } = Stencil::shape(self);
        let is_line = [nx, ny, nz].into_iter().filter(|&n| n > 1).count() < 2;
        let (stiffness, has_closed) = (self.stiffness(), self.spreads().iter().any(|field| field.least == 0.0));
        if is_line || !(has_closed || stiffness >= THIN) {
            return None;
        }
        let Nearest { factors, open, spread } = find()?;
        let is_near = open >= MOSTLY_OPEN && spread <= MOST_SPREAD && factors.pays();
        let why = format!(
            "{:.0} % of the cells are open and like those of a box, and couplings of one direction are {stiffness:.1} times another's",
            100.0 * open
        );
        is_near.then_some((factors, why))
    }

    /// Measures coefficients of cells on the host; returns nothing for others.
    pub fn measures(&self) -> Option<Measures> {
        let Coefficients::Cells { fields, axes } = self.coefficients() else { return None };
        let (stiffness, spreads) = (self.stiffness(), self.spreads());
        let contrast = spreads.iter().map(|field| field.contrast()).fold(1.0, f64::max);
        let most = axes.iter().map(|&(field, factor)| factor * spreads[field].most).fold(0.0, f64::max);
        // The jump decides on points where no direction is stiff, and on precision where the contrast is too large.
        let apart = contrast * stiffness;
        let may_meet = fields.len() == 1
            && apart > MOST_CONTRAST_SINGLE
            && apart <= MOST_SINGLE
            && stiffness <= MOST_MEETING_SINGLE;
        let matters = contrast.is_finite() && contrast > MOST_JUMP && (stiffness <= MOST_STIFF || may_meet);
        let jump = if matters { self.largest_jump() } else { contrast };
        Some(Measures { stiffness, contrast, jump, most, fields: fields.len() })
    }

    /// Chooses a solver where these options leave that open, given the measures of the coefficients that `measure` returns, if any:
    /// cycles that relax points where these suffice, else conjugate gradients with cycles that relax lines, in single precision
    /// where that suffices. `measure` is called at most once.
    ///
    /// # Errors
    /// The errors of `measure`.
    pub fn choice_by(
        &self,
        options: &SolverOptions,
        measure: impl FnOnce() -> Result<Option<Measures>>,
    ) -> Result<Choice> {
        let mut measure = Some(measure);
        let mut found = None;
        let mut look = || {
            if let Some(measure) = measure.take() {
                found = measure()?;
            }
            Ok(found)
        };
        let mut choice = self.method_by(options, &mut look)?;
        if options.leaves_cycles_open(choice.method, choice.preconditioner)
            && let Some(measures) = look()?
        {
            let (cycles, why) = measures.cycles();
            (choice.cycles, choice.why_cycles) = (cycles, Some(why));
        }
        Ok(choice)
    }

    /// Returns the method, preconditioner and smoother of [`Diffusion::choice_by`].
    fn method_by(
        &self,
        options: &SolverOptions,
        measure: &mut dyn FnMut() -> Result<Option<Measures>>,
    ) -> Result<Choice> {
        let lines = Choice::new(Method::Cg, Preconditioner::Multigrid);
        let is_open = options.preconditioner == Preconditioner::Auto
            && options.deflation.is_none()
            && options.norm != Norm::Scaled
            && matches!(options.multigrid.smoother, Smoother::Auto | Smoother::PointRedBlack);
        if options.method != Method::Auto || !is_open {
            return Ok(lines);
        }
        let points = Choice { method: Method::Multigrid, smoother: Smoother::PointRedBlack, ..lines.clone() };
        if options.multigrid.smoother == Smoother::PointRedBlack {
            return Ok(points);
        }
        let Some(measures) = measure()? else { return Ok(lines) };
        let (suffices, why) = measures.verdict();
        if suffices && !ends_small(Stencil::shape(self), self) {
            let why =
                Some("lines on Galerkin grids, not points: a periodic direction has an odd number of cells".into());
            return Ok(Choice { why, ..lines });
        }
        Ok(Choice { why: Some(why), ..if suffices { points } else { lines } })
    }

    /// Chooses by [`Diffusion::choice_by`] on a host, with the hybrid smoother where points alone do not suffice and it takes less
    /// time than lines alone.
    ///
    /// # Errors
    /// None of its own.
    pub fn choice_on_host(&self, options: &SolverOptions) -> Result<Choice> {
        let mut found = None;
        let choice = self.choice_by(options, || {
            found = self.measures();
            Ok(found)
        })?;
        let has_few = Stencil::shape(self).cells() < FEWEST_ABOVE_LINES;
        let is_open = choice.smoother == Smoother::LineRedBlack && options.multigrid.smoother == Smoother::Auto;
        let Some(Measures { stiffness, contrast, jump, .. }) = found.filter(|_| is_open && !has_few) else {
            return Ok(choice);
        };
        if contrast.is_infinite()
            || stiffness > MOST_STIFF
            || !steps(self, Some(2)).is_ok_and(|steps| !steps.is_empty())
        {
            return Ok(choice);
        }
        if jump > MOST_JUMP_ABOVE_LINES {
            let why = choice.why.map(|why| {
                format!("{why}; nor the hybrid smoother: coefficients of neighbours differ by a factor of {jump:.1e}")
            });
            return Ok(Choice { why, ..choice });
        }
        let why = format!(
            "points on the finest grid, lines on Galerkin grids below: no direction is stiff (couplings {stiffness:.1} : 1), \
             coefficients are rough (contrast {contrast:.1e}, neighbours {jump:.1}, at most {MOST_JUMP_ABOVE_LINES})"
        );
        Ok(Choice { smoother: Smoother::PointLine, why: Some(why), ..choice })
    }

    /// Returns the largest ratio between coefficients of neighbours; 1 for other than coefficients of cells on the host.
    fn largest_jump(&self) -> f64 {
        let Coefficients::Cells { fields, axes } = self.coefficients() else { return 1.0 };
        let Shape { nx, ny, nz } = Stencil::shape(self);
        let steps = [(1, nx), (nx, ny), (nx * ny, nz)];
        let of_field = |number: usize, field: &[f64]| {
            let of_piece = |first: usize, piece: &[f64]| {
                let of_direction = |(_, (step, n)): (_, (usize, usize))| {
                    // Blocks of cells within which the next one in this direction is `step` entries further.
                    let (block, end) = (step * n, first + piece.len());
                    let blocks = (first / block..end.div_ceil(block)).map(|b| [b * block, (b + 1) * block - step]);
                    let own = blocks.map(|[from, to]| from.max(first)..to.min(end)).filter(|own| !own.is_empty());
                    let of_block = |own: Range<usize>| most_between(&field[own.clone()], &field[own.start + step..]);
                    own.map(of_block).fold(1.0, f64::max)
                };
                let directions = axes.iter().zip(steps).filter(|((own, _), (_, n))| *own == number && *n > 1);
                directions.map(of_direction).fold(1.0, f64::max)
            };
            map_pieces(&Host, field, of_piece).into_iter().fold(1.0, f64::max)
        };
        fields.iter().enumerate().map(|(number, field)| of_field(number, field)).fold(1.0, f64::max)
    }
}

/// Returns the largest ratio between numbers in the same place, zeros left out.
fn most_between(a: &[f64], b: &[f64]) -> f64 {
    let ratio = |a: f64, b: f64| if a > b { a / b } else { b / a };
    let n = a.len().min(b.len());
    let ((chunks_a, rest_a), (chunks_b, rest_b)) = (a[..n].as_chunks::<8>(), b[..n].as_chunks::<8>());
    let mut most = [1.0f64; 8];
    for (a, b) in chunks_a.iter().zip(chunks_b) {
        for ((most, &a), &b) in most.iter_mut().zip(a).zip(b) {
            let ratio = ratio(a, b);
            *most = if ratio > *most { ratio } else { *most };
        }
    }
    let rest = rest_a.iter().zip(rest_b).map(|(&a, &b)| ratio(a, b));
    most.into_iter().chain(rest).fold(1.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stencil::Side;

    #[test]
    fn points_are_for_what_is_smooth() {
        let shape = Shape::new(12, 8, 4);
        let of = |value: &dyn Fn(usize) -> f64, factors: [f64; 3]| {
            let field: Vec<f64> = (0..shape.cells()).map(value).collect();
            let cells = Coefficients::Cells { fields: vec![field.into()], axes: factors.map(|factor| (0, factor)) };
            Diffusion::new(shape, cells, None, [[Side::Closed; 2]; 3]).unwrap().measures().unwrap()
        };
        let even = of(&|_| 3.0, [1.0, 2.0, 1.0]);
        assert_eq!(even, Measures { stiffness: 2.0, contrast: 1.0, jump: 1.0, most: 6.0, fields: 1 });
        assert!(even.verdict().0);
        assert!(of(&|n| 1.0 + 0.01 * (n % 12) as f64, [1.0; 3]).verdict().0);
        let refused = |measures: Measures, why: &str| {
            let (is_good, text) = measures.verdict();
            assert!(!is_good && text.contains(why), "{text}");
        };
        refused(of(&|_| 3.0, [1.0, 9.0, 1.0]), "one direction are 9.0 times");
        refused(of(&|n| if n == 5 { 0.0 } else { 1.0 }, [1.0; 3]), "closed");
        refused(of(&|n| if n == 5 { 1e3 } else { 1.0 }, [1.0; 3]), "1.0e3");
        refused(of(&|n| if n == 5 { 3.0 } else { 1.0 }, [1.0; 3]), "neighbours differ by a factor of 3");
    }

    #[test]
    fn cycles_are_in_single_precision_where_couplings_fit() {
        let of = |most: f64, contrast: f64, jump: f64, stiffness: f64, fields: usize| {
            let (precision, why) = Measures { stiffness, contrast, jump, most, fields }.cycles();
            assert_eq!(precision == CyclePrecision::F32, why.contains("cycles in single precision"), "{why}");
            precision
        };
        for [contrast, jump, stiffness] in [[1e3, 1e3, 10.0], [1e4, 1e4, 1.0], [1e9, 100.0, 10.0], [1e12, 30.0, 1.0]] {
            assert_eq!(of(1.0, contrast, jump, stiffness, 1), CyclePrecision::F32);
        }
        for [most, contrast, jump, stiffness] in [
            [1.0, f64::INFINITY, f64::INFINITY, 1.0],
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
