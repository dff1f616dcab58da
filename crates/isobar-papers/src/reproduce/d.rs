//! Paper D: deflated, preconditioned conjugate gradients for two-phase flow.

use std::time::Instant;

use isobar::options::{CoarseSolve, Deflation, Method, Norm, Preconditioner, SolverOptions, Stripes};
use isobar::problem::materials::{self, Bubbles};
use isobar::problem::{Boundary, Coefficient, DiffusionProblem, RhsKind, Weighting};
use isobar::stencil::Diffusion;
use isobar::stencil::galerkin::Serial;
use isobar::{Device, Outcome, Shape, Solver};
use isobar_case::{memory, random_guess};
use isobar_cli::failure::Result;

use super::common::synchronize;
use super::printed::{D_CONDITION, D_COUNTS, D_EIGENVALUES, D_INVERSE_GAIN, D_NAMES, D_SPEEDUP};
use super::sheet::{Cell, Sheet, count, iterations, number, scientific, text};

/// Ratio of the two fluids' densities.
const CONTRAST: f64 = 1e3;
/// The paper's tolerance.
const TOLERANCE: f64 = 1e-6;
/// Random first guesses that counts are averaged over.
const GUESSES: u64 = 3;
/// The iteration limit, which no solve here reaches.
const ENOUGH: usize = 50_000;
/// Iterations that are timed where all of a solve would take too long.
const SAMPLE: usize = 40;
/// The largest square that is solved completely.
const LARGEST_WHOLE: usize = 1024;
/// Vectors' worth of memory for a solve: host and device copies, coefficients, and the iteration's own.
const VECTORS: f64 = 16.0;

/// Sizes that depend on `--size`.
pub(super) struct Sizes {
    /// n of the iteration counts; those with reference numbers are 16, 32 and 64.
    pub(super) counts: &'static [usize],
    /// n of the condition numbers.
    pub(super) spectra: usize,
    /// n of the comparison of strategies for E.
    pub(super) strategies: &'static [usize],
    /// n of the true errors.
    pub(super) errors: usize,
    /// n of the timings.
    pub(super) timings: &'static [usize],
    /// n of the bubbles.
    pub(super) bubbles: usize,
}

/// `--size small`
pub(super) const SMALL: Sizes = Sizes {
    counts: &[16, 32, 64],
    spectra: 64,
    strategies: &[64, 128],
    errors: 256,
    timings: &[128, 256],
    bubbles: 128,
};
/// `--size full`
pub(super) const FULL: Sizes = Sizes {
    counts: &[16, 32, 64, 128],
    spectra: 64,
    strategies: &[64, 128, 256, 512],
    errors: 256,
    timings: &[128, 256, 512, 1024, 4096],
    bubbles: 256,
};

/// Processors for comparison with the device.
pub(super) struct Baselines {
    /// One core.
    pub(super) one: Option<Device>,
    /// All cores, where the device is another.
    pub(super) all: Option<Device>,
}

pub(super) fn tables(device: &Device, baselines: &Baselines, sizes: &Sizes, emit: &mut dyn FnMut(Sheet)) -> Result<()> {
    emit(counts(device, sizes)?);
    emit(conditions(device, sizes)?);
    emit(errors(device, sizes)?);
    emit(strategies(device, sizes)?);
    emit(timings(device, baselines, sizes)?);
    emit(bubbles(device, sizes)?);
    Ok(())
}

/// A problem with its exact solution.
struct Square {
    problem: DiffusionProblem,
    stencil: Diffusion,
    rhs: Vec<f64>,
}

impl Square {
    fn new(problem: DiffusionProblem) -> Result<Self> {
        let rhs = problem.rhs(Some(RhsKind::Manufactured), 0, Weighting::None)?;
        Ok(Self { stencil: problem.stencil()?, problem, rhs })
    }

    /// Makes the paper's problem: light fluid on the side of given pressure, heavy on the other. The reference numbers
    /// belong to unknowns counted from the heavy to the light fluid.
    fn two_phase(n: usize) -> Result<Self> {
        memory::require(&format!("a grid of {n}×{n} cells"), 8.0 * VECTORS * (n * n) as f64)?;
        let shape = Shape::new(n, n, 1);
        let field = materials::two_phase(shape, 1.0 / CONTRAST)?;
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(field));
        problem.boundary[1][1] = Boundary::Dirichlet(0.0);
        Self::new(problem)
    }

    /// Makes air bubbles in water between two sides of given pressure.
    fn bubbly(n: usize) -> Result<Self> {
        let shape = Shape::new(n, n, 1);
        let bubbles = Bubbles { count: 12, radius: 0.07, contrast: CONTRAST, seed: 1 };
        let field = materials::bubbles(shape, [1.0; 3], &bubbles)?;
        let mut problem = DiffusionProblem::new(shape, Coefficient::Isotropic(field));
        problem.boundary[0] = [Boundary::Dirichlet(0.0); 2];
        Self::new(problem)
    }
}

/// Returns the paper's options for a preconditioner by its name there.
fn options(name: &str, n: usize, deflated: bool) -> SolverOptions {
    let preconditioner = match name {
        "none" => Preconditioner::None,
        "diagonal" => Preconditioner::Jacobi,
        "block-IC(2n)" => Preconditioner::BlockIc { block: Some(2 * n) },
        "block-IC(4n)" => Preconditioner::BlockIc { block: Some(4 * n) },
        "block-IC(8n)" => Preconditioner::BlockIc { block: Some(8 * n) },
        "IP" | "IP, scaled" => Preconditioner::IncompletePoisson { scaling: name != "IP" },
        "Neu1" => Preconditioner::Neumann { order: 1 },
        _ => Preconditioner::Neumann { order: 2 },
    };
    SolverOptions {
        method: Method::Cg,
        preconditioner,
        deflation: deflated.then(Deflation::default),
        tolerance: TOLERANCE,
        max_iterations: ENOUGH,
        // All but these two iterate on the scaled matrix in the paper, and stop on its norm.
        norm: if matches!(name, "none" | "IP") { Norm::Rhs } else { Norm::Scaled },
        ..SolverOptions::default()
    }
}

/// A solve from a random first guess.
struct Solved {
    outcome: Outcome,
    /// Errors relative to the exact solution: in the 2-norm, and the largest.
    error: [f64; 2],
    /// Seconds before the iteration.
    setup: f64,
}

impl Solved {
    fn seconds_per_iteration(&self) -> f64 {
        self.outcome.timing.solve / self.outcome.iterations.max(1) as f64
    }
}

fn solve(device: &Device, square: &Square, options: &SolverOptions, seed: u64) -> Result<Solved> {
    let shape = square.problem.shape;
    let clock = Instant::now();
    let mut solver = Solver::builder(&square.stencil).options(options).device(device).build()?;
    synchronize(device)?;
    let setup = clock.elapsed().as_secs_f64();
    let mut solution = random_guess(seed, shape.cells())?;
    let outcome = solver.solve_from(&square.rhs, &mut solution)?;
    let exact = square.problem.exact();
    let (mut difference, mut norm, mut largest, mut largest_exact) = (0.0, 0.0, 0.0_f64, 0.0_f64);
    for (u, x) in solution.iter().zip(&exact) {
        difference += (u - x).powi(2);
        norm += x * x;
        largest = largest.max((u - x).abs());
        largest_exact = largest_exact.max(x.abs());
    }
    let error = [(difference / norm).sqrt(), largest / largest_exact];
    Ok(Solved { outcome, error, setup })
}

fn counts(device: &Device, sizes: &Sizes) -> Result<Sheet> {
    let mut sheet = Sheet::new(
        "D, Figure 11",
        format!(
            "iterations to 1e-6 without and with 2n deflation vectors, contrast 10³, mean over {GUESSES} first guesses"
        ),
        "preconditioner | n | without | reference | with | reference | off by (%) | error without | \
         error with",
    );
    for &n in sizes.counts {
        let square = Square::two_phase(n)?;
        let reference = D_COUNTS.iter().find(|(size, _)| *size == n).map(|(_, counts)| counts);
        for (row, name) in D_NAMES.into_iter().enumerate() {
            let mut mean = [0.0; 2];
            let mut error = [0.0_f64; 2];
            for (which, deflated) in [false, true].into_iter().enumerate() {
                for seed in 1..=GUESSES {
                    let solved = solve(device, &square, &options(name, n, deflated), seed)?;
                    mean[which] += solved.outcome.iterations as f64 / GUESSES as f64;
                    error[which] = error[which].max(solved.error[0]);
                    if !solved.outcome.converged() {
                        sheet.note(format!("{name} at n = {n} did not converge: {}", solved.outcome.stop));
                    }
                }
            }
            let reference =
                reference.map(|counts| counts[row]).map(|(without, with)| (f64::from(without), f64::from(with)));
            let off = reference.map(|(without, with)| {
                let off = [mean[0] / without - 1.0, mean[1] / with - 1.0];
                100.0 * if off[0].abs() > off[1].abs() { off[0] } else { off[1] }
            });
            sheet.row(
                name,
                [
                    count(n),
                    number(mean[0], 0),
                    number(reference.map(|counts| counts.0), 0),
                    number(mean[1], 0),
                    number(reference.map(|counts| counts.1), 0),
                    number(off, 0),
                    scientific(error[0]),
                    scientific(error[1]),
                ],
            );
        }
    }
    sheet.note("reference: an independent implementation's counts, which a first guess moves by ±12 %; the figure's own numbers are not in the text");
    sheet.note("none: rounding rules, and single first guesses lie up to 30 % apart");
    sheet.note("error: ‖u − x‖ / ‖x‖ against the exact x = cos n, the largest of the first guesses");
    Ok(sheet)
}

fn conditions(device: &Device, sizes: &Sizes) -> Result<Sheet> {
    let n = sizes.spectra;
    let mut sheet = Sheet::new(
        "D.1",
        format!("condition numbers after preconditioning, n = {n}, contrast 10³, from conjugate gradients"),
        "preconditioner | smallest | largest | condition | reference | printed | deflated condition",
    );
    let square = Square::two_phase(n)?;
    for (name, printed, reference) in D_CONDITION {
        let spectrum = |deflated| -> Result<_> {
            // Extreme eigenvalues are found last.
            let options = SolverOptions { tolerance: 1e-12, ..options(name, n, deflated) };
            Ok(solve(device, &square, &options, 1)?.outcome.spectrum)
        };
        let (alone, deflated) = (spectrum(false)?, spectrum(true)?);
        let comparable = n == SMALL.spectra;
        sheet.row(
            name,
            [
                scientific(alone.map(|spectrum| spectrum.smallest)),
                number(alone.map(|spectrum| spectrum.largest), 3),
                scientific(alone.map(|spectrum| spectrum.condition())),
                scientific(reference.filter(|_| comparable)),
                scientific(comparable.then_some(printed)),
                scientific(deflated.map(|spectrum| spectrum.condition())),
            ],
        );
    }
    let [smallest, largest] = D_EIGENVALUES;
    sheet.note(format!(
        "diagonal: the scaled matrix; its extreme eigenvalues are {smallest:e} and {largest} in the reference (n = 64)"
    ));
    sheet.note("printed: of a neighbouring geometry, which the paper's figures do not fully say");
    Ok(sheet)
}

fn errors(device: &Device, sizes: &Sizes) -> Result<Sheet> {
    let n = sizes.errors;
    let mut sheet = Sheet::new(
        "D, n = 256",
        format!("gains of deflation: n = {n}, contrast 10³, to 1e-6; errors relative to the exact solution"),
        "preconditioner | deflation | iterations | of those without (%) | residual | error, 2-norm | \
         error, largest | ms",
    );
    let square = Square::two_phase(n)?;
    for name in ["none", "diagonal", "block-IC(8n)", "IP, scaled", "Neu1", "Neu2"] {
        let mut without = None;
        for deflated in [false, true] {
            let solved = solve(device, &square, &options(name, n, deflated), 1)?;
            let share = without.map(|without: usize| 100.0 * solved.outcome.iterations as f64 / without as f64);
            without = Some(solved.outcome.iterations);
            sheet.row(
                name,
                [
                    text(if deflated { "yes" } else { "no" }),
                    iterations(&solved.outcome),
                    number(share, 0),
                    scientific(solved.outcome.relative_residual),
                    scientific(solved.error[0]),
                    scientific(solved.error[1]),
                    number(1e3 * solved.outcome.timing.solve, 1),
                ],
            );
        }
    }
    sheet.note("a small residual is not a small error: the directions that deflation removes hide in it");
    Ok(sheet)
}

fn strategies(device: &Device, sizes: &Sizes) -> Result<Sheet> {
    let mut sheet = Sheet::new(
        "D, Figures 12 to 14",
        "the two strategies for E: triangular solves, or its explicit inverse; milliseconds",
        "preconditioner | n | vectors | iterations | setup, triangular | setup, inverse | \
         solve, triangular | solve, inverse | triangular / inverse | printed",
    );
    for &n in sizes.strategies {
        let square = Square::two_phase(n)?;
        for name in ["block-IC(8n)", "IP, scaled", "Neu2"] {
            let mut solved = Vec::new();
            for coarse in [CoarseSolve::Triangular, CoarseSolve::Inverse] {
                let deflation = Some(Deflation { coarse, ..Deflation::default() });
                solved.push(solve(device, &square, &SolverOptions { deflation, ..options(name, n, true) }, 1)?);
            }
            let milliseconds = |of: fn(&Solved) -> f64| solved.iter().map(move |s| number(1e3 * of(s), 2));
            let gain = solved[0].seconds_per_iteration() / solved[1].seconds_per_iteration();
            let cells = [count(n), count(2 * n), iterations(&solved[1].outcome)].into_iter();
            sheet.row(
                name,
                cells
                    .chain(milliseconds(|s| s.setup))
                    .chain(milliseconds(|s| s.outcome.timing.solve))
                    .chain([number(gain, 2), number((name != "block-IC(8n)").then_some(D_INVERSE_GAIN), 0)]),
            );
        }
    }
    sheet.note("printed: what the inverse gains on a Fermi GPU, where each triangular solve visits the host; block-IC hides it");
    sheet.note("ours: E is sparse, and so is its Cholesky factor; the paper's is dense");
    Ok(sheet)
}

fn timings(device: &Device, baselines: &Baselines, sizes: &Sizes) -> Result<Sheet> {
    let mut sheet = Sheet::new(
        "D, Figures 15, 16",
        "deflated solves to 1e-6, 2n vectors: milliseconds; speedups by the time of an iteration",
        "preconditioner | n | iterations | setup | solve | an iteration | one core: iteration | speedup | \
         printed | all cores: iteration | speedup over them",
    );
    for &n in sizes.timings {
        let Some(square) = sheet.noted(Square::two_phase(n)) else { break };
        let whole = n <= LARGEST_WHOLE;
        let names: &[&str] = if whole { &D_NAMES[2..] } else { &["Neu2"] };
        for &name in names {
            let sampled = SolverOptions { max_iterations: SAMPLE, ..options(name, n, true) };
            let solved = solve(device, &square, &if whole { options(name, n, true) } else { sampled.clone() }, 1)?;
            let each = solved.seconds_per_iteration();
            let (mut one, mut all) = (None, None);
            // The paper's own preconditioner, which all processors run.
            if name == "Neu2" {
                let baseline = |baseline: &Option<Device>| -> Result<Option<f64>> {
                    let Some(device) = baseline else { return Ok(None) };
                    Ok(Some(solve(device, &square, &sampled, 1)?.seconds_per_iteration()))
                };
                (one, all) = (baseline(&baselines.one)?, baseline(&baselines.all)?);
            }
            let printed = (n == D_SPEEDUP.0 && one.is_some()).then_some(D_SPEEDUP.1);
            sheet.row(
                name,
                [
                    count(n),
                    if whole { iterations(&solved.outcome) } else { Cell::Missing },
                    number(1e3 * solved.setup, 1),
                    if whole { number(1e3 * solved.outcome.timing.solve, 1) } else { Cell::Missing },
                    number(1e3 * each, 3),
                    number(one.map(|one| 1e3 * one), 3),
                    number(one.map(|one| one / each), 1),
                    number(printed, 0),
                    number(all.map(|all| 1e3 * all), 3),
                    number(all.map(|all| all / each), 1),
                ],
            );
        }
    }
    sheet.note("printed: a Fermi C2070 over one core of a Core 2 Q9550, both with the paper's code");
    sheet.note(format!("cores, and squares beyond {LARGEST_WHOLE}², are timed over {SAMPLE} iterations"));
    Ok(sheet)
}

fn bubbles(device: &Device, sizes: &Sizes) -> Result<Sheet> {
    let n = sizes.bubbles;
    let mut sheet = Sheet::new(
        "D, section 8",
        format!(
            "future work of the paper: 12 air bubbles in water, contrast 10³, n = {n}, Neu2, to 1e-6; milliseconds"
        ),
        "deflation vectors | count | iterations | condition | error | setup | solve",
    );
    let square = Square::bubbly(n)?;
    for (name, stripes) in [
        ("none", None),
        ("half rows", Some(Stripes::HalfRows)),
        ("8×8 blocks", Some(Stripes::Blocks([8, 8, 1]))),
        ("one a bubble, and the water", Some(Stripes::Bodies)),
    ] {
        let vectors = match stripes {
            None => 0,
            Some(Stripes::Blocks(blocks)) => blocks.iter().product(),
            Some(Stripes::Bodies) => square.stencil.bodies(&Serial).count(),
            Some(_) => 2 * n,
        };
        let deflation = stripes.map(|stripes| Deflation { stripes, ..Deflation::default() });
        let options = SolverOptions { deflation, ..options("Neu2", n, false) };
        let solved = solve(device, &square, &options, 1)?;
        sheet.row(
            name,
            [
                count(vectors),
                iterations(&solved.outcome),
                number(solved.outcome.spectrum.map(|spectrum| spectrum.condition()), 0),
                scientific(solved.error[0]),
                number(1e3 * solved.setup, 1),
                number(1e3 * solved.outcome.timing.solve, 1),
            ],
        );
    }
    Ok(sheet)
}
