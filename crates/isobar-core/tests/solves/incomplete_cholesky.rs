//! MIC(0): the row sums of M are those of A, pivots in closed form; IC(0) in blocks is block-IC.

use isobar_core::conformance::arrays::{fetch, vector};
use isobar_core::prelude::*;

fn stencil(shape: Shape, sides: [[Side; 2]; 3]) -> Diffusion {
    let field = |seed: u64| (0..shape.cells()).map(|n| 1.5 + random(seed, n)).collect();
    let shift = (0..shape.cells()).map(|n| 0.2 + 0.1 * random(9, n)).collect();
    let coefficients = Coefficients::Cells { fields: vec![field(1), field(2)], axes: [(0, 1.0), (0, 2.0), (1, 0.5)] };
    Diffusion::new(shape, coefficients, Some(shift), sides).unwrap()
}

/// Returns Δ⁻¹ and M⁻¹ r, C order.
fn solve(stencil: &Diffusion, relaxation: f64, r: &[f64]) -> [Vec<f64>; 2] {
    let operator = <Reference as Supports<Diffusion>>::operator::<f64>(&Reference, stencil).unwrap();
    let triangular = <Reference as Supports<Diffusion>>::capabilities(&Reference, &operator).triangular.unwrap();
    let layout = Supports::layout(&Reference, stencil).unwrap();
    let [mut inverse, mut z] = [0; 2].map(|_| Reference.zeros::<f64>(&layout).unwrap());
    triangular.factorise(usize::MAX, relaxation, &mut inverse).unwrap();
    triangular.substitute(usize::MAX, &inverse, &vector(&Reference, &layout, r), &mut z).unwrap();
    [inverse, z].map(|v| fetch(&Reference, &v, layout.shape()))
}

fn factorise(stencil: &Diffusion, relaxation: f64) -> Vec<f64> {
    let [inverse, _] = solve(stencil, relaxation, &vec![0.0; stencil.shape().cells()]);
    inverse
}

#[test]
fn row_sums_of_m_are_those_of_a() {
    let [closed, fixed, periodic] = [Side::Closed, Side::Fixed, Side::Periodic];
    for (shape, sides) in [
        (Shape::new(5, 4, 3), [[closed; 2]; 3]),
        (Shape::new(6, 7, 5), [[fixed, closed], [closed, fixed], [fixed; 2]]),
        (Shape::new(6, 4, 5), [[periodic; 2], [periodic; 2], [periodic; 2]]),
        (Shape::new(11, 8, 1), [[fixed; 2], [closed; 2], [closed; 2]]),
    ] {
        let stencil = stencil(shape, sides);
        // M 1 = A 1 exactly when M⁻¹ A 1 = 1.
        let row_sums = stencil.times(&vec![1.0; shape.cells()]);
        let [_, ones] = solve(&stencil, 1.0, &row_sums);
        assert!(ones.iter().all(|one| (one - 1.0).abs() < 1e-12), "{shape}");
        let [_, others] = solve(&stencil, 0.0, &row_sums);
        assert!(others.iter().any(|one| (one - 1.0).abs() > 1e-3), "{shape}");
    }
}

/// Compares with d_i = a_ii − Σ (e²/d_a)(1 + other upper neighbours of a), for paper E's matrix.
#[test]
fn pivots_are_those_of_the_formula() {
    let shape = Shape::new(5, 4, 6);
    let stencil = Heat::unit_box(shape).unwrap().shifted(2000.0).unwrap();
    for relaxation in [0.0, 1.0] {
        let mut pivots = vec![0.0; shape.cells()];
        for at @ [i, j, k] in stencil.cells() {
            let mut pivot = stencil.diagonal(at);
            let lower =
                [(i > 0).then(|| [i - 1, j, k]), (j > 0).then(|| [i, j - 1, k]), (k > 0).then(|| [i, j, k - 1])];
            for a @ [i, j, k] in lower.into_iter().flatten() {
                let t = |to: [usize; 3]| stencil.neighbours(a).find(|n| n.0 == to).map_or(0.0, |n| n.1);
                let own = t(at);
                let upper = t([i + 1, j, k]) + t([i, j + 1, k]) + t([i, j, k + 1]);
                pivot -= own / pivots[shape.number(a)] * (own + relaxation * (upper - own));
            }
            pivots[shape.number(at)] = pivot;
        }
        for (found, expected) in factorise(&stencil, relaxation).iter().zip(pivots) {
            assert!((found * expected - 1.0).abs() < 1e-12);
        }
    }
}

/// The last pivot of a floating matrix is 0, and replaced.
#[test]
fn a_pivot_that_vanishes_is_replaced() {
    let shape = Shape::new(6, 5, 4);
    let stencil =
        Diffusion::of_field(shape, vec![1.0; shape.cells()], [1.0, 1.0, 1.0], None, Default::default()).unwrap();
    let inverse = factorise(&stencil, 1.0);
    assert!(inverse.iter().all(|d| d.is_finite() && *d > 0.0));
    let last = inverse.last().unwrap();
    assert!((last * stencil.diagonal([5, 4, 3]) - 1.0).abs() < 1e-12);
}

/// The faces of a tensor product give its matrix; a matrix that is not symmetric has none.
#[test]
fn stored_faces_are_those_of_the_tensor_product() {
    let grid = GridOptions { nx: 6, ny: 5, nz: 4, ..GridOptions::default() };
    let stencil = TensorProduct::helmholtz(&grid, 0.02, 1.0).unwrap();
    let faces = stencil.with_stored_faces().unwrap().unwrap();
    for at @ [i, j, k] in faces.cells() {
        let row: Vec<_> = stencil.row(i, j, k).collect();
        let diagonal = row.iter().find(|entry| [entry.i, entry.j, entry.k] == at).unwrap().value;
        assert!((faces.diagonal(at) / diagonal - 1.0).abs() < 1e-12, "{at:?}");
        let neighbours: Vec<_> = faces.neighbours(at).collect();
        assert_eq!(neighbours.len(), row.len() - 1);
        for (to, t) in neighbours {
            let entry = row.iter().find(|entry| [entry.i, entry.j, entry.k] == to).unwrap().value;
            assert!((t / -entry - 1.0).abs() < 1e-14, "{at:?} to {to:?}: {t} for {entry}");
        }
    }
    let advected = stencil.with_advection(0.02, |_, _| (0.1, 0.0), 0.0).unwrap();
    assert!(advected.with_stored_faces().unwrap().is_none());
}
