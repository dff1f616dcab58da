//! Problems assembled by several threads, compared with cell-by-cell loops, and the messages about wrong cells.

use std::ops::Range;

use super::*;
use crate::array::Source as Array;
use crate::grid::GridOptions;
use crate::stencil::{Axis, Coefficients, Diffusion, Side, Spread};
use crate::team::Team;
use crate::{ArrayView, Result, Shape};

/// A grid of more cells than three threads have chunks, with rows that do not divide a chunk.
const SHAPE: Shape = Shape { nx: 75, ny: 52, nz: 61 };

/// Runs work on `threads` threads.
fn on_threads<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> R {
    Team::new(threads, "test").unwrap().enter(work)
}

fn field(seed: u64, closed: f64) -> Vec<f64> {
    let value = |n| if random(seed + 1, n) < closed { 0.0 } else { (3.0 * random(seed, n)).exp() };
    (0..SHAPE.cells()).map(value).collect()
}

/// Returns problems that cover every way in which matrices and right-hand sides are assembled.
fn problems() -> Vec<DiffusionProblem> {
    let various = |n: usize| Spacing::Given((0..n).map(|m| 1.0 + 0.01 * (m % 7) as f64).collect());
    let plain = DiffusionProblem::new(SHAPE, Coefficient::Isotropic(field(1, -2.0)));
    let mut layered =
        DiffusionProblem::new(SHAPE, Coefficient::Layered { horizontal: field(2, -0.6), vertical: field(3, -2.0) });
    layered.spacing[2] = various(SHAPE.nz);
    layered.boundary[0] = [Boundary::Periodic; 2];
    layered.boundary[2] = [Boundary::Dirichlet(2.0), Boundary::Neumann(-1.0)];
    layered.active = Some((0..SHAPE.cells()).map(|n| random(9, n) < 0.8).collect());
    layered.sources = vec![Source { i: 3, j: 50, k: [0, 60], rate: 2.0 }];
    let mut diagonal = plain.clone();
    diagonal.coefficient = Coefficient::Diagonal([field(4, -2.0), field(5, -0.9), field(6, -2.0)]);
    diagonal.spacing = [various(SHAPE.nx), Spacing::Uniform(0.5), various(SHAPE.nz)];
    diagonal.reaction = Some(field(7, 0.0));
    diagonal.wells = vec![Well { i: 70, j: 3, k: [5, 9], value: 1.0, radius: 1e-3 }];
    diagonal.boundary[0][1] = Boundary::Robin { coefficient: 0.0, value: 3.0 };
    diagonal.boundary[1] = [Boundary::Robin { coefficient: 2.0, value: 1.0 }, Boundary::Neumann(0.0)];
    let faces = |n: usize| Some((0..n).map(|face| 1.0 + random(8, face)).collect());
    diagonal.side_fields[0][1].coefficient = faces(SHAPE.ny * SHAPE.nz);
    diagonal.side_fields[1][1].value = faces(SHAPE.nx * SHAPE.nz);
    vec![plain, layered, diagonal]
}

const KINDS: [Option<RhsKind>; 5] =
    [None, Some(RhsKind::Constant), Some(RhsKind::Random), Some(RhsKind::Smooth), Some(RhsKind::Manufactured)];

/// Returns the matrix, right-hand sides of some rows, volumes and a product.
fn made(problem: &DiffusionProblem, own: &Range<usize>) -> Result<(Diffusion, Vec<Vec<f64>>)> {
    let stencil = problem.stencil()?;
    let weights = [Weighting::Volume, Weighting::None];
    let mut arrays = Vec::new();
    for (kind, weighting) in KINDS.into_iter().flat_map(|kind| weights.map(|weighting| (kind, weighting))) {
        arrays.push(problem.checked()?.rhs_in(own, kind, 5, weighting)?);
    }
    arrays.push(problem.volumes());
    arrays.push(stencil.times(&problem.exact()));
    Ok((stencil, arrays))
}

#[test]
fn threads_change_nothing() {
    for problem in problems() {
        for own in [0..SHAPE.ny, 7..30] {
            let expected = on_threads(1, || made(&problem, &own)).unwrap();
            for threads in [2, 5] {
                assert!(on_threads(threads, || made(&problem, &own)).unwrap() == expected, "{threads} threads");
            }
        }
        let stencil = problem.stencil().unwrap();
        let measures = on_threads(1, || stencil.measures());
        assert!(measures.is_some() && on_threads(4, || stencil.measures()) == measures);
    }
}

#[test]
fn fields_and_bodies_are_those_of_each_cell() {
    for problem in problems() {
        let stencil = problem.stencil().unwrap();
        let Coefficients::Cells { fields, .. } = stencil.coefficients() else { panic!("{:?}", problem.shape) };
        let spread = |field: &[f64]| Spread {
            least: field.iter().copied().fold(f64::INFINITY, f64::min),
            positive: field.iter().copied().filter(|&value| value > 0.0).fold(f64::INFINITY, f64::min),
            most: field.iter().copied().fold(0.0, f64::max),
        };
        assert_eq!(stencil.spreads(), fields.iter().map(|field| spread(field)).collect::<Vec<_>>());
        let body = problem.checked().unwrap().body_in(&(0..SHAPE.ny), Some(RhsKind::Random), 3, Weighting::Volume);
        for at in stencil.cells() {
            let n = stencil.cell(at);
            let expected = if problem.is_active(at) { random(3, n) * problem.volume(at) } else { 0.0 };
            assert_eq!(body[n], expected, "{at:?}");
            let is_open = problem.active.as_ref().is_none_or(|active| active[n]);
            for axis in Axis::ALL {
                let half = if is_open { problem.half(axis, at) } else { 0.0 };
                assert!((stencil.half(axis, at) - half).abs() <= 1e-12 * half, "{at:?} {axis:?}");
            }
        }
    }
}

/// Coefficients that the matrix shares give the bits of copied ones, and no second array.
#[test]
fn shared_coefficients_are_those_that_are_copied() {
    for problem in problems() {
        let shared = DiffusionProblem { coefficient: problem.coefficient.clone().into_shared(), ..problem.clone() };
        assert_eq!(shared.coefficient.numbers(), problem.coefficient.numbers());
        let (own, cells) = (0..SHAPE.ny, SHAPE.cells());
        assert!(made(&shared, &own).unwrap() == made(&problem, &own).unwrap());
        let [u, adjoint] = [21, 22].map(|seed| field(seed, -2.0));
        assert!(shared.gradient(&u, &adjoint, true).unwrap() == problem.gradient(&u, &adjoint, true).unwrap());
        let stencil = shared.stencil().unwrap();
        let Coefficients::Cells { fields, .. } = stencil.coefficients() else { panic!("{cells}") };
        let is_one = std::ptr::eq(&*fields[0], shared.coefficient.along(Axis::X));
        assert_eq!(is_one, shared.active.is_none() && matches!(shared.spacing[0], Spacing::Uniform(_)));
    }
    let mut values = field(1, -2.0);
    (values[70_001], values[200_000]) = (-1.0, f64::NAN);
    let problem = DiffusionProblem::new(SHAPE, Coefficient::Isotropic(values));
    let shared = DiffusionProblem { coefficient: problem.coefficient.clone().into_shared(), ..problem.clone() };
    assert_eq!(shared.validate().unwrap_err().to_string(), problem.validate().unwrap_err().to_string());
}

/// Checks right-hand sides of arrays of any kind against a loop over the cells.
#[test]
fn right_hand_sides_are_written_in_place() {
    let Shape { nx, ny, nz } = SHAPE;
    let data: Vec<f64> = (0..SHAPE.cells()).map(|n| random(11, n)).collect();
    let singles: Vec<f32> = data.iter().map(|&value| value as f32).collect();
    let last = SHAPE.cells() - 1;
    let [across, along, plane] = [nz * ny, nz, nx * ny].map(usize::cast_signed);
    let sources: [Array<'_>; 5] = [
        ArrayView::c_order(&data, SHAPE).unwrap().into(),
        ArrayView::from_origin(&data, 0, SHAPE, [across, along, 1]).unwrap().into(),
        ArrayView::from_origin(&data, last, SHAPE, [-1, -nx.cast_signed(), -plane]).unwrap().into(),
        ArrayView::c_order(&singles, SHAPE).unwrap().into(),
        ArrayView::constant(&data[3], SHAPE).into(),
    ];
    for problem in problems() {
        let checked = problem.checked().unwrap();
        let driven = checked.rhs_in(&(0..ny), None, 0, Weighting::Volume).unwrap();
        let stencil = problem.stencil().unwrap();
        let mut found = vec![f64::NAN; SHAPE.cells()];
        for (number, source) in sources.into_iter().enumerate() {
            let value = |[i, j, k]: [usize; 3]| match source {
                Array::F64(view) => view.get(i, j, k),
                Array::F32(view) => f64::from(view.get(i, j, k)),
                Array::Device(_) => f64::NAN,
            };
            let values = source.to_vec().unwrap();
            for weighting in [Weighting::Volume, Weighting::None] {
                checked.write_rhs(Some(source), weighting, &mut found).unwrap();
                assert!(found == problem.rhs_from(values.clone(), weighting).unwrap(), "{number}");
                for at in stencil.cells() {
                    let n = stencil.cell(at);
                    let weight = if weighting == Weighting::Volume { problem.volume(at) } else { 1.0 };
                    let expected = if problem.is_active(at) { value(at) * weight + driven[n] } else { 0.0 };
                    assert!((found[n] - expected).abs() <= 1e-14 * (1.0 + expected.abs()), "{number} {at:?}");
                }
            }
        }
        checked.write_rhs(None, Weighting::Volume, &mut found).unwrap();
        assert!(found == driven);
        assert!(checked.write_rhs(None, Weighting::Volume, &mut found[1..]).is_err());
    }
}

/// Compares with the largest ratio of neighbours' coefficients, pair by pair.
#[test]
fn jumps_are_those_of_pairs() {
    for (shape, ring) in [(SHAPE, false), (Shape::new(400, 1, 300), false), (Shape::new(3, 70_000, 1), true)] {
        let values: Vec<f64> = (0..shape.cells()).map(|n| 1.0 + 0.9 * random(1, n)).collect();
        let sides = [[if ring { Side::Periodic } else { Side::Closed }; 2]; 3];
        let stencil = Diffusion::of_field(shape, values.clone(), [1.0; 3], None, sides).unwrap();
        let mut most = 1.0f64;
        for at in stencil.cells() {
            for (d, n) in shape.extents().into_iter().enumerate().filter(|&(d, n)| at[d] + 1 < n) {
                let step = [1, shape.nx, shape.nx * shape.ny][d];
                let (a, b) = (values[stencil.cell(at)], values[stencil.cell(at) + step]);
                most = most.max(a.max(b) / a.min(b));
                assert!(n > 1);
            }
        }
        assert_eq!(stencil.measures().unwrap().jump, most, "{shape}");
    }
}

#[test]
fn the_first_wrong_cell_is_named_whatever_the_threads() {
    let at = |at: [usize; 3]| SHAPE.number(at);
    let wrong = |values: &mut Vec<f64>| {
        values[at([74, 51, 60])] = f64::INFINITY;
        values[at([3, 17, 59])] = f64::NAN;
        values[at([4, 17, 59])] = -1.0;
    };
    let mut problem = DiffusionProblem::new(SHAPE, Coefficient::Isotropic(field(1, -2.0)));
    let mut good = problem.clone();
    if let Coefficient::Isotropic(values) = &mut problem.coefficient {
        wrong(values);
    }
    let mut reaction = vec![0.0; SHAPE.cells()];
    wrong(&mut reaction);
    good.reaction = Some(reaction);
    for threads in [1, 2, 5] {
        let message = on_threads(threads, || problem.stencil()).unwrap_err().to_string();
        assert!(message.contains("diffusion.coefficient") && message.contains("NaN in cell (i, j, k) = (3, 17, 59)"));
        assert!(message.contains("(0 makes a cell inactive)"), "{message}");
        let masked = DiffusionProblem {
            active: Some((0..SHAPE.cells()).map(|n| n != at([3, 17, 59])).collect()),
            ..problem.clone()
        };
        let left_out = on_threads(threads, || masked.stencil()).unwrap_err().to_string();
        assert!(left_out.contains("set 0 where cells are not active"), "{left_out}");
        assert_eq!(on_threads(threads, || problem.rhs(None, 0, Weighting::None)).unwrap_err().to_string(), message);
        let message = on_threads(threads, || good.stencil()).unwrap_err().to_string();
        assert!(
            message.contains("diffusion.reaction") && message.contains("NaN in cell (i, j, k) = (3, 17, 59)"),
            "{message}"
        );
        let mut negative = field(1, -2.0);
        negative[at([4, 17, 59])] = -1.0;
        let made = on_threads(threads, || Diffusion::of_field(SHAPE, negative, [1.0; 3], None, [[Side::Closed; 2]; 3]));
        let message = made.unwrap_err().to_string();
        assert!(
            message.contains("-1 in cell (i, j, k) = (4, 17, 59), counted from 0; it must be finite and not negative"),
            "{message}"
        );
    }
}

#[test]
fn points_are_tied_where_the_sides_are() {
    for shape in [Shape::new(5, 4, 3), Shape::new(1, 6, 2), Shape::new(7, 1, 1), Shape::new(2, 2, 9)] {
        let problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
        let ends = shape.extents();
        let is_on_side = |at: &[usize; 3]| (0..3).any(|d| ends[d] > 1 && (at[d] == 0 || at[d] + 1 == ends[d]));
        let stencil = problem.stencil().unwrap();
        let expected: Vec<[usize; 3]> = stencil.cells().filter(is_on_side).collect();
        assert_eq!(problem.cells_on_sides().filter(is_on_side).collect::<Vec<_>>(), expected, "{shape}");
    }
}

/// Numbers the faces of a side in the order of arrays, with values that differ from face to face.
#[test]
fn fields_of_sides_lie_where_their_cells_do() {
    let shape = Shape::new(5, 4, 3);
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
    problem.boundary = [[Boundary::Dirichlet(0.0); 2]; 3];
    let numbered = |n: usize, first: f64| Some((0..n).map(|face| first + face as f64).collect());
    problem.side_fields[0][1].value = numbered(12, 100.0);
    problem.side_fields[1][0].value = numbered(15, 200.0);
    problem.side_fields[2][1].value = numbered(20, 300.0);
    let on = |axis, is_upper, at| problem.side_at(axis, is_upper, at);
    assert_eq!(on(Axis::X, true, [4, 3, 2]), Boundary::Dirichlet(111.0));
    assert_eq!(on(Axis::X, true, [4, 1, 2]), Boundary::Dirichlet(109.0));
    assert_eq!(on(Axis::Y, false, [2, 0, 1]), Boundary::Dirichlet(207.0));
    assert_eq!(on(Axis::Z, true, [3, 2, 2]), Boundary::Dirichlet(313.0));
    assert_eq!(on(Axis::Z, false, [3, 2, 0]), Boundary::Dirichlet(0.0));
    // Six unit widths in x, five in y, four in z: every coupling is 1.
    let points = PointProblem::new(problem, [6.0, 5.0, 4.0]).unwrap();
    let rhs = points.rhs(None, 0, Weighting::None).unwrap();
    let at = |[i, j, k]: [usize; 3]| rhs[i + 5 * (j + 4 * k)];
    assert_eq!((at([4, 1, 1]), at([4, 3, 2])), (105.0, 111.0 + 300.0 + 19.0));
}

#[test]
fn arrays_for_which_there_is_no_memory_are_errors() {
    let huge = Shape::new(1 << 15, 1 << 15, 1 << 15);
    let message = Field::read(ArrayView::constant(&1.0, huge).into()).err().unwrap().to_string();
    assert!(message.contains("35184372088832 cells, for which no memory can be allocated"), "{message}");
    let grid = GridOptions { nx: 1 << 15, ny: 1 << 15, nz: 1 << 15, ..GridOptions::default() };
    let pressure = Helmholtz { grid, courant: 8.4, omega: None, lambda: 1.0, advection: [0.0; 3] };
    let message = pressure.require_room().err().unwrap().to_string();
    assert!(message.contains("35184372088832 cells, for which no memory can be allocated"), "{message}");
}

/// Checks that the conductances of a problem of cells give the same matrix, inactive cells included.
#[test]
fn conductances_make_the_same_matrix() {
    for shape in
        [Shape::new(5, 4, 3), Shape::new(6, 1, 1), Shape::new(1, 7, 2), Shape::new(4, 3, 1), Shape::new(1, 1, 1)]
    {
        let kappa = (0..shape.cells()).map(|n| 1.0 + random(1, n)).collect();
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
        problem.boundary[0][0] = Boundary::Dirichlet(0.0);
        problem.boundary[1] = [Boundary::Periodic; 2];
        let rings = [false, true, false];
        let active: Vec<bool> = (0..shape.cells()).map(|n| n % 5 != 2).collect();
        let all = problem.stencil().unwrap();
        let extents = shape.extents();
        let faces = Axis::ALL.map(|axis| {
            let d = axis as usize;
            all.cells().filter(|at| rings[d] || at[d] + 1 < extents[d]).map(|at| all.face(axis, at)).collect()
        });
        let shift = Some(all.cells().map(|at| all.shift(at)).collect());
        problem.active = Some(active.clone());
        let masked = problem.stencil().unwrap();
        let found = FaceProblem::new(shape, faces, rings, shift, Some(&active)).unwrap();
        let x = problem.exact();
        let (a, b) = (found.stencil().times(&x), masked.times(&x));
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 1e-14 * (1.0 + b.abs())), "{shape}");
        let [mut fluxes, expected] = [found.flow(), problem.flow(&masked)].map(|flow| flow.faces(&x).unwrap());
        // What goes through the side in the west is part of the shift.
        (0..shape.ny * shape.nz).for_each(|row| fluxes[0][row * (shape.nx + 1)] = expected[0][row * (shape.nx + 1)]);
        assert_eq!(fluxes, expected);
        let rhs = found.rhs_in(&(0..shape.ny), Some(RhsKind::Constant), 0).unwrap();
        // A cell that a mask has cut off counts as well.
        assert!(rhs.iter().zip(&active).all(|(&rhs, &is_active)| rhs == f64::from(u8::from(is_active))), "{shape}");
    }
    // Diagonals are 1 − 3, 2 − 2 and 1 − 0: none makes a cell inactive, and nothing but a closed cell is.
    let shift = Some(vec![-3.0, -2.0, 0.0, 0.0]);
    let found =
        FaceProblem::new(Shape::new(4, 1, 1), [vec![1.0, 1.0, 0.0], vec![], vec![]], [false; 3], shift, None).unwrap();
    assert_eq!(found.rhs_in(&(0..1), Some(RhsKind::Constant), 0).unwrap(), [1.0, 1.0, 1.0, 0.0]);
}

#[test]
fn wrong_conductances_name_the_face() {
    let shape = Shape::new(4, 3, 2);
    let faces = || [vec![1.0; 18], vec![1.0; 16], vec![1.0; 24]];
    let message = |faces: [Vec<f64>; 3], shift: Option<Vec<f64>>, active: Option<&[bool]>| {
        FaceProblem::new(shape, faces, [false, false, true], shift, active).unwrap_err().to_string()
    };
    for (d, n, places) in [
        (0, 16, "(1, 2, 1) and (2, 2, 1)"),
        (1, 15, "(3, 1, 1) and (3, 2, 1)"),
        (1, 6, "(2, 1, 0) and (2, 2, 0)"),
        (2, 7, "(3, 1, 0) and (3, 1, 1)"),
        (2, 17, "(1, 1, 1) and (1, 1, 0)"),
    ] {
        for bad in [-2.5, f64::NAN, f64::INFINITY] {
            let mut faces = faces();
            faces[d][n] = bad;
            let text = message(faces, None, None);
            let expected =
                format!("conductances in {}: {bad} between the cells (i, j, k) = {places}", ["x", "y", "z"][d]);
            assert!(text.contains(&expected), "{text}");
        }
    }
    let mut short = faces();
    short[1].pop();
    assert!(message(short, None, None).contains("conductances in y: found shape 15 faces, but 16 for"));
    assert!(message(faces(), Some(vec![0.0; 5]), None).contains("5 cells"));
    let mut shift = vec![0.0; 24];
    shift[13] = f64::NAN;
    assert!(message(faces(), Some(shift), None).contains("NaN in cell (i, j, k) = (1, 0, 1)"));
    assert!(message(faces(), None, Some(&[true; 3])).contains("active: found shape 3"));
    assert!(message(faces(), None, Some(&[false; 24])).contains("none of the 24 cells"));
}
