//! Times of direct solves on a GPU, compared with a copy of a vector: `cargo bench -p isobar-cuda --bench direct_times --
//! [N …]`.

use std::time::Instant;

use cudarc::driver::result;
use isobar_core::array::DeviceArray;
use isobar_core::backend::Backend;
use isobar_core::build::{Solve, System};
use isobar_core::layout::Shape;
use isobar_core::operator::Guess;
use isobar_core::options::{Method, Norm, SolverOptions};
use isobar_core::problem::{Boundary, Coefficient, DiffusionProblem, Spacing, random};
use isobar_core::solver::ignore;
use isobar_core::stencil::{Stencil, Supports};
use isobar_cuda::Cuda;

/// Returns the best time of several runs, in milliseconds.
fn best(cuda: &Cuda, times: usize, mut work: impl FnMut()) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..times {
        cuda.synchronize().expect("a device that answers");
        let clock = Instant::now();
        work();
        cuda.synchronize().expect("a device that answers");
        least = least.min(clock.elapsed().as_secs_f64());
    }
    1e3 * least
}

fn times(cuda: &Cuda, shape: Shape, side: &str, stretching: f64) -> isobar_core::Result<()> {
    let boundary = match side {
        "neumann" => [Boundary::Neumann(0.0); 2],
        "dirichlet" => [Boundary::Dirichlet(0.0); 2],
        _ => [Boundary::Periodic; 2],
    };
    let spacing = shape.extents().map(|n| {
        let width = |i: usize| stretching.powf(i as f64 / (n.max(2) - 1) as f64);
        Spacing::Given((0..n).map(width).collect())
    });
    let problem = DiffusionProblem {
        boundary: [boundary; 3],
        spacing,
        ..DiffusionProblem::new(shape, Coefficient::Isotropic(vec![1.0; shape.cells()]))
    };
    let stencil = problem.stencil()?;
    let clock = Instant::now();
    let factors = stencil.separable()?;
    let found = clock.elapsed();
    let clock = Instant::now();
    factors.bases()?;
    let bases = clock.elapsed();
    let options =
        SolverOptions { method: Method::Direct, tolerance: 1e-10, norm: Norm::Rhs, ..SolverOptions::default() };
    let clock = Instant::now();
    let mut system = System::new(cuda, &stencil, &options)?;
    cuda.synchronize()?;
    let setup = clock.elapsed();
    let mut b: Vec<f64> = (0..shape.cells()).map(|n| random(1, n)).collect();
    let mean = b.iter().sum::<f64>() / b.len() as f64;
    b.iter_mut().for_each(|b| *b -= mean);
    cuda.upload(isobar_core::array::ArrayView::c_order(&b, shape)?, system.rhs_mut())?;
    let mut outcome = None;
    let whole = best(cuda, 7, || outcome = system.solve_in_place(Guess::Zero, &mut ignore).ok());
    // Solves between a caller's arrays on the GPU.
    // SAFETY: the back end has made its context current; both allocations are of that size, and freed below.
    let pointers = unsafe { [0, 1].map(|_| result::malloc_sync(size_of_val(b.as_slice())).expect("memory")) };
    // SAFETY: as above; nothing else uses them.
    let [from, to] = unsafe {
        result::memcpy_htod_sync(pointers[0], &b).expect("a device that answers");
        result::ctx::synchronize().expect("a device that answers");
        pointers.map(|pointer| DeviceArray::c_order::<f64>(pointer, shape, 0))
    };
    let mut between = None;
    let arrays = best(cuda, 7, || {
        between = Solve::solve(&mut system, from.into(), to.into(), Guess::Zero, &mut ignore).ok();
    });
    let told = between.map_or(f64::NAN, |outcome| outcome.relative_residual);
    // SAFETY: freed once.
    unsafe { pointers.into_iter().for_each(|pointer| result::free_sync(pointer).expect("a device that answers")) };
    let layout = <Cuda as Supports<_>>::layout(cuda, &stencil)?;
    let Some(solver) = cuda.direct(&layout, &factors)? else { return Ok(()) };
    let (x, mut y) = (cuda.zeros::<f64>(&layout)?, cuda.zeros::<f64>(&layout)?);
    let alone = best(cuda, 7, || {
        isobar_core::backend::direct::locked(&solver).solve(&x, &mut y).expect("a device that answers");
    });
    let copy = 1e3 * 2.0 * (layout.len() * size_of::<f64>()) as f64 / cuda.copy_bandwidth(&layout)?;
    let outcome =
        outcome.map_or_else(|| "failed".to_owned(), |o| format!("{} steps, {:.1e}", o.iterations, o.relative_residual));
    println!(
        "{shape} {side} stretched {stretching}: direct {alone:.3} ms = {:.1} copies; with verdict {whole:.3} ms ({outcome}), between arrays on it {arrays:.3} ms \
         ({told:.1e}); factors \
         {:.1}, bases {:.1}, setup {:.1} ms",
        alone / copy,
        1e3 * found.as_secs_f64(),
        1e3 * bases.as_secs_f64(),
        1e3 * setup.as_secs_f64(),
    );
    Ok(())
}

fn main() {
    let sizes: Vec<usize> = std::env::args().filter_map(|size| size.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![64, 128, 256] } else { sizes };
    let run = || -> isobar_core::Result<()> {
        let cuda = Cuda::new(0)?;
        println!("{}", cuda.device().name);
        for n in sizes {
            for side in ["neumann", "dirichlet", "periodic"] {
                times(&cuda, Shape::new(n, n, n), side, 1.0)?;
            }
            times(&cuda, Shape::new(n, n, n), "neumann", 100.0)?;
        }
        times(&cuda, Shape::new(101, 97, 103), "neumann", 100.0)?;
        Ok(())
    };
    if let Err(error) = run() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
