//! Why a case cannot be read or made.

use std::fmt;
use std::path::Path;

use crate::text::{printable, shorten};

/// One message for the user, complete as it is: what is at fault (key, line or file) and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

/// The result of everything that reads a case.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error with this message, its control characters written out.
    pub fn new(message: impl Into<String>) -> Self {
        Self(printable(&message.into()))
    }

    /// An error at a file: `path: message`.
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
