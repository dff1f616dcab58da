//! Times of an iteration of conjugate gradients with line preconditioner, matrix-free and with the matrix stored (cuSPARSE), on
//! the first GPU: milliseconds, in double precision, the comparison of paper A.

use std::sync::Arc;
use std::time::Instant;

use isobar_core::bench::{seconds, time_setup, upload_noise};
use isobar_core::precond::Line;
use isobar_core::prelude::*;
use isobar_core::solver::cg::Cg;
use isobar_core::solver::monitor::Patience;
use isobar_core::solver::{Iteration, Monitor, Run};
use isobar_cuda::{Cuda, Vector};

/// Iterations of a short and of a long solve; the difference gives the time of one.
const ITERATIONS: [usize; 2] = [10, 50];
/// The number of such pairs, of which the median counts.
const RUNS: usize = 7;

fn main() -> isobar_core::Result<()> {
    let cuda = match Cuda::new(0) {
        Ok(cuda) => cuda,
        Err(error) => {
            println!("skipped: {error}");
            return Ok(());
        }
    };
    println!("{:<12} {:>8} {:>8} {:>8} {:>8} | an iteration:", "grid", "CSR", "free", "CSR", "free");
    println!(
        "{:<12} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "", "apply", "apply", "lines", "lines", "CSR", "textbook", "fused", "CSR/fused"
    );
    for (nx, ny) in [(256, 256), (512, 512)] {
        let problem = Helmholtz { grid: GridOptions { nx, ny, nz: 128, ..Default::default() }, ..Default::default() };
        let stencil = problem.stencil()?;
        let shape = stencil.shape();
        let layout = Layout::new(shape)?;
        let matrix = stencil.stored()?;
        let options =
            SolverOptions { method: Method::Cg, preconditioner: Preconditioner::Line, ..SolverOptions::default() };
        let setups = [time_setup(&cuda, &matrix, &options)?, time_setup(&cuda, &stencil, &options)?];
        let free = Supports::operator::<f64>(&cuda, &stencil)?;
        let stored = Supports::operator::<f64>(&cuda, &matrix)?;
        let Some(lines) = cuda.lines(&matrix, &stored)? else { continue };
        let lines = lines.solver;
        drop(matrix);

        let mut b = cuda.zeros::<f64>(&layout)?;
        upload_noise(&cuda, &layout, &mut b)?;
        let mut u = cuda.zeros::<f64>(&layout)?;
        let free_lines: Arc<dyn LineSolver<Cuda, f64>> = Arc::clone(&free) as _;
        let mut times = [
            seconds(&cuda, || stored.apply(&mut b, &mut u))?,
            seconds(&cuda, || free.apply(&mut b, &mut u))?,
            seconds(&cuda, || lines.solve_lines(&b, &mut u))?,
            seconds(&cuda, || free_lines.solve_lines(&b, &mut u))?,
            iteration(&cuda, Form::Textbook, stored, lines, &mut b, &mut u)?,
            iteration(&cuda, Form::Textbook, Arc::clone(&free) as _, Arc::clone(&free_lines), &mut b, &mut u)?,
            iteration(&cuda, Form::Fused, free, free_lines, &mut b, &mut u)?,
        ];
        times.iter_mut().for_each(|time| *time *= 1e3);
        let row: String = times.iter().map(|time| format!(" {time:8.3}")).collect();
        println!("{:<12}{row} {:8.2}", shape.to_string(), times[4] / times[6]);
        for (name, setup) in ["CSR", "free"].into_iter().zip(setups) {
            let [first, again, update] = [setup.first, setup.again, setup.update].map(|time| 1e3 * time);
            println!("{:<12} setup of CG with lines, {name}: {first:.1}, again {again:.1}, update {update:.1}", "");
        }
    }
    Ok(())
}

fn iteration(
    cuda: &Cuda,
    form: Form,
    operator: Arc<dyn Operator<Cuda, f64>>,
    lines: Arc<dyn LineSolver<Cuda, f64>>,
    b: &mut Vector<f64>,
    u: &mut Vector<f64>,
) -> isobar_core::Result<f64> {
    let mut cg = Cg::new(form, operator, Box::new(Line(lines)))?;
    let mut run = |iterations| {
        cg.begin(b, u, Guess::Zero)?;
        let mut observer = ignore;
        let mut monitor = Monitor::new(1.0, 0.0, iterations, Patience::Krylov, &mut observer);
        cuda.synchronize()?;
        let clock = Instant::now();
        cg.run(Run { b, u, guess: Guess::Zero, best: None, monitor: &mut monitor })?;
        cuda.synchronize()?;
        Ok::<_, isobar_core::Error>(clock.elapsed().as_secs_f64())
    };
    let [short, long] = ITERATIONS;
    run(short)?;
    let mut times = (0..RUNS)
        .map(|_| Ok((run(long)? - run(short)?) / (long - short) as f64))
        .collect::<isobar_core::Result<Vec<f64>>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times[RUNS / 2])
}
