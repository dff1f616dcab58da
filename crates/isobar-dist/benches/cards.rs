//! Solves of the panel problem to 1e-5 on several cards of this host, a thread each: the median of some, in milliseconds, and how
//! that compares with one card. Arguments: `weak`, `strong` or `exchange` (all if there are none), then columns in x, rows a card
//! (weak) or in all (strong), layers (1024 1024 128 if there are none), and how many cards at least.

use std::sync::Arc;
use std::time::Instant;

use isobar_core::array::{ArrayView, ArrayViewMut};
use isobar_core::backend::Backend;
use isobar_core::backend::part::{Link, PartBackend};
use isobar_core::build::{Solve, System};
use isobar_core::error::Result;
use isobar_core::grid::GridOptions;
use isobar_core::layout::{Colour, Layout, Shape, Slab};
use isobar_core::operator::Guess;
use isobar_core::options::{Method, SolverOptions};
use isobar_core::problem::Helmholtz;
use isobar_core::real::Precision;
use isobar_core::solver::ignore;
use isobar_core::stencil::{Stencil, Supports, TensorProduct};
use isobar_cuda::{Cuda, devices};
use isobar_dist::threads::Threads;
use isobar_dist::{Communicator, Distributed, threads};

/// Solves of which the median is taken.
const SOLVES: usize = 7;

fn linked(world: &Threads) -> Result<Cuda> {
    Cuda::new(world.rank())?.join(world.rank(), world.size(), &mut |mine| world.all_gather_equal(mine))
}

struct Times {
    setup: f64,
    median: f64,
    iterations: usize,
    residual: f64,
}

fn solve(cards: usize, shape: Shape, options: &SolverOptions) -> Result<Times> {
    let grid = GridOptions { nx: shape.nx, ny: shape.ny, nz: shape.nz, ..Default::default() };
    let stencil = Helmholtz { grid, ..Default::default() }.stencil()?;
    if cards == 1 {
        // As without ranks.
        return solve_rows(&Cuda::new(0)?, &stencil, Slab::whole(shape), options, &|| Ok(()));
    }
    let mut all = threads::run(cards, |world| {
        let backend = Distributed::new(linked(&world)?, Arc::new(world));
        solve_rows(&backend, &stencil, backend.slab(shape)?, options, &|| backend.world().barrier())
    })?;
    all.sort_by(|a, b| b.median.total_cmp(&a.median));
    Ok(all.swap_remove(0))
}

fn solve_rows<B: Supports<TensorProduct>>(
    backend: &B,
    stencil: &TensorProduct,
    slab: Slab,
    options: &SolverOptions,
    barrier: &dyn Fn() -> Result<()>,
) -> Result<Times> {
    let shape = stencil.shape();
    let own = slab.shape(shape);
    let clock = Instant::now();
    let mut system = System::new(backend, stencil, options)?;
    let setup = clock.elapsed().as_secs_f64();
    // A right-hand side that is the same however rows are divided, in single precision: half the memory of the host.
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

/// Microseconds that an exchange of halo rows takes, and a sum, one after the other.
fn exchange(cards: usize, shape: Shape) -> Result<()> {
    const TIMES: usize = 200;
    let mut all = threads::run(cards, |world| {
        let backend = Distributed::new(linked(&world)?, Arc::new(world));
        let inner = backend.inner().clone();
        let layout: Layout = backend.slab(shape)?.layout(shape)?;
        let (mut x, mut scalars) = (inner.zeros::<f64>(&layout)?, inner.scalars()?);
        let Some(link) = inner.link() else { return Ok([f64::NAN; 3]) };
        let mut micros = [0.0; 3];
        for (what, time) in micros.iter_mut().enumerate() {
            for round in 0..2 {
                inner.synchronize()?;
                backend.world().barrier()?;
                let clock = Instant::now();
                for _ in 0..TIMES {
                    match what {
                        0 => link.fill(&inner, &mut x, &[Colour::Red])?,
                        1 => link.fill(&inner, &mut x, &Colour::BOTH)?,
                        _ => link.sum(&inner, &[isobar_core::backend::Scalar::ONE], &mut scalars)?,
                    }
                }
                inner.synchronize()?;
                if round == 1 {
                    *time = 1e6 * clock.elapsed().as_secs_f64() / TIMES as f64;
                }
            }
        }
        Ok(micros)
    })?;
    let [half, row, sum] = all.swap_remove(0);
    let megabytes = (layout_bytes(shape)) as f64 / 1e6;
    println!("{shape}: half a row ({megabytes:.3} MB) {half:.1} µs, a row {row:.1} µs, a sum {sum:.1} µs");
    Ok(())
}

fn layout_bytes(shape: Shape) -> usize {
    Layout::new(shape).map_or(0, |layout| 8 * layout.half_plane())
}

fn main() -> Result<()> {
    let cards = devices().map(|cards| cards.len()).unwrap_or(0);
    if cards < 2 {
        println!("skipped: {cards} cards");
        return Ok(());
    }
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let what = arguments.iter().find(|argument| argument.parse::<usize>().is_err()).cloned();
    let sizes: Vec<usize> = arguments.iter().filter_map(|argument| argument.parse().ok()).collect();
    let [nx, ny, nz] = sizes.get(..3).and_then(|sizes| sizes.try_into().ok()).unwrap_or([1024, 1024, 128]);
    // A grid too large for one card: `weak`, `strong` and how many at least.
    let fewest = if sizes.len() == 4 { sizes[3] } else { 1 };
    let is_asked = |name: &str| what.as_deref().is_none_or(|what| what == name);
    if is_asked("exchange") {
        for n in [16, 64, 256, 1024, 4096] {
            exchange(2, Shape::new(n, 64, nz))?;
        }
    }
    println!(
        "{:<8} {:<16} {:<10} {:<6} {:>5} {:>8} {:>9} {:>5} {:>8} {:>7}",
        "", "grid", "method", "", "cards", "setup", "median", "count", "reached", ""
    );
    for (scaling, is_weak) in [("weak", true), ("strong", false)] {
        if !is_asked(scaling) {
            continue;
        }
        for (method, precision) in
            [(Method::Cg, Precision::F64), (Method::Multigrid, Precision::F64), (Method::Multigrid, Precision::Mixed)]
        {
            let options = SolverOptions { method, precision, ..SolverOptions::default() };
            let mut alone = None;
            for count in (0..).map(|n| 1 << n).take_while(|&count| count <= cards).filter(|&count| count >= fewest) {
                let shape = Shape::new(nx, if is_weak { count * ny } else { ny }, nz);
                let times = match solve(count, shape, &options) {
                    Ok(times) => times,
                    Err(error) => {
                        println!("{scaling:<8} {shape} on {count}: {error}");
                        continue;
                    }
                };
                // A step of each iteration, since counts may differ.
                let step = times.median / times.iterations.max(1) as f64;
                let (fewest, before) = *alone.get_or_insert((count, step));
                let faster = before / step;
                let efficiency = if is_weak { faster } else { faster * fewest as f64 / count as f64 };
                println!(
                    "{scaling:<8} {:<16} {:<10} {:<6} {count:>5} {:8.1} {:9.3} {:>5} {:8.1e} {:6.1}%",
                    shape.to_string(),
                    options.method_name(),
                    precision.to_string(),
                    1e3 * times.setup,
                    1e3 * times.median,
                    times.iterations,
                    times.residual,
                    100.0 * efficiency
                );
            }
        }
    }
    Ok(())
}
