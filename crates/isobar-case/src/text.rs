//! Names, numbers and users' text in messages and summaries.

pub use isobar::error::Number;
pub(crate) use isobar::error::shorten;

/// Returns the name of a choice, as in the case file.
pub fn name(choice: &impl serde::Serialize) -> String {
    match serde_json::to_value(choice) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}

/// Formats a count with its noun.
pub fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Replaces a library message's suggestion of a device, `the device "cpu"`, by the caller's way to select it.
pub fn with_devices(message: &str, write: impl Fn(&str) -> String) -> String {
    const MARK: &str = "the device \"";
    let mut text = String::with_capacity(message.len());
    let mut rest = message;
    while let Some((before, (name, after))) =
        rest.split_once(MARK).and_then(|(before, after)| Some((before, after.split_once('"')?)))
    {
        text.push_str(before);
        text.push_str(&write(name));
        rest = after;
    }
    text + rest
}

/// Escapes control characters other than line breaks, so that a file name or a value cannot control the terminal.
pub fn printable(text: &str) -> String {
    escape(text, |c| c == '\n')
}

/// Escapes a text for one line and truncates it after a hundred characters.
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
    fn devices_are_named_as_the_caller_does() {
        let flag = |name: &str| format!("--device {name}");
        assert_eq!(with_devices("no driver; use the device \"cpu\"", flag), "no driver; use --device cpu");
        let two = "the device \"cuda:0\" or the device \"cpu\" does";
        assert_eq!(with_devices(two, flag), "--device cuda:0 or --device cpu does");
        for plain in ["", "the device \"", "the device is gone", "use \"cpu\""] {
            assert_eq!(with_devices(plain, flag), plain);
        }
    }

    #[test]
    fn nothing_commands_the_terminal() {
        assert_eq!(printable("a\u{1b}[31m\r\n\u{9b}b\0é"), "a\\u{1b}[31m\\r\n\\u{9b}b\\u{0}é");
        assert_eq!(one_line("a\nb"), "a\\nb");
        assert_eq!(one_line(&"é".repeat(101)), "é".repeat(100) + "…");
        assert_eq!(one_line(&"é".repeat(100)), "é".repeat(100));
    }
}
