//! Times of whole solves to 1e-5 on the first GPU, the panel problem with a random right-hand side: setup the first time and
//! once more, an update with the same coefficients, the first solve, and the median of more, in milliseconds; also the last
//! solve's up- and download. Arguments: the columns a side, by default 128, 256 and 512.

use std::time::Instant;

use isobar_core::bench::time_setup;
use isobar_core::build::System;
use isobar_core::conformance::arrays::solve_again;
use isobar_core::grid::GridOptions;
use isobar_core::operator::Guess;
use isobar_core::options::{Method, SolverOptions};
use isobar_core::problem::{Helmholtz, RhsKind, Weighting};
use isobar_core::real::Precision;
use isobar_core::stencil::Stencil;
use isobar_cuda::Cuda;

/// The number of solves, of which the median counts.
const SOLVES: usize = 11;

fn main() -> isobar_core::Result<()> {
    let clock = Instant::now();
    let cuda = match Cuda::new(0) {
        Ok(cuda) => cuda,
        Err(error) => {
            println!("skipped: {error}");
            return Ok(());
        }
    };
    println!("opening the GPU: {:.0} ms", 1e3 * clock.elapsed().as_secs_f64());
    println!(
        "{:<12} {:<10} {:<6} {:>8} {:>8} {:>8} {:>8} {:>8} {:>4} {:>7} {:>7} {:>7}",
        "grid", "method", "", "setup", "again", "update", "first", "median", "count", "reached", "up", "down"
    );
    let mut sides: Vec<usize> = std::env::args().skip(1).filter_map(|side| side.parse().ok()).collect();
    if sides.is_empty() {
        sides = vec![128, 256, 512];
    }
    for n in sides {
        let problem =
            Helmholtz { grid: GridOptions { nx: n, ny: n, nz: 128, ..Default::default() }, ..Default::default() };
        let stencil = problem.stencil()?;
        let shape = stencil.shape();
        let rhs = problem.rhs(RhsKind::Random, 0, Weighting::None)?;
        let mut u = vec![0.0; rhs.len()];
        for (method, precision, tolerance) in [
            (Method::Modes, Precision::F64, 1e-5),
            (Method::Modes, Precision::Mixed, 1e-5),
            (Method::Modes, Precision::F64, 1e-10),
            (Method::Modes, Precision::Mixed, 1e-10),
            (Method::Multigrid, Precision::F64, 1e-5),
            (Method::Multigrid, Precision::Mixed, 1e-5),
            (Method::Multigrid, Precision::F64, 1e-10),
            (Method::Multigrid, Precision::F32, 1e-2),
            (Method::Cg, Precision::F64, 1e-5),
        ] {
            let options = SolverOptions { method, precision, tolerance, ..SolverOptions::default() };
            let setup = time_setup(&cuda, &stencil, &options)?;
            let mut system = System::new(&cuda, &stencil, &options)?;
            let mut times = Vec::new();
            let mut last = String::new();
            for _ in 0..SOLVES {
                let outcome = solve_again(&mut system, shape, &rhs, &mut u, Guess::Zero)?;
                times.push(outcome.timing.solve);
                let (up, down) = (1e3 * outcome.timing.upload, 1e3 * outcome.timing.download);
                last = format!("{:>4} {:.1e} {up:7.1} {down:7.1}", outcome.iterations, outcome.relative_residual);
            }
            let first = times[0];
            times.sort_by(f64::total_cmp);
            println!(
                "{:<12} {:<10} {:<6} {:8.1} {:8.1} {:8.1} {:8.3} {:8.3} {last}",
                shape.to_string(),
                options.method_name(),
                precision.to_string(),
                1e3 * setup.first,
                1e3 * setup.again,
                1e3 * setup.update,
                1e3 * first,
                1e3 * times[SOLVES / 2]
            );
        }
    }
    Ok(())
}
