//! Times of solves of the panel problem to 1e-5 on several GPUs of this host, one thread each: the median in milliseconds, and the
//! comparison with one GPU. Arguments: any of `weak`, `strong` and `exchange`, any of `cg`, `multigrid` and `modes`, any of `f64` and
//! `mixed` (all by default); then columns in x, rows a GPU (weak) or in all (strong), layers (default 1024 1024 128), and the least
//! number of GPUs.

mod scaling;

use std::sync::Arc;
use std::time::Instant;

use isobar_core::backend::Backend;
use isobar_core::error::Result;
use isobar_core::grid::GridOptions;
use isobar_core::layout::{Colour, Layout, Shape};
use isobar_core::options::{Count, Method, ModesOptions, SolverOptions};
use isobar_core::policy::modes::Plan;
use isobar_core::problem::Helmholtz;
use isobar_core::real::Precision;
use isobar_core::stencil::TensorProduct;
use isobar_dist::part::{Link, PartBackend};
use isobar_dist::{Communicator, join_rows, threads};

use scaling::{Scaling, linked};

fn problem(shape: Shape) -> Result<TensorProduct> {
    let grid = GridOptions { nx: shape.nx, ny: shape.ny, nz: shape.nz, ..Default::default() };
    Helmholtz { grid, ..Default::default() }.stencil()
}

/// Prints the microseconds of an exchange of halo rows, and of a sum.
fn exchange(cards: usize, shape: Shape) -> Result<()> {
    const TIMES: usize = 200;
    let mut all = threads::run(cards, |world| {
        let backend = join_rows(linked(&world)?, Arc::new(world.clone()))?;
        let inner = backend.alone();
        let layout: Layout = backend.own_columns(shape)?.layout(shape, [false; 2])?;
        let (mut x, mut scalars) = (inner.zeros::<f64>(&layout)?, inner.scalars()?);
        let Some(link) = inner.link() else { return Ok([f64::NAN; 3]) };
        let mut micros = [0.0; 3];
        for (what, time) in micros.iter_mut().enumerate() {
            for round in 0..2 {
                inner.synchronize()?;
                world.barrier()?;
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
    let Some(cards) = scaling::several_cards() else { return Ok(()) };
    let (words, sizes) = scaling::arguments();
    let [nx, ny, nz] = sizes.get(..3).and_then(|sizes| sizes.try_into().ok()).unwrap_or([1024, 1024, 128]);
    // For a grid too large for one GPU: the least number.
    let fewest = if sizes.len() == 4 { sizes[3] } else { 1 };
    let is_asked = |name: &str, among: &[&str]| {
        let mut asked = words.iter().filter(|word| among.contains(&word.as_str())).peekable();
        asked.peek().is_none() || asked.any(|word| word == name)
    };
    const WHAT: [&str; 3] = ["exchange", "weak", "strong"];
    if is_asked("exchange", &WHAT) {
        for n in [16, 64, 256, 1024, 4096] {
            exchange(2, Shape::new(n, 64, nz))?;
        }
    }
    scaling::print_head();
    for (name, is_weak) in Scaling::BOTH {
        if !is_asked(name, &WHAT) {
            continue;
        }
        for (method, precision) in [
            (Method::Cg, Precision::F64),
            (Method::Multigrid, Precision::F64),
            (Method::Multigrid, Precision::Mixed),
            (Method::Modes, Precision::F64),
            (Method::Modes, Precision::Mixed),
        ] {
            let is_wanted = is_asked(method.name(), &["cg", "multigrid", "modes"])
                && is_asked(&precision.to_string(), &["f64", "mixed"]);
            if !is_wanted {
                continue;
            }
            let mut options = SolverOptions { method, precision, ..SolverOptions::default() };
            let counts = (0..).map(|n| 1 << n).take_while(|&count| count <= cards).filter(|&count| count >= fewest);
            let counts: Vec<usize> = counts.collect();
            let shape_for = |count: usize| Shape::new(nx, if is_weak { count * ny } else { ny }, nz);
            if method == Method::Modes {
                // All grids use the modes and sweeps of the largest, so that each GPU has the same work.
                let stencil = problem(shape_for(counts.last().copied().unwrap_or(1)))?;
                let plan =
                    Plan::new(stencil.largest_ratio(), stencil.modes()?.values(), &options.modes, options.tolerance)?;
                println!("{name:<8} {plan}");
                let [count, cycles, sweeps] = [plan.count, plan.cycles, plan.sweeps].map(Count::Given);
                options.modes = ModesOptions { count, cycles, sweeps };
            }
            let mut rows = Scaling::new(is_weak);
            for count in counts {
                rows.row(count, options.method_name(), &problem(shape_for(count))?, &options);
            }
        }
    }
    Ok(())
}
