//! Misuse and failure. A solve that does not converge is not an error but an
//! [`Outcome`](crate::outcome::Outcome).

use thiserror::Error;

/// What can go wrong before, or instead of, a solve. Every message says what was found and what
/// would be accepted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// An option or a coefficient has a value that makes no sense.
    #[error("{key}: {message}")]
    Invalid {
        /// The option, in the spelling of the case file (`solver.tolerance`), or the argument.
        key: String,
        /// What is wrong with it, with numbers, and what to do.
        message: String,
    },
    /// Two things that must agree in shape do not.
    #[error("{what} has shape {found}, but {expected} is needed")]
    Shape {
        /// The offending array.
        what: String,
        /// Its shape.
        found: String,
        /// The shape that is needed.
        expected: String,
    },
    /// An input array holds a NaN or an infinity.
    #[error("{what} is {value} at (i, j, k) = ({i}, {j}, {k}); every entry must be finite")]
    NotFinite {
        /// The array.
        what: String,
        /// The entry.
        value: f64,
        /// Index in x.
        i: usize,
        /// Index in y.
        j: usize,
        /// Index in the vertical.
        k: usize,
    },
    /// Something valid that this combination of method, stencil and back end does not offer.
    #[error("{0}")]
    Unsupported(String),
    /// Not enough memory, found out before or while allocating.
    #[error(
        "{what} needs {needed_bytes} bytes, but only {available_bytes} can be had; use a smaller grid or a leaner method"
    )]
    OutOfMemory {
        /// What was being made.
        what: String,
        /// Bytes asked for.
        needed_bytes: u64,
        /// Bytes free.
        available_bytes: u64,
    },
    /// The device, its driver or its compiler reported a failure.
    #[error("{device}: {message}")]
    Device {
        /// Which device.
        device: String,
        /// What it said, and what can be done.
        message: String,
    },
    /// A matrix or array file could not be understood.
    #[error("line {line}: {message}")]
    Parse {
        /// Line in the file, from 1.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Error {
    /// An [`Error::Invalid`].
    pub fn invalid(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid { key: key.into(), message: message.into() }
    }

    /// An [`Error::Shape`].
    pub fn shape(what: impl Into<String>, found: impl Into<String>, expected: impl Into<String>) -> Self {
        Self::Shape { what: what.into(), found: found.into(), expected: expected.into() }
    }
}

/// The result of everything in isobar that can be misused or can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;
