//! Standard output, for people.

use std::fmt;
use std::io::{self, ErrorKind, IsTerminal, Write};

use crate::failure::{Failure, Result};

/// Where the command prints. A reader that goes away (`isobar … | head -1`) silences it and changes
/// nothing else: files are still written, and the exit status stays that of the solve.
#[derive(Debug)]
pub struct Console {
    silent: bool,
    failed: Option<io::Error>,
}

impl Console {
    /// Standard output; with `quiet`, nothing.
    pub fn new(quiet: bool) -> Self {
        Self { silent: quiet, failed: None }
    }

    /// Prints a line.
    pub fn line(&mut self, line: impl fmt::Display) {
        if self.silent {
            return;
        }
        let mut out = io::stdout().lock();
        if let Err(error) = writeln!(out, "{line}").and_then(|()| out.flush()) {
            self.silent = true;
            if error.kind() != ErrorKind::BrokenPipe {
                self.failed = Some(error);
            }
        }
    }

    /// Whether nothing is printed any more.
    pub fn is_silent(&self) -> bool {
        self.silent
    }

    /// Whether both streams reach a person at a terminal, so that a moving bar makes sense.
    pub fn is_interactive(&self) -> bool {
        !self.silent && io::stdout().is_terminal() && io::stderr().is_terminal()
    }

    /// Reports, at the end, that output was lost.
    ///
    /// # Errors
    /// Standard output could not be written, for a reason other than its reader's leaving.
    pub fn finish(self) -> Result<()> {
        match self.failed {
            None => Ok(()),
            Some(error) => {
                Err(Failure::new(format!("standard output: {error}; redirect it elsewhere, or use --quiet")))
            }
        }
    }
}
