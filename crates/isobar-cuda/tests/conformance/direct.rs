//! Direct solves between arrays in the memory of the GPU, and of problems whose coefficients are there.

use isobar_core::conformance::arrays::{distance, noise, norm, residual, solve_by, without_mean};
use isobar_core::prelude::*;
use isobar_core::problem::Well;
use isobar_cuda::Cuda;
use isobar_cuda::problem::DeviceProblem;

use super::common::OnCard;
use super::problem::OnGpu;

pub(crate) fn add_to(all: &mut OnCard) {
    all.add("direct_solves_between_arrays_on_the_card", between_arrays);
    all.add("direct_solves_of_problems_on_the_card", of_problems);
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
    let on_gpu = |values: &[f64]| OnGpu::<f64>::new(cuda, shape, [1, shape.nx, shape.nx * shape.ny], values);
    let (from, to) = (on_gpu(b), on_gpu(&vec![f64::NAN; b.len()]));
    let told = match system.solve(from.array.into(), to.array.into(), Guess::Zero, &mut ignore) {
        Ok(outcome) if outcome.converged() => Ok(outcome.iterations),
        Ok(outcome) => Err(format!("{outcome:?}")),
        Err(error) => Err(error.to_string()),
    };
    (to.read(), told)
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
                let balanced = if is_singular { without_mean(unbalanced.clone()) } else { unbalanced.clone() };
                let check = |u: &[f64], what: &str| {
                    let left = residual(&stencil, &balanced, u);
                    assert!(left < 1e-10, "{what}: {left:e}");
                    let mean = u.iter().sum::<f64>() / u.len() as f64;
                    assert!(!is_singular || mean.abs() < 1e-12 * norm(u), "{what}: mean {mean:e}");
                };
                let (u, told) = solve(cuda, &mut system, shape, &balanced);
                assert_eq!(told, Ok(1), "{what}");
                check(&u, &what);
                // The solve of host arrays, for comparison.
                let (_, other) = solve_by(&mut system, shape, &balanced);
                let apart = distance(&other, &u);
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

/// The matrix of a problem whose coefficients are on the GPU is solved directly where that of the same ones on the host is.
fn of_problems(cuda: &Cuda) {
    let shape = Shape::new(13, 10, 9);
    let cells = |of: &dyn Fn(usize) -> f64| (0..shape.cells()).map(|n| of(n / (13 * 10))).collect::<Vec<f64>>();
    let problem = |kappa: Vec<f64>, reaction: Vec<f64>| {
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
        problem.boundary[0] = [Boundary::Periodic; 2];
        problem.boundary[2][1] = Boundary::Dirichlet(1.0);
        problem.reaction = Some(reaction);
        problem
    };
    let even = || vec![2.0; shape.cells()];
    let mut films = problem(even(), cells(&|_| 0.7));
    films.boundary[1] = [0.5, 30.0].map(|coefficient| Boundary::Robin { coefficient, value: 1.0 });
    let mut well = problem(even(), cells(&|_| 0.7));
    well.wells = vec![Well { i: 2, j: 1, k: [0, 8], value: 1.5, radius: 1e-3 }];
    let rough = noise(shape.cells(), 4).into_iter().map(|value| 1.5 + value).collect::<Vec<f64>>();
    let device = |host: &DiffusionProblem| {
        let given = [Some(host.coefficient.along(Axis::X)), host.reaction.as_deref()];
        let [kappa, reaction] = given.map(|values| OnGpu::<f64>::new(cuda, shape, [90, 9, 1], values.unwrap()));
        let form = DiffusionProblem { coefficient: Coefficient::Isotropic(Vec::new()), reaction: None, ..host.clone() };
        DeviceProblem::new(cuda, form, &[kappa.array], Some(&reaction.array)).unwrap().stencil().unwrap()
    };
    for (name, host, is_known, is_direct) in [
        ("one reaction", problem(even(), cells(&|_| 0.7)), true, true),
        ("layers of it", problem(even(), cells(&|k| 0.1 * k as f64)), true, true),
        ("films", films, true, true),
        ("waves", problem(even(), cells(&|_| -0.9)), true, true),
        ("waves in layers", problem(cells(&|k| 1.0 + 0.2 * k as f64), cells(&|_| -0.9)), false, true),
        ("a well", well, false, false),
        ("a rough reaction", problem(even(), rough.clone()), false, false),
        ("rough", problem(rough.clone(), cells(&|_| 0.7)), false, false),
    ] {
        let (matrix, stencil) = (device(&host), host.stencil().unwrap());
        assert_eq!((matrix.has_rows(), matrix.is_definite()), (is_known, stencil.is_definite()), "{name}");
        let options = SolverOptions { tolerance: 1e-9, norm: Norm::Rhs, ..SolverOptions::default() };
        let mut system = System::new(cuda, &matrix, &options).unwrap();
        let expected = System::new(cuda, &stencil, &options).unwrap();
        let methods = [system.description(), expected.description()].map(|description| description.method == "direct");
        assert_eq!(methods, [is_direct; 2], "{name}");
        let b = noise(shape.cells(), 5);
        let check = |system: &mut System<Cuda, Diffusion>, stencil: &Diffusion| {
            let (outcome, u) = solve_by(system, shape, &b);
            assert!(outcome.converged() && residual(stencil, &b, &u) < 1e-8, "{name}: {outcome:?}");
        };
        check(&mut system, &stencil);
        // To a matrix that is not separable.
        let other = DiffusionProblem { reaction: Some(rough.clone()), ..host.clone() };
        system.update(&device(&other)).unwrap();
        check(&mut system, &other.stencil().unwrap());
    }
    let wave = device(&problem(rough, cells(&|_| -0.9)));
    let message = System::new(cuda, &wave, &SolverOptions::default()).err().unwrap().to_string();
    assert!(message.contains("negative in cell (i, j, k) = (0, 0, 0)"), "{message}");
}
