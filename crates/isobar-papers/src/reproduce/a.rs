//! Paper A: matrix-free preconditioned conjugate gradients, compared with a stored matrix.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use isobar::grid::GridOptions;
use isobar::internals::array::{ArrayView, ArrayViewMut};
use isobar::internals::backend::{AggregateBackend, Backend, Iterations, Ratio, Scalar, Sums};
use isobar::internals::bench::{self, upload_noise};
use isobar::internals::layout::Layout;
use isobar::internals::operator::{Direction, Guess, LineSolver, Operator, ResidualUpdate};
use isobar::internals::precond::Line;
use isobar::internals::real::Real;
use isobar::internals::solver::cg::Cg;
use isobar::internals::solver::monitor::Patience;
use isobar::internals::solver::{Iteration, Monitor, Run, ignore};
use isobar::internals::traffic::{self, Traffic};
use isobar::stencil::{Lines, Stencil, StoredMatrix, Supports, TensorProduct};
use isobar_cli::failure::{Failure, Result};

use super::common::prepare;
use super::printed::{A_CELLS, A_ITERATIONS, A_KERNELS, A_RATES, A_TOTALS, A_WORK};
use super::sheet::{Sheet, number, text};

/// Iterations that are timed for the time of one.
const ITERATIONS: usize = 20;
/// The papers' Courant number.
const COURANT: f64 = 8.4;
/// Vectors' worth of memory for everything at its peak, most of it the stored matrix.
const VECTORS: f64 = 40.0;

/// Seconds measured in one precision; kernels and implementations in the order of the printed ones.
struct Measured {
    precision: &'static str,
    bytes: usize,
    kernels: [f64; 6],
    setup: [f64; 3],
    transfer: f64,
    iteration: [f64; 3],
}

impl Measured {
    /// Returns which of the pairs printed for single and double precision is this one's.
    fn pick(&self, [single, double]: [(f64, f64); 2]) -> (f64, f64) {
        if self.bytes == 4 { single } else { double }
    }
}

/// (nx = ny, nz) of `--size small`.
pub(super) const SMALL: (usize, usize) = (128, 128);
/// (nx = ny, nz) of `--size full`, the paper's own.
pub(super) const FULL: (usize, usize) = (256, 128);

pub(super) fn tables<B>(backend: &B, (nx, nz): (usize, usize), emit: &mut dyn FnMut(Sheet)) -> Result<()>
where
    B: Supports<TensorProduct> + Supports<StoredMatrix>,
{
    let grid = GridOptions { nx, ny: nx, nz, ..GridOptions::default() };
    emit(work());
    let single = measure::<B, f32>(backend, &grid, "f32")?;
    let double = measure::<B, f64>(backend, &grid, "f64")?;
    let both = [single, double];
    let layout = Layout::new(grid.shape())?;
    let copy = backend.copy_bandwidth(&layout)?;
    let cells = grid.shape().cells() as f64;
    for sheet in [kernel_table(&grid, &both), totals(&grid, &both), iterations(&grid, &both), rates(&both, cells, copy)]
    {
        emit(sheet);
    }
    Ok(())
}

/// The declarations of our counterparts of the paper's four matrix-free kernels.
const OURS: [Traffic; 4] =
    [traffic::APPLY, traffic::SOLVE_LINES, traffic::ADVANCE_DIRECTION, traffic::PRECONDITION_RESIDUAL];

fn work() -> Sheet {
    let mut sheet = Sheet::new(
        "A.2",
        "operations and memory references a cell",
        "kernel | flops | printed | references | printed (columns cached)",
    );
    for (step, (name, flops, references)) in OURS.into_iter().zip(A_WORK) {
        sheet.row(name, [number(step.flops, 0), number(flops, 0), number(step.references(), 0), number(references, 0)]);
    }
    let [.., advance, precondition] = OURS;
    sheet.row(
        "interleaved iteration",
        [
            number(advance.flops + precondition.flops, 0),
            number(47.0, 0),
            number(advance.references() + precondition.references(), 0),
            number(20.0, 0),
        ],
    );
    sheet
}

fn kernel_table(grid: &GridOptions, both: &[Measured; 2]) -> Sheet {
    let mut sheet = Sheet::new(
        "A.3, A.4",
        format!("milliseconds a call; ours on {}, scaled to the printed 256×256×128", grid.shape()),
        "kernel | precision | ours | scaled | printed C | printed CUDA | CSR / matrix-free | printed",
    );
    let scale = A_CELLS / grid.shape().cells() as f64;
    for measured in both {
        let printed = |n: usize| measured.pick(A_KERNELS[n].1);
        for (n, (name, _)) in A_KERNELS.into_iter().enumerate() {
            let seconds = measured.kernels[n];
            // The two stored kernels are two rows above their matrix-free replacements.
            let stored = (2..4).contains(&n).then(|| n - 2);
            sheet.row(
                name,
                [
                    text(measured.precision),
                    number(1e3 * seconds, 3),
                    number(1e3 * seconds * scale, 2),
                    number(printed(n).0, 1),
                    number(printed(n).1, 2),
                    number(stored.map(|stored| measured.kernels[stored] / seconds), 1),
                    number(stored.map(|stored| printed(stored).1 / printed(n).1), 1),
                ],
            );
        }
    }
    sheet.note("C: one core of a Xeon E5-2620; CUDA: a Fermi M2090");
    sheet
}

fn totals(grid: &GridOptions, both: &[Measured; 2]) -> Sheet {
    let mut sheet = Sheet::new(
        "A.5",
        format!(
            "seconds for 100 iterations with setup and transfer; ours on {}, total scaled to 256×256×128",
            grid.shape()
        ),
        "implementation | precision | setup | transfer | total | scaled | printed C | printed CUDA",
    );
    let scale = A_CELLS / grid.shape().cells() as f64;
    for measured in both {
        for (n, (name, printed)) in A_TOTALS.into_iter().enumerate() {
            let printed = measured.pick(printed);
            let total = measured.setup[n] + measured.transfer + 100.0 * measured.iteration[n];
            sheet.row(
                name,
                [
                    text(measured.precision),
                    number(measured.setup[n], 3),
                    number(measured.transfer, 4),
                    number(total, 3),
                    number(total * scale, 2),
                    number(printed.0, 2),
                    number(printed.1, 2),
                ],
            );
        }
    }
    sheet.note(format!(
        "our totals take the time of an iteration from {ITERATIONS}; our stored matrix is built on the host"
    ));
    sheet
}

fn iterations(grid: &GridOptions, both: &[Measured; 2]) -> Sheet {
    let mut sheet = Sheet::new(
        "A.6",
        format!("milliseconds an iteration; ours on {}, scaled to 256×256×128", grid.shape()),
        "implementation | precision | ours | scaled | printed C | printed CUDA | speed-up on CSR | printed",
    );
    let scale = A_CELLS / grid.shape().cells() as f64;
    for measured in both {
        let printed = |n: usize| measured.pick(A_ITERATIONS[n].1);
        for (n, (name, _)) in A_ITERATIONS.into_iter().enumerate() {
            let seconds = measured.iteration[n];
            sheet.row(
                name,
                [
                    text(measured.precision),
                    number(1e3 * seconds, 3),
                    number(1e3 * seconds * scale, 2),
                    number(printed(n).0, 1),
                    number(printed(n).1, 1),
                    number(measured.iteration[0] / seconds, 1),
                    number(printed(0).1 / printed(n).1, 1),
                ],
            );
        }
    }
    sheet
}

fn rates(both: &[Measured; 2], cells: f64, copy: f64) -> Sheet {
    let mut sheet = Sheet::new(
        "A.7",
        "rates of the matrix-free kernels",
        "kernel | precision | GFLOP/s | printed | GB/s | printed | % of copy | printed % of peak",
    );
    for measured in both {
        for (n, (step, (name, printed))) in OURS.into_iter().zip(A_RATES).enumerate() {
            let (gflops, gb) = measured.pick(printed);
            let seconds = measured.kernels[n + 2];
            let rate = step.references() * cells * measured.bytes as f64 / seconds;
            sheet.row(
                name,
                [
                    text(measured.precision),
                    number(step.flops * cells / seconds * 1e-9, 1),
                    number(gflops, 1),
                    number(rate * 1e-9, 1),
                    number(gb, 1),
                    number(100.0 * rate / copy, 0),
                    number(100.0 * gb / 177.0, 0),
                ],
            );
        }
    }
    sheet.note(format!(
        "ours: useful bytes (every vector once) against a measured copy of {:.1} GB/s; printed: bytes seen by the profiler \
         against a theoretical peak of 177 GB/s",
        copy * 1e-9
    ));
    sheet
}

fn measure<B, T: Real>(backend: &B, grid: &GridOptions, precision: &'static str) -> Result<Measured>
where
    B: Supports<TensorProduct> + Supports<StoredMatrix>,
{
    let (problem, rhs) = prepare(grid.clone(), COURANT, VECTORS)?;
    let layout = Layout::new(grid.shape())?;
    let zeros = || backend.zeros::<T>(&layout);
    let (mut b, mut u) = (zeros()?, zeros()?);
    let clock = Instant::now();
    backend.upload(ArrayView::c_order(&rhs, grid.shape())?, &mut b)?;
    backend.synchronize()?;
    let mut host = rhs;
    backend.download(&u, &mut ArrayViewMut::c_order(&mut host, grid.shape())?)?;
    let transfer = clock.elapsed().as_secs_f64();
    drop(host);

    let clock = Instant::now();
    let stencil = problem.stencil()?;
    let (free, free_lines) = put::<B, _, T>(backend, &stencil)?;
    let setup_free = clock.elapsed().as_secs_f64();
    let clock = Instant::now();
    let (stored, stored_lines) = put::<B, _, T>(backend, &stencil.stored()?)?;
    let setup_stored = clock.elapsed().as_secs_f64();

    let kernels = time_kernels(backend, &layout, [&*stored, &*free], [&*stored_lines, &*free_lines])?;
    let explicit = textbook_seconds(backend, &*stored, &*stored_lines, [&mut b, &mut u])?;
    let textbook = textbook_seconds(backend, &*free, &*free_lines, [&mut b, &mut u])?;
    let interleaved = iteration_seconds(backend, Cg::new(free, Box::new(Line(free_lines)))?, &mut b, &mut u)?;
    Ok(Measured {
        precision,
        bytes: size_of::<T>(),
        kernels,
        setup: [setup_stored, setup_free, setup_free],
        transfer,
        iteration: [explicit, textbook, interleaved],
    })
}

/// Puts a matrix and the solver of its columns on a device.
fn put<B: Supports<S>, S: Stencil, T: Real>(backend: &B, stencil: &S) -> Result<OnDevice<B, T>> {
    let operator = backend.operator::<T>(stencil)?;
    match backend.lines(stencil, &operator)? {
        Some(Lines { solver, .. }) => Ok((operator, solver)),
        None => Err(Failure::new("this device does not solve with the columns of such a matrix")),
    }
}

/// A matrix, and the solver of its columns.
type OnDevice<B, T> = (Arc<dyn Operator<B, T>>, Arc<dyn LineSolver<B, T>>);

fn time_kernels<B: Backend, T: Real>(
    backend: &B,
    layout: &Layout,
    [stored, free]: [&dyn Operator<B, T>; 2],
    [stored_lines, free_lines]: [&dyn LineSolver<B, T>; 2],
) -> Result<[f64; 6]> {
    let zeros = || backend.zeros::<T>(layout);
    let (mut x, mut y, mut p, mut q) = (zeros()?, zeros()?, zeros()?, zeros()?);
    let mut next = free.needs_next_direction(false)?.then(zeros).transpose()?;
    upload_noise(backend, layout, &mut x)?;
    let mut scalars = backend.scalars()?;
    let out = Sums::new(0);
    Ok([
        bench::seconds(backend, || stored.apply(&mut x, &mut y))?,
        bench::seconds(backend, || stored_lines.solve_lines(&x, &mut y))?,
        bench::seconds(backend, || free.apply(&mut x, &mut y))?,
        bench::seconds(backend, || free_lines.solve_lines(&x, &mut y))?,
        bench::seconds(backend, || {
            let (next, [alpha, beta], sigma) = (next.as_mut(), [Ratio::ZERO; 2], Scalar::new(0));
            let direction = Direction { u: &mut y, p: &mut p, next, z: &mut x, q: &mut q, alpha, beta, sigma };
            free.advance_direction(direction, &mut scalars)
        })?,
        bench::seconds(backend, || {
            let update = ResidualUpdate { r: &mut x, q: &q, z: &mut y, alpha: Ratio::ZERO, out };
            free_lines.precondition_residual(update, &mut scalars)
        })?,
    ])
}

/// Measures an iteration of conjugate gradients in one vector operation after another.
fn textbook_seconds<B: Backend, T: Real>(
    backend: &B,
    operator: &dyn Operator<B, T>,
    lines: &dyn LineSolver<B, T>,
    [b, u]: [&mut B::Vector<T>; 2],
) -> Result<f64> {
    const RHO: [Scalar; 2] = [Scalar::new(0), Scalar::new(1)];
    const SIGMA: Scalar = Scalar::new(2);
    const NORM: Scalar = Scalar::new(3);
    let zeros = || backend.zeros::<T>(operator.layout());
    let (mut r, mut z, mut p, mut q) = (zeros()?, zeros()?, zeros()?, zeros()?);
    let mut scalars = backend.scalars()?;
    let mut run = |count: usize| -> Result<f64> {
        backend.synchronize()?;
        let clock = Instant::now();
        backend.clear(u)?;
        backend.convert(b, &mut r)?;
        lines.solve_lines(&r, &mut p)?;
        backend.dot(&r, &p, RHO[0].of(&mut scalars))?;
        let mut left = count;
        backend.iterate(
            Iterations::default(),
            &mut scalars,
            &mut |n, scalars| {
                let [now, next] = [RHO[n % 2], RHO[(n + 1) % 2]];
                operator.apply(&mut p, &mut q)?;
                backend.dot(&p, &q, SIGMA.of(scalars))?;
                let alpha = Ratio::new(now, SIGMA);
                backend.axpy(alpha, &p, u, scalars)?;
                backend.axpy(alpha.negated(), &q, &mut r, scalars)?;
                lines.solve_lines(&r, &mut z)?;
                backend.dot(&r, &z, next.of(scalars))?;
                backend.dot(&r, &r, NORM.of(scalars))?;
                backend.xpay(Ratio::new(next, now), &z, &mut p, scalars)
            },
            &mut |_| {
                left -= 1;
                if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
        )?;
        backend.synchronize()?;
        Ok(clock.elapsed().as_secs_f64() / count as f64)
    };
    run(1)?;
    run(ITERATIONS)
}

/// Measures an iteration of conjugate gradients in fused steps.
fn iteration_seconds<B: AggregateBackend, T: Real>(
    backend: &B,
    mut cg: Cg<B, T>,
    b: &mut B::Vector<T>,
    u: &mut B::Vector<T>,
) -> Result<f64> {
    let mut run = |count: usize| -> Result<f64> {
        let mut ignore = ignore;
        let mut monitor = Monitor::new(1.0, 0.0, count, Patience::Krylov, &mut ignore);
        backend.synchronize()?;
        let clock = Instant::now();
        cg.begin(b, u, Guess::Zero)?;
        cg.run(Run { b, u, guess: Guess::Zero, best: None, monitor: &mut monitor })?;
        backend.synchronize()?;
        Ok(clock.elapsed().as_secs_f64() / count as f64)
    };
    run(1)?;
    run(ITERATIONS)
}
