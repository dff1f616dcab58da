//! Microseconds of an exchange of halo rows, and of a sum, between two GPUs of this host, one thread each. Argument: layers (128).
//! Solves on several GPUs are timed by `isobar bench --scaling`.

use std::sync::Arc;
use std::time::Instant;

use isobar_core::layout::Colour;
use isobar_core::prelude::*;
use isobar_cuda::{Cuda, devices};
use isobar_dist::part::{Link, PartBackend};
use isobar_dist::{Communicator, join_rows, threads};

const TIMES: usize = 200;

fn exchange(shape: Shape) -> Result<()> {
    let mut all = threads::run(2, |world| {
        let card = Cuda::new(world.rank())?;
        let linked = card.join(world.rank(), world.size(), &mut |mine| world.all_gather_equal(mine))?;
        let backend = join_rows(linked, Arc::new(world.clone()))?;
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
                        _ => link.sum(&inner, &[Scalar::ONE], &mut scalars)?,
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
    let megabytes = (8 * Layout::new(shape)?.half_plane()) as f64 / 1e6;
    println!("{shape}: half a row ({megabytes:.3} MB) {half:.1} µs, a row {row:.1} µs, a sum {sum:.1} µs");
    Ok(())
}

fn main() -> Result<()> {
    let cards = devices().map_or(0, |cards| cards.len());
    if cards < 2 {
        println!("skipped: {cards} GPUs");
        return Ok(());
    }
    let layers = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(128);
    [16, 64, 256, 1024, 4096].into_iter().try_for_each(|n| exchange(Shape::new(n, 64, layers)))
}
