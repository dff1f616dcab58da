//! `isobar bench --scaling`

use isobar::internals::{DeviceName, cuda};
use isobar::{Device, Shape, Stop};
use isobar_case::{Case, Problem};
use serde::Serialize;

use crate::args::{BenchArgs, Scaling};
use crate::summary::entry;
use crate::{Console, Failure, Result, SUCCESS, Table, Time, files, interrupt};

/// Number of solves whose median is taken, after a first one for warming up.
const SOLVES: usize = 5;

const EXPLAINED: &str = "\
Times are medians of five solves. Efficiency is by time per iteration, because the number of iterations may change with the grid.
Weak scaling (as many rows on each, a box of that many times the length in y): t₁ / tₙ. Strong scaling (the same grid on all): t₁ / (n tₙ).";

/// A solve on a number of devices.
#[derive(Clone, Debug, Serialize)]
struct Point {
    /// Number of GPUs or threads.
    count: usize,
    grid: [usize; 3],
    setup_seconds: f64,
    solve_seconds: f64,
    iterations: usize,
    relative_residual: f64,
    /// Parallel efficiency by time per iteration, relative to the first point; 1 is perfect.
    efficiency: f64,
    copy_gb_per_s: f64,
}

#[derive(Debug, Serialize)]
struct ScalingReport {
    isobar: &'static str,
    scaling: Scaling,
    /// The unit of `count`: `cards` or `threads`.
    of: &'static str,
    device: String,
    method: String,
    precision: String,
    points: Vec<Point>,
}

/// GPUs with these numbers, or threads.
enum Devices {
    Cards(Vec<usize>),
    Threads(usize),
}

impl Devices {
    fn of(args: &BenchArgs) -> Result<Self> {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
        let threads = || Self::Threads(args.device.threads.map_or_else(cores, std::num::NonZeroUsize::get));
        let all = || cuda::devices().map(|cards| (0..cards.len()).collect::<Vec<_>>());
        Ok(match &args.device.device {
            DeviceName::Cards(numbers) => Self::Cards(numbers.clone()),
            DeviceName::Cuda => Self::Cards(all()?),
            DeviceName::Cpu => threads(),
            DeviceName::Auto => match all() {
                Ok(cards) if !cards.is_empty() => Self::Cards(cards),
                _ => threads(),
            },
        })
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Cards(_) => "cards",
            Self::Threads(_) => "threads",
        }
    }

    /// Returns 1, 2, 4, … and the total number.
    fn counts(&self) -> Vec<usize> {
        let most = match self {
            Self::Cards(numbers) => numbers.len(),
            Self::Threads(most) => *most,
        };
        let powers = (0..usize::BITS).map(|n| 1 << n).take_while(|&count| count < most);
        powers.chain([most]).collect()
    }

    fn open(&self, count: usize) -> isobar::Result<Device> {
        match self {
            Self::Cards(numbers) => Device::cards(&numbers[..count]),
            Self::Threads(_) => Device::cpu_with_threads(count),
        }
    }
}

/// Solves a case on 1, 2, 4, … devices, with as many rows on each or with the same grid on all.
///
/// # Errors
/// The case cannot be solved on one of them, or the report cannot be written.
pub fn run(args: &BenchArgs, scaling: Scaling) -> Result<u8> {
    let case = args.case.load()?;
    if matches!(case.problem, Problem::Heat(_)) {
        return Err(Failure::new("--scaling: not supported for heat equations; use a case of another kind"));
    }
    if let (Scaling::Weak, [_, file, ..]) = (scaling, &case.inputs()[..]) {
        return Err(Failure::new(format!(
            "--scaling weak: changes the number of rows, and {} is an array for one grid; use --scaling strong, or a case without files",
            file.display()
        )));
    }
    let targets = [("--report", args.report.as_deref())];
    files::check(&targets, &case.inputs())?;
    let devices = Devices::of(args)?;
    let rows = case.problem.shape().ny;
    let mut console = Console::new(files::summary_stream(&targets), args.quiet);
    let mut report: Option<ScalingReport> = None;
    for count in devices.counts() {
        let case = match scaling {
            Scaling::Strong => case.clone(),
            Scaling::Weak => {
                let mut wider = args.case.load_with(&format!("grid.ny={}", count * rows), "--scaling weak")?;
                // The box grows with the grid: thinner cells would be another problem, with other levels.
                if let (Problem::Diffusion(wider), Problem::Diffusion(first)) = (&mut wider.problem, &case.problem) {
                    wider.spacing[1].clone_from(&first.spacing[1]);
                }
                wider
            }
        };
        let device = devices.open(count)?;
        let Some((point, described)) = solve(&case, &device, count)? else { break };
        let report = report.get_or_insert_with(|| ScalingReport {
            isobar: env!("CARGO_PKG_VERSION"),
            scaling,
            of: devices.name(),
            device: format!("{}: {}", described.device.kind, described.device.name),
            method: described.method.clone(),
            precision: described.precision.to_string(),
            points: Vec::new(),
        });
        let first = report.points.first().unwrap_or(&point).clone();
        let slower = per_iteration(&point) / per_iteration(&first);
        let efficiency = match scaling {
            Scaling::Weak => 1.0 / slower,
            Scaling::Strong => first.count as f64 / (count as f64 * slower),
        };
        report.points.push(Point { efficiency, ..point });
    }
    if let Some(report) = &report {
        console.line(entry("device", &report.device));
        console.line(entry("solver", format!("{} in {}", report.method, report.precision)));
        console.line(table(report));
        console.line(EXPLAINED);
        if let Some(path) = &args.report {
            files::write_report(path, report)?;
        }
    }
    console.finish()?;
    Ok(SUCCESS)
}

fn per_iteration(point: &Point) -> f64 {
    point.solve_seconds / point.iterations.max(1) as f64
}

/// Times a case on a device; returns `None` if the user interrupts it.
fn solve(case: &Case, device: &Device, count: usize) -> Result<Option<(Point, isobar::Description)>> {
    case.require_memory(device)?;
    let assembled = device.enter(|| case.assemble())?;
    let clock = std::time::Instant::now();
    let mut solver = assembled.matrix.solver(device, &case.solver)?;
    let setup_seconds = clock.elapsed().as_secs_f64();
    let (mut times, mut last) = (Vec::new(), None);
    let _listening = interrupt::solving();
    for n in 0..=SOLVES {
        let mut u = case.first_guess()?;
        let outcome = solver.solve_observed(&assembled.rhs, &mut u, case.guess.into(), &mut |_| interrupt::flow())?;
        if outcome.stop == Stop::Interrupted {
            return Ok(None);
        }
        if n > 0 {
            times.push(outcome.timing.solve);
        }
        last = Some(outcome);
    }
    times.sort_by(f64::total_cmp);
    let description = solver.description().clone();
    drop(solver);
    let Shape { nx, ny, nz } = case.problem.shape();
    let point = Point {
        count,
        grid: [nx, ny, nz],
        setup_seconds,
        solve_seconds: times[SOLVES / 2],
        iterations: last.as_ref().map_or(0, |outcome| outcome.iterations),
        relative_residual: last.map_or(f64::NAN, |outcome| outcome.relative_residual),
        efficiency: 1.0,
        copy_gb_per_s: device.copy_bandwidth(case.problem.shape())? * 1e-9,
    };
    Ok(Some((point, description)))
}

fn table(report: &ScalingReport) -> Table {
    let heads =
        [report.of, "grid", "setup", "solve", "iterations", "residual", "an iteration", "efficiency", "copy GB/s"];
    let mut table = Table::new(heads);
    for point in &report.points {
        let [nx, ny, nz] = point.grid;
        table.row([
            point.count.to_string(),
            Shape { nx, ny, nz }.to_string(),
            Time(point.setup_seconds).to_string(),
            Time(point.solve_seconds).to_string(),
            point.iterations.to_string(),
            format!("{:.1e}", point.relative_residual),
            Time(per_iteration(point)).to_string(),
            format!("{:.0} %", 100.0 * point.efficiency),
            format!("{:.0}", point.copy_gb_per_s),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_double_and_end_with_all() {
        for (most, counts) in [(1, vec![1]), (2, vec![1, 2]), (6, vec![1, 2, 4, 6]), (8, vec![1, 2, 4, 8])] {
            assert_eq!(Devices::Threads(most).counts(), counts);
            assert_eq!(Devices::Cards((0..most).collect()).counts(), counts);
        }
    }
}
