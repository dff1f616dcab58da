//! The command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
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
Ctrl-C ends a solve in order, with its report; a second one ends it at once.";

/// Fast matrix-free solvers for the linear systems of structured-grid PDEs.
#[derive(Debug, Parser)]
#[command(name = "isobar", version, about, after_help = EXAMPLES, max_term_width = 100)]
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
    /// Find the effective conductivity and the tortuosity of an image, such as that of a porous rock
    Effective(EffectiveArgs),
    /// Time every kernel of a case's solve, and the whole solve, against the copy bandwidth
    Bench(BenchArgs),
    /// List the devices that can solve, with their memory and measured copy bandwidth
    Devices(DevicesArgs),
    /// Write the matrix and right-hand side of a case as Matrix Market files
    Export(ExportArgs),
    /// Print what completes the command in a shell: isobar completions bash > /etc/bash_completion.d/isobar
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

/// Whatever follows a subcommand that is no longer here.
#[derive(Debug, Args)]
pub struct MovedArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<std::ffi::OsString>,
}

/// A case file and what is changed in it.
#[derive(Clone, Debug, Args)]
pub struct CaseArgs {
    /// The case file (TOML)
    #[arg(value_name = "CASE.toml")]
    pub case: PathBuf,

    /// Change a key of the case file; may be given many times, the last one counts
    ///
    /// KEY is dotted, VALUE is a TOML value or a bare word:
    /// --set grid.nx=256 --set grid.geometry=box
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// How numbers are stored during the solve; short for --set solver.precision=...
    #[arg(long, value_name = "f64|f32|mixed")]
    pub precision: Option<String>,
}

impl CaseArgs {
    /// Reads the case with its changes.
    ///
    /// # Errors
    /// Those of [`Case::load`].
    pub fn load(&self) -> isobar_case::Result<Case> {
        self.load_with_all(None)
    }

    /// Reads it with one more change, which comes from `origin`.
    ///
    /// # Errors
    /// As [`CaseArgs::load`].
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

/// Where to compute.
#[derive(Clone, Debug, Default, Args)]
pub struct DeviceArgs {
    /// Where to compute: auto, cpu, cuda (of several ranks, a GPU each), cuda:N, or several GPUs as cuda:0,1
    #[arg(long, value_name = "auto|cpu|cuda|cuda:N", default_value = "auto")]
    pub device: DeviceChoice,

    /// Threads of the CPU back end [default: one a core]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: Option<NonZeroUsize>,
}

/// `isobar solve`
#[derive(Debug, Args)]
pub struct SolveArgs {
    /// The case file with its changes.
    #[command(flatten)]
    pub case: CaseArgs,
    /// The device and its threads.
    #[command(flatten)]
    pub device: DeviceArgs,

    /// In how many parts the ranks that mpirun starts divide x and y [default: 1xN, and parts of x only where rows are too few]
    #[arg(long, value_name = "PXxPY")]
    pub parts: Option<Parts>,

    /// Write a report of the run as JSON; - writes it to standard output, and the summary to standard error
    #[arg(long, value_name = "FILE.json")]
    pub report: Option<PathBuf>,

    /// Write the solution; the ending chooses the format: .npy, .vti or .vtr (ParaView), or .zarr (xarray)
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Plot the convergence and two slices of the solution; of a heat equation its energy, the iterations of
    /// every step and the last state
    #[arg(long, value_name = "FILE.png|FILE.svg")]
    pub plot: Option<PathBuf>,

    /// Go on from a checkpoint of a heat equation (heat.checkpoint)
    #[arg(long, value_name = "FILE")]
    pub restart: Option<PathBuf>,

    /// Print nothing but errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// `isobar effective`
#[derive(Debug, Args)]
pub struct EffectiveArgs {
    /// The image: labels or conductivities in a .npy array (nz, ny, nx), or a stack of grey TIFF pages
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,

    /// Cells with this label conduct 1, all others nothing
    #[arg(long, value_name = "LABEL", conflicts_with = "values", allow_hyphen_values = true)]
    pub open: Option<i64>,

    /// What the cells of each label conduct; 0 closes them
    #[arg(long, value_name = "LABEL=VALUE,...", value_delimiter = ',', allow_hyphen_values = true)]
    pub values: Vec<LabelValue>,

    /// Along which axis of the image: x runs along rows, y across them, z through pages
    #[arg(long, value_enum, default_value = "all")]
    pub axis: AxisChoice,

    /// Stop at a residual of so much of the right-hand side; the conductivity is far more accurate
    #[arg(long, value_name = "NUMBER", default_value_t = 1e-5)]
    pub tolerance: f64,

    /// The device and its threads.
    #[command(flatten)]
    pub device: DeviceArgs,

    /// Write the numbers as JSON; - writes them to standard output, and the rest to standard error
    #[arg(long, value_name = "FILE.json")]
    pub report: Option<PathBuf>,

    /// Plot the potential along the first axis that conducts
    #[arg(long, value_name = "FILE.png|FILE.svg")]
    pub plot: Option<PathBuf>,

    /// Print nothing but errors
    #[arg(long, short)]
    pub quiet: bool,
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
    /// All of several cells.
    All,
}

impl AxisChoice {
    /// The axes of a grid that are meant; of one cell x.
    pub fn axes(self, shape: Shape) -> Vec<Axis> {
        let cells = [shape.nx, shape.ny, shape.nz];
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
    /// The coefficients of its cells.
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

/// How the grid grows with the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scaling {
    /// As many rows on each.
    Weak,
    /// The same grid on all.
    Strong,
}

/// `isobar bench`
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// The case file with its changes.
    #[command(flatten)]
    pub case: CaseArgs,
    /// The device and its threads.
    #[command(flatten)]
    pub device: DeviceArgs,

    /// Solve it on 1, 2, 4, … of the GPUs, or of the threads, instead: weak, as many rows on each, or strong, the same grid on all
    #[arg(long, value_enum)]
    pub scaling: Option<Scaling>,

    /// Write the numbers as JSON; - writes them to standard output, and the rest to standard error
    #[arg(long, value_name = "FILE.json")]
    pub report: Option<PathBuf>,

    /// Print nothing but errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// `isobar devices`
#[derive(Debug, Args)]
pub struct DevicesArgs {
    /// Threads of the CPU back end [default: one a core]
    #[arg(long, value_name = "N", value_parser = threads)]
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
    /// The subcommand; none for the command itself
    pub subcommand: Option<String>,
}

/// `--parts`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts(pub [usize; 2]);

impl FromStr for Parts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let both =
            text.split_once(['x', '×']).and_then(|(x, y)| Some([x.trim().parse().ok()?, y.trim().parse().ok()?]));
        both.filter(|parts| !parts.contains(&0)).map(Self).ok_or_else(|| {
            "use two whole numbers, 1 or more, whose product is the number of ranks, as in 2x3".to_owned()
        })
    }
}

impl std::fmt::Display for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self([x, y]) = self;
        write!(f, "{x}x{y}")
    }
}

/// `isobar export`
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The case file with its changes.
    #[command(flatten)]
    pub case: CaseArgs,

    /// Write the matrix here, in Matrix Market coordinate format; - is standard output
    #[arg(long, value_name = "A.mtx")]
    pub matrix: PathBuf,

    /// Write the right-hand side here, in Matrix Market array format; - is standard output
    #[arg(long, value_name = "b.mtx")]
    pub rhs: Option<PathBuf>,

    /// Print nothing but errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// `--device`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// CUDA when it works, the CPU otherwise.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The first CUDA device; of several ranks, one each.
    Cuda,
    /// The CUDA devices of these numbers.
    Cards(Vec<usize>),
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || {
            "use auto, cpu, cuda, cuda:N with the number of a device, as in cuda:1, or several, as in cuda:0,1"
                .to_owned()
        };
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda),
            _ => {
                let numbers = text.strip_prefix("cuda:").ok_or_else(unknown)?;
                numbers.split(',').map(str::parse).collect::<Result<_, _>>().map(Self::Cards).map_err(|_| unknown())
            }
        }
    }
}

impl std::fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda => f.write_str("cuda"),
            Self::Cards(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
                write!(f, "cuda:{}", numbers.join(","))
            }
        }
    }
}

fn threads(text: &str) -> Result<NonZeroUsize, String> {
    let most = Device::most_threads();
    text.parse::<NonZeroUsize>()
        .ok()
        .filter(|count| count.get() <= most)
        .ok_or_else(|| format!("use a whole number from 1 to {most}, such as the number of cores"))
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
    fn devices_are_parsed() {
        assert_eq!("auto".parse(), Ok(DeviceChoice::Auto));
        assert_eq!("cpu".parse(), Ok(DeviceChoice::Cpu));
        assert_eq!("cuda".parse(), Ok(DeviceChoice::Cuda));
        assert_eq!("cuda:3".parse(), Ok(DeviceChoice::Cards(vec![3])));
        let two = "cuda:1,0".parse::<DeviceChoice>().unwrap();
        assert_eq!((two.to_string().as_str(), two), ("cuda:1,0", DeviceChoice::Cards(vec![1, 0])));
        for wrong in
            ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "CPU", "cuda:0,", "cuda:0, 1", "cuda:99999999999999999999"]
        {
            assert!(wrong.parse::<DeviceChoice>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn parts_are_two() {
        assert_eq!("2x3".parse(), Ok(Parts([2, 3])));
        assert_eq!("1×16".parse::<Parts>().map(|parts| parts.to_string()), Ok("1x16".to_owned()));
        for wrong in ["", "6", "2x", "x3", "0x6", "2x3x1", "-2x3", "2,3"] {
            assert!(wrong.parse::<Parts>().is_err(), "{wrong}");
        }
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
