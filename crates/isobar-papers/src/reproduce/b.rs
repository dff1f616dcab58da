//! Paper B: tensor-product multigrid, compared with conjugate gradients.

use isobar::grid::{Geometry, GridOptions};
use isobar::internals::traffic::StepTraffic;
use isobar::options::{Method, MultigridOptions, Preconditioner, Smoother, SolverOptions};
use isobar::stencil::{Stencil, TensorProduct};
use isobar::{Description, Device, Outcome, Solver, Timed};
use isobar_cli::failure::Result;

use super::common::prepare;
use super::printed::{
    B_BREAKDOWN, B_CELLS, B_CG, B_CG_KERNELS, B_LEVEL_ITERATION, B_LEVEL_KERNELS, B_MULTIGRID, B_SWEEPS, B_WORK, BSolve,
};
use super::sheet::{Cell, Sheet, count, iterations, number};

/// The papers' Courant number.
const COURANT: f64 = 8.4;
/// Vectors' worth of memory for a solve: host and device copies, and CG's four.
const VECTORS: f64 = 8.0;

/// Sizes that depend on `--size`.
pub(super) struct Sizes {
    /// nx = ny of the solves.
    pub(super) solves: &'static [usize],
    /// nz of the solves.
    pub(super) nz: usize,
    /// (nx = ny, nz) of the study of robustness.
    pub(super) robustness: (usize, usize),
    /// The number of Courant numbers, the smallest first.
    pub(super) courants: usize,
}

/// `--size small`
pub(super) const SMALL: Sizes = Sizes { solves: &[64, 128, 256], nz: 128, robustness: (128, 64), courants: 5 };
/// `--size full`
pub(super) const FULL: Sizes = Sizes { solves: &[128, 256, 512, 768], nz: 128, robustness: (512, 128), courants: 6 };

/// A solver of table B.3.
struct Contender {
    name: &'static str,
    options: SolverOptions,
    printed: &'static [BSolve],
}

/// Returns conjugate gradients with lines, as in the paper.
fn cg() -> SolverOptions {
    SolverOptions { method: Method::Cg, preconditioner: Preconditioner::Line, ..SolverOptions::default() }
}

fn multigrid(multigrid: MultigridOptions) -> SolverOptions {
    SolverOptions { method: Method::Multigrid, multigrid, ..SolverOptions::default() }
}

fn contenders() -> [Contender; 3] {
    let jacobi = MultigridOptions { smoother: Smoother::LineJacobi, ..MultigridOptions::default() };
    [
        Contender { name: "CG", options: cg(), printed: &B_CG },
        Contender { name: "multigrid, line-jacobi", options: multigrid(jacobi), printed: &B_MULTIGRID },
        Contender {
            name: "multigrid, line-red-black",
            options: multigrid(MultigridOptions::default()),
            printed: &B_MULTIGRID,
        },
    ]
}

/// Returns the flat problem with constant right-hand side, whose iteration counts are nearly the printed ones.
fn grid(nx: usize, nz: usize) -> GridOptions {
    GridOptions { geometry: Geometry::Box, nx, ny: nx, nz, ..GridOptions::default() }
}

pub(super) fn tables(device: &Device, sizes: &Sizes, emit: &mut dyn FnMut(Sheet)) -> Result<()> {
    let (solves, largest) = solve_table(device, sizes)?;
    if let Some(largest) = &largest {
        emit(work(largest));
    }
    emit(solves);
    if let Some(largest) = &largest {
        emit(cg_kernels(device, largest)?);
        emit(level_kernels(device, largest)?);
    }
    emit(robustness(device, sizes)?);
    Ok(())
}

/// One solve.
struct Solved {
    description: Description,
    outcome: Outcome,
    copy: f64,
}

fn solve(device: &Device, stencil: &TensorProduct, rhs: &[f64], options: &SolverOptions) -> Result<Solved> {
    let mut solver = Solver::builder(stencil).options(options).device(device).build()?;
    let mut solution = vec![0.0; rhs.len()];
    let outcome = solver.solve(rhs, &mut solution)?;
    Ok(Solved { description: solver.description().clone(), copy: solver.copy_bandwidth()?, outcome })
}

impl Solved {
    fn seconds_per_iteration(&self) -> f64 {
        self.outcome.timing.solve / self.outcome.iterations.max(1) as f64
    }

    fn flops(&self) -> f64 {
        self.description.traffic.iter().map(|s| s.count * s.step.flops * s.cells as f64).sum()
    }

    fn bytes(&self) -> f64 {
        self.description.traffic.iter().map(StepTraffic::bytes).sum()
    }
}

/// The largest solved problem, up to the size of the paper's breakdowns, with the results of the contenders.
struct Largest {
    stencil: TensorProduct,
    solved: Vec<(Contender, Solved)>,
}

fn solve_table(device: &Device, sizes: &Sizes) -> Result<(Sheet, Option<Largest>)> {
    let mut sheet = Sheet::new(
        "B.3",
        format!("solves to 1e-5, nz = {}: milliseconds, beside those printed for a K20X and nz = 128", sizes.nz),
        "solver | nx = ny | iterations | printed | an iteration | printed | GFLOP/s | printed | % of copy | \
         printed % of peak | transfers | printed | in all | printed",
    );
    let mut largest = None;
    for &nx in sizes.solves {
        let Some((problem, rhs)) = sheet.noted(prepare(grid(nx, sizes.nz), COURANT, VECTORS)) else { break };
        let stencil = problem.stencil()?;
        let mut solved = Vec::new();
        for contender in contenders() {
            let result = solve(device, &stencil, &rhs, &contender.options)?;
            let printed = contender.printed.iter().find(|row| row.0 == nx);
            let printed = |n: usize, decimals| number(printed.map(|row| row.1[n]), decimals);
            let timing = result.outcome.timing;
            let each = result.seconds_per_iteration();
            let transfers = timing.upload + timing.download;
            sheet.row(
                contender.name,
                [
                    count(nx),
                    count(result.outcome.iterations),
                    printed(3, 0),
                    number(1e3 * each, 2),
                    printed(0, 1),
                    number(result.flops() / each * 1e-9, 1),
                    printed(1, 1),
                    number(100.0 * result.bytes() / each / result.copy, 0),
                    printed(2, 1),
                    number(1e3 * transfers, 1),
                    printed(4, 1),
                    number(1e3 * (timing.solve + transfers), 1),
                    printed(5, 1),
                ],
            );
            if !result.outcome.converged() {
                sheet.note(format!("{} at nx = {nx} did not converge: {}", contender.name, result.outcome.stop));
            }
            solved.push((contender, result));
        }
        if nx <= B_BREAKDOWN {
            largest = Some(Largest { stencil, solved });
        }
    }
    sheet.note("ours: useful bytes (every vector once) against a measured copy; printed: against a theoretical peak of 250 GB/s");
    sheet.note("ours: box, constant right-hand side, the choice whose counts come nearest to the printed ones");
    Ok((sheet, largest))
}

fn work(largest: &Largest) -> Sheet {
    let mut sheet = Sheet::new(
        "B.1",
        "operations and memory references of an iteration, a cell of the finest grid",
        "solver | flops | printed | references | printed",
    );
    let cells = largest.stencil.shape().cells() as f64;
    for (contender, solved) in &largest.solved {
        let (_, flops, references) = B_WORK[usize::from(contender.options.method == Method::Multigrid)];
        let ours: f64 =
            solved.description.traffic.iter().map(|s| s.count * s.step.references() * s.cells as f64 / cells).sum();
        sheet.row(
            contender.name,
            [number(solved.flops() / cells, 1), number(flops, 1), number(ours, 1), number(references, 1)],
        );
    }
    sheet
}

fn time_largest(device: &Device, largest: &Largest, n: usize) -> Result<(Vec<Timed>, f64, f64)> {
    let (contender, solved) = &largest.solved[n];
    let timed = isobar::bench(device, &largest.stencil, &contender.options)?.1;
    Ok((timed, solved.seconds_per_iteration(), solved.copy))
}

fn cg_kernels(device: &Device, largest: &Largest) -> Result<Sheet> {
    let shape = largest.stencil.shape();
    let mut sheet = Sheet::new(
        "B.4",
        format!("milliseconds of CG's kernels; ours on {shape}, scaled to the printed 512×512×128"),
        "kernel | ours | scaled | printed | % of copy",
    );
    let (timed, iteration, copy) = time_largest(device, largest, 0)?;
    let scale = B_CELLS / shape.cells() as f64;
    let both: f64 = timed.iter().map(Timed::seconds_per_iteration).sum();
    for (name, printed) in B_CG_KERNELS {
        let step = timed.iter().find(|step| step.step.step.name == name);
        let seconds = match name {
            "both" => both,
            "iteration" => iteration,
            _ => step.map_or(f64::NAN, |step| step.seconds),
        };
        sheet.row(
            name,
            [
                number(1e3 * seconds, 3),
                number(1e3 * seconds * scale, 1),
                number(printed, 1),
                number(step.map(|step| 100.0 * step.bandwidth() / copy), 0),
            ],
        );
    }
    Ok(sheet)
}

fn level_kernels(device: &Device, largest: &Largest) -> Result<Sheet> {
    let shape = largest.stencil.shape();
    let mut sheet = Sheet::new(
        "B.5",
        format!(
            "milliseconds of multigrid's kernels in an iteration, by level; ours on {shape}, printed on 512×512×128"
        ),
        "kernel | 5 (finest) | 4 | 3 | 2 | 1 | all levels | % of copy on 5",
    );
    for n in [1, 2] {
        let (timed, iteration, copy) = time_largest(device, largest, n)?;
        let (contender, solved) = &largest.solved[n];
        let levels = &solved.description.levels;
        let at = |level: usize, name: Option<&str>| {
            let here = timed.iter().filter(|t| Some(&t.shape) == levels.get(level));
            let seconds: f64 = here
                .filter(|t| name.is_none_or(|name| t.step.step.name == name))
                .map(Timed::seconds_per_iteration)
                .sum();
            number((seconds > 0.0).then_some(1e3 * seconds), 3)
        };
        let mut names: Vec<&str> = Vec::new();
        for step in &timed {
            if !names.contains(&step.step.step.name) {
                names.push(step.step.step.name);
            }
        }
        for name in names {
            let all: f64 = timed.iter().filter(|t| t.step.step.name == name).map(Timed::seconds_per_iteration).sum();
            let finest = timed.iter().find(|t| t.step.step.name == name && Some(&t.shape) == levels.first());
            let share = number(finest.map(|t| 100.0 * t.bandwidth() / copy), 0);
            let cells = (0..5).map(|level| at(level, Some(name)));
            sheet.row(name, cells.chain([number(1e3 * all, 3), share]));
        }
        let all: f64 = timed.iter().map(Timed::seconds_per_iteration).sum();
        let cells = (0..5).map(|level| at(level, None));
        sheet.row(format!("{}: all", contender.name), cells.chain([number(1e3 * all, 3)]));
        sheet.row("an iteration, measured whole", (0..5).map(|_| Cell::Missing).chain([number(1e3 * iteration, 3)]));
    }
    for (name, milliseconds) in B_LEVEL_KERNELS {
        let all: f64 = milliseconds.iter().flatten().sum();
        let cells = milliseconds.into_iter().map(|value| number(value, 1));
        sheet.row(format!("printed: {name}"), cells.chain([number(all, 1)]));
    }
    sheet.row("printed: an iteration", (0..5).map(|_| Cell::Missing).chain([number(B_LEVEL_ITERATION, 1)]));
    Ok(sheet)
}

fn robustness(device: &Device, sizes: &Sizes) -> Result<Sheet> {
    let (nx, nz) = sizes.robustness;
    let mut sheet = Sheet::new(
        "B, Figure 2",
        format!(
            "iterations to 1e-5 by Courant number, box {nx}×{nx}×{nz}, with the coarse sweeps that the paper needed"
        ),
        "ν | CG | 5 levels: sweeps | Jacobi on 5 | red-black on 5 | 7 levels: sweeps | Jacobi on 7 | \
         red-black on 7 | 10 levels: sweeps | Jacobi on 10 | red-black on 10",
    );
    for &(courant, five, seven) in B_SWEEPS.iter().take(sizes.courants) {
        let Some((problem, rhs)) = sheet.noted(prepare(grid(nx, nz), courant, VECTORS)) else { break };
        let stencil = problem.stencil()?;
        let iterations =
            |options: &SolverOptions| solve(device, &stencil, &rhs, options).map(|solved| iterations(&solved.outcome));
        let mut cells = vec![iterations(&SolverOptions { max_iterations: 5000, ..cg() })?];
        for (levels, coarse_sweeps) in [(5, five), (7, seven), (10, 2)] {
            cells.push(count(coarse_sweeps));
            for smoother in [Smoother::LineJacobi, Smoother::LineRedBlack] {
                let options =
                    MultigridOptions { levels: Some(levels), coarse_sweeps, smoother, ..MultigridOptions::default() };
                cells.push(iterations(&multigrid(options))?);
            }
        }
        sheet.row(courant.to_string(), cells);
    }
    let most = nx.trailing_zeros() + 1;
    if most < 10 {
        sheet.note(format!("{nx} columns a side allow {most} levels at most, which stand in for more"));
    }
    sheet.note("tables 2, 6 and 7 and figures 4 to 6 are of many GPUs and not in this version");
    Ok(sheet)
}
