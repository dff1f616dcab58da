//! Paper E: conjugate gradients with modified incomplete Cholesky for the heat equation.

use std::time::Instant;

use isobar::internals::array::ArrayView;
use isobar::options::{Method, Preconditioner, Scheme, SolverOptions, StepGuess, Steps};
use isobar::problem::{Heat, random};
use isobar::stencil::{Diffusion, Supports};
use isobar::{Device, HeatOptions, Shape, TimeStepper};
use isobar_case::memory;
use isobar_cli::failure::Result;

use super::common::synchronize;
use super::printed::{E_ERRORS, E_SUBSTITUTION, E_TIMES};
use super::sheet::{Sheet, iterations, number, text};

/// Sizes that depend on `--size`.
pub(super) struct Sizes {
    /// Grids of the substitutions, by their names in the paper.
    pub(super) substitution: &'static [[usize; 3]],
    /// Models of the runs.
    pub(super) runs: &'static [(&'static str, [usize; 3])],
    /// The cube of the iteration counts.
    pub(super) counts: usize,
}

/// Sizes for a minute on two cores.
pub(super) const SMALL: Sizes =
    Sizes { substitution: &[[128, 128, 480]], runs: &[("M21", [100, 100, 100])], counts: 50 };

/// The paper's own sizes.
pub(super) const FULL: Sizes = Sizes {
    substitution: &[
        [800, 800, 30],
        [480, 480, 80],
        [480, 480, 320],
        [128, 128, 480],
        [512, 512, 256],
        [128, 128, 1440],
        [1440, 1440, 80],
    ],
    runs: &[
        ("M21", [100, 100, 100]),
        ("M22", [250, 250, 100]),
        ("M23", [250, 250, 250]),
        ("M24", [100, 100, 250]),
        ("M25", [100, 1000, 100]),
    ],
    counts: 50,
};

const MIC: Preconditioner = Preconditioner::Mic { relaxation: 1.0, block: None };
/// The time step, which the paper does not give; with this one its errors agree best.
const DT: f64 = 1e-3;
const END: f64 = 0.1;
/// The tolerance of the runs, which the paper does not give.
const TOLERANCE: f64 = 1e-6;

fn shape([nx, ny, nz]: [usize; 3]) -> Shape {
    Shape::new(nx, ny, nz)
}

fn solver(preconditioner: Preconditioner, tolerance: f64) -> SolverOptions {
    SolverOptions { method: Method::Cg, preconditioner, tolerance, ..SolverOptions::default() }
}

/// Makes paper E's stepper from its first state, with its first guess of ones.
fn stepper(device: &Device, grid: Shape, dt: f64, solver: &SolverOptions) -> Result<TimeStepper> {
    let heat = Heat::unit_box(grid)?;
    let initial = heat.sine([1.0; 3]);
    let options =
        HeatOptions { steps: Steps::new(dt, END)?, error: None, scheme: Scheme::CrankNicolson, guess: StepGuess::Ones };
    let mut stepper = TimeStepper::new(device, heat, options, solver)?;
    stepper.set(&initial)?;
    Ok(stepper)
}

/// Makes all tables.
pub(super) fn tables(device: &Device, sizes: &Sizes, emit: &mut dyn FnMut(Sheet)) -> Result<()> {
    emit(on_device!(device, backend => substitution(backend, sizes)?));
    emit(counts(device, sizes)?);
    let [errors, times] = runs(device, sizes)?;
    emit(errors);
    emit(times);
    Ok(())
}

/// Makes table 1: forward and backward substitution with the factors of MIC(0).
fn substitution<B: Supports<Diffusion>>(backend: &B, sizes: &Sizes) -> Result<Sheet> {
    /// The number of repetitions, of which the best counts.
    const REPEATS: usize = 3;
    let heads = "grid | substitution (ms) | printed, GPU | printed, CPU | factorisation (ms) | of copy (%)";
    let mut sheet = Sheet::new("E.1", "forward and backward substitution of MIC(0), double precision", heads);
    for &grid in sizes.substitution {
        let grid_shape = shape(grid);
        let name = grid_shape.to_string();
        if memory::require(&name, 8.0 * 8.0 * grid_shape.cells() as f64).is_err() {
            sheet.note(format!("{name}: more memory than there is"));
            continue;
        }
        let stencil = Heat::unit_box(grid_shape)?.shifted(2.0 / DT)?;
        let operator = Supports::<Diffusion>::operator::<f64>(backend, &stencil)?;
        let Some(triangular) = backend.capabilities(&operator).triangular else { continue };
        let layout = backend.layout(&stencil)?;
        let values: Vec<f64> = (0..grid_shape.cells()).map(|n| random(1, n)).collect();
        let (mut inverse, mut r, mut z) = (backend.zeros(&layout)?, backend.zeros(&layout)?, backend.zeros(&layout)?);
        backend.upload(ArrayView::c_order(&values, grid_shape)?, &mut r)?;
        // The first factorisation compiles kernels, where the back end has not yet.
        let least_seconds = |step: &mut dyn FnMut() -> isobar::Result<()>| -> Result<f64> {
            let mut least = f64::INFINITY;
            for _ in 0..REPEATS {
                backend.synchronize()?;
                let clock = Instant::now();
                step()?;
                backend.synchronize()?;
                least = least.min(clock.elapsed().as_secs_f64());
            }
            Ok(least)
        };
        let cells = grid_shape.cells();
        let factorisation = least_seconds(&mut || triangular.factorise(cells, 1.0, &mut inverse))?;
        let best = least_seconds(&mut || triangular.substitute(cells, &inverse, &r, &mut z))?;
        let bytes = 8.0 * cells as f64 * (6.0 + 2.0 * triangular.coefficient_vectors());
        let copy = isobar::internals::backend::copy_bandwidth(backend, grid_shape)?;
        let printed = E_SUBSTITUTION.into_iter().find(|row| row.0 == grid);
        sheet.row(
            name,
            [
                number(1e3 * best, 1),
                number(printed.map(|(_, gpu, _)| gpu), 0),
                number(printed.map(|(_, gpu, speedup)| gpu * speedup), 0),
                number(1e3 * factorisation, 1),
                number(100.0 * bytes / best / copy, 0),
            ],
        );
    }
    sheet.note("printed, GPU: a Tesla C2050 of 144 GB/s; printed, CPU: that times the printed speedup");
    sheet.note("of copy: four reads, two writes and the coefficients twice, against a plain copy's bandwidth");
    Ok(sheet)
}

/// Counts the iterations of the first step, which the paper's tables leave out.
fn counts(device: &Device, sizes: &Sizes) -> Result<Sheet> {
    let n = sizes.counts;
    let title = format!("iterations of a step from the first guess 1, {n}³ points, to 1e-6 and to 1e-8");
    let heads = "preconditioner | dt = 1e-3 | to 1e-8 | dt = 1e-4 | to 1e-8";
    let mut sheet = Sheet::new("E, iterations", title, heads);
    for (name, kind) in [
        ("none", Preconditioner::None),
        ("SSOR-AI", Preconditioner::SsorAi),
        ("IC(0)", Preconditioner::Ic { block: None }),
        ("MIC(0)", MIC),
    ] {
        let mut cells = Vec::new();
        for (dt, tolerance) in [(1e-3, 1e-6), (1e-3, 1e-8), (1e-4, 1e-6), (1e-4, 1e-8)] {
            let mut stepper = stepper(device, Shape::new(n, n, n), dt, &solver(kind, tolerance))?;
            cells.push(iterations(&stepper.step()?.outcome));
        }
        sheet.row(name, cells);
    }
    Ok(sheet)
}

/// Makes tables 2 and 3: errors and times of runs to t = 0.1.
fn runs(device: &Device, sizes: &Sizes) -> Result<[Sheet; 2]> {
    let mut errors = Sheet::new(
        "E.2",
        "errors at t = 0.1 and x = y = 0.5, z = 0.3, in 1e-5; the exact solution is there 0.12565",
        "model | MIC | printed | SSOR-AI | printed | largest, MIC",
    );
    let mut times = Sheet::new(
        "E.3",
        "seconds to t = 0.1, 100 steps",
        "model | method | seconds | printed, GPU | printed, CPU | iterations a step",
    );
    for &(model, grid) in sizes.runs {
        let grid_shape = shape(grid);
        if memory::require(model, 16.0 * 8.0 * grid_shape.cells() as f64).is_err() {
            errors.note(format!("{model}: more memory than there is"));
            continue;
        }
        let mut found = [[0.0; 2]; 2];
        for (which, (method, kind)) in [("MIC", MIC), ("SSOR-AI", Preconditioner::SsorAi)].into_iter().enumerate() {
            let mut stepper = stepper(device, grid_shape, DT, &solver(kind, TOLERANCE))?;
            let total = Steps::new(DT, END)?.count();
            synchronize(device)?;
            let (clock, mut count) = (Instant::now(), 0);
            for _ in 0..total {
                count += stepper.step()?.outcome.iterations;
            }
            synchronize(device)?;
            let seconds = clock.elapsed().as_secs_f64();
            found[which] = error_at(&mut stepper, grid_shape)?;
            let printed = E_TIMES.iter().find(|row| row.0 == model);
            let [gpu, cpu] = [0, 1].map(|n| printed.map(|row| row.1[which][n]));
            let mean = count as f64 / total as f64;
            let cells = [text(method), number(seconds, 3), number(gpu, 2), number(cpu, 2), number(mean, 1)];
            times.row(format!("{model} {grid_shape}"), cells);
        }
        let printed = E_ERRORS.into_iter().find(|row| row.0 == model);
        errors.row(
            format!("{model} {grid_shape}"),
            [
                number(1e5 * found[0][0], 4),
                number(printed.map(|(_, mic, _)| mic), 4),
                number(1e5 * found[1][0], 4),
                number(printed.and_then(|(_, _, ssor)| ssor), 4),
                number(1e5 * found[0][1], 4),
            ],
        );
    }
    errors.note(format!(
        "ours: dt = {DT}, relative residual {TOLERANCE:.0e}; the paper gives neither, and its errors depend on both"
    ));
    errors
        .note("ours at the point next to it, against the exact solution there; most of the error is that of dt and h");
    times.note(format!("ours: dt = {DT}, {TOLERANCE:.0e}, first guess 1 in every step, as in the paper's algorithm"));
    times.note("M25 is 100 × 1000 × 100 by its times; the paper prints 100 × 1000 × 1000");
    Ok([errors, times])
}

/// Returns the differences from the exact solution: next to (0.5, 0.5, 0.3), and the largest.
fn error_at(stepper: &mut TimeStepper, grid: Shape) -> Result<[f64; 2]> {
    let mut values = vec![0.0; grid.cells()];
    stepper.state(&mut values)?;
    let factor = (-3.0 * std::f64::consts::PI.powi(2) * END).exp();
    let exact = Heat::unit_box(grid)?.sine([1.0; 3]);
    let difference = |n: usize| (values[n] - factor * exact[n]).abs();
    let nearest = |x: f64, n: usize| ((x * (n + 1) as f64).round() as usize).clamp(1, n) - 1;
    let (i, j, k) = (nearest(0.5, grid.nx), nearest(0.5, grid.ny), nearest(0.3, grid.nz));
    let largest = (0..values.len()).map(difference).fold(0.0, f64::max);
    Ok([difference(i + grid.nx * (j + grid.ny * k)), largest])
}
