//! Steps of the heat equation that have nothing, or little, left to reduce.

use isobar_core::prelude::*;

use crate::heat::{MIC, options, run, solver, state, stepper};

#[test]
fn a_steady_state_stays() {
    let shape = Shape::new(6, 5, 4);
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
    problem.boundary[0] = [Boundary::Dirichlet(1.0), Boundary::Dirichlet(1.0)];
    let heat = Heat::in_cells(&problem, None).unwrap();
    let options = options(0.1, 30.0, Scheme::BackwardEuler);
    let mut stepper = stepper(&heat, options, &solver(MIC, 1e-8), &vec![0.0; shape.cells()]);
    run(&mut stepper, 300);
    assert!(state(&mut stepper, shape).iter().all(|u| (u - 1.0).abs() < 1e-12));
}

/// Near its end a run leaves residuals at the level of rounding: of the right-hand side in direct solves, of A u in long steps on thin grids.
#[test]
fn a_run_reaches_its_steady_state() {
    let long = Shape::new(2, 512, 1);
    let rough = (0..long.cells()).map(|n| (6.0 * random(9, n)).exp()).collect();
    for (shape, kappa, solver) in [
        (Shape::new(32, 1, 1), vec![1.0; 32], SolverOptions { tolerance: 1e-8, ..SolverOptions::default() }),
        (long, rough, solver(MIC, 1e-8)),
    ] {
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
        problem.spacing = [0; 3].map(|_| Spacing::Uniform(1.0 / shape.ny.max(shape.nx) as f64));
        problem.boundary[0] = [Boundary::Dirichlet(1.0); 2];
        let heat = Heat::in_cells(&problem, None).unwrap();
        let options = options(1.0, 60.0, Scheme::BackwardEuler);
        let mut stepper = stepper(&heat, options, &solver, &vec![0.0; shape.cells()]);
        let iterations = run(&mut stepper, 60);
        assert!(iterations[59] <= 1, "{iterations:?}");
        let error = state(&mut stepper, shape).iter().map(|u| (u - 1.0).abs()).fold(0.0, f64::max);
        assert!(error < 1e-9, "{error:e} {iterations:?}");
    }
}

/// A wall that conducts 10¹¹ times as well makes b as large: a residual that is rounding beside it moves the rest.
#[test]
fn a_strong_wall_does_not_hold_the_state() {
    let shape = Shape::new(20, 1, 1);
    let mut kappa = vec![1.0; 20];
    kappa[0] = 1e11;
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
    problem.boundary[0] = [Boundary::Dirichlet(100.0), Boundary::Dirichlet(0.0)];
    let heat = Heat::in_cells(&problem, None).unwrap();
    for solver in [SolverOptions { tolerance: 1e-8, ..SolverOptions::default() }, solver(MIC, 1e-8)] {
        let options = options(20.0, 4000.0, Scheme::BackwardEuler);
        let mut stepper = stepper(&heat, options, &solver, &[0.0; 20]);
        run(&mut stepper, 200);
        let found = state(&mut stepper, shape);
        for (i, u) in found.iter().enumerate() {
            let exact = 100.0 * (19.5 - i as f64) / 19.0;
            let exact = if i == 0 { 100.0 } else { exact };
            assert!((u - exact).abs() < 1e-2, "{i}: {u} instead of {exact}");
        }
    }
}

/// Squares of a large state overflow; it is stepped like a small one.
#[test]
fn large_states_are_stepped() {
    let shape = Shape::new(20, 1, 1);
    let after = |size: f64| {
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; 20]));
        problem.boundary[0] = [Boundary::Dirichlet(100.0 * size), Boundary::Dirichlet(0.0)];
        let heat = Heat::in_cells(&problem, None).unwrap();
        let solver = SolverOptions { tolerance: 1e-8, ..SolverOptions::default() };
        let mut stepper = stepper(&heat, options(0.05, 0.25, Scheme::BackwardEuler), &solver, &[50.0 * size; 20]);
        run(&mut stepper, 5);
        state(&mut stepper, shape)
    };
    let small = after(1.0);
    assert!((small[0] - 50.0).abs() > 1.0);
    assert!(after(1e160).iter().zip(&small).all(|(large, small)| (large * 1e-160 - small).abs() < 1e-6));
}

/// Long steps at a steady state beside a strong wall have residuals at rounding, from which an iteration may rise: they are taken.
#[test]
fn steps_at_a_steady_state_are_taken() {
    let shape = Shape::new(7, 3, 1);
    let kappa = shape.places().map(|[i, ..]| if i < 2 { 1e6 } else { 1.0 }).collect();
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
    problem.boundary[0][0] = Boundary::Dirichlet(1.0);
    problem.boundary[1][1] = Boundary::Dirichlet(1e5);
    let heat = Heat::in_cells(&problem, None).unwrap();
    for method in [Method::Auto, Method::Multigrid] {
        let solver = SolverOptions { method, tolerance: 1e-8, ..SolverOptions::default() };
        let mut stepper = stepper(&heat, options(1e3, 6e4, Scheme::BackwardEuler), &solver, &[50.0; 21]);
        run(&mut stepper, 60);
    }
}
