//! Gain of computing during the exchange of halo rows: milliseconds of an iteration on two ranks, threads of this process with a core
//! each, whose messages take some microseconds, and are waited for before a pass continues, or after its inside; measured alternately,
//! the least counts.
//!
//! Arguments: columns in x, rows, layers (default 128 128 32), solves of each kind (7).

use std::sync::Arc;
use std::time::{Duration, Instant};

use isobar_core::backend::Meanwhile;
use isobar_core::prelude::*;
use isobar_cpu::Cpu;
use isobar_dist::threads::Threads;
use isobar_dist::{Communicator, Message, join_rows, threads};

const RANKS: usize = 2;

/// A rank whose messages are delayed.
#[derive(Clone, Debug)]
struct Slow {
    world: Threads,
    travel: Duration,
    /// Whether work is done during the exchange.
    overlaps: bool,
}

impl Communicator for Slow {
    fn rank(&self) -> usize {
        self.world.rank()
    }

    fn size(&self) -> usize {
        self.world.size()
    }

    fn exchange_while(&self, messages: &mut [Message<'_>], meanwhile: Meanwhile<'_>) -> Result<()> {
        let sent = Instant::now();
        if self.overlaps {
            self.world.exchange_while(messages, meanwhile)?;
        } else {
            self.world.exchange(messages)?;
        }
        while sent.elapsed() < self.travel {
            std::thread::yield_now();
        }
        if !self.overlaps {
            meanwhile();
        }
        Ok(())
    }

    fn abort(&self, why: &str) {
        self.world.abort(why);
    }
}

/// Returns milliseconds an iteration.
fn solve(
    stencil: &TensorProduct,
    rhs: &[f64],
    options: &SolverOptions,
    travel: Duration,
    overlaps: bool,
) -> Result<f64> {
    let shape = stencil.shape();
    let all = threads::run(RANKS, |world| {
        let backend = join_rows(Cpu::new(1)?, Arc::new(Slow { world, travel, overlaps }))?;
        let patch = backend.own_columns(shape)?;
        let mut system = System::new(&backend, stencil, options)?;
        let own = patch.shape(shape);
        let mut u = vec![0.0; own.cells()];
        let (rhs, target) = (ArrayView::c_order(rhs, shape)?.part(patch)?, ArrayViewMut::c_order(&mut u, own)?);
        let start = Instant::now();
        let outcome = system.solve(rhs.into(), target.into(), Guess::Zero, &mut ignore)?;
        Ok(1e3 * start.elapsed().as_secs_f64() / outcome.iterations as f64)
    })?;
    Ok(all.into_iter().fold(0.0, f64::max))
}

fn least(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

fn main() -> Result<()> {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let [nx, ny, nz] = [(0, 128), (1, 128), (2, 32)].map(|(n, default)| numbers.get(n).copied().unwrap_or(default));
    let repeats = numbers.get(3).copied().unwrap_or(7);
    let problem = Helmholtz { grid: GridOptions { nx, ny, nz, ..Default::default() }, ..Default::default() };
    let (stencil, rhs) = (problem.stencil()?, problem.rhs(RhsKind::Random, 7, Weighting::None)?);
    println!("{nx} × {ny} × {nz}: ms an iteration; waited for before a pass, after its inside");
    for (method, preconditioner, iterations) in
        [(Method::Cg, Preconditioner::Line, 40), (Method::Multigrid, Preconditioner::Auto, 12)]
    {
        let options = SolverOptions {
            method,
            preconditioner,
            tolerance: 1e-14,
            max_iterations: iterations,
            ..SolverOptions::default()
        };
        for travel in [0, 50, 200, 1000] {
            let (mut waited, mut hidden) = (Vec::new(), Vec::new());
            for _ in 0..repeats {
                let time = |overlaps| solve(&stencil, &rhs, &options, Duration::from_micros(travel), overlaps);
                waited.push(time(false)?);
                hidden.push(time(true)?);
            }
            let (waited, hidden) = (least(&waited), least(&hidden));
            println!("{:<10} {travel:>5} µs  {waited:8.3}  {hidden:8.3}", method.name());
        }
    }
    Ok(())
}
