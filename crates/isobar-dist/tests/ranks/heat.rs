//! Time steps on several ranks.

use std::sync::Arc;

use isobar_core::conformance::arrays::cg;
use isobar_core::prelude::*;
use isobar_cpu::Cpu;
use isobar_dist::{join, threads};

use crate::cpu;
use crate::planes::crossing;
use crate::rocks::rough;
use crate::solves::distance;

/// Returns the iterations of every step, the last state, of which a rank has its own rows, and the energy.
fn run<B: Supports<Diffusion>>(
    backend: &B,
    heat: &Heat,
    options: HeatOptions,
    solver: &SolverOptions,
    first: &[f64],
) -> isobar_core::error::Result<(Vec<usize>, Vec<f64>, f64)> {
    let shape = heat.shape();
    let mut stepper = HeatStepper::new(backend, heat.clone(), options, solver)?;
    stepper.set(ArrayView::c_order(first, shape)?.into(), None, 0)?;
    let mut iterations = Vec::new();
    while !stepper.is_finished() {
        let step = stepper.step(&mut ignore)?;
        assert!(step.is_taken, "{step:?}");
        iterations.push(step.iterations);
    }
    let mut u = vec![0.0; shape.cells()];
    stepper.read(ArrayViewMut::c_order(&mut u, shape)?.into())?;
    Ok((iterations, u, stepper.energy()?))
}

#[test]
fn steps_are_those_of_one_rank() {
    let plain = Heat::unit_box(Shape::new(8, 14, 6)).unwrap();
    let mut rock = rough(Shape::new(9, 13, 5));
    rock.spacing[2] = Spacing::Given(vec![0.1, 0.2, 0.3, 0.2, 0.1]);
    rock.boundary[0] = [Boundary::Dirichlet(0.3), Boundary::Neumann(0.1)];
    let rock = Heat::in_cells(&rock, None).unwrap();
    let solvers =
        [Preconditioner::Line, Preconditioner::Auto].map(|kind| SolverOptions { tolerance: 1e-9, ..cg(kind) });
    let ring = |ny: usize| {
        let mut ring = rough(Shape::new(8, ny, 4));
        ring.boundary[1] = [Boundary::Periodic; 2];
        Heat::in_cells(&ring, None).unwrap()
    };
    let plane = Heat::in_cells(&crossing(Shape::new(17, 14, 1)), None).unwrap();
    let problems = [plain, rock, ring(14), ring(13), plane];
    for ((n, heat), solver) in
        problems.iter().enumerate().flat_map(|heat| solvers.iter().map(move |solver| (heat, solver)))
    {
        let first = heat.sine([1.0; 3]);
        let kinds = [
            (Scheme::CrankNicolson, StepGuess::Extrapolated, None),
            (Scheme::BackwardEuler, StepGuess::Ones, None),
            (Scheme::CrankNicolson, StepGuess::Previous, Some(1e-3)),
        ];
        for (scheme, guess, error) in kinds {
            let options = HeatOptions { steps: Steps::new(2e-3, 1e-2).unwrap(), error, scheme, guess };
            let (alone, u, energy) = run(&cpu(None), heat, options, solver, &first).unwrap();
            for ranks in [1, 2, 3, 6] {
                let what = format!("problem {n}, {:?}, {scheme:?}, {guess:?} on {ranks} ranks", solver.preconditioner);
                let shape = heat.shape();
                let parts = threads::run(ranks, |world| {
                    let backend = join(Cpu::new(1)?, Arc::new(world));
                    Ok((backend.own_rows(shape)?, run(&backend, heat, options, solver, &first)?))
                });
                let mut together = vec![f64::NAN; shape.cells()];
                for (rows, (counts, v, found)) in parts.unwrap() {
                    assert_eq!(counts.len(), alone.len(), "{what}");
                    // Rounding may change the count of a long solve by one.
                    assert!(
                        counts.iter().zip(&alone).all(|(a, b)| a.abs_diff(*b) <= 3),
                        "{what}: {counts:?} {alone:?}"
                    );
                    assert!((found - energy).abs() <= 1e-6 * energy.abs(), "{what}: {found:e} {energy:e}");
                    for (at, value) in v.into_iter().enumerate() {
                        if (rows.first..rows.beyond).contains(&(at / shape.nx % shape.ny)) {
                            together[at] = value;
                        }
                    }
                }
                let error = distance(&together, &u);
                // Adaptive step lengths differ by rounding too.
                let tolerance = if options.error.is_some() { 1e-5 } else { 1e-7 };
                assert!(error < tolerance, "{what}: {error:e}");
            }
        }
    }
}
