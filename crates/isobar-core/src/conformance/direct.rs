//! Direct solves of separable boxes, judged by their residuals.

use super::arrays::{noise, norm, residual, without_mean};
use super::complete::Complete;
use super::fixture::{fetch, ok, poison, vector};
use crate::backend::direct::locked;
use crate::prelude::*;
use crate::stencil::turns::Turns;

/// All pairs of sides of an axis.
pub const SIDES: [[Side; 2]; 5] = [
    [Side::Closed, Side::Closed],
    [Side::Fixed, Side::Fixed],
    [Side::Closed, Side::Fixed],
    [Side::Fixed, Side::Closed],
    [Side::Periodic, Side::Periodic],
];

/// Makes a box whose widths grow by a factor along each axis, with optional layers of random coefficients and a reaction of this
/// size, which may be negative.
fn stencil(
    shape: Shape,
    sides: [[Side; 2]; 3],
    stretching: f64,
    layered: Option<usize>,
    size: f64,
    seed: u64,
) -> Diffusion {
    let extents = shape.extents();
    let width = |d: usize, at: [usize; 3]| stretching.powf(at[d] as f64 / extents[d] as f64);
    let of = |value: &dyn Fn([usize; 3]) -> f64| shape.places().map(value).collect::<Vec<f64>>();
    let volume = |at: [usize; 3]| width(0, at) * width(1, at) * width(2, at);
    let kappa = |d: usize, at: [usize; 3]| layered.map_or(1.0, |axis| 1.5 + random(seed + d as u64, at[axis]));
    let fields = (0..3).map(|d| of(&|at| 2.0 * kappa(d, at) * volume(at) / width(d, at).powi(2)).into()).collect();
    let reaction = layered.map(|axis| of(&|at| size * (1.1 + random(seed + 7, at[axis])) * volume(at)));
    let cells = Coefficients::Cells { fields, axes: [(0, 1.0), (1, 1.0), (2, 1.0)] };
    ok(Diffusion::new(shape, cells, reaction, sides))
}

fn is_singular(stencil: &Diffusion) -> bool {
    let has_shift = stencil.stored_shift().is_some_and(|shift| shift.iter().any(|&s| s != 0.0));
    !stencil.sides().as_flattened().contains(&Side::Fixed) && !has_shift
}

fn check<B: Complete>(backend: &B, stencil: &Diffusion, solver: &crate::backend::SharedDirect<B>, what: &str) {
    let (shape, (turns, around)) = (Stencil::shape(stencil), on_copies(stencil));
    let given = noise(shape.cells(), 3);
    let values = if is_singular(stencil) { without_mean(given.clone()) } else { given.clone() };
    let layout = ok(<B as Supports<Diffusion>>::layout(backend, &around));
    let repeated = turns.repeat(&ok(ArrayView::c_order(&values, shape)));
    let (mut on_b, (_, mut on_u)) = (vector(backend, &layout, &repeated), poison::<B, f64>(backend, layout.shape()));
    let is_zero = values.iter().all(|value| value.abs() < 1e-14);
    // Pivots of indefinite matrices are moved away from zero; refinement removes the effect.
    let most = if stencil.is_definite() { 1e-11 } else { 1e-5 };
    let judge = |u: &[f64], how: &str| -> f64 {
        let found = residual(stencil, &values, u);
        assert!(found < most || is_zero && u.iter().all(|u| u.is_finite()), "{what}, {how}: residual {found:e}");
        found
    };
    let judge_vector = |x: &B::Vector<f64>, how: &str| {
        let all = fetch(backend, x, layout.shape());
        let once: Vec<f64> = shape.places().map(|at| all[layout.shape().number(at)]).collect();
        assert_eq!(turns.repeat(&ok(ArrayView::c_order(&once, shape))), all, "{what}, {how}: copies");
        judge(&once, how);
    };
    ok(locked(solver).solve(&on_b, &mut on_u));
    judge_vector(&on_u, "into another vector");
    ok(locked(solver).solve_in_place(&mut on_b));
    judge_vector(&on_b, "in place");

    // A mean of b that a singular matrix cannot produce may be left to the general path.
    for b in [&given, &values] {
        let mut u = vec![f64::NAN; shape.cells()];
        let source = ok(ArrayView::c_order(b, shape)).into();
        let mut target = ok(ArrayViewMut::c_order(&mut u, shape)).into();
        let Some(judged) = ok(locked(solver).solve_arrays(&source, &mut target)) else { continue };
        let (found, norm) = (judge(&u, "between arrays"), norm(&values));
        assert!((judged.rhs - norm).abs() <= 1e-12 * norm + 1e-14, "{what}: {} instead of {norm}", judged.rhs);
        let (bound, judged_residual) = (1e-3 * found + 1e-13, judged.residual / norm);
        assert!(is_zero || (judged_residual - found).abs() <= bound, "{what}: {judged_residual} instead of {found}");
        assert_eq!(judged.removed.is_some(), is_singular(stencil), "{what}");
        if is_singular(stencil) {
            let sum = u.iter().sum::<f64>() / u.iter().map(|u| u.abs()).sum::<f64>();
            assert!(is_zero || sum.abs() < 1e-12, "{what}: a mean of {sum:e}");
        }
    }
}

/// Returns the copies that make periodic axes even, and the matrix on them.
fn on_copies(stencil: &Diffusion) -> (Turns, Diffusion) {
    let turns = Turns::of(Stencil::shape(stencil), [0, 1, 2].map(|axis| stencil.is_periodic(Axis::ALL[axis])));
    (turns, ok(stencil.repeated(turns)))
}

fn solver<B: Complete>(backend: &B, stencil: &Diffusion, what: &str) -> crate::backend::SharedDirect<B> {
    let (_, around) = on_copies(stencil);
    let layout = ok(<B as Supports<Diffusion>>::layout(backend, &around));
    let factors = ok(around.separable()).once(Stencil::shape(stencil));
    let Some(solver) = ok(backend.direct(&layout, &factors)) else { panic!("{what}: no direct solver") };
    solver
}

/// Checks axes as long as any device transforms, and longer ones.
pub(super) fn long<B: Complete>(backend: &B) {
    let [closed, fixed, periodic] = [[Side::Closed; 2], [Side::Fixed; 2], [Side::Periodic; 2]];
    for (shape, sides, line) in [
        (Shape::new(8192, 2, 3), [closed, fixed, closed], Axis::Z),
        (Shape::new(2, 4096, 3), [closed, periodic, fixed], Axis::Z),
        (Shape::new(3, 5000, 2), [fixed, fixed, fixed], Axis::Z),
        // Its transform would have a factor of 23.
        (Shape::new(2, 2070, 3), [fixed, closed, closed], Axis::Y),
        (Shape::new(9000, 2, 3), [closed, closed, fixed], Axis::X),
    ] {
        let what = format!("{shape} {sides:?}");
        let stencil = stencil(shape, sides, 1.0, None, 1.0, 5);
        assert_eq!(ok(stencil.separable()).line, line as usize, "{what}");
        check(backend, &stencil, &solver(backend, &stencil, &what), &what);
    }
}

/// Checks boxes of awkward sizes, with all kinds of sides, uniform, stretched and layered along each axis.
pub(super) fn boxes<B: Complete>(backend: &B) {
    let extents = [
        [1, 1, 1],
        [2, 1, 1],
        [1, 7, 1],
        [1, 1, 12],
        [6, 5, 4],
        [8, 16, 3],
        [34, 3, 18],
        [13, 66, 2],
        [130, 2, 5],
        [4, 2, 131],
        [64, 64, 8],
        [384, 2, 3],
        [4, 400, 2],
    ];
    for (n, [nx, ny, nz]) in extents.into_iter().enumerate() {
        for m in 0..10 {
            let sides = [n + m, n / 2 + 2 * m + m / 5, 3 * m + 1].map(|s| SIDES[s % SIDES.len()]);
            let (stretching, layered) = ([1.0, 1.0, 20.0][(n + m) % 3], [None, Some(0), Some(1), None, Some(2)][m % 5]);
            let stencil = stencil(Shape::new(nx, ny, nz), sides, stretching, layered, 1.0, m as u64);
            let what = format!("{nx}×{ny}×{nz} {sides:?}, stretched {stretching}, layered along {layered:?}");
            check(backend, &stencil, &solver(backend, &stencil, &what), &what);
        }
    }
}

/// Checks indefinite boxes: negative reactions, in lines of all kinds.
pub(super) fn indefinite<B: Complete>(backend: &B) {
    for (n, [nx, ny, nz]) in [[6, 5, 4], [8, 16, 10], [34, 3, 18], [12, 66, 2], [2, 2, 130]].into_iter().enumerate() {
        for m in 0..6 {
            let sides = [n + m, n + 2 * m, m].map(|s| SIDES[s % SIDES.len()]);
            let (size, layered) = ([-0.3, -2.0][m % 2], m % 3);
            let stencil = stencil(Shape::new(nx, ny, nz), sides, 1.0, Some(layered), size, m as u64);
            let what = format!("{nx}×{ny}×{nz} {sides:?}, a reaction of about {size}, layered along {layered}");
            check(backend, &stencil, &solver(backend, &stencil, &what), &what);
        }
    }
}

/// Checks updates of factors: of layers alone, and of everything.
pub(super) fn update<B: Complete>(backend: &B) {
    let shape = Shape::new(12, 6, 10);
    let sides = [SIDES[1], SIDES[4], SIDES[0]];
    let first = stencil(shape, sides, 1.0, Some(2), 1.0, 1);
    let solver = solver(backend, &first, "update");
    check(backend, &first, &solver, "before an update");
    for (second, what) in [
        (stencil(shape, sides, 1.0, Some(2), 1.0, 20), "new layers"),
        (stencil(shape, sides, 30.0, Some(2), 1.0, 3), "new widths"),
        (stencil(shape, sides, 1.0, Some(0), 1.0, 4), "layers along another axis"),
    ] {
        ok(locked(&solver).update(&ok(second.separable())));
        check(backend, &second, &solver, what);
    }
    // A reaction that vanishes leaves a singular matrix, and one that comes ends that; the cells of planes differ.
    let of = |size: f64| {
        let made = stencil(shape, [SIDES[0]; 3], 20.0, Some(2), 1.0, 5);
        let shift = made.stored_shift().map(|shift| shift.iter().map(|s| size * s).collect());
        ok(Diffusion::new(shape, made.coefficients().clone(), shift, made.sides()))
    };
    let solver = self::solver(backend, &of(1.0), "a reaction");
    for size in [0.0, 1.0, 0.0] {
        ok(locked(&solver).update(&ok(of(size).separable())));
        check(backend, &of(size), &solver, &format!("{size} times a reaction"));
    }
}
