//! Failures, which end the command with exit status 1.

use std::fmt;
use std::path::Path;

use isobar_case::text::{printable, with_devices};

/// One complete message for the user: the key, file or device at fault and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(String);

/// The result of a command.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// Makes a failure with this message, with control characters escaped.
    pub fn new(message: impl Into<String>) -> Self {
        Self(printable(&message.into()))
    }

    /// Makes a failure in a file: `path: message`.
    pub fn at(path: &Path, message: impl fmt::Display) -> Self {
        Self::new(format!("{}: {message}", path.display()))
    }
}

impl From<isobar_case::Error> for Failure {
    fn from(error: isobar_case::Error) -> Self {
        Self::new(in_flags(&error))
    }
}

impl From<isobar_io::Error> for Failure {
    fn from(error: isobar_io::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<isobar::Error> for Failure {
    fn from(error: isobar::Error) -> Self {
        isobar_case::Error::from(error).into()
    }
}

/// Formats a message of the library, with devices named as on the command line.
pub(crate) fn in_flags(error: &impl ToString) -> String {
    with_devices(&error.to_string(), |name| format!("--device {name}"))
}
