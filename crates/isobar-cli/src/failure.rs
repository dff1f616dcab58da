//! Why the command ends with exit status 1.

use std::fmt;
use std::path::Path;

use isobar_case::text::{printable, with_devices};

/// One message for the user, complete as it is: what is at fault (key, file or device) and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(String);

/// The result of everything the command does.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// A failure with this message, its control characters written out.
    pub fn new(message: impl Into<String>) -> Self {
        Self(printable(&message.into()))
    }

    /// A failure at a file: `path: message`.
    pub fn at(path: &Path, message: impl fmt::Display) -> Self {
        Self::new(format!("{}: {message}", path.display()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}

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

/// A message of the library with devices named as the command line does.
pub(crate) fn in_flags(error: &impl ToString) -> String {
    with_devices(&error.to_string(), |name| format!("--device {name}"))
}
