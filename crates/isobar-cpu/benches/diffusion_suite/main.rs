//! 300 random diffusion problems by conjugate gradients with multigrid: the failures, and the iterations of the others.
//!
//! `cargo bench -p isobar-cpu --bench diffusion_suite -- [first] [count] [reference] [mixed|double] [closed] [verbose]`
//! Cycles are in the automatically chosen precision, in single, or in double throughout; with `closed`, blocks of inactive cells,
//! which divide the grid into many components, replace the families of [`problems::problem`].

mod elimination;
mod problems;

use std::time::Instant;

use isobar_core::prelude::*;
use isobar_cpu::Cpu;

use problems::{Problem, closed_blocks, problem, rounding_floor};

const TOLERANCE: f64 = 1e-8;

fn solve<B: Supports<Diffusion>>(backend: &B, problem: &Problem, cycles: CyclePrecision) -> (Outcome, Vec<f64>, f64) {
    let mut options = SolverOptions {
        tolerance: TOLERANCE,
        max_iterations: 500,
        compatibility: Compatibility::Project,
        ..SolverOptions::default()
    };
    options.multigrid.precision = cycles;
    let Problem { stencil, rhs, name } = problem;
    let mut u = vec![0.0; rhs.len()];
    let clock = Instant::now();
    let fail = |error| panic!("{name}: {error}");
    let mut system = System::new(backend, stencil, &options).unwrap_or_else(fail);
    let shape = stencil.shape();
    let (Ok(b), Ok(view)) = (ArrayView::c_order(rhs, shape), ArrayViewMut::c_order(&mut u, shape)) else {
        panic!("{name}: shapes")
    };
    let fail = |error| panic!("{name}: {error}");
    let mut outcome = system.solve(b.into(), view.into(), Guess::Zero, &mut ignore).unwrap_or_else(fail);
    outcome.notes.extend(system.description().notes.iter().cloned());
    (outcome, u, clock.elapsed().as_secs_f64())
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let number = |n: usize, otherwise: usize| arguments.get(n).and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    let (first, count) = (number(0, 0), number(1, 300));
    let with_reference = arguments.iter().any(|argument| argument == "reference");
    let is_verbose = arguments.iter().any(|argument| argument == "verbose");
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let cycles = match (has("mixed"), has("double")) {
        (true, _) => CyclePrecision::F32,
        (_, true) => CyclePrecision::F64,
        _ => CyclePrecision::Auto,
    };
    let cpu = Cpu::new(1).unwrap_or_else(|error| panic!("{error}"));
    let (mut solved, mut failed, mut hopeless, mut seconds) = (Vec::new(), Vec::new(), 0, 0.0);
    for n in first..first + count {
        let problem = if has("closed") { closed_blocks(n) } else { problem(n) };
        let (outcome, u, time) = match with_reference {
            true => solve(&Reference, &problem, cycles),
            false => solve(&cpu, &problem, cycles),
        };
        seconds += time;
        let floor_of = |u: &[f64]| rounding_floor(&problem.stencil, u, &problem.rhs);
        let mut floor = floor_of(&u);
        if !outcome.converged() && 4.0 * floor <= TOLERANCE {
            // Only a solution has a meaningful floor.
            floor = floor_of(&elimination::solve(&problem.stencil, &problem.rhs));
        }
        let line = format!(
            "{:3} iterations, {:?} at {:.0e}, floor {floor:.0e}: {}",
            outcome.iterations, outcome.stop, outcome.relative_residual, problem.name
        );
        if is_verbose {
            println!("{line}");
            outcome.notes.iter().for_each(|note| println!("    {note}"));
        }
        if outcome.converged() {
            solved.push((outcome.iterations, line));
        } else if 4.0 * floor > TOLERANCE {
            hopeless += 1;
        } else {
            failed.push(line);
        }
    }
    solved.sort();
    failed.iter().for_each(|line| println!("FAILED {line}"));
    for (_, line) in solved.iter().rev().take(12) {
        println!("{line}");
    }
    let of = |share: f64| {
        solved.get(((solved.len() as f64 * share) as usize).min(solved.len().max(1) - 1)).map_or(0, |s| s.0)
    };
    println!(
        "{} solved, {} failed ({:.1} %), {hopeless} beyond double precision; iterations: median {}, 90 % {}, 95 % {}, most {}; {seconds:.1} s",
        solved.len(),
        failed.len(),
        100.0 * failed.len() as f64 / (solved.len() + failed.len()).max(1) as f64,
        of(0.5),
        of(0.9),
        of(0.95),
        of(1.0)
    );
}
