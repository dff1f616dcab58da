//! Diffusion on a grid of half as many cells: coefficients of coarser cells, and whether that helps.

use std::sync::Arc;

use super::diffusion::harmonic;
use super::halving::{End, Halving};
use super::point_levels::{ends_small, steps};
use super::{Axis, Coefficients, Diffusion, Side, Stencil};
use crate::error::{Error, Result};
use crate::layout::Shape;
use crate::options::{Choice, CyclePrecision, Method, Norm, Preconditioner, Smoother, SolverOptions};

/// Couplings of one direction may be so many times another's.
const MOST_STIFF: f64 = 4.0;
/// The largest coefficient may be so many times the smallest…
const MOST_CONTRAST: f64 = 100.0;
/// …and one so many times its neighbour's.
const MOST_JUMP: f64 = 1.5;

/// Of points above lines: the largest coefficient may be so many times its neighbour's. Among bodies that conduct a thousand
/// times better than what is around them that takes as long as lines alone, or longer.
const MOST_JUMP_ABOVE_LINES: f64 = 300.0;
/// Of fewer cells Galerkin levels are made in no time.
const FEWEST_ABOVE_LINES: usize = 30_000;

/// Of cycles in single precision: the largest coupling may be about so many times the smallest. Row sums of coarse grids are
/// differences, and beyond this these do not fit into 24 bits.
pub const MOST_CONTRAST_SINGLE: f64 = 1e5;
/// Couplings from one over this to this, and their products with residuals, are far within the range of single precision.
pub const MOST_SINGLE: f64 = 1e12;

/// What coefficients are like, as far as it matters to relaxation of points and to rounding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measures {
    /// Of directions with more than one cell: mean couplings of the strongest over those of the weakest.
    pub stiffness: f64,
    /// The largest coefficient over the smallest; infinite where a cell is closed.
    pub contrast: f64,
    /// The largest ratio between neighbours, where contrast makes it worth knowing; at most the contrast.
    pub jump: f64,
    /// The largest coefficient, as it is stored.
    pub most: f64,
}

impl Measures {
    /// Whether points suffice; why, or why not.
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

    /// In what precision cycles may precondition conjugate gradients in double precision; why.
    pub fn cycles(&self) -> (CyclePrecision, String) {
        let Self { stiffness, contrast, most, .. } = *self;
        let double = |what: String| (CyclePrecision::F64, format!("cycles in double precision: {what}"));
        let apart = contrast * stiffness;
        if contrast.is_infinite() {
            double("cells are closed".into())
        } else if apart > MOST_CONTRAST_SINGLE {
            double(format!("couplings differ by a factor of about {apart:.1e}, more than {MOST_CONTRAST_SINGLE:.0e}"))
        } else if !(1.0 / MOST_SINGLE..=MOST_SINGLE).contains(&most) {
            double(format!("couplings of {most:.1e} are near the ends of single precision"))
        } else {
            let why = format!(
                "cycles in single precision: all cells are open, and couplings differ by a factor of about {apart:.1e}, at most \
                 {MOST_CONTRAST_SINGLE:.0e}"
            );
            (CyclePrecision::F32, why)
        }
    }
}

/// The largest strength over the smallest; 1 where there is none.
pub fn stiffness_of(strengths: impl Iterator<Item = f64>) -> f64 {
    let (least, most) =
        strengths.fold((f64::INFINITY, 0.0f64), |(least, most), strength| (least.min(strength), most.max(strength)));
    if most > 0.0 { most / least } else { 1.0 }
}

/// What is beyond the ends of directions with these sides.
pub fn ends_of(sides: [[Side; 2]; 3]) -> [[End; 2]; 3] {
    sides.map(|sides| {
        sides.map(|side| match side {
            Side::Closed => End::Closed,
            Side::Fixed => End::Fixed,
            Side::Periodic => End::Ring,
        })
    })
}

impl Diffusion {
    /// What is beyond the ends of each direction.
    pub fn ends(&self) -> [[End; 2]; 3] {
        ends_of(self.sides())
    }

    /// Of each direction its field and factor, where coefficients are those of cells.
    pub fn factors(&self) -> Option<[(usize, f64); 3]> {
        match self.coefficients() {
            Coefficients::Cells { axes, .. } | Coefficients::DeviceCells { axes, .. } => Some(*axes),
            Coefficients::Faces(_) => None,
        }
    }

    /// Mean couplings of each direction, or as much as is known of them without the coefficients.
    pub fn strengths(&self) -> [f64; 3] {
        let mean = |field: &[f64]| field.iter().sum::<f64>() / field.len().max(1) as f64;
        match self.coefficients() {
            Coefficients::Cells { fields, axes } if fields.len() > 1 => {
                let means: Vec<f64> = fields.iter().map(|field| mean(field)).collect();
                axes.map(|(field, factor)| factor * means[field])
            }
            Coefficients::Cells { axes, .. } | Coefficients::DeviceCells { axes, .. } => axes.map(|(_, factor)| factor),
            Coefficients::Faces(faces) => [0, 1, 2].map(|d: usize| mean(&faces[d])),
        }
    }

    /// The strongest direction over the weakest, of those with more than one cell.
    pub fn stiffness(&self) -> f64 {
        let Shape { nx, ny, nz } = Stencil::shape(self);
        let strengths = self.strengths().into_iter().zip([nx, ny, nz]).filter(|&(_, n)| n > 1);
        stiffness_of(strengths.map(|(strength, _)| strength))
    }

    /// Coefficients of cells on the host, measured; of others nothing is known.
    pub fn measures(&self) -> Option<Measures> {
        let Coefficients::Cells { fields, axes } = self.coefficients() else { return None };
        let stiffness = self.stiffness();
        let spreads: Vec<[f64; 2]> = fields.iter().map(|field| spread(field)).collect();
        let ratio = |[least, most]: [f64; 2]| if least > 0.0 { most / least } else { f64::INFINITY };
        let contrast = spreads.iter().copied().map(ratio).fold(1.0, f64::max);
        let most = axes.iter().map(|&(field, factor)| factor * spreads[field][1]).fold(0.0, f64::max);
        let is_open = stiffness <= MOST_STIFF && contrast <= MOST_CONTRAST && contrast > MOST_JUMP;
        let jump = if is_open { self.largest_jump() } else { contrast };
        Some(Measures { stiffness, contrast, jump, most })
    }

    /// The solver where these options leave that open, given what `measure` finds of the coefficients, if anything: cycles that
    /// relax points where these suffice, else conjugate gradients with cycles that relax lines, in single precision where that
    /// is enough. `measure` is called once at most.
    ///
    /// # Errors
    /// Those of `measure`.
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

    /// Method, preconditioner and smoother of [`Diffusion::choice_by`].
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
            let why = Some("lines on Galerkin grids, not points: an odd number of cells goes around a ring".into());
            return Ok(Choice { why, ..lines });
        }
        Ok(Choice { why: Some(why), ..if suffices { points } else { lines } })
    }

    /// [`Diffusion::choice_by`] on a host, with points above lines where points alone do not suffice and coefficients are such that
    /// this takes less time than lines alone.
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
        let Some(Measures { stiffness, contrast, .. }) = found.filter(|_| is_open && !has_few) else {
            return Ok(choice);
        };
        if contrast.is_infinite()
            || stiffness > MOST_STIFF
            || !steps(self, Some(2)).is_ok_and(|steps| !steps.is_empty())
        {
            return Ok(choice);
        }
        let jump = self.largest_jump();
        if jump > MOST_JUMP_ABOVE_LINES {
            let why = choice.why.map(|why| {
                format!("{why}; nor points above lines, coefficients of neighbours differing by a factor of {jump:.1e}")
            });
            return Ok(Choice { why, ..choice });
        }
        let why = format!(
            "points on the finest grid, lines on Galerkin grids below: no direction is stiff (couplings {stiffness:.1} : 1), \
             coefficients are rough (contrast {contrast:.1e}, neighbours {jump:.1}, at most {MOST_JUMP_ABOVE_LINES})"
        );
        Ok(Choice { smoother: Smoother::PointLine, why: Some(why), ..choice })
    }

    /// The largest ratio between coefficients of neighbours; of other than coefficients of cells on the host, 1.
    fn largest_jump(&self) -> f64 {
        let Coefficients::Cells { fields, axes } = self.coefficients() else { return 1.0 };
        let Shape { nx, ny, nz } = Stencil::shape(self);
        let steps = [(1, nx), (nx, ny), (nx * ny, nz)];
        let of_direction = |((field, _), (step, n)): (&(usize, f64), (usize, usize))| {
            // Blocks of cells within which the next one in this direction is so many further.
            fields[*field].chunks(step * n).map(|block| most_between(block, &block[step..])).fold(1.0, f64::max)
        };
        axes.iter().zip(steps).filter(|&(_, (_, n))| n > 1).map(of_direction).fold(1.0, f64::max)
    }

    /// The same equation on a coarser grid: coefficients of cells are means by volume, h_c = Σ (d/d_c)² h over the cells that
    /// make up a coarser one, d their width in the direction of h; s_c = Σ s.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for stored faces, and coefficients on a GPU.
    pub fn halved(&self, by: &Halving) -> Result<Self> {
        let Coefficients::Cells { fields, axes } = self.coefficients() else { return Err(no_cells()) };
        let ones = by.along.each_ref().map(|along| vec![1.0; along.near.len()]);
        let weighted = |field: usize, axis: Axis| {
            let mut weights = ones.clone();
            weights[axis as usize].clone_from(&by.along[axis as usize].share);
            sum_of_parts(&fields[field], by, &weights)
        };
        let (fields, axes) = if by.is_regular {
            let halves =
                by.along.each_ref().map(|along| vec![if along.is_halved { 0.5 } else { 1.0 }; along.near.len()]);
            (fields.iter().map(|field| sum_of_parts(field, by, &halves)).collect(), by.factors(*axes))
        } else {
            let fields = Axis::ALL.map(|axis| weighted(axes[axis as usize].0, axis));
            let separate = Axis::ALL.map(|axis| (axis as usize, axes[axis as usize].1));
            (fields.to_vec(), separate)
        };
        let shift = self.stored_shift().map(|shift| sum_of_parts(shift, by, &ones).to_vec());
        Self::new(by.coarse, Coefficients::Cells { fields, axes }, shift, self.sides())
    }

    /// The same equation on a coarser grid, by faces: T_c = Σ T d/d_c over the faces between two coarser cells, d and d_c how far
    /// the centres on either side are from each other; likewise of sides where u is given; s_c = Σ s. All cells of this grid are
    /// alike in width.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for stored faces, and coefficients on a GPU.
    pub fn halved_by_faces(&self, by: &Halving) -> Result<Self> {
        let Coefficients::Cells { fields, axes } = self.coefficients() else { return Err(no_cells()) };
        let mut shift = match self.stored_shift() {
            Some(shift) => {
                sum_of_parts(shift, by, &by.along.each_ref().map(|along| vec![1.0; along.near.len()])).to_vec()
            }
            None => vec![0.0; by.coarse.cells()],
        };
        let faces = Axis::ALL.map(|axis| {
            let (field, factor) = axes[axis as usize];
            self.add_sides(axis, by, &mut shift);
            let mut sums = self.faces_between(axis, by, &fields[field]);
            sums.iter_mut().for_each(|sum| *sum *= factor);
            Arc::from(sums)
        });
        Self::new(by.coarse, Coefficients::Faces(faces), Some(shift), self.sides())
    }

    /// Σ T d/d_c between coarser cells along an axis, of a field of h.
    fn faces_between(&self, axis: Axis, by: &Halving, field: &[f64]) -> Vec<f64> {
        let Shape { nx, ny, .. } = by.fine;
        let d = axis as usize;
        let along = &by.along[d];
        // How wide the coarser cell around a cell is; how far centres are apart, of cells over coarser ones.
        let width = |n: usize| 1.0 / along.share[n].sqrt();
        let closer = |[a, b]: [usize; 2]| 2.0 / (width(a) + width(b));
        let upper = |n: usize| match n + 1 {
            next if next < along.near.len() => Some(next),
            _ => (self.is_periodic(axis) && along.near.len() > 1).then_some(0),
        };
        let last = |n: usize| along.parts(n).end - 1;
        let [x, y, z] = &by.along;
        let mut sums = vec![0.0; by.coarse.cells()];
        for (row, sums) in sums.chunks_mut(by.coarse.nx).enumerate() {
            let [j, k] = [row % by.coarse.ny, row / by.coarse.ny];
            let is_single = by.coarse_extent(axis) == 1;
            let rows = z.parts(k).flat_map(|k| y.parts(j).map(move |j| [j, k]));
            for [j, k] in rows.filter(|_| !is_single) {
                let values = &field[nx * (j + ny * k)..][..nx];
                if axis == Axis::X {
                    for (i, sum) in sums.iter_mut().enumerate() {
                        let lower = last(i);
                        let Some(upper) = upper(lower) else { continue };
                        *sum += closer([lower, upper]) * harmonic(values[lower], values[upper]);
                    }
                    continue;
                }
                let here = if axis == Axis::Y { j } else { k };
                let Some(there) = upper(here).filter(|_| here == last(along.part_of(here))) else { continue };
                let [j, k] = if axis == Axis::Y { [there, k] } else { [j, there] };
                let others = &field[nx * (j + ny * k)..][..nx];
                let closer = closer([here, there]);
                let step = if x.is_halved { 2 } else { 1 };
                for ((sum, values), others) in sums.iter_mut().zip(values.chunks(step)).zip(others.chunks(step)) {
                    *sum += closer * values.iter().zip(others).map(|(&a, &b)| harmonic(a, b)).sum::<f64>();
                }
            }
        }
        sums
    }

    /// What sides where u is given add to the shift of coarser cells.
    fn add_sides(&self, axis: Axis, by: &Halving, shift: &mut [f64]) {
        let d = axis as usize;
        let share = &by.along[d].share;
        for (side, at_end) in self.sides()[d].into_iter().zip([0, share.len() - 1]) {
            if side != Side::Fixed {
                continue;
            }
            let closer = share[at_end].sqrt();
            let mut ranges = [by.fine.nx, by.fine.ny, by.fine.nz].map(|n| 0..n);
            ranges[d] = at_end..at_end + 1;
            let [x, y, z] = ranges;
            for (j, k) in z.flat_map(|k| y.clone().map(move |j| (j, k))) {
                let row = by.coarse.nx * (by.along[1].part_of(j) + by.coarse.ny * by.along[2].part_of(k));
                for i in x.clone() {
                    shift[row + by.along[0].part_of(i)] += closer * self.half(axis, [i, j, k]);
                }
            }
        }
    }

    /// [`Diffusion::halved`] without the coefficients, for a back end that computes them where it needs them.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for stored faces.
    pub fn halved_form(&self, by: &Halving) -> Result<Self> {
        let axes = self.factors().ok_or_else(no_cells)?;
        let axes = if by.is_regular { by.factors(axes) } else { [0, 1, 2].map(|d: usize| (d, axes[d].1)) };
        Ok(self.without_coefficients(by.coarse, axes))
    }
}

impl Halving {
    fn coarse_extent(&self, axis: Axis) -> usize {
        [self.coarse.nx, self.coarse.ny, self.coarse.nz][axis as usize]
    }

    /// What h is of the mean coefficient of a coarser cell, given the same of a finer one, where all are alike.
    pub fn factors(&self, axes: [(usize, f64); 3]) -> [(usize, f64); 3] {
        let halved = self.halved();
        let cells: f64 = halved.iter().map(|&is_halved| if is_halved { 2.0 } else { 1.0 }).product();
        let mut coarse = axes;
        for ((_, factor), is_halved) in coarse.iter_mut().zip(halved) {
            *factor *= cells * if is_halved { 0.25 } else { 1.0 };
        }
        coarse
    }
}

fn no_cells() -> Error {
    Error::Unsupported(
        "solver.multigrid.smoother: \"point-red-black\" needs coefficients of cells, and here transmissibilities are given; use \
         \"line-red-black\""
            .into(),
    )
}

/// The smallest and the largest.
fn spread(field: &[f64]) -> [f64; 2] {
    let (mut least, mut most) = ([f64::INFINITY; 8], [0.0f64; 8]);
    let (chunks, rest) = field.as_chunks::<8>();
    for chunk in chunks {
        for ((least, most), &value) in least.iter_mut().zip(&mut most).zip(chunk) {
            *least = if value < *least { value } else { *least };
            *most = if value > *most { value } else { *most };
        }
    }
    let least = least.into_iter().chain(rest.iter().copied()).fold(f64::INFINITY, f64::min);
    let most = most.into_iter().chain(rest.iter().copied()).fold(0.0, f64::max);
    [least, most]
}

/// The largest ratio between numbers in the same place, those that have none left out.
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

/// Σ w_x w_y w_z of the cells that make up each coarser one.
fn sum_of_parts(values: &[f64], by: &Halving, weights: &[Vec<f64>; 3]) -> Arc<[f64]> {
    let Shape { nx, ny, .. } = by.fine;
    let mut sums = vec![0.0; by.coarse.cells()];
    for (row, sums) in sums.chunks_mut(by.coarse.nx).enumerate() {
        let (j, k) = (row % by.coarse.ny, row / by.coarse.ny);
        for (j, k) in by.along[2].parts(k).flat_map(|k| by.along[1].parts(j).map(move |j| (j, k))) {
            let weight = weights[1][j] * weights[2][k];
            let values = &values[nx * (j + ny * k)..][..nx];
            if by.along[0].is_halved {
                let parts = values.chunks(2).zip(weights[0].chunks(2));
                for (sum, (values, weights)) in sums.iter_mut().zip(parts) {
                    *sum += weight * values.iter().zip(weights).map(|(value, weight)| weight * value).sum::<f64>();
                }
            } else {
                sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value);
            }
        }
    }
    Arc::from(sums)
}

#[cfg(test)]
mod tests {
    use super::super::halving::halvings;
    use super::*;

    fn constant(shape: Shape, factors: [f64; 3]) -> Diffusion {
        let cells = Coefficients::Cells {
            fields: vec![Arc::from(vec![2.0; shape.cells()])],
            axes: factors.map(|factor| (0, factor)),
        };
        Diffusion::new(shape, cells, None, [[Side::Fixed; 2]; 3]).unwrap()
    }

    /// Of constant κ, coarser couplings are those of the wider cells: 2κA/d.
    #[test]
    fn constant_coefficients_stay_constant() {
        let widths = [0.5, 1.0, 0.7];
        let factors = |[x, y, z]: [f64; 3]| [2.0 * y * z / x, 2.0 * x * z / y, 2.0 * x * y / z];
        for (nx, ny, nz) in [(8, 4, 4), (9, 7, 6), (5, 1, 3)] {
            let shape = Shape::new(nx, ny, nz);
            let fine = constant(shape, factors(widths));
            let by = &halvings(shape, fine.ends(), [1.0; 3], Some(2))[0];
            let coarse = fine.halved(by).unwrap();
            for at in coarse.cells() {
                let own: [f64; 3] = [0, 1, 2].map(|d: usize| widths[d] * by.along[d].parts(at[d]).len() as f64);
                for axis in Axis::ALL {
                    let expected = 2.0 * factors(own)[axis as usize];
                    let found = coarse.half(axis, at);
                    assert!((found - expected).abs() < 1e-12 * expected, "{shape} {at:?} {axis:?}: {found} {expected}");
                }
            }
        }
    }

    /// Of constant κ, coarser faces are those of the wider cells, at sides too, and the shift is what was there before.
    #[test]
    fn faces_of_constant_coefficients_stay_constant() {
        let sides = [[Side::Fixed; 2], [Side::Fixed, Side::Closed], [Side::Periodic; 2]];
        for (shape, factors) in [
            (Shape::new(8, 6, 4), [1.0; 3]),
            (Shape::new(9, 7, 2), [1.0, 1.5, 0.9]),
            (Shape::new(5, 1, 8), [1.0, 1.0, 9.0]),
        ] {
            let Coefficients::Cells { fields, axes } = constant(shape, factors).coefficients().clone() else {
                panic!()
            };
            let shift = vec![0.5; shape.cells()];
            let fine = Diffusion::new(shape, Coefficients::Cells { fields, axes }, Some(shift), sides).unwrap();
            let by = &halvings(shape, fine.ends(), fine.strengths(), Some(2))[0];
            let (by_cells, by_faces) = (fine.halved(by).unwrap(), fine.halved_by_faces(by).unwrap());
            for at in by_cells.cells() {
                let close = |a: f64, b: f64| (a - b).abs() < 1e-12 * (1.0 + b.abs());
                for axis in Axis::ALL {
                    let (found, expected) = (by_faces.face(axis, at), by_cells.face(axis, at));
                    assert!(close(found, expected), "{shape} {at:?} {axis:?}: {found} {expected}");
                }
                assert!(close(by_faces.shift(at), by_cells.shift(at)), "{shape} {at:?}");
            }
        }
    }

    /// Between two coarser cells the faces of the finer ones add up, whatever is inside.
    #[test]
    fn faces_add_up() {
        let shape = Shape::new(4, 2, 2);
        let field: Vec<f64> = (0..16).map(|n| 1.0 + ((7 * n) % 5) as f64).collect();
        let cells = Coefficients::Cells { fields: vec![field.into()], axes: [(0, 3.0); 3] };
        let fine =
            Diffusion::new(shape, cells, None, [[Side::Fixed; 2], [Side::Closed; 2], [Side::Closed; 2]]).unwrap();
        let coarse = fine.halved_by_faces(&halvings(shape, fine.ends(), [1.0; 3], Some(2))[0]).unwrap();
        let places = [[0, 0], [1, 0], [0, 1], [1, 1]];
        let faces: f64 = places.iter().map(|&[j, k]| fine.face(Axis::X, [1, j, k])).sum();
        let side: f64 = places.iter().map(|&[j, k]| fine.half(Axis::X, [3, j, k])).sum();
        assert!((coarse.face(Axis::X, [0, 0, 0]) - 0.5 * faces).abs() < 1e-12);
        assert!((coarse.shift([1, 0, 0]) - 0.5 * side).abs() < 1e-12);
    }

    #[test]
    fn points_are_for_what_is_smooth() {
        let shape = Shape::new(12, 8, 4);
        let of = |value: &dyn Fn(usize) -> f64, factors: [f64; 3]| {
            let field: Vec<f64> = (0..shape.cells()).map(value).collect();
            let cells = Coefficients::Cells { fields: vec![field.into()], axes: factors.map(|factor| (0, factor)) };
            Diffusion::new(shape, cells, None, [[Side::Closed; 2]; 3]).unwrap().measures().unwrap()
        };
        let even = of(&|_| 3.0, [1.0, 2.0, 1.0]);
        assert_eq!(even, Measures { stiffness: 2.0, contrast: 1.0, jump: 1.0, most: 6.0 });
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
        let of = |most: f64, contrast: f64, stiffness: f64| {
            let (precision, why) = Measures { stiffness, contrast, jump: contrast, most }.cycles();
            assert_eq!(precision == CyclePrecision::F32, why.contains("cycles in single precision"), "{why}");
            precision
        };
        assert_eq!(of(1.0, 1e3, 10.0), CyclePrecision::F32);
        for [most, contrast, stiffness] in
            [[1.0, f64::INFINITY, 1.0], [1.0, 1e6, 1.0], [1.0, 1e3, 1e3], [1e20, 1.0, 1.0], [1e-20, 1.0, 1.0]]
        {
            assert_eq!(of(most, contrast, stiffness), CyclePrecision::F64);
        }
    }
}
