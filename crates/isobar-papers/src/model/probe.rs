//! Short measurements of the model's parameters on this machine.

use std::sync::Arc;
use std::time::Instant;

use isobar::grid::GridOptions;
use isobar::internals::cpu::Cpu;
use isobar::internals::dist::threads::{Threads, run_each};
use isobar::internals::dist::{Communicator, Message, join};
use isobar::options::{Method, Preconditioner, SolverOptions};
use isobar::problem::{Helmholtz, RhsKind, Weighting};
use isobar::{Device, Precision, Shape, Solver};
use serde::Serialize;

/// Timed solves after a first one; the fastest counts.
const SOLVES: usize = 3;
/// Small exchanges that are timed together.
const SMALL_EXCHANGES: u32 = 5000;
const LARGE_EXCHANGES: u32 = 20;
/// The size of a message whose time is all bandwidth.
const LARGE: usize = 4 << 20;

/// A solve of the atmosphere's problem.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Solved {
    /// Seconds of an iteration.
    pub(super) seconds: f64,
    /// Iterations to the tolerance.
    pub(super) iterations: usize,
}

/// Solves the pressure equation on a panel by the method of this name in the model.
pub(super) fn solve(device: &Device, shape: Shape, method: &str, precision: Precision) -> isobar::Result<Solved> {
    let Shape { nx, ny, nz } = shape;
    let problem = Helmholtz { grid: GridOptions { nx, ny, nz, ..GridOptions::default() }, ..Helmholtz::default() };
    let rhs = problem.rhs(RhsKind::Random, 0, Weighting::None)?;
    let options = SolverOptions {
        method: if method == "cg" { Method::Cg } else { Method::Multigrid },
        preconditioner: Preconditioner::Line,
        precision,
        ..SolverOptions::default()
    };
    let mut solver = Solver::builder(&problem.stencil()?).options(&options).device(device).build()?;
    let mut u = vec![0.0; rhs.len()];
    let mut best = Solved { seconds: f64::INFINITY, iterations: 0 };
    for n in 0..=SOLVES {
        let outcome = solver.solve(&rhs, &mut u)?;
        let seconds = outcome.timing.solve / outcome.iterations.max(1) as f64;
        if n > 0 && seconds < best.seconds {
            best = Solved { seconds, iterations: outcome.iterations };
        }
    }
    Ok(best)
}

/// Solves with threads as ranks, each of one thread, slabs of a grid.
pub(super) fn solve_on_threads(
    ranks: usize,
    shape: Shape,
    method: &str,
    precision: Precision,
) -> isobar::Result<Solved> {
    let worlds = Threads::ranks(ranks);
    let solved = run_each(worlds.iter().map(|world| (world, world)), |world: &Threads| {
        let device = Device::Cpu(join(Cpu::new(1)?, Arc::new(world.clone())));
        solve(&device, shape, method, precision)
    })?;
    Ok(solved
        .into_iter()
        .max_by(|a, b| a.seconds.total_cmp(&b.seconds))
        .unwrap_or(Solved { seconds: 0.0, iterations: 0 }))
}

/// Measures the bytes a second of large messages between two threads, and the seconds of a small one.
pub(super) fn exchange_between_threads() -> isobar::Result<(f64, f64)> {
    let worlds = Threads::ranks(2);
    let times = run_each(worlds.iter().map(|world| (world, world)), |world: &Threads| {
        let time = |bytes: usize, count: u32| -> isobar::Result<f64> {
            let (send, mut receive) = (vec![1; bytes], vec![0; bytes]);
            let mut clock = Instant::now();
            // The first one warms up.
            for n in 0..=count {
                if n == 1 {
                    clock = Instant::now();
                }
                let peer = 1 - world.rank();
                world.exchange(&mut [Message { peer, tag: n, send: &send, receive: &mut receive }])?;
            }
            Ok(clock.elapsed().as_secs_f64() / f64::from(count))
        };
        Ok((time(size_of::<f64>(), SMALL_EXCHANGES)?, time(LARGE, LARGE_EXCHANGES)?))
    })?;
    let slowest = times.into_iter().fold((0.0_f64, 0.0_f64), |a, b| (a.0.max(b.0), a.1.max(b.1)));
    let (latency, large) = slowest;
    Ok((LARGE as f64 / (large - latency).max(f64::MIN_POSITIVE), latency))
}
