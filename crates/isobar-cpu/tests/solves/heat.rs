//! The heat equation on processor cores: paper E's iteration counts, and the same bits on any number of threads.

use isobar_core::conformance::arrays::{cg, noise};
use isobar_core::prelude::*;
use isobar_cpu::Cpu;

const MIC: Preconditioner = Preconditioner::Mic { relaxation: 1.0, block: None };

fn stepper(cpu: &Cpu, shape: Shape, dt: f64, guess: StepGuess, solver: &SolverOptions) -> HeatStepper<Cpu> {
    let heat = Heat::unit_box(shape).unwrap();
    let options =
        HeatOptions { steps: Steps::new(dt, 0.1).unwrap(), error: None, scheme: Scheme::CrankNicolson, guess };
    let initial = heat.sine([1.0; 3]);
    let mut stepper = HeatStepper::new(cpu, heat, options, solver).unwrap();
    stepper.set(ArrayView::c_order(&initial, shape).unwrap().into(), None, 0).unwrap();
    stepper
}

#[test]
fn iterations_of_a_step() {
    let cpu = Cpu::new(2).unwrap();
    for (kind, expected) in [
        (Preconditioner::None, [27, 36, 8, 11]),
        (Preconditioner::SsorAi, [15, 19, 5, 6]),
        (Preconditioner::Ic { block: None }, [10, 13, 4, 5]),
        (MIC, [6, 8, 3, 4]),
    ] {
        for ((dt, tolerance), expected) in
            [(1e-3, 1e-6), (1e-3, 1e-8), (1e-4, 1e-6), (1e-4, 1e-8)].into_iter().zip(expected)
        {
            let solver = SolverOptions { tolerance, ..cg(kind) };
            let mut stepper = stepper(&cpu, Shape::new(50, 50, 50), dt, StepGuess::Ones, &solver);
            for _ in 0..2 {
                let step = stepper.step(&mut ignore).unwrap();
                let found = step.outcome.iterations;
                assert!(
                    step.is_taken && found.abs_diff(expected) <= 1,
                    "{kind:?} {dt} {tolerance}: {found}, not {expected}"
                );
            }
        }
    }
}

#[test]
fn a_hundred_steps_agree_with_the_closed_form() {
    let cpu = Cpu::new(2).unwrap();
    let shape = Shape::new(50, 50, 50);
    let solver = SolverOptions { tolerance: 1e-12, ..cg(MIC) };
    let mut stepper = stepper(&cpu, shape, 1e-3, StepGuess::Previous, &solver);
    for _ in 0..100 {
        assert!(stepper.step(&mut ignore).unwrap().is_taken);
    }
    let mut u = vec![0.0; shape.cells()];
    stepper.read(ArrayViewMut::c_order(&mut u, shape).unwrap().into()).unwrap();
    // The amplitude of 3 sin sin sin after 100 steps, and the sine next to the middle.
    let largest = u.iter().fold(0.0_f64, |largest, u| largest.max(*u));
    let sine = (std::f64::consts::PI * 25.0 / 51.0).sin().powi(3);
    assert!((largest - 0.155_431_677_0 * sine).abs() < 1e-10, "{largest}");
}

#[test]
fn threads_do_not_matter() {
    for (shape, kind) in [
        (Shape::new(70, 48, 32), MIC),
        (Shape::new(300, 160, 1), MIC),
        (Shape::new(70, 48, 32), Preconditioner::SsorAi),
        (Shape::new(70, 48, 32), Preconditioner::Ic { block: Some(70 * 8) }),
    ] {
        let run = |threads: usize| {
            let cpu = Cpu::new(threads).unwrap();
            let solver = cg(kind);
            let mut stepper = stepper(&cpu, shape, 1e-3, StepGuess::Extrapolated, &solver);
            let rough = noise(shape.cells(), 5);
            stepper.set(ArrayView::c_order(&rough, shape).unwrap().into(), None, 0).unwrap();
            for _ in 0..4 {
                assert!(stepper.step(&mut ignore).unwrap().is_taken);
            }
            let mut u = vec![0.0; shape.cells()];
            stepper.read(ArrayViewMut::c_order(&mut u, shape).unwrap().into()).unwrap();
            (u.into_iter().map(f64::to_bits).collect::<Vec<_>>(), stepper.energy().unwrap().to_bits())
        };
        let one = run(1);
        assert!(run(2) == one && run(5) == one, "{shape} {kind:?}");
    }
}
