//! Periodic directions of an odd number of cells with all arrays on the GPU, compared with arrays on the host.

use isobar_core::conformance::arrays::{cg, noise};
use isobar_core::options::Judge;
use isobar_core::prelude::*;
use isobar_core::real::Real;
use isobar_cuda::Cuda;

use crate::common::OnCard;
use crate::problem::OnGpu;

/// Adds the checks of this module.
pub(crate) fn add_to(all: &mut OnCard) {
    all.add("odd_periods_on_the_card", odd_periods_on_the_card);
}

type System = isobar_core::build::System<Cuda, Diffusion>;

/// Arrays on the GPU, in either precision and any order, give the same bits as arrays on the host, and errors name the caller's cells.
fn odd_periods_on_the_card(cuda: &Cuda) {
    let (ring, closed) = ([Side::Periodic; 2], [Side::Closed; 2]);
    for (shape, sides) in [
        (Shape::new(37, 22, 13), [ring, closed, closed]),
        (Shape::new(36, 21, 13), [[Side::Fixed, Side::Closed], ring, ring]),
        (Shape::new(67, 35, 1), [ring, ring, closed]),
        (Shape::new(9, 1, 1), [ring, closed, closed]),
    ] {
        let axes = [(0, 1.0), (0, 0.7), (0, 2.5)];
        let kappa =
            |seed: u64| (0..shape.cells()).map(|n| f64::from((2.0 + random(seed, n)) as f32)).collect::<Vec<_>>();
        let ties: Vec<f64> = (0..shape.cells()).map(|n| 1.0 + random(3, n)).collect();
        let shift = OnGpu::<f64>::new(cuda, shape, columns_first(shape), &ties);
        let [first, second] = [1, 2].map(|seed| OnGpu::<f32>::new(cuda, shape, columns_first(shape), &kappa(seed)));
        let on_card = |field: &OnGpu<f32>| {
            let cells = Coefficients::DeviceCells { fields: vec![field.array], axes, shift: Some(shift.array) };
            Diffusion::new(shape, cells, None, sides).unwrap()
        };
        let on_host = |seed: u64| {
            let cells = Coefficients::Cells { fields: vec![kappa(seed).into()], axes };
            Diffusion::new(shape, cells, Some(ties.clone()), sides).unwrap()
        };
        for preconditioner in [Preconditioner::Multigrid, Preconditioner::Line, Preconditioner::Jacobi] {
            let options = SolverOptions { tolerance: 1e-9, judge: Judge::Internal, ..cg(preconditioner) };
            let mut found = System::new(cuda, &on_card(&first), &options).unwrap();
            let mut expected = System::new(cuda, &on_host(1), &options).unwrap();
            same::<f64>(cuda, &mut found, &mut expected, shape);
            found.update(&on_card(&second)).unwrap();
            expected.update(&on_host(2)).unwrap();
            same::<f64>(cuda, &mut found, &mut expected, shape);
            same::<f32>(cuda, &mut found, &mut expected, shape);
        }
        let mut wrong = kappa(1);
        let Shape { nx, ny, nz } = shape;
        let [i, j, k] = [nx - 1, ny - 1, nz / 2];
        wrong[i + nx * (j + ny * k)] = -1.0;
        let wrong = OnGpu::<f32>::new(cuda, shape, columns_first(shape), &wrong);
        let message = System::new(cuda, &on_card(&wrong), &cg(Preconditioner::Line)).err().unwrap().to_string();
        assert!(message.contains(&format!("({i}, {j}, {k})")), "{message}");
    }
}

fn columns_first(Shape { ny, nz, .. }: Shape) -> [usize; 3] {
    [ny * nz, nz, 1]
}

/// Compares products, and solutions from a first guess, with arrays of type S.
fn same<S: Real>(cuda: &Cuda, found: &mut System, expected: &mut System, shape: Shape)
where
    for<'a> ArrayView<'a, S>: Into<Source<'a>>,
    for<'a> ArrayViewMut<'a, S>: Into<Target<'a>>,
{
    let [x, b, guess] = [4, 5, 6].map(|seed| noise(shape.cells(), seed));
    let on_card = |values: &[f64]| OnGpu::<S>::new(cuda, shape, columns_first(shape), values);
    let on_host = |values: &[f64]| values.iter().map(|&value| S::from_f64(value)).collect::<Vec<S>>();
    let (from, to, rhs, u) = (on_card(&x), on_card(&x), on_card(&b), on_card(&guess));
    found.apply(from.array.into(), to.array.into()).unwrap();
    let outcome = found.solve(rhs.array.into(), u.array.into(), Guess::Given, &mut ignore).unwrap();
    let [host_x, mut host_to, host_b, mut host_u] = [&x, &x, &b, &guess].map(|values| on_host(values));
    let view = |values| ArrayView::c_order(values, shape).unwrap().into();
    let array = |values| ArrayViewMut::c_order(values, shape).unwrap().into();
    expected.apply(view(&host_x), array(&mut host_to)).unwrap();
    let wanted = expected.solve(view(&host_b), array(&mut host_u), Guess::Given, &mut ignore).unwrap();
    assert!(outcome.converged() && outcome.history == wanted.history, "{outcome:?} {wanted:?}");
    for (found, expected) in [(to, host_to), (u, host_u)] {
        let expected: Vec<f64> = expected.into_iter().map(Real::to_f64).collect();
        assert_eq!(found.read(), expected);
    }
}
