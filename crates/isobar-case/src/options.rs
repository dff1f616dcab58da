//! Solver options as text, for callers that have no case file.

use std::fmt::Write;

use isobar::options::SolverOptions;
use serde_json::Value;

use crate::case::read_options;
use crate::document::Document;
use crate::error::{Error, Result};

/// Reads the keys of `[solver]`, `guess` apart, with that header or without, as TOML, or as a JSON object. What is left open,
/// the matrix chooses.
///
/// # Errors
/// Text that is neither; a key or a value that is not known, showing where.
///
/// ```
/// # use isobar_case::solver_options;
/// # fn main() -> Result<(), isobar_case::Error> {
/// let options = solver_options("method = \"cg\"\npreconditioner.kind = \"line\"")?;
/// assert_eq!(options, solver_options("{ \"method\": \"cg\", \"preconditioner\": { \"kind\": \"line\" } }")?);
/// # Ok(())
/// # }
/// ```
pub fn solver_options(text: &str) -> Result<SolverOptions> {
    let converted;
    let text = if text.trim_start().starts_with('{') {
        converted = toml_of(text)?;
        &converted
    } else {
        text
    };
    let mut document = Document::parse("options", text)?;
    document.put_below("solver");
    read_options(&document, &[])
}

/// The members of a JSON object as lines of TOML.
fn toml_of(json: &str) -> Result<String> {
    let value: Value = serde_json::from_str(json).map_err(|error| Error::new(format!("options: not JSON: {error}")))?;
    let Value::Object(members) = &value else { return Err(Error::new("options: not a JSON object")) };
    let mut text = String::new();
    for (key, value) in members.iter().filter(|(_, value)| !value.is_null()) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{} = ", Value::from(key.as_str()));
        write_toml(value, &mut text);
        text.push('\n');
    }
    Ok(text)
}

/// A value; members that are null are left out.
fn write_toml(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            text.push_str("{ ");
            let given = members.iter().filter(|(_, value)| !value.is_null());
            for (n, (key, value)) in given.enumerate() {
                let _ = write!(text, "{}{} = ", if n > 0 { ", " } else { "" }, Value::from(key.as_str()));
                write_toml(value, text);
            }
            text.push_str(" }");
        }
        Value::Array(items) => {
            text.push('[');
            for (n, value) in items.iter().enumerate() {
                text.push_str(if n > 0 { ", " } else { "" });
                write_toml(value, text);
            }
            text.push(']');
        }
        // Numbers, booleans and strings are the same in both, but for DEL, which TOML wants escaped.
        plain => text.push_str(&plain.to_string().replace('\u{7f}', "\\u007f")),
    }
}
