//! Direct solves between arrays in the memory of the GPU.

use cudarc::driver::result;
use isobar_core::conformance::arrays::solve_by;
use isobar_core::prelude::*;
use isobar_cuda::Cuda;

use super::common::OnCard;

pub(crate) fn add_to(all: &mut OnCard) {
    all.add("direct_solves_between_arrays_on_the_card", between_arrays);
}

fn stencil(shape: Shape, side: Boundary, stretching: f64) -> Diffusion {
    let spacing = [shape.nx, shape.ny, shape.nz]
        .map(|n| Spacing::Given((0..n).map(|i| stretching.powf(i as f64 / n as f64)).collect()));
    let even = Coefficient::Isotropic(vec![1.0; shape.cells()]);
    DiffusionProblem { boundary: [[side; 2]; 3], spacing, ..DiffusionProblem::new(shape, even) }.stencil().unwrap()
}

/// Solves into an array of NaN, and returns that with the error or the number of iterations.
fn solve(
    cuda: &Cuda,
    system: &mut System<Cuda, Diffusion>,
    shape: Shape,
    b: &[f64],
) -> (Vec<f64>, Result<usize, String>) {
    let mut u = vec![f64::NAN; b.len()];
    let bytes = size_of_val(b);
    cuda.synchronize().unwrap();
    // SAFETY: the back end has made its context current on this thread; both allocations are of that size.
    let (arrays, pointers) = unsafe {
        let pointers = [result::malloc_sync(bytes).unwrap(), result::malloc_sync(bytes).unwrap()];
        result::memcpy_htod_sync(pointers[0], b).unwrap();
        result::memcpy_htod_sync(pointers[1], &u).unwrap();
        // Such a copy may still be pending, and other streams do not wait for it.
        result::ctx::synchronize().unwrap();
        (pointers.map(|pointer| DeviceArray::c_order::<f64>(pointer, shape, cuda.ordinal())), pointers)
    };
    let [from, to] = arrays;
    let outcome = system.solve(from.into(), to.into(), Guess::Zero, &mut ignore);
    // SAFETY: as above; `solve` has waited for the GPU. Freed once.
    unsafe {
        result::memcpy_dtoh_sync(&mut u, pointers[1]).unwrap();
        pointers.into_iter().for_each(|pointer| result::free_sync(pointer).unwrap());
    }
    let told = match outcome {
        Ok(outcome) if outcome.converged() => Ok(outcome.iterations),
        Ok(outcome) => Err(format!("{outcome:?}")),
        Err(error) => Err(error.to_string()),
    };
    (u, told)
}

fn norm(x: impl Iterator<Item = f64>) -> f64 {
    x.map(|x| x * x).sum::<f64>().sqrt()
}

fn between_arrays(cuda: &Cuda) {
    for (nx, ny, nz) in [(32, 20, 14), (66, 34, 9), (1, 12, 5), (65, 1, 1)] {
        for (side, is_singular) in
            [(Boundary::Dirichlet(0.0), false), (Boundary::Neumann(0.0), true), (Boundary::Periodic, true)]
        {
            if side == Boundary::Periodic && [nx, ny].iter().any(|n| n % 2 == 1) {
                continue;
            }
            for stretching in [1.0, 50.0] {
                let shape = Shape::new(nx, ny, nz);
                let what = format!("{shape} {side:?} {stretching}");
                let stencil = stencil(shape, side, stretching);
                let options = SolverOptions {
                    method: Method::Direct,
                    tolerance: 1e-10,
                    norm: Norm::Rhs,
                    ..SolverOptions::default()
                };
                let mut system = System::new(cuda, &stencil, &options).unwrap();
                let unbalanced: Vec<f64> = (0..shape.cells()).map(|n| random(4, n) + 0.3).collect();
                let mean = unbalanced.iter().sum::<f64>() / unbalanced.len() as f64;
                let balanced: Vec<f64> = unbalanced.iter().map(|b| b - if is_singular { mean } else { 0.0 }).collect();
                let check = |u: &[f64], what: &str| {
                    let left = norm(stencil.times(u).iter().zip(&balanced).map(|(a, b)| b - a))
                        / norm(balanced.iter().copied());
                    assert!(left < 1e-10, "{what}: {left:e}");
                    let mean = u.iter().sum::<f64>() / u.len() as f64;
                    assert!(!is_singular || mean.abs() < 1e-12 * norm(u.iter().copied()), "{what}: mean {mean:e}");
                };
                let (u, told) = solve(cuda, &mut system, shape, &balanced);
                assert_eq!(told, Ok(1), "{what}");
                check(&u, &what);
                // The solve of host arrays, for comparison.
                let (_, other) = solve_by(&mut system, shape, &balanced);
                let apart = norm(u.iter().zip(&other).map(|(a, b)| a - b)) / norm(u.iter().copied());
                assert!(apart < 1e-9, "{what}: {apart:e}");
                if is_singular {
                    let (_, told) = solve(cuda, &mut system, shape, &unbalanced);
                    assert!(told.as_ref().is_err_and(|error| error.contains("has no solution")), "{what}: {told:?}");
                    let options = SolverOptions { compatibility: Compatibility::Project, ..options };
                    let mut system = System::new(cuda, &stencil, &options).unwrap();
                    let (u, told) = solve(cuda, &mut system, shape, &unbalanced);
                    assert_eq!(told, Ok(1), "{what}");
                    check(&u, &what);
                }
                let mut poisoned = balanced.clone();
                poisoned[shape.cells() / 2] = f64::NAN;
                let (_, told) = solve(cuda, &mut system, shape, &poisoned);
                assert!(told.is_err(), "{what}: {told:?}");
                let (u, told) = solve(cuda, &mut system, shape, &balanced);
                assert_eq!(told, Ok(1), "{what}, after a NaN");
                check(&u, &what);
            }
        }
    }
}
