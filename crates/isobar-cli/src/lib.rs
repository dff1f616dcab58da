//! The `isobar` command as a library, for tests and for `isobar-papers`.
//!
//! | module | purpose |
//! |---|---|
//! | [`args`] | the command line |
//! | [`commands`] | the subcommands, one module each |
//! | [`device`] | the device to compute on |
//! | [`run`] | a case's solve from start to end |
//! | [`summary`], [`table`], [`progress`], [`console`] | text output |
//! | [`plot`] | convergence and two slices as one picture; curves |
//! | [`files`] | checks of all output files before the computation |
//! | [`interrupt`] | signals |
//! | [`ranks`] | running as one of several processes |
//! | [`failure`] | failures, with exit status 1 |

pub mod args;
pub mod commands;
pub mod compiling;
pub mod console;
pub mod device;
pub mod failure;
pub mod files;
pub mod interrupt;
pub mod plot;
pub mod progress;
pub mod ranks;
pub mod run;
pub mod summary;
pub mod table;

use std::ffi::OsString;
use std::io::Write;
use std::panic;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;
use isobar_case::text::printable;

use args::{Cli, Command};

// The names that most files of this crate use.
pub(crate) use args::SolveArgs;
pub(crate) use console::{Console, Stream};
pub(crate) use failure::{Failure, Result};
pub(crate) use summary::Time;
pub(crate) use table::Table;

/// Exit status if the solve converged, or any other command succeeded.
pub const SUCCESS: u8 = 0;
/// Exit status for all other failures.
const FAILURE: u8 = 1;
/// Exit status if the solve stopped without converging.
const NOT_CONVERGED: u8 = 2;
/// Exit status after a signal.
const INTERRUPTED: u8 = 130;

/// Runs the command with the arguments of the process.
pub fn main() -> ExitCode {
    ExitCode::from(main_with(std::env::args_os().collect()))
}

/// Runs the command with these arguments, the first of which is its name, and returns the exit status. It changes process-wide
/// settings: see [`start`].
pub fn main_with(arguments: Vec<OsString>) -> u8 {
    start(&arguments, run)
}

/// Parses the arguments of a command, the first of which is its name, and runs it; returns the exit status. Signal handlers, the allocator
/// and the panic hook are set for the process.
pub fn start<C: Parser>(arguments: &[OsString], run: fn(C) -> Result<u8>) -> u8 {
    return_memory_at_once();
    report_panics_once();
    interrupt::listen();
    let status = panic::catch_unwind(|| match C::try_parse_from(arguments) {
        Ok(cli) => run(cli).unwrap_or_else(|failure| {
            interrupt::stay_if_ending();
            if !ranks::is_silent() {
                complain(&format!("error: {failure}"));
            }
            ranks::let_rank_0_speak();
            FAILURE
        }),
        Err(message) if ranks::is_silent() => {
            if message.use_stderr() {
                ranks::let_rank_0_speak();
                FAILURE
            } else {
                SUCCESS
            }
        }
        // clap's exit status for misuse, 2, has another meaning here.
        Err(message) => {
            if !message.use_stderr() {
                let _reader_gone = message.print();
                return SUCCESS;
            }
            // clap prints arguments unescaped. Without colours, because escaping would break their codes.
            if arguments.iter().any(|argument| argument.to_string_lossy().contains(char::is_control)) {
                complain(message.render().to_string().trim_end());
            } else {
                let _reader_gone = message.print();
            }
            FAILURE
        }
    });
    interrupt::stay_if_ending();
    status.unwrap_or(FAILURE)
}

fn run(cli: Cli) -> Result<u8> {
    if !matches!(cli.command, Command::Solve(_)) {
        ranks::refuse()?;
    }
    match cli.command {
        Command::Solve(args) => commands::solve::run(&args),
        Command::Effective(args) => commands::effective::run(&args),
        Command::Bench(args) => commands::bench::run(&args),
        Command::Devices(args) => commands::devices::run(&args),
        Command::Export(args) => commands::export::run(&args),
        Command::Completions(args) => commands::completions::run(&args),
        Command::Man(args) => commands::completions::run_man(&args),
        Command::Reproduce(_) => Err(moved("reproduce a")),
        Command::Model(_) => Err(moved("model --ranks 64")),
    }
}

/// Tells where a subcommand has moved.
fn moved(example: &str) -> Failure {
    let name = example.split(' ').next().unwrap_or(example);
    Failure::new(format!(
        "{name}: moved to isobar-papers; in a clone of isobar: cargo run --release -p isobar-papers -- {example}"
    ))
}

/// Makes the allocator return large arrays to the system when they are freed. By default it keeps tens of MiB.
fn return_memory_at_once() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        /// Arrays of at least this size get pages of their own. B
        const LARGE: libc::c_int = 256 << 10;
        // SAFETY: it only affects later allocations; no other thread runs yet.
        let _ignored_where_unknown = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
    }
}

/// Turns a panic on any thread into one error message.
fn report_panics_once() {
    static REPORTED: AtomicBool = AtomicBool::new(false);
    panic::set_hook(Box::new(|info| {
        if REPORTED.swap(true, Ordering::SeqCst) {
            return;
        }
        let what = info.payload_as_str().unwrap_or("no message");
        let place = info.location().map(|at| format!(" ({}:{})", at.file(), at.line())).unwrap_or_default();
        complain(&format!(
            "error: internal error in isobar {}: {what}{place}; this is a defect of isobar, please report it with \
             the case file and the command line",
            env!("CARGO_PKG_VERSION")
        ));
    }));
}

/// Writes to standard error; a failure to do so is ignored.
fn complain(message: &str) {
    let _gone = writeln!(std::io::stderr(), "{}", printable(message));
}
