//! The command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use isobar::Precision;
use isobar_cli::args::DeviceArgs;

use crate::model::equation::Division;

const EXAMPLES: &str = "\
Examples:
  isobar-papers reproduce b --size small
  isobar-papers reproduce c --size full --device cuda --plot c.png
  isobar-papers model --ranks 16384";

/// The tables of the papers behind isobar's methods, and a model of many ranks.
#[derive(Debug, Parser)]
#[command(name = "isobar-papers", version, about, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    /// The subcommand with its options.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print a paper's tables with this machine's numbers beside the printed ones
    Reproduce(ReproduceArgs),
    /// Predict iterations on many ranks from bandwidths and latencies, beside measurements of small runs
    Model(ModelArgs),
}

/// `isobar-papers reproduce`
#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// a: Müller et al., matrix-free PCG; b: Müller, Scheichl, Vainikko, petascale multigrid; c: Islam, Wang, hierarchical
    /// Jacobi; d: Gupta, van Gijzen, Vuik, two-level PCG; e: Gao, Li, He, MIC-PCG for the heat equation
    #[arg(value_name = "PAPER")]
    pub(crate) paper: String,

    /// The size of the problems: small takes a minute on two cores, full is the papers' own size where memory and time allow
    #[arg(long, value_enum, default_value_t = Size::Small)]
    pub(crate) size: Size,

    /// The device and its threads.
    #[command(flatten)]
    pub(crate) device: DeviceArgs,

    /// Write the numbers as JSON; - writes them to standard output, and the rest to standard error
    #[arg(long, value_name = "FILE.json")]
    pub(crate) report: Option<PathBuf>,

    /// Draw the paper's figures (paper c)
    #[arg(long, value_name = "FILE.png")]
    pub(crate) plot: Option<PathBuf>,

    /// Print nothing but errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// The size of the problems of `reproduce`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Size {
    /// Less than a minute on two cores.
    Small,
    /// Up to the papers' own sizes.
    Full,
}

/// `isobar-papers model`
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// Number of ranks, each with one device
    #[arg(long, value_name = "N")]
    pub(crate) ranks: NonZeroUsize,

    /// A rank's part of the grid
    #[arg(long, value_name = "NX,NY,NZ", default_value = "256,256,128")]
    pub(crate) grid: Extents,

    /// Unknowns of the whole grid instead, divided among the ranks; layers are those of --grid
    #[arg(long, value_name = "COUNT")]
    pub(crate) unknowns: Option<f64>,

    /// The division of the grid
    #[arg(long, value_enum, default_value_t)]
    pub(crate) parts: Division,

    /// Bandwidth of a rank's memory for a plain copy [default: measured]
    #[arg(long, value_name = "GB/s", value_parser = positive)]
    pub(crate) bandwidth: Option<f64>,

    /// Percentages of that bandwidth reached by conjugate gradients and by multigrid on one rank [default: measured]
    #[arg(long, value_name = "CG,MULTIGRID", value_parser = shares)]
    pub(crate) share: Option<[f64; 2]>,

    /// Bandwidth of the network for a rank, each way [default: that between two threads]
    #[arg(long, value_name = "GB/s", value_parser = positive)]
    pub(crate) network: Option<f64>,

    /// Latency of the network [default: that between two threads]
    #[arg(long, value_name = "µs", value_parser = positive)]
    pub(crate) latency: Option<f64>,

    /// Storage of numbers
    #[arg(long, value_name = "f64|f32", default_value = "f64", value_parser = unmixed)]
    pub(crate) precision: Precision,

    /// The device of a rank, and its threads.
    #[command(flatten)]
    pub(crate) device: DeviceArgs,

    /// Write the numbers as JSON; - writes them to standard output, and the rest to standard error
    #[arg(long, value_name = "FILE.json")]
    pub(crate) report: Option<PathBuf>,

    /// Print nothing but errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// `--grid`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extents {
    /// Cells in x.
    pub(crate) nx: usize,
    /// Cells in y.
    pub(crate) ny: usize,
    /// Layers.
    pub(crate) nz: usize,
}

impl FromStr for Extents {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        /// The most cells in one direction.
        const MOST: usize = 1 << 24;
        let numbers: Vec<usize> = text.split([',', 'x', '×']).map_while(|number| number.trim().parse().ok()).collect();
        match *numbers.as_slice() {
            [nx, ny, nz]
                if numbers.iter().all(|n| (1..=MOST).contains(n)) && text.split([',', 'x', '×']).count() == 3 =>
            {
                Ok(Self { nx, ny, nz })
            }
            _ => Err("use three whole numbers, 1 or more, as in 512,512,128".to_owned()),
        }
    }
}

fn positive(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0);
    value.ok_or_else(|| "use a positive number".to_owned())
}

fn shares(text: &str) -> Result<[f64; 2], String> {
    let values: Vec<f64> = text.split(',').map(positive).collect::<Result<_, _>>()?;
    <[f64; 2]>::try_from(values).map_err(|_| "use two positive numbers, as in 80,45".to_owned())
}

fn unmixed(text: &str) -> Result<Precision, String> {
    match text {
        "f64" => Ok(Precision::F64),
        "f32" => Ok(Precision::F32),
        _ => Err("use f64 or f32".to_owned()),
    }
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
    fn extents_are_three() {
        for text in ["8,6,10", "8x6x10", "8×6×10"] {
            assert_eq!(text.parse(), Ok(Extents { nx: 8, ny: 6, nz: 10 }), "{text}");
        }
        for wrong in ["", "8", "8,6", "8,6,0", "8,6,10,1", "8,6,x", "-8,6,10", "8,6,99999999999"] {
            assert!(wrong.parse::<Extents>().is_err(), "{wrong}");
        }
    }
}
