//! Matrices of Galerkin levels that several ranks make together, compared number by number with those of one rank.

use isobar_core::problem::random;
use isobar_core::stencil::galerkin::{Bodies, Couplings, Directions, Matrix, Setup, Weights};

use isobar_dist::PartBackend;

use super::*;

/// A level: the weights that lead to it, its matrix and the aggregates of this rank.
struct Level {
    weights: Option<Directions>,
    matrix: Matrix,
    bodies: Vec<Bodies>,
}

/// Makes the levels of a stencil, to a grid of some 200 cells.
fn levels(cpu: &Cpu, stencil: &Diffusion, precision: Precision) -> Result<Vec<Level>> {
    let mut matrix = Matrix::of(cpu, stencil, precision)?;
    let has_bodies = cpu.may_have_bodies(&matrix)?;
    let (mut all, mut weights) = (Vec::new(), None);
    loop {
        let is_window = numbers(&matrix).window.is_some();
        let is_alone = PartBackend::ranks(cpu).is_none();
        let bodies = if has_bodies && (is_alone || is_window) { cpu.bodies(&matrix)? } else { Vec::new() };
        all.push(Level { weights, matrix: matrix.clone(), bodies });
        let axes = cpu.strong_axes(&matrix, true)?;
        if axes.is_empty() || cpu.grid(&matrix).shape.cells() < 200 {
            return Ok(all);
        }
        let own;
        (own, matrix) = cpu.coarsen(matrix, &axes)?;
        weights = Some(own);
    }
}

fn numbers(matrix: &Matrix) -> Couplings {
    matrix.in_double()
}

/// Checks all rows of a rank's matrix.
fn check_matrix(ours: &Couplings, whole: &Couplings, name: &str) {
    assert_eq!(ours.whole_grid(), whole.grid, "{name}");
    assert_eq!(ours.present, whole.present, "{name}");
    let Shape { ny, nz, .. } = ours.grid.shape;
    for (j, k) in (0..ny).flat_map(|j| (0..nz).map(move |k| (j, k))) {
        let there = ours.there(j);
        assert_eq!(ours.sums(j, k as isize), whole.sums(there, k as isize), "{name}, row {there}");
        for offset in whole.offsets().filter(|offset| offset[1] >= 0 || j > 0) {
            let rows = (ours.row(j, k as isize, offset), whole.row(there, k as isize, offset));
            assert_eq!(rows.0, rows.1, "{name}, row {there} {offset:?}");
        }
    }
}

/// Checks the weights of a rank's rows, and of those beside them.
fn check_weights(ours: &Weights, whole: &Weights, own: std::ops::Range<usize>, name: &str) {
    let ((count, here), (all, _)) = (ours.planes(), whole.planes());
    assert_eq!((ours.axis, count), (whole.axis, all), "{name}");
    let Shape { nx, nz, .. } = whole.odd.shape;
    let divisor = if ours.axis == Axis::Y { 2 } else { 1 };
    let planes = (own.start / divisor).saturating_sub(1)..(own.end / divisor + 1).min(count);
    for (plane, k) in planes.flat_map(|plane| (0..nz).map(move |k| (plane, k))) {
        for i in 0..nx {
            assert_eq!(
                ours.get([i, here(plane), k]),
                whole.get([i, plane, k]),
                "{name}, plane {plane} of {:?}",
                ours.axis
            );
        }
    }
}

/// Checks a rank's share of the aggregates, whose sums are added in another order.
fn check_bodies(ours: &[Bodies], expected: &[Bodies], name: &str) {
    assert_eq!(ours.len(), expected.len(), "{name}");
    for (ours, expected) in ours.iter().zip(expected) {
        let tables = |bodies: &Bodies| (bodies.shared, bodies.starts.clone(), bodies.cells.clone());
        assert_eq!(tables(ours), tables(expected), "{name}");
        let mut factors = ours.factors.iter().zip(&expected.factors);
        assert!(factors.all(|(a, b)| (a - b).abs() <= 1e-12 * b), "{name}");
    }
}

/// Returns κ of blobs between 1 and `contrast`, and closed cells for a share of all.
fn field(shape: Shape, contrast: f64, closed: f64) -> Vec<f64> {
    let value = |[i, j, k]: [usize; 3]| {
        let block = random(5, (i / 3) + 1000 * (j / 5) + 100_000 * (k / 2));
        let own = random(6, shape.number([i, j, k]));
        if own < 2.0 * closed - 1.0 { 0.0 } else { contrast.powf((block + 1.0) / 2.0) * (1.0 + 0.3 * own) }
    };
    shape.places().map(value).collect()
}

#[test]
fn matrices_are_those_of_one_rank() {
    let [closed, period] = [[Side::Closed; 2], [Side::Periodic; 2]];
    let fixed = [Side::Fixed, Side::Closed];
    let mut shared = 0;
    for (shape, sides) in [
        (Shape::new(12, 96, 10), [closed; 3]),
        (Shape::new(11, 97, 7), [closed, fixed, closed]),
        (Shape::new(1, 128, 9), [closed; 3]),
        (Shape::new(8, 96, 6), [closed, period, closed]),
        (Shape::new(6, 112, 8), [period; 3]),
        (Shape::new(7, 80, 5), [period, closed, period]),
    ] {
        for (contrast, share, precision) in [
            (1e6, 0.0, Precision::F64),
            (100.0, 0.3, Precision::F64),
            (3.0, 0.0, Precision::F32),
            (1e4, 0.5, Precision::F64),
        ] {
            let field = field(shape, contrast, share);
            let stencil = Diffusion::of_field(shape, field, [1.0, 1.3, 0.8], None, sides).unwrap();
            let alone = levels(&Cpu::new(2).unwrap(), &stencil, precision).unwrap();
            for ranks in 2..=4 {
                let all =
                    threads::run(ranks, |world| levels(&join(Cpu::new(1)?, Arc::new(world)), &stencil, precision));
                for (rank, ours) in all.unwrap().iter().enumerate() {
                    assert_eq!(ours.len(), alone.len());
                    let mut own = 0..0;
                    for (n, (ours, whole)) in ours.iter().zip(&alone).enumerate() {
                        let name = format!("{shape} {sides:?} contrast {contrast}, rank {rank} of {ranks}, level {n}");
                        let (matrix, all) = (numbers(&ours.matrix), numbers(&whole.matrix));
                        check_matrix(&matrix, &all, &name);
                        if let (Some(ours), Some(whole)) = (&ours.weights, &whole.weights) {
                            for (ours, whole) in ours.in_double().iter().zip(&whole.in_double()) {
                                check_weights(ours, whole, own.clone(), &name);
                                if ours.axis == Axis::Y {
                                    own = own.start / 2..own.end.div_ceil(2);
                                }
                            }
                        }
                        own = 0..all.grid.shape.ny;
                        let Some(window) = &matrix.window else { continue };
                        let layout = Layout::new(all.grid.shape).unwrap();
                        let starts = window.starts();
                        own = starts[rank]..starts[rank + 1];
                        let expected: Vec<Bodies> =
                            whole.bodies.iter().map(|bodies| bodies.part(&layout, starts, rank)).collect();
                        check_bodies(&ours.bodies, &expected, &name);
                        shared += expected.iter().map(|bodies| bodies.shared).sum::<usize>();
                    }
                }
            }
        }
    }
    assert!(shared > 100, "{shared} shared aggregates");
}
