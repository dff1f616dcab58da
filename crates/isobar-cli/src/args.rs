//! The command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use isobar::internals::DeviceName;
use isobar::stencil::Axis;
use isobar::{Device, Shape};
use isobar_case::{Case, Override};

const EXAMPLES: &str = "\
Examples:
  isobar solve cases/panel.toml
  isobar solve cases/panel.toml --set grid.nx=256 --set grid.ny=256 --precision mixed
  isobar solve cases/box.toml --report run.json --output pressure.vti --plot run.png
  isobar solve cases/heat.toml --output heat.zarr --plot heat.png
  isobar effective rock.tif --open 255 --report rock.json
  isobar bench cases/panel.toml --threads 8

Exit status: 0 converged; 2 stopped without converging; 130 interrupted; 1 anything else.
Ctrl-C stops a solve and still writes its report; a second Ctrl-C ends it at once.";

/// The version and the contents of this build, for reports of problems.
const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\nDevices:   processors, with the SIMD instructions that are found; NVIDIA GPUs, kernels compiled at run time",
    "\nProcesses: MPI, found at run time",
    "\nFiles:     .npy, .tif, .vti, .vtr, .zarr; pictures as .png, .svg",
);

/// Fast matrix-free solvers for the linear systems of structured-grid PDEs.
#[derive(Debug, Parser)]
#[command(name = "isobar", version, long_version = LONG_VERSION, about, after_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    /// The subcommand with its options.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Solve the problem of a case file
    Solve(SolveArgs),
    /// Compute the effective conductivity and the tortuosity factor of an image, such as a scan of a porous rock
    Effective(EffectiveArgs),
    /// Time every step of a case's solve, and the whole solve, and compare with the copy bandwidth
    Bench(BenchArgs),
    /// List the devices with their memory and measured copy bandwidth, and the libraries found
    Devices(DevicesArgs),
    /// Write the matrix and right-hand side of a case as Matrix Market files
    Export(ExportArgs),
    /// Print a script for shell completion: isobar completions bash > /etc/bash_completion.d/isobar
    Completions(CompletionsArgs),
    /// Print a page of the manual: isobar man solve > isobar-solve.1 && man ./isobar-solve.1
    Man(ManArgs),
    /// Moved to isobar-papers
    #[command(hide = true, disable_help_flag = true)]
    Reproduce(MovedArgs),
    /// Moved to isobar-papers
    #[command(hide = true, disable_help_flag = true)]
    Model(MovedArgs),
}

/// The arguments of a subcommand that was moved.
#[derive(Debug, Args)]
pub struct MovedArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<std::ffi::OsString>,
}

/// A case file with overrides.
#[derive(Clone, Debug, Args)]
pub struct CaseArgs {
    /// The case file (TOML); all keys are in docs/site/case-file.md, examples in cases/
    #[arg(value_name = "CASE.toml")]
    pub case: PathBuf,

    /// Override a key of the case file; may be repeated, the last one for a key is used
    ///
    /// KEY is dotted, VALUE is a TOML value or an unquoted word:
    /// --set grid.nx=256 --set grid.geometry=box
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Precision of stored numbers during the solve; short for --set solver.precision=... [default: the case's, else f64]
    #[arg(long, value_name = "f64|f32|mixed")]
    pub precision: Option<String>,
}

impl CaseArgs {
    /// Reads the case with its overrides.
    pub fn load(&self) -> isobar_case::Result<Case> {
        self.load_with_all(None)
    }

    /// Reads the case with one more override; messages about it name `origin`.
    pub fn load_with(&self, change: &str, origin: &str) -> isobar_case::Result<Case> {
        self.load_with_all(Some(Override::new(change, origin)))
    }

    fn load_with_all(&self, last: Option<Override>) -> isobar_case::Result<Case> {
        let sets = self.set.iter().map(|set| Override::new(set, format!("--set {set}")));
        let precision = self.precision.iter().map(|precision| {
            Override::new(format!("solver.precision={precision}"), format!("--precision {precision}"))
        });
        Case::load(&self.case, &sets.chain(precision).chain(last).collect::<Vec<_>>())
    }
}

/// The device to compute on.
#[derive(Clone, Debug, Default, Args)]
pub struct DeviceArgs {
    /// Device: auto, cpu, cuda (under mpirun one GPU per rank), cuda:N, or several GPUs as cuda:0,1
    #[arg(long, value_name = "auto|cpu|cuda|cuda:N", default_value = "auto")]
    pub device: DeviceName,

    /// Threads of the CPU back end [default: one per core]
    #[arg(long, value_name = "N", value_parser = threads, allow_negative_numbers = true)]
    pub threads: Option<NonZeroUsize>,
}

/// `isobar solve`
#[derive(Debug, Args)]
pub struct SolveArgs {
    /// The case file with its overrides.
    #[command(flatten)]
    pub case: CaseArgs,
    /// The device and its threads.
    #[command(flatten)]
    pub device: DeviceArgs,

    /// Write a report of the run as JSON; - writes it to standard output, and the summary to standard error
    #[arg(long, value_name = "FILE.json")]
    pub report: Option<PathBuf>,

    /// Write the solution; the ending selects the format: .npy, .vti or .vtr (ParaView), or .zarr (xarray)
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Plot the convergence and two slices of the solution; for a heat equation its energy, the iterations of
    /// every step and the last state
    #[arg(long, value_name = "FILE.png|FILE.svg")]
    pub plot: Option<PathBuf>,

    /// Continue from a checkpoint of a heat equation (heat.checkpoint)
    #[arg(long, value_name = "FILE")]
    pub restart: Option<PathBuf>,

    /// Print only errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// `isobar effective`
#[derive(Debug, Args)]
pub struct EffectiveArgs {
    /// The image, a .npy array (nz, ny, nx) or a stack of grey TIFF pages: labels, with --open or --values, or conductivities without
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,

    /// Cells with this label have conductivity 1, all others 0
    #[arg(long, value_name = "LABEL", conflicts_with = "values", value_parser = label, allow_hyphen_values = true)]
    pub open: Option<i64>,

    /// Conductivity of each label's cells; 0 makes them impermeable
    #[arg(long, value_name = "LABEL=VALUE,...", value_delimiter = ',', allow_hyphen_values = true)]
    pub values: Vec<LabelValue>,

    /// Axis of the image: x along a row of pixels, y from row to row, z from page to page
    #[arg(long, value_enum, default_value = "all")]
    pub axis: AxisChoice,

    /// Widths of cells, in the order of the array: z, y, x, or y, x of one page [default: cells are cubes]
    #[arg(long, value_name = "DZ,DY,DX", value_delimiter = ',', value_parser = width)]
    pub spacing: Vec<f64>,

    /// Tolerance for the relative residual and for the estimated relative error of the conductivity (the latter is usually much smaller)
    #[arg(long, value_name = "NUMBER", default_value = "1e-5")]
    pub tolerance: f64,

    /// The device and its threads.
    #[command(flatten)]
    pub device: DeviceArgs,

    /// Write the numbers as JSON; - writes them to standard output, and the summary to standard error
    #[arg(long, value_name = "FILE.json")]
    pub report: Option<PathBuf>,

    /// Plot the potential along the first axis that conducts, with the first row of the image at the bottom
    #[arg(long, value_name = "FILE.png|FILE.svg")]
    pub plot: Option<PathBuf>,

    /// Print only errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// Parses a width of cells.
fn width(text: &str) -> Result<f64, String> {
    let width = text.trim().parse().ok().filter(|width: &f64| width.is_finite() && *width > 0.0);
    width.ok_or_else(|| "use positive numbers, as in 2.5,1,1".to_owned())
}

/// `--axis`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AxisChoice {
    /// Along rows.
    X,
    /// Across rows.
    Y,
    /// Through pages.
    Z,
    /// All axes with more than one cell.
    All,
}

impl AxisChoice {
    /// Returns the selected axes of a grid; x for a grid of one cell.
    pub fn axes(self, shape: Shape) -> Vec<Axis> {
        let cells = shape.extents();
        match self {
            Self::X => vec![Axis::X],
            Self::Y => vec![Axis::Y],
            Self::Z => vec![Axis::Z],
            Self::All if shape.cells() == 1 => vec![Axis::X],
            Self::All => Axis::ALL.into_iter().filter(|&axis| cells[axis as usize] > 1).collect(),
        }
    }
}

/// One entry of `--values`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LabelValue {
    /// The label.
    pub label: i64,
    /// The conductivity of its cells.
    pub value: f64,
}

impl FromStr for LabelValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pair = text.split_once('=').and_then(|(label, value)| {
            Some(Self { label: label.trim().parse().ok()?, value: value.trim().parse().ok()? })
        });
        pair.ok_or_else(|| "use a whole number, = and a number, as in 0=0,255=1".to_owned())
    }
}

/// How the grid grows with the number of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scaling {
    /// Keeps the number of rows on each device constant.
    Weak,
    /// Keeps the whole grid constant.
    Strong,
}

/// `isobar bench`
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// The case file with its overrides.
    #[command(flatten)]
    pub case: CaseArgs,
    /// The device and its threads.
    #[command(flatten)]
    pub device: DeviceArgs,

    /// Instead, solve on 1, 2, 4, … GPUs or threads: weak, with as many rows on each, or strong, with the same grid on all
    #[arg(long, value_enum)]
    pub scaling: Option<Scaling>,

    /// Write the numbers as JSON; - writes them to standard output, and the summary to standard error
    #[arg(long, value_name = "FILE.json")]
    pub report: Option<PathBuf>,

    /// Print only errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// `isobar devices`
#[derive(Debug, Args)]
pub struct DevicesArgs {
    /// Threads of the CPU back end [default: one per core]
    #[arg(long, value_name = "N", value_parser = threads, allow_negative_numbers = true)]
    pub threads: Option<NonZeroUsize>,
}

/// `isobar completions`
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// `isobar man`
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The subcommand; if omitted, the command itself
    pub subcommand: Option<String>,
}

/// `isobar export`
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The case file with its overrides.
    #[command(flatten)]
    pub case: CaseArgs,

    /// Write the matrix to this file, in Matrix Market coordinate format; - is standard output
    #[arg(long, value_name = "A.mtx")]
    pub matrix: PathBuf,

    /// Write the right-hand side to this file, in Matrix Market array format; - is standard output
    #[arg(long, value_name = "b.mtx")]
    pub rhs: Option<PathBuf>,

    /// Print only errors
    #[arg(long, short)]
    pub quiet: bool,
}

fn threads(text: &str) -> Result<NonZeroUsize, String> {
    let most = Device::most_threads();
    text.parse::<NonZeroUsize>()
        .ok()
        .filter(|count| count.get() <= most)
        .ok_or_else(|| format!("use a whole number from 1 to {most}, such as the number of cores"))
}

fn label(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| "use a whole number, the label of the open cells, such as 1 or 255".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn labels_have_values() {
        assert_eq!("255=1".parse(), Ok(LabelValue { label: 255, value: 1.0 }));
        assert_eq!("-3 = 2.5e-3".parse(), Ok(LabelValue { label: -3, value: 2.5e-3 }));
        for wrong in ["", "255", "=1", "a=1", "1.5=1", "1=", "1=x", "1=2=3"] {
            assert!(wrong.parse::<LabelValue>().is_err(), "{wrong}");
        }
        assert_eq!(AxisChoice::All.axes(Shape::new(4, 1, 2)), [Axis::X, Axis::Z]);
        assert_eq!(AxisChoice::All.axes(Shape::new(1, 1, 1)), [Axis::X]);
        assert_eq!(AxisChoice::Y.axes(Shape::new(4, 1, 2)), [Axis::Y]);
    }

    #[test]
    fn threads_have_bounds() {
        assert!(threads("0").is_err());
        assert!(threads("-1").is_err());
        assert!(threads("4096").is_err() || Device::most_threads() >= 4096);
        assert!(threads(&(Device::most_threads() + 1).to_string()).is_err());
        assert!(threads(&Device::most_threads().to_string()).is_ok());
        assert_eq!(threads("2").map(NonZeroUsize::get), Ok(2));
    }
}
