//! Setup and solve of diffusion problems on n³ cells, to 1e-8.
//!
//! `cargo bench -p isobar-cpu --bench diffusion_times -- [n] [threads] [auto|f64|mixed] [names of problems] [lines|point-line]`:
//! cycles in the automatically chosen precision, in double, in single; with `lines` these are relaxed where the choice would be
//! points, and with `point-line` the hybrid smoother is used. Seconds of the processor are those of all threads.

use std::f64::consts::TAU;
use std::time::Instant;

use isobar_core::conformance::arrays::solve_again;
use isobar_core::prelude::*;
use isobar_core::problem::materials;
use isobar_cpu::Cpu;

/// Returns the processor seconds of this process, where the system reports them.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = text.rsplit(')').next().unwrap_or_default();
    after_name
        .split_whitespace()
        .nth(11)
        .and_then(|ticks| ticks.parse::<f64>().ok())
        .map_or(f64::NAN, |ticks| ticks / 100.0)
}

fn time(
    cpu: &Cpu,
    name: &str,
    shape: Shape,
    field: Vec<f64>,
    sides: [[Side; 2]; 3],
    (cycles, smoother): (CyclePrecision, Smoother),
) -> Result<()> {
    let stencil = Diffusion::of_field(shape, field, [2.0; 3], None, sides)?;
    let mut options =
        SolverOptions { tolerance: 1e-8, compatibility: Compatibility::Project, ..SolverOptions::default() };
    (options.multigrid.precision, options.multigrid.smoother) = (cycles, smoother);
    let rhs: Vec<f64> = (0..shape.cells()).map(|n| random(7, n)).collect();
    let mut u = vec![0.0; rhs.len()];
    for _ in 0..2 {
        let (clock, before) = (Instant::now(), processor_seconds());
        let mut system = System::new(cpu, &stencil, &options)?;
        let (setup, made) = (clock.elapsed().as_secs_f64(), processor_seconds());
        let outcome = solve_again(&mut system, shape, &rhs, &mut u, Guess::Zero)?;
        let levels: Vec<String> = system.description().levels.iter().map(Shape::to_string).collect();
        println!(
            "{name:12} {}: setup {setup:.3} s, solve {:.3} s (of the processor {:.2}, {:.2}), {} iterations, {:.1e}, levels {}",
            system.description().method,
            outcome.timing.solve,
            made - before,
            processor_seconds() - made,
            outcome.iterations,
            outcome.relative_residual,
            levels.join(" ")
        );
    }
    Ok(())
}

/// Computes κ = 10^g, g a sum of 64 plane waves with a deviation of 1, one wave in about `cells` cells, as in `validation/hypre`.
fn plane_waves(shape: Shape, cells: f64) -> Vec<f64> {
    const MODES: usize = 64;
    let uniform = |n: usize| 0.5 * (random(0, n) + 1.0);
    let mut g = vec![0.0; shape.cells()];
    for mode in 0..MODES {
        let waves = [(0, shape.nx), (1, shape.ny), (2, shape.nz)].map(|(d, n)| {
            let draw = 8 * mode + 2 * d;
            let normal = (-2.0 * uniform(draw).ln()).sqrt() * (TAU * uniform(draw + 1)).cos();
            let waves = (normal * n as f64 / cells).round();
            (0..n).map(|i| TAU * waves * (i as f64 + 0.5) / n as f64).collect::<Vec<_>>()
        });
        let phase = uniform(8 * mode + 6);
        let along_x: Vec<_> = waves[0].iter().map(|angle| angle.sin_cos()).collect();
        for (row, g) in g.chunks_mut(shape.nx).enumerate() {
            let (sine, cosine) = (waves[1][row % shape.ny] + waves[2][row / shape.ny] + TAU * phase).sin_cos();
            for (g, (s, c)) in g.iter_mut().zip(&along_x) {
                *g += cosine * c - sine * s;
            }
        }
    }
    g.into_iter().map(|g| 10f64.powf((2.0 / MODES as f64).sqrt() * g)).collect()
}

/// Computes the coefficients of a grid.
type Field<'a> = &'a dyn Fn(Shape) -> Result<Vec<f64>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let number = |n: usize, otherwise: usize| arguments.get(n).and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    let (n, threads) = (number(0, 128), number(1, 1));
    let precision = match arguments.get(2).map(String::as_str) {
        Some("mixed") => CyclePrecision::F32,
        Some("f64") => CyclePrecision::F64,
        _ => CyclePrecision::Auto,
    };
    let smoother = match arguments.iter().find(|a| ["lines", "point-line"].contains(&a.as_str())) {
        Some(name) if name == "lines" => Smoother::LineRedBlack,
        Some(_) => Smoother::PointLine,
        None => Smoother::Auto,
    };
    let precision = (precision, smoother);
    let cpu = Cpu::new(threads)?;
    let (cube, plane) = (Shape::new(n, n, n), Shape::new(1024, 1024, 1));
    let [closed, fixed, ring] = [Side::Closed, Side::Fixed, Side::Periodic].map(|side| [side; 2]);
    let (west, ends) = ([[Side::Fixed, Side::Closed], closed, closed], [fixed, closed, closed]);
    let constant = |shape: Shape| Ok(vec![1.0; shape.cells()]);
    let smooth = |shape: Shape| {
        let kappa = |[x, y, z]: [f64; 3]| (1.5 * (4.0 * x + 1.0).sin() * (5.0 * y).cos() * (3.0 * z).cos()).exp();
        Ok(shape.places().map(|at| kappa(at.map(|i| i as f64 / shape.nx as f64))).collect())
    };
    let bubbles = |contrast| {
        let bubbles = Bubbles { count: 20, radius: 0.1, contrast, seed: 3 };
        move |shape: Shape| materials::bubbles(shape, [1.0; 3], &bubbles)
    };
    let binary = |shape: Shape| Ok((0..shape.cells()).map(|n| if random(5, n) > 0.0 { 1e6 } else { 1.0 }).collect());
    let problems: [(&str, Shape, [[Side; 2]; 3], Field<'_>); 12] = [
        ("constant", cube, west, &constant),
        ("fixed", cube, [fixed; 3], &constant),
        ("rings", cube, [ring; 3], &constant),
        ("smooth", cube, [fixed; 3], &smooth),
        ("plane", plane, [fixed, fixed, closed], &constant),
        ("lognormal", cube, west, &|shape| materials::noise(shape, 1.0, 1)),
        ("waves16", cube, ends, &|shape| Ok(plane_waves(shape, 16.0))),
        ("waves8", cube, ends, &|shape| Ok(plane_waves(shape, 8.0))),
        ("waves4", cube, ends, &|shape| Ok(plane_waves(shape, 4.0))),
        ("bubbles", cube, [ring, ring, closed], &bubbles(1e3)),
        ("bubbles6", cube, west, &bubbles(1e6)),
        ("binary", cube, west, &binary),
    ];
    for (name, shape, sides, field) in problems {
        if arguments.len() < 4 || arguments[3..].iter().any(|only| only == name) {
            time(&cpu, name, shape, field(shape)?, sides, precision)?;
        }
    }
    Ok(())
}
