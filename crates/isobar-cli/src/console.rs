//! What people read: on standard output, or on standard error where a result goes to standard output.

use std::fmt;
use std::io::{self, ErrorKind, IsTerminal, Write};

use isobar_case::text::printable;

use crate::failure::{Failure, Result};

/// Where the command prints. A reader that goes away (`isobar … | head -1`) silences it and changes
/// nothing else: files are still written, and the exit status stays that of the solve.
#[derive(Debug)]
pub struct Console {
    stream: Stream,
    silent: bool,
    failed: Option<io::Error>,
}

/// One of the two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

impl Console {
    /// Prints on a stream; with `quiet`, nothing.
    pub fn new(stream: Stream, quiet: bool) -> Self {
        Self { stream, silent: quiet, failed: None }
    }

    /// Prints a line.
    pub fn line(&mut self, line: impl fmt::Display) {
        if self.silent {
            return;
        }
        // Names of files are part of it, and may hold anything.
        let line = printable(&line.to_string());
        let printed = match self.stream {
            Stream::Output => {
                let mut out = io::stdout().lock();
                writeln!(out, "{line}").and_then(|()| out.flush())
            }
            Stream::Error => writeln!(io::stderr(), "{line}"),
        };
        if let Err(error) = printed {
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

    /// Whether all that is printed reaches a person at a terminal, so that a moving bar makes sense.
    pub fn is_interactive(&self) -> bool {
        !self.silent && io::stderr().is_terminal() && (self.stream == Stream::Error || io::stdout().is_terminal())
    }

    /// Reports, at the end, that output was lost.
    ///
    /// # Errors
    /// The stream could not be written, for a reason other than its reader's leaving.
    pub fn finish(self) -> Result<()> {
        let stream = match self.stream {
            Stream::Output => "output",
            Stream::Error => "error",
        };
        match self.failed {
            None => Ok(()),
            Some(error) => {
                Err(Failure::new(format!("standard {stream}: {error}; redirect it elsewhere, or use --quiet")))
            }
        }
    }
}
