//! Solver options as text, for callers without a case file.

use std::fmt::Write;

use isobar::options::SolverOptions;
use serde_json::Value;

use crate::case::read_options;
use crate::keys::keys;
use crate::{Document, Error, Result};

/// Reads the keys of `[solver]` except `guess`, as TOML (with or without the section's header) or as a JSON object. Options left
/// open are chosen for the matrix.
///
/// # Errors
/// Text that is neither; an unknown key or an invalid value, showing its position.
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
    let mut document = Document::parse("options", text, keys)?;
    document.put_below("solver");
    read_options(&document, &[])
}

/// Converts the members of a JSON object to lines of TOML.
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

/// Writes a value; members that are null are omitted.
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
        // Numbers, booleans and strings are written the same in both, except DEL, which TOML escapes.
        plain => text.push_str(&plain.to_string().replace('\u{7f}', "\\u007f")),
    }
}
