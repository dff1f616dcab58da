//! Times of point relaxation on the first GPU, in double precision by default: a sweep and cycles of various tiles, in updates of cells a
//! second, compared with plain sweeps and the copy measured in the same run; and solves of paper C's problems, with the cycles of an
//! independent implementation, also side by side as a batch. Words on the command line, such as "512 solves", choose groups by the first
//! size of their grids.

use isobar_core::array::{ArrayView, ArrayViewMut};
use isobar_core::backend::{Backend, Scalar};
use isobar_core::bench::{seconds, upload_noise};
use isobar_core::build::{Solve, System};
use isobar_core::layout::Shape;
use isobar_core::operator::{Guess, PointSmoother};
use isobar_core::options::{Count, JacobiOptions, Method, Overlap, PointCycle, SolverOptions};
use isobar_core::problem::{Boundary, Coefficient, DiffusionProblem, PointProblem, RhsKind, Weighting, random};
use isobar_core::real::Real;
use isobar_core::solver::ignore;
use isobar_core::stencil::{Diffusion, Stencil, Supports};
use isobar_cuda::Cuda;

type Result<T> = isobar_core::Result<T>;

fn main() -> Result<()> {
    let cuda = match Cuda::new(0) {
        Ok(cuda) => cuda,
        Err(error) => {
            println!("skipped: {error}");
            return Ok(());
        }
    };
    println!("{}", cuda.device().name);
    // Sub-iterations, overlap and tile.
    let line =
        [(8, 4, [32, 32, 1]), (16, 4, [32, 32, 1]), (32, 8, [32, 32, 1]), (16, 4, [256, 4, 1]), (64, 8, [256, 4, 1])];
    let square = [
        (16, 0, [32, 32, 1]),
        (32, 4, [32, 32, 1]),
        (32, 4, [64, 32, 1]),
        (32, 4, [64, 64, 1]),
        (64, 8, [64, 64, 1]),
        (4, 6, [32, 32, 1]),
        (4, 6, [64, 32, 1]),
        (6, 10, [64, 64, 1]),
        (8, 14, [64, 64, 1]),
    ];
    let cube =
        [(2, 2, [32, 8, 8]), (3, 4, [32, 16, 12]), (4, 6, [32, 24, 16]), (8, 2, [32, 8, 8]), (8, 2, [32, 16, 12])];
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_wanted = |group: &str| words.is_empty() || words.iter().any(|word| word == group);
    for (group, shape, is_line, cycles) in [
        ("1024", Shape::new(1024, 1024, 1), false, &square[..]),
        ("1024", Shape::new(1024, 1024, 1), true, &line),
        ("8192", Shape::new(8192, 8192, 1), false, &square),
        ("256", Shape::new(256, 256, 256), false, &cube),
        ("512", Shape::new(512, 512, 512), false, &cube),
    ] {
        if is_wanted(group) {
            times::<f64>(&cuda, shape, is_line, cycles)?;
        }
    }
    if !is_wanted("solves") {
        return Ok(());
    }
    for sub_iterations in [1, 16] {
        solve_batch(&cuda, sub_iterations)?;
    }
    for (shape, sub_iterations, overlap, expected) in [
        (Shape::new(1024, 1, 1), 1, 0, 128_760),
        (Shape::new(1024, 1, 1), 16, 4, 8_094),
        (Shape::new(256, 256, 1), 1, 0, 38_978),
        (Shape::new(256, 256, 1), 32, 4, 1_355),
    ] {
        solve(&cuda, shape, sub_iterations, overlap, expected)?;
    }
    Ok(())
}

/// Makes Poisson's equation at points; several lines are side by side without couplings.
fn stencil(shape: Shape, is_line: bool) -> Result<(Diffusion, Vec<f64>)> {
    let ones = vec![1.0; shape.cells()];
    let coefficient = if is_line {
        Coefficient::Diagonal([ones.clone(), vec![0.0; shape.cells()], ones])
    } else {
        Coefficient::Isotropic(ones)
    };
    let mut problem = DiffusionProblem::new(shape, coefficient);
    problem.boundary = [[Boundary::Dirichlet(0.0); 2]; 3];
    let points = PointProblem::new(problem, [1.0; 3])?;
    Ok((points.stencil()?, points.rhs(Some(RhsKind::Constant), 0, Weighting::Volume)?))
}

fn times<T: Real>(cuda: &Cuda, shape: Shape, is_line: bool, cycles: &[(usize, usize, [usize; 3])]) -> Result<()> {
    let (stencil, rhs) = stencil(shape, is_line)?;
    let operator = Supports::<Diffusion>::operator::<T>(cuda, &stencil)?;
    let layout = Supports::<Diffusion>::layout(cuda, &stencil)?;
    let copy = cuda.copy_bandwidth(&layout)?;
    let [mut f, mut u, mut v] = [cuda.zeros::<T>(&layout)?, cuda.zeros(&layout)?, cuda.zeros(&layout)?];
    cuda.upload(ArrayView::c_order(&rhs, Stencil::shape(&stencil))?, &mut f)?;
    upload_noise(cuda, &layout, &mut u)?;
    let mut scalars = cuda.scalars()?;
    let mut time = |cycle: &PointCycle| -> Result<f64> {
        operator.prepare(cycle)?;
        seconds(cuda, || {
            operator.relax_points(cycle, &f, &mut u, &mut v, Scalar::new(0), &mut scalars)?;
            std::mem::swap(&mut u, &mut v);
            Ok(())
        })
    };
    let plain = time(&PointCycle::sweep(1.0))?;
    // With equal cells only a shift is read.
    let coefficients = if is_line { stencil.coefficient_vectors() } else { f64::from(u8::from(stencil.has_shift())) };
    let bytes = (3.0 + coefficients) * (shape.cells() * size_of::<T>()) as f64;
    let lines = if is_line { ", lines" } else { "" };
    println!("\n{shape}{lines}, {}, copy {:.0} GB/s", T::PRECISION, copy / 1e9);
    println!(
        "  sweep {:9.3} ms, {:7.1} G updates/s, {:3.0} % of copy",
        1e3 * plain,
        shape.cells() as f64 / plain / 1e9,
        100.0 * bytes / plain / copy
    );
    for &(sub_iterations, overlap, tile) in cycles {
        let n = shape.extents();
        let overlap = [0, 1, 2].map(|d| if tile[d] < n[d] && !(is_line && d == 1) { overlap } else { 0 });
        let cycle = PointCycle { sub_iterations, tile, overlap, ..PointCycle::sweep(1.0) };
        match time(&cycle) {
            Ok(seconds) => println!(
                "  {sub_iterations:3} in {tile:?}, shared {overlap:?}{}: {:9.3} ms, {:7.1} G updates/s, {:5.2} × plain a sweep",
                if cycle.is_exact(shape, [false; 3]) { ", exact" } else { "" },
                1e3 * seconds,
                (sub_iterations * shape.cells()) as f64 / seconds / 1e9,
                plain * sub_iterations as f64 / seconds
            ),
            Err(error) => println!("  {sub_iterations:3} in {tile:?}: {error}"),
        }
    }
    Ok(())
}

/// Times a solve to a residual of 1e-4 from a first guess of ones, in tiles of 32 points a direction.
fn solve(cuda: &Cuda, shape: Shape, sub_iterations: usize, overlap: usize, expected: usize) -> Result<()> {
    let (stencil, rhs) = stencil(shape, false)?;
    let jacobi = JacobiOptions {
        sub_iterations: Count::Given(sub_iterations),
        overlap: Overlap::All(overlap),
        tile: Some(vec![32.min(shape.nx), 32.min(shape.ny)]),
        ..JacobiOptions::default()
    };
    let options = SolverOptions {
        method: Method::Jacobi,
        tolerance: 1e-4,
        max_iterations: 200_000,
        jacobi,
        ..SolverOptions::default()
    };
    let mut system = System::new(cuda, &stencil, &options)?;
    let rhs = ArrayView::c_order(&rhs, shape)?;
    let mut u = vec![0.0; shape.cells()];
    let mut outcome = None;
    for _ in 0..2 {
        u.fill(1.0);
        let to = ArrayViewMut::c_order(&mut u, shape)?;
        outcome = Some(system.solve(rhs.into(), to.into(), Guess::Given, &mut ignore)?);
    }
    if let Some(outcome) = outcome {
        println!(
            "{shape}, {sub_iterations} sub-iterations, {overlap} shared: {} cycles (expected {expected}), {}, {:.1} ms, {:.2} µs a cycle",
            outcome.iterations,
            outcome.stop,
            1e3 * outcome.timing.solve,
            1e6 * outcome.timing.solve / outcome.iterations as f64
        );
    }
    Ok(())
}

/// Times 1024 lines of 1024 points, each with its own stopping test; most have random right-hand sides.
fn solve_batch(cuda: &Cuda, sub_iterations: usize) -> Result<()> {
    let shape = Shape::new(1024, 1024, 1);
    let (stencil, ones) = stencil(shape, true)?;
    let jacobi = JacobiOptions {
        sub_iterations: Count::Given(sub_iterations),
        overlap: Overlap::All(if sub_iterations > 1 { 4 } else { 0 }),
        tile: (sub_iterations > 1).then(|| vec![32, 32]),
        batch: true,
        ..JacobiOptions::default()
    };
    let options = SolverOptions {
        method: Method::Jacobi,
        tolerance: 1e-4,
        max_iterations: 200_000,
        jacobi,
        ..SolverOptions::default()
    };
    let mut rhs = ones;
    for (n, f) in rhs.iter_mut().enumerate().filter(|(n, _)| !(n / shape.nx).is_multiple_of(8)) {
        *f *= random(n as u64 / shape.nx as u64, n % shape.nx);
    }
    let mut system = System::new(cuda, &stencil, &options)?;
    let mut u = vec![1.0; shape.cells()];
    let to = ArrayViewMut::c_order(&mut u, shape)?;
    let outcome = system.solve(ArrayView::c_order(&rhs, shape)?.into(), to.into(), Guess::Given, &mut ignore)?;
    let batch = outcome.batch.as_ref().map_or((0, 0), |batch| (batch.least(), batch.most()));
    println!(
        "batch of {shape}, {sub_iterations} sub-iterations: {} cycles, lines {} to {}, {}, {:.1} ms, {:.2} µs a cycle",
        outcome.iterations,
        batch.0,
        batch.1,
        outcome.stop,
        1e3 * outcome.timing.solve,
        1e6 * outcome.timing.solve / outcome.iterations as f64
    );
    Ok(())
}
