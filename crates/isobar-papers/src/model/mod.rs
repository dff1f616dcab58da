//! `isobar-papers model`

pub(crate) mod equation;
mod probe;

use isobar::internals::backend::Backend;
use isobar::{Device, Precision, Shape};
use isobar_case::text::plural;
use isobar_cli::console::Console;
use isobar_cli::failure::{Failure, Result};
use isobar_cli::summary::{Time, entry};
use isobar_cli::table::Table;
use isobar_cli::{SUCCESS, device, files};
use serde::Serialize;

use self::equation::{Division, Iteration, Machine, Part, Prediction, bytes_a_number};
use self::probe::Solved;
use crate::args::ModelArgs;

/// Unknowns of the last row: more than paper B's largest problem, 0.55·10¹².
const TRILLION: f64 = 1e12;
/// The most columns in x and y of a measured problem.
const MEASURED: usize = 128;
/// The most threads as ranks.
const MOST_THREADS: usize = 4;

const ASSUMED: &str = "\
Assumed: memory takes (vectors read and written, each once) / (share × copy bandwidth), the share, unless given, that of one rank
of this machine, also where another bandwidth is given; halos take ρ = R × copy/network of what memory takes at copy bandwidth, R as in
paper B's equation (16), to which latency adds messages one after another and ⌈log₂ N⌉ a sum; every square has four neighbours; nothing
overlaps; the network is as fast between all ranks at once as between two; all five levels of multigrid stay divided; iterations to 1e-5
are those of one rank here, where grids of many ranks take up to a third more of conjugate gradients, and a cycle or two more.";

/// A row of the table.
#[derive(Clone, Debug, Serialize)]
struct Row {
    method: &'static str,
    ranks: f64,
    /// Columns of a rank.
    columns: f64,
    unknowns: f64,
    /// Bytes of vectors that a rank holds.
    held: f64,
    /// R × copy/network
    rho: f64,
    seconds: Prediction,
    an_iteration: f64,
    efficiency: f64,
    /// Iterations of one rank times the seconds of one.
    solve: f64,
}

/// A measurement beside its prediction.
#[derive(Clone, Debug, Serialize)]
struct Measured {
    method: &'static str,
    ranks: usize,
    grid: [usize; 3],
    iterations: usize,
    an_iteration: f64,
    predicted: f64,
}

#[derive(Debug, Serialize)]
struct ModelReport {
    isobar: &'static str,
    device: String,
    division: Division,
    precision: String,
    machine: Machine,
    /// Whether each number of `machine` was given, in its order.
    given: [bool; 3],
    layers: usize,
    /// Fractions of the copy's bandwidth, by method, measured on one rank here or given.
    shares: Vec<(&'static str, f64)>,
    predicted: Vec<Row>,
    measured: Vec<Measured>,
    assumptions: &'static str,
}

/// Predicts iterations on many ranks, and measures small runs for comparison.
///
/// # Errors
/// Invalid subdomains; the errors of the device; a report that cannot be written.
pub(crate) fn run(args: &ModelArgs) -> Result<u8> {
    let targets = [("--report", args.report.as_deref())];
    files::check(&targets, &[])?;
    let ranks = args.ranks.get() as f64;
    let part = part(args)?;
    let nz = args.grid.nz;
    let device = device::open(&args.device)?;
    let info = match &device {
        Device::Cpu(backend) => backend.device(),
        Device::Cuda(backend) => backend.device(),
        _ => return Err(Failure::new("--device: a rank has one device; name one GPU, or cpu")),
    };
    let description = format!("{}: {}, a rank has {}", info.kind, info.name, plural(info.threads, "thread"));
    let mut console = Console::new(files::summary_stream(&targets), args.quiet);
    console.line(entry("device", &description));

    let local = Shape::new(args.grid.nx.min(MEASURED), args.grid.ny.min(MEASURED), nz);
    let copied = device.copy_bandwidth(local)?;
    let (between, time) = probe::exchange_between_threads()?;
    let threads = Machine { memory: copied, network: between, latency: time };
    let machine = Machine {
        memory: args.bandwidth.map_or(copied, |bandwidth| bandwidth * 1e9),
        network: args.network.map_or(between, |network| network * 1e9),
        latency: args.latency.map_or(time, |latency| latency * 1e-6),
    };
    let given = [args.bandwidth.is_some(), args.network.is_some(), args.latency.is_some()];
    console.line(entry("memory", origin(&format!("{:.1} GB/s", machine.memory * 1e-9), given[0], "a plain copy")));
    let between = "between two threads";
    console.line(entry("network", origin(&format!("{:.2} GB/s each way", machine.network * 1e-9), given[1], between)));
    console.line(entry("latency", origin(&Time(machine.latency).to_string(), given[2], between)));

    let mut report = ModelReport {
        isobar: env!("CARGO_PKG_VERSION"),
        device: description,
        division: args.parts,
        precision: args.precision.to_string(),
        machine,
        given,
        layers: nz,
        shares: Vec::new(),
        predicted: Vec::new(),
        measured: Vec::new(),
        assumptions: ASSUMED,
    };
    for (n, iteration) in [Iteration::conjugate_gradients(), Iteration::multigrid()].into_iter().enumerate() {
        let one = probe::solve(&device, local, iteration.name, args.precision)?;
        let predict = |part: Part, ranks: f64, machine: Machine, share: f64| {
            Prediction::new(&iteration, part, nz as f64, ranks, machine, share, args.precision)
        };
        let square = |shape: Shape| Part { nx: shape.nx as f64, ny: shape.ny as f64, division: Division::Squares };
        let measured = predict(square(local), 1.0, threads, 1.0).memory / one.seconds;
        let given = args.share.and_then(|shares| shares.get(n).copied());
        let share = given.map_or(measured, |percent| percent / 100.0);
        report.shares.push((iteration.name, share));
        console.line(entry(
            "one rank",
            format_args!(
                "{} on {local}: {} an iteration, {:.0} % of a copy's bandwidth, {} iterations to 1e-5",
                iteration.name,
                Time(one.seconds),
                100.0 * measured,
                one.iterations
            ),
        ));
        if given.is_some() {
            console.line(entry("share", format_args!("{:.0} % of a copy's bandwidth, as given", 100.0 * share)));
        }
        let mut row = |part: Part, ranks: f64| {
            let seconds = predict(part, ranks, machine, share);
            report.predicted.push(Row {
                method: iteration.name,
                ranks,
                columns: part.columns(),
                unknowns: ranks * part.columns() * nz as f64,
                held: iteration.vectors * part.columns() * nz as f64 * bytes_a_number(args.precision),
                rho: iteration.ratio(part, ranks) * machine.memory / machine.network,
                seconds,
                an_iteration: seconds.total(),
                efficiency: seconds.efficiency(),
                solve: seconds.total() * one.iterations as f64,
            });
        };
        counts(ranks).into_iter().for_each(|count| row(part, count));
        if args.unknowns.is_none() {
            row(of_unknowns(TRILLION, ranks, nz, args.parts), ranks);
        }
        if matches!(device, Device::Cpu(_)) {
            report.measured.extend(on_threads(&iteration, local, threads, args.precision)?);
        }
    }
    console.line("");
    console.line(predicted(&report));
    if !report.measured.is_empty() {
        console.line("");
        console.line(measured(&report));
        console.line("Threads as ranks, with as many columns each; predicted from one rank of one thread, their copy and messages shared.");
    }
    for part in [part, of_unknowns(TRILLION, ranks, nz, args.parts)] {
        if let Some(rows) = part.rows(ranks).filter(|&rows| rows < 4.0) {
            console.line(format_args!(
                "note       a slab would have {rows:.2} rows, where a divided level needs 4: squares are needed"
            ));
            break;
        }
    }
    console.line("");
    console.line(ASSUMED);
    if args.parts == Division::Squares {
        console.line("isobar divides into slabs, which --parts slabs predicts.");
    }
    if let Some(path) = &args.report {
        files::write_report(path, &report)?;
    }
    console.finish()?;
    Ok(SUCCESS)
}

fn origin(value: &str, is_given: bool, how: &str) -> String {
    if is_given { format!("{value}, as given") } else { format!("{value}, measured: {how}") }
}

/// Returns 1, 4, 16, … and N.
fn counts(ranks: f64) -> Vec<f64> {
    let mut counts: Vec<f64> = std::iter::successors(Some(1.0), |n| Some(4.0 * n)).take_while(|&n| n < ranks).collect();
    counts.push(ranks);
    counts
}

/// Returns a rank's part of this many unknowns.
fn of_unknowns(unknowns: f64, ranks: f64, nz: usize, division: Division) -> Part {
    let side = (unknowns / (ranks * nz as f64)).sqrt();
    Part { nx: side, ny: side, division }
}

fn part(args: &ModelArgs) -> Result<Part> {
    let Some(unknowns) = args.unknowns else {
        return Ok(Part { nx: args.grid.nx as f64, ny: args.grid.ny as f64, division: args.parts });
    };
    let ranks = args.ranks.get() as f64;
    let part = of_unknowns(unknowns, ranks, args.grid.nz, args.parts);
    if !(unknowns.is_finite() && part.columns() >= 1.0) {
        let message =
            format!("--unknowns {unknowns}: less than a column of {} layers for each of {ranks} ranks", args.grid.nz);
        return Err(Failure::new(message));
    }
    Ok(part)
}

/// Solves on 1, 2, … threads as ranks, slabs of equally many rows, and compares with the model.
fn on_threads(iteration: &Iteration, local: Shape, machine: Machine, precision: Precision) -> Result<Vec<Measured>> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let Shape { nx, ny, nz } = local;
    let most = cores.min(MOST_THREADS);
    let mut rows = Vec::new();
    let mut share_of_memory = None;
    for count in (0..).map(|n| 1_usize << n).take_while(|&count| count <= most) {
        let whole = Shape::new(nx, count * ny, nz);
        let Solved { seconds, iterations } = probe::solve_on_threads(count, whole, iteration.name, precision)?;
        // All threads copy together, and each has its share.
        let memory = Device::cpu_with_threads(count)?.copy_bandwidth(whole)? / count as f64;
        // The border is a row of nx columns for each neighbour: the model's slab of a square grid with as long a border.
        let width = if count > 1 { nx as f64 / (count as f64).sqrt() } else { nx as f64 };
        let part = Part { nx: width, ny: (nx * ny) as f64 / width, division: Division::Slabs };
        let here = Machine { memory, ..machine };
        let predict = |share: f64| Prediction::new(iteration, part, nz as f64, count as f64, here, share, precision);
        let share = *share_of_memory.get_or_insert_with(|| predict(1.0).memory / seconds);
        rows.push(Measured {
            method: iteration.name,
            ranks: count,
            grid: [whole.nx, whole.ny, nz],
            iterations,
            an_iteration: seconds,
            predicted: predict(share).total(),
        });
    }
    Ok(rows)
}

/// Formats a number of unknowns or ranks for people.
fn large(value: f64) -> String {
    if value < 1e6 { format!("{value:.0}") } else { format!("{value:.2e}") }
}

fn predicted(report: &ModelReport) -> Table {
    let heads = "method | ranks | columns a rank | held | unknowns | ρ | memory | halos | latency | an iteration | efficiency | \
                 to 1e-5";
    let mut table = Table::new(heads.split(" | "));
    for row in &report.predicted {
        table.row([
            row.method.to_owned(),
            large(row.ranks),
            large(row.columns),
            isobar_case::memory::readable(row.held),
            large(row.unknowns),
            format!("{:.3}", row.rho),
            Time(row.seconds.memory).to_string(),
            Time(row.seconds.halo).to_string(),
            Time(row.seconds.messages + row.seconds.sums).to_string(),
            Time(row.an_iteration).to_string(),
            format!("{:.0} %", 100.0 * row.efficiency),
            Time(row.solve).to_string(),
        ]);
    }
    table
}

fn measured(report: &ModelReport) -> Table {
    let heads = ["measured", "ranks", "grid", "iterations", "an iteration", "predicted"];
    let mut table = Table::new(heads);
    for row in &report.measured {
        let [nx, ny, nz] = row.grid;
        table.row([
            row.method.to_owned(),
            row.ranks.to_string(),
            Shape { nx, ny, nz }.to_string(),
            row.iterations.to_string(),
            Time(row.an_iteration).to_string(),
            Time(row.predicted).to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_quadruple_and_end_with_all() {
        assert_eq!(counts(1.0), [1.0]);
        assert_eq!(counts(6.0), [1.0, 4.0, 6.0]);
        assert_eq!(counts(16.0), [1.0, 4.0, 16.0]);
    }

    #[test]
    fn unknowns_become_parts() {
        // The largest run of paper B's table 6: 16384 parts of 512 × 512 × 128 are half a trillion.
        let part = of_unknowns(16384.0 * 512.0 * 512.0 * 128.0, 16384.0, 128, Division::Squares);
        assert!((part.nx - 512.0).abs() < 1e-9 && part.nx == part.ny);
        assert_eq!(large(16384.0 * part.columns() * 128.0), "5.50e11");
    }
}
