//! Derivatives of problems, compared with differences of matrix and right-hand side.

use super::*;
use crate::Shape;
use crate::problem::{Coefficient, FaceProblem, Source, Spacing, Weighting, random};

const SHAPE: Shape = Shape { nx: 4, ny: 3, nz: 3 };

fn field(seed: u64) -> Vec<f64> {
    (0..SHAPE.cells()).map(|n| (1.5 * random(seed, n)).exp()).collect()
}

fn widths(n: usize) -> Spacing {
    Spacing::Given((0..n).map(|m| 1.0 + 0.3 * (m % 3) as f64).collect())
}

/// Returns problems that contain every quantity with a derivative.
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
    let mut films = diagonal.clone();
    films.boundary[0][1] = Boundary::Robin { coefficient: 3.0, value: 2.0 };
    films.boundary[1] = [Boundary::Dirichlet(0.0), Boundary::Robin { coefficient: 0.0, value: 1.0 }];
    films.side_fields[0][1].coefficient = Some((0..9).map(|face| 0.1 + f64::from(face)).collect());
    films.side_fields[1][0].value = Some((0..12).map(|face| f64::from(face) - 4.0).collect());
    vec![sides, layered, diagonal, films]
}

/// A problem with u, λ and f, u and λ being 0 in inactive cells. Derivatives of λᵀ(b − A u) for fixed u and λ are the gradient.
struct Residual {
    problem: DiffusionProblem,
    u: Vec<f64>,
    adjoint: Vec<f64>,
    body: Vec<f64>,
    /// The right-hand side, if it does not follow the problem.
    fixed: Option<Vec<f64>>,
}

impl Residual {
    /// Makes two of a problem: with the right-hand side that follows the problem, and with a fixed one.
    fn both(problem: &DiffusionProblem) -> [Self; 2] {
        let active =
            |seed| (0..SHAPE.cells()).map(|n| if problem.takes_part(n) { random(seed, n) } else { 0.0 }).collect();
        let rhs = problem.rhs_from(field(9), Weighting::Volume).unwrap();
        [None, Some(rhs)].map(|fixed| Self {
            problem: problem.clone(),
            u: active(7),
            adjoint: active(8),
            body: field(9),
            fixed,
        })
    }

    /// Checks a derivative against the difference of λᵀ(b − A u) for changes of the problem by ± `step`.
    #[track_caller]
    fn check(&self, found: f64, change: impl Fn(&mut DiffusionProblem, f64), step: f64, tolerance: f64) {
        let at = |step: f64| {
            let mut problem = self.problem.clone();
            change(&mut problem, step);
            let follows = problem.rhs_from(self.body.clone(), Weighting::Volume).unwrap();
            let (b, product) = (self.fixed.as_ref().unwrap_or(&follows), problem.stencil().unwrap().times(&self.u));
            (0..b.len()).map(|n| self.adjoint[n] * (b[n] - product[n])).sum()
        };
        let expected = slope(&at, step);
        assert!((found - expected).abs() < tolerance * (1.0 + expected.abs()), "{found} {expected}");
    }
}

/// Returns the central difference of a function at 0.
fn slope(f: &dyn Fn(f64) -> f64, step: f64) -> f64 {
    (f(step) - f(-step)) / (2.0 * step)
}

fn change(problem: &mut DiffusionProblem, part: usize) -> &mut Vec<f64> {
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
    for case in problems().iter().flat_map(Residual::both) {
        let Residual { problem, u, adjoint, fixed, .. } = &case;
        for (part, field) in problem.gradient(u, adjoint, fixed.is_none()).unwrap().iter().enumerate() {
            for (n, found) in field.iter().enumerate() {
                case.check(*found, |other, step| change(other, part)[n] += step, 1e-5, 1e-7);
            }
        }
        let volumes = problem.volumes();
        for n in (0..SHAPE.cells()).filter(|_| problem.reaction.is_some()) {
            let found = -volumes[n] * adjoint[n] * u[n];
            case.check(found, |other, step| other.reaction.as_mut().unwrap()[n] += step, 1e-2, 1e-10);
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

/// Gives every face of a side its own number.
fn spread_sides(problem: &mut DiffusionProblem) {
    for d in 0..3 {
        for side in 0..2 {
            let faces = SHAPE.cells() / problem.shape.extents()[d];
            let (value, coefficient) = match problem.boundary[d][side] {
                Boundary::Neumann(value) | Boundary::Dirichlet(value) => (Some(value), None),
                Boundary::Robin { coefficient, value } => (Some(value), Some(coefficient)),
                Boundary::Periodic => (None, None),
            };
            let fields = &mut problem.side_fields[d][side];
            fields.value = fields.value.take().or(value.map(|value| vec![value; faces]));
            fields.coefficient = fields.coefficient.take().or(coefficient.map(|number| vec![number; faces]));
        }
    }
}

#[test]
fn derivatives_by_sides_are_those_of_matrix_and_right_hand_side() {
    let mut problems = problems();
    problems.iter_mut().for_each(spread_sides);
    for case in problems.iter().flat_map(Residual::both) {
        let Residual { problem, u, adjoint, fixed, .. } = &case;
        for (axis, is_upper) in Axis::ALL.into_iter().flat_map(|axis| [(axis, false), (axis, true)]) {
            let (d, side) = (axis as usize, usize::from(is_upper));
            let found = problem.side_gradient(u, adjoint, axis, is_upper, fixed.is_none()).unwrap();
            let faces = SHAPE.cells() / problem.shape.extents()[d];
            assert_eq!([found.value.len(), found.coefficient.len()], [faces; 2]);
            for (face, found) in found.value.into_iter().enumerate() {
                let change = |other: &mut DiffusionProblem, step: f64| {
                    other.side_fields[d][side].value.iter_mut().for_each(|value| value[face] += step);
                };
                case.check(found, change, 1e-6, 1e-4);
            }
            for (face, found) in found.coefficient.into_iter().enumerate() {
                let change = |other: &mut DiffusionProblem, step: f64| {
                    let Some(field) = &mut other.side_fields[d][side].coefficient else { return };
                    // A coefficient of 0 must not become negative: the difference is one-sided.
                    field[face] += if field[face] == 0.0 { step.max(0.0) * 2.0 } else { step };
                };
                case.check(found, change, 1e-6, 1e-4);
            }
        }
    }
}

#[test]
fn derivatives_by_widths_are_those_of_matrix_and_right_hand_side() {
    for case in problems().iter().flat_map(Residual::both) {
        let Residual { problem, u, adjoint, body, fixed } = &case;
        for axis in Axis::ALL {
            let (d, extent) = (axis as usize, problem.shape.extents()[axis as usize]);
            let found = problem.width_gradient(u, adjoint, axis, Some(body), fixed.is_none()).unwrap();
            assert_eq!(found.len(), extent);
            for (m, found) in found.into_iter().enumerate() {
                let change = |other: &mut DiffusionProblem, step: f64| {
                    let mut all: Vec<f64> = (0..extent).map(|m| other.spacing[d].width(m)).collect();
                    all[m] += step;
                    other.spacing[d] = Spacing::Given(all);
                };
                case.check(found, change, 1e-6, 1e-6);
            }
        }
    }
}

#[test]
fn derivatives_by_conductances_are_those_of_the_matrix() {
    let Shape { nx, ny, nz } = SHAPE;
    let count = [(nx - 1) * ny * nz, nx * ny * nz, nx * ny * (nz - 1)];
    let faces = [0, 1, 2].map(|d| (0..count[d]).map(|n| 1.5 + random(d as u64, n)).collect::<Vec<f64>>());
    let shift: Vec<f64> = (0..SHAPE.cells()).map(|n| 1.0 + random(4, n)).collect();
    let active: Vec<bool> = (0..SHAPE.cells()).map(|n| n % 7 != 3).collect();
    let make = |faces, shift| FaceProblem::new(SHAPE, faces, [false, true, false], Some(shift), Some(&active)).unwrap();
    let problem = make(faces.clone(), shift.clone());
    let of_cells =
        |seed| (0..SHAPE.cells()).map(|n| if active[n] { random(seed, n) } else { 0.0 }).collect::<Vec<f64>>();
    let (u, adjoint) = (of_cells(7), of_cells(8));
    let product = |problem: &FaceProblem| -> f64 {
        problem.stencil().times(&u).iter().zip(&adjoint).map(|(product, adjoint)| -product * adjoint).sum()
    };
    let found = problem.gradient(&u, &adjoint).unwrap();
    for d in 0..3 {
        assert_eq!(found.faces[d].len(), count[d]);
        for (n, found) in found.faces[d].iter().enumerate() {
            let at = |step: f64| {
                let mut other = faces.clone();
                other[d][n] += step;
                product(&make(other, shift.clone()))
            };
            assert!((found - slope(&at, 1e-2)).abs() < 1e-10, "{d} {n}");
        }
    }
    for (n, found) in found.shift.iter().enumerate() {
        let at = |step: f64| {
            let mut other = shift.clone();
            other[n] += step;
            product(&make(faces.clone(), other))
        };
        assert!((found - slope(&at, 1e-2)).abs() < 1e-10, "{n}");
    }
    assert!(matches!(problem.gradient(&u[1..], &adjoint), Err(Error::Shape { .. })));
}
