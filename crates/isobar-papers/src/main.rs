//! `isobar-papers`: the tables of the papers behind isobar's methods with this machine's numbers beside the printed ones, and a model of
//! many ranks. It shares the library of the `isobar` command.
//!
//! * `args` the command line,
//! * `reproduce`, `model` the subcommands.

mod args;
mod model;
mod reproduce;

use std::process::ExitCode;

use isobar_cli::failure::Result;

use args::{Cli, Command};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    ExitCode::from(isobar_cli::start(&arguments, run))
}

fn run(cli: Cli) -> Result<u8> {
    isobar_cli::ranks::refuse()?;
    match cli.command {
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Model(args) => model::run(&args),
    }
}
