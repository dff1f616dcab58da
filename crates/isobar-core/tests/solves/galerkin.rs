//! Galerkin levels: A_c = PᵀAP for any sides, sizes and directions, and consequences.

use isobar_core::conformance::galerkin::{hierarchy, products};
use isobar_core::prelude::*;
use isobar_core::stencil::galerkin::{Coarsening, Couplings, Matrix, Serial, coarsen};

fn stencil(shape: Shape, factors: [f64; 3], sides: [Side; 3], contrast: f64, closed: bool) -> Diffusion {
    let field: Vec<f64> = (0..shape.cells())
        .map(|n| if closed && random(3, n) > 0.6 { 0.0 } else { contrast.powf(0.5 * random(4, n)) })
        .collect();
    // Every component has a shift: floating ones collapse to cells that are held.
    let shift =
        field.iter().enumerate().map(|(n, k)| if *k > 0.0 && (closed || random(5, n) > 0.5) { 0.1 } else { 0.0 });
    let shift = shift.collect();
    Diffusion::of_field(shape, field, factors, Some(shift), sides.map(|side| [side; 2])).unwrap()
}

#[test]
fn coarse_operators_are_galerkin_products() {
    use Side::{Closed, Fixed, Periodic};
    for shape in [(12, 10, 7), (6, 6, 6), (14, 2, 3), (2, 2, 2), (10, 1, 9), (4, 6, 1), (8, 18, 5)] {
        let shape = Shape::new(shape.0, shape.1, shape.2);
        for factors in [[1.0; 3], [100.0, 1.0, 1.0], [1.0, 100.0, 100.0], [1.0, 1.0, 100.0]] {
            for sides in [[Closed; 3], [Fixed, Closed, Fixed], [Periodic; 3], [Periodic, Fixed, Closed]] {
                for closed in [false, true] {
                    let stencil = stencil(shape, factors, sides, 1e3, closed);
                    let name = format!("{shape} {factors:?} {sides:?} closed {closed}");
                    products(&Reference, &hierarchy::<_, f64>(&Reference, &stencil), &name);
                }
            }
        }
    }
}

/// Makes a matrix of κ of cells in a row along a direction; faces are its harmonic means.
fn matrix_of_row(axis: Axis, field: &[f64], sides: [Side; 2]) -> Couplings {
    let mut extents = [1; 3];
    extents[axis as usize] = field.len();
    let shape = Shape::new(extents[0], extents[1], extents[2]);
    let mut all = [[Side::Closed; 2]; 3];
    all[axis as usize] = sides;
    Couplings::of(&Serial, &Diffusion::of_field(shape, field, [2.0; 3], None, all).unwrap())
}

fn at(axis: Axis, n: usize) -> [usize; 3] {
    let mut at = [0; 3];
    at[axis as usize] = n;
    at
}

fn sum(matrix: &Couplings, [i, j, k]: [usize; 3]) -> f64 {
    matrix.sums(j, k as isize)[i + 1]
}

#[test]
fn a_piece_that_collapses_to_a_cell_is_held() {
    for axis in Axis::ALL {
        let mut up = [0; 3];
        up[axis as usize] = 1;
        // Cells 0 and 1, and 3 to 5, float, with numbers that round; 7 to 10 touch a side.
        let field = [3e9, 7e8, 0.0, 1e9 / 3.0, 2e9 / 7.0, 5e8, 0.0, 1.0, 1.0, 1.0, 1.0];
        let fine = matrix_of_row(axis, &field, [Side::Closed, Side::Fixed]);
        let Coarsening { coarse, .. } = coarsen(&Serial, fine.clone(), &[axis]).unwrap();
        let d = |n: usize| {
            let neighbours = fine.offsets().map(|offset| fine.coupling(at(axis, n), offset)).sum::<f64>();
            sum(&fine, at(axis, n)) + neighbours
        };
        assert_eq!(sum(&coarse, at(axis, 0)), d(0) + d(1), "{axis:?}");
        assert_eq!(coarse.coupling(at(axis, 0), up), 0.0, "{axis:?}");
        // In the second component cell 4 is even, and both others belong to it.
        assert!((sum(&coarse, at(axis, 2)) / (d(3) + d(4) + d(5)) - 1.0).abs() < 1e-15, "{axis:?}");
        assert_eq!([1, 2].map(|n| coarse.coupling(at(axis, n), up)), [0.0; 2], "{axis:?}");
        // The component at a side is unchanged.
        assert!((coarse.coupling(at(axis, 4), up) - 0.5).abs() < 1e-15, "{axis:?}");
        assert_eq!(sum(&coarse, at(axis, 4)), 0.0, "{axis:?}");
    }
}

#[test]
fn a_weak_tie_keeps_a_piece() {
    // A reaction ten orders below the couplings.
    let shape = Shape::new(2, 1, 1);
    let stencil =
        Diffusion::of_field(shape, [1e10, 1e10], [2.0; 3], Some(vec![0.5, 1.0]), [[Side::Closed; 2]; 3]).unwrap();
    let Coarsening { coarse, .. } = coarsen(&Serial, Couplings::<f64>::of(&Serial, &stencil), &[Axis::X]).unwrap();
    assert!((sum(&coarse, [0; 3]) - 1.5).abs() < 1e-6, "{}", sum(&coarse, [0; 3]));
}

#[test]
fn a_ring_of_two_collapses_in_its_own_direction() {
    for axis in Axis::ALL {
        let fine = matrix_of_row(axis, &[1e9, 3e8], [Side::Periodic; 2]);
        let Coarsening { coarse, .. } = coarsen(&Serial, fine, &[axis]).unwrap();
        // Two couplings of 2·10⁹·6·10⁸ / (2·10⁹ + 6·10⁸) a cell.
        assert!((sum(&coarse, [0; 3]) / (4.0 * 1.2e18 / 2.6e9) - 1.0).abs() < 1e-14, "{axis:?}");
    }
}

#[test]
fn numbers_are_single_where_couplings_fit() {
    use Side::{Closed, Fixed, Periodic};
    let shape = Shape::new(13, 12, 9);
    let is_single = |contrast: f64, is_closed: bool, sides: [Side; 3], levels: Precision| {
        let stencil = stencil(shape, [1.0; 3], sides, contrast, is_closed);
        matches!(Matrix::of(&Serial, &stencil, levels), Ok(Matrix::Single(_)))
    };
    let sides = [Fixed, Periodic, Closed];
    assert!(is_single(1e3, false, sides, Precision::F32));
    assert!(is_single(1e3, false, [Closed; 3], Precision::F32));
    assert!(!is_single(1e3, false, sides, Precision::F64));
    assert!(!is_single(1e3, true, sides, Precision::F32), "closed cells");
    assert!(!is_single(1e7, false, sides, Precision::F32), "contrast");
}

#[test]
fn single_precision_makes_the_same_levels() {
    use Side::{Closed, Fixed, Periodic};
    for sides in [[Fixed; 3], [Fixed, Periodic, Closed], [Periodic, Fixed, Periodic]] {
        let stencil = stencil(Shape::new(20, 18, 14), [1.0; 3], sides, 1e2, false);
        let (mut single, mut double) =
            (Couplings::<f32>::of(&Serial, &stencil), Couplings::<f64>::of(&Serial, &stencil));
        // From the second level on memory is reused.
        for level in 1..=3 {
            single = coarsen(&Serial, single, &Axis::ALL).unwrap().coarse;
            double = coarsen(&Serial, double, &Axis::ALL).unwrap().coarse;
            let (mut apart, mut most) = (0.0f64, 0.0f64);
            for cell @ [i, j, k] in double.grid.shape.places() {
                let sums = [f64::from(single.sums(j, k as isize)[i + 1]), sum(&double, cell)];
                let couplings =
                    double.offsets().map(|to| [f64::from(single.coupling(cell, to)), double.coupling(cell, to)]);
                for [found, expected] in couplings.chain([sums]) {
                    (apart, most) = (apart.max((found - expected).abs()), most.max(expected.abs()));
                }
            }
            assert!(apart < 1e-4 * most, "level {level}, {sides:?}: {apart:e} of {most:e}");
        }
    }
}

/// With half of all cells inactive at random, coarse cells that share the same cells would make columns' blocks singular.
#[test]
fn columns_of_coarse_grids_are_independent() {
    for (factors, axis) in [([1.0, 1.0, 100.0], Axis::Z), ([1.0; 3], Axis::Z), ([1.0; 3], Axis::Y), ([1.0; 3], Axis::X)]
    {
        let shape = Shape::new(24, 26, 18);
        let field: Vec<f64> = (0..shape.cells())
            .map(|n| if random(3, n) > 0.5 { 0.0 } else { [1.0, 100.0][usize::from(random(4, n) > 0.0)] })
            .collect();
        let shift = field.iter().map(|&k| if k > 0.0 { 0.1 } else { 0.0 }).collect();
        let stencil = Diffusion::of_field(shape, field, factors, Some(shift), [[Side::Closed; 2]; 3]).unwrap();
        let Coarsening { coarse, .. } = coarsen(&Serial, Couplings::of(&Serial, &stencil), &[axis]).unwrap();
        let mut offset = [0; 3];
        offset[axis as usize] = 1;
        let extents = coarse.grid.extents();
        let (mut least, mut open) = (1.0f64, 0);
        for first in coarse.grid.shape.places().filter(|at| at[axis as usize] == 0) {
            // Cholesky's pivots of the line's block, relative to the diagonal.
            let (mut pivot, mut next) = (0.0, 0.0);
            for n in 0..extents[axis as usize] {
                let mut cell = first;
                cell[axis as usize] = n;
                let mut diagonals = vec![0.0; extents[0]];
                coarse.diagonals(cell[1], cell[2], &mut diagonals);
                let diagonal = diagonals[cell[0]];
                pivot = if pivot > 0.0 { diagonal - next * next / pivot } else { diagonal };
                if diagonal > 0.0 {
                    (least, open) = (least.min(pivot / diagonal), open + 1);
                }
                next = coarse.coupling(cell, offset);
            }
        }
        assert!(
            open > coarse.grid.shape.cells() / 2 && least > 1e-4,
            "{factors:?} {axis:?}: {open} open, least pivot {least:e}"
        );
    }
}

/// A constant costs what its row sums say on every coarse grid: P 1 = 1, though small sums, as of a free surface, hold layers above
/// closed cells that nothing else does.
#[test]
fn constants_keep_their_energy_above_steps() {
    let spacing = [1.0, 1.0, 0.01].map(Spacing::Uniform);
    for (shape, step) in [((16, 16, 2), 8), ((24, 20, 8), 11), ((9, 30, 5), 4)] {
        let shape = Shape::new(shape.0, shape.1, shape.2);
        for coefficient in [1e-6, 1e-9] {
            let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
            problem.spacing = spacing.clone();
            problem.boundary[2][1] = Boundary::Robin { coefficient, value: 0.0 };
            let is_open = |[i, _, k]: [usize; 3]| i >= step || 2 * k >= shape.nz;
            problem.active = Some(shape.places().map(is_open).collect());
            let stencil = problem.stencil().unwrap();
            let mut matrix = Couplings::<f64>::of(&Serial, &stencil);
            let energy = |matrix: &Couplings| matrix.grid.shape.places().map(|at| sum(matrix, at)).sum::<f64>();
            let (finest, mut levels) = (energy(&matrix), 1);
            while matrix.grid.shape.cells() > 4 {
                let axes = matrix.strong_axes(&Serial, true).unwrap();
                matrix = coarsen(&Serial, matrix, &axes).unwrap().coarse;
                let ratio = energy(&matrix) / finest;
                assert!((ratio - 1.0).abs() < 1e-9, "{shape}, {coefficient}, level {levels}: {ratio}");
                levels += 1;
            }
            assert!(levels > 4, "{levels} levels");
        }
    }
}
