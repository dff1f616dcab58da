//! The solver that `auto` begins with, and what follows it: in time steps, and where a shift seems to dominate.

use isobar_core::conformance::arrays::{self, noise, norm};
use isobar_core::prelude::*;
use isobar_core::problem::random;

use crate::heat::{MIC, options, run, solver, state, stepper};

/// Long steps between closed cells, where incomplete Cholesky takes hundreds of iterations: multigrid takes over where the caller named no
/// preconditioner, from the middle of the first step on. Short steps need none.
#[test]
fn multigrid_takes_over_long_steps() {
    let shape = Shape::new(60, 50, 1);
    let kappa = (0..shape.cells()).map(|n| if random(7, n) > 0.4 { 0.0 } else { 1.0 }).collect();
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
    problem.boundary[0][0] = Boundary::Dirichlet(1.0);
    let heat = Heat::in_cells(&problem, None).unwrap();
    let initial = vec![0.0; shape.cells()];
    let options = options(100.0, 1000.0, Scheme::BackwardEuler);
    let solve = |preconditioner: Preconditioner| {
        let solver = SolverOptions { max_iterations: 3000, ..solver(preconditioner, 1e-8) };
        let mut stepper = stepper(&heat, options, &solver, &initial);
        let notes = stepper.step(&mut ignore).unwrap().outcome.notes;
        (run(&mut stepper, 9), notes, stepper.description().preconditioner.clone(), state(&mut stepper, shape))
    };
    let (iterations, notes, used, open) = solve(Preconditioner::Auto);
    assert!(notes.iter().any(|note| note.contains("continued with multigrid")), "{notes:?}");
    assert!(used == "multigrid" && iterations.iter().all(|&n| n < 40), "{used} {iterations:?}");
    let (iterations, notes, used, named) = solve(MIC);
    assert!(used == "mic" && iterations.iter().max() > Some(&60), "{used} {iterations:?} {notes:?}");
    assert!(open.iter().zip(&named).all(|(a, b)| (a - b).abs() < 1e-6), "another state");
    let mut short =
        stepper(&heat, self::options(1e-4, 2e-4, Scheme::BackwardEuler), &solver(Preconditioner::Auto, 1e-8), &initial);
    let iterations = run(&mut short, 2);
    assert!(iterations.iter().all(|&n| n < 30) && short.description().preconditioner == "none", "{iterations:?}");
}

/// Steps begin with multigrid where a body is held by a large reaction, beside which a residual without it says nothing of the rest.
#[test]
fn held_bodies_do_not_hide_the_rest() {
    let shape = Shape::new(30, 30, 1);
    let is_held = |n: usize| n % 30 < 6 && n / 30 < 6;
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]));
    let reaction: Vec<f64> = (0..shape.cells()).map(|n| if is_held(n) { 1e12 } else { 0.0 }).collect();
    problem.reaction = Some(reaction.clone());
    let heat = Heat::in_cells(&problem, Some(reaction)).unwrap();
    let options = options(1e-4, 1e-4, Scheme::BackwardEuler);
    let after = |preconditioner: Preconditioner, tolerance: f64| {
        let solver = solver(preconditioner, tolerance);
        let mut stepper = stepper(&heat, options, &solver, &vec![0.0; shape.cells()]);
        assert!(stepper.step(&mut ignore).unwrap().is_taken);
        (stepper.description().preconditioner.clone(), state(&mut stepper, shape))
    };
    // New coefficients that hold a body are taken as such ones are from the beginning, after iterations and after direct solves.
    let mut rough = DiffusionProblem { reaction: None, ..problem.clone() };
    let even = Heat::in_cells(&rough, None).unwrap();
    rough.coefficient = Coefficient::Isotropic(noise(shape.cells(), 3).iter().map(|x| (0.1 * x).exp()).collect());
    for (heat_before, method) in [(Heat::in_cells(&rough, None).unwrap(), "cg"), (even, "direct")] {
        let solver = SolverOptions { tolerance: 1e-8, ..SolverOptions::default() };
        let mut stepper = stepper(&heat_before, options, &solver, &vec![0.0; shape.cells()]);
        assert_eq!(stepper.description().method, method);
        stepper.update(heat.clone()).unwrap();
        let description = stepper.description();
        assert_eq!((&*description.method, &*description.preconditioner), ("cg", "multigrid"), "after {method}");
    }
    let ((used, found), (_, expected)) = (after(Preconditioner::Auto, 1e-8), after(Preconditioner::Multigrid, 1e-13));
    assert_eq!(used, "multigrid");
    assert!(found.iter().zip(&expected).all(|(u, v)| (u - v).abs() < 1e-4));
}

/// Time steps by multigrid have lines, also where a single solve has points: what a step gives up, a restart would begin with again.
#[test]
fn steps_by_multigrid_have_lines() {
    let shape = Shape::new(24, 20, 16);
    let kappa = shape.places().map(|[i, j, k]| (0.05 * (i + 2 * j + k) as f64).sin().exp()).collect();
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
    problem.boundary[0][0] = Boundary::Dirichlet(0.0);
    let heat = Heat::in_cells(&problem, None).unwrap();
    let cycles = SolverOptions { method: Method::Multigrid, tolerance: 1e-8, ..SolverOptions::default() };
    let single = System::new(&Reference, &problem.stencil().unwrap(), &cycles).unwrap();
    assert_eq!(single.description().smoother, Smoother::PointRedBlack, "{:?}", single.description().notes);
    let mut stepper = stepper(&heat, options(0.1, 0.2, Scheme::BackwardEuler), &cycles, &noise(shape.cells(), 4));
    assert!(run(&mut stepper, 2).iter().all(|&cycles| cycles < 20));
    let description = stepper.description();
    assert_eq!((&*description.method, description.smoother), ("multigrid", Smoother::LineRedBlack));
    assert!(!description.notes.iter().any(|note| note.contains("points")), "{:?}", description.notes);
}

/// A small state is a right-hand side near the end of single precision, in which cycles of the multigrid that takes over may be.
#[test]
fn small_states_are_taken_over_too() {
    let shape = Shape::new(60, 60, 1);
    let kappa = noise(shape.cells(), 5).iter().map(|x| (4.0 * x).exp()).collect();
    let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
    problem.boundary[0][0] = Boundary::Dirichlet(0.0);
    let heat = Heat::in_cells(&problem, None).unwrap();
    let initial: Vec<f64> = noise(shape.cells(), 6).iter().map(|x| 1e-60 * x).collect();
    let options = options(1.0, 2.0, Scheme::BackwardEuler);
    let mut stepper = stepper(&heat, options, &solver(Preconditioner::Auto, 1e-8), &initial);
    run(&mut stepper, 2);
    assert_eq!(stepper.description().preconditioner, "multigrid");
}

/// By default a step is solved directly while its matrix is separable, also after a change of its length, and by iteration when
/// coefficients are not.
#[test]
fn separable_steps_are_direct_by_default() {
    let shape = Shape::new(9, 7, 6);
    let heat_of = |kappa: Vec<f64>| {
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(kappa));
        problem.boundary[0] = [Boundary::Dirichlet(0.0); 2];
        problem.spacing[2] = Spacing::Given((0..shape.nz).map(|k| 0.1 + 0.03 * k as f64).collect());
        Heat::in_cells(&problem, None).unwrap()
    };
    let uniform = heat_of(vec![0.7; shape.cells()]);
    let rough = heat_of(noise(shape.cells(), 8).iter().map(|x| (2.0 * x).exp()).collect());
    let initial = noise(shape.cells(), 3);
    // The last step is shorter.
    let options = options(0.02, 0.09, Scheme::CrankNicolson);
    let open = SolverOptions { tolerance: 1e-10, ..SolverOptions::default() };
    let [mut direct, mut iterated] =
        [&open, &solver(MIC, 1e-12)].map(|solver| stepper(&uniform, options, solver, &initial));
    assert_eq!(direct.description().method, "direct");
    assert_eq!(run(&mut direct, 3), [1; 3]);
    run(&mut iterated, 3);
    for (stepper, kind) in [(&mut direct, "none"), (&mut iterated, "mic")] {
        stepper.update(rough.clone()).unwrap();
        assert_eq!((&*stepper.description().method, &*stepper.description().preconditioner), ("cg", kind));
        run(stepper, 2);
        assert!(stepper.is_finished());
    }
    let [found, expected] = [&mut direct, &mut iterated].map(|stepper| state(stepper, shape));
    assert!(found.iter().zip(&expected).all(|(u, v)| (u - v).abs() < 1e-9), "{found:?} {expected:?}");
    assert_eq!(stepper(&rough, options, &open, &initial).description().preconditioner, "none");
    let plain = SolverOptions { method: Method::Cg, ..open };
    assert_eq!(stepper(&uniform, options, &plain, &initial).description().preconditioner, "none");
}

/// Conjugate gradients without multigrid that are only tried solve, but as a preconditioner of other programs multigrid is used.
#[test]
fn a_trial_is_no_preconditioner() {
    let shape = Shape::new(14, 12, 10);
    let rough: Vec<f64> = noise(shape.cells(), 5).iter().map(|x| (3.0 * x).exp()).collect();
    for (kappa, over) in [(vec![1.0; shape.cells()], 0.3), (rough, 0.02)] {
        let most = kappa.iter().copied().fold(0.0, f64::max);
        let shift = vec![over * most; shape.cells()];
        let (factors, sides) = ([1.0, 1.1, 1.2], [[Side::Closed; 2]; 3]);
        let kappa: Vec<f64> = kappa.iter().enumerate().map(|(n, k)| if n == 7 { 1.5 * k } else { *k }).collect();
        let stencil = Diffusion::of_field(shape, kappa, factors, Some(shift), sides).unwrap();
        let mut system = System::new(&Reference, &stencil, &SolverOptions::default()).unwrap();
        let used = system.description().preconditioner.clone();
        assert!(used == "none" || used == "jacobi", "{used}");
        let r = noise(shape.cells(), 9);
        let mut z = vec![f64::NAN; shape.cells()];
        let target = ArrayViewMut::c_order(&mut z, shape).unwrap().into();
        Solve::precondition(&mut system, ArrayView::c_order(&r, shape).unwrap().into(), target, 1).unwrap();
        let left: Vec<f64> = stencil.times(&z).iter().zip(&r).map(|(az, r)| r - az).collect();
        assert!(norm(&left) < 0.5 * norm(&r), "{used}: {:e}", norm(&left) / norm(&r));
        let (outcome, u) = arrays::solve(&Reference, &stencil, &SolverOptions::default(), &r);
        let left: Vec<f64> = stencil.times(&u).iter().zip(&r).map(|(au, r)| r - au).collect();
        assert!(outcome.converged() && norm(&left) <= 1.01e-5 * norm(&r), "{outcome:?}");
    }
}

/// A trial that is slow is followed by multigrid, in the same solve.
#[test]
fn a_slow_trial_is_followed_by_multigrid() {
    let shape = Shape::new(40, 30, 1);
    // A bound that allows a trial at a loose tolerance, which is then tightened.
    let kappa: Vec<f64> = noise(shape.cells(), 5).iter().map(|x| (0.2 * x).exp()).collect();
    let stencil =
        Diffusion::of_field(shape, kappa, [1.0; 3], Some(vec![0.04; shape.cells()]), [[Side::Closed; 2]; 3]).unwrap();
    let options = SolverOptions { tolerance: 1e-2, ..SolverOptions::default() };
    let mut system = System::new(&Reference, &stencil, &options).unwrap();
    assert_eq!(system.description().preconditioner, "none");
    system.set_tolerance(1e-12).unwrap();
    let b = noise(shape.cells(), 9);
    let mut u = vec![0.0; shape.cells()];
    let target = ArrayViewMut::c_order(&mut u, shape).unwrap().into();
    let outcome =
        system.solve(ArrayView::c_order(&b, shape).unwrap().into(), target, Guess::Zero, &mut ignore).unwrap();
    assert!(outcome.converged() && outcome.notes.concat().contains("continued with multigrid"), "{outcome:?}");
    assert!(outcome.iterations < 60, "{outcome:?}");
}
