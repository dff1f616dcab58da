//! Derivatives of problems, compared with differences of matrix and right-hand side.

use super::*;
use crate::layout::Shape;
use crate::problem::Coefficient;
use crate::problem::{FaceProblem, Source, Spacing, Weighting, random};

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

/// Returns λᵀ(b − A u), whose derivatives for fixed u and λ are the gradient.
fn residual(problem: &DiffusionProblem, u: &[f64], adjoint: &[f64], body: &[f64], moved: Option<&[f64]>) -> f64 {
    let b = problem.rhs_from(body.to_vec(), Weighting::Volume).unwrap();
    let product = problem.stencil().unwrap().times(u);
    let b = moved.unwrap_or(&b);
    (0..u.len()).map(|n| adjoint[n] * (b[n] - product[n])).sum()
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
    let active = |problem: &DiffusionProblem, seed| -> Vec<f64> {
        (0..SHAPE.cells()).map(|n| if problem.takes_part(n) { random(seed, n) } else { 0.0 }).collect()
    };
    for problem in problems() {
        let (u, adjoint, body) = (active(&problem, 7), active(&problem, 8), field(9));
        let rhs = problem.rhs_from(body.clone(), Weighting::Volume).unwrap();
        for fixed in [None, Some(rhs.as_slice())] {
            let found = problem.gradient(&u, &adjoint, fixed.is_none()).unwrap();
            let slope = |f: &dyn Fn(f64) -> f64, step: f64| (f(step) - f(-step)) / (2.0 * step);
            for (part, field) in found.iter().enumerate() {
                for (n, found) in field.iter().enumerate() {
                    let at = |step: f64| {
                        let mut other = problem.clone();
                        change(&mut other, part)[n] += step;
                        residual(&other, &u, &adjoint, &body, fixed)
                    };
                    let expected = slope(&at, 1e-5);
                    assert!((found - expected).abs() < 1e-7 * (1.0 + expected.abs()), "{part} {n}");
                }
            }
            let volumes = problem.volumes();
            for n in (0..SHAPE.cells()).filter(|_| problem.reaction.is_some()) {
                let at = |step: f64| {
                    let mut other = problem.clone();
                    other.reaction.as_mut().unwrap()[n] += step;
                    residual(&other, &u, &adjoint, &body, fixed)
                };
                assert!((-volumes[n] * adjoint[n] * u[n] - slope(&at, 1e-2)).abs() < 1e-10);
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

/// Returns the central difference of a function at 0.
fn slope(f: &dyn Fn(f64) -> f64, step: f64) -> f64 {
    (f(step) - f(-step)) / (2.0 * step)
}

/// Returns u, λ and f of a problem; u and λ are 0 in inactive cells.
fn fields_of(problem: &DiffusionProblem) -> [Vec<f64>; 3] {
    let active = |seed| (0..SHAPE.cells()).map(|n| if problem.takes_part(n) { random(seed, n) } else { 0.0 }).collect();
    [active(7), active(8), field(9)]
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
    for mut problem in problems() {
        spread_sides(&mut problem);
        let [u, adjoint, body] = fields_of(&problem);
        let rhs = problem.rhs_from(body.clone(), Weighting::Volume).unwrap();
        for fixed in [None, Some(rhs.as_slice())] {
            for (axis, is_upper) in Axis::ALL.into_iter().flat_map(|axis| [(axis, false), (axis, true)]) {
                let (d, side) = (axis as usize, usize::from(is_upper));
                let found = problem.side_gradient(&u, &adjoint, axis, is_upper, fixed.is_none()).unwrap();
                let faces = SHAPE.cells() / problem.shape.extents()[d];
                assert_eq!([found.value.len(), found.coefficient.len()], [faces; 2]);
                for (is_value, found) in [(true, found.value), (false, found.coefficient)] {
                    for (face, found) in found.into_iter().enumerate() {
                        let at = |step: f64| {
                            let mut other = problem.clone();
                            let fields = &mut other.side_fields[d][side];
                            let field = if is_value { &mut fields.value } else { &mut fields.coefficient };
                            // A coefficient of 0 must not become negative: the difference is one-sided.
                            let Some(field) = field else { return 0.0 };
                            field[face] += if !is_value && field[face] == 0.0 { step.max(0.0) * 2.0 } else { step };
                            residual(&other, &u, &adjoint, &body, fixed)
                        };
                        let expected = slope(&at, 1e-6);
                        assert!(
                            (found - expected).abs() < 1e-4 * (1.0 + expected.abs()),
                            "{axis:?} {face}: {found} {expected}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn derivatives_by_widths_are_those_of_matrix_and_right_hand_side() {
    for problem in problems() {
        let [u, adjoint, body] = fields_of(&problem);
        let rhs = problem.rhs_from(body.clone(), Weighting::Volume).unwrap();
        for fixed in [None, Some(rhs.as_slice())] {
            for axis in Axis::ALL {
                let d = axis as usize;
                let found = problem.width_gradient(&u, &adjoint, axis, Some(&body), fixed.is_none()).unwrap();
                assert_eq!(found.len(), problem.shape.extents()[d]);
                for (m, found) in found.into_iter().enumerate() {
                    let at = |step: f64| {
                        let mut other = problem.clone();
                        let mut all: Vec<f64> =
                            (0..problem.shape.extents()[d]).map(|m| problem.spacing[d].width(m)).collect();
                        all[m] += step;
                        other.spacing[d] = Spacing::Given(all);
                        residual(&other, &u, &adjoint, &body, fixed)
                    };
                    let expected = slope(&at, 1e-6);
                    assert!(
                        (found - expected).abs() < 1e-6 * (1.0 + expected.abs()),
                        "{axis:?} {m}: {found} {expected}"
                    );
                }
            }
        }
    }
}

#[test]
fn derivatives_by_conductances_are_those_of_the_matrix() {
    let Shape { nx, ny, nz } = SHAPE;
    let count = [(nx - 1) * ny * nz, nx * (ny - 1) * nz, nx * ny * (nz - 1)];
    let faces = [0, 1, 2].map(|d| (0..count[d]).map(|n| 1.5 + random(d as u64, n)).collect::<Vec<f64>>());
    let shift: Vec<f64> = (0..SHAPE.cells()).map(|n| 1.0 + random(4, n)).collect();
    let active: Vec<bool> = (0..SHAPE.cells()).map(|n| n % 7 != 3).collect();
    let make = |faces, shift| FaceProblem::new(SHAPE, faces, Some(shift), Some(&active)).unwrap();
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
