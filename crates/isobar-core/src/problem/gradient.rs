//! Derivatives by what a problem of diffusion is made of, from a solution and its adjoint.

use super::{Boundary, Coefficient, DiffusionProblem, Well};
use crate::error::{Error, Result};
use crate::execute::{Host, rows};
use crate::stencil::Axis;

/// Derivatives of a number J(u) by what a [`DiffusionProblem`] is made of, u its solution. Arrays have shape (nz, ny, nx), C order.
#[derive(Clone, Debug, PartialEq)]
pub struct Gradient {
    /// By κ of every cell: one array for each of the [`Coefficient`]'s.
    pub coefficient: Vec<Vec<f64>>,
    /// By c of every cell.
    pub reaction: Vec<f64>,
    /// By the source density f of every cell.
    pub source: Vec<f64>,
}

/// What lies on one side of a cell.
enum Beyond {
    Cell([usize; 3]),
    Side(Boundary),
}

/// A solution u of A u = b, its adjoint λ = A⁻¹ ∂J/∂u, and whether b follows the coefficients.
#[derive(Clone, Copy)]
struct Pair<'a> {
    u: &'a [f64],
    adjoint: &'a [f64],
    moves_rhs: bool,
}

impl Pair<'_> {
    /// ∂J/∂s of what ties cell n to `value`: λ_n (value − u_n), as s adds s to the diagonal and s times `value` to b.
    fn by_tie(&self, n: usize, value: f64) -> f64 {
        self.adjoint[n] * (if self.moves_rhs { value } else { 0.0 } - self.u[n])
    }
}

impl DiffusionProblem {
    /// Computes the derivatives of J(u) from a solution `u` of A u = b and its `adjoint` λ = A⁻¹ ∂J/∂u, which is ∂J/∂b as well.
    ///
    /// By the transmissibility of a face between cells m and n the derivative is −(λ_m − λ_n)(u_m − u_n), by what ties cell n to a value
    /// v it is λ_n (v − u_n); by κ it follows from these by the chain rule. With `moves_rhs`, b is that of [`DiffusionProblem::rhs`], which κ
    /// changes where values on sides, wells and sources are; else b stays as it is. What is closed stays closed: cells that take no part
    /// and faces where κ is 0 on either side add nothing.
    ///
    /// # Errors
    /// [`Error::Shape`] for arrays of another length; [`Error::Invalid`] for a well or a source outside of the active cells.
    pub fn gradient(&self, u: &[f64], adjoint: &[f64], moves_rhs: bool) -> Result<Gradient> {
        let count = self.shape.cells();
        for (what, values) in [("the solution", u), ("the adjoint", adjoint)] {
            if values.len() != count {
                return Err(Error::shape(what, values.len().to_string(), count.to_string()));
            }
        }
        let pair = Pair { u, adjoint, moves_rhs };
        let fields: &[&[Axis]] = match self.coefficient {
            Coefficient::Isotropic(_) => &[&Axis::ALL],
            Coefficient::Layered { .. } => &[&[Axis::X, Axis::Y], &[Axis::Z]],
            Coefficient::Diagonal(_) => &[&[Axis::X], &[Axis::Y], &[Axis::Z]],
        };
        let of_cells = |value: &(dyn Fn([usize; 3], usize) -> f64 + Sync)| {
            let (nx, ny) = (self.shape.nx, self.shape.ny);
            rows(&Host, count, nx, |row, values: &mut [f64]| {
                for (i, of_cell) in values.iter_mut().enumerate() {
                    let n = i + nx * row;
                    if self.takes_part(n) {
                        *of_cell = value([i, row % ny, row / ny], n);
                    }
                }
            })
        };
        let coefficient =
            fields.iter().map(|axes| of_cells(&|at, _| axes.iter().map(|&axis| self.by_kappa(axis, at, pair)).sum()));
        let mut gradient = Gradient {
            coefficient: coefficient.collect(),
            reaction: of_cells(&|at, n| -adjoint[n] * u[n] * self.volume(at)),
            source: of_cells(&|at, n| adjoint[n] * self.volume(at)),
        };
        self.add_points(&mut gradient.coefficient, pair)?;
        Ok(gradient)
    }

    /// ∂J/∂κ of a cell along an axis, by its faces and sides.
    fn by_kappa(&self, axis: Axis, at: [usize; 3], pair: Pair<'_>) -> f64 {
        let (n, d) = (self.cell(at), axis as usize);
        let half = self.half(axis, at);
        let mut by_half = 0.0;
        for is_upper in [false, true] {
            by_half += match self.beyond(axis, at, is_upper) {
                Beyond::Cell(other) => {
                    let m = self.cell(other);
                    let beyond = if m != n && self.takes_part(m) { self.half(axis, other) } else { 0.0 };
                    if half > 0.0 && beyond > 0.0 {
                        // T = h h'/(h + h'), so that ∂T/∂h = (h'/(h + h'))².
                        let share = beyond / (half + beyond);
                        -(pair.adjoint[n] - pair.adjoint[m]) * (pair.u[n] - pair.u[m]) * share * share
                    } else {
                        0.0
                    }
                }
                Beyond::Side(Boundary::Dirichlet(value)) => pair.by_tie(n, value),
                Beyond::Side(Boundary::Neumann(_) | Boundary::Periodic) => 0.0,
            };
        }
        let width = self.widths(at)[d];
        by_half * 2.0 * self.volume(at) / (width * width)
    }

    /// The neighbour of a cell, or what holds on its side.
    fn beyond(&self, axis: Axis, mut at: [usize; 3], is_upper: bool) -> Beyond {
        let (d, count) = (axis as usize, self.extents()[axis as usize]);
        let is_last = at[d] == if is_upper { count - 1 } else { 0 };
        let side = self.boundary[d][usize::from(is_upper)];
        if is_last && side != Boundary::Periodic {
            return Beyond::Side(side);
        }
        at[d] = (at[d] + if is_upper { 1 } else { count - 1 }) % count;
        Beyond::Cell(at)
    }

    /// Adds what wells and sources, whose rates κ divides among their cells, change.
    fn add_points(&self, coefficient: &mut [Vec<f64>], pair: Pair<'_>) -> Result<()> {
        let field = |axis: Axis| match self.coefficient {
            Coefficient::Isotropic(_) => 0,
            Coefficient::Layered { .. } => usize::from(axis == Axis::Z),
            Coefficient::Diagonal(_) => axis as usize,
        };
        for source in self.sources.iter().filter(|_| pair.moves_rhs) {
            let cells = self.completed("diffusion.sources", 0, [source.i, source.j], source.k)?;
            let weight = |&at: &[usize; 3]| self.coefficient.along(Axis::X)[self.cell(at)] * self.widths(at)[2];
            let total: f64 = cells.iter().map(weight).sum();
            let mean = cells.iter().map(|at| weight(at) * pair.adjoint[self.cell(*at)]).sum::<f64>() / total;
            for at in cells {
                let n = self.cell(at);
                coefficient[field(Axis::X)][n] += source.rate * (pair.adjoint[n] - mean) * self.widths(at)[2] / total;
            }
        }
        for well in &self.wells {
            for at in self.completed("diffusion.wells", 0, [well.i, well.j], well.k)? {
                let (n, slopes) = (self.cell(at), self.well_slopes(well, at));
                let by_tie = pair.by_tie(n, well.value);
                for (axis, slope) in [Axis::X, Axis::Y].into_iter().zip(slopes) {
                    coefficient[field(axis)][n] += by_tie * slope;
                }
            }
        }
        Ok(())
    }

    /// Derivatives of the well index 2π √(κ_x κ_y) d_z / ln(r_e / r) by κ_x and κ_y, on whose ratio r_e depends.
    fn well_slopes(&self, well: &Well, at: [usize; 3]) -> [f64; 2] {
        let n = self.cell(at);
        let index = self.well_index(well, at);
        if index == 0.0 {
            return [0.0; 2];
        }
        let [x, y] = [Axis::X, Axis::Y].map(|axis| self.coefficient.along(axis)[n]);
        let ratio = (y / x).sqrt();
        let [dx, dy, _] = self.widths(at);
        let (across, along) = (ratio * dx * dx, dy * dy / ratio);
        // d ln r_e / d ln √(κ_y/κ_x)
        let by_ratio = 0.5 * (across - along) / (across + along) - 0.5 * (ratio - 1.0) / (ratio + 1.0);
        let tilt = 0.5 * by_ratio / (self.equivalent_radius(at) / well.radius).ln();
        [index / x * (0.5 + tilt), index / y * (0.5 - tilt)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Shape;
    use crate::problem::{Source, Spacing, Weighting, random};

    const SHAPE: Shape = Shape { nx: 4, ny: 3, nz: 3 };

    fn field(seed: u64) -> Vec<f64> {
        (0..SHAPE.cells()).map(|n| (1.5 * random(seed, n)).exp()).collect()
    }

    fn widths(n: usize) -> Spacing {
        Spacing::Given((0..n).map(|m| 1.0 + 0.3 * (m % 3) as f64).collect())
    }

    /// Every part that a derivative goes through, somewhere.
    fn problems() -> Vec<DiffusionProblem> {
        let plain = DiffusionProblem::new(SHAPE, Coefficient::Isotropic(field(1)));
        let mut sides = plain.clone();
        sides.boundary[0] = [Boundary::Dirichlet(2.0), Boundary::Neumann(0.7)];
        sides.boundary[1] = [Boundary::Periodic; 2];
        sides.active = Some((0..SHAPE.cells()).map(|n| n % 7 != 3).collect());
        sides.reaction = Some(field(5));
        let mut layered = plain.clone();
        layered.coefficient = Coefficient::Layered { horizontal: field(2), vertical: field(3) };
        layered.spacing = [widths(SHAPE.nx), widths(SHAPE.ny), widths(SHAPE.nz)];
        layered.boundary[2] = [Boundary::Dirichlet(-1.0), Boundary::Dirichlet(3.0)];
        layered.sources = vec![Source { i: 1, j: 2, k: [0, 2], rate: 2.0 }];
        let mut diagonal = layered.clone();
        diagonal.coefficient = Coefficient::Diagonal([field(4), field(5), field(6)]);
        diagonal.boundary = [[Boundary::Neumann(0.0); 2]; 3];
        diagonal.wells = vec![Well { i: 2, j: 1, k: [0, 1], value: 1.5, radius: 0.02 }];
        vec![sides, layered, diagonal]
    }

    /// A u, or b, weighted: λᵀ(b − A u), whose derivatives for fixed u and λ are the gradient.
    fn residual(problem: &DiffusionProblem, u: &[f64], adjoint: &[f64], body: &[f64], moved: Option<&[f64]>) -> f64 {
        let b = problem.rhs_from(body.to_vec(), Weighting::Volume).unwrap();
        let product = problem.stencil().unwrap().times(u);
        let b = moved.unwrap_or(&b);
        (0..u.len()).map(|n| adjoint[n] * (b[n] - product[n])).sum()
    }

    fn change<'p>(problem: &'p mut DiffusionProblem, part: usize) -> &'p mut Vec<f64> {
        match (&mut problem.coefficient, part) {
            (Coefficient::Isotropic(all), 0) => all,
            (Coefficient::Layered { horizontal, .. }, 0) => horizontal,
            (Coefficient::Layered { vertical, .. }, 1) => vertical,
            (Coefficient::Diagonal(fields), part) => &mut fields[part],
            _ => panic!("no such field"),
        }
    }

    #[test]
    fn derivatives_are_those_of_matrix_and_right_hand_side() {
        let active = |problem: &DiffusionProblem, seed| -> Vec<f64> {
            (0..SHAPE.cells()).map(|n| if problem.takes_part(n) { random(seed, n) } else { 0.0 }).collect()
        };
        for problem in problems() {
            let (u, adjoint, body) = (active(&problem, 7), active(&problem, 8), field(9));
            let rhs = problem.rhs_from(body.clone(), Weighting::Volume).unwrap();
            for fixed in [None, Some(rhs.as_slice())] {
                let found = problem.gradient(&u, &adjoint, fixed.is_none()).unwrap();
                let slope = |f: &dyn Fn(f64) -> f64, step: f64| (f(step) - f(-step)) / (2.0 * step);
                for (part, field) in found.coefficient.iter().enumerate() {
                    for n in 0..SHAPE.cells() {
                        let at = |step: f64| {
                            let mut other = problem.clone();
                            change(&mut other, part)[n] += step;
                            residual(&other, &u, &adjoint, &body, fixed)
                        };
                        let expected = slope(&at, 1e-5);
                        assert!((field[n] - expected).abs() < 1e-7 * (1.0 + expected.abs()), "{part} {n}");
                    }
                }
                for n in 0..SHAPE.cells() {
                    if problem.reaction.is_some() {
                        let at = |step: f64| {
                            let mut other = problem.clone();
                            other.reaction.as_mut().unwrap()[n] += step;
                            residual(&other, &u, &adjoint, &body, fixed)
                        };
                        assert!((found.reaction[n] - slope(&at, 1e-2)).abs() < 1e-10);
                    }
                    let at = |step: f64| {
                        let mut other = body.clone();
                        other[n] += step;
                        residual(&problem, &u, &adjoint, &other, None)
                    };
                    assert!((found.source[n] - slope(&at, 1e-2)).abs() < 1e-10);
                }
            }
        }
    }

    #[test]
    fn arrays_of_another_length_are_refused() {
        let problem = DiffusionProblem::new(SHAPE, Coefficient::Isotropic(field(1)));
        let right = field(2);
        assert!(matches!(problem.gradient(&right, &right[1..], true), Err(Error::Shape { .. })));
        assert!(matches!(problem.gradient(&right[1..], &right, true), Err(Error::Shape { .. })));
    }
}
