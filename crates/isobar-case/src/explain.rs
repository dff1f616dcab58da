//! What the deserialiser says, in the words of a user of case files.

use crate::planned;

/// Of the known names, the one a user most likely meant.
pub(crate) fn nearest<'n>(wrong: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let fold = |name: &str| name.to_lowercase().replace('_', "-");
    let wrong = fold(wrong);
    known
        .into_iter()
        .map(|name| {
            let folded = fold(name);
            let distance = strsim::damerau_levenshtein(&wrong, &folded);
            // An abbreviation (tol, iterations, multi) is a likely slip too, and far by edits.
            let part = wrong.len() >= 3 && (folded.starts_with(&wrong) || folded.ends_with(&wrong));
            (if part { 1 } else { distance }, name)
        })
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// The message for an unknown key, and a help line with what there is.
pub(crate) fn unknown_key(path: &str, known: &[&str]) -> (String, Option<String>) {
    let (section, key) = path.rsplit_once('.').map_or(("", path), |(section, key)| (section, key));
    if planned::is_section(path) {
        let there = if section.is_empty() { "sections" } else { "keys" };
        return (
            format!("[{path}] is not available in this version"),
            Some(format!("available {there}: {}", known.join(", "))),
        );
    }
    let place = if section.is_empty() { String::new() } else { format!(" in [{section}]") };
    let mut message = format!("unknown key \"{key}\"{place}");
    // A key of another section, named without it or put into the wrong one.
    let elsewhere =
        || crate::case::keys().into_iter().find(|known| known != path && known.rsplit('.').next() == Some(key));
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
        format!("keys of [{section}]: {}", known.join(", "))
    };
    (message, Some(help))
}

/// The message for a value that is none of the choices, and a help line with these.
pub(crate) fn unknown_choice(path: &str, value: &str, known: &[&str]) -> (String, Option<String>) {
    let mut message = format!("{path} = \"{value}\"");
    if planned::is_choice(path, value) {
        message.push_str(" is not available in this version");
    } else {
        message.push_str(" is not a known choice");
        if let Some(name) = nearest(value, known.iter().copied()) {
            message.push_str(&format!("; did you mean \"{name}\"?"));
        }
    }
    (message, Some(format!("available: {}", known.join(", "))))
}

/// Rewords a message of serde for the value at `path`: the message and a help line. `more` are keys
/// that are known in the same section besides those that serde lists.
pub(crate) fn serde_message(message: &str, path: &str, more: &[&str]) -> (String, Option<String>) {
    let message = message.trim_end();
    if let Some(rest) = message.strip_prefix("unknown field ") {
        let mut names = quoted(rest);
        let mut known = if names.is_empty() { Vec::new() } else { names.split_off(1) };
        known.splice(0..0, more.iter().copied());
        return unknown_key(path, &known);
    }
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        let mut names = quoted(rest);
        let known = if names.is_empty() { Vec::new() } else { names.split_off(1) };
        return unknown_choice(path, names.first().copied().unwrap_or_default(), &known);
    }
    if let Some(rest) = message.strip_prefix("missing field ") {
        let name = quoted(rest).first().copied().unwrap_or_default().to_owned();
        return (format!("[{path}] needs the key \"{name}\""), None);
    }
    if message == "wanted string or table" {
        return (format!("{path} must be one of its choices, in quotes"), None);
    }
    if message.starts_with("must be ") {
        return (format!("{path} {message}"), None);
    }
    for prefix in ["invalid type: ", "invalid value: "] {
        if let Some((found, expected)) = message.strip_prefix(prefix).and_then(|rest| rest.split_once(", expected ")) {
            return (format!("{path} must be {}, not {}", expected_in_words(expected), found_in_words(found)), None);
        }
    }
    if path.is_empty() { (message.to_owned(), None) } else { (format!("{path}: {message}"), None) }
}

/// The names between back-ticks, in order.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

fn expected_in_words(expected: &str) -> String {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a string" => "a string in quotes",
        "a sequence" => "a list",
        other if other.starts_with("struct ") || other == "a map" => "a section",
        other if other.starts_with("enum ") || other.starts_with("variant ") => "one of its choices, in quotes",
        other => other,
    }
    .to_owned()
}

fn found_in_words(found: &str) -> String {
    let bare = |text: &str| text.replace('`', "").trim_end_matches(" as i128").trim_end_matches(" as u128").to_owned();
    for (prefix, words) in [
        ("integer ", "the whole number "),
        ("floating point ", "the number "),
        ("boolean ", "the boolean "),
        ("string ", "the string "),
    ] {
        if let Some(value) = found.strip_prefix(prefix) {
            return format!("{words}{}", bare(value));
        }
    }
    match found {
        "map" | "unit variant" => "a section".to_owned(),
        "sequence" => "a list".to_owned(),
        other => bare(other),
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

    #[test]
    fn serde_is_put_into_words() {
        let words = |message: &str| serde_message(message, "grid.nx", &[]).0;
        assert_eq!(
            words("invalid value: integer `-5`, expected usize"),
            "grid.nx must be a whole number, 0 or more, not the whole number -5"
        );
        assert_eq!(
            words("invalid type: string \"12\", expected usize"),
            "grid.nx must be a whole number, 0 or more, not the string \"12\""
        );
        assert_eq!(words("missing field `nx`"), "[grid.nx] needs the key \"nx\"");
        assert_eq!(words("something else"), "grid.nx: something else");
    }
}
