//! `isobar completions`

use std::io::{self, ErrorKind, Write};

use clap::CommandFactory;

use crate::SUCCESS;
use crate::args::{Cli, CompletionsArgs};
use crate::failure::{Failure, Result};

/// Prints a script that has a shell complete the command.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(args: &CompletionsArgs) -> Result<u8> {
    // Into memory first, as a stream that fails would be a panic.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "isobar", &mut script);
    let mut out = io::stdout().lock();
    match out.write_all(&script).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("standard output: {error}; redirect it elsewhere")))
        }
        _ => Ok(SUCCESS),
    }
}
