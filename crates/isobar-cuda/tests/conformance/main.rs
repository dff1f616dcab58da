//! The CUDA back end, compared with the reference. Without a GPU everything is reported as ignored, unless
//! `ISOBAR_REQUIRE_CUDA=1`.

#[path = "../common/mod.rs"]
mod common;
mod diffusion;
mod direct;
mod faces;
mod modes;
mod problem;
mod rings;

use std::process::ExitCode;
use std::sync::Arc;

use common::OnCard;
use cudarc::driver::{result, sys};
use isobar_core::backend::Iterations;
use isobar_core::conformance::arrays::{self, distance, fetch, noise, norm, solve_by, vector};
use isobar_core::conformance::{queue_suite, suite};
use isobar_core::options::Judge;
use isobar_core::precond::Line;
use isobar_core::prelude::*;
use isobar_core::solver::cg::Cg;
use isobar_core::solver::monitor::Patience;
use isobar_core::solver::{Iteration, Monitor, Progress, Run};
use isobar_cuda::Cuda;
use problem::OnGpu;

fn main() -> ExitCode {
    let mut all = OnCard::on_card();
    all.add_suite("cuda_f64", suite::<Cuda, f64>());
    all.add_suite("cuda_f32", suite::<Cuda, f32>());
    all.add_suite("cuda", queue_suite::<Cuda>());
    all.add("large_grids_and_repeated_solves", large_grids_and_repeated_solves);
    all.add("odd_grids_that_stream", odd_grids_that_stream);
    all.add("stored_matrices_in_iterations", stored_matrices_in_iterations);
    all.add("large_arrays", large_arrays);
    all.add("too_large", too_large);
    all.add("no_reading_within_an_iteration", no_reading_within_an_iteration);
    all.add("no_such_card", no_such_card);
    all.add("arrays_on_the_card", arrays_on_the_card);
    all.add("arrays_of_another_stream", arrays_of_another_stream);
    diffusion::add_to(&mut all);
    direct::add_to(&mut all);
    faces::add_to(&mut all);
    modes::add_to(&mut all);
    problem::add_to(&mut all);
    rings::add_to(&mut all);
    all.run()
}

fn helmholtz(nx: usize, ny: usize, nz: usize) -> Helmholtz {
    Helmholtz { grid: GridOptions { nx, ny, nz, ..Default::default() }, ..Helmholtz::default() }
}

/// Solves give the same result every time, bit for bit, and agree with the reference.
fn solves_like_the_reference(cuda: &Cuda, problem: &Helmholtz, all: &[(Method, Precision, f64)], times: usize) {
    let stencil = problem.stencil().unwrap();
    let rhs = problem.rhs(RhsKind::Random, 0, Weighting::None).unwrap();
    let shape = stencil.shape();
    for &(method, precision, tolerance) in all {
        let options = SolverOptions { method, precision, tolerance, ..SolverOptions::default() };
        let solve = |system: &mut dyn Solve<TensorProduct>| {
            let (outcome, u) = solve_by(system, shape, &rhs);
            assert!(outcome.converged(), "{options:?} {outcome:?}");
            (outcome, u)
        };
        let mut system = System::new(cuda, &stencil, &options).unwrap();
        let (first, u) = solve(&mut system);
        for _ in 1..times {
            let (again, v) = solve(&mut system);
            assert_eq!((&again.history, again.relative_residual), (&first.history, first.relative_residual));
            assert!(u == v);
        }
        let (expected, _) = solve(&mut System::new(&Reference, &stencil, &options).unwrap());
        assert!(first.iterations.abs_diff(expected.iterations) <= 1, "{first:?} {expected:?}");
    }
}

/// Checks grids large enough to stream, solved more than once.
fn large_grids_and_repeated_solves(cuda: &Cuda) {
    let all = [
        (Method::Multigrid, Precision::F64, 1e-9),
        (Method::Multigrid, Precision::Mixed, 1e-9),
        (Method::Multigrid, Precision::F32, 1e-3),
        (Method::Cg, Precision::F64, 1e-9),
        (Method::Modes, Precision::F64, 1e-5),
        (Method::Modes, Precision::Mixed, 1e-9),
    ];
    solves_like_the_reference(cuda, &helmholtz(260, 208, 16), &all, 7);
}

/// Checks columns and rows that are alone in their coarse ones, on every streaming level.
fn odd_grids_that_stream(cuda: &Cuda) {
    let all = [
        (Method::Multigrid, Precision::F64, 1e-9),
        (Method::Multigrid, Precision::Mixed, 1e-9),
        (Method::Multigrid, Precision::F32, 1e-3),
    ];
    // Even by odd, and odd by odd, the latter with no padding.
    solves_like_the_reference(cuda, &helmholtz(274, 159, 9), &all, 2);
    solves_like_the_reference(cuda, &helmholtz(271, 157, 6), &all[..2], 1);
}

/// Checks stored matrices within recorded iterations: conjugate gradients with the stored matrix take the steps of the
/// matrix-free ones, in the first solve and in the next, with padding and without.
fn stored_matrices_in_iterations(cuda: &Cuda) {
    let stencil = helmholtz(37, 22, 12).stencil().unwrap();
    let layout = Layout::new(stencil.shape()).unwrap();
    let matrix = stencil.stored().unwrap();
    let stored = Supports::operator::<f64>(cuda, &matrix).unwrap();
    let blocks = cuda.lines(&matrix, &stored).unwrap().unwrap().solver;
    let free = Supports::operator::<f64>(cuda, &stencil).unwrap();
    let cg = |operator: Arc<dyn Operator<Cuda, f64>>, lines: Arc<dyn LineSolver<Cuda, f64>>| {
        Cg::new(operator, Box::new(Line(lines))).unwrap()
    };
    let mut explicit = cg(stored, blocks);
    let mut free = cg(Arc::clone(&free) as _, free);
    for seed in [1, 2] {
        let b = noise(stencil.shape().cells(), seed);
        let (expected_history, expected) = twelve_iterations(cuda, &mut free, &b, &layout);
        let (history, u) = twelve_iterations(cuda, &mut explicit, &b, &layout);
        assert_eq!(history.len(), expected_history.len());
        for (found, expected) in history.iter().zip(&expected_history) {
            assert!((found - expected).abs() <= 1e-9 * expected, "{history:?} {expected_history:?}");
        }
        let largest = expected.iter().fold(0f64, |m, v| m.max(v.abs()));
        for (found, expected) in u.iter().zip(&expected) {
            assert!((found - expected).abs() <= 1e-10 * largest, "{found} instead of {expected}");
        }
    }
}

/// Returns the residuals, and the final u.
fn twelve_iterations(
    cuda: &Cuda,
    cg: &mut dyn Iteration<Cuda, f64>,
    b: &[f64],
    layout: &Layout,
) -> (Vec<f64>, Vec<f64>) {
    let shape = layout.shape();
    let (mut on_b, mut on_u) = (vector(cuda, layout, b), cuda.zeros::<f64>(layout).unwrap());
    let mut history = Vec::new();
    let mut note = |progress: &Progress| {
        history.push(progress.relative_residual);
        std::ops::ControlFlow::Continue(())
    };
    cg.begin(&on_b, &mut on_u, Guess::Zero).unwrap();
    let mut monitor = Monitor::new(1.0, 0.0, 12, Patience::Krylov, &mut note);
    let _ = monitor.begin(norm(b));
    let guess = Guess::Zero;
    cg.run(Run { b: &mut on_b, u: &mut on_u, guess, best: None, monitor: &mut monitor }).unwrap();
    (history, fetch(cuda, &on_u, shape))
}

/// Checks arrays larger than several pieces of a copy.
fn large_arrays(cuda: &Cuda) {
    let shape = Shape::new(301, 250, 70);
    let data: Vec<f64> = (0..shape.cells()).map(|n| n as f64).collect();
    let mut v = cuda.zeros::<f64>(&Layout::new(shape).unwrap()).unwrap();
    for _ in 0..2 {
        cuda.upload(ArrayView::c_order(&data, shape).unwrap(), &mut v).unwrap();
        assert!(fetch(cuda, &v, shape) == data);
    }
    // Rows of a larger grid, whose layers are copied one by one, and a few, which are packed.
    let Shape { nx, ny, nz } = shape;
    let (origin, strides) = (20 * nx, [1, nx as isize, (nx * ny) as isize]);
    for rows in [180, 20] {
        let part = Shape::new(nx, rows, nz);
        let mut v = cuda.zeros::<f64>(&Layout::new(part).unwrap()).unwrap();
        cuda.upload(ArrayView::from_origin(&data, origin, part, strides).unwrap(), &mut v).unwrap();
        let mut found = vec![-1.0; data.len()];
        cuda.download(&v, &mut ArrayViewMut::from_origin(&mut found, origin, part, strides).unwrap()).unwrap();
        let is_inside = |n: usize| (20..20 + rows).contains(&(n / nx % ny));
        assert!(
            found.iter().enumerate().all(|(n, &value)| value == if is_inside(n) { data[n] } else { -1.0 }),
            "{rows} rows"
        );
    }
}

/// Allocations that do not fit are rejected in advance.
fn too_large(cuda: &Cuda) {
    let layout = Layout::new(Shape::new(1 << 16, 1 << 14, 1 << 10)).unwrap();
    match cuda.zeros::<f64>(&layout) {
        Err(Error::OutOfMemory { needed_bytes, available_bytes, .. }) => assert!(needed_bytes > available_bytes),
        other => panic!("{other:?}"),
    }
}

/// Waiting for the GPU inside an iteration is an error, not a wrong recording.
fn no_reading_within_an_iteration(cuda: &Cuda) {
    let mut scalars = cuda.scalars().unwrap();
    let body = &mut |_, scalars: &mut _| cuda.read(scalars).map(drop);
    let result = cuda.iterate(Iterations::default(), &mut scalars, body, &mut |_| std::ops::ControlFlow::Break(()));
    assert!(matches!(result, Err(Error::Unsupported(_))), "{result:?}");
    cuda.read(&scalars).unwrap();
}

/// A missing GPU is an error that lists the present ones, or what is missing.
fn no_such_card(_: &Cuda) {
    match Cuda::new(1000) {
        Err(Error::Device { message, .. }) => {
            assert!(message.contains("cuda:0") || message.contains("the device \"cpu\"") || message.contains("driver"));
        }
        other => panic!("{other:?}"),
    }
}

/// Returns the reference's solution.
fn reference_solution(stencil: &TensorProduct, options: &SolverOptions, rhs: &[f64]) -> Vec<f64> {
    let (outcome, u) = arrays::solve(&Reference, stencil, options, rhs);
    assert!(outcome.converged());
    u
}

/// Checks a caller's arrays on the GPU, in the caller's own order and precision, solved without leaving it.
fn arrays_on_the_card(cuda: &Cuda) {
    let shape @ Shape { nx, ny, nz } = Shape::new(36, 20, 12);
    let stencil = helmholtz(nx, ny, nz).stencil().unwrap();
    // A tolerance beyond single precision.
    let options = SolverOptions { tolerance: 1e-9, judge: Judge::Internal, ..SolverOptions::default() };
    let mut system = System::new(cuda, &stencil, &options).unwrap();
    let judged = SolverOptions { judge: Judge::Array, ..options.clone() };
    let mut judging = System::new(cuda, &stencil, &judged).unwrap();

    // Columns contiguous, single precision.
    let strides = [ny * nz, nz, 1];
    let rhs: Vec<f64> = noise(shape.cells(), 9).into_iter().map(|value| f64::from(value as f32)).collect();
    let [b, u] = [&rhs, &vec![f64::NAN; rhs.len()]].map(|values| OnGpu::<f32>::new(cuda, shape, strides, values));
    let (from, to) = (b.array, u.array);
    let outcome = judging.solve(from.into(), to.into(), Guess::Zero, &mut ignore).unwrap();
    assert!(outcome.stop == Stop::Stagnated && outcome.relative_residual > 1e-7, "{outcome:?}");
    let outcome = system.solve(from.into(), to.into(), Guess::Zero, &mut ignore).unwrap();
    assert!(outcome.converged(), "{outcome:?}");
    let (expected, u) = (reference_solution(&stencil, &options, &rhs), u.read());
    assert!(distance(&u, &expected) < 1e-5, "{:e}", distance(&u, &expected));

    // SAFETY: refused for their shape and their device before they are touched.
    let (long, elsewhere) = unsafe {
        (
            DeviceArray::c_order::<f32>(from.pointer(), Shape::new(nx, ny, nz + 1), cuda.ordinal()),
            DeviceArray::new::<f32>(from.pointer(), shape, strides, cuda.ordinal() + 1),
        )
    };
    assert!(matches!(cuda.import(&long, system.rhs_mut()), Err(Error::Shape { .. })));
    match cuda.import(&elsewhere, system.rhs_mut()) {
        Err(Error::Unsupported(message)) => assert!(message.contains("cuda:1") && message.contains("cuda:0")),
        other => panic!("{other:?}"),
    }
}

/// Checks arrays that a caller's stream fills, reads again, and fills again, without any waiting.
fn arrays_of_another_stream(cuda: &Cuda) {
    let shape = Shape::new(160, 90, 40);
    let layout = Layout::new(shape).unwrap();
    let data = [1, 2].map(|seed| noise(shape.cells(), seed));
    let bytes = size_of_val(data[0].as_slice());
    let mut vectors = [cuda.zeros::<f64>(&layout).unwrap(), cuda.zeros::<f64>(&layout).unwrap()];
    cuda.synchronize().unwrap();
    let mut back = [vec![0.0; shape.cells()], vec![0.0; shape.cells()]];
    // SAFETY: the back end has made its context current on this thread. The allocations are of that size, and live until
    // the stream has been waited for; so do the host's arrays.
    unsafe {
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking).unwrap();
        let pointers = [result::malloc_sync(bytes).unwrap(), result::malloc_sync(bytes).unwrap()];
        let [input, mut output] = pointers
            .map(|pointer| DeviceArray::c_order::<f64>(pointer, shape, cuda.ordinal()).on_stream(stream as u64));
        // Locked memory, so that no copy waits.
        let host = result::malloc_host(4 * bytes, sys::CU_MEMHOSTALLOC_PORTABLE).unwrap().cast::<f64>();
        let locked = |n: usize| std::slice::from_raw_parts_mut(host.add(n * shape.cells()), shape.cells());
        for (n, (data, vector)) in data.iter().zip(&mut vectors).enumerate() {
            locked(n).copy_from_slice(data);
            result::memcpy_htod_async(pointers[0], locked(n), stream).unwrap();
            cuda.import(&input, vector).unwrap();
        }
        for (n, vector) in vectors.iter().enumerate() {
            cuda.export(vector, &mut output).unwrap();
            result::memcpy_dtoh_async(locked(2 + n), pointers[1], stream).unwrap();
        }
        result::stream::synchronize(stream).unwrap();
        for (n, back) in back.iter_mut().enumerate() {
            back.copy_from_slice(locked(2 + n));
        }
        result::free_host(host.cast()).unwrap();
        pointers.into_iter().for_each(|pointer| result::free_sync(pointer).unwrap());
        result::stream::destroy(stream).unwrap();
    }
    assert!(back == data);
}
