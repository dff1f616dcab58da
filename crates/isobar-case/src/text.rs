//! How names, numbers and a user's own text read in messages and summaries.

use std::fmt::{self, Display};

/// The name of a choice as the case file has it.
pub fn name(choice: &impl serde::Serialize) -> String {
    match serde_json::to_value(choice) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}

/// A count with its noun.
pub fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// A number as people write it: plain from 1e-4 to 1e6, with an exponent beyond.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number(pub f64);

impl Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.0.abs();
        if size == 0.0 || (1e-4..1e6).contains(&size) || !size.is_finite() {
            write!(f, "{}", self.0)
        } else {
            write!(f, "{:e}", self.0)
        }
    }
}

/// More digits in a row than any count or size has: a real number that was printed in full.
const MANY_DIGITS: usize = 25;

/// A message whose numbers of hundreds of digits are written as a [`Number`] is.
pub(crate) fn shorten(message: &str) -> String {
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

/// Text with its control characters but line breaks written out, so that a file name or a value cannot command the
/// terminal that it is shown on.
pub fn printable(text: &str) -> String {
    escape(text, |c| c == '\n')
}

/// The same on one line, cut after a hundred characters.
pub(crate) fn one_line(text: &str) -> String {
    const LONGEST: usize = 100;
    let cut = text.char_indices().nth(LONGEST).map_or(text, |(at, _)| &text[..at]);
    escape(cut, |_| false) + if cut.len() < text.len() { "…" } else { "" }
}

fn escape(text: &str, allowed: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && !allowed(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    escaped
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
    }

    #[test]
    fn nothing_commands_the_terminal() {
        assert_eq!(printable("a\u{1b}[31m\r\n\u{9b}b\0é"), "a\\u{1b}[31m\\r\n\\u{9b}b\\u{0}é");
        assert_eq!(one_line("a\nb"), "a\\nb");
        assert_eq!(one_line(&"é".repeat(101)), "é".repeat(100) + "…");
        assert_eq!(one_line(&"é".repeat(100)), "é".repeat(100));
    }
}
