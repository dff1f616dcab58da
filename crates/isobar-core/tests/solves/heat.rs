//! The heat equation, compared with its discrete closed form: orders in time and space, energy, paper E's counts.

use std::f64::consts::PI;

use isobar_core::conformance::arrays::noise;
use isobar_core::prelude::*;
use isobar_core::problem::{Spacing, materials};

pub(crate) const MIC: Preconditioner = Preconditioner::Mic { relaxation: 1.0, block: None };

pub(crate) fn solver(preconditioner: Preconditioner, tolerance: f64) -> SolverOptions {
    SolverOptions { method: Method::Cg, preconditioner, tolerance, ..SolverOptions::default() }
}

pub(crate) fn options(dt: f64, end: f64, scheme: Scheme) -> HeatOptions {
    HeatOptions { steps: Steps::new(dt, end).unwrap(), error: None, scheme, guess: StepGuess::Previous }
}

/// Makes a stepper that begins with a state.
pub(crate) fn stepper(
    heat: &Heat,
    options: HeatOptions,
    solver: &SolverOptions,
    state: &[f64],
) -> HeatStepper<Reference> {
    let mut stepper = HeatStepper::new(&Reference, heat.clone(), options, solver).unwrap();
    stepper.set(ArrayView::c_order(state, heat.shape()).unwrap().into(), None, 0).unwrap();
    stepper
}

pub(crate) fn state(stepper: &mut HeatStepper<Reference>, shape: Shape) -> Vec<f64> {
    let mut values = vec![0.0; shape.cells()];
    stepper.read(ArrayViewMut::c_order(&mut values, shape).unwrap().into()).unwrap();
    values
}

/// Takes all steps and returns the iterations of each.
pub(crate) fn run(stepper: &mut HeatStepper<Reference>, steps: usize) -> Vec<usize> {
    let step = |_| {
        let step = stepper.step(&mut ignore).unwrap();
        assert!(step.is_taken, "{step:?}");
        step.outcome.iterations
    };
    (0..steps).map(step).collect()
}

/// Returns the factor by which a step multiplies the sine, for n points a direction.
fn growth(shape: Shape, dt: f64, scheme: Scheme) -> f64 {
    let of = |n: usize| {
        let h = 1.0 / (n + 1) as f64;
        if n == 1 { 0.0 } else { 4.0 / (h * h) * (PI * h / 2.0).sin().powi(2) }
    };
    let lambda = dt * (of(shape.nx) + of(shape.ny) + of(shape.nz));
    match scheme {
        Scheme::CrankNicolson => (1.0 - 0.5 * lambda) / (1.0 + 0.5 * lambda),
        Scheme::BackwardEuler => 1.0 / (1.0 + lambda),
    }
}

#[test]
fn the_factor_is_that_of_the_formulas() {
    let g = growth(Shape::new(50, 50, 50), 1e-3, Scheme::CrankNicolson);
    assert!((g - 0.970_832_223_4).abs() < 1e-10);
}

#[test]
fn a_hundred_steps_agree_with_the_closed_form() {
    for (shape, preconditioner) in [
        (Shape::new(9, 6, 7), MIC),
        (Shape::new(8, 11, 5), Preconditioner::Ic { block: None }),
        (Shape::new(12, 7, 1), Preconditioner::SsorAi),
        (Shape::new(17, 1, 1), Preconditioner::Line),
        (Shape::new(5, 4, 6), Preconditioner::Multigrid),
    ] {
        let heat = Heat::unit_box(shape).unwrap();
        let initial = heat.sine([1.0; 3]);
        for scheme in [Scheme::CrankNicolson, Scheme::BackwardEuler] {
            for guess in [StepGuess::Previous, StepGuess::Extrapolated, StepGuess::Ones] {
                let options = HeatOptions { guess, ..options(1e-3, 0.1, scheme) };
                let mut stepper = stepper(&heat, options, &solver(preconditioner, 1e-13), &initial);
                run(&mut stepper, 100);
                let factor = growth(shape, 1e-3, scheme).powi(100);
                for (found, initial) in state(&mut stepper, shape).iter().zip(&initial) {
                    assert!((found - factor * initial).abs() < 1e-10, "{shape} {scheme:?} {guess:?}: {found}");
                }
            }
        }
    }
}

#[test]
fn a_short_last_step_ends_at_the_end() {
    let shape = Shape::new(6, 5, 4);
    let heat = Heat::unit_box(shape).unwrap();
    let initial = heat.sine([1.0; 3]);
    let options = options(3e-3, 0.01, Scheme::CrankNicolson);
    let mut stepper = stepper(&heat, options, &solver(MIC, 1e-13), &initial);
    run(&mut stepper, 4);
    let factor = growth(shape, 3e-3, options.scheme).powi(3) * growth(shape, 1e-3, options.scheme);
    for (found, initial) in state(&mut stepper, shape).iter().zip(&initial) {
        assert!((found - factor * initial).abs() < 1e-11);
    }
    assert!(stepper.step(&mut ignore).is_err());
}

/// Returns the part of cos πx sin πy in the state at t = 0.1 that grows from 0 with κ = 1 + x/2 and a source that makes it the steady state.
fn grown(n: usize, dt: f64, scheme: Scheme) -> f64 {
    let shape = Shape::new(n, n, 1);
    let h = 1.0 / n as f64;
    let at = |m: usize| (m as f64 + 0.5) * h;
    let cells = || (0..n).flat_map(move |j| (0..n).map(move |i| (at(i), at(j))));
    let kappa = |x: f64| 1.0 + 0.5 * x;
    let space = |x: f64, y: f64| (PI * x).cos() * (PI * y).sin();
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(cells().map(|(x, _)| kappa(x)).collect()));
    problem.spacing[2] = Spacing::Uniform(1.0);
    problem.boundary[1] = [Boundary::Dirichlet(0.0); 2];
    // −∇·(κ∇v), v = cos πx sin πy
    let minus_div =
        |x: f64, y: f64| 2.0 * PI * PI * kappa(x) * space(x, y) + 0.5 * PI * (PI * x).sin() * (PI * y).sin();
    let body = cells().map(|(x, y)| minus_div(x, y)).collect();
    let heat = Heat::in_cells(&problem, Some(body)).unwrap();
    let end = 0.1;
    let mut stepper = stepper(&heat, options(dt, end, scheme), &solver(MIC, 1e-12), &vec![0.0; shape.cells()]);
    run(&mut stepper, Steps::new(dt, end).unwrap().count());
    let u = state(&mut stepper, shape);
    let sum: f64 = u.iter().zip(cells()).map(|(u, (x, y))| u * space(x, y)).sum();
    sum * 4.0 * h * h
}

#[test]
fn second_order_in_time_and_first() {
    for (scheme, order) in [(Scheme::CrankNicolson, 2.0), (Scheme::BackwardEuler, 1.0)] {
        let fine = grown(8, 1e-4, scheme);
        let exact = if scheme == Scheme::CrankNicolson { fine } else { grown(8, 1e-4, Scheme::CrankNicolson) };
        let errors = [0.01, 0.005, 0.0025].map(|dt| (grown(8, dt, scheme) - exact).abs());
        for pair in errors.windows(2) {
            let found = (pair[0] / pair[1]).log2();
            assert!((found - order).abs() < 0.15, "{scheme:?}: {errors:?}");
        }
    }
}

#[test]
fn second_order_in_space() {
    // The continuous solution for the sine, with negligible time steps.
    let errors = [7, 15, 31].map(|n| {
        let g = growth(Shape::new(n, n, n), 1e-5, Scheme::CrankNicolson).powi(1000);
        (3.0 * g - 3.0 * (-3.0 * PI * PI * 0.01_f64).exp()).abs()
    });
    assert!(errors.windows(2).all(|pair| ((pair[0] / pair[1]).log2() - 2.0).abs() < 0.1), "{errors:?}");
    // With a variable coefficient in cells, values at a late time converge at second order.
    let values = [8, 16, 32].map(|n| grown(n, 0.005, Scheme::CrankNicolson));
    let order = ((values[0] - values[1]) / (values[1] - values[2])).abs().log2();
    assert!((order - 2.0).abs() < 0.2, "{values:?}: order {order}");
}

#[test]
fn energy_never_grows_without_a_source() {
    for (seed, scheme) in [(1, Scheme::CrankNicolson), (2, Scheme::CrankNicolson), (3, Scheme::BackwardEuler)] {
        let shape = Shape::new(9, 8, 7);
        let kappa = (0..shape.cells()).map(|n| 10f64.powf(3.0 * random(seed, n))).collect();
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
        problem.boundary[0] = [Boundary::Dirichlet(0.0), Boundary::Neumann(0.0)];
        problem.spacing[2] = Spacing::Given((0..7).map(|k| 0.1 + 0.02 * k as f64).collect());
        let heat = Heat::in_cells(&problem, None).unwrap();
        let initial: Vec<f64> = (0..shape.cells()).map(|n| random(seed + 10, n)).collect();
        let mut stepper = stepper(&heat, options(1e-2, 0.5, scheme), &solver(MIC, 1e-12), &initial);
        let mut before = stepper.energy().unwrap();
        let first = before;
        for _ in 0..50 {
            run(&mut stepper, 1);
            let energy = stepper.energy().unwrap();
            assert!(energy <= before + 1e-10 * first, "{scheme:?}: {energy} after {before}");
            before = energy;
        }
        assert!(before < 0.5 * first && before >= 0.0);
    }
}

/// Lines solve what thin cells couple strongly, and steps that are too long for them take multigrid.
#[test]
fn steps_in_thin_cells_begin_with_lines() {
    let shape = Shape::new(20, 16, 12);
    let kappa = materials::noise(shape, 0.5, 3).unwrap();
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
    problem.spacing = [1.0, 1.0, 1e-2].map(Spacing::Uniform);
    problem.boundary[0][0] = Boundary::Dirichlet(1.0);
    let heat = Heat::in_cells(&problem, None).unwrap();
    let solver = SolverOptions { tolerance: 1e-8, ..SolverOptions::default() };
    for (dt, begins, ends, most) in [(0.1, "line", "line", 15), (30.0, "none", "multigrid", 60)] {
        let mut stepper = stepper(&heat, options(dt, 4.0 * dt, Scheme::BackwardEuler), &solver, &[0.0; 3840]);
        assert_eq!(stepper.description().preconditioner, begins);
        let iterations = run(&mut stepper, 4);
        assert!(iterations.iter().all(|&count| count <= most), "{iterations:?}");
        assert_eq!(stepper.description().preconditioner, ends);
    }
}

#[test]
fn where_a_factorisation_is_too_weak_multigrid_is_named() {
    let shape = Shape::new(24, 20, 1);
    let heat = bumpy(shape, 0.0, 1.0, false);
    let solver = SolverOptions { max_iterations: 1, ..solver(MIC, 1e-9) };
    let mut stepper = stepper(&heat, options(10.0, 20.0, Scheme::BackwardEuler), &solver, &vec![0.0; shape.cells()]);
    let step = stepper.step(&mut ignore).unwrap();
    assert!(!step.is_taken && step.outcome.advice.as_ref().unwrap().contains("multigrid"), "{step:?}");
}

/// Relative to the right-hand side, rounding does not count as convergence.
#[test]
fn single_precision_makes_no_claim_beyond_it() {
    let shape = Shape::new(8, 6, 1);
    let heat = bumpy(shape, 1.0, 1.0, false);
    let options = options(0.1, 0.3, Scheme::CrankNicolson);
    let solver = SolverOptions { precision: Precision::F32, norm: Norm::Rhs, ..solver(MIC, 1e-12) };
    let mut stepper = stepper(&heat, options, &solver, &vec![0.0; shape.cells()]);
    let step = stepper.step(&mut ignore).unwrap();
    assert!(!step.is_taken && step.outcome.advice.is_some(), "{step:?}");
}

/// Paper E's iterations a step, with first guess 1, on a smaller grid for the reference; the CPU back end has the full one.
#[test]
fn preconditioners_rank_as_in_the_paper() {
    let heat = Heat::unit_box(Shape::new(20, 20, 20)).unwrap();
    let initial = heat.sine([1.0; 3]);
    let counts = [Preconditioner::None, Preconditioner::SsorAi, Preconditioner::Ic { block: None }, MIC].map(|kind| {
        let options = HeatOptions { guess: StepGuess::Ones, ..options(1e-3, 0.1, Scheme::CrankNicolson) };
        run(&mut stepper(&heat, options, &solver(kind, 1e-6), &initial), 1)[0]
    });
    assert!(counts.windows(2).all(|pair| pair[1] < pair[0]), "{counts:?}");
}

/// Adaptive steps: estimates agree with the closed form, stay below what is allowed and not far below, and the end is met.
#[test]
fn steps_of_a_given_error() {
    let shape = Shape::new(9, 6, 7);
    let heat = Heat::unit_box(shape).unwrap();
    let initial = heat.sine([1.0; 3]);
    for (scheme, tolerance) in [(Scheme::CrankNicolson, 1e-5), (Scheme::BackwardEuler, 1e-3)] {
        let options = HeatOptions { error: Some(tolerance), ..options(1e-4, 0.1, scheme) };
        let mut stepper = stepper(&heat, options, &solver(MIC, 1e-13), &initial);
        let (mut errors, mut factor) = (Vec::new(), 1.0);
        while !stepper.is_finished() {
            let step = stepper.step(&mut ignore).unwrap();
            assert!(step.is_taken, "{step:?}");
            // The factor of a solve for the sine.
            let part = if scheme == Scheme::CrankNicolson { 0.5 * step.dt } else { step.dt };
            let solved = growth(shape, part, Scheme::BackwardEuler);
            let expected = match scheme {
                Scheme::CrankNicolson => 2.0 / 3.0 * (1.0 - solved).powi(3),
                Scheme::BackwardEuler => 0.5 * (1.0 - solved).powi(2),
            };
            let found = step.error.unwrap();
            assert!((found - expected).abs() < 1e-6 * expected + 1e-12, "{step:?} {expected}");
            assert!(found <= tolerance);
            errors.push(found);
            factor *= growth(shape, step.dt, scheme);
        }
        assert_eq!(stepper.moment().time, 0.1);
        // Steps that have adapted use the allowed error.
        let late = &errors[errors.len() / 2..errors.len() - 1];
        assert!(late.iter().all(|error| *error > 0.3 * tolerance), "{errors:?}");
        let u = state(&mut stepper, shape);
        assert!(u.iter().zip(&initial).all(|(u, initial)| (u - factor * initial).abs() < 1e-10));
        // The error against the exact solution in time, of the discrete problem in space, agrees with the estimates.
        let rate = (1.0 / growth(shape, 1.0, Scheme::BackwardEuler) - 1.0) * 0.1;
        let error = (factor / (-rate).exp() - 1.0).abs();
        let sum: f64 = errors.iter().sum();
        assert!(error < 1.5 * sum && error > 0.5 * sum, "{scheme:?}: {error} {sum}");
    }
    for error in [0.0, -1.0, f64::NAN, 1.0] {
        let options = HeatOptions { error: Some(error), ..options(1e-4, 0.1, Scheme::CrankNicolson) };
        let refused = HeatStepper::new(&Reference, heat.clone(), options, &solver(MIC, 1e-9));
        assert!(refused.err().unwrap().to_string().contains("heat.step_tolerance"));
    }
}

#[test]
fn steps_of_a_given_error_go_on_bit_for_bit() {
    let shape = Shape::new(7, 6, 5);
    let heat = Heat::unit_box(shape).unwrap();
    let rough = noise(shape.cells(), 3);
    let options = HeatOptions { error: Some(1e-3), ..options(1e-5, 0.01, Scheme::CrankNicolson) };
    let solver = solver(MIC, 1e-8);
    let mut whole = stepper(&heat, options, &solver, &rough);
    run(&mut whole, 6);
    let (half, moment) = (state(&mut whole, shape), whole.moment());
    run(&mut whole, 6);
    let mut rest = stepper(&heat, options, &solver, &half);
    rest.resume(moment);
    run(&mut rest, 6);
    assert_eq!(whole.moment(), rest.moment());
    assert_eq!(state(&mut whole, shape), state(&mut rest, shape));
}

/// Makes κ between `low` and `low` + 1, u = `side` on the west, and an optional source.
fn bumpy(shape: Shape, low: f64, side: f64, has_source: bool) -> Heat {
    let kappa = (0..shape.cells()).map(|n| low + 0.5 + 0.5 * random(7, n)).collect();
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
    problem.boundary[0][0] = Boundary::Dirichlet(side);
    let body = has_source.then(|| (0..shape.cells()).map(|n| random(8, n)).collect());
    Heat::in_cells(&problem, body).unwrap()
}

/// A stepper with new coefficients, boundary values and source continues like one made with them.
#[test]
fn what_changes_between_steps() {
    let shape = Shape::new(7, 6, 5);
    let first = bumpy(shape, 1.0, 0.0, false);
    let others = [bumpy(shape, 3.0, 0.0, false), bumpy(shape, 2.0, 0.5, true), bumpy(shape, 2.0, 0.0, false)];
    let rough = noise(shape.cells(), 3);
    let options = options(1e-3, 1.0, Scheme::CrankNicolson);
    for preconditioner in [MIC, Preconditioner::SsorAi, Preconditioner::Multigrid] {
        let solver = solver(preconditioner, 1e-9);
        let mut changing = stepper(&first, options, &solver, &rough);
        run(&mut changing, 2);
        for other in &others {
            let before = state(&mut changing, shape);
            changing.update(other.clone()).unwrap();
            let counts = run(&mut changing, 2);
            let mut fresh = stepper(other, options, &solver, &before);
            assert_eq!(run(&mut fresh, 2), counts);
            assert_eq!(state(&mut fresh, shape), state(&mut changing, shape), "{preconditioner:?}");
        }
    }
    let mut stepper = stepper(&first, options, &solver(MIC, 1e-9), &rough);
    let refused = stepper.update(Heat::unit_box(Shape::new(7, 6, 4)).unwrap()).unwrap_err();
    assert!(refused.to_string().contains("the new problem"), "{refused}");
    // A refused problem leaves everything as it was, its sources too.
    let mut same = self::stepper(&first, options, &solver(MIC, 1e-9), &rough);
    let mut other = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
    other.boundary[1] = [Boundary::Dirichlet(5.0); 2];
    let other = Heat::in_cells(&other, Some(vec![1.0; shape.cells()])).unwrap();
    assert!(stepper.update(other).unwrap_err().to_string().contains("boundary"));
    run(&mut stepper, 2);
    run(&mut same, 2);
    assert_eq!(state(&mut stepper, shape), state(&mut same, shape));
}

/// Long steps conserve the heat of each insulated component, in single precision too: residuals within the tolerance would let it drift.
#[test]
fn insulated_components_keep_their_heat() {
    let shape = Shape::new(12, 9, 7);
    let wall = |n: usize| n % shape.nx == 5;
    let kappa: Vec<f64> = noise(shape.cells(), 3).iter().map(|x| (2.0 * x).exp()).collect();
    let walled = (0..shape.cells()).map(|n| if wall(n) { 0.0 } else { kappa[n] }).collect();
    let widths = Spacing::Given((0..shape.nx).map(|i| 0.5 + 0.1 * i as f64).collect());
    let initial: Vec<f64> = noise(shape.cells(), 4).iter().map(|x| 1.0 + 0.5 * x).collect();
    let source: Vec<f64> = (0..shape.cells()).map(|n| f64::from(u8::from(n % shape.nx == 8)) * 1e-7).collect();
    for (kappa, spacing) in [(vec![1.0; shape.cells()], Spacing::Uniform(0.25)), (walled, widths)] {
        let problem = DiffusionProblem {
            spacing: [spacing, Spacing::Uniform(0.5), Spacing::Uniform(1.0)],
            ..DiffusionProblem::new(shape, Coefficient::Isotropic(kappa.clone()))
        };
        let (heat, volumes) = (Heat::in_cells(&problem, Some(source.clone())).unwrap(), problem.volumes());
        // East of the wall and west of it.
        let heats = |u: &[f64]| {
            let mut sums = [0.0; 2];
            for n in (0..u.len()).filter(|&n| kappa[n] > 0.0) {
                sums[usize::from(n % shape.nx < 5)] += volumes[n] * u[n];
            }
            sums
        };
        for (precision, tolerance) in [(Precision::F64, 1e-6), (Precision::F32, 1e-4)] {
            for (scheme, dt) in
                [(Scheme::CrankNicolson, 1e7), (Scheme::BackwardEuler, 1e9), (Scheme::CrankNicolson, 1e-2)]
            {
                let solver = SolverOptions { precision, tolerance, ..SolverOptions::default() };
                let mut stepper = stepper(&heat, options(dt, 5.0 * dt, scheme), &solver, &initial);
                run(&mut stepper, 5);
                let (before, after) = (heats(&initial), heats(&state(&mut stepper, shape)));
                let added = heats(&source).map(|rate| 5.0 * dt * rate);
                let off = |n: usize| (after[n] - before[n] - added[n]).abs() / (before[n].abs() + added[n].abs());
                let both = [0, 1].map(|n| after[n] - before[n] - added[n]);
                let whole = both.iter().sum::<f64>().abs() / (before[0] + before[1] + added[0]);
                let worst = if kappa.contains(&0.0) { off(0).max(off(1)) } else { whole };
                assert!(worst <= 1e-9, "{precision} {scheme:?} {dt:e}: {worst:e}");
            }
        }
    }
}

/// So do those beside a component with a fixed side, and those of grids that the solver holds twice; also after an update that joins two.
#[test]
fn insulated_components_of_any_grid_keep_their_heat() {
    let shape = Shape::new(9, 7, 1);
    let at_wall = |n: usize| n % shape.nx == 4;
    let initial: Vec<f64> =
        noise(shape.cells(), 4).iter().enumerate().map(|(n, x)| (1 + n % 9 / 5) as f64 + 0.5 * x).collect();
    let east = |u: &[f64]| (0..u.len()).filter(|n| n % shape.nx > 4).map(|n| u[n]).sum::<f64>();
    let all = |u: &[f64]| u.iter().sum::<f64>();
    let of = |coefficient: Coefficient, boundary: [[Boundary; 2]; 3]| {
        let problem = DiffusionProblem { boundary, ..DiffusionProblem::new(shape, coefficient) };
        Heat::in_cells(&problem, None).unwrap()
    };
    let closed = [[Boundary::Neumann(0.0); 2]; 3];
    let walled: Vec<f64> = (0..shape.cells()).map(|n| if at_wall(n) { 0.0 } else { 1.0 }).collect();
    let fixed_west = [[Boundary::Dirichlet(0.0), Boundary::Neumann(0.0)], closed[1], closed[2]];
    let rings = [[Boundary::Periodic; 2], [Boundary::Periodic; 2], closed[2]];
    let noisy: Vec<f64> = noise(shape.cells(), 9).iter().map(|x| x.exp()).collect();
    let ones = vec![1.0; shape.cells()];
    let by_direction = |along_x: &[f64]| Coefficient::Diagonal([along_x.to_vec(), ones.clone(), ones.clone()]);
    let solver = SolverOptions { precision: Precision::F32, tolerance: 1e-4, ..SolverOptions::default() };
    // Crank and Nicolson's long steps change the sign of a difference, and two of them nothing.
    let steps = options(1e6, 2e7, Scheme::BackwardEuler);
    let off = |stepper: &mut HeatStepper<Reference>, heat: &dyn Fn(&[f64]) -> f64| {
        run(stepper, 10);
        (heat(&state(stepper, shape)) / heat(&initial) - 1.0).abs()
    };
    let mut beside = stepper(&of(Coefficient::Isotropic(walled.clone()), fixed_west), steps, &solver, &initial);
    assert!(off(&mut beside, &east) <= 1e-9);
    let mut twice = stepper(&of(Coefficient::Isotropic(noisy), rings), steps, &solver, &initial);
    assert!(off(&mut twice, &all) <= 1e-9);
    let mut joined = stepper(&of(by_direction(&walled), closed), steps, &solver, &initial);
    assert!(off(&mut joined, &east) <= 1e-9);
    joined.update(of(by_direction(&ones), closed)).unwrap();
    assert!(off(&mut joined, &all) <= 1e-9);
    // Heat flows through the open faces.
    assert!((east(&state(&mut joined, shape)) / east(&initial) - 1.0).abs() > 1e-3);
}
