//! Errors of reading and assembling cases.

use std::fmt;
use std::path::Path;

use crate::text::{printable, shorten};

/// One complete message for the user: the key, line or file at fault and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

/// The result of every function that reads a case.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Makes an error with this message, with control characters escaped.
    pub fn new(message: impl Into<String>) -> Self {
        Self(printable(&message.into()))
    }

    /// Makes an error in a file: `path: message`.
    pub fn at(path: &Path, message: impl fmt::Display) -> Self {
        Self::new(format!("{}: {message}", path.display()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl From<isobar::Error> for Error {
    fn from(error: isobar::Error) -> Self {
        Self::new(shorten(&error.to_string()))
    }
}
