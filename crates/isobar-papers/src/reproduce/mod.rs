//! `isobar-papers reproduce`: the papers' tables, the printed numbers beside those of this machine.
//!
//! * `a` to `e` one module a paper,
//! * `printed` the papers' numbers,
//! * `sheet` a table of both.

/// Runs an expression, generic over the back end, on the given device.
macro_rules! on_device {
    ($device:expr, $backend:ident => $body:expr) => {
        match $device {
            isobar::Device::Cpu($backend) => $body,
            isobar::Device::Cuda($backend) => $body,
            _ => return Err(isobar_cli::failure::Failure::new("this command does not know devices of this kind")),
        }
    };
}

mod a;
mod b;
mod c;
mod common;
mod d;
mod e;
mod printed;
mod sheet;

use isobar::Device;
use isobar::internals::backend::{Backend, DeviceInfo};
use isobar_case::text::plural;
use isobar_cli::console::Console;
use isobar_cli::failure::{Failure, Result};
use isobar_cli::{SUCCESS, device, files, plot};
use serde::Serialize;

use crate::args::{ReproduceArgs, Size};
use sheet::Sheet;

/// The machine-readable tables.
#[derive(Serialize)]
struct Tables {
    version: &'static str,
    paper: String,
    size: &'static str,
    device: DeviceInfo,
    tables: Vec<Sheet>,
}

/// Prints a paper's tables.
///
/// # Errors
/// A paper that this version does not have, a device that fails, a report that cannot be written.
pub(crate) fn run(args: &ReproduceArgs) -> Result<u8> {
    let paper = args.paper.to_ascii_lowercase();
    if !["a", "b", "c", "d", "e"].contains(&paper.as_str()) {
        let message = format!("paper {:?}: there is none of that name; available: a, b, c, d, e", args.paper);
        return Err(Failure::new(message));
    }
    let targets = [("--report", args.report.as_deref()), ("--plot", args.plot.as_deref())];
    if let Some(path) = &args.plot {
        if paper != "c" {
            return Err(Failure::new(format!("--plot: is for paper c; the tables of paper {paper} have no figures")));
        }
        files::refuse_standard_output("--plot", path, ".png")?;
        plot::check(path).map_err(|error| Failure::new(format!("--plot {error}")))?;
    }
    files::check(&targets, &[])?;
    let device = device::open(&args.device)?;
    let info = on_device!(&device, backend => backend.device());
    let mut console = Console::new(files::summary_stream(&targets), args.quiet);
    console.line(format_args!("paper {paper}, {}: {}, {}\n", info.kind, info.name, plural(info.threads, "thread")));

    let (mut tables, mut figures) = (Vec::new(), Vec::new());
    let mut emit = |sheet: Sheet| {
        console.line(&sheet);
        tables.push(sheet);
    };
    let is_small = args.size == Size::Small;
    match paper.as_str() {
        "a" => {
            on_device!(&device, backend => a::tables(backend, if is_small { a::SMALL } else { a::FULL }, &mut emit)?);
        }
        "b" => b::tables(&device, if is_small { &b::SMALL } else { &b::FULL }, &mut emit)?,
        "c" => figures = c::tables(&device, if is_small { &c::SMALL } else { &c::FULL }, &mut emit)?,
        "e" => e::tables(&device, if is_small { &e::SMALL } else { &e::FULL }, &mut emit)?,
        _ => {
            let one = Some(Device::cpu_with_threads(1)?);
            let all = if info.kind == "cpu" { None } else { Some(Device::cpu()?) };
            let sizes = if is_small { &d::SMALL } else { &d::FULL };
            d::tables(&device, &d::Baselines { one, all }, sizes, &mut emit)?;
        }
    }

    if let Some(path) = &args.plot {
        let title = format!("Paper C: hierarchical Jacobi, {}", info.name);
        plot::curves(path, &title, &figures)?;
    }
    if let Some(path) = &args.report {
        let report = Tables {
            version: env!("CARGO_PKG_VERSION"),
            paper,
            size: if is_small { "small" } else { "full" },
            device: info,
            tables,
        };
        files::write_report(path, &report)?;
    }
    console.finish()?;
    Ok(SUCCESS)
}

#[cfg(test)]
mod tests {
    use isobar::internals::cpu::Cpu;

    use super::*;

    fn device() -> Device {
        Device::cpu_with_threads(1).unwrap()
    }

    /// Makes tables, which must be these.
    fn made(ids: &[&str], tables: impl FnOnce(&mut dyn FnMut(Sheet)) -> Result<()>) -> Vec<Sheet> {
        let mut sheets = Vec::new();
        tables(&mut |sheet| sheets.push(sheet)).unwrap();
        assert!(sheets.iter().map(|sheet| sheet.id).eq(ids.iter().copied()), "{sheets:?}");
        for sheet in &sheets {
            assert!(!sheet.rows.is_empty(), "{}", sheet.id);
            for row in &sheet.rows {
                assert!(row.cells.len() < sheet.columns.len(), "{}: {}", sheet.id, row.name);
            }
        }
        sheets
    }

    #[test]
    fn every_table_of_paper_a_is_made() {
        made(&["A.2", "A.3, A.4", "A.5", "A.6", "A.7"], |emit| a::tables(&Cpu::new(1)?, (8, 4), emit));
    }

    #[test]
    fn every_table_of_paper_c_is_made() {
        let sizes = c::Sizes { line: 64, copies: 2, square: [32, 32], sub_iterations: &[4, 32], overlaps: &[0, 2, 4] };
        let mut figures = Vec::new();
        made(&["C.1", "C.2", "C.3", "C.4", "C, isobar's own"], |emit| {
            figures = c::tables(&device(), &sizes, emit)?;
            Ok(())
        });
        assert_eq!(figures.len(), 4);
        assert!(figures.iter().all(|panel| !panel.curves.is_empty()));
    }

    #[test]
    fn every_table_of_paper_d_is_made() {
        let sizes = d::Sizes { counts: &[32], spectra: 16, strategies: &[16], errors: 16, timings: &[16], bubbles: 64 };
        let baselines = d::Baselines { one: Some(device()), all: None };
        let ids = ["D, Figure 11", "D.1", "D, n = 256", "D, Figures 12 to 14", "D, Figures 15, 16", "D, section 8"];
        let sheets = made(&ids, |emit| d::tables(&device(), &baselines, &sizes, emit));
        // Counts are within their variation by the first guess, and deflation helps.
        for row in &sheets[0].rows {
            let number = |n: usize| match row.cells[n] {
                sheet::Cell::Number(value, _) => value,
                _ => f64::NAN,
            };
            assert!(number(5).abs() <= 12.0, "{}: {} %", row.name, number(5));
            assert!(number(3) < number(1), "{}", row.name);
        }
    }

    #[test]
    fn every_table_of_paper_e_is_made() {
        let sizes = e::Sizes { substitution: &[[9, 8, 7]], runs: &[("M21", [9, 8, 7])], counts: 8 };
        made(&["E.1", "E, iterations", "E.2", "E.3"], |emit| e::tables(&device(), &sizes, emit));
    }

    #[test]
    fn every_table_of_paper_b_is_made() {
        let sizes = b::Sizes { solves: &[8, 16], nz: 8, robustness: (16, 4), courants: 2 };
        let sheets = made(&["B.1", "B.3", "B.4", "B.5", "B, Figure 2"], |emit| b::tables(&device(), &sizes, emit));
        assert_eq!(sheets[1].rows.len(), 6);
    }
}
