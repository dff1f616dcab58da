//! Galerkin levels: A_c = PᵀAP whatever the sides, sizes and directions, and what follows from it.

use std::sync::Arc;

use isobar_core::backend::{Backend, Ratio};
use isobar_core::layout::{Layout, Shape};
use isobar_core::problem::random;
use isobar_core::reference::{Reference, Vector};
use isobar_core::stencil::{Coefficients, Diffusion, Hierarchy, Side, Supports};

fn stencil(shape: Shape, factors: [f64; 3], sides: [Side; 3], contrast: f64, closed: bool) -> Diffusion {
    let field: Vec<f64> = (0..shape.cells())
        .map(|n| if closed && random(3, n) > 0.6 { 0.0 } else { contrast.powf(0.5 * random(4, n)) })
        .collect();
    let shift = field.iter().enumerate().map(|(n, k)| if *k > 0.0 && random(5, n) > 0.5 { 0.1 } else { 0.0 }).collect();
    let cells = Coefficients::Cells { fields: vec![Arc::from(field)], axes: factors.map(|factor| (0, factor)) };
    Diffusion::new(shape, cells, Some(shift), sides.map(|side| [side; 2])).unwrap()
}

fn hierarchy(stencil: &Diffusion, levels: usize) -> Hierarchy<Reference, Diffusion, f64> {
    let operator = Supports::<Diffusion>::operator::<f64>(&Reference, stencil).unwrap();
    Supports::<Diffusion>::hierarchy(&Reference, stencil, &operator, Some(levels)).unwrap().unwrap()
}

fn noise(layout: &Layout, seed: u64) -> Vector<f64> {
    let shape = layout.shape();
    let mut v = Vector::zeros(layout).unwrap();
    v.fill_with(|i, j, k| random(seed, i + shape.nx * (j + shape.ny * k)));
    v
}

fn norm(v: &Vector<f64>) -> f64 {
    v.entries().iter().map(|x| x * x).sum::<f64>().sqrt()
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
                    let hierarchy = hierarchy(&stencil, 4);
                    for (n, transfer) in hierarchy.transfers.iter().enumerate() {
                        let [fine, coarse] = [&hierarchy.levels[n], &hierarchy.levels[n + 1]];
                        let v = noise(coarse.layout(), 7);
                        let zeros = |layout: &Layout| Vector::<f64>::zeros(layout).unwrap();
                        let (mut pv, mut apv) = (zeros(fine.layout()), zeros(fine.layout()));
                        let (mut expected, mut found) = (zeros(coarse.layout()), zeros(coarse.layout()));
                        transfer.prolong(&v, &mut pv).unwrap();
                        fine.apply(&pv, &mut apv).unwrap();
                        transfer.restrict(&apv, &mut expected).unwrap();
                        coarse.apply(&v, &mut found).unwrap();
                        let size = norm(&expected).max(1e-12);
                        let scalars = Reference.scalars().unwrap();
                        Reference.axpy(Ratio::ONE.negated(), &found, &mut expected, &scalars).unwrap();
                        let error = norm(&expected) / size;
                        assert!(
                            error < 1e-9,
                            "{shape} {factors:?} {sides:?} closed {closed}, level {n} {}: {error:e}",
                            coarse.layout().shape()
                        );
                    }
                }
            }
        }
    }
}
