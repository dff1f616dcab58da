//! Paper C: hierarchical Jacobi in on-chip memory.

use isobar::internals::array::ArrayView;
use isobar::internals::backend::Scalar;
use isobar::internals::bench;
use isobar::options::{Count, JacobiOptions, Method, Overlap, PointCycle, SolverOptions};
use isobar::problem::{Boundary, Coefficient, DiffusionProblem, PointProblem, RhsKind, Weighting};
use isobar::stencil::{Diffusion, Stencil, Supports};
use isobar::{Device, Shape, Solver};
use isobar_cli::failure::Result;
use isobar_cli::plot::Panel;

use super::printed::{C_LINE, C_LINE_CYCLES, C_SQUARE, C_SQUARE_CYCLES, C_SUB_ITERATIONS, CSpeedups};
use super::sheet::{Cell, Sheet, count, number};

/// Sizes that depend on `--size`.
pub(super) struct Sizes {
    /// Points of the line.
    pub(super) line: usize,
    /// Equal lines side by side, for timing a cycle.
    pub(super) copies: usize,
    /// Points a side of the square, on a processor and on a GPU.
    pub(super) square: [usize; 2],
    /// Numbers of sub-iterations, among those of the paper's tables.
    pub(super) sub_iterations: &'static [usize],
    /// Overlaps that are tried.
    pub(super) overlaps: &'static [usize],
}

/// Sizes for a minute on two cores.
pub(super) const SMALL: Sizes =
    Sizes { line: 256, copies: 64, square: [128, 128], sub_iterations: &C_SUB_ITERATIONS, overlaps: &[0, 2, 4, 8, 12] };

/// The paper's own sizes, except for the square on processors, which would take hours.
pub(super) const FULL: Sizes = Sizes {
    line: 1024,
    copies: 1024,
    square: [512, 1024],
    sub_iterations: &C_SUB_ITERATIONS,
    overlaps: &[0, 2, 4, 6, 8, 10, 12, 16],
};

/// Points of a tile in each direction.
const TILE: usize = 32;
/// The reduction of the residual.
const TOLERANCE: f64 = 1e-4;

/// One of the paper's two problems.
struct Problem<'s> {
    name: &'static str,
    ids: [&'static str; 2],
    /// The grid that is solved.
    solved: Shape,
    /// The grid on which a cycle is timed.
    timed: Shape,
    printed: &'static CSpeedups,
    cycles: &'static [(usize, usize, usize, usize)],
    sizes: &'s Sizes,
}

/// Cycles and the time of one.
#[derive(Clone, Copy)]
struct Found {
    cycles: usize,
    seconds: f64,
}

impl Found {
    fn total(self) -> f64 {
        self.cycles as f64 * self.seconds
    }
}

/// Makes −u″ = 1 or −Δu = 1 at points inside the unit box, u = 0 on its sides; several lines are side by side without couplings.
fn stencil(shape: Shape, is_line: bool) -> Result<(Diffusion, Vec<f64>)> {
    let ones = || vec![1.0; shape.cells()];
    let across = if is_line { vec![0.0; shape.cells()] } else { ones() };
    let mut problem = DiffusionProblem::new(shape, Coefficient::Diagonal([ones(), across, ones()]));
    problem.boundary = [[Boundary::Dirichlet(0.0); 2]; 3];
    let points = PointProblem::new(problem, [1.0; 3])?;
    Ok((points.stencil()?, points.rhs(Some(RhsKind::Constant), 0, Weighting::Volume)?))
}

impl Problem<'_> {
    fn is_line(&self) -> bool {
        self.solved.ny == 1
    }

    fn points(&self) -> usize {
        self.solved.nx
    }

    /// Returns the paper's tiles on one of the two grids.
    fn tiles(&self, shape: Shape, sub_iterations: usize, overlap: usize) -> JacobiOptions {
        let across = if self.is_line() { 0 } else { overlap };
        JacobiOptions {
            sub_iterations: Count::Given(sub_iterations),
            overlap: Overlap::Each(vec![overlap, across]),
            tile: Some(vec![TILE.min(shape.nx), TILE.min(shape.ny)]),
            ..JacobiOptions::default()
        }
    }

    /// Returns the cycles to the tolerance from a first guess of ones.
    fn count(&self, device: &Device, jacobi: JacobiOptions) -> Result<usize> {
        const MOST: usize = 2_000_000;
        let (stencil, rhs) = stencil(self.solved, self.is_line())?;
        let options = SolverOptions {
            method: Method::Jacobi,
            tolerance: TOLERANCE,
            max_iterations: MOST,
            jacobi,
            ..SolverOptions::default()
        };
        let mut u = vec![1.0; self.solved.cells()];
        let mut solver = Solver::builder(&stencil).options(&options).device(device).build()?;
        Ok(solver.solve_from(&rhs, &mut u)?.iterations)
    }

    /// Returns the seconds of one cycle on the grid for timing.
    fn time<B: Supports<Diffusion>>(&self, backend: &B, jacobi: &JacobiOptions) -> Result<f64> {
        let (stencil, rhs) = stencil(self.timed, self.is_line())?;
        let operator = Supports::<Diffusion>::operator::<f64>(backend, &stencil)?;
        let Some(points) = backend.capabilities(&operator).points else { return Ok(f64::NAN) };
        let cycle: PointCycle =
            jacobi.cycle(Stencil::shape(&stencil), points.periodic(), false, points.suggested_tile())?;
        points.prepare(&cycle)?;
        let layout = Supports::<Diffusion>::layout(backend, &stencil)?;
        let [mut f, mut u, mut v] = [backend.zeros(&layout)?, backend.zeros(&layout)?, backend.zeros(&layout)?];
        backend.upload(ArrayView::c_order(&rhs, self.timed)?, &mut f)?;
        let mut scalars = backend.scalars()?;
        Ok(bench::seconds(backend, || {
            points.relax_points(&cycle, &f, &mut u, &mut v, Scalar::new(0).of(&mut scalars))?;
            std::mem::swap(&mut u, &mut v);
            Ok(())
        })?)
    }

    /// Returns the cycle of these options on the grid that is solved.
    fn chosen<B: Supports<Diffusion>>(&self, backend: &B, jacobi: &JacobiOptions) -> Result<PointCycle> {
        let (stencil, _) = stencil(self.solved, self.is_line())?;
        let operator = Supports::<Diffusion>::operator::<f64>(backend, &stencil)?;
        let points = backend.capabilities(&operator).points;
        let tile = points.map_or([1; 3], |points| points.suggested_tile());
        Ok(jacobi.cycle(self.solved, [false; 3], false, tile)?)
    }

    fn find(&self, device: &Device, sub_iterations: usize, overlap: usize) -> Result<Found> {
        let seconds =
            on_device!(device, backend => self.time(backend, &self.tiles(self.timed, sub_iterations, overlap))?);
        Ok(Found { cycles: self.count(device, self.tiles(self.solved, sub_iterations, overlap))?, seconds })
    }

    /// Returns the count of an independent implementation.
    fn reference(&self, sub_iterations: usize, overlap: usize) -> Cell {
        let wanted = (self.points(), sub_iterations, overlap);
        let found = self.cycles.iter().find(|&&(n, k, o, _)| (n, k, o) == wanted);
        number(found.map(|row| row.3 as f64), 0)
    }

    /// Makes the two tables and two figures.
    fn tables(&self, device: &Device, emit: &mut dyn FnMut(Sheet)) -> Result<[Panel; 2]> {
        let plain = self.find(device, 1, 0)?;
        let on = if self.is_line() {
            format!("{} lines of {} points", self.sizes.copies, self.points())
        } else {
            format!("{} points", self.solved)
        };
        let head = format!("{}, {on}, to {TOLERANCE:.0e}", self.name);
        let mut first = Sheet::new(
            self.ids[0],
            format!("{head}: sub-iterations without overlap"),
            "sub-iterations | cycles | reference | ms | speed-up | printed",
        );
        let mut second = Sheet::new(
            self.ids[1],
            format!("{head}: the best overlap"),
            "sub-iterations | overlap | printed | cycles | reference | ms | speed-up | printed speed-up",
        );
        let (mut times, mut cycles) = (Vec::new(), Vec::new());
        let sub_iterations = self.sizes.sub_iterations.iter();
        for (&k, n) in sub_iterations.map(|k| (k, C_SUB_ITERATIONS.iter().position(|other| other == k))) {
            let mut all = Vec::new();
            for &overlap in self.sizes.overlaps.iter().filter(|&&overlap| overlap < TILE) {
                all.push((overlap, self.find(device, k, overlap)?));
            }
            let Some(&(overlap, best)) = all.iter().min_by(|a, b| a.1.total().total_cmp(&b.1.total())) else {
                continue;
            };
            let printed = |of: fn(&CSpeedups) -> [f64; 6]| n.map(|n| of(self.printed)[n]);
            let found = all[0].1;
            let row = [
                count(found.cycles),
                self.reference(k, 0),
                number(1e3 * found.total(), 1),
                number(plain.total() / found.total(), 2),
                number(printed(|speedups| speedups.plain), 2),
            ];
            first.row(k.to_string(), row);
            let row = [
                count(overlap),
                number(n.map(|n| self.printed.overlap[n] as f64), 0),
                count(best.cycles),
                self.reference(k, overlap),
                number(1e3 * best.total(), 1),
                number(plain.total() / best.total(), 2),
                number(printed(|speedups| speedups.overlapping), 2),
            ];
            second.row(k.to_string(), row);
            let curve = |value: fn(&Found) -> f64| {
                (format!("{k}"), all.iter().map(|(overlap, found)| (*overlap as f64, value(found))).collect::<Vec<_>>())
            };
            times.push(curve(|found| 1e3 * found.total()));
            cycles.push(curve(|found| found.cycles as f64));
        }
        let reference = match self.reference(1, 0) {
            Cell::Number(count, _) => format!(" (reference {count:.0})"),
            _ => String::new(),
        };
        let ms = 1e3 * plain.total();
        first.note(format!(
            "plain: {} sweeps{reference}, {ms:.1} ms; printed: a TITAN V, against its own plain sweeps",
            plain.cycles
        ));
        first.note("ms: cycles times the time of one, without copies to and from the device, which the paper includes");
        second.note("the overlap with the least time, of those tried");
        emit(first);
        emit(second);
        times.push(("plain".to_owned(), vec![(0.0, ms)]));
        let panel = |what: &str, names, curves| Panel {
            title: format!("{}: {what} by sub-iterations", self.name),
            names,
            curves,
        };
        Ok([panel("time", ["overlap", "ms"], times), panel("cycles", ["overlap", "cycles"], cycles)])
    }
}

/// Makes all tables; returns the figures.
pub(super) fn tables(device: &Device, sizes: &Sizes, emit: &mut dyn FnMut(Sheet)) -> Result<Vec<Panel>> {
    let line = Shape::new(sizes.line, 1, 1);
    let side = sizes.square[usize::from(matches!(device, Device::Cuda(_)))];
    let square = Shape::new(side, side, 1);
    let problems = [
        Problem {
            name: "Poisson in one dimension",
            ids: ["C.1", "C.2"],
            solved: line,
            timed: Shape { ny: sizes.copies, ..line },
            printed: &C_LINE,
            cycles: &C_LINE_CYCLES,
            sizes,
        },
        Problem {
            name: "Poisson in two dimensions",
            ids: ["C.3", "C.4"],
            solved: square,
            timed: square,
            printed: &C_SQUARE,
            cycles: &C_SQUARE_CYCLES,
            sizes,
        },
    ];
    let mut figures = Vec::new();
    for problem in &problems {
        figures.extend(problem.tables(device, emit)?);
    }
    emit(own(device, &problems)?);
    Ok(figures)
}

/// Makes the table of isobar's default tiles.
fn own(device: &Device, problems: &[Problem<'_>]) -> Result<Sheet> {
    let heads = "method | cycles | ms | speed-up | updates a second (1e9)";
    let mut sheet = Sheet::new("C, isobar's own", format!("tiles that suit this device, to {TOLERANCE:.0e}"), heads);
    for problem in problems {
        let plain = problem.find(device, 1, 0)?;
        let exact = JacobiOptions { exact: true, ..JacobiOptions::default() };
        for (name, jacobi) in [("plain", None), ("exact", Some(exact)), ("chosen", Some(JacobiOptions::default()))] {
            let (found, sub_iterations, what) = match jacobi {
                None => (plain, 1, name.to_owned()),
                Some(jacobi) => {
                    let cycle = on_device!(device, backend => problem.chosen(backend, &jacobi)?);
                    let given = |shape: Shape| given(&cycle, shape);
                    let seconds = on_device!(device, backend => problem.time(backend, &given(problem.timed))?);
                    let found = Found { cycles: problem.count(device, given(problem.solved))?, seconds };
                    let [x, y, _] = cycle.tile;
                    let what = format!(
                        "{name}: {x} × {y}, {} sub-iterations, {} shared",
                        cycle.sub_iterations,
                        cycle.overlap.into_iter().max().unwrap_or(0)
                    );
                    (found, cycle.sub_iterations, what)
                }
            };
            let rate = (sub_iterations * problem.timed.cells()) as f64 / found.seconds / 1e9;
            let cells = [
                count(found.cycles),
                number(1e3 * found.total(), 1),
                number(plain.total() / found.total(), 2),
                number(rate, 2),
            ];
            sheet.row(format!("{} {what}", if problem.is_line() { "1D" } else { "2D" }), cells);
        }
    }
    sheet.note("updates a second: cells times sub-iterations, those that overlap counted once");
    Ok(sheet)
}

/// Returns options that fix all of a cycle, with as many lines side by side in a tile as fit.
fn given(cycle: &PointCycle, shape: Shape) -> JacobiOptions {
    const CELLS: usize = 1024;
    let [x, y, _] = cycle.tile;
    let lines = if y == 1 && shape.ny > 1 { CELLS.div_ceil(x).min(shape.ny) } else { y };
    JacobiOptions {
        sub_iterations: Count::Given(cycle.sub_iterations),
        overlap: Overlap::Each(cycle.overlap.to_vec()),
        tile: Some(vec![x, lines]),
        ..JacobiOptions::default()
    }
}
