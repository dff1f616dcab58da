//! Text for people, on standard output, or on standard error if a result goes to standard output.

use std::fmt;
use std::io::{self, ErrorKind, IsTerminal, Write};

use isobar_case::text::printable;

use crate::failure::{Failure, Result};

/// The stream that the command prints on. A closed pipe (`isobar … | head -1`) silences it and changes
/// nothing else: files are still written, and the exit status is that of the solve.
#[derive(Debug)]
pub struct Console {
    stream: Stream,
    silent: bool,
    failed: Option<io::Error>,
}

/// Standard output or standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

impl Console {
    /// Prints on a stream; if `quiet`, prints nothing.
    pub fn new(stream: Stream, quiet: bool) -> Self {
        Self { stream, silent: quiet, failed: None }
    }

    /// Prints a line.
    pub fn line(&mut self, line: impl fmt::Display) {
        if self.silent {
            return;
        }
        // File names are part of it, and may contain control characters.
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

    /// Returns whether nothing is printed (any more).
    pub fn is_silent(&self) -> bool {
        self.silent
    }

    /// Returns whether the output goes to a terminal that can show a progress bar.
    pub fn is_interactive(&self) -> bool {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        !self.silent
            && !is_dumb
            && io::stderr().is_terminal()
            && (self.stream == Stream::Error || io::stdout().is_terminal())
    }

    /// Returns an error at the end if output was lost.
    ///
    /// # Errors
    /// The stream could not be written for a reason other than a closed pipe.
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
