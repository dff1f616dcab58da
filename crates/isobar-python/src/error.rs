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

/// Converts an error of a solve, whose arrays are arguments.
pub(crate) fn raise_solve(error: Error) -> PyErr {
    let name = |what: String| match what.as_str() {
        "the right-hand side" => "b".to_owned(),
        "the first guess" => "x0".to_owned(),
        _ => what,
    };
    raise(match error {
        Error::NotFinite { what, value, i, j, k } => Error::NotFinite { what: name(what), value, i, j, k },
        Error::Invalid { key, message } => Error::Invalid { key: name(key), message },
        other => other,
    })
}

/// Converts an error of a case whose text was made from the arguments of a Helmholtz problem, without lines of that text.
pub(crate) fn raise_text(error: isobar_case::Error) -> PyErr {
    const ARGUMENTS: [(&str, &str); 6] = [
        ("problem.courant", "courant"),
        ("problem.omega", "omega"),
        ("problem.lambda", "lam"),
        ("grid.geometry", "geometry"),
        ("grid.grading", "grading"),
        ("grid.", ""),
    ];
    let text = without_place(error.to_string(), "arrays");
    let text = text.strip_prefix("arrays: ").unwrap_or(&text).to_owned();
    PyValueError::new_err(ARGUMENTS.iter().fold(text, |text, (key, argument)| text.replace(key, argument)))
}

/// Returns the message, with arguments in place of the keys of case files, and devices named as in the argument `device`.
fn with_arguments(error: &isobar_case::Error) -> String {
    let text = without_sections(of_arguments(without_place(with_device(error), "options")));
    [("the mask of active cells", "active"), ("the shift", "shift")]
        .iter()
        .find_map(|(what, argument)| Some(format!("{argument}{}", text.strip_prefix(what)?)))
        .unwrap_or(text)
}

/// Returns a message about options without the sections of case files: they are keyword arguments, of which some are dictionaries.
fn without_sections(text: String) -> String {
    const WORDS: [(&str, &str); 9] = [
        ("unknown key", "unknown option"),
        (" in [solver]", ""),
        ("keys of [solver]", "options"),
        ("[multigrid]", "multigrid"),
        ("[modes]", "modes"),
        ("[jacobi]", "jacobi"),
        ("[preconditioner]", "preconditioner"),
        ("[deflation]", "deflation"),
        ("must be a section", "must be a dictionary"),
    ];
    WORDS.iter().fold(text, |text, (of_cases, here)| text.replace(of_cases, here))
}

/// Returns a message without the lines of a text of this name, into which Python turned a caller's arguments.
fn without_place(text: String, name: &str) -> String {
    let rest = text.strip_prefix(name).and_then(|rest| rest.strip_prefix(':'));
    let placed = rest.filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let Some((_, said)) = placed.and_then(|rest| rest.split_once(": ")) else { return text };
    let is_of_text = |line: &str| line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start().starts_with('|');
    let lines = said.lines().map(str::trim).filter(|line| !is_of_text(line));
    lines.collect::<Vec<_>>().join("; ").replace("?; ", "? ")
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
        ("only for diffusion problems made from arrays", "for isobar.Diffusion only"),
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
