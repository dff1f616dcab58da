//! Texts of error messages for users of case files.

use crate::reader::{Problem, ReadError};
use crate::text::one_line;

/// Returns the known name that the user most likely meant.
pub(crate) fn nearest<'n>(wrong: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let fold = |name: &str| name.to_lowercase().replace('_', "-");
    let wrong = fold(wrong);
    known
        .into_iter()
        .map(|name| {
            let folded = fold(name);
            let distance = strsim::damerau_levenshtein(&wrong, &folded);
            // An abbreviation (tol, iterations, multi) is a likely mistake too, though its edit distance is large.
            let part = wrong.len() >= 3 && (folded.starts_with(&wrong) || folded.ends_with(&wrong));
            (if part { 1 } else { distance }, name)
        })
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Returns the message for an unknown key of a section (the empty name is the case itself), and a help line with the
/// known keys. `keys` returns those of all sections.
pub(crate) fn unknown_key(
    section: &str,
    key: &str,
    known: &[&str],
    keys: fn() -> Vec<String>,
) -> (String, Option<String>) {
    let path = if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") };
    let place = if section.is_empty() { String::new() } else { format!(" in {}", bracketed(section)) };
    let mut message = format!("unknown key \"{}\"{place}", one_line(key));
    // A key of another section, written without its section or in the wrong one.
    let elsewhere = || keys().into_iter().find(|known| *known != path && known.rsplit('.').next() == Some(key));
    if let Some(name) = nearest(key, known.iter().copied()) {
        message.push_str(&format!("; did you mean \"{name}\"?"));
    } else if let Some(name) = elsewhere() {
        message.push_str(&format!("; did you mean {name}?"));
    }
    let help = if known.is_empty() {
        "it takes no keys".to_owned()
    } else if section.is_empty() {
        format!("sections of a case: {}", known.join(", "))
    } else {
        format!("keys of {}: {}", bracketed(section), known.join(", "))
    };
    (message, Some(help))
}

/// Formats a section as it is written in a file; an entry of a list with its index.
fn bracketed(section: &str) -> String {
    if section.ends_with(']') { section.to_owned() } else { format!("[{section}]") }
}

/// Returns the message for an unknown choice, and a help line with the known ones.
pub(crate) fn unknown_choice(path: &str, value: &str, known: &[&str]) -> (String, Option<String>) {
    let mut message = format!("{path} = \"{}\"", one_line(value));
    message.push_str(" is not a known choice");
    if let Some(name) = nearest(value, known.iter().copied()) {
        message.push_str(&format!("; did you mean \"{name}\"?"));
    }
    (message, Some(format!("available: {}", known.join(", "))))
}

/// Choices that are not a single word.
const FORMS: [(&str, &str); 1] = [(
    "solver.deflation.stripes",
    "\"half-rows\", \"bodies\", \"large-bodies\", or the numbers of blocks in x, y and z, as in { blocks = [4, 4, 1] }",
)];

/// Returns the message for a value that cannot be read, and a help line. `apart` lists keys of `section` that
/// another function reads.
pub(crate) fn read_error(
    error: &ReadError,
    section: &str,
    apart: &[&str],
    keys: fn() -> Vec<String>,
) -> (String, Option<String>) {
    let path = error.path(section);
    let found = error.place.as_ref().map_or("nothing", |place| &place.found);
    let message = match &error.problem {
        Problem::UnknownKey { key, known } => {
            let more = if path == section { apart } else { &[] };
            return unknown_key(&path, key, &[more, known].concat(), keys);
        }
        Problem::UnknownChoice { value, known } => return unknown_choice(&path, value, known),
        Problem::MissingKey(key) => format!("{} needs the key \"{key}\"", bracketed(&path)),
        Problem::Type(expected) => match too_large(expected, found) {
            Some((number, largest)) => format!("{path} = {number} is too large; the largest number is {largest}"),
            None => format!("{path} must be {}, not {found}", expected_in_words(expected, &path)),
        },
        Problem::Form(known) => {
            let forms = FORMS.iter().find(|(key, _)| *key == path).map(|(_, forms)| (*forms).to_owned());
            let forms = forms.unwrap_or_else(|| format!("one of \"{}\"", known.join("\", \"")));
            format!("{path} must be {forms}, not {found}")
        }
        Problem::Value { choice, wanted: true } => format!("{path} = {choice:?} needs a value, {{ {choice} = … }}"),
        Problem::Value { choice, wanted: false } => format!("{path}: {choice:?} takes no value; write it as a string"),
        Problem::Entries { found: 1, wanted } => format!("{path} has 1 entry; give {wanted}"),
        Problem::Entries { found, wanted } => format!("{path} has {found} entries; give {wanted}"),
        Problem::Message(message) => format!("{path}: {message}"),
    };
    (message, None)
}

/// Returns a whole number that does not fit into the expected type, with the largest one that does.
fn too_large<'f>(expected: &str, found: &'f str) -> Option<(&'f str, u64)> {
    let number = found.strip_prefix("the whole number ").filter(|number| !number.starts_with('-'))?;
    let largest = match expected {
        "u8" => u8::MAX.into(),
        "u16" => u16::MAX.into(),
        "u32" => u32::MAX.into(),
        "u64" => u64::MAX,
        "usize" => usize::MAX as u64,
        _ => return None,
    };
    Some((number, largest))
}

/// Translates serde's name of an expected type.
fn expected_in_words<'e>(expected: &'e str, path: &str) -> &'e str {
    match expected {
        "usize" if ["grid.nx", "grid.ny", "grid.nz"].contains(&path) => "a whole number, 1 or more",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a string" => "a string in quotes",
        "path string" => "a path in quotes",
        "a sequence" => "a list",
        // An entry of a list is a table in braces.
        _ if expected.starts_with("struct ") && path.ends_with(']') => "a table of keys, as in { i = 0, j = 0 }",
        _ if expected.starts_with("struct ") || expected == "a map" => "a section",
        "an array of length 2" => "a list of 2",
        "an array of length 3" => "a list of 3",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_find_their_key() {
        let keys = ["method", "tolerance", "norm", "max_iterations", "precision", "multigrid", "preconditioner"];
        for (wrong, right) in [
            ("tolerence", "tolerance"),
            ("tol", "tolerance"),
            ("max-iterations", "max_iterations"),
            ("maxiterations", "max_iterations"),
            ("iterations", "max_iterations"),
            ("Method", "method"),
            ("multi_grid", "multigrid"),
            ("preconditionner", "preconditioner"),
        ] {
            assert_eq!(nearest(wrong, keys), Some(right), "{wrong}");
        }
        assert_eq!(nearest("colour", keys), None);
        assert_eq!(nearest("", keys), None);
    }
}
