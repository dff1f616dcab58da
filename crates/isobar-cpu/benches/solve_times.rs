//! Times of whole solves on the processor, the panel problem with a random right-hand side and with 1: vertical modes and
//! multigrid alternately, so that other load affects both; the least and the median, in milliseconds. Arguments: columns a
//! side (256), threads (2), "modes" or "multigrid" for that alone (both), and the number of solves (11).

use isobar_core::build::System;
use isobar_core::conformance::arrays::solve_again;
use isobar_core::grid::GridOptions;
use isobar_core::operator::Guess;
use isobar_core::options::{Method, SolverOptions};
use isobar_core::problem::{Helmholtz, RhsKind, Weighting};
use isobar_core::stencil::Stencil;
use isobar_cpu::Cpu;

fn main() -> isobar_core::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let number = |n: usize, default: usize| words.get(n).and_then(|word| word.parse().ok()).unwrap_or(default);
    let (n, threads, solves) = (number(0, 256), number(1, 2), number(3, 11));
    let cpu = Cpu::new(threads)?;
    let problem = Helmholtz { grid: GridOptions { nx: n, ny: n, nz: 128, ..Default::default() }, ..Default::default() };
    let stencil = problem.stencil()?;
    let shape = stencil.shape();
    let methods: Vec<_> = [Method::Modes, Method::Multigrid]
        .into_iter()
        .filter(|method| words.get(2).is_none_or(|only| only == method.name() || only == "both"))
        .collect();
    println!("{shape}, {threads} threads");
    for (kind, name) in [(RhsKind::Random, "random"), (RhsKind::Constant, "1")] {
        let rhs = problem.rhs(kind, 0, Weighting::None)?;
        let mut u = vec![0.0; rhs.len()];
        for tolerance in [1e-5, 1e-10] {
            let system = |&method: &Method| {
                System::new(&cpu, &stencil, &SolverOptions { method, tolerance, ..SolverOptions::default() })
            };
            let mut systems = methods.iter().map(system).collect::<Result<Vec<_>, _>>()?;
            let mut times = vec![Vec::new(); systems.len()];
            let mut said = vec![String::new(); systems.len()];
            for _ in 0..solves {
                for ((system, times), said) in systems.iter_mut().zip(&mut times).zip(&mut said) {
                    let outcome = solve_again(system, shape, &rhs, &mut u, Guess::Zero)?;
                    times.push(outcome.timing.solve);
                    *said = format!("{:>3} {:.1e}", outcome.iterations, outcome.relative_residual);
                }
            }
            for ((method, mut times), said) in methods.iter().zip(times).zip(said) {
                times.sort_by(f64::total_cmp);
                let [least, median] = [0, times.len() / 2].map(|n| 1e3 * times[n]);
                println!("{name:<7} {tolerance:.0e} {:<10} {least:8.2} {median:8.2} {said}", method.name());
            }
        }
    }
    Ok(())
}
