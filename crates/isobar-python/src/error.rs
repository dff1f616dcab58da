//! Exceptions.

use isobar::{Error, Outcome};
use isobar_case::text::{plural, with_devices};
use pyo3::exceptions::{PyMemoryError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// Converts an error of the library to an exception.
pub(crate) fn raise(error: Error) -> PyErr {
    let is = match error {
        Error::OutOfMemory { .. } => PyMemoryError::new_err::<String>,
        Error::Device { .. } => PyRuntimeError::new_err::<String>,
        Error::Io(_) => PyOSError::new_err::<String>,
        _ => PyValueError::new_err::<String>,
    };
    is(with_arguments(&isobar_case::Error::from(error)))
}

/// Converts an error of a case to an exception.
pub(crate) fn raise_case(error: isobar_case::Error) -> PyErr {
    PyValueError::new_err(with_device(&error))
}

/// Converts an error of a problem or of options that were made from arguments.
pub(crate) fn raise_problem(error: isobar_case::Error) -> PyErr {
    PyValueError::new_err(with_arguments(&error))
}

/// Returns the message, with arguments in place of the keys of case files, and devices named as in the argument `device`.
fn with_arguments(error: &isobar_case::Error) -> String {
    of_arguments(without_place(with_device(error)))
}

/// Returns a message about options without the lines of the TOML text into which Python turned a caller's arguments.
fn without_place(text: String) -> String {
    let placed = text.strip_prefix("options:").filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let Some((_, said)) = placed.and_then(|rest| rest.split_once(": ")) else { return text };
    let is_of_text = |line: &str| line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start().starts_with('|');
    said.lines().map(str::trim).filter(|line| !is_of_text(line)).collect::<Vec<_>>().join("; ")
}

/// Returns a text with arguments in place of the keys of case files.
pub(crate) fn of_arguments(text: String) -> String {
    const ARGUMENTS: [(&str, &str); 12] = [
        ("diffusion.coefficient_y", "kappa in y"),
        ("diffusion.coefficient_z", "kappa in z"),
        ("diffusion.coefficient", "kappa"),
        ("diffusion.reaction", "reaction"),
        ("diffusion.active", "active"),
        ("diffusion.boundary", "boundary"),
        ("diffusion.sources", "sources"),
        ("diffusion.wells", "wells"),
        ("grid.spacing", "spacing"),
        ("heat.dt", "dt"),
        ("heat.end_time", "end_time"),
        ("heat.step_tolerance", "step_tolerance"),
    ];
    let message = ARGUMENTS.iter().fold(text, |message, (key, argument)| message.replace(key, argument));
    let mut pieces = message.split("solver.");
    let first = pieces.next().unwrap_or_default().to_string();
    pieces.fold(first, |message, piece| {
        let is_option = piece.starts_with(|c: char| c.is_ascii_lowercase());
        message + if is_option { "" } else { "solver." } + piece
    })
}

/// Returns the message, with Python's remedies in place of those of any language, and devices named as in the argument `device`.
fn with_device(error: &isobar_case::Error) -> String {
    const REMEDIES: [(&str, &str); 2] = [
        ("make the problem of a diffusion equation", "make the problem with isobar.Diffusion"),
        ("make a new one here", "make a new one here, or start workers with multiprocessing's \"spawn\""),
    ];
    let text = with_devices(&error.to_string(), |name| format!("device=\"{name}\""));
    REMEDIES.iter().fold(text, |text, (any, python)| text.replace(any, python))
}

/// The failure of a call that may be Python's or XLA's.
#[derive(Debug)]
pub(crate) enum Failure {
    Library(Error),
    Case(isobar_case::Error),
    NotConverged(String),
}

impl Failure {
    /// Makes the failure of a solve that did not converge.
    pub(crate) fn not_converged(what: &str, outcome: &Outcome) -> Self {
        let (stop, iterations) = (outcome.stop.to_string().replace('_', " "), plural(outcome.iterations, "iteration"));
        let advice =
            outcome.advice.as_ref().map_or_else(String::new, |advice| format!("; {}", of_arguments(advice.clone())));
        Self::NotConverged(format!(
            "{what} was not converged: {stop} after {iterations}, relative residual {}{advice}; use failure=\"nan\" to continue with \
             NaN",
            scientific(outcome.relative_residual)
        ))
    }

    /// Returns the message.
    pub(crate) fn message(self) -> String {
        match self {
            Self::Library(error) => with_arguments(&error.into()),
            Self::Case(error) => with_arguments(&error),
            Self::NotConverged(message) => message,
        }
    }

    /// Converts it to an exception.
    pub(crate) fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Library(error) => raise(error),
            Self::Case(error) => raise_problem(error),
            Self::NotConverged(message) => {
                let class = py.import("isobar._results").and_then(|module| module.getattr("NotConvergedError"));
                class.and_then(|class| class.call1((message,))).map_or_else(|error| error, PyErr::from_value)
            }
        }
    }
}

/// Formats a number as Python's `.1e` does.
fn scientific(number: f64) -> String {
    let text = format!("{number:.1e}");
    match text.split_once('e').map(|(digits, exponent)| (digits, exponent.parse::<i32>())) {
        Some((digits, Ok(exponent))) => {
            format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
        }
        _ => text.to_lowercase(),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

impl From<isobar_case::Error> for Failure {
    fn from(error: isobar_case::Error) -> Self {
        Self::Case(error)
    }
}
