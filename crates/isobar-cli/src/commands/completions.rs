//! `isobar completions` and `isobar man`

use std::io::{self, ErrorKind, Write};

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::{Failure, Result, SUCCESS};

/// Prints a script for shell completion.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(args: &CompletionsArgs) -> Result<u8> {
    // Into memory first, because clap panics if the stream fails.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "isobar", &mut script);
    print(&script)
}

/// Prints the manual page of the command or of a subcommand.
///
/// # Errors
/// No subcommand of that name; standard output cannot be written.
pub fn run_man(args: &ManArgs) -> Result<u8> {
    let mut all = Cli::command();
    // Fills in the full names of subcommands.
    all.build();
    let command = match &args.subcommand {
        None => all,
        Some(name) => {
            let named = |command: &&mut clap::Command| command.get_name() == name && !command.is_hide_set();
            let Some(found) = all.get_subcommands_mut().find(named) else {
                return Err(Failure::new(format!("man: there is no subcommand {name}; isobar --help lists them")));
            };
            let full = found.get_bin_name().unwrap_or(name).replace(' ', "-");
            found.clone().display_name(full)
        }
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command)
        .render(&mut page)
        .map_err(|error| Failure::new(format!("man: the page cannot be made: {error}")))?;
    print(&page)
}

/// Writes to standard output; a closed pipe is not an error.
fn print(text: &[u8]) -> Result<u8> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("standard output: {error}; redirect it elsewhere")))
        }
        _ => Ok(SUCCESS),
    }
}
