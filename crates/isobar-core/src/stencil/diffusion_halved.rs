//! Diffusion on a grid of half as many cells: coefficients of coarser cells, and whether that helps.

use std::sync::Arc;

use super::halving::{End, Halving};
use super::point_levels::ends_small;
use super::{Axis, Coefficients, Diffusion, Side, Stencil};
use crate::error::{Error, Result};
use crate::layout::Shape;
use crate::options::{Choice, Method, Norm, Preconditioner, Smoother, SolverOptions};

/// Couplings of one direction may be so many times another's.
const MOST_STIFF: f64 = 4.0;
/// The largest coefficient may be so many times the smallest…
const MOST_CONTRAST: f64 = 100.0;
/// …and one so many times its neighbour's.
const MOST_JUMP: f64 = 1.5;

/// What coefficients are like, as far as it matters to relaxation of points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measures {
    /// Of directions with more than one cell: mean couplings of the strongest over those of the weakest.
    pub stiffness: f64,
    /// The largest coefficient over the smallest; infinite where a cell is closed.
    pub contrast: f64,
    /// The largest ratio between neighbours, where contrast makes it worth knowing; at most the contrast.
    pub jump: f64,
}

impl Measures {
    /// Whether points suffice; why, or why not.
    pub fn verdict(&self) -> (bool, String) {
        let Self { stiffness, contrast, jump } = *self;
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
        let (least, most) = strengths
            .fold((f64::INFINITY, 0.0f64), |(least, most), (strength, _)| (least.min(strength), most.max(strength)));
        if most > 0.0 { most / least } else { 1.0 }
    }

    /// Coefficients of cells on the host, measured; of others nothing is known.
    pub fn measures(&self) -> Option<Measures> {
        let Coefficients::Cells { fields, axes } = self.coefficients() else { return None };
        let stiffness = self.stiffness();
        let (mut contrast, mut jump) = (1.0f64, 1.0f64);
        for field in fields {
            contrast = contrast.max(spread(field));
        }
        if stiffness > MOST_STIFF || contrast > MOST_CONTRAST {
            return Some(Measures { stiffness, contrast, jump: contrast });
        }
        if contrast > MOST_JUMP {
            let Shape { nx, ny, nz } = Stencil::shape(self);
            let steps = [(1, nx), (nx, ny), (nx * ny, nz)];
            for ((field, _), (step, n)) in axes.iter().zip(steps).filter(|&(_, (_, n))| n > 1) {
                // Blocks of cells within which the next one in this direction is so many further.
                for block in fields[*field].chunks(step * n) {
                    let pairs = block.iter().zip(&block[step..]);
                    jump = pairs.fold(jump, |most, (a, b)| most.max(a / b).max(b / a));
                }
            }
        } else {
            jump = contrast;
        }
        Some(Measures { stiffness, contrast, jump })
    }

    /// The solver where these options leave that open, given what `measure` finds of the coefficients, if anything: cycles that
    /// relax points where these suffice, else conjugate gradients with cycles that relax lines.
    ///
    /// # Errors
    /// Those of `measure`.
    pub fn choice_by(
        &self,
        options: &SolverOptions,
        measure: impl FnOnce() -> Result<Option<Measures>>,
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
}

impl Diffusion {
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

/// The largest over the smallest; infinite where any is zero.
fn spread(field: &[f64]) -> f64 {
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
    if least > 0.0 { most / least } else { f64::INFINITY }
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

    #[test]
    fn points_are_for_what_is_smooth() {
        let shape = Shape::new(12, 8, 4);
        let of = |value: &dyn Fn(usize) -> f64, factors: [f64; 3]| {
            let field: Vec<f64> = (0..shape.cells()).map(value).collect();
            let cells = Coefficients::Cells { fields: vec![field.into()], axes: factors.map(|factor| (0, factor)) };
            Diffusion::new(shape, cells, None, [[Side::Closed; 2]; 3]).unwrap().measures().unwrap()
        };
        let even = of(&|_| 3.0, [1.0, 2.0, 1.0]);
        assert_eq!(even, Measures { stiffness: 2.0, contrast: 1.0, jump: 1.0 });
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
