//! Verdicts, by residuals that are given.

use super::*;

fn run(patience: Patience, residuals: impl IntoIterator<Item = f64>) -> (Stop, usize) {
    let mut ignore = ignore;
    let mut monitor = Monitor::new(1.0, 1e-5, 30, patience, &mut ignore);
    let _ = monitor.begin(1.0);
    for r in residuals {
        if monitor.observe(r * r).is_break() {
            break;
        }
    }
    (monitor.stop().unwrap(), monitor.iterations())
}

#[test]
fn names_what_happened() {
    use Patience::{Krylov, Stationary};
    assert_eq!(run(Krylov, [0.1, 1e-5]), (Stop::Converged, 2));
    assert_eq!(run(Krylov, std::iter::repeat(0.5)), (Stop::MaxIterations, 30));
    assert_eq!(run(Stationary, std::iter::repeat(0.5)), (Stop::Stagnated, 11));
    assert_eq!(run(Patience::Refinement, std::iter::repeat(0.5)), (Stop::Stagnated, 3));
    assert_eq!(run(Patience::Refinement, [0.5, 0.2, 0.04, 0.01, 1e-3, 1e-6]), (Stop::Converged, 6));
    assert_eq!(run(Stationary, (1..30).map(|n| 2f64.powi(n))), (Stop::Diverged, 11));
    assert_eq!(run(Krylov, [0.1, f64::NAN]), (Stop::Breakdown, 2));
    assert_eq!(run(Stationary, [1e4, 1e8, f64::NAN]), (Stop::Diverged, 3));
    assert_eq!(run(Stationary, [f64::INFINITY]), (Stop::Diverged, 1));
    assert_eq!(run(Krylov, [1e9, 2e10]), (Stop::Diverged, 2));
}

#[test]
fn a_first_guess_may_be_far_away() {
    let mut ignore = ignore;
    let mut monitor = Monitor::new(1.0, 1e-5, 30, Patience::Krylov, &mut ignore);
    assert!(monitor.begin(1e15).is_continue());
    assert!(monitor.observe(1e40).is_continue());
    assert!(monitor.observe(1e51).is_break());
    assert_eq!(monitor.stop(), Some(Stop::Diverged));
}

#[test]
fn an_observer_can_stop_a_solve() {
    let mut stop_at_two = |seen: &Progress| {
        if seen.iteration == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let mut monitor = Monitor::new(1.0, 1e-5, 30, Patience::Krylov, &mut stop_at_two);
    let _ = monitor.begin(1.0);
    assert!(monitor.observe(0.5).is_continue() && monitor.observe(0.4).is_break());
    assert_eq!((monitor.stop(), monitor.iterations()), (Some(Stop::Interrupted), 2));
}

/// A solve that goes on below its tolerance shows observers the caller's.
#[test]
fn observers_see_the_tolerance_of_the_caller() {
    let mut seen = Vec::new();
    let mut observer = |progress: &Progress| {
        seen.push(progress.tolerance);
        ControlFlow::Continue(())
    };
    let mut monitor = Monitor::new(1.0, 1e-5, 30, Patience::Krylov, &mut observer);
    assert!(monitor.begin(1e-6).is_break());
    monitor.tighten(5e-7, 10, 1e-6);
    assert!(monitor.observe(0.81e-12).is_continue() && monitor.observe(1e-14).is_break());
    drop(monitor);
    assert_eq!(seen, [1e-5; 2]);
}

#[test]
fn an_unconfirmed_convergence_goes_on() {
    let mut ignore = ignore;
    let mut monitor = Monitor::new(2.0, 1e-5, 30, Patience::Krylov, &mut ignore);
    assert!(monitor.begin(2.0).is_continue());
    assert!(monitor.observe(1e-12).is_break());
    monitor.resume(0.2);
    assert_eq!((monitor.stop(), monitor.iterations()), (None, 1));
    assert_eq!(monitor.into_history(), [1.0, 0.1]);
}
