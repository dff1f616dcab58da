//! Vertical modes on CUDA beyond the conformance suite: grids that stream, whose sweeps before the last are in single precision.

use isobar_core::conformance::arrays::{self, fetch, noise, solve_again, vector};
use isobar_core::prelude::*;
use isobar_cuda::Cuda;

use crate::common::OnCard;
use crate::helmholtz;

/// Adds the checks of this module.
pub(crate) fn add_to(all: &mut OnCard) {
    all.add("steps_of_modes_that_stream", steps_that_stream);
    all.add("modes_of_any_size_of_rhs", any_size_of_rhs);
    all.add("modes_of_any_size_of_matrix", any_size_of_matrix);
}

const NORM: Scalar = Scalar::new(0);

/// Shapes with enough columns to stream, few layers and many, even and odd, with padding and without.
const SHAPES: [[usize; 3]; 5] = [[130, 128, 1], [129, 131, 2], [131, 127, 3], [144, 127, 33], [260, 66, 20]];

/// Returns u and ‖f − A u‖² after expansion from zero and some sweeps, and after the same from that u.
fn expand_and_sweep<B: Supports<TensorProduct>>(
    backend: &B,
    stencil: &TensorProduct,
    first: Colour,
    sweeps: usize,
) -> Vec<(Vec<f64>, f64)> {
    let shape = stencil.shape();
    let count = shape.nz.min(3);
    let options = SolverOptions {
        modes: ModesOptions { count: Count::Given(count), ..ModesOptions::default() },
        ..SolverOptions::default()
    };
    let operator = backend.operator::<f64>(stencil).unwrap();
    let modes = backend.modes::<f64, f32>(stencil, &operator, &options, 1e-5).unwrap().unwrap();
    let (layout, modal) = (backend.layout(stencil).unwrap(), *modes.transfer.modal_layout());
    let (f, mut scratch) = (vector(backend, &layout, &noise(shape.cells(), 1)), backend.zeros(&layout).unwrap());
    // The content of u must not matter.
    let mut u = vector(backend, &layout, &vec![f64::NAN; shape.cells()]);
    let x = vector(backend, &modal, &noise(modal.shape().cells(), 2));
    let mut g = backend.zeros::<f32>(&modal).unwrap();
    let mut scalars = backend.scalars().unwrap();
    let relaxation = Relaxation { smoother: Smoother::LineRedBlack, rho: 1.0, first, returns: false };
    modes.transfer.project_rhs(&f, &mut g, &mut u, NORM.of(&mut scalars)).unwrap();
    [Guess::Zero, Guess::Given]
        .map(|guess| {
            let expansion = Expansion { x: &x, guess, relaxation, sweeps };
            modes.transfer.expand_smooth_norm(&expansion, &f, [&mut u, &mut scratch], NORM.of(&mut scalars)).unwrap();
            (fetch(backend, &u, shape), backend.read(&scalars).unwrap()[NORM.index()])
        })
        .into()
}

/// Compares the steps with one sweep to four, of either colour first, with the reference's, to single precision.
fn steps_that_stream(cuda: &Cuda) {
    for [nx, ny, nz] in SHAPES {
        let stencil = helmholtz(nx, ny, nz).stencil().unwrap();
        for (first, sweeps) in [(Colour::Red, 1), (Colour::Red, 2), (Colour::Black, 2), (Colour::Red, 4)] {
            let found = expand_and_sweep(cuda, &stencil, first, sweeps);
            let expected = expand_and_sweep(&Reference, &stencil, first, sweeps);
            for ((u, norm), (v, expected)) in found.iter().zip(&expected) {
                let largest = v.iter().fold(0f64, |most, v| most.max(v.abs()));
                let off = u.iter().zip(v).fold(0f64, |most, (u, v)| most.max((u - v).abs()));
                let what = format!("{nx}×{ny}×{nz}, {first:?}, {sweeps} sweeps");
                assert!(off <= 2e-6 * largest && u.iter().all(|u| u.is_finite()), "{what}: {off:e} of {largest:e}");
                assert!((norm - expected).abs() <= 1e-4 * expected.max(1e-10), "{what}: {norm:e}, not {expected:e}");
            }
        }
    }
}

/// Checks right-hand sides within and beyond the range of single precision: as many iterations as the reference's, and the same
/// solution times a factor; also from a first guess.
fn any_size_of_rhs(cuda: &Cuda) {
    for [nx, ny, nz] in [[131, 127, 3], [144, 127, 33]] {
        let stencil = helmholtz(nx, ny, nz).stencil().unwrap();
        let shape = stencil.shape();
        let all = [(Precision::F64, 1e-5, false), (Precision::Mixed, 1e-5, true), (Precision::F64, 1e-10, false)];
        for (precision, tolerance, is_constant) in all {
            let modes = ModesOptions { sweeps: Count::Given(3), ..ModesOptions::default() };
            let options =
                SolverOptions { method: Method::Modes, precision, tolerance, modes, ..SolverOptions::default() };
            let solve = |system: &mut dyn Solve<TensorProduct>, factor: f64, guess: Option<&[f64]>| {
                let entry = |n| if is_constant { 1.0 } else { random(5, n) };
                let b: Vec<f64> = (0..shape.cells()).map(|n| factor * entry(n)).collect();
                let mut u = guess.map_or_else(|| vec![f64::NAN; b.len()], <[f64]>::to_vec);
                let guess = if guess.is_some() { Guess::Given } else { Guess::Zero };
                let outcome = solve_again(system, shape, &b, &mut u, guess).unwrap();
                assert!(outcome.converged(), "{factor:e}, {options:?}: {outcome:?}");
                (u, outcome.iterations)
            };
            let (expected, iterations) = solve(&mut System::new(&Reference, &stencil, &options).unwrap(), 1.0, None);
            let largest = expected.iter().fold(0f64, |most, v| most.max(v.abs()));
            let mut system = System::new(cuda, &stencil, &options).unwrap();
            for factor in [1.0, 1e-30, 1e-42, 1e35, 1e-200, 1e200] {
                let (u, count) = solve(&mut system, factor, None);
                assert!(count.abs_diff(iterations) <= 1, "{factor:e}: {count} iterations, not {iterations}");
                for (u, v) in u.iter().zip(&expected) {
                    assert!(
                        (u / factor - v).abs() <= 20.0 * tolerance * largest,
                        "{factor:e}: {u:e}, not {v:e} times that"
                    );
                }
            }
            let doubled: Vec<f64> = expected.iter().map(|v| 2.0 * v).collect();
            let (again, _) = solve(&mut system, 1.0, Some(&doubled));
            assert!(again.iter().zip(&expected).all(|(u, v)| (u - v).abs() <= 20.0 * tolerance * largest));
        }
    }
}

/// Checks layers whose entries are beyond single precision: the sweeps are then in double precision.
fn any_size_of_matrix(cuda: &Cuda) {
    let usual = helmholtz(144, 127, 33).stencil().unwrap();
    let shape = usual.shape();
    let b = noise(shape.cells(), 6);
    let modes = ModesOptions { sweeps: Count::Given(3), ..ModesOptions::default() };
    let options = SolverOptions { method: Method::Modes, tolerance: 1e-5, modes, ..SolverOptions::default() };
    let solve = |factor: f64| {
        let VerticalProfile { a, b: up, c: down, d } = usual.vertical();
        let [a, up, down, d] = [a, up, down, d].map(|v| v.iter().map(|v| factor * v).collect());
        let profile = VerticalProfile::new(a, up, down, d).unwrap();
        let stencil = TensorProduct::new(profile, usual.horizontal().clone()).unwrap();
        let (outcome, u) = arrays::solve(cuda, &stencil, &options, &b);
        assert!(outcome.converged() && outcome.iterations <= 3, "{factor:e}: {outcome:?}");
        u
    };
    let expected = solve(1.0);
    let largest = expected.iter().fold(0f64, |most, v| most.max(v.abs()));
    for factor in [1e-50, 1e50] {
        let u = solve(factor);
        assert!(u.iter().zip(&expected).all(|(u, v)| (u * factor - v).abs() <= 1e-3 * largest), "{factor:e}");
    }
}
