//! Measures of diffusion's coefficients, by which [`policy::diffusion`](crate::policy::diffusion) chooses a solver.

use std::ops::Range;

use super::point_levels::{ends_small, steps};
use super::{Coefficients, Diffusion, Side, Spread, Stencil};
use crate::execute::map_pieces;
use crate::options::{Smoother, SolverOptions};
use crate::policy::diffusion::{Measures, stiffness_of};
use crate::policy::dominance::Dominance;
use crate::policy::{self, Choice};
use crate::{Host, Result, Shape};

impl Diffusion {
    /// Returns the mean couplings of each direction, or an estimate without the coefficients.
    pub fn strengths(&self) -> [f64; 3] {
        let sum =
            |field: &[f64]| map_pieces(&Host, field, |_, piece| piece.iter().sum::<f64>()).into_iter().sum::<f64>();
        self.strengths_by(|field| sum(field) / field.len().max(1) as f64)
    }

    /// Returns [`Diffusion::strengths`], from at most some thousand cells: reading all takes as long as a tenth of the setup on a GPU.
    pub(crate) fn sampled_strengths(&self) -> [f64; 3] {
        const CELLS: usize = 4096;
        self.strengths_by(|field| {
            let cells = CELLS.min(field.len());
            spread_out(cells, field.len()).map(|n| field[n]).sum::<f64>() / cells.max(1) as f64
        })
    }

    fn strengths_by(&self, mean: impl Fn(&[f64]) -> f64) -> [f64; 3] {
        if let Some((_, strengths)) = self.by_widths.as_deref() {
            return *strengths;
        }
        match self.coefficients() {
            Coefficients::Cells { fields, axes } if fields.len() > 1 => {
                let means: Vec<f64> = fields.iter().map(|field| mean(field)).collect();
                axes.map(|(field, factor)| factor * means[field])
            }
            Coefficients::Cells { axes, .. } | Coefficients::DeviceCells { axes, .. } => axes.map(|(_, factor)| factor),
            Coefficients::Faces(faces) => [0, 1, 2].map(|d: usize| mean(&faces[d])),
            Coefficients::DeviceFaces { means, .. } => *means,
        }
    }

    /// Returns a bound of the sums of a row's couplings, and of the diagonal without s, if the largest coefficients are known; else 0.
    pub(crate) fn largest_row(&self) -> f64 {
        self.largest_couplings().iter().sum()
    }

    /// Returns the parts of [`Diffusion::largest_row`] by direction.
    fn largest_couplings(&self) -> [f64; 3] {
        let (Coefficients::Cells { axes, .. } | Coefficients::DeviceCells { axes, .. }) = self.coefficients() else {
            return [0.0; 3];
        };
        let extents = Stencil::shape(self).extents();
        [0, 1, 2].map(|d| {
            let (field, factor) = axes[d];
            let most = self.spreads().get(field).filter(|_| extents[d] > 1).map_or(0.0, |spread| spread.most);
            // A face between equal cells has half of the coupling of a half cell, and a row has two.
            2.0 * factor * most
        })
    }

    /// Returns the only direction that couples cells, where lines are solved exactly; z if none does. Directions of one cell do not count.
    pub(super) fn only_direction(&self) -> Option<usize> {
        let couples = |d: usize| match self.coefficients() {
            Coefficients::Cells { axes, .. } => axes[d].1 > 0.0 && self.spreads()[axes[d].0].most > 0.0,
            Coefficients::Faces(faces) => faces[d].iter().any(|&face| face > 0.0),
            Coefficients::DeviceCells { .. } => true,
            Coefficients::DeviceFaces { means, .. } => means[d] > 0.0,
        };
        let extents = Stencil::shape(self).extents();
        let several = || (0..3).filter(|&d| extents[d] > 1);
        let mut coupled = several().filter(|&d| couples(d));
        let only = coupled.next().unwrap_or(2);
        let is_only = coupled.next().is_none() && several().next().is_some();
        (is_only && !self.periodic()[only]).then_some(only)
    }

    /// Returns bounds of the rows, if a positive shift is stored for every cell.
    pub(super) fn dominance(&self) -> Option<Dominance> {
        let shift = Spread::of(&Host, self.stored_shift()?).ok().filter(|shift| shift.least > 0.0)?;
        // Sides across a direction of one cell are part of the diagonal, which no coupling bounds.
        let extents = Stencil::shape(self).extents();
        if (0..3).any(|d| extents[d] == 1 && self.sides()[d].contains(&Side::Fixed)) {
            return None;
        }
        let (by_direction, has_fixed) = match self.coefficients() {
            // A face between equal cells has half of the coupling of a half cell, and a row has two; a fixed side has all of it.
            Coefficients::Cells { .. } => (
                self.largest_couplings().map(|couplings| 0.5 * couplings),
                self.sides().as_flattened().contains(&Side::Fixed),
            ),
            Coefficients::Faces(faces) => {
                let most = |d: usize| Spread::of(&Host, &faces[d]).map_or(f64::INFINITY, |spread| spread.most);
                ([0, 1, 2].map(|d| 2.0 * most(d)), false)
            }
            Coefficients::DeviceCells { .. } | Coefficients::DeviceFaces { .. } => return None,
        };
        let [x, y, z] = by_direction;
        let couplings = x + y + z;
        // Beside a value across thin cells b is so large that a residual says little of the other cells.
        let has_lines = extents[2] > 1 && self.sides()[2] == [Side::Closed; 2];
        Some(Dominance {
            couplings,
            beside_lines: has_lines.then_some(x + y),
            diagonal: if has_fixed { 2.0 * couplings } else { couplings },
            shift: [shift.least, shift.most],
        })
    }

    /// Returns whether lines along z may suffice where a shift is large beside other couplings, see [`Dominance::has_lines`].
    pub(crate) fn suits_lines(&self, tolerance: f64) -> bool {
        self.dominance().is_some_and(|rows| rows.has_lines(tolerance, |beside_lines| self.sampled_ratio(beside_lines)))
    }

    /// Returns the largest sum of couplings, of all or only of those `beside_lines`, over the shift, which is positive, among some rows, spread over
    /// the grid.
    fn sampled_ratio(&self, beside_lines: bool) -> f64 {
        const ROWS: usize = 256;
        let shape = Stencil::shape(self);
        spread_out(ROWS.min(shape.cells()), shape.cells()).fold(0.0, |most, n| {
            let at = shape.place(n);
            let counts = |(other, _): &([usize; 3], f64)| !beside_lines || other[2] == at[2];
            let couplings: f64 = self.neighbours(at).filter(counts).map(|(_, coupling)| coupling).sum();
            most.max(couplings / self.shift(at))
        })
    }

    /// Returns the strongest direction over the weakest, among those with more than one cell.
    pub fn stiffness(&self) -> f64 {
        let Shape { nx, ny, nz } = Stencil::shape(self);
        let strengths = self.strengths().into_iter().zip([nx, ny, nz]).filter(|&(_, n)| n > 1);
        stiffness_of(strengths.map(|(strength, _)| strength))
    }

    /// Measures coefficients of cells on the host; returns nothing for others.
    pub fn measures(&self) -> Option<Measures> {
        self.measured(true)
    }

    /// Returns the measures for a device that may have the hybrid smoother, or not.
    fn measured(&self, is_hybrid: bool) -> Option<Measures> {
        let Coefficients::Cells { fields, axes } = self.coefficients() else { return None };
        let (stiffness, spreads) = (self.stiffness(), self.spreads());
        let contrast = self.contrast();
        let most = axes.iter().map(|&(field, factor)| factor * spreads[field].most).fold(0.0, f64::max);
        let has_closed = self.has_closed();
        let needs_jump = policy::diffusion::needs_jump(stiffness, contrast, has_closed, fields.len(), is_hybrid);
        let jump = if needs_jump { self.largest_jump() } else { contrast };
        let crosses = self.crossing().is_strong();
        let hold = self.hold_of_shift(most, || {
            let numbers = self.stored_shift().unwrap_or_default();
            map_pieces(&Host, numbers, |_, piece| piece.iter().sum::<f64>()).into_iter().sum()
        });
        Some(Measures { stiffness, contrast, jump, has_closed, most, fields: fields.len(), crosses, hold })
    }

    /// Returns [`Measures::hold`], given the largest coefficient and how to sum the shift.
    #[doc(hidden)]
    pub fn hold_of_shift(&self, most: f64, sum: impl FnOnce() -> f64) -> f64 {
        let has_fixed = self.sides().as_flattened().contains(&Side::Fixed);
        if has_fixed || !self.has_shift() || most == 0.0 {
            return f64::INFINITY;
        }
        let hold = sum() / (Stencil::shape(self).cells() as f64 * most);
        if hold > 0.0 { hold } else { f64::INFINITY }
    }

    /// Returns the largest coefficient of open cells over the smallest, of one field.
    pub(crate) fn contrast(&self) -> f64 {
        self.spreads().iter().map(|field| field.contrast()).fold(1.0, f64::max)
    }

    /// Returns the largest coupling over the smallest that is not 0, all directions with several cells taken together; nothing for faces.
    pub(super) fn contrast_of_couplings(&self) -> Option<f64> {
        let (Coefficients::Cells { axes, .. } | Coefficients::DeviceCells { axes, .. }) = &self.coefficients else {
            return None;
        };
        let several = axes.iter().zip(Stencil::shape(self).extents()).filter(|(_, cells)| *cells > 1);
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        for (&(field, factor), _) in several {
            let Spread { positive, most: largest, .. } = *self.spreads().get(field)?;
            (least, most) = (least.min(factor * positive), most.max(factor * largest));
        }
        Some(if most > 0.0 { most / least } else { 1.0 })
    }

    pub(super) fn has_closed(&self) -> bool {
        self.spreads().iter().any(|field| field.has_zeros())
    }

    /// Chooses a solver if these options leave that open, by `policy::diffusion`, and what is tried before it, given the measures of the coefficients
    /// that `measure` returns, if any. It is called at most once. `makes_levels_fast` states whether the device makes levels in the time of a few iterations.
    ///
    /// # Errors
    /// The errors of `measure`.
    pub fn choice_by(
        &self,
        options: &SolverOptions,
        makes_levels_fast: bool,
        measure: impl FnOnce() -> Result<Option<Measures>>,
    ) -> Result<Choice> {
        let mut choice = policy::diffusion::choose(options, measure, || ends_small(self))?;
        let is_open = options.multigrid.smoother == Smoother::Auto;
        if is_open && choice.smoother == Smoother::PointRedBlack && self.only_direction().is_some() {
            // Red–black elimination, whatever the direction.
            let why = "Galerkin grids, not points: they are exact where one direction alone couples cells".to_owned();
            choice = Choice { why: Some(why), ..Choice::galerkin() };
        }
        let dominance = options.leaves_all_open().then(|| self.dominance()).flatten();
        let tried = dominance.and_then(|dominance| {
            dominance.tried(options.tolerance, (&choice, makes_levels_fast), |beside| self.sampled_ratio(beside))
        });
        Ok(Choice { tried, ..choice })
    }

    /// Chooses by [`Diffusion::choice_by`] for a device without the hybrid smoother, by coefficients on the host.
    ///
    /// # Errors
    /// None of its own.
    pub fn choice_without_hybrid(&self, options: &SolverOptions, makes_levels_fast: bool) -> Result<Choice> {
        self.choice_by(options, makes_levels_fast, || Ok(self.measured(false)))
    }

    /// Chooses by [`Diffusion::choice_by`] on a host, with the hybrid smoother if points alone do not suffice and it takes less time than lines
    /// alone; or lines, where no other direction couples cells.
    ///
    /// # Errors
    /// None of its own.
    pub fn choice_on_host(&self, options: &SolverOptions) -> Result<Choice> {
        if options.leaves_all_open() && self.only_direction() == Some(2) {
            return Ok(Choice::lines_apart());
        }
        let mut found = None;
        let choice = self.choice_by(options, false, || {
            found = self.measures();
            Ok(found)
        })?;
        let has_coarser = || steps(self, Some(2)).is_ok_and(|steps| !steps.is_empty());
        Ok(policy::diffusion::with_hybrid(choice, options, found, Stencil::shape(self).cells(), has_coarser))
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

/// Returns the largest ratio between positive numbers in the same place.
fn most_between(a: &[f64], b: &[f64]) -> f64 {
    let ratio = |a: f64, b: f64| {
        let (larger, smaller) = if a > b { (a, b) } else { (b, a) };
        if smaller > 0.0 { larger / smaller } else { 1.0 }
    };
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

/// Returns some numbers less than n that are spread evenly.
fn spread_out(count: usize, n: usize) -> impl Iterator<Item = usize> {
    /// The fractional parts of its multiples are spread evenly (Knuth, The Art of Computer Programming, volume 3, section 6.4).
    const GOLDEN: f64 = 0.618_033_988_749_894_8;
    (0..count).map(move |m| ((m as f64 * GOLDEN).fract() * n as f64) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Coefficient, DiffusionProblem, Spacing, random};
    use crate::stencil::orientation::Orientation;
    use crate::stencil::turns::Turns;

    #[test]
    fn directions_cross_by_widths_and_not_by_noise() {
        let shape = Shape::new(150, 120, 1);
        let widths = |n: usize| {
            let width = |m: usize| 1e3f64.powf(1.0 - (2.0 * (m as f64 + 0.5) / n as f64 - 1.0).abs());
            Spacing::Given((0..n).map(width).collect())
        };
        let spacing = [widths(shape.nx), widths(shape.ny), Spacing::Uniform(1.0)];
        let known = Spacing::crossing(&spacing, shape);
        let kappa = (0..shape.cells()).map(|n| 10f64.powf(random(3, n))).collect();
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
        problem.spacing = spacing;
        let found = problem.stencil().unwrap().crossing();
        assert!(known.xy > 8e5 && (0.2 * known.xy..=known.xy).contains(&found.xy), "{found:?}, {known:?}");
        assert_eq!((found.xz, found.yz, known.xz, known.yz), (0.0, 0.0, 0.0, 0.0));
        let (options, planes) = (SolverOptions::default(), Orientation { upright_from: 1e3, ..Orientation::default() });
        let turns = |is_periodic| planes.turns(shape, is_periodic, &options, || known.most(), || [1.0; 3]);
        assert_eq!([turns([false; 3]), turns([false, true, false])], [Some(Turns::UPRIGHT), None]);
        assert!(!known.around(Turns::UPRIGHT).halves_lines(Turns::UPRIGHT.around(shape), [false; 3]));
        // Couplings of x and of y, each from 10⁻³ to 10³: single cells differ by 10⁶ both ways.
        let noise =
            |seed: u64| (0..shape.cells()).map(|n| 10f64.powf(3.0 * random(seed, n))).collect::<Vec<_>>().into();
        let cells = Coefficients::Cells { fields: vec![noise(1), noise(2)], axes: [(0, 1.0), (1, 1.0), (0, 1.0)] };
        let noise = Diffusion::new(shape, cells, None, [[Side::Closed; 2]; 3]).unwrap().crossing();
        assert!(noise.xy < 1e3, "{noise:?}");
    }

    /// Checks that fewer ratios of neighbours are measured without the hybrid smoother, and the choice is the same.
    #[test]
    fn ratios_of_neighbours_are_measured_where_they_decide() {
        let shape = Shape::new(12, 8, 4);
        for (decades, factors) in
            [0.1, 1.0, 2.0, 3.0, 8.0, 14.0].into_iter().flat_map(|d| [(d, [1.0; 3]), (d, [1.0, 9.0, 1.0])])
        {
            let field: Vec<_> = (0..shape.cells()).map(|n| 10f64.powf(0.5 * decades * random(3, n))).collect();
            let stencil = Diffusion::of_field(shape, field, factors, None, [[Side::Closed; 2]; 3]).unwrap();
            let [all, without] = [true, false].map(|is_hybrid| stencil.measured(is_hybrid).unwrap());
            assert_eq!(all.verdict(), without.verdict(), "{decades} decades");
            assert_eq!(all.cycles(), without.cycles(), "{decades} decades");
            assert!(decades != 3.0 || without.jump == without.contrast);
            assert!(decades != 1.0 || without == all);
        }
    }

    #[test]
    fn lines_that_are_apart_are_solved_one_by_one() {
        use crate::options::{Method, Preconditioner};
        let shape = Shape::new(4, 6, 5);
        let kappa = |n: usize| 10f64.powf(3.0 * random(5, n));
        let made = |zeros: [bool; 3], sides| {
            let fields =
                zeros.map(|is_zero| (0..shape.cells()).map(|n| if is_zero { 0.0 } else { kappa(n) }).collect());
            let cells = Coefficients::Cells { fields: fields.into(), axes: [0, 1, 2].map(|field| (field, 1.0)) };
            Diffusion::new(shape, cells, Some(vec![1e-3; shape.cells()]), sides).unwrap()
        };
        let closed = [[Side::Closed; 2]; 3];
        let only = |zeros| made(zeros, closed).only_direction();
        assert_eq!(only([false, true, true]), Some(0));
        assert_eq!([only([true; 3]), only([true, true, false])], [Some(2); 2]);
        assert_eq!([only([true, false, false]), only([false; 3])], [None; 2]);
        let mut ring = closed;
        ring[2] = [Side::Periodic; 2];
        assert_eq!(made([true, true, false], ring).only_direction(), None);
        let choice = |zeros, options: &SolverOptions| made(zeros, closed).choice_on_host(options).unwrap();
        let auto = SolverOptions::default();
        let lines = choice([true, true, false], &auto);
        assert_eq!((lines.method, lines.preconditioner), (Method::Cg, Preconditioner::Line));
        assert!(lines.why.is_some_and(|why| why.contains("no other direction couples cells")));
        // Multigrid on request has no ratio to report.
        let asked = SolverOptions { preconditioner: Preconditioner::Multigrid, ..auto.clone() };
        let why = choice([true, true, false], &asked).why_cycles.unwrap();
        assert!(why.contains("some direction does not couple cells"), "{why}");
        assert_eq!(choice([true, false, false], &auto).preconditioner, Preconditioner::Multigrid);
    }

    #[test]
    fn shifts_that_dominate_need_no_multigrid() {
        use crate::options::{Method, Preconditioner};
        let shape = Shape::new(12, 8, 4);
        let chosen = |shift: f64, decades: f64, is_by_faces: bool| {
            let field: Vec<f64> = (0..shape.cells()).map(|n| 10f64.powf(decades * (random(3, n) - 1.0))).collect();
            let shift = Some(vec![shift; shape.cells()]);
            let stencil = match is_by_faces {
                false => Diffusion::of_field(shape, field, [1.0; 3], shift, [[Side::Closed; 2]; 3]),
                true => {
                    let is_inner = |d: usize, n: usize| shape.place(n)[d] + 1 < shape.extents()[d];
                    let faces = |d| (0..shape.cells()).map(|n| if is_inner(d, n) { field[n] } else { 0.0 }).collect();
                    Diffusion::new(shape, Coefficients::Faces([0, 1, 2].map(faces)), shift, [[Side::Closed; 2]; 3])
                }
            };
            let choice = stencil.unwrap().choice_on_host(&SolverOptions::default()).unwrap();
            assert_eq!((choice.method, choice.preconditioner), (Method::Cg, Preconditioner::Multigrid));
            choice.tried.map(|tried| tried.preconditioner)
        };
        assert_eq!([chosen(6.0, 1.0, false), chosen(6.0, 1.0, true)], [Some(Preconditioner::None); 2]);
        assert_eq!(chosen(0.02, 20.0, false), Some(Preconditioner::Jacobi));
        // Thin cells, of which lines solve the strong couplings.
        let flat = |shift: f64, top: Side| {
            let shift = Some(vec![shift; shape.cells()]);
            let field: Vec<f64> = (0..shape.cells()).map(|n| 1.0 + random(3, n)).collect();
            let sides = [[Side::Closed; 2], [Side::Fixed; 2], [Side::Closed, top]];
            let stencil = Diffusion::of_field(shape, field, [1.0, 1.0, 1e4], shift, sides).unwrap();
            stencil.choice_on_host(&SolverOptions::default()).unwrap().tried.map(|tried| tried.preconditioner)
        };
        let [line, none] = [Preconditioner::Line, Preconditioner::None].map(Some);
        assert_eq!([1.0, 1e6, 1e-2].map(|shift| flat(shift, Side::Closed)), [line, none, None]);
        assert_eq!([1.0, 1e6].map(|shift| flat(shift, Side::Fixed)), [None, none]);
        let plane = Shape::new(12, 8, 1);
        let across = |side| {
            let sides = [[Side::Closed; 2], [Side::Closed; 2], [side, Side::Closed]];
            let shift = Some(vec![100.0; plane.cells()]);
            Diffusion::of_field(plane, vec![1.0; plane.cells()], [1.0, 1.0, 1e6], shift, sides).unwrap().dominance()
        };
        assert!(across(Side::Closed).is_some() && across(Side::Fixed).is_none());
        assert_eq!([chosen(1e-3, 1.0, false), chosen(1e-3, 1.0, true)], [None; 2]);
        assert_eq!([chosen(0.0, 1.0, false), chosen(0.0, 6.0, true)], [None; 2]);
    }

    #[test]
    fn points_are_for_what_is_smooth() {
        let shape = Shape::new(12, 8, 4);
        let of = |value: &dyn Fn(usize) -> f64, factors: [f64; 3]| {
            let field: Vec<f64> = (0..shape.cells()).map(value).collect();
            Diffusion::of_field(shape, field, factors, None, [[Side::Closed; 2]; 3]).unwrap().measures().unwrap()
        };
        let even = of(&|_| 3.0, [1.0, 2.0, 1.0]);
        assert_eq!(
            even,
            Measures {
                stiffness: 2.0,
                contrast: 1.0,
                jump: 1.0,
                has_closed: false,
                most: 6.0,
                fields: 1,
                crosses: false,
                hold: f64::INFINITY,
            }
        );
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
}
