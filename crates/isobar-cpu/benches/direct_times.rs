//! Times of direct solves on the processor: boxes of n³ cells with closed, fixed, periodic and stretched (100 : 1) axes; the
//! least time of several, and the bandwidth of the six vectors that a solve reads or writes at least, beside that of a copy.
//! Arguments: cells a side (64, 128 and 256), threads (2), the number of solves (11), and a word that selects boxes by name
//! (all).

use std::time::Instant;

use isobar_core::backend::Backend;
use isobar_core::backend::direct::locked;
use isobar_core::layout::{Layout, Shape};
use isobar_core::problem::random;
use isobar_core::stencil::{Coefficients, Diffusion, Side, Stencil};
use isobar_cpu::Cpu;

/// Makes a box of n³ cells.
fn cube(n: usize, side: Side, stretching: f64) -> isobar_core::Result<Diffusion> {
    let shape = Shape::new(n, n, n);
    let widths: Vec<f64> = (0..n).map(|i| stretching.powf(i as f64 / (n - 1) as f64)).collect();
    let field = |axis: usize| {
        let at = |cell: usize| [cell % n, cell / n % n, cell / (n * n)].map(|i| widths[i]);
        let of = |cell: usize| {
            let widths = at(cell);
            2.0 * widths.iter().product::<f64>() / widths[axis].powi(2)
        };
        (0..shape.cells()).map(of).collect::<Vec<f64>>().into()
    };
    let fields = (0..3).map(field).collect();
    Diffusion::new(shape, Coefficients::Cells { fields, axes: [(0, 1.0), (1, 1.0), (2, 1.0)] }, None, [[side; 2]; 3])
}

fn main() -> isobar_core::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let number = |n: usize| words.get(n).and_then(|word| word.parse::<usize>().ok());
    let (threads, solves) = (number(1).unwrap_or(2), number(2).unwrap_or(11));
    let cpu = Cpu::new(threads)?;
    println!("{threads} threads, {}", cpu.instructions());
    for n in number(0).map_or(vec![64, 128, 256], |n| vec![n]) {
        let layout = Layout::new(Shape::new(n, n, n))?;
        println!("{n}³: a copy has {:.1} GB/s", cpu.copy_bandwidth(&layout)? / 1e9);
        let (mut b, mut u) = (cpu.zeros::<f64>(&layout)?, cpu.zeros::<f64>(&layout)?);
        b.entries_mut().iter_mut().enumerate().for_each(|(n, b)| *b = random(3, n) - 0.5);
        for (name, side, stretching) in [
            ("closed", Side::Closed, 1.0),
            ("fixed", Side::Fixed, 1.0),
            ("periodic", Side::Periodic, 1.0),
            ("stretched", Side::Closed, 100.0),
        ] {
            if words.get(3).is_some_and(|word| !name.contains(word.as_str())) {
                continue;
            }
            let factors = cube(n, side, stretching)?.separable()?;
            let clock = Instant::now();
            let Some(solver) = cpu.direct(&layout, &factors)? else { continue };
            let setup = clock.elapsed().as_secs_f64();
            let mut solver = locked(&solver);
            let mut least = f64::INFINITY;
            for _ in 0..solves {
                let clock = Instant::now();
                solver.solve(&b, &mut u)?;
                least = least.min(clock.elapsed().as_secs_f64());
            }
            let bytes = (6 * layout.shape().cells() * size_of::<f64>()) as f64;
            println!(
                "{name:<10} {:8.2} ms, {:5.1} GB/s, made in {:.0} ms",
                1e3 * least,
                bytes / least / 1e9,
                1e3 * setup
            );
        }
    }
    Ok(())
}
