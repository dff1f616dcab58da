//! The CUDA back end against the reference. Without a card every test says so and passes, unless
//! `ISOBAR_REQUIRE_CUDA=1`.

use std::sync::{Arc, OnceLock};

use isobar_core::backend::{Backend, CsrBackend, TensorProductBackend};
use isobar_core::error::Error;
use isobar_core::layout::{ArrayView, ArrayViewMut, Layout, Shape};
use isobar_core::operator::Guess;
use isobar_core::options::{Method, SolverOptions};
use isobar_core::precond::Line;
use isobar_core::problem::{Helmholtz, RhsKind, Weighting};
use isobar_core::real::Precision;
use isobar_core::reference::Reference;
use isobar_core::solver::cg::{Cg, Form};
use isobar_core::solver::monitor::Patience;
use isobar_core::solver::{Iteration, Monitor, Solve, System};
use isobar_cuda::{Cuda, DeviceArray};

/// The first card, if there is one. Opened once: tests share its stream.
fn card() -> Option<Cuda> {
    static CARD: OnceLock<Option<Cuda>> = OnceLock::new();
    CARD.get_or_init(|| match Cuda::new(0) {
        Ok(cuda) => Some(cuda),
        Err(error) if std::env::var_os("ISOBAR_REQUIRE_CUDA").is_some_and(|v| v == "1") => panic!("{error}"),
        Err(error) => {
            eprintln!("{error}");
            None
        }
    })
    .clone()
}

macro_rules! card_or_skip {
    () => {
        match card() {
            Some(cuda) => cuda,
            None => {
                println!("skipped: no CUDA device");
                return;
            }
        }
    };
}

isobar_core::conformance_suite!(cuda_f64, card_or_skip!(), f64);
isobar_core::conformance_suite!(cuda_f32, card_or_skip!(), f32);
isobar_core::diffusion_conformance_suite!(cuda_diffusion_f64, card_or_skip!(), f64);
isobar_core::diffusion_conformance_suite!(cuda_diffusion_f32, card_or_skip!(), f32);

/// Grids large enough to march, and to be solved more than once: the same answer every time, to the bit, and
/// that of the reference.
#[test]
fn large_grids_and_repeated_solves() {
    let cuda = card_or_skip!();
    let grid = isobar_core::grid::GridOptions { nx: 260, ny: 208, nz: 16, ..Default::default() };
    let problem = Helmholtz { grid, ..Helmholtz::default() };
    let stencil = problem.stencil().unwrap();
    let rhs = problem.rhs(RhsKind::Random, 0, Weighting::None).unwrap();
    let shape = stencil.shape();
    for (method, precision, tolerance) in [
        (Method::Multigrid, Precision::F64, 1e-9),
        (Method::Multigrid, Precision::Mixed, 1e-9),
        (Method::Multigrid, Precision::F32, 1e-3),
        (Method::Cg, Precision::F64, 1e-9),
    ] {
        let options = SolverOptions { method, precision, tolerance, ..SolverOptions::default() };
        let view = || ArrayView::c_order(&rhs, shape).unwrap();
        let solve = |system: &mut dyn Solve| {
            let mut u = vec![0.0; rhs.len()];
            let mut out = ArrayViewMut::c_order(&mut u, shape).unwrap();
            let outcome = system.solve(view(), &mut out, Guess::Zero, &mut |_| {}).unwrap();
            assert!(outcome.converged(), "{options:?} {outcome:?}");
            (outcome, u)
        };
        let mut system = System::new(&cuda, &stencil, &options).unwrap();
        let (first, u) = solve(&mut system);
        for _ in 0..6 {
            let (again, v) = solve(&mut system);
            assert_eq!((&again.history, again.relative_residual), (&first.history, first.relative_residual));
            assert!(u == v);
        }
        let (expected, _) = solve(&mut System::new(&Reference, &stencil, &options).unwrap());
        assert!(first.iterations.abs_diff(expected.iterations) <= 1, "{first:?} {expected:?}");
    }
}

/// Calls of cuSPARSE within recorded iterations: conjugate gradients with the matrix stored take the steps that
/// the matrix-free ones take, in the first solve and in the next, padding or not.
#[test]
fn stored_matrices_in_iterations() {
    let cuda = card_or_skip!();
    let grid = isobar_core::grid::GridOptions { nx: 37, ny: 22, nz: 12, ..Default::default() };
    let stencil = Helmholtz { grid, ..Helmholtz::default() }.stencil().unwrap();
    let layout = Layout::new(stencil.shape()).unwrap();
    let matrix = stencil.to_csr().unwrap();
    let stored = Arc::new(cuda.csr::<f64>(&matrix, &layout).unwrap());
    let blocks = Arc::new(cuda.tridiagonal::<f64>(&matrix, &layout).unwrap());
    let free = Arc::new(cuda.tensor_product::<f64>(&stencil).unwrap());
    let mut explicit = Cg::new(Form::Textbook, stored, Line(blocks)).unwrap();
    let mut free = Cg::new(Form::Textbook, Arc::clone(&free), Line(free)).unwrap();
    for seed in [1, 2] {
        let b: Vec<f64> = (0..stencil.shape().cells()).map(|n| isobar_core::problem::random(seed, n)).collect();
        let (expected_history, expected) = twelve_iterations(&cuda, &mut free, &b, &layout);
        let (history, u) = twelve_iterations(&cuda, &mut explicit, &b, &layout);
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

/// The residuals, and what u is then.
fn twelve_iterations(
    cuda: &Cuda,
    cg: &mut dyn Iteration<Cuda, f64>,
    b: &[f64],
    layout: &Layout,
) -> (Vec<f64>, Vec<f64>) {
    let shape = layout.shape();
    let (mut on_b, mut on_u) = (cuda.zeros::<f64>(layout).unwrap(), cuda.zeros::<f64>(layout).unwrap());
    cuda.upload(ArrayView::c_order(b, shape).unwrap(), &mut on_b).unwrap();
    let mut history = Vec::new();
    let mut note = |progress: &isobar_core::solver::Progress| history.push(progress.relative_residual);
    cg.run(&on_b, &mut on_u, Guess::Zero, &mut Monitor::new(1.0, 0.0, 12, Patience::Krylov, &mut note)).unwrap();
    let mut u = vec![0.0; b.len()];
    cuda.download(&on_u, &mut ArrayViewMut::c_order(&mut u, shape).unwrap()).unwrap();
    (history, u)
}

/// Arrays of several of the pieces that large ones travel in.
#[test]
fn large_arrays() {
    let cuda = card_or_skip!();
    let shape = Shape::new(301, 250, 70);
    let data: Vec<f64> = (0..shape.cells()).map(|n| n as f64).collect();
    let mut v = cuda.zeros::<f64>(&Layout::new(shape).unwrap()).unwrap();
    for _ in 0..2 {
        cuda.upload(ArrayView::c_order(&data, shape).unwrap(), &mut v).unwrap();
        let mut back = vec![0.0; data.len()];
        cuda.download(&v, &mut ArrayViewMut::c_order(&mut back, shape).unwrap()).unwrap();
        assert!(back == data);
    }
}

/// What does not fit is refused before it is tried.
#[test]
fn too_large() {
    let cuda = card_or_skip!();
    let layout = Layout::new(Shape::new(1 << 16, 1 << 14, 1 << 10)).unwrap();
    match cuda.zeros::<f64>(&layout) {
        Err(Error::OutOfMemory { needed_bytes, available_bytes, .. }) => assert!(needed_bytes > available_bytes),
        other => panic!("{other:?}"),
    }
}

/// Waiting for the card inside an iteration is refused rather than recorded wrongly.
#[test]
fn no_reading_within_an_iteration() {
    let cuda = card_or_skip!();
    let mut scalars = cuda.scalars().unwrap();
    let result = cuda.iterate(&mut scalars, &mut |_, scalars| cuda.read(scalars).map(|_| ()), &mut |_| {
        std::ops::ControlFlow::Break(())
    });
    assert!(matches!(result, Err(Error::Unsupported(_))), "{result:?}");
    cuda.read(&scalars).unwrap();
}

/// A card that is not there is an error that says which there are, or what is missing.
#[test]
fn no_such_card() {
    match Cuda::new(1000) {
        Err(Error::Device { message, .. }) => {
            assert!(message.contains("cuda:0") || message.contains("--device cpu") || message.contains("driver"));
        }
        other => panic!("{other:?}"),
    }
}

/// A caller's arrays on the card, in the caller's own order and precision, solved without leaving it.
#[test]
fn arrays_on_the_card() {
    use cudarc::driver::result;
    let cuda = card_or_skip!();
    let shape = Shape::new(36, 20, 12);
    let Shape { nx, ny, nz } = shape;
    let problem =
        Helmholtz { grid: isobar_core::grid::GridOptions { nx, ny, nz, ..Default::default() }, ..Helmholtz::default() };
    let stencil = problem.stencil().unwrap();
    let options = SolverOptions { tolerance: 1e-9, ..SolverOptions::default() };
    let mut system = System::new(&cuda, &stencil, &options).unwrap();

    // Columns contiguous, single precision.
    let strides = [ny * nz, nz, 1];
    let rhs: Vec<f32> = (0..shape.cells()).map(|n| isobar_core::problem::random(9, n) as f32).collect();
    let view = ArrayView::new(&rhs, shape, strides).unwrap();
    let bytes = size_of_val(rhs.as_slice());
    // SAFETY: the back end has made its context current on this thread; both allocations are of that size.
    let (b, mut u, pointers) = unsafe {
        let pointers = [result::malloc_sync(bytes).unwrap(), result::malloc_sync(bytes).unwrap()];
        result::memcpy_htod_sync(pointers[0], &rhs).unwrap();
        (
            DeviceArray::<f32>::new(pointers[0], shape, strides),
            DeviceArray::<f32>::new(pointers[1], shape, strides),
            pointers,
        )
    };
    cuda.import(&b, system.rhs_mut()).unwrap();
    let outcome = system.solve_in_place(Guess::Zero, &mut |_| {}).unwrap();
    assert!(outcome.converged(), "{outcome:?}");
    cuda.export(system.solution(), &mut u).unwrap();
    let mut found = vec![0f32; shape.cells()];
    // SAFETY: as above; `export` has waited for the card.
    unsafe {
        result::memcpy_dtoh_sync(&mut found, pointers[1]).unwrap();
        for pointer in pointers {
            result::free_sync(pointer).unwrap();
        }
    }

    let mut wide = vec![0.0; shape.cells()];
    let mut expected = vec![0.0; shape.cells()];
    for (n, value) in wide.iter_mut().enumerate() {
        *value = f64::from(view.get(n % nx, n / nx % ny, n / nx / ny));
    }
    let outcome = System::new(&Reference, &stencil, &options).unwrap().solve(
        ArrayView::c_order(&wide, shape).unwrap(),
        &mut ArrayViewMut::c_order(&mut expected, shape).unwrap(),
        Guess::Zero,
        &mut |_| {},
    );
    assert!(outcome.unwrap().converged());
    let found = ArrayView::new(&found, shape, strides).unwrap();
    let largest = expected.iter().fold(0f64, |m, v| m.max(v.abs()));
    for (n, value) in expected.iter().enumerate() {
        let found = f64::from(found.get(n % nx, n / nx % ny, n / nx / ny));
        assert!((found - value).abs() < 1e-5 * largest, "{n}: {found} instead of {value}");
    }
    // SAFETY: refused for its shape before it is touched.
    let wrong = unsafe { DeviceArray::<f32>::c_order(0, Shape::new(nx, ny, nz + 1)) };
    assert!(cuda.import(&wrong, system.rhs_mut()).is_err());
}
