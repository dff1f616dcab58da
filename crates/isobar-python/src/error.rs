//! Exceptions.

use isobar::Error;
use isobar_case::text::with_devices;
use pyo3::PyErr;
use pyo3::exceptions::{PyMemoryError, PyOSError, PyRuntimeError, PyValueError};

/// Converts an error of the library to an exception.
pub(crate) fn raise(error: Error) -> PyErr {
    let is = match error {
        Error::OutOfMemory { .. } => PyMemoryError::new_err::<String>,
        Error::Device { .. } => PyRuntimeError::new_err::<String>,
        Error::Io(_) => PyOSError::new_err::<String>,
        _ => PyValueError::new_err::<String>,
    };
    is(with_argument(&isobar_case::Error::from(error)))
}

/// Converts an error of a case to an exception.
pub(crate) fn raise_case(error: isobar_case::Error) -> PyErr {
    PyValueError::new_err(with_argument(&error))
}

/// Returns the message, with devices named as in the argument `device`.
fn with_argument(error: &isobar_case::Error) -> String {
    with_devices(&error.to_string(), |name| format!("device=\"{name}\""))
}
