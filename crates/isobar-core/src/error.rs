//! Misuse and failure. A solve that does not converge is not an error but an [`Outcome`](crate::outcome::Outcome).

use std::fmt;

use thiserror::Error;

/// The errors before, or instead of, a solve. Every message states what was found and what would be accepted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// An option or a coefficient has an invalid value.
    #[error("{key}: {message}")]
    Invalid {
        /// The option, in the spelling of the case file (`solver.tolerance`), or the argument.
        key: String,
        /// The fault, with numbers, and the remedy.
        message: String,
    },
    /// The shapes of two arrays, or of an array and a grid, do not agree.
    #[error("{what}: found shape {found}, but {expected} is needed")]
    Shape {
        /// The offending array.
        what: String,
        /// The shape that was found.
        found: String,
        /// The shape that is needed.
        expected: String,
    },
    /// An input array holds a NaN or an infinity.
    #[error("{what} is {value} at (i, j, k) = ({i}, {j}, {k}), counted from 0; every entry must be finite")]
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
    /// This combination of method, stencil and back end does not support a valid request.
    #[error("{0}")]
    Unsupported(String),
    /// There is not enough memory, found before or while allocating.
    #[error(
        "{what} needs {needed_bytes} bytes, but only {available_bytes} can be had; use a smaller grid or a leaner method"
    )]
    OutOfMemory {
        /// The object that was being made.
        what: String,
        /// The bytes that were requested.
        needed_bytes: u64,
        /// Bytes free.
        available_bytes: u64,
    },
    /// The device, its driver or its compiler reported a failure.
    #[error("{device}: {message}")]
    Device {
        /// The device.
        device: String,
        /// The device's message, and the remedy.
        message: String,
    },
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl Error {
    /// Makes an [`Error::Invalid`]. Numbers of hundreds of digits are shortened like a [`Number`].
    pub fn invalid(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid { key: key.into(), message: shorten(&message.into()) }
    }

    /// Makes an [`Error::Shape`].
    pub fn shape(what: impl Into<String>, found: impl fmt::Display, expected: impl fmt::Display) -> Self {
        Self::Shape { what: what.into(), found: found.to_string(), expected: expected.to_string() }
    }

    /// Fails unless a condition is met.
    ///
    /// # Errors
    /// [`Error::Invalid`]
    pub fn unless<M: Into<String>>(is_met: bool, key: &str, message: impl FnOnce() -> M) -> Result<()> {
        if is_met { Ok(()) } else { Err(Self::invalid(key, message())) }
    }

    /// Says which array it is whose shape is wrong.
    #[must_use]
    pub fn of_array(self, name: &str) -> Self {
        match self {
            Self::Shape { found, expected, .. } => Self::Shape { what: name.into(), found, expected },
            other => other,
        }
    }

    /// Fails if a shape or a length differs from the one that is needed.
    ///
    /// # Errors
    /// [`Error::Shape`]
    pub fn unless_equal<T: PartialEq + fmt::Display>(what: &str, found: T, expected: T) -> Result<()> {
        if found == expected { Ok(()) } else { Err(Self::shape(what, found, expected)) }
    }
}

/// The result of any function of isobar that can be misused or can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A number for people: plain from 1e-4 to 1e6, with an exponent beyond.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number(pub f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.abs();
        if size == 0.0 || (1e-4..1e6).contains(&size) || !size.is_finite() {
            fmt::Display::fmt(&self.0, f)
        } else {
            fmt::LowerExp::fmt(&self.0, f)
        }
    }
}

/// The number of digits in a row that only a floating-point number printed in full has, no count or size.
const MANY_DIGITS: usize = 25;

/// Shortens numbers of hundreds of digits in a message like a [`Number`].
pub fn shorten(message: &str) -> String {
    let mut short = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let end = rest[start..].find(|c: char| !(c.is_ascii_digit() || c == '.')).map_or(rest.len(), |n| start + n);
        // A full stop at the end of a sentence is no part of the number.
        let digits = rest[start..end].trim_end_matches('.');
        short.push_str(&rest[..start]);
        match digits.parse() {
            Ok(value) if digits.len() > MANY_DIGITS => short.push_str(&Number(value).to_string()),
            _ => short.push_str(digits),
        }
        rest = &rest[start + digits.len()..];
    }
    short + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        for (value, text) in [
            (0.0, "0"),
            (-1.5, "-1.5"),
            (1e-4, "0.0001"),
            (123_456.0, "123456"),
            (1e6, "1e6"),
            (1e308, "1e308"),
            (-2.5e-7, "-2.5e-7"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(Number(value).to_string(), text);
        }
        assert_eq!(format!("{:.1}, {:.1}", Number(9.04), Number(6.5513e20)), "9.0, 6.6e20");
    }

    #[test]
    fn digits_by_the_hundred_are_shortened() {
        assert_eq!(
            shorten(&format!("{} is not between 0 and 1; use 1e-5.", 1e308)),
            "1e308 is not between 0 and 1; use 1e-5."
        );
        assert_eq!(shorten(&format!("radius {}, {}", -1e-300, f64::MAX)), "radius -1e-300, 1.7976931348623157e308");
        let plain = "line 3: 18446744073709551616 cells of 0.30000000000000004 and (4, 8, 10) are 2.0.1 é";
        assert_eq!(shorten(plain), plain);
        assert_eq!(shorten(&format!("{}.", 1e300)), "1e300.");
        assert_eq!(shorten(&"1.".repeat(40)), "1.".repeat(40));
        let error = Error::invalid("solver.tolerance", format!("{} is out of range", f64::MIN_POSITIVE));
        assert_eq!(error.to_string(), "solver.tolerance: 2.2250738585072014e-308 is out of range");
    }
}
