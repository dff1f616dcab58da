//! Solves on one GPU and on several of this host, one thread each, and a comparison of their times.

use std::sync::Arc;
use std::time::Instant;

use isobar_core::array::{ArrayView, ArrayViewMut};
use isobar_core::backend::Backend;
use isobar_core::build::{Solve, System};
use isobar_core::error::Result;
use isobar_core::layout::{Shape, Slab};
use isobar_core::operator::Guess;
use isobar_core::options::SolverOptions;
use isobar_core::solver::ignore;
use isobar_core::stencil::{Stencil, Supports};
use isobar_cuda::{Cuda, devices};
use isobar_dist::threads::Threads;
use isobar_dist::{Communicator, join_rows, threads};

/// The number of solves, of which the median counts.
const SOLVES: usize = 7;

/// Returns the arguments of the command line: words, and numbers.
pub(crate) fn arguments() -> (Vec<String>, Vec<usize>) {
    let all = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let (numbers, words): (Vec<String>, Vec<String>) = all.partition(|argument| argument.parse::<usize>().is_ok());
    (words, numbers.iter().filter_map(|number| number.parse().ok()).collect())
}

/// Returns the number of GPUs of this host, if there are several.
pub(crate) fn several_cards() -> Option<usize> {
    let cards = devices().map(|cards| cards.len()).unwrap_or(0);
    if cards < 2 {
        println!("skipped: {cards} GPUs");
        return None;
    }
    Some(cards)
}

/// Returns a thread's GPU, connected to the others.
pub(crate) fn linked(world: &Threads) -> Result<Cuda> {
    Cuda::new(world.rank())?.join(world.rank(), world.size(), &mut |mine| world.all_gather_equal(mine))
}

struct Times {
    setup: f64,
    median: f64,
    iterations: usize,
    residual: f64,
}

fn solve<S: Stencil>(cards: usize, stencil: &S, options: &SolverOptions) -> Result<Times>
where
    Cuda: Supports<S>,
{
    if cards == 1 {
        // One GPU works without ranks.
        return solve_rows(&Cuda::new(0)?, stencil, Slab::whole(stencil.shape()), options, &|| Ok(()));
    }
    let mut all = threads::run(cards, |world| {
        let backend = join_rows(linked(&world)?, Arc::new(world.clone()))?;
        let own = backend.own_columns(stencil.shape())?;
        solve_rows(&backend, stencil, own.y, options, &|| world.barrier())
    })?;
    all.sort_by(|a, b| b.median.total_cmp(&a.median));
    Ok(all.swap_remove(0))
}

fn solve_rows<B: Supports<S>, S: Stencil>(
    backend: &B,
    stencil: &S,
    slab: Slab,
    options: &SolverOptions,
    barrier: &dyn Fn() -> Result<()>,
) -> Result<Times> {
    let shape = stencil.shape();
    let own = slab.shape(shape);
    let clock = Instant::now();
    let mut system = System::new(backend, stencil, options)?;
    let setup = clock.elapsed().as_secs_f64();
    // A right-hand side that does not depend on the division of rows, in single precision to halve the host's memory.
    let value = |n: usize| {
        let (i, rest) = (n % own.nx, n / own.nx);
        let (j, k) = (slab.first + rest % own.ny, rest / own.ny);
        let mixed = (i + shape.nx * (j + shape.ny * k)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    };
    let rhs: Vec<f32> = (0..own.cells()).map(value).collect();
    let mut u = vec![0.0_f32; own.cells()];
    let (mut times, mut last) = (Vec::new(), (0, 0.0));
    for _ in 0..SOLVES {
        let (b, out) = (ArrayView::c_order(&rhs, own)?, ArrayViewMut::c_order(&mut u, own)?);
        barrier()?;
        let outcome = system.solve(b.into(), out.into(), Guess::Zero, &mut ignore)?;
        times.push(outcome.timing.solve);
        last = (outcome.iterations, outcome.relative_residual);
    }
    times.sort_by(f64::total_cmp);
    Ok(Times { setup, median: times[SOLVES / 2], iterations: last.0, residual: last.1 })
}

/// Prints the head of the table that [`Scaling::row`] writes.
pub(crate) fn print_head() {
    println!(
        "{:<8} {:<16} {:<10} {:<6} {:>5} {:>8} {:>9} {:>5} {:>8} {:>7}",
        "", "grid", "method", "", "GPUs", "setup", "median", "count", "reached", ""
    );
}

/// Rows of a table that are compared with the first of them.
pub(crate) struct Scaling {
    is_weak: bool,
    /// The number of GPUs of the first row, and its time of an iteration.
    first: Option<(usize, f64)>,
}

impl Scaling {
    /// The choices "weak" and "strong".
    pub(crate) const BOTH: [(&str, bool); 2] = [("weak", true), ("strong", false)];

    pub(crate) fn new(is_weak: bool) -> Self {
        Self { is_weak, first: None }
    }

    /// Solves on this many GPUs, and prints milliseconds and the efficiency of an iteration, since counts of these may
    /// differ.
    pub(crate) fn row<S: Stencil>(&mut self, cards: usize, method: &str, stencil: &S, options: &SolverOptions)
    where
        Cuda: Supports<S>,
        Cuda: Supports<S>,
    {
        let scaling = if self.is_weak { "weak" } else { "strong" };
        let shape: Shape = stencil.shape();
        let times = match solve(cards, stencil, options) {
            Ok(times) => times,
            Err(error) => return println!("{scaling:<8} {shape} on {cards}: {error}"),
        };
        let step = times.median / times.iterations.max(1) as f64;
        let (fewest, before) = *self.first.get_or_insert((cards, step));
        let faster = before / step;
        let efficiency = if self.is_weak { faster } else { faster * fewest as f64 / cards as f64 };
        println!(
            "{scaling:<8} {:<16} {method:<10} {:<6} {cards:>5} {:8.1} {:9.3} {:>5} {:8.1e} {:6.1}%",
            shape.to_string(),
            options.precision.to_string(),
            1e3 * times.setup,
            1e3 * times.median,
            times.iterations,
            times.residual,
            100.0 * efficiency
        );
    }
}
