//! Several systems at a time, on a queue each where the device has queues.

use std::ops::ControlFlow;

use super::arrays::solve_by;
use super::fixture::ok;
use crate::build::solve_many;
use crate::prelude::*;
use crate::problem::materials::bubbles;

const CLOSED: [[Side; 2]; 3] = [[Side::Closed; 2]; 3];

fn diffusion(shape: Shape, field: Vec<f64>, sides: [[Side; 2]; 3]) -> Diffusion {
    ok(Diffusion::of_field(shape, field, [1.0, 0.7, 2.5], None, sides))
}

/// Coefficients of spheres in a matrix.
fn spheres(shape: Shape, contrast: f64, seed: u64) -> Vec<f64> {
    let lengths = shape.extents().map(|n| n as f64);
    ok(bubbles(shape, lengths, &Bubbles { count: 5, radius: 0.12, contrast, seed }))
}

/// Makes right-hand sides of different kinds: rough, smooth, zero, tiny, huge.
fn right_hand_sides(shape: Shape) -> Vec<Vec<f64>> {
    let of = |n: usize| {
        let scale = [1.0, 1e3, 0.0, 1e-180, 1e150][n % 5];
        let cell =
            move |cell: usize| if n.is_multiple_of(2) { random(n as u64, cell) } else { (cell as f64 / 50.0).sin() };
        (0..shape.cells()).map(|n| scale * cell(n)).collect()
    };
    (0..10).map(of).collect()
}

fn solve_all<B: Supports<Diffusion>>(
    system: &mut System<B, Diffusion>,
    shape: Shape,
    rhs: &[Vec<f64>],
    observer: &mut Observer<'_>,
) -> (Result<Vec<Outcome>>, Vec<Vec<f64>>) {
    let mut u = vec![vec![f64::NAN; shape.cells()]; rhs.len()];
    let pairs = rhs.iter().zip(&mut u);
    let systems =
        pairs.map(|(rhs, u)| (ok(ArrayView::c_order(rhs, shape)), ok(ArrayViewMut::c_order(u, shape)))).collect();
    let outcomes = solve_many(system, systems, Guess::Zero, observer, &|(rhs, u), solve| {
        solve((*rhs).into(), u.reborrow().into())
    });
    (outcomes, u)
}

/// Checks that systems solved at the same time have the bits of systems solved one after the other, also after an
/// update.
pub(super) fn at_a_time<B: Supports<Diffusion>>(backend: &B) {
    let options = |method, preconditioner, precision| SolverOptions {
        method,
        preconditioner,
        precision,
        tolerance: 1e-7,
        max_iterations: 3000,
        compatibility: Compatibility::Project,
        norm: Norm::Rhs,
        ..SolverOptions::default()
    };
    let (auto, cg) = (Method::Auto, Method::Cg);
    use Precision::{F64, Mixed};
    use Preconditioner::{Auto, Jacobi, Line, Multigrid};
    let fixed = [[Side::Fixed, Side::Closed], [Side::Closed; 2], [Side::Closed; 2]];
    let around = [[Side::Periodic; 2], [Side::Closed; 2], [Side::Fixed; 2]];
    let (deep, odd, flat, large) =
        (Shape::new(48, 40, 32), Shape::new(33, 27, 19), Shape::new(96, 96, 1), Shape::new(48, 36, 40));
    // Layers of closed cells cut the grid into pieces, some of which float.
    let mut pieces = spheres(deep, 50.0, 3);
    pieces.iter_mut().enumerate().filter(|(n, _)| n % 48 == 17 || n % 48 == 31).for_each(|(_, kappa)| *kappa = 0.0);
    let smooth = |shape: Shape| (0..shape.cells()).map(|n| 1.5 + 0.4 * (n as f64 / 900.0).sin()).collect();
    for (n, (shape, field, sides, options)) in [
        (deep, spheres(deep, 1e3, 1), CLOSED, options(cg, Multigrid, Mixed)),
        (deep, spheres(deep, 1e3, 1), fixed, options(auto, Auto, Mixed)),
        (deep, pieces, fixed, options(cg, Multigrid, F64)),
        (odd, spheres(odd, 1e6, 2), fixed, options(cg, Multigrid, F64)),
        (flat, spheres(flat, 1e2, 4), CLOSED, options(cg, Multigrid, F64)),
        (large, smooth(large), around, options(auto, Auto, Mixed)),
        (large, smooth(large), CLOSED, options(Method::Multigrid, Auto, F64)),
        (odd, spheres(odd, 1e2, 5), fixed, SolverOptions { norm: Norm::Scaled, ..options(cg, Jacobi, F64) }),
        (odd, spheres(odd, 1e2, 6), CLOSED, options(cg, Line, F64)),
        (odd, spheres(odd, 3.0, 7), fixed, options(cg, Preconditioner::Neumann { order: 2 }, F64)),
    ]
    .into_iter()
    .enumerate()
    {
        let rhs = right_hand_sides(shape);
        let stencil = diffusion(shape, field.clone(), sides);
        let mut system = ok(System::new(backend, &stencil, &options));
        let other = diffusion(shape, field.iter().map(|kappa| kappa * (1.0 + kappa.sqrt())).collect(), sides);
        for round in 0..2 {
            if round == 1 {
                ok(system.update(&other));
            }
            let (found, u) = solve_all(&mut system, shape, &rhs, &mut ignore);
            let found = ok(found);
            let expected: Vec<_> = rhs.iter().map(|rhs| solve_by(&mut system, shape, rhs)).collect();
            assert_eq!(found.len(), rhs.len());
            for (k, ((found, u), (expected, v))) in found.iter().zip(&u).zip(&expected).enumerate() {
                assert_eq!(found.stop, expected.stop, "problem {n}, round {round}, system {k}: {found:?}");
                let same = (&found.history, found.relative_residual) == (&expected.history, expected.relative_residual);
                assert!(same && u == v, "problem {n}, round {round}, system {k}: {found:?} {expected:?}");
            }
        }
    }
}

/// Errors name their system, and an observer ends all that are in progress.
pub(super) fn with_errors<B: Supports<Diffusion>>(backend: &B) {
    let shape = Shape::new(48, 40, 32);
    let options = SolverOptions { compatibility: Compatibility::Project, tolerance: 1e-8, ..SolverOptions::default() };
    let mut system = ok(System::new(backend, &diffusion(shape, spheres(shape, 1e3, 1), CLOSED), &options));
    let mut rhs = right_hand_sides(shape);
    let sound = rhs.clone();
    rhs[6][100] = f64::NAN;
    let (found, u) = solve_all(&mut system, shape, &rhs, &mut ignore);
    let message = found.map_or_else(|error| error.to_string(), |found| format!("{found:?}"));
    assert!(message.contains("system 6"), "{message}");
    assert!(u[..6].iter().flatten().all(|u| u.is_finite()));
    let mut seen = 0;
    let many: Vec<_> = sound.iter().cycle().take(40).cloned().collect();
    let (found, _) = solve_all(&mut system, shape, &many, &mut |_| {
        seen += 1;
        if seen > 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(ok(found).len() < many.len());
    let (found, _) = solve_all(&mut system, shape, &sound, &mut ignore);
    assert!(ok(found).iter().all(Outcome::converged));
}
